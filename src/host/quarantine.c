#include "quarantine.h"

#include "errors.h"
#include "file.h"
#include "sysfs.h"
#include "text.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#define ENTRY_MAX 8192
#define WHY_MAX 1000 /* characters, of up to 4 bytes */

static char *
path_of(const WeftHook *hook, const char *pci)
{
    return weft_sysfs_path(hook, WEFT_QUARANTINE_PATH "/%s", pci);
}

/* "TIME WHY" in one line. One that is there and cannot be read counts, too: "". */
static char *
read_entry(const WeftHook *hook, const char *pci, const char **ret_why)
{
    g_autofree char *path = path_of(hook, pci);
    g_autofree char *entry = weft_file_read(path, ENTRY_MAX, NULL, NULL);
    char *text = entry ? weft_text_line(entry, ENTRY_MAX) : g_file_test(path, G_FILE_TEST_EXISTS) ? g_strdup("") : NULL;
    char *space = text ? strchr(text, ' ') : NULL;
    if (space)
        *space = '\0';
    *ret_why = space ? space + 1 : "its entry cannot be read";
    return text;
}

gboolean
weft_quarantine_put(const WeftHook *hook, const char *pci, const char *why, GError **error)
{
    const char *before;
    g_autofree char *path = path_of(hook, pci), *folder = path_of(hook, "");
    g_autofree char *since = read_entry(hook, pci, &before);
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *time = since && *since ? g_strdup(since) : g_date_time_format(now, "%Y-%m-%dT%H:%M:%SZ");
    g_autofree char *line = weft_text_line(why, WHY_MAX), *text = g_strconcat(time, " ", line, NULL);
    if (g_mkdir_with_parents(folder, 0755) != 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot make the folder %s: %s", folder, g_strerror(errno));
    return weft_file_replace(path, text, strlen(text), TRUE, error);
}

void
weft_quarantine_drop(const WeftHook *hook, const char *pci)
{
    g_autofree char *path = path_of(hook, pci);
    if (g_unlink(path) == 0)
        weft_file_sync_folder(path, NULL);
}

char *
weft_quarantine_why(const WeftHook *hook, const char *pci)
{
    const char *why;
    g_autofree char *since = read_entry(hook, pci, &why);
    return since ? g_strdup_printf("since %s: %s", since, why) : NULL;
}

/* What was not yet renamed when its writer was killed ("0000:41:00.1.xxxxxx") is no entry. */
static gboolean
is_address(const char *name)
{
    return strlen(name) == strlen("0000:41:00.1") && strchr(name, ':');
}

/* One that is not there any more may have been either, and counts as whole. */
static gboolean
is_virtual(const WeftHook *hook, const char *pci)
{
    g_autofree char *path = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/physfn", pci);
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

gboolean
weft_quarantine_is_same_slot(const char *pci, const char *other)
{
    const char *function = strrchr(pci, '.');
    return function && strncmp(pci, other, (gsize)(function + 1 - pci)) == 0;
}

char *
weft_quarantine_of_slot(const WeftHook *hook, const char *pci)
{
    g_autofree char *folder = path_of(hook, "");
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    for (guint i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        if (is_address(name) && weft_quarantine_is_same_slot(pci, name) && !is_virtual(hook, name))
            return g_strdup(name);
    }
    return NULL;
}

json_t *
weft_quarantine_list(const WeftHook *hook)
{
    json_t *list = json_array();
    g_autofree char *folder = path_of(hook, "");
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    for (guint i = 0; i < names->len; i++) {
        const char *pci = names->pdata[i], *why;
        g_autofree char *since = is_address(pci) ? read_entry(hook, pci, &why) : NULL;
        if (since)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "pci", pci, "since", since, "why", why, "whole",
                                                  !is_virtual(hook, pci)));
    }
    return list;
}
