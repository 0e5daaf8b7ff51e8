/* schedule-bench PART …: see schedule-bench.h. For bench/schedule. */
#include "schedule-bench.h"

#include <errno.h>
#include <unistd.h>

WeftHost *
bench_host(const BenchFleet *what, guint number)
{
    g_autofree char *name = g_strdup_printf("n%u", number);
    WeftHost *host = case_host(name, "ib0", &what->host);
    host->leaf = g_strdup_printf("leaf%u", number / what->per_leaf);
    if (what->vfs)
        case_add_hca(host, 0, 0, what->vfs, number + 1);
    return host;
}

static void
tell_distances(WeftFleet *fleet, const BenchFleet *what)
{
    guint leaves = (what->hosts + what->per_leaf - 1) / what->per_leaf;
    WeftFleetFabric told = { .switches = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                             .hops = g_array_sized_new(FALSE, FALSE, 1, leaves * leaves) };
    for (guint a = 0; a < leaves; a++) {
        g_hash_table_insert(told.switches, g_strdup_printf("leaf%u", a), GUINT_TO_POINTER(a));
        for (guint b = 0; b < leaves; b++) {
            guint8 hops = a == b ? 0 : a / what->per_pod == b / what->per_pod ? 2 : 4;
            g_array_append_val(told.hops, hops);
        }
    }
    weft_fleet_set_fabric(fleet, "ib0", &told);
}

WeftFleet *
bench_fleet(const BenchFleet *what)
{
    WeftFleet *fleet = weft_fleet_new();
    for (guint i = 0; i < what->hosts; i++) {
        WeftHost *host = bench_host(what, i);
        weft_fleet_put_host(fleet, host);
        weft_fleet_set_open(fleet, host->name, TRUE);
    }
    tell_distances(fleet, what);
    weft_fleet_sort(fleet);
    return fleet;
}

gint64
bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (gint64)now.tv_sec * 1000000000 + now.tv_nsec;
}

gint64
bench_percentile(const GArray *sorted, guint percent)
{
    return sorted->len ? g_array_index(sorted, gint64, MIN(sorted->len - 1, sorted->len * percent / 100)) : 0;
}

static int
compare(gconstpointer a, gconstpointer b)
{
    gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
    return x < y ? -1 : x > y;
}

void
bench_sort(GArray *numbers)
{
    g_array_sort(numbers, compare);
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        gboolean (*run)(int, char **);
    } parts[] = { { "speed", bench_speed }, { "quality", bench_quality }, { "replay", bench_replay } };
    if (!g_getenv("G_SLICE")) { /* GLib's own pools would hide allocations, and read this before main() */
        g_setenv("G_SLICE", "always-malloc", TRUE);
        execv("/proc/self/exe", argv);
        g_error("/proc/self/exe: %s", g_strerror(errno));
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (guint i = 0; argc > 1 && i < G_N_ELEMENTS(parts); i++)
        if (strcmp(argv[1], parts[i].name) == 0)
            return parts[i].run(argc - 2, argv + 2) ? 0 : 1;
    fprintf(stderr, "usage: schedule-bench speed [DECISIONS [HOSTS…]] | quality [INSTANCES [SEED]] | replay FILE\n");
    return 2;
}
