#include "network.h"

#define FIRST_OCTETS 10u
#define ETHERNET 64
#define IPOIB 65

WeftHostNetwork *
weft_host_network_new(guint vxlan, const char *cluster, const char *site)
{
    WeftHostNetwork *network = g_new0(WeftHostNetwork, 1);
    network->vxlan = vxlan;
    network->cluster = g_strdup(cluster);
    network->site = g_strdup(site);
    network->peers = g_ptr_array_new_with_free_func(g_free);
    return network;
}

WeftHostNetwork *
weft_host_network_copy(const WeftHostNetwork *network)
{
    WeftHostNetwork *copy = weft_host_network_new(network->vxlan, network->cluster, network->site);
    for (guint i = 0; i < network->peers->len; i++)
        g_ptr_array_add(copy->peers, g_strdup(network->peers->pdata[i]));
    return copy;
}

void
weft_host_network_free(WeftHostNetwork *network)
{
    if (!network)
        return;
    g_free(network->cluster);
    g_free(network->site);
    g_ptr_array_unref(network->peers);
    g_free(network);
}

gboolean
weft_host_network_equal(const WeftHostNetwork *a, const WeftHostNetwork *b)
{
    if (a->vxlan != b->vxlan || g_strcmp0(a->cluster, b->cluster) != 0 || g_strcmp0(a->site, b->site) != 0 ||
        a->peers->len != b->peers->len)
        return FALSE;
    for (guint i = 0; i < a->peers->len; i++)
        if (!g_str_equal(a->peers->pdata[i], b->peers->pdata[i]))
            return FALSE;
    return TRUE;
}

char *
weft_network_bridge(guint vxlan)
{
    return g_strdup_printf("weft%u", vxlan);
}

char *
weft_network_vxlan(guint vxlan)
{
    return g_strdup_printf("wefv%u", vxlan);
}

static char *
address(guint subnet, guint rank)
{
    guint host = rank + 1;
    return g_strdup_printf("%u.%u.%u.%u", FIRST_OCTETS, subnet, host >> 8, host & 255);
}

char *
weft_node_address(const WeftNode *node)
{
    return address(ETHERNET, node->rank);
}

char *
weft_node_ipoib_address(const WeftNode *node, guint rail)
{
    return address(IPOIB + rail, node->rank);
}
