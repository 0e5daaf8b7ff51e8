/* weft fabric qos: opensm's options that make the lanes of a fabric. */
#include "errors.h"
#include "lanes.h"
#include "options-file.h"
#include "verbs.h"

#include <errno.h>
#include <unistd.h>

#define PROGRAM "weft-lanes"

static char *file, *fabric, *lanes;
static gboolean write_it, check_it;

/* clang-format off */
static const GOptionEntry options[] = {
    { "fabric", 0, 0, G_OPTION_ARG_STRING, &fabric, "whose lanes, where there are several", "NAME" },
    { "lanes", 0, 0, G_OPTION_ARG_STRING, &lanes, "these, without asking weftd: service levels and percent", "SL:SHARE,…" },
    { "file", 0, 0, G_OPTION_ARG_FILENAME, &file, "opensm's options (" WEFT_OPTIONS_PATH ")", "FILE" },
    { "check", 0, 0, G_OPTION_ARG_NONE, &check_it, "read the ports instead of the file, from an adapter of this machine", NULL },
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

/* In a build folder beside us, else where it was installed. */
static char *
find_program(GError **error)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", error);
    if (!self)
        return NULL;
    g_autofree char *folder = g_path_get_dirname(self);
    g_autofree char *built = g_canonicalize_filename("../fabric/opensm/" PROGRAM, folder);
    if (g_file_test(built, G_FILE_TEST_IS_EXECUTABLE))
        return g_steal_pointer(&built);
    g_autofree char *prefix = g_path_get_dirname(folder);
    return g_canonicalize_filename(WEFT_LIBEXECDIR "/weft/" PROGRAM, prefix);
}

/* Ports that are protected answer only who knows the M_Key, which is in opensm's file. */
static gboolean
check_ports(const char *path, const WeftLanes *wanted, GError **error)
{
    g_autofree char *text = weft_options_file_read(path, error);
    g_autoptr(GHashTable) found = text ? weft_options_read(text, error) : NULL;
    g_autofree char *program = found ? find_program(error) : NULL;
    if (!program)
        return FALSE;
    g_autoptr(GString) words = g_string_new(NULL);
    for (guint i = 0; i < wanted->n; i++)
        g_string_append_printf(words, "%s%u:%u", i ? "," : "", wanted->lanes[i].sl, wanted->lanes[i].share);
    const char *key = g_hash_table_lookup(found, "m_key");
    g_setenv("WEFT_M_KEY", key ? key : "0", TRUE);
    execl(program, program, words->str, NULL);
    return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "cannot run %s: %s; install weft where opensm runs", program,
                             g_strerror(errno));
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    WeftLanes wanted;
    const char *path = file ? file : WEFT_OPTIONS_PATH;
    if (lanes ? !weft_lanes_parse(lanes, &wanted, error) : !ask_lanes(cli, &wanted, error))
        return FALSE;
    if (check_it)
        return check_ports(path, &wanted, error);
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
        .arguments = "[--write | --check]",
        .summary = "show or write the options of opensm that guarantee bandwidth",
        .about = "Looks at opensm's options on this machine and prints what to take out and to put in for the lanes of the\n"
                 "fabric: which service level goes over which virtual lane, and how ports take turns between these.\n"
                 "With --check reads the ports' tables back. Exit status 1 where something is to be changed and was not.",
        .examples = "weft fabric qos --lanes 1:40,2:20 --file /etc/opensm/opensm.conf --write\n"
                    "weft fabric qos --check",
        .options = options,
        .run = run,
    },
    { 0 },
};
