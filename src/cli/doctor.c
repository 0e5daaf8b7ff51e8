/* weft doctor: what hosts and fabrics lack, and how to mend it. */
#include "table.h"
#include "verbs.h"

/* {"items": […]} of one host or of all. */
static json_t *
examine(WeftCli *cli, const char *host, GError **error)
{
    if (!host)
        return weft_client_get(cli->client, "/v1/doctor", error);
    g_autofree char *base = weft_client_path("/v1/hosts", host);
    g_autofree char *path = g_strconcat(base, "/doctor", NULL);
    json_t *report = weft_client_get(cli->client, path, error);
    if (!report)
        weft_cli_blame(error, "host", host);
    return report ? json_pack("{s:[o]}", "items", report) : NULL;
}

/* What was found, and below it what to do. */
static char *
tell(json_t *check)
{
    g_autofree char *found = weft_cli_field(check, "found");
    g_autofree char *remedy = weft_cli_field(check, "remedy");
    return strcmp(remedy, "-") == 0 ? g_steal_pointer(&found) : g_strconcat(found, "\nremedy: ", remedy, NULL);
}

static guint
add_checks(WeftTable *table, json_t *report)
{
    guint failed = 0;
    size_t i;
    json_t *check;
    json_array_foreach (json_object_get(report, "checks"), i, check) {
        const char *state = json_string_value(json_object_get(check, "state"));
        failed += g_strcmp0(state, "fail") == 0;
        weft_table_take(table, weft_cli_field(report, "host"));
        weft_table_take(table, weft_cli_field(check, "check"));
        weft_table_take(table, weft_cli_field(check, "state"));
        weft_table_take(table, tell(check));
    }
    return failed;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    json_t *found = examine(cli, args[0], error);
    if (!found)
        return FALSE;
    g_autoptr(WeftTable) table = weft_table_new("HOST|CHECK|!STATE|FOUND");
    guint failed = 0;
    size_t i;
    json_t *report;
    json_array_foreach (json_object_get(found, "items"), i, report)
        failed += add_checks(table, report);
    cli->status = failed > 0;
    if (cli->json)
        weft_cli_print_json(json_incref(json_object_get(found, "items")));
    else
        weft_table_print(table, stdout);
    json_decref(found);
    return TRUE;
}

const WeftVerb weft_doctor_verbs[] = {
    {
        .name = "doctor",
        .arguments = "[HOST]",
        .summary = "tell what hosts lack, and how to mend it",
        .about = "Examines a host, or all of them and the fabrics: virtual functions, IOMMU, huge pages, the hook, versions.\n"
                 "Tells for each what was found and what to do. Exit status 1 where something fails; a warning is none.",
        .examples = "weft doctor\n"
                    "weft doctor n1 --json",
        .max_args = 1,
        .names = WEFT_NAMES_HOSTS,
        .run = run,
    },
    { 0 },
};
