#include "clock.h"
#include "errors.h"
#include "hostlist.h"
#include "id.h"
#include "schedule.h"
#include "turns.h"
#include "work.h"

#define REPLACE_SLICE 5000 /* microseconds in which a step looks for places of lost nodes, each for some 1000 */

/* A placement on its way into a transaction. */
typedef struct Placing {
    WeftWork *work;
    WeftTxn *txn;
    GHashTable *hosts;  /* set of names that the transaction already expects unchanged */
    GHashTable *whys;   /* set of reasons why nodes are not forked that were told, borrowed */
    WeftTenant *tenant; /* which the transaction expects unchanged; NULL: nothing was to be granted yet */
    guint placed;
    gboolean full[WEFT_GROUPS_MAX]; /* a node of the group whose host is closed found no room: the next would not either */
} Placing;

/* --- devices by grant --- */

/* A grant may have been taken back since the wish was accepted: nodes that are there keep their devices, and none gets them
 * any more. FALSE without an error: the tenant cannot be read just now. */
static gboolean
check_devices(Placing *placing, guint kinds, GError **error)
{
    WeftWork *work = placing->work;
    gint64 revision;
    if (!kinds)
        return TRUE;
    if (!placing->tenant) {
        placing->tenant = weft_store_load_tenant(work->control->store, work->cluster->tenant, &revision, NULL);
        if (!placing->tenant) {
            weft_work_wake_at(work, g_get_monotonic_time() + G_USEC_PER_SEC);
            return FALSE;
        }
        weft_txn_expect(placing->txn, WEFT_KIND_TENANT, placing->tenant->name, revision);
    }
    return weft_tenant_check_devices(placing->tenant, kinds, error);
}

static guint
missing_devices(const WeftWork *work, const WeftPlan *plan)
{
    guint kinds = 0;
    for (guint g = 0; g < work->cluster->groups->len; g++)
        kinds |= plan->missing[g] ? weft_group_devices(work->cluster->groups->pdata[g]) : 0;
    return kinds;
}

gboolean
weft_work_has_rank(const WeftWork *work, guint rank)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        if (node->rank == rank && node->phase != WEFT_NODE_STOPPING)
            return TRUE;
    }
    return FALSE;
}

/* Set of the ranks (as pointers) of those that stay: a thousand new ones ask each for the next free one. */
static GHashTable *
list_ranks(const WeftWork *work)
{
    GHashTable *ranks = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        if (node->phase != WEFT_NODE_STOPPING)
            g_hash_table_add(ranks, GUINT_TO_POINTER(node->rank));
    }
    return ranks;
}

static void
name_cluster(const WeftWork *work, WeftNode *node)
{
    node->cluster = g_strdup(work->cluster->id);
    node->cluster_name = g_strdup(work->cluster->name);
    node->tenant = g_strdup(work->cluster->tenant);
}

/* Fills in what placement does not know: who the node is. Random numbers, never used twice: a stale domain that comes back with
 * its host can never be taken for its replacement. */
static void
give_identity(WeftWork *work, WeftNode *node, guint rank)
{
    const WeftFabric *fabric = weft_subnets_fabric(work->control->subnets, work->status->fabric);
    node->id = weft_node_id(work->cluster->id, work->status->next_serial++);
    node->rank = rank;
    node->phase = WEFT_NODE_CLAIMED;
    node->placement = weft_id_new();
    node->since = weft_clock_now();
    node->mac = weft_mac_format(weft_random_u64());
    for (guint i = 0; i < node->devices->len; i++) {
        WeftDevice *device = node->devices->pdata[i];
        if (device->vf >= 0)
            device->guid = weft_fabric_guid(fabric, weft_random_u64());
    }
    weft_work_recall(work, node);
}

static void
claim_lane(Placing *placing, const WeftNode *node)
{
    for (guint i = 0; node->bandwidth && i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        guint64 room = weft_fleet_lane_room(placing->work->control->fleet, node->host, device->hca, node->sl);
        weft_txn_share_lane(placing->txn, node, device, room);
    }
}

/* Forked or booted is decided with its place, and written with it: whoever starts it again does the same. */
static void
choose_way(Placing *placing, WeftNode *node)
{
    const char *why = NULL;
    const WeftCluster *cluster = placing->work->cluster;
    if (weft_work_is_cloning(placing->work)) {
        node->template = weft_work_clone_template(placing->work, node->rank);
        return;
    }
    if (cluster->clone_of && g_hash_table_add(placing->whys, (gpointer)cluster->clone_of))
        weft_txn_tell(placing->txn, "clone-grows", cluster, NULL,
                      "new nodes begin with the image: the memory that the others were cloned from is gone");
    if (weft_work_saved_node(placing->work, node))
        return;
    node->template = weft_templates_choose(placing->work->control->templates, cluster, node, &why);
    if (!why || !g_hash_table_add(placing->whys, (gpointer)why))
        return;
    weft_txn_tell(placing->txn, "cluster-boots", cluster, node->host, "nodes boot, and are not forked: %s", why);
}

static void
claim(Placing *placing, WeftNode *node, guint rank)
{
    WeftWork *work = placing->work;
    WeftControl *control = work->control;
    give_identity(work, node, rank);
    choose_way(placing, node);
    if (g_hash_table_add(placing->hosts, node->host))
        weft_txn_expect(placing->txn, WEFT_KIND_HOST, node->host, weft_hosts_revision(control->hosts, node->host));
    weft_txn_put_new_node(placing->txn, node, weft_fleet_host(control->fleet, node->host));
    claim_lane(placing, node);
    weft_work_add(work, node, 0)->writing = TRUE;
    placing->placed++;
}

static void
set_pkey(WeftWork *work, guint pkey)
{
    work->status->pkey = pkey;
    work->status->unmanaged = weft_subnets_management(work->control->subnets, work->status->fabric) == WEFT_FABRIC_UNMANAGED;
    work->status->vxlan = weft_subnets_fabric(work->control->subnets, work->status->fabric)->vxlan_base + pkey;
    work->pkey_new = TRUE;
}

/* --- hosts that failed it --- */

#define SHUN_DELAYS 10 /* of the longest between two tries */

void
weft_work_shun(WeftWork *work, const char *host, gboolean refused)
{
    gint64 now = g_get_monotonic_time();
    WeftShun shun = { now + SHUN_DELAYS * work->control->options.backoff.max, refused };
    g_hash_table_insert(work->shunned, g_strdup(host), g_memdup2(&shun, sizeof shun));
}

gboolean
weft_work_add_shunned(WeftWork *work, GHashTable *hosts)
{
    gint64 now = g_get_monotonic_time();
    GHashTableIter iter;
    gpointer host, shun;
    g_hash_table_iter_init(&iter, work->shunned);
    while (g_hash_table_iter_next(&iter, &host, &shun))
        if (((WeftShun *)shun)->until > now)
            g_hash_table_add(hosts, g_strdup(host));
        else
            g_hash_table_iter_remove(&iter);
    return g_hash_table_size(work->shunned) > 0;
}

/* So many different hosts cannot run it as it is that others will not either. */
static gboolean
is_refused_everywhere(const WeftWork *work)
{
    guint n = 0;
    GHashTableIter iter;
    gpointer shun;
    g_hash_table_iter_init(&iter, work->shunned);
    while (g_hash_table_iter_next(&iter, NULL, &shun))
        n += ((WeftShun *)shun)->refused;
    return n >= work->control->options.starts_max;
}

/* Where a wish names its hosts, these are all others. */
static void
add_unnamed(WeftControl *control, const WeftCluster *cluster, GHashTable *barred)
{
    g_auto(GStrv) names = cluster->hosts ? weft_hostlist_expand(cluster->hosts, NULL) : NULL;
    g_autoptr(GPtrArray) hosts = names ? weft_fleet_hosts(control->fleet, NULL) : NULL;
    g_autoptr(GHashTable) named = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; names && names[i]; i++)
        g_hash_table_add(named, names[i]);
    for (guint i = 0; hosts && i < hosts->len; i++) {
        const WeftHost *host = hosts->pdata[i];
        if (!g_hash_table_contains(named, host->name))
            g_hash_table_add(barred, g_strdup(host->name));
    }
}

void
weft_control_add_barred(WeftControl *control, const WeftCluster *cluster, GHashTable *hosts)
{
    g_autoptr(GHashTable) servers = g_hash_table_new(g_str_hash, g_str_equal);
    weft_subnets_add_servers(control->subnets, cluster, servers);
    GHashTableIter iter;
    gpointer name;
    g_hash_table_iter_init(&iter, servers);
    while (g_hash_table_iter_next(&iter, &name, NULL))
        g_hash_table_add(hosts, g_strdup(name));
    add_unnamed(control, cluster, hosts);
    weft_turns_add_apart(control->turns, cluster, hosts);
    weft_templates_add_barred(control->templates, cluster, hosts);
    weft_checkpoints_add_barred(control->checkpoints, cluster, hosts);
}

/* --- in its turn --- */

const WeftNode *
weft_work_like(const WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len && work->cluster->pattern != WEFT_PATTERN_NONE; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        const WeftGroup *group = work->cluster->groups->pdata[weft_node_group(node, work->cluster)];
        if (group->path == WEFT_PATH_AUTO)
            return node;
    }
    return NULL;
}

gboolean
weft_work_grant(WeftWork *work, WeftDecision *decision, GError **error)
{
    WeftControl *control = work->control;
    const WeftPlacement *placement = &decision->placement;
    const char *fabric = weft_fleet_host(control->fleet, weft_fleet_name(control->fleet, placement->seats[0].host))->fabric;
    WeftGrant grant = { .placement = *placement, .when = decision->when };
    if (!work->status || !work->status->pkey) {
        grant.pkey = weft_subnets_take_pkey(control->subnets, fabric, work->key, work->cluster, FALSE, error);
        if (!grant.pkey)
            return FALSE;
    }
    weft_fleet_take_seats(control->fleet, placement->seats, placement->n, work->cluster->id);
    grant.fabric = g_strdup(fabric);
    grant.nodes = g_steal_pointer(&decision->nodes);
    decision->placement.seats = NULL;
    for (guint i = 0; i < grant.nodes->len; i++)
        name_cluster(work, grant.nodes->pdata[i]);
    work->grant = g_memdup2(&grant, sizeof grant);
    weft_work_wake(work);
    return TRUE;
}

static void
grant_free(WeftWork *work)
{
    g_ptr_array_unref(work->grant->nodes);
    g_free(work->grant->placement.seats);
    g_free(work->grant->fabric);
    g_clear_pointer(&work->grant, g_free);
}

void
weft_work_revoke(WeftWork *work)
{
    WeftGrant *grant = work->grant;
    if (!grant)
        return;
    if (work->control->closing) {
        grant_free(work);
        return;
    }
    for (guint i = 0; i < grant->nodes->len; i++) /* not the seats: a host may have been described anew */
        weft_fleet_give(work->control->fleet, grant->nodes->pdata[i]);
    weft_subnets_return_pkey(work->control->subnets, grant->fabric, grant->pkey);
    grant_free(work);
    weft_turns_hold(work->control->turns, work);
}

/* Hosts may have gone, and wishes changed, since it was granted. */
static gboolean
is_grant_good(const WeftWork *work, const WeftPlan *plan)
{
    guint counts[WEFT_GROUPS_MAX] = { 0 };
    const GPtrArray *nodes = work->grant->nodes;
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (weft_hosts_revision(work->control->hosts, node->host) < 0)
            return FALSE;
        counts[weft_node_group(node, work->cluster)]++;
    }
    return memcmp(counts, plan->missing, sizeof counts) == 0;
}

/* The first placement chooses the fabric, and with it the partition; one that has no nodes any more chooses its lane anew. */
static void
settle_partition(WeftWork *work)
{
    WeftClusterStatus *status = work->status;
    if (work->grant->pkey) {
        g_free(status->fabric);
        status->fabric = g_strdup(work->grant->fabric);
        set_pkey(work, work->grant->pkey);
    }
    status->sl = work->grant->placement.seats[0].sl;
    if (status->placed)
        return;
    weft_work_choose_origin(work);
    status->placed = work->grant->when;
    status->ends = work->cluster->walltime ? status->placed + (gint64)work->cluster->walltime * G_USEC_PER_SEC : 0;
}

static void
claim_granted(Placing *placing)
{
    WeftWork *work = placing->work;
    GPtrArray *nodes = work->grant->nodes;
    guint next = 0;
    settle_partition(work);
    g_autoptr(GHashTable) taken = list_ranks(work);
    for (guint i = 0; i < nodes->len; i++) {
        guint rank = weft_work_saved_rank(work, nodes->pdata[i]);
        if (rank == WEFT_NODES_MAX) {
            while (g_hash_table_contains(taken, GUINT_TO_POINTER(next)))
                next++;
            rank = next;
        }
        g_hash_table_add(taken, GUINT_TO_POINTER(rank));
        claim(placing, nodes->pdata[i], rank);
    }
    g_ptr_array_set_free_func(nodes, NULL);
    grant_free(work);
    weft_rest_clear(&work->place);
}

void
weft_work_waits(WeftWork *work, const char *reason)
{
    if (g_strcmp0(work->place.what, reason) == 0 && work->status)
        return;
    weft_rest_say(&work->place, WEFT_DEED_STOP, reason, NULL);
    weft_work_wake(work);
}

static guint
count_missing(const WeftPlan *plan)
{
    guint n = 0;
    for (guint g = 0; g < WEFT_GROUPS_MAX; g++)
        n += plan->missing[g];
    return n;
}

static void
place_missing(Placing *placing, const WeftPlan *plan)
{
    WeftWork *work = placing->work;
    g_autoptr(GError) error = NULL;
    gboolean allowed = check_devices(placing, missing_devices(work, plan), &error);
    if (work->grant && !(allowed && is_grant_good(work, plan)))
        weft_work_revoke(work);
    if (!allowed) {
        weft_turns_withdraw(work->control->turns, work);
        if (error)
            weft_work_waits(work, error->message);
    } else if (work->grant) {
        claim_granted(placing);
    } else if (count_missing(plan) > 0) {
        weft_turns_ask(work->control->turns, work, plan->missing);
    } else {
        weft_turns_withdraw(work->control->turns, work);
        if (work->status->phase != WEFT_CLUSTER_PREEMPTED)
            weft_rest_clear(&work->place);
    }
}

/* What is held may be the very node that is missing, on a host that is held or was not looked at yet. A cluster that has no
 * number gets none before the latter, and may wait for its turn meanwhile. */
static gboolean
waits_for_held(WeftWork *work, const WeftPlan *plan)
{
    WeftControl *control = work->control;
    if (!weft_hosts_hold_cluster(control->hosts, work->cluster->id))
        return FALSE;
    if (weft_hosts_await_looks(control->hosts, work->key))
        return work->status->pkey != 0;
    weft_turns_withdraw(control->turns, work);
    weft_work_revoke(work);
    if (count_missing(plan) > 0)
        weft_rest_say(&work->place, WEFT_DEED_STOP,
                      "nodes of it run that are not in the records; an operator has to adopt or remove them first", NULL);
    return TRUE;
}

/* --- at once: in place of others --- */

/* One node of the rank of the replaced one. */
static gboolean
place_on(Placing *placing, const WeftPlaceRequest *request, const WeftNode *replaced, GError **error)
{
    WeftWork *work = placing->work;
    g_autoptr(GPtrArray) nodes = weft_schedule(work->control->fleet, request, error);
    if (!nodes)
        return FALSE;
    WeftNode *node = g_ptr_array_steal_index(nodes, 0);
    name_cluster(work, node);
    weft_fleet_take(work->control->fleet, node);
    claim(placing, node, replaced->rank);
    return TRUE;
}

/* Set of the hosts where the heir cannot be: others are kept for somebody, or it would be where it is to leave. */
static GHashTable *
list_barred(const WeftWork *work, const WeftNodeWork *item)
{
    GHashTable *hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    if (!item->node->bereft)
        g_hash_table_add(hosts, g_strdup(item->node->host));
    weft_control_add_barred(work->control, work->cluster, hosts);
    weft_bookings_add(work->control->turns, work->cluster->tenant, hosts);
    return hosts;
}

/* Anywhere but on its host, unless that only lost a device of several. Hosts that failed the cluster are taken only by nodes
 * that have nowhere else to be: one that failed itself better stays where it is. */
static gboolean
place_heir(Placing *placing, const guint *counts, const WeftNodeWork *item, GError **error)
{
    WeftWork *work = placing->work;
    const WeftNode *replaced = item->node;
    const WeftGroup *group = work->cluster->groups->pdata[weft_node_group(replaced, work->cluster)];
    if (!check_devices(placing, weft_group_devices(group), error))
        return FALSE;
    g_autoptr(GHashTable) avoid = list_barred(work, item);
    gboolean any = weft_work_add_shunned(work, avoid);
    const WeftPathRule *rule = &work->control->options.path_rule;
    WeftPlaceRequest request = { work->cluster, work->status->fabric, counts, avoid, work->status->sl, rule };
    request.like = weft_work_like(work);
    weft_fleet_sort(work->control->fleet);
    if (place_on(placing, &request, replaced, error))
        return TRUE;
    if (!any || replaced->phase == WEFT_NODE_FAILED)
        return FALSE;
    g_clear_error(error);
    g_autoptr(GHashTable) barred = list_barred(work, item);
    request.avoid = barred;
    return place_on(placing, &request, replaced, error);
}

/* --- another number --- */

/* Nodes that run, or are about to, have the old number in their definition, and are on its network: they are started anew. */
static void
start_anew(WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        WeftNodePhase phase = item->node->phase;
        gboolean begun = item->started || g_hash_table_contains(work->jobs, item->node->id);
        if (phase != WEFT_NODE_UP && phase != WEFT_NODE_READY && !(phase == WEFT_NODE_CLAIMED && begun))
            continue;
        weft_work_interrupt(work, item);
        weft_work_set_phase(work, item, WEFT_NODE_FAILED, "its partition's number turned out to be another partition's", NULL);
    }
}

void
weft_work_renumber(WeftWork *work)
{
    WeftClusterStatus *status = work->status;
    guint pkey = weft_subnets_take_pkey(work->control->subnets, status->fabric, work->key, work->cluster, TRUE, NULL);
    if (!pkey)
        return;
    work->pkey_left = status->pkey;
    set_pkey(work, pkey);
    status->generation++;
    work->status_dirty = TRUE;
    work->wire.not_before = 0;
    start_anew(work);
}

/* After weftd's start a host is seen before it has told what it has. */
static gboolean
may_have_another(const WeftWork *work, const WeftNode *node)
{
    return node->bereft && !weft_hosts_inventory(work->control->hosts, node->host, NULL);
}

/* A failed node that finds no room elsewhere goes on trying where it is, unless that cannot help. */
static void
stay(WeftWork *work, WeftNodeWork *item, const GError *error)
{
    gboolean failed = item->node->phase == WEFT_NODE_FAILED;
    weft_rest_wait(&item->rest, &work->control->options.backoff);
    item->homeless = !failed;
    weft_work_set_waiting(work, TRUE);
    if (may_have_another(work, item->node))
        return;
    if (!failed) {
        if (error)
            weft_rest_say(&item->rest, WEFT_DEED_STOP, error->message, NULL);
        return;
    }
    item->node->starts = 0;
    item->dirty = TRUE;
    if (item->refused)
        weft_work_give_up(work, item->node, item->node->reason, item->node->detail);
}

static void
replace(Placing *placing, WeftNodeWork *item)
{
    WeftWork *work = placing->work;
    g_autoptr(GError) error = NULL;
    guint counts[WEFT_GROUPS_MAX] = { 0 }, group = weft_node_group(item->node, work->cluster);
    counts[group] = 1;

    gboolean closed = item->node->phase != WEFT_NODE_FAILED;
    if (!closed && !item->node->bereft)
        weft_work_shun(work, item->node->host, item->refused);
    gboolean hopeless = (closed && placing->full[group]) || (item->refused && is_refused_everywhere(work));
    if (hopeless || !place_heir(placing, counts, item, &error)) {
        placing->full[group] |= closed;
        stay(work, item, error);
        return;
    }
    /* What went wrong before is told until the new one gets further. */
    WeftNodeWork *heir = work->nodes->pdata[work->nodes->len - 1];
    heir->moved = item->moved;
    if (!closed)
        weft_rest_say(&heir->rest, item->rest.deed, item->rest.what, item->rest.detail);
    g_autofree char *label = weft_node_label(item->node);
    weft_txn_tell(placing->txn, "node-replaced", work->cluster, item->node->host, "%s is placed anew (%s)", label,
                  item->node->reason ? item->node->reason : "its host is being emptied");
    weft_work_retire(work, item);
}

/* A few of many that were lost together: the next step goes on, before the fabric is told of any. */
static void
replace_some(Placing *placing, const WeftPlan *plan, guint n)
{
    gint64 end = g_get_monotonic_time() + REPLACE_SLICE;
    for (guint i = 0; i < n; i++) {
        if (plan->actions[i] != WEFT_DO_REPLACE)
            continue;
        replace(placing, placing->work->nodes->pdata[i]);
        if (g_get_monotonic_time() > end) {
            weft_work_wake(placing->work);
            return;
        }
    }
}

gboolean
weft_work_place(WeftWork *work, const WeftPlan *plan)
{
    g_autoptr(GHashTable) hosts = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(WeftTxn) txn = weft_txn_new("nodes-placed");
    g_autoptr(GHashTable) whys = g_hash_table_new(NULL, NULL);
    Placing placing = { .work = work, .txn = txn, .hosts = hosts, .whys = whys };
    guint n = work->nodes->len; /* new ones are added behind */

    weft_work_update_status(work);
    weft_work_set_waiting(work, weft_work_has_homeless(work));
    if (waits_for_held(work, plan))
        return FALSE;
    place_missing(&placing, plan);
    guint granted = placing.placed;
    replace_some(&placing, plan, n);
    weft_tenant_free(placing.tenant);
    if (placing.placed == 0)
        return FALSE;
    if (placing.placed > granted)
        weft_turns_hold(work->control->turns, work);

    work->status->generation++;
    work->status_dirty = TRUE;
    weft_txn_expect(txn, WEFT_KIND_CLUSTER, work->key, work->cluster_revision);
    weft_work_commit(work, g_steal_pointer(&txn));
    return TRUE;
}
