#include "driver.h"
#include "errors.h"
#include "hook.h"
#include "inventory.h"
#include "yaml.h"

#include <string.h>

#define MELLANOX 0x15b3
#define MLX5_FIRST 0x1011 /* product: Connect-IB; before it, and some from 0x6000 on, are ConnectX-2 and -3 */
#define MLX5_END 0x6000

enum { CLASS_INFINIBAND = 0x0207, CLASS_NETWORK = 0x0280 };

/* --- a PCI device --- */

typedef struct Device {
    guint64 class, vendor, product, numa;
    char *address;        /* "0000:41:00.0" */
    char *root;           /* "pci0000:40"; NULL: unknown */
    char *driver;         /* NULL: none */
    gboolean virtual;     /* a virtual function */
    GPtrArray *functions; /* addresses of its virtual functions */
} Device;

static void
device_free(gpointer data)
{
    Device *device = data;
    g_free(device->address);
    g_free(device->root);
    g_free(device->driver);
    g_ptr_array_unref(device->functions);
    g_free(device);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Device, device_free)

static gboolean
read_id(const xmlNode *parent, const char *element, const char *attribute, guint64 *ret_id)
{
    const xmlNode *node = weft_xml_child(parent, element);
    g_autofree char *text = attribute ? weft_xml_get(node, attribute) : weft_xml_content(node);
    return weft_xml_number(text, 0, G_MAXUINT32, ret_id);
}

static char *
format_address(guint64 domain, guint64 bus, guint64 slot, guint64 function)
{
    return g_strdup_printf("%04x:%02x:%02x.%x", (guint)domain, (guint)bus, (guint)slot, (guint)function);
}

/* <address domain='0x0000' bus='0x41' slot='0x00' function='0x1'/> */
static char *
address_of(const xmlNode *node)
{
    static const char *const parts[] = { "domain", "bus", "slot", "function" };
    guint64 numbers[G_N_ELEMENTS(parts)];
    for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
        g_autofree char *text = weft_xml_get(node, parts[i]);
        if (!weft_xml_number(text, 0, 0xffff, &numbers[i]))
            return NULL;
    }
    return format_address(numbers[0], numbers[1], numbers[2], numbers[3]);
}

/* /sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0 */
static char *
root_of(const char *path)
{
    const char *root = path && g_str_has_prefix(path, "/sys/devices/pci") ? path + strlen("/sys/devices/") : NULL;
    return root ? g_strndup(root, strcspn(root, "/")) : NULL;
}

static void
read_functions(Device *device, const xmlNode *pci)
{
    for (const xmlNode *node = weft_xml_child(pci, "capability"); node; node = weft_xml_next(node, "capability")) {
        g_autofree char *type = weft_xml_get(node, "type");
        if (g_strcmp0(type, "phys_function") == 0)
            device->virtual = TRUE;
        if (g_strcmp0(type, "virt_functions") != 0)
            continue;
        for (const xmlNode *vf = weft_xml_child(node, "address"); vf; vf = weft_xml_next(vf, "address")) {
            char *address = address_of(vf);
            if (address && device->functions->len < WEFT_VFS_MAX)
                g_ptr_array_add(device->functions, address);
            else
                g_free(address);
        }
    }
}

/* The capability of that type; NULL: it is another kind of device. */
static const xmlNode *
capability(const xmlNode *root, const char *type)
{
    for (const xmlNode *node = weft_xml_child(root, "capability"); node; node = weft_xml_next(node, "capability")) {
        g_autofree char *there = weft_xml_get(node, "type");
        if (g_strcmp0(there, type) == 0)
            return node;
    }
    return NULL;
}

/* NULL: not a PCI device. */
static Device *
device_new(const xmlNode *root)
{
    const xmlNode *pci = capability(root, "pci");
    guint64 domain, bus, slot, function;
    if (!pci || !read_id(pci, "domain", NULL, &domain) || !read_id(pci, "bus", NULL, &bus) ||
        !read_id(pci, "slot", NULL, &slot) || !read_id(pci, "function", NULL, &function))
        return NULL;
    g_autofree char *path = weft_xml_content(weft_xml_child(root, "path"));
    Device *device = g_new0(Device, 1);
    device->functions = g_ptr_array_new_with_free_func(g_free);
    device->address = format_address(domain, bus, slot, function);
    device->root = root_of(path);
    device->driver = weft_xml_content(weft_xml_child(weft_xml_child(root, "driver"), "name"));
    read_id(pci, "class", NULL, &device->class);
    read_id(pci, "vendor", "id", &device->vendor);
    read_id(pci, "product", "id", &device->product);
    read_id(pci, "numa", "node", &device->numa);
    read_functions(device, pci);
    return device;
}

static int
compare_devices(gconstpointer a, gconstpointer b)
{
    return strcmp((*(Device *const *)a)->address, (*(Device *const *)b)->address);
}

static GPtrArray *
pci_devices(const GPtrArray *texts)
{
    GPtrArray *devices = g_ptr_array_new_with_free_func(device_free);
    for (guint i = 0; i < texts->len; i++) {
        g_autoptr(xmlDoc) doc = weft_xml_parse(g_ptr_array_index(texts, i), "device", NULL);
        Device *device = doc ? device_new(xmlDocGetRootElement(doc)) : NULL;
        if (device)
            g_ptr_array_add(devices, device);
    }
    g_ptr_array_sort(devices, compare_devices);
    return devices;
}

/* --- HCAs and GPUs --- */

/* An adapter whose ports are Ethernet's is no HCA. A virtual function belongs to its adapter. */
static gboolean
is_hca(const Device *device)
{
    guint64 class = device->class >> 8;
    return device->vendor == MELLANOX && !device->virtual && (class == CLASS_INFINIBAND || class == CLASS_NETWORK);
}

/* A server has a little screen adapter of its board as well, and some CPUs have one: those are no GPUs. */
/* clang-format off */
static const struct {
    guint64 vendor; /* 0: any */
    guint64 class;
} gpus[] = {
    { 0,      0x0302 },                     /* 3D controller */
    { 0x10de, 0x0300 }, { 0x10de, 0x0380 }, /* NVIDIA */
    { 0x1002, 0x0300 }, { 0x1002, 0x0380 }, /* AMD */
    { 0x8086, 0x0380 },                     /* Intel, without a screen */
};
/* clang-format on */

static gboolean
is_gpu(const Device *device)
{
    for (gsize i = 0; i < G_N_ELEMENTS(gpus); i++) {
        if (device->class >> 8 == gpus[i].class && (!gpus[i].vendor || device->vendor == gpus[i].vendor))
            return !device->virtual;
    }
    return FALSE;
}

static guint
numa_of(const WeftInventory *inventory, const Device *device)
{
    return device->numa < inventory->hardware->numa->len ? (guint)device->numa : 0;
}

/* By the driver that has it, where the host tells; else by its product. FALSE: it is none. */
static gboolean
read_driver(const WeftInventory *inventory, const Device *device, WeftHcaDriver *ret_driver)
{
    json_t *hca;
    gsize i;
    json_array_foreach (json_object_get(inventory->hook, "hcas"), i, hca)
        if (g_strcmp0(json_string_value(json_object_get(hca, "pci")), device->address) == 0)
            for (WeftHcaDriver driver = 0; weft_hca_driver_words[driver]; driver++)
                if (g_strcmp0(json_string_value(json_object_get(hca, "driver")), weft_hca_driver_words[driver]) == 0) {
                    *ret_driver = driver;
                    return TRUE;
                }
    *ret_driver = device->product >= MLX5_FIRST && device->product < MLX5_END ? WEFT_HCA_MLX5 : WEFT_HCA_MLX4;
    return is_hca(device);
}

static guint
count_driver(const WeftHost *host, WeftHcaDriver driver)
{
    guint n = 0;
    for (guint i = 0; i < host->hcas->len; i++)
        n += ((WeftHca *)g_ptr_array_index(host->hcas, i))->driver == driver;
    return n;
}

static void
add_hca(WeftInventory *inventory, const Device *device, WeftHcaDriver driver)
{
    WeftHost *host = inventory->hardware;
    if (host->hcas->len >= WEFT_HCAS_MAX)
        return;
    WeftHca *hca = weft_hca_new();
    hca->driver = driver;
    hca->name = g_strdup_printf("%s_%u", weft_hca_driver_words[hca->driver], count_driver(host, hca->driver));
    hca->numa = numa_of(inventory, device);
    hca->rail = host->hcas->len;
    hca->pci = g_strdup(device->address);
    hca->root = g_strdup(device->root);
    hca->vfs = device->functions->len;
    for (guint i = 0; i < device->functions->len; i++)
        g_ptr_array_add(hca->vf_pci, g_strdup(g_ptr_array_index(device->functions, i)));
    g_ptr_array_add(host->hcas, hca);
}

static void
add_gpu(WeftInventory *inventory, const Device *device)
{
    WeftHost *host = inventory->hardware;
    if (host->gpus->len >= WEFT_GPUS_MAX)
        return;
    WeftGpu *gpu = g_new0(WeftGpu, 1);
    gpu->name = g_strdup(device->address);
    gpu->numa = numa_of(inventory, device);
    gpu->root = g_strdup(device->root);
    g_ptr_array_add(host->gpus, gpu);
}

void
weft_inventory_read_devices(WeftInventory *inventory, const GPtrArray *texts)
{
    g_autoptr(GPtrArray) devices = pci_devices(texts);
    for (guint i = 0; i < devices->len; i++) {
        Device *device = g_ptr_array_index(devices, i);
        WeftHcaDriver driver;
        if (read_driver(inventory, device, &driver))
            add_hca(inventory, device, driver);
        if (is_gpu(device))
            add_gpu(inventory, device);
    }
}

/* --- the hook's report --- */

json_t *
weft_inventory_read_report(const char *message, GError **error)
{
    const char *mark = strstr(message, WEFT_HOOK_REPORT "\n");
    if (!mark) {
        weft_error_refuse(error, WEFT_ERROR_FAILED, "no report of weft-hook in: %s", message);
        return NULL;
    }
    const char *line = mark + strlen(WEFT_HOOK_REPORT "\n");
    return weft_json_parse(line, strcspn(line, "\n"), error);
}

static WeftHca *
hca_at(WeftHost *host, const char *pci)
{
    for (guint i = 0; i < host->hcas->len; i++) {
        WeftHca *hca = g_ptr_array_index(host->hcas, i);
        if (g_strcmp0(hca->pci, pci) == 0)
            return hca;
    }
    return NULL;
}

static void
apply_hca(WeftHost *host, json_t *report)
{
    WeftHca *hca = hca_at(host, json_string_value(json_object_get(report, "pci")));
    if (!hca)
        return;
    const char *name = json_string_value(json_object_get(report, "name"));
    const char *guid = json_string_value(json_object_get(report, "port_guid"));
    if (name && *name && strlen(name) <= WEFT_LABEL_MAX) {
        g_free(hca->name);
        hca->name = g_strdup(name);
    }
    weft_xml_number(guid, 0, G_MAXUINT64, &hca->port_guid);
}

void
weft_inventory_apply_report(WeftInventory *inventory)
{
    gsize i;
    json_t *hca;
    json_array_foreach (json_object_get(inventory->hook, "hcas"), i, hca)
        apply_hca(inventory->hardware, hca);
    inventory->time = json_integer_value(json_object_get(inventory->hook, "time"));
    g_free(inventory->rdma_address);
    inventory->rdma_address = g_strdup(json_string_value(json_object_get(inventory->hook, "rdma_address")));
}
