#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "move-wish.h"
#include "request.h"
#include "views.h"

/* Names of hosts are for operators, who also see which there are. */
static gboolean
check_target(WeftRequest *request, const WeftMoveWish *wish, const WeftNode *node, GError **error)
{
    if (!wish->to)
        return TRUE;
    if (!weft_request_sees_all(request))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "to: hosts are chosen by operators; leave it out for any");
    g_autoptr(WeftHost) to = weft_store_load_host(request->store, wish->to, NULL, error);
    g_autoptr(WeftHost) from = to ? weft_store_load_host(request->store, node->host, NULL, error) : NULL;
    if (!to)
        weft_reword_not_found("host", wish->to, error);
    if (!from)
        return FALSE;
    if (g_str_equal(wish->to, node->host))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "to: it is on host %s already; name another, or leave it out",
                                 wish->to);
    if (!g_str_equal(to->fabric, from->fabric))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "to: host %s is on fabric %s, and the cluster on %s; name another",
                                 to->name, to->fabric, from->fabric);
    return to->draining ? weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                            "to: host %s takes no nodes; let it with: weft host undrain %s", to->name, to->name)
                        : TRUE;
}

/* What would wait for long, or never be, is told now. */
static gboolean
check_calm(WeftRequest *request, const WeftCluster *cluster, const WeftNode *node, GError **error)
{
    g_autofree char *label = weft_node_label(node);
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(request->store, key, NULL, error);
    if (!status)
        return FALSE;
    if (cluster->deleted)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "cluster %s is being removed", cluster->name);
    if (node->phase != WEFT_NODE_READY)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "node %s is %s; wait until it is ready: weft wait %s", label,
                                 weft_node_phase_words[node->phase], cluster->name);
    if (status->phase == WEFT_CLUSTER_CHECKPOINTING)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "cluster %s is %s; wait until it is ready: weft wait %s",
                                 cluster->name, weft_cluster_phase_words[status->phase], cluster->name);
    if (cluster->shm || node->shm)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "node %s shares memory with others on its host (shm), and stays there", label);
    return TRUE;
}

static gboolean
check_unmoved(WeftRequest *request, const WeftNode *node, GError **error)
{
    GError *failure = NULL;
    g_autofree char *label = weft_node_label(node);
    g_autofree char *key = weft_move_key(node->cluster, node->rank);
    g_autoptr(WeftRecord) other = weft_store_get(request->store, WEFT_KIND_MOVE, key, &failure);
    if (other)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "node %s is being moved already; wait with: weft wait %s", label,
                                 node->cluster_name);
    if (failure)
        g_propagate_error(error, failure);
    return failure == NULL;
}

static WeftMoveWish *
read_wish(WeftRequest *request, const WeftNode *node, GError **error)
{
    WeftMoveWish *wish = weft_move_wish_from_spec(request->body, error);
    if (!wish)
        return NULL;
    wish->cluster = g_strdup(node->cluster);
    wish->rank = node->rank;
    wish->node = g_strdup(node->id);
    wish->creator = g_strdup(request->principal->name);
    wish->created = weft_clock_now();
    return wish;
}

gboolean
weft_handle_node_move(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, &revision, error);
    g_autoptr(WeftNode) node = cluster ? weft_find_node(request, cluster, error) : NULL;
    g_autoptr(WeftMoveWish) wish = node ? read_wish(request, node, error) : NULL;
    if (!wish || !check_calm(request, cluster, node, error) || !check_unmoved(request, node, error) ||
        !check_target(request, wish, node, error))
        return FALSE;
    g_autofree char *label = weft_node_label(node);
    WeftTxn *txn = weft_txn_new("move-asked");
    weft_txn_put_move(txn, wish, NULL, WEFT_ABSENT);
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    weft_txn_expect(txn, WEFT_KIND_CLUSTER, key, revision);
    weft_txn_tell(txn, "node-move-asked", cluster, node->host, "%s asked to move %s to another host", wish->creator, label);
    json_t *view = weft_view_move(wish, node, NULL, weft_request_sees_all(request));
    return weft_request_commit(request, txn, weft_reply_new(202, view));
}

static gboolean
refuse_unmoved(const WeftNode *node, GError **error)
{
    g_autofree char *label = weft_node_label(node);
    return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "node %s is not being moved", label);
}

gboolean
weft_handle_node_move_get(WeftRequest *request, GError **error)
{
    g_autoptr(GError) failure = NULL;
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, error);
    g_autoptr(WeftNode) node = cluster ? weft_find_node(request, cluster, error) : NULL;
    if (!node)
        return FALSE;
    g_autofree char *move = weft_move_key(node->cluster, node->rank);
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    g_autoptr(WeftMoveWish) wish = weft_store_load_move(request->store, move, NULL, &failure);
    g_autoptr(WeftClusterStatus) status = wish ? weft_store_load_cluster_status(request->store, key, NULL, &failure) : NULL;
    if (g_error_matches(failure, WEFT_ERROR, WEFT_ERROR_NOT_FOUND) && !wish)
        return refuse_unmoved(node, error);
    if (!status) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return FALSE;
    }
    return weft_request_reply(request, weft_reply_new(200, weft_view_move(wish, node, status, weft_request_sees_all(request))));
}

/* --- not after all --- */

static gboolean
check_asked(const WeftMoveWish *wish, const WeftNode *node, GError **error)
{
    g_autofree char *label = weft_node_label(node);
    return wish->creator || weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                              "node %s is moved since its host is being emptied; operators end that with: "
                                              "weft host undrain",
                                              label);
}

/* invariant: the record keeps its place, the host that the node is on its way to, since it is written as it was read. */
static gboolean
call_off(WeftRequest *request, const WeftCluster *cluster, const WeftNode *node, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftMoveWish) wish = weft_record_move(record, error);
    if (!wish || !check_asked(wish, node, error))
        return FALSE;
    gboolean again = wish->called_off != NULL;
    if (!again)
        wish->called_off = g_strdup(request->principal->name);
    WeftReply *reply = weft_reply_new(202, weft_view_move(wish, node, NULL, weft_request_sees_all(request)));
    if (again)
        return weft_request_reply(request, reply);
    g_autofree char *label = weft_node_label(node);
    WeftTxn *txn = weft_txn_new("move-called-off");
    weft_txn_put_move(txn, wish, *record->place ? record->place : NULL, record->revision);
    weft_txn_tell(txn, "node-move-called-off", cluster, node->host, "%s called the move of %s off", wish->called_off, label);
    return weft_request_commit(request, txn, reply);
}

gboolean
weft_handle_node_move_cancel(WeftRequest *request, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, error);
    g_autoptr(WeftNode) node = cluster ? weft_find_node(request, cluster, error) : NULL;
    g_autoptr(GError) failure = NULL;
    if (!node)
        return FALSE;
    g_autofree char *key = weft_move_key(node->cluster, node->rank);
    g_autoptr(WeftRecord) record = weft_store_get(request->store, WEFT_KIND_MOVE, key, &failure);
    if (record)
        return call_off(request, cluster, node, record, error);
    if (!failure)
        return refuse_unmoved(node, error);
    g_propagate_error(error, g_steal_pointer(&failure));
    return FALSE;
}
