/* How long a decision takes: fleets at 70 % of their cores, each gang really taken, and an old one given for it. */
#include "schedule-bench.h"

#define FILL 70 /* percent of the cores */
#define DECISIONS 1000
#define SCANS 100
#define MOST_MICROS 200.0 /* for 64 nodes on 10,000 hosts; twice of that on 100,000 */

typedef struct Gang {
    char id[16];
    guint n;
    WeftSeat *seats;
} Gang;

/* What runs on the fleet. */
typedef struct Load {
    WeftFleet *fleet;
    BenchScan *scan;
    GRand *dice;
    WeftCluster *cluster; /* of one group, whose wishes change */
    guint count;
    GPtrArray *gangs; /* Gang */
    guint64 cores;    /* in all */
    guint64 taken;
    guint next;
} Load;

/* What a gang size took. */
typedef struct Times {
    GArray *micros; /* gint64, nanoseconds */
    GArray *scans;
    gint64 plain;                /* the last upkeep of the plain way */
    guint64 leaves, scan_leaves; /* of those decisions that were made both ways */
    guint refused;
    guint64 allocations; /* while places are found */
    guint64 upkeep;      /* … while they are taken and given */
} Times;

static void
gang_free(gpointer data)
{
    g_free(((Gang *)data)->seats);
    g_free(data);
}

static void
wish(Load *load, guint nodes, guint cores)
{
    WeftGroup *group = load->cluster->groups->pdata[0];
    group->cores = cores;
    group->memory = (guint64)cores << 30;
    group->count = load->count = nodes;
}

static gboolean
place(Load *load, WeftPlacement *ret_placement)
{
    WeftPlaceRequest request = { .cluster = load->cluster, .counts = &load->count };
    return weft_place(load->fleet, &request, ret_placement);
}

/* The gang is the fleet's own no more. */
static Gang *
keep(Load *load, const WeftPlacement *placement)
{
    Gang *gang = g_new0(Gang, 1);
    g_strlcpy(gang->id, load->cluster->id, sizeof gang->id);
    gang->n = placement->n;
    gang->seats = g_memdup2(placement->seats, placement->n * sizeof *gang->seats);
    return gang;
}

static guint
cores_of(const Gang *gang)
{
    guint cores = 0;
    for (guint i = 0; i < gang->n; i++)
        for (guint p = 0; p < gang->seats[i].n_parts; p++)
            cores += gang->seats[i].parts[p].cores;
    return cores;
}

/* A fresh id for the next one. */
static void
rename_cluster(Load *load)
{
    g_free(load->cluster->id);
    load->cluster->id = g_strdup_printf("%012u", load->next++);
}

static void
note(Load *load, Gang *gang)
{
    bench_scan_take(load->scan, gang->seats, gang->n, gang->id);
    load->taken += cores_of(gang);
    rename_cluster(load);
}

/* A gang comes; FALSE: there is no room. */
static Gang *
come(Load *load)
{
    WeftPlacement placement;
    if (!place(load, &placement))
        return NULL;
    Gang *gang = keep(load, &placement);
    weft_fleet_take_seats(load->fleet, gang->seats, gang->n, gang->id);
    note(load, gang);
    return gang;
}

static void
forget(Load *load, const Gang *gang)
{
    bench_scan_give(load->scan, gang->seats, gang->n, gang->id);
    load->taken -= cores_of(gang);
}

static void
go(Load *load, GPtrArray *gangs, guint which)
{
    const Gang *gang = gangs->pdata[which];
    weft_fleet_give_seats(load->fleet, gang->seats, gang->n, gang->id);
    forget(load, gang);
    g_ptr_array_remove_index_fast(gangs, which);
}

static guint
pick(Load *load, guint n)
{
    return (guint)g_rand_int_range(load->dice, 0, (gint32)n);
}

/* Gangs of many sizes come until so much is taken. */
static void
fill(Load *load, guint percent)
{
    guint misses = 0;
    while (load->taken * 100 < load->cores * percent && misses < 100) {
        wish(load, 1U << pick(load, 8), 2U << pick(load, 3));
        Gang *gang = come(load);
        if (gang)
            g_ptr_array_add(load->gangs, gang);
        else
            misses++;
    }
}

static void
thin_out(Load *load, guint percent)
{
    while (load->taken * 100 > load->cores * percent && load->gangs->len)
        go(load, load->gangs, pick(load, load->gangs->len));
}

static Load *
load_new(guint hosts)
{
    Load *load = g_new0(Load, 1);
    BenchFleet what = BENCH_FLEET(hosts);
    load->fleet = bench_fleet(&what);
    load->scan = bench_scan_new(load->fleet, &what);
    load->dice = g_rand_new_with_seed(hosts);
    load->cluster = case_cluster("000000000000");
    WeftGroup *group = case_add_group(load->cluster, 1, 1, 1 << 30);
    group->path = WEFT_PATH_SRIOV;
    group->rails = 1;
    load->gangs = g_ptr_array_new_with_free_func(gang_free);
    load->cores = weft_fleet_cores(load->fleet, &(guint64){ 0 });
    fill(load, FILL + 15);
    thin_out(load, FILL);
    fill(load, FILL);
    return load;
}

static void
load_free(Load *load)
{
    g_ptr_array_unref(load->gangs);
    bench_scan_free(load->scan);
    weft_fleet_free(load->fleet);
    weft_cluster_free(load->cluster);
    g_rand_free(load->dice);
    g_free(load);
}

/* Old gangs of that size, one of which goes whenever one comes. */
static GPtrArray *
old_gangs(Load *load, guint nodes)
{
    guint most = (guint)CLAMP(load->cores / 20 / (4ULL * nodes), 1, 100);
    GPtrArray *old = g_ptr_array_new_with_free_func(gang_free);
    for (guint i = 0; i < most; i++) {
        wish(load, nodes, 4);
        Gang *gang = come(load);
        if (gang)
            g_ptr_array_add(old, gang);
        thin_out(load, FILL);
    }
    return old;
}

/* Timed is what a scheduler does for a gang: find its places, take them, and give those of one that ends. Not timed is the copy
 * of the seats, the bench's own books, and that others come and go. */
static void
decide(Load *load, GPtrArray *old, guint nodes, gboolean compared, Times *times)
{
    WeftPlacement placement;
    guint which = pick(load, old->len);
    const Gang *leaves = old->pdata[which];
    wish(load, nodes, 4);
    guint64 before = bench_allocations();
    gint64 began = bench_now();
    gboolean placed = place(load, &placement);
    guint64 between = bench_allocations();
    if (placed) {
        weft_fleet_take_seats(load->fleet, placement.seats, placement.n, load->cluster->id);
        weft_fleet_give_seats(load->fleet, leaves->seats, leaves->n, leaves->id);
    }
    gint64 took = bench_now() - began;
    times->allocations += between - before;
    times->upkeep += bench_allocations() - between;
    times->refused += !placed;
    g_array_append_val(times->micros, took);
    if (!placed)
        return;
    times->leaves += compared ? placement.leaves : 0;
    Gang *gang = keep(load, &placement);
    began = bench_now();
    forget(load, leaves);
    g_ptr_array_remove_index_fast(old, which);
    note(load, gang);
    times->plain = bench_now() - began;
    g_ptr_array_add(old, gang);
}

static void
decide_plainly(Load *load, guint nodes, Times *times)
{
    WeftShape shape = { .cores = 4, .memory = 4ULL << 30, .rails = 1, .path = WEFT_PATH_SRIOV };
    gint64 began = bench_now();
    times->scan_leaves += bench_scan_place(load->scan, &shape, nodes);
    gint64 took = bench_now() - began + times->plain;
    g_array_append_val(times->scans, took);
}

/* Others come and go, so that the holes are never the same. */
static void
churn(Load *load)
{
    go(load, load->gangs, pick(load, load->gangs->len));
    fill(load, FILL);
}

static void
print(guint hosts, guint nodes, const Times *times)
{
    guint n = times->micros->len, placed = n - times->refused, scans = times->scans->len;
    if (placed == 0) {
        printf("%7u hosts  %4u nodes  no room\n", hosts, nodes);
        return;
    }
    double median = (double)bench_percentile(times->micros, 50) / 1000,
           scan = (double)bench_percentile(times->scans, 50) / 1000;
    printf("%7u hosts  %4u nodes  median %9.1f µs  p99 %9.1f µs  leaves %6.2f  refused %3u  allocations %.2f + %.0f  |  "
           "plain scan %9.1f µs  leaves %6.2f  %7.1f times\n",
           hosts, nodes, median, (double)bench_percentile(times->micros, 99) / 1000, scans ? (double)times->leaves / scans : 0,
           times->refused, (double)times->allocations / n, (double)times->upkeep / n, scan,
           scans ? (double)times->scan_leaves / scans : 0, scan / median);
}

/* The median in microseconds. *allocations: those while places were found are added. */
static double
measure(Load *load, guint nodes, guint decisions, guint64 *allocations)
{
    g_autoptr(GPtrArray) old = old_gangs(load, nodes);
    Times times = { .micros = g_array_new(FALSE, FALSE, sizeof(gint64)), .scans = g_array_new(FALSE, FALSE, sizeof(gint64)) };
    for (guint i = 0; i < decisions && old->len; i++) {
        gboolean compared = i % MAX(1, decisions / SCANS) == 0;
        if (compared)
            decide_plainly(load, nodes, &times);
        decide(load, old, nodes, compared, &times);
        churn(load);
    }
    bench_sort(times.micros);
    bench_sort(times.scans);
    print(weft_fleet_size(load->fleet), nodes, &times);
    *allocations += times.allocations;
    double median = (double)bench_percentile(times.micros, 50) / 1000;
    while (old->len)
        go(load, old, 0);
    g_array_unref(times.micros);
    g_array_unref(times.scans);
    return median;
}

static gboolean
verdict(const char *what, double found, double most)
{
    gboolean reached = found <= most;
    printf("%s: %.1f, to reach at most %.1f: %s\n", what, found, most, reached ? "reached" : "MISSED");
    return reached;
}

gboolean
bench_speed(int argc, char **argv)
{
    static const guint gangs[] = { 1, 8, 64, 512 };
    static const char *const usual[] = { "1000", "10000", "100000" };
    guint decisions = argc > 0 ? (guint)g_ascii_strtoull(argv[0], NULL, 10) : DECISIONS;
    double of[2] = { 0 }; /* 64 nodes on 10,000 and 100,000 hosts */
    guint64 allocations = 0;
    guint n = argc > 1 ? (guint)argc - 1 : G_N_ELEMENTS(usual);
    for (guint i = 0; i < n; i++) {
        guint hosts = (guint)g_ascii_strtoull(argc > 1 ? argv[i + 1] : usual[i], NULL, 10);
        Load *load = load_new(hosts);
        printf("%7u hosts, %u gangs on them, %.1f %% of the cores taken\n", hosts, load->gangs->len,
               100.0 * (double)load->taken / (double)load->cores);
        for (guint g = 0; g < G_N_ELEMENTS(gangs); g++) {
            double median = measure(load, gangs[g], decisions, &allocations);
            fill(load, FILL);
            if (gangs[g] == 64 && (hosts == 10000 || hosts == 100000))
                of[hosts == 100000] = median;
        }
        load_free(load);
    }
    gboolean reached = verdict("allocations while places are found", (double)allocations, 0);
    if (of[0] > 0)
        reached &= verdict("64 nodes on 10,000 hosts, median in µs", of[0], MOST_MICROS);
    if (of[1] > 0)
        reached &= verdict("64 nodes on 100,000 hosts, median in µs", of[1], 2 * MOST_MICROS);
    if (of[0] > 0 && of[1] > 0)
        reached &= verdict("the same, over that on 10,000 hosts", of[1] / of[0], 2);
    return reached;
}
