/* A host's hardware from its file inventory.json, or the same for all that have none. */
#include "fake-private.h"

#include "errors.h"

#define FILE_MAX (1024 * 1024)
#define USUAL_DEVICES 2
#define USUAL_VFS 16
#define PLACE "fake" /* what a host's description must say and an inventory does not */

static const char usual[] =
    "{\"hardware\": {\"numa\": [{\"cores\": 8, \"pages\": {\"2M\": 8192}},"
    " {\"cores\": 8, \"pages\": {\"2M\": 8192}}], \"housekeeping\": 1},"
    " \"kvm\": true, \"iommu\": true, \"cpu_model\": \"fake\", \"libvirt\": \"9.0.0\", \"qemu\": \"7.2.0\","
    " \"machine\": \"pc-q35-7.2\"}";

static WeftHost *
read_hardware(json_t *json, const char *host, GError **error)
{
    json_t *hardware = json_object_get(json, "hardware");
    static const char *const filled_in[] = { "name", "fabric", "leaf" };
    for (guint i = 0; i < G_N_ELEMENTS(filled_in); i++)
        if (json_is_object(hardware) && !json_object_get(hardware, filled_in[i]))
            json_object_set_new(hardware, filled_in[i], json_string(PLACE));
    WeftHost *described = weft_host_from_json(hardware, "hardware", error);
    for (guint i = 0; described && i < described->hcas->len; i++) {
        WeftHca *hca = described->hcas->pdata[i];
        if (g_strcmp0(hca->leaf, PLACE) == 0)
            g_clear_pointer(&hca->leaf, g_free);
    }
    if (described && g_strcmp0(described->leaf, PLACE) == 0)
        g_clear_pointer(&described->leaf, g_free);
    return described;
}

/* Devices as hosts are described with in tests. Those without a port's GUID, or on no NUMA node that there is, are not
 * discovered where none are described. */

static void
add_usual_adapter(WeftHost *hardware, WeftHcaDriver driver, guint i)
{
    WeftHca *hca = weft_hca_new();
    hca->name = g_strdup_printf("%s_%u", weft_hca_driver_words[driver], i);
    hca->driver = driver;
    hca->rail = i;
    hca->vfs = USUAL_VFS;
    g_ptr_array_add(hardware->hcas, hca);
}

static void
add_usual_devices(WeftHost *hardware)
{
    for (guint i = 0; i < USUAL_DEVICES; i++) {
        add_usual_adapter(hardware, WEFT_HCA_MLX4, i);
        add_usual_adapter(hardware, WEFT_HCA_MLX5, i);
        WeftGpu *gpu = g_new0(WeftGpu, 1);
        *gpu = (WeftGpu){ g_strdup_printf("0000:4%u:00.0", i), WEFT_NUMA_MAX, NULL };
        g_ptr_array_add(hardware->gpus, gpu);
    }
}

static WeftInventory *
read_inventory(json_t *json, const char *host, GError **error)
{
    WeftHost *hardware = read_hardware(json, host, error);
    if (!hardware)
        return NULL;
    WeftInventory *inventory = weft_inventory_new();
    weft_host_free(inventory->hardware);
    inventory->hardware = hardware;
    inventory->kvm = json_is_true(json_object_get(json, "kvm"));
    inventory->iommu = json_is_true(json_object_get(json, "iommu"));
    inventory->cpu_model = g_strdup(json_string_value(json_object_get(json, "cpu_model")));
    inventory->rdma_address = g_strdup(json_string_value(json_object_get(json, "rdma_address")));
    inventory->libvirt = g_strdup(json_string_value(json_object_get(json, "libvirt")));
    inventory->qemu = g_strdup(json_string_value(json_object_get(json, "qemu")));
    inventory->machine = g_strdup(json_string_value(json_object_get(json, "machine")));
    inventory->hook = json_incref(json_object_get(json, "hook"));
    inventory->hook_error = g_strdup(json_string_value(json_object_get(json, "hook_error")));
    return inventory;
}

/* Its file "clock" says by how many seconds it is wrong. */
static gint64
read_wall_clock(const WeftFakeFolder *folder)
{
    g_autofree char *wrong = folder->fd < 0 ? NULL : weft_fake_read(folder, "clock", FILE_MAX, NULL);
    return g_get_real_time() + (wrong ? g_ascii_strtoll(wrong, NULL, 10) * (gint64)G_USEC_PER_SEC : 0);
}

WeftInventory *
weft_fake_inspect(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error)
{
    const char *world = ((WeftFakeHypervisor *)hv)->world;
    WeftFakeFolder folder;
    g_autoptr(GError) failed = NULL;
    if (!weft_fake_pass(world, host->name, "inspect", cancellable, error) ||
        !weft_fake_folder_open(world, host->name, "", &folder, error))
        return NULL;
    g_autofree char *text = folder.fd < 0 ? NULL : weft_fake_read(&folder, "inventory.json", FILE_MAX, &failed);
    gint64 time = read_wall_clock(&folder);
    weft_fake_folder_close(&folder);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return NULL;
    }
    json_error_t problem;
    json_t *json = json_loads(text ? text : usual, 0, &problem);
    if (!json) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "host %s: inventory.json: %s", host->name, problem.text);
        return NULL;
    }
    WeftInventory *inventory = read_inventory(json, host->name, error);
    json_decref(json);
    if (inventory && ((WeftFakeHypervisor *)hv)->hook) {
        g_clear_pointer(&inventory->hook, json_decref);
        g_clear_pointer(&inventory->hook_error, g_free);
        inventory->hook = weft_fake_hook_report((WeftFakeHypervisor *)hv, host->name, &inventory->hook_error);
    }
    if (inventory && !text)
        add_usual_devices(inventory->hardware);
    if (inventory)
        inventory->time = time;
    return inventory;
}
