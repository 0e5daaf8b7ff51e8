#include "adapter.h"

#include "acs.h"
#include "errors.h"
#include "file.h"
#include "state.h"
#include "sysfs.h"

#include <stdio.h>
#include <string.h>

#define CONFIG_MAX 4096
#define FUNCTIONS_MAX 65535
#define PORTS_MAX 32

void
weft_adapter_free(WeftAdapter *adapter)
{
    if (!adapter)
        return;
    g_free(adapter->pci);
    g_free(adapter->folder);
    g_free(adapter->driver);
    g_clear_pointer(&adapter->functions, g_ptr_array_unref);
    g_free(adapter);
}

static char *
device_path(const WeftHook *hook, const char *pci, const char *name)
{
    return weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/%s", pci, name);
}

static char *
device_link(const WeftHook *hook, const char *pci, const char *name)
{
    g_autofree char *path = device_path(hook, pci, name);
    return weft_sysfs_link(path);
}

char *
weft_device_driver(const WeftHook *hook, const char *pci)
{
    return device_link(hook, pci, "driver");
}

gboolean
weft_driver_is_hosts(const char *driver)
{
    return driver && !strstr(driver, "vfio");
}

/* --- looking one up --- */

static gint64
number_of(const WeftHook *hook, const char *pci, const char *name)
{
    g_autofree char *path = device_path(hook, pci, name);
    return weft_sysfs_number(path, -1);
}

static guint
count_functions(const char *folder)
{
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    guint count = 0;
    for (guint i = 0; i < names->len; i++)
        count += g_str_has_prefix(g_ptr_array_index(names, i), "virtfn");
    return count;
}

gboolean
weft_device_is_there(const WeftHook *hook, const char *pci)
{
    g_autofree char *folder = device_path(hook, pci, "");
    return g_file_test(folder, G_FILE_TEST_IS_DIR);
}

static GPtrArray *
functions_of(const WeftHook *hook, const char *pci, const char *folder)
{
    GPtrArray *functions = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0, n = count_functions(folder); i < FUNCTIONS_MAX && n > 0; i++) {
        g_autofree char *name = g_strdup_printf("virtfn%u", i);
        char *function = device_link(hook, pci, name);
        n -= function != NULL;
        g_ptr_array_add(functions, function);
    }
    return functions;
}

WeftAdapter *
weft_adapter_at(const WeftHook *hook, const char *pci)
{
    WeftAdapter *adapter = g_new0(WeftAdapter, 1);
    adapter->pci = g_strdup(pci);
    adapter->folder = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s", pci);
    adapter->driver = weft_device_driver(hook, pci);
    adapter->total = number_of(hook, pci, "sriov_totalvfs");
    adapter->wanted = number_of(hook, pci, "sriov_numvfs");
    adapter->functions = functions_of(hook, pci, adapter->folder);
    return adapter;
}

static const char *const classes[] = { "infiniband", "nvme" };

static char *
list_names(const WeftHook *hook)
{
    GString *list = g_string_new(NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(classes); i++) {
        g_autofree char *folder = weft_sysfs_path(hook, "/sys/class/%s", classes[i]);
        g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
        for (guint n = 0; n < names->len; n++)
            g_string_append_printf(list, "%s%s", list->len ? ", " : "", (char *)g_ptr_array_index(names, n));
    }
    return g_string_free(list->len ? list : g_string_append(list, "none"), FALSE);
}

static char *
address_of(const WeftHook *hook, const char *name)
{
    g_autofree char *itself = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s", name);
    if (!strchr(name, '/') && strchr(name, ':') && g_file_test(itself, G_FILE_TEST_IS_DIR))
        return g_strdup(name);
    for (gsize i = 0; i < G_N_ELEMENTS(classes) && !strchr(name, '/'); i++) {
        g_autofree char *path = weft_sysfs_path(hook, "/sys/class/%s/%s/device", classes[i], name);
        char *pci = weft_sysfs_link(path);
        if (pci)
            return pci;
    }
    return NULL;
}

WeftAdapter *
weft_adapter_find(const WeftHook *hook, const char *name, GError **error)
{
    g_autofree char *pci = address_of(hook, name);
    if (!pci) {
        g_autofree char *there = list_names(hook);
        weft_error_refuse(error, WEFT_ERROR_NOT_FOUND,
                          "this host has no such device (there are %s): write one of these or a PCI address, as lspci -D "
                          "prints it, or load its driver (modprobe mlx5_core, mlx4_core, nvme)",
                          there);
        return NULL;
    }
    g_autofree char *physical = device_link(hook, pci, "physfn");
    if (physical) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "%s is a virtual function itself: write %s, which it is one of", pci,
                          physical);
        return NULL;
    }
    return weft_adapter_at(hook, pci);
}

/* --- who uses a function now --- */

static gboolean
process_has_open(const char *pid, const char *path)
{
    g_autofree char *folder = g_strdup_printf("/proc/%s/fd", pid);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *fd; dir && (fd = g_dir_read_name(dir));) {
        g_autofree char *link = g_build_filename(folder, fd, NULL);
        g_autofree char *target = g_file_read_link(link, NULL);
        if (g_strcmp0(target, path) == 0)
            return TRUE;
    }
    return FALSE;
}

static char *
process_with(const char *path)
{
    g_autoptr(GDir) dir = g_dir_open("/proc", 0, NULL);
    for (const char *pid; dir && (pid = g_dir_read_name(dir));) {
        if (g_ascii_isdigit(pid[0]) && process_has_open(pid, path))
            return g_strdup(pid);
    }
    return NULL;
}

/* A node has it from the moment that the hook began to prepare it, also one that is plugged later. */
static char *
node_with(const WeftHook *hook, const char *pci)
{
    g_autoptr(GPtrArray) records = weft_state_list(hook, WEFT_RECORD_DOMAIN);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        if (strstr(record->text, pci) && weft_state_is_alive(hook, WEFT_RECORD_DOMAIN, record))
            return g_strdup_printf("the node %s", record->name);
    }
    return NULL;
}

char *
weft_device_process(const WeftHook *hook, const char *pci)
{
    g_autofree char *driver = weft_device_driver(hook, pci);
    g_autofree char *group = device_link(hook, pci, "iommu_group");
    if (!driver || !group || weft_driver_is_hosts(driver))
        return NULL;
    g_autofree char *path = weft_sysfs_path(hook, "/dev/vfio/%s", group);
    return process_with(path);
}

char *
weft_device_user(const WeftHook *hook, const char *pci)
{
    g_autofree char *pid = weft_device_process(hook, pci);
    return pid ? g_strdup_printf("process %s", pid) : node_with(hook, pci);
}

/* --- how its functions are --- */

static guint
group_size(const WeftHook *hook, const char *group)
{
    g_autofree char *folder = weft_sysfs_path(hook, "/sys/kernel/iommu_groups/%s/devices", group);
    g_autoptr(GPtrArray) devices = weft_sysfs_names(folder);
    return devices->len;
}

static void
tell_function(const WeftHook *hook, const char *pci, json_t *bound, json_t *ungrouped, json_t *shared)
{
    g_autofree char *driver = weft_device_driver(hook, pci);
    g_autofree char *group = device_link(hook, pci, "iommu_group");
    if (weft_driver_is_hosts(driver))
        json_array_append_new(bound, json_string(pci));
    if (!group)
        json_array_append_new(ungrouped, json_string(pci));
    else if (group_size(hook, group) > 1)
        json_array_append_new(shared, json_string(pci));
}

static WeftAcs
acs_of(const WeftHook *hook, const char *pci)
{
    gsize length = 0;
    g_autofree char *path = device_path(hook, pci, "config");
    g_autofree char *config = weft_file_read(path, CONFIG_MAX, &length, NULL);
    return config ? weft_acs_read((const guint8 *)config, length) : WEFT_ACS_UNKNOWN;
}

static gboolean
is_address(const char *text)
{
    guint domain, bus, slot, function;
    char rest;
    return sscanf(text, "%x:%x:%x.%x%c", &domain, &bus, &slot, &function, &rest) == 4;
}

/* The ports above a device are the folders that it lies in: ../../../devices/pci0000:00/0000:00:02.0/0000:41:00.0 */
static void
tell_ports(const WeftHook *hook, const WeftAdapter *adapter, json_t *object)
{
    g_autofree char *target = g_file_read_link(adapter->folder, NULL);
    g_auto(GStrv) parts = g_strsplit(target ? target : "", "/", PORTS_MAX);
    json_t *off = json_array(), *lacking = json_array();
    gboolean unknown = target == NULL;
    for (guint i = 0, n = g_strv_length(parts); i + 1 < n; i++) {
        WeftAcs acs = is_address(parts[i]) ? acs_of(hook, parts[i]) : WEFT_ACS_NEEDLESS;
        unknown |= acs == WEFT_ACS_UNKNOWN;
        if (acs == WEFT_ACS_OFF || acs == WEFT_ACS_LACKING)
            json_array_append_new(acs == WEFT_ACS_OFF ? off : lacking, json_string(parts[i]));
    }
    json_object_set_new(object, "acs_off", unknown ? json_null() : json_incref(off));
    json_object_set_new(object, "acs_lacking", unknown ? json_null() : json_incref(lacking));
    json_decref(off);
    json_decref(lacking);
}

char *
weft_driver_short(const char *driver)
{
    gsize length = driver ? strlen(driver) : 0;
    return g_strndup(driver, g_str_has_suffix(driver ? driver : "", "_core") ? length - strlen("_core") : length);
}

static guint
count_present(const WeftAdapter *adapter)
{
    guint count = 0;
    for (guint i = 0; i < adapter->functions->len; i++)
        count += g_ptr_array_index(adapter->functions, i) != NULL;
    return count;
}

json_t *
weft_adapter_to_json(const WeftHook *hook, const WeftAdapter *adapter)
{
    json_t *bound = json_array(), *ungrouped = json_array(), *shared = json_array();
    g_autofree char *driver = weft_driver_short(adapter->driver);
    guint vfs = count_present(adapter);
    gint64 numa = number_of(hook, adapter->pci, "numa_node");
    for (guint i = 0; i < adapter->functions->len; i++) {
        const char *pci = g_ptr_array_index(adapter->functions, i);
        if (pci)
            tell_function(hook, pci, bound, ungrouped, shared);
    }
    json_t *json =
        json_pack("{s:s?, s:s?, s:o, s:i, s:I, s:o, s:o, s:o}", "driver", driver, "pci", *adapter->pci ? adapter->pci : NULL,
                  "numa", numa < 0 ? json_null() : json_integer(numa), "vfs", (int)vfs, "vfs_total",
                  (json_int_t)MAX(adapter->total, vfs), "bound", bound, "ungrouped", ungrouped, "shared", shared);
    tell_ports(hook, adapter, json);
    return json;
}
