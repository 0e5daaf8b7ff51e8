/* The group that may open the API's socket is not one that may read weftd's keys. */
#include "config.h"
#include "errors.h"
#include "key-files.h"
#include "records.h"

#define KEYS_GROUP "weft-keys"
#define LIBVIRT_KEY "/etc/pki/libvirt/private/clientkey.pem"

gboolean
weft_config_check_group(const WeftConfig *config, WeftStore *store, GError **error)
{
    const char *group = config->api.socket_group;
    if (!group)
        return TRUE;
    if (strcmp(group, KEYS_GROUP) == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "api.group: \"" KEYS_GROUP
                                 "\" is for keys that weftd alone may read; name a group that is for "
                                 "clients only, such as weft-users");
    if (!weft_key_files_check(group, LIBVIRT_KEY, error) || !weft_key_files_check(group, config->api.tls_key, error))
        return FALSE;
    g_autoptr(GPtrArray) records = weft_store_list(store, &(WeftQuery){ .kind = WEFT_KIND_HOST }, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftHost) host = weft_record_host(records->pdata[i], error);
        if (!host || !weft_key_files_check_uri(group, host->uri, error))
            return FALSE;
    }
    return records != NULL;
}
