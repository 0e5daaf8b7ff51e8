/* Which hosts of these leaves. */
#include "gang.h"

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
