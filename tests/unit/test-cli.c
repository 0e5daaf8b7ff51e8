/* The parts of weft that need no weftd: event stream, tables, texts. */
#include "cli.h"
#include "errors.h"
#include "matrix.h"
#include "placement.h"
#include "sse.h"
#include "table.h"
#include "target.h"

#include <glib.h>
#include <stdlib.h>

typedef struct {
    const char *input;
    const char *events; /* "id=data;" each, blanks for none */
} SseCase;

static const SseCase sse_cases[] = {
    { "id: 1\nevent: x\ndata: {}\n\n", "1={};" },
    { "id: 1\r\ndata: a\r\n\r\n", "1=a;" },
    { ":\n\n:comment\n\n", "" },
    { ":\n\ndata: a\n\n", "-=a;" },
    { "data: a\ndata: b\n\n", "-=a\nb;" },
    { "data:a\n\ndata:  b\n\n", "-=a;-= b;" },
    { "id: 1\n\ndata: a\n\n", "-=a;" },
    { "id: 1\ndata: a\n\nid: 2\ndata: b\n\n", "1=a;2=b;" },
    { "retry: 3\nid\nwhat: ever\ndata: a\n\n", "=a;" },
    { "id: 1\ndata: unfinished\n", "" },
};

static char *
drain(GQueue *events)
{
    GString *text = g_string_new(NULL);
    while (!g_queue_is_empty(events)) {
        g_autoptr(WeftSseEvent) event = g_queue_pop_head(events);
        g_string_append_printf(text, "%s=%s;", event->id ? event->id : "-", event->data);
    }
    return g_string_free(text, FALSE);
}

/* Whole, and a byte at a time: the network cuts anywhere. */
static void
test_sse(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(sse_cases); i++) {
        const SseCase *c = &sse_cases[i];
        for (gsize step = 1; step <= strlen(c->input); step += strlen(c->input) - 1) {
            g_autoptr(WeftSse) sse = weft_sse_new();
            g_autoptr(GQueue) events = g_queue_new();
            for (gsize at = 0; at < strlen(c->input); at += step)
                g_assert_true(weft_sse_feed(sse, c->input + at, MIN(step, strlen(c->input) - at), events, NULL));
            g_autofree char *got = drain(events);
            g_assert_cmpstr(got, ==, c->events);
        }
    }
}

static void
test_sse_has_a_limit(void)
{
    g_autoptr(WeftSse) sse = weft_sse_new();
    g_autoptr(GQueue) events = g_queue_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *line = g_strnfill(1 << 19, 'x');
    g_assert_true(weft_sse_feed(sse, "data: ", 6, events, NULL));
    g_assert_true(weft_sse_feed(sse, line, strlen(line), events, NULL));
    g_assert_true(weft_sse_feed(sse, "\ndata: ", 7, events, NULL));
    g_assert_false(weft_sse_feed(sse, line, strlen(line), events, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    g_assert_cmpuint(g_queue_get_length(events), ==, 0);
}

static void
test_fill(void)
{
    static const struct {
        const char *text;
        gsize indent, columns;
        const char *filled;
    } cases[] = {
        { "", 0, 10, "" },
        { "one two three", 0, 0, "one two three" },
        { "one two three", 0, 13, "one two three" },
        { "one two three", 0, 12, "one two\nthree" },
        { "one two three", 2, 9, "one two\n  three" },
        { "incomprehensible to one", 0, 5, "incomprehensible\nto\none" }, /* what does not fit anywhere stays whole */
        { "no\nremedy: none at all", 2, 16, "no\n  remedy: none\n  at all" },
        { "no\nremedy: none at all", 2, 0, "no\n  remedy: none at all" },
        { "größer als", 0, 10, "größer als" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        weft_text_fill(cases[i].text, cases[i].indent, cases[i].columns, out);
        fclose(out);
        g_assert_cmpstr(text, ==, cases[i].filled);
        free(text);
    }
}

static void
test_table(void)
{
    g_autoptr(WeftTable) table = weft_table_new("NAME|!PHASE|>READY|REASON");
    static const char *const cells[] = { "cfd", "ready", "3/3", "-", "日本", "failed", "10/128", "früh" };
    for (guint i = 0; i < G_N_ELEMENTS(cells); i++)
        weft_table_take(table, g_strdup(cells[i]));
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    weft_table_print(table, out);
    fclose(out);
    g_assert_cmpstr(text, ==,
                    "NAME  PHASE    READY  REASON\n"
                    "cfd   ready      3/3  -\n"
                    "日本  failed  10/128  früh\n");
    free(text);
}

static void
test_fit(void)
{
    static const struct {
        const char *text;
        gsize columns;
        const char *fitting;
    } cases[] = {
        { "abc", 3, "abc" },    { "abcd", 3, "ab…" }, { "日本語", 6, "日本語" }, { "日本語", 5, "日本…" },
        { "日本語", 4, "日…" }, { "é", 1, "é" },      { "abc", 1, "…" },         { "abc", 0, "" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *got = weft_text_fit(cases[i].text, cases[i].columns);
        g_assert_cmpstr(got, ==, cases[i].fitting);
        g_assert_cmpuint(weft_text_width(got), <=, cases[i].columns);
    }
}

/* What a tenant wrote must not move an operator's cursor. */
static void
test_clean(void)
{
    g_autofree char *clean = weft_cli_clean("a\033[2Jb\nc\302\233d é \342\200\256f");
    g_assert_cmpstr(clean, ==, "a?[2Jb?c?d é ?f");
    g_autofree char *broken = weft_cli_clean("\xff");
    g_assert_true(g_utf8_validate(broken, -1, NULL));
    g_autofree char *none = weft_cli_clean(NULL);
    g_assert_cmpstr(none, ==, "-");
}

static void
test_paths(void)
{
    WeftCli cli = { .tenant = "a&b" };
    g_autofree char *path = weft_cli_cluster_path(&cli, "../x?y", "/nodes");
    g_assert_cmpstr(path, ==, "/v1/clusters/..%2Fx%3Fy/nodes?tenant=a%26b");
    g_autofree char *more = weft_client_query(g_strdup(path), "limit", "10");
    g_assert_cmpstr(more, ==, "/v1/clusters/..%2Fx%3Fy/nodes?tenant=a%26b&limit=10");
}

static void
test_blame(void)
{
    static const struct {
        WeftErrorCode code;
        const char *message;
        const char *told;
    } cases[] = {
        { WEFT_ERROR_INVALID, "count: must be 1 to 1024, is 0", "cluster cfd: count: must be 1 to 1024, is 0" },
        { WEFT_ERROR_NOT_FOUND, "cluster cfd: not found", "cluster cfd: not found" },
        { WEFT_ERROR_CONFLICT, "cluster cfd exists already", "cluster cfd exists already" },
        { WEFT_ERROR_UNAVAILABLE, "cannot reach weftd", "cannot reach weftd" },
        { WEFT_ERROR_UNAUTHENTICATED, "who are you?", "who are you?" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = g_error_new_literal(WEFT_ERROR, (gint)cases[i].code, cases[i].message);
        weft_cli_blame(&error, "cluster", "cfd");
        g_assert_cmpstr(error->message, ==, cases[i].told);
    }
}

typedef struct {
    const char *text;
    const char *found; /* "cluster:rank,rank," or NULL: refused */
} TargetCase;

static const TargetCase target_cases[] = {
    { "cfd", "cfd" },
    { "cfd[3]", "cfd:3," },
    { "cfd[0-2,7]", "cfd:0,1,2,7," },
    { "cfd-3", "cfd-3" },
    { "cfd[", NULL },
    { "cfd[]", NULL },
    { "cfd[0]x", NULL },
    { "cfd[3-1]", NULL },
    { "", NULL },
    { "cfd[99999999]", "cfd:99999999," },
    { "cfd[-1]", NULL },
    { "cfd[0][1]", NULL },
};

static void
test_targets(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(target_cases); i++) {
        g_autoptr(GError) error = NULL;
        g_auto(WeftTarget) target = { 0 };
        gboolean fine = weft_target_parse(target_cases[i].text, &target, &error);
        g_test_message("%s: %s", target_cases[i].text, fine ? "fine" : error->message);
        g_assert_cmpint(fine, ==, target_cases[i].found != NULL);
        if (!fine)
            continue;
        g_autoptr(GString) found = g_string_new(target.cluster);
        for (guint j = 0; target.ranks && j < target.ranks->len; j++)
            g_string_append_printf(found, "%s%u,", j ? "" : ":", g_array_index(target.ranks, guint, j));
        g_assert_cmpstr(found->str, ==, target_cases[i].found);
    }
}

/* What may be the host name of a node. */
static void
test_target_hostnames(void)
{
    static const TargetCase cases[] = {
        { "cfd-3", "cfd:3" },  { "a-b-12", "a-b:12" }, { "cfd-0", "cfd:0" }, { "cfd", NULL },
        { "cfd-", NULL },      { "-3", NULL },         { "cfd-03", NULL },   { "cfd-x", NULL },
        { "cfd-65536", NULL }, { "cfd--1", "cfd-:1" }, { "cfd-+1", NULL },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *cluster = NULL;
        guint rank = 0;
        gboolean fine = weft_target_split(cases[i].text, &cluster, &rank);
        g_autofree char *found = fine ? g_strdup_printf("%s:%u", cluster, rank) : NULL;
        g_assert_cmpstr(found, ==, cases[i].found);
    }
}

/* Here or there: as scp tells them apart. */
static void
test_target_paths(void)
{
    static const TargetCase cases[] = {
        { "cfd:x", "cfd|x" },   { "cfd[3]:/tmp/a:b", "cfd[3]|/tmp/a:b" },
        { "cfd:", "cfd|" },     { "./a:b", NULL },
        { "/tmp/cfd:x", NULL }, { "x", NULL },
        { ":x", NULL },         { "a/b:c", NULL },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *nodes = NULL;
        g_autofree char *path = NULL;
        gboolean fine = weft_target_split_path(cases[i].text, &nodes, &path);
        g_autofree char *found = fine ? g_strdup_printf("%s|%s", nodes, path) : NULL;
        g_assert_cmpstr(found, ==, cases[i].found);
    }
}

static void
test_matrix(void)
{
    static const struct {
        const char *text;
        const char *rows; /* or */
        const char *message;
    } cases[] = {
        { "0 1\n1 0\n", "[[0,1],[1,0]]", NULL },
        { "# a remark\n\n 0,\t1.5 \r\n1e3 0", "[[0,1.5],[1000,0]]", NULL },
        { "1e300 -2", "[[1e300,-2]]", NULL },
        { "", "[]", NULL },
        { " [[0, 1], [1, 0]]", "[[0,1],[1,0]]", NULL },
        { "0 1\n1 1x\n", NULL, "m: line 2: \"1x\" is no number" },
        { "inf", NULL, "m: line 1: \"inf\" is no number" },
        { "{}", NULL, "m: line 1: \"{}\" is no number" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        json_t *rows = weft_matrix_parse(cases[i].text, "m", &error);
        json_t *wanted = cases[i].rows ? json_loads(cases[i].rows, 0, NULL) : NULL;
        g_assert_cmpstr(error ? error->message : NULL, ==, cases[i].message);
        g_assert_true(rows ? json_equal(rows, wanted) : !wanted);
        json_decref(rows);
        json_decref(wanted);
    }
}

static void
test_ranges(void)
{
    static const char *const cases[][2] = {
        { "[]", "" }, { "[3]", "3" }, { "[0,1,2,3,8]", "0-3,8" }, { "[1,3,4,6,7,8]", "1,3-4,6-8" }
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        json_t *numbers = json_loads(cases[i][0], 0, NULL);
        g_autofree char *text = weft_placement_ranges(numbers);
        g_assert_cmpstr(text, ==, cases[i][1]);
        json_decref(numbers);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cli/matrix", test_matrix);
    g_test_add_func("/cli/ranges", test_ranges);
    g_test_add_func("/cli/sse", test_sse);
    g_test_add_func("/cli/sse-limit", test_sse_has_a_limit);
    g_test_add_func("/cli/table", test_table);
    g_test_add_func("/cli/fill", test_fill);
    g_test_add_func("/cli/fit", test_fit);
    g_test_add_func("/cli/clean", test_clean);
    g_test_add_func("/cli/paths", test_paths);
    g_test_add_func("/cli/blame", test_blame);
    g_test_add_func("/cli/targets", test_targets);
    g_test_add_func("/cli/targets/hostnames", test_target_hostnames);
    g_test_add_func("/cli/targets/paths", test_target_paths);
    return g_test_run();
}
