#include "driver.h"
#include "hook.h"
#include "inventory.h"

/* libvirt's versions are 1,000,000 × major + 1,000 × minor + release. */
static char *
format_version(int failed, unsigned long version)
{
    return failed ? NULL : g_strdup_printf("%lu.%lu.%lu", version / 1000000, version / 1000 % 1000, version % 1000);
}

static void
read_versions(WeftCall *call, WeftInventory *inventory)
{
    unsigned long version = 0;
    int failed = virConnectGetLibVersion(call->conn, &version);
    inventory->libvirt = format_version(failed, version);
    failed = virConnectGetVersion(call->conn, &version);
    inventory->qemu = format_version(failed, version);
}

/* The network must not come up. Its name is used once: of two with one name, asked for at the same time, libvirt would refuse
 * one before the hook hears of it. */
gboolean
weft_vir_ask_hook(WeftCall *call, const char *question)
{
    g_autofree char *xml = g_strdup_printf("<network><name>%s-%08x</name><metadata>"
                                           "<weft:network xmlns:weft='" WEFT_NETWORK_NAMESPACE "'/></metadata>"
                                           "<forward mode='bridge'/><bridge name='" WEFT_NETWORK_PROBE "'/></network>",
                                           question, g_random_int());
    g_autoptr(virNetwork) network = virNetworkCreateXML(call->conn, xml);
    if (network)
        virNetworkDestroy(network);
    return network == NULL;
}

static void
read_hook(WeftCall *call, WeftInventory *inventory)
{
    g_autoptr(GError) failed = NULL;
    if (!weft_vir_ask_hook(call, WEFT_NETWORK_PROBE)) {
        inventory->hook_error = g_strdup("weft-hook is not installed, or libvirtd was not restarted since");
        return;
    }
    const char *message = virGetLastErrorMessage();
    inventory->hook = weft_inventory_read_report(message, &failed);
    if (!inventory->hook)
        inventory->hook_error = g_strdup(failed->message);
}

static gboolean
read_devices(WeftCall *call, WeftInventory *inventory, GError **error)
{
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(free);
    virNodeDevice **devices = NULL;
    int n = virConnectListAllNodeDevices(call->conn, &devices, VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV);
    if (n < 0)
        return weft_vir_fail(error, "listing devices");
    for (int i = 0; i < n; i++) {
        char *text = virNodeDeviceGetXMLDesc(devices[i], 0);
        if (text)
            g_ptr_array_add(texts, text);
        virNodeDeviceFree(devices[i]);
    }
    free(devices);
    weft_inventory_read_devices(inventory, texts);
    return TRUE;
}

/* /dev/kvm may be there where guests hang: the CPU's flag decides. The hook sees it; libvirt names it on some CPUs. */
static gboolean
run_inspect(WeftCall *call, GError **error)
{
    WeftInventory *inventory = call->args;
    gboolean offered, flag;
    char *capabilities = virConnectGetCapabilities(call->conn);
    if (!capabilities)
        return weft_vir_fail(error, "asking for capabilities");
    gboolean ok = weft_inventory_read_capabilities(inventory, capabilities, &offered, &flag, error);
    free(capabilities);
    if (!ok)
        return FALSE;
    read_hook(call, inventory);
    if (!read_devices(call, inventory, error))
        return FALSE;
    read_versions(call, inventory);
    weft_inventory_apply_report(inventory);
    inventory->kvm = offered && (inventory->hook ? json_is_true(json_object_get(inventory->hook, "kvm")) : flag);
    return TRUE;
}

WeftInventory *
weft_vir_inspect(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error)
{
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_inspect, weft_inventory_new(), (GDestroyNotify)weft_inventory_free);
    if (!weft_call_wait(call, "inspection", cancellable, error))
        return NULL;
    call->args_free = NULL;
    return call->args;
}
