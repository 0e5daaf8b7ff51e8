/* weft fabric qos: opensm's options that make the lanes of a fabric. */
#include "lanes.h"
#include "options-file.h"
#include "verbs.h"

static char *file, *fabric, *lanes;
static gboolean write_it;

/* clang-format off */
static const GOptionEntry options[] = {
    { "fabric", 0, 0, G_OPTION_ARG_STRING, &fabric, "whose lanes, where there are several", "NAME" },
    { "lanes", 0, 0, G_OPTION_ARG_STRING, &lanes, "these, without asking weftd: service levels and percent", "SL:SHARE,…" },
    { "file", 0, 0, G_OPTION_ARG_FILENAME, &file, "opensm's options (" WEFT_OPTIONS_PATH ")", "FILE" },
    { "write", 0, 0, G_OPTION_ARG_NONE, &write_it, "write the file, and keep the old one beside it", NULL },
    { NULL },
};
/* clang-format on */

/* The one that was named, or the only one. Borrowed. */
static json_t *
choose(json_t *fabrics, GError **error)
{
    size_t i;
    json_t *item;
    if (!fabric && json_array_size(fabrics) == 1)
        return json_array_get(fabrics, 0);
    json_array_foreach (fabrics, i, item)
        if (fabric && g_strcmp0(json_string_value(json_object_get(item, "name")), fabric) == 0)
            return item;
    if (fabric)
        weft_cli_set_usage(error, "there is no fabric %s; weft fabric show tells which there are", fabric);
    else
        weft_cli_set_usage(error, "which fabric? give --fabric NAME");
    return NULL;
}

/* As its configuration describes them. */
static gboolean
ask_lanes(WeftCli *cli, WeftLanes *ret_lanes, GError **error)
{
    json_auto_t *fabrics = weft_client_list(cli->client, "/v1/fabrics", error);
    json_t *chosen = fabrics ? choose(fabrics, error) : NULL;
    if (!chosen)
        return FALSE;
    json_auto_t *qos = json_pack("{s:O?}", "qos", json_object_get(chosen, "qos"));
    WeftFields f;
    weft_fields_begin(&f, qos, "%s", "");
    weft_lanes_read(&f, "qos", ret_lanes);
    if (!weft_fields_end(&f, error))
        return FALSE;
    if (ret_lanes->n == 0)
        weft_cli_set_usage(error,
                           "the fabric has no lanes; describe them in weft.yaml (fabrics: qos), or give --lanes 1:40,2:20");
    return ret_lanes->n > 0;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    WeftLanes wanted;
    const char *path = file ? file : WEFT_OPTIONS_PATH;
    if (lanes ? !weft_lanes_parse(lanes, &wanted, error) : !ask_lanes(cli, &wanted, error))
        return FALSE;
    g_autofree char *text = weft_options_file_read(path, error);
    g_autoptr(GPtrArray) found = text ? weft_lanes_check(text, &wanted, error) : NULL;
    if (!found) {
        if (text)
            g_prefix_error(error, "%s: ", path);
        return FALSE;
    }
    WeftOptionsFile where = { path, write_it, "do the same on the machine of the standby, then send opensm a SIGHUP" };
    return weft_options_file_settle(cli, &where, text, found, error);
}

const WeftVerb weft_qos_verbs[] = {
    {
        .name = "fabric qos",
        .arguments = "[--write]",
        .summary = "tell or write the options of opensm that guarantee bandwidth",
        .about = "Looks at opensm's options on this machine and prints what to take out and to put in for the lanes of the\n"
                 "fabric: which service level goes over which virtual lane, and how ports take turns between these.\n"
                 "Exit status 1 where something is to be changed and was not.",
        .examples = "weft fabric qos\n"
                    "weft fabric qos --lanes 1:40,2:20 --file /etc/opensm/opensm.conf --write",
        .options = options,
        .run = run,
    },
    { 0 },
};
