#include "errors.h"
#include "lane-choice.h"
#include "lanes.h"
#include "schedule.h"

#include <string.h>

#define G 1000000000ULL

static WeftLanes
parse(const char *text)
{
    WeftLanes lanes;
    GError *error = NULL;
    g_assert_true(weft_lanes_parse(text, &lanes, &error));
    g_assert_no_error(error);
    return lanes;
}

/* --- what may be written --- */

static void
test_refused(void)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "lanes \"\" are not understood; write service levels 1 to 14 and percent, like 1:40,2:20" },
        { "1", "lanes \"1\" are not understood; write service levels 1 to 14 and percent, like 1:40,2:20" },
        { "0:10", "lanes \"0:10\" are not understood; write service levels 1 to 14 and percent, like 1:40,2:20" },
        { "1:40,1:20", "qos.lanes: service level 1 has two lanes; give each lane its own" },
        { "1:50,2:46", "qos.lanes: take 96 % of the links; leave at least 5 % for all that has no guarantee" },
        { "1:96", "qos.lanes[0].share: must be 1 to 95, is 96" },
        { "1:94,2:1", "qos.lanes: no arbitration table of 8 places gives these shares; make them "
                      "multiples of 5 or 10, fewer, or leave more for "
                      "all that has no guarantee" },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        WeftLanes lanes;
        g_autoptr(GError) error = NULL;
        g_assert_false(weft_lanes_parse(cases[i].text, &lanes, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        g_assert_cmpstr(error->message, ==, cases[i].why);
    }
}

static void
test_round_trip(void)
{
    WeftLanes lanes = parse("7:10,2:20,1:40"), back;
    g_assert_cmpuint(lanes.lanes[0].sl, ==, 1);
    g_assert_cmpuint(lanes.lanes[2].sl, ==, 7);
    json_auto_t *json = json_pack("{s:o}", "qos", weft_lanes_write(&lanes));
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_lanes_read(&f, "qos", &back);
    g_assert_true(weft_fields_end(&f, NULL));
    g_assert_cmpmem(&back, sizeof back, &lanes, sizeof lanes);
}

/* --- turns --- */

static void
test_tables(void)
{
    static const struct {
        const char *lanes, *vlarb, *sl2vl;
    } cases[] = {
        { "1:40", "0:192,1:128", "0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0" },
        { "1:40,2:20", "0:128,1:128,2:64", "0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0" },
        { "3:50,9:25", "0:64,1:128,2:64", "0,0,0,1,0,0,0,0,0,2,0,0,0,0,0,0" },
        { "1:40,2:20,3:5", "0:255,1:255,2:255,3:64,0:192,1:255", "0,1,2,3,0,0,0,0,0,0,0,0,0,0,0,0" },
        { "1:10,2:10,3:10,4:10,5:10,6:10,7:10", "0:192,1:64,2:64,3:64,4:64,5:64,6:64,7:64", "0,1,2,3,4,5,6,7,0,0,0,0,0,0,0,0" },
        { "1:5,2:5,3:5,4:5,5:5,6:5,7:5,8:5,9:5,10:5,11:5,12:5,13:5,14:5", NULL, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,0" },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        WeftLanes lanes = parse(cases[i].lanes);
        g_autofree char *vlarb = weft_lanes_vlarb(&lanes), *sl2vl = weft_lanes_sl2vl(&lanes);
        if (cases[i].vlarb)
            g_assert_cmpstr(vlarb, ==, cases[i].vlarb);
        g_assert_cmpstr(sl2vl, ==, cases[i].sl2vl);
    }
}

/* Sends packets of the given size, headers included, for some rounds, all lanes having enough to send: as a port does that
 * counts its weights in units of 64 bytes and sends whole packets. Returns percent of the bytes. */
static void
simulate(const WeftTurn *turns, guint n, guint packet, double ret_percent[WEFT_LANES_MAX + 1])
{
    guint64 sent[WEFT_LANES_MAX + 1] = { 0 }, all = 0;
    int units = (int)(packet + 30 + 63) / 64;
    for (guint i = 0; i < n; i++)
        for (int left = (int)MIN(turns[i].packets * 64, 255); left > 0; left -= units) {
            sent[turns[i].vl] += packet;
            all += packet;
        }
    for (guint vl = 0; vl <= WEFT_LANES_MAX; vl++)
        ret_percent[vl] = 100.0 * (double)sent[vl] / (double)all;
}

/* Whatever shares are taken, ports keep them with packets of every MTU. */
static void
test_shares_are_kept(void)
{
    guint taken = 0;
    for (guint i = 0; i < 20000; i++) {
        WeftLanes lanes = { .n = (guint)g_test_rand_int_range(1, 8) };
        guint sum = 0;
        for (guint l = 0; l < lanes.n; l++) {
            lanes.lanes[l] = (WeftLane){ l + 1, (guint)g_test_rand_int_range(1, 96) };
            sum += lanes.lanes[l].share;
        }
        WeftTurn turns[WEFT_TURNS_MAX];
        guint n = sum < 100 ? weft_lanes_arbitrate(&lanes, 8, turns) : 0;
        if (n == 0)
            continue;
        taken++;
        g_assert_cmpuint(n, <=, 8);
        static const guint mtus[] = { 4096, 2048, 1024, 512 };
        for (gsize m = 0; m < G_N_ELEMENTS(mtus); m++) {
            double percent[WEFT_LANES_MAX + 1];
            simulate(turns, n, mtus[m], percent);
            /* Headers take a unit each: small packets shift a full turn by a packet. */
            double slack = mtus[m] >= 2048 ? 1e-9 : 0.07 * 100;
            g_assert_cmpfloat(percent[0], >, 0);
            for (guint l = 0; l < lanes.n; l++)
                g_assert_cmpfloat(percent[l + 1], >=, lanes.lanes[l].share - slack);
        }
    }
    g_assert_cmpuint(taken, >, 500);
}

/* --- opensm's options --- */

static void
test_options(void)
{
    WeftLanes lanes = parse("1:40,2:20");
    GError *error = NULL;
    g_autoptr(GPtrArray) options = weft_lanes_check(
        "# the site's\nrouting_engine ftree,updn\nqos FALSE\nmax_op_vls 2\nqos_ca_high_limit 0\n", &lanes, &error);
    g_assert_no_error(error);
    g_autofree char *text =
        weft_options_harden("# the site's\nrouting_engine ftree,updn\nqos FALSE\nmax_op_vls 2\nqos_ca_high_limit 0\n", options);
    g_assert_true(
        g_str_has_prefix(text, "# the site's\nrouting_engine ftree,updn\nqos TRUE\nmax_op_vls 3\nqos_ca_high_limit 0\n"));
    static const char *const kinds[] = { "ca", "swe", "sw0", "rtr" };
    for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
        g_autofree char *low = g_strdup_printf("\nqos_%s_vlarb_low 0:128,1:128,2:64\n", kinds[i]);
        g_autofree char *high = g_strdup_printf("\nqos_%s_vlarb_high 1:0\n", kinds[i]);
        g_autofree char *map = g_strdup_printf("\nqos_%s_sl2vl 0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0\n", kinds[i]);
        g_assert_nonnull(strstr(text, low));
        g_assert_nonnull(strstr(text, high));
        g_assert_nonnull(strstr(text, map));
    }
    g_autoptr(GPtrArray) again = weft_lanes_check(text, &lanes, &error);
    for (guint i = 0; i < again->len; i++)
        g_assert_true(((const WeftOption *)again->pdata[i])->right);
}

static void
test_rival(void)
{
    static const struct {
        const char *routing, *rival;
    } cases[] = {
        { NULL, NULL },           { "", NULL },           { "(null)", NULL },
        { "minhop", NULL },       { "ftree,updn", NULL }, { "dfsssp", "dfsssp" },
        { "lash", "lash" },       { "nue", "nue" },       { "torus-2QoS", "torus-2QoS" },
        { "updn, lash", "lash" }, { "chain", "chain" },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *rival = weft_lanes_rival(cases[i].routing);
        g_assert_cmpstr(rival, ==, cases[i].rival);
    }
    WeftLanes lanes = parse("1:40");
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_lanes_check("routing_engine dfsssp\n", &lanes, &error));
    g_assert_nonnull(strstr(error->message, "routing_engine dfsssp keeps the service levels for itself"));
}

/* --- which lane --- */

static void
test_choices(void)
{
    WeftLanes lanes = parse("1:10,2:40,3:20,4:20");
    WeftLaneUse uses[WEFT_LANES_MAX] = { 0 };
    guint order[WEFT_LANES_MAX];

    /* Nothing is used: the smallest that holds it. */
    g_assert_cmpuint(weft_lane_choices(&lanes, uses, 15 * G, 100 * G, order), ==, 3);
    g_assert_cmpuint(order[0], ==, 2);
    g_assert_cmpuint(order[1], ==, 3);
    g_assert_cmpuint(order[2], ==, 1);
    /* Too large for all. */
    g_assert_cmpuint(weft_lane_choices(&lanes, uses, 41 * G, 100 * G, order), ==, 0);
    /* The same, before what is free, before what is near. */
    uses[1] = (WeftLaneUse){ 15 * G * 8, 8 };
    uses[2] = (WeftLaneUse){ 14 * G, 1 };
    g_assert_cmpuint(weft_lane_choices(&lanes, uses, 15 * G, 100 * G, order), ==, 3);
    g_assert_cmpuint(order[0], ==, 1);
    g_assert_cmpuint(order[1], ==, 3);
    g_assert_cmpuint(order[2], ==, 2);
    /* None is free: the nearest, by how many times it is as large. */
    uses[0] = (WeftLaneUse){ 1 * G, 1 };
    uses[3] = (WeftLaneUse){ 4 * G, 1 };
    g_assert_cmpuint(weft_lane_choices(&lanes, uses, 8 * G, 100 * G, order), ==, 4);
    g_assert_cmpuint(order[0], ==, 2);
    g_assert_cmpuint(order[1], ==, 1);
    g_assert_cmpuint(order[2], ==, 3);
    g_assert_cmpuint(order[3], ==, 0);
}

/* --- placement --- */

#define HOSTS 6

static guint64 host_rates[HOSTS][2]; /* 0: not known */

static guint64
port_guid(guint host, guint rail)
{
    return 0x100 + host * 2 + rail;
}

static WeftFleet *
make_fleet(const char *lanes)
{
    WeftFleet *fleet = weft_fleet_new();
    GHashTable *rates = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    for (guint i = 0; i < HOSTS; i++) {
        json_auto_t *json =
            json_pack("{s:o, s:s, s:s, s:[{s:i, s:{s:i}}], s:[{s:s, s:o, s:i}, {s:s, s:o, s:i}]}", "name",
                      json_sprintf("n%u", i), "fabric", "ib0", "leaf", "leaf0", "numa", "cores", 1000, "pages", "2M", 100000,
                      "hcas", "name", "mlx4_0", "port_guid", json_sprintf("0x%x", (guint)port_guid(i, 0)), "vfs", 127, "name",
                      "mlx4_1", "port_guid", json_sprintf("0x%x", (guint)port_guid(i, 1)), "vfs", 127);
        GError *error = NULL;
        WeftHost *host = weft_host_from_json(json, "host", &error);
        g_assert_no_error(error);
        weft_fleet_put_host(fleet, host);
        weft_fleet_set_open(fleet, host->name, TRUE);
        for (guint rail = 0; rail < 2; rail++) {
            static const guint64 some[] = { 100 * G, 40 * G, 0, 200 * G };
            host_rates[i][rail] = some[g_test_rand_int_range(0, 4)];
            guint64 guid = port_guid(i, rail);
            if (host_rates[i][rail])
                g_hash_table_insert(rates, g_memdup2(&guid, sizeof guid),
                                    g_memdup2(&host_rates[i][rail], sizeof host_rates[i][rail]));
        }
    }
    weft_fleet_set_fabric(fleet, "ib0", &(WeftFleetFabric){ .qos = parse(lanes), .rates = rates });
    weft_fleet_sort(fleet);
    return fleet;
}

static WeftCluster *
make_cluster(guint serial, guint count, guint rails, guint64 bandwidth)
{
    json_auto_t *json = json_pack("{s:s, s:i, s:s, s:i, s:s, s:I}", "name", "cfd", "count", (int)count, "memory", "64M",
                                  "rails", (int)rails, "path", "sriov", "bandwidth", (json_int_t)bandwidth);
    GError *error = NULL;
    WeftCluster *cluster = weft_cluster_from_spec(json, &error);
    g_assert_no_error(error);
    cluster->id = g_strdup_printf("c%u", serial);
    return cluster;
}

static GPtrArray *
place(WeftFleet *fleet, const WeftCluster *cluster, guint sl, guint count, GError **error)
{
    return weft_schedule(fleet, &(WeftPlaceRequest){ .cluster = cluster, .counts = &count, .sl = sl }, error);
}

static guint64
promised(const GPtrArray *nodes, guint host, guint rail, guint sl)
{
    guint64 sum = 0;
    g_autofree char *name = g_strdup_printf("n%u", host);
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        for (guint d = 0; strcmp(node->host, name) == 0 && node->sl == sl && d < node->devices->len; d++)
            if (((const WeftDevice *)node->devices->pdata[d])->rail == rail)
                sum += node->bandwidth;
    }
    return sum;
}

static guint64
room_on(const GPtrArray *nodes, const WeftLane *lane, guint host, guint rail)
{
    guint64 all = host_rates[host][rail] * lane->share / 100;
    guint64 sum = promised(nodes, host, rail, lane->sl);
    g_assert_cmpuint(sum, <=, all);
    return all - sum;
}

/* Is there a lane, and there hosts, for one node? */
static gboolean
fits_somewhere(const GPtrArray *nodes, const WeftLanes *lanes, guint sl, guint rails, guint64 bandwidth)
{
    for (guint l = 0; l < lanes->n; l++)
        for (guint h = 0; (!sl || lanes->lanes[l].sl == sl) && h < HOSTS; h++) {
            guint good = 0;
            for (guint rail = 0; rail < rails; rail++)
                good += room_on(nodes, &lanes->lanes[l], h, rail) >= bandwidth;
            if (good == rails)
                return TRUE;
        }
    return FALSE;
}

static void
check_sums(const GPtrArray *nodes, const WeftLanes *lanes)
{
    for (guint l = 0; l < lanes->n; l++)
        for (guint h = 0; h < HOSTS; h++)
            for (guint rail = 0; rail < 2; rail++)
                room_on(nodes, &lanes->lanes[l], h, rail);
}

/* Nodes of another cluster of these that is there already are placed in its lane. */
static void
remove_cluster(WeftFleet *fleet, GPtrArray *nodes, const char *cluster)
{
    for (guint i = nodes->len; i-- > 0;)
        if (strcmp(((const WeftNode *)nodes->pdata[i])->cluster, cluster) == 0) {
            weft_fleet_give(fleet, nodes->pdata[i]);
            g_ptr_array_remove_index(nodes, i);
        }
}

/* TRUE: it was placed. */
static gboolean
grow(WeftFleet *fleet, GPtrArray *nodes, const WeftLanes *lanes, const WeftCluster *cluster, guint sl)
{
    const WeftGroup *group = cluster->groups->pdata[0];
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) placed = place(fleet, cluster, sl, group->count, &error);
    if (!placed) {
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
        g_assert_true(group->count > 1 || !fits_somewhere(nodes, lanes, sl, group->rails, cluster->bandwidth));
        return FALSE;
    }
    g_assert_cmpuint(placed->len, ==, group->count);
    g_ptr_array_set_free_func(placed, NULL);
    for (guint i = 0; i < placed->len; i++) {
        WeftNode *node = placed->pdata[i];
        g_assert_cmpuint(node->sl, ==, sl ? sl : ((const WeftNode *)placed->pdata[0])->sl);
        g_assert_cmpuint(node->bandwidth, ==, cluster->bandwidth);
        node->cluster = g_strdup(cluster->id);
        weft_fleet_take(fleet, node);
        g_ptr_array_add(nodes, node);
    }
    return TRUE;
}

/* Whatever is asked for in whatever order: on no port more is promised in a lane than it has, all nodes of a cluster are in one
 * lane, and nobody is turned away for whom there is room. */
static void
test_sums(void)
{
    static const char *const lanes_of[] = { "1:40,2:20,3:10", "1:25,2:25,5:25", "4:50", "1:10,2:10,3:10,4:10,5:10,6:10,7:10" };
    static const guint64 wishes[] = { 1 * G, 2 * G, 5 * G, 7 * G, 10 * G, 25 * G, 60 * G };
    guint done = 0, refused = 0;
    for (guint run = 0; run < 12; run++) {
        const char *text = lanes_of[run % G_N_ELEMENTS(lanes_of)];
        WeftLanes lanes = parse(text);
        g_autoptr(WeftFleet) fleet = make_fleet(text);
        g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
        for (guint step = 0; step < 120; step++) {
            const WeftNode *some = nodes->len ? nodes->pdata[g_test_rand_int_range(0, (int)nodes->len)] : NULL;
            int what = g_test_rand_int_range(0, 10);
            if (some && what < 2) {
                g_autofree char *cluster = g_strdup(some->cluster);
                remove_cluster(fleet, nodes, cluster);
            } else {
                gboolean scale = some && what < 5;
                g_autoptr(WeftCluster) cluster =
                    make_cluster(step, (guint)g_test_rand_int_range(1, 4), scale ? some->devices->len : (guint)what % 2 + 1,
                                 scale ? some->bandwidth : wishes[g_test_rand_int_range(0, G_N_ELEMENTS(wishes))]);
                guint *tally = grow(fleet, nodes, &lanes, cluster, scale ? some->sl : 0) ? &done : &refused;
                ++*tally;
            }
            check_sums(nodes, &lanes);
        }
    }
    g_assert_cmpuint(done, >, 100);
    g_assert_cmpuint(refused, >, 100);
}

static void
test_reasons(void)
{
    static const struct {
        const char *lanes, *no_lanes, *why;
        gboolean rates;
        guint64 bandwidth;
    } cases[] = {
        { NULL, NULL, "fabric ib0 guarantees no bandwidth: its configuration describes no lanes (qos)", TRUE, 1 * G },
        { "1:40", "quality of service is off in its manager",
          "fabric ib0 guarantees no bandwidth now: quality of service is off in its manager", TRUE, 1 * G },
        { "1:40", NULL, "fabric ib0 guarantees no bandwidth now: the rates of its hosts' links are not known", FALSE, 1 * G },
        { "1:40,2:20", NULL, "bandwidth 41G is more than any lane of fabric ib0 has on a host's link; ask for at most 40G",
          TRUE, 41 * G },
        { "2:20", NULL,
          "no room for 13 nodes of 1 core, 64M, 0 GPUs, path sriov, not even if all hosts were empty; scarcest: bandwidth that "
          "is not "
          "guaranteed yet",
          TRUE, 10 * G },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(WeftFleet) fleet = make_fleet("1:40");
        GHashTable *rates = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
        for (guint h = 0; cases[i].rates && h < HOSTS; h++) {
            guint64 guid = port_guid(h, 0), rate = 100 * G;
            g_hash_table_insert(rates, g_memdup2(&guid, sizeof guid), g_memdup2(&rate, sizeof rate));
        }
        WeftFleetFabric told = { .no_lanes = g_strdup(cases[i].no_lanes), .rates = rates };
        if (cases[i].lanes)
            told.qos = parse(cases[i].lanes);
        weft_fleet_set_fabric(fleet, "ib0", &told);
        g_autoptr(WeftCluster) cluster = make_cluster(1, 13, 1, cases[i].bandwidth);
        g_autoptr(GError) error = NULL;
        g_assert_null(place(fleet, cluster, 0, 13, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
        g_assert_cmpstr(error->message, ==, cases[i].why);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lanes/refused", test_refused);
    g_test_add_func("/lanes/round-trip", test_round_trip);
    g_test_add_func("/lanes/tables", test_tables);
    g_test_add_func("/lanes/shares-are-kept", test_shares_are_kept);
    g_test_add_func("/lanes/options", test_options);
    g_test_add_func("/lanes/rival", test_rival);
    g_test_add_func("/lanes/choices", test_choices);
    g_test_add_func("/lanes/sums", test_sums);
    g_test_add_func("/lanes/reasons", test_reasons);
    return g_test_run();
}
