#include "doctor.h"

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
    gboolean needed = passes_devices(patient->host);
    weft_check_iommu(patient->checks, patient->inventory->hook, patient->inventory->iommu, needed);
    weft_check_interrupts(patient->checks, patient->inventory->hook, needed);
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

/* Where no hook tells, libvirt does. */
static void
find_pages(const Patient *patient, WeftPagesWish *wish)
{
    const GArray *found = patient->inventory->hardware->numa;
    const WeftNuma *node = wish->node < found->len ? &g_array_index(found, WeftNuma, wish->node) : NULL;
    if (weft_pages_reported(patient->inventory->hook, wish))
        return;
    for (guint i = 0; node && i < node->n_pages; i++)
        if (node->pages[i].size == wish->size)
            wish->found = node->pages[i].count;
}

#define SMALL_PAGE 4096

static void
check_memory(const Patient *patient)
{
    g_autoptr(GArray) wishes = g_array_new(FALSE, TRUE, sizeof(WeftPagesWish));
    for (guint n = 0; n < patient->host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(patient->host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++) {
            WeftPagesWish wish = { .node = n, .size = numa->pages[i].size, .wanted = numa->pages[i].count };
            if (wish.size <= SMALL_PAGE)
                continue;
            find_pages(patient, &wish);
            g_array_append_val(wishes, wish);
        }
    }
    weft_check_pages(patient->checks, wishes);
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

/* --- settings --- */

static void
check_settings(const Patient *patient)
{
    weft_check_settings(patient->checks, patient->inventory->hook, patient->host);
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
    WeftFunctionsWish wish = { .check = check,
                               .name = described->name,
                               .driver = described->driver == WEFT_HCA_MLX4 ? "mlx4" : "mlx5",
                               .wanted = described->vfs,
                               .found = found ? found->vfs : 0 };
    weft_check_functions(patient->checks, patient->inventory->hook, hca_reported(patient, described->name), &wish);
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
    weft_check_unclean(patient->checks, patient->inventory->hook);
    weft_check_folders(patient->checks, patient->inventory->hook);
    weft_check_volatile(patient->checks, patient->inventory->hook);
    weft_check_firmware(patient->checks, patient->inventory->hook);
    weft_check_quarantine(patient->checks, patient->inventory->hook);
}

static void (*const checks[])(const Patient *patient) = {
    check_versions, check_kvm,    check_hook, check_cores, check_memory,   check_iommu,
    check_tun,      check_filter, check_rdma, check_hcas,  check_settings,
};

json_t *
weft_doctor(const WeftHost *host, const WeftInventory *inventory)
{
    Patient patient = { host, inventory, json_array() };
    for (guint i = 0; i < G_N_ELEMENTS(checks); i++)
        checks[i](&patient);
    return json_pack("{s:s, s:o}", "host", host->name, "checks", patient.checks);
}
