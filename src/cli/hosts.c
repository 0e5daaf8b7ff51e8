/* weft hosts: the fleet. */
#include "table.h"
#include "verbs.h"

static const char *
drain_word(json_t *host)
{
    if (json_is_true(json_object_get(host, "evicting")))
        return "evicting";
    if (json_is_true(json_object_get(host, "moving")))
        return "emptying";
    return json_is_true(json_object_get(host, "draining")) ? "draining" : "-";
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    json_t *hosts = weft_client_list(cli->client, "/v1/hosts", error);
    if (!hosts)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(hosts);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("NAME|!STATE|FABRIC|LEAF|>CORES|>NODES|!DRAIN|REASON");
    size_t i;
    json_t *host;
    json_array_foreach (hosts, i, host) {
        weft_table_take(table, weft_cli_field(host, "name"));
        weft_table_take(table, weft_cli_field(host, "state"));
        weft_table_take(table, weft_cli_field(host, "fabric"));
        weft_table_take(table, weft_cli_field(host, "leaf"));
        weft_table_take(table, g_strdup_printf("%" G_GINT64_FORMAT "/%" G_GINT64_FORMAT, weft_cli_number(host, "cores_used"),
                                               weft_cli_number(host, "cores_total")));
        weft_table_take(table, weft_cli_field(host, "nodes"));
        weft_table_take(table, g_strdup(drain_word(host)));
        weft_table_take(table, weft_cli_field(host, "reason"));
    }
    weft_table_print(table, stdout);
    json_decref(hosts);
    return TRUE;
}

const WeftVerb weft_hosts_verbs[] = {
    {
        .name = "hosts",
        .arguments = "",
        .summary = "list the hosts",
        .about = "Lists the hosts: their state, leaf switch, cores in use and in all, nodes, and whether they are drained.",
        .examples = "weft hosts\n"
                    "weft hosts --json",
        .run = run,
    },
    { 0 },
};
