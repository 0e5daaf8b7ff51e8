#include "schedule.h"

#include "errors.h"
#include "ranks.h"
#include "trial.h"

#include <string.h>

/* --- what it amounts to --- */

/* NUMA nodes of its cores; its memory may be elsewhere. */
static guint64
numa_mask(const WeftSeat *seat)
{
    guint64 mask = 0;
    for (guint i = 0; i < seat->n_parts; i++)
        if (seat->parts[i].cores)
            mask |= 1ULL << seat->parts[i].numa;
    return mask;
}

/* Has it a function or GPU of another NUMA node than its cores? */
static gboolean
is_remote(const WeftHost *host, const WeftSeat *seat)
{
    guint64 own = numa_mask(seat);
    for (guint rail = 0; rail < seat->n_rails; rail++)
        if (!(own >> ((const WeftHca *)host->hcas->pdata[seat->hca[rail]])->numa & 1))
            return TRUE;
    for (guint gpu = 0; gpu < host->gpus->len; gpu++)
        if (seat->gpus >> gpu & 1 && !(own >> ((const WeftGpu *)host->gpus->pdata[gpu])->numa & 1))
            return TRUE;
    return FALSE;
}

static guint
count_remote(const WeftFleet *fleet, const WeftPlacement *placement)
{
    guint n = 0;
    for (guint i = 0; i < placement->n; i++)
        n += is_remote(weft_slot_host(weft_fleet_slot(fleet, placement->seats[i].host)), &placement->seats[i]);
    return n;
}

static void
sum_up(const WeftTrial *trial, WeftPlacement *ret)
{
    WeftBoard *board = trial->board;
    WeftLeafSet *leaves = &board->leaves;
    guint32 stamp = weft_board_stamp(board);
    const WeftNode *like = trial->request->like;
    *ret = (WeftPlacement){ .n = board->n_seats, .seats = board->seats, .between = -1, .shm = like ? like->shm : 0 };
    leaves->n = 0;
    for (guint i = 0; i < ret->n; i++) {
        const WeftSeat *seat = &ret->seats[i];
        const WeftPlace *at = &g_array_index(trial->fleet->places, WeftPlace, seat->host);
        guint leaf = trial->realm->leaf_of[at->place];
        ret->hosts += board->used[at->place] != stamp;
        board->used[at->place] = stamp;
        if (board->used_leaves[leaf] != stamp)
            leaves->at[leaves->n++] = leaf;
        board->used_leaves[leaf] = stamp;
        ret->split += seat->n_parts > 1;
    }
    ret->remote = count_remote(trial->fleet, ret);
    ret->leaves = leaves->n;
    ret->hops = weft_gang_hops(trial->realm, leaves);
}

/* --- ranks, and the path that suits them --- */

static guint
hops_between(guint a, guint b, gconstpointer data)
{
    return weft_realm_hops(data, a, b);
}

/* Puts the seats into the order of the ranks that are to have them. */
static void
map_ranks(const WeftFleet *fleet, const WeftRealm *realm, const WeftPlaceRequest *request, WeftPlacement *placement)
{
    guint n = placement->n;
    g_autoptr(GArray) traffic = weft_pattern_traffic(request->cluster, n);
    g_autofree WeftRankPlace *places = g_new(WeftRankPlace, n);
    g_autofree guint *order = g_new(guint, n);
    g_autofree WeftSeat *seats = g_memdup2(placement->seats, n * sizeof *seats);
    for (guint i = 0; i < n; i++) {
        const WeftPlace *at = &g_array_index(fleet->places, WeftPlace, seats[i].host);
        places[i] = (WeftRankPlace){ seats[i].host, realm->leaf_of[at->place], seats[i].group };
    }
    weft_ranks_map(traffic, places, n, hops_between, realm, order);
    for (guint i = 0; i < n; i++)
        placement->seats[i] = seats[order[i]];
    placement->between = (int)weft_ranks_between(traffic, places, order);
}

/* A node that goes by the bridge has no devices. */
static void
drop_devices(const WeftFleet *fleet, const WeftCluster *cluster, WeftPlacement *placement)
{
    for (guint i = 0; i < placement->n; i++) {
        WeftSeat *seat = &placement->seats[i];
        if (((const WeftGroup *)cluster->groups->pdata[seat->group])->path != WEFT_PATH_AUTO)
            continue;
        seat->path = WEFT_PATH_BRIDGE;
        seat->n_rails = 0;
    }
    placement->remote = count_remote(fleet, placement);
}

static gboolean
knows_traffic(const WeftPlaceRequest *request)
{
    /* Nodes that come later have the ranks behind the others. */
    return request->cluster->pattern != WEFT_PATTERN_NONE && !request->fabric;
}

/* By the rule, would nodes that are placed so go by the bridge? */
static gboolean
suits_bridge(const WeftPlaceRequest *request, WeftPlacement *placement)
{
    const WeftPathRule *rule = request->rule ? request->rule : &weft_path_rule_published;
    guint64 shm = 0;
    if (weft_path_rule_apply(rule, (guint)placement->between, &shm) != WEFT_PATH_BRIDGE)
        return FALSE;
    placement->shm = request->cluster->shm ? 0 : shm;
    return TRUE;
}

gboolean
weft_place_may_bridge(const WeftPlaceRequest *request)
{
    const WeftCluster *cluster = request->cluster;
    gboolean open = FALSE;
    for (guint g = 0; g < cluster->groups->len; g++)
        open |= ((const WeftGroup *)cluster->groups->pdata[g])->path == WEFT_PATH_AUTO;
    return open && knows_traffic(request) && !cluster->bandwidth;
}

/* Maps the ranks, and chooses the path by them where that is open. TRUE: the bridge. */
static gboolean
choose_bridge(const WeftFleet *fleet, const WeftRealm *realm, const WeftPlaceRequest *request, WeftPlacement *placement)
{
    map_ranks(fleet, realm, request, placement);
    if (!weft_place_may_bridge(request) || !suits_bridge(request, placement))
        return FALSE;
    drop_devices(fleet, request->cluster, placement);
    return TRUE;
}

/* --- one fabric --- */

static gboolean
place_in_lane(WeftTrial *trial, WeftPlacement *ret)
{
    const WeftPlaceRequest *request = trial->request;
    gboolean placed = weft_trial_begin(trial, FALSE) && weft_trial_place(trial);
    gboolean bare = FALSE;
    if (!placed && weft_place_may_bridge(request)) /* without functions, if it does not need them */
        placed = bare = weft_trial_begin(trial, TRUE) && weft_trial_place(trial);
    if (!placed)
        return FALSE;
    sum_up(trial, ret);
    if (!knows_traffic(request) || request->only_room || (request->later && !bare))
        return TRUE;
    if (g_cancellable_is_cancelled(request->cancellable))
        return FALSE;
    return choose_bridge(trial->fleet, trial->realm, request, ret) || !bare;
}

static gboolean
place_in_realm(WeftFleet *fleet, WeftRealm *realm, const WeftPlaceRequest *request, WeftPlacement *ret)
{
    WeftTrial trial = { .fleet = fleet, .realm = realm, .board = fleet->board, .request = request };
    guint64 bandwidth = request->cluster->bandwidth;
    if (realm->told->closed)
        return FALSE;
    if (!bandwidth)
        return place_in_lane(&trial, ret);
    const WeftLane *lanes[WEFT_LANES_MAX];
    guint n = weft_fleet_lanes(fleet, realm, bandwidth, request->sl, lanes, NULL);
    for (guint i = 0; i < n; i++) {
        trial.lane = lanes[i];
        if (place_in_lane(&trial, ret))
            return TRUE;
    }
    return FALSE;
}

/* --- all --- */

/* In the first fabric that has room. */
static gboolean
place_anywhere(WeftFleet *fleet, const WeftPlaceRequest *request, WeftPlacement *ret)
{
    const char *only = request->fabric ? request->fabric : request->cluster->fabric;
    for (guint i = 0; i < fleet->realms->len && !g_cancellable_is_cancelled(request->cancellable); i++) {
        WeftRealm *realm = fleet->realms->pdata[i];
        if ((!only || strcmp(only, realm->fabric) == 0) && place_in_realm(fleet, realm, request, ret))
            return TRUE;
    }
    return FALSE;
}

/* Hosts to avoid are closed while it looks. */
guint
weft_place_close_avoided(WeftFleet *fleet, GHashTable *avoid)
{
    guint mark = weft_fleet_begin(fleet);
    GHashTableIter iter;
    gpointer name;
    if (!avoid)
        return mark;
    g_hash_table_iter_init(&iter, avoid);
    while (g_hash_table_iter_next(&iter, &name, NULL))
        weft_fleet_set_open(fleet, name, FALSE);
    return mark;
}

gboolean
weft_place(WeftFleet *fleet, const WeftPlaceRequest *request, WeftPlacement *ret_placement)
{
    weft_fleet_sort(fleet);
    guint mark = weft_place_close_avoided(fleet, request->avoid);
    gboolean placed = place_anywhere(fleet, request, ret_placement);
    weft_fleet_rollback(fleet, mark);
    return placed;
}

void
weft_place_map(WeftFleet *fleet, const WeftPlaceRequest *request, WeftPlacement *placement)
{
    if (!knows_traffic(request) || placement->between >= 0 || placement->n == 0 ||
        g_cancellable_is_cancelled(request->cancellable))
        return;
    weft_fleet_sort(fleet);
    choose_bridge(fleet, g_array_index(fleet->places, WeftPlace, placement->seats[0].host).realm, request, placement);
}

GPtrArray *
weft_placement_nodes(const WeftFleet *fleet, const WeftPlaceRequest *request, const WeftPlacement *placement)
{
    GPtrArray *nodes = g_ptr_array_new_full(placement->n, (GDestroyNotify)weft_node_free);
    for (guint i = 0; i < placement->n; i++) {
        const WeftSeat *seat = &placement->seats[i];
        const WeftGroup *group = request->cluster->groups->pdata[seat->group];
        WeftNode *node = weft_slot_node(weft_fleet_slot(fleet, seat->host), seat, group);
        node->shm = group->path == WEFT_PATH_AUTO && node->path == WEFT_PATH_BRIDGE ? placement->shm : 0;
        g_ptr_array_add(nodes, node);
    }
    return nodes;
}

GPtrArray *
weft_schedule(WeftFleet *fleet, const WeftPlaceRequest *request, GError **error)
{
    WeftPlacement placement;
    if (weft_place(fleet, request, &placement))
        return weft_placement_nodes(fleet, request, &placement);
    weft_place_explain_refusal(fleet, request, error);
    return NULL;
}
