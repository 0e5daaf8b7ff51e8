/* The partition's Ethernet: a VXLAN of its own between the hosts of a cluster, with the same private addresses in each cluster.
 */
#pragma once

#include "node.h"

#include <glib.h>

/* What a host needs to know of it. Equal descriptions are the same network: nothing has to be done. */
typedef struct WeftHostNetwork {
    guint vxlan;
    char *cluster;    /* id: weft's mark … */
    char *site;       /* … of which site; NULL: it does not say */
    GPtrArray *peers; /* char *, addresses or names of the other hosts of the cluster, sorted, without this host */
} WeftHostNetwork;

WeftHostNetwork *weft_host_network_new(guint vxlan, const char *cluster, const char *site);
WeftHostNetwork *weft_host_network_copy(const WeftHostNetwork *network);
void weft_host_network_free(WeftHostNetwork *network);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftHostNetwork, weft_host_network_free)
gboolean weft_host_network_equal(const WeftHostNetwork *a, const WeftHostNetwork *b);

/* Interfaces on the host: "weft<vxlan>" the bridge, "wefv<vxlan>" the VXLAN. At most 15 characters. */
char *weft_network_bridge(guint vxlan);
char *weft_network_vxlan(guint vxlan);

/* Addresses of a node follow from its rank: 10.64.0.0/16 on the Ethernet, 10.65.0.0/16 and so on for IPoIB on rail 0, 1, … */
#define WEFT_SUBNET_PREFIX 16
char *weft_node_address(const WeftNode *node);                   /* "10.64.0.1" is rank 0's */
char *weft_node_ipoib_address(const WeftNode *node, guint rail); /* "10.65.0.1" */
#define WEFT_NETWORK_MTU 1450                                    /* what a VXLAN leaves of 1,500 */
