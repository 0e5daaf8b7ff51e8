#include "index.h"

#include "codec.h"
#include "fleet-private.h"

#include <string.h>

#define INDEXES_MAX 64 /* of a fabric; the one that was not used longest goes */
#define KEPT 16        /* of them those that were used last: who asks next asks for the same, as a rule */

/* --- sorted offers --- */

static gboolean
offer_less(WeftOffer a, WeftOffer b)
{
    return a.key != b.key ? a.key < b.key : a.at < b.at;
}

/* The place of an offer, or where it would be. */
static guint
find_offer(const WeftOffer *offers, guint n, WeftOffer offer)
{
    guint low = 0;
    while (low < n) {
        guint middle = low + (n - low) / 2;
        if (offer_less(offers[middle], offer))
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

guint
weft_offers_find(const WeftOffer *offers, guint n, guint32 key)
{
    return find_offer(offers, n, (WeftOffer){ key, 0 });
}

static void
move_offer(WeftOffer *offers, guint n, WeftOffer from, guint32 key)
{
    WeftOffer to = { key, from.at };
    guint i = find_offer(offers, n, from);
    if (offer_less(from, to)) {
        guint j = i + 1 + find_offer(offers + i + 1, n - i - 1, to);
        memmove(offers + i, offers + i + 1, (j - 1 - i) * sizeof *offers);
        offers[j - 1] = to;
    } else {
        guint j = find_offer(offers, i, to);
        memmove(offers + j + 1, offers + j, (i - j) * sizeof *offers);
        offers[j] = to;
    }
}

static int
compare_offers(gconstpointer a, gconstpointer b)
{
    const WeftOffer *x = a, *y = b;
    return offer_less(*x, *y) ? -1 : offer_less(*y, *x);
}

/* --- one host --- */

static guint
fit_of(const WeftIndex *index, const WeftSlot *slot)
{
    if (index->labels && !weft_labels_match(index->labels, weft_slot_host(slot)->labels))
        return 0;
    return weft_slot_fit(slot, &index->shape);
}

/* Among hosts of equal fit those are first that lose least: no GPUs that others could use, and nobody is alone there yet. */
static guint32
key_of(const WeftIndex *index, const WeftSlot *slot, guint fit)
{
    guint32 spares_gpus = index->shape.gpus == 0 && weft_slot_free_gpus(slot) > 0;
    return fit << 2 | spares_gpus << 1 | (weft_slot_nodes(slot) == 0);
}

static void
refresh(WeftIndex *index, const WeftFleet *fleet, guint number)
{
    const WeftPlace *at = &g_array_index(fleet->places, WeftPlace, number);
    const WeftSlot *slot = weft_fleet_slot(fleet, number);
    guint32 version = weft_fleet_version(fleet, number);
    if (at->realm != index->realm || index->versions[at->place] == version)
        return;
    const WeftRealm *realm = index->realm;
    guint leaf = realm->leaf_of[at->place], first = realm->leaf_first[leaf], fit = fit_of(index, slot);
    guint32 before = index->keys[at->place], after = key_of(index, slot, fit);
    index->versions[at->place] = version;
    if (before == after)
        return;
    move_offer(index->hosts + first, realm->leaf_first[leaf + 1] - first, (WeftOffer){ before, at->place }, after);
    index->keys[at->place] = after;
    index->sums[leaf] += fit - (before >> 2);
    index->max = MAX(index->max, fit);
    if (!index->is_dirty[leaf]) {
        index->is_dirty[leaf] = TRUE;
        g_array_append_val(index->dirty, ((guint32){ leaf }));
    }
}

/* --- leaves --- */

static void
refresh_leaf(WeftIndex *index, guint leaf)
{
    guint32 before = index->capacity[leaf], after = index->sums[leaf];
    index->is_dirty[leaf] = FALSE;
    if (before == after)
        return;
    for (guint l = 0; l < index->realm->n_levels; l++) {
        const WeftLevel *level = &index->realm->levels[l];
        const WeftZone *zone = &level->zones[level->zone_of[leaf]];
        move_offer(index->leaves[l] + zone->first, zone->n, (WeftOffer){ before, leaf }, after);
    }
    index->capacity[leaf] = after;
    index->total += (guint64)after - before;
}

/* --- all of it --- */

static void
build_leaves(WeftIndex *index)
{
    const WeftRealm *realm = index->realm;
    index->total = 0;
    for (guint leaf = 0; leaf < realm->n_leaves; leaf++) {
        guint first = realm->leaf_first[leaf];
        qsort(index->hosts + first, realm->leaf_first[leaf + 1] - first, sizeof *index->hosts, compare_offers);
        index->capacity[leaf] = index->sums[leaf];
        index->total += index->sums[leaf];
    }
    for (guint l = 0; l < realm->n_levels; l++) {
        for (guint leaf = 0; leaf < realm->n_leaves; leaf++)
            index->leaves[l][leaf] = (WeftOffer){ index->capacity[leaf], leaf };
        for (guint z = 0; z < realm->levels[l].n; z++) {
            const WeftZone *zone = &realm->levels[l].zones[z];
            qsort(index->leaves[l] + zone->first, zone->n, sizeof *index->hosts, compare_offers);
        }
    }
}

static void
build(WeftIndex *index, const WeftFleet *fleet)
{
    const WeftRealm *realm = index->realm;
    index->max = 0;
    memset(index->sums, 0, realm->n_leaves * sizeof *index->sums);
    for (guint i = 0; i < realm->n; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, realm->numbers[i]);
        guint fit = fit_of(index, slot);
        index->keys[i] = key_of(index, slot, fit);
        index->hosts[i] = (WeftOffer){ index->keys[i], i };
        index->versions[i] = weft_fleet_version(fleet, realm->numbers[i]);
        index->sums[realm->leaf_of[i]] += fit;
        index->max = MAX(index->max, fit);
    }
    build_leaves(index);
    index->built = TRUE;
}

static WeftIndex *
index_new(WeftRealm *realm, const WeftShape *shape, GHashTable *labels)
{
    WeftIndex *index = g_new0(WeftIndex, 1);
    index->realm = realm;
    index->shape = *shape;
    index->shape.cluster = index->cluster = g_strdup(shape->cluster);
    index->keys = g_new0(guint32, realm->n);
    index->versions = g_new0(guint32, realm->n);
    index->hosts = g_new0(WeftOffer, realm->n);
    index->sums = g_new0(guint32, realm->n_leaves);
    index->capacity = g_new0(guint32, realm->n_leaves);
    index->leaves = g_new0(WeftOffer *, realm->n_levels);
    for (guint l = 0; l < realm->n_levels; l++)
        index->leaves[l] = g_new0(WeftOffer, realm->n_leaves);
    index->dirty = g_array_sized_new(FALSE, FALSE, sizeof(guint32), realm->n_leaves);
    index->is_dirty = g_new0(guint8, realm->n_leaves);
    GHashTableIter iter;
    gpointer name, value;
    if (labels && g_hash_table_size(labels)) {
        index->labels = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
        g_hash_table_iter_init(&iter, labels);
        while (g_hash_table_iter_next(&iter, &name, &value))
            g_hash_table_insert(index->labels, g_strdup(name), g_strdup(value));
    }
    return index;
}

void
weft_index_free(WeftIndex *index)
{
    for (guint l = 0; l < index->realm->n_levels; l++)
        g_free(index->leaves[l]);
    g_free(index->leaves);
    g_free(index->cluster);
    g_free(index->keys);
    g_free(index->versions);
    g_free(index->hosts);
    g_free(index->sums);
    g_free(index->capacity);
    g_array_unref(index->dirty);
    g_free(index->is_dirty);
    g_clear_pointer(&index->labels, g_hash_table_unref);
    g_free(index);
}

/* --- finding it --- */

static gboolean
shape_equal(const WeftShape *a, const WeftShape *b)
{
    return a->cores == b->cores && a->memory == b->memory && a->page_size == b->page_size && a->gpus == b->gpus &&
           a->rails == b->rails && a->path == b->path && a->locality == b->locality && a->exclusive == b->exclusive &&
           a->lane.sl == b->lane.sl && a->lane.share == b->lane.share && a->bandwidth == b->bandwidth &&
           g_strcmp0(a->cluster, b->cluster) == 0;
}

static gboolean
labels_equal(GHashTable *a, GHashTable *b)
{
    guint n = a ? g_hash_table_size(a) : 0, m = b ? g_hash_table_size(b) : 0;
    return n == m && (n == 0 || weft_labels_match(a, b));
}

static WeftIndex *
find(const WeftRealm *realm, const WeftShape *shape, GHashTable *labels)
{
    for (guint i = realm->indexes->len; i-- > 0;) {
        WeftIndex *index = realm->indexes->pdata[i];
        if (!shape_equal(&index->shape, shape) || !labels_equal(index->labels, labels))
            continue;
        memmove(realm->indexes->pdata + i, realm->indexes->pdata + i + 1, (realm->indexes->len - 1 - i) * sizeof(gpointer));
        realm->indexes->pdata[realm->indexes->len - 1] = index;
        return index;
    }
    return NULL;
}

static void
catch_up(WeftIndex *index, const WeftFleet *fleet)
{
    guint64 now = fleet->log_start + fleet->log->len;
    if (!index->built || index->seen < fleet->log_start || now - index->seen > index->realm->n)
        build(index, fleet);
    else
        for (guint64 i = index->seen; i < now; i++)
            refresh(index, fleet, g_array_index(fleet->log, guint32, i - fleet->log_start));
    for (guint i = 0; i < index->dirty->len; i++)
        refresh_leaf(index, g_array_index(index->dirty, guint32, i));
    g_array_set_size(index->dirty, 0);
    index->seen = now;
}

WeftIndex *
weft_index_get(WeftFleet *fleet, WeftRealm *realm, const WeftShape *shape, GHashTable *labels)
{
    WeftIndex *index = find(realm, shape, labels);
    if (!index) {
        if (realm->indexes->len == INDEXES_MAX)
            g_ptr_array_remove_index(realm->indexes, 0);
        index = index_new(realm, shape, labels);
        g_ptr_array_add(realm->indexes, index);
    }
    catch_up(index, fleet);
    return index;
}

void
weft_fleet_prepare(WeftFleet *fleet)
{
    weft_fleet_sort(fleet);
    for (guint i = 0; i < fleet->realms->len; i++) {
        const WeftRealm *realm = fleet->realms->pdata[i];
        for (guint n = realm->indexes->len, j = n > KEPT ? n - KEPT : 0; j < n; j++)
            catch_up(realm->indexes->pdata[j], fleet);
    }
}
