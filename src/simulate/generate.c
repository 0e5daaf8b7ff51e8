/* Sizes are those of Lublin and Feitelson ("The workload on parallel supercomputers", 2003): a quarter are serial, the
 * logarithm of the others is even in two parts, and most are powers of two. Run times are log-normal. What users ask for is
 * their run time over an even share of it (Mu'alem and Feitelson, 2001), rounded up to what people write. Users are as busy as
 * Zipf's law has it, and submit by day. */
#include "generate.h"

#include "bounds.h"
#include "dice.h"
#include "errors.h"

#include <math.h>

#define MINUTE 60
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define SERIAL_SHARE 0.24
#define POWER_SHARE 0.75 /* of those that are not serial */
#define LOW_SHARE 0.86   /* … in the lower part of the sizes */
#define LOWEST 0.8       /* binary logarithm of the smallest */
#define UPPER_PART 2.5   /* width of the upper part */

#define RUN_MEDIAN (25.0 * MINUTE)
#define RUN_SIGMA 1.7
#define RUN_MIN 5
#define RUN_MAX (2 * DAY)
#define USED_MIN 0.05 /* of what was asked for */

#define GROUP_USERS 4

/* Of submissions, by hour of the day. */
static const double busy[24] = { 0.5, 0.4, 0.4, 0.3, 0.3, 0.3, 0.4, 0.6, 1.0, 1.5, 1.8, 1.8,
                                 1.5, 1.6, 1.8, 1.8, 1.7, 1.4, 1.1, 0.9, 0.8, 0.8, 0.7, 0.6 };

/* What people ask for, in seconds. */
static const guint walltimes[] = { 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR,    2 * HOUR, 4 * HOUR,
                                   6 * HOUR,   8 * HOUR,    12 * HOUR,   DAY,         2 * DAY, 3 * DAY,  7 * DAY };

typedef struct Generator {
    const WeftGenerateOptions *options;
    WeftDice dice;
    guint largest;
    double *users; /* share of the jobs up to each */
} Generator;

static guint
draw_processors(Generator *g)
{
    double top = log2(g->largest), middle = MAX(top - UPPER_PART, LOWEST);
    if (g->largest == 1 || weft_dice_chance(&g->dice, SERIAL_SHARE))
        return 1;
    gboolean low = weft_dice_chance(&g->dice, LOW_SHARE);
    double size = low ? weft_dice_between(&g->dice, LOWEST, middle) : weft_dice_between(&g->dice, middle, top);
    if (weft_dice_chance(&g->dice, POWER_SHARE))
        size = round(size);
    return CLAMP((guint)round(exp2(size)), 1, g->largest);
}

static gint64
draw_run(Generator *g)
{
    double run = RUN_MEDIAN * exp(RUN_SIGMA * weft_dice_normal(&g->dice));
    return (gint64)CLAMP(run, RUN_MIN, RUN_MAX);
}

static gint64
draw_walltime(Generator *g, gint64 run)
{
    double asked = (double)run / weft_dice_between(&g->dice, USED_MIN, 1);
    for (guint i = 0; i < G_N_ELEMENTS(walltimes); i++)
        if (asked <= walltimes[i])
            return walltimes[i];
    return walltimes[G_N_ELEMENTS(walltimes) - 1];
}

/* Zipf: the second is half as busy as the first, and so on. */
static double *
weigh_users(guint n)
{
    double *users = g_new(double, n), sum = 0;
    for (guint i = 0; i < n; i++)
        users[i] = sum += 1.0 / (i + 1);
    for (guint i = 0; i < n; i++)
        users[i] /= sum;
    return users;
}

static guint
draw_user(Generator *g)
{
    double at = weft_dice_unit(&g->dice);
    guint from = 0, to = g->options->users - 1;
    while (from < to) {
        guint middle = from + (to - from) / 2;
        if (g->users[middle] > at)
            to = middle;
        else
            from = middle + 1;
    }
    return from + 1;
}

static WeftLoadJob
draw_job(Generator *g)
{
    WeftLoadJob job = { .processors = draw_processors(g), .run = draw_run(g), .user = draw_user(g) };
    job.walltime = draw_walltime(g, job.run) * G_USEC_PER_SEC;
    job.run *= G_USEC_PER_SEC;
    job.group = (job.user - 1) / GROUP_USERS + 1;
    job.gpus = weft_dice_chance(&g->dice, g->options->gpu_share);
    job.preemptible = weft_dice_chance(&g->dice, g->options->preemptible_share);
    return job;
}

/* --- when --- */

/* What the first seconds weigh, by how busy their hours are. */
static double
weight_of(double seconds)
{
    double weight = 0;
    for (guint i = 0; i < G_N_ELEMENTS(busy); i++) {
        double into = fmod(seconds, DAY) / HOUR - i;
        weight += busy[i] * (floor(seconds / DAY) + CLAMP(into, 0, 1));
    }
    return weight;
}

/* The other way round. */
static double
seconds_of(double weight)
{
    double day = weight_of(DAY), rest = fmod(weight, day);
    guint hour = 0;
    while (hour < G_N_ELEMENTS(busy) - 1 && rest >= busy[hour])
        rest -= busy[hour++];
    return floor(weight / day) * DAY + (hour + MIN(rest / busy[hour], 1)) * HOUR;
}

static void
draw_submits(Generator *g, GArray *jobs, double days)
{
    double all = weight_of(days * DAY);
    for (guint i = 0; i < jobs->len; i++)
        g_array_index(jobs, WeftLoadJob, i).submit = (gint64)seconds_of(weft_dice_unit(&g->dice) * all) * G_USEC_PER_SEC;
}

/* Draws until there is enough work. Returns the core seconds. */
static double
draw_jobs(Generator *g, GArray *jobs)
{
    const WeftGenerateOptions *o = g->options;
    double enough = o->jobs ? INFINITY : o->days * DAY * o->load * o->hosts * o->cores, sum = 0;
    guint most = o->jobs ? o->jobs : WEFT_GENERATE_JOBS_MAX;
    while (jobs->len < most && sum < enough) {
        WeftLoadJob job = draw_job(g);
        sum += (double)job.run / G_USEC_PER_SEC * job.processors;
        g_array_append_val(jobs, job);
    }
    return sum;
}

WeftLoad *
weft_generate(const WeftGenerateOptions *options, GError **error)
{
    guint quarter = MAX(MIN(options->hosts, 4 * WEFT_NODES_MAX) * options->cores / 4, 1);
    g_autofree double *users = weigh_users(options->users);
    Generator g = { .options = options, .largest = options->largest ? options->largest : quarter, .users = users };
    weft_dice_init(&g.dice, options->seed);

    g_autoptr(WeftLoad) load = weft_load_new();
    double seconds = draw_jobs(&g, load->jobs);
    if (!options->jobs && load->jobs->len == WEFT_GENERATE_JOBS_MAX) {
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "more than %u jobs; ask for fewer days, less load or larger jobs",
                          WEFT_GENERATE_JOBS_MAX);
        return NULL;
    }
    draw_submits(&g, load->jobs,
                 options->days > 0 ? options->days : seconds / DAY / options->load / options->hosts / options->cores);
    weft_load_sort(load);
    for (guint i = 0; i < load->jobs->len; i++)
        g_array_index(load->jobs, WeftLoadJob, i).number = i + 1;
    load->hosts = options->hosts;
    load->processors = options->hosts * options->cores;
    return g_steal_pointer(&load);
}
