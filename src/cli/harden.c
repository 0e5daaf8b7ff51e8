/* weft fabric harden: opensm's options, in a file on this machine. Asks no weftd. */
#include "id.h"
#include "options-file.h"
#include "verbs.h"

static char *file, *way, *partitions;
static gboolean write_it, qos;

/* clang-format off */
static const GOptionEntry options[] = {
    { "file", 0, 0, G_OPTION_ARG_FILENAME, &file, "opensm's options (" WEFT_OPTIONS_PATH ")", "FILE" },
    { "way", 0, 0, G_OPTION_ARG_STRING, &way, "in which weft speaks to opensm (plugin)", "plugin|file|pool" },
    { "partitions", 0, 0, G_OPTION_ARG_FILENAME, &partitions, "file that weft writes its partitions into", "FILE" },
    { "qos", 0, 0, G_OPTION_ARG_NONE, &qos, "bandwidth is guaranteed to clusters", NULL },
    { "write", 0, 0, G_OPTION_ARG_NONE, &write_it, "write the file, and keep the old one beside it", NULL },
    { NULL },
};
/* clang-format on */

static gboolean
check_way(GError **error)
{
    static const char *const ways[] = { "plugin", "file", "pool", NULL };
    if (!way || g_strv_contains(ways, way))
        return TRUE;
    weft_cli_set_usage(error, "--way %s: there are plugin, file and pool", way);
    return FALSE;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    const char *path = file ? file : WEFT_OPTIONS_PATH;
    WeftOptionsWant want = { .plugin = !way || strcmp(way, "plugin") == 0,
                             .qos = qos,
                             .partitions = partitions,
                             .random = write_it ? weft_random_u64 : NULL };
    g_autofree char *text = check_way(error) ? weft_options_file_read(path, error) : NULL;
    g_autoptr(GPtrArray) found = text ? weft_options_check(text, &want, error) : NULL;
    if (!found) {
        if (text)
            g_prefix_error(error, "%s: ", path);
        return FALSE;
    }
    WeftOptionsFile where = { path, write_it,
                              "only its owner may read it, for the keys in it\n"
                              "put the same keys on the machine of the standby, then restart opensm" };
    return weft_options_file_settle(cli, &where, text, found, error);
}

const WeftVerb weft_harden_verbs[] = {
    {
        .name = "fabric harden",
        .arguments = "[--write]",
        .summary = "show or write the options of opensm that keep tenants out",
        .about = "Looks at opensm's options on this machine and prints what to take out and to put in, with the reasons.\n"
                 "With --write writes it and makes up keys. Exit status 1 where something is to be changed and was not.",
        .examples = "weft fabric harden\n"
                    "weft fabric harden --file /etc/opensm/opensm.conf --write",
        .options = options,
        .run = run,
    },
    { 0 },
};
