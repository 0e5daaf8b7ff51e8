#include "errors.h"
#include "sysfs.h"
#include "vf.h"

/* ConnectX-2 and -3: the functions share their port's table of P_Keys, and a map of each function tells which of its own
 * indices stands for which of the port's. */

#define PORT 1                 /* the HCA's port that weft uses; a second one is closed */
#define FULL 0x8000            /* the bit of full membership */
#define DEFAULT_LIMITED 0x7fff /* the default partition, limited: enough to ask the subnet manager */
#define PKEYS_MAX 256

static char *
hca_path(const WeftHook *hook, const WeftHookDevice *device, const char *rest)
{
    return weft_sysfs_path(hook, "/sys/class/infiniband/%s/%s", device->hca, rest);
}

static char *
vf_path(const WeftHook *hook, const WeftHookDevice *device, guint port, const char *rest)
{
    return weft_sysfs_path(hook, "/sys/class/infiniband/%s/iov/%s/ports/%u/%s", device->hca, device->pci, port, rest);
}

/* Where the port's own table has this key; -1: nowhere. */
static int
find_pkey(const WeftHook *hook, const WeftHookDevice *device, guint pkey)
{
    for (int i = 0; i < PKEYS_MAX; i++) {
        g_autofree char *name = g_strdup_printf("iov/ports/%d/pkeys/%d", PORT, i);
        g_autofree char *path = hca_path(hook, device, name);
        g_autofree char *value = weft_sysfs_read(path, NULL);
        if (!value)
            return -1;
        if (g_ascii_strtoull(value, NULL, 16) == pkey)
            return i;
    }
    return -1;
}

#define KEYS_MAX (1 + WEFT_SHARED_MAX + 1)

/* What a function's own table has, by index: its cluster's key first, the default partition last. */
static guint
list_keys(const WeftHookDevice *device, guint16 *keys)
{
    guint n = 0;
    keys[n++] = (guint16)(device->pkey | FULL);
    for (guint i = 0; i < device->n_shared; i++)
        keys[n++] = device->shared[i];
    keys[n++] = DEFAULT_LIMITED;
    return n;
}

static gboolean
check(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    g_autofree char *map = vf_path(hook, device, PORT, "pkey_idx/0");
    if (!g_file_test(map, G_FILE_TEST_EXISTS))
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "%s is not there: is virtual function %s one of the InfiniBand port %d of HCA %s? See the "
                                 "module options num_vfs and port_type_array of mlx4_core",
                                 map, device->pci, PORT, device->hca);
    guint16 keys[KEYS_MAX];
    guint n = list_keys(device, keys);
    for (guint i = 0; i + 1 < n; i++)
        if (find_pkey(hook, device, keys[i]) < 0)
            return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                                     "P_Key 0x%04x is not in the table of port %d of HCA %s: has the subnet manager taken up "
                                     "the partition? It may be tried again",
                                     keys[i], PORT, device->hca);
    if (find_pkey(hook, device, DEFAULT_LIMITED) < 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "P_Key 0x7fff is not in the table of port %d of HCA %s: make the hosts limited members of the "
                                 "default partition, else their nodes could reach each other through it",
                                 PORT, device->hca);
    return TRUE;
}

/* --- the map --- */

/* "none" is kept as the port's last index, where never is a key, and reads back as one or the other. */
static gboolean
set_index(const WeftHook *hook, const WeftHookDevice *device, guint port, int index, int physical, GError **error)
{
    g_autofree char *name = g_strdup_printf("pkey_idx/%d", index);
    g_autofree char *path = vf_path(hook, device, port, name);
    g_autofree char *value = physical < 0 ? g_strdup("none") : g_strdup_printf("%d", physical);
    return weft_sysfs_set(path, value, physical < 0 ? "127" : NULL, error);
}

static gboolean
close_port(const WeftHook *hook, const WeftHookDevice *device, guint port, GError **error)
{
    for (int i = 0; i < PKEYS_MAX; i++) {
        g_autofree char *name = g_strdup_printf("pkey_idx/%d", i);
        g_autofree char *path = vf_path(hook, device, port, name);
        if (!g_file_test(path, G_FILE_TEST_EXISTS))
            break;
        if (!set_index(hook, device, port, i, -1, error))
            return FALSE;
    }
    return TRUE;
}

/* With management packets of its own a guest could reprogram the fabric. */
static gboolean
forbid_management(const WeftHook *hook, const WeftHookDevice *device, guint port, GError **error)
{
    g_autofree char *path = vf_path(hook, device, port, "enable_smi_admin");
    return !g_file_test(path, G_FILE_TEST_EXISTS) || weft_sysfs_set(path, "0", NULL, error);
}

static gboolean
close_ports(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    for (guint port = 1; port <= 2; port++) {
        g_autofree char *path = vf_path(hook, device, port, "pkey_idx");
        if (g_file_test(path, G_FILE_TEST_EXISTS) &&
            (!forbid_management(hook, device, port, error) || !close_port(hook, device, port, error)))
            return FALSE;
    }
    return TRUE;
}

/* --- the GUID --- */

static gboolean
set_guid(const WeftHook *hook, const WeftHookDevice *device, guint64 guid, GError **error)
{
    g_autofree char *which = vf_path(hook, device, PORT, "gid_idx/0");
    gint64 index = weft_sysfs_number(which, -1);
    if (index != device->vf + 1)
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "%s is %" G_GINT64_FORMAT ", not %d: the driver counts its functions "
                                 "in another way than weft knows",
                                 which, index, device->vf + 1);
    g_autofree char *name = g_strdup_printf("iov/ports/%d/admin_guids/%d", PORT, device->vf + 1);
    g_autofree char *path = hca_path(hook, device, name);
    g_autofree char *value = g_strdup_printf("0x%016" G_GINT64_MODIFIER "x", guid);
    g_autofree char *shown = g_strdup_printf("%" G_GINT64_MODIFIER "x", guid);
    return weft_sysfs_set(path, value, shown, error);
}

/* Everything is closed before the function becomes somebody else's, and opened last. */
static gboolean
prepare(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    if (!check(hook, device, error) || !close_ports(hook, device, error) || !set_guid(hook, device, device->guid, error))
        return FALSE;
    guint16 keys[KEYS_MAX];
    guint n = list_keys(device, keys);
    for (guint i = 0; i < n; i++)
        if (!set_index(hook, device, PORT, (int)i, find_pkey(hook, device, keys[i]), error))
            return FALSE;
    return TRUE;
}

static gboolean
clear(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    return close_ports(hook, device, error) && set_guid(hook, device, WEFT_GUID_NONE, error);
}

const WeftVfOps weft_vf_mlx4 = { .driver = "mlx4_core", .check = check, .prepare = prepare, .clear = clear };
