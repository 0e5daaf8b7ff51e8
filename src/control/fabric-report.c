#include "fabric-report.h"

#include "codec.h"
#include "match.h"
#include "records.h"

#include <string.h>

#define CLUSTER_PREFIX "weft-" /* as weft_partition_name() has it */
#define SHARED_PREFIX "weft-shared-"

json_t *
weft_report_manager(const WeftManager *manager)
{
    return json_pack("{s:s, s:s?, s:s?, s:b, s:b, s:b, s:b, s:b, s:b, s:s?}", "way", manager->way, "version", manager->version,
                     "where", manager->where, "master", manager->master, "sweeping", manager->sweeping, "virtualization",
                     manager->virtualization, "qos", manager->qos, "enforces", manager->enforces, "keeps_indices",
                     manager->keeps_indices, "routing", manager->routing);
}

static json_t *
texts_view(const GPtrArray *texts)
{
    json_t *view = json_array();
    for (guint i = 0; i < texts->len; i++)
        json_array_append_new(view, json_string(texts->pdata[i]));
    return view;
}

/* --- the tree --- */

typedef struct Tree {
    const WeftFabricMap *map;
    GPtrArray *names;    /* of the switches */
    GHashTable *by_guid; /* GUID of a port to its WeftPortMatch */
    WeftMatches *matches;
} Tree;

static json_t *
adapter_view(const Tree *tree, const WeftMapPort *port)
{
    const WeftMapNode *node = tree->map->nodes->pdata[port->peer];
    const WeftMapPort *far = weft_map_node_port(node, port->peer_port);
    const WeftPortMatch *match = g_hash_table_lookup(tree->by_guid, &far->guid);
    g_autofree char *description = g_utf8_make_valid(node->description, -1);
    return json_pack("{s:i, s:s?, s:s?, s:o, s:s, s:i, s:I, s:b, s:i}", "port", port->number, "host",
                     match ? match->host : NULL, "hca", match ? match->hca : NULL, "guid", weft_guid_write(far->guid),
                     "description", description, "lid", far->lid, "rate", (json_int_t)MAX(far->rate, port->rate), "active",
                     far->active && port->active, "pkeys", far->pkeys);
}

/* Several cables between the same two switches are one link. */
static void
add_link(const Tree *tree, json_t *links, const WeftMapPort *port)
{
    const char *name = tree->names->pdata[port->peer];
    json_t *link;
    gsize i;
    json_array_foreach (links, i, link) {
        if (!g_str_equal(json_string_value(json_object_get(link, "switch")), name))
            continue;
        json_integer_set(json_object_get(link, "cables"), json_integer_value(json_object_get(link, "cables")) + 1);
        json_integer_set(json_object_get(link, "rate"),
                         json_integer_value(json_object_get(link, "rate")) + (json_int_t)port->rate);
        return;
    }
    json_array_append_new(links, json_pack("{s:s, s:i, s:I}", "switch", name, "cables", 1, "rate", (json_int_t)port->rate));
}

static json_t *
switch_view(const Tree *tree, guint index)
{
    const WeftMapNode *node = tree->map->nodes->pdata[index];
    const WeftMapPort *own = weft_map_node_port(node, 0);
    json_t *links = json_array(), *adapters = json_array();
    for (guint p = 0; p < node->ports->len; p++) {
        const WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, p);
        if (port->peer < 0)
            continue;
        if ((guint)port->peer < tree->names->len)
            add_link(tree, links, port);
        else
            json_array_append_new(adapters, adapter_view(tree, port));
    }
    g_autofree char *description = g_utf8_make_valid(node->description, -1);
    return json_pack("{s:s, s:o, s:s, s:i, s:o, s:o}", "name", (char *)tree->names->pdata[index], "guid",
                     weft_guid_write(node->guid), "description", description, "lid", own ? own->lid : 0, "links", links,
                     "adapters", adapters);
}

static void
tree_init(Tree *tree, const WeftFabricFacts *facts)
{
    *tree = (Tree){ .map = facts->map,
                    .names = weft_fabric_map_switch_names(facts->map),
                    .by_guid = g_hash_table_new(g_int64_hash, g_int64_equal),
                    .matches = weft_fabric_match(facts->map, facts->hosts) };
    for (guint i = 0; i < tree->matches->ports->len; i++) {
        WeftPortMatch *match = tree->matches->ports->pdata[i];
        g_hash_table_insert(tree->by_guid, &match->port_guid, match);
    }
}

static void
tree_clear(Tree *tree)
{
    g_ptr_array_unref(tree->names);
    g_hash_table_unref(tree->by_guid);
    weft_matches_free(tree->matches);
}

static json_t *
head(const WeftFabricFacts *facts)
{
    return json_pack("{s:s, s:O?, s:s?, s:s?}", "fabric", facts->fabric, "manager", facts->manager, "source", facts->source,
                     "trouble", facts->trouble);
}

json_t *
weft_report_fabric(const WeftFabricFacts *facts)
{
    json_t *report = head(facts);
    json_t *switches = json_array();
    json_object_set_new(report, "switches", switches);
    if (!facts->map) {
        json_object_set_new(report, "no_port", json_array());
        json_object_set_new(report, "no_host", json_array());
        return report;
    }
    Tree tree;
    tree_init(&tree, facts);
    for (guint i = 0; i < tree.names->len; i++)
        json_array_append_new(switches, switch_view(&tree, i));
    json_object_set_new(report, "no_port", texts_view(tree.matches->no_port));
    json_object_set_new(report, "no_host", texts_view(tree.matches->no_host));
    tree_clear(&tree);
    return report;
}

/* --- leaves --- */

/* Indices of the switches that hosts hang on (guint), in order of the map. */
static GArray *
find_leaves(const Tree *tree, GHashTable *hosts_of)
{
    for (guint i = 0; i < tree->matches->ports->len; i++) {
        const WeftPortMatch *match = tree->matches->ports->pdata[i];
        if (!match->leaf)
            continue;
        json_t *hosts = g_hash_table_lookup(hosts_of, match->leaf);
        if (!hosts) {
            hosts = json_array();
            g_hash_table_insert(hosts_of, match->leaf, hosts);
        }
        const char *last = json_string_value(json_array_get(hosts, json_array_size(hosts) - 1));
        if (g_strcmp0(last, match->host) != 0) /* by host: two adapters on one leaf follow each other */
            json_array_append_new(hosts, json_string(match->host));
    }
    GArray *leaves = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = 0; i < tree->names->len; i++)
        if (g_hash_table_contains(hosts_of, tree->names->pdata[i]))
            g_array_append_val(leaves, i);
    return leaves;
}

static json_t *
leaf_view(const Tree *tree, const GArray *leaves, const GArray *distances, guint leaf, json_t *hosts)
{
    json_t *row = json_array();
    for (guint i = 0; i < leaves->len; i++) {
        guint8 far = g_array_index(distances, guint8, leaf * tree->names->len + g_array_index(leaves, guint, i));
        json_array_append_new(row, far == 255 ? json_null() : json_integer(far));
    }
    return json_pack("{s:s, s:O, s:o}", "switch", (char *)tree->names->pdata[leaf], "hosts", hosts, "distances", row);
}

json_t *
weft_report_topology(const WeftFabricFacts *facts)
{
    json_t *report = head(facts), *views = json_array();
    json_object_del(report, "manager");
    json_object_set_new(report, "leaves", views);
    json_object_set_new(report, "slurm", json_null());
    if (!facts->map)
        return report;
    Tree tree;
    tree_init(&tree, facts);
    g_autoptr(GHashTable) hosts_of = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)json_decref);
    g_autoptr(GArray) leaves = find_leaves(&tree, hosts_of);
    g_autoptr(GArray) distances = weft_fabric_map_distances(facts->map);
    for (guint i = 0; i < leaves->len; i++) {
        guint leaf = g_array_index(leaves, guint, i);
        json_t *hosts = g_hash_table_lookup(hosts_of, tree.names->pdata[leaf]);
        json_array_append_new(views, leaf_view(&tree, leaves, distances, leaf, hosts));
    }
    g_autofree char *slurm = weft_topology_slurm(facts->map, tree.matches);
    json_object_set_new(report, "slurm", json_string(slurm));
    tree_clear(&tree);
    return report;
}

/* --- partitions --- */

static json_t *
member_view(WeftStore *store, const char *fabric, const WeftMember *member, GError **error)
{
    json_t *view = json_pack("{s:o, s:n, s:s, s:n, s:n}", "guid", weft_guid_write(member->port_guid), "virtual_guid",
                             "membership", weft_membership_words[member->membership], "host", "node");
    if (!member->virtual_guid)
        return view;
    json_object_set_new(view, "virtual_guid", weft_guid_write(member->virtual_guid));
    g_autoptr(GError) failed = NULL;
    g_autoptr(WeftRecord) record = weft_store_holder_of_guid(store, fabric, member->virtual_guid, &failed);
    g_autoptr(WeftNode) node = record && record->kind == WEFT_KIND_NODE ? weft_record_node(record, &failed) : NULL;
    if (node) {
        g_autofree char *label = weft_node_label(node);
        json_object_set_new(view, "node", json_string(label));
        json_object_set_new(view, "host", json_string(node->host));
    }
    if (!failed)
        return view;
    g_propagate_error(error, g_steal_pointer(&failed));
    json_decref(view);
    return NULL;
}

/* Sets tenant and cluster where its name is that of a cluster, else what is shared. */
static gboolean
name_owner(WeftStore *store, const WeftPartition *partition, json_t *view, GError **error)
{
    if (!weft_partition_is_ours(partition->name))
        return TRUE;
    g_autoptr(GError) failed = NULL;
    if (g_str_has_prefix(partition->name, SHARED_PREFIX)) {
        json_object_set_new(view, "shared", json_string(partition->name + strlen(SHARED_PREFIX)));
        return TRUE;
    }
    const char *id = partition->name + strlen(CLUSTER_PREFIX);
    g_autoptr(WeftRecord) record = weft_store_cluster_of_id(store, id, &failed);
    g_autoptr(WeftCluster) cluster = record ? weft_record_cluster(record, &failed) : NULL;
    if (cluster) {
        json_object_set_new(view, "tenant", json_string(cluster->tenant));
        json_object_set_new(view, "cluster", json_string(cluster->name));
    }
    if (!failed)
        return TRUE;
    g_propagate_error(error, g_steal_pointer(&failed));
    return FALSE;
}

static json_t *
partition_view(WeftStore *store, const char *fabric, const WeftPartition *partition, GError **error)
{
    json_t *members = json_array();
    json_t *view = json_pack("{s:o, s:s, s:b, s:n, s:n, s:n, s:b, s:i, s:o}", "pkey", json_sprintf("0x%04x", partition->pkey),
                             "name", partition->name, "ours", weft_partition_is_ours(partition->name), "tenant", "cluster",
                             "shared", "ipoib", partition->ipoib, "sl", partition->sl, "members", members);
    gboolean ok = name_owner(store, partition, view, error);
    for (guint i = 0; ok && i < partition->members->len; i++) {
        json_t *member = member_view(store, fabric, &g_array_index(partition->members, WeftMember, i), error);
        ok = member && json_array_append_new(members, member) == 0;
    }
    if (ok)
        return view;
    json_decref(view);
    return NULL;
}

json_t *
weft_report_owners(WeftStore *store, const char *fabric, const GPtrArray *partitions, GError **error)
{
    json_t *views = json_array();
    for (guint i = 0; i < partitions->len; i++) {
        json_t *view = partition_view(store, fabric, partitions->pdata[i], error);
        if (!view) {
            json_decref(views);
            return NULL;
        }
        json_array_append_new(views, view);
    }
    return views;
}

static void
name_hosts(json_t *members, GHashTable *hosts)
{
    json_t *member;
    gsize i;
    json_array_foreach (members, i, member) {
        const char *host = g_hash_table_lookup(hosts, json_string_value(json_object_get(member, "guid")));
        if (host && json_is_null(json_object_get(member, "host")))
            json_object_set_new(member, "host", json_string(host));
    }
}

json_t *
weft_report_partitions(const WeftFabricFacts *facts)
{
    g_autoptr(GHashTable) hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < facts->hosts->len; i++) {
        const WeftHost *host = facts->hosts->pdata[i];
        for (guint h = 0; h < host->hcas->len; h++) {
            guint64 guid = ((const WeftHca *)host->hcas->pdata[h])->port_guid;
            g_hash_table_insert(hosts, g_strdup_printf("0x%016" G_GINT64_MODIFIER "x", guid), host->name);
        }
    }
    json_t *partition;
    gsize i;
    json_array_foreach (facts->partitions, i, partition)
        name_hosts(json_object_get(partition, "members"), hosts);
    return json_pack("{s:s, s:O}", "fabric", facts->fabric, "partitions", facts->partitions);
}
