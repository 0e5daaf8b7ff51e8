/* What is made of a host's own words: its description, and what the doctor says of it. */
#include "discover.h"
#include "doctor.h"

#include <string.h>

static json_t *
parse(const char *text)
{
    json_error_t where;
    json_t *json = json_loads(text, 0, &where);
    if (!json)
        g_error("%s: %s", text, where.text);
    return json;
}

static WeftHost *
host_of(const char *more)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = g_strdup_printf("{\"name\": \"n1\", \"fabric\": \"ib0\", \"leaf\": \"leaf1\"%s}", more);
    json_auto_t *json = parse(text);
    WeftHost *host = weft_host_from_json(json, "host", &error);
    g_assert_no_error(error);
    return host;
}

/* A host in order, which the cases below take something away from. */
#define NUMA ", \"numa\": [{\"cores\": 4, \"pages\": {\"2M\": 100}}, {\"cores\": 1, \"pages\": {\"2M\": 50, \"1G\": 2}}]"
#define HCA                                                                                                                    \
    "{\"name\": \"mlx5_0\", \"numa\": 1, \"port_guid\": \"0xa0\", \"vfs\": 2, \"pci\": \"0000:41:00.0\","                      \
    " \"vf_pci\": [\"0000:41:00.1\", \"0000:41:00.2\"], \"root\": \"r1\"}"
#define GPU "{\"name\": \"0000:81:00.0\", \"numa\": 1, \"root\": \"r2\"}"
#define HARDWARE NUMA ", \"hcas\": [" HCA "], \"gpus\": [" GPU "]"
#define REPORT                                                                                                                 \
    "{\"version\": \"" WEFT_VERSION "\", \"iommu_groups\": 40, \"vfio\": true, \"tun\": true,"                                 \
    " \"hugepages\": [{\"node\": 0, \"size\": 2097152, \"total\": 100}, {\"node\": 1, \"size\": 2097152, \"total\": 50},"      \
    "                 {\"node\": 1, \"size\": 1073741824, \"total\": 2}],"                                                     \
    " \"hcas\": [{\"name\": \"mlx5_0\", \"vfs\": 2, \"vfs_total\": 8, \"state\": \"ACTIVE\", \"port_guid\": \"0xa0\"}]}"

#define KEEPS_ONE ", \"housekeeping\": 1, \"numa\": [{\"cores\": 5}]"

/* The adapter of a report, for what is to be wrong with its functions. */
#define FUNCTIONS                                                                                                              \
    "\"hcas\": [{\"name\": \"mlx5_0\", \"vfs\": 2, \"vfs_total\": 8, \"state\": \"ACTIVE\", \"port_guid\": \"0xa0\", "

static WeftInventory *
inventory_of(const char *hardware, const char *report)
{
    WeftInventory *inventory = weft_inventory_new();
    weft_host_free(inventory->hardware);
    inventory->hardware = host_of(hardware);
    inventory->kvm = TRUE;
    inventory->iommu = TRUE;
    inventory->libvirt = g_strdup("9.0.0");
    inventory->qemu = g_strdup("7.2.11");
    inventory->hook = report ? parse(report) : NULL;
    return inventory;
}

/* --- discover --- */

static const WeftHca *
hca_at(const WeftHost *host, guint i)
{
    return host->hcas->pdata[i];
}

static void
test_discover(void)
{
    g_autoptr(WeftHost) place = host_of(", \"labels\": {\"rack\": \"r1\"}, \"address\": \"10.1.0.1\", \"draining\": true");
    g_autoptr(WeftInventory) inventory = inventory_of(HARDWARE, REPORT);
    g_autoptr(WeftHost) host = weft_discover(place, inventory);
    g_assert_true(host->discovered && host->draining);
    g_assert_cmpstr(host->address, ==, "10.1.0.1");
    g_assert_cmpstr(g_hash_table_lookup(host->labels, "rack"), ==, "r1");
    g_assert_cmpuint(host->cores->len, ==, 5);
    const char *keeps = "+---" /* one of four for the host */ "-" /* an only one is for nodes */;
    for (guint i = 0; i < host->cores->len; i++)
        g_assert_cmpint(g_array_index(host->cores, WeftCore, i).housekeeping, ==, keeps[i] == '+');
    g_assert_cmpuint(host->numa->len, ==, 2);
    g_assert_cmpuint(g_array_index(host->numa, WeftNuma, 1).n_pages, ==, 2);
    g_assert_cmpuint(host->hcas->len, ==, 1);
    g_assert_cmpstr(hca_at(host, 0)->leaf, ==, "leaf1"); /* where the host is, as nothing else is known */
    g_assert_cmpstr(hca_at(host, 0)->vf_pci->pdata[1], ==, "0000:41:00.2");
    g_assert_cmpstr(((const WeftGpu *)host->gpus->pdata[0])->root, ==, "r2");

    json_auto_t *json = weft_host_to_json(host);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftHost) stored = weft_host_from_json(json, "host", &error);
    g_assert_no_error(error); /* it can be written and read */
    g_assert_true(stored->discovered);
}

/* A port's GUID may come from the host, from the hook, or have been known before; without one no partition can name it. */
static void
test_discover_guids(void)
{
    g_autoptr(WeftHost) place = host_of(NUMA ", \"hcas\": [{\"name\": \"known\", \"port_guid\": \"0xc\", \"rail\": 3,"
                                             " \"leaf\": \"leaf9\"}, {\"name\": \"gone\", \"port_guid\": \"0xd\"}]");
    g_autoptr(WeftInventory) inventory = inventory_of(
        NUMA ", \"hcas\": [{\"name\": \"own\", \"port_guid\": \"0xa\"}, {\"name\": \"hook\", \"port_guid\": \"0xff\"},"
             " {\"name\": \"known\", \"port_guid\": \"0xfe\"}, {\"name\": \"none\", \"port_guid\": \"0xfd\"}]",
        "{\"hcas\": [{\"name\": \"hook\", \"port_guid\": \"0xb\"}, {\"name\": \"own\", \"port_guid\": \"0xe\"}]}");
    for (guint i = 1; i < 4; i++) /* libvirt does not know them */
        ((WeftHca *)inventory->hardware->hcas->pdata[i])->port_guid = 0;
    g_autoptr(WeftHost) host = weft_discover(place, inventory);
    g_assert_cmpuint(host->hcas->len, ==, 3);
    g_assert_cmpuint(hca_at(host, 0)->port_guid, ==, 0xa);
    g_assert_cmpuint(hca_at(host, 1)->port_guid, ==, 0xb);
    g_assert_cmpuint(hca_at(host, 2)->port_guid, ==, 0xc);
    g_assert_cmpuint(hca_at(host, 2)->rail, ==, 3); /* its place in the fabric is as it was told */
    g_assert_cmpstr(hca_at(host, 2)->leaf, ==, "leaf9");
}

/* Devices on NUMA nodes that are not there cannot be placed on. */
static void
test_discover_nonsense(void)
{
    g_autoptr(WeftHost) place = host_of("");
    g_autoptr(WeftInventory) inventory = inventory_of(HARDWARE, NULL);
    ((WeftHca *)inventory->hardware->hcas->pdata[0])->numa = 2;
    ((WeftGpu *)inventory->hardware->gpus->pdata[0])->numa = 7;
    g_autoptr(WeftHost) host = weft_discover(place, inventory);
    g_assert_cmpuint(host->hcas->len, ==, 0);
    g_assert_cmpuint(host->gpus->len, ==, 0);
}

/* Nodes do not get the last of a host's memory: of small pages a quarter stays, and where there are few, all. */
static void
test_discover_memory(void)
{
    g_autoptr(WeftHost) place = host_of("");
    g_autoptr(WeftInventory) inventory = inventory_of(
        ", \"numa\": [{\"cores\": 2, \"pages\": {\"2M\": 9, \"4K\": 4000000}}, {\"cores\": 2, \"pages\": {\"4K\": 524288}},"
        " {\"cores\": 2, \"pages\": {\"1G\": 3, \"4K\": 1000}}]",
        NULL);
    g_autoptr(WeftHost) host = weft_discover(place, inventory);
    const WeftNuma *numa = (const WeftNuma *)(gpointer)host->numa->data;
    g_assert_cmpuint(numa[0].pages[0].count, ==, 9);
    g_assert_cmpuint(numa[0].pages[1].count, ==, 3000000);
    g_assert_cmpuint(numa[1].pages[0].count, ==, 262144);
    g_assert_cmpuint(numa[2].n_pages, ==, 1);
    g_assert_cmpuint(numa[2].pages[0].count, ==, 3);
}

static void
test_discover_addresses(void)
{
    g_autoptr(WeftHost) described =
        host_of(NUMA ", \"hcas\": [{\"name\": \"mlx5_0\", \"port_guid\": \"0xa0\", \"vfs\": 1, \"root\": \"mine\"},"
                     " {\"name\": \"mlx5_7\", \"port_guid\": \"0xa7\", \"vfs\": 4}], \"gpus\": [{\"name\": \"0000:81:00.0\"}]");
    g_autoptr(WeftInventory) inventory = inventory_of(HARDWARE, NULL);
    g_autoptr(WeftHost) host = weft_discover_addresses(described, inventory);
    g_assert_false(host->discovered);
    g_assert_cmpstr(hca_at(host, 0)->pci, ==, "0000:41:00.0");
    g_assert_cmpstr(hca_at(host, 0)->root, ==, "mine"); /* what is told stays */
    g_assert_cmpuint(hca_at(host, 0)->vf_pci->len, ==, 1);
    g_assert_cmpstr(hca_at(host, 0)->vf_pci->pdata[0], ==, "0000:41:00.1");
    g_assert_null(hca_at(host, 1)->pci);
    g_assert_cmpstr(((const WeftGpu *)host->gpus->pdata[0])->root, ==, "r2");
}

typedef struct Holding {
    const char *name;
    const char *node; /* what it holds; two such nodes where twice is set */
    gboolean twice;
    gboolean fits;
} Holding;

static const Holding holdings[] = {
    { "cores", "\"cores\": [0, 4]", FALSE, TRUE },
    { "a core that is not there", "\"cores\": [5]", FALSE, FALSE },
    { "a core that the host keeps", "\"cores\": [1]", FALSE, FALSE },
    { "pages", "\"memory\": [[1, 2097152, 25]]", TRUE, TRUE },
    { "more pages than there are together", "\"memory\": [[1, 2097152, 26]]", TRUE, FALSE },
    { "pages of a size that is not there", "\"memory\": [[0, 1073741824, 1]]", FALSE, FALSE },
    { "memory of a NUMA node that is not there", "\"memory\": [[2, 2097152, 1]]", FALSE, FALSE },
    { "a function", "\"devices\": [[0, \"mlx5_0\", 1, \"0x0000000000000001\"]]", FALSE, TRUE },
    { "a whole adapter", "\"devices\": [[0, \"mlx5_0\", -1, \"0x0000000000000000\"]]", FALSE, TRUE },
    { "a function that is not there", "\"devices\": [[0, \"mlx5_0\", 2, \"0x0000000000000001\"]]", FALSE, FALSE },
    { "an adapter that is not there", "\"devices\": [[0, \"mlx5_1\", 0, \"0x0000000000000001\"]]", FALSE, FALSE },
    { "a GPU", "\"gpus\": [\"0000:81:00.0\"]", FALSE, TRUE },
    { "a GPU that is not there", "\"gpus\": [\"0000:82:00.0\"]", FALSE, FALSE },
};

static WeftNode *
node_of(const Holding *holding)
{
    g_autoptr(GError) error = NULL;
    json_auto_t *json = parse("{\"id\": \"1abc-1\", \"cluster\": \"1abc\", \"cluster_name\": \"cfd\", \"tenant\": \"acme\","
                              " \"rank\": 0, \"group\": \"nodes\", \"host\": \"n1\", \"mac\": \"02:00:00:00:00:01\","
                              " \"image\": \"mpi\", \"path\": \"bridge\", \"phase\": \"ready\", \"since\": 1,"
                              " \"cores\": [], \"memory\": []}");
    g_autofree char *held = g_strdup_printf("{%s}", holding->node);
    json_auto_t *more = parse(held);
    json_object_update(json, more);
    WeftNode *node = weft_node_from_json(json, &error);
    g_assert_no_error(error);
    return node;
}

static void
test_holds(gconstpointer data)
{
    const Holding *holding = data;
    g_autoptr(WeftHost) host = host_of(HARDWARE);
    g_array_index(host->cores, WeftCore, 1).housekeeping = TRUE;
    g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    for (int i = 0; i <= holding->twice; i++)
        g_ptr_array_add(nodes, node_of(holding));
    g_assert_cmpint(weft_discover_holds(host, nodes), ==, holding->fits);
}

/* --- doctor --- */

/* What is wrong with a host that is in order but for one thing. */
typedef struct Finding {
    const char *name;
    const char *host;   /* its description; NULL: as it is */
    const char *remove; /* from the report; NULL: nothing */
    const char *report; /* over it; NULL: nothing */
    void (*spoil)(WeftInventory *inventory);
    const char *expected; /* "CHECK STATE: FOUND" */
    const char *remedy;   /* a part of it */
} Finding;

static void
no_kvm(WeftInventory *inventory)
{
    inventory->kvm = FALSE;
}

static void
no_iommu(WeftInventory *inventory)
{
    inventory->iommu = FALSE;
}

static void
no_hook(WeftInventory *inventory)
{
    g_clear_pointer(&inventory->hook, json_decref);
    inventory->hook_error = g_strdup("network weft-probe: no hook");
}

static void
old_qemu(WeftInventory *inventory)
{
    g_free(inventory->qemu);
    inventory->qemu = g_strdup("7.1.99");
}

static void
no_version(WeftInventory *inventory)
{
    g_clear_pointer(&inventory->libvirt, g_free);
}

static const Finding findings[] = {
    { "emulated", NULL, NULL, NULL, no_kvm, "kvm warn: not usable: nodes are emulated, and slow", "modprobe kvm" },
    { "no hook", NULL, NULL, NULL, no_hook, "hook fail: network weft-probe: no hook", "/etc/libvirt/hooks/qemu.d/weft" },
    { "hook of another version", NULL, NULL, "{\"version\": \"0.0.1\"}", NULL,
      "hook warn: version 0.0.1, weftd is " WEFT_VERSION, "weft-hook" },
    { "hook that does not say", NULL, "version", NULL, NULL, "hook warn: version unknown, weftd is " WEFT_VERSION,
      "weft-hook" },
    { "old QEMU", NULL, NULL, NULL, old_qemu, "qemu fail: 7.1.99, older than 7.2", "install qemu 7.2" },
    { "unknown libvirt", NULL, NULL, NULL, no_version, "libvirt unknown: its version is not known", "install libvirt 9.0" },
    { "IOMMU off", NULL, NULL, "{\"iommu_groups\": 0}", no_iommu,
      "iommu fail: off: no virtual function or GPU can be passed on", "intel_iommu=on" },
    { "no VFIO", NULL, NULL, "{\"vfio\": false}", NULL, "iommu fail: it is on, but vfio is not there", "modprobe vfio-pci" },
    { "no tun", NULL, NULL, "{\"tun\": false}", NULL, "tun fail: there is no /dev/net/tun for the nodes' network",
      "modprobe tun" },
    { "fewer cores", ", \"numa\": [{\"cores\": 6}]", NULL, NULL, NULL, "cores fail: 6 are described, 5 were found",
      "description" },
    { "nothing described", "", NULL, NULL, NULL, "cores unknown: none are described, 5 were found", "description" },
    { "fewer pages", ", \"numa\": [{\"cores\": 4}, {\"cores\": 1, \"pages\": {\"1G\": 3}}]", NULL, NULL, NULL,
      "hugepages fail: NUMA node 1 has 2 pages of 1G; 3 are wanted",
      "weft host prepare --pages 1G=1:3 on the host (at boot: hugepagesz=1G hugepages=1:3)" },
    { "pages that nobody reports", NULL, "hugepages", "{\"hugepages\": [{\"node\": 0, \"size\": 2097152, \"total\": 99}]}",
      NULL, "hugepages fail: NUMA node 0 has 99 pages of 2M; 100 are wanted", "--pages 2M=0:100" },
    { "no adapter", NUMA ", \"hcas\": [{\"name\": \"mlx5_1\", \"port_guid\": \"0xa1\", \"vfs\": 4}]", NULL, NULL, NULL,
      "hca mlx5_1 fail: the host has no such device; 4 of its virtual functions are described", "ls /sys/class/infiniband" },
    { "no adapter, and none needed", NUMA ", \"hcas\": [{\"name\": \"mlx5_1\", \"port_guid\": \"0xa1\"}]", NULL, NULL, NULL,
      "hca mlx5_1 warn: the host has no such device; nodes of path passthrough cannot start there",
      "take mlx5_1 out of the host's description" },
    { "fewer functions", NUMA ", \"hcas\": [{\"name\": \"mlx5_0\", \"port_guid\": \"0xa0\", \"vfs\": 4}]", NULL, NULL, NULL,
      "hca mlx5_0 fail: 2 virtual functions of 8 possible; 4 are wanted",
      "weft host prepare --adapter mlx5_0=4 on the host (SR-IOV" },
    { "fewer functions of an old adapter",
      NUMA ", \"hcas\": [{\"name\": \"mlx5_0\", \"driver\": \"mlx4\", \"port_guid\": \"0xa0\", \"vfs\": 4}]", NULL, NULL, NULL,
      "hca mlx5_0 fail: 2 virtual functions of 8 possible; 4 are wanted", "options mlx4_core num_vfs=4" },
    { "another port", NUMA ", \"hcas\": [{\"name\": \"mlx5_0\", \"port_guid\": \"0xa1\"}]", NULL, NULL, NULL,
      "hca mlx5_0 fail: its port GUID is 0xa0, 0x00000000000000a1 is described", "correct port_guid" },
    { "interrupts as they come", NULL, NULL, "{\"interrupt_remapping\": false, \"unsafe_interrupts\": false}", NULL,
      "interrupts fail: not remapped: vfio refuses devices", "intremap=off" },
    { "interrupts as they come, and nobody minds", NULL, NULL, "{\"interrupt_remapping\": false, \"unsafe_interrupts\": true}",
      NULL,
      "interrupts warn: not remapped, and vfio does without (allow_unsafe_interrupts): a node can raise any of the host's",
      "intremap=off" },
    { "interrupts that nobody knows of", NULL, NULL, "{\"interrupt_remapping\": null}", NULL,
      "interrupts unknown: the kernel does not tell whether they are remapped", "dmesg" },
    { "a driver on the functions", NULL, NULL, "{" FUNCTIONS "\"bound\": [\"0000:41:00.1\", \"0000:41:00.2\"]}]}", NULL,
      "hca mlx5_0 warn: a driver of the host has 2 of its virtual functions: 0000:41:00.1, 0000:41:00.2",
      "weft host prepare --adapter mlx5_0=2 on the host" },
    { "functions that the IOMMU does not know", NULL, NULL, "{" FUNCTIONS "\"ungrouped\": [\"0000:41:00.1\"]}]}", NULL,
      "hca mlx5_0 fail: the IOMMU knows nothing of 0000:41:00.1", "dmesg" },
    { "functions that reach each other", NULL, NULL,
      "{" FUNCTIONS "\"shared\": [\"a\", \"b\", \"c\", \"d\", \"e\"], \"acs_off\": [], \"acs_lacking\": "
      "[\"0000:40:01.0\"]}]}",
      NULL,
      "hca mlx5_0 fail: a, b, c, d, … can reach other devices past the IOMMU, and share a group with them; no ACS at port "
      "0000:40:01.0",
      "put the adapter into a slot" },
    { "functions that reach each other, and need not", NULL, NULL,
      "{" FUNCTIONS "\"shared\": [\"a\"], \"acs_off\": [\"0000:40:01.0\"], \"acs_lacking\": []}]}", NULL,
      "hca mlx5_0 fail: a can reach other devices past the IOMMU, and share a group with them; ACS is off at port "
      "0000:40:01.0",
      "pci=disable_acs_redir=" },
    { "functions that are apart by decree", NULL, NULL,
      "{" FUNCTIONS "\"shared\": [], \"acs_off\": [], \"acs_lacking\": [\"0000:40:01.0\"]}], \"cmdline\": "
      "\"pcie_acs_override=downstream\"}",
      NULL,
      "hca mlx5_0 warn: its functions are apart only because the kernel was told to believe so; no ACS at port 0000:40:01.0",
      "pcie_acs_override" },
    { "cores of nodes that are not isolated", KEEPS_ONE, NULL, "{\"settings\": {\"isolation\": \"2,4\"}}", NULL,
      "isolation advice: processors 1,3 are for nodes, and not isolated",
      "isolcpus=managed_irq,domain,1-4 nohz_full=1-4 rcu_nocbs=1-4 on" },
    { "interrupts on cores of nodes", KEEPS_ONE, NULL, "{\"settings\": {\"irqs\": \"00000000,0000000b\"}}", NULL,
      "irqs advice: new ones may go to processors 1,3, which are for nodes", "irqaffinity=0 on" },
    { "settings that are none", NULL, NULL,
      "{\"tun\": false, \"settings\": {\"smt\": 1, \"ksm\": {}, \"mitigations\": [1], \"isolation\": \"0-99999,-,x\", "
      "\"irqs\": "
      "\"zz\"}}",
      NULL, "tun fail: there is no /dev/net/tun for the nodes' network", "" },
    { "no cable", NULL, NULL, "{\"hcas\": [{\"name\": \"mlx5_0\", \"vfs\": 2, \"state\": \"DOWN\"}]}", NULL,
      "hca mlx5_0 warn: its port is DOWN", "cable" },
};

/* A line for each check that is not ok. */
static char *
wrong_checks(json_t *report, const char **ret_remedy)
{
    GString *text = g_string_new(NULL);
    json_t *check;
    size_t i;
    json_array_foreach (json_object_get(report, "checks"), i, check) {
        const char *state = json_string_value(json_object_get(check, "state"));
        const char *remedy = json_string_value(json_object_get(check, "remedy"));
        g_assert_cmpint(remedy != NULL, ==, strcmp(state, "ok") != 0);
        if (!remedy)
            continue;
        g_string_append_printf(text, "%s%s %s: %s", text->len ? "\n" : "", json_string_value(json_object_get(check, "check")),
                               state, json_string_value(json_object_get(check, "found")));
        *ret_remedy = remedy;
    }
    return g_string_free(text, FALSE);
}

static void
test_healthy(void)
{
    g_autoptr(WeftHost) host = host_of(HARDWARE);
    g_autoptr(WeftInventory) inventory = inventory_of(HARDWARE, REPORT);
    const char *remedy = NULL;
    json_auto_t *report = weft_doctor(host, inventory);
    g_autofree char *wrong = wrong_checks(report, &remedy);
    g_assert_cmpstr(wrong, ==, "");
    g_assert_cmpstr(json_string_value(json_object_get(report, "host")), ==, "n1");
    g_assert_cmpuint(json_array_size(json_object_get(report, "checks")), >=, 7);
}

static void
test_finding(gconstpointer data)
{
    const Finding *finding = data;
    g_autoptr(WeftHost) host = host_of(finding->host ? finding->host : HARDWARE);
    g_autoptr(WeftInventory) inventory = inventory_of(HARDWARE, REPORT);
    if (finding->remove)
        json_object_del(inventory->hook, finding->remove);
    if (finding->report) {
        json_auto_t *over = parse(finding->report);
        json_object_update(inventory->hook, over);
    }
    if (finding->spoil)
        finding->spoil(inventory);
    const char *remedy = "";
    json_auto_t *report = weft_doctor(host, inventory);
    g_autofree char *wrong = wrong_checks(report, &remedy);
    /* Where the report lacks one thing, others may be wrong too: the first is the one that counts. */
    g_auto(GStrv) lines = g_strsplit(wrong, "\n", 2);
    g_assert_cmpstr(lines[0], ==, finding->expected);
    if (!lines[1] && !strstr(remedy, finding->remedy))
        g_error("'%s' does not tell of '%s'", remedy, finding->remedy);
}

/* A host that passes nothing on needs no IOMMU, and without a hook what libvirt says counts. */
static void
test_plain_host(void)
{
    g_autoptr(WeftHost) host = host_of(NUMA);
    g_autoptr(WeftInventory) inventory = inventory_of(NUMA, NULL);
    inventory->iommu = FALSE;
    const char *remedy = NULL;
    json_auto_t *report = weft_doctor(host, inventory);
    g_autofree char *wrong = wrong_checks(report, &remedy);
    g_assert_cmpstr(wrong, ==, "hook fail: it does not answer");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/discover/description", test_discover);
    g_test_add_func("/discover/guids", test_discover_guids);
    g_test_add_func("/discover/nonsense", test_discover_nonsense);
    g_test_add_func("/discover/memory", test_discover_memory);
    g_test_add_func("/discover/addresses", test_discover_addresses);
    for (guint i = 0; i < G_N_ELEMENTS(holdings); i++) {
        g_autofree char *path = g_strdup_printf("/discover/holds/%s", holdings[i].name);
        g_test_add_data_func(path, &holdings[i], test_holds);
    }
    g_test_add_func("/doctor/healthy", test_healthy);
    g_test_add_func("/doctor/plain-host", test_plain_host);
    for (guint i = 0; i < G_N_ELEMENTS(findings); i++) {
        g_autofree char *path = g_strdup_printf("/doctor/%s", findings[i].name);
        g_test_add_data_func(path, &findings[i], test_finding);
    }
    return g_test_run();
}
