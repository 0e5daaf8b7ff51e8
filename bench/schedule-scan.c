#include "schedule-bench.h"
#include "slot.h"

struct BenchScan {
    GPtrArray *hosts; /* WeftHost, by which slots are described */
    WeftFleetFabric told;
    GPtrArray *slots; /* WeftSlot, by leaf, hosts of one leaf together */
    WeftSlot **by_number;
    guint per_leaf;
    guint leaves;
    guint *fit;      /* of each slot, in this look */
    guint64 *room;   /* of each leaf */
    gboolean *taken; /* leaves that are used already */
    WeftSeat *seats; /* that were tried */
    WeftSlot **where;
    guint n_seats;
};

BenchScan *
bench_scan_new(const WeftFleet *fleet, const BenchFleet *what)
{
    BenchScan *scan = g_new0(BenchScan, 1);
    scan->hosts = g_ptr_array_new_with_free_func((GDestroyNotify)weft_host_free);
    scan->slots = g_ptr_array_new_with_free_func((GDestroyNotify)weft_slot_free);
    scan->by_number = g_new0(WeftSlot *, weft_fleet_size(fleet));
    scan->per_leaf = what->per_leaf;
    scan->leaves = (what->hosts + what->per_leaf - 1) / what->per_leaf;
    scan->fit = g_new0(guint, what->hosts);
    scan->room = g_new0(guint64, scan->leaves);
    scan->taken = g_new0(gboolean, scan->leaves);
    scan->seats = g_new0(WeftSeat, WEFT_NODES_MAX);
    scan->where = g_new0(WeftSlot *, WEFT_NODES_MAX);
    for (guint i = 0; i < what->hosts; i++) {
        WeftHost *host = bench_host(what, i);
        guint number = weft_fleet_number(fleet, host->name);
        WeftSlot *slot = weft_slot_new(number, host, &scan->told);
        weft_slot_set_open(slot, TRUE);
        g_ptr_array_add(scan->hosts, host);
        g_ptr_array_add(scan->slots, slot);
        scan->by_number[number] = slot;
    }
    return scan;
}

void
bench_scan_free(BenchScan *scan)
{
    g_ptr_array_unref(scan->slots);
    g_ptr_array_unref(scan->hosts);
    g_free(scan->by_number);
    g_free(scan->fit);
    g_free(scan->room);
    g_free(scan->taken);
    g_free(scan->seats);
    g_free(scan->where);
    g_free(scan);
}

void
bench_scan_take(BenchScan *scan, const WeftSeat *seats, guint n, const char *cluster)
{
    for (guint i = 0; i < n; i++)
        weft_slot_take_seat(scan->by_number[seats[i].host], &seats[i], cluster);
}

void
bench_scan_give(BenchScan *scan, const WeftSeat *seats, guint n, const char *cluster)
{
    for (guint i = 0; i < n; i++)
        weft_slot_give_seat(scan->by_number[seats[i].host], &seats[i], cluster);
}

static guint64
look_at_all(BenchScan *scan, const WeftShape *shape)
{
    guint64 room = 0;
    memset(scan->room, 0, scan->leaves * sizeof *scan->room);
    memset(scan->taken, 0, scan->leaves * sizeof *scan->taken);
    for (guint i = 0; i < scan->slots->len; i++) {
        scan->fit[i] = weft_slot_fit(scan->slots->pdata[i], shape);
        scan->room[i / scan->per_leaf] += scan->fit[i];
        room += scan->fit[i];
    }
    return room;
}

/* The tightest that has room for all that is left, else the largest. */
static guint
next_leaf(const BenchScan *scan, guint left)
{
    guint best = G_MAXUINT;
    for (guint i = 0; i < scan->leaves; i++) {
        guint64 room = scan->taken[i] ? 0 : scan->room[i], than = best == G_MAXUINT ? 0 : scan->room[best];
        if (than >= left ? room >= left && room < than : room > than)
            best = i;
    }
    return best;
}

static guint
fill_leaf(BenchScan *scan, const WeftShape *shape, guint leaf, guint left)
{
    guint end = MIN((leaf + 1) * scan->per_leaf, scan->slots->len);
    for (guint i = leaf * scan->per_leaf; left && i < end; i++)
        for (guint k = 0; left && k < scan->fit[i]; k++, left--) {
            WeftSeat *seat = &scan->seats[scan->n_seats];
            if (!weft_slot_seat(scan->slots->pdata[i], shape, seat))
                break;
            weft_slot_take_seat(scan->slots->pdata[i], seat, NULL);
            scan->where[scan->n_seats++] = scan->slots->pdata[i];
        }
    return left;
}

guint
bench_scan_place(BenchScan *scan, const WeftShape *shape, guint n)
{
    guint leaves = 0, left = n;
    scan->n_seats = 0;
    if (look_at_all(scan, shape) < n)
        return 0;
    for (; left; leaves++) {
        guint leaf = next_leaf(scan, left);
        scan->taken[leaf] = TRUE;
        left = fill_leaf(scan, shape, leaf, left);
    }
    while (scan->n_seats-- > 0)
        weft_slot_give_seat(scan->where[scan->n_seats], &scan->seats[scan->n_seats], NULL);
    return leaves;
}
