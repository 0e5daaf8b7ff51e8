#include "trial.h"

#include <string.h>

/* --- shapes --- */

/* auto is a VF where the fabric's hosts have any that can be given, else the bridge; and the bridge where the quotas counted on
 * that. */
static WeftPath
resolve_path(const WeftTrial *trial, const WeftGroup *group, gboolean bridge)
{
    if (group->path != WEFT_PATH_AUTO)
        return group->path;
    const WeftNode *like = trial->request->like;
    if (bridge || group->rails == 0 || trial->request->cluster->bridged || (like && like->path == WEFT_PATH_BRIDGE))
        return WEFT_PATH_BRIDGE;
    return weft_realm_gives_functions(trial->fleet, trial->realm) ? WEFT_PATH_SRIOV : WEFT_PATH_BRIDGE;
}

static WeftShape
shape_of(const WeftTrial *trial, const WeftGroup *group, gboolean bridge)
{
    const WeftCluster *cluster = trial->request->cluster;
    WeftPath path = resolve_path(trial, group, bridge);
    WeftShape shape = { .cores = group->cores,
                        .memory = group->memory,
                        .page_size = group->page_size,
                        .gpus = group->gpus,
                        .rails = path == WEFT_PATH_BRIDGE ? 0 : group->rails,
                        .path = path,
                        .locality = group->locality,
                        .exclusive = cluster->exclusive };
    if (trial->lane) {
        shape.lane = *trial->lane;
        shape.bandwidth = cluster->bandwidth;
    }
    return shape;
}

gboolean
weft_trial_begin(WeftTrial *trial, gboolean bridge)
{
    const WeftPlaceRequest *request = trial->request;
    trial->n = 0;
    for (guint g = 0; g < request->cluster->groups->len; g++) {
        if (request->counts[g] == 0)
            continue;
        WeftTrialGroup *group = &trial->groups[trial->n++];
        *group = (WeftTrialGroup){ (guint8)g, request->counts[g], shape_of(trial, request->cluster->groups->pdata[g], bridge) };
        if (trial->lane && group->shape.rails == 0)
            return FALSE;
    }
    return TRUE;
}

/* --- seats --- */

/* In order of the hosts, so that near ranks are near. A sort that needs no memory. */
static void
sort_picks(WeftPick *picks, guint n)
{
    guint gap = 1;
    while (gap < n / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (guint i = gap; i < n; i++) {
            WeftPick pick = picks[i];
            guint j = i;
            for (; j >= gap && picks[j - gap].place > pick.place; j -= gap)
                picks[j] = picks[j - gap];
            picks[j] = pick;
        }
}

WeftSlot *
weft_trial_copy(WeftTrial *trial, guint number)
{
    const WeftSlot *slot = weft_fleet_slot(trial->fleet, number);
    weft_board_reserve(trial->board, trial->realm->n, weft_slot_size(slot));
    memcpy(trial->board->block, slot, weft_slot_size(slot));
    return trial->board->block;
}

/* A slot to try on: the fleet's own, which is restored later, or a copy. */
static WeftSlot *
slot_to_try(WeftTrial *trial, guint number, gboolean kept)
{
    if (!kept)
        return weft_trial_copy(trial, number);
    WeftSlot *slot = weft_fleet_slot(trial->fleet, number);
    weft_fleet_touch(trial->fleet, slot);
    return slot;
}

gboolean
weft_trial_seat(WeftTrial *trial, const WeftTrialGroup *group, gboolean kept)
{
    WeftBoard *board = trial->board;
    sort_picks(board->picks, board->n_picks);
    for (guint i = 0; i < board->n_picks; i++) {
        const WeftPick *pick = &board->picks[i];
        WeftSlot *slot = slot_to_try(trial, trial->realm->numbers[pick->place], kept);
        for (guint j = 0; j < pick->count; j++) {
            WeftSeat *seat = &board->seats[board->n_seats];
            if (!weft_slot_seat(slot, &group->shape, seat))
                return FALSE;
            seat->group = group->group;
            weft_slot_take_seat(slot, seat, NULL);
            board->n_seats++;
        }
    }
    return TRUE;
}

static int
compare_leaves(gconstpointer a, gconstpointer b)
{
    guint x = *(const guint *)a, y = *(const guint *)b;
    return x < y ? -1 : x > y;
}

guint32
weft_trial_list_own(const WeftTrial *trial, WeftLeafSet *ret_leaves)
{
    WeftBoard *board = trial->board;
    guint32 stamp = weft_board_stamp(board);
    GHashTableIter iter;
    gpointer name;
    ret_leaves->n = 0;
    g_hash_table_iter_init(&iter, trial->request->beside);
    while (g_hash_table_iter_next(&iter, &name, NULL)) {
        const WeftSlot *slot = g_hash_table_lookup(trial->fleet->by_name, name);
        const WeftPlace *at = slot ? &g_array_index(trial->fleet->places, WeftPlace, weft_slot_number(slot)) : NULL;
        if (!at || at->realm != trial->realm)
            continue;
        guint leaf = trial->realm->leaf_of[at->place];
        board->used[at->place] = stamp;
        if (board->used_leaves[leaf] != stamp && ret_leaves->n < WEFT_NODES_MAX)
            ret_leaves->at[ret_leaves->n++] = leaf;
        board->used_leaves[leaf] = stamp;
    }
    qsort(ret_leaves->at, ret_leaves->n, sizeof *ret_leaves->at, compare_leaves);
    return stamp;
}

/* On its own leaves first, there on its own hosts, and else near to these. */
static gboolean
find_beside(const WeftTrial *trial, const WeftIndex *index, guint n)
{
    WeftLeafSet *leaves = &trial->board->leaves;
    guint32 own = weft_trial_list_own(trial, leaves);
    return leaves->n && weft_gang_add_leaves(index, trial->board, n, leaves) &&
           weft_gang_compact(index, trial->board, leaves, n, own);
}

static gboolean
find_compact(const WeftTrial *trial, const WeftIndex *index, guint n)
{
    WeftBoard *board = trial->board;
    if (trial->request->beside && find_beside(trial, index, n))
        return TRUE;
    return weft_gang_leaves(index, board, n, &board->leaves) && weft_gang_compact(index, board, &board->leaves, n, 0);
}

static gboolean
place_alone(WeftTrial *trial, const WeftTrialGroup *group)
{
    WeftBoard *board = trial->board;
    const WeftCluster *cluster = trial->request->cluster;
    WeftIndex *index = weft_index_get(trial->fleet, trial->realm, &group->shape, cluster->labels);
    board->n_seats = 0;
    gboolean found = cluster->layout == WEFT_LAYOUT_SPREAD ? weft_gang_spread(index, board, group->count)
                                                           : find_compact(trial, index, group->count);
    return found && weft_trial_seat(trial, group, FALSE);
}

/* Where a port is full of P_Keys, or a host is a cluster's alone, its own nodes make a difference: known only to an index of
 * its own, which is not worth to be made where there is room elsewhere. */
static gboolean
concerns_itself(const WeftTrial *trial)
{
    const WeftFleetFabric *told = trial->realm->told;
    return trial->request->fabric && trial->request->cluster->id &&
           (told->pkeys || told->ports || trial->request->cluster->exclusive);
}

static gboolean
place_groups(WeftTrial *trial)
{
    return trial->n == 1 ? place_alone(trial, &trial->groups[0]) : weft_trial_place_mixed(trial);
}

gboolean
weft_trial_place(WeftTrial *trial)
{
    weft_board_reserve(trial->board, trial->realm->n, 0);
    if (place_groups(trial))
        return TRUE;
    if (!concerns_itself(trial))
        return FALSE;
    for (guint i = 0; i < trial->n; i++)
        trial->groups[i].shape.cluster = trial->request->cluster->id;
    return place_groups(trial);
}
