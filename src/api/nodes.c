#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "network.h"
#include "problem.h"
#include "request.h"
#include "rounds.h"
#include "views.h"

/* --- finding --- */

static int
by_rank(gconstpointer a, gconstpointer b)
{
    const WeftNode *left = *(WeftNode *const *)a, *right = *(WeftNode *const *)b;
    return (int)left->rank - (int)right->rank;
}

/* The nodes that stay, by rank. */
static GPtrArray *
list_nodes(WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = cluster->id };
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &query, error);
    if (!records)
        return NULL;
    g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    for (guint i = 0; i < records->len; i++) {
        WeftNode *node = weft_record_node(records->pdata[i], error);
        if (!node)
            return NULL;
        if (node->phase == WEFT_NODE_STOPPING)
            weft_node_free(node);
        else
            g_ptr_array_add(nodes, node);
    }
    g_ptr_array_sort(nodes, by_rank);
    return g_steal_pointer(&nodes);
}

/* The first nodes of a cluster have their rank as the serial number: most are found without a look at the others. */
static WeftNode *
guess_node(WeftRequest *request, const WeftCluster *cluster, guint rank)
{
    g_autofree char *id = weft_node_id(cluster->id, rank);
    g_autoptr(WeftNode) node = weft_store_load_node(request->store, id, NULL, NULL);
    return node && node->rank == rank && node->phase != WEFT_NODE_STOPPING ? g_steal_pointer(&node) : NULL;
}

WeftNode *
weft_find_node(WeftRequest *request, const WeftCluster *cluster, GError **error)
{
    guint64 rank = 0;
    const char *text = request->match.params[1];
    if (!g_ascii_string_to_unsigned(text, 10, 0, G_MAXUINT16, &rank, NULL)) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "rank: must be a number, as in %s[0]", cluster->name);
        return NULL;
    }
    WeftNode *node = guess_node(request, cluster, (guint)rank);
    g_autoptr(GPtrArray) nodes = node ? NULL : list_nodes(request, cluster, error);
    if (node || !nodes)
        return node;
    for (guint i = 0; i < nodes->len; i++)
        if (((const WeftNode *)nodes->pdata[i])->rank == rank)
            return g_ptr_array_steal_index(nodes, i);
    weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "node %s[%" G_GUINT64_FORMAT "]: there is none; the cluster has %u",
                      cluster->name, rank, nodes->len);
    return NULL;
}

/* --- getting in --- */

static gboolean
wants_upgrade(WeftRequest *request, const char *protocol)
{
    const char *upgrade = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Upgrade");
    const char *connection = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Connection");
    if (!upgrade || !connection || g_ascii_strcasecmp(upgrade, protocol) != 0)
        return FALSE;
    g_auto(GStrv) words = g_strsplit(connection, ",", -1);
    for (guint i = 0; words[i]; i++)
        if (g_ascii_strcasecmp(g_strstrip(words[i]), "upgrade") == 0)
            return TRUE;
    return FALSE;
}

static void
refuse_plain(WeftRequest *request, const char *protocol)
{
    g_autoptr(GError) error = g_error_new(
        WEFT_HTTP_ERROR, 426, "send the headers \"Connection: Upgrade\" and \"Upgrade: %s\"; weft ssh does", protocol);
    WeftReply *reply = weft_reply_problem(error, error->message);
    weft_reply_header(reply, "Upgrade", "%s", protocol);
    weft_request_reply(request, reply);
}

typedef struct {
    WeftCluster *cluster;
    WeftNode *node;
    WeftGateKind kind;
} Door;

static void
door_free(gpointer data)
{
    Door *door = data;
    weft_cluster_free(door->cluster);
    weft_node_free(door->node);
    g_free(door);
}

static void
open_door(WeftRequest *request, gpointer data)
{
    Door *door = data;
    const char *protocol = weft_session_protocols[door->kind];
    g_autoptr(GError) error = NULL;
    if (!wants_upgrade(request, protocol))
        refuse_plain(request, protocol);
    else if (!weft_sessions_open(request, g_steal_pointer(&door->cluster), g_steal_pointer(&door->node), door->kind, &error))
        weft_request_fail(request, error);
    door_free(door);
}

static gboolean
open_node(WeftRequest *request, WeftGateKind kind, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, error);
    g_autoptr(WeftNode) node = cluster ? weft_find_node(request, cluster, error) : NULL;
    if (!node)
        return FALSE;
    Door *door = g_new(Door, 1);
    *door = (Door){ g_steal_pointer(&cluster), g_steal_pointer(&node), kind };
    return weft_request_go_on(request, open_door, door, door_free);
}

gboolean
weft_handle_node_session(WeftRequest *request, GError **error)
{
    return open_node(request, WEFT_GATE_SESSION, error);
}

gboolean
weft_handle_node_console(WeftRequest *request, GError **error)
{
    return open_node(request, WEFT_GATE_CONSOLE, error);
}

/* --- hostfile --- */

static WeftReply *
hostfile_text(const GPtrArray *nodes)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        g_autofree char *hostname = weft_node_hostname(node);
        g_string_append_printf(text, "%s slots=%u\n", hostname, node->cores->len);
    }
    return weft_reply_text(200, "text/plain; charset=utf-8", text->str);
}

static WeftReply *
hostfile_json(const GPtrArray *nodes)
{
    json_t *items = json_array();
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        g_autofree char *hostname = weft_node_hostname(node);
        g_autofree char *address = weft_node_address(node);
        json_array_append_new(
            items, json_pack("{s:s, s:s, s:i}", "hostname", hostname, "address", address, "slots", (int)node->cores->len));
    }
    return weft_reply_new(200, json_pack("{s:o, s:n}", "items", items, "next"));
}

gboolean
weft_handle_cluster_hostfile(WeftRequest *request, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, error);
    g_autoptr(GPtrArray) nodes = cluster ? list_nodes(request, cluster, error) : NULL;
    if (!nodes)
        return FALSE;
    const char *accept = request->headers.accept;
    gboolean json = accept && strstr(accept, "application/json");
    return weft_request_reply(request, json ? hostfile_json(nodes) : hostfile_text(nodes));
}

/* --- load --- */

/* What the gate knows of each node, by its id; borrows from the report. */
static GHashTable *
index_loads(json_t *report)
{
    GHashTable *loads = g_hash_table_new(g_str_hash, g_str_equal);
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(report, "nodes"), i, item)
        g_hash_table_insert(loads, (gpointer)json_string_value(json_object_get(item, "id")), item);
    return loads;
}

static json_t *
load_view(const WeftNode *node, json_t *load)
{
    g_autofree char *label = weft_node_label(node);
    json_t *at = json_object_get(load, "time"), *cpu = json_object_get(load, "cpu");
    json_t *used = json_object_get(load, "memory");
    g_autofree char *time = json_is_integer(at) ? weft_clock_format(json_integer_value(at)) : NULL;
    return json_pack("{s:s, s:s, s:i, s:i, s:I, s:o, s:o, s:s?}", "id", node->id, "name", label, "rank", (int)node->rank,
                     "cores", (int)node->cores->len, "memory", (json_int_t)weft_node_memory(node), "cpu_seconds",
                     cpu ? json_incref(cpu) : json_null(), "memory_used", used ? json_incref(used) : json_null(), "time", time);
}

static void
answer_load(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, &error);
    g_autoptr(GPtrArray) nodes = cluster ? list_nodes(request, cluster, &error) : NULL;
    if (nodes && items[0].error)
        weft_problem_refuse(&error, WEFT_ERROR_UNAVAILABLE, "cluster %s: its hosts do not answer; try again later",
                            cluster->name);
    if (!nodes || error) {
        weft_request_fail(request, error);
        return;
    }
    json_t *views = json_array();
    g_autoptr(GHashTable) loads = index_loads(items[0].report);
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        json_array_append_new(views, load_view(node, g_hash_table_lookup(loads, node->id)));
    }
    weft_request_reply(request, weft_reply_new(200, json_pack("{s:o, s:n}", "items", views, "next")));
}

gboolean
weft_handle_cluster_load(WeftRequest *request, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, error);
    if (!cluster)
        return FALSE;
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(names, g_steal_pointer(&cluster->id));
    return weft_round_ask(request, WEFT_SHARE_QUESTIONS, WEFT_GATE_ASK(request, load), names, answer_load, error);
}
