#include "gang.h"

#include <string.h>

#define LEAVES_TRIED 64      /* leaves, or sets of these, whose hosts are counted before one is chosen */
#define SEEDS_TRIED 16       /* leaves around which near ones are looked for, where these are few; */
#define HOPS_COUNTED 1000000 /* else so many, but one, that not more distances are looked at */

/* A leaf's hosts, the least first. */
static const WeftOffer *
hosts_of(const WeftIndex *index, guint leaf, guint *ret_n)
{
    const WeftRealm *realm = index->realm;
    *ret_n = realm->leaf_first[leaf + 1] - realm->leaf_first[leaf];
    return index->hosts + realm->leaf_first[leaf];
}

/* --- counting hosts --- */

static void
set_heads(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves)
{
    for (guint i = 0; i < leaves->n; i++)
        hosts_of(index, leaves->at[i], &board->heads[i]);
}

/* Hosts of one leaf set, by whether somebody is there. */
typedef enum { ANY, IN_USE, EMPTY } Kind;

static gboolean
is_of_kind(WeftOffer offer, Kind kind)
{
    return kind == ANY || (kind == EMPTY) == weft_offer_is_empty(offer);
}

/* The largest of the set that was not drawn yet; its key is 0 where none is left that takes a node. */
static WeftOffer
draw(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, Kind kind)
{
    WeftOffer best = { 0, 0 };
    guint from = 0;
    for (guint i = 0; i < leaves->n; i++) {
        const WeftOffer *hosts = index->hosts + index->realm->leaf_first[leaves->at[i]];
        while (board->heads[i] && !is_of_kind(hosts[board->heads[i] - 1], kind))
            board->heads[i]--;
        if (board->heads[i] == 0)
            continue;
        WeftOffer offer = hosts[board->heads[i] - 1];
        if (weft_offer_fit(offer) > weft_offer_fit(best)) {
            best = offer;
            from = i;
        }
    }
    if (weft_offer_fit(best) == 0)
        return (WeftOffer){ 0, 0 };
    board->heads[from]--;
    return best;
}

guint
weft_gang_hosts(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, guint n)
{
    guint hosts = 0;
    set_heads(index, board, leaves);
    for (guint held = 0; held < n; hosts++) {
        guint fit = weft_offer_fit(draw(index, board, leaves, ANY));
        if (fit == 0)
            return G_MAXUINT;
        held += fit;
    }
    return hosts;
}

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

/* How many sets of k there are of n, or more than are tried. */
static guint
count_sets(guint n, guint k)
{
    guint64 sets = 1;
    for (guint i = 0; i < k; i++) {
        sets = sets * (n - i) / (i + 1);
        if (sets > LEAVES_TRIED * LEAVES_TRIED)
            return G_MAXUINT;
    }
    return (guint)sets;
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
choose_several(const Grove *grove, WeftLeafSet *ret_leaves)
{
    Merit best = { G_MAXUINT, G_MAXUINT, G_MAXUINT64 };
    guint first = weft_offers_find(grove->leaves, grove->n, 1);
    WeftLeafSet *set = &grove->board->other;
    if (grove->k <= LEAVES_TRIED && count_sets(grove->n - first, grove->k) <= LEAVES_TRIED) {
        try_all(grove, first, &best, ret_leaves);
        return;
    }
    take_tight(grove, set);
    consider(grove, set, &best, ret_leaves);
    take_top(grove, set);
    consider(grove, set, &best, ret_leaves);
    for (guint i = 0; i < count_seeds(grove); i++) {
        take_near(grove, grove->leaves[grove->n - 1 - i].at, set);
        consider(grove, set, &best, ret_leaves);
    }
}

/* The zone, among those of the level, where k leaves do and which has least to spare; NULL: none. */
static const WeftZone *
find_zone(const WeftIndex *index, guint l, guint nodes, guint k)
{
    const WeftLevel *level = &index->realm->levels[l];
    const WeftZone *best = NULL;
    guint64 least = G_MAXUINT64;
    for (guint z = 0; z < level->n; z++) {
        const WeftZone *zone = &level->zones[z];
        guint64 sum = zone->n < k ? 0 : top_sum(index->leaves[l] + zone->first, zone->n, k);
        if (sum >= nodes && sum < least) {
            least = sum;
            best = zone;
        }
    }
    return best;
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
        Grove grove = { index, board, index->leaves[l] + zone->first, zone->n, n, k };
        choose_several(&grove, ret_leaves);
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

/* --- hosts --- */

static void
pick(WeftBoard *board, guint32 stamp, guint place, guint count)
{
    board->stamps[place] = stamp;
    board->picks[board->n_picks++] = (WeftPick){ place, count };
}

/* The least offer of the leaves that takes so many and is not picked yet. */
static gboolean
find_tight(const WeftIndex *index, const WeftBoard *board, const WeftLeafSet *leaves, guint fit, Kind kind,
           WeftOffer *ret_offer)
{
    gboolean found = FALSE;
    for (guint i = 0; i < leaves->n; i++) {
        guint n;
        const WeftOffer *hosts = hosts_of(index, leaves->at[i], &n);
        guint at = weft_offers_find(hosts, n, fit << 2);
        while (at < n && (board->stamps[hosts[at].at] == board->stamp || !is_of_kind(hosts[at], kind)))
            at++;
        if (at < n && (!found || hosts[at].key < ret_offer->key)) {
            *ret_offer = hosts[at];
            found = TRUE;
        }
    }
    return found;
}

/* Where earlier groups are already: no further host is needed for these. */
static guint
pick_used(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, guint n, guint32 used)
{
    for (guint i = 0; used && i < leaves->n; i++) {
        const WeftRealm *realm = index->realm;
        for (guint place = realm->leaf_first[leaves->at[i]]; place < realm->leaf_first[leaves->at[i] + 1] && n; place++) {
            guint fit = board->used[place] == used ? index->keys[place] >> 2 : 0;
            if (fit == 0)
                continue;
            pick(board, board->stamp, place, MIN(fit, n));
            n -= MIN(fit, n);
        }
    }
    return n;
}

/* The largest hosts of a kind, until they hold so many nodes or are as many as that; returns how many. */
static guint
draw_top(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, Kind kind, guint n)
{
    WeftOffer *top = board->top[kind];
    guint hosts = 0;
    set_heads(index, board, leaves);
    for (guint held = 0; held < n && hosts < WEFT_NODES_MAX;) {
        WeftOffer offer = draw(index, board, leaves, kind);
        guint fit = weft_offer_fit(offer);
        if (fit == 0)
            break;
        if (board->stamps[offer.at] == board->stamp)
            continue;
        board->ranks[offer.at] = hosts;
        top[hosts++] = offer;
        held += fit;
    }
    return hosts;
}

/* So many hosts of each kind are to be picked. */
typedef struct Mixture {
    guint in_use;
    guint empty;
} Mixture;

static guint
sum_top(const WeftOffer *top, guint n)
{
    guint sum = 0;
    for (guint i = 0; i < n; i++)
        sum += weft_offer_fit(top[i]);
    return sum;
}

/* The fewest hosts that hold so many nodes, as many of them in use already as can be. FALSE: there is no room. */
static gboolean
find_mixture(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, guint n, Mixture *ret)
{
    guint hosts = draw_top(index, board, leaves, ANY, n);
    if (sum_top(board->top[ANY], hosts) < n)
        return FALSE;
    guint in_use = MIN(draw_top(index, board, leaves, IN_USE, n), hosts);
    guint empty = MIN(draw_top(index, board, leaves, EMPTY, n), hosts);
    guint sum = sum_top(board->top[IN_USE], in_use), e = 0;
    while (sum < n || in_use + e < hosts) {
        if (e == empty)
            break;
        sum += weft_offer_fit(board->top[EMPTY][e++]);
        if (in_use + e > hosts)
            sum -= weft_offer_fit(board->top[IN_USE][--in_use]);
    }
    *ret = (Mixture){ in_use, e };
    return sum >= n;
}

/* Each time the host with least to spare with which the largest of the others still do. Returns what is left of n, of which
 * others will hold so many. */
static guint
pick_tight(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, Kind kind, guint hosts, guint n, guint others)
{
    const WeftOffer *top = board->top[kind];
    guint counted = hosts ? hosts - 1 : 0; /* those of top before this that are not picked hold the rest */
    guint rest = others + sum_top(top, counted);
    for (guint k = hosts; k > 0 && n > 0; k--) {
        WeftOffer offer = { 0, 0 };
        if (!find_tight(index, board, leaves, n > rest ? n - rest : 1, kind, &offer))
            break;
        guint fit = weft_offer_fit(offer), rank = board->ranks[offer.at];
        gboolean was_counted = rank < counted && top[rank].at == offer.at;
        pick(board, board->stamp, offer.at, MIN(fit, n));
        n -= MIN(fit, n);
        if (k == 1)
            break;
        if (was_counted) {
            rest -= fit;
            continue;
        }
        do
            counted--;
        while (board->stamps[top[counted].at] == board->stamp);
        rest -= weft_offer_fit(top[counted]);
    }
    return n;
}

gboolean
weft_gang_compact(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, guint n, guint32 used)
{
    Mixture mixture;
    weft_board_stamp(board);
    board->n_picks = 0;
    n = pick_used(index, board, leaves, n, used);
    if (!find_mixture(index, board, leaves, n, &mixture))
        return FALSE;
    guint empty = sum_top(board->top[EMPTY], mixture.empty);
    n = pick_tight(index, board, leaves, IN_USE, mixture.in_use, n, empty);
    n = pick_tight(index, board, leaves, EMPTY, mixture.empty, n, 0);
    return n == 0;
}

/* --- spread --- */

/* Deals so many over the counts, as evenly as can be: the most that one gets. */
static guint
level_of(const WeftOffer *offers, guint n, guint shift, guint nodes)
{
    guint low = 1, high = nodes;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        guint64 sum = 0;
        for (guint i = n; i-- > 0 && sum < nodes;) {
            guint fit = offers[i].key >> shift;
            if (fit == 0)
                break;
            sum += MIN(fit, middle);
        }
        if (sum >= nodes)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Those that have more than others get one less first: the largest offers give the last round. */
static void
spread_leaf(const WeftIndex *index, WeftBoard *board, guint leaf, guint nodes)
{
    guint n;
    const WeftOffer *hosts = hosts_of(index, leaf, &n);
    guint most = level_of(hosts, n, 2, nodes), base = 0;
    for (guint i = 0; i < n; i++)
        base += MIN(weft_offer_fit(hosts[i]), most - 1);
    guint extra = nodes - base;
    for (guint i = n; i-- > 0 && nodes;) {
        guint fit = weft_offer_fit(hosts[i]), count = MIN(fit, most - 1);
        if (fit >= most && extra) {
            count++;
            extra--;
        }
        if (count)
            pick(board, board->stamp, hosts[i].at, count);
        nodes -= count;
    }
}

gboolean
weft_gang_spread(const WeftIndex *index, WeftBoard *board, guint n)
{
    const WeftRealm *realm = index->realm;
    const WeftOffer *all = index->leaves[realm->n_levels - 1];
    if (index->total < n)
        return FALSE;
    weft_board_stamp(board);
    board->n_picks = 0;
    guint most = level_of(all, realm->n_leaves, 0, n);
    guint64 base = 0;
    for (guint i = realm->n_leaves; most > 1 && i-- > 0 && all[i].key;)
        base += MIN(all[i].key, most - 1);
    guint extra = (guint)(n - base);
    for (guint i = realm->n_leaves; i-- > 0 && n;) {
        guint count = MIN(all[i].key, most - 1);
        if (all[i].key >= most && extra) {
            count++;
            extra--;
        }
        if (count)
            spread_leaf(index, board, all[i].at, count);
        n -= count;
    }
    return n == 0;
}
