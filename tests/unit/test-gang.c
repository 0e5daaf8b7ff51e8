/* Which leaves and hosts a gang gets. Fleets are small enough to see the answer. */
#include "fleet-world.h"

/* --- fleets and requests --- */

/* A host of eight cores and eight functions, on a leaf; more: fields of its JSON. */
static void
add_host(WeftFleet *fleet, const char *name, const char *leaf, const char *more)
{
    static guint guid = 1;
    g_autofree char *text = g_strdup_printf("{\"name\":\"%s\",\"fabric\":\"ib0\",\"leaf\":\"%s\","
                                            "\"numa\":[{\"cores\":8,\"pages\":{\"2M\":8192}}],"
                                            "\"hcas\":[{\"name\":\"h0\",\"port_guid\":\"0x%016x\",\"vfs\":8}]%s}",
                                            name, leaf, guid++, more);
    fleet_add_host(fleet, name, text);
}

/* Leaves a, b, c … with so many hosts each: a1, a2, b1 … */
static WeftFleet *
fleet_of(const char *hosts)
{
    WeftFleet *fleet = weft_fleet_new();
    for (guint i = 0; hosts[i]; i++)
        for (int h = 1; h <= hosts[i] - '0'; h++) {
            char leaf[2] = { (char)('a' + i), '\0' };
            g_autofree char *name = g_strdup_printf("%s%d", leaf, h);
            add_host(fleet, name, leaf, "");
        }
    return fleet;
}

/* hops: a row of digits for each leaf. */
static void
set_hops(WeftFleet *fleet, const char *const *hops, guint n)
{
    WeftFleetFabric told = { .switches = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                             .hops = g_array_new(FALSE, FALSE, 1) };
    for (guint a = 0; a < n; a++) {
        char name[2] = { (char)('a' + a), '\0' };
        g_hash_table_insert(told.switches, g_strdup(name), GUINT_TO_POINTER(a));
        for (guint b = 0; b < n; b++)
            g_array_append_val(told.hops, ((guint8){ (guint8)(hops[a][b] - '0') }));
    }
    weft_fleet_set_fabric(fleet, "ib0", &told);
}

/* "a1×2 b1" for two nodes on a1 and one on b1, in order of ranks; NULL: no place. */
static char *
place_avoiding(WeftFleet *fleet, const char *spec, GHashTable *avoid, WeftPlacement *ret)
{
    g_autoptr(WeftCluster) cluster = cluster_from(spec);
    guint counts[WEFT_GROUPS_MAX] = { 0 };
    counts_of(cluster, counts);
    if (!weft_place(fleet, &(WeftPlaceRequest){ .cluster = cluster, .counts = counts, .avoid = avoid }, ret))
        return NULL;
    GString *text = g_string_new(NULL);
    for (guint i = 0, n; i < ret->n; i += n) {
        for (n = 1; i + n < ret->n && ret->seats[i + n].host == ret->seats[i].host;)
            n++;
        g_string_append_printf(text, "%s%s", i ? " " : "", weft_fleet_name(fleet, ret->seats[i].host));
        if (n > 1)
            g_string_append_printf(text, "×%u", n);
    }
    return g_string_free(text, FALSE);
}

static void
assert_place(WeftFleet *fleet, const char *spec, const char *expected)
{
    WeftPlacement placement;
    g_autofree char *where = place_avoiding(fleet, spec, NULL, &placement);
    g_assert_cmpstr(where, ==, expected);
}

/* … and it is taken from then on. */
static void
take(WeftFleet *fleet, const char *spec, const char *cluster, const char *expected)
{
    WeftPlacement placement;
    g_autofree char *where = place_avoiding(fleet, spec, NULL, &placement);
    g_assert_cmpstr(where, ==, expected);
    weft_fleet_take_seats(fleet, placement.seats, placement.n, cluster);
}

/* Takes so many cores of one host. */
static void
fill(WeftFleet *fleet, const char *host, guint cores)
{
    g_autoptr(GHashTable) avoid = all_but(fleet, host);
    g_autofree char *spec = g_strdup_printf("\"count\":1,\"cores\":%u,\"memory\":\"64M\"", cores);
    WeftPlacement placement;
    g_autofree char *where = place_avoiding(fleet, spec, avoid, &placement);
    g_assert_cmpstr(where, ==, host);
    weft_fleet_take_seats(fleet, placement.seats, 1, host);
}

#define NODES(n, c) "\"count\":" #n ",\"cores\":" #c ",\"memory\":\"64M\""

/* --- leaves --- */

static void
test_one_leaf(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("243");
    assert_place(fleet, NODES(2, 8), "a1 a2"); /* the leaf with least to spare */
    assert_place(fleet, NODES(3, 8), "c1 c2 c3");
    assert_place(fleet, NODES(4, 8), "b1 b2 b3 b4");
    fill(fleet, "a1", 1);
    assert_place(fleet, NODES(2, 8), "c1 c2");
    assert_place(fleet, NODES(2, 7), "a1 a2"); /* the fuller host is as good */
}

/* Of leaves that hold all, the one where they need fewest hosts comes before the one with least to spare. */
static void
test_fewest_hosts(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("22");
    fill(fleet, "a1", 4);
    fill(fleet, "a2", 4);
    assert_place(fleet, NODES(8, 1), "b1×8");
    assert_place(fleet, NODES(4, 1), "a1×4");
}

static void
test_several_leaves(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("2432");
    WeftPlacement placement;
    g_autofree char *where = place_avoiding(fleet, NODES(6, 8), NULL, &placement);
    g_assert_cmpuint(placement.leaves, ==, 2);
    g_assert_cmpuint(placement.hops, ==, G_MAXUINT);
    g_assert_cmpstr(where, ==, "a1 a2 b1 b2 b3 b4"); /* the two that are filled up */
    assert_place(fleet, NODES(12, 8), NULL);
}

/* Three pods of two leaves: two leaves of one pod, though others would do by numbers. */
static void
test_nearest(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("323322");
    const char *const hops[] = { "024444", "204444", "440244", "442044", "444402", "444420" };
    set_hops(fleet, hops, 6);
    WeftPlacement placement;
    g_autofree char *six = place_avoiding(fleet, NODES(6, 8), NULL, &placement);
    g_assert_cmpstr(six, ==, "c1 c2 c3 d1 d2 d3");
    g_assert_cmpuint(placement.hops, ==, 2);
    g_autofree char *four = place_avoiding(fleet, NODES(4, 8), NULL, &placement);
    g_assert_cmpstr(four, ==, "e1 e2 f1 f2"); /* the pod with least to spare */
}

/* Of pods that are as near, the one where the gang needs fewest hosts comes before the one with least to spare. */
static void
test_pod_of_few_hosts(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("2222");
    const char *const hops[] = { "0244", "2044", "4402", "4420" };
    set_hops(fleet, hops, 4);
    static const char *const half[] = { "a1", "a2", "b1", "b2" };
    for (guint i = 0; i < G_N_ELEMENTS(half); i++)
        fill(fleet, half[i], 4);
    fill(fleet, "c2", 7);
    fill(fleet, "d2", 7);
    assert_place(fleet, NODES(16, 1), "c1×8 d1×8");
}

/* A ring of six switches is no tree: neighbours are found all the same. */
static void
test_irregular(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("222222");
    const char *const hops[] = { "012321", "101232", "210123", "321012", "232101", "123210" };
    set_hops(fleet, hops, 6);
    fill(fleet, "a1", 1);
    fill(fleet, "c1", 1);
    fill(fleet, "d1", 1);
    WeftPlacement placement;
    g_autofree char *where = place_avoiding(fleet, NODES(4, 8), NULL, &placement);
    g_assert_cmpstr(where, ==, "e1 e2 f1 f2");
    g_assert_cmpuint(placement.hops, ==, 1);
}

/* Three switches in a row are no tree either: b and c are nearer to each other than a and c. */
static void
test_row(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("223");
    const char *const hops[] = { "012", "101", "210" };
    set_hops(fleet, hops, 3);
    WeftPlacement placement;
    g_autofree char *where = place_avoiding(fleet, NODES(5, 8), NULL, &placement);
    g_assert_cmpstr(where, ==, "b1 b2 c1 c2 c3");
    g_assert_cmpuint(placement.hops, ==, 1);
}

/* A leaf that the map does not know is far from all, and takes nodes all the same. */
static void
test_unknown_leaf(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("2222");
    const char *const hops[] = { "042", "404", "240" }; /* of d nothing is told */
    set_hops(fleet, hops, 3);
    WeftPlacement placement;
    g_autofree char *near = place_avoiding(fleet, NODES(4, 8), NULL, &placement);
    g_assert_cmpstr(near, ==, "a1 a2 c1 c2");
    g_assert_cmpuint(placement.hops, ==, 2);
    g_autofree char *all = place_avoiding(fleet, NODES(8, 8), NULL, &placement);
    g_assert_nonnull(all);
    g_assert_cmpuint(placement.leaves, ==, 4);
    g_assert_cmpuint(placement.hops, ==, G_MAXUINT);
}

/* A host that is described on another leaf is there, whether it has adapters, and whether these say where they hang. */
static void
test_moves(void)
{
    static const char *const more[] = { "", ",\"hcas\":[]",
                                        ",\"hcas\":[{\"name\":\"h0\",\"port_guid\":\"0xff\",\"vfs\":8,\"leaf\":\"z\"}]" };
    for (guint i = 0; i < G_N_ELEMENTS(more); i++) {
        g_autoptr(WeftFleet) fleet = fleet_of("22");
        add_host(fleet, "c1", "c", more[i]);
        assert_place(fleet, NODES(1, 8) ",\"path\":\"bridge\"", "c1");
        add_host(fleet, "c1", "b", more[i]);
        assert_place(fleet, NODES(3, 8) ",\"path\":\"bridge\"", "b1 b2 c1");
        add_host(fleet, "c1", "a", more[i]);
        assert_place(fleet, NODES(3, 8) ",\"path\":\"bridge\"", "a1 a2 c1");
    }
}

/* What is told of distances anew holds from then on, though no host moved. */
static void
test_cables_change(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("222");
    const char *const first[] = { "024", "204", "440" }, *const then[] = { "044", "402", "420" };
    set_hops(fleet, first, 3);
    assert_place(fleet, NODES(4, 8), "a1 a2 b1 b2");
    set_hops(fleet, then, 3);
    assert_place(fleet, NODES(4, 8), "b1 b2 c1 c2");
    add_host(fleet, "c3", "c", "");
    assert_place(fleet, NODES(5, 8), "b1 b2 c1 c2 c3");
    add_host(fleet, "d1", "d", "");
    assert_place(fleet, NODES(5, 8), "b1 b2 c1 c2 c3");
    weft_fleet_remove_host(fleet, "b2");
    assert_place(fleet, NODES(5, 8), "a1 a2 c1 c2 c3");
}

/* What was given back is found again by the same index, and a host that is closed is not. */
static void
test_keeps_up(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("22");
    WeftPlacement placement;
    g_autofree char *first = place_avoiding(fleet, NODES(2, 8), NULL, &placement);
    g_assert_cmpstr(first, ==, "a1 a2");
    g_autofree WeftSeat *seats = g_memdup2(placement.seats, 2 * sizeof *seats);
    weft_fleet_take_seats(fleet, seats, 2, "one");
    assert_place(fleet, NODES(2, 8), "b1 b2");
    weft_fleet_set_open(fleet, "b2", FALSE);
    assert_place(fleet, NODES(2, 8), NULL);
    weft_fleet_give_seats(fleet, seats, 2, "one");
    assert_place(fleet, NODES(2, 8), "a1 a2");
    assert_place(fleet, NODES(3, 8), "a1 a2 b1");
    weft_fleet_remove_host(fleet, "a1");
    assert_place(fleet, NODES(2, 8), "a2 b1");
}

/* Nodes that come later are beside those that are there, or near to them. */
static void
test_beside(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("2222");
    const char *const hops[] = { "0244", "2044", "4402", "4420" };
    set_hops(fleet, hops, 4);
    g_autoptr(WeftCluster) cluster = cluster_from(NODES(1, 8));
    g_autoptr(GHashTable) beside = g_hash_table_new(g_str_hash, g_str_equal);
    g_hash_table_add(beside, (gpointer) "d1");
    fill(fleet, "d1", 8);
    const struct {
        guint n;
        const char *first, *last;
    } cases[] = { { 1, "d2", "d2" }, { 2, "c1", "d2" }, { 3, "c1", "d2" }, { 4, "b1", "d2" } };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        WeftPlacement placement;
        WeftPlaceRequest request = { .cluster = cluster, .counts = &cases[i].n, .beside = beside };
        g_assert_true(weft_place(fleet, &request, &placement));
        g_assert_cmpstr(weft_fleet_name(fleet, placement.seats[0].host), ==, cases[i].first);
        g_assert_cmpstr(weft_fleet_name(fleet, placement.seats[cases[i].n - 1].host), ==, cases[i].last);
    }
}

/* --- hosts --- */

/* Fewest hosts, and of these the ones that are filled up; empty ones stay so. */
static void
test_best_fit(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("5");
    fill(fleet, "a1", 5);
    fill(fleet, "a2", 4);
    fill(fleet, "a3", 2);
    assert_place(fleet, NODES(3, 1), "a1×3");
    assert_place(fleet, NODES(4, 1), "a2×4");
    assert_place(fleet, NODES(8, 1), "a4×8");
    assert_place(fleet, NODES(10, 1), "a2×4 a3×6");
    assert_place(fleet, NODES(12, 1), "a2×4 a4×8");
}

/* Nodes without GPUs leave hosts with GPUs to others. */
static void
test_leaves_gpus(void)
{
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    add_host(fleet, "a1", "a", ",\"gpus\":[{\"name\":\"g0\"},{\"name\":\"g1\"}]");
    add_host(fleet, "a2", "a", "");
    assert_place(fleet, NODES(1, 4), "a2");
    assert_place(fleet, NODES(1, 4) ",\"gpus\":1", "a1");
}

/* --- policies --- */

static void
test_spread(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("223");
    assert_place(fleet, NODES(3, 1) ",\"layout\":\"spread\"", "a2 b2 c3");
    assert_place(fleet, NODES(6, 1) ",\"layout\":\"spread\"", "a1 a2 b1 b2 c2 c3");
    assert_place(fleet, NODES(7, 8) ",\"layout\":\"spread\"", "a1 a2 b1 b2 c1 c2 c3");
    assert_place(fleet, NODES(8, 8) ",\"layout\":\"spread\"", NULL);
}

static void
test_exclusive(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("3");
    fill(fleet, "a1", 1);
    take(fleet, NODES(2, 1) ",\"exclusive\":true", "one", "a2×2");
    assert_place(fleet, NODES(1, 7), "a1");
    assert_place(fleet, NODES(8, 1), "a3×8");
    assert_place(fleet, NODES(9, 1) ",\"exclusive\":true", NULL);
    assert_place(fleet, NODES(9, 1), "a1×7 a3×2"); /* a2 is nobody else's */
    assert_place(fleet, NODES(16, 1), NULL);
}

static void
test_labels_and_avoid(void)
{
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    add_host(fleet, "a1", "a", ",\"labels\":{\"gen\":\"5\"}");
    add_host(fleet, "a2", "a", ",\"labels\":{\"gen\":\"6\"}");
    assert_place(fleet, NODES(1, 1) ",\"labels\":{\"gen\":\"6\"}", "a2");
    assert_place(fleet, NODES(1, 1) ",\"labels\":{\"gen\":\"5\"}", "a1");
    assert_place(fleet, NODES(1, 1) ",\"labels\":{\"gen\":\"7\"}", NULL);
    g_autoptr(GHashTable) avoid = g_hash_table_new(g_str_hash, g_str_equal);
    g_hash_table_add(avoid, (gpointer) "a1");
    WeftPlacement placement;
    g_autofree char *where = place_avoiding(fleet, NODES(1, 1), avoid, &placement);
    g_assert_cmpstr(where, ==, "a2");
    assert_place(fleet, NODES(2, 8), "a1 a2"); /* it was avoided that once */
}

/* --- several groups --- */

#define GROUPS(gpus, cpus)                                                                                                     \
    "\"groups\":[{\"name\":\"cpu\",\"count\":" #cpus ",\"cores\":8,\"memory\":\"64M\"},"                                       \
    "{\"name\":\"gpu\",\"count\":" #gpus ",\"cores\":4,\"memory\":\"64M\",\"gpus\":1}]"

static WeftFleet *
fleet_with_gpus(void)
{
    WeftFleet *fleet = weft_fleet_new();
    add_host(fleet, "a1", "a", ",\"gpus\":[{\"name\":\"g0\"},{\"name\":\"g1\"}]");
    add_host(fleet, "a2", "a", "");
    add_host(fleet, "b1", "b", ",\"gpus\":[{\"name\":\"g0\"},{\"name\":\"g1\"}]");
    add_host(fleet, "b2", "b", "");
    add_host(fleet, "b3", "b", "");
    return fleet;
}

/* The GPUs' hosts are kept for those that need them, and both groups are on one leaf where one has both. */
static void
test_mixed(void)
{
    g_autoptr(WeftFleet) fleet = fleet_with_gpus();
    WeftPlacement placement;
    g_autofree char *two = place_avoiding(fleet, GROUPS(2, 2), NULL, &placement);
    g_assert_cmpstr(two, ==, "b2 b3 b1×2");
    g_assert_cmpuint(placement.leaves, ==, 1);
    g_assert_cmpuint(placement.hosts, ==, 3);
    assert_place(fleet, GROUPS(2, 1), "a2 a1×2");
    assert_place(fleet, GROUPS(4, 3), "a2 b2 b3 a1×2 b1×2");
    assert_place(fleet, GROUPS(4, 4), NULL);
}

#define TWO(n, c, m, d, more)                                                                                                  \
    "\"groups\":[{\"name\":\"x\",\"count\":" #n ",\"cores\":" #c ",\"memory\":\"64M\"},"                                       \
    "{\"name\":\"y\",\"count\":" #m ",\"cores\":" #d ",\"memory\":\"64M\"}]" more

/* Hundreds of pods of two hosts: by numbers each has room for either group, and none for both. */
static void
test_mixed_in_many_pods(void)
{
    enum { PODS = 150, LEAVES = 2 * PODS };
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    WeftFleetFabric told = { .switches = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                             .hops = g_array_new(FALSE, FALSE, 1) };
    for (guint a = 0; a < LEAVES; a++) {
        g_autofree char *leaf = g_strdup_printf("leaf%u", a), *name = g_strdup_printf("n%u", a);
        add_host(fleet, name, leaf, "");
        g_hash_table_insert(told.switches, g_steal_pointer(&leaf), GUINT_TO_POINTER(a));
        for (guint b = 0; b < LEAVES; b++)
            g_array_append_val(told.hops, ((guint8){ a == b ? 0 : a / 2 == b / 2 ? 2 : 4 }));
    }
    weft_fleet_set_fabric(fleet, "ib0", &told);
    WeftPlacement placement;
    g_autofree char *three = place_avoiding(fleet, TWO(2, 5, 2, 4, ""), NULL, &placement);
    g_assert_nonnull(three);
    g_assert_cmpuint(placement.leaves, ==, 3);
    g_assert_cmpuint(placement.hosts, ==, 3);
    g_autofree char *two = place_avoiding(fleet, TWO(2, 5, 2, 3, ""), NULL, &placement);
    g_assert_nonnull(two);
    g_assert_cmpuint(placement.leaves, ==, 2);
    g_assert_cmpuint(placement.hops, ==, 2); /* one of the pods */
    g_autofree char *all = place_avoiding(fleet, TWO(300, 5, 300, 3, ""), NULL, &placement);
    g_assert_nonnull(all);
    assert_place(fleet, TWO(300, 5, 301, 3, ""), NULL);
}

/* In one order of groups the second would find the leaf of the first as good as the other. */
static void
test_mixed_spread(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("11");
    assert_place(fleet, TWO(1, 5, 1, 3, ",\"layout\":\"spread\""), "b1 a1");
    assert_place(fleet, TWO(1, 3, 1, 5, ",\"layout\":\"spread\""), "a1 b1");
}

static void
assert_beside(WeftFleet *fleet, const char *own, const char *spec, const char *expected)
{
    g_autoptr(GHashTable) beside = g_hash_table_new(g_str_hash, g_str_equal);
    g_hash_table_add(beside, (gpointer)own);
    g_autoptr(WeftCluster) cluster = cluster_from(spec);
    const guint counts[] = { 1, 1 };
    WeftPlacement placement;
    g_assert_true(weft_place(fleet, &(WeftPlaceRequest){ .cluster = cluster, .counts = counts, .beside = beside }, &placement));
    g_autofree char *where = g_strdup_printf("%s %s", weft_fleet_name(fleet, placement.seats[0].host),
                                             weft_fleet_name(fleet, placement.seats[1].host));
    g_assert_cmpstr(where, ==, expected);
}

/* Nodes of several groups that come later are beside the others, too, or near to them. */
static void
test_mixed_beside(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("2222");
    const char *const hops[] = { "0244", "2044", "4402", "4420" };
    set_hops(fleet, hops, 4);
    fill(fleet, "d1", 8);
    assert_beside(fleet, "d1", TWO(1, 5, 1, 3, ""), "d2 d2");
    assert_beside(fleet, "d1", TWO(1, 5, 1, 4, ""), "d2 c1");
    fill(fleet, "d2", 4);
    assert_beside(fleet, "d1", TWO(1, 5, 1, 5, ""), "c1 c2");
    fill(fleet, "c1", 8);
    fill(fleet, "c2", 8);
    assert_beside(fleet, "d1", TWO(1, 5, 1, 4, ""), "a1 d2"); /* farther than that there is no nearer one */
}

/* --- looking ahead --- */

static void
test_rollback(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("2");
    WeftPlacement placement;
    guint outer = weft_fleet_begin(fleet);
    take(fleet, NODES(1, 8), "one", "a1");
    guint inner = weft_fleet_begin(fleet);
    take(fleet, NODES(1, 8), "two", "a2");
    assert_place(fleet, NODES(1, 1), NULL);
    weft_fleet_rollback(fleet, inner);
    assert_place(fleet, NODES(1, 1), "a2");
    weft_fleet_begin(fleet);
    weft_fleet_set_open(fleet, "a2", FALSE);
    weft_fleet_rollback(fleet, outer); /* the one within, too */
    g_autofree char *where = place_avoiding(fleet, NODES(2, 8), NULL, &placement);
    g_assert_cmpstr(where, ==, "a1 a2");
}

/* --- ranks and paths --- */

static guint
count_between(const WeftPlacement *placement)
{
    guint n = 0;
    for (guint i = 0; i < placement->n; i++)
        n += placement->seats[i].host != placement->seats[(i + 1) % placement->n].host;
    return n;
}

static void
test_pattern(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("2");
    WeftPlacement placement;
    g_autofree char *where = place_avoiding(fleet, NODES(16, 1) ",\"pattern\":\"ring\"", NULL, &placement);
    g_assert_nonnull(where);
    g_assert_cmpuint(count_between(&placement), ==, 2);
    g_assert_cmpint(placement.between, ==, 12); /* 2 of 16 */
    g_assert_cmpuint(placement.seats[0].path, ==, WEFT_PATH_BRIDGE);
    g_assert_cmpuint(placement.seats[0].n_rails, ==, 0);
    g_assert_cmpuint(placement.shm, ==, 0);
    g_autofree char *all = place_avoiding(fleet, NODES(16, 1) ",\"pattern\":\"all\"", NULL, &placement);
    g_assert_nonnull(all);
    g_assert_cmpint(placement.between, ==, 53); /* 64 of 120 */
    g_assert_cmpuint(placement.seats[0].path, ==, WEFT_PATH_SRIOV);
    g_autofree char *forced = place_avoiding(fleet, NODES(16, 1) ",\"pattern\":\"ring\",\"path\":\"sriov\"", NULL, &placement);
    g_assert_nonnull(forced);
    g_assert_cmpuint(placement.seats[0].path, ==, WEFT_PATH_SRIOV);
}

/* The site's own rule: the bridge up to half of the traffic, and memory beside it, unless the cluster asked for some itself. */
static void
test_rule(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of("2");
    const WeftPathRule rule = { .bridge_below = 60, .shm = 64 << 20 };
    const char *const specs[] = { NODES(16, 1) ",\"pattern\":\"all\"", NODES(16, 1) ",\"pattern\":\"all\",\"shm\":\"1M\"" };
    const guint64 shm[] = { 64 << 20, 0 };
    for (guint i = 0; i < G_N_ELEMENTS(specs); i++) {
        g_autoptr(WeftCluster) cluster = cluster_from(specs[i]);
        WeftPlacement placement;
        WeftPlaceRequest request = { .cluster = cluster, .counts = &(guint){ 16 }, .rule = &rule };
        g_assert_true(weft_place(fleet, &request, &placement));
        g_assert_cmpuint(placement.seats[0].path, ==, WEFT_PATH_BRIDGE);
        g_assert_cmpuint(placement.shm, ==, shm[i]);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/gang/leaves/one", test_one_leaf);
    g_test_add_func("/gang/leaves/fewest-hosts", test_fewest_hosts);
    g_test_add_func("/gang/leaves/several", test_several_leaves);
    g_test_add_func("/gang/leaves/nearest", test_nearest);
    g_test_add_func("/gang/leaves/pod-of-few-hosts", test_pod_of_few_hosts);
    g_test_add_func("/gang/leaves/irregular", test_irregular);
    g_test_add_func("/gang/leaves/row", test_row);
    g_test_add_func("/gang/leaves/unknown", test_unknown_leaf);
    g_test_add_func("/gang/leaves/moves", test_moves);
    g_test_add_func("/gang/leaves/cables-change", test_cables_change);
    g_test_add_func("/gang/leaves/keeps-up", test_keeps_up);
    g_test_add_func("/gang/leaves/beside", test_beside);
    g_test_add_func("/gang/hosts/best-fit", test_best_fit);
    g_test_add_func("/gang/hosts/gpus", test_leaves_gpus);
    g_test_add_func("/gang/policy/spread", test_spread);
    g_test_add_func("/gang/policy/exclusive", test_exclusive);
    g_test_add_func("/gang/policy/labels-and-avoid", test_labels_and_avoid);
    g_test_add_func("/gang/mixed/gpus", test_mixed);
    g_test_add_func("/gang/mixed/many-pods", test_mixed_in_many_pods);
    g_test_add_func("/gang/mixed/spread", test_mixed_spread);
    g_test_add_func("/gang/mixed/beside", test_mixed_beside);
    g_test_add_func("/gang/rollback", test_rollback);
    g_test_add_func("/gang/pattern", test_pattern);
    g_test_add_func("/gang/rule", test_rule);
    return g_test_run();
}
