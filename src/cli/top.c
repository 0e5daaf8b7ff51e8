/* weft top: how busy nodes are. */
#include "clock.h"
#include "table.h"
#include "upload.h"
#include "verbs.h"

#define SAMPLE_MS 1000 /* between the two looks that tell how busy something is */
#define REFRESH_MS 2000

static gboolean once;

static const GOptionEntry options[] = {
    { "once", 0, 0, G_OPTION_ARG_NONE, &once, "print once, also on a terminal", NULL },
    { NULL },
};

typedef struct {
    double cpu; /* seconds so far */
    gint64 time;
} Sample;

/* "/v1/clusters/ID/load" of one cluster, or of all that there are. */
static GPtrArray *
list_paths(WeftCli *cli, const char *name, GError **error)
{
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    if (name) {
        g_ptr_array_add(paths, weft_cli_cluster_path(cli, name, "/load"));
        return g_steal_pointer(&paths);
    }
    g_autofree char *path = weft_client_query(g_strdup("/v1/clusters"), "tenant", cli->tenant);
    json_t *clusters = weft_client_list(cli->client, path, error);
    size_t i;
    json_t *cluster;
    json_array_foreach (clusters, i, cluster) {
        g_autofree char *base = weft_client_path("/v1/clusters", json_string_value(json_object_get(cluster, "id")));
        g_ptr_array_add(paths, g_strconcat(base, "/load", NULL));
    }
    if (!clusters)
        return NULL;
    json_decref(clusters);
    return g_steal_pointer(&paths);
}

/* All nodes in one array. */
static json_t *
look(WeftCli *cli, GPtrArray *paths, GError **error)
{
    json_t *nodes = json_array();
    for (guint i = 0; i < paths->len; i++) {
        json_t *page = weft_client_get(cli->client, paths->pdata[i], error);
        if (!page) {
            json_decref(nodes);
            return NULL;
        }
        json_array_extend(nodes, json_object_get(page, "items"));
        json_decref(page);
    }
    return nodes;
}

/* How many cores were busy since the last look, as "busy" of each node; null where nobody knows. */
static void
compare(json_t *nodes, GHashTable *samples)
{
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        const char *id = json_string_value(json_object_get(node, "id"));
        const char *when = json_string_value(json_object_get(node, "time"));
        Sample now = { .cpu = json_number_value(json_object_get(node, "cpu_seconds")) };
        const Sample *then = id ? g_hash_table_lookup(samples, id) : NULL;
        gboolean known = id && when && weft_clock_parse(when, &now.time, NULL);
        gboolean moved = known && then && now.time > then->time && now.cpu >= then->cpu;
        double busy = moved ? (now.cpu - then->cpu) / ((double)(now.time - then->time) / G_TIME_SPAN_SECOND) : 0;
        json_object_set_new(node, "busy", moved ? json_real(busy) : json_null());
        if (known && (!then || moved))
            g_hash_table_insert(samples, g_strdup(id), g_memdup2(&now, sizeof now));
    }
}

static int
by_use(gconstpointer a, gconstpointer b)
{
    json_t *left = *(json_t *const *)a, *right = *(json_t *const *)b;
    double busy = json_number_value(json_object_get(right, "busy")) - json_number_value(json_object_get(left, "busy"));
    gint64 memory = weft_cli_number(right, "memory_used") - weft_cli_number(left, "memory_used");
    return busy ? (busy > 0 ? 1 : -1) : memory ? (memory > 0 ? 1 : -1) : 0;
}

static char *
percent_field(json_t *node)
{
    json_t *busy = json_object_get(node, "busy");
    gint64 cores = MAX(weft_cli_number(node, "cores"), 1);
    return json_is_number(busy) ? g_strdup_printf("%.0f%%", 100 * json_number_value(busy) / (double)cores) : g_strdup("-");
}

static char *
used_field(json_t *node)
{
    json_t *used = json_object_get(node, "memory_used");
    return json_is_integer(used) ? weft_upload_size((guint64)json_integer_value(used)) : g_strdup("-");
}

static void
print_table(json_t *nodes)
{
    g_autoptr(GPtrArray) sorted = g_ptr_array_new();
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node)
        g_ptr_array_add(sorted, node);
    g_ptr_array_sort(sorted, by_use);
    g_autoptr(WeftTable) table = weft_table_new("NODE|>CPU|>CORES|>USED|>MEMORY");
    for (guint n = 0; n < sorted->len; n++) {
        weft_table_take(table, weft_cli_field(sorted->pdata[n], "name"));
        weft_table_take(table, percent_field(sorted->pdata[n]));
        weft_table_take(table, weft_cli_field(sorted->pdata[n], "cores"));
        weft_table_take(table, used_field(sorted->pdata[n]));
        weft_table_take(table, weft_cli_size_field(sorted->pdata[n], "memory"));
    }
    weft_table_print(table, stdout);
    fflush(stdout);
}

static gboolean
show(WeftCli *cli, const char *cluster, GHashTable *samples, gboolean quiet, GError **error)
{
    g_autoptr(GPtrArray) paths = list_paths(cli, cluster, error);
    json_t *nodes = paths ? look(cli, paths, error) : NULL;
    if (!nodes)
        return FALSE;
    compare(nodes, samples);
    if (!quiet && cli->json)
        weft_cli_print_json(json_incref(nodes));
    else if (!quiet)
        print_table(nodes);
    json_decref(nodes);
    return TRUE;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autoptr(GHashTable) samples = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    gboolean live = !once && !cli->json && weft_text_is_live(stdout);
    weft_client_catch_interrupts();
    if (!show(cli, args[0], samples, TRUE, error))
        return FALSE;
    int delay = SAMPLE_MS;
    do {
        g_poll(NULL, 0, delay);
        delay = REFRESH_MS;
        if (weft_client_interrupted(NULL))
            return TRUE;
        if (live)
            fputs("\033[H\033[2J", stdout);
        if (!show(cli, args[0], samples, FALSE, error))
            return FALSE;
    } while (live);
    return TRUE;
}

const WeftVerb weft_top_verbs[] = {
    {
        .name = "top",
        .arguments = "[CLUSTER]",
        .summary = "show how busy nodes are",
        .about =
            "Shows the nodes of a cluster, or of all that you may see, by the share of their cores that was busy and by the\n"
            "memory that they use on their host, the emulator's own included. On a terminal it goes on until Ctrl-C.",
        .examples = "weft top cfd\n"
                    "weft top --once",
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .whole = TRUE,
        .options = options,
        .run = run,
    },
    { 0 },
};
