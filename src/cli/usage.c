/* weft usage: what each tenant held, and for how long. */
#include "table.h"
#include "verbs.h"

static char *from, *to;

static const GOptionEntry options[] = {
    { "from", 0, 0, G_OPTION_ARG_STRING, &from, "begin: a time, a day, or how long ago (30d)", "TIME" },
    { "to", 0, 0, G_OPTION_ARG_STRING, &to, "end (now)", "TIME" },
    { NULL },
};

/* Four digits: a short trial of weft must not look free. */
static char *
hours(json_t *object, const char *name)
{
    return g_strdup_printf("%.4f", json_number_value(json_object_get(object, name)) / 3600);
}

static char *
add_time(char *path, const char *key, const char *text, GError **error)
{
    g_autofree char *option = g_strconcat("--", key, NULL);
    g_autofree char *time = text ? weft_cli_time(option, text, error) : NULL;
    if (text && !time)
        g_clear_pointer(&path, g_free);
    return time ? weft_client_query(path, key, time) : path;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *path = weft_client_query(g_strdup("/v1/usage"), "tenant", cli->tenant);
    path = add_time(g_steal_pointer(&path), "from", from, error);
    if (path)
        path = add_time(g_steal_pointer(&path), "to", to, error);
    json_t *usage = path ? weft_client_get(cli->client, path, error) : NULL;
    if (!usage)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(usage);
        return TRUE;
    }
    static const char *const columns[] = { "node_seconds", "core_seconds", "memory_gib_seconds", "gpu_seconds", "vf_seconds" };
    g_autoptr(WeftTable) table = weft_table_new("TENANT|>NODES|>NODE HOURS|>CORE HOURS|>GIB HOURS|>GPU HOURS|>VF HOURS");
    size_t i;
    json_t *tenant;
    json_array_foreach (json_object_get(usage, "tenants"), i, tenant) {
        weft_table_take(table, weft_cli_field(tenant, "tenant"));
        weft_table_take(table, weft_cli_field(tenant, "nodes"));
        for (guint c = 0; c < G_N_ELEMENTS(columns); c++)
            weft_table_take(table, hours(tenant, columns[c]));
    }
    weft_table_print(table, stdout);
    json_decref(usage);
    return TRUE;
}

const WeftVerb weft_usage_verbs[] = {
    {
        .name = "usage",
        .arguments = "",
        .summary = "sum up what tenants held, and for how long",
        .examples = "weft usage --from 30d\n"
                    "weft usage --from 2026-01-01 --to 2026-02-01 --json",
        .options = options,
        .run = run,
    },
    { 0 },
};
