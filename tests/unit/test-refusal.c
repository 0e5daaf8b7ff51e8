/* Why there is no place: what is named is what lacks, and hope is left where there is some. */
#include "errors.h"
#include "fleet-world.h"

/* --- fleets and requests --- */

/* Two NUMA nodes of four cores and 4 GiB, three functions, two GPUs; more: fields of its JSON. */
static void
add_host(WeftFleet *fleet, const char *name, const char *fabric, const char *more)
{
    static guint guid = 1;
    g_autofree char *text =
        g_strdup_printf("{\"name\":\"%s\",\"fabric\":\"%s\",\"leaf\":\"leaf\","
                        "\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048}},{\"cores\":4,\"pages\":{\"2M\":2048}}],"
                        "\"hcas\":[{\"name\":\"h0\",\"port_guid\":\"0x%016x\",\"vfs\":3}],"
                        "\"gpus\":[{\"name\":\"g0\",\"numa\":0},{\"name\":\"g1\",\"numa\":1}]%s}",
                        name, fabric, guid++, more);
    fleet_add_host(fleet, name, text);
}

static WeftFleet *
two_hosts(void)
{
    WeftFleet *fleet = weft_fleet_new();
    add_host(fleet, "n0", "ib0", "");
    add_host(fleet, "n1", "ib0", "");
    return fleet;
}

/* It has no place, for that reason. hope: it could have one were the fleet empty. */
static void
assert_refused(WeftFleet *fleet, const char *spec, gboolean hope, const char *expected)
{
    g_autoptr(WeftCluster) cluster = cluster_from(spec);
    g_autoptr(GError) error = NULL;
    guint counts[WEFT_GROUPS_MAX] = { 0 };
    WeftPlaceRequest request = { .cluster = cluster, .counts = counts };
    WeftPlacement placement;
    counts_of(cluster, counts);
    g_assert_false(weft_place(fleet, &request, &placement));
    gboolean could = weft_place_explain_refusal(fleet, &request, &error);
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    g_assert_cmpstr(error->message, ==, expected);
    g_assert_cmpint(could, ==, hope);
}

/* Places it and takes it, all of it on that host. */
static void
take(WeftFleet *fleet, const char *host, const char *spec)
{
    static guint number = 1;
    g_autoptr(WeftCluster) cluster = cluster_from(spec);
    g_autoptr(GHashTable) avoid = all_but(fleet, host);
    g_autofree char *id = g_strdup_printf("c%u", number++);
    guint counts[WEFT_GROUPS_MAX] = { 0 };
    WeftPlacement placement;
    counts_of(cluster, counts);
    g_assert_true(weft_place(fleet, &(WeftPlaceRequest){ .cluster = cluster, .counts = counts, .avoid = avoid }, &placement));
    weft_fleet_take_seats(fleet, placement.seats, placement.n, id);
}

#define NODES(n, c, m) "\"count\":" #n ",\"cores\":" #c ",\"memory\":\"" m "\""
#define BRIDGE ",\"path\":\"bridge\""
#define EMPTY ", not even if all hosts were empty; scarcest: "

/* --- what is scarcest --- */

/* What each lacks by itself goes before what they only lack together. */
static void
test_together(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    assert_refused(fleet, NODES(3, 5, "64M") ",\"numa\":\"required\"", FALSE,
                   "no room for 3 nodes of 5 cores, 64M, 0 GPUs, path sriov" EMPTY "cores");
    assert_refused(fleet, NODES(2, 5, "64M") ",\"numa\":\"required\"", FALSE,
                   "no room for 2 nodes of 5 cores, 64M, 0 GPUs, path sriov" EMPTY
                   "cores, memory and devices of one NUMA node");
    take(fleet, "n0", NODES(1, 8, "64M") BRIDGE);
    take(fleet, "n1", NODES(1, 2, "8G") BRIDGE);
    assert_refused(
        fleet, NODES(1, 2, "1G"), TRUE,
        "no room now for 1 node of 2 cores, 1G, 0 GPUs, path sriov; scarcest: cores, memory and devices of one host");
}

/* What an empty fleet lacks, though something else is scarcer now. */
static void
test_never(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    take(fleet, "n0", NODES(1, 8, "64M") BRIDGE);
    take(fleet, "n1", NODES(1, 8, "64M") BRIDGE);
    assert_refused(fleet, NODES(5, 1, "64M") ",\"gpus\":1" BRIDGE, FALSE,
                   "no room for 5 nodes of 1 core, 64M, 1 GPU, path bridge" EMPTY "GPUs");
    assert_refused(fleet, NODES(4, 1, "64M") ",\"gpus\":1" BRIDGE, TRUE,
                   "no room now for 4 nodes of 1 core, 64M, 1 GPU, path bridge; scarcest: cores");
}

/* Hosts whose ports take the key have no cores, and those that have cores do not take it. */
static void
test_keys(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    weft_fleet_set_fabric(fleet, "ib0", &(WeftFleetFabric){ .pkeys = 1 });
    take(fleet, "n0", NODES(1, 1, "64M") ",\"path\":\"sriov\"");
    take(fleet, "n1", NODES(1, 8, "64M") BRIDGE);
    assert_refused(
        fleet, NODES(2, 1, "64M") ",\"path\":\"sriov\"", TRUE,
        "no room now for 2 nodes of 1 core, 64M, 0 GPUs, path sriov; scarcest: places for P_Keys in the hosts' ports");
}

static void
test_exclusive(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    take(fleet, "n0", NODES(1, 1, "64M") BRIDGE);
    assert_refused(fleet, NODES(2, 8, "64M") BRIDGE ",\"exclusive\":true", TRUE,
                   "no room now for 2 nodes of 8 cores, 64M, 0 GPUs, path bridge; scarcest: cores");
    assert_refused(fleet, NODES(9, 1, "64M") BRIDGE ",\"exclusive\":true", TRUE,
                   "no room now for 9 nodes of 1 core, 64M, 0 GPUs, path bridge; scarcest: hosts without nodes of others");
}

/* --- several groups --- */

#define TWO(n, c, gpus, m, d)                                                                                                  \
    "\"groups\":[{\"name\":\"a\"," NODES(n, c, "64M") BRIDGE "},{\"name\":\"b\"," NODES(m, d, "64M") BRIDGE ",\"gpus\":" #gpus \
                                                                                                            "}]"

static void
test_groups(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    assert_refused(fleet, TWO(13, 1, 0, 4, 1), FALSE, "no room for all groups together" EMPTY "cores");
    assert_refused(fleet, TWO(1, 1, 3, 1, 1), FALSE, "no room for 1 node of 1 core, 64M, 3 GPUs, path bridge" EMPTY "GPUs");
    assert_refused(fleet, TWO(2, 5, 0, 1, 4), TRUE,
                   "no room now for 2 nodes of 5 cores, 64M, 0 GPUs, path bridge beside the other groups; scarcest: cores");
    take(fleet, "n0", NODES(1, 8, "64M") BRIDGE);
    /* The second will never have a place: that is told, though the first lacks more now. */
    assert_refused(fleet, TWO(16, 1, 1, 5, 1), FALSE, "no room for 5 nodes of 1 core, 64M, 1 GPU, path bridge" EMPTY "GPUs");
}

/* --- several fabrics, lanes and paths --- */

/* Of two fabrics the reason is that of the one where there is hope. */
static void
test_fabrics(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    add_host(fleet, "n2", "ib1", "");
    take(fleet, "n0", NODES(1, 8, "64M") BRIDGE);
    assert_refused(fleet, NODES(2, 8, "64M"), TRUE,
                   "no room now for 2 nodes of 8 cores, 64M, 0 GPUs, path sriov; scarcest: cores");
    assert_refused(fleet, NODES(3, 8, "64M"), FALSE, "no room for 3 nodes of 8 cores, 64M, 0 GPUs, path sriov" EMPTY "cores");
    assert_refused(fleet, NODES(1, 1, "64M") ",\"fabric\":\"ib2\"", TRUE,
                   "there is no host on fabric ib2 yet; add one with: weft host add");
}

static void
test_no_lanes(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    assert_refused(fleet, NODES(1, 1, "64M") ",\"bandwidth\":\"1G\",\"path\":\"sriov\"", FALSE,
                   "fabric ib0 guarantees no bandwidth: its configuration describes no lanes (qos)");
}

/* There are not enough functions, and never will be; with messages that stay on a host it does not need them. */
static void
test_bridge_would_do(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    take(fleet, "n0", NODES(1, 1, "64M") BRIDGE);
    assert_refused(fleet, NODES(16, 1, "64M"), FALSE,
                   "no room for 16 nodes of 1 core, 64M, 0 GPUs, path sriov" EMPTY "virtual functions");
    assert_refused(fleet, NODES(16, 1, "64M") ",\"pattern\":\"ring\"", TRUE,
                   "no room now for 16 nodes of 1 core, 64M, 0 GPUs, path bridge; scarcest: cores");
}

static void
test_labels(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    add_host(fleet, "n2", "ib0", ",\"labels\":{\"rack\":\"r1\"}");
    assert_refused(fleet, NODES(1, 1, "64M") ",\"labels\":{\"rack\":\"r2\"}", FALSE,
                   "no host of fabric ib0 has the wished labels");
    assert_refused(fleet, NODES(9, 1, "64M") BRIDGE ",\"labels\":{\"rack\":\"r1\"}", FALSE,
                   "no room for 9 nodes of 1 core, 64M, 0 GPUs, path bridge" EMPTY "cores");
    weft_fleet_set_open(fleet, "n2", FALSE);
    assert_refused(fleet, NODES(8, 1, "64M") BRIDGE ",\"labels\":{\"rack\":\"r1\"}", TRUE,
                   "no host can take nodes now: none is up, open and has the wished labels on fabric ib0");
}

/* Hosts that are avoided now count as closed, and what is asked changes nothing. */
static void
test_avoided(void)
{
    g_autoptr(WeftFleet) fleet = two_hosts();
    g_autoptr(WeftCluster) cluster = cluster_from(NODES(2, 8, "64M"));
    g_autoptr(GHashTable) avoid = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GError) error = NULL;
    WeftPlaceRequest request = { .cluster = cluster, .counts = &(guint){ 2 }, .avoid = avoid };
    WeftPlacement placement;
    g_hash_table_add(avoid, (gpointer) "n1");
    g_assert_false(weft_place(fleet, &request, &placement));
    g_assert_true(weft_place_explain_refusal(fleet, &request, &error));
    g_assert_cmpstr(error->message, ==, "no room now for 2 nodes of 8 cores, 64M, 0 GPUs, path sriov; scarcest: cores");
    request.avoid = NULL;
    g_assert_true(weft_place(fleet, &request, &placement));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/refusal/together", test_together);
    g_test_add_func("/refusal/never", test_never);
    g_test_add_func("/refusal/keys", test_keys);
    g_test_add_func("/refusal/exclusive", test_exclusive);
    g_test_add_func("/refusal/groups", test_groups);
    g_test_add_func("/refusal/fabrics", test_fabrics);
    g_test_add_func("/refusal/no-lanes", test_no_lanes);
    g_test_add_func("/refusal/bridge-would-do", test_bridge_would_do);
    g_test_add_func("/refusal/labels", test_labels);
    g_test_add_func("/refusal/avoided", test_avoided);
    return g_test_run();
}
