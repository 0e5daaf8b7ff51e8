/* The group that may open the API's socket is not one that may read weftd's keys: with a key of a host somebody has that host.
 */
#include "config.h"
#include "errors.h"
#include "records.h"

#include <grp.h>
#include <sys/stat.h>

#define KEYS_GROUP "weft-keys"
#define LIBVIRT_KEY "/etc/pki/libvirt/private/clientkey.pem"

static gboolean
check_file(const struct group *group, const char *path, GError **error)
{
    struct stat info;
    if (!path || stat(path, &info) != 0 || info.st_gid != group->gr_gid || !(info.st_mode & S_IRGRP))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "api.group: \"%s\" may read %s, which is a key of weftd's; name a group that is for clients only, "
                             "such as weft-users",
                             group->gr_name, path);
}

/* The parameters that name keys are in the table of host-uri.c. */
static gboolean
check_uri(const struct group *group, const char *uri, GError **error)
{
    const char *query = uri ? strchr(uri, '?') : NULL;
    g_autoptr(GHashTable) parameters = query ? g_uri_parse_params(query + 1, -1, "&", G_URI_PARAMS_NONE, NULL) : NULL;
    if (!parameters)
        return TRUE;
    const char *folder = g_hash_table_lookup(parameters, "pkipath");
    g_autofree char *key = folder ? g_build_filename(folder, "clientkey.pem", NULL) : NULL;
    return check_file(group, key, error) && check_file(group, g_hash_table_lookup(parameters, "keyfile"), error);
}

gboolean
weft_config_check_group(const WeftConfig *config, WeftStore *store, GError **error)
{
    const struct group *group = config->api.socket_group ? getgrnam(config->api.socket_group) : NULL;
    if (!group)
        return TRUE; /* whoever listens for it says that there is none */
    if (strcmp(group->gr_name, KEYS_GROUP) == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "api.group: \"" KEYS_GROUP
                                 "\" is for keys that weftd alone may read; name a group that is for "
                                 "clients only, such as weft-users");
    if (!check_file(group, LIBVIRT_KEY, error) || !check_file(group, config->api.tls_key, error))
        return FALSE;
    g_autoptr(GPtrArray) records = weft_store_list(store, &(WeftQuery){ .kind = WEFT_KIND_HOST }, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftHost) host = weft_record_host(records->pdata[i], error);
        if (!host || !check_uri(group, host->uri, error))
            return FALSE;
    }
    return records != NULL;
}
