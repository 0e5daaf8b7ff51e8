/* Why there is no place. Tells what is scarce, not how much of it others have: a tenant reads this. */
#include "errors.h"
#include "size.h"
#include "trial.h"

#include <string.h>

/* What a fabric's hosts have for a shape. */
typedef struct Room {
    guint labelled;                 /* hosts with the labels */
    guint hosts;                    /* … that are open */
    guint64 fit[WEFT_SCARCE_KINDS]; /* each resource by itself */
    guint64 together;               /* nodes that fit */
    guint64 empty;                  /* … were all of them empty and open */
    gboolean incomplete;            /* a host lacks devices that are described */
} Room;

static const char *const scarce_words[WEFT_SCARCE_KINDS] = {
    [WEFT_SCARCE_CORES] = "cores",
    [WEFT_SCARCE_MEMORY] = "memory in pages of the right size",
    [WEFT_SCARCE_FUNCTIONS] = "virtual functions",
    [WEFT_SCARCE_PKEYS] = "places for P_Keys in the hosts' ports",
    [WEFT_SCARCE_BANDWIDTH] = "bandwidth that is not guaranteed yet",
    [WEFT_SCARCE_GPUS] = "GPUs",
    [WEFT_SCARCE_LOCALITY] = "cores, memory and devices of one NUMA node",
    [WEFT_SCARCE_HOSTS] = "hosts without nodes of others",
};

static gboolean
labels_match(GHashTable *wanted, const WeftHost *host)
{
    GHashTableIter iter;
    gpointer name, value;
    g_hash_table_iter_init(&iter, wanted);
    while (g_hash_table_iter_next(&iter, &name, &value))
        if (g_strcmp0(g_hash_table_lookup(host->labels, name), value) != 0)
            return FALSE;
    return TRUE;
}

static Room
find_room(const WeftTrial *trial, const WeftShape *shape)
{
    Room room = { 0 };
    for (guint i = 0; i < trial->realm->n; i++) {
        const WeftSlot *slot = weft_fleet_slot(trial->fleet, trial->realm->numbers[i]);
        guint more[WEFT_SCARCE_KINDS];
        if (!labels_match(trial->request->cluster->labels, weft_slot_host(slot)))
            continue;
        room.labelled++;
        room.empty += weft_slot_fit_empty(slot, shape);
        if (!weft_slot_is_open(slot))
            continue;
        weft_slot_room(slot, shape, more);
        for (guint r = 0; r < WEFT_SCARCE_KINDS; r++)
            room.fit[r] += more[r];
        room.together += weft_slot_fit(slot, shape);
        room.incomplete |= !weft_slot_is_complete(slot);
        room.hosts++;
    }
    return room;
}

/* The first of the least. */
static WeftScarce
scarcest(const Room *room)
{
    WeftScarce least = WEFT_SCARCE_CORES;
    for (WeftScarce i = least + 1; i < WEFT_SCARCE_KINDS; i++)
        if (room->fit[i] < room->fit[least])
            least = i;
    return least;
}

static const char *
plural(guint n)
{
    return n == 1 ? "" : "s";
}

static char *
describe(const WeftTrialGroup *group)
{
    g_autofree char *memory = weft_size_format(group->shape.memory);
    return g_strdup_printf("%u node%s of %u core%s, %s, %u GPU%s, path %s", group->count, plural(group->count),
                           group->shape.cores, plural(group->shape.cores), memory, group->shape.gpus, plural(group->shape.gpus),
                           weft_path_words[group->shape.path]);
}

static const char *
scarce_word(const WeftShape *shape, WeftScarce scarce)
{
    return scarce == WEFT_SCARCE_FUNCTIONS && shape->path == WEFT_PATH_PASSTHROUGH ? "whole HCAs" : scarce_words[scarce];
}

static void
refuse_group(const WeftTrial *trial, const WeftTrialGroup *group, const Room *room, GError **error)
{
    const WeftFleetFabric *told = trial->realm->told;
    const char *fabric = trial->realm->fabric;
    g_autofree char *what = describe(group);
    WeftScarce least = scarcest(room);
    gboolean never = room->empty < group->count;
    gboolean absent = room->incomplete && (least == WEFT_SCARCE_FUNCTIONS || least == WEFT_SCARCE_GPUS);
    if (room->labelled == 0)
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "no host of fabric %s has the wished labels", fabric);
    else if (room->hosts == 0)
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                          "no host can take nodes now: none is up, open and has the wished labels on fabric %s", fabric);
    else if (group->shape.path == WEFT_PATH_SRIOV && told->no_virtual && room->fit[WEFT_SCARCE_FUNCTIONS] == 0)
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "fabric %s has no virtual functions to give: %s", fabric,
                          told->no_virtual);
    else
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "no room %sfor %s%s; scarcest: %s%s", never ? "" : "now ", what,
                          never ? ", not even if all hosts were empty" : "", scarce_word(&group->shape, least),
                          absent ? ", of which some are described that the hosts do not have (weft doctor tells which)" : "");
}

/* Tells of the group that lacks most. Returns whether all would fit were nothing taken. */
static gboolean
refuse_groups(const WeftTrial *trial, GError **error)
{
    gboolean possible = TRUE;
    guint worst = 0;
    double least = G_MAXDOUBLE;
    Room rooms[WEFT_GROUPS_MAX];
    for (guint i = 0; i < trial->n; i++) {
        const WeftTrialGroup *group = &trial->groups[i];
        rooms[i] = find_room(trial, &group->shape);
        possible &= rooms[i].empty >= group->count;
        double part = (double)rooms[i].together / group->count;
        if (part < least) {
            least = part;
            worst = i;
        }
    }
    if (trial->n)
        refuse_group(trial, &trial->groups[worst], &rooms[worst], error);
    return possible;
}

static gboolean
refuse_in_lane(WeftTrial *trial, GError **error)
{
    if (weft_trial_begin(trial, FALSE))
        return refuse_groups(trial, error);
    weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                      "bandwidth is guaranteed on fabric devices only, and fabric %s has none to give", trial->realm->fabric);
    return TRUE;
}

/* With a guarantee the reason is that of the last lane that was tried. */
static gboolean
refuse_in_realm(WeftFleet *fleet, WeftRealm *realm, const WeftPlaceRequest *request, GError **error)
{
    WeftTrial trial = { .fleet = fleet, .realm = realm, .board = fleet->board, .request = request };
    const WeftLane *lanes[WEFT_LANES_MAX];
    guint64 bandwidth = request->cluster->bandwidth;
    guint n = bandwidth ? weft_fleet_lanes(fleet, realm, bandwidth, request->sl, lanes, error) : 0;
    if (bandwidth && n == 0)
        return TRUE;
    if (realm->told->closed) {
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "fabric %s takes no nodes now: %s", realm->fabric, realm->told->closed);
        return TRUE;
    }
    if (!bandwidth)
        return refuse_in_lane(&trial, error);
    gboolean possible = FALSE;
    for (guint i = 0; i < n; i++) {
        g_clear_error(error);
        trial.lane = lanes[i];
        possible |= refuse_in_lane(&trial, error);
    }
    return possible;
}

/* The reason is that of the last fabric that was tried. */
static gboolean
refuse_anywhere(WeftFleet *fleet, const WeftPlaceRequest *request, GError **error)
{
    const char *only = request->fabric ? request->fabric : request->cluster->fabric;
    gboolean possible = FALSE, any = FALSE;
    for (guint i = 0; i < fleet->realms->len; i++) {
        WeftRealm *realm = fleet->realms->pdata[i];
        if (only && strcmp(only, realm->fabric) != 0)
            continue;
        g_clear_error(error);
        possible |= refuse_in_realm(fleet, realm, request, error);
        any = TRUE;
    }
    if (any)
        return possible;
    weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "there is no host%s%s yet; add one with: weft host add",
                      only ? " on fabric " : "", only ? only : "");
    return TRUE;
}

gboolean
weft_place_explain_refusal(WeftFleet *fleet, const WeftPlaceRequest *request, GError **error)
{
    g_autoptr(GError) reason = NULL;
    weft_fleet_sort(fleet);
    guint mark = weft_fleet_begin(fleet);
    if (request->avoid)
        weft_place_close_avoided(fleet, request->avoid);
    gboolean possible = refuse_anywhere(fleet, request, &reason);
    weft_fleet_rollback(fleet, mark);
    if (reason)
        g_propagate_error(error, g_steal_pointer(&reason));
    return possible;
}
