/* Which leaves lie near to each other. Where leaves are many it takes long to find out: what is known of the order before is
 * taken over as long as it holds. */
#include "fleet-private.h"

#include <string.h>

#define FAR 255 /* in the table of distances: no way */

/* --- distances --- */

/* FAR: not known. Zones are made of millions of these: what stays the same goes first, since it is a row of the table. */
static inline guint8
hops_between(const WeftRealm *realm, guint a, guint b)
{
    const guint8 *hops = (const guint8 *)realm->hops->data;
    const int *x = realm->rows + a * realm->rails, *y = realm->rows + b * realm->rails;
    guint8 most = x[0] < 0 || y[0] < 0 ? FAR : hops[(gsize)x[0] * realm->n_switches + (gsize)y[0]];
    for (guint rail = 1; rail < realm->rails; rail++)
        if (x[rail] >= 0 && y[rail] >= 0)
            most = MAX(most, hops[(gsize)x[rail] * realm->n_switches + (gsize)y[rail]]);
    return most;
}

guint
weft_realm_hops(const WeftRealm *realm, guint a, guint b)
{
    if (a == b)
        return 0;
    guint8 hops = realm->rows ? hops_between(realm, a, b) : FAR;
    return hops == FAR ? G_MAXUINT : hops;
}

/* The switch of a rail that a leaf's hosts hang on, as the first of them tells that has one; -1: not known. */
static int
find_row(const WeftRealm *realm, const WeftFleet *fleet, guint leaf, guint rail)
{
    const char *name = rail ? NULL : weft_realm_leaf_name(fleet, realm, leaf);
    for (guint i = realm->leaf_first[leaf]; i < realm->leaf_first[leaf + 1] && !name; i++)
        name = weft_slot_leaf(weft_fleet_slot(fleet, realm->numbers[i]), rail);
    gpointer row;
    gboolean known = name && g_hash_table_lookup_extended(realm->switches, name, NULL, &row);
    return known ? GPOINTER_TO_INT(row) : -1;
}

static void
find_rows(WeftRealm *realm, const WeftFleet *fleet)
{
    const WeftFleetFabric *told = realm->told;
    gsize n = told->switches ? g_hash_table_size(told->switches) : 0;
    if (n == 0 || !told->hops || told->hops->len < n * n)
        return;
    realm->switches = g_hash_table_ref(told->switches);
    realm->n_switches = (guint)n;
    realm->hops = g_array_ref(told->hops);
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

/* While leaves are brought into order: as they are numbered first, by name. */
typedef struct Grouping {
    WeftRealm *realm;
    GArray *known; /* guint: leaves whose distances are known; the others are far from all */
    guint n_levels;
    guint hops[WEFT_LEVELS_MAX];
    guint *zone_of[WEFT_LEVELS_MAX]; /* by level and leaf */
} Grouping;

static void
find_known(Grouping *grouping)
{
    const WeftRealm *realm = grouping->realm;
    for (guint leaf = 0; realm->rows && leaf < realm->n_leaves; leaf++)
        if (realm->rows[leaf * realm->rails] >= 0)
            g_array_append_val(grouping->known, leaf);
}

/* The distances that there are, the least first; the largest of very many are left out. */
static void
find_levels(Grouping *grouping)
{
    gboolean there[FAR + 1] = { FALSE };
    const guint *known = (const guint *)grouping->known->data;
    for (guint i = 0; i < grouping->known->len; i++)
        for (guint j = i + 1; j < grouping->known->len; j++)
            there[hops_between(grouping->realm, known[i], known[j])] = TRUE;
    for (guint hops = 0; hops < FAR && grouping->n_levels < WEFT_LEVELS_MAX - 1; hops++)
        if (there[hops])
            grouping->hops[grouping->n_levels++] = hops;
}

/* Is every leaf of the item at most so far from every leaf of the zone? Items are zones of the level below. */
static gboolean
is_within(const WeftRealm *realm, const GArray *zone, const GArray *item, guint hops)
{
    for (guint i = 0; i < item->len; i++)
        for (guint j = 0; j < zone->len; j++)
            if (hops_between(realm, g_array_index(item, guint, i), g_array_index(zone, guint, j)) > hops)
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
            if (hops_between(realm, g_array_index(item, guint, 0), g_array_index(zone, guint, 0)) > hops)
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
single_leaves(const GArray *leaves)
{
    GPtrArray *items = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    for (guint i = 0; i < leaves->len; i++) {
        GArray *item = g_array_new(FALSE, FALSE, sizeof(guint));
        g_array_append_val(item, g_array_index(leaves, guint, i));
        g_ptr_array_add(items, item);
    }
    return items;
}

/* Of which nothing is known is in a zone of its own, behind the others. */
static guint *
number_zones(const Grouping *grouping, const GPtrArray *zones)
{
    guint n = grouping->realm->n_leaves, next = zones->len;
    guint *zone_of = g_new(guint, n);
    for (guint leaf = 0; leaf < n; leaf++)
        zone_of[leaf] = G_MAXUINT;
    for (guint z = 0; z < zones->len; z++) {
        const GArray *zone = zones->pdata[z];
        for (guint i = 0; i < zone->len; i++)
            zone_of[g_array_index(zone, guint, i)] = z;
    }
    for (guint leaf = 0; leaf < n; leaf++)
        zone_of[leaf] = zone_of[leaf] == G_MAXUINT ? next++ : zone_of[leaf];
    return zone_of;
}

/* Are any two leaves exactly as far from each other as the smallest zone of both is wide? */
static gboolean
is_tree(const Grouping *grouping)
{
    const guint *known = (const guint *)grouping->known->data;
    for (guint i = 0; i < grouping->known->len; i++)
        for (guint j = i + 1; j < grouping->known->len; j++) {
            guint l = 0;
            while (grouping->zone_of[l][known[i]] != grouping->zone_of[l][known[j]])
                l++;
            if (hops_between(grouping->realm, known[i], known[j]) != MIN(grouping->hops[l], FAR))
                return FALSE;
        }
    return TRUE;
}

static void
group_leaves(Grouping *grouping)
{
    WeftRealm *realm = grouping->realm;
    find_known(grouping);
    find_levels(grouping);
    GPtrArray *items = single_leaves(grouping->known);
    for (guint l = 0; l < grouping->n_levels; l++) {
        items = merge(realm, items, grouping->hops[l]);
        grouping->zone_of[l] = number_zones(grouping, items);
    }
    gboolean whole = items->len == 1 && grouping->known->len == realm->n_leaves;
    g_ptr_array_unref(items);
    if (!whole || grouping->n_levels == 0) {
        grouping->hops[grouping->n_levels] = G_MAXUINT;
        grouping->zone_of[grouping->n_levels++] = g_new0(guint, realm->n_leaves);
    }
    realm->irregular = realm->irregular || !is_tree(grouping);
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

static void
find_zones(WeftRealm *realm)
{
    g_autoptr(GArray) known = g_array_new(FALSE, FALSE, sizeof(guint));
    Grouping grouping = { .realm = realm, .known = known };
    group_leaves(&grouping);
    realm->order = g_new(guint, realm->n_leaves);
    for (guint i = 0; i < realm->n_leaves; i++)
        realm->order[i] = i;
    g_qsort_with_data(realm->order, (int)realm->n_leaves, sizeof *realm->order, compare_leaves, &grouping);
    realm->n_levels = grouping.n_levels;
    for (guint l = 0; l < grouping.n_levels; l++) {
        realm->levels[l] = make_level(&grouping, l, realm->order);
        g_free(grouping.zone_of[l]);
    }
}

/* --- what stays --- */

/* Would all be as it was before? */
static gboolean
is_alike(const WeftRealm *realm, const WeftRealm *before)
{
    if (realm->hops != before->hops || realm->switches != before->switches || realm->rails != before->rails ||
        realm->n_leaves != before->n_leaves)
        return FALSE;
    gsize row = realm->rails * sizeof *realm->rows;
    for (guint leaf = 0; realm->rows && leaf < realm->n_leaves; leaf++)
        if (memcmp(realm->rows + before->order[leaf] * realm->rails, before->rows + leaf * realm->rails, row) != 0)
            return FALSE;
    return TRUE;
}

static void
take_over(WeftRealm *realm, WeftRealm *before)
{
    realm->order = g_steal_pointer(&before->order);
    realm->irregular = before->irregular;
    realm->n_levels = before->n_levels;
    before->n_levels = 0;
    memcpy(realm->levels, before->levels, sizeof realm->levels);
}

/* Numbers the leaves, and with them the hosts, so that zones lie together. */
static void
reorder(WeftRealm *realm)
{
    g_autofree guint *numbers = g_memdup2(realm->numbers, realm->n * sizeof *numbers);
    g_autofree guint *first = g_memdup2(realm->leaf_first, (realm->n_leaves + 1) * sizeof *first);
    g_autofree int *rows = g_memdup2(realm->rows, realm->n_leaves * realm->rails * sizeof *rows);
    guint place = 0;
    for (guint leaf = 0; leaf < realm->n_leaves; leaf++) {
        guint old = realm->order[leaf];
        realm->leaf_first[leaf] = place;
        for (guint rail = 0; rows && rail < realm->rails; rail++)
            realm->rows[leaf * realm->rails + rail] = rows[old * realm->rails + rail];
        for (guint i = first[old]; i < first[old + 1]; i++, place++) {
            realm->numbers[place] = numbers[i];
            realm->leaf_of[place] = leaf;
        }
    }
}

void
weft_realm_make_zones(WeftRealm *realm, const WeftFleet *fleet, WeftRealm *before)
{
    find_rows(realm, fleet);
    if (before && is_alike(realm, before))
        take_over(realm, before);
    else
        find_zones(realm);
    reorder(realm);
}

void
weft_realm_clear_zones(WeftRealm *realm)
{
    for (guint l = 0; l < realm->n_levels; l++) {
        g_free(realm->levels[l].zones);
        g_free(realm->levels[l].zone_of);
    }
    g_free(realm->order);
    g_free(realm->rows);
    g_clear_pointer(&realm->switches, g_hash_table_unref);
    g_clear_pointer(&realm->hops, g_array_unref);
}
