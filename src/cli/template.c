/* weft template: what nodes are forked from, instead of booting. */
#include "table.h"
#include "upload.h"
#include "verbs.h"

static char *
size_field(json_t *template, const char *name)
{
    json_t *size = json_object_get(template, name);
    return json_is_integer(size) ? weft_upload_size((guint64)json_integer_value(size)) : g_strdup("-");
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    json_t *templates = weft_client_list(cli->client, "/v1/templates", error);
    if (!templates)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(templates);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("ID|IMAGE|>CORES|>MEMORY|>GENERATION|!STATE|>SIZE|>USED|SOURCE");
    size_t i;
    json_t *template;
    json_array_foreach (templates, i, template) {
        weft_table_take(table, weft_cli_field(template, "id"));
        weft_table_take(table, weft_cli_field(template, "image"));
        weft_table_take(table, weft_cli_field(template, "cores"));
        weft_table_take(table, size_field(template, "memory"));
        weft_table_take(table, weft_cli_field(template, "generation"));
        weft_table_take(table, weft_cli_field(template, "state"));
        weft_table_take(table, size_field(template, "size"));
        weft_table_take(table, weft_cli_age_field(template, "used"));
        weft_table_take(table, weft_cli_field(template, "source"));
    }
    weft_table_print(table, stdout);
    json_decref(templates);
    return TRUE;
}

/* Takes the value over. */
static void
print_line(const char *name, char *value)
{
    printf("%-11s %s\n", name, value);
    g_free(value);
}

static void
print_field(json_t *template, const char *name, const char *label)
{
    if (!json_is_null(json_object_get(template, name)))
        print_line(label, weft_cli_field(template, name));
}

static void
print_primed(json_t *list)
{
    size_t i;
    json_t *primed;
    json_array_foreach (list, i, primed) {
        g_autofree char *tenant = weft_cli_field(primed, "tenant");
        g_autofree char *host = weft_cli_field(primed, "host");
        g_autofree char *numa = weft_cli_field(primed, "numa");
        g_autofree char *memory = size_field(primed, "memory");
        print_line("primed", g_strdup_printf("for %s on %s, NUMA node %s: %s", tenant, host, numa, memory));
    }
}

static gboolean
run_show(WeftCli *cli, char **args, GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *path = weft_client_path("/v1/templates", args[0]);
    if (!weft_client_call(cli->client, &(WeftCall){ "GET", path }, &response, error)) {
        weft_cli_blame(error, "template", args[0]);
        return FALSE;
    }
    if (cli->json) {
        weft_cli_print_json(g_steal_pointer(&response.body));
        return TRUE;
    }
    json_t *template = response.body;
    print_field(template, "id", "template");
    print_field(template, "generation", "generation");
    print_field(template, "source", "source");
    print_field(template, "cluster", "for clone");
    print_field(template, "tenant", "tenant");
    print_field(template, "image", "image");
    print_field(template, "cores", "cores");
    print_line("memory", size_field(template, "memory"));
    print_line("pages", size_field(template, "pages"));
    print_field(template, "kind", "hosts");
    print_field(template, "state", "state");
    print_field(template, "reason", "reason");
    print_field(template, "detail", "detail");
    print_field(template, "host", "captured on");
    print_field(template, "captured", "captured");
    print_field(template, "used", "used");
    print_field(template, "digest", "saved as");
    if (!json_is_null(json_object_get(template, "size")))
        print_line("size", size_field(template, "size"));
    print_primed(json_object_get(template, "primed"));
    return TRUE;
}

static gboolean
run_rm(WeftCli *cli, char **args, GError **error)
{
    return weft_cli_remove(cli, &(WeftRemoval){ "template", "/v1/templates", "is removed" }, args, error);
}

const WeftVerb weft_template_verbs[] = {
    {
        .name = "template ls",
        .arguments = "",
        .summary = "list what nodes are forked from",
        .about =
            "A template is a booted node that was put aside. It is made by itself, once for each image, shape of nodes and "
            "kind of host, when a cluster asks for nodes of which there is none. One that is made of a running node, its "
            "source, is for a clone alone, and goes when that is ready.",
        .examples = "weft template ls\n"
                    "weft template ls --json",
        .run = run_ls,
    },
    {
        .name = "template show",
        .arguments = "ID",
        .summary = "show a template, and where it is ready",
        .examples = "weft template show 3f81c02d9e4b7a65\n"
                    "weft template show 3f81c02d9e4b7a65 --json",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_TEMPLATES,
        .run = run_show,
    },
    {
        .name = "template rm",
        .arguments = "ID…",
        .summary = "remove templates; they are made again when needed",
        .examples = "weft template rm 3f81c02d9e4b7a65\n"
                    "weft template rm 3f81c02d9e4b7a65 94c0e7b1a3d25f68",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_TEMPLATES,
        .run = run_rm,
    },
    { 0 },
};
