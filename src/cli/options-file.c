#include "options-file.h"

#include "errors.h"
#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPIES_MAX 100

char *
weft_options_file_read(const char *path, GError **error)
{
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return g_strdup("");
    return weft_file_read(path, WEFT_OPTIONS_MAX, NULL, error);
}

/* Keys that are in use, or will be, stay in the file. */
static char *
shown(const WeftOption *option, const char *value, gboolean writes)
{
    return option->secret && value && (writes || value == option->found) ? g_strdup("0x…") : weft_cli_clean(value);
}

static guint
print_changes(const GPtrArray *found, gboolean writes)
{
    guint wrong = 0;
    const char *why = NULL; /* told already */
    for (guint i = 0; i < found->len; i++) {
        const WeftOption *option = found->pdata[i];
        if (option->right)
            continue;
        wrong++;
        g_autofree char *old = shown(option, option->found, writes), *new = shown(option, option->value, writes);
        if (option->why != why)
            printf("# %s%s\n", option->severe ? "" : "(advice) ", option->why);
        why = option->why;
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
        g_autofree char *old = shown(option, option->found, FALSE), *new = shown(option, option->value, FALSE);
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
write_options(const WeftOptionsFile *file, const char *text, const GPtrArray *found, GError **error)
{
    g_autofree char *right = weft_options_harden(text, found);
    umask(077);
    if (!keep_copy(file->path, error) || !weft_file_replace(file->path, right, strlen(right), TRUE, error))
        return FALSE;
    printf("%s is written; %s\n", file->path, file->after);
    return TRUE;
}

gboolean
weft_options_file_settle(WeftCli *cli, const WeftOptionsFile *file, const char *text, const GPtrArray *found, GError **error)
{
    if (cli->json && file->write) {
        weft_cli_set_usage(error, "--json tells, --write writes: give one of them");
        return FALSE;
    }
    if (cli->json) {
        print_json(found);
        return TRUE;
    }
    guint wrong = print_changes(found, file->write);
    if (wrong == 0)
        printf("%s: nothing to change\n", file->path);
    else if (file->write)
        return write_options(file, text, found, error);
    cli->status = wrong > 0;
    return TRUE;
}
