/* weft fabric harden: opensm's options, in a file on this machine. Asks no weftd. */
#include "errors.h"
#include "file.h"
#include "id.h"
#include "options.h"
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPIES_MAX 100

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

static char *
read_options(const char *path, GError **error)
{
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return g_strdup("");
    return weft_file_read(path, WEFT_OPTIONS_MAX, NULL, error);
}

/* Keys that are in use, or will be, stay in the file. */
static char *
shown(const WeftOption *option, const char *value)
{
    return option->secret && value && (write_it || value == option->found) ? g_strdup("0x…") : weft_cli_clean(value);
}

static guint
print_changes(const GPtrArray *found)
{
    guint wrong = 0;
    for (guint i = 0; i < found->len; i++) {
        const WeftOption *option = found->pdata[i];
        if (option->right)
            continue;
        wrong++;
        g_autofree char *old = shown(option, option->found), *new = shown(option, option->value);
        printf("# %s%s\n", option->severe ? "" : "(advice) ", option->why);
        if (option->found)
            printf("-%s %s\n", option->name, old);
        printf("+%s %s\n", option->name, new);
    }
    return wrong;
}

static void
print_json(const GPtrArray *found)
{
    json_t *list = json_array();
    for (guint i = 0; i < found->len; i++) {
        const WeftOption *option = found->pdata[i];
        g_autofree char *old = shown(option, option->found), *new = shown(option, option->value);
        json_array_append_new(list, json_pack("{s:s, s:s?, s:b, s:b, s:s?, s:s}", "option", option->name, "found",
                                              option->found ? old : NULL, "right", option->right, "severe", option->severe,
                                              "write", option->value ? new : NULL, "why", option->why));
    }
    weft_cli_print_json(list);
}

/* The old file stays beside the new one, under a name that nothing has yet. */
static gboolean
keep_copy(const char *path, GError **error)
{
    for (guint i = 1; i <= COPIES_MAX; i++) {
        g_autofree char *copy =
            i == 1 ? g_strconcat(path, ".before-weft", NULL) : g_strdup_printf("%s.before-weft.%u", path, i);
        if (link(path, copy) == 0)
            printf("the old file is %s\n", copy);
        else if (errno == EEXIST)
            continue;
        else if (errno != ENOENT)
            return weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: cannot be kept as %s: %s", path, copy, g_strerror(errno));
        return TRUE;
    }
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "%s: has %d old copies beside it; remove some", path, COPIES_MAX);
}

static gboolean
write_options(const char *path, const char *text, const GPtrArray *found, GError **error)
{
    g_autofree char *hard = weft_options_harden(text, found);
    umask(077);
    if (!keep_copy(path, error) || !weft_file_replace(path, hard, strlen(hard), TRUE, error))
        return FALSE;
    printf("%s is written; only its owner may read it, for the keys in it\n"
           "put the same keys on the machine of the standby, then restart opensm\n",
           path);
    return TRUE;
}

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
    g_autofree char *text = check_way(error) ? read_options(path, error) : NULL;
    g_autoptr(GPtrArray) found = text ? weft_options_check(text, &want, error) : NULL;
    if (!found) {
        if (text)
            g_prefix_error(error, "%s: ", path);
        return FALSE;
    }
    if (cli->json && write_it) {
        weft_cli_set_usage(error, "--json tells, --write writes: give one of them");
        return FALSE;
    }
    if (cli->json) {
        print_json(found);
        return TRUE;
    }
    guint wrong = print_changes(found);
    if (wrong == 0)
        printf("%s: nothing to change\n", path);
    else if (write_it)
        return write_options(path, text, found, error);
    cli->status = wrong > 0;
    return TRUE;
}

const WeftVerb weft_harden_verbs[] = {
    {
        .name = "fabric harden",
        .arguments = "[--write]",
        .summary = "tell or write the options of opensm that keep tenants out",
        .about = "Looks at opensm's options on this machine and prints what to take out and to put in, with the reasons.\n"
                 "With --write writes it and makes up keys. Exit status 1 where something is to be changed and was not.",
        .examples = "weft fabric harden\n"
                    "weft fabric harden --file /etc/opensm/opensm.conf --write",
        .options = options,
        .run = run,
    },
    { 0 },
};
