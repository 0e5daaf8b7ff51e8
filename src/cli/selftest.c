/* weft doctor --selftest: which checks there are, and what is told of them. */
#include "selftest-private.h"
#include "table.h"

#include <gio/gio.h>
#include <signal.h>
#include <string.h>

/* What must be there for a check. */
enum {
    NEEDS_FUNCTIONS = 1 << 0,
    NEEDS_TWO_HOSTS = 1 << 1,
    NEEDS_FIRST = 1 << 2,
    NEEDS_SECOND = 1 << 3,
    NEEDS_ANY = 1 << 4, /* that a cluster could be made */
};

typedef struct Check {
    const char *name;
    const char *about; /* for the dry run */
    guint needs;
    WeftCheckRun run;
} Check;

/* clang-format off */
static const Check checks[] = {
    { "create",    "a cluster with a node on each host, two at least", 0, weft_check_create },
    { "device",    "from inside: each node has the device that it was given, and nobody else's", NEEDS_FUNCTIONS | NEEDS_FIRST, weft_check_device },
    { "pkeys",     "from inside: its cluster's P_Key is at index 0, and no other's is there", NEEDS_FUNCTIONS | NEEDS_FIRST, weft_check_pkeys },
    { "fabric",    "the manager's members and the ports' tables are those of the cluster", NEEDS_FUNCTIONS | NEEDS_FIRST, weft_check_fabric },
    { "shape",     "from inside: as many processors and as much memory as promised", NEEDS_FIRST, weft_check_shape },
    { "hugepages", "the hosts have as many huge pages less as the nodes were promised", NEEDS_FIRST, weft_check_hugepages },
    { "reach",     "from inside: a node reaches all others of its cluster", NEEDS_FIRST, weft_check_reach },
    { "second",    "a cluster of another tenant beside it", NEEDS_FIRST, weft_check_second },
    { "apart",     "from inside: it has nothing of the first one's, and does not reach it", NEEDS_FIRST | NEEDS_SECOND, weft_check_apart },
    { "delete",    "both are removed, and nothing of them is left", NEEDS_FIRST, weft_check_delete },
    { "swap",      "created again with tenants exchanged: nothing of the other is on their devices", NEEDS_ANY, weft_check_swap },
    { "fork",      "a node is forked and gets its device; the time of the memory's copy", NEEDS_ANY, weft_check_fork },
    { "move",      "it moves to another host while it runs: its device is pulled and plugged", NEEDS_TWO_HOSTS | NEEDS_ANY, weft_check_move },
    { "clean",     "all is removed: functions, GUIDs, partitions, pages are free", 0, weft_check_clean },
};
/* clang-format on */

static const char *const verdict_words[] = {
    [WEFT_CHECK_OK] = "ok",
    [WEFT_CHECK_FAILED] = "failed",
    [WEFT_CHECK_SKIPPED] = "skipped",
};

/* --- what is told --- */

typedef struct Report {
    WeftTable *table;
    json_t *items;
    guint counts[G_N_ELEMENTS(verdict_words)];
} Report;

static void
tell(const WeftSelftest *test, Report *report, const Check *check, const char *state, const char *found)
{
    weft_table_take(report->table, g_strdup(check->name));
    weft_table_take(report->table, g_strdup(state));
    weft_table_take(report->table, g_strdup(found));
    if (!test->cli->json)
        weft_table_flush(report->table, stdout);
}

static void
judge(const WeftSelftest *test, Report *report, const Check *check, WeftVerdict verdict, const char *why, gint64 took)
{
    g_autofree char *found = weft_cli_clean(why);
    report->counts[verdict]++;
    json_array_append_new(report->items,
                          json_pack("{s:s, s:s, s:s, s:f}", "check", check->name, "state", verdict_words[verdict], "found",
                                    found, "seconds", (double)took / G_TIME_SPAN_SECOND));
    tell(test, report, check, verdict_words[verdict], found);
}

static void
conclude(const WeftSelftest *test, Report *report)
{
    if (test->cli->json) {
        weft_cli_print_json(json_pack("{s:s, s:s, s:O}", "hosts", test->hostlist, "path", test->path, "checks", report->items));
        return;
    }
    printf("%u ok, %u failed, %u skipped\n", report->counts[WEFT_CHECK_OK], report->counts[WEFT_CHECK_FAILED],
           report->counts[WEFT_CHECK_SKIPPED]);
}

/* --- whether a check can be made --- */

static gboolean
is_unwanted(const WeftSelftest *test, const Check *check)
{
    return test->wish->skip && g_strv_contains((const char *const *)test->wish->skip, check->name);
}

/* NULL: nothing that is known beforehand is against it. */
static const char *
why_not(const WeftSelftest *test, const Check *check)
{
    if (is_unwanted(test, check))
        return "as wished (--skip)";
    if ((check->needs & NEEDS_FUNCTIONS) && !test->functions)
        return test->wish->path ? "path bridge has no devices of the hosts" : "the hosts have no virtual functions to give";
    if ((check->needs & NEEDS_TWO_HOSTS) && json_array_size(test->hosts) < 2)
        return "it takes two hosts";
    return NULL;
}

static const char *
why_not_now(const WeftSelftest *test, const Check *check)
{
    const char *why = why_not(test, check);
    if (!why && (check->needs & NEEDS_ANY) && !test->able)
        why = "no cluster could be made";
    if (!why && (check->needs & NEEDS_FIRST) && !test->parties[WEFT_FIRST].nodes)
        why = "there is no cluster to look at";
    if (!why && (check->needs & NEEDS_SECOND) && !test->parties[WEFT_SECOND].nodes)
        why = "there is no second cluster";
    return why;
}

/* --- running --- */

/* FALSE: the test ends here. A failure is no error of the test. */
static gboolean
run_check(WeftSelftest *test, Report *report, const Check *check, GError **error)
{
    g_autoptr(GError) failure = NULL;
    g_autoptr(GString) found = g_string_new(NULL);
    const char *why = why_not_now(test, check);
    gint64 start = g_get_monotonic_time();
    WeftVerdict verdict = why ? WEFT_CHECK_SKIPPED : check->run(test, found, &failure);
    if (failure)
        verdict = WEFT_CHECK_FAILED;
    if (g_error_matches(failure, G_IO_ERROR, G_IO_ERROR_CANCELLED)) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return FALSE;
    }
    judge(test, report, check, verdict, why ? why : failure ? failure->message : found->str, g_get_monotonic_time() - start);
    return TRUE;
}

/* A second Ctrl-C ends this, too. */
static gboolean
tidy(WeftSelftest *test, GError **error)
{
    weft_client_forget_interrupt();
    return weft_site_end(test, error);
}

static gboolean
run_all(WeftSelftest *test, Report *report, GError **error)
{
    GError *stopped = NULL, *left = NULL;
    gboolean begun = weft_site_begin(test, &stopped);
    for (gsize i = 0; begun && !stopped && i < G_N_ELEMENTS(checks); i++)
        run_check(test, report, &checks[i], &stopped);
    gboolean clean = tidy(test, &left);
    if (begun)
        conclude(test, report);
    test->cli->status = report->counts[WEFT_CHECK_FAILED] > 0;
    if (stopped && left)
        weft_cli_report(left);
    if (stopped)
        g_propagate_error(error, stopped);
    else if (left)
        g_propagate_error(error, g_steal_pointer(&left));
    g_clear_error(&left);
    return !stopped && clean;
}

static gboolean
run_dry(WeftSelftest *test, Report *report)
{
    const char *tenant = test->cli->tenant;
    for (gsize i = 0; i < G_N_ELEMENTS(checks); i++) {
        const char *why = why_not(test, &checks[i]);
        json_array_append_new(report->items, json_pack("{s:s, s:s, s:s}", "check", checks[i].name, "state",
                                                       why ? "skipped" : "planned", "found", why ? why : checks[i].about));
        tell(test, report, &checks[i], why ? "skipped" : "planned", why ? why : checks[i].about);
    }
    if (test->cli->json)
        conclude(test, report);
    else
        printf("on hosts %s, path %s, nodes of %s, tenant%s %s; nothing was made\n", test->hostlist, test->path,
               test->wish->memory, tenant ? "" : "s", tenant ? tenant : "selftest-a and selftest-b, which are made for it");
    return TRUE;
}

/* Names of checks that there are not are mistakes. */
static gboolean
check_skipped(const WeftSelftestWish *wish, GError **error)
{
    for (char **name = wish->skip; name && *name; name++) {
        g_autoptr(GString) known = g_string_new(NULL);
        gboolean there = FALSE;
        for (gsize i = 0; i < G_N_ELEMENTS(checks); i++) {
            there |= strcmp(checks[i].name, *name) == 0;
            g_string_append_printf(known, "%s%s", i ? ", " : "", checks[i].name);
        }
        if (!there) {
            weft_cli_set_usage(error, "--skip %s: there is no such check; there are %s", *name, known->str);
            return FALSE;
        }
    }
    return TRUE;
}

static void
as_interrupt(int number)
{
    raise(SIGINT);
}

gboolean
weft_selftest(WeftCli *cli, const WeftSelftestWish *wish, GError **error)
{
    WeftSelftest test = { .cli = cli, .wish = wish };
    Report report = { .table = weft_table_new("CHECK    |!STATE  |FOUND"), .items = json_array() };
    weft_client_catch_interrupts();
    signal(SIGTERM, as_interrupt); /* whoever ends it otherwise wants it clean, too */
    signal(SIGHUP, as_interrupt);
    gboolean ok = check_skipped(wish, error) && weft_site_choose(&test, error) &&
                  (wish->dry_run ? run_dry(&test, &report) : run_all(&test, &report, error));
    weft_site_clear(&test);
    weft_table_free(report.table);
    json_decref(report.items);
    return ok;
}
