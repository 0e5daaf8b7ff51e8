#include "report.h"

#include "adapter.h"
#include "bounds.h"
#include "file.h"
#include "firmware.h"
#include "memory-folders.h"
#include "quarantine.h"
#include "settings.h"
#include "state.h"
#include "sysfs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/magic.h>
#include <net/if.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#define CMDLINE_MAX 4096

static guint
count_in(const char *folder)
{
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    return names->len;
}

/* Not by access(2): for a device that weft-prepare.service may not open that fails as well. */
static gboolean
exists(const WeftHook *hook, const char *path)
{
    struct stat info;
    g_autofree char *full = weft_sysfs_path(hook, "%s", path);
    return stat(full, &info) == 0;
}

/* The module alone is not enough: in some nested clouds the CPU cannot do it. */
static gboolean
has_kvm(const WeftHook *hook)
{
    g_autofree char *info = NULL;
    if (!exists(hook, "/dev/kvm") || !g_file_get_contents("/proc/cpuinfo", &info, NULL, NULL))
        return FALSE;
    return strstr(info, " vmx") || strstr(info, " svm");
}

/* Does the host's packet filter see what only passes a bridge? Where the module is not loaded it does not. */
static gboolean
filters_bridges(void)
{
    static const char *const settings[] = { "iptables", "ip6tables", "arptables" };
    for (gsize i = 0; i < G_N_ELEMENTS(settings); i++) {
        g_autofree char *path = g_strdup_printf("/proc/sys/net/bridge/bridge-nf-call-%s", settings[i]);
        if (weft_sysfs_number(path, 0) != 0)
            return TRUE;
    }
    return FALSE;
}

/* The kernel names the chips of interrupts that are remapped so: "IR-PCI-MSIX-0000:41:00.0". Null: it names none at all. */
static json_t *
remaps_interrupts(const WeftHook *hook)
{
    g_autofree char *folder = weft_sysfs_path(hook, "/sys/kernel/irq");
    g_autoptr(GPtrArray) numbers = weft_sysfs_names(folder);
    gboolean any = FALSE;
    for (guint i = 0; i < numbers->len; i++) {
        g_autofree char *path = g_build_filename(folder, g_ptr_array_index(numbers, i), "chip_name", NULL);
        g_autofree char *chip = weft_sysfs_read(path, NULL);
        if (chip && g_str_has_prefix(chip, "IR-"))
            return json_true();
        any |= chip && (strstr(chip, "PCI-MSI") || strstr(chip, "IO-APIC"));
    }
    return any ? json_false() : json_null();
}

static gboolean
trusts_interrupts(const WeftHook *hook)
{
    g_autofree char *path = weft_sysfs_path(hook, "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts");
    g_autofree char *value = weft_sysfs_read(path, NULL);
    return g_strcmp0(value, "Y") == 0;
}

/* --- huge pages --- */

static void
add_pages(json_t *list, const char *folder, guint node)
{
    g_autoptr(GPtrArray) sizes = weft_sysfs_names(folder);
    for (guint i = 0; i < sizes->len; i++) {
        const char *name = g_ptr_array_index(sizes, i);
        guint64 size = g_str_has_prefix(name, "hugepages-") ? g_ascii_strtoull(name + strlen("hugepages-"), NULL, 10) : 0;
        g_autofree char *total = g_build_filename(folder, name, "nr_hugepages", NULL);
        g_autofree char *free = g_build_filename(folder, name, "free_hugepages", NULL);
        if (size)
            json_array_append_new(list, json_pack("{s:i, s:I, s:I, s:I}", "node", (int)node, "size", (json_int_t)size * 1024,
                                                  "total", (json_int_t)weft_sysfs_number(total, 0), "free",
                                                  (json_int_t)weft_sysfs_number(free, 0)));
    }
}

static json_t *
hugepages(const WeftHook *hook)
{
    json_t *list = json_array();
    for (guint node = 0; node < WEFT_NUMA_MAX; node++) {
        g_autofree char *folder = weft_sysfs_path(hook, "/sys/devices/system/node/node%u/hugepages", node);
        add_pages(list, folder, node);
    }
    if (json_array_size(list) == 0) {
        g_autofree char *folder = weft_sysfs_path(hook, "/sys/kernel/mm/hugepages");
        add_pages(list, folder, 0);
    }
    return list;
}

/* --- HCAs --- */

/* The port's GUID is the second half of its first GID. */
static json_t *
port_guid_of(const char *hca)
{
    g_autofree char *path = g_build_filename(hca, "ports", "1", "gids", "0", NULL);
    g_autofree char *gid = weft_sysfs_read(path, NULL);
    g_auto(GStrv) parts = gid ? g_strsplit(gid, ":", -1) : NULL;
    if (!parts || g_strv_length(parts) != 8)
        return json_null();
    g_autofree char *guid = g_strconcat("0x", parts[4], parts[5], parts[6], parts[7], NULL);
    return json_string(guid);
}

/* "active" of "4: ACTIVE". */
static json_t *
state_of(const char *hca)
{
    g_autofree char *path = g_build_filename(hca, "ports", "1", "state", NULL);
    g_autofree char *state = weft_sysfs_read(path, NULL);
    const char *word = state ? strchr(state, ' ') : NULL;
    g_autofree char *lower = word ? g_ascii_strdown(word + 1, -1) : NULL;
    return lower ? json_string(lower) : json_null();
}

/* One without a PCI device, as software makes them, has a name and a port only. */
static json_t *
hca_of(const WeftHook *hook, const char *name, const char *hca)
{
    g_autofree char *link = g_build_filename(hca, "device", NULL);
    g_autofree char *pci = weft_sysfs_link(link);
    g_autoptr(WeftAdapter) adapter = weft_adapter_at(hook, pci ? pci : "");
    json_t *json = weft_adapter_to_json(hook, adapter);
    json_object_set_new(json, "name", json_string(name));
    json_object_set_new(json, "port_guid", port_guid_of(hca));
    json_object_set_new(json, "state", state_of(hca));
    return json;
}

static json_t *
hcas(const WeftHook *hook)
{
    json_t *list = json_array();
    g_autofree char *folder = weft_sysfs_path(hook, "/sys/class/infiniband");
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autofree char *hca = g_build_filename(folder, name, NULL);
        g_autofree char *physical = g_build_filename(hca, "device", "physfn", NULL);
        if (!g_file_test(physical, G_FILE_TEST_EXISTS)) /* a function that is not given away is no HCA of its own */
            json_array_append_new(list, hca_of(hook, name, hca));
    }
    return list;
}

/* --- functions that could not be taken back --- */

static json_t *
unclean(const WeftHook *hook)
{
    json_t *list = json_array();
    g_autoptr(GPtrArray) records = weft_state_list(hook, WEFT_RECORD_DOMAIN);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        const char *why = weft_record_trouble(record);
        if (why)
            json_array_append_new(list, json_pack("{s:s, s:s}", "domain", record->name, "why", why));
    }
    return list;
}

/* --- an address that RDMA goes by --- */

static gboolean
is_active(const char *hca)
{
    g_autofree char *path = g_build_filename(hca, "ports", "1", "state", NULL);
    g_autofree char *state = weft_sysfs_read(path, NULL);
    return state && strstr(state, "ACTIVE");
}

/* The HCA that an interface is of: the same device of the host has both, or the HCA is made of the interface in software. A
 * virtual function is for nodes. */
static gboolean
is_of(const WeftHook *hook, const char *interface, const char *hca)
{
    g_autofree char *name = g_path_get_basename(hca);
    g_autofree char *both = weft_sysfs_path(hook, "/sys/class/net/%s/device/infiniband/%s", interface, name);
    g_autofree char *function = weft_sysfs_path(hook, "/sys/class/net/%s/device/physfn", interface);
    g_autofree char *path = g_build_filename(hca, "parent", NULL);
    g_autofree char *parent = weft_sysfs_read(path, NULL);
    gboolean own = g_file_test(both, G_FILE_TEST_EXISTS) && !g_file_test(function, G_FILE_TEST_EXISTS);
    return (own || g_strcmp0(parent, interface) == 0) && is_active(hca);
}

static gboolean
does_rdma(const WeftHook *hook, const char *interface)
{
    g_autofree char *folder = weft_sysfs_path(hook, "/sys/class/infiniband");
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    for (guint i = 0; i < names->len; i++) {
        g_autofree char *hca = g_build_filename(folder, g_ptr_array_index(names, i), NULL);
        if (is_of(hook, interface, hca))
            return TRUE;
    }
    return FALSE;
}

/* The first one in the kernel's order. Without rdma_cm, QEMU reaches nobody. */
static json_t *
rdma_address(const WeftHook *hook)
{
    struct ifaddrs *all = NULL;
    json_t *found = NULL;
    char text[INET_ADDRSTRLEN];
    if (!exists(hook, "/dev/infiniband/rdma_cm") || getifaddrs(&all) < 0)
        return json_null();
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
        const struct sockaddr_in *address = (const struct sockaddr_in *)one->ifa_addr;
        if (address && address->sin_family == AF_INET && (one->ifa_flags & IFF_UP) && does_rdma(hook, one->ifa_name) &&
            inet_ntop(AF_INET, &address->sin_addr, text, sizeof text))
            found = json_string(text);
    }
    freeifaddrs(all);
    return found ? found : json_null();
}

/* --- */

static json_t *
unsafe_folders(const WeftHook *hook)
{
    json_t *list = json_array();
    g_autoptr(GPtrArray) folders = weft_memory_folders(hook, 0);
    for (guint i = 0; i < folders->len; i++) {
        g_autoptr(GError) error = NULL;
        if (!weft_memory_folder_check(folders->pdata[i], &error))
            json_array_append_new(list, json_pack("{s:s, s:s}", "path", folders->pdata[i], "why", error->message));
    }
    return list;
}

/* The file system of what weft keeps on the host, where that goes with a reboot, or may; null: it stays. */
static json_t *
volatile_kind(const WeftHook *hook)
{
    struct statfs fs;
    g_autofree char *path = weft_sysfs_path(hook, "/var/lib/weft");
    while (statfs(path, &fs) < 0) { /* until it is made it is where the folder above is */
        if (errno != ENOENT || g_str_equal(path, "/"))
            return json_null();
        char *above = g_path_get_dirname(path);
        g_free(path);
        path = above;
    }
    if (fs.f_type == OVERLAYFS_SUPER_MAGIC)
        return json_string("overlay");
    return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC ? json_string("tmpfs") : json_null();
}

static json_t *
machine(void)
{
    struct sysinfo info;
    if (sysinfo(&info) < 0)
        return json_null();
    return json_pack("{s:I, s:f}", "uptime", (json_int_t)info.uptime, "load", (double)info.loads[0] / (1 << SI_LOAD_SHIFT));
}

json_t *
weft_report_new(const WeftHook *hook)
{
    struct utsname name = { 0 };
    uname(&name);
    g_autofree char *groups = weft_sysfs_path(hook, "/sys/kernel/iommu_groups");
    g_autofree char *cmdline = weft_file_read("/proc/cmdline", CMDLINE_MAX, NULL, NULL);
    return json_pack(
        "{s:s, s:I, s:s, s:s?, s:i, s:o, s:b, s:b, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
        WEFT_VERSION, "time", (json_int_t)g_get_real_time(), "kernel", name.release, "cmdline",
        cmdline ? g_strstrip(cmdline) : NULL, "iommu_groups", (int)count_in(groups), "interrupt_remapping",
        remaps_interrupts(hook), "unsafe_interrupts", trusts_interrupts(hook), "vfio", exists(hook, "/dev/vfio/vfio"), "kvm",
        has_kvm(hook), "tun", exists(hook, "/dev/net/tun"), "filters_bridges", filters_bridges(), "rdma_address",
        rdma_address(hook), "hugepages", hugepages(hook), "hcas", hcas(hook), "unclean", unclean(hook), "unsafe_folders",
        unsafe_folders(hook), "quarantine", weft_quarantine_list(hook), "firmware_tools", weft_firmware_tools(hook), "volatile",
        volatile_kind(hook), "settings", weft_settings_read(hook), "machine", machine());
}
