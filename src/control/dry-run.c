#include "dry-run.h"

#include "errors.h"
#include "schedule.h"

/* Gives equal names equal numbers, from 1 in the order in which they come. */
static guint
number_of(GHashTable *numbers, const char *name)
{
    gpointer number;
    if (g_hash_table_lookup_extended(numbers, name, NULL, &number))
        return GPOINTER_TO_UINT(number);
    guint next = g_hash_table_size(numbers) + 1;
    g_hash_table_insert(numbers, (gpointer)name, GUINT_TO_POINTER(next));
    return next;
}

static json_t *
cores_view(const WeftNode *node)
{
    json_t *cores = json_array();
    for (guint i = 0; i < node->cores->len; i++)
        json_array_append_new(cores, json_integer(g_array_index(node->cores, guint16, i)));
    return cores;
}

/* ret_numa: bits of the NUMA nodes. */
static json_t *
memory_view(const WeftNode *node, guint64 *ret_numa)
{
    json_t *memory = json_array();
    for (guint i = 0; i < node->memory->len; i++) {
        const WeftMemory *part = &g_array_index(node->memory, WeftMemory, i);
        *ret_numa |= G_GUINT64_CONSTANT(1) << part->numa;
        json_array_append_new(memory, json_pack("{s:i, s:I, s:I}", "numa", (int)part->numa, "page_size",
                                                (json_int_t)part->page_size, "pages", (json_int_t)part->pages));
    }
    return memory;
}

static json_t *
devices_view(const WeftNode *node)
{
    json_t *devices = json_array();
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        json_t *vf = device->vf < 0 ? json_null() : json_integer(device->vf);
        json_array_append_new(
            devices, json_pack("{s:i, s:s, s:o, s:n}", "rail", (int)device->rail, "hca", device->hca, "vf", vf, "guid"));
    }
    return devices;
}

static json_t *
gpus_view(const WeftNode *node)
{
    json_t *gpus = json_array();
    for (guint i = 0; i < node->gpus->len; i++)
        json_array_append_new(gpus, json_string(node->gpus->pdata[i]));
    return gpus;
}

static guint64
numa_of_cores(const WeftHost *host, const WeftNode *node)
{
    guint64 numa = 0;
    for (guint i = 0; i < node->cores->len; i++)
        numa |= G_GUINT64_CONSTANT(1) << g_array_index(host->cores, WeftCore, g_array_index(node->cores, guint16, i)).numa;
    return numa;
}

typedef struct Numbers {
    GHashTable *hosts;
    GHashTable *leaves;
} Numbers;

static json_t *
node_view(const WeftFleet *fleet, const WeftNode *node, guint rank, const Numbers *numbers)
{
    const char *leaf = weft_fleet_leaf(fleet, node->host);
    guint64 numa = numa_of_cores(weft_fleet_host(fleet, node->host), node);
    json_t *memory = memory_view(node, &numa);
    json_t *view =
        json_pack("{s:i, s:s, s:s, s:i, s:I, s:i, s:i, s:i, s:i}", "rank", (int)rank, "group", node->group, "path",
                  weft_path_words[node->path], "cores", (int)node->cores->len, "memory", (json_int_t)weft_node_memory(node),
                  "gpus", (int)node->gpus->len, "numa_nodes", __builtin_popcountll(numa), "host_number",
                  (int)number_of(numbers->hosts, node->host), "leaf_number", (int)number_of(numbers->leaves, leaf));
    json_object_update_new(view, json_pack("{s:s, s:s?, s:o, s:o, s:o, s:o}", "host", node->host, "leaf", *leaf ? leaf : NULL,
                                           "core_ids", cores_view(node), "memory_nodes", memory, "devices", devices_view(node),
                                           "gpu_ids", gpus_view(node)));
    return view;
}

static json_t *
nodes_view(const WeftFleet *fleet, const GPtrArray *nodes, Numbers *numbers)
{
    json_t *views = json_array();
    for (guint i = 0; i < nodes->len; i++)
        json_array_append_new(views, node_view(fleet, nodes->pdata[i], i, numbers));
    return views;
}

static json_t *
lines_view(const GPtrArray *lines)
{
    json_t *texts = json_array();
    for (guint i = 0; i < lines->len; i++)
        json_array_append_new(texts, json_string(lines->pdata[i]));
    return texts;
}

static json_t *
fit_view(WeftFleet *fleet, const WeftPlaceRequest *request, const WeftPlacement *placement)
{
    g_autoptr(GHashTable) hosts = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) leaves = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GPtrArray) nodes = weft_placement_nodes(fleet, request, placement);
    g_autoptr(GPtrArray) lines = weft_place_explain(fleet, request, placement);
    json_t *hops = placement->hops == G_MAXUINT ? json_null() : json_integer(placement->hops);
    json_t *between = placement->between < 0 ? json_null() : json_integer(placement->between);
    json_t *views = nodes_view(fleet, nodes, &(Numbers){ hosts, leaves });
    return json_pack("{s:b, s:b, s:n, s:n, s:o, s:i, s:i, s:o, s:i, s:i, s:o, s:o}", "fits", TRUE, "never", FALSE, "reason",
                     "when", "why", lines_view(lines), "leaves", (int)placement->leaves, "hosts", (int)placement->hosts, "hops",
                     hops, "split", (int)placement->split, "remote", (int)placement->remote, "between", between, "nodes",
                     views);
}

static GHashTable *
unite(GHashTable *a, GHashTable *b)
{
    GHashTable *both = g_hash_table_new(g_str_hash, g_str_equal), *parts[] = { a, b };
    for (guint i = 0; i < G_N_ELEMENTS(parts); i++) {
        GHashTableIter iter;
        gpointer name;
        g_hash_table_iter_init(&iter, parts[i]);
        while (g_hash_table_iter_next(&iter, &name, NULL))
            g_hash_table_add(both, name);
    }
    return both;
}

/* There is no room now, or it is promised. when: it would start by the queue; WEFT_QUEUE_NEVER: nobody knows. */
static json_t *
refusal_view(const WeftDryRun *run, WeftFleet *fleet, WeftPlaceRequest *request, gint64 when)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GHashTable) closed = unite(run->barred, run->kept);
    WeftPlacement placement;
    gboolean could = TRUE;
    request->avoid = closed;
    request->later = TRUE;
    if (weft_place(fleet, request, &placement))
        weft_error_refuse(&error, WEFT_ERROR_EXHAUSTED,
                          "there is room, which is promised to those before it, or kept by a reservation");
    else
        could = weft_place_explain_refusal(fleet, request, &error);
    json_t *start = when == WEFT_QUEUE_NEVER ? json_null() : json_integer(when);
    return json_pack("{s:b, s:b, s:s, s:o, s:[]}", "fits", FALSE, "never", !could, "reason", error->message, "when", start,
                     "why");
}

json_t *
weft_dry_run(const WeftDryRun *run, WeftFleet *fleet, const WeftQueueSnapshot *queue)
{
    const WeftCluster *cluster = run->cluster;
    guint counts[WEFT_GROUPS_MAX] = { 0 };
    for (guint i = 0; i < cluster->groups->len; i++)
        counts[i] = ((const WeftGroup *)cluster->groups->pdata[i])->count;
    WeftAsk ask = { .key = cluster->name,
                    .request = { .cluster = cluster,
                                 .counts = counts,
                                 .avoid = run->barred,
                                 .rule = run->rule,
                                 .cancellable = run->cancellable },
                    .since = cluster->created,
                    .priority = cluster->priority,
                    .walltime = (gint64)cluster->walltime * G_USEC_PER_SEC,
                    .preemptible = cluster->preemptible };
    WeftPlacement placement;
    gint64 when = WEFT_QUEUE_NEVER;
    gboolean found = weft_queue_snapshot_foresee(queue, fleet, &ask, run->now, &placement, &when);
    if (g_cancellable_is_cancelled(run->cancellable))
        return NULL;
    if (found && when <= run->now)
        return fit_view(fleet, &ask.request, &placement);
    return refusal_view(run, fleet, &ask.request, found ? when : WEFT_QUEUE_NEVER);
}
