/* What is read of a node's answer to "meet", whatever a guest answers: the same as of an honest one, and no more of it. */
#include "meet-answer.h"
#include "outcasts.h"
#include "protocol.h"

#include <string.h>

#define NODES 4

static const guint8 addresses[NODES] = { 2, 0, 3, 1 }; /* of rank 1, which answers, and of the others */

typedef struct Case {
    const char *name;
    const char *output;
    const char *expected; /* digits by rank */
} Case;

static const Case cases[] = {
    { "no answer", NULL, "" },
    { "empty", "", "" },
    { "nobody", "reached 3 addresses of 3 other nodes\n", "" },
    { "honest", "port 0 active\nunreached 0 2 2 3\nno answer on the partition\n", "1021" },
    { "the last line without its end", "unreached 0 2", "101" },
    { "each as often as it has addresses", "unreached 0 0 0 0 2 2 2 2 2 3 3 3\n", "2031" },
    { "in several lines", "unreached 0\nunreached 0\nunreached 0 3\n", "2001" },
    { "itself", "unreached 1 1 0\n", "1" },
    { "no members", "unreached 4 1023 1024 65536 2\n", "001" },
    { "numbers that overflow", "unreached 4294967296 4294967298 18446744073709551616 18446744073709551618 3\n", "0001" },
    { "a very long number", "unreached 00000000000000000000000000000000000000000000000000000000000000002 0\n", "101" },
    { "what is no number ends the line", "unreached 0 x 3\nunreached 2x 3\nunreached -1\nunreached  3\nunreached", "101" },
    { "other words", "unreachable 3\n unreached 3\nport 0 unreached 3\nunreached\t3\n", "" },
};

static void
test_unreached(gconstpointer data)
{
    const Case *c = data;
    g_autoptr(GByteArray) counts = weft_meet_answer_unreached(c->output, addresses, NODES);
    g_assert_cmpuint(counts->len, ==, strlen(c->expected));
    for (guint i = 0; i < counts->len; i++)
        g_assert_cmpuint(counts->data[i], ==, (guint)g_ascii_digit_value(c->expected[i]));
}

/* As much as a node may answer, of the same text again and again. */
static char *
fill(const char *start, const char *text)
{
    GString *answer = g_string_new(start);
    while (answer->len + strlen(text) < WEFT_WINDOW)
        g_string_append(answer, text);
    return g_string_free(answer, FALSE);
}

static void
test_bounded(void)
{
    char *answers[] = { fill("", "\n"), fill("unreached", " 0"), fill("unreached", " 4 1024 4294967296"),
                        fill("", "unreached 3\n"), fill("unreached ", "9") };
    const guint lengths[] = { 0, 1, 0, 4, 0 };
    for (guint i = 0; i < G_N_ELEMENTS(answers); i++) {
        g_autoptr(GByteArray) counts = weft_meet_answer_unreached(answers[i], addresses, NODES);
        g_assert_cmpuint(counts->len, ==, lengths[i]);
        const char *rest = answers[i];
        g_assert_null(weft_meet_answer_next(&rest, WEFT_MEET_RAIL));
        g_assert_true(!rest || !*rest);
        g_free(answers[i]);
    }
}

static void
test_next(void)
{
    const char *rest = "port port 0 active\nports\nport 1 missing", *none = NULL;
    const char *line = weft_meet_answer_next(&rest, WEFT_MEET_RAIL);
    g_assert_true(g_str_has_prefix(line, "port 0 active\n"));
    g_assert_cmpstr(weft_meet_answer_next(&rest, WEFT_MEET_RAIL), ==, "1 missing");
    g_assert_null(weft_meet_answer_next(&rest, WEFT_MEET_RAIL));
    g_assert_null(weft_meet_answer_next(&none, WEFT_MEET_RAIL));
}

/* Who is moved where rank 2 is the one whom nobody reaches, and rank 1 answers this. */
static guint
plan(const char *output, gboolean *ret_outcasts)
{
    g_autoptr(GByteArray) said = weft_meet_answer_unreached(output, addresses, NODES);
    g_autoptr(GByteArray) others = weft_meet_answer_unreached("unreached 2 2 2\n", (guint8[]){ 2, 2, 3, 1 }, NODES);
    const WeftMeeting meetings[NODES] = {
        { 0, "n1", 0, FALSE, TRUE, others },
        { 1, "n2", 0, FALSE, TRUE, said },
        { 2, "n3", 0, FALSE, FALSE, NULL },
        { 3, "n4", 0, FALSE, FALSE, NULL },
    };
    return weft_plan_outcasts(meetings, NODES, ret_outcasts);
}

static void
test_plan(void)
{
    g_autofree char *loud = fill("unreached", " 2 77777777777777777777 9");
    const char *const answers[] = { "unreached 2 2 2\n", loud };
    for (guint i = 0; i < G_N_ELEMENTS(answers); i++) {
        gboolean outcasts[NODES];
        g_assert_cmpuint(plan(answers[i], outcasts), ==, 1);
        g_assert_true(outcasts[2]);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strdup_printf("/meet-answer/unreached/%s", cases[i].name);
        g_test_add_data_func(path, &cases[i], test_unreached);
    }
    g_test_add_func("/meet-answer/bounded", test_bounded);
    g_test_add_func("/meet-answer/next", test_next);
    g_test_add_func("/meet-answer/plan", test_plan);
    return g_test_run();
}
