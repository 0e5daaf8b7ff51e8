/* The order of hosts: those of a fabric, of a zone of near leaves, and of a leaf lie together. */
#include "fleet-private.h"
#include "hostlist.h"

#include <string.h>

#define FAR 255 /* in the table of distances: no way */

/* --- leaves of hosts --- */

const char *
weft_slot_leaf(const WeftSlot *slot, guint rail)
{
    const WeftHost *host = weft_slot_host(slot);
    const WeftFleetFabric *told = weft_slot_fabric(slot);
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
leaf_of(const WeftSlot *slot)
{
    const WeftHost *host = weft_slot_host(slot);
    guint first = WEFT_RAILS_MAX;
    for (guint i = 0; i < host->hcas->len; i++)
        first = MIN(first, ((const WeftHca *)host->hcas->pdata[i])->rail);
    const char *leaf = host->leaf ? host->leaf : weft_slot_leaf(slot, first);
    return leaf ? leaf : "";
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

/* A host, and by what it is sorted. */
typedef struct Entry {
    WeftSlot *slot;
    const char *leaf;
} Entry;

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

/* --- distances --- */

static guint
hops_of_rows(const WeftRealm *realm, int a, int b)
{
    guint n = g_hash_table_size(realm->told->switches);
    guint hops = a < 0 || b < 0 ? FAR : g_array_index(realm->told->hops, guint8, (guint)a * n + (guint)b);
    return hops == FAR ? G_MAXUINT : hops;
}

guint
weft_realm_hops(const WeftRealm *realm, guint a, guint b)
{
    if (a == b)
        return 0;
    if (!realm->rows)
        return G_MAXUINT;
    guint most = hops_of_rows(realm, realm->rows[a * realm->rails], realm->rows[b * realm->rails]);
    for (guint rail = 1; rail < realm->rails; rail++) {
        int x = realm->rows[a * realm->rails + rail], y = realm->rows[b * realm->rails + rail];
        if (x >= 0 && y >= 0)
            most = MAX(most, hops_of_rows(realm, x, y));
    }
    return most;
}

/* The switch of a rail that a leaf's hosts hang on, as the first of them tells that has one; -1: not known. */
static int
find_row(const WeftRealm *realm, const WeftFleet *fleet, guint leaf, guint rail)
{
    const char *name = NULL;
    for (guint i = realm->leaf_first[leaf]; i < realm->leaf_first[leaf + 1] && !name; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, realm->numbers[i]);
        name = rail ? weft_slot_leaf(slot, rail) : leaf_of(slot);
    }
    gpointer row;
    gboolean known = name && g_hash_table_lookup_extended(realm->told->switches, name, NULL, &row);
    return known ? GPOINTER_TO_INT(row) : -1;
}

static void
find_rows(WeftRealm *realm, const WeftFleet *fleet)
{
    const WeftFleetFabric *told = realm->told;
    if (!told->switches || !told->hops)
        return;
    realm->rails = 1;
    for (guint i = 0; i < realm->n; i++) {
        const WeftHost *host = weft_slot_host(weft_fleet_slot(fleet, realm->numbers[i]));
        for (guint h = 0; h < host->hcas->len; h++)
            realm->rails = MAX(realm->rails, ((const WeftHca *)host->hcas->pdata[h])->rail + 1);
    }
    realm->rows = g_new(int, realm->n_leaves * realm->rails);
    for (guint leaf = 0; leaf < realm->n_leaves; leaf++)
        for (guint rail = 0; rail < realm->rails; rail++)
            realm->rows[leaf * realm->rails + rail] = find_row(realm, fleet, leaf, rail);
}

/* --- zones --- */

/* While leaves are brought into order: zone_of by level and leaf, as they are numbered first. */
typedef struct Grouping {
    WeftRealm *realm;
    guint n_levels;
    guint hops[WEFT_LEVELS_MAX];
    guint *zone_of[WEFT_LEVELS_MAX];
} Grouping;

/* The distances that there are, the least first; those in between of very many are left out. */
static void
find_levels(Grouping *grouping)
{
    const WeftRealm *realm = grouping->realm;
    gboolean there[FAR] = { FALSE };
    for (guint a = 0; realm->rows && a < realm->n_leaves; a++)
        for (guint b = a + 1; b < realm->n_leaves; b++) {
            guint hops = weft_realm_hops(realm, a, b);
            if (hops < FAR)
                there[hops] = TRUE;
        }
    for (guint hops = 0; hops < FAR && grouping->n_levels < WEFT_LEVELS_MAX - 1; hops++)
        if (there[hops])
            grouping->hops[grouping->n_levels++] = hops;
}

/* Is every leaf of the item at most so far from every leaf of the zone? Items are zones of the level below. */
static gboolean
is_within(const WeftRealm *realm, const GArray *zone, const GArray *item, guint hops)
{
    for (guint i = 0; i < zone->len; i++)
        for (guint j = 0; j < item->len; j++)
            if (weft_realm_hops(realm, g_array_index(zone, guint, i), g_array_index(item, guint, j)) > hops)
                return FALSE;
    return TRUE;
}

/* Takes the items over. In a tree one member of a zone speaks for all: only where it agrees, all are looked at. */
static GPtrArray *
merge(WeftRealm *realm, GPtrArray *items, guint hops)
{
    GPtrArray *zones = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    for (guint i = 0; i < items->len; i++) {
        GArray *item = items->pdata[i], *into = NULL;
        for (guint z = 0; z < zones->len && !into; z++) {
            GArray *zone = zones->pdata[z];
            if (weft_realm_hops(realm, g_array_index(zone, guint, 0), g_array_index(item, guint, 0)) > hops)
                continue;
            if (is_within(realm, zone, item, hops))
                into = zone;
            else
                realm->irregular = TRUE;
        }
        if (into)
            g_array_append_vals(into, item->data, item->len);
        else
            g_ptr_array_add(zones, g_array_ref(item));
    }
    g_ptr_array_unref(items);
    return zones;
}

static GPtrArray *
single_leaves(guint n)
{
    GPtrArray *items = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    for (guint leaf = 0; leaf < n; leaf++) {
        GArray *item = g_array_new(FALSE, FALSE, sizeof(guint));
        g_array_append_val(item, leaf);
        g_ptr_array_add(items, item);
    }
    return items;
}

static void
group_leaves(Grouping *grouping)
{
    WeftRealm *realm = grouping->realm;
    find_levels(grouping);
    GPtrArray *items = single_leaves(realm->n_leaves);
    for (guint l = 0; l < grouping->n_levels; l++) {
        items = merge(realm, items, grouping->hops[l]);
        grouping->zone_of[l] = g_new(guint, realm->n_leaves);
        for (guint z = 0; z < items->len; z++) {
            const GArray *zone = items->pdata[z];
            for (guint i = 0; i < zone->len; i++)
                grouping->zone_of[l][g_array_index(zone, guint, i)] = z;
        }
    }
    gboolean whole = items->len <= 1;
    g_ptr_array_unref(items);
    if (whole && grouping->n_levels)
        return;
    grouping->hops[grouping->n_levels] = G_MAXUINT;
    grouping->zone_of[grouping->n_levels++] = g_new0(guint, realm->n_leaves);
}

static int
compare_leaves(gconstpointer a, gconstpointer b, gpointer data)
{
    const Grouping *grouping = data;
    guint x = *(const guint *)a, y = *(const guint *)b;
    for (guint l = grouping->n_levels; l-- > 0;)
        if (grouping->zone_of[l][x] != grouping->zone_of[l][y])
            return grouping->zone_of[l][x] < grouping->zone_of[l][y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static WeftLevel
make_level(const Grouping *grouping, guint l, const guint *order)
{
    guint n = grouping->realm->n_leaves;
    WeftLevel level = { grouping->hops[l], 0, g_new(WeftZone, n), g_new(guint, n) };
    for (guint i = 0; i < n; i++) {
        if (i == 0 || grouping->zone_of[l][order[i]] != grouping->zone_of[l][order[i - 1]])
            level.zones[level.n++] = (WeftZone){ i, 0 };
        level.zones[level.n - 1].n++;
        level.zone_of[i] = level.n - 1;
    }
    return level;
}

/* Numbers the leaves, and with them the hosts, so that zones lie together. */
static void
reorder(WeftRealm *realm, const guint *order)
{
    g_autofree guint *numbers = g_memdup2(realm->numbers, realm->n * sizeof *numbers);
    g_autofree guint *first = g_memdup2(realm->leaf_first, (realm->n_leaves + 1) * sizeof *first);
    g_autofree int *rows = g_memdup2(realm->rows, realm->rows ? realm->n_leaves * realm->rails * sizeof *rows : 0);
    guint place = 0;
    for (guint leaf = 0; leaf < realm->n_leaves; leaf++) {
        guint old = order[leaf];
        realm->leaf_first[leaf] = place;
        if (rows && realm->rows)
            memcpy(realm->rows + leaf * realm->rails, rows + old * realm->rails, realm->rails * sizeof *rows);
        for (guint i = first[old]; i < first[old + 1]; i++, place++) {
            realm->numbers[place] = numbers[i];
            realm->leaf_of[place] = leaf;
        }
    }
}

static void
make_zones(WeftRealm *realm)
{
    Grouping grouping = { .realm = realm };
    group_leaves(&grouping);
    g_autofree guint *order = g_new(guint, realm->n_leaves);
    for (guint i = 0; i < realm->n_leaves; i++)
        order[i] = i;
    g_qsort_with_data(order, (int)realm->n_leaves, sizeof *order, compare_leaves, &grouping);
    realm->n_levels = grouping.n_levels;
    for (guint l = 0; l < grouping.n_levels; l++) {
        realm->levels[l] = make_level(&grouping, l, order);
        g_free(grouping.zone_of[l]);
    }
    reorder(realm, order);
}

/* --- realms --- */

void
weft_realm_free(WeftRealm *realm)
{
    g_ptr_array_unref(realm->indexes);
    for (guint l = 0; l < realm->n_levels; l++) {
        g_free(realm->levels[l].zones);
        g_free(realm->levels[l].zone_of);
    }
    g_free(realm->numbers);
    g_free(realm->leaf_of);
    g_free(realm->leaf_first);
    g_free(realm->rows);
    g_free(realm);
}

WeftRealm *
weft_fleet_realm(const WeftFleet *fleet, const char *fabric)
{
    for (guint i = 0; i < fleet->realms->len; i++) {
        WeftRealm *realm = fleet->realms->pdata[i];
        if (strcmp(realm->fabric, fabric) == 0)
            return realm;
    }
    return NULL;
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
add_hosts(WeftRealm *realm, const Entry *entries)
{
    realm->numbers = g_new(guint, realm->n);
    realm->leaf_of = g_new(guint, realm->n);
    realm->leaf_first = g_new(guint, realm->n + 1);
    for (guint i = 0; i < realm->n; i++) {
        if (i == 0 || strcmp(entries[i - 1].leaf, entries[i].leaf) != 0)
            realm->leaf_first[realm->n_leaves++] = i;
        realm->numbers[i] = weft_slot_number(entries[i].slot);
        realm->leaf_of[i] = realm->n_leaves - 1;
    }
    realm->leaf_first[realm->n_leaves] = realm->n;
}

/* Of n sorted hosts of one fabric. */
static WeftRealm *
realm_new(WeftFleet *fleet, const Entry *entries, guint n)
{
    WeftRealm *realm = g_new0(WeftRealm, 1);
    gpointer name = NULL;
    g_hash_table_lookup_extended(fleet->fabrics, weft_slot_host(entries->slot)->fabric, &name, NULL);
    realm->fabric = name;
    realm->told = weft_slot_fabric(entries->slot);
    realm->indexes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_index_free);
    realm->n = n;
    add_hosts(realm, entries);
    find_rows(realm, fleet);
    make_zones(realm);
    for (guint i = 0; i < n; i++) {
        WeftPlace *place = &g_array_index(fleet->places, WeftPlace, realm->numbers[i]);
        place->realm = realm;
        place->place = i;
    }
    return realm;
}

void
weft_fleet_sort(WeftFleet *fleet)
{
    if (fleet->sorted)
        return;
    g_autofree Entry *entries = g_new(Entry, fleet->slots->len);
    guint n = 0, next;
    for (guint i = 0; i < fleet->slots->len; i++) {
        WeftSlot *slot = weft_fleet_slot(fleet, i);
        g_array_index(fleet->places, WeftPlace, i).realm = NULL;
        if (slot)
            entries[n++] = (Entry){ slot, leaf_of(slot) };
    }
    qsort(entries, n, sizeof *entries, compare_entries);
    g_ptr_array_set_size(fleet->realms, 0);
    for (guint i = 0; i < n; i = next) {
        for (next = i + 1; next < n && weft_slot_fabric(entries[next].slot) == weft_slot_fabric(entries[i].slot);)
            next++;
        g_ptr_array_add(fleet->realms, realm_new(fleet, entries + i, next - i));
    }
    fleet->sorted = TRUE;
}
