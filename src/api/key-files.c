#include "key-files.h"

#include "errors.h"

#include <grp.h>
#include <sys/stat.h>

#define ENTRY_MAX (1 << 20) /* bytes of a group and its members */

static gboolean
find_group(const char *name, gid_t *ret_gid)
{
    struct group entry, *found = NULL;
    g_autofree char *buffer = name ? g_malloc(ENTRY_MAX) : NULL;
    if (!name || getgrnam_r(name, &entry, buffer, ENTRY_MAX, &found) != 0 || !found)
        return FALSE; /* whoever listens for it says that there is none */
    *ret_gid = entry.gr_gid;
    return TRUE;
}

gboolean
weft_key_files_check(const char *group, const char *path, GError **error)
{
    struct stat info;
    gid_t gid;
    if (!path || stat(path, &info) != 0 || !(info.st_mode & S_IRGRP) || !find_group(group, &gid) || info.st_gid != gid)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "api.group: \"%s\" may read %s, which is a key of weftd's; name a group that is for clients only, "
                             "such as weft-users",
                             group, path);
}

/* The parameters that name keys are in the table of host-uri.c. */
gboolean
weft_key_files_check_uri(const char *group, const char *uri, GError **error)
{
    const char *query = uri ? strchr(uri, '?') : NULL;
    g_autoptr(GHashTable) parameters = query ? g_uri_parse_params(query + 1, -1, "&", G_URI_PARAMS_NONE, NULL) : NULL;
    if (!parameters)
        return TRUE;
    const char *folder = g_hash_table_lookup(parameters, "pkipath");
    g_autofree char *key = folder ? g_build_filename(folder, "clientkey.pem", NULL) : NULL;
    return weft_key_files_check(group, key, error) &&
           weft_key_files_check(group, g_hash_table_lookup(parameters, "keyfile"), error);
}
