#include "driver.h"
#include "hook.h"

#define VXLAN_MAX 0xffffff

static char *
network_name(guint vxlan)
{
    return g_strdup_printf(WEFT_NETWORK_PREFIX "%u", vxlan);
}

/* --- as XML, and back --- */

static char *
network_xml(const WeftHostNetwork *network, const char *run)
{
    g_autofree char *bridge = weft_network_bridge(network->vxlan);
    g_autofree char *cluster = weft_xml_escape(network->cluster);
    g_autofree char *site = network->site ? weft_xml_escape(network->site) : NULL;
    g_autofree char *of_site = site ? g_strdup_printf(" site='%s'", site) : g_strdup("");
    g_autoptr(GString) xml = g_string_new(NULL);
    g_string_append_printf(xml,
                           "<network><name>" WEFT_NETWORK_PREFIX "%u</name><metadata>"
                           "<weft:network xmlns:weft='" WEFT_NETWORK_NAMESPACE "' cluster='%s' vxlan='%u'%s>",
                           network->vxlan, cluster, network->vxlan, of_site);
    if (run)
        g_string_append_printf(xml, "<weft:owner run='%s'/>", run);
    for (guint i = 0; i < network->peers->len; i++) {
        g_autofree char *peer = weft_xml_escape(g_ptr_array_index(network->peers, i));
        g_string_append_printf(xml, "<weft:peer address='%s'/>", peer);
    }
    g_string_append_printf(xml, "</weft:network></metadata><forward mode='bridge'/><bridge name='%s'/></network>", bridge);
    return g_string_free(g_steal_pointer(&xml), FALSE);
}

/* NULL: not one of weft's. */
static WeftHostNetwork *
read_network(const char *text)
{
    static const char *const path[] = { "metadata", NULL };
    g_autoptr(xmlDoc) doc = weft_xml_parse(text, "network", NULL);
    const xmlNode *metadata = doc ? weft_xml_find(xmlDocGetRootElement(doc), path) : NULL;
    const xmlNode *mark = weft_xml_child_ns(metadata, "network", WEFT_NETWORK_NAMESPACE);
    g_autofree char *number = weft_xml_get(mark, "vxlan");
    g_autofree char *cluster = weft_xml_get(mark, "cluster");
    g_autofree char *site = weft_xml_get(mark, "site");
    guint64 vxlan;
    if (!cluster || !weft_xml_number(number, 10, VXLAN_MAX, &vxlan))
        return NULL;
    g_autoptr(WeftHostNetwork) network = weft_host_network_new((guint)vxlan, cluster, site);
    for (const xmlNode *peer = weft_xml_child(mark, "peer"); peer; peer = weft_xml_next(peer, "peer")) {
        char *address = weft_xml_get(peer, "address");
        if (address)
            g_ptr_array_add(network->peers, address);
    }
    return g_steal_pointer(&network);
}

/* --- what is there --- */

/* A network never changes under its UUID: it is destroyed and made anew. */
static WeftHostNetwork *
ask_network(WeftCall *call, virNetwork *handle)
{
    char uuid[VIR_UUID_STRING_BUFLEN];
    if (virNetworkGetUUIDString(handle, uuid) < 0)
        return NULL;
    g_mutex_lock(&call->host->mutex);
    const WeftHostNetwork *known = g_hash_table_lookup(call->host->networks, uuid);
    g_autoptr(WeftHostNetwork) network = known ? weft_host_network_copy(known) : NULL;
    g_mutex_unlock(&call->host->mutex);
    if (network)
        return g_steal_pointer(&network);

    char *text = virNetworkGetXMLDesc(handle, 0);
    network = text ? read_network(text) : NULL;
    free(text);
    if (!network)
        return NULL;
    g_mutex_lock(&call->host->mutex);
    g_hash_table_insert(call->host->networks, g_strdup(uuid), weft_host_network_copy(network));
    g_mutex_unlock(&call->host->mutex);
    return g_steal_pointer(&network);
}

#define NETWORKS_MAX 4096

static void
bound_networks(WeftVirHost *host)
{
    g_mutex_lock(&host->mutex);
    if (g_hash_table_size(host->networks) > NETWORKS_MAX)
        g_hash_table_remove_all(host->networks);
    g_mutex_unlock(&host->mutex);
}

gboolean
weft_vir_networks_list(WeftCall *call, GPtrArray *networks, GError **error)
{
    virNetwork **handles = NULL;
    int n = virConnectListAllNetworks(call->conn, &handles, VIR_CONNECT_LIST_NETWORKS_ACTIVE);
    if (n < 0)
        return weft_vir_fail(error, "listing networks");
    for (int i = 0; i < n; i++) {
        gboolean ours = g_str_has_prefix(virNetworkGetName(handles[i]), WEFT_NETWORK_PREFIX);
        WeftHostNetwork *network = ours ? ask_network(call, handles[i]) : NULL;
        if (network)
            g_ptr_array_add(networks, network);
        virNetworkFree(handles[i]);
    }
    free(handles);
    bound_networks(call->host);
    return TRUE;
}

/* --- connect and disconnect --- */

static gboolean
remove_network(virNetwork *network, GError **error)
{
    if (virNetworkIsPersistent(network) == 1)
        virNetworkUndefine(network);
    if (virNetworkDestroy(network) == 0 || weft_vir_failed_with(VIR_ERR_NO_NETWORK) ||
        weft_vir_failed_with(VIR_ERR_OPERATION_INVALID))
        return TRUE;
    return weft_vir_fail(error, "removing network %s", virNetworkGetName(network));
}

/* NULL without an error: there is none. */
static virNetwork *
find_network(WeftCall *call, guint vxlan, GError **error)
{
    g_autofree char *name = network_name(vxlan);
    virNetwork *network = virNetworkLookupByName(call->conn, name);
    if (!network && !weft_vir_failed_with(VIR_ERR_NO_NETWORK))
        weft_vir_fail(error, "looking for network %s", name);
    return network;
}

typedef struct Connecting {
    WeftHostNetwork *network;
    char *run; /* NULL: the host was claimed */
} Connecting;

static void
connecting_free(gpointer data)
{
    Connecting *connecting = data;
    weft_host_network_free(connecting->network);
    g_free(connecting->run);
    g_free(connecting);
}

static gboolean
run_connect(WeftCall *call, GError **error)
{
    const Connecting *connecting = call->args;
    const WeftHostNetwork *wanted = connecting->network;
    g_autoptr(GError) failed = NULL;
    g_autoptr(virNetwork) there = find_network(call, wanted->vxlan, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (there && connecting->run)
        return weft_hypervisor_refuse_unclaimed(error, virNetworkGetName(there));
    g_autoptr(WeftHostNetwork) present = there && virNetworkIsActive(there) == 1 ? ask_network(call, there) : NULL;
    if (present && weft_host_network_equal(present, wanted))
        return TRUE;
    if (there && !remove_network(there, error))
        return FALSE;
    g_autofree char *xml = network_xml(wanted, connecting->run);
    g_autoptr(virNetwork) network = virNetworkCreateXML(call->conn, xml);
    return network || weft_vir_fail(error, "making network " WEFT_NETWORK_PREFIX "%u", wanted->vxlan);
}

gboolean
weft_vir_connect(WeftHypervisor *hv, const WeftHostAddress *host, const WeftHostNetwork *network, const char *run,
                 GCancellable *cancellable, GError **error)
{
    const Connecting connecting = { weft_host_network_copy(network), g_strdup(run) };
    g_autofree char *about = g_strdup_printf("network %u", network->vxlan);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_connect, g_memdup2(&connecting, sizeof connecting), connecting_free);
    return weft_call_wait(call, about, cancellable, error);
}

static gboolean
run_disconnect(WeftCall *call, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(virNetwork) network = find_network(call, GPOINTER_TO_UINT(call->args), &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    return !network || remove_network(network, error);
}

gboolean
weft_vir_disconnect(WeftHypervisor *hv, const WeftHostAddress *host, guint vxlan, GCancellable *cancellable, GError **error)
{
    g_autofree char *about = g_strdup_printf("network %u", vxlan);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_disconnect, GUINT_TO_POINTER(vxlan), NULL);
    return weft_call_wait(call, about, cancellable, error);
}
