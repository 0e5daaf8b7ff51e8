/* Schedules that were worked out by hand. In the pictures a row is a host, a column ten seconds, unless it is said otherwise.
 */
#include "queue-world.h"

#include <string.h>

static const WeftQueueOptions plain = { .priority = 1, .age = 1, .share = 0, .half_life = 0, .depth = 16 };
static const Job done = { 0 };

static void
assert_starts(const World *world, const char *expected)
{
    g_autofree char *starts = world_starts(world);
    g_assert_cmpstr(starts, ==, expected);
}

static void
assert_when(const World *world, const char *name, WeftWaitWhy why, int when)
{
    const WeftWait *wait = world_wait(world, name);
    g_assert_nonnull(wait);
    g_assert_cmpstr(weft_wait_words[wait->why], ==, weft_wait_words[why]);
    g_assert_cmpint(wait->when, ==, when ? world_time(when) : 0);
}

static void
ask_at(World *world, const Job *job)
{
    world_go(world, job->at);
    world_ask(world, job);
    world_step(world);
}

/* --- in turn --- */

/* Nobody says how long. b is next, and needs all: c would have room on n02 at 0, but who knows for how long.
 *
 *      0   10  20  30  40  50
 * n00  aaaaaaaa    bbbbcccc
 * n01  aaaaaaaaaaaabbbbcccc      (x has n01, and ends later)
 * n02              bbbb
 */
static void
test_in_turn(void)
{
    g_autoptr(World) world = world_new(3, 4, &plain);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 1, .runs = 20 }, { "x", .at = 0, .nodes = 1, .runs = 30 },
        { "b", .at = 5, .nodes = 3, .runs = 10 }, { "c", .at = 6, .nodes = 2, .runs = 10 },
        { "d", .at = 7, .nodes = 1, .runs = 10 }, done,
    };
    for (guint i = 0; i < 5; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 0);
    assert_when(world, "c", WEFT_WAIT_ROOM, 0);
    assert_when(world, "d", WEFT_WAIT_TURN, 0);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, x 0, b 30, c 40, d 40");
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
    g_autoptr(World) world = world_new(4, 4, &plain);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 2, .wall = 20 },
        { "b", .at = 1, .nodes = 4, .wall = 10 },
        { "d", .at = 2, .nodes = 1, .wall = 20 },
        { "c", .at = 3, .nodes = 1, .wall = 17 },
        done,
    };
    for (guint i = 0; i < 4; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    assert_when(world, "d", WEFT_WAIT_TURN, 30);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, b 20, d 30, c 3");
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
    g_autoptr(World) world = world_new(4, 4, &plain);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 2, .wall = 10 },
        { "b", .at = 1, .nodes = 3, .wall = 10 },
        { "c", .at = 2, .nodes = 4, .wall = 10 },
        { "d", .at = 3, .nodes = 1, .wall = 25 },
        done,
    };
    for (guint i = 0; i < 4; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 10);
    assert_when(world, "c", WEFT_WAIT_ROOM, 20);
    assert_when(world, "d", WEFT_WAIT_TURN, 30);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, b 10, c 20, d 30");
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
    WeftQueueOptions shallow = plain;
    shallow.depth = 1;
    g_autoptr(World) world = world_new(4, 4, &shallow);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 2, .wall = 10 },
        { "b", .at = 1, .nodes = 3, .wall = 10 },
        { "c", .at = 2, .nodes = 4, .wall = 10 },
        { "d", .at = 3, .nodes = 1, .wall = 25 },
        done,
    };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 10);
    assert_when(world, "c", WEFT_WAIT_ROOM, 0);
    ask_at(world, &jobs[3]);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, b 10, c 28, d 3");
}

/* A gap between two promises: d fits into it exactly, e is too long by a second.
 *
 *      0   10  20  30  40
 * n00  aaaaaaaabbbbccccEEEE
 * n01      dddd    cccc        (a2 until 10, b from 20 has n00 only)
 */
static void
test_gap(void)
{
    g_autoptr(World) world = world_new(2, 4, &plain);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 1, .wall = 20 },
        { "a2", .at = 0, .nodes = 1, .wall = 10 },
        { "b", .at = 1, .nodes = 2, .wall = 10 },
        { "c", .at = 2, .nodes = 2, .wall = 10 },
        { "e", .at = 3, .nodes = 1, .wall = 11 },
        { "d", .at = 4, .nodes = 1, .wall = 10 },
        done,
    };
    for (guint i = 0; i < 6; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    assert_when(world, "c", WEFT_WAIT_ROOM, 30);
    assert_when(world, "e", WEFT_WAIT_ROOM, 40);
    assert_when(world, "d", WEFT_WAIT_ROOM, 10);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, a2 0, b 20, c 30, e 40, d 10");
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
    g_autoptr(World) world = world_new(1, 4, &plain);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 1, .wall = 10, .cores = 2 },
        { "b", .at = 0, .nodes = 1, .wall = 20, .cores = 2 },
        { "d", .at = 1, .nodes = 2, .wall = 10, .cores = 2 },
        { "c", .at = 2, .nodes = 1, .wall = 10, .cores = 2 },
        done,
    };
    world_play(world, jobs);
    assert_starts(world, "a 0, b 0, d 20, c 10");
}

/* --- what does not go as planned --- */

/* a ends at 6 instead of 20: b starts then, and c moves up with it; nobody is later than was promised.
 *
 *      0 6 10  16  20
 * n00  aabbbbccccc
 * n01  aabbbbccccc
 */
static void
test_early_end(void)
{
    g_autoptr(World) world = world_new(2, 4, &plain);
    const Job jobs[] = { { "a", .at = 0, .nodes = 2, .wall = 20, .runs = 6 },
                         { "b", .at = 1, .nodes = 1, .wall = 10 },
                         { "c", .at = 2, .nodes = 2, .wall = 10 },
                         done };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    assert_when(world, "c", WEFT_WAIT_ROOM, 30);
    world_go(world, 7);
    assert_when(world, "c", WEFT_WAIT_ROOM, 16);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, b 6, c 16");
}

/* a does not end at 20 but at 150: what was promised moves on with it, a minute at a time, and c does not pass b. */
static void
test_overrun(void)
{
    g_autoptr(World) world = world_new(2, 4, &plain);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 20, .runs = 150 },
                         { "b", .at = 1, .nodes = 2, .wall = 100 },
                         { "c", .at = 2, .nodes = 2, .wall = 100 },
                         done };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    world_go(world, 21);
    assert_when(world, "b", WEFT_WAIT_ROOM, 80);
    assert_when(world, "c", WEFT_WAIT_ROOM, 180);
    world_go(world, 141);
    assert_when(world, "b", WEFT_WAIT_ROOM, 200);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, b 150, c 250");
}

static void
test_refused(void)
{
    g_autoptr(World) world = world_new(2, 4, &plain);
    world->refused = "b";
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 20 },
                         { "b", .at = 1, .nodes = 1, .wall = 100 },
                         { "c", .at = 2, .nodes = 1, .wall = 100 },
                         done };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_REFUSED, 0);
    world_go(world, 15);
    assert_when(world, "b", WEFT_WAIT_REFUSED, 0);
    world->refused = NULL;
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, b 20, c 2");
}

/* Five hosts of three: it does not hold the others back, and is thought of when hosts come. */
static void
test_never(void)
{
    g_autoptr(World) world = world_new(3, 4, &plain);
    const Job jobs[] = { { "huge", .at = 0, .nodes = 5, .wall = 10, .priority = 9 },
                         { "a", .at = 1, .nodes = 3, .wall = 100 },
                         { "b", .at = 2, .nodes = 3, .wall = 100 },
                         done };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "huge", WEFT_WAIT_NEVER, 0);
    assert_when(world, "b", WEFT_WAIT_ROOM, 101);
    g_assert_cmpuint(world_wait(world, "huge")->place, ==, 1);
    world_go(world, 50);
    world_add_host(world, "n03");
    world_add_host(world, "n04");
    world_doubt(world);
    world_step(world);
    assert_when(world, "huge", WEFT_WAIT_ROOM, 101);
    assert_when(world, "b", WEFT_WAIT_ROOM, 111);
    world_go(world, G_MAXINT);
    assert_starts(world, "huge 101, a 1, b 111");
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
    g_autoptr(World) world = world_new(2, 4, &plain);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 1, .runs = 40 },
        { "b", .at = 1, .nodes = 2, .wall = 10 },
        { "c", .at = 2, .nodes = 1, .runs = 10 },
        { "d", .at = 10, .nodes = 1, .wall = 10 },
        done,
    };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 0);
    assert_when(world, "c", WEFT_WAIT_TURN, 0);
    ask_at(world, &jobs[3]);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, b 40, c 50, d 10");
}

/* --- order --- */

/* One who has more points takes what was promised to others, who keep their order behind it.
 *
 *      0   10  20  30  40
 * n00  aaaavvvvbbbbcccc
 */
static void
test_priority(void)
{
    g_autoptr(World) world = world_new(1, 4, &plain);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 10 },
                         { "b", .at = 1, .nodes = 1, .wall = 10 },
                         { "c", .at = 2, .nodes = 1, .wall = 10 },
                         { "v", .at = 3, .nodes = 1, .wall = 10, .priority = 5 },
                         done };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "b", WEFT_WAIT_ROOM, 10);
    ask_at(world, &jobs[3]);
    assert_when(world, "v", WEFT_WAIT_ROOM, 10);
    assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    assert_when(world, "c", WEFT_WAIT_ROOM, 30);
    g_autoptr(GPtrArray) order = weft_queue_order(world->queue);
    g_assert_cmpuint(order->len, ==, 3);
    g_assert_cmpstr(order->pdata[0], ==, "v");
    g_assert_cmpstr(order->pdata[2], ==, "c");
    g_assert_cmpuint(weft_queue_length(world->queue), ==, 3);
    g_assert_cmpuint(world_wait(world, "b")->place, ==, 2);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, b 20, c 30, v 10");
}

/* A point for an hour, a point for a step of priority, and each takes an hour. Every hour somebody comes with priority 3: old
 * waits until those that come have waited three hours less than it has. v1 to v3 came at 0:30, 1:30 and 2:30, and pass it; v4
 * came at 3:30, and has not more points than old ever after.
 *
 *      0    1    2    3    4    5
 * n00  a    v1   v2   v3   old  v4      (hours)
 */
static void
test_age(void)
{
    g_autoptr(World) world = world_new(1, 4, &plain);
    const Job jobs[] = {
        { "a", .at = 0, .nodes = 1, .wall = HOURS },
        { "old", .at = 10 * MINUTES, .nodes = 1, .wall = HOURS },
        { "v1", .at = 30 * MINUTES, .nodes = 1, .wall = HOURS, .priority = 3 },
        { "v2", .at = 90 * MINUTES, .nodes = 1, .wall = HOURS, .priority = 3 },
        { "v3", .at = 150 * MINUTES, .nodes = 1, .wall = HOURS, .priority = 3 },
        { "v4", .at = 210 * MINUTES, .nodes = 1, .wall = HOURS, .priority = 3 },
        done,
    };
    for (guint i = 0; i < 5; i++)
        ask_at(world, &jobs[i]);
    g_assert_cmpfloat_with_epsilon(world_wait(world, "old")->points, 140.0 / 60, 1e-6);
    g_assert_cmpfloat_with_epsilon(world_wait(world, "v3")->points, 3, 1e-6);
    ask_at(world, &jobs[5]);
    world_go(world, G_MAXINT);
    assert_starts(world, "a 0, old 14400, v1 3600, v2 7200, v3 10800, v4 18000");
}

static const WeftQueueOptions sharing = {
    .priority = 1, .age = 1, .share = 100, .half_life = G_GINT64_CONSTANT(7) * 24 * 3600 * G_USEC_PER_SEC, .depth = 16
};

/* Both want more than there is. a asked for all of it first, and yet they take turns. */
static void
test_fair_share(void)
{
    g_autoptr(World) world = world_new(1, 4, &sharing);
    Job jobs[9] = { 0 };
    const char *names[] = { "a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4" };
    for (guint i = 0; i < 8; i++)
        jobs[i] = (Job){ names[i], .at = (int)i, .nodes = 1, .wall = HOURS, .tenant = i < 4 ? "a" : "b" };
    world_play(world, jobs);
    assert_starts(world, "a1 0, a2 7200, a3 14400, a4 21600, b1 3600, b2 10800, b3 18000, b4 25200");
}

/* a has three times the share of b: of eight hours it has six. After one hour each a has half of it all instead of three
 * quarters. */
static void
test_weights(void)
{
    g_autoptr(World) world = world_new(1, 4, &sharing);
    weft_queue_set_share(world->queue, "a", 3);
    Job jobs[13] = { 0 };
    const char *names[] = { "a1", "a2", "a3", "a4", "a5", "a6", "b1", "b2", "b3", "b4", "b5", "b6" };
    for (guint i = 0; i < 12; i++)
        jobs[i] = (Job){ names[i], .at = (int)i, .nodes = 1, .wall = HOURS, .tenant = i < 6 ? "a" : "b" };
    world_play(world, jobs);
    guint of_a = 0;
    for (guint i = 0; i < 6; i++)
        of_a += ((Run *)world->runs->pdata[i])->started < 8 * HOURS;
    g_assert_cmpuint(of_a, ==, 6);
}

/* What was used long ago counts less: a has used twice as much as b, but three half-lives before. */
static void
test_charge(void)
{
    g_autoptr(World) world = world_new(1, 4, &sharing);
    gint64 week = sharing.half_life;
    weft_queue_charge(world->queue, "a", 2000, world_time(0) - 3 * week);
    weft_queue_charge(world->queue, "b", 1000, world_time(0));
    const Job jobs[] = { { "x", .at = 0, .nodes = 1, .wall = 10, .tenant = "x" },
                         { "b", .at = 1, .nodes = 1, .wall = 10, .tenant = "b" },
                         { "a", .at = 2, .nodes = 1, .wall = 10, .tenant = "a" },
                         done };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    /* x has used 4 cores for 2 seconds, a 250 core seconds and b 1000, of 1258 in all; a third is due to each. */
    g_assert_cmpfloat_with_epsilon(world_wait(world, "a")->share, 100 * (1 - 3 * 250.0 / 1258), 0.6);
    g_assert_cmpfloat_with_epsilon(world_wait(world, "b")->share, -100, 1e-9);
    world_go(world, G_MAXINT);
    assert_starts(world, "x 0, b 20, a 10");
}

/* --- bookings --- */

/* n00 is kept for u from 100 to 200, n01 for nobody from 300 to 400.
 *
 *      0       100     200     300     400
 * n00  yyyyyyyyuuuu    xxxxxxxxxxxx          (in fifties)
 * n01  ............    xxxxxxxxxxxx …        x would reach into the second one: it starts at 400
 */
static void
test_bookings(void)
{
    g_autoptr(World) world = world_new(2, 4, &plain);
    char *first[] = { (char *)"n00", NULL }, *second[] = { (char *)"n01", (char *)"gone", NULL };
    const WeftBooking bookings[] = {
        { "for-u", "u", world_time(100), world_time(200), first },
        { "work", NULL, world_time(300), world_time(400), second },
    };
    world_book(world, bookings, 2);
    const Job jobs[] = {
        { "x", .at = 0, .nodes = 2, .wall = 150 },                 /* both, and longer than the 100 between the bookings */
        { "y", .at = 0, .nodes = 2, .wall = 100 },                 /* until the first one begins */
        { "u", .at = 100, .nodes = 1, .wall = 50, .tenant = "u" }, /* on what is kept for it */
        { "z", .at = 100, .nodes = 2, .wall = 100 },               /* between the two */
        { "e", .at = 100, .nodes = 1, .runs = 10 },                /* without end: n00 once u's time is over, if x were not */
        { "s", .at = 101, .nodes = 1, .wall = 99 },                /* on n01, before z */
        done,
    };
    world_play(world, jobs);
    assert_starts(world, "x 400, y 0, u 100, z 200, e 550, s 101");
}

/* --- giving way --- */

/* What cheap1 to cheap3 hold is enough in many ways: first the one of least priority gives way, then the youngest, and whoever
 * is not needed then stays. cheap3 frees one host, cheap2 two: with cheap2 alone v has what it needs. */
static void
test_fewest_victims(void)
{
    g_autoptr(World) world = world_new(4, 4, &plain);
    const Job jobs[] = {
        { "cheap3", .at = 0, .nodes = 1, .wall = 500, .priority = -1, .preemptible = TRUE },
        { "cheap1", .at = 1, .nodes = 1, .wall = 500, .preemptible = TRUE },
        { "cheap2", .at = 2, .nodes = 2, .wall = 500, .preemptible = TRUE },
        { "v", .at = 3, .nodes = 2, .wall = 10 },
        done,
    };
    world_play(world, jobs);
    assert_starts(world, "cheap3 0, cheap1 1, cheap2 2, v 3");
    g_assert_cmpstr(world->log->str, ==, "cheap3+0 cheap1+1 cheap2+2 cheap2!3 cheap2-3 v+3 v-13 cheap3-500 cheap1-501 ");
}

/* It takes time to stop: meanwhile the room is v's, w (which could use it at once) gets another, and nobody else is stopped. */
static void
test_slow_victims(void)
{
    g_autoptr(World) world = world_new(3, 4, &plain);
    world->stopping = 90;
    const Job jobs[] = {
        { "p", .at = 0, .nodes = 1, .wall = 500, .preemptible = TRUE },
        { "q", .at = 1, .nodes = 1, .wall = 500, .preemptible = TRUE },
        { "r", .at = 2, .nodes = 1, .wall = 100 },
        { "v", .at = 3, .nodes = 1, .wall = 200 },
        { "w", .at = 4, .nodes = 1, .wall = 50, .preemptible = TRUE },
        done,
    };
    for (guint i = 0; i < 5; i++)
        ask_at(world, &jobs[i]);
    assert_when(world, "v", WEFT_WAIT_VICTIMS, 63);
    assert_when(world, "w", WEFT_WAIT_ROOM, 102);
    world_go(world, G_MAXINT);
    assert_starts(world, "p 0, q 1, r 2, v 93, w 102");
    g_assert_nonnull(strstr(world->log->str, "q!3 "));
    g_assert_null(strstr(world->log->str, "p!"));
}

/* Nobody is stopped for one of less priority, nor for one that could be stopped itself. */
static void
test_no_victims(void)
{
    g_autoptr(World) world = world_new(1, 4, &plain);
    const Job jobs[] = {
        { "p", .at = 0, .nodes = 1, .wall = 100, .preemptible = TRUE, .priority = 1 },
        { "low", .at = 1, .nodes = 1, .wall = 10 },
        { "soft", .at = 2, .nodes = 1, .wall = 10, .preemptible = TRUE, .priority = 1 },
        done,
    };
    world_play(world, jobs);
    assert_starts(world, "p 0, low 110, soft 100");
}

/* --- changes of mind --- */

/* Told again as it is, an ask keeps what it was promised; another one takes its turn anew. */
static void
test_put_again(void)
{
    g_autoptr(World) world = world_new(1, 4, &plain);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 100 },
                         { "b", .at = 1, .nodes = 1, .wall = 100 },
                         { "c", .at = 2, .nodes = 1, .wall = 100 },
                         done };
    for (guint i = 0; i < 3; i++)
        ask_at(world, &jobs[i]);
    Run *c = world_run_of(world, "c");
    WeftAsk ask = { .key = "c",
                    .request = { .cluster = c->cluster, .counts = &c->job.nodes },
                    .since = world_time(2),
                    .walltime = 100 * G_USEC_PER_SEC };
    weft_queue_put(world->queue, &ask);
    assert_when(world, "c", WEFT_WAIT_ROOM, 200);
    ask.priority = c->job.priority = 4;
    weft_queue_put(world->queue, &ask);
    assert_when(world, "c", WEFT_WAIT_NEW, 0);
    world->cause = TRUE;
    world_step(world);
    assert_when(world, "c", WEFT_WAIT_ROOM, 100);
    assert_when(world, "b", WEFT_WAIT_ROOM, 200);
    world_withdraw(world, c);
    world_step(world);
    assert_when(world, "b", WEFT_WAIT_ROOM, 100);
    g_assert_null(world_wait(world, "c"));
}

/* A hold that is told to end earlier, or later, moves those that wait for it. */
static void
test_hold_again(void)
{
    g_autoptr(World) world = world_new(1, 4, &plain);
    ask_at(world, &(Job){ "a", .at = 0, .nodes = 1, .wall = 100 });
    ask_at(world, &(Job){ "b", .at = 1, .nodes = 1, .wall = 100 });
    Run *a = world_run_of(world, "a");
    WeftHold hold = { .key = "a",
                      .cluster = a->cluster->id,
                      .tenant = "t",
                      .since = world_time(0),
                      .end = world_time(60),
                      .seats = (const WeftSeat *)a->seats->data,
                      .n = a->seats->len };
    weft_queue_hold(world->queue, &hold);
    world_step(world);
    assert_when(world, "b", WEFT_WAIT_ROOM, 60);
    hold.end = world_time(200);
    weft_queue_hold(world->queue, &hold);
    world->cause = TRUE;
    world_step(world);
    assert_when(world, "b", WEFT_WAIT_ROOM, 200);
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
    g_test_add_func("/queue/early-end", test_early_end);
    g_test_add_func("/queue/overrun", test_overrun);
    g_test_add_func("/queue/refused", test_refused);
    g_test_add_func("/queue/never", test_never);
    g_test_add_func("/queue/endless", test_endless);
    g_test_add_func("/queue/priority", test_priority);
    g_test_add_func("/queue/age", test_age);
    g_test_add_func("/queue/fair-share", test_fair_share);
    g_test_add_func("/queue/weights", test_weights);
    g_test_add_func("/queue/charge", test_charge);
    g_test_add_func("/queue/bookings", test_bookings);
    g_test_add_func("/queue/fewest-victims", test_fewest_victims);
    g_test_add_func("/queue/slow-victims", test_slow_victims);
    g_test_add_func("/queue/no-victims", test_no_victims);
    g_test_add_func("/queue/put-again", test_put_again);
    g_test_add_func("/queue/hold-again", test_hold_again);
    return g_test_run();
}
