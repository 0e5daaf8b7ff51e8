#include "errors.h"
#include "work.h"

static void
wired(WeftDeed deed, const GError *error, gpointer data)
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
        g_autofree char *words = weft_words(deed, error, work->control->options.apply_deadline);
        weft_rest_fail(&work->wire, &work->control->options.backoff, deed, words, error->message);
        return;
    }
    weft_rest_clear(&work->wire);
    if (work->status && work->status->wired < work->wiring_generation) {
        work->status->wired = work->wiring_generation;
        work->status_dirty = TRUE;
    }
    if (work->status && work->status->wired == work->status->generation && !work->cluster->deleted)
        weft_subnets_expect(work->control->subnets, work->status->fabric, weft_work_partition(work));
}

/* A virtual function of mlx5 is a port of its own; those of mlx4 use the host's, which is in the partition once for all of
 * them. A whole HCA and a virtual port are the node's own: its P_Key belongs at index 0. On a shared port that must never be
 * asked for. */
static WeftMember
member_of(const WeftHca *hca, const WeftDevice *device)
{
    gboolean shares_port = hca->driver == WEFT_HCA_MLX4;
    return (WeftMember){ .port_guid = hca->port_guid,
                         .virtual_guid = shares_port ? 0 : device->guid,
                         .membership = WEFT_MEMBER_FULL,
                         .index = shares_port && device->vf >= 0 ? -1 : 0 };
}

static void
add_place(WeftControl *control, const WeftNode *node, WeftPartition *partition)
{
    const WeftHost *host = weft_fleet_host(control->fleet, node->host);
    for (guint i = 0; host && i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        const WeftHca *hca = weft_host_hca(host, device->hca);
        WeftMember member = hca ? member_of(hca, device) : (WeftMember){ 0 };
        if (hca)
            weft_partition_add(partition, &member);
    }
}

void
weft_control_add_members(WeftControl *control, const WeftNode *node, WeftPartition *partition)
{
    if (node->phase == WEFT_NODE_STOPPING || node->phase == WEFT_NODE_LOST)
        return;
    add_place(control, node, partition);
    if (node->target)
        add_place(control, node->target, partition);
}

WeftPartition *
weft_work_partition(const WeftWork *work)
{
    g_autofree char *name = weft_partition_name(work->cluster->id);
    WeftPartition *partition = weft_partition_new(work->status->pkey, name);
    partition->sl = work->status->sl;
    for (guint i = 0; i < work->nodes->len; i++)
        weft_control_add_members(work->control, ((const WeftNodeWork *)work->nodes->pdata[i])->node, partition);
    return partition;
}

gboolean
weft_work_may_wire(const WeftWork *work)
{
    const WeftClusterStatus *status = work->status;
    return weft_subnets_may_wire(work->control->subnets, status ? status->fabric : NULL, status ? status->pkey : 0,
                                 work->cluster->id);
}

void
weft_work_wire(WeftWork *work)
{
    WeftClusterStatus *status = work->status;
    if (work->wiring || !weft_rest_is_over(&work->wire, work->now))
        return;
    WeftWireOrder order = { status->fabric, work->cluster, status->pkey, NULL };
    if (!work->cluster->deleted)
        order.partition = weft_work_partition(work);
    weft_subnets_expect_nothing(work->control->subnets, status->fabric, status->pkey);
    work->wiring = TRUE;
    work->wiring_generation = status->generation;
    weft_subnets_wire(work->control->subnets, &order, wired, work);
}
