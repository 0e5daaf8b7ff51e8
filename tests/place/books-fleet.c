/* Fleets of the same contents as the books. */
#include "books.h"

static gpointer
copy_u64(gpointer value)
{
    return g_memdup2(value, sizeof(guint64));
}

static gpointer
copy_text(gpointer value)
{
    return g_strdup(value);
}

static gpointer
copy_number(gpointer value)
{
    return value;
}

/* Of port GUIDs to whatever copy copies. */
static GHashTable *
copy_ports(GHashTable *table, gpointer (*copy)(gpointer), GDestroyNotify free)
{
    GHashTableIter iter;
    gpointer key, value;
    if (!table)
        return NULL;
    GHashTable *ports = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, free);
    for (g_hash_table_iter_init(&iter, table); g_hash_table_iter_next(&iter, &key, &value);)
        g_hash_table_insert(ports, copy_u64(key), copy(value));
    return ports;
}

static GHashTable *
copy_switches(GHashTable *table)
{
    GHashTableIter iter;
    gpointer key, value;
    if (!table)
        return NULL;
    GHashTable *switches = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (g_hash_table_iter_init(&iter, table); g_hash_table_iter_next(&iter, &key, &value);)
        g_hash_table_insert(switches, g_strdup(key), value);
    return switches;
}

static WeftFleetFabric
copy_fabric(const WeftFleetFabric *told)
{
    WeftFleetFabric copy = *told;
    copy.closed = g_strdup(told->closed);
    copy.no_devices = g_strdup(told->no_devices);
    copy.no_virtual = g_strdup(told->no_virtual);
    copy.no_lanes = g_strdup(told->no_lanes);
    copy.ports = copy_ports(told->ports, copy_number, NULL);
    copy.rates = copy_ports(told->rates, copy_u64, g_free);
    copy.leaves = copy_ports(told->leaves, copy_text, g_free);
    copy.switches = copy_switches(told->switches);
    copy.hops = told->hops ? g_array_copy(told->hops) : NULL;
    return copy;
}

void
books_put(const Books *books, WeftFleet *fleet, const BookHost *host)
{
    weft_fleet_put_host(fleet, weft_host_copy(host->host));
    weft_fleet_set_open(fleet, host->host->name, host->open);
    if (host->found)
        weft_fleet_set_devices(fleet, host->host->name, host->found);
}

static void
take_all(WeftFleet *fleet, const BookHost *host)
{
    for (guint i = 0; i < host->seats->len; i++) {
        const BookSeat *seat = &g_array_index(host->seats, BookSeat, i);
        WeftSeat there = seat->seat;
        there.host = weft_fleet_number(fleet, host->host->name);
        weft_fleet_take_seats(fleet, &there, 1, seat->cluster);
    }
}

void
books_bring(const Books *books, WeftFleet *fleet, const BookHost *host)
{
    books_put(books, fleet, host);
    take_all(fleet, host);
}

void
books_tell(const Books *books, WeftFleet *fleet, const char *fabric)
{
    WeftFleetFabric copy = copy_fabric(g_hash_table_lookup(books->fabrics, fabric));
    weft_fleet_set_fabric(fleet, fabric, &copy);
}

WeftFleet *
books_fleet(const Books *books, const guint *order)
{
    GHashTableIter iter;
    gpointer name;
    WeftFleet *fleet = weft_fleet_new();
    for (guint i = 0; i < books->hosts->len; i++)
        books_put(books, fleet, books->hosts->pdata[order ? order[i] : i]);
    for (g_hash_table_iter_init(&iter, books->fabrics); g_hash_table_iter_next(&iter, &name, NULL);)
        books_tell(books, fleet, name);
    weft_fleet_sort(fleet);
    for (guint i = 0; i < books->hosts->len; i++)
        take_all(fleet, books->hosts->pdata[order ? order[i] : i]);
    return fleet;
}
