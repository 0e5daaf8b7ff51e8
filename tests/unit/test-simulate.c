#include "dice.h"
#include "errors.h"
#include "figures.h"
#include "generate.h"
#include "simulation.h"
#include "swf.h"
#include "timeline.h"

#include <string.h>

static WeftLoad *
parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    WeftLoad *load = weft_swf_parse(text, strlen(text), &error);
    g_assert_no_error(error);
    return load;
}

/* --- time --- */

static void
test_timeline(void)
{
    WeftDice dice;
    WeftTimeline timeline;
    weft_dice_init(&dice, 5);
    weft_timeline_init(&timeline);
    for (guint i = 0; i < 1000; i++)
        weft_timeline_push(&timeline, &(WeftMoment){ (gint64)(weft_dice_next(&dice) % 100), i, 0 });
    WeftMoment last = { -1 };
    for (guint i = 0; i < 1000; i++) {
        WeftMoment first = *weft_timeline_first(&timeline);
        g_assert_true(first.time > last.time || (first.time == last.time && first.job > last.job));
        last = first;
        weft_timeline_pop(&timeline);
    }
    g_assert_null(weft_timeline_first(&timeline));
    weft_timeline_clear(&timeline);
}

static void
test_meter(void)
{
    WeftMeter m;
    weft_meter_init(&m, 1000);
    weft_meter_add(&m, WEFT_METER_BUSY, 4);
    weft_meter_advance(&m, 1000 + 3 * G_USEC_PER_SEC / 2);
    weft_meter_add(&m, WEFT_METER_BUSY, -3);
    weft_meter_add(&m, WEFT_METER_WAITING, 9);
    weft_meter_add(&m, WEFT_METER_WAITING, -8);
    weft_meter_advance(&m, 1000 + 4 * G_USEC_PER_SEC);
    g_assert_cmpfloat(m.sum[WEFT_METER_BUSY], ==, 8.5);
    g_assert_cmpfloat(m.highest[WEFT_METER_WAITING], ==, 1); /* 9 lasted no time */
    g_assert_cmpuint(m.n_steps, ==, 4);
    g_assert_cmpfloat(m.steps[WEFT_METER_BUSY][0], ==, 4);
    g_assert_cmpfloat(m.steps[WEFT_METER_BUSY][1], ==, 2.5);
    weft_meter_advance(&m, 1000 + 2000 * G_USEC_PER_SEC);
    g_assert_cmpint(m.step, ==, 4 * G_USEC_PER_SEC);
    g_assert_cmpuint(m.n_steps, ==, 500);
    g_assert_cmpfloat(m.steps[WEFT_METER_BUSY][0], ==, 8.5);
    double sum = 0;
    for (guint i = 0; i < m.n_steps; i++)
        sum += m.steps[WEFT_METER_BUSY][i];
    g_assert_cmpfloat(sum, ==, m.sum[WEFT_METER_BUSY]);
    g_assert_cmpfloat(weft_meter_step_length(&m, 499), ==, 4);
    weft_meter_advance(&m, 1000 + 2001 * G_USEC_PER_SEC);
    g_assert_cmpfloat(weft_meter_step_length(&m, 500), ==, 1);
}

/* --- sites --- */

static void
test_site_tree(void)
{
    WeftSiteOptions options = { .hosts = 10,
                                .cores = 5,
                                .sockets = 2,
                                .memory = 20ULL << 30,
                                .vfs = 5,
                                .gpus = 3,
                                .leaf_hosts = 4,
                                .levels = 2,
                                .radix = 16 };
    g_autoptr(WeftSite) site = weft_site_new(&options);
    g_assert_cmpuint(site->leaves, ==, 3);
    g_assert_cmpuint(weft_fleet_size(site->fleet), ==, 10);
    g_assert_cmpuint(weft_site_cores(site), ==, 50);
    g_assert_cmpstr(weft_fleet_leaf(site->fleet, "h4"), ==, "leaf1");
    g_assert_cmpstr(weft_fleet_leaf(site->fleet, "h10"), ==, "leaf3");
    const WeftHost *host = weft_fleet_host(site->fleet, "h1");
    g_assert_cmpuint(host->cores->len, ==, 5);
    g_assert_cmpuint(g_array_index(host->cores, WeftCore, 2).numa, ==, 0);
    g_assert_cmpuint(g_array_index(host->cores, WeftCore, 3).numa, ==, 1);
    g_assert_cmpuint(g_array_index(host->numa, WeftNuma, 1).pages[0].count, ==, 2 * 2048); /* 4 GiB for each of two cores */
    g_assert_cmpuint(((const WeftGpu *)host->gpus->pdata[2])->numa, ==, 1);
    options.levels = 1;
    g_autoptr(WeftSite) flat = weft_site_new(&options);
    g_assert_cmpuint(flat->leaves, ==, 1);
}

/* The hops of a placement: two nodes on hosts that are the only ones. */
static guint
hops_of(guint hosts, guint levels, guint radix)
{
    WeftSiteOptions options = { .hosts = hosts,
                                .cores = 1,
                                .sockets = 1,
                                .memory = 1ULL << 30,
                                .vfs = 1,
                                .leaf_hosts = 1,
                                .levels = levels,
                                .radix = radix };
    g_autoptr(WeftSite) site = weft_site_new(&options);
    json_auto_t *spec = json_pack("{s:s, s:i, s:s}", "name", "all", "count", (int)hosts, "memory", "1G");
    g_autoptr(WeftCluster) cluster = weft_cluster_from_spec(spec, NULL);
    WeftPlaceRequest request = { .cluster = cluster, .counts = &hosts };
    WeftPlacement placement;
    g_assert_true(weft_place(site->fleet, &request, &placement));
    return placement.hops;
}

static void
test_site_distances(void)
{
    g_assert_cmpuint(hops_of(1, 2, 2), ==, 0);
    g_assert_cmpuint(hops_of(9, 2, 2), ==, 2);
    g_assert_cmpuint(hops_of(2, 4, 2), ==, 2);
    g_assert_cmpuint(hops_of(3, 4, 2), ==, 4);
    g_assert_cmpuint(hops_of(4, 4, 2), ==, 4);
    g_assert_cmpuint(hops_of(5, 4, 2), ==, 6);
    g_assert_cmpuint(hops_of(9, 4, 2), ==, 6); /* the spines join all */
}

static void
test_site_map(void)
{
    static const char text[] = "Switch 4 \"S-1\" # \"leaf1\"\n[1] \"H-1\"[1]\n[2] \"H-3\"[1]\n[3] \"S-2\"[3]\n\n"
                               "Switch 4 \"S-2\" # \"leaf2\"\n[1] \"H-2\"[1]\n[3] \"S-1\"[3]\n\n"
                               "Ca 1 \"H-1\" # \"n1 mlx5_0\"\n[1] \"S-1\"[1]\n\n"
                               "Ca 1 \"H-2\" # \"n1 mlx5_1\"\n[1] \"S-2\"[1]\n\n"
                               "Ca 1 \"H-3\" # \"MT4099 ConnectX-3 Mellanox Technologies\"\n[1] \"S-1\"[2]\n\n"
                               "Ca 1 \"H-4\" # \"n9 mlx5_0\"\n";
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFabricMap) map = weft_fabric_map_from_ibnetdiscover(text, &error);
    g_assert_no_error(error);
    WeftSiteOptions options = { .cores = 2, .sockets = 1, .memory = 2ULL << 30, .vfs = 2 };
    g_autoptr(WeftSite) site = weft_site_from_map(&options, map, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(site->options.hosts, ==, 2); /* n9 hangs on nothing */
    g_assert_cmpuint(site->leaves, ==, 1);
    g_assert_cmpuint(weft_fleet_host(site->fleet, "n1")->hcas->len, ==, 2);
    g_assert_cmpstr(weft_fleet_leaf(site->fleet, "n1"), ==, "leaf1");
    g_autoptr(WeftFabricMap) empty = weft_fabric_map_from_ibnetdiscover("Ca 1 \"H-4\" # \"n9 mlx5_0\"\n", &error);
    g_assert_no_error(error);
    g_assert_null(weft_site_from_map(&options, empty, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
}

/* --- simulations --- */

/* Two hosts of four cores, each on a leaf of its own. */
static const WeftSiteOptions pair = {
    .hosts = 2, .cores = 4, .sockets = 1, .memory = 16ULL << 30, .vfs = 4, .leaf_hosts = 1, .levels = 2, .radix = 2
};

static WeftSimulateOptions
in_order(guint cores_per_node)
{
    WeftSimulateOptions options = { .queue = weft_queue_defaults, .cores_per_node = cores_per_node };
    options.queue.share = options.queue.priority = 0;
    options.queue.depth = 1000;
    return options;
}

static WeftSimulation *
simulate(const WeftSiteOptions *site_options, const WeftLoad *load, const WeftSimulateOptions *options)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftSite) site = weft_site_new(site_options);
    WeftSimulation *result = weft_simulate(site, load, options, &error);
    g_assert_no_error(error);
    guint64 unused = 0;
    weft_fleet_cores(site->fleet, &unused);
    g_assert_cmpuint(unused, ==, weft_site_cores(site)); /* nothing is left behind */
    return result;
}

static WeftSimulation *
replay(const WeftSiteOptions *site, const char *text)
{
    g_autoptr(WeftLoad) load = parse(text);
    WeftSimulateOptions options = in_order(site->cores);
    return simulate(site, load, &options);
}

static void
assert_near(double value, double expected)
{
    g_assert_cmpfloat_with_epsilon(value, expected, 1e-9);
}

static void
assert_spread(const WeftSpread *s, double mean, double median, double p95, double max)
{
    assert_near(s->mean, mean);
    assert_near(s->median, median);
    assert_near(s->p95, p95);
    assert_near(s->max, max);
}

/* The first has one host until 100, the second wants both and is told 100, the third fits in before. */
static void
test_backfill(void)
{
    g_autoptr(WeftSimulation) s = replay(&pair, "1 0 -1 100 -1 -1 -1 4 100 -1 1 1 1 -1 1 1 -1 -1\n"
                                                "2 10 -1 50 -1 -1 -1 8 60 -1 1 2 1 -1 1 1 -1 -1\n"
                                                "3 20 -1 30 -1 -1 -1 4 40 -1 1 3 1 -1 1 1 -1 -1\n");
    g_assert_cmpuint(s->jobs, ==, 3);
    g_assert_cmpuint(s->started, ==, 3);
    g_assert_cmpuint(s->ended, ==, 3);
    g_assert_cmpuint(s->impossible + s->waiting + s->cut + s->preempted, ==, 0);
    g_assert_cmpuint(s->backfilled, ==, 1);
    g_assert_cmpuint(s->promised, ==, 1);
    g_assert_cmpuint(s->late, ==, 0);
    g_assert_cmpint(s->fed, ==, 20 * G_USEC_PER_SEC);
    g_assert_cmpint(s->span, ==, 150 * G_USEC_PER_SEC);
    assert_near(s->offered, (400.0 + 400 + 120) / (20 * 8));
    assert_near(s->busy, (400.0 + 400 + 120) / (150 * 8));
    assert_near(s->busy_fed, 80.0 / (20 * 8));
    assert_near(s->stranded, 0);
    assert_near(s->queue, 90.0 / 150);
    assert_near(s->queue_max, 1);
    assert_spread(&s->wait, 30, 0, 90, 90);
    assert_spread(&s->bounded_slowdown, (1 + 140.0 / 50 + 1) / 3, 1, 2.8, 2.8);
    assert_spread(&s->leaves, 4.0 / 3, 1, 2, 2);
    assert_spread(&s->detour, 1, 1, 1, 1);
    g_assert_cmpuint(s->nodes, ==, 4);
    g_assert_cmpuint(s->whole, ==, 4);
    g_assert_cmpuint(s->split, ==, 0);
}

/* The third would end after 100, when the second was told that it starts: it waits for it. */
static void
test_backfill_delays_nobody(void)
{
    g_autoptr(WeftSimulation) s = replay(&pair, "1 0 -1 100 -1 -1 -1 4 100 -1 1 1 1 -1 1 1 -1 -1\n"
                                                "2 10 -1 50 -1 -1 -1 8 60 -1 1 2 1 -1 1 1 -1 -1\n"
                                                "3 20 -1 30 -1 -1 -1 4 90 -1 1 3 1 -1 1 1 -1 -1\n");
    g_assert_cmpuint(s->backfilled, ==, 0);
    g_assert_cmpuint(s->promised, ==, 2);
    g_assert_cmpuint(s->late, ==, 0);
    g_assert_cmpint(s->span, ==, 180 * G_USEC_PER_SEC);
    assert_spread(&s->wait, (0.0 + 90 + 130) / 3, 90, 130, 130);
    assert_near(s->queue, (90.0 + 130) / 180);
    assert_near(s->queue_max, 2);
}

/* Two cores until 10 and one until 5 of four; nothing until 20; then all four until 30. */
static void
test_fragmentation(void)
{
    WeftSiteOptions one = pair;
    one.hosts = 1;
    g_autoptr(WeftSimulation) s = replay(&one, "1 0 -1 10 -1 -1 -1 2 10 -1 1 1 1 -1 1 1 -1 -1\n"
                                               "2 0 -1 5 -1 -1 -1 1 10 -1 1 1 1 -1 1 1 -1 -1\n"
                                               "3 20 -1 10 -1 -1 -1 4 10 -1 1 1 1 -1 1 1 -1 -1\n");
    assert_near(s->busy, (20.0 + 5 + 40) / (30 * 4));
    assert_near(s->stranded, (5.0 * 1 + 5 * 2) / (5 * 1 + 5 * 2 + 10 * 4));
    json_auto_t *json = weft_simulation_to_json(s);
    json_t *series = json_object_get(json, "series");
    g_assert_cmpuint(json_array_size(json_object_get(series, "utilisation")), ==, 30);
    assert_near(json_real_value(json_array_get(json_object_get(series, "utilisation"), 0)), 0.75);
    assert_near(json_real_value(json_array_get(json_object_get(series, "fragmentation"), 7)), 1);
    assert_near(json_real_value(json_array_get(json_object_get(series, "fragmentation"), 15)), 0);
}

/* A walltime ends a job; a run of no time is one; a job that is too large is not put into the queue. */
static void
test_odd_jobs(void)
{
    g_autoptr(WeftSimulation) s = replay(&pair, "1 0 -1 100 -1 -1 -1 8 40 -1 1 1 1 -1 1 1 -1 -1\n"
                                                "2 0 -1 0 -1 -1 -1 8 10 -1 1 1 1 -1 1 1 -1 -1\n"
                                                "3 0 -1 5 -1 -1 -1 9 10 -1 1 1 1 -1 1 1 -1 -1\n"
                                                "4 0 -1 5 -1 -1 -1 99999999 10 -1 1 1 1 -1 1 1 -1 -1\n"
                                                "5 40 -1 2.5 -1 -1 -1 3 10 -1 1 1 1 -1 1 1 -1 -1\n");
    g_assert_cmpuint(s->jobs, ==, 5);
    g_assert_cmpuint(s->impossible, ==, 2);
    g_assert_cmpuint(s->ended, ==, 3);
    g_assert_cmpuint(s->cut, ==, 1);
    g_assert_cmpint(s->span, ==, 42500000);
    assert_near(s->busy, (40.0 * 8 + 2.5 * 3) / (42.5 * 8));
    assert_spread(&s->wait, 40.0 / 3, 0, 40, 40);
    assert_spread(&s->bounded_slowdown, (1 + 4 + 1) / 3.0, 1, 4, 4);
}

/* Six processors are two nodes of three, and not four and two. */
static void
test_nodes(void)
{
    g_autoptr(WeftLoad) load = parse("1 0 -1 10 -1 -1 -1 6 10 -1 1 1 1 -1 1 1 -1 -1\n"
                                     "2 20 -1 10 -1 -1 -1 5 10 -1 1 1 1 -1 1 1 -1 -1\n");
    WeftSimulateOptions options = in_order(2);
    WeftSiteOptions one = pair;
    one.hosts = 1;
    g_autoptr(WeftSimulation) whole = replay(&pair, "1 0 -1 10 -1 -1 -1 6 10 -1 1 1 1 -1 1 1 -1 -1\n");
    g_assert_cmpuint(whole->nodes, ==, 2);
    assert_near(whole->busy, 6.0 / 8);
    g_autoptr(WeftSimulation) small = simulate(&pair, load, &options);
    g_assert_cmpuint(small->nodes, ==, 3 + 3); /* of two cores each, for five processors too */
    assert_near(small->busy, (60.0 + 60) / (30 * 8));
    g_autoptr(WeftSimulation) none = simulate(&one, load, &options);
    g_assert_cmpuint(none->impossible, ==, 2);
}

/* The first gives way at 400 to the second, which needs half of what it has, and begins anew at 600. */
static void
test_preemption(void)
{
    g_autoptr(WeftSimulation) s = replay(&pair, "; Queue: 2 preemptible\n"
                                                "1 0 -1 1000 -1 -1 -1 8 1000 -1 1 1 1 -1 2 1 -1 -1\n"
                                                "2 400 -1 200 -1 -1 -1 4 200 -1 1 2 1 -1 1 1 -1 -1\n");
    g_assert_cmpuint(s->preempted, ==, 1);
    g_assert_cmpuint(s->started, ==, 2);
    g_assert_cmpuint(s->ended, ==, 2);
    g_assert_cmpint(s->span, ==, 1600 * G_USEC_PER_SEC);
    assert_spread(&s->wait, 300, 0, 600, 600);
    assert_near(s->busy, (400.0 * 8 + 200 * 4 + 1000 * 8) / (1600 * 8));
}

/* Of two sockets with two cores each: three cores of one node are over both, and two of another fit into one. */
static void
test_split(void)
{
    WeftSiteOptions halves = pair;
    halves.hosts = 1;
    halves.sockets = 2;
    g_autoptr(WeftSimulation) s = replay(&halves, "1 0 -1 10 -1 -1 -1 1 10 -1 1 1 1 -1 1 1 -1 -1\n"
                                                  "2 0 -1 10 -1 -1 -1 2 10 -1 1 1 1 -1 1 1 -1 -1\n"
                                                  "3 20 -1 10 -1 -1 -1 3 10 -1 1 1 1 -1 1 1 -1 -1\n");
    g_assert_cmpuint(s->nodes, ==, 3);
    g_assert_cmpuint(s->whole, ==, 2);
    g_assert_cmpuint(s->split, ==, 0);
}

static void
test_gpus(void)
{
    WeftSiteOptions with = pair;
    with.gpus = 2;
    static const char text[] = "; Partition: 2 gpus\n"
                               "1 0 -1 10 -1 -1 -1 2 10 -1 1 1 1 -1 1 2 -1 -1\n"
                               "2 0 -1 10 -1 -1 -1 1 10 -1 1 1 1 -1 1 2 -1 -1\n"
                               "3 0 -1 10 -1 -1 -1 4 10 -1 1 1 1 -1 1 2 -1 -1\n"
                               "4 0 -1 10 -1 -1 -1 1 10 -1 1 1 1 -1 1 2 -1 -1\n";
    g_autoptr(WeftSimulation) s = replay(&with, text);
    assert_spread(&s->wait, 2.5, 0, 10, 10); /* one core is left, but no GPU */
    g_autoptr(WeftSimulation) without = replay(&pair, text);
    assert_spread(&without->wait, 0, 0, 0, 0);
}

/* Nobody who comes later delays one that was told when it starts, and all end; the same again is the same. */
static void
test_promises_kept(void)
{
    for (guint seed = 1; seed <= 20; seed++) {
        WeftGenerateOptions made = { .seed = seed, .jobs = 300, .load = 1.2, .hosts = 12, .cores = 4, .users = 3 };
        WeftSiteOptions site_options = pair;
        site_options.hosts = 12;
        site_options.leaf_hosts = 4;
        WeftSimulateOptions options = in_order(4);
        g_autoptr(WeftLoad) load = weft_generate(&made, NULL);
        g_autoptr(WeftSimulation) s = simulate(&site_options, load, &options);
        g_autoptr(WeftSimulation) again = simulate(&site_options, load, &options);
        g_assert_cmpuint(s->ended, ==, 300);
        g_assert_cmpuint(s->promised, >, 20);
        g_assert_cmpuint(s->late, ==, 0);
        g_assert_cmpfloat(s->detour.mean, >=, 1);
        json_auto_t *first = weft_simulation_to_json(s), *second = weft_simulation_to_json(again);
        g_assert_true(json_equal(first, second));
    }
}

/* One that gave way does not take the room again before the other, for whom it was stopped, and so on without end. */
static void
test_giving_way_ends(void)
{
    WeftSiteOptions site_options = pair;
    site_options.hosts = site_options.cores = site_options.vfs = 8;
    site_options.gpus = 4;
    site_options.sockets = site_options.leaf_hosts = 2;
    site_options.memory = 32ULL << 30;
    for (guint seed = 642438; seed < 642448; seed++) {
        WeftGenerateOptions made = {
            .seed = seed, .jobs = 300, .load = 3, .hosts = 8, .cores = 8, .users = 5, .preemptible_share = 0.8
        };
        WeftSimulateOptions options = in_order(3);
        options.queue.depth = 5;
        g_autoptr(WeftLoad) load = weft_generate(&made, NULL);
        g_autoptr(WeftSimulation) s = simulate(&site_options, load, &options);
        g_assert_cmpuint(s->ended, ==, 300);
        g_assert_cmpuint(s->preempted, >, 10);
    }
}

static void
test_plot(void)
{
    g_autoptr(WeftSimulation) s = replay(&pair, "1 0 -1 100 -1 -1 -1 8 100 -1 1 1 1 -1 1 1 -1 -1\n"
                                                "2 0 -1 100 -1 -1 -1 8 100 -1 1 1 1 -1 1 1 -1 -1\n");
    g_autofree char *svg = weft_simulation_plot(s, "a <b> & c");
    g_assert_nonnull(strstr(svg, "<title>a &lt;b&gt; &amp; c</title>"));
    g_assert_nonnull(strstr(svg, ">mean 100.0 %</text>"));
    g_assert_nonnull(strstr(svg, ">mean 0.5, at most 1</text>"));
    g_assert_nonnull(strstr(svg, "<path class=\"u line\" d=\"M62.0 84.0 "));  /* full from the beginning */
    g_assert_nonnull(strstr(svg, "<path class=\"q line\" d=\"M62.0 280.0 ")); /* one of one */
    g_assert_nonnull(strstr(svg, ">3 min</text>"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/simulate/timeline", test_timeline);
    g_test_add_func("/simulate/meter", test_meter);
    g_test_add_func("/simulate/site/tree", test_site_tree);
    g_test_add_func("/simulate/site/distances", test_site_distances);
    g_test_add_func("/simulate/site/map", test_site_map);
    g_test_add_func("/simulate/backfill", test_backfill);
    g_test_add_func("/simulate/backfill-delays-nobody", test_backfill_delays_nobody);
    g_test_add_func("/simulate/fragmentation", test_fragmentation);
    g_test_add_func("/simulate/odd-jobs", test_odd_jobs);
    g_test_add_func("/simulate/nodes", test_nodes);
    g_test_add_func("/simulate/preemption", test_preemption);
    g_test_add_func("/simulate/split", test_split);
    g_test_add_func("/simulate/gpus", test_gpus);
    g_test_add_func("/simulate/promises-kept", test_promises_kept);
    g_test_add_func("/simulate/giving-way-ends", test_giving_way_ends);
    g_test_add_func("/simulate/plot", test_plot);
    return g_test_run();
}
