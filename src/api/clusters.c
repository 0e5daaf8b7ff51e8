#include "clock.h"
#include "errors.h"
#include "fields.h"
#include "handlers.h"
#include "id.h"
#include "names.h"
#include "page.h"
#include "problem.h"
#include "size.h"
#include "views.h"

/* --- finding --- */

static WeftRecord *
record_by_id(WeftRequest *request, const char *id, GError **error)
{
    const char *tenant = NULL;
    if (!weft_request_scope(request, &tenant, error))
        return NULL;
    g_autoptr(WeftRecord) record = weft_store_cluster_of_id(request->store, id, error);
    return record && (!tenant || strcmp(record->scope, tenant) == 0) ? g_steal_pointer(&record) : NULL;
}

static WeftRecord *
record_by_name(WeftRequest *request, const char *name, GError **error)
{
    g_autoptr(WeftTenant) tenant = weft_request_tenant(request, NULL, error);
    if (!tenant)
        return NULL;
    g_autofree char *key = weft_cluster_key(tenant->name, name);
    return weft_store_get(request->store, WEFT_KIND_CLUSTER, key, error);
}

WeftCluster *
weft_find_cluster(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *text = request->match.params[0];
    g_autoptr(WeftRecord) record = NULL;
    GError *failure = NULL;
    if (weft_id_is_valid(text))
        record = record_by_id(request, text, &failure);
    else if (weft_name_check(text, "cluster name", NULL))
        record = record_by_name(request, text, &failure);
    if (!record) {
        if (!failure)
            weft_not_found("cluster", text, &failure);
        g_propagate_error(error, failure);
        return NULL;
    }
    if (ret_revision)
        *ret_revision = record->revision;
    return weft_record_cluster(record, error);
}

WeftReply *
weft_cluster_reply(WeftRequest *request, guint status, const WeftCluster *cluster, GError **error)
{
    json_t *view = weft_view_cluster(request->store, cluster, weft_request_sees_all(request), error);
    if (!view)
        return NULL;
    WeftReply *reply = weft_reply_new(status, view);
    g_autofree char *etag = weft_view_etag(cluster);
    weft_reply_header(reply, "ETag", "%s", etag);
    return reply;
}

/* --- reading --- */

static char *
cluster_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    return weft_cluster_texts_get(request->texts[weft_request_sees_all(request)], request->store, record, error);
}

/* For a list over tenants: the cluster of this name in each. */
static char *
namesake_view(WeftRequest *request, const WeftRecord *tenant, GError **error)
{
    g_autofree char *key = weft_cluster_key(tenant->key, weft_request_query(request, "name"));
    g_autoptr(WeftRecord) record = weft_store_get(request->store, WEFT_KIND_CLUSTER, key, error);
    return record ? cluster_view(request, record, error) : NULL;
}

static gboolean
list_by_name(WeftRequest *request, const char *tenant, GError **error)
{
    GError *failure = NULL;
    if (!tenant)
        return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_TENANT }, namesake_view, error);
    WeftRecord record = { .kind = WEFT_KIND_TENANT, .key = (char *)tenant };
    g_autofree char *item = namesake_view(request, &record, &failure);
    if (failure) {
        g_propagate_error(error, failure);
        return FALSE;
    }
    return weft_request_reply(request, weft_page_of(item));
}

gboolean
weft_handle_cluster_list(WeftRequest *request, GError **error)
{
    const char *tenant = NULL;
    const char *name = weft_request_query(request, "name");
    if (!weft_request_scope(request, &tenant, error) || (name && !weft_name_check(name, "cluster name", error)))
        return FALSE;
    if (name)
        return list_by_name(request, tenant, error);
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_CLUSTER, .scope = tenant }, cluster_view, error);
}

gboolean
weft_handle_cluster_get(WeftRequest *request, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, error);
    WeftReply *reply = cluster ? weft_cluster_reply(request, 200, cluster, error) : NULL;
    return reply ? weft_request_reply(request, reply) : FALSE;
}

static char *
node_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftNode) node = weft_record_node(record, error);
    return node ? weft_view_text(weft_view_node(node, weft_request_sees_all(request))) : NULL;
}

gboolean
weft_handle_node_list(WeftRequest *request, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, error);
    if (!cluster)
        return FALSE;
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_NODE, .scope = cluster->id }, node_view, error);
}

/* --- changing --- */

static char *
amount_text(WeftQuota quota, guint64 amount)
{
    return weft_quota_is_size(quota) ? weft_size_format(amount) : g_strdup_printf("%" G_GUINT64_FORMAT, amount);
}

gboolean
weft_check_quota(WeftRequest *request, const WeftTenant *tenant, WeftQuota quota, guint64 more, GError **error)
{
    guint64 used = 0, limit = tenant->quota[quota];
    if (!limit || !more)
        return TRUE;
    if (!weft_store_quota_used(request->store, tenant->name, quota, &used, error))
        return FALSE;
    if (used <= limit && more <= limit - used)
        return TRUE;
    g_autofree char *used_text = amount_text(quota, used);
    g_autofree char *limit_text = amount_text(quota, limit);
    g_autofree char *more_text = amount_text(quota, more);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED,
                "quota of tenant %s: %s %s of %s in use, %s more asked for; remove a %s or ask an admin to raise it",
                tenant->name, weft_quota_words[quota], used_text, limit_text, more_text,
                quota == WEFT_QUOTA_STORAGE ? "checkpoint or a cluster" : "cluster");
    return FALSE;
}

/* What does not grow is not checked: a quota that was lowered below what is in use must not keep a cluster from shrinking. */
static gboolean
check_quotas(WeftRequest *request, WeftTenant *tenant, const WeftCluster *before, const WeftCluster *after, GError **error)
{
    guint64 had[WEFT_QUOTAS] = { 0 }, wants[WEFT_QUOTAS] = { 0 };
    if (before)
        weft_cluster_demand(before, had);
    weft_cluster_demand(after, wants);
    for (guint i = 0; i < WEFT_QUOTAS; i++) {
        if (wants[i] <= had[i])
            tenant->quota[i] = 0;
        else if (!weft_check_quota(request, tenant, (WeftQuota)i, wants[i] - had[i], error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
check_name(WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    GError *failure = NULL;
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    g_autoptr(WeftCluster) other = weft_store_load_cluster(request->store, key, NULL, &failure);
    if (!other && g_error_matches(failure, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        g_error_free(failure);
        return TRUE;
    }
    if (other && other->deleted)
        g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                    "cluster %s is still being removed; wait with: weft wait %s --for deleted", other->name, other->name);
    else if (other)
        g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_CONFLICT, "cluster %s exists already", other->name);
    g_propagate_error(error, failure);
    return FALSE;
}

static gboolean
check_fabric(WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    GError *failure = NULL;
    if (!cluster->fabric)
        return TRUE;
    g_autoptr(WeftRecord) fabric = weft_store_get(request->store, WEFT_KIND_FABRIC, cluster->fabric, &failure);
    if (!fabric && !failure)
        g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_INVALID, "fabric: \"%s\" is not known; leave it out for any",
                    cluster->fabric);
    if (failure)
        g_propagate_error(error, failure);
    return fabric != NULL;
}

/* Whether the manager heeds service levels, and how fast links are, only placement knows. */
static gboolean
check_bandwidth(WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    if (!cluster->bandwidth)
        return TRUE;
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &(WeftQuery){ .kind = WEFT_KIND_FABRIC }, error);
    if (!records)
        return FALSE;
    for (guint i = 0; i < records->len; i++) {
        g_autoptr(WeftFabric) fabric = weft_record_fabric(records->pdata[i], error);
        if (!fabric)
            return FALSE;
        if (fabric->qos.n && (!cluster->fabric || g_str_equal(cluster->fabric, fabric->name)))
            return TRUE;
    }
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                "bandwidth: %s %s guarantees none; leave it out, or ask an operator for lanes (qos in weft.yaml)",
                cluster->fabric ? "fabric" : "the", cluster->fabric ? cluster->fabric : "site");
    return FALSE;
}

/* The first that the tenant has not; NULL: it has all. */
static const char *
missing_share(const WeftFabric *fabric, const WeftCluster *cluster)
{
    for (guint i = 0; i < cluster->shared->len; i++) {
        const WeftShared *shared = weft_fabric_shared(fabric, cluster->shared->pdata[i]);
        if (!shared || !weft_shared_allows(shared, cluster->tenant))
            return cluster->shared->pdata[i];
    }
    return NULL;
}

/* What it shares is on one fabric: that is where it goes. What a tenant may not have is to it as if it were not there. */
static gboolean
settle_shared(WeftRequest *request, WeftCluster *cluster, GError **error)
{
    if (cluster->shared->len == 0)
        return TRUE;
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &(WeftQuery){ .kind = WEFT_KIND_FABRIC }, error);
    const char *missing = cluster->shared->pdata[0];
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftFabric) fabric = weft_record_fabric(records->pdata[i], error);
        if (!fabric)
            return FALSE;
        if (cluster->fabric && !g_str_equal(cluster->fabric, fabric->name))
            continue;
        missing = missing_share(fabric, cluster);
        if (!missing) {
            g_free(cluster->fabric);
            cluster->fabric = g_strdup(fabric->name);
            return TRUE;
        }
    }
    if (records)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "shared: tenant %s has no shared partition \"%s\"%s%s; leave it out, or ask an operator for it (shared in "
                    "weft.yaml)",
                    cluster->tenant, missing, cluster->fabric ? " on fabric " : "", cluster->fabric ? cluster->fabric : "");
    return FALSE;
}

/* The fabric that it names, or all. */
static GPtrArray *
list_fabrics(WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    if (!cluster->fabric)
        return weft_store_list(request->store, &(WeftQuery){ .kind = WEFT_KIND_FABRIC }, error);
    WeftRecord *fabric = weft_store_get(request->store, WEFT_KIND_FABRIC, cluster->fabric, error);
    GPtrArray *fabrics = fabric ? g_ptr_array_new_with_free_func((GDestroyNotify)weft_record_free) : NULL;
    if (fabric)
        g_ptr_array_add(fabrics, fabric);
    return fabrics;
}

/* Once and for all: what it is counted for is what it gets, whatever hosts come later. */
static gboolean
settle_path(WeftRequest *request, WeftCluster *cluster, GError **error)
{
    guint64 bare = 0, able = 0;
    g_autoptr(GPtrArray) fabrics = list_fabrics(request, cluster, error);
    for (guint i = 0; fabrics && i < fabrics->len; i++) {
        guint64 more_bare = 0, more_able = 0;
        const char *fabric = ((const WeftRecord *)fabrics->pdata[i])->key;
        if (!weft_store_count_hosts(request->store, fabric, &more_bare, &more_able, error))
            return FALSE;
        bare += more_bare;
        able += more_able;
    }
    cluster->bridged = bare > 0 && able == 0;
    return fabrics != NULL;
}

/* To go before others is not a tenant's own to decide; to let others go first is. */
static gboolean
check_priority(WeftRequest *request, const WeftTenant *tenant, const WeftCluster *cluster, GError **error)
{
    if (cluster->priority <= tenant->priority_max || request->principal->role >= WEFT_ROLE_OPERATOR)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_DENIED,
                             "priority: %d is more than tenant %s may ask for; ask for at most %d, or an admin to raise its "
                             "priority_max",
                             cluster->priority, tenant->name, tenant->priority_max);
}

/* Who has such nodes keeps them, and may let some go: only those that are new have to be granted. */
static gboolean
check_devices(const WeftTenant *tenant, const WeftCluster *before, const WeftCluster *after, GError **error)
{
    guint kinds = 0;
    for (guint i = 0; i < after->groups->len; i++) {
        const WeftGroup *group = after->groups->pdata[i];
        guint had = before ? ((const WeftGroup *)before->groups->pdata[i])->count : 0;
        kinds |= group->count > had ? weft_group_devices(group) : 0;
    }
    return weft_tenant_check_devices(tenant, kinds, error);
}

gboolean
weft_check_wish(WeftRequest *request, WeftTenant *tenant, WeftCluster *cluster, WeftTxn *txn, GError **error)
{
    return check_priority(request, tenant, cluster, error) && check_devices(tenant, NULL, cluster, error) &&
           weft_settle_images(request, cluster, txn, error) && check_name(request, cluster, error) &&
           check_fabric(request, cluster, error) && settle_shared(request, cluster, error) &&
           settle_path(request, cluster, error) && check_bandwidth(request, cluster, error) &&
           check_quotas(request, tenant, NULL, cluster, error);
}

/* Tenants do not know hosts: who could name them could choose beside whom to be. Asked of the body as it came: a list of hosts
 * takes time to expand. */
static gboolean
check_hosts(WeftRequest *request, GError **error)
{
    json_t *hosts = json_object_get(request->body, "hosts");
    return !hosts || json_is_null(hosts) || request->principal->role >= WEFT_ROLE_OPERATOR ||
           weft_error_refuse(error, WEFT_ERROR_DENIED, "hosts: only operators may name hosts; leave it out, or ask for labels");
}

WeftCluster *
weft_read_wish(WeftRequest *request, WeftTenant *tenant, WeftTxn *txn, GError **error)
{
    g_autoptr(WeftCluster) cluster = check_hosts(request, error) ? weft_cluster_from_spec(request->body, error) : NULL;
    if (!cluster)
        return NULL;
    cluster->id = weft_id_new();
    cluster->tenant = g_strdup(tenant->name);
    cluster->creator = g_strdup(request->principal->name);
    cluster->created = weft_clock_now();
    return weft_check_wish(request, tenant, cluster, txn, error) ? g_steal_pointer(&cluster) : NULL;
}

gboolean
weft_handle_cluster_create(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftTenant) tenant = weft_request_tenant(request, &revision, error);
    g_autoptr(WeftTxn) txn = weft_txn_new("cluster-created");
    g_autoptr(WeftCluster) cluster = tenant ? weft_read_wish(request, tenant, txn, error) : NULL;
    WeftReply *reply = cluster ? weft_cluster_reply(request, 201, cluster, error) : NULL;
    if (!reply)
        return FALSE;
    weft_reply_header(reply, "Location", "/v1/clusters/%s", cluster->id);

    weft_txn_put_cluster(txn, cluster, tenant, WEFT_ABSENT);
    weft_txn_expect(txn, WEFT_KIND_TENANT, tenant->name, revision);
    weft_txn_tell(txn, "cluster-created", cluster, NULL, "%s asked for %u node%s", cluster->creator,
                  weft_cluster_count(cluster), weft_cluster_count(cluster) == 1 ? "" : "s");
    return weft_request_commit(request, g_steal_pointer(&txn), reply);
}

/* A list of quoted tags, or "*". */
static gboolean
check_etag(const WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    const char *wanted = request->headers.if_match;
    if (!wanted)
        return TRUE;
    g_autofree char *etag = weft_view_etag(cluster);
    g_auto(GStrv) tags = g_strsplit(wanted, ",", -1);
    for (guint i = 0; tags[i]; i++)
        if (strcmp(g_strstrip(tags[i]), etag) == 0 || strcmp(tags[i], "*") == 0)
            return TRUE;
    g_set_error(error, WEFT_HTTP_ERROR, 412, "cluster %s has changed meanwhile; look at it again", cluster->name);
    return FALSE;
}

static gboolean
read_scale(WeftRequest *request, WeftCluster *cluster, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    const char *group = weft_fields_string(&f, "group", NULL);
    guint count = (guint)weft_fields_uint(&f, "count", 0, WEFT_NODES_MAX, WEFT_REQUIRED);
    return weft_fields_end(&f, error) && weft_cluster_scale(cluster, group, count, error);
}

gboolean
weft_handle_cluster_scale(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftCluster) before = weft_find_cluster(request, &revision, error);
    if (!before || !check_etag(request, before, error))
        return FALSE;
    if (before->deleted) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                    "cluster %s is being removed and cannot be scaled; create a new one", before->name);
        return FALSE;
    }
    g_autoptr(WeftCluster) cluster = weft_cluster_copy(before);
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(request->store, cluster->tenant, NULL, error);
    if (!tenant || !read_scale(request, cluster, error) || !check_devices(tenant, before, cluster, error) ||
        !check_quotas(request, tenant, before, cluster, error))
        return FALSE;
    if (weft_cluster_count(cluster) > weft_cluster_count(before))
        cluster->scaled = weft_clock_now();
    WeftReply *reply = weft_cluster_reply(request, 200, cluster, error);
    if (!reply)
        return FALSE;

    WeftTxn *txn = weft_txn_new("cluster-scaled");
    if (weft_cluster_count(before) != weft_cluster_count(cluster)) {
        weft_txn_put_cluster(txn, cluster, tenant, revision);
        weft_txn_tell(txn, "cluster-scaled", cluster, NULL, "%s asked for %u node%s instead of %u", request->principal->name,
                      weft_cluster_count(cluster), weft_cluster_count(cluster) == 1 ? "" : "s", weft_cluster_count(before));
    }
    return weft_request_commit(request, txn, reply);
}

gboolean
weft_handle_cluster_delete(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, &revision, error);
    if (!cluster || !check_etag(request, cluster, error))
        return FALSE;
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(request->store, cluster->tenant, NULL, error);
    if (!tenant)
        return FALSE;
    gboolean already = cluster->deleted;
    cluster->deleted = TRUE;
    WeftReply *reply = weft_cluster_reply(request, 202, cluster, error);
    if (!reply)
        return FALSE;

    WeftTxn *txn = weft_txn_new("cluster-deleted");
    if (!already) {
        weft_txn_put_cluster(txn, cluster, tenant, revision);
        weft_txn_tell(txn, "cluster-deleting", cluster, NULL, "%s asked for its removal", request->principal->name);
    }
    return weft_request_commit(request, txn, reply);
}
