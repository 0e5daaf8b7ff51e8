#include "dice.h"
#include "errors.h"
#include "generate.h"
#include "swf.h"

#include <string.h>

/* --- traces --- */

static WeftLoad *
parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    WeftLoad *load = weft_swf_parse(text, strlen(text), &error);
    g_assert_no_error(error);
    return load;
}

static const WeftLoadJob *
job_at(const WeftLoad *load, guint i)
{
    g_assert_cmpuint(i, <, load->jobs->len);
    return &g_array_index(load->jobs, WeftLoadJob, i);
}

static void
test_swf_fields(void)
{
    g_autoptr(WeftLoad) load = parse("; Computer: none\n;MaxNodes: 64 (of 80)\n; MaxProcs:  2048\n"
                                     "; Partition: 3 GPU nodes\n;  Queue: 7 preemptible jobs\n\n"
                                     "  8 30.5 5 100 16 -1 -1 12 600 -1 1 4 5 -1 7 3 -1 -1\r\n"
                                     "7\t10 -1 50 8 3.5 -1 -1 -1 -1 0 -1 2 -1 1 1 -1 -1");
    g_assert_cmpuint(load->hosts, ==, 64);
    g_assert_cmpuint(load->processors, ==, 2048);
    g_assert_cmpuint(load->jobs->len, ==, 2);
    const WeftLoadJob *first = job_at(load, 0), *second = job_at(load, 1);
    g_assert_cmpint(first->number, ==, 7); /* by time of submission */
    g_assert_cmpint(first->submit, ==, 10 * G_USEC_PER_SEC);
    g_assert_cmpuint(first->processors, ==, 8);                /* it got so many, and what it asked for is not told */
    g_assert_cmpint(first->walltime, ==, 50 * G_USEC_PER_SEC); /* as long as it ran */
    g_assert_cmpuint(first->user, ==, 0);
    g_assert_cmpuint(first->group, ==, 2);
    g_assert_false(first->gpus || first->preemptible);
    g_assert_cmpint(second->submit, ==, 30500000);
    g_assert_cmpint(second->run, ==, 100 * G_USEC_PER_SEC);
    g_assert_cmpint(second->walltime, ==, 600 * G_USEC_PER_SEC);
    g_assert_cmpuint(second->processors, ==, 12);
    g_assert_cmpuint(second->user, ==, 4);
    g_assert_true(second->gpus && second->preemptible);
}

/* A job that was cancelled before it ran, one without a size, one without a time of submission, and two parts of one. */
static void
test_swf_left_out(void)
{
    g_autoptr(WeftLoad) load = parse("1 0 9 -1 -1 -1 -1 4 60 -1 5 1 1 1 1 1 -1 -1\n"
                                     "2 0 9 60 -1 -1 -1 0 60 -1 1 1 1 1 1 1 -1 -1\n"
                                     "3 -1 9 60 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n"
                                     "4 0 9 30 4 -1 -1 4 60 -1 2 1 1 1 1 1 -1 -1\n"
                                     "4 40 9 30 4 -1 -1 4 60 -1 3 1 1 1 1 1 -1 -1\n"
                                     "4 0 9 60 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n"
                                     "5 50 9 0 4 -1 -1 4 0 -1 1 1 1 1 1 1 -1 -1\n");
    g_assert_cmpuint(load->incomplete, ==, 3);
    g_assert_cmpuint(load->partial, ==, 2);
    g_assert_cmpuint(load->jobs->len, ==, 2);
    g_assert_cmpint(job_at(load, 1)->run, ==, 0);
    g_assert_cmpint(job_at(load, 1)->walltime, ==, G_USEC_PER_SEC); /* 0 would be without end */
}

static void
test_swf_refusals(void)
{
    static const char fine[] = "1 0 -1 1 1 -1 -1 1 1 -1 1 1 1 1 1 1 -1 -1\n";
    static const struct {
        const char *line, *message;
    } cases[] = {
        { "1 2 3", "line 2: has 3 fields; a job has 18, with -1 for what is not known, and a comment begins with ';'" },
        { "1 0 -1 1 1 -1 -1 1 1 -1 1 1 1 1 1 1 -1 -1 9", "line 2: has 19 fields; a job has 18" },
        { "1 0 -1 one 1 -1 -1 1 1 -1 1 1 1 1 1 1 -1 -1", "line 2: field 4, the run time, is \"one\"; write a number up to" },
        { "1 0 -1 1 1 -1 -1 1,5 1 -1 1 1 1 1 1 1 -1 -1", "field 8, the requested processors, is \"1,5\"" },
        { "1 0 -1 1 1 -1 -1 1.5 1 -1 1 1 1 1 1 1 -1 -1", "field 8, the requested processors, is \"1.5\"" },
        { "1 0 -1 1 1 -1 -1 100000001 1 -1 1 1 1 1 1 1 -1 -1", "is \"100000001\"; write a number up to 100000000" },
        { "1 99999999999 -1 1 1 -1 -1 1 1 -1 1 1 1 1 1 1 -1 -1", "field 2, the submit time, is \"99999999999\"" },
        { "1 0 -1 99999999999999999999 1 -1 -1 1 1 -1 1 1 1 1 1 1 -1 -1", "field 4, the run time" },
        { "1 0 -1 1 1 x -1 1 1 -1 1 1 1 1 1 1 -1 -1", "field 6, the CPU time, is \"x\"; write a number, or -1" },
        { "1 0 -1 1 1 -1 -1 1 1 -1 6 1 1 1 1 1 -1 -1", "field 11, the status, is \"6\"" },
        { "1 0 -1 . 1 -1 -1 1 1 -1 1 1 1 1 1 1 -1 -1", "field 4, the run time, is \".\"" },
        { "1 0 -1 - 1 -1 -1 1 1 -1 1 1 1 1 1 1 -1 -1", "field 4, the run time, is \"-\"" },
        { "1 0 -1 \x1b[31m 1 -1 -1 1 1 -1 1 1 1 1 1 1 -1 -1", "is \"\\x1b[31m\"" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *text = g_strconcat(fine, cases[i].line, "\n", fine, NULL);
        g_assert_null(weft_swf_parse(text, strlen(text), &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        if (!strstr(error->message, cases[i].message))
            g_error("\"%s\" says \"%s\"", cases[i].line, error->message);
    }
}

static void
test_swf_round_trip(void)
{
    g_autoptr(WeftLoad) load = parse("; MaxNodes: 4\n; MaxProcs: 16\n; Queue: 5 preemptible\n; Partition: 9 gpus\n"
                                     "1 0 3 100 -1 -1 -1 4 120 -1 1 1 1 -1 5 9 -1 -1\n"
                                     "2 0.000001 3 12.5 3 -1 -1 -1 -1 -1 0 -1 1 -1 -1 -1 -1 -1\n");
    g_autofree char *text = weft_swf_format(load, "of a test");
    g_assert_nonnull(strstr(text, "; Note: of a test\n"));
    g_autoptr(WeftLoad) again = parse(text);
    g_assert_cmpuint(again->hosts, ==, 4);
    g_assert_cmpuint(again->processors, ==, 16);
    g_assert_true(job_at(again, 0)->gpus && job_at(again, 0)->preemptible);
    g_assert_false(job_at(again, 1)->gpus || job_at(again, 1)->preemptible);
    g_assert_cmpint(job_at(again, 1)->submit, ==, 1);
    g_assert_cmpint(job_at(again, 1)->walltime, ==, 12500000);
    g_autofree char *same = weft_swf_format(again, "of a test");
    g_assert_cmpstr(same, ==, text);
}

/* --- loads that are made up --- */

/* As the authors' own code gives them. */
static void
test_dice(void)
{
    static const guint64 expected[] = { 11520, 0, 1509978240, 1215971899390074240 };
    WeftDice dice = { { 1, 2, 3, 4 } };
    for (guint i = 0; i < G_N_ELEMENTS(expected); i++)
        g_assert_cmpuint(weft_dice_next(&dice), ==, expected[i]);
    weft_dice_init(&dice, 1234567);
    g_assert_cmpuint(dice.state[0], ==, 6457827717110365317u);
    g_assert_cmpuint(dice.state[1], ==, 3203168211198807973u);
    double sum = 0, squares = 0;
    for (guint i = 0; i < 10000; i++) {
        double value = weft_dice_normal(&dice), unit = weft_dice_unit(&dice);
        sum += value;
        squares += value * value;
        g_assert_true(unit >= 0 && unit < 1);
    }
    g_assert_cmpfloat_with_epsilon(sum / 10000, 0, 0.05);
    g_assert_cmpfloat_with_epsilon(squares / 10000, 1, 0.05);
}

static const WeftGenerateOptions week = {
    .seed = 1, .days = 7, .load = 0.8, .hosts = 64, .cores = 16, .users = 10, .gpu_share = 0.25, .preemptible_share = 0.5
};

static char *
generate_text(const WeftGenerateOptions *options)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftLoad) load = weft_generate(options, &error);
    g_assert_no_error(error);
    return weft_swf_format(load, "");
}

static void
test_generate_same(void)
{
    WeftGenerateOptions other = week;
    other.seed = 2;
    g_autofree char *first = generate_text(&week), *second = generate_text(&week), *third = generate_text(&other);
    g_assert_cmpstr(first, ==, second);
    g_assert_cmpstr(first, !=, third);
}

static void
test_generate_asked_for(void)
{
    g_autoptr(WeftLoad) load = weft_generate(&week, NULL);
    guint n = load->jobs->len, gpus = 0, preemptible = 0, powers = 0, night = 0;
    double work = 0;
    g_assert_cmpuint(n, >, 500);
    for (guint i = 0; i < n; i++) {
        const WeftLoadJob *job = job_at(load, i);
        g_assert_cmpint(job->number, ==, i + 1);
        g_assert_cmpint(job->submit, >=, i ? job[-1].submit : 0);
        g_assert_cmpint(job->submit, <, 7 * G_TIME_SPAN_DAY);
        g_assert_cmpint(job->run, <=, job->walltime);
        g_assert_cmpuint(job->processors, <=, 64 * 16 / 4);
        g_assert_true(job->user >= 1 && job->user <= 10 && job->group == (job->user - 1) / 4 + 1);
        work += (double)job->processors * (double)job->run / G_USEC_PER_SEC;
        gpus += job->gpus;
        preemptible += job->preemptible;
        powers += (job->processors & (job->processors - 1)) == 0;
        night += job->submit % G_TIME_SPAN_DAY < 8 * G_TIME_SPAN_HOUR;
    }
    double asked = 0.8 * 7 * 86400 * 64 * 16;
    g_assert_true(work >= asked && work < asked * 1.2);
    g_assert_cmpfloat_with_epsilon((double)gpus / n, 0.25, 0.05);
    g_assert_cmpfloat_with_epsilon((double)preemptible / n, 0.5, 0.05);
    g_assert_cmpfloat((double)powers / n, >, 0.75);
    g_assert_cmpfloat((double)night / n, <, 0.2); /* a third of the day */
}

static void
test_generate_count(void)
{
    WeftGenerateOptions options = { .seed = 3, .jobs = 2000, .load = 0.5, .hosts = 8, .cores = 4, .users = 1 };
    g_autoptr(WeftLoad) load = weft_generate(&options, NULL);
    double work = 0;
    g_assert_cmpuint(load->jobs->len, ==, 2000);
    for (guint i = 0; i < 2000; i++)
        work += (double)job_at(load, i)->processors * (double)job_at(load, i)->run;
    double days = work / G_TIME_SPAN_DAY / 8 / 4 / 0.5;
    g_assert_cmpfloat((double)job_at(load, 1999)->submit / G_TIME_SPAN_DAY, <, days);
    g_assert_cmpfloat((double)job_at(load, 1999)->submit / G_TIME_SPAN_DAY, >, days * 0.95);
    options.load = 100;
    options.hosts = 100000;
    options.jobs = 0;
    options.days = 36600;
    options.largest = 1;
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_generate(&options, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/load/swf/fields", test_swf_fields);
    g_test_add_func("/load/swf/left-out", test_swf_left_out);
    g_test_add_func("/load/swf/refusals", test_swf_refusals);
    g_test_add_func("/load/swf/round-trip", test_swf_round_trip);
    g_test_add_func("/load/dice", test_dice);
    g_test_add_func("/load/generate/same", test_generate_same);
    g_test_add_func("/load/generate/asked-for", test_generate_asked_for);
    g_test_add_func("/load/generate/count", test_generate_count);
    return g_test_run();
}
