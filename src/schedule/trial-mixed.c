/* Several groups of different shapes: they share leaves and hosts, and what one takes another lacks. All ways cannot be tried;
 * a few good ones are, and the best is kept. */
#include "trial.h"

#include <string.h>

#define TRIES_MAX 256 /* whole placements of one request */
#define LEAVES_FEW 10 /* so many leaves or fewer: all sets of these may be tried */

typedef struct Mix {
    WeftTrial *trial;
    guint n;                             /* groups */
    WeftIndex *indexes[WEFT_GROUPS_MAX]; /* as the fleet is, before anything is tried */
    WeftMixOrders orders;
    guint tries;
    gboolean found;
    guint hops, hosts; /* of the best so far */
    guint n_seats;
    WeftLeafSet set; /* … its leaves */
    WeftLeafSet now; /* those of the placement that is tried, */
    guint now_hosts; /* and how many hosts it has */
    WeftLeafSet scratch;
} Mix;

/* What was tried is undone: the indexes may still tell of it. */
static void
look_anew(Mix *mix)
{
    WeftTrial *trial = mix->trial;
    for (guint i = 0; i < mix->n; i++)
        mix->indexes[i] = weft_index_get(trial->fleet, trial->realm, &trial->groups[i].shape, trial->request->cluster->labels);
}

/* --- orders --- */

/* How scarce the room for a group is: nodes asked for by nodes that fit. */
static double
scarcity(const Mix *mix, guint i)
{
    return (double)mix->trial->groups[i].count / (double)MAX(mix->indexes[i]->total, 1);
}

static void
add_order(Mix *mix, const guint *order)
{
    if (mix->orders.n < WEFT_ORDERS_MAX)
        memcpy(mix->orders.orders[mix->orders.n++], order, sizeof mix->orders.orders[0]);
}

/* The scarcest first; then each of the others first, and the other way round. */
static void
make_orders(Mix *mix)
{
    guint n = mix->n, order[WEFT_GROUPS_MAX] = { 0 }, other[WEFT_GROUPS_MAX] = { 0 };
    for (guint i = 0; i < n; i++) {
        guint j = i;
        for (; j > 0 && scarcity(mix, order[j - 1]) < scarcity(mix, i); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    add_order(mix, order);
    for (guint i = 0; i < n; i++)
        other[i] = order[n - 1 - i];
    add_order(mix, other);
    for (guint first = 1; first + 1 < n; first++) {
        other[0] = order[first];
        for (guint i = 0, j = 1; i < n; i++)
            if (i != first)
                other[j++] = order[i];
        add_order(mix, other);
    }
}

/* --- one placement --- */

/* used: the stamp of the hosts and leaves that this placement has. */
static void
note_picks(Mix *mix, guint32 used)
{
    WeftBoard *board = mix->trial->board;
    for (guint p = 0; p < board->n_picks; p++) {
        guint place = board->picks[p].place, leaf = mix->trial->realm->leaf_of[place];
        mix->now_hosts += board->used[place] != used;
        board->used[place] = used;
        if (board->used_leaves[leaf] == used)
            continue;
        board->used_leaves[leaf] = used;
        mix->now.at[mix->now.n++] = leaf;
    }
}

/* leaves NULL: spread over all. */
static gboolean
place_group(Mix *mix, guint i, const WeftLeafSet *leaves, guint32 used)
{
    WeftTrial *trial = mix->trial;
    const WeftTrialGroup *group = &trial->groups[i];
    WeftIndex *index = weft_index_get(trial->fleet, trial->realm, &group->shape, trial->request->cluster->labels);
    gboolean found = leaves ? weft_gang_compact(index, trial->board, leaves, group->count, used)
                            : weft_gang_spread(index, trial->board, group->count);
    if (!found || !weft_trial_seat(trial, group, TRUE))
        return FALSE;
    note_picks(mix, used);
    return TRUE;
}

static void
keep_if_better(Mix *mix, gboolean compact)
{
    WeftBoard *board = mix->trial->board;
    guint hops = compact ? weft_gang_hops(mix->trial->realm, &mix->now) : 0;
    gboolean same = mix->found && mix->now.n == mix->set.n;
    gboolean nearer = same && (hops != mix->hops ? hops < mix->hops : mix->now_hosts < mix->hosts);
    if (mix->found && !nearer && (same || mix->now.n > mix->set.n))
        return;
    mix->found = TRUE;
    mix->hops = hops;
    mix->hosts = mix->now_hosts;
    mix->set = mix->now;
    mix->n_seats = board->n_seats;
    memcpy(board->best, board->seats, board->n_seats * sizeof *board->seats);
}

/* On these leaves only (NULL: over all of them), in this order of groups. */
static gboolean
try_order(Mix *mix, const WeftLeafSet *leaves, const guint *order)
{
    WeftTrial *trial = mix->trial;
    guint mark = weft_fleet_begin(trial->fleet);
    guint32 used = weft_board_stamp(trial->board);
    gboolean placed = TRUE;
    mix->tries++;
    mix->now.n = mix->now_hosts = 0;
    trial->board->n_seats = 0;
    for (guint i = 0; i < mix->n && placed; i++)
        placed = place_group(mix, order[i], leaves, used);
    if (placed)
        keep_if_better(mix, leaves != NULL);
    weft_fleet_rollback(trial->fleet, mark);
    return placed;
}

/* … host after host. */
static gboolean
try_hosts(Mix *mix, const WeftLeafSet *leaves, guint first)
{
    if (!weft_trial_fill_hosts(mix->trial, mix->indexes, leaves, &mix->orders, first))
        return FALSE;
    mix->now.n = mix->now_hosts = 0;
    note_picks(mix, weft_board_stamp(mix->trial->board));
    keep_if_better(mix, TRUE);
    return TRUE;
}

/* Hosts that there must be at least, were all as roomy as the roomiest. */
static guint
least_hosts(const Mix *mix)
{
    guint least = 1;
    for (guint i = 0; i < mix->n; i++) {
        guint max = MAX(mix->indexes[i]->max, 1);
        least = MAX(least, (mix->trial->groups[i].count + max - 1) / max);
    }
    return least;
}

static gboolean
has_room(const Mix *mix, const WeftLeafSet *leaves)
{
    for (guint i = 0; i < mix->n; i++)
        if (weft_gang_capacity(mix->indexes[i], leaves) < mix->trial->groups[i].count)
            return FALSE;
    return TRUE;
}

/* As there. FALSE: none of the orders did. */
static gboolean
try_leaves(Mix *mix, const WeftLeafSet *leaves)
{
    gboolean placed = FALSE;
    look_anew(mix);
    if (leaves && !has_room(mix, leaves))
        return FALSE;
    if (leaves)
        placed = try_hosts(mix, leaves, 0);
    for (guint o = 0; o < mix->orders.n && mix->tries < TRIES_MAX; o++)
        placed |= try_order(mix, leaves, mix->orders.orders[o]);
    if (leaves && placed)
        look_anew(mix);
    for (guint first = 1; leaves && placed && first < WEFT_FIRSTS && mix->hosts > least_hosts(mix); first++)
        try_hosts(mix, leaves, first);
    return placed;
}

/* --- which leaves --- */

/* Leaves where anything fits. */
static void
list_leaves(const Mix *mix, WeftLeafSet *ret_leaves)
{
    ret_leaves->n = 0;
    for (guint leaf = 0; leaf < mix->trial->realm->n_leaves && ret_leaves->n < WEFT_NODES_MAX; leaf++) {
        gboolean any = FALSE;
        for (guint i = 0; i < mix->n; i++)
            any |= mix->indexes[i]->capacity[leaf] > 0;
        if (any)
            ret_leaves->at[ret_leaves->n++] = leaf;
    }
}

/* All sets, the smallest first. */
static void
try_sets(Mix *mix, const WeftLeafSet *all, WeftLeafSet *set)
{
    for (guint k = 1; k <= all->n && !mix->found; k++)
        for (guint bits = 1; bits < 1U << all->n && mix->tries < TRIES_MAX; bits++) {
            if ((guint)__builtin_popcount(bits) != k)
                continue;
            set->n = 0;
            for (guint i = 0; i < all->n; i++)
                if (bits >> i & 1)
                    set->at[set->n++] = all->at[i];
            try_leaves(mix, set);
        }
}

/* How much of what is still missing the leaf would bring, as parts of the groups. */
static double
worth(const Mix *mix, guint leaf, const guint64 *missing)
{
    double sum = 0;
    for (guint i = 0; i < mix->n; i++)
        sum += (double)MIN(missing[i], mix->indexes[i]->capacity[leaf]) / mix->trial->groups[i].count;
    return sum;
}

/* The leaf of the zone that brings most and is not in the set; G_MAXUINT: none brings anything. */
static guint
best_leaf(const Mix *mix, const WeftZone *zone, const WeftLeafSet *set, const guint64 *missing)
{
    guint best = G_MAXUINT;
    double most = 0;
    for (guint leaf = zone->first; leaf < zone->first + zone->n; leaf++) {
        double brings = worth(mix, leaf, missing);
        gboolean there = FALSE;
        for (guint i = 0; i < set->n && brings > most && !there; i++)
            there = set->at[i] == leaf;
        if (brings > most && !there) {
            most = brings;
            best = leaf;
        }
    }
    return best;
}

/* Leaf after leaf, the one that brings most, until all groups have their place. */
static void
grow(Mix *mix, const WeftZone *zone, WeftLeafSet *set)
{
    guint64 missing[WEFT_GROUPS_MAX] = { 0 };
    set->n = 0;
    for (guint i = 0; i < mix->n; i++)
        missing[i] = mix->trial->groups[i].count;
    while (set->n < WEFT_NODES_MAX && mix->tries < TRIES_MAX) {
        guint leaf = best_leaf(mix, zone, set, missing);
        for (guint i = 0; leaf == G_MAXUINT && i < mix->n; i++)
            missing[i] = mix->trial->groups[i].count; /* by numbers it is enough, and yet it is not */
        if (leaf == G_MAXUINT && (leaf = best_leaf(mix, zone, set, missing)) == G_MAXUINT)
            return;
        set->at[set->n++] = leaf;
        for (guint i = 0; i < mix->n; i++)
            missing[i] -= MIN(missing[i], mix->indexes[i]->capacity[leaf]);
        if (try_leaves(mix, set))
            return;
    }
}

/* Is each of the leaves needed? */
static void
shrink(Mix *mix, WeftLeafSet *set)
{
    for (guint drop = 0; mix->found && drop < mix->set.n && mix->tries < TRIES_MAX; drop++) {
        guint before = mix->set.n;
        set->n = 0;
        for (guint i = 0; i < before; i++)
            if (i != drop)
                set->at[set->n++] = mix->set.at[i];
        if (set->n && try_leaves(mix, set))
            drop = G_MAXUINT; /* from the start, with what is left */
    }
}

static gboolean
zone_has_room(const Mix *mix, const WeftZone *zone)
{
    for (guint i = 0; i < mix->n; i++) {
        guint64 sum = 0;
        for (guint leaf = zone->first; leaf < zone->first + zone->n; leaf++)
            sum += mix->indexes[i]->capacity[leaf];
        if (sum < mix->trial->groups[i].count)
            return FALSE;
    }
    return TRUE;
}

/* In the smallest zones that have room, up to all of the fabric. */
static void
try_zones(Mix *mix, WeftLeafSet *set)
{
    const WeftRealm *realm = mix->trial->realm;
    for (guint l = 0; l < realm->n_levels && !mix->found; l++)
        for (guint z = 0; z < realm->levels[l].n && !mix->found && mix->tries < TRIES_MAX; z++)
            if (zone_has_room(mix, &realm->levels[l].zones[z]))
                grow(mix, &realm->levels[l].zones[z], set);
    shrink(mix, set);
}

static guint
place_of(const Mix *mix, const WeftSeat *seat)
{
    return g_array_index(mix->trial->fleet->places, WeftPlace, seat->host).place;
}

/* In order of groups and hosts, whichever was placed first: near ranks are near. */
static void
take_best(const Mix *mix)
{
    WeftBoard *board = mix->trial->board;
    guint *order = board->heads;
    for (guint i = 0; i < mix->n_seats; i++) {
        const WeftSeat *seat = &board->best[i];
        guint place = place_of(mix, seat), j = i;
        for (; j > 0; j--) {
            const WeftSeat *before = &board->best[order[j - 1]];
            if (before->group < seat->group || (before->group == seat->group && place_of(mix, before) <= place))
                break;
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
    board->n_seats = mix->n_seats;
    for (guint i = 0; i < mix->n_seats; i++)
        board->seats[i] = board->best[order[i]];
}

gboolean
weft_trial_place_mixed(WeftTrial *trial)
{
    Mix mix = { .trial = trial, .n = trial->n };
    WeftBoard *board = trial->board;
    look_anew(&mix);
    for (guint i = 0; i < mix.n; i++)
        if (mix.indexes[i]->total < trial->groups[i].count)
            return FALSE;
    make_orders(&mix);
    list_leaves(&mix, &board->leaves);
    if (trial->request->cluster->layout == WEFT_LAYOUT_SPREAD)
        try_leaves(&mix, NULL);
    else if (board->leaves.n <= LEAVES_FEW)
        try_sets(&mix, &board->leaves, &mix.scratch);
    else
        try_zones(&mix, &mix.scratch);
    if (mix.found)
        take_best(&mix);
    return mix.found;
}
