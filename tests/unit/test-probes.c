/* What clients have weftd ask of hosts: once for all of them, beside what weft asks by itself, and not when they are gone. */
#include "errors.h"
#include "probes.h"

#define LONG (60 * (gint64)G_USEC_PER_SEC)

/* A hypervisor whose looks end when they are let go. */
typedef struct Stuck {
    WeftHypervisor base;
    GMutex mutex;
    GCond changed;
    gboolean open;
    guint calls;
    guint cancelled;
} Stuck;

static void
on_cancel(GCancellable *cancellable, gpointer data)
{
    Stuck *stuck = data;
    g_mutex_lock(&stuck->mutex);
    g_cond_broadcast(&stuck->changed);
    g_mutex_unlock(&stuck->mutex);
}

static WeftContents *
stuck_list(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error)
{
    Stuck *stuck = (Stuck *)hv;
    gulong id = g_cancellable_connect(cancellable, G_CALLBACK(on_cancel), stuck, NULL);
    g_mutex_lock(&stuck->mutex);
    stuck->calls++;
    g_cond_broadcast(&stuck->changed);
    while (!stuck->open && !g_cancellable_is_cancelled(cancellable))
        g_cond_wait(&stuck->changed, &stuck->mutex);
    stuck->cancelled += !stuck->open;
    g_mutex_unlock(&stuck->mutex);
    g_cancellable_disconnect(cancellable, id);
    return weft_contents_new();
}

static const WeftHypervisorOps ops = { .name = "stuck", .list = stuck_list };

static void
wait_calls(Stuck *stuck, guint n)
{
    g_mutex_lock(&stuck->mutex);
    while (stuck->calls < n)
        g_cond_wait(&stuck->changed, &stuck->mutex);
    g_mutex_unlock(&stuck->mutex);
}

static void
let_go(Stuck *stuck)
{
    g_mutex_lock(&stuck->mutex);
    stuck->open = TRUE;
    g_cond_broadcast(&stuck->changed);
    g_mutex_unlock(&stuck->mutex);
}

typedef struct Site {
    Stuck stuck;
    WeftJobs *jobs;
    WeftProbes *probes;
    guint told;
} Site;

static void
site_begin(Site *site, guint workers, guint per_host)
{
    *site = (Site){ .stuck.base = { &ops } };
    site->jobs = weft_jobs_new(&site->stuck.base, workers, per_host);
    site->probes = weft_probes_new(site->jobs, LONG);
}

static void
site_end(Site *site)
{
    weft_jobs_free(site->jobs);
    weft_probes_free(site->probes);
}

static void
probed(WeftJob *job, const GError *error, gpointer data)
{
    g_assert_no_error(error);
    g_assert_nonnull(job->contents);
    ((Site *)data)->told++;
}

static WeftProbe *
ask(Site *site, const char *host)
{
    return weft_probe_ask(site->probes, WEFT_STEP_LIST, &(WeftHostAddress){ host, NULL }, probed, site);
}

static void
wait_told(Site *site, guint n)
{
    while (site->told < n)
        g_main_context_iteration(NULL, TRUE);
}

static void
scanned(WeftJob *job, const GError *error)
{
    ++*(guint *)job->owner;
}

/* A look of weft's own. */
static void
scan(Site *site, const char *host, guint *done)
{
    WeftJob *job = weft_job_new(WEFT_STEP_LIST, host, NULL, NULL);
    job->deadline = LONG;
    job->owner = done;
    job->done = scanned;
    weft_jobs_submit(site->jobs, job);
}

static void
test_shared(void)
{
    Site site;
    site_begin(&site, 8, 4);
    for (guint i = 0; i < 500; i++)
        ask(&site, "n1");
    wait_calls(&site.stuck, 1);
    let_go(&site.stuck);
    wait_told(&site, 500);
    g_assert_cmpuint(site.stuck.calls, ==, 1);
    ask(&site, "n1"); /* the next one looks again */
    wait_told(&site, 501);
    g_assert_cmpuint(site.stuck.calls, ==, 2);
    site_end(&site);
}

/* Those who hang up and ask again leave what has begun alone: it is not begun once more for each of them. */
static void
test_hanging_up(void)
{
    Site site;
    site_begin(&site, 8, 4);
    WeftProbe *probe = ask(&site, "n1");
    wait_calls(&site.stuck, 1);
    for (guint i = 0; i < 500; i++) {
        weft_probe_cancel(probe);
        probe = ask(&site, "n1");
    }
    let_go(&site.stuck);
    wait_told(&site, 1);
    g_assert_cmpuint(site.stuck.calls, ==, 1);
    g_assert_cmpuint(site.stuck.cancelled, ==, 0);
    site_end(&site);
}

/* What waits for a worker of its host and is wanted by nobody any more is not begun. */
static void
test_withdrawn(void)
{
    Site site;
    guint done = 0;
    site_begin(&site, 8, 2); /* one at a host for clients */
    WeftJob *first = weft_job_new(WEFT_STEP_LIST, "n1", NULL, NULL);
    first->asked = TRUE;
    first->deadline = LONG;
    first->owner = &done;
    first->done = scanned;
    weft_jobs_submit(site.jobs, first);
    wait_calls(&site.stuck, 1);
    weft_probe_cancel(ask(&site, "n1"));
    g_assert_false(weft_jobs_withdraw(site.jobs, first));
    let_go(&site.stuck);
    while (!done)
        g_main_context_iteration(NULL, TRUE);
    ask(&site, "n2");
    wait_told(&site, 1);
    g_assert_cmpuint(site.stuck.calls, ==, 2);
    site_end(&site);
}

/* However much clients ask of hosts that hang, weft's own looks have their workers. */
static void
test_lane_of_its_own(void)
{
    Site site;
    guint done = 0;
    site_begin(&site, 4, 2);
    for (guint i = 0; i < 100; i++) {
        g_autofree char *host = g_strdup_printf("n%u", i);
        ask(&site, host);
    }
    wait_calls(&site.stuck, 2);
    scan(&site, "n1", &done);
    wait_calls(&site.stuck, 3);
    let_go(&site.stuck);
    while (!done)
        g_main_context_iteration(NULL, TRUE);
    wait_told(&site, 100);
    site_end(&site);
}

/* One who is told may hang up for others, and ask again. */
static WeftProbe *other;

static void
probed_and_cancels(WeftJob *job, const GError *error, gpointer data)
{
    weft_probe_cancel(other);
    ask(data, "n1");
}

static void
test_cancel_while_told(void)
{
    Site site;
    site_begin(&site, 4, 2);
    weft_probe_ask(site.probes, WEFT_STEP_LIST, &(WeftHostAddress){ "n1", NULL }, probed_and_cancels, &site);
    other = ask(&site, "n1");
    let_go(&site.stuck);
    wait_told(&site, 1);
    g_assert_cmpuint(site.stuck.calls, ==, 2);
    site_end(&site);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/probes/shared", test_shared);
    g_test_add_func("/probes/hanging-up", test_hanging_up);
    g_test_add_func("/probes/withdrawn", test_withdrawn);
    g_test_add_func("/probes/lane-of-its-own", test_lane_of_its_own);
    g_test_add_func("/probes/cancel-while-told", test_cancel_while_told);
    return g_test_run();
}
