/* The order of hosts: those of a fabric, of a zone of near leaves, and of a leaf lie together. */
#include "fleet-private.h"
#include "hostlist.h"

#include <string.h>

/* --- leaves of hosts --- */

/* The leaf switch of a rail, as the host is described and its fabric tells; NULL: not known. */
static const char *
leaf_of_rail(const WeftHost *host, const WeftFleetFabric *told, guint rail)
{
    for (guint i = 0; i < host->hcas->len; i++) {
        const WeftHca *hca = host->hcas->pdata[i];
        if (hca->rail != rail)
            continue;
        if (hca->leaf)
            return hca->leaf;
        const char *leaf = told->leaves && !host->leaf ? g_hash_table_lookup(told->leaves, &hca->port_guid) : NULL;
        return leaf ? leaf : host->leaf;
    }
    return NULL;
}

/* "": not known. Such hosts count as one leaf. */
static const char *
leaf_of_host(const WeftHost *host, const WeftFleetFabric *told)
{
    guint first = WEFT_RAILS_MAX;
    for (guint i = 0; i < host->hcas->len; i++)
        first = MIN(first, ((const WeftHca *)host->hcas->pdata[i])->rail);
    const char *leaf = host->leaf ? host->leaf : leaf_of_rail(host, told, first);
    return leaf ? leaf : "";
}

static const char *
leaf_of(const WeftSlot *slot)
{
    return leaf_of_host(weft_slot_host(slot), weft_slot_fabric(slot));
}

const char *
weft_slot_leaf(const WeftSlot *slot, guint rail)
{
    return leaf_of_rail(weft_slot_host(slot), weft_slot_fabric(slot), rail);
}

const char *
weft_fleet_leaf(const WeftFleet *fleet, const char *name)
{
    const WeftSlot *slot = g_hash_table_lookup(fleet->by_name, name);
    return slot ? leaf_of(slot) : "";
}

const char *
weft_realm_leaf_name(const WeftFleet *fleet, const WeftRealm *realm, guint leaf)
{
    return leaf_of(weft_fleet_slot(fleet, realm->numbers[realm->leaf_first[leaf]]));
}

gboolean
weft_slot_would_stay(const WeftSlot *slot, const WeftHost *host, const WeftFleetFabric *told)
{
    const WeftHost *now = weft_slot_host(slot);
    const WeftFleetFabric *fabric = weft_slot_fabric(slot);
    if (strcmp(leaf_of_host(now, fabric), leaf_of_host(host, told)) != 0)
        return FALSE;
    for (guint rail = 0; rail < WEFT_RAILS_MAX; rail++)
        if (g_strcmp0(leaf_of_rail(now, fabric, rail), leaf_of_rail(host, told, rail)) != 0)
            return FALSE;
    return TRUE;
}

/* --- realms --- */

void
weft_realm_free(WeftRealm *realm)
{
    g_ptr_array_unref(realm->indexes);
    weft_realm_clear_zones(realm);
    g_free(realm->numbers);
    g_free(realm->leaf_of);
    g_free(realm->leaf_first);
    g_free(realm);
}

gboolean
weft_realm_gives_functions(WeftFleet *fleet, WeftRealm *realm)
{
    for (guint i = 0; !realm->gives_known && i < realm->n && !realm->gives_functions; i++)
        realm->gives_functions = weft_slot_gives_functions(weft_fleet_slot(fleet, realm->numbers[i]));
    realm->gives_known = TRUE;
    return realm->gives_functions;
}

/* Leaves are numbered as they come, and with them the hosts. */
static void
add_hosts(WeftRealm *realm, const WeftFleet *fleet, const guint *numbers)
{
    const char *last = NULL;
    realm->numbers = g_memdup2(numbers, realm->n * sizeof *numbers);
    realm->leaf_of = g_new(guint, realm->n);
    realm->leaf_first = g_new(guint, realm->n + 1);
    for (guint i = 0; i < realm->n; i++) {
        const char *leaf = leaf_of(weft_fleet_slot(fleet, numbers[i]));
        if (!last || strcmp(last, leaf) != 0)
            realm->leaf_first[realm->n_leaves++] = i;
        realm->leaf_of[i] = realm->n_leaves - 1;
        last = leaf;
    }
    realm->leaf_first[realm->n_leaves] = realm->n;
}

/* Of n sorted hosts of one fabric. before: the one that it replaces; NULL: none. */
static WeftRealm *
realm_new(WeftFleet *fleet, const guint *numbers, guint n, WeftRealm *before)
{
    WeftRealm *realm = g_new0(WeftRealm, 1);
    const WeftSlot *first = weft_fleet_slot(fleet, *numbers);
    gpointer name = NULL;
    g_hash_table_lookup_extended(fleet->fabrics, weft_slot_host(first)->fabric, &name, NULL);
    realm->fabric = name;
    realm->told = weft_slot_fabric(first);
    realm->indexes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_index_free);
    realm->n = n;
    if (before)
        g_ptr_array_set_size(before->indexes, 0);
    add_hosts(realm, fleet, numbers);
    weft_realm_make_zones(realm, fleet, before);
    for (guint i = 0; i < n; i++) {
        WeftPlace *place = &g_array_index(fleet->places, WeftPlace, realm->numbers[i]);
        place->realm = realm;
        place->place = i;
    }
    return realm;
}

/* --- sorting --- */

/* A host, and by what it is sorted. */
typedef struct Entry {
    guint number;
    const WeftSlot *slot;
    const char *leaf;
} Entry;

static Entry
entry_of(const WeftFleet *fleet, guint number)
{
    const WeftSlot *slot = weft_fleet_slot(fleet, number);
    return (Entry){ number, slot, leaf_of(slot) };
}

static int
compare_entries(gconstpointer a, gconstpointer b)
{
    const Entry *s = a, *t = b;
    const WeftHost *x = weft_slot_host(s->slot), *y = weft_slot_host(t->slot);
    int order = weft_slot_fabric(s->slot) == weft_slot_fabric(t->slot) ? 0 : weft_natural_compare(x->fabric, y->fabric);
    if (order == 0 && strcmp(s->leaf, t->leaf) != 0)
        order = weft_natural_compare(s->leaf, t->leaf);
    return order ? order : weft_natural_compare(x->name, y->name);
}

/* Those that have a place keep their order. */
static GArray *
list_placed(const WeftFleet *fleet)
{
    GArray *placed = g_array_sized_new(FALSE, FALSE, sizeof(guint), fleet->slots->len);
    for (guint i = 0; i < fleet->order->len; i++) {
        guint number = g_array_index(fleet->order, guint, i);
        if (g_array_index(fleet->places, WeftPlace, number).realm)
            g_array_append_val(placed, number);
    }
    return placed;
}

static GArray *
list_others(const WeftFleet *fleet)
{
    GArray *others = g_array_new(FALSE, FALSE, sizeof(Entry));
    for (guint i = 0; i < fleet->slots->len; i++)
        if (weft_fleet_slot(fleet, i) && !g_array_index(fleet->places, WeftPlace, i).realm) {
            Entry entry = entry_of(fleet, i);
            g_array_append_val(others, entry);
        }
    g_array_sort(others, compare_entries);
    return others;
}

/* How many of the sorted hosts from that one on come before the entry. */
static guint
count_before(const WeftFleet *fleet, const GArray *placed, guint from, const Entry *entry)
{
    guint low = from, high = placed->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        Entry other = entry_of(fleet, g_array_index(placed, guint, middle));
        if (compare_entries(&other, entry) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low - from;
}

static void
append_some(GArray *order, const GArray *placed, guint from, guint n)
{
    if (n > 0) /* an array without elements has no address to count from */
        g_array_append_vals(order, &g_array_index(placed, guint, from), n);
}

/* Puts those that came or moved between the others: few do at a time, and names are compared for these only. */
static void
sort_hosts(WeftFleet *fleet)
{
    g_autoptr(GArray) placed = list_placed(fleet);
    g_autoptr(GArray) others = list_others(fleet);
    guint from = 0;
    g_array_set_size(fleet->order, 0);
    for (guint i = 0; i < others->len; i++) {
        const Entry *entry = &g_array_index(others, Entry, i);
        guint n = count_before(fleet, placed, from, entry);
        append_some(fleet->order, placed, from, n);
        g_array_append_val(fleet->order, entry->number);
        from += n;
    }
    append_some(fleet->order, placed, from, placed->len - from);
}

/* … of the fabric; NULL: there was none. */
static WeftRealm *
take_realm(GPtrArray *realms, const WeftFleetFabric *told)
{
    for (guint i = 0; i < realms->len; i++)
        if (((const WeftRealm *)realms->pdata[i])->told == told)
            return g_ptr_array_steal_index(realms, i);
    return NULL;
}

/* Realms of which no host came, went or moved stay, with their indexes. */
static void
make_realms(WeftFleet *fleet)
{
    g_autoptr(GPtrArray) before = g_steal_pointer(&fleet->realms);
    const guint *numbers = (const guint *)fleet->order->data;
    guint n = fleet->order->len, next;
    fleet->realms = g_ptr_array_new_with_free_func((GDestroyNotify)weft_realm_free);
    for (guint i = 0; i < n; i = next) {
        const WeftFleetFabric *told = weft_slot_fabric(weft_fleet_slot(fleet, numbers[i]));
        for (next = i + 1; next < n && weft_slot_fabric(weft_fleet_slot(fleet, numbers[next])) == told;)
            next++;
        WeftRealm *realm = take_realm(before, told);
        if (!realm || realm->stale || realm->n != next - i) {
            WeftRealm *old = realm;
            realm = realm_new(fleet, numbers + i, next - i, old);
            g_clear_pointer(&old, weft_realm_free);
        }
        g_ptr_array_add(fleet->realms, realm);
    }
}

void
weft_fleet_sort(WeftFleet *fleet)
{
    if (fleet->sorted)
        return;
    sort_hosts(fleet);
    make_realms(fleet);
    fleet->sorted = TRUE;
}
