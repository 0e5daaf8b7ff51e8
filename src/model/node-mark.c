#include "node-mark.h"

#include "errors.h"
#include "id.h"
#include "topology.h"

#include <string.h>

/* What becomes of a node on its host is its record's. */
static const char *const passing[] = { "reason",    "detail", "met",    "boot", "bereft",   "still", "copied",
                                       "copy_time", "starts", "target", "cold", "template", "primed" };
/* What may be changed of a cluster, and what may be large. */
static const char *const changing[] = { "user_data", "pattern", "priority", "scaled", "deleted" };

static json_t *
node_part(const WeftNode *node)
{
    json_t *json = weft_node_to_json(node);
    for (gsize i = 0; i < G_N_ELEMENTS(passing); i++)
        json_object_del(json, passing[i]);
    json_object_set_new(json, "phase", json_string(weft_node_phase_words[WEFT_NODE_CLAIMED]));
    json_object_set_new(json, "since", json_integer(0));
    return json;
}

static json_t *
cluster_part(const WeftCluster *cluster)
{
    g_autoptr(GArray) none = g_array_new(FALSE, FALSE, sizeof(WeftTraffic));
    WeftCluster bare = *cluster;
    bare.traffic = none; /* each node has a mark, and a matrix of a large cluster takes long to write */
    json_t *json = weft_cluster_to_json(&bare), *group;
    gsize i;
    for (gsize n = 0; n < G_N_ELEMENTS(changing); n++)
        json_object_del(json, changing[n]);
    json_array_foreach (json_object_get(json, "groups"), i, group)
        json_object_set_new(group, "count", json_integer(0));
    return json;
}

static json_t *
digests_of(const WeftImage *image)
{
    json_t *digests = json_array();
    const WeftImageFile *file;
    for (guint i = 0; image && (file = weft_image_file(image, i)); i++)
        json_array_append_new(digests, json_string(file->digest));
    return digests;
}

char *
weft_node_mark_write(const WeftNode *node, const WeftCluster *cluster, const WeftClusterStatus *status, const WeftImage *image)
{
    json_auto_t *json = json_pack("{s:o, s:o, s:s?, s:i, s:I, s:o}", "node", node_part(node), "cluster", cluster_part(cluster),
                                  "fabric", status->fabric, "pkey", (int)status->pkey, "placed", (json_int_t)status->placed,
                                  "digests", digests_of(image));
    char *dumped = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    char *text = g_strdup(dumped);
    free(dumped);
    return text;
}

/* --- reading --- */

static gboolean
read_serial(const WeftNode *node, guint *ret_serial)
{
    gsize n = strlen(node->cluster);
    guint64 serial;
    if (!weft_id_is_valid(node->cluster) || strncmp(node->id, node->cluster, n) != 0 || node->id[n] != '-' ||
        !g_ascii_string_to_unsigned(node->id + n + 1, 10, 0, G_MAXINT, &serial, NULL))
        return FALSE;
    *ret_serial = (guint)serial;
    g_autofree char *id = weft_node_id(node->cluster, *ret_serial);
    return g_str_equal(id, node->id);
}

static gboolean
has_group(const WeftCluster *cluster, const char *name)
{
    for (guint i = 0; i < cluster->groups->len; i++)
        if (g_str_equal(((const WeftGroup *)cluster->groups->pdata[i])->name, name))
            return TRUE;
    return FALSE;
}

static gboolean
are_ascending(const GArray *cores)
{
    for (guint i = 1; i < cores->len; i++)
        if (g_array_index(cores, guint16, i) <= g_array_index(cores, guint16, i - 1))
            return FALSE;
    return TRUE;
}

/* What is wrong with it; NULL: nothing. */
static const char *
find_contradiction(WeftNodeMark *mark)
{
    const WeftNode *node = mark->node;
    const WeftCluster *cluster = mark->cluster;
    return !read_serial(node, &mark->serial)                                      ? "its id does not follow from its cluster's"
           : !g_str_equal(node->cluster, cluster->id)                             ? "it is of another cluster"
           : !g_str_equal(node->cluster_name, cluster->name)                      ? "its cluster has another name"
           : !g_str_equal(node->tenant, cluster->tenant)                          ? "its cluster has another tenant"
           : !has_group(cluster, node->group)                                     ? "its cluster has no such group"
           : node->rank >= WEFT_NODES_MAX                                         ? "no cluster has such a rank"
           : node->path == WEFT_PATH_AUTO                                         ? "its path is not settled"
           : !are_ascending(node->cores)                                          ? "its cores are not ascending"
           : node->target || cluster->deleted || node->phase != WEFT_NODE_CLAIMED ? "it says what only records say"
                                                                                  : NULL;
}

static GPtrArray *
read_digests(const json_t *json)
{
    GPtrArray *digests = g_ptr_array_new_with_free_func(g_free);
    for (gsize i = 0; i < json_array_size(json); i++)
        g_ptr_array_add(digests, g_strdup(json_string_value(json_array_get(json, i))));
    return digests;
}

WeftNodeMark *
weft_node_mark_read(const char *text, GError **error)
{
    json_auto_t *json = json_loads(text, 0, NULL);
    const char *fabric = json_string_value(json_object_get(json, "fabric"));
    json_int_t pkey = json_integer_value(json_object_get(json, "pkey"));
    g_autoptr(WeftNodeMark) mark = g_new0(WeftNodeMark, 1);
    mark->digests = read_digests(json_object_get(json, "digests"));
    mark->placed = MAX(json_integer_value(json_object_get(json, "placed")), 0);
    if (!fabric || pkey < 1 || pkey > WEFT_PKEY_LAST) {
        g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_INVALID, "its mark does not say where its partition is");
        return NULL;
    }
    mark->node = weft_node_from_json(json_object_get(json, "node"), error);
    mark->cluster = mark->node ? weft_cluster_from_json(json_object_get(json, "cluster"), error) : NULL;
    if (!mark->cluster) {
        g_prefix_error(error, "its mark: ");
        return NULL;
    }
    const char *contradiction = find_contradiction(mark);
    if (contradiction) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "its mark contradicts itself: %s", contradiction);
        return NULL;
    }
    mark->fabric = g_strdup(fabric);
    mark->pkey = (guint)pkey;
    return g_steal_pointer(&mark);
}

void
weft_node_mark_free(WeftNodeMark *mark)
{
    if (!mark)
        return;
    weft_node_free(mark->node);
    weft_cluster_free(mark->cluster);
    g_free(mark->fabric);
    g_ptr_array_unref(mark->digests);
    g_free(mark);
}
