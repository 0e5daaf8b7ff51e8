/* Who is in a cluster: what each node is told when its members change, so that it writes /etc/hosts and the hostfile and tries
 * to reach every other. Pure.
 *
 *     generation 7
 *     self 3
 *     within 22                                        seconds in which it is to reach them
 *     port 0 0x0277650000000001 0x8012                 rail, GUID of the port that it must have, and the P_Key at its index 0
 *     node 0 cfd-0 10.64.0.1 4 02:f5:d7:5c:7a:d8      rank, hostname, address, slots (physical cores), hardware address
 *     ipoib 0 0 10.65.0.1                             rank, rail, address; not of those whose adapters are stand-ins
 *     hostkey 0 ssh-ed25519 AAAA…                     rank, the public key of its ssh server
 *     leaf 0 leaf0                                     rank, the leaf switch of its host: for topology.conf. Numbered as they
 *                                                      appear: which nodes share one matters, not what the site calls it
 */
#pragma once

#include "host.h"
#include "node.h"

#include <glib.h>

/* Who they are: arrays of the same order, sorted by rank. */
typedef struct WeftRoster {
    GPtrArray *nodes;     /* WeftNode */
    GPtrArray *hosts;     /* WeftHost, that of each */
    GPtrArray *leaves;    /* char * */
    GPtrArray *host_keys; /* char *; NULL: not known */
} WeftRoster;

/* A port that a node was promised. */
typedef struct WeftPromise {
    guint rail;
    guint64 guid;
    guint pkey; /* with the bit of full members */
} WeftPromise;

/* WeftPromise, by rail: the ports that a node must have. None where it has no devices, or stand-ins. pkey: its partition's
 * number. */
GArray *weft_roster_promises(const WeftNode *node, const WeftHost *host, guint pkey);
/* The ports that it has where it is by now, as "resume" tells them (protocol.h): those of whole adapters are others after a
 * move.
 */
char *weft_roster_rails(const WeftNode *node, const WeftHost *host);
/* The lines that are the same for all. */
char *weft_roster_members(const WeftRoster *roster);
/* What goes before them, for one node. */
char *weft_roster_head(guint64 generation, guint self, guint within, const GArray *promises);
