/* weft queue: who waits for room, in which order, why, and until when. */
#include "table.h"
#include "verbs.h"

static gboolean all;

static const GOptionEntry options[] = {
    { "all", 'a', 0, G_OPTION_ARG_NONE, &all, "of all tenants, also where --tenant or WEFT_TENANT names one", NULL },
    { NULL },
};

static void
add_row(WeftTable *table, json_t *item, gboolean tenants)
{
    static const char *const fields[] = { "nodes", "cores", "priority" };
    weft_table_take(table, weft_cli_field(item, "place"));
    if (tenants)
        weft_table_take(table, weft_cli_field(item, "tenant"));
    weft_table_take(table, weft_cli_field(item, "name"));
    for (guint i = 0; i < G_N_ELEMENTS(fields); i++)
        weft_table_take(table, weft_cli_field(item, fields[i]));
    weft_table_take(table, weft_cli_age_field(item, "since"));
    weft_table_take(table, weft_cli_until_field(item, "when"));
    weft_table_take(table, weft_cli_field(item, "reason"));
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *path = weft_client_query(g_strdup("/v1/queue"), "tenant", all ? NULL : cli->tenant);
    json_t *queue = weft_client_get(cli->client, path, error);
    if (!queue)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(queue);
        return TRUE;
    }
    gboolean tenants = json_object_get(queue, "statistics") != NULL;
    g_autoptr(WeftTable) table = weft_table_new(tenants ? ">PLACE|TENANT|NAME|>NODES|>CORES|>PRIORITY|>WAITS|STARTS|REASON"
                                                        : ">PLACE|NAME|>NODES|>CORES|>PRIORITY|>WAITS|STARTS|REASON");
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(queue, "items"), i, item) {
        add_row(table, item, tenants);
    }
    weft_table_print(table, stdout);
    json_decref(queue);
    return TRUE;
}

const WeftVerb weft_queue_verbs[] = {
    {
        .name = "queue",
        .arguments = "",
        .summary = "list queued clusters, with reason and expected start",
        .about = "Lists the clusters that wait for room, in the order in which they get it. Those of other tenants are not "
                 "shown, but count in the places.",
        .examples = "weft queue\n"
                    "weft queue --json",
        .options = options,
        .run = run,
    },
    { 0 },
};
