/* weft ls: the clusters. */
#include "table.h"
#include "verbs.h"

static gboolean all;

static const GOptionEntry options[] = {
    { "all", 'a', 0, G_OPTION_ARG_NONE, &all, "of all tenants, also where --tenant or WEFT_TENANT names one", NULL },
    { NULL },
};

static gboolean
several_tenants(json_t *clusters)
{
    const char *first = json_string_value(json_object_get(json_array_get(clusters, 0), "tenant"));
    size_t i;
    json_t *cluster;
    json_array_foreach (clusters, i, cluster) {
        if (g_strcmp0(first, json_string_value(json_object_get(cluster, "tenant"))) != 0)
            return TRUE;
    }
    return FALSE;
}

static void
add_row(WeftTable *table, json_t *cluster, gboolean tenants)
{
    if (tenants)
        weft_table_take(table, weft_cli_field(cluster, "tenant"));
    weft_table_take(table, weft_cli_field(cluster, "name"));
    weft_table_take(table, weft_cli_field(cluster, "phase"));
    weft_table_take(table, g_strdup_printf("%" G_GINT64_FORMAT "/%" G_GINT64_FORMAT, weft_cli_number(cluster, "ready"),
                                           weft_cli_number(cluster, "count")));
    weft_table_take(table, weft_cli_field(cluster, "fabric"));
    weft_table_take(table, weft_cli_field(cluster, "partition"));
    weft_table_take(table, weft_cli_age_field(cluster, "created"));
    weft_table_take(table, weft_cli_field(cluster, "reason"));
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *path = weft_client_query(g_strdup("/v1/clusters"), "tenant", all ? NULL : cli->tenant);
    json_t *clusters = weft_client_list(cli->client, path, error);
    if (!clusters)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(clusters);
        return TRUE;
    }
    gboolean tenants = all || several_tenants(clusters);
    g_autoptr(WeftTable) table = weft_table_new(tenants ? "TENANT|NAME|!PHASE|>READY|FABRIC|PARTITION|>AGE|REASON"
                                                        : "NAME|!PHASE|>READY|FABRIC|PARTITION|>AGE|REASON");
    size_t i;
    json_t *cluster;
    json_array_foreach (clusters, i, cluster) {
        add_row(table, cluster, tenants);
    }
    weft_table_print(table, stdout);
    json_decref(clusters);
    return TRUE;
}

const WeftVerb weft_ls_verbs[] = {
    {
        .name = "ls",
        .arguments = "",
        .summary = "list clusters",
        .about = "Lists the clusters of your tenant; for an operator those of all, or of the one that --tenant names.",
        .examples = "weft ls\n"
                    "weft ls --json",
        .options = options,
        .run = run,
    },
    { 0 },
};
