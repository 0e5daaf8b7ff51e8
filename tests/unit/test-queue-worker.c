/* The queue on a worker: what it decides of a moment that is over, and what becomes of that. The worker's answer is heard only
 * where the main loop runs, so that all that is done before has happened while it computed. */
#include "queue-worker.h"

#include "queue-world.h"

#define NOW world_time(0)

typedef struct Site {
    World *world; /* for its fleet */
    WeftQueueWorker *worker;
    WeftErrand *answer;
    guint64 serial;
} Site;

static void
answered(WeftErrand *errand, gpointer data)
{
    Site *site = data;
    g_assert_null(site->answer);
    site->answer = errand;
}

static void
site_init(Site *site, guint hosts)
{
    *site = (Site){ .world = world_new(hosts, 4, &world_in_turn) };
    site->worker = weft_queue_worker_new(site->world->fleet, &world_in_turn, answered, site);
}

static void
site_clear(Site *site)
{
    weft_errand_free(site->answer);
    weft_queue_worker_free(site->worker);
    world_free(site->world);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Site, site_clear)

static WeftCluster *
cluster_new(const char *name, guint nodes)
{
    g_autoptr(GError) error = NULL;
    json_t *json = json_pack("{s:s, s:i, s:i, s:I, s:s, s:i}", "name", name, "count", (int)nodes, "cores", 4, "memory",
                             (json_int_t)1 << 26, "path", "bridge", "rails", 0);
    WeftCluster *cluster = weft_cluster_from_spec(json, &error);
    json_decref(json);
    g_assert_no_error(error);
    cluster->id = g_strdup(name);
    cluster->tenant = g_strdup("t");
    return cluster;
}

/* Nothing that it points to stays. */
static guint64
ask(Site *site, const char *name, guint nodes, gint priority)
{
    g_autoptr(WeftCluster) cluster = cluster_new(name, nodes);
    WeftAsk put = { .key = name, .request = { .cluster = cluster, .counts = &nodes }, .since = NOW, .priority = priority };
    weft_queue_worker_put(site->worker, &put, ++site->serial);
    return site->serial;
}

static void
begin(Site *site)
{
    g_clear_pointer(&site->answer, weft_errand_free);
    weft_queue_worker_begin(site->worker, NOW, TRUE, g_ptr_array_new());
    g_assert_true(weft_queue_worker_is_busy(site->worker));
}

static void
await(Site *site)
{
    while (!site->answer)
        g_main_context_iteration(NULL, TRUE);
    g_assert_false(weft_queue_worker_is_busy(site->worker));
}

static void
decide(Site *site)
{
    begin(site);
    await(site);
}

/* The only one of the answer. */
static const WeftDecision *
decision_of(const Site *site, WeftDecisionKind kind, const char *name)
{
    g_assert_cmpuint(site->answer->decisions->len, ==, 1);
    const WeftDecision *decision = site->answer->decisions->pdata[0];
    g_assert_cmpint(decision->kind, ==, kind);
    g_assert_cmpstr(decision->ask->key, ==, name);
    return decision;
}

/* What it was to start with cannot be claimed: it waits again, and is refused for now. */
static void
refuse_start(Site *site, const char *name)
{
    decision_of(site, WEFT_DECIDE_START, name);
    weft_queue_worker_tell(site->worker, weft_queue_take_back, name);
    ask(site, name, 1, 5);
    weft_queue_worker_tell(site->worker, weft_queue_refuse, name);
}

static gboolean
holds(const Site *site, const WeftDecision *decision)
{
    return weft_fleet_accepts(site->world->fleet, site->answer->fleet, decision->placement.seats, decision->placement.n,
                              decision->ask->ask.request.cluster->id);
}

/* As whoever carries it out does. */
static void
carry_out(Site *site, const WeftDecision *decision, gboolean preemptible)
{
    const WeftPlacement *placement = &decision->placement;
    const char *key = decision->ask->key;
    WeftHold hold = { .key = key,
                      .cluster = decision->ask->ask.request.cluster->id,
                      .tenant = "t",
                      .preemptible = preemptible,
                      .since = decision->when,
                      .end = WEFT_QUEUE_NEVER,
                      .seats = placement->seats,
                      .n = placement->n };
    g_assert_true(holds(site, decision));
    weft_fleet_take_seats(site->world->fleet, placement->seats, placement->n, hold.cluster);
    weft_queue_worker_hold(site->worker, &hold);
}

static WeftWaitWhy
why(const Site *site, const char *name)
{
    for (guint i = 0; i < site->answer->lines->len; i++) {
        const WeftQueueLine *line = site->answer->lines->pdata[i];
        if (g_strcmp0(line->ask->key, name) == 0)
            return line->wait.why;
    }
    g_assert_not_reached();
}

/* --- decisions that hold --- */

static void
test_start(void)
{
    g_auto(Site) site;
    site_init(&site, 2);
    guint64 serial = ask(&site, "a", 1, 0);
    g_assert_false(weft_queue_worker_is_current(site.worker));
    begin(&site);
    ask(&site, "b", 1, 0); /* the worker has not heard of it */
    await(&site);
    const WeftDecision *decision = decision_of(&site, WEFT_DECIDE_START, "a");
    g_assert_cmpuint(decision->ask->serial, ==, serial);
    g_assert_cmpuint(decision->nodes->len, ==, 1);
    g_assert_cmpint(decision->when, ==, NOW);
    carry_out(&site, decision, FALSE);
    guint host = decision->placement.seats[0].host;
    decide(&site);
    decision = decision_of(&site, WEFT_DECIDE_START, "b");
    g_assert_cmpuint(decision->placement.seats[0].host, !=, host);
}

/* What is decided in one answer is never on the same cores. */
static void
test_two_at_once(void)
{
    g_auto(Site) site;
    site_init(&site, 2);
    ask(&site, "a", 1, 0);
    ask(&site, "b", 1, 0);
    ask(&site, "c", 1, 0);
    decide(&site);
    g_assert_cmpuint(site.answer->decisions->len, ==, 2);
    g_assert_cmpint(why(&site, "c"), ==, WEFT_WAIT_ROOM);
    for (guint i = 0; i < 2; i++)
        carry_out(&site, site.answer->decisions->pdata[i], FALSE);
    g_assert_false(holds(&site, site.answer->decisions->pdata[0])); /* nor claimed twice */
}

/* --- decisions that do not --- */

/* Its host is lost while the worker computes. */
static void
test_host_lost(void)
{
    g_auto(Site) site;
    site_init(&site, 2);
    ask(&site, "a", 1, 0);
    begin(&site);
    weft_fleet_set_open(site.world->fleet, "n00", FALSE);
    weft_queue_worker_doubt(site.worker);
    await(&site);
    const WeftDecision *decision = decision_of(&site, WEFT_DECIDE_START, "a");
    g_assert_cmpuint(decision->placement.seats[0].host, ==, 0);
    g_assert_false(holds(&site, decision));
    weft_queue_worker_tell(site.worker, weft_queue_take_back, "a");
    ask(&site, "a", 1, 0);
    decide(&site);
    decision = decision_of(&site, WEFT_DECIDE_START, "a");
    g_assert_cmpuint(decision->placement.seats[0].host, ==, 1);
    carry_out(&site, decision, FALSE);
}

/* … or described again, or gone for good. */
static void
test_host_described(void)
{
    g_auto(Site) site;
    site_init(&site, 2);
    ask(&site, "a", 2, 0);
    begin(&site);
    world_add_host(site.world, "n01");
    await(&site);
    g_assert_false(holds(&site, decision_of(&site, WEFT_DECIDE_START, "a")));
    weft_queue_worker_tell(site.worker, weft_queue_take_back, "a");
    ask(&site, "a", 2, 0);
    begin(&site);
    weft_fleet_remove_host(site.world->fleet, "n00");
    await(&site);
    g_assert_false(holds(&site, decision_of(&site, WEFT_DECIDE_START, "a")));
}

/* Somebody else has taken it, past the queue. */
static void
test_taken(void)
{
    g_auto(Site) site;
    site_init(&site, 1);
    ask(&site, "a", 1, 0);
    decide(&site);
    const WeftDecision *decision = decision_of(&site, WEFT_DECIDE_START, "a");
    weft_fleet_take_seats(site.world->fleet, decision->placement.seats, 1, "other");
    g_assert_false(holds(&site, decision));
    weft_fleet_give_seats(site.world->fleet, decision->placement.seats, 1, "other");
    g_assert_true(holds(&site, decision));
}

/* A cluster is deleted while the worker computes: the next one has its places. */
static void
test_withdrawn(void)
{
    g_auto(Site) site;
    site_init(&site, 1);
    ask(&site, "a", 1, 5);
    ask(&site, "b", 1, 0);
    begin(&site);
    weft_queue_worker_tell(site.worker, weft_queue_withdraw, "a");
    await(&site);
    decision_of(&site, WEFT_DECIDE_START, "a");
    g_assert_cmpint(why(&site, "b"), ==, WEFT_WAIT_ROOM);
    weft_queue_worker_tell(site.worker, weft_queue_take_back, "a");
    decide(&site);
    carry_out(&site, decision_of(&site, WEFT_DECIDE_START, "b"), FALSE);
}

/* It asks for more while the worker computes. */
static void
test_changed(void)
{
    g_auto(Site) site;
    site_init(&site, 2);
    guint64 before = ask(&site, "a", 1, 0);
    begin(&site);
    guint64 after = ask(&site, "a", 2, 0);
    await(&site);
    g_assert_cmpuint(decision_of(&site, WEFT_DECIDE_START, "a")->ask->serial, ==, before);
    weft_queue_worker_tell(site.worker, weft_queue_take_back, "a");
    decide(&site);
    const WeftDecision *decision = decision_of(&site, WEFT_DECIDE_START, "a");
    g_assert_cmpuint(decision->ask->serial, ==, after);
    g_assert_cmpuint(decision->placement.n, ==, 2);
    carry_out(&site, decision, FALSE);
}

/* One that cannot start for another reason is not tried again for the room that it gives back, and others have that. */
static void
test_refused(void)
{
    g_auto(Site) site;
    site_init(&site, 1);
    ask(&site, "a", 1, 5);
    ask(&site, "b", 1, 0);
    decide(&site);
    refuse_start(&site, "a");
    decide(&site);
    const WeftDecision *decision = decision_of(&site, WEFT_DECIDE_START, "b");
    g_assert_cmpint(why(&site, "a"), ==, WEFT_WAIT_REFUSED);
    carry_out(&site, decision, FALSE);
    weft_fleet_give_seats(site.world->fleet, decision->placement.seats, 1, "b");
    weft_queue_worker_tell(site.worker, weft_queue_release, "b");
    decide(&site);
    decision_of(&site, WEFT_DECIDE_START, "a");
}

/* What it was refused for may have changed before the next run, and nothing else may ever change. */
static void
test_refused_no_longer(void)
{
    g_auto(Site) site;
    site_init(&site, 1);
    ask(&site, "a", 1, 5);
    decide(&site);
    refuse_start(&site, "a");
    weft_queue_worker_doubt(site.worker);
    decide(&site);
    decision_of(&site, WEFT_DECIDE_START, "a");
}

/* Who was to give way to one that has gone stays, and gives way to the next. */
static void
test_spared(void)
{
    g_auto(Site) site;
    site_init(&site, 1);
    ask(&site, "low", 1, 0);
    decide(&site);
    carry_out(&site, decision_of(&site, WEFT_DECIDE_START, "low"), TRUE);
    ask(&site, "high", 1, 5);
    begin(&site);
    weft_queue_worker_tell(site.worker, weft_queue_withdraw, "high");
    await(&site);
    g_assert_cmpstr(decision_of(&site, WEFT_DECIDE_PREEMPT, "high")->victim, ==, "low");
    weft_queue_worker_tell(site.worker, weft_queue_spare, "low");
    decide(&site);
    g_assert_cmpuint(site.answer->decisions->len, ==, 0);
    ask(&site, "next", 1, 5);
    decide(&site);
    g_assert_cmpstr(decision_of(&site, WEFT_DECIDE_PREEMPT, "next")->victim, ==, "low");
}

/* --- what is told --- */

static void
test_looks(void)
{
    g_auto(Site) site;
    site_init(&site, 1);
    ask(&site, "a", 2, 0);
    WeftQueueLook *look = g_new0(WeftQueueLook, 1), *none = g_new0(WeftQueueLook, 1);
    look->key = g_strdup("a");
    none->key = g_strdup("nobody");
    GPtrArray *looks = g_ptr_array_new();
    g_ptr_array_add(looks, look);
    g_ptr_array_add(looks, none);
    weft_queue_worker_begin(site.worker, NOW, TRUE, looks);
    await(&site);
    g_assert_cmpint(look->wait.why, ==, WEFT_WAIT_NEVER);
    g_assert_true(look->explained);
    g_assert_nonnull(look->refusal);
    g_assert_null(none->ask);
    g_assert_cmpuint(site.answer->lines->len, ==, 1);
}

/* Without being gone through, the queue only takes notes in. */
static void
test_notes_only(void)
{
    g_auto(Site) site;
    site_init(&site, 1);
    ask(&site, "a", 1, 0);
    weft_queue_worker_begin(site.worker, NOW, FALSE, g_ptr_array_new());
    await(&site);
    g_assert_cmpuint(site.answer->decisions->len, ==, 0);
    g_assert_cmpint(why(&site, "a"), ==, WEFT_WAIT_NEW);
    g_assert_true(weft_queue_worker_is_current(site.worker));
    g_assert_nonnull(site.answer->queue);
}

/* Nobody waits for what is under way. */
static void
test_closing(void)
{
    g_auto(Site) site;
    site_init(&site, 2);
    ask(&site, "a", 1, 0);
    begin(&site);
    ask(&site, "b", 1, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/queue-worker/start", test_start);
    g_test_add_func("/queue-worker/two-at-once", test_two_at_once);
    g_test_add_func("/queue-worker/host-lost", test_host_lost);
    g_test_add_func("/queue-worker/host-described", test_host_described);
    g_test_add_func("/queue-worker/taken", test_taken);
    g_test_add_func("/queue-worker/withdrawn", test_withdrawn);
    g_test_add_func("/queue-worker/changed", test_changed);
    g_test_add_func("/queue-worker/refused", test_refused);
    g_test_add_func("/queue-worker/refused-no-longer", test_refused_no_longer);
    g_test_add_func("/queue-worker/spared", test_spared);
    g_test_add_func("/queue-worker/looks", test_looks);
    g_test_add_func("/queue-worker/notes-only", test_notes_only);
    g_test_add_func("/queue-worker/closing", test_closing);
    return g_test_run();
}
