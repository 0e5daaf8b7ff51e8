/* In which lane of a fabric there may be room for more. */
#include "errors.h"
#include "fleet-private.h"
#include "lane-choice.h"
#include "size.h"

guint64
weft_fleet_lane_room(const WeftFleet *fleet, const char *host, const char *hca, guint sl)
{
    const WeftSlot *slot = g_hash_table_lookup(fleet->by_name, host);
    const WeftLane *lane = slot ? weft_lanes_find(&weft_slot_fabric(slot)->qos, sl) : NULL;
    const WeftHca *it = lane ? weft_host_hca(weft_slot_host(slot), hca) : NULL;
    return it ? weft_lane_room(lane, weft_fabric_rate(weft_slot_fabric(slot), it)) : 0;
}

/* What is promised in each lane, and the rate of the fastest link. */
static guint64
survey(const WeftFleet *fleet, const WeftRealm *realm, WeftLaneUse ret_uses[WEFT_LANES_MAX])
{
    guint64 fastest = 0;
    for (guint i = 0; i < realm->n; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, realm->numbers[i]);
        const WeftHost *host = weft_slot_host(slot);
        for (guint h = 0; h < host->hcas->len; h++)
            fastest = MAX(fastest, weft_fabric_rate(realm->told, host->hcas->pdata[h]));
        weft_slot_add_lane_uses(slot, ret_uses);
    }
    return fastest;
}

static gboolean
refuse_size(const WeftRealm *realm, guint64 bandwidth, guint64 fastest, GError **error)
{
    const WeftLanes *qos = &realm->told->qos;
    guint64 most = 0;
    for (guint i = 0; i < qos->n; i++)
        most = MAX(most, weft_lane_room(&qos->lanes[i], fastest));
    g_autofree char *asked = weft_rate_format(bandwidth);
    g_autofree char *has = weft_rate_format(most);
    return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                             "bandwidth %s is more than any lane of fabric %s has on a host's link; ask for at most %s", asked,
                             realm->fabric, has);
}

static gboolean
check(const WeftRealm *realm, guint sl, GError **error)
{
    const WeftFleetFabric *told = realm->told;
    if (told->qos.n == 0)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                 "fabric %s guarantees no bandwidth: its configuration describes no lanes (qos)",
                                 realm->fabric);
    if (told->no_lanes)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "fabric %s guarantees no bandwidth now: %s", realm->fabric,
                                 told->no_lanes);
    if (sl && !weft_lanes_find(&told->qos, sl))
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                 "fabric %s has no lane of service level %u any more, in which the cluster is", realm->fabric,
                                 sl);
    return TRUE;
}

guint
weft_fleet_lanes(const WeftFleet *fleet, const WeftRealm *realm, guint64 bandwidth, guint sl,
                 const WeftLane *ret_lanes[WEFT_LANES_MAX], GError **error)
{
    const WeftLanes *qos = &realm->told->qos;
    WeftLaneUse uses[WEFT_LANES_MAX] = { 0 };
    guint choices[WEFT_LANES_MAX];
    if (!check(realm, sl, error))
        return 0;
    ret_lanes[0] = weft_lanes_find(qos, sl);
    if (ret_lanes[0])
        return 1;
    guint64 fastest = survey(fleet, realm, uses);
    if (fastest == 0)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                 "fabric %s guarantees no bandwidth now: the rates of its hosts' links are not known",
                                 realm->fabric);
    guint n = weft_lane_choices(qos, uses, bandwidth, fastest, choices);
    for (guint i = 0; i < n; i++)
        ret_lanes[i] = &qos->lanes[choices[i]];
    return n ? n : (guint)refuse_size(realm, bandwidth, fastest, error);
}
