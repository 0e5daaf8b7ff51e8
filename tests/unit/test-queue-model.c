/* Random worlds, each of its seed alone: whatever comes, nothing is given twice, no promise is broken without cause (the world
 * sees to both), everything that fits starts at last, a snapshot foresees what the queue does, and the same calls give the
 * same answers. WEFT_QUEUE_SEED=n begins there.
 */
#include "queue-world.h"

#include <string.h>

#define JOBS 40

typedef struct Dice {
    GRand *source;
    guint hosts;
    guint cores;
} Dice;

static int
roll(Dice *dice, int below)
{
    return g_rand_int_range(dice->source, 0, below);
}

static int
pick(Dice *dice, const int *of, guint n)
{
    return of[roll(dice, (int)n)];
}
#define PICK(dice, ...) pick(dice, (const int[]){ __VA_ARGS__ }, sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))

static Job
random_job(Dice *dice, const char *name)
{
    static const char *const tenants[] = { "a", "b", "c" };
    Job job = { name, .nodes = 1 + (guint)roll(dice, (int)dice->hosts + (roll(dice, 10) == 0)) };
    job.cores = roll(dice, 2) ? 0 : 1 + (guint)roll(dice, (int)dice->cores);
    job.memory = 1 + (guint)roll(dice, 4);
    job.wall = roll(dice, 5) == 0 ? 0 : 5 + roll(dice, 300);
    job.runs = job.wall ? PICK(dice, job.wall, job.wall, 1 + roll(dice, job.wall)) : 1 + roll(dice, 300);
    if (job.wall && roll(dice, 20) == 0)
        job.runs += roll(dice, 200);
    job.priority = PICK(dice, 0, 0, 0, 0, 1, -1, 5);
    job.preemptible = roll(dice, 5) == 0;
    job.tenant = tenants[roll(dice, 3)];
    return job;
}

static void
close_or_open(World *world, Dice *dice, gboolean open)
{
    for (guint i = 0; i < dice->hosts; i++)
        if (open || roll(dice, 4) == 0)
            weft_fleet_set_open(world->fleet, weft_fleet_name(world->fleet, i), open);
    world_doubt(world);
}

static void
withdraw_one(World *world, Dice *dice)
{
    if (world->runs->len == 0)
        return;
    Run *run = world->runs->pdata[roll(dice, (int)world->runs->len)];
    if (run->waits)
        world_withdraw(world, run);
}

static void
book_some(World *world, Dice *dice)
{
    static char *some[] = { (char *)"n00", NULL };
    static char *more[] = { (char *)"n00", (char *)"n01", NULL };
    WeftBooking bookings[2] = { { "one", roll(dice, 2) ? "a" : NULL, .hosts = some },
                                { "two", roll(dice, 2) ? "b" : NULL, .hosts = more } };
    guint n = (guint)roll(dice, 3);
    for (guint i = 0; i < n; i++) {
        int start = world->now + roll(dice, 300);
        bookings[i].start = world_time(start);
        bookings[i].end = world_time(start + 1 + roll(dice, 300));
    }
    world_book(world, bookings, n);
}

static gboolean
fits_empty(const World *world, const Dice *dice, const Run *run)
{
    guint per_host = run->job.cores ? world->cores / run->job.cores : 1;
    per_host = MIN(per_host, world->vfs ? world->vfs : per_host);
    per_host = MIN(per_host, world->memory / run->job.memory);
    return run->job.nodes <= dice->hosts * per_host;
}

static char *
foreseen_text(gboolean found, const WeftPlacement *placement, gint64 when)
{
    GString *text = g_string_new(NULL);
    g_string_printf(text, "%d %" G_GINT64_FORMAT, found, found ? when : 0);
    for (guint i = 0; found && i < placement->n; i++)
        g_string_append_printf(text, " %u:%" G_GINT64_MODIFIER "x", placement->seats[i].host,
                               placement->seats[i].cores.words[0]);
    return g_string_free(text, FALSE);
}

/* What the one that asked last would be told if it asked once more, by the queue and by snapshots of it and the fleet. */
static void
compare_foreseen(World *world, WeftFleet *follower)
{
    const Run *run = world->runs->pdata[world->runs->len - 1];
    guint counts[WEFT_GROUPS_MAX] = { run->job.nodes };
    WeftAsk ask = { .key = "again",
                    .request = { .cluster = run->cluster, .counts = counts },
                    .walltime = run->job.wall * (gint64)G_USEC_PER_SEC };
    WeftPlacement placement;
    gint64 when, now = world_time(world->now);
    gboolean found = weft_queue_foresee(world->queue, &ask, now, &placement, &when);
    g_autofree char *live = foreseen_text(found, &placement, when);
    g_autoptr(WeftFleetSnapshot) fleet = weft_fleet_snapshot(world->fleet);
    g_autoptr(WeftQueueSnapshot) queue = weft_queue_snapshot(world->queue);
    weft_fleet_follow(follower, fleet);
    found = weft_queue_snapshot_foresee(queue, follower, &ask, now, &placement, &when);
    g_autofree char *copied = foreseen_text(found, &placement, when);
    g_assert_cmpstr(live, ==, copied);
}

static World *
live(guint seed)
{
    Dice dice = { g_rand_new_with_seed(seed), 0, 0 };
    dice.hosts = 2 + (guint)roll(&dice, 7);
    dice.cores = (guint)PICK(&dice, 1, 2, 4);
    WeftQueueOptions options = { 1, 1, PICK(&dice, 0, 0, 0, 100), (gint64)HOURS * G_USEC_PER_SEC,
                                 (guint)PICK(&dice, 0, 1, 3, 16, 64) };
    gboolean scarce = roll(&dice, 3) == 0; /* cores are not all that may be short */
    World *world =
        scarce ? world_new_scarce(dice.hosts, dice.cores, 1 + (guint)roll(&dice, 3), 4 + (guint)roll(&dice, 8), &options)
               : world_new(dice.hosts, dice.cores, &options);
    world->stopping = PICK(&dice, 0, 7, 130);
    world->again = TRUE;
    int pace = PICK(&dice, 5, 50, 200);
    g_autoptr(WeftFleet) follower = weft_fleet_new();
    for (guint i = 0; i < JOBS; i++) {
        g_autofree char *name = g_strdup_printf("j%u", i);
        Job job = random_job(&dice, name);
        world_go(world, world->now + roll(&dice, pace));
        world_ask(world, &job);
        if (roll(&dice, 25) == 0)
            withdraw_one(world, &dice);
        if (roll(&dice, 20) == 0)
            close_or_open(world, &dice, roll(&dice, 2));
        if (roll(&dice, 20) == 0)
            book_some(world, &dice);
        world_step(world);
        compare_foreseen(world, follower);
    }
    close_or_open(world, &dice, TRUE);
    world_step(world);
    world_go(world, G_MAXINT);
    for (guint i = 0; i < world->runs->len; i++) {
        const Run *run = world->runs->pdata[i];
        g_assert_cmpint(run->waits, ==, !fits_empty(world, &dice, run) && run->waits);
        g_assert_false(run->holds);
    }
    g_rand_free(dice.source);
    return world;
}

static void
test_random(gconstpointer data)
{
    guint from = GPOINTER_TO_UINT(data);
    for (guint seed = from; seed < from + 100; seed++) {
        g_test_message("seed %u", seed);
        g_autoptr(World) first = live(seed);
        g_autoptr(World) second = live(seed);
        g_assert_cmpstr(first->log->str, ==, second->log->str);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    const char *first = g_getenv("WEFT_QUEUE_SEED");
    guint seed = first ? (guint)g_ascii_strtoull(first, NULL, 10) : 0;
    for (guint end = seed + 1000; seed < end; seed += 100) {
        g_autofree char *name = g_strdup_printf("/queue-model/%u", seed);
        g_test_add_data_func(name, GUINT_TO_POINTER(seed), test_random);
    }
    return g_test_run();
}
