#include "driver.h"
#include "hook.h"
#include "inventory.h"

#include "errors.h"

#include <string.h>

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
weft_vir_ask_hook_with(WeftCall *call, const char *question, const char *metadata)
{
    g_autofree char *xml = g_strdup_printf("<network><name>%s-%08x</name><metadata>%s</metadata>"
                                           "<forward mode='bridge'/><bridge name='" WEFT_NETWORK_PROBE "'/></network>",
                                           question, g_random_int(), metadata);
    g_autoptr(virNetwork) network = virNetworkCreateXML(call->conn, xml);
    if (network)
        virNetworkDestroy(network);
    return network == NULL;
}

gboolean
weft_vir_ask_hook(WeftCall *call, const char *question)
{
    return weft_vir_ask_hook_with(call, question, "<weft:network xmlns:weft='" WEFT_NETWORK_NAMESPACE "'/>");
}

void
weft_vir_tidy(WeftCall *call)
{
    if (!weft_vir_ask_hook(call, WEFT_NETWORK_PROBE) || !strstr(virGetLastErrorMessage(), WEFT_HOOK_REPORT "\n"))
        weft_vir_tell(call->host, WEFT_NEWS_HARDWARE, NULL);
}

/* --- whose it is --- */

typedef struct Claim {
    char *metadata;
    WeftOwnerVerdict verdict;
    WeftOwner *record;
} Claim;

static void
claim_free(gpointer data)
{
    Claim *claim = data;
    g_free(claim->metadata);
    weft_owner_free(claim->record);
    g_free(claim);
}

static gboolean
run_claim(WeftCall *call, GError **error)
{
    Claim *claim = call->args;
    if (!weft_vir_ask_hook_with(call, WEFT_NETWORK_OWNER, claim->metadata))
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "weft-hook is not installed, or older than weftd, and does not say whose the host is");
    const char *answer = strstr(virGetLastErrorMessage(), WEFT_HOOK_OWNER);
    if (answer && weft_owner_parse_answer(answer + strlen(WEFT_HOOK_OWNER), &claim->verdict, &claim->record))
        return TRUE;
    return weft_vir_fail(error, "asking whose the host is");
}

gboolean
weft_vir_claim(WeftHypervisor *hv, const WeftHostAddress *host, const WeftOwner *owner, gboolean take,
               WeftOwnerVerdict *ret_verdict, WeftOwner **ret_record, GCancellable *cancellable, GError **error)
{
    g_autofree char *text = weft_owner_format(owner);
    g_autofree char *former = g_strjoinv(" ", owner->former ? owner->former : (char *[]){ NULL });
    Claim claim = { g_strdup_printf("<weft:owner xmlns:weft='" WEFT_NETWORK_NAMESPACE "' claim='%s' former='%s'%s/>", text,
                                    former, take ? " take='yes'" : "") };
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_claim, g_memdup2(&claim, sizeof claim), claim_free);
    if (!weft_call_wait(call, "claim", cancellable, error))
        return FALSE;
    Claim *done = call->args;
    *ret_verdict = done->verdict;
    *ret_record = g_steal_pointer(&done->record);
    return TRUE;
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
