/* Which leaves. */
#include "gang.h"

#include <string.h>

#define LEAVES_TRIED 64      /* leaves, or sets of these, whose hosts are counted before one is chosen; */
#define HOSTS_COUNTED 30000  /* more, where not more than so many hosts are counted for all of them */
#define SEEDS_TRIED 16       /* leaves around which near ones are looked for; */
#define HOPS_COUNTED 1000000 /* fewer, but one, where more distances would be looked at */

guint64
weft_gang_capacity(const WeftIndex *index, const WeftLeafSet *leaves)
{
    guint64 sum = 0;
    for (guint i = 0; i < leaves->n; i++)
        sum += index->capacity[leaves->at[i]];
    return sum;
}

/* Are all in one zone? */
static gboolean
is_together(const WeftLevel *level, const WeftLeafSet *leaves)
{
    for (guint i = 1; i < leaves->n; i++)
        if (level->zone_of[leaves->at[i]] != level->zone_of[leaves->at[0]])
            return FALSE;
    return TRUE;
}

guint
weft_gang_hops(const WeftRealm *realm, const WeftLeafSet *leaves)
{
    guint most = 0;
    if (leaves->n > 1 && !realm->irregular) {
        const WeftLevel *level = realm->levels;
        while (!is_together(level, leaves))
            level++;
        return level->hops;
    }
    for (guint i = 0; i < leaves->n; i++)
        for (guint j = i + 1; j < leaves->n; j++)
            most = MAX(most, weft_realm_hops(realm, leaves->at[i], leaves->at[j]));
    return most;
}

/* --- one leaf --- */

static gboolean
choose_one(const WeftIndex *index, WeftBoard *board, guint n, WeftLeafSet *ret_leaves)
{
    const WeftRealm *realm = index->realm;
    const WeftOffer *all = index->leaves[realm->n_levels - 1];
    guint first = weft_offers_find(all, realm->n_leaves, n), end = MIN(realm->n_leaves, first + LEAVES_TRIED);
    guint fewest = G_MAXUINT, least = index->max ? (n + index->max - 1) / index->max : 1;
    for (guint i = first; i < end && fewest > least; i++) {
        WeftLeafSet *leaf = &board->other;
        leaf->n = 1;
        leaf->at[0] = all[i].at;
        guint hosts = weft_gang_hosts(index, board, leaf, n);
        if (hosts < fewest) {
            fewest = hosts;
            ret_leaves->n = 1;
            ret_leaves->at[0] = all[i].at;
        }
    }
    return fewest != G_MAXUINT;
}

/* --- several leaves of one zone --- */

/* A zone's leaves, the least first. */
typedef struct Grove {
    const WeftIndex *index;
    WeftBoard *board;
    const WeftOffer *leaves;
    guint n;
    guint nodes;
    guint k; /* so many are to be chosen */
} Grove;

/* What the k largest hold. */
static guint64
top_sum(const WeftOffer *leaves, guint n, guint k)
{
    guint64 sum = 0;
    for (guint i = 0; i < k && i < n; i++)
        sum += leaves[n - 1 - i].key;
    return sum;
}

guint
weft_gang_fewest(const WeftIndex *index, guint level, const WeftZone *zone, guint n)
{
    const WeftOffer *leaves = index->leaves[level] + zone->first;
    guint64 sum = 0;
    guint k = 0;
    while (k < zone->n && sum < n)
        sum += leaves[zone->n - 1 - k++].key;
    return sum < n ? G_MAXUINT : k;
}

/* Smaller is better, the first number first. */
typedef struct Merit {
    guint hops;
    guint hosts;
    guint64 capacity;
} Merit;

static gboolean
is_better(const Merit *a, const Merit *b)
{
    if (a->hops != b->hops)
        return a->hops < b->hops;
    return a->hosts != b->hosts ? a->hosts < b->hosts : a->capacity < b->capacity;
}

/* Keeps the set where it is better than the best so far. */
static void
consider(const Grove *grove, const WeftLeafSet *set, Merit *best, WeftLeafSet *ret_leaves)
{
    const WeftIndex *index = grove->index;
    Merit merit = { .capacity = weft_gang_capacity(index, set) };
    if (merit.capacity < grove->nodes)
        return;
    merit.hops = index->realm->irregular ? weft_gang_hops(index->realm, set) : 0;
    merit.hosts = weft_gang_hosts(index, grove->board, set, grove->nodes);
    if (!is_better(&merit, best))
        return;
    *best = merit;
    ret_leaves->n = set->n;
    memcpy(ret_leaves->at, set->at, set->n * sizeof *set->at);
}

static void
take_top(const Grove *grove, WeftLeafSet *set)
{
    set->n = grove->k;
    for (guint i = 0; i < grove->k; i++)
        set->at[i] = grove->leaves[grove->n - 1 - i].at;
}

/* Each time the smallest with which the largest of the others still do. */
static void
take_tight(const Grove *grove, WeftLeafSet *set)
{
    guint32 stamp = weft_board_stamp(grove->board), *stamps = grove->board->leaf_stamps;
    guint64 left = grove->nodes;
    set->n = 0;
    for (guint k = grove->k; k > 0; k--) {
        guint64 rest = top_sum(grove->leaves, grove->n, k - 1);
        guint i = weft_offers_find(grove->leaves, grove->n, left > rest ? (guint)(left - rest) : 1);
        while (i < grove->n - k && stamps[grove->leaves[i].at] == stamp)
            i++;
        if (i >= grove->n - k) { /* all that are counted on are needed */
            for (guint j = grove->n - k; j < grove->n; j++)
                set->at[set->n++] = grove->leaves[j].at;
            return;
        }
        stamps[grove->leaves[i].at] = stamp;
        set->at[set->n++] = grove->leaves[i].at;
        left -= MIN(left, grove->leaves[i].key);
    }
}

/* Adds the leaf, and notes how far the others are from the set now. */
static void
add_near(const Grove *grove, guint leaf, WeftLeafSet *set)
{
    guint32 *far = grove->board->far;
    for (guint i = 0; i < grove->n; i++) {
        guint other = grove->leaves[i].at, hops = weft_realm_hops(grove->index->realm, leaf, other);
        far[other] = set->n ? MAX(far[other], hops) : hops;
    }
    far[leaf] = G_MAXUINT; /* it is not to be found again */
    set->at[set->n++] = leaf;
}

/* From the seed on, each time the nearest with which enough can be had. */
static void
take_near(const Grove *grove, guint seed, WeftLeafSet *set)
{
    const guint32 *far = grove->board->far;
    guint64 held = 0;
    set->n = 0;
    for (guint next = seed; next != G_MAXUINT;) {
        add_near(grove, next, set);
        if (set->n == grove->k)
            return;
        held += grove->index->capacity[next];
        guint64 rest = top_sum(grove->leaves, grove->n, grove->k - set->n - 1);
        guint nearest = next = G_MAXUINT;
        for (guint i = grove->n; i-- > 0 && held + rest + grove->leaves[i].key >= grove->nodes;)
            if (far[grove->leaves[i].at] < nearest) {
                next = grove->leaves[i].at;
                nearest = far[next];
            }
    }
}

static guint
count_seeds(const Grove *grove)
{
    if (!grove->index->realm->irregular)
        return 0;
    guint64 few = HOPS_COUNTED / ((guint64)grove->k * grove->n);
    return (guint)MIN(grove->n, CLAMP(few, 1, SEEDS_TRIED));
}

/* Sets of k leaves whose hosts may be counted. */
static guint
count_affordable(const Grove *grove)
{
    return HOSTS_COUNTED / MAX(1, grove->k * grove->nodes);
}

/* Can all sets of k of n leaves be tried? */
static gboolean
are_sets_few(const Grove *grove, guint n)
{
    guint64 sets = 1, most = MAX(LEAVES_TRIED, count_affordable(grove));
    for (guint i = 0; i < grove->k && sets <= LEAVES_TRIED * LEAVES_TRIED; i++)
        sets = sets * (n - i) / (i + 1);
    return grove->k <= LEAVES_TRIED && sets <= MIN(most, LEAVES_TRIED * LEAVES_TRIED);
}

/* The next set of k of n in order, as indices; FALSE: that was the last. */
static gboolean
next_set(guint *set, guint k, guint n)
{
    guint i = k;
    while (i > 0 && set[i - 1] == n - k + i - 1)
        i--;
    if (i == 0)
        return FALSE;
    set[i - 1]++;
    for (guint j = i; j < k; j++)
        set[j] = set[j - 1] + 1;
    return TRUE;
}

static void
try_all(const Grove *grove, guint first, Merit *best, WeftLeafSet *ret_leaves)
{
    guint chosen[LEAVES_TRIED];
    WeftLeafSet *set = &grove->board->other;
    for (guint i = 0; i < grove->k; i++)
        chosen[i] = i;
    do {
        set->n = grove->k;
        for (guint i = 0; i < grove->k; i++)
            set->at[i] = grove->leaves[first + chosen[i]].at;
        consider(grove, set, best, ret_leaves);
    } while (next_set(chosen, grove->k, grove->n - first));
}

static void
choose_several(const Grove *grove, Merit *best, WeftLeafSet *ret_leaves)
{
    guint first = weft_offers_find(grove->leaves, grove->n, 1);
    WeftLeafSet *set = &grove->board->other;
    if (are_sets_few(grove, grove->n - first)) {
        try_all(grove, first, best, ret_leaves);
        return;
    }
    take_tight(grove, set);
    consider(grove, set, best, ret_leaves);
    take_top(grove, set);
    consider(grove, set, best, ret_leaves);
    for (guint i = 0; i < count_seeds(grove); i++) {
        take_near(grove, grove->leaves[grove->n - 1 - i].at, set);
        consider(grove, set, best, ret_leaves);
    }
}

/* What the k largest leaves of a zone have; 0: there are not so many. */
static guint64
sum_of_zone(const WeftIndex *index, guint l, const WeftZone *zone, guint k)
{
    return zone->n < k ? 0 : top_sum(index->leaves[l] + zone->first, zone->n, k);
}

/* The zone, among those of the level, where k leaves do and which has least to spare; NULL: none. */
static const WeftZone *
find_zone(const WeftIndex *index, guint l, guint nodes, guint k)
{
    const WeftLevel *level = &index->realm->levels[l];
    const WeftZone *best = NULL;
    guint64 least = G_MAXUINT64;
    for (guint z = 0; z < level->n; z++) {
        guint64 sum = sum_of_zone(index, l, &level->zones[z], k);
        if (sum >= nodes && sum < least) {
            least = sum;
            best = &level->zones[z];
        }
    }
    return best;
}

/* In that zone, and of small gangs in others too: they may need fewer hosts there. */
static void
choose_in_zones(Grove *grove, guint l, const WeftZone *zone, WeftLeafSet *ret_leaves)
{
    const WeftIndex *index = grove->index;
    const WeftLevel *level = &index->realm->levels[l];
    guint more = count_affordable(grove) / LEAVES_TRIED;
    Merit best = { G_MAXUINT, G_MAXUINT, G_MAXUINT64 };
    grove->leaves = index->leaves[l] + zone->first;
    grove->n = zone->n;
    choose_several(grove, &best, ret_leaves);
    for (guint z = 0; z < level->n && more; z++) {
        const WeftZone *other = &level->zones[z];
        if (other == zone || sum_of_zone(index, l, other, grove->k) < grove->nodes)
            continue;
        grove->leaves = index->leaves[l] + other->first;
        grove->n = other->n;
        choose_several(grove, &best, ret_leaves);
        more--;
    }
}

gboolean
weft_gang_leaves(const WeftIndex *index, WeftBoard *board, guint n, WeftLeafSet *ret_leaves)
{
    const WeftRealm *realm = index->realm;
    if (index->total < n)
        return FALSE;
    if (choose_one(index, board, n, ret_leaves))
        return TRUE;
    guint k = weft_gang_fewest(index, realm->n_levels - 1, realm->levels[realm->n_levels - 1].zones, n);
    for (guint l = 0; l < realm->n_levels; l++) {
        const WeftZone *zone = find_zone(index, l, n, k);
        if (!zone)
            continue;
        Grove grove = { .index = index, .board = board, .nodes = n, .k = k };
        choose_in_zones(&grove, l, zone, ret_leaves);
        return TRUE;
    }
    return FALSE;
}

/* The largest of the zone that are not among them, until all hold so many. */
static gboolean
add_from_zone(const WeftIndex *index, WeftBoard *board, guint l, guint n, WeftLeafSet *leaves)
{
    const WeftLevel *level = &index->realm->levels[l];
    const WeftZone *zone = &level->zones[level->zone_of[leaves->at[0]]];
    guint32 stamp = weft_board_stamp(board);
    guint before = leaves->n;
    guint64 held = weft_gang_capacity(index, leaves);
    for (guint i = 0; i < leaves->n; i++)
        board->leaf_stamps[leaves->at[i]] = stamp;
    for (guint i = zone->n; i-- > 0 && held < n && leaves->n < WEFT_NODES_MAX;) {
        WeftOffer offer = index->leaves[l][zone->first + i];
        if (board->leaf_stamps[offer.at] == stamp)
            continue;
        leaves->at[leaves->n++] = offer.at;
        held += offer.key;
    }
    if (held < n)
        leaves->n = before;
    return held >= n;
}

gboolean
weft_gang_add_leaves(const WeftIndex *index, WeftBoard *board, guint n, WeftLeafSet *leaves)
{
    if (weft_gang_capacity(index, leaves) >= n)
        return TRUE;
    for (guint l = 0; l < index->realm->n_levels; l++)
        if (add_from_zone(index, board, l, n, leaves))
            return TRUE;
    return FALSE;
}
