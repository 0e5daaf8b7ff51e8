#include "errors.h"
#include "work.h"

static void
wired(const GError *error, gpointer data)
{
    WeftWork *work = data;
    work->wiring = FALSE;
    weft_work_wake(work);
    gboolean conflict = error && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    if (conflict && work->status) {
        work->pkey_taken = weft_subnets_is_foreign(work->control->subnets, work->status->fabric, work->status->pkey);
        weft_subnets_hint(work->control->subnets, work->status->fabric);
    }
    /* A partition of that number that is not weft's is not ours to remove: ours is gone. */
    if (error && !(conflict && work->cluster && work->cluster->deleted)) {
        g_autofree char *words = weft_words(WEFT_DEED_WIRE, error, work->control->options.apply_deadline);
        weft_rest_fail(&work->wire, &work->control->options.backoff, WEFT_DEED_WIRE, words, error->message);
        return;
    }
    weft_rest_clear(&work->wire);
    if (work->status && work->status->wired < work->wiring_generation) {
        work->status->wired = work->wiring_generation;
        work->status_dirty = TRUE;
    }
}

static void
add_members(const WeftWork *work, const WeftNode *node, WeftPartition *partition)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, node->host);
    for (guint i = 0; host && i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        const WeftHca *hca = weft_host_hca(host, device->hca);
        if (!hca)
            continue;
        /* A whole HCA is the node's own: its P_Key belongs at index 0. On a shared port that must never be asked for. */
        weft_partition_add(partition, &(WeftMember){ .port_guid = hca->port_guid,
                                                     .virtual_guid = device->guid,
                                                     .membership = WEFT_MEMBER_FULL,
                                                     .index = device->vf < 0 ? 0 : -1 });
    }
}

WeftPartition *
weft_work_partition(const WeftWork *work)
{
    g_autofree char *name = weft_partition_name(work->cluster->id);
    WeftPartition *partition = weft_partition_new(work->status->pkey, name);
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        if (node->phase != WEFT_NODE_STOPPING && node->phase != WEFT_NODE_LOST)
            add_members(work, node, partition);
    }
    return partition;
}

void
weft_work_wire(WeftWork *work)
{
    WeftClusterStatus *status = work->status;
    if (work->wiring || !weft_rest_is_over(&work->wire))
        return;
    WeftWiring *wiring = weft_subnets_wiring(work->control->subnets, status->fabric);
    work->wiring = TRUE;
    work->wiring_generation = status->generation;
    if (work->cluster->deleted)
        weft_wiring_remove(wiring, status->pkey, wired, work);
    else
        weft_wiring_set(wiring, weft_work_partition(work), wired, work);
}
