/* weft show: a cluster with its nodes, or some of its nodes. */
#include "clock.h"
#include "errors.h"
#include "hostlist.h"
#include "size.h"
#include "table.h"
#include "verbs.h"

static void
print_line(const char *title, char *value)
{
    printf("  %-11s  %s\n", title, value);
    g_free(value);
}

static void
print_group(json_t *group)
{
    g_autofree char *name = weft_cli_field(group, "name");
    g_autofree char *count = weft_cli_count(weft_cli_number(group, "count"), "node");
    g_autofree char *cores = weft_cli_count(weft_cli_number(group, "cores"), "core");
    g_autofree char *memory = weft_cli_size_field(group, "memory");
    g_autofree char *gpus = weft_cli_count(weft_cli_number(group, "gpus"), "GPU");
    g_autofree char *path = weft_cli_field(group, "path");
    g_autofree char *numa = weft_cli_field(group, "numa");
    g_autofree char *image = weft_cli_field(group, "image");
    gboolean has_gpus = weft_cli_number(group, "gpus") > 0, usual = strcmp(numa, "preferred") == 0;
    print_line("group", g_strdup_printf("%s: %s of %s, %s%s%s; path %s; %s%s%simage %s", name, count, cores, memory,
                                        has_gpus ? ", " : "", has_gpus ? gpus : "", path, usual ? "" : "NUMA ",
                                        usual ? "" : numa, usual ? "" : "; ", image));
}

static void
print_labels(json_t *labels)
{
    const char *key;
    json_t *value;
    json_object_foreach (labels, key, value) {
        g_autofree char *name = weft_cli_clean(key);
        g_autofree char *text = weft_cli_clean(json_string_value(value));
        print_line("label", g_strdup_printf("%s=%s", name, text));
    }
}

static void
print_inside(json_t *cluster)
{
    size_t i;
    json_t *key;
    json_array_foreach (json_object_get(cluster, "ssh_keys"), i, key) {
        print_line("ssh key", weft_cli_clean(json_string_value(key)));
    }
    if (json_is_true(json_object_get(cluster, "user_data")))
        print_line("user-data", g_strdup("yes"));
    if (json_is_true(json_object_get(cluster, "slurm")))
        print_line("Slurm", g_strdup("yes"));
}

/* What is not the default. */
static void
print_wish(json_t *cluster)
{
    static const struct {
        const char *field, *title, *usual;
    } words[] = { { "layout", "layout", "compact" }, { "pattern", "pattern", "none" } };
    for (gsize i = 0; i < G_N_ELEMENTS(words); i++) {
        g_autofree char *word = weft_cli_field(cluster, words[i].field);
        if (strcmp(word, words[i].usual) != 0)
            print_line(words[i].title, g_steal_pointer(&word));
    }
    size_t i;
    json_t *other;
    json_array_foreach (json_object_get(cluster, "apart"), i, other)
        print_line("apart from", weft_cli_clean(json_string_value(other)));
    if (json_is_string(json_object_get(cluster, "hosts"))) /* operators see it */
        print_line("hosts", weft_cli_field(cluster, "hosts"));
    if (json_is_true(json_object_get(cluster, "exclusive")))
        print_line("exclusive", g_strdup("yes"));
    if (json_is_true(json_object_get(cluster, "preemptible")))
        print_line("preemptible", g_strdup("yes"));
    if (g_strcmp0(json_string_value(json_object_get(cluster, "start")), "cold") == 0)
        print_line("start", g_strdup("cold"));
    if (weft_cli_number(cluster, "priority") != 0)
        print_line("priority", weft_cli_field(cluster, "priority"));
}

/* Its end is known once it is placed. */
static void
print_walltime(json_t *cluster)
{
    gint64 seconds = weft_cli_number(cluster, "walltime");
    if (seconds <= 0)
        return;
    g_autofree char *length = weft_duration_format(seconds * G_USEC_PER_SEC);
    g_autofree char *ends = weft_cli_field(cluster, "ends");
    gboolean known = json_is_string(json_object_get(cluster, "ends"));
    print_line("walltime", g_strdup_printf("%s%s%s", length, known ? ", until " : "", known ? ends : ""));
}

/* The service level is known once it is placed. */
static void
print_bandwidth(json_t *cluster)
{
    gint64 bits = weft_cli_number(cluster, "bandwidth"), sl = weft_cli_number(cluster, "sl");
    if (bits <= 0)
        return;
    g_autofree char *rate = weft_rate_format((guint64)bits);
    g_autofree char *level = sl > 0 ? g_strdup_printf(", service level %" G_GINT64_FORMAT, sl) : g_strdup("");
    print_line("bandwidth", g_strdup_printf("%s for each node%s", rate, level));
}

/* How long a node stood still for it is known once all were copied. */
static void
print_clone(json_t *clone)
{
    if (!json_is_object(clone))
        return;
    json_t *paused = json_object_get(clone, "paused");
    g_autofree char *of = weft_cli_field(clone, "of");
    g_autofree char *node = weft_cli_field(clone, "node");
    g_autofree char *still = g_strdup_printf("; a node stood still for %.1f ms at most", json_number_value(paused) * 1000);
    gboolean one = json_is_string(json_object_get(clone, "node"));
    print_line("clone of",
               g_strdup_printf("%s%s%s%s", of, one ? ", node " : "", one ? node : "", json_is_number(paused) ? still : ""));
}

/* A cluster that is placed and has none is on a fabric that nobody manages. */
static char *
tell_partition(json_t *cluster)
{
    gint64 vxlan = weft_cli_number(cluster, "vxlan");
    if (json_is_string(json_object_get(cluster, "partition")) || vxlan <= 0)
        return weft_cli_field(cluster, "partition");
    return g_strdup_printf("none: its fabric has no manager, VXLAN %" G_GINT64_FORMAT " keeps it apart", vxlan);
}

static void
print_cluster(json_t *cluster)
{
    g_autofree char *name = weft_cli_field(cluster, "name");
    g_autofree char *phase = weft_cli_field(cluster, "phase");
    g_autofree char *since = weft_cli_field(cluster, "since");
    printf("cluster %s\n", name);
    print_line("id", weft_cli_field(cluster, "id"));
    print_line("tenant", weft_cli_field(cluster, "tenant"));
    print_line("phase", g_strdup_printf("%s since %s", phase, since));
    if (json_is_string(json_object_get(cluster, "reason")))
        print_line("reason", weft_cli_field(cluster, "reason"));
    if (json_is_string(json_object_get(cluster, "detail"))) /* operators see it */
        print_line("detail", weft_cli_field(cluster, "detail"));
    print_line("ready", g_strdup_printf("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT, weft_cli_number(cluster, "ready"),
                                        weft_cli_number(cluster, "count")));
    print_line("fabric", weft_cli_field(cluster, "fabric"));
    print_line("partition", tell_partition(cluster));
    print_bandwidth(cluster);
    print_wish(cluster);
    print_walltime(cluster);
    print_clone(json_object_get(cluster, "clone"));
    print_line("created", weft_cli_field(cluster, "created"));
    size_t i;
    json_t *group;
    json_array_foreach (json_object_get(cluster, "groups"), i, group) {
        print_group(group);
    }
    print_labels(json_object_get(cluster, "labels"));
    print_inside(cluster);
}

/* Its place in the queue, should it be there. */
static json_t *
find_wait(json_t *queue, json_t *cluster)
{
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(queue, "items"), i, item) {
        if (json_equal(json_object_get(item, "id"), json_object_get(cluster, "id")))
            return item;
    }
    return NULL;
}

/* Only those that are not whole can wait. What the queue cannot tell just now is left out. */
static void
print_wait(WeftCli *cli, json_t *cluster)
{
    if (weft_cli_number(cluster, "nodes") >= weft_cli_number(cluster, "count") ||
        json_is_true(json_object_get(cluster, "deleting")))
        return;
    const char *tenant = json_string_value(json_object_get(cluster, "tenant"));
    g_autofree char *path = weft_client_query(g_strdup("/v1/queue"), "tenant", tenant);
    json_t *queue = weft_client_get(cli->client, path, NULL);
    json_t *wait = find_wait(queue, cluster);
    if (wait) {
        gboolean promised = json_is_string(json_object_get(wait, "when"));
        g_autofree char *when = weft_cli_until_field(wait, "when");
        print_line("queue",
                   g_strdup_printf("place %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT "%s%s", weft_cli_number(wait, "place"),
                                   weft_cli_number(queue, "waiting"), promised ? ", starts " : "", promised ? when : ""));
    }
    json_decref(queue);
}

/* What devices of hosts cost those that were forked. */
static void
print_copied(json_t *nodes)
{
    guint64 bytes = 0;
    double longest = 0;
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        json_t *copied = json_object_get(node, "copied");
        bytes += (guint64)json_integer_value(json_object_get(copied, "bytes"));
        longest = MAX(longest, json_number_value(json_object_get(copied, "seconds")));
    }
    if (!bytes)
        return;
    g_autofree char *size = weft_size_format(bytes >> 20 << 20);
    printf("%s of memory that was shared with templates were copied when devices of hosts were plugged, in %.2f s at most\n",
           size, longest);
}

/* Ranks, as in cfd[0-3]. */
static char *
fold_ranks(json_t *nodes, const char *unverified)
{
    g_autoptr(GPtrArray) ranks = g_ptr_array_new_with_free_func(g_free);
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        if (g_strcmp0(json_string_value(json_object_get(node, "unverified")), unverified) == 0)
            g_ptr_array_add(ranks, g_strdup_printf("%" G_GINT64_FORMAT, weft_cli_number(node, "rank")));
    }
    gboolean one = ranks->len == 1;
    g_ptr_array_add(ranks, NULL);
    g_autofree char *folded = weft_hostlist_fold((const char *const *)ranks->pdata);
    return one ? g_strdup_printf("[%s]", folded) : g_steal_pointer(&folded);
}

/* What ready nodes did not have to prove: once for all of which the same is to be said. */
static void
print_unverified(json_t *nodes)
{
    g_autoptr(GHashTable) told = g_hash_table_new(g_str_hash, g_str_equal);
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        const char *unverified = json_string_value(json_object_get(node, "unverified"));
        if (!unverified || !g_hash_table_add(told, (char *)unverified))
            continue;
        g_autofree char *name = weft_cli_field(node, "name");
        g_autofree char *ranks = fold_ranks(nodes, unverified);
        g_autofree char *words = weft_cli_clean(unverified);
        name[strcspn(name, "[")] = '\0';
        printf("not verified: %s%s: %s\n", name, ranks, words);
    }
}

/* "n1", or "n1 → n2" of one that moves. */
static char *
host_text(json_t *node)
{
    g_autofree char *host = weft_cli_field(node, "host");
    g_autofree char *to = weft_cli_field(node, "moving_to");
    return json_is_string(json_object_get(node, "moving_to")) ? g_strdup_printf("%s → %s", host, to) : g_steal_pointer(&host);
}

/* Operators see the hosts. */
static void
print_nodes(json_t *nodes)
{
    gboolean hosts = json_object_get(json_array_get(nodes, 0), "host") != NULL;
    g_autoptr(WeftTable) table = weft_table_new(hosts ? "NODE|HOSTNAME|GROUP|!PHASE|>CORES|>MEMORY|PATH|GUID|HOST"
                                                      : "NODE|HOSTNAME|GROUP|!PHASE|>CORES|>MEMORY|PATH|GUID");
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        weft_table_take(table, weft_cli_field(node, "name"));
        weft_table_take(table, weft_cli_field(node, "hostname"));
        weft_table_take(table, weft_cli_field(node, "group"));
        weft_table_take(table, weft_cli_field(node, "phase"));
        weft_table_take(table, weft_cli_field(node, "cores"));
        weft_table_take(table, weft_cli_size_field(node, "memory"));
        weft_table_take(table, weft_cli_field(node, "path"));
        weft_table_take(table, weft_cli_clean(json_string_value(json_array_get(json_object_get(node, "guids"), 0))));
        if (hosts)
            weft_table_take(table, host_text(node));
    }
    weft_table_print(table, stdout);
    print_copied(nodes);
    print_unverified(nodes);
}

static int
compare_ranks(const void *a, const void *b)
{
    gint64 x = weft_cli_number(*(json_t *const *)a, "rank"), y = weft_cli_number(*(json_t *const *)b, "rank");
    return x < y ? -1 : x > y;
}

/* The API lists nodes by id; people count them by rank. */
static json_t *
sort_by_rank(json_t *nodes)
{
    g_autoptr(GPtrArray) order = g_ptr_array_new();
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        g_ptr_array_add(order, node);
    }
    g_ptr_array_sort(order, compare_ranks);
    json_t *sorted = json_array();
    for (guint n = 0; n < order->len; n++)
        json_array_append(sorted, order->pdata[n]);
    json_decref(nodes);
    return sorted;
}

/* Keeps the nodes of these ranks; each must be there. */
static gboolean
select_ranks(json_t **nodes, const GArray *ranks, GError **error)
{
    json_t *chosen = json_array();
    for (guint i = 0; i < ranks->len; i++) {
        guint rank = g_array_index(ranks, guint, i);
        size_t before = json_array_size(chosen), j;
        json_t *node;
        json_array_foreach (*nodes, j, node) {
            if (weft_cli_number(node, "rank") == rank)
                json_array_append(chosen, node);
        }
        if (json_array_size(chosen) == before) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "no node of rank %u", rank);
            json_decref(chosen);
            return FALSE;
        }
    }
    json_decref(*nodes);
    *nodes = chosen;
    return TRUE;
}

/* JSON of a cluster is the cluster with its nodes in it; of nodes, their list. */
static json_t *
join(json_t *cluster, json_t *nodes)
{
    if (!cluster)
        return nodes;
    json_object_set_new(cluster, "members", nodes);
    return cluster;
}

static gboolean
load(WeftCli *cli, const char *name, const GArray *ranks, json_t **ret_cluster, json_t **ret_nodes, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(cli, name, "");
    g_autofree char *nodes_path = weft_cli_cluster_path(cli, name, "/nodes");
    json_t *cluster = ranks ? NULL : weft_client_get(cli->client, path, error);
    if (!ranks && !cluster)
        return FALSE;
    json_t *nodes = weft_client_list(cli->client, nodes_path, error);
    if (!nodes || (ranks && !select_ranks(&nodes, ranks, error))) {
        json_decref(cluster);
        json_decref(nodes);
        return FALSE;
    }
    *ret_cluster = cluster;
    *ret_nodes = ranks ? nodes : sort_by_rank(nodes);
    return TRUE;
}

static gboolean
show(WeftCli *cli, const char *text, GError **error)
{
    g_autofree char *name = NULL;
    g_autoptr(GArray) ranks = NULL;
    json_t *cluster = NULL, *nodes = NULL;
    if (!weft_hostlist_split(text, &name, &ranks, error))
        return FALSE;
    if (!load(cli, name, ranks, &cluster, &nodes, error)) {
        weft_cli_blame(error, "cluster", name);
        return FALSE;
    }
    if (cli->json) {
        weft_cli_print_json(join(cluster, nodes));
        return TRUE;
    }
    if (cluster) {
        print_cluster(cluster);
        print_wait(cli, cluster);
    }
    if (json_array_size(nodes) > 0)
        print_nodes(nodes);
    json_decref(cluster);
    json_decref(nodes);
    return TRUE;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    GError *first = NULL;
    for (guint i = 0; args[i]; i++) {
        GError *local = NULL;
        if (i > 0 && !cli->json)
            fputc('\n', stdout);
        if (!show(cli, args[i], &local))
            weft_cli_keep_first(&first, local);
    }
    if (first)
        g_propagate_error(error, first);
    return first == NULL;
}

const WeftVerb weft_show_verbs[] = {
    {
        .name = "show",
        .arguments = "NAME…",
        .summary = "show a cluster with its nodes",
        .about = "Shows clusters with their nodes. Brackets choose nodes: cfd[0-3] is the nodes 0 to 3 of the cluster cfd.",
        .examples = "weft show cfd\n"
                    "weft show 'cfd[0-3]'",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_CLUSTERS,
        .run = run,
    },
    { 0 },
};
