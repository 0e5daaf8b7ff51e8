/* Schedules that were worked out by hand. In the pictures a row is a host, a column ten seconds, unless it is said otherwise.
 */
#include "queue-world.h"

static const Job done = { 0 };

/* --- in turn --- */

/* Nobody says how long. b is next, and needs all hosts: d would have room on n02, but who knows for how long.
 *
 *      0   10  20  30  40  50
 * n00  aaaaaaaa    bbbbcccc
 * n01  xxxxxxxxxxxxbbbbcccc
 * n02              bbbbdddd
 */
static void
test_in_turn(void)
{
    g_autoptr(World) world = world_new(3, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .runs = 20 },
                         { "x", .at = 0, .nodes = 1, .runs = 30 },
                         { "b", .at = 5, .nodes = 3, .runs = 10 },
                         { "c", .at = 6, .nodes = 2, .runs = 10 },
                         { "d", .at = 7, .nodes = 1, .runs = 10 } };
    for (guint i = 0; i < 5; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 0);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 0);
    world_assert_when(world, "d", WEFT_WAIT_TURN, 0);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, x 0, b 30, c 40, d 40");
}

/* --- backfill --- */

/* b needs all and is next. c ends before b's time and goes first; d would not, and follows.
 *
 *      0   10  20  30
 * n00  aaaaaaaabbbb
 * n01  aaaaaaaabbbb
 * n02  ccccccccbbbb
 * n03          bbbbdddddddd
 */
static void
test_backfill(void)
{
    g_autoptr(World) world = world_new(4, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 2, .wall = 20 },
                         { "b", .at = 1, .nodes = 4, .wall = 10 },
                         { "d", .at = 2, .nodes = 1, .wall = 20 },
                         { "c", .at = 3, .nodes = 1, .wall = 17 } };
    for (guint i = 0; i < 4; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    world_assert_when(world, "d", WEFT_WAIT_TURN, 30);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 20, d 30, c 3");
}

/* EASY keeps a place for b alone. d would start at 3 on n03, which b leaves free, and make c wait until 28; here c has a
 * promise too.
 *
 *      0   10  20  30  40  50
 * n00  aaaabbbbccccdddddddddd
 * n01  aaaabbbbcccc
 * n02      bbbbcccc
 * n03          cccc
 */
static void
test_conservative(void)
{
    g_autoptr(World) world = world_new(4, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 2, .wall = 10 },
                         { "b", .at = 1, .nodes = 3, .wall = 10 },
                         { "c", .at = 2, .nodes = 4, .wall = 10 },
                         { "d", .at = 3, .nodes = 1, .wall = 25 } };
    for (guint i = 0; i < 4; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 10);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 20);
    world_assert_when(world, "d", WEFT_WAIT_TURN, 30);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 10, c 20, d 30");
}

/* The same, but only the first one is promised anything: then it is as with EASY.
 *
 *      0   10  20  30
 * n00  aaaabbbb    cccc
 * n01  aaaabbbb    cccc
 * n02      bbbb    cccc
 * n03   dddddddddd cccc
 */
static void
test_depth(void)
{
    WeftQueueOptions shallow = world_in_turn;
    shallow.depth = 1;
    g_autoptr(World) world = world_new(4, 4, &shallow);
    const Job jobs[] = { { "a", .at = 0, .nodes = 2, .wall = 10 },
                         { "b", .at = 1, .nodes = 3, .wall = 10 },
                         { "c", .at = 2, .nodes = 4, .wall = 10 },
                         { "d", .at = 3, .nodes = 1, .wall = 25 } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 10);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 0);
    world_ask_at(world, &jobs[3]);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 10, c 28, d 3");
}

/* A gap before promises, on n01 from 10 to 20: d fits into it exactly, e is too long by a second. A is a2.
 *
 *      0   10  20  30  40  50
 * n00  aaaaaaaabbbbcccceeee
 * n01  AAAAddddbbbbcccc
 */
static void
test_gap(void)
{
    g_autoptr(World) world = world_new(2, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 20 }, { "a2", .at = 0, .nodes = 1, .wall = 10 },
                         { "b", .at = 1, .nodes = 2, .wall = 10 }, { "c", .at = 2, .nodes = 2, .wall = 10 },
                         { "e", .at = 3, .nodes = 1, .wall = 11 }, { "d", .at = 4, .nodes = 1, .wall = 10 } };
    for (guint i = 0; i < 6; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 30);
    world_assert_when(world, "e", WEFT_WAIT_ROOM, 40);
    world_assert_when(world, "d", WEFT_WAIT_ROOM, 10);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, a2 0, b 20, c 30, e 40, d 10");
}

/* Two of four cores each: nodes of different jobs share hosts, in the plan as well.
 *
 *            0   10  20  30
 * n00 0,1    aaaaccccdddd
 * n00 2,3    bbbbbbbbdddd
 */
static void
test_shared_host(void)
{
    g_autoptr(World) world = world_new(1, 4, &world_in_turn);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 1, .wall = 10, .cores = 2 },
        { "b", .at = 0, .nodes = 1, .wall = 20, .cores = 2 },
        { "d", .at = 1, .nodes = 2, .wall = 10, .cores = 2 },
        { "c", .at = 2, .nodes = 1, .wall = 10, .cores = 2 },
        done,
    };
    world_play(world, jobs);
    world_assert_starts(world, "a 0, b 0, d 20, c 10");
}

/* b takes 1 of 3 units of memory from 10 to 110, c 2 until 30, then d 2. When b's time comes, what c and d are to have one
 * after the other looks as if it left none for b; but b was promised its place, and that is free.
 *
 *              0   10  20  30  40  50
 * n00 core 0   aaaabbbbbbbbbbbbbbbb …
 * n00 core 1   aaaaccccccccdddddddd
 */
static void
test_as_promised(void)
{
    g_autoptr(World) world = world_new_scarce(1, 2, 0, 3, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 10 },
                         { "b", .at = 1, .nodes = 1, .wall = 100, .cores = 1, .memory = 1 },
                         { "c", .at = 2, .nodes = 1, .wall = 20, .cores = 1, .memory = 2 },
                         { "d", .at = 3, .nodes = 1, .wall = 20, .cores = 1, .memory = 2 } };
    for (guint i = 0; i < 4; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 10);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 10);
    world_assert_when(world, "d", WEFT_WAIT_ROOM, 30);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 10, c 10, d 30");
}

/* --- what does not go as planned --- */

/* a ends at 6 instead of 20: b starts then, and c moves up; nobody is later than was promised.
 *
 *      0 6   16  26
 * n00  aabbbbcccc
 * n01  aa    cccc
 */
static void
test_early_end(void)
{
    g_autoptr(World) world = world_new(2, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 2, .wall = 20, .runs = 6 },
                         { "b", .at = 1, .nodes = 1, .wall = 10 },
                         { "c", .at = 2, .nodes = 2, .wall = 10 } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 30);
    world_go(world, 7);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 16);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 6, c 16");
}

/* a does not end at 20 but at 150: what was promised moves on with it, a minute at a time, and c does not pass b. */
static void
test_overrun(void)
{
    g_autoptr(World) world = world_new(2, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 20, .runs = 150 },
                         { "b", .at = 1, .nodes = 2, .wall = 100 },
                         { "c", .at = 2, .nodes = 2, .wall = 100 } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    world_go(world, 21);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 80);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 180);
    world_go(world, 141);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 200);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 150, c 250");
}

static void
test_refused(void)
{
    g_autoptr(World) world = world_new(2, 4, &world_in_turn);
    world->refused = "b";
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 20 },
                         { "b", .at = 1, .nodes = 1, .wall = 100 },
                         { "c", .at = 2, .nodes = 1, .wall = 100 } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_REFUSED, 0);
    world_go(world, 15);
    world_assert_when(world, "b", WEFT_WAIT_REFUSED, 0);
    world->refused = NULL;
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 20, c 2");
}

/* Five hosts of three: it does not hold the others back, and is thought of when hosts come. */
static void
test_never(void)
{
    g_autoptr(World) world = world_new(3, 4, &world_in_turn);
    const Job jobs[] = { { "huge", .at = 0, .nodes = 5, .wall = 10, .priority = 9 },
                         { "a", .at = 1, .nodes = 3, .wall = 100 },
                         { "b", .at = 2, .nodes = 3, .wall = 100 } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "huge", WEFT_WAIT_NEVER, 0);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 101);
    g_assert_cmpuint(world_wait(world, "huge")->place, ==, 1);
    world_go(world, 50);
    world_add_host(world, "n03");
    world_add_host(world, "n04");
    world_doubt(world);
    world_step(world);
    world_assert_when(world, "huge", WEFT_WAIT_ROOM, 101);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 111);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "huge 101, a 1, b 111");
}

/* One that has no end holds n00: who needs both hosts waits, nobody knows how long, and yet is passed only by those that end.
 *
 *      0   10  20  30  40
 * n00  aaaaaaaaaaaaaaaabbbb
 * n01      dddd        bbbb    (c has no end, and would be in b's way)
 */
static void
test_endless(void)
{
    g_autoptr(World) world = world_new(2, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .runs = 40 },
                         { "b", .at = 1, .nodes = 2, .wall = 10 },
                         { "c", .at = 2, .nodes = 1, .runs = 10 },
                         { "d", .at = 10, .nodes = 1, .wall = 10 } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 0);
    world_assert_when(world, "c", WEFT_WAIT_TURN, 0);
    world_ask_at(world, &jobs[3]);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 40, c 50, d 10");
}

/* --- ranks --- */

static WeftPlacement
foresee(World *world, const char *name, int when)
{
    const Run *run = world_run_of(world, name);
    WeftAsk ask = { .key = "another",
                    .request = { .cluster = run->cluster, .counts = &run->job.nodes },
                    .walltime = run->job.wall * (gint64)G_USEC_PER_SEC };
    WeftPlacement placement;
    gint64 found;
    g_assert_true(weft_queue_foresee(world->queue, &ask, world_time(world->now), &placement, &found));
    g_assert_cmpint(found, ==, world_time(when));
    return placement;
}

/* They are mapped when it starts, which the world sees to: as promised, or where it found room. Promises, which are made again
 * and again, do without. */
static void
test_ranks(void)
{
    g_autoptr(World) world = world_new(4, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 8, .wall = 20, .cores = 1, .pattern = "ring" },
                         { "b", .at = 1, .nodes = 16, .wall = 10, .cores = 1, .pattern = "stencil2d" },
                         { "c", .at = 2, .nodes = 16, .wall = 10, .cores = 1, .pattern = "ring" } };
    world_ask_at(world, &jobs[0]);
    g_assert_cmpint(foresee(world, "a", 0).between, >=, 0);
    world_ask_at(world, &jobs[1]);
    world_ask_at(world, &jobs[2]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 30);
    g_assert_cmpint(foresee(world, "b", 40).between, ==, -1);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 20, c 30");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/queue/in-turn", test_in_turn);
    g_test_add_func("/queue/backfill", test_backfill);
    g_test_add_func("/queue/conservative", test_conservative);
    g_test_add_func("/queue/depth", test_depth);
    g_test_add_func("/queue/gap", test_gap);
    g_test_add_func("/queue/shared-host", test_shared_host);
    g_test_add_func("/queue/as-promised", test_as_promised);
    g_test_add_func("/queue/early-end", test_early_end);
    g_test_add_func("/queue/overrun", test_overrun);
    g_test_add_func("/queue/refused", test_refused);
    g_test_add_func("/queue/never", test_never);
    g_test_add_func("/queue/endless", test_endless);
    g_test_add_func("/queue/ranks", test_ranks);
    return g_test_run();
}
