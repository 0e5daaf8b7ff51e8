/* Several groups of different shapes: they share leaves and hosts, and what one takes another lacks. All ways cannot be tried;
 * a few good ones are, and the best is kept. */
#include "trial.h"

#include <string.h>

#define WORK_MAX 1000000 /* hosts that are looked at, and seats that are tried, before the best so far has to do */
#define POOL_MAX 10      /* leaves of which all sets may be tried */
#define FIRSTS 8         /* hosts with which to begin */

typedef struct Mix {
    WeftTrial *trial;
    guint n;                             /* groups */
    WeftIndex *indexes[WEFT_GROUPS_MAX]; /* as the fleet is, before anything is tried, */
    gboolean stale;                      /* unless they still tell of something that was */
    WeftMixOrders orders;
    gboolean spread;
    guint64 work;
    gboolean found;
    guint hops, hosts; /* of the best so far */
    guint64 room;      /* that its leaves have for all groups */
    guint n_seats;
    WeftLeafSet set;  /* … these leaves */
    WeftLeafSet now;  /* those of the placement that is tried, */
    guint64 now_room; /* what they have, or all that it may be on, */
    guint now_hosts;  /* and how many hosts it has */
    WeftLeafSet scratch;
    WeftFilling filling;
} Mix;

static const WeftLeafSet nowhere;

static void
look_anew(Mix *mix)
{
    WeftTrial *trial = mix->trial;
    for (guint i = 0; i < mix->n && mix->stale; i++)
        mix->indexes[i] = weft_index_get(trial->fleet, trial->realm, &trial->groups[i].shape, trial->request->cluster->labels);
    mix->stale = FALSE;
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

/* Is what is tried now better than the best so far? */
static gboolean
is_better(const Mix *mix, guint hops)
{
    if (!mix->found)
        return TRUE;
    if (mix->spread)
        return mix->now.n != mix->set.n ? mix->now.n > mix->set.n : mix->now_hosts > mix->hosts;
    if (mix->now.n != mix->set.n)
        return mix->now.n < mix->set.n;
    if (hops != mix->hops)
        return hops < mix->hops;
    return mix->now_hosts != mix->hosts ? mix->now_hosts < mix->hosts : mix->now_room < mix->room;
}

static void
keep_if_better(Mix *mix)
{
    WeftBoard *board = mix->trial->board;
    guint hops = mix->spread ? 0 : weft_gang_hops(mix->trial->realm, &mix->now);
    if (!is_better(mix, hops))
        return;
    mix->found = TRUE;
    mix->hops = hops;
    mix->hosts = mix->now_hosts;
    mix->room = mix->now_room;
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
    mix->stale = TRUE;
    mix->now.n = mix->now_hosts = 0;
    trial->board->n_seats = 0;
    for (guint i = 0; i < mix->n && placed; i++)
        placed = place_group(mix, order[i], leaves, used);
    if (placed)
        keep_if_better(mix);
    weft_fleet_rollback(trial->fleet, mark);
    return placed;
}

static guint64
room_of(const Mix *mix, const WeftLeafSet *leaves)
{
    guint64 room = 0;
    for (guint i = 0; i < mix->n; i++)
        room += weft_gang_capacity(mix->indexes[i], leaves);
    return room;
}

/* --- host after host --- */

static void
begin_filling(Mix *mix, guint passed)
{
    mix->filling = (WeftFilling){ .trial = mix->trial, .indexes = mix->indexes, .orders = &mix->orders, .passed = passed };
    weft_filling_begin(&mix->filling);
}

static void
end_filling(Mix *mix)
{
    mix->work += mix->filling.work;
    mix->now.n = mix->now_hosts = 0;
    if (mix->filling.left)
        return;
    note_picks(mix, weft_board_stamp(mix->trial->board));
    mix->now_room = room_of(mix, &mix->now);
    keep_if_better(mix);
}

static gboolean
try_hosts(Mix *mix, const WeftLeafSet *leaves, guint passed)
{
    begin_filling(mix, passed);
    gboolean placed = weft_filling_go_on(&mix->filling, leaves);
    end_filling(mix);
    return placed;
}

/* --- both --- */

static gboolean
has_room(const Mix *mix, const WeftLeafSet *leaves)
{
    for (guint i = 0; i < mix->n; i++)
        if (weft_gang_capacity(mix->indexes[i], leaves) < mix->trial->groups[i].count)
            return FALSE;
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

/* What an order costs there: each group looks at all hosts, and what it takes is noted in the indexes of all. */
static guint64
work_of_order(const Mix *mix, const WeftLeafSet *leaves)
{
    const WeftRealm *realm = mix->trial->realm;
    guint64 hosts = 0, nodes = 0;
    for (guint i = 0; i < leaves->n; i++)
        hosts += realm->leaf_first[leaves->at[i] + 1] - realm->leaf_first[leaves->at[i]];
    for (guint i = 0; i < mix->n; i++)
        nodes += mix->trial->groups[i].count;
    return mix->n * hosts + (mix->n + 1) * WEFT_SEAT_WORK * nodes;
}

/* On these leaves. FALSE: none of the ways did. */
static gboolean
try_leaves(Mix *mix, const WeftLeafSet *leaves)
{
    look_anew(mix);
    if (!has_room(mix, leaves))
        return FALSE;
    gboolean placed = try_hosts(mix, leaves, 0);
    guint64 work = work_of_order(mix, leaves);
    mix->now_room = room_of(mix, leaves);
    for (guint o = 0; o < mix->orders.n && (!mix->found || mix->work + work < WORK_MAX); o++, mix->work += work)
        placed |= try_order(mix, leaves, mix->orders.orders[o]);
    if (placed)
        look_anew(mix);
    for (guint first = 1; placed && first < FIRSTS && mix->hosts > least_hosts(mix) && mix->work < WORK_MAX; first++)
        if (!try_hosts(mix, leaves, first))
            break;
    return placed;
}

/* Until there is a host, and if possible a leaf, for each of the nodes. */
static void
try_spread(Mix *mix)
{
    for (guint o = 0; o < mix->orders.n; o++)
        if (try_order(mix, NULL, mix->orders.orders[o]) && mix->hosts == mix->n_seats &&
            mix->set.n == MIN(mix->n_seats, mix->trial->realm->n_leaves))
            return;
}

/* --- leaf after leaf --- */

/* The leaf of the zone, of those that are not filled yet, that brings most of what is missing, as parts of the groups; of these
 * the roomiest, or the tightest. G_MAXUINT: none brings anything. */
static guint
best_leaf(Mix *mix, const WeftZone *zone, gboolean tight)
{
    const guint32 *stamps = mix->trial->board->leaf_stamps;
    guint best = G_MAXUINT;
    double most = 0;
    guint64 than = 0;
    for (guint leaf = zone->first; leaf < zone->first + zone->n; leaf++) {
        double worth = 0;
        guint64 room = 0;
        for (guint i = 0; i < mix->n && stamps[leaf] != mix->filling.stamp; i++) {
            guint32 capacity = mix->indexes[i]->capacity[leaf];
            worth += (double)MIN(mix->filling.missing[i], capacity) / mix->trial->groups[i].count;
            room += capacity;
        }
        if (worth > most || (worth > 0 && worth == most && (tight ? room < than : room > than))) {
            most = worth;
            than = room;
            best = leaf;
        }
    }
    mix->work += zone->n;
    return best;
}

/* These leaves, and then leaf after leaf of the zone, each time the one that brings most, until all is placed. */
static gboolean
grow(Mix *mix, const WeftZone *zone, const WeftLeafSet *start)
{
    guint32 *stamps = mix->trial->board->leaf_stamps;
    WeftLeafSet *one = &mix->scratch;
    guint leaf;
    look_anew(mix);
    begin_filling(mix, 0);
    for (guint i = 0; i < start->n; i++)
        stamps[start->at[i]] = mix->filling.stamp;
    if (start->n)
        weft_filling_go_on(&mix->filling, start);
    while (mix->filling.left && (leaf = best_leaf(mix, zone, FALSE)) != G_MAXUINT) {
        stamps[leaf] = mix->filling.stamp;
        one->n = 1;
        one->at[0] = leaf;
        weft_filling_go_on(&mix->filling, one);
    }
    end_filling(mix);
    return mix->filling.left == 0;
}

/* --- the fewest leaves --- */

/* The leaves of the best so far, and others that would bring most. */
static void
make_pool(Mix *mix, WeftLeafSet *ret_pool)
{
    const WeftRealm *realm = mix->trial->realm;
    guint32 *stamps = mix->trial->board->leaf_stamps;
    guint leaf = 0;
    *ret_pool = mix->set;
    look_anew(mix);
    begin_filling(mix, 0);
    for (guint i = 0; i < mix->set.n; i++)
        stamps[mix->set.at[i]] = mix->filling.stamp;
    while (ret_pool->n < POOL_MAX && (leaf = best_leaf(mix, realm->levels[realm->n_levels - 1].zones, TRUE)) != G_MAXUINT) {
        stamps[leaf] = mix->filling.stamp;
        ret_pool->at[ret_pool->n++] = leaf;
    }
}

/* Sets of so many leaves of the pool. enough: the first that does. */
static void
try_sets(Mix *mix, const WeftLeafSet *pool, guint k, gboolean enough, guint64 work)
{
    WeftLeafSet *set = &mix->scratch;
    for (guint bits = 1; bits < 1U << pool->n && mix->work < work; bits++) {
        if ((guint)__builtin_popcount(bits) != k)
            continue;
        set->n = 0;
        for (guint i = 0; i < pool->n; i++)
            if (bits >> i & 1)
                set->at[set->n++] = pool->at[i];
        if (try_leaves(mix, set) && enough)
            return;
    }
}

/* Fewer leaves than those of the best so far; where no set of so many does, no smaller one does. Then the best as few. */
static void
try_pool(Mix *mix)
{
    WeftLeafSet *pool = &mix->trial->board->other;
    guint before;
    if (mix->set.n > POOL_MAX)
        return;
    make_pool(mix, pool);
    do {
        before = mix->set.n;
        if (before > 1)
            try_sets(mix, pool, before - 1, TRUE, WORK_MAX / 2);
    } while (mix->set.n < before);
    try_sets(mix, pool, mix->set.n, FALSE, WORK_MAX);
}

/* Is each of so many leaves needed? */
static void
shrink(Mix *mix)
{
    WeftLeafSet *set = &mix->scratch;
    for (guint drop = 0; mix->set.n > POOL_MAX && drop < mix->set.n && mix->work < WORK_MAX; drop++) {
        guint before = mix->set.n;
        set->n = 0;
        for (guint i = 0; i < before; i++)
            if (i != drop)
                set->at[set->n++] = mix->set.at[i];
        if (try_leaves(mix, set))
            drop = G_MAXUINT; /* from the start, with what is left */
    }
}

/* --- the nearest --- */

/* Would so few leaves of the zone do for each of the groups alone? */
static gboolean
is_zone_enough(const Mix *mix, guint l, const WeftZone *zone, guint leaves)
{
    for (guint i = 0; i < mix->n; i++)
        if (weft_gang_fewest(mix->indexes[i], l, zone, mix->trial->groups[i].count) > leaves)
            return FALSE;
    return TRUE;
}

/* The smallest zone where as few leaves do as in all of the fabric. */
static void
look_nearer(Mix *mix)
{
    const WeftRealm *realm = mix->trial->realm;
    guint fewest = mix->set.n;
    for (guint l = 0; l + 1 < realm->n_levels; l++)
        for (guint z = 0; z < realm->levels[l].n && mix->work < WORK_MAX; z++) {
            const WeftZone *zone = &realm->levels[l].zones[z];
            if (is_zone_enough(mix, l, zone, fewest) && grow(mix, zone, &nowhere) && mix->now.n <= fewest)
                return;
        }
}

/* Where the cluster is already, or near to that. */
static gboolean
try_beside(Mix *mix)
{
    const WeftRealm *realm = mix->trial->realm;
    WeftLeafSet *own = &mix->trial->board->leaves;
    weft_trial_list_own(mix->trial, own);
    if (own->n == 0)
        return FALSE;
    try_leaves(mix, own);
    for (guint l = 0; l < realm->n_levels && !mix->found; l++)
        grow(mix, &realm->levels[l].zones[realm->levels[l].zone_of[own->at[0]]], own);
    return mix->found;
}

/* --- all of it --- */

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

static void
try_compact(Mix *mix)
{
    const WeftRealm *realm = mix->trial->realm;
    WeftLeafSet *all = &mix->trial->board->leaves;
    if (mix->trial->request->beside && try_beside(mix))
        return;
    if (!grow(mix, realm->levels[realm->n_levels - 1].zones, &nowhere)) {
        list_leaves(mix, all);
        if (!try_leaves(mix, all))
            return;
    }
    try_pool(mix);
    look_nearer(mix);
    mix->scratch = mix->set;
    try_leaves(mix, &mix->scratch);
    shrink(mix);
}

gboolean
weft_trial_place_mixed(WeftTrial *trial)
{
    Mix mix = { .trial = trial, .n = trial->n, .stale = TRUE, .spread = trial->request->cluster->layout == WEFT_LAYOUT_SPREAD };
    look_anew(&mix);
    for (guint i = 0; i < mix.n; i++)
        if (mix.indexes[i]->total < trial->groups[i].count)
            return FALSE;
    make_orders(&mix);
    if (mix.spread)
        try_spread(&mix);
    else
        try_compact(&mix);
    if (mix.found)
        take_best(&mix);
    return mix.found;
}
