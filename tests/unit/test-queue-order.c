/* Who comes first, who is kept off, who gives way, and changes of mind: worked out by hand, as in test-queue.c. */
#include "queue-world.h"

#include <string.h>

static const Job done = { 0 };

/* --- order --- */

/* One who has more points takes what was promised to others, who keep their order behind it.
 *
 *      0   10  20  30  40
 * n00  aaaavvvvbbbbcccc
 */
static void
test_priority(void)
{
    g_autoptr(World) world = world_new(1, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 10 },
                         { "b", .at = 1, .nodes = 1, .wall = 10 },
                         { "c", .at = 2, .nodes = 1, .wall = 10 },
                         { "v", .at = 3, .nodes = 1, .wall = 10, .priority = 5 } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 10);
    world_ask_at(world, &jobs[3]);
    world_assert_when(world, "v", WEFT_WAIT_ROOM, 10);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 30);
    g_autoptr(GPtrArray) order = weft_queue_order(world->queue);
    g_assert_cmpuint(order->len, ==, 3);
    g_assert_cmpstr(order->pdata[0], ==, "v");
    g_assert_cmpstr(order->pdata[2], ==, "c");
    g_assert_cmpuint(weft_queue_length(world->queue), ==, 3);
    g_assert_cmpuint(world_wait(world, "b")->place, ==, 2);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b 20, c 30, v 10");
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
    g_autoptr(World) world = world_new(1, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = HOURS },
                         { "old", .at = 10 * MINUTES, .nodes = 1, .wall = HOURS },
                         { "v1", .at = 30 * MINUTES, .nodes = 1, .wall = HOURS, .priority = 3 },
                         { "v2", .at = 90 * MINUTES, .nodes = 1, .wall = HOURS, .priority = 3 },
                         { "v3", .at = 150 * MINUTES, .nodes = 1, .wall = HOURS, .priority = 3 },
                         { "v4", .at = 210 * MINUTES, .nodes = 1, .wall = HOURS, .priority = 3 } };
    for (guint i = 0; i < 5; i++)
        world_ask_at(world, &jobs[i]);
    g_assert_cmpfloat_with_epsilon(world_wait(world, "old")->points, 140.0 / 60, 1e-6);
    g_assert_cmpfloat_with_epsilon(world_wait(world, "v3")->points, 3, 1e-6);
    world_ask_at(world, &jobs[5]);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, old 14400, v1 3600, v2 7200, v3 10800, v4 18000");
}

/* v takes what b was promised. b finds a place that is no more later than v runs, and so c keeps its own; else b would have
 * taken that.
 *
 *      0   10  15  20  30
 * n00  aaaavvvvvvvvbbbb
 * n01  AAAAAAAAcccccccc
 */
static void
test_make_do(void)
{
    g_autoptr(World) world = world_new(2, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 10 },
                         { "a2", .at = 0, .nodes = 1, .wall = 15 },
                         { "b", .at = 1, .nodes = 1, .wall = 10 },
                         { "c", .at = 2, .nodes = 1, .wall = 10 },
                         { "v", .at = 3, .nodes = 1, .wall = 10, .priority = 5 } };
    for (guint i = 0; i < 4; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 10);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 15);
    world_ask_at(world, &jobs[4]);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 20);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 15);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, a2 0, b 20, c 15, v 10");
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
    world_assert_starts(world, "a1 0, a2 7200, a3 14400, a4 21600, b1 3600, b2 10800, b3 18000, b4 25200");
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
                         { "a", .at = 2, .nodes = 1, .wall = 10, .tenant = "a" } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    /* x has used 4 cores for 2 seconds, a 250 core seconds and b 1000, of 1258 in all; a third is due to each. */
    g_assert_cmpfloat_with_epsilon(world_wait(world, "a")->share, 100 * (1 - 3 * 250.0 / 1258), 0.6);
    g_assert_cmpfloat_with_epsilon(world_wait(world, "b")->share, -100, 1e-9);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "x 0, b 20, a 10");
}

/* --- bookings --- */

/* n00 is kept for u from 100 to 200, n01 for nobody from 300 to 400. y ends when the first one begins, and s when it ends; z
 * fits between the two, x nowhere before both are over. e has no end, and so never goes to hosts that are booked. (A column
 * is 50.)
 *
 *      0       100     200     300     400         550
 * n00  yyyyyyyyuuuu....zzzzzzzz        xxxxxxxxxxxxe
 * n01  yyyyyyyysssssssszzzzzzzz........xxxxxxxxxxxx
 */
static void
test_bookings(void)
{
    g_autoptr(World) world = world_new(2, 4, &world_in_turn);
    char *first[] = { (char *)"n00", NULL }, *second[] = { (char *)"n01", (char *)"gone", NULL };
    const WeftBooking bookings[] = {
        { "for-u", "u", world_time(100), world_time(200), first },
        { "work", NULL, world_time(300), world_time(400), second },
    };
    world_book(world, bookings, 2);
    const Job jobs[] = {
        { "x", .at = 0, .nodes = 2, .wall = 150 },
        { "y", .at = 0, .nodes = 2, .wall = 100 },
        { "u", .at = 100, .nodes = 1, .wall = 50, .tenant = "u" },
        { "z", .at = 100, .nodes = 2, .wall = 100 },
        { "e", .at = 100, .nodes = 1, .runs = 10 },
        { "s", .at = 101, .nodes = 1, .wall = 99 },
        done,
    };
    world_play(world, jobs);
    world_assert_starts(world, "x 400, y 0, u 100, z 200, e 550, s 101");
}

/* --- giving way --- */

/* What cheap1 to cheap3 hold is enough in many ways: first the one of least priority gives way, then the youngest, and whoever
 * is not needed then stays. cheap3 frees one host, cheap2 two: with cheap2 alone v has what it needs. */
static void
test_fewest_victims(void)
{
    g_autoptr(World) world = world_new(4, 4, &world_in_turn);
    const Job jobs[] = {
        { "cheap3", .at = 0, .nodes = 1, .wall = 500, .priority = -1, .preemptible = TRUE },
        { "cheap1", .at = 1, .nodes = 1, .wall = 500, .preemptible = TRUE },
        { "cheap2", .at = 2, .nodes = 2, .wall = 500, .preemptible = TRUE },
        { "v", .at = 3, .nodes = 2, .wall = 10 },
        done,
    };
    world_play(world, jobs);
    world_assert_starts(world, "cheap3 0, cheap1 1, cheap2 2, v 3");
    g_assert_cmpstr(world->log->str, ==, "cheap3+0 cheap1+1 cheap2+2 cheap2!3 cheap2-3 v+3 v-13 cheap3-500 cheap1-501 ");
}

/* It takes time to stop: meanwhile the room is v's, w (which could use it at once) gets another, and nobody else is stopped. */
static void
test_slow_victims(void)
{
    g_autoptr(World) world = world_new(3, 4, &world_in_turn);
    world->stopping = 90;
    const Job jobs[] = { { "p", .at = 0, .nodes = 1, .wall = 500, .preemptible = TRUE },
                         { "q", .at = 1, .nodes = 1, .wall = 500, .preemptible = TRUE },
                         { "r", .at = 2, .nodes = 1, .wall = 100 },
                         { "v", .at = 3, .nodes = 1, .wall = 200 },
                         { "w", .at = 4, .nodes = 1, .wall = 50, .preemptible = TRUE } };
    for (guint i = 0; i < 5; i++)
        world_ask_at(world, &jobs[i]);
    world_assert_when(world, "v", WEFT_WAIT_VICTIMS, 63);
    world_assert_when(world, "w", WEFT_WAIT_ROOM, 102);
    world_go(world, G_MAXINT);
    world_assert_starts(world, "p 0, q 1, r 2, v 93, w 102");
    g_assert_nonnull(strstr(world->log->str, "q!3 "));
    g_assert_null(strstr(world->log->str, "p!"));
}

/* Nobody is stopped for one of less priority, nor for one that could be stopped itself. */
static void
test_no_victims(void)
{
    g_autoptr(World) world = world_new(1, 4, &world_in_turn);
    const Job jobs[] = {
        { "p", .at = 0, .nodes = 1, .wall = 100, .preemptible = TRUE, .priority = 1 },
        { "low", .at = 1, .nodes = 1, .wall = 10 },
        { "soft", .at = 2, .nodes = 1, .wall = 10, .preemptible = TRUE, .priority = 1 },
        done,
    };
    world_play(world, jobs);
    world_assert_starts(world, "p 0, low 110, soft 100");
}

/* --- changes of mind --- */

/* Told again as it is, an ask keeps what it was promised; another one takes its turn anew. */
static void
test_put_again(void)
{
    g_autoptr(World) world = world_new(1, 4, &world_in_turn);
    const Job jobs[] = { { "a", .at = 0, .nodes = 1, .wall = 100 },
                         { "b", .at = 1, .nodes = 1, .wall = 100 },
                         { "c", .at = 2, .nodes = 1, .wall = 100 } };
    for (guint i = 0; i < 3; i++)
        world_ask_at(world, &jobs[i]);
    Run *c = world_run_of(world, "c");
    WeftAsk ask = { .key = "c",
                    .request = { .cluster = c->cluster, .counts = &c->job.nodes },
                    .since = world_time(2),
                    .walltime = 100 * G_USEC_PER_SEC };
    weft_queue_put(world->queue, &ask);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 200);
    ask.priority = c->job.priority = 4;
    weft_queue_put(world->queue, &ask);
    world_assert_when(world, "c", WEFT_WAIT_NEW, 0);
    world->cause = TRUE;
    world_step(world);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 100);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 200);
    world_withdraw(world, c);
    world_step(world);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 100);
    g_assert_null(world_wait(world, "c"));
}

/* A hold that is told to end earlier, or later, moves those that wait for it. */
static void
test_hold_again(void)
{
    g_autoptr(World) world = world_new(1, 4, &world_in_turn);
    world_ask_at(world, &(Job){ "a", .at = 0, .nodes = 1, .wall = 100 });
    world_ask_at(world, &(Job){ "b", .at = 1, .nodes = 1, .wall = 100 });
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
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 60);
    hold.end = world_time(200);
    weft_queue_hold(world->queue, &hold);
    world->cause = TRUE;
    world_step(world);
    world_assert_when(world, "b", WEFT_WAIT_ROOM, 200);
}

/* When a starts, b is withdrawn and d comes, while the queue is gone through. */
static void
come_and_go(World *world, const Run *started)
{
    if (strcmp(started->name, "a") != 0)
        return;
    world_withdraw(world, world_run_of(world, "b"));
    world_ask(world, &(Job){ "d", .nodes = 1, .wall = 10, .priority = 5 });
}

static void
test_callbacks(void)
{
    g_autoptr(World) world = world_new(1, 4, &world_in_turn);
    world->meddle = come_and_go;
    const Job jobs[] = { { "a", .nodes = 1, .wall = 10 }, { "b", .nodes = 1, .wall = 10 }, { "c", .nodes = 1, .wall = 10 } };
    for (guint i = 0; i < 3; i++)
        world_ask(world, &jobs[i]);
    world_step(world);
    world_assert_when(world, "d", WEFT_WAIT_ROOM, 10);
    world_assert_when(world, "c", WEFT_WAIT_ROOM, 20);
    g_assert_null(world_wait(world, "b"));
    world_go(world, G_MAXINT);
    world_assert_starts(world, "a 0, b -, c 20, d 10");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/queue-order/priority", test_priority);
    g_test_add_func("/queue-order/age", test_age);
    g_test_add_func("/queue-order/make-do", test_make_do);
    g_test_add_func("/queue-order/fair-share", test_fair_share);
    g_test_add_func("/queue-order/weights", test_weights);
    g_test_add_func("/queue-order/charge", test_charge);
    g_test_add_func("/queue-order/bookings", test_bookings);
    g_test_add_func("/queue-order/fewest-victims", test_fewest_victims);
    g_test_add_func("/queue-order/slow-victims", test_slow_victims);
    g_test_add_func("/queue-order/no-victims", test_no_victims);
    g_test_add_func("/queue-order/put-again", test_put_again);
    g_test_add_func("/queue-order/hold-again", test_hold_again);
    g_test_add_func("/queue-order/callbacks", test_callbacks);
    return g_test_run();
}
