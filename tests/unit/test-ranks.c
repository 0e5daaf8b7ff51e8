#include "path-rule.h"
#include "ranks.h"

#include <dlfcn.h>
#include <scotch.h>

#define N_MAX 64
#define EXACT_MAX 8 /* ranks of which every order can be tried */

/* --- helpers --- */

static guint
two_cables(guint a, guint b, gconstpointer data)
{
    return 2;
}

/* Two leaves to a pod. */
static guint
pods(guint a, guint b, gconstpointer data)
{
    return a / 2 == b / 2 ? 2 : 4;
}

/* Leaves in a row. */
static guint
row(guint a, guint b, gconstpointer data)
{
    return a > b ? a - b : b - a;
}

static GArray *
traffic_of(WeftPattern pattern, guint n)
{
    WeftCluster cluster = { .pattern = pattern };
    return weft_pattern_traffic(&cluster, n);
}

static void
add_pair(GArray *traffic, guint a, guint b, guint32 weight)
{
    WeftTraffic pair = { (guint16)a, (guint16)b, weight };
    g_array_append_val(traffic, pair);
}

/* Places in order of hosts, so many on each, so many hosts on each leaf. */
static void
fill_places(WeftRankPlace *places, guint n, guint per_host, guint per_leaf)
{
    for (guint i = 0; i < n; i++)
        places[i] = (WeftRankPlace){ .host = i / per_host, .leaf = i / per_host / per_leaf };
}

static void
shuffle(WeftRankPlace *places, guint n, guint32 seed)
{
    g_autoptr(GRand) dice = g_rand_new_with_seed(seed);
    for (guint i = n; i > 1; i--) {
        guint j = (guint)g_rand_int_range(dice, 0, (gint32)i);
        WeftRankPlace place = places[i - 1];
        places[i - 1] = places[j];
        places[j] = place;
    }
}

/* Each place once, and one of the rank's own group. */
static void
assert_order(const WeftRankPlace *places, const guint *order, guint n)
{
    g_autofree gboolean *taken = g_new0(gboolean, n);
    for (guint i = 0; i < n; i++) {
        g_assert_cmpuint(order[i], <, n);
        g_assert_false(taken[order[i]]);
        taken[order[i]] = TRUE;
        g_assert_cmpuint(places[order[i]].group, ==, places[i].group);
    }
}

static guint64
map_cost(const GArray *traffic, const WeftRankPlace *places, guint n, WeftHops hops, gconstpointer data)
{
    g_autofree guint *order = g_new(guint, n);
    weft_ranks_map(traffic, places, n, hops, data, order);
    assert_order(places, order, n);
    return weft_ranks_cost(traffic, places, order, hops, data);
}

/* --- patterns --- */

static char *
describe(const GArray *traffic)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < traffic->len; i++) {
        const WeftTraffic *pair = &g_array_index(traffic, WeftTraffic, i);
        g_string_append_printf(text, "%s%u-%u", i ? " " : "", pair->a, pair->b);
        if (pair->weight != 1)
            g_string_append_printf(text, ":%u", pair->weight);
    }
    return g_string_free(text, FALSE);
}

static void
patterns_are_as_mpi_numbers_them(void)
{
    static const struct {
        WeftPattern pattern;
        guint n;
        const char *pairs;
    } cases[] = {
        { WEFT_PATTERN_NONE, 4, "" },
        { WEFT_PATTERN_RING, 1, "" },
        { WEFT_PATTERN_RING, 2, "0-1" },
        { WEFT_PATTERN_RING, 4, "0-1 1-2 2-3 0-3" },
        { WEFT_PATTERN_ALL, 3, "0-1 0-2 1-2" },
        { WEFT_PATTERN_STENCIL2D, 1, "" },
        { WEFT_PATTERN_STENCIL2D, 6, "0-1 0-2 1-3 2-3 2-4 3-5 4-5" }, /* 3 × 2 */
        { WEFT_PATTERN_STENCIL2D, 5, "0-1 1-2 2-3 3-4" },
        { WEFT_PATTERN_STENCIL3D, 8, "0-1 0-2 0-4 1-3 1-5 2-3 2-6 3-7 4-5 4-6 5-7 6-7" },
        { WEFT_PATTERN_STENCIL3D, 12, /* 3 × 2 × 2 */
          "0-1 0-2 0-4 1-3 1-5 2-3 2-6 3-7 4-5 4-6 4-8 5-7 5-9 6-7 6-10 7-11 8-9 8-10 9-11 10-11" },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GArray) traffic = traffic_of(cases[i].pattern, cases[i].n);
        g_autofree char *pairs = describe(traffic);
        g_assert_cmpstr(pairs, ==, cases[i].pairs);
    }
}

/* 1,024 ranks are 16 × 8 × 8: 3 × 1,024 pairs less those at three sides. */
static void
cubes_have_the_least_surface(void)
{
    g_autoptr(GArray) big = traffic_of(WEFT_PATTERN_STENCIL3D, 1024);
    g_assert_cmpuint(big->len, ==, 3 * 1024 - 8 * 8 - 2 * 16 * 8);
    g_autoptr(GArray) flat = traffic_of(WEFT_PATTERN_STENCIL2D, 1024);
    g_assert_cmpuint(flat->len, ==, 2 * 1024 - 2 * 32);
}

static void
matrix_leaves_out_who_is_not_there(void)
{
    g_autoptr(GArray) matrix = g_array_new(FALSE, FALSE, sizeof(WeftTraffic));
    add_pair(matrix, 0, 1, 7);
    add_pair(matrix, 1, 4, 9);
    add_pair(matrix, 2, 3, 1);
    WeftCluster cluster = { .pattern = WEFT_PATTERN_MATRIX, .traffic = matrix };
    g_autoptr(GArray) traffic = weft_pattern_traffic(&cluster, 4);
    g_autofree char *pairs = describe(traffic);
    g_assert_cmpstr(pairs, ==, "0-1:7 2-3");
}

/* --- the measure --- */

static void
cost_and_percent_by_hand(void)
{
    static const WeftRankPlace places[] = { { 7, 1, 0 }, { 7, 1, 0 }, { 8, 1, 0 }, { 9, 2, 0 } };
    static const guint turned[] = { 3, 2, 1, 0 };
    g_autoptr(GArray) traffic = g_array_new(FALSE, FALSE, sizeof(WeftTraffic));
    g_assert_cmpuint(weft_ranks_between(traffic, places, NULL), ==, 0);
    add_pair(traffic, 0, 1, 500);
    add_pair(traffic, 0, 2, 100);
    add_pair(traffic, 0, 3, 29);
    /* 500 × 0 + 100 × 1 + 29 × (1 + 2); 129 of 629 are 20.5 percent */
    g_assert_cmpuint(weft_ranks_cost(traffic, places, NULL, two_cables, NULL), ==, 187);
    g_assert_cmpuint(weft_ranks_between(traffic, places, NULL), ==, 20);
    /* all from the host on the other leaf: 629 × 3 */
    g_assert_cmpuint(weft_ranks_cost(traffic, places, turned, two_cables, NULL), ==, 1887);
    g_assert_cmpuint(weft_ranks_between(traffic, places, turned), ==, 100);
    add_pair(traffic, 2, 3, G_MAXUINT32);
    g_assert_cmpuint(weft_ranks_cost(traffic, places, NULL, two_cables, NULL), ==, 187 + 3 * (guint64)G_MAXUINT32);
}

static guint
no_way(guint a, guint b, gconstpointer data)
{
    return G_MAXUINT;
}

static void
distances_have_an_end(void)
{
    static const WeftRankPlace places[] = { { 0, 0, 0 }, { 1, 1, 0 } };
    g_autoptr(GArray) traffic = traffic_of(WEFT_PATTERN_RING, 2);
    g_assert_cmpuint(weft_ranks_cost(traffic, places, NULL, no_way, NULL), ==, 256);
    g_assert_cmpuint(map_cost(traffic, places, 2, no_way, NULL), ==, 256);
}

/* --- orders that are known --- */

static void
known_optima(void)
{
    static const struct {
        WeftPattern pattern;
        guint n, per_host, per_leaf;
        WeftHops hops;
        guint64 cost;
    } cases[] = {
        { WEFT_PATTERN_RING, 8, 4, 8, two_cables, 2 },  /* two cuts */
        { WEFT_PATTERN_RING, 16, 4, 2, two_cables, 8 }, /* two between leaves, 3 each, and one on each leaf */
        { WEFT_PATTERN_RING, 16, 2, 2, pods, 20 },      /* 4 on leaves, 2 within pods, 2 between them: 4 + 2 × 3 + 2 × 5 */
        { WEFT_PATTERN_RING, 6, 1, 1, row, 16 },        /* 5 cables there, 5 back, and 6 */
        { WEFT_PATTERN_STENCIL2D, 16, 4, 8, two_cables, 8 }, /* four squares of four */
        { WEFT_PATTERN_STENCIL2D, 64, 16, 8, two_cables, 16 },
        { WEFT_PATTERN_STENCIL2D, 64, 4, 4, two_cables, 80 },   /* 16 between leaves, 3 each, and 8 on each leaf */
        { WEFT_PATTERN_STENCIL3D, 64, 8, 8, two_cables, 48 },   /* three planes of 16 */
        { WEFT_PATTERN_STENCIL2D, 256, 16, 16, two_cables, 96 } /* six lines of 16 */
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        guint n = cases[i].n;
        g_autofree WeftRankPlace *places = g_new(WeftRankPlace, n);
        g_autoptr(GArray) traffic = traffic_of(cases[i].pattern, n);
        for (guint32 seed = 0; seed < 4; seed++) {
            fill_places(places, n, cases[i].per_host, cases[i].per_leaf);
            if (seed)
                shuffle(places, n, seed);
            g_test_message("case %zu, seed %u", i, seed);
            g_assert_cmpuint(map_cost(traffic, places, n, cases[i].hops, NULL), ==, cases[i].cost);
        }
    }
}

static void
heavy_cliques_get_a_host_each(void)
{
    static const guint16 cliques[2][4] = { { 0, 3, 5, 6 }, { 1, 2, 4, 7 } };
    WeftRankPlace places[8];
    guint order[8];
    g_autoptr(GArray) traffic = g_array_new(FALSE, FALSE, sizeof(WeftTraffic));
    for (guint k = 0; k < 2; k++)
        for (guint i = 0; i < 4; i++)
            for (guint j = i + 1; j < 4; j++)
                add_pair(traffic, cliques[k][i], cliques[k][j], 1000);
    for (guint i = 0; i < 7; i += 2)
        add_pair(traffic, i, i + 1, 1); /* all four between the two */
    fill_places(places, 8, 4, 2);
    weft_ranks_map(traffic, places, 8, two_cables, NULL, order);
    assert_order(places, order, 8);
    g_assert_cmpuint(weft_ranks_cost(traffic, places, order, two_cables, NULL), ==, 4);
    for (guint k = 0; k < 2; k++)
        for (guint i = 1; i < 4; i++)
            g_assert_cmpuint(places[order[cliques[k][i]]].host, ==, places[order[cliques[k][0]]].host);
}

/* Pairs of a GPU node and a CPU node that talk, on hosts that have room for one of each: which of its group a rank is with must
 * follow from where the other is. */
static void
groups_meet_without_mixing(void)
{
    WeftRankPlace places[16];
    g_autoptr(GArray) traffic = g_array_new(FALSE, FALSE, sizeof(WeftTraffic));
    for (guint i = 0; i < 16; i++)
        places[i] = (WeftRankPlace){ .host = i % 8, .leaf = i % 8 / 4, .group = i / 8 };
    for (guint i = 0; i < 8; i++)
        add_pair(traffic, i, 8 + (i * 3 + 1) % 8, 5);
    g_assert_cmpuint(map_cost(traffic, places, 16, two_cables, NULL), ==, 0);
}

static void
assert_unchanged(const GArray *traffic, const WeftRankPlace *places, guint n)
{
    guint order[N_MAX];
    weft_ranks_map(traffic, places, n, two_cables, NULL, order);
    for (guint i = 0; i < n; i++)
        g_assert_cmpuint(order[i], ==, i);
}

/* What cannot be bettered stays as it is. */
static void
order_stays_where_it_is_as_good(void)
{
    WeftRankPlace places[N_MAX];
    fill_places(places, N_MAX, 4, 4);
    g_autoptr(GArray) all = traffic_of(WEFT_PATTERN_ALL, N_MAX), ring = traffic_of(WEFT_PATTERN_RING, N_MAX);
    g_autoptr(GArray) none = traffic_of(WEFT_PATTERN_NONE, N_MAX), one = traffic_of(WEFT_PATTERN_RING, 1);
    assert_unchanged(ring, places, N_MAX);
    assert_unchanged(none, places, N_MAX);
    assert_unchanged(one, places, 1);
    shuffle(places, N_MAX, 1);
    assert_unchanged(all, places, N_MAX);
    fill_places(places, N_MAX, 1, N_MAX);
    shuffle(places, N_MAX, 1);
    assert_unchanged(ring, places, N_MAX);
}

/* A shuffled order of 1,024 ends no worse than rows of ranks on hosts in order. */
static void
many_ranks(void)
{
    enum { N = 1024 };
    g_autofree WeftRankPlace *places = g_new(WeftRankPlace, N);
    g_autoptr(GArray) traffic = traffic_of(WEFT_PATTERN_STENCIL3D, N);
    fill_places(places, N, 16, 16);
    guint64 rows = weft_ranks_cost(traffic, places, NULL, two_cables, NULL);
    shuffle(places, N, 1);
    g_assert_cmpuint(map_cost(traffic, places, N, two_cables, NULL), <, rows);
    fill_places(places, N, 1, 4);
    rows = weft_ranks_cost(traffic, places, NULL, pods, NULL);
    shuffle(places, N, 2);
    g_assert_cmpuint(map_cost(traffic, places, N, pods, NULL), <, rows);
}

/* --- whatever comes --- */

typedef struct Case {
    guint n;
    WeftRankPlace places[N_MAX];
    guint cables[N_MAX][N_MAX];
    GArray *traffic;
} Case;

static guint
cables_of(guint a, guint b, gconstpointer data)
{
    return ((const Case *)data)->cables[a][b];
}

static guint
below(GRand *dice, guint n)
{
    return (guint)g_rand_int_range(dice, 0, (gint32)n);
}

/* Any number of hosts and leaves, filled as it happens; cables equal, as in pods, or without any order; traffic thin or dense,
 * its weights equal, alike, or of all sizes. */
static Case *
case_new(guint32 seed, guint n_max)
{
    g_autoptr(GRand) dice = g_rand_new_with_seed(seed);
    Case *c = g_new0(Case, 1);
    c->n = 1 + below(dice, n_max);
    guint hosts = 1 + below(dice, c->n), leaves = 1 + below(dice, hosts), groups = 1 + below(dice, 4) / 2;
    guint fabric = below(dice, 3), dense = 1 + below(dice, 4), weights = below(dice, 3), leaf[N_MAX];
    for (guint a = 0; a < leaves; a++)
        for (guint b = 0; b < a; b++)
            c->cables[a][b] = c->cables[b][a] = fabric == 0 ? 2 : fabric == 1 ? (a / 3 == b / 3 ? 2 : 4) : 1 + below(dice, 6);
    for (guint i = 0; i < hosts; i++)
        leaf[i] = below(dice, leaves);
    for (guint i = 0; i < c->n; i++) {
        guint host = below(dice, hosts);
        c->places[i] = (WeftRankPlace){ host, leaf[host], below(dice, groups) };
    }
    c->traffic = g_array_new(FALSE, FALSE, sizeof(WeftTraffic));
    for (guint a = 0; a < c->n; a++)
        for (guint b = a + 1; b < c->n; b++)
            if (below(dice, 4) < dense)
                add_pair(c->traffic, a, b, weights == 0 ? 1 : weights == 1 ? below(dice, 10) : 1U << below(dice, 32));
    return c;
}

static void
case_free(Case *c)
{
    g_array_unref(c->traffic);
    g_free(c);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Case, case_free)

static void
never_worse_and_always_the_same(void)
{
    for (guint32 seed = 0; seed < 400; seed++) {
        g_autoptr(Case) c = case_new(seed, N_MAX);
        guint order[N_MAX], again[N_MAX];
        g_test_message("seed %u: %u ranks", seed, c->n);
        weft_ranks_map(c->traffic, c->places, c->n, cables_of, c, order);
        assert_order(c->places, order, c->n);
        g_assert_cmpuint(weft_ranks_cost(c->traffic, c->places, order, cables_of, c), <=,
                         weft_ranks_cost(c->traffic, c->places, NULL, cables_of, c));
        SCOTCH_randomVal(100);
        weft_ranks_map(c->traffic, c->places, c->n, cables_of, c, again);
        g_assert_cmpmem(order, c->n * sizeof(guint), again, c->n * sizeof(guint));
    }
}

/* The best of all orders, one place after the other. */
static void
try_all(const Case *c, guint *order, guint rank, guint taken, guint64 *least)
{
    if (rank == c->n) {
        *least = MIN(*least, weft_ranks_cost(c->traffic, c->places, order, cables_of, c));
        return;
    }
    for (guint i = 0; i < c->n; i++) {
        if (taken & 1U << i || c->places[i].group != c->places[rank].group)
            continue;
        order[rank] = i;
        try_all(c, order, rank + 1, taken | 1U << i, least);
    }
}

static void
small_clusters_get_the_best_order(void)
{
    enum { CASES = 150 };
    guint best = 0;
    for (guint32 seed = 0; seed < CASES; seed++) {
        g_autoptr(Case) c = case_new(seed, EXACT_MAX);
        guint order[EXACT_MAX];
        guint64 least = G_MAXUINT64, got = map_cost(c->traffic, c->places, c->n, cables_of, c);
        try_all(c, order, 0, 0, &least);
        best += got == least;
        if (got != least)
            g_test_message("seed %u: %" G_GUINT64_FORMAT " instead of %" G_GUINT64_FORMAT, seed, got, least);
        g_assert_cmpuint(got * 10, <=, least * 13);
    }
    g_test_message("%u of %u are the best", best, CASES);
    g_assert_cmpuint(best * 100, >=, CASES * 98);
}

/* --- Scotch, and without it --- */

static gboolean broken;

/* Comes before Scotch's own. */
int
SCOTCH_graphMapFixed(SCOTCH_Graph *const graph, const SCOTCH_Arch *const arch, SCOTCH_Strat *const strategy,
                     SCOTCH_Num *const parts)
{
    int (*real)(SCOTCH_Graph *, const SCOTCH_Arch *, SCOTCH_Strat *, SCOTCH_Num *) = dlsym(RTLD_NEXT, "SCOTCH_graphMapFixed");
    return broken ? 1 : real(graph, arch, strategy, parts);
}

static void
swaps_alone_when_scotch_fails(void)
{
    WeftRankPlace places[8];
    g_autoptr(GArray) ring = traffic_of(WEFT_PATTERN_RING, 8);
    fill_places(places, 8, 4, 2);
    shuffle(places, 8, 1);
    broken = TRUE;
    g_assert_cmpuint(map_cost(ring, places, 8, two_cables, NULL), ==, 2);
    for (guint32 seed = 0; seed < 50; seed++) {
        g_autoptr(Case) c = case_new(seed, N_MAX);
        g_assert_cmpuint(map_cost(c->traffic, c->places, c->n, cables_of, c), <=,
                         weft_ranks_cost(c->traffic, c->places, NULL, cables_of, c));
    }
    broken = FALSE;
}

/* Its own words for it would go to standard error, past the log. */
static void
scotch_is_silent(void)
{
    if (g_test_subprocess()) {
        SCOTCH_Strat strategy;
        SCOTCH_stratInit(&strategy);
        g_assert_cmpint(SCOTCH_stratGraphMap(&strategy, "no strategy"), !=, 0);
        g_printerr("still here\n");
        return;
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    g_test_trap_assert_stderr("still here\n");
}

/* --- the path --- */

static void
assert_path(const WeftPathRule *rule, guint between, WeftPath path, guint64 shm)
{
    guint64 bytes = 1;
    g_assert_cmpint(weft_path_rule_apply(rule, between, &bytes), ==, path);
    g_assert_cmpuint(bytes, ==, shm);
}

static void
path_follows_the_rule(void)
{
    static const WeftPathRule shared = { .bridge_below = 35, .shm = 64 << 20 }, never = { .bridge_below = 0, .shm = 1 << 20 },
                              nearly_always = { .bridge_below = 100 };
    assert_path(&weft_path_rule_published, 0, WEFT_PATH_BRIDGE, 0);
    assert_path(&weft_path_rule_published, 19, WEFT_PATH_BRIDGE, 0);
    assert_path(&weft_path_rule_published, 20, WEFT_PATH_SRIOV, 0);
    assert_path(&weft_path_rule_published, 100, WEFT_PATH_SRIOV, 0);
    assert_path(&shared, 34, WEFT_PATH_BRIDGE, 64 << 20);
    assert_path(&shared, 35, WEFT_PATH_SRIOV, 0);
    assert_path(&never, 0, WEFT_PATH_SRIOV, 0);
    assert_path(&nearly_always, 99, WEFT_PATH_BRIDGE, 0);
    assert_path(&nearly_always, 100, WEFT_PATH_SRIOV, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ranks/patterns", patterns_are_as_mpi_numbers_them);
    g_test_add_func("/ranks/cubes", cubes_have_the_least_surface);
    g_test_add_func("/ranks/matrix", matrix_leaves_out_who_is_not_there);
    g_test_add_func("/ranks/measure", cost_and_percent_by_hand);
    g_test_add_func("/ranks/far", distances_have_an_end);
    g_test_add_func("/ranks/known", known_optima);
    g_test_add_func("/ranks/cliques", heavy_cliques_get_a_host_each);
    g_test_add_func("/ranks/groups", groups_meet_without_mixing);
    g_test_add_func("/ranks/unchanged", order_stays_where_it_is_as_good);
    g_test_add_func("/ranks/many", many_ranks);
    g_test_add_func("/ranks/random", never_worse_and_always_the_same);
    g_test_add_func("/ranks/best", small_clusters_get_the_best_order);
    g_test_add_func("/ranks/without-scotch", swaps_alone_when_scotch_fails);
    g_test_add_func("/ranks/silent", scotch_is_silent);
    g_test_add_func("/paths/rule", path_follows_the_rule);
    return g_test_run();
}
