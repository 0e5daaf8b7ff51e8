#include "schedule.h"

#include "errors.h"
#include "fleet-private.h"
#include "size.h"

#include <string.h>

#define ANY_NUMA (-1)

typedef struct Shape {
    const WeftGroup *group;
    WeftPath path;        /* never auto */
    const char *cluster;  /* id; NULL: of one that has no node yet */
    const WeftLane *lane; /* NULL: best effort */
    guint64 bandwidth;    /* guaranteed to each device there */
} Shape;

/* A host that could take nodes, and at most how many. */
typedef struct Candidate {
    WeftSlot *slot; /* of the fleet, or the trial's own copy once something was tried on it */
    guint fit;
} Candidate;

typedef struct Leaf {
    guint number; /* as slots are numbered */
    guint first;  /* candidates of a leaf lie together */
    guint n;
    guint64 fit;
    gboolean used; /* a node of this placement is on it */
} Leaf;

/* One attempt to place the whole request in one fabric. */
typedef struct Trial {
    const WeftPlaceRequest *request;
    guint fabric; /* as slots are numbered */
    const char *fabric_name;
    const WeftFleetFabric *told;
    GArray *candidates;
    GArray *leaves;
    GHashTable *copies; /* slot of the fleet to the trial's copy */
    GPtrArray *nodes;   /* WeftNode, what was placed so far */
} Trial;

/* --- inside a host --- */

static guint
free_cores_of(const WeftSlot *slot, guint numa)
{
    guint n = 0;
    for (guint i = 0; i < slot->host->cores->len; i++)
        n += g_array_index(slot->host->cores, WeftCore, i).numa == numa && weft_slot_core_is_free(slot, i);
    return n;
}

static void
pick_cores(const WeftSlot *slot, guint numa, guint count, WeftNode *node)
{
    for (guint i = 0; i < slot->host->cores->len && count; i++) {
        const WeftCore *core = &g_array_index(slot->host->cores, WeftCore, i);
        if (core->numa == numa && weft_slot_core_is_free(slot, i)) {
            g_array_append_val(node->cores, core->id);
            count--;
        }
    }
}

/* The largest pages that divide the amount and are free in that number. */
static gboolean
pick_memory(const WeftSlot *slot, guint numa, const WeftGroup *group, guint64 bytes, WeftNode *node)
{
    const WeftNuma *pages = &g_array_index(slot->host->numa, WeftNuma, numa);
    for (guint i = 0; i < pages->n_pages; i++) {
        guint64 size = pages->pages[i].size;
        if ((group->page_size && size != group->page_size) || bytes % size != 0)
            continue;
        if (pages->pages[i].count < slot->pages[numa][i] + bytes / size)
            continue;
        g_array_append_val(node->memory, ((WeftMemory){ numa, size, bytes / size }));
        return TRUE;
    }
    return FALSE;
}

/* Virtual functions of mlx5 are ports of their own, which not every manager programs. */
static gboolean
hca_gives_functions(const WeftSlot *slot, guint hca)
{
    const WeftHca *it = slot->host->hcas->pdata[hca];
    return it->vfs > 0 && it->port_guid && !(it->driver == WEFT_HCA_MLX5 && slot->told->no_virtual);
}

/* A free VF of the HCA, -1 for the whole of it, -2 for nothing. */
static int
pick_function(const WeftSlot *slot, guint hca, WeftPath path)
{
    if (path == WEFT_PATH_PASSTHROUGH)
        return weft_slot_hca_is_free(slot, hca) ? -1 : -2;
    if (!hca_gives_functions(slot, hca))
        return -2;
    for (guint vf = 0; vf < ((const WeftHca *)slot->host->hcas->pdata[hca])->vfs; vf++)
        if (weft_slot_vf_is_free(slot, hca, vf))
            return (int)vf;
    return -2;
}

static gboolean
has_bandwidth(const WeftSlot *slot, guint hca, const Shape *shape)
{
    return !shape->lane || weft_slot_lane_room(slot, hca, shape->lane) >= shape->bandwidth;
}

static gboolean
pick_rail(const WeftSlot *slot, const Shape *shape, guint rail, int numa, WeftNode *node)
{
    for (guint i = 0; i < slot->host->hcas->len; i++) {
        const WeftHca *hca = slot->host->hcas->pdata[i];
        if (hca->rail != rail || (numa != ANY_NUMA && hca->numa != (guint)numa))
            continue;
        int vf = pick_function(slot, i, shape->path);
        if (vf == -2 || !weft_slot_takes_key(slot, i, shape->cluster) || !has_bandwidth(slot, i, shape))
            continue;
        g_ptr_array_add(node->devices, weft_device_new(rail, hca->name, vf));
        return TRUE;
    }
    return FALSE;
}

static gboolean
pick_devices(const WeftSlot *slot, const Shape *shape, int numa, WeftNode *node)
{
    guint rails = shape->path == WEFT_PATH_BRIDGE ? 0 : shape->group->rails;
    for (guint rail = 0; rail < rails; rail++)
        if (!pick_rail(slot, shape, rail, numa, node))
            return FALSE;
    return TRUE;
}

static gboolean
pick_gpus(const WeftSlot *slot, guint count, int numa, WeftNode *node)
{
    for (guint i = 0; i < slot->host->gpus->len && count; i++) {
        const WeftGpu *gpu = slot->host->gpus->pdata[i];
        if (!weft_slot_gpu_is_free(slot, i) || (numa != ANY_NUMA && gpu->numa != (guint)numa))
            continue;
        g_ptr_array_add(node->gpus, g_strdup(gpu->name));
        count--;
    }
    return count == 0;
}

static WeftNode *
node_skeleton(const WeftSlot *slot, const Shape *shape)
{
    WeftNode *node = weft_node_new();
    node->group = g_strdup(shape->group->name);
    node->host = g_strdup(slot->host->name);
    node->image = g_strdup(shape->group->image);
    node->path = shape->path;
    node->sl = shape->lane ? shape->lane->sl : 0;
    node->bandwidth = shape->lane ? shape->bandwidth : 0;
    return node;
}

/* Cores and memory of one NUMA node; its devices too, or of any. */
static WeftNode *
try_numa(const WeftSlot *slot, const Shape *shape, guint numa, int devices_numa)
{
    if (free_cores_of(slot, numa) < shape->group->cores)
        return NULL;
    g_autoptr(WeftNode) node = node_skeleton(slot, shape);
    pick_cores(slot, numa, shape->group->cores, node);
    if (!pick_memory(slot, numa, shape->group, shape->group->memory, node) || !pick_devices(slot, shape, devices_numa, node) ||
        !pick_gpus(slot, shape->group->gpus, devices_numa, node))
        return NULL;
    return g_steal_pointer(&node);
}

/* The fullest NUMA node that takes it, so that empty ones stay empty. */
static WeftNode *
try_best_numa(const WeftSlot *slot, const Shape *shape, gboolean local_devices)
{
    WeftNode *best = NULL;
    guint best_free = G_MAXUINT;
    for (guint numa = 0; numa < slot->host->numa->len; numa++) {
        guint free = free_cores_of(slot, numa);
        if (free >= best_free)
            continue;
        WeftNode *node = try_numa(slot, shape, numa, local_devices ? (int)numa : ANY_NUMA);
        if (!node)
            continue;
        weft_node_free(best);
        best = node;
        best_free = free;
    }
    return best;
}

/* The next NUMA node to spread over: the one with most free cores that is not yet used. */
static int
next_numa(const WeftSlot *slot, guint64 used)
{
    int best = -1;
    guint best_free = 0;
    for (guint numa = 0; numa < slot->host->numa->len; numa++) {
        guint free = used >> numa & 1 ? 0 : free_cores_of(slot, numa);
        if (free > best_free) {
            best = (int)numa;
            best_free = free;
        }
    }
    return best;
}

/* Over the fewest NUMA nodes, memory split as the cores are, in whole pages of 2 MiB. */
static WeftNode *
try_spread(const WeftSlot *slot, const Shape *shape)
{
    g_autoptr(WeftNode) node = node_skeleton(slot, shape);
    const guint64 unit = MAX(shape->group->page_size, 2ULL << 20);
    guint cores = shape->group->cores;
    guint64 memory = shape->group->memory, used = 0;
    while (cores) {
        int numa = next_numa(slot, used);
        if (numa < 0)
            return NULL;
        used |= 1ULL << numa;
        guint share = MIN(cores, free_cores_of(slot, (guint)numa));
        guint64 bytes = share == cores ? memory : memory / cores * share / unit * unit;
        pick_cores(slot, (guint)numa, share, node);
        if (bytes && !pick_memory(slot, (guint)numa, shape->group, bytes, node))
            return NULL;
        cores -= share;
        memory -= bytes;
    }
    if (!pick_devices(slot, shape, ANY_NUMA, node) || !pick_gpus(slot, shape->group->gpus, ANY_NUMA, node))
        return NULL;
    return g_steal_pointer(&node);
}

static WeftNode *
place_on(const WeftSlot *slot, const Shape *shape)
{
    WeftNode *node = try_best_numa(slot, shape, TRUE);
    if (!node)
        node = try_best_numa(slot, shape, FALSE);
    return node ? node : try_spread(slot, shape);
}

/* --- across hosts --- */

/* At most how many nodes fit, counting each resource by itself: quick, and never too low. */
typedef struct Fits {
    guint cores, memory, vfs, pkeys, lanes, gpus;
} Fits;

static guint64
free_bytes(const WeftSlot *slot, guint64 page_size)
{
    if (!page_size)
        return slot->free_bytes;
    guint64 bytes = 0;
    for (guint n = 0; n < slot->host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(slot->host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            if (numa->pages[i].size == page_size)
                bytes += weft_free_bytes(&numa->pages[i], slot->pages[n][i]);
    }
    return bytes;
}

static guint
free_functions_of(const WeftSlot *slot, guint hca)
{
    guint n = 0;
    for (guint vf = 0; vf < ((const WeftHca *)slot->host->hcas->pdata[hca])->vfs; vf++)
        n += weft_slot_vf_is_free(slot, hca, vf);
    return n;
}

static guint
free_functions(const WeftSlot *slot, WeftPath path)
{
    if (path != WEFT_PATH_PASSTHROUGH && !slot->told->no_virtual)
        return slot->free_vfs;
    guint n = 0;
    for (guint i = 0; i < slot->host->hcas->len; i++) {
        if (path == WEFT_PATH_PASSTHROUGH)
            n += weft_slot_hca_is_free(slot, i);
        else if (hca_gives_functions(slot, i))
            n += free_functions_of(slot, i);
    }
    return n;
}

/* A port that takes the cluster's P_Key takes any number of its nodes. */
static gboolean
rail_takes_key(const WeftSlot *slot, const Shape *shape, guint rail)
{
    for (guint i = 0; i < slot->host->hcas->len; i++)
        if (((const WeftHca *)slot->host->hcas->pdata[i])->rail == rail && weft_slot_takes_key(slot, i, shape->cluster))
            return TRUE;
    return FALSE;
}

static gboolean
takes_keys(const WeftSlot *slot, const Shape *shape)
{
    for (guint rail = slot->roomy; rail < shape->group->rails; rail++)
        if (!rail_takes_key(slot, shape, rail))
            return FALSE;
    return TRUE;
}

static Fits
fits(const WeftSlot *slot, const Shape *shape)
{
    const WeftGroup *group = shape->group;
    gboolean bare = shape->path == WEFT_PATH_BRIDGE || group->rails == 0;
    guint gpus_free = group->gpus ? slot->host->gpus->len - (guint)__builtin_popcount(slot->gpus | slot->absent_gpus) : 0;
    return (Fits){
        .cores = slot->free_cores / group->cores,
        .memory = (guint)MIN(free_bytes(slot, group->page_size) / group->memory, G_MAXUINT),
        .vfs = bare ? G_MAXUINT : free_functions(slot, shape->path) / group->rails,
        .pkeys = bare || takes_keys(slot, shape) ? G_MAXUINT : 0,
        .lanes = shape->lane ? weft_slot_guarantees(slot, shape->lane, shape->bandwidth, group->rails) : G_MAXUINT,
        .gpus = group->gpus ? gpus_free / group->gpus : G_MAXUINT,
    };
}

static guint
fit(const WeftSlot *slot, const Shape *shape)
{
    if (slot->free_cores < shape->group->cores)
        return 0;
    Fits f = fits(slot, shape);
    return MIN(MIN(MIN(f.cores, f.memory), MIN(f.vfs, f.gpus)), MIN(f.pkeys, f.lanes));
}

static gboolean
labels_match(const WeftCluster *cluster, const WeftHost *host)
{
    GHashTableIter iter;
    gpointer name, value;
    g_hash_table_iter_init(&iter, cluster->labels);
    while (g_hash_table_iter_next(&iter, &name, &value))
        if (g_strcmp0(g_hash_table_lookup(host->labels, name), value) != 0)
            return FALSE;
    return TRUE;
}

static gboolean
is_avoided(const WeftSlot *slot, GHashTable *avoid)
{
    return avoid && g_hash_table_size(avoid) > 0 && g_hash_table_contains(avoid, slot->host->name);
}

/* Asked of every host for each cluster: what is wanted by nobody must cost nothing. */
static gboolean
is_eligible(const WeftSlot *slot, const WeftPlaceRequest *request, guint fabric)
{
    return slot->open && slot->fabric == fabric && !slot->told->closed && !is_avoided(slot, request->avoid) &&
           (g_hash_table_size(request->cluster->labels) == 0 || labels_match(request->cluster, slot->host));
}

static WeftSlot *
trial_slot(const Trial *trial, WeftSlot *slot)
{
    WeftSlot *copy = g_hash_table_size(trial->copies) ? g_hash_table_lookup(trial->copies, slot) : NULL;
    return copy ? copy : slot;
}

static Leaf *
last_leaf(const Trial *trial)
{
    return trial->leaves->len ? &g_array_index(trial->leaves, Leaf, trial->leaves->len - 1) : NULL;
}

static void
add_candidate(Trial *trial, WeftSlot *slot, guint n)
{
    Leaf *leaf = last_leaf(trial);
    if (!leaf || leaf->number != slot->leaf) {
        g_array_append_val(trial->leaves, ((Leaf){ .number = slot->leaf, .first = trial->candidates->len }));
        leaf = last_leaf(trial);
    }
    leaf->n++;
    leaf->fit += n;
    leaf->used |= slot != trial_slot(trial, slot);
    g_array_append_val(trial->candidates, ((Candidate){ slot, n }));
}

static void
find_candidates(Trial *trial, const WeftFleet *fleet, const Shape *shape)
{
    g_array_set_size(trial->candidates, 0);
    g_array_set_size(trial->leaves, 0);
    for (guint i = 0; i < fleet->slots->len; i++) {
        WeftSlot *slot = fleet->slots->pdata[i];
        /* They lie scattered in memory: most of the time would be spent waiting for the next. */
        __builtin_prefetch(fleet->slots->pdata[MIN(i + 8, fleet->slots->len - 1)]);
        guint n = is_eligible(slot, trial->request, trial->fabric) ? fit(trial_slot(trial, slot), shape) : 0;
        if (n)
            add_candidate(trial, slot, n);
    }
}

/* Smaller is better: what is in use already, then what fits tightly, then what is largest. */
static gboolean
is_better(guint64 a, gboolean a_used, guint64 b, gboolean b_used, guint remaining)
{
    if (a_used != b_used)
        return a_used;
    gboolean a_holds = a >= remaining, b_holds = b >= remaining;
    if (a_holds != b_holds)
        return a_holds;
    return a_holds ? a < b : a > b;
}

static Leaf *
best_leaf(const Trial *trial, guint remaining)
{
    Leaf *best = NULL;
    for (guint i = 0; i < trial->leaves->len; i++) {
        Leaf *leaf = &g_array_index(trial->leaves, Leaf, i);
        if (leaf->fit && (!best || is_better(leaf->fit, leaf->used, best->fit, best->used, remaining)))
            best = leaf;
    }
    return best;
}

static Candidate *
best_host(const Trial *trial, const Leaf *leaf, guint remaining)
{
    Candidate *best = NULL;
    for (guint i = leaf->first; i < leaf->first + leaf->n; i++) {
        Candidate *candidate = &g_array_index(trial->candidates, Candidate, i);
        if (candidate->fit && (!best || is_better(candidate->fit, FALSE, best->fit, FALSE, remaining)))
            best = candidate;
    }
    return best;
}

static WeftSlot *
own_copy(Trial *trial, WeftSlot *slot)
{
    WeftSlot *copy = g_hash_table_lookup(trial->copies, slot);
    if (!copy) {
        copy = g_memdup2(slot, sizeof *slot);
        g_hash_table_insert(trial->copies, slot, copy);
    }
    return copy;
}

/* Places up to count nodes on the host; returns how many it took. */
static guint
fill_host(Trial *trial, const Candidate *candidate, const Shape *shape, guint count)
{
    WeftSlot *slot = own_copy(trial, candidate->slot);
    guint placed = 0;
    while (placed < MIN(count, candidate->fit)) {
        WeftNode *node = place_on(slot, shape);
        if (!node)
            break;
        weft_slot_take(slot, node);
        g_ptr_array_add(trial->nodes, node);
        placed++;
    }
    return placed;
}

/* Returns how many nodes found no place. */
static guint
place_group(Trial *trial, const WeftFleet *fleet, const Shape *shape, guint count)
{
    if (count == 0)
        return 0;
    find_candidates(trial, fleet, shape);
    Leaf *leaf;
    while (count && (leaf = best_leaf(trial, count))) {
        Candidate *candidate = best_host(trial, leaf, count);
        guint placed = fill_host(trial, candidate, shape, count);
        count -= placed;
        leaf->used |= placed > 0;
        leaf->fit -= candidate->fit;
        candidate->fit = 0; /* either it is full, or the request is done */
    }
    return count;
}

/* auto is a VF where the fabric's hosts have any that can be given, else the bridge; and the bridge where the quotas counted on
 * that. */
static WeftPath
resolve_path(const WeftFleet *fleet, guint fabric, const WeftCluster *cluster, const WeftGroup *group)
{
    if (group->path != WEFT_PATH_AUTO)
        return group->path;
    for (guint i = 0; group->rails && !cluster->bridged && i < fleet->slots->len; i++) {
        const WeftSlot *slot = fleet->slots->pdata[i];
        for (guint h = 0; slot->fabric == fabric && h < slot->host->hcas->len; h++)
            if (hca_gives_functions(slot, h))
                return WEFT_PATH_SRIOV;
    }
    return WEFT_PATH_BRIDGE;
}

/* --- refusals --- */

enum { CORES, MEMORY, FUNCTIONS, PKEYS, BANDWIDTH, GPUS, RESOURCES };

/* What a fabric's hosts have for a shape. */
typedef struct Room {
    guint hosts;
    guint64 fit[RESOURCES];
    gboolean incomplete; /* a host lacks devices that are described */
} Room;

static Room
find_room(const WeftFleet *fleet, const Trial *trial, const Shape *shape)
{
    Room room = { 0 };
    for (guint i = 0; i < fleet->slots->len; i++) {
        const WeftSlot *slot = fleet->slots->pdata[i];
        if (!is_eligible(slot, trial->request, trial->fabric))
            continue;
        Fits f = fits(slot, shape);
        const guint more[RESOURCES] = { f.cores, f.memory, f.vfs, f.pkeys, f.lanes, f.gpus };
        for (guint r = 0; r < RESOURCES; r++)
            room.fit[r] += more[r];
        room.incomplete |= !weft_slot_is_complete(slot);
        room.hosts++;
    }
    return room;
}

static guint
scarcest(const Room *room)
{
    guint least = 0;
    for (guint i = 1; i < RESOURCES; i++)
        if (room->fit[i] < room->fit[least])
            least = i;
    return least;
}

static const char *
plural(guint n)
{
    return n == 1 ? "" : "s";
}

/* Tells what is scarce, not how much of it others have: a tenant reads this. */
static void
explain(const WeftFleet *fleet, const Trial *trial, const Shape *shape, guint count, GError **error)
{
    const WeftFleetFabric *told = trial->told;
    const char *const words[RESOURCES] = { [CORES] = "cores",
                                           [MEMORY] = "memory in pages of the right size",
                                           [FUNCTIONS] =
                                               shape->path == WEFT_PATH_PASSTHROUGH ? "whole HCAs" : "virtual functions",
                                           [PKEYS] = "places for P_Keys in the hosts' ports",
                                           [BANDWIDTH] = "bandwidth that is not guaranteed yet",
                                           [GPUS] = "GPUs" };
    Room room = find_room(fleet, trial, shape);
    guint least = scarcest(&room);
    gboolean absent = room.incomplete && (least == FUNCTIONS || least == GPUS);
    g_autofree char *memory = weft_size_format(shape->group->memory);
    if (told->closed)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED, "fabric %s takes no nodes now: %s", trial->fabric_name,
                    told->closed);
    else if (room.hosts > 0 && shape->path == WEFT_PATH_SRIOV && told->no_virtual && room.fit[FUNCTIONS] == 0)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED, "fabric %s has no virtual functions to give: %s",
                    trial->fabric_name, told->no_virtual);
    else if (room.hosts == 0)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED,
                    "no host can take nodes now: none is up, open and has the wished labels on fabric %s", trial->fabric_name);
    else
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED,
                    "no room now for %u node%s of %u core%s, %s, %u GPU%s, path %s; scarcest: %s%s", count, plural(count),
                    shape->group->cores, plural(shape->group->cores), memory, shape->group->gpus, plural(shape->group->gpus),
                    weft_path_words[shape->path], words[least],
                    absent ? ", of which some are described that the hosts do not have (weft doctor tells which)" : "");
}

/* --- the whole request --- */

/* lane NULL: best effort. */
static GPtrArray *
place_in_lane(const WeftFleet *fleet, const WeftPlaceRequest *request, const WeftSlot *first, const WeftLane *lane,
              GError **error)
{
    g_autoptr(GArray) candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
    g_autoptr(GArray) leaves = g_array_new(FALSE, FALSE, sizeof(Leaf));
    g_autoptr(GHashTable) copies = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    Trial trial = { request, first->fabric, first->host->fabric, first->told, candidates, leaves, copies, nodes };

    for (guint g = 0; g < request->cluster->groups->len; g++) {
        const WeftGroup *group = request->cluster->groups->pdata[g];
        Shape shape = { .group = group,
                        .path = resolve_path(fleet, first->fabric, request->cluster, group),
                        .cluster = request->cluster->id,
                        .lane = lane,
                        .bandwidth = request->cluster->bandwidth };
        if (lane && shape.path == WEFT_PATH_BRIDGE) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED,
                        "bandwidth is guaranteed on fabric devices only, and fabric %s has none to give", first->host->fabric);
            return NULL;
        }
        if (place_group(&trial, fleet, &shape, request->counts[g])) {
            explain(fleet, &trial, &shape, request->counts[g], error);
            return NULL;
        }
    }
    return g_steal_pointer(&nodes);
}

static GPtrArray *
place_in_fabric(const WeftFleet *fleet, const WeftPlaceRequest *request, const WeftSlot *first, GError **error)
{
    if (!request->cluster->bandwidth)
        return place_in_lane(fleet, request, first, NULL, error);
    const WeftLane *lanes[WEFT_LANES_MAX];
    guint n = weft_fleet_lanes(fleet, first, request, lanes, error);
    GPtrArray *nodes = NULL;
    for (guint i = 0; i < n && !nodes; i++) {
        g_clear_error(error);
        nodes = place_in_lane(fleet, request, first, lanes[i], error);
    }
    return nodes;
}

/* In the first fabric that has room; the reason is that of the last one tried. */
GPtrArray *
weft_schedule(WeftFleet *fleet, const WeftPlaceRequest *request, GError **error)
{
    const char *only = request->fabric ? request->fabric : request->cluster->fabric;
    guint tried = G_MAXUINT; /* no fabric's number */
    for (guint i = 0; i < fleet->slots->len; i++) {
        const WeftSlot *slot = fleet->slots->pdata[i];
        if (slot->fabric == tried || (only && strcmp(only, slot->host->fabric) != 0))
            continue;
        tried = slot->fabric;
        g_clear_error(error);
        GPtrArray *nodes = place_in_fabric(fleet, request, slot, error);
        if (nodes)
            return nodes;
    }
    if (tried == G_MAXUINT)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED, "there is no host%s%s yet; add one with: weft host add",
                    only ? " on fabric " : "", only ? only : "");
    return NULL;
}
