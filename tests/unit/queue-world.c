#include "queue-world.h"

#include <string.h>

#define EPOCH (G_GINT64_CONSTANT(1700000000) * G_USEC_PER_SEC)
#define OVERRUN MINUTES /* what is late is thought to be over then */

gint64
world_time(int seconds)
{
    return EPOCH + (gint64)seconds * G_USEC_PER_SEC;
}

static int
seconds_of(gint64 time)
{
    return time == 0 ? 0 : (int)((time - EPOCH) / G_USEC_PER_SEC);
}

static void
run_free(gpointer data)
{
    Run *run = data;
    weft_cluster_free(run->cluster);
    g_array_unref(run->seats);
    g_free(run->name);
    g_free(run);
}

/* --- hosts --- */

void
world_add_host(World *world, const char *name)
{
    g_autoptr(GError) error = NULL;
    json_t *json = json_pack("{s:s, s:s, s:s, s:[{s:i, s:{s:i}}], s:[{s:s, s:s, s:i}]}", "name", name, "fabric", "ib0", "leaf",
                             "leaf0", "numa", "cores", (int)world->cores, "pages", "2M", (int)world->memory * 32, "hcas",
                             "name", "mlx5_0", "port_guid", "0x0000000000000001", "vfs", (int)world->vfs);
    weft_fleet_put_host(world->fleet, weft_host_from_json(json, "host", &error));
    json_decref(json);
    g_assert_no_error(error);
    weft_fleet_set_open(world->fleet, name, TRUE);
    weft_fleet_sort(world->fleet);
}

World *
world_new_scarce(guint hosts, guint cores, guint vfs, guint memory, const WeftQueueOptions *options)
{
    World *world = g_new0(World, 1);
    world->fleet = weft_fleet_new();
    world->options = options ? *options : weft_queue_defaults;
    world->queue = weft_queue_new(world->fleet, &world->options);
    world->cores = cores;
    world->vfs = vfs;
    world->memory = memory;
    world->next = G_MAXINT;
    world->runs = g_ptr_array_new_with_free_func(run_free);
    world->owners = g_hash_table_new(NULL, NULL);
    world->bookings = g_array_new(FALSE, FALSE, sizeof(WeftBooking));
    world->log = g_string_new(NULL);
    for (guint i = 0; i < hosts; i++) {
        g_autofree char *name = g_strdup_printf("n%02u", i);
        world_add_host(world, name);
    }
    return world;
}

World *
world_new(guint hosts, guint cores, const WeftQueueOptions *options)
{
    return world_new_scarce(hosts, cores, 0, 16 * cores, options);
}

void
world_free(World *world)
{
    weft_queue_free(world->queue);
    weft_fleet_free(world->fleet);
    g_ptr_array_unref(world->runs);
    g_hash_table_unref(world->owners);
    g_array_unref(world->bookings);
    g_string_free(world->log, TRUE);
    g_free(world);
}

void
world_doubt(World *world)
{
    world->cause = TRUE;
    weft_queue_doubt(world->queue);
}

void
world_book(World *world, const WeftBooking *bookings, guint n)
{
    world->cause = TRUE;
    g_array_set_size(world->bookings, 0);
    g_array_append_vals(world->bookings, bookings, n);
    weft_queue_book(world->queue, bookings, n);
}

/* --- jobs --- */

Run *
world_run_of(const World *world, const char *name)
{
    for (guint i = 0; i < world->runs->len; i++) {
        Run *run = world->runs->pdata[i];
        if (strcmp(run->name, name) == 0)
            return run;
    }
    return NULL;
}

static WeftCluster *
cluster_of(const World *world, const Job *job)
{
    g_autoptr(GError) error = NULL;
    json_t *json = json_pack("{s:s, s:i, s:i, s:I, s:s, s:i}", "name", job->name, "count", (int)job->nodes, "cores",
                             (int)(job->cores ? job->cores : world->cores), "memory", (json_int_t)MAX(job->memory, 1) << 26,
                             "path", world->vfs ? "sriov" : "bridge", "rails", world->vfs ? 1 : 0);
    if (job->pattern)
        json_object_set_new(json, "pattern", json_string(job->pattern));
    WeftCluster *cluster = weft_cluster_from_spec(json, &error);
    json_decref(json);
    g_assert_no_error(error);
    cluster->id = g_strdup(job->name);
    cluster->tenant = g_strdup(job->tenant ? job->tenant : "t");
    return cluster;
}

static void
put(World *world, Run *run)
{
    WeftAsk ask = { .key = run->name,
                    .request = { .cluster = run->cluster, .counts = &run->job.nodes },
                    .since = world_time(run->asked),
                    .priority = run->job.priority,
                    .walltime = (gint64)run->job.wall * G_USEC_PER_SEC,
                    .preemptible = run->job.preemptible };
    run->waits = TRUE;
    run->started = -1;
    run->told = 0;
    weft_queue_put(world->queue, &ask);
}

void
world_ask(World *world, const Job *job)
{
    Run *run = g_new0(Run, 1);
    run->job = *job;
    run->name = g_strdup(job->name);
    run->cluster = cluster_of(world, job);
    run->seats = g_array_new(FALSE, FALSE, sizeof(WeftSeat));
    run->asked = world->now;
    g_ptr_array_add(world->runs, run);
    put(world, run);
}

/* One that gave way waits anew. */
static void
ask_again(World *world, Run *run)
{
    run->leaving = FALSE;
    run->asked = world->now;
    if (world->again)
        put(world, run);
}

void
world_withdraw(World *world, Run *run)
{
    run->waits = FALSE;
    weft_queue_withdraw(world->queue, run->name);
}

/* --- books --- */

/* A core of a host, or behind these one of its functions. */
static void
own_one(World *world, Run *run, guint host, guint i)
{
    gpointer key = GUINT_TO_POINTER(1 + host * (world->cores + world->vfs) + i);
    g_assert_cmpuint(i, <, world->cores + world->vfs);
    g_assert_null(g_hash_table_lookup(world->owners, key));
    g_hash_table_insert(world->owners, key, run);
}

static guint
memory_on(const World *world, guint host)
{
    guint memory = 0;
    for (guint i = 0; i < world->runs->len; i++) {
        const Run *run = world->runs->pdata[i];
        for (guint s = 0; run->holds && s < run->seats->len; s++)
            memory += g_array_index(run->seats, WeftSeat, s).host == host ? MAX(run->job.memory, 1) : 0;
    }
    return memory;
}

static void
own(World *world, Run *run)
{
    for (guint i = 0; i < run->seats->len; i++) {
        const WeftSeat *seat = &g_array_index(run->seats, WeftSeat, i);
        guint cores = 0;
        for (guint c = 0; c < WEFT_CORES_MAX; c++)
            if (seat->cores.words[c / 64] >> (c % 64) & 1) {
                g_assert_cmpuint(c, <, world->cores);
                own_one(world, run, seat->host, c);
                cores++;
            }
        g_assert_cmpuint(cores, ==, run->job.cores ? run->job.cores : world->cores);
        g_assert_cmpuint(seat->n_rails, ==, world->vfs ? 1 : 0);
        if (world->vfs)
            own_one(world, run, seat->host, world->cores + (guint)seat->vf[0]);
        g_assert_cmpuint(memory_on(world, seat->host), <=, world->memory);
    }
}

static gboolean
is_owned_by(gpointer key, gpointer value, gpointer data)
{
    (void)key;
    return value == data;
}

/* Nobody is on hosts that are booked for others. */
static void
check_bookings(const World *world, const Run *run)
{
    for (guint b = 0; b < world->bookings->len; b++) {
        const WeftBooking *booking = &g_array_index(world->bookings, WeftBooking, b);
        if (g_strcmp0(booking->tenant, run->cluster->tenant) == 0 || booking->end <= world_time(world->now) ||
            (run->job.wall && booking->start >= world_time(world->now + run->job.wall)))
            continue;
        for (guint i = 0; i < run->seats->len; i++) {
            guint host = g_array_index(run->seats, WeftSeat, i).host;
            g_assert_false(g_strv_contains((const char *const *)booking->hosts, weft_fleet_name(world->fleet, host)));
        }
    }
}

/* --- what the queue decides --- */

static gboolean
on_start(const WeftAsk *ask, const WeftPlacement *placement, gpointer data)
{
    World *world = data;
    Run *run = world_run_of(world, ask->key);
    g_assert_true(run->waits);
    if (g_strcmp0(world->refused, run->name) == 0)
        return FALSE;
    g_assert_cmpuint(placement->n, ==, run->job.nodes);
    g_assert_cmpint(placement->between >= 0, ==, run->job.pattern != NULL); /* ranks are mapped at each start */
    g_array_set_size(run->seats, 0);
    g_array_append_vals(run->seats, placement->seats, placement->n);
    run->waits = FALSE;
    run->holds = TRUE;
    own(world, run);
    check_bookings(world, run);
    int runs = run->job.runs ? run->job.runs : run->job.wall;
    g_assert_cmpint(runs, >, 0);
    run->started = world->now;
    run->ends = world->now + runs;
    g_string_append_printf(world->log, "%s+%d ", run->name, world->now);
    weft_fleet_take_seats(world->fleet, placement->seats, placement->n, run->cluster->id);
    WeftHold hold = { .key = run->name,
                      .cluster = run->cluster->id,
                      .tenant = run->cluster->tenant,
                      .priority = run->job.priority,
                      .preemptible = run->job.preemptible,
                      .since = world_time(world->now),
                      .end = run->job.wall ? world_time(world->now + run->job.wall) : WEFT_QUEUE_NEVER,
                      .seats = (const WeftSeat *)run->seats->data,
                      .n = run->seats->len };
    weft_queue_hold(world->queue, &hold);
    if (world->meddle)
        world->meddle(world, run);
    return TRUE;
}

static void
end_run(World *world, Run *run)
{
    run->holds = FALSE;
    world->cause |= run->leaving || (run->job.wall && world->now > run->started + run->job.wall);
    g_string_append_printf(world->log, "%s-%d ", run->name, world->now);
    g_hash_table_foreach_remove(world->owners, is_owned_by, run);
    weft_fleet_give_seats(world->fleet, (const WeftSeat *)run->seats->data, run->seats->len, run->cluster->id);
    weft_queue_release(world->queue, run->name);
}

static void
on_preempt(const char *victim, const WeftAsk *ask, gpointer data)
{
    World *world = data;
    Run *run = world_run_of(world, victim);
    g_assert_true(run->holds && run->job.preemptible && !run->leaving);
    g_assert_false(ask->preemptible);
    g_assert_cmpint(run->job.priority, <=, ask->priority);
    run->leaving = TRUE;
    run->ends = MIN(run->ends, world->now + world->stopping);
    g_string_append_printf(world->log, "%s!%d ", run->name, world->now);
    if (run->ends == world->now)
        end_run(world, run);
}

static const WeftQueueOps ops = { on_start, on_preempt };

/* --- promises --- */

/* By points, where shares make none. */
static gboolean
is_before(const World *world, const Run *a, const Run *b)
{
    double x = world->options.priority * a->job.priority - world->options.age * a->asked / HOURS;
    double y = world->options.priority * b->job.priority - world->options.age * b->asked / HOURS;
    return x != y ? x > y : a->asked != b->asked ? a->asked < b->asked : strcmp(a->name, b->name) < 0;
}

static gboolean
may_be_late(const World *world, const Run *late)
{
    for (guint i = 0; i < world->runs->len; i++) {
        const Run *run = world->runs->pdata[i];
        gboolean came = run->asked == world->now && (run->waits || run->started == world->now);
        if ((came && run != late && is_before(world, run, late)) || (run->holds && run->leaving) ||
            (run->holds && run->job.wall && world->now >= run->started + run->job.wall))
            return TRUE;
    }
    return world->cause || world->options.share != 0;
}

static void
check_promise(const World *world, Run *run)
{
    const WeftWait *wait = weft_queue_wait(world->queue, run->name, TRUE);
    g_assert_true((wait != NULL) == run->waits);
    int when = wait ? seconds_of(wait->when) : run->started;
    if (run->told && (when == 0 || when > run->told) && !may_be_late(world, run))
        g_error("at %d: %s was promised %d and now %d; so far: %s", world->now, run->name, run->told, when, world->log->str);
    g_assert_true(!wait || when == 0 || when > world->now);
    run->told = wait ? when : 0;
}

void
world_step(World *world)
{
    for (guint i = 0; i < world->runs->len; i++) {
        Run *run = world->runs->pdata[i];
        if (run->holds && run->ends <= world->now)
            end_run(world, run);
        if (!run->holds && run->leaving)
            ask_again(world, run);
    }
    gint64 next = weft_queue_run(world->queue, world_time(world->now), &ops, world);
    g_assert_cmpint(next, >, world_time(world->now));
    world->next = next == WEFT_QUEUE_NEVER ? G_MAXINT : seconds_of(next + G_USEC_PER_SEC - 1);
    for (guint i = 0; i < world->runs->len; i++) {
        Run *run = world->runs->pdata[i];
        if (run->waits || run->told)
            check_promise(world, run);
    }
    world->cause = FALSE;
}

/* --- time --- */

int
world_next(const World *world)
{
    int next = world->next;
    for (guint i = 0; i < world->runs->len; i++) {
        const Run *run = world->runs->pdata[i];
        if (run->holds)
            next = MIN(next, run->ends);
    }
    return next;
}

void
world_go(World *world, int until)
{
    for (int next = world_next(world); next < until && next < G_MAXINT; next = world_next(world)) {
        world->now = next;
        world_step(world);
    }
    if (until < G_MAXINT)
        world->now = until;
}

void
world_play(World *world, const Job *jobs)
{
    for (const Job *job = jobs; job->nodes > 0;) {
        world_go(world, job->at);
        for (; job->nodes > 0 && job->at == world->now; job++)
            world_ask(world, job);
        world_step(world);
    }
    world_go(world, G_MAXINT);
}

/* --- what came of it --- */

char *
world_starts(const World *world)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < world->runs->len; i++) {
        const Run *run = world->runs->pdata[i];
        g_string_append_printf(text, "%s%s ", i ? ", " : "", run->name);
        if (run->started < 0)
            g_string_append_c(text, '-');
        else
            g_string_append_printf(text, "%d", run->started);
    }
    return g_string_free(text, FALSE);
}

const WeftWait *
world_wait(const World *world, const char *name)
{
    return weft_queue_wait(world->queue, name, TRUE);
}

const WeftQueueOptions world_in_turn = { .priority = 1, .age = 1, .depth = 16 };

void
world_assert_starts(const World *world, const char *expected)
{
    g_autofree char *starts = world_starts(world);
    g_assert_cmpstr(starts, ==, expected);
}

void
world_assert_when(const World *world, const char *name, WeftWaitWhy why, int when)
{
    const WeftWait *wait = world_wait(world, name);
    g_assert_nonnull(wait);
    g_assert_cmpstr(weft_wait_words[wait->why], ==, weft_wait_words[why]);
    g_assert_cmpint(wait->when, ==, when ? world_time(when) : 0);
}

void
world_ask_at(World *world, const Job *job)
{
    world_go(world, job->at);
    world_ask(world, job);
    world_step(world);
}
