#include "clock.h"
#include "errors.h"
#include "fields.h"
#include "handlers.h"
#include "id.h"
#include "names.h"
#include "page.h"
#include "views.h"

#include <string.h>

/* --- finding --- */

static char *
checkpoint_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftCheckpoint) checkpoint = weft_record_checkpoint(record, error);
    if (!checkpoint || checkpoint->hidden)
        return NULL;
    return weft_view_text(weft_view_checkpoint(checkpoint, weft_request_sees_all(request)));
}

gboolean
weft_handle_checkpoint_list(WeftRequest *request, GError **error)
{
    const char *tenant = NULL;
    if (!weft_request_scope(request, &tenant, error))
        return FALSE;
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_CHECKPOINT, .scope = tenant }, checkpoint_view, error);
}

WeftCheckpoint *
weft_find_checkpoint(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *name = request->match.params[0];
    g_autoptr(WeftTenant) tenant = weft_request_tenant(request, NULL, error);
    if (!tenant)
        return NULL;
    g_autofree char *key = weft_cluster_key(tenant->name, name);
    g_autoptr(GError) failure = NULL;
    g_autoptr(WeftCheckpoint) checkpoint = weft_store_load_checkpoint(request->store, key, ret_revision, &failure);
    if (checkpoint && !checkpoint->hidden)
        return g_steal_pointer(&checkpoint);
    if (failure && !g_error_matches(failure, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        g_propagate_error(error, g_steal_pointer(&failure));
    else
        weft_not_found("checkpoint", name, error);
    return NULL;
}

gboolean
weft_handle_checkpoint_get(WeftRequest *request, GError **error)
{
    g_autoptr(WeftCheckpoint) checkpoint = weft_find_checkpoint(request, NULL, error);
    return checkpoint &&
           weft_request_reply(request, weft_reply_new(200, weft_view_checkpoint(checkpoint, weft_request_sees_all(request))));
}

/* --- making one --- */

/* What is known now; the reconciler looks again when it begins. */
static gboolean
check_node(WeftRequest *request, const WeftCluster *cluster, const WeftNode *node, GError **error)
{
    const char *why = weft_checkpoint_obstacle(cluster, node);
    if (node->target)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "cluster %s: a node of it is being moved; try again when it is ready", cluster->name);
    return !why || weft_error_refuse(error, WEFT_ERROR_INVALID, "cluster %s: %s", cluster->name, why);
}

static gboolean
check_nodes(WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = cluster->id };
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftNode) node = weft_record_node(records->pdata[i], error);
        if (!node || !check_node(request, cluster, node, error))
            return FALSE;
    }
    return records != NULL;
}

static gboolean
check_others(WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_CHECKPOINT, .place = cluster->id };
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftCheckpoint) other = weft_record_checkpoint(records->pdata[i], error);
        if (!other)
            return FALSE;
        if (weft_checkpoint_is_being_made(other))
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                     "cluster %s: %s is being made of it; wait until it is complete", cluster->name,
                                     other->hidden ? "another checkpoint" : other->name);
    }
    return records != NULL;
}

static gboolean
check_ready(WeftRequest *request, const WeftCluster *cluster, gint64 *ret_revision, GError **error)
{
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(request->store, key, ret_revision, NULL);
    WeftClusterPhase phase = status ? status->phase : WEFT_CLUSTER_QUEUED;
    if (!cluster->deleted && phase == WEFT_CLUSTER_READY)
        return TRUE;
    return weft_error_refuse(
        error, WEFT_ERROR_CONFLICT, "cluster %s is %s, and only one that is ready can be put aside; wait with: weft wait %s",
        cluster->name, cluster->deleted ? "being removed" : weft_cluster_phase_words[phase], cluster->name);
}

static gboolean
check_limit(WeftRequest *request, const char *tenant, GError **error)
{
    guint64 used = 0;
    if (!weft_store_checkpoints_used(request->store, tenant, &used, error))
        return FALSE;
    return used < WEFT_CHECKPOINTS_MAX ||
           weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                             "tenant %s has %u checkpoints, and more are not kept; remove one with: weft checkpoints rm NAME",
                             tenant, WEFT_CHECKPOINTS_MAX);
}

/* The first of cluster-1, cluster-2 … that is free. */
static char *
choose_name(WeftRequest *request, const WeftCluster *cluster)
{
    for (guint n = 1;; n++) {
        g_autofree char *name = g_strdup_printf("%.30s-%u", cluster->name, n);
        g_autofree char *key = weft_cluster_key(cluster->tenant, name);
        g_autoptr(WeftRecord) taken = weft_store_get(request->store, WEFT_KIND_CHECKPOINT, key, NULL);
        if (!taken)
            return g_steal_pointer(&name);
    }
}

gboolean
weft_checkpoint_name_check(WeftRequest *request, const char *tenant, const char *name, GError **error)
{
    if (!weft_name_check(name, "checkpoint name", error))
        return FALSE;
    if (g_str_has_prefix(name, WEFT_CHECKPOINT_HIDDEN))
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "name: \"%s\" begins as those that weft makes for itself; choose another", name);
    g_autofree char *key = weft_cluster_key(tenant, name);
    g_autoptr(WeftRecord) taken = weft_store_get(request->store, WEFT_KIND_CHECKPOINT, key, NULL);
    return !taken || weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                       "checkpoint %s exists already; remove it, or choose another name", name);
}

static WeftCheckpoint *
checkpoint_of(WeftRequest *request, const WeftCluster *cluster, const char *name)
{
    WeftCheckpoint *checkpoint = weft_checkpoint_new();
    checkpoint->tenant = g_strdup(cluster->tenant);
    checkpoint->name = name ? g_strdup(name) : choose_name(request, cluster);
    checkpoint->cluster = g_strdup(cluster->id);
    checkpoint->wish = weft_cluster_copy(cluster);
    checkpoint->creator = g_strdup(request->principal->name);
    checkpoint->created = weft_clock_now();
    return checkpoint;
}

static gboolean
read_text(WeftRequest *request, const char *field, char **ret_text, GError **error)
{
    if (!request->body)
        return TRUE;
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    *ret_text = g_strdup(weft_fields_string(&f, field, NULL));
    return weft_fields_end(&f, error);
}

static gboolean
read_asked(WeftRequest *request, char **ret_name, gboolean *ret_disrupt, GError **error)
{
    if (!request->body)
        return TRUE;
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    *ret_name = g_strdup(weft_fields_string(&f, "name", NULL));
    *ret_disrupt = weft_fields_bool(&f, "disrupt", FALSE);
    return weft_fields_end(&f, error);
}

gboolean
weft_handle_checkpoint_make(WeftRequest *request, GError **error)
{
    gint64 revision = 0, status = 0;
    g_autofree char *name = NULL;
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, &revision, error);
    gboolean disrupt = FALSE;
    g_autoptr(WeftTenant) tenant = cluster ? weft_store_load_tenant(request->store, cluster->tenant, NULL, error) : NULL;
    if (!tenant || !read_asked(request, &name, &disrupt, error) ||
        (name && !weft_checkpoint_name_check(request, cluster->tenant, name, error)) ||
        !check_others(request, cluster, error) || !check_ready(request, cluster, &status, error) ||
        !check_nodes(request, cluster, error) || !check_limit(request, cluster->tenant, error))
        return FALSE;
    g_autoptr(WeftCheckpoint) checkpoint = checkpoint_of(request, cluster, name);
    checkpoint->disrupt = disrupt;
    if (!weft_check_quota(request, tenant, WEFT_QUOTA_STORAGE, weft_checkpoint_storage(checkpoint), error))
        return FALSE;
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    WeftReply *reply = weft_reply_new(201, weft_view_checkpoint(checkpoint, weft_request_sees_all(request)));
    weft_reply_header(reply, "Location", "/v1/checkpoints/%s", checkpoint->name);
    WeftTxn *txn = weft_txn_new("checkpoint-asked");
    weft_txn_put_checkpoint(txn, checkpoint, tenant, WEFT_ABSENT);
    weft_txn_expect(txn, WEFT_KIND_CLUSTER, key, revision);
    weft_txn_expect(txn, WEFT_KIND_CLUSTER_STATUS, key, status);
    weft_txn_tell(txn, "checkpoint-wanted", cluster, NULL, "%s asked for checkpoint %s", request->principal->name,
                  checkpoint->name);
    return weft_request_commit(request, txn, reply);
}

/* --- removing --- */

/* A cluster that is being restored from it; NULL: none is. */
static char *
find_user(WeftRequest *request, const WeftCheckpoint *checkpoint, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_CLUSTER, .scope = checkpoint->tenant };
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftCluster) cluster = weft_record_cluster(records->pdata[i], error);
        if (!cluster || cluster->deleted || g_strcmp0(cluster->checkpoint, checkpoint->name) != 0)
            continue;
        const char *key = ((const WeftRecord *)records->pdata[i])->key;
        g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(request->store, key, NULL, NULL);
        if (!status || !status->restored)
            return g_strdup(cluster->name);
    }
    return NULL;
}

gboolean
weft_handle_checkpoint_remove(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftCheckpoint) checkpoint = weft_find_checkpoint(request, &revision, error);
    g_autoptr(GError) failure = NULL;
    if (!checkpoint)
        return FALSE;
    if (weft_checkpoint_is_being_made(checkpoint))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "checkpoint %s is being made; wait until it is complete",
                                 checkpoint->name);
    g_autofree char *user = find_user(request, checkpoint, &failure);
    if (failure) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return FALSE;
    }
    if (user)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "checkpoint %s: cluster %s is being restored from it; wait with: weft wait %s, or remove it",
                                 checkpoint->name, user, user);
    WeftTxn *txn = weft_txn_new("checkpoint-removed");
    weft_txn_remove_checkpoint(txn, checkpoint, revision);
    WeftEvent event = { .type = (char *)"checkpoint-removed", .tenant = checkpoint->tenant };
    g_autofree char *message = g_strdup_printf("%s removed checkpoint %s", request->principal->name, checkpoint->name);
    event.message = message;
    weft_txn_put_event(txn, &event);
    return weft_request_commit(request, txn, weft_reply_new(204, NULL));
}

/* --- restoring --- */

/* What its nodes were is what they are to be again. */
static void
fix_group(WeftGroup *group, const WeftCheckpoint *checkpoint)
{
    group->count = 0;
    for (guint i = 0; i < checkpoint->nodes->len; i++) {
        const WeftCheckpointNode *node = checkpoint->nodes->pdata[i];
        if (strcmp(node->group, group->name) != 0)
            continue;
        group->count++;
        group->path = node->path;
        group->locality = WEFT_LOCALITY_REQUIRED;
        if (node->path == WEFT_PATH_BRIDGE)
            group->rails = 0;
    }
}

static WeftCluster *
wish_of(WeftRequest *request, const WeftCheckpoint *checkpoint, const char *name)
{
    WeftCluster *cluster = weft_cluster_copy(checkpoint->wish);
    char **texts[] = { &cluster->id,       &cluster->creator, &cluster->checkpoint, &cluster->keys,
                       &cluster->clone_of, &cluster->capture, &cluster->hosts };
    g_autofree char *keys = checkpoint->imported ? NULL : g_strdup(weft_cluster_keys(checkpoint->wish));
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++)
        g_clear_pointer(texts[i], g_free);
    if (name) {
        g_free(cluster->name);
        cluster->name = g_strdup(name);
    }
    g_free(cluster->tenant);
    cluster->tenant = g_strdup(checkpoint->tenant);
    cluster->id = weft_id_new();
    cluster->creator = g_strdup(request->principal->name);
    cluster->checkpoint = g_strdup(checkpoint->name);
    cluster->keys = g_steal_pointer(&keys);
    cluster->created = weft_clock_now();
    cluster->scaled = 0;
    cluster->deleted = FALSE;
    for (guint i = 0; i < cluster->groups->len; i++)
        fix_group(cluster->groups->pdata[i], checkpoint);
    return cluster;
}

static gboolean
refuse_held(const WeftCheckpoint *checkpoint, const WeftRecord *holder, GError **error)
{
    g_autoptr(WeftNode) node = holder->kind == WEFT_KIND_NODE ? weft_record_node(holder, NULL) : NULL;
    /* Whose it is otherwise is not theirs to know. */
    const char *name = node && strcmp(node->tenant, checkpoint->tenant) == 0 ? node->cluster_name : NULL;
    return weft_error_refuse(
        error, WEFT_ERROR_CONFLICT, "checkpoint %s: %s%s has the addresses that its nodes know; remove that cluster first%s%s",
        checkpoint->name, name ? "cluster " : "another cluster", name ? name : "", name ? ": weft rm " : "", name ? name : "");
}

/* Its guests know the addresses that they had: nobody else may have them. The claims of the nodes decide. */
static gboolean
check_addresses(WeftRequest *request, const WeftCheckpoint *checkpoint, GError **error)
{
    for (guint i = 0; i < checkpoint->nodes->len; i++) {
        const WeftCheckpointNode *node = checkpoint->nodes->pdata[i];
        g_autoptr(GError) failure = NULL;
        g_autoptr(WeftRecord) holder = weft_store_holder_of_mac(request->store, node->mac, &failure);
        if (holder)
            return refuse_held(checkpoint, holder, error);
        if (failure) {
            g_propagate_error(error, g_steal_pointer(&failure));
            return FALSE;
        }
    }
    return TRUE;
}

/* The same for one that has no nodes yet. */
static gboolean
check_restoring(WeftRequest *request, const WeftCheckpoint *checkpoint, GError **error)
{
    g_autofree char *user = find_user(request, checkpoint, error);
    return !user || weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                      "checkpoint %s: cluster %s is being restored from it, and its nodes can be there once",
                                      checkpoint->name, user);
}

gboolean
weft_handle_checkpoint_restore(WeftRequest *request, GError **error)
{
    gint64 revision = 0, tenant_revision = 0;
    g_autofree char *name = NULL;
    g_autoptr(WeftTxn) txn = weft_txn_new("cluster-restored");
    g_autoptr(WeftCheckpoint) checkpoint = weft_find_checkpoint(request, &revision, error);
    if (!checkpoint || !read_text(request, "as", &name, error) || (name && !weft_name_check(name, "cluster name", error)))
        return FALSE;
    if (checkpoint->state != WEFT_CHECKPOINT_COMPLETE)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "checkpoint %s is %s, and nothing can be restored from it%s%s",
                                 checkpoint->name,
                                 checkpoint->state == WEFT_CHECKPOINT_FAILED ? "one that failed" : "still being made",
                                 checkpoint->reason ? ": " : "", checkpoint->reason ? checkpoint->reason : "");
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(request->store, checkpoint->tenant, &tenant_revision, error);
    g_autoptr(WeftCluster) cluster = wish_of(request, checkpoint, name);
    if (!tenant || !weft_check_wish(request, tenant, cluster, txn, error) || !check_addresses(request, checkpoint, error) ||
        !check_restoring(request, checkpoint, error))
        return FALSE;
    WeftReply *reply = weft_cluster_reply(request, 201, cluster, error);
    if (!reply)
        return FALSE;
    weft_reply_header(reply, "Location", "/v1/clusters/%s", cluster->id);
    checkpoint->restored = cluster->created; /* also so that whoever removes it meanwhile looks again */
    weft_txn_put_checkpoint(txn, checkpoint, NULL, revision);
    weft_txn_put_cluster(txn, cluster, tenant, WEFT_ABSENT);
    weft_txn_expect(txn, WEFT_KIND_TENANT, tenant->name, tenant_revision);
    weft_txn_tell(txn, "cluster-created", cluster, NULL, "%s asked for it to be restored from checkpoint %s", cluster->creator,
                  checkpoint->name);
    return weft_request_commit(request, g_steal_pointer(&txn), reply);
}
