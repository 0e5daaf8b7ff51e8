#include "fleet.h"

#include "board.h"
#include "fleet-private.h"

#include <string.h>

#define LOG_LEAST 4096 /* changes that are kept at least */

/* A slot as it was; its block is in blocks. */
typedef struct Before {
    guint number;
    guint mark; /* the look ahead that it was kept for */
    guint at;
} Before;

/* --- changes --- */

static void
note_change(WeftFleet *fleet, guint32 number)
{
    guint most = LOG_LEAST + 2 * fleet->slots->len;
    if (fleet->log->len >= most) {
        g_array_remove_range(fleet->log, 0, most / 2);
        fleet->log_start += most / 2;
    }
    g_array_append_val(fleet->log, number);
    g_array_index(fleet->versions, guint32, number)++;
}

static gboolean
is_kept(const WeftFleet *fleet, guint number)
{
    return g_array_index(fleet->places, WeftPlace, number).kept == fleet->mark;
}

static void
keep(WeftFleet *fleet, const WeftSlot *slot)
{
    WeftPlace *place = &g_array_index(fleet->places, WeftPlace, weft_slot_number(slot));
    Before before = { weft_slot_number(slot), place->kept, fleet->blocks->len };
    g_array_append_val(fleet->journal, before);
    place->kept = fleet->mark;
    g_byte_array_set_size(fleet->blocks, before.at + (guint)weft_slot_size(slot));
    weft_slot_save(slot, fleet->blocks->data + before.at);
}

void
weft_fleet_touch(WeftFleet *fleet, WeftSlot *slot)
{
    if (fleet->mark && !is_kept(fleet, weft_slot_number(slot)))
        keep(fleet, slot);
    note_change(fleet, weft_slot_number(slot));
}

guint
weft_fleet_begin(WeftFleet *fleet)
{
    g_array_append_val(fleet->journal, ((Before){ G_MAXUINT, fleet->mark, fleet->blocks->len }));
    fleet->mark = fleet->journal->len;
    return fleet->mark;
}

void
weft_fleet_rollback(WeftFleet *fleet, guint mark)
{
    for (;;) {
        Before before = g_array_index(fleet->journal, Before, fleet->journal->len - 1);
        g_array_set_size(fleet->journal, fleet->journal->len - 1);
        if (before.number == G_MAXUINT) {
            gboolean last = fleet->mark == mark;
            fleet->mark = before.mark;
            if (last)
                return;
            continue;
        }
        WeftPlace *place = &g_array_index(fleet->places, WeftPlace, before.number);
        place->kept = before.mark;
        weft_slot_restore(weft_fleet_slot(fleet, before.number), fleet->blocks->data + before.at);
        g_byte_array_set_size(fleet->blocks, before.at);
        note_change(fleet, before.number);
    }
}

/* Its place in the order has to be found anew. */
static void
unsort(WeftFleet *fleet, guint number)
{
    WeftPlace *place = &g_array_index(fleet->places, WeftPlace, number);
    if (place->realm)
        place->realm->stale = TRUE;
    place->realm = NULL;
    fleet->sorted = FALSE;
}

void
weft_fleet_doubt_functions(WeftFleet *fleet)
{
    for (guint i = 0; i < fleet->realms->len; i++) {
        WeftRealm *realm = fleet->realms->pdata[i];
        realm->gives_known = realm->gives_functions = FALSE;
    }
}

/* --- fabrics --- */

void
weft_fabric_clear(WeftFleetFabric *fabric)
{
    g_free(fabric->closed);
    g_free(fabric->no_devices);
    g_free(fabric->no_virtual);
    g_free(fabric->no_lanes);
    g_clear_pointer(&fabric->ports, g_hash_table_unref);
    g_clear_pointer(&fabric->rates, g_hash_table_unref);
    g_clear_pointer(&fabric->leaves, g_hash_table_unref);
    g_clear_pointer(&fabric->switches, g_hash_table_unref);
    g_clear_pointer(&fabric->hops, g_array_unref);
}

WeftFleetFabric
weft_fabric_copy(const WeftFleetFabric *fabric)
{
    WeftFleetFabric copy = *fabric;
    copy.closed = g_strdup(fabric->closed);
    copy.no_devices = g_strdup(fabric->no_devices);
    copy.no_virtual = g_strdup(fabric->no_virtual);
    copy.no_lanes = g_strdup(fabric->no_lanes);
    GHashTable **tables[] = { &copy.ports, &copy.rates, &copy.leaves, &copy.switches };
    for (guint i = 0; i < G_N_ELEMENTS(tables); i++)
        if (*tables[i])
            g_hash_table_ref(*tables[i]);
    if (copy.hops)
        g_array_ref(copy.hops);
    return copy;
}

static void
fabric_free(gpointer data)
{
    weft_fabric_clear(data);
    g_free(data);
}

/* Stays where it is, since slots point to it. */
static WeftFleetFabric *
get_fabric(WeftFleet *fleet, const char *name)
{
    WeftFleetFabric *fabric = g_hash_table_lookup(fleet->fabrics, name);
    if (!fabric) {
        fabric = g_new0(WeftFleetFabric, 1);
        g_hash_table_insert(fleet->fabrics, g_strdup(name), fabric);
        fleet->tellings++;
    }
    return fabric;
}

/* What is told now is known at other leaves, or these are as far from each other as they were not. */
static void
unsort_fabric(WeftFleet *fleet, const WeftFleetFabric *fabric, const WeftFleetFabric *told)
{
    for (guint i = 0; fabric->leaves != told->leaves && i < fleet->slots->len; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, i);
        if (slot && weft_slot_fabric(slot) == fabric && !weft_slot_would_stay(slot, weft_slot_host(slot), told))
            unsort(fleet, i);
    }
    if (fabric->hops == told->hops && fabric->switches == told->switches)
        return;
    for (guint i = 0; i < fleet->realms->len; i++) {
        WeftRealm *realm = fleet->realms->pdata[i];
        realm->stale |= realm->told == fabric;
    }
    fleet->sorted = FALSE;
}

void
weft_fleet_set_fabric(WeftFleet *fleet, const char *name, const WeftFleetFabric *told)
{
    WeftFleetFabric *fabric = get_fabric(fleet, name);
    unsort_fabric(fleet, fabric, told);
    weft_fabric_clear(fabric);
    *fabric = *told;
    fleet->tellings++;
    weft_fleet_doubt_functions(fleet);
    for (guint i = 0; i < fleet->slots->len; i++) {
        WeftSlot *slot = weft_fleet_slot(fleet, i);
        if (!slot || weft_slot_fabric(slot) != fabric)
            continue;
        weft_fleet_touch(fleet, slot);
        weft_slot_told(slot);
    }
}

/* --- hosts --- */

WeftFleet *
weft_fleet_new(void)
{
    WeftFleet *fleet = g_new0(WeftFleet, 1);
    fleet->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    fleet->numbers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    fleet->names = g_ptr_array_new();
    fleet->slots = g_ptr_array_new();
    fleet->hosts = g_ptr_array_new();
    fleet->versions = g_array_new(FALSE, TRUE, sizeof(guint32));
    fleet->places = g_array_new(FALSE, TRUE, sizeof(WeftPlace));
    fleet->log = g_array_new(FALSE, FALSE, sizeof(guint32));
    fleet->fabrics = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, fabric_free);
    fleet->realms = g_ptr_array_new_with_free_func((GDestroyNotify)weft_realm_free);
    fleet->order = g_array_new(FALSE, FALSE, sizeof(guint));
    fleet->journal = g_array_new(FALSE, FALSE, sizeof(Before));
    fleet->blocks = g_byte_array_new();
    fleet->board = weft_board_new();
    return fleet;
}

void
weft_fleet_free(WeftFleet *fleet)
{
    if (!fleet)
        return;
    for (guint i = 0; i < fleet->slots->len; i++) {
        weft_slot_free(fleet->slots->pdata[i]);
        weft_host_free(fleet->hosts->pdata[i]);
    }
    g_hash_table_unref(fleet->by_name);
    g_hash_table_unref(fleet->numbers);
    g_ptr_array_unref(fleet->names);
    g_ptr_array_unref(fleet->slots);
    g_ptr_array_unref(fleet->hosts);
    g_array_unref(fleet->versions);
    g_array_unref(fleet->places);
    g_array_unref(fleet->log);
    g_ptr_array_unref(fleet->realms);
    g_array_unref(fleet->order);
    g_hash_table_unref(fleet->fabrics);
    g_array_unref(fleet->journal);
    g_byte_array_unref(fleet->blocks);
    weft_board_free(fleet->board);
    weft_fleet_snapshot_unref(fleet->latest);
    g_free(fleet);
}

guint
weft_fleet_give_number(WeftFleet *fleet, const char *name)
{
    guint number = weft_fleet_number(fleet, name);
    if (number != G_MAXUINT)
        return number;
    char *key = g_strdup(name);
    number = fleet->names->len;
    g_ptr_array_add(fleet->names, key);
    g_hash_table_insert(fleet->numbers, key, GUINT_TO_POINTER(number));
    g_ptr_array_add(fleet->slots, NULL);
    g_ptr_array_add(fleet->hosts, NULL);
    g_array_set_size(fleet->versions, number + 1);
    g_array_set_size(fleet->places, number + 1);
    return number;
}

static void
drop(WeftFleet *fleet, guint number)
{
    WeftSlot *slot = weft_fleet_slot(fleet, number);
    g_hash_table_remove(fleet->by_name, weft_slot_host(slot)->name);
    weft_slot_free(slot);
    fleet->slots->pdata[number] = NULL;
    g_clear_pointer((WeftHost **)&fleet->hosts->pdata[number], weft_host_free);
}

void
weft_fleet_put_host(WeftFleet *fleet, WeftHost *host)
{
    guint number = weft_fleet_give_number(fleet, host->name);
    const WeftFleetFabric *fabric = get_fabric(fleet, host->fabric);
    WeftSlot *slot = weft_slot_new(number, host, fabric);
    const WeftSlot *old = weft_fleet_slot(fleet, number);
    if (!old || weft_slot_fabric(old) != fabric || !weft_slot_would_stay(old, host, fabric))
        unsort(fleet, number);
    weft_fleet_doubt_functions(fleet);
    if (old) {
        weft_slot_inherit(slot, old);
        drop(fleet, number);
    }
    fleet->slots->pdata[number] = slot;
    fleet->hosts->pdata[number] = host;
    g_hash_table_insert(fleet->by_name, host->name, slot);
    weft_fleet_touch(fleet, slot);
}

void
weft_fleet_remove_host(WeftFleet *fleet, const char *name)
{
    guint number = weft_fleet_number(fleet, name);
    if (number == G_MAXUINT || !weft_fleet_slot(fleet, number))
        return;
    drop(fleet, number);
    unsort(fleet, number);
    g_array_index(fleet->versions, guint32, number)++;
}

/* NULL: there is none. */
static WeftSlot *
find(const WeftFleet *fleet, const char *name)
{
    return g_hash_table_lookup(fleet->by_name, name);
}

/* … and something about it changes now. */
static WeftSlot *
change(WeftFleet *fleet, const char *name)
{
    WeftSlot *slot = find(fleet, name);
    if (slot)
        weft_fleet_touch(fleet, slot);
    return slot;
}

const WeftHost *
weft_fleet_host(const WeftFleet *fleet, const char *name)
{
    const WeftSlot *slot = find(fleet, name);
    return slot ? weft_slot_host(slot) : NULL;
}

guint
weft_fleet_number(const WeftFleet *fleet, const char *name)
{
    gpointer number;
    return g_hash_table_lookup_extended(fleet->numbers, name, NULL, &number) ? GPOINTER_TO_UINT(number) : G_MAXUINT;
}

const char *
weft_fleet_name(const WeftFleet *fleet, guint number)
{
    return number < fleet->slots->len && weft_fleet_slot(fleet, number) ? fleet->names->pdata[number] : NULL;
}

guint
weft_fleet_size(const WeftFleet *fleet)
{
    return g_hash_table_size(fleet->by_name);
}

guint64
weft_fleet_cores(const WeftFleet *fleet, guint64 *ret_free)
{
    guint64 all = 0;
    *ret_free = 0;
    for (guint i = 0; i < fleet->slots->len; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, i);
        if (!slot || !weft_slot_is_open(slot))
            continue;
        all += weft_slot_cores(slot);
        *ret_free += weft_slot_free_cores(slot);
    }
    return all;
}

GPtrArray *
weft_fleet_hosts(const WeftFleet *fleet, const char *fabric)
{
    GPtrArray *hosts = g_ptr_array_new();
    for (guint i = 0; i < fleet->hosts->len; i++) {
        WeftHost *host = fleet->hosts->pdata[i];
        if (host && (!fabric || strcmp(host->fabric, fabric) == 0))
            g_ptr_array_add(hosts, host);
    }
    return hosts;
}

void
weft_fleet_set_open(WeftFleet *fleet, const char *name, gboolean open)
{
    WeftSlot *slot = find(fleet, name);
    if (!slot || weft_slot_is_open(slot) == open)
        return;
    weft_fleet_touch(fleet, slot);
    weft_slot_set_open(slot, open);
}

void
weft_fleet_set_devices(WeftFleet *fleet, const char *name, const WeftHost *found)
{
    WeftSlot *slot = change(fleet, name);
    if (!slot)
        return;
    weft_slot_set_devices(slot, found);
    weft_fleet_doubt_functions(fleet);
}

/* --- taking and giving --- */

void
weft_fleet_take(WeftFleet *fleet, const WeftNode *node)
{
    WeftSeat seat;
    WeftSlot *slot = change(fleet, node->host);
    if (slot && weft_slot_seat_of(slot, node, &seat))
        weft_slot_take_seat(slot, &seat, node->cluster);
}

void
weft_fleet_give(WeftFleet *fleet, const WeftNode *node)
{
    WeftSeat seat;
    WeftSlot *slot = change(fleet, node->host);
    if (slot && weft_slot_seat_of(slot, node, &seat))
        weft_slot_give_seat(slot, &seat, node->cluster);
}

void
weft_fleet_take_pages(WeftFleet *fleet, const char *host, const WeftMemory *memory)
{
    WeftSlot *slot = change(fleet, host);
    if (slot)
        weft_slot_mark_pages(slot, memory, TRUE);
}

void
weft_fleet_give_pages(WeftFleet *fleet, const char *host, const WeftMemory *memory)
{
    WeftSlot *slot = change(fleet, host);
    if (slot)
        weft_slot_mark_pages(slot, memory, FALSE);
}

gboolean
weft_fleet_has_pages(const WeftFleet *fleet, const char *host, const WeftMemory *memory)
{
    const WeftSlot *slot = find(fleet, host);
    return slot && weft_slot_has_pages(slot, memory);
}

void
weft_fleet_empty(WeftFleet *fleet, const char *host)
{
    WeftSlot *slot = change(fleet, host);
    if (slot)
        weft_slot_empty(slot);
}

void
weft_fleet_take_seats(WeftFleet *fleet, const WeftSeat *seats, guint n, const char *cluster)
{
    for (guint i = 0; i < n; i++) {
        WeftSlot *slot = weft_fleet_slot(fleet, seats[i].host);
        if (!slot)
            continue;
        weft_fleet_touch(fleet, slot);
        weft_slot_take_seat(slot, &seats[i], cluster);
    }
}

void
weft_fleet_give_seats(WeftFleet *fleet, const WeftSeat *seats, guint n, const char *cluster)
{
    for (guint i = 0; i < n; i++) {
        WeftSlot *slot = weft_fleet_slot(fleet, seats[i].host);
        if (!slot)
            continue;
        weft_fleet_touch(fleet, slot);
        weft_slot_give_seat(slot, &seats[i], cluster);
    }
}

gboolean
weft_fleet_has_room(WeftFleet *fleet, const WeftSeat *seats, guint n)
{
    guint mark = weft_fleet_begin(fleet), i = 0;
    for (; i < n; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, seats[i].host);
        if (!slot || !weft_slot_has_room(slot, &seats[i]))
            break;
        weft_fleet_take_seats(fleet, &seats[i], 1, NULL);
    }
    weft_fleet_rollback(fleet, mark);
    return i == n;
}

gboolean
weft_fleet_seat_of(const WeftFleet *fleet, const WeftNode *node, WeftSeat *ret_seat)
{
    const WeftSlot *slot = find(fleet, node->host);
    return slot && weft_slot_seat_of(slot, node, ret_seat);
}
