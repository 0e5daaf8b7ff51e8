/* A cluster that begins with the memory of another one's nodes. */
#include "clock.h"
#include "errors.h"
#include "fields.h"
#include "handlers.h"
#include "id.h"
#include "names.h"
#include "request.h"

typedef struct Wanted {
    char *name;
    guint count; /* 0: as many as are copied */
    int rank;    /* -1: all */
} Wanted;

static gboolean
read_wanted(WeftRequest *request, Wanted *ret_wanted, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    const char *name = weft_fields_string(&f, "name", NULL);
    gboolean one = weft_fields_has(&f, "rank");
    *ret_wanted = (Wanted){ .rank = -1 };
    ret_wanted->count = (guint)weft_fields_uint(&f, "count", 1, WEFT_NODES_MAX, 0);
    if (one)
        ret_wanted->rank = (int)weft_fields_uint(&f, "rank", 0, WEFT_NODES_MAX - 1, WEFT_REQUIRED);
    if (!name)
        weft_fields_fail(&f, "name", "is missing; tell what the clone is to be called");
    ret_wanted->name = g_strdup(name);
    if (weft_fields_end(&f, error) && weft_name_check(ret_wanted->name, "cluster name", error))
        return TRUE;
    g_clear_pointer(&ret_wanted->name, g_free);
    return FALSE;
}

/* --- what is copied --- */

static GPtrArray *
list_nodes(WeftRequest *request, const WeftCluster *source, int rank, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = source->id };
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &query, error);
    g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftNode) node = weft_record_node(records->pdata[i], error);
        if (!node)
            return NULL;
        if (node->phase != WEFT_NODE_STOPPING && (rank < 0 || node->rank == (guint)rank))
            g_ptr_array_add(nodes, g_steal_pointer(&node));
    }
    if (records && !nodes->len)
        weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "node %s[%d]: there is none", source->name, MAX(rank, 0));
    return records && nodes->len ? g_steal_pointer(&nodes) : NULL;
}

static const char *
find_obstacle(WeftRequest *request, const WeftCluster *source, const WeftNode *node)
{
    g_autoptr(WeftImage) image = node->image ? weft_store_load_image(request->store, node->image, NULL, NULL) : NULL;
    if (node->devices->len || node->gpus->len)
        return "has devices of its host, of which the state cannot be copied; clone clusters of path bridge";
    if (source->shm || node->shm)
        return "shares memory with others on its host; clone clusters without shm";
    if (node->memory->len != 1)
        return "has memory of several NUMA nodes; create clusters to be cloned with numa required";
    if (!image)
        return "boots from nothing; clone clusters that have an image";
    return NULL;
}

static gboolean
check_nodes(WeftRequest *request, const WeftCluster *source, const GPtrArray *nodes, GError **error)
{
    const WeftNode *first = nodes->pdata[0];
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        g_autofree char *label = weft_node_label(node);
        const char *why = find_obstacle(request, source, node);
        if (why)
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "node %s %s", label, why);
        if (g_strcmp0(first->group, node->group) != 0)
            return weft_error_refuse(
                error, WEFT_ERROR_INVALID,
                "cluster %s has nodes of several groups; clone one of them, as in: weft clone '%s' --to NAME", source->name,
                label);
    }
    return TRUE;
}

static gboolean
check_ready(WeftRequest *request, const WeftCluster *source, GError **error)
{
    g_autofree char *key = weft_cluster_key(source->tenant, source->name);
    g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(request->store, key, NULL, NULL);
    WeftClusterPhase phase = status ? status->phase : WEFT_CLUSTER_QUEUED;
    if (!source->deleted && phase == WEFT_CLUSTER_READY)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "cluster %s is %s, and can be cloned when it is ready: weft wait %s",
                             source->name, source->deleted ? "being removed" : weft_cluster_phase_words[phase], source->name);
}

/* --- the clone --- */

/* What its memory was made for: the same shape in one piece, and a network device that can be unplugged. */
static void
keep_group(WeftCluster *clone, const WeftNode *node, guint count)
{
    WeftGroup *group = g_ptr_array_steal_index(clone->groups, weft_node_group(node, clone));
    g_ptr_array_set_size(clone->groups, 0);
    g_ptr_array_add(clone->groups, group);
    group->count = count;
    group->path = WEFT_PATH_BRIDGE;
    group->rails = 0;
    group->locality = WEFT_LOCALITY_REQUIRED;
}

static WeftCluster *
make_clone(const WeftRequest *request, const WeftCluster *source, const GPtrArray *nodes, const Wanted *wanted)
{
    WeftCluster *clone = weft_cluster_copy(source);
    const WeftNode *first = nodes->pdata[0];
    char **texts[] = { &clone->id, &clone->name, &clone->creator, &clone->clone_of, &clone->clone_node, &clone->checkpoint };
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++)
        g_clear_pointer(texts[i], g_free);
    clone->id = weft_id_new();
    clone->name = g_strdup(wanted->name);
    clone->creator = g_strdup(request->principal->name);
    clone->created = weft_clock_now();
    clone->scaled = 0;
    clone->clone_of = g_strdup(source->id);
    clone->clone_node = wanted->rank < 0 ? NULL : g_strdup(first->id);
    keep_group(clone, first, wanted->count ? wanted->count : nodes->len);
    if (clone->pattern == WEFT_PATTERN_MATRIX && clone->traffic->len &&
        weft_cluster_count(clone) != weft_cluster_count(source)) {
        clone->pattern = WEFT_PATTERN_NONE;
        g_array_set_size(clone->traffic, 0);
    }
    return clone;
}

/* The source as it is now, and what is asked for of it. */
static WeftCluster *
read_clone(WeftRequest *request, const WeftCluster *source, GError **error)
{
    Wanted wanted;
    if (!read_wanted(request, &wanted, error))
        return NULL;
    g_autoptr(GPtrArray) nodes = check_ready(request, source, error) ? list_nodes(request, source, wanted.rank, error) : NULL;
    gboolean can_be = nodes && check_nodes(request, source, nodes, error);
    WeftCluster *clone = can_be ? make_clone(request, source, nodes, &wanted) : NULL;
    g_free(wanted.name);
    return clone;
}

/* What is saved of the nodes until the clone's are up, beside the disks of its own. */
static gboolean
check_storage(WeftRequest *request, const WeftTenant *tenant, const WeftCluster *source, const WeftCluster *clone,
              GError **error)
{
    const WeftGroup *group = clone->groups->pdata[0];
    guint64 disk = group->disk ? WEFT_SAVED_MAX(group->disk) : 0, nodes = clone->clone_node ? 1 : weft_cluster_count(source);
    guint64 demand[WEFT_QUOTAS];
    weft_cluster_demand(clone, demand);
    return weft_check_quota(request, tenant, WEFT_QUOTA_STORAGE,
                            demand[WEFT_QUOTA_STORAGE] + nodes * (WEFT_SAVED_LIVE_MAX(group->memory) + disk), error);
}

gboolean
weft_handle_cluster_clone(WeftRequest *request, GError **error)
{
    gint64 revision = 0, tenant_revision = 0;
    g_autoptr(WeftCluster) source = weft_find_cluster(request, &revision, error);
    g_autoptr(WeftTenant) tenant =
        source ? weft_store_load_tenant(request->store, source->tenant, &tenant_revision, error) : NULL;
    g_autoptr(WeftCluster) clone = tenant ? read_clone(request, source, error) : NULL;
    g_autoptr(WeftTxn) txn = weft_txn_new("clone-asked");
    if (!clone || !check_storage(request, tenant, source, clone, error) || !weft_check_wish(request, tenant, clone, txn, error))
        return FALSE;
    WeftReply *reply = weft_cluster_reply(request, 201, clone, error);
    if (!reply)
        return FALSE;
    weft_reply_header(reply, "Location", "/v1/clusters/%s", clone->id);

    g_autofree char *key = weft_cluster_key(source->tenant, source->name);
    guint count = weft_cluster_count(clone);
    weft_txn_put_cluster(txn, clone, tenant, WEFT_ABSENT);
    weft_txn_expect(txn, WEFT_KIND_TENANT, tenant->name, tenant_revision);
    weft_txn_expect(txn, WEFT_KIND_CLUSTER, key, revision);
    weft_txn_tell(txn, "cluster-created", clone, NULL, "%s asked for %u node%s, cloned from %s", clone->creator, count,
                  count == 1 ? "" : "s", source->name);
    return weft_request_commit(request, g_steal_pointer(&txn), reply);
}
