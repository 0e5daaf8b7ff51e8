/* How far switches are from each other, for placement. Of thousands of switches that takes a second: a worker counts, and only
 * when switches or cables between them changed. */
#include "subnet-private.h"

#include "map.h"

#include <string.h>

typedef struct Hops {
    GHashTable *rows;
    GArray *table;
} Hops;

static void
hops_free(gpointer data)
{
    Hops *hops = data;
    g_hash_table_unref(hops->rows);
    g_array_unref(hops->table);
    g_free(hops);
}

/* thread: worker. */
static void
count_hops(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    const WeftFabricMap *map = data;
    g_autoptr(GPtrArray) names = weft_fabric_map_switch_names(map);
    Hops *hops = g_new0(Hops, 1);
    hops->rows = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    hops->table = weft_fabric_map_distances(map);
    for (guint i = 0; i < names->len; i++)
        g_hash_table_insert(hops->rows, g_strdup(names->pdata[i]), GUINT_TO_POINTER(i));
    g_task_return_pointer(task, hops, hops_free);
}

static void
stop_counting(WeftSubnet *subnet)
{
    g_cancellable_cancel(subnet->counting);
    g_clear_object(&subnet->counting);
}

static void
forget_hops(WeftSubnet *subnet)
{
    g_clear_pointer(&subnet->switches, g_hash_table_unref);
    g_clear_pointer(&subnet->hops, g_array_unref);
}

/* Cancelled: the map is another meanwhile, or the subnet is not there any more. */
static void
hops_counted(GObject *source, GAsyncResult *result, gpointer data)
{
    g_autoptr(GError) error = NULL;
    Hops *hops = g_task_propagate_pointer(G_TASK(result), &error);
    if (!hops)
        return;
    WeftSubnet *subnet = data;
    forget_hops(subnet);
    subnet->switches = g_hash_table_ref(hops->rows);
    subnet->hops = g_array_ref(hops->table);
    hops_free(hops);
    weft_subnet_tell_fleet(subnet);
}

/* Of switches, their names, and the cables between them, in whatever order. */
static guint64
sum_of(const WeftFabricMap *map)
{
    guint n = weft_fabric_map_switches(map);
    guint64 sum = n;
    for (guint i = 0; i < n; i++) {
        const WeftMapNode *node = map->nodes->pdata[i];
        sum += weft_mix(node->guid ^ weft_mix(node->description ? g_str_hash(node->description) : 0));
        for (guint p = 0; p < node->ports->len; p++) {
            int peer = g_array_index(node->ports, WeftMapPort, p).peer;
            if (peer >= 0 && (guint)peer < n)
                sum += weft_mix(node->guid + weft_mix(((const WeftMapNode *)map->nodes->pdata[peer])->guid));
        }
    }
    return sum;
}

void
weft_subnet_note_hops(WeftSubnet *subnet, const WeftFabricMap *map)
{
    guint64 sum = sum_of(map);
    if (sum == subnet->hops_sum)
        return;
    stop_counting(subnet);
    subnet->hops_sum = sum;
    if (weft_fabric_map_switches(map) == 0) {
        forget_hops(subnet);
        return;
    }
    subnet->counting = g_cancellable_new();
    g_autoptr(GTask) task = g_task_new(NULL, subnet->counting, hops_counted, subnet);
    g_task_set_task_data(task, weft_fabric_map_copy(map), (GDestroyNotify)weft_fabric_map_free);
    g_task_run_in_thread(task, count_hops);
}

void
weft_subnet_end_hops(WeftSubnet *subnet)
{
    stop_counting(subnet);
    forget_hops(subnet);
}
