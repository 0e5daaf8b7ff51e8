/* Why there is no place. Tells what is scarce, not how much of it others have: a tenant reads this. */
#include "codec.h"
#include "errors.h"
#include "size.h"
#include "text.h"
#include "trial.h"

#include <string.h>

/* What a fabric's hosts have for a shape. */
typedef struct Room {
    guint labelled;                 /* hosts with the labels */
    guint hosts;                    /* … that are open */
    guint64 fit[WEFT_SCARCE_KINDS]; /* each resource by itself */
    guint64 together;               /* nodes that fit */
    gboolean incomplete;            /* a host lacks devices that are described */
    gboolean virtual;               /* a host has functions that are ports of their own */
} Room;

static const char *const scarce_words[WEFT_SCARCE_KINDS] = {
    [WEFT_SCARCE_CORES] = "cores",
    [WEFT_SCARCE_MEMORY] = "memory in pages of the right size",
    [WEFT_SCARCE_FUNCTIONS] = "virtual functions",
    [WEFT_SCARCE_PKEYS] = "places for P_Keys in the hosts' ports",
    [WEFT_SCARCE_BANDWIDTH] = "bandwidth that is not guaranteed yet",
    [WEFT_SCARCE_GPUS] = "GPUs",
    [WEFT_SCARCE_LOCALITY] = "cores, memory and devices of one host",
    [WEFT_SCARCE_HOSTS] = "hosts without nodes of others",
};

static const char *
scarce_word(const WeftShape *shape, WeftScarce scarce)
{
    if (scarce == WEFT_SCARCE_FUNCTIONS && shape->path == WEFT_PATH_PASSTHROUGH)
        return "whole HCAs";
    if (scarce == WEFT_SCARCE_LOCALITY && shape->locality == WEFT_LOCALITY_REQUIRED)
        return "cores, memory and devices of one NUMA node";
    return scarce_words[scarce];
}

/* --- what there is --- */

static gboolean
is_labelled(const WeftTrial *trial, const WeftSlot *slot)
{
    return weft_labels_match(trial->request->cluster->labels, weft_slot_host(slot)->labels);
}

static gboolean
has_virtual_ports(const WeftHost *host)
{
    for (guint i = 0; i < host->hcas->len; i++) {
        const WeftHca *hca = host->hcas->pdata[i];
        if (hca->driver == WEFT_HCA_MLX5 && hca->vfs > 0)
            return TRUE;
    }
    return FALSE;
}

static void
add_host(Room *room, const WeftSlot *slot, const guint *more)
{
    static const gboolean yes_or_no[WEFT_SCARCE_KINDS] = { [WEFT_SCARCE_PKEYS] = TRUE, [WEFT_SCARCE_HOSTS] = TRUE };
    for (guint r = 0; r < WEFT_SCARCE_KINDS; r++) /* a place that is there counts as far as there are cores beside it */
        room->fit[r] += yes_or_no[r] ? MIN(more[r], more[WEFT_SCARCE_CORES]) : more[r];
    room->together += more[WEFT_SCARCE_HOSTS] ? more[WEFT_SCARCE_LOCALITY] : 0;
    room->incomplete |= !weft_slot_is_complete(slot);
    room->virtual |= has_virtual_ports(weft_slot_host(slot));
    room->hosts++;
}

/* empty: were nothing taken on its hosts, and all of them open. */
static Room
find_room(const WeftTrial *trial, const WeftShape *shape, gboolean empty)
{
    Room room = { 0 };
    for (guint i = 0; i < trial->realm->n; i++) {
        const WeftSlot *slot = weft_fleet_slot(trial->fleet, trial->realm->numbers[i]);
        guint more[WEFT_SCARCE_KINDS];
        if (!is_labelled(trial, slot))
            continue;
        room.labelled++;
        if (empty)
            weft_slot_room_empty(slot, shape, more);
        else if (weft_slot_is_open(slot))
            weft_slot_room(slot, shape, more);
        else
            continue;
        add_host(&room, slot, more);
    }
    return room;
}

/* The first of the least; where each by itself would do, it is that they are not together. */
static WeftScarce
scarcest(const Room *room, guint count)
{
    WeftScarce least = WEFT_SCARCE_CORES;
    for (WeftScarce i = least + 1; i < WEFT_SCARCE_KINDS; i++)
        if (i != WEFT_SCARCE_LOCALITY && room->fit[i] < room->fit[least])
            least = i;
    return room->fit[least] < count || room->together >= count ? least : WEFT_SCARCE_LOCALITY;
}

/* In pages of all sizes. */
static guint64
memory_of(const WeftHost *host)
{
    guint64 memory = 0;
    for (guint n = 0; n < host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            memory += numa->pages[i].size * numa->pages[i].count;
    }
    return memory;
}

/* Of what all groups together ask for more than all hosts have; WEFT_SCARCE_KINDS: of nothing that is that easily counted. */
static WeftScarce
lacks_in_all(const WeftTrial *trial)
{
    guint64 has[WEFT_SCARCE_KINDS] = { 0 }, asked[WEFT_SCARCE_KINDS] = { 0 };
    for (guint i = 0; i < trial->realm->n; i++) {
        const WeftSlot *slot = weft_fleet_slot(trial->fleet, trial->realm->numbers[i]);
        if (!is_labelled(trial, slot))
            continue;
        has[WEFT_SCARCE_CORES] += weft_slot_cores(slot);
        has[WEFT_SCARCE_MEMORY] += memory_of(weft_slot_host(slot));
        has[WEFT_SCARCE_GPUS] += weft_slot_host(slot)->gpus->len;
    }
    for (guint i = 0; i < trial->n; i++) {
        const WeftTrialGroup *group = &trial->groups[i];
        asked[WEFT_SCARCE_CORES] += (guint64)group->count * group->shape.cores;
        asked[WEFT_SCARCE_MEMORY] += group->count * group->shape.memory;
        asked[WEFT_SCARCE_GPUS] += (guint64)group->count * group->shape.gpus;
    }
    WeftScarce lack = WEFT_SCARCE_CORES;
    while (lack < WEFT_SCARCE_KINDS && asked[lack] <= has[lack])
        lack++;
    return lack;
}

/* --- words --- */

static char *
describe(const WeftTrialGroup *group)
{
    g_autofree char *nodes = weft_text_count(group->count, "node"), *cores = weft_text_count(group->shape.cores, "core");
    g_autofree char *memory = weft_size_format(group->shape.memory), *gpus = weft_text_count(group->shape.gpus, "GPU");
    return g_strdup_printf("%s of %s, %s, %s, path %s", nodes, cores, memory, gpus, weft_path_words[group->shape.path]);
}

/* A group, and what there is for it: were all hosts empty, if not even that is enough. */
typedef struct Lack {
    const WeftTrialGroup *group;
    gboolean never;
    Room room;
} Lack;

static void
refuse_group(const WeftTrial *trial, const Lack *lack, GError **error)
{
    const WeftFleetFabric *told = trial->realm->told;
    const char *fabric = trial->realm->fabric;
    const Room *room = &lack->room;
    const WeftShape *shape = &lack->group->shape;
    g_autofree char *what = describe(lack->group);
    WeftScarce least = scarcest(room, lack->group->count);
    gboolean absent = room->incomplete && (least == WEFT_SCARCE_FUNCTIONS || least == WEFT_SCARCE_GPUS);
    if (room->labelled == 0)
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "no host of fabric %s has the wished labels", fabric);
    else if (room->hosts == 0)
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                          "no host can take nodes now: none is up, open and has the wished labels on fabric %s", fabric);
    else if (shape->rails > 0 && told->no_devices)
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "fabric %s has no devices to give: %s", fabric, told->no_devices);
    else if (shape->path == WEFT_PATH_SRIOV && told->no_virtual && room->virtual && room->fit[WEFT_SCARCE_FUNCTIONS] == 0)
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "fabric %s has no virtual functions to give: %s", fabric,
                          told->no_virtual);
    else
        weft_error_refuse(
            error, WEFT_ERROR_EXHAUSTED, "no room %sfor %s%s%s; scarcest: %s%s", lack->never ? "" : "now ", what,
            room->together >= lack->group->count ? " beside the other groups" : "",
            lack->never ? ", not even if all hosts were empty" : "", scarce_word(shape, least),
            absent ? ", of which some are described that the hosts do not have or cannot give (weft doctor tells which)" : "");
}

static Lack
find_lack(const WeftTrial *trial, const WeftTrialGroup *group)
{
    Lack lack = { .group = group, .room = find_room(trial, &group->shape, TRUE) };
    lack.never = lack.room.together < group->count;
    if (!lack.never)
        lack.room = find_room(trial, &group->shape, FALSE);
    return lack;
}

static gboolean
is_worse(const Lack *a, const Lack *b)
{
    if (a->never != b->never)
        return a->never;
    return (double)a->room.together / a->group->count < (double)b->room.together / b->group->count;
}

/* Tells of the group that lacks most. Returns whether all would fit were nothing taken. */
static gboolean
refuse_groups(const WeftTrial *trial, GError **error)
{
    Lack worst = find_lack(trial, &trial->groups[0]);
    for (guint i = 1; i < trial->n; i++) {
        Lack lack = find_lack(trial, &trial->groups[i]);
        if (is_worse(&lack, &worst))
            worst = lack;
    }
    WeftScarce in_all = worst.never ? WEFT_SCARCE_KINDS : lacks_in_all(trial);
    if (in_all == WEFT_SCARCE_KINDS)
        refuse_group(trial, &worst, error);
    else
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                          "no room for all groups together, not even if all hosts were empty; scarcest: %s",
                          scarce_words[in_all]);
    return !worst.never && in_all == WEFT_SCARCE_KINDS;
}

/* --- where it was looked for --- */

/* Of several reasons, one that leaves hope. */
typedef struct Reason {
    gboolean possible;
    GError *error;
} Reason;

/* Takes the error over. */
static void
add_reason(Reason *reason, gboolean possible, GError *error)
{
    if (reason->possible && !possible) {
        g_error_free(error);
        return;
    }
    g_clear_error(&reason->error);
    *reason = (Reason){ possible, error };
}

static void
refuse_in_lane(WeftTrial *trial, Reason *reason)
{
    GError *error = NULL;
    if (!weft_trial_begin(trial, FALSE)) {
        weft_error_refuse(&error, WEFT_ERROR_EXHAUSTED,
                          "bandwidth is guaranteed on fabric devices only, and fabric %s has none to give",
                          trial->realm->fabric);
        add_reason(reason, TRUE, error);
        return;
    }
    gboolean possible = refuse_groups(trial, &error);
    add_reason(reason, possible, error);
    if (possible || !weft_place_may_bridge(trial->request))
        return;
    error = NULL;
    weft_trial_begin(trial, TRUE);
    possible = refuse_groups(trial, &error);
    add_reason(reason, possible, error);
}

static void
refuse_in_realm(WeftFleet *fleet, WeftRealm *realm, const WeftPlaceRequest *request, Reason *reason)
{
    WeftTrial trial = { .fleet = fleet, .realm = realm, .board = fleet->board, .request = request };
    const WeftLane *lanes[WEFT_LANES_MAX] = { NULL };
    GError *error = NULL;
    guint64 bandwidth = request->cluster->bandwidth;
    guint n = bandwidth ? weft_fleet_lanes(fleet, realm, bandwidth, request->sl, lanes, &error) : 1;
    if (n == 0) {
        add_reason(reason, realm->told->qos.n > 0, error);
        return;
    }
    if (realm->told->closed) {
        weft_error_refuse(&error, WEFT_ERROR_EXHAUSTED, "fabric %s takes no nodes now: %s", realm->fabric, realm->told->closed);
        add_reason(reason, TRUE, error);
        return;
    }
    for (guint i = 0; i < n; i++) {
        trial.lane = lanes[i];
        refuse_in_lane(&trial, reason);
    }
}

static void
refuse_anywhere(WeftFleet *fleet, const WeftPlaceRequest *request, Reason *reason)
{
    const char *only = request->fabric ? request->fabric : request->cluster->fabric;
    for (guint i = 0; i < fleet->realms->len; i++) {
        WeftRealm *realm = fleet->realms->pdata[i];
        if (!only || strcmp(only, realm->fabric) == 0)
            refuse_in_realm(fleet, realm, request, reason);
    }
    if (reason->error)
        return;
    reason->possible = TRUE;
    weft_error_refuse(&reason->error, WEFT_ERROR_EXHAUSTED, "there is no host%s%s yet; add one with: weft host add",
                      only ? " on fabric " : "", only ? only : "");
}

gboolean
weft_place_explain_refusal(WeftFleet *fleet, const WeftPlaceRequest *request, GError **error)
{
    Reason reason = { 0 };
    weft_fleet_sort(fleet);
    guint mark = weft_place_close_avoided(fleet, request->avoid);
    refuse_anywhere(fleet, request, &reason);
    weft_fleet_rollback(fleet, mark);
    g_propagate_error(error, reason.error);
    return reason.possible;
}
