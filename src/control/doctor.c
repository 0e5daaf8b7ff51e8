#include "doctor.h"

#include "size.h"

#include <stdarg.h>

static const char *const health_words[] = { "ok", "warn", "fail", "unknown" };

void
weft_doctor_add(json_t *checks, const char *check, WeftHealth health, const char *remedy, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *found = g_strdup_vprintf(format, args);
    va_end(args);
    json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "state", health_words[health], "found",
                                            found, "remedy", health == WEFT_HEALTH_OK ? NULL : remedy));
}

typedef struct Patient {
    const WeftHost *host;
    const WeftInventory *inventory;
    json_t *checks;
} Patient;

static json_t *
reported(const Patient *patient, const char *name)
{
    return json_object_get(patient->inventory->hook, name);
}

/* --- programs --- */

/* "9.0.1" as one number that can be compared. */
static guint64
rank_version(const char *version)
{
    g_auto(GStrv) parts = g_strsplit(version, ".", 3);
    guint n = g_strv_length(parts);
    guint64 rank = 0;
    for (guint i = 0; i < 3; i++)
        rank = rank * 1000 + (i < n ? MIN(g_ascii_strtoull(parts[i], NULL, 10), 999) : 0);
    return rank;
}

static void
check_version(const Patient *patient, const char *check, const char *version, const char *least)
{
    g_autofree char *remedy = g_strdup_printf("install %s %s or later on the host", check, least);
    if (!version)
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_UNKNOWN, remedy, "its version is not known");
    else if (rank_version(version) >= rank_version(least))
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_OK, NULL, "%s", version);
    else
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_FAIL, remedy, "%s, older than %s", version, least);
}

static void
check_versions(const Patient *patient)
{
    check_version(patient, "libvirt", patient->inventory->libvirt, "9.0");
    check_version(patient, "qemu", patient->inventory->qemu, "7.2");
}

static void
check_hook(const Patient *patient)
{
    const WeftInventory *inventory = patient->inventory;
    const char *version = json_string_value(reported(patient, "version"));
    if (!inventory->hook)
        weft_doctor_add(
            patient->checks, "hook", WEFT_HEALTH_FAIL,
            "install weft-hook on the host as /etc/libvirt/hooks/qemu.d/weft and /etc/libvirt/hooks/network.d/weft, "
            "then systemctl reload libvirtd",
            "%s", inventory->hook_error ? inventory->hook_error : "it does not answer");
    else if (g_strcmp0(version, WEFT_VERSION) != 0)
        weft_doctor_add(patient->checks, "hook", WEFT_HEALTH_WARN, "install the weft-hook that belongs to this weftd",
                        "version %s, weftd is " WEFT_VERSION, version ? version : "unknown");
    else
        weft_doctor_add(patient->checks, "hook", WEFT_HEALTH_OK, NULL, "version %s", version);
}

/* --- virtualization --- */

static void
check_kvm(const Patient *patient)
{
    if (patient->inventory->kvm)
        weft_doctor_add(patient->checks, "kvm", WEFT_HEALTH_OK, NULL, "%s",
                        patient->inventory->cpu_model ? patient->inventory->cpu_model : "usable");
    else
        weft_doctor_add(patient->checks, "kvm", WEFT_HEALTH_WARN,
                        "switch virtualization on in the firmware, then modprobe kvm_intel or kvm_amd",
                        "not usable: nodes are emulated, and slow");
}

static gboolean
passes_devices(const WeftHost *host)
{
    gboolean vfs = FALSE;
    for (guint i = 0; i < host->hcas->len; i++)
        vfs |= ((const WeftHca *)host->hcas->pdata[i])->vfs > 0;
    return vfs || host->gpus->len > 0;
}

static void
check_iommu(const Patient *patient)
{
    json_t *groups = reported(patient, "iommu_groups");
    gboolean works = patient->inventory->iommu || json_integer_value(groups) > 0;
    const char *remedy = "add intel_iommu=on iommu=pt (AMD: amd_iommu=on iommu=pt) to the kernel's command line and reboot";
    if (works && json_is_false(reported(patient, "vfio")))
        weft_doctor_add(patient->checks, "iommu", WEFT_HEALTH_FAIL, "modprobe vfio-pci", "it is on, but vfio is not there");
    else if (works)
        weft_doctor_add(patient->checks, "iommu", WEFT_HEALTH_OK, NULL, "on");
    else if (passes_devices(patient->host))
        weft_doctor_add(patient->checks, "iommu", WEFT_HEALTH_FAIL, remedy, "off: no virtual function or GPU can be passed on");
    else
        weft_doctor_add(patient->checks, "iommu", WEFT_HEALTH_OK, NULL, "off; nothing here needs it");
}

static void
check_tun(const Patient *patient)
{
    if (patient->inventory->hook && json_is_false(reported(patient, "tun")))
        weft_doctor_add(patient->checks, "tun", WEFT_HEALTH_FAIL, "modprobe tun",
                        "there is no /dev/net/tun for the nodes' network");
}

/* With rules that change addresses a node would reach the host, and all clusters share one table of connections. */
static void
check_filter(const Patient *patient)
{
    if (patient->inventory->hook && json_is_true(reported(patient, "filters_bridges")))
        weft_doctor_add(patient->checks, "filter", WEFT_HEALTH_WARN,
                        "sysctl -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0 "
                        "net.bridge.bridge-nf-call-arptables=0, and keep it in /etc/sysctl.d",
                        "the host's packet filter takes part in the nodes' networks (br_netfilter)");
}

/* Silent where there is none: most hosts move their nodes over TCP. */
static void
check_rdma(const Patient *patient)
{
    const char *address = weft_host_rdma_address(patient->host, patient->inventory);
    if (address)
        weft_doctor_add(patient->checks, "rdma", WEFT_HEALTH_OK, NULL, "nodes move to and from %s over RDMA", address);
}

/* --- memory and cores --- */

static json_int_t
pages_reported(const Patient *patient, guint numa, guint64 size)
{
    json_t *item;
    gsize i;
    json_array_foreach (reported(patient, "hugepages"), i, item)
        if (json_integer_value(json_object_get(item, "node")) == numa &&
            json_integer_value(json_object_get(item, "size")) == (json_int_t)size)
            return json_integer_value(json_object_get(item, "total"));
    return 0;
}

static guint64
pages_found(const Patient *patient, guint numa, guint64 size)
{
    const GArray *found = patient->inventory->hardware->numa;
    if (patient->inventory->hook)
        return (guint64)pages_reported(patient, numa, size);
    const WeftNuma *node = numa < found->len ? &g_array_index(found, WeftNuma, numa) : NULL;
    for (guint i = 0; node && i < node->n_pages; i++)
        if (node->pages[i].size == size)
            return node->pages[i].count;
    return 0;
}

#define SMALL_PAGE 4096

static gboolean
check_pages(const Patient *patient, guint numa, const WeftPages *pages)
{
    guint64 found = pages_found(patient, numa, pages->size);
    if (pages->size <= SMALL_PAGE || found >= pages->count)
        return TRUE;
    g_autofree char *size = weft_size_format(pages->size);
    g_autofree char *remedy =
        g_strdup_printf("echo %" G_GUINT64_FORMAT " > /sys/devices/system/node/node%u/hugepages/hugepages-%" G_GUINT64_FORMAT
                        "kB/nr_hugepages (at boot: hugepagesz=%s hugepages=…)",
                        pages->count, numa, pages->size / 1024, size);
    weft_doctor_add(patient->checks, "hugepages", WEFT_HEALTH_FAIL, remedy,
                    "NUMA node %u has %" G_GUINT64_FORMAT " pages of %s; %" G_GUINT64_FORMAT " are described", numa, found,
                    size, pages->count);
    return FALSE;
}

static void
check_memory(const Patient *patient)
{
    gboolean fine = TRUE;
    for (guint n = 0; n < patient->host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(patient->host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            fine &= check_pages(patient, n, &numa->pages[i]);
    }
    if (fine)
        weft_doctor_add(patient->checks, "hugepages", WEFT_HEALTH_OK, NULL, "as described");
}

static void
check_cores(const Patient *patient)
{
    guint described = patient->host->cores->len, found = patient->inventory->hardware->cores->len;
    const char *remedy = "correct the host's description, or leave out numa to have it read from the host";
    if (!described)
        weft_doctor_add(patient->checks, "cores", WEFT_HEALTH_UNKNOWN, remedy, "none are described, %u were found", found);
    else if (found < described)
        weft_doctor_add(patient->checks, "cores", WEFT_HEALTH_FAIL, remedy, "%u are described, %u were found", described,
                        found);
    else
        weft_doctor_add(patient->checks, "cores", WEFT_HEALTH_OK, NULL, "%u", found);
}

/* --- adapters --- */

static json_t *
hca_reported(const Patient *patient, const char *name)
{
    json_t *item;
    gsize i;
    json_array_foreach (reported(patient, "hcas"), i, item)
        if (g_strcmp0(json_string_value(json_object_get(item, "name")), name) == 0)
            return item;
    return NULL;
}

static void
check_vfs(const Patient *patient, const char *check, const WeftHca *described, const WeftHca *found)
{
    json_t *told = hca_reported(patient, described->name);
    json_t *vfs = json_object_get(told, "vfs"), *total = json_object_get(told, "vfs_total");
    guint has = vfs ? (guint)json_integer_value(vfs) : found ? found->vfs : 0;
    g_autofree char *remedy =
        described->driver == WEFT_HCA_MLX4
            ? g_strdup_printf("options mlx4_core num_vfs=%u probe_vf=0 in /etc/modprobe.d/mlx4.conf, then reboot",
                              described->vfs)
            : g_strdup_printf("echo %u > /sys/class/infiniband/%s/device/sriov_numvfs (SR-IOV must be on in the firmware: "
                              "mlxconfig set SRIOV_EN=1 NUM_OF_VFS=%u)",
                              described->vfs, described->name, described->vfs);
    if (has < described->vfs)
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_FAIL, remedy,
                        "%u virtual functions of %" JSON_INTEGER_FORMAT " possible; %u are described", has,
                        json_integer_value(total), described->vfs);
    else
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_OK, NULL, "%u virtual functions", has);
}

static void
check_port(const Patient *patient, const char *check, const WeftHca *described)
{
    json_t *told = hca_reported(patient, described->name);
    const char *state = json_string_value(json_object_get(told, "state"));
    const char *guid = json_string_value(json_object_get(told, "port_guid"));
    if (!described->port_guid)
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_WARN,
                        "write port_guid into the host's description; ibstat shows it",
                        "it is not known which port of the fabric it is: no node gets it");
    else if (guid && g_ascii_strtoull(guid, NULL, 16) != described->port_guid)
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_FAIL, "correct port_guid in the host's description",
                        "its port GUID is %s, 0x%016" G_GINT64_MODIFIER "x is described", guid, described->port_guid);
    if (state && g_ascii_strcasecmp(state, "active") != 0)
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_WARN,
                        "look at the cable, and whether a subnet manager runs: ibstat", "its port is %s", state);
}

/* Where no virtual function is described, it may stand there only for the host's place on the fabric. */
static void
add_missing(const Patient *patient, const char *check, const WeftHca *described)
{
    g_autofree char *remedy = g_strdup_printf(
        "look whether its driver is loaded (ls /sys/class/infiniband), or take %s out of the host's description",
        described->name);
    if (described->vfs > 0)
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_FAIL, remedy,
                        "the host has no such device; %u of its virtual functions are described", described->vfs);
    else
        weft_doctor_add(patient->checks, check, WEFT_HEALTH_WARN, remedy,
                        "the host has no such device; nodes of path passthrough cannot start there");
}

static void
check_hcas(const Patient *patient)
{
    for (guint i = 0; i < patient->host->hcas->len; i++) {
        const WeftHca *described = patient->host->hcas->pdata[i];
        const WeftHca *found = weft_host_hca(patient->inventory->hardware, described->name);
        g_autofree char *check = g_strdup_printf("hca %s", described->name);
        if (!found && !hca_reported(patient, described->name)) {
            add_missing(patient, check, described);
            continue;
        }
        check_vfs(patient, check, described, found);
        check_port(patient, check, described);
    }
}

static void (*const checks[])(const Patient *patient) = {
    check_versions, check_kvm, check_hook,   check_cores, check_memory,
    check_iommu,    check_tun, check_filter, check_rdma,  check_hcas,
};

json_t *
weft_doctor(const WeftHost *host, const WeftInventory *inventory)
{
    Patient patient = { host, inventory, json_array() };
    for (guint i = 0; i < G_N_ELEMENTS(checks); i++)
        checks[i](&patient);
    return json_pack("{s:s, s:o}", "host", host->name, "checks", patient.checks);
}
