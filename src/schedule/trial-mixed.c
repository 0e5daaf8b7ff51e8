/* Several groups of different shapes: they share leaves and hosts, and what one takes another lacks. All ways cannot be tried;
 * a few good ones are, and the best is kept. */
#include "trial.h"

#include <string.h>

#define TRIES_MAX 256  /* whole placements of one request, */
#define TRIES_LEAST 16 /* even if it is large */
#define NODES_MAX 8192 /* in all that is tried */
#define SINGLES 8      /* leaves that are tried for all */
#define LEAVES_FEW 10  /* so many leaves or fewer: all sets of these may be tried */

typedef struct Mix {
    WeftTrial *trial;
    guint n;                             /* groups */
    WeftIndex *indexes[WEFT_GROUPS_MAX]; /* as the fleet is, before anything is tried */
    WeftMixOrders orders;
    guint tries; /* that are left */
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
    mix->tries--;
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
    mix->tries -= mix->tries > 0;
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
    if (leaves && !has_room(mix, leaves))
        return FALSE;
    if (leaves)
        placed = try_hosts(mix, leaves, 0);
    for (guint o = 0; o < mix->orders.n && mix->tries; o++)
        placed |= try_order(mix, leaves, mix->orders.orders[o]);
    look_anew(mix);
    for (guint first = 1; leaves && placed && first < WEFT_FIRSTS && mix->tries && mix->hosts > least_hosts(mix); first++)
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
        for (guint bits = 1; bits < 1U << all->n && mix->tries; bits++) {
            if ((guint)__builtin_popcount(bits) != k)
                continue;
            set->n = 0;
            for (guint i = 0; i < all->n; i++)
                if (bits >> i & 1)
                    set->at[set->n++] = all->at[i];
            try_leaves(mix, set);
        }
}

/* What a leaf would bring. */
typedef struct Gain {
    guint leaf;
    double worth;  /* of what is missing, as parts of the groups */
    guint64 spare; /* nodes that fit there, whatever is missing */
} Gain;

static Gain
gain_of(const Mix *mix, guint leaf, const guint64 *missing)
{
    Gain gain = { .leaf = leaf };
    for (guint i = 0; i < mix->n; i++) {
        guint32 capacity = mix->indexes[i]->capacity[leaf];
        gain.worth += (double)MIN(missing[i], capacity) / mix->trial->groups[i].count;
        gain.spare += capacity;
    }
    return gain;
}

static gboolean
is_better(const Gain *a, const Gain *b)
{
    return a->worth != b->worth ? a->worth > b->worth : a->worth > 0 && a->spare < b->spare;
}

static gboolean
contains(const WeftLeafSet *set, guint leaf)
{
    for (guint i = 0; i < set->n; i++)
        if (set->at[i] == leaf)
            return TRUE;
    return FALSE;
}

/* Adds the leaf of the zone that brings most of what is missing, and has least beside it. FALSE: none brings anything. */
static gboolean
add_best(const Mix *mix, const WeftZone *zone, WeftLeafSet *set, const guint64 *missing)
{
    Gain best = { .leaf = G_MAXUINT };
    for (guint leaf = zone->first; leaf < zone->first + zone->n; leaf++) {
        Gain gain = gain_of(mix, leaf, missing);
        if (is_better(&gain, &best) && !contains(set, leaf))
            best = gain;
    }
    if (best.leaf != G_MAXUINT)
        set->at[set->n++] = best.leaf;
    return best.leaf != G_MAXUINT;
}

static void
count_all(const Mix *mix, guint64 ret_missing[WEFT_GROUPS_MAX])
{
    for (guint i = 0; i < WEFT_GROUPS_MAX; i++)
        ret_missing[i] = i < mix->n ? mix->trial->groups[i].count : 0;
}

/* Leaves of the zone that have enough, counting each group by itself. FALSE: there are not that few. */
static gboolean
gather(const Mix *mix, const WeftZone *zone, guint most, WeftLeafSet *set)
{
    guint64 missing[WEFT_GROUPS_MAX];
    set->n = 0;
    count_all(mix, missing);
    while (!has_room(mix, set)) {
        if (set->n == most || !add_best(mix, zone, set, missing))
            return FALSE;
        for (guint i = 0; i < mix->n; i++)
            missing[i] -= MIN(missing[i], mix->indexes[i]->capacity[set->at[set->n - 1]]);
    }
    return TRUE;
}

/* … and further ones, until all really have their place. */
static void
grow(Mix *mix, const WeftZone *zone, guint most, WeftLeafSet *set)
{
    guint64 all[WEFT_GROUPS_MAX];
    count_all(mix, all);
    if (!gather(mix, zone, most, set))
        return;
    while (mix->tries && !try_leaves(mix, set))
        if (set->n == most || !add_best(mix, zone, set, all))
            return;
}

/* One leaf for all: of those where each group by itself has room, some of the tightest. */
static void
try_singles(Mix *mix, WeftLeafSet *set)
{
    guint64 all[WEFT_GROUPS_MAX];
    Gain gains[SINGLES];
    guint n = 0;
    count_all(mix, all);
    for (guint leaf = 0; leaf < mix->trial->realm->n_leaves; leaf++) {
        *set = (WeftLeafSet){ 1, { leaf } };
        if (!has_room(mix, set))
            continue;
        Gain gain = gain_of(mix, leaf, all);
        guint at = n;
        for (; at > 0 && is_better(&gain, &gains[at - 1]); at--)
            if (at < SINGLES)
                gains[at] = gains[at - 1];
        if (at < SINGLES)
            gains[at] = gain;
        n = MIN(n + 1, SINGLES);
    }
    for (guint i = 0; i < n && mix->tries && !(mix->found && mix->hosts <= least_hosts(mix)); i++) {
        set->n = 1;
        set->at[0] = gains[i].leaf;
        try_leaves(mix, set);
    }
}

/* Is each of the leaves needed? */
static void
shrink(Mix *mix, WeftLeafSet *set)
{
    for (guint drop = 0; mix->found && drop < mix->set.n && mix->tries; drop++) {
        guint before = mix->set.n;
        set->n = 0;
        for (guint i = 0; i < before; i++)
            if (i != drop)
                set->at[set->n++] = mix->set.at[i];
        if (set->n && try_leaves(mix, set))
            drop = G_MAXUINT; /* from the start, with what is left */
    }
}

/* The fewest leaves wherever they are, and then as few that are nearer to each other. */
static void
try_zones(Mix *mix, WeftLeafSet *set)
{
    const WeftRealm *realm = mix->trial->realm;
    const WeftZone all = { 0, realm->n_leaves };
    try_singles(mix, set);
    if (mix->found)
        return;
    grow(mix, &all, WEFT_NODES_MAX, set);
    shrink(mix, set);
    for (guint l = 0; l < realm->n_levels; l++)
        for (guint z = 0; z < realm->levels[l].n && mix->tries && mix->found && mix->hops > realm->levels[l].hops; z++)
            grow(mix, &realm->levels[l].zones[z], mix->set.n, set);
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
    guint nodes = 0;
    look_anew(&mix);
    for (guint i = 0; i < mix.n; i++)
        if (mix.indexes[i]->total < trial->groups[i].count)
            return FALSE;
    for (guint i = 0; i < mix.n; i++)
        nodes += trial->groups[i].count;
    mix.tries = CLAMP(NODES_MAX / MAX(nodes, 1), TRIES_LEAST, TRIES_MAX);
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
