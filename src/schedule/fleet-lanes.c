/* What is promised of the hosts' links, and in which lane there may be room for more. */
#include "errors.h"
#include "fleet-private.h"
#include "size.h"

/* --- on a port --- */

static WeftPortLane *
find_lane(const WeftSlot *slot, guint hca, guint sl)
{
    for (guint i = 0; i < slot->lanes->len; i++) {
        WeftPortLane *lane = &g_array_index(slot->lanes, WeftPortLane, i);
        if (lane->hca == hca && lane->sl == sl)
            return lane;
    }
    return NULL;
}

void
weft_slot_add_lane(WeftSlot *slot, guint hca, guint sl, WeftLaneUse use)
{
    WeftPortLane *lane = find_lane(slot, hca, sl);
    if (!lane) {
        WeftPortLane new = { .hca = hca, .sl = sl };
        g_array_append_val(slot->lanes, new);
        lane = &g_array_index(slot->lanes, WeftPortLane, slot->lanes->len - 1);
    }
    lane->use.bits += use.bits;
    lane->use.devices += use.devices;
}

static void
break_promise(WeftSlot *slot, guint hca, const WeftNode *node)
{
    WeftPortLane *lane = find_lane(slot, hca, node->sl);
    if (!lane)
        return;
    lane->use.bits -= MIN(lane->use.bits, node->bandwidth);
    if (--lane->use.devices == 0)
        g_array_remove_index_fast(slot->lanes, (guint)(lane - (WeftPortLane *)slot->lanes->data));
}

void
weft_slot_promise(WeftSlot *slot, const WeftDevice *device, const WeftNode *node, gboolean taken)
{
    int hca = node->bandwidth ? weft_slot_hca(slot->host, device->hca) : -1;
    if (hca < 0)
        return;
    if (!node->cluster)
        slot->tried_bits[hca] += node->bandwidth;
    else if (taken)
        weft_slot_add_lane(slot, (guint)hca, node->sl, (WeftLaneUse){ node->bandwidth, 1 });
    else
        break_promise(slot, (guint)hca, node);
}

guint64
weft_slot_rate(const WeftSlot *slot, guint hca)
{
    const WeftHca *it = slot->host->hcas->pdata[hca];
    const guint64 *rate = slot->told->rates ? g_hash_table_lookup(slot->told->rates, &it->port_guid) : NULL;
    return rate ? *rate : 0;
}

guint64
weft_slot_lane_room(const WeftSlot *slot, guint hca, const WeftLane *lane)
{
    const WeftPortLane *promised = find_lane(slot, hca, lane->sl);
    guint64 used = slot->tried_bits[hca] + (promised ? promised->use.bits : 0);
    guint64 room = weft_lane_room(lane, weft_slot_rate(slot, hca));
    return room - MIN(room, used);
}

guint
weft_slot_guarantees(const WeftSlot *slot, const WeftLane *lane, guint64 bandwidth, guint rails)
{
    guint64 least = G_MAXUINT;
    for (guint rail = 0; rail < rails; rail++) {
        guint64 n = 0;
        for (guint i = 0; i < slot->host->hcas->len; i++)
            if (((const WeftHca *)slot->host->hcas->pdata[i])->rail == rail)
                n += weft_slot_lane_room(slot, i, lane) / bandwidth;
        least = MIN(least, n);
    }
    return (guint)least;
}

guint64
weft_fleet_lane_room(const WeftFleet *fleet, const char *host, const char *hca, guint sl)
{
    const WeftSlot *slot = g_hash_table_lookup(fleet->by_name, host);
    int index = slot ? weft_slot_hca(slot->host, hca) : -1;
    const WeftLane *lane = index < 0 ? NULL : weft_lanes_find(&slot->told->qos, sl);
    return lane ? weft_lane_room(lane, weft_slot_rate(slot, (guint)index)) : 0;
}

/* --- over a fabric --- */

/* What is promised in each lane, and the rate of the fastest link. */
static guint64
survey(const WeftFleet *fleet, const WeftSlot *first, WeftLaneUse ret_uses[WEFT_LANES_MAX])
{
    const WeftLanes *qos = &first->told->qos;
    guint64 fastest = 0;
    for (guint i = 0; i < fleet->slots->len; i++) {
        const WeftSlot *slot = fleet->slots->pdata[i];
        if (slot->fabric != first->fabric)
            continue;
        for (guint h = 0; h < slot->host->hcas->len; h++)
            fastest = MAX(fastest, weft_slot_rate(slot, h));
        for (guint l = 0; l < slot->lanes->len; l++) {
            const WeftPortLane *lane = &g_array_index(slot->lanes, WeftPortLane, l);
            const WeftLane *known = weft_lanes_find(qos, lane->sl);
            if (!known)
                continue;
            ret_uses[known - qos->lanes].bits += lane->use.bits;
            ret_uses[known - qos->lanes].devices += lane->use.devices;
        }
    }
    return fastest;
}

static gboolean
refuse_size(const WeftSlot *first, guint64 bandwidth, guint64 fastest, GError **error)
{
    const WeftLanes *qos = &first->told->qos;
    guint64 most = 0;
    for (guint i = 0; i < qos->n; i++)
        most = MAX(most, weft_lane_room(&qos->lanes[i], fastest));
    g_autofree char *asked = weft_rate_format(bandwidth);
    g_autofree char *has = weft_rate_format(most);
    return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                             "bandwidth %s is more than any lane of fabric %s has on a host's link; ask for at most %s", asked,
                             first->host->fabric, has);
}

static gboolean
check(const WeftSlot *first, guint sl, GError **error)
{
    const WeftFleetFabric *told = first->told;
    if (told->qos.n == 0)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                 "fabric %s guarantees no bandwidth: its configuration describes no lanes (qos)",
                                 first->host->fabric);
    if (told->no_lanes)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "fabric %s guarantees no bandwidth now: %s", first->host->fabric,
                                 told->no_lanes);
    if (sl && !weft_lanes_find(&told->qos, sl))
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                 "fabric %s has no lane of service level %u any more, in which the cluster is",
                                 first->host->fabric, sl);
    return TRUE;
}

guint
weft_fleet_lanes(const WeftFleet *fleet, const WeftSlot *first, const WeftPlaceRequest *request,
                 const WeftLane *ret_lanes[WEFT_LANES_MAX], GError **error)
{
    const WeftLanes *qos = &first->told->qos;
    guint64 bandwidth = request->cluster->bandwidth;
    WeftLaneUse uses[WEFT_LANES_MAX] = { 0 };
    guint choices[WEFT_LANES_MAX];
    if (!check(first, request->sl, error))
        return 0;
    ret_lanes[0] = weft_lanes_find(qos, request->sl);
    if (ret_lanes[0])
        return 1;
    guint64 fastest = survey(fleet, first, uses);
    if (fastest == 0)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                 "fabric %s guarantees no bandwidth now: the rates of its hosts' links are not known",
                                 first->host->fabric);
    guint n = weft_lane_choices(qos, uses, bandwidth, fastest, choices);
    for (guint i = 0; i < n; i++)
        ret_lanes[i] = &qos->lanes[choices[i]];
    return n ? n : (guint)refuse_size(first, bandwidth, fastest, error);
}
