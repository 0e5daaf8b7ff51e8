#include "kinds.h"

#include "schedule.h"

#define PAGE (2ULL << 20)

struct WeftKinds {
    const WeftSite *site;
    GPtrArray *clusters;  /* WeftCluster, by kind */
    GHashTable *by_node;  /* cores and gpus of a node to its kind + 1 */
    GHashTable *demanded; /* kind and nodes to WeftDemand */
    GArray *demands;      /* WeftDemand, by job */
};

void
weft_kinds_free(WeftKinds *kinds)
{
    if (!kinds)
        return;
    g_ptr_array_unref(kinds->clusters);
    g_hash_table_unref(kinds->by_node);
    g_hash_table_unref(kinds->demanded);
    g_array_unref(kinds->demands);
    g_free(kinds);
}

static WeftCluster *
make_cluster(const WeftSiteOptions *o, guint cores, guint gpus, GError **error)
{
    json_auto_t *spec = json_pack("{s:s, s:i, s:i, s:I, s:i, s:s}", "name", "job", "count", 1, "cores", (int)cores, "memory",
                                  (json_int_t)(o->memory / o->cores / PAGE * PAGE * cores), "gpus", (int)gpus, "path",
                                  o->vfs ? "sriov" : "bridge");
    return weft_cluster_from_spec(spec, error);
}

/* Its number; -1: an error. */
static int
find_kind(WeftKinds *kinds, guint cores, gboolean with_gpus, GError **error)
{
    const WeftSiteOptions *o = &kinds->site->options;
    guint gpus = with_gpus ? (o->gpus * cores + o->cores - 1) / o->cores : 0;
    gpointer key = GUINT_TO_POINTER(cores << 8 | gpus), found = g_hash_table_lookup(kinds->by_node, key);
    if (found)
        return GPOINTER_TO_INT(found) - 1;
    WeftCluster *cluster = make_cluster(o, cores, gpus, error);
    if (!cluster)
        return -1;
    g_ptr_array_add(kinds->clusters, cluster);
    g_hash_table_insert(kinds->by_node, key, GUINT_TO_POINTER(kinds->clusters->len));
    return (int)kinds->clusters->len - 1;
}

/* How it would be in the empty fleet. */
static WeftDemand
find_demand(WeftKinds *kinds, guint kind, guint nodes, guint cores)
{
    gpointer key = GUINT_TO_POINTER(kind << 16 | nodes);
    const WeftDemand *known = g_hash_table_lookup(kinds->demanded, key);
    if (known)
        return *known;
    WeftPlaceRequest request = { .cluster = kinds->clusters->pdata[kind], .counts = &nodes };
    WeftPlacement placement = { 0 };
    WeftDemand demand = { .kind = (guint16)kind, .nodes = (guint16)nodes, .cores = (guint16)cores };
    if (weft_place(kinds->site->fleet, &request, &placement)) {
        demand.least = (guint16)placement.leaves;
        demand.whole = placement.split == 0;
    }
    g_hash_table_insert(kinds->demanded, key, g_memdup2(&demand, sizeof demand));
    return demand;
}

static gboolean
add_demand(WeftKinds *kinds, const WeftLoadJob *job, guint cores_per_node, GError **error)
{
    guint nodes = (job->processors + cores_per_node - 1) / cores_per_node, cores = (job->processors + nodes - 1) / nodes;
    int kind = nodes <= WEFT_NODES_MAX ? find_kind(kinds, cores, job->gpus, error) : 0;
    if (kind < 0)
        return FALSE;
    WeftDemand demand = nodes <= WEFT_NODES_MAX ? find_demand(kinds, (guint)kind, nodes, cores) : (WeftDemand){ 0 };
    g_array_append_val(kinds->demands, demand);
    return TRUE;
}

WeftKinds *
weft_kinds_new(const WeftSite *site, const WeftLoad *load, guint cores_per_node, GError **error)
{
    g_autoptr(WeftKinds) kinds = g_new0(WeftKinds, 1);
    kinds->site = site;
    kinds->clusters = g_ptr_array_new_with_free_func((GDestroyNotify)weft_cluster_free);
    kinds->by_node = g_hash_table_new(NULL, NULL);
    kinds->demanded = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    kinds->demands = g_array_sized_new(FALSE, FALSE, sizeof(WeftDemand), load->jobs->len);
    for (guint i = 0; i < load->jobs->len; i++)
        if (!add_demand(kinds, &g_array_index(load->jobs, WeftLoadJob, i), cores_per_node, error))
            return NULL;
    return g_steal_pointer(&kinds);
}

const WeftDemand *
weft_kinds_demand(const WeftKinds *kinds, guint job)
{
    return &g_array_index(kinds->demands, WeftDemand, job);
}

WeftCluster
weft_kinds_cluster(const WeftKinds *kinds, guint kind)
{
    return *(const WeftCluster *)kinds->clusters->pdata[kind];
}
