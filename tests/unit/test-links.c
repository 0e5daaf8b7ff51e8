/* Conversations with nodes that are shared, late, lost, dropped and idle; on the fake hypervisor and its guests. */
#include "../contract/scratch.h"
#include "errors.h"
#include "fake-hypervisor.h"
#include "links.h"

#include <string.h>
#include <unistd.h>

#define LONG (30 * (gint64)G_USEC_PER_SEC)
#define SHORT (50 * (gint64)1000)
#define IDLE (100 * (gint64)1000)

/* The fake, and how often a stream was opened. */
typedef struct Counting {
    WeftHypervisor base;
    WeftHypervisor *fake;
    gint opens; /* atomic */
} Counting;

typedef struct Env {
    char *world;
    Counting hv;
    WeftJobs *jobs;
    WeftLinks *links;
    char *lost;     /* the host that was last told of */
    guint losses;   /* how often one was told of … */
    guint first;    /* … that had not broken a moment ago */
    char *rebooted; /* the boot of the guest that was last told of */
    const char *expected;
} Env;

/* What became of a wish. */
typedef struct Outcome {
    guint done;
    guint freed;
    int fd;
    char *output;
    GError *error;
} Outcome;

static int
counting_open(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftChannel channel,
              GCancellable *cancellable, GError **error)
{
    Counting *self = (Counting *)hv;
    g_atomic_int_inc(&self->opens);
    return self->fake->ops->open(self->fake, host, domain, channel, cancellable, error);
}

static const WeftHypervisorOps counting_ops = { .name = "counting", .open = counting_open };

static void
on_lost(const char *host, gboolean again, gpointer data)
{
    Env *env = data;
    env->losses++;
    env->first += !again;
    g_free(env->lost);
    env->lost = g_strdup(host);
}

static void
on_rebooted(const char *node, const char *boot, gpointer data)
{
    Env *env = data;
    g_assert_cmpstr(node, ==, "a");
    g_free(env->rebooted);
    env->rebooted = g_strdup(boot);
}

static void
set_up(Env *env, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    env->world = scratch_new();
    scratch_write(env->world, "n1/domains/weft-a.xml", "<domain/>");
    env->hv.fake = weft_hypervisor_fake_new(env->world, &error);
    g_assert_no_error(error);
    env->hv.base.ops = &counting_ops;
    env->jobs = weft_jobs_new(&env->hv.base, 4, 4);
    env->links =
        weft_links_new(env->jobs, &(WeftLinkLimits){ LONG, IDLE, 512 }, &(WeftLinkListener){ on_lost, on_rebooted, env });
}

static void
end_links(Env *env)
{
    g_clear_pointer(&env->jobs, weft_jobs_free);
    g_clear_pointer(&env->links, weft_links_free);
}

static void
tear_down(Env *env, gconstpointer data)
{
    end_links(env);
    weft_hypervisor_free(env->hv.fake);
    g_free(env->lost);
    g_free(env->rebooted);
    scratch_free(env->world);
}

static void
on_done(int fd, const char *output, const GError *error, gpointer data)
{
    Outcome *outcome = data;
    outcome->done++;
    outcome->fd = fd;
    outcome->output = g_strdup(output);
    outcome->error = error ? g_error_copy(error) : NULL;
}

static void
on_free(gpointer data)
{
    ((Outcome *)data)->freed++;
}

static void
want_of(Env *env, const char *node, WeftLinkAsk ask, Outcome *outcome)
{
    g_autofree char *domain = g_strconcat("weft-", node, NULL);
    WeftLinkAddress address = { node, domain, "n1", NULL, env->expected };
    *outcome = (Outcome){ .fd = -1 };
    ask.done = on_done;
    ask.data = outcome;
    ask.free = on_free;
    weft_links_want(env->links, &address, &ask);
}

static void
want(Env *env, const char *kind, gint64 deadline, Outcome *outcome)
{
    want_of(env, "a", (WeftLinkAsk){ .kind = kind, .input = "", .deadline = deadline }, outcome);
}

static void
want_connection(Env *env, Outcome *outcome)
{
    want_of(env, "a", (WeftLinkAsk){ .connect = TRUE, .deadline = LONG }, outcome);
}

static void
await(const Outcome *outcome)
{
    while (!outcome->freed)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(outcome->done, ==, 1);
}

static void
outcome_clear(Outcome *outcome)
{
    g_free(outcome->output);
    g_clear_error(&outcome->error);
}

static gboolean
set_flag(gpointer data)
{
    *(gboolean *)data = TRUE;
    return G_SOURCE_REMOVE;
}

/* Lets the main loop run for some time. */
static void
pass_time(gint64 time)
{
    gboolean over = FALSE;
    g_timeout_add((guint)(time / 1000), set_flag, &over);
    while (!over)
        g_main_context_iteration(NULL, TRUE);
}

static void
test_one_link_for_all(Env *env, gconstpointer data)
{
    Outcome greeted, met, later;
    want(env, NULL, LONG, &greeted);
    want(env, "meet", LONG, &met);
    await(&greeted);
    await(&met);
    g_assert_no_error(greeted.error);
    g_assert_null(greeted.output);
    g_assert_no_error(met.error);
    g_assert_cmpstr(met.output, ==, "every node answers\n");
    want(env, "meet", LONG, &later);
    await(&later);
    g_assert_no_error(later.error);
    g_assert_cmpint(env->hv.opens, ==, 1);
    outcome_clear(&met);
    outcome_clear(&later);
}

/* Told at the greeting, and to whoever comes later and expects another. */
static void
test_another_boot(Env *env, gconstpointer data)
{
    Outcome outcome;
    const char *expected[] = { "fake-0", NULL, "fake-1", "fake-0" };
    const char *told[] = { "fake-1", NULL, NULL, "fake-1" };
    scratch_write(env->world, "reboots", "n2 weft-a\nn1 weft-a\nn1 weft-ab\n");
    for (guint i = 0; i < G_N_ELEMENTS(expected); i++) {
        env->expected = expected[i];
        want(env, NULL, LONG, &outcome);
        await(&outcome);
        g_assert_cmpstr(env->rebooted, ==, told[i]);
        g_clear_pointer(&env->rebooted, g_free);
    }
    g_assert_cmpstr(weft_links_boot(env->links, "a"), ==, "fake-1");
    g_assert_null(weft_links_boot(env->links, "b"));
    g_assert_cmpint(env->hv.opens, ==, 1);
}

static void
test_refusals(Env *env, gconstpointer data)
{
    Outcome exec, meet;
    scratch_write(env->world, "n1/faults", "fail meet 1 nobody there\n");
    want(env, "exec", LONG, &exec);
    want(env, "meet", LONG, &meet);
    await(&exec);
    await(&meet);
    g_assert_error(exec.error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_error(meet.error, WEFT_ERROR, WEFT_ERROR_FAILED);
    g_assert_nonnull(strstr(meet.error->message, "nobody there"));
    g_assert_nonnull(strstr(meet.output, "nobody there"));
    g_assert_cmpint(env->hv.opens, ==, 1); /* the link is as good as before */
    outcome_clear(&exec);
    outcome_clear(&meet);
}

static void
test_open_fails(Env *env, gconstpointer data)
{
    Outcome first, second, third;
    scratch_write(env->world, "n1/faults", "fail open 1 no stream\n");
    want(env, NULL, LONG, &first);
    want(env, "meet", LONG, &second);
    await(&first);
    await(&second);
    g_assert_error(first.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_assert_error(second.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_assert_nonnull(strstr(first.error->message, "no stream"));
    want(env, NULL, LONG, &third);
    await(&third);
    g_assert_no_error(third.error);
    g_assert_cmpint(env->hv.opens, ==, 2);
    outcome_clear(&first);
    outcome_clear(&second);
}

/* The first waits for a stream, for a greeting, or for an answer that does not come; the second gets all of it. */
static void
test_late(Env *env, gconstpointer fault)
{
    Outcome late, next;
    scratch_write(env->world, "n1/faults", fault);
    want(env, "meet", SHORT, &late);
    await(&late);
    g_assert_error(late.error, WEFT_ERROR, WEFT_ERROR_TIMEOUT);
    g_assert_cmpstr(late.error->message, ==, "no answer from inside within 50 ms");
    scratch_write(env->world, "n1/faults", NULL);
    want(env, "meet", LONG, &next);
    await(&next);
    g_assert_no_error(next.error);
    outcome_clear(&late);
    outcome_clear(&next);
}

/* One who has no time left does not take it from the others. */
static void
test_late_alone(Env *env, gconstpointer data)
{
    Outcome late, patient;
    scratch_write(env->world, "n1/faults", "slow sync 1000\n");
    want(env, NULL, SHORT, &late);
    want(env, NULL, LONG, &patient);
    await(&late);
    await(&patient);
    g_assert_error(late.error, WEFT_ERROR, WEFT_ERROR_TIMEOUT);
    g_assert_no_error(patient.error);
    g_assert_cmpint(env->hv.opens, ==, 1);
    outcome_clear(&late);
}

static void
test_drop(Env *env, gconstpointer data)
{
    Outcome opening, asking, next;
    scratch_write(env->world, "n1/faults", "hang open\n");
    want(env, NULL, LONG, &opening);
    while (!g_atomic_int_get(&env->hv.opens))
        g_main_context_iteration(NULL, FALSE);
    weft_links_drop(env->links, "a");
    g_assert_cmpuint(opening.done, ==, 1); /* before it returns */
    g_assert_error(opening.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    scratch_write(env->world, "n1/faults", "hang meet\n");
    want(env, "meet", LONG, &asking);
    pass_time(SHORT);
    weft_links_drop(env->links, "a");
    g_assert_cmpuint(asking.done, ==, 1);
    g_assert_error(asking.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    weft_links_drop(env->links, "a");
    scratch_write(env->world, "n1/faults", NULL);
    want(env, "meet", LONG, &next);
    await(&next);
    g_assert_no_error(next.error);
    g_assert_null(env->lost);
    outcome_clear(&opening);
    outcome_clear(&asking);
    outcome_clear(&next);
}

static void
test_lost(Env *env, gconstpointer data)
{
    Outcome greeted, asking, gone;
    g_autoptr(GError) error = NULL;
    want(env, NULL, LONG, &greeted);
    await(&greeted);
    scratch_write(env->world, "n1/faults", "hang meet\n");
    want(env, "meet", LONG, &asking);
    pass_time(SHORT);
    env->hv.fake->ops->stop(env->hv.fake, &(WeftHostAddress){ "n1", NULL }, "weft-a", NULL, &error);
    g_assert_no_error(error);
    await(&asking);
    g_assert_error(asking.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    while (!env->lost)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(env->lost, ==, "n1");
    want(env, NULL, LONG, &gone);
    await(&gone);
    g_assert_error(gone.error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND); /* the driver's own */
    outcome_clear(&asking);
    outcome_clear(&gone);
}

static void
use_backoff(Env *env, gint64 base, gint64 max)
{
    weft_links_free(env->links);
    env->links = weft_links_new(env->jobs, &(WeftLinkLimits){ LONG, IDLE, 512, { base, max } },
                                &(WeftLinkListener){ on_lost, on_rebooted, env });
}

/* Has the node greet, and end its stream thereafter. */
static void
break_link(Env *env)
{
    Outcome outcome;
    guint before = env->losses;
    want(env, NULL, LONG, &outcome);
    await(&outcome);
    outcome_clear(&outcome);
    while (env->losses == before)
        g_main_context_iteration(NULL, TRUE);
}

/* A guest that breaks its link after each greeting is told of ever less often, and of its first break at once. */
static void
test_broken_again(Env *env, gconstpointer data)
{
    scratch_write(env->world, "n1/faults", "fail greeted\n");
    use_backoff(env, LONG, LONG);
    for (guint i = 0; i < 20; i++) {
        break_link(env);
        g_assert_cmpuint(env->first, ==, 1);
    }
    g_assert_cmpuint(env->losses, ==, 20);
}

/* One that has kept its link for a while is as one that never lost it. */
static void
test_broken_once_more(Env *env, gconstpointer data)
{
    scratch_write(env->world, "n1/faults", "fail greeted\n");
    use_backoff(env, SHORT, SHORT);
    for (guint i = 1; i <= 3; i++) {
        break_link(env);
        g_assert_cmpuint(env->first, ==, i);
        pass_time(3 * SHORT);
    }
}

static void
test_idle(Env *env, gconstpointer data)
{
    Outcome first, second, connection;
    want(env, NULL, LONG, &first);
    await(&first);
    pass_time(3 * IDLE);
    want(env, NULL, LONG, &second);
    await(&second);
    g_assert_cmpint(env->hv.opens, ==, 2);
    g_assert_null(env->lost); /* that it is closed is nothing to look into */

    want_connection(env, &connection);
    await(&connection);
    g_assert_no_error(connection.error);
    g_assert_cmpint(connection.fd, >=, 0);
    pass_time(3 * IDLE);
    want(env, NULL, LONG, &second);
    await(&second);
    g_assert_cmpint(env->hv.opens, ==, 2); /* somebody uses it */
    close(connection.fd);
}

static void
greet(Env *env, const char *node)
{
    Outcome outcome;
    want_of(env, node, (WeftLinkAsk){ .deadline = LONG }, &outcome);
    await(&outcome);
    g_assert_no_error(outcome.error);
}

/* Only so many stay open that nobody uses; whoever has a session is not among them. */
static void
test_few_rest(Env *env, gconstpointer data)
{
    Outcome connection;
    weft_links_free(env->links);
    env->links =
        weft_links_new(env->jobs, &(WeftLinkLimits){ LONG, LONG, 2 }, &(WeftLinkListener){ on_lost, on_rebooted, env });
    for (const char *const *name = (const char *const[]){ "b", "c", "d", NULL }; *name; name++) {
        g_autofree char *file = g_strdup_printf("n1/domains/weft-%s.xml", *name);
        scratch_write(env->world, file, "<domain/>");
    }
    greet(env, "a");
    greet(env, "b");
    greet(env, "a"); /* so that b is the one that was not used for longest */
    g_assert_cmpint(env->hv.opens, ==, 2);
    greet(env, "c");
    greet(env, "a");
    g_assert_cmpint(env->hv.opens, ==, 3);
    want_connection(env, &connection);
    await(&connection);
    greet(env, "b");
    g_assert_cmpint(env->hv.opens, ==, 4);
    greet(env, "d");
    greet(env, "c");
    greet(env, "a");
    g_assert_cmpint(env->hv.opens, ==, 6); /* d, and c again */
    close(connection.fd);
}

/* Nobody is told any more, and what they gave is freed. */
static void
test_free_while_busy(Env *env, gconstpointer fault)
{
    Outcome first, second;
    scratch_write(env->world, "n1/faults", fault);
    want(env, "meet", LONG, &first);
    want(env, NULL, LONG, &second);
    pass_time(SHORT);
    guint before = second.done;
    end_links(env);
    g_assert_cmpuint(first.done, ==, 0);
    g_assert_cmpuint(second.done, ==, before);
    g_assert_cmpuint(first.freed + second.freed, ==, 2);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(path, data, test) g_test_add(path, Env, data, set_up, test, tear_down)
    ADD("/links/one-for-all", NULL, test_one_link_for_all);
    ADD("/links/another-boot", NULL, test_another_boot);
    ADD("/links/broken-again", NULL, test_broken_again);
    ADD("/links/broken-once-more", NULL, test_broken_once_more);
    ADD("/links/refusals", NULL, test_refusals);
    ADD("/links/open-fails", NULL, test_open_fails);
    ADD("/links/late/open", "hang open\n", test_late);
    ADD("/links/late/greeting", "hang sync\n", test_late);
    ADD("/links/late/alone", NULL, test_late_alone);
    ADD("/links/drop", NULL, test_drop);
    ADD("/links/lost", NULL, test_lost);
    ADD("/links/idle", NULL, test_idle);
    ADD("/links/few-rest", NULL, test_few_rest);
    ADD("/links/free/opening", "hang open\n", test_free_while_busy);
    ADD("/links/free/greeting", "hang sync\n", test_free_while_busy);
    ADD("/links/free/asking", "hang meet\n", test_free_while_busy);
    return g_test_run();
}
