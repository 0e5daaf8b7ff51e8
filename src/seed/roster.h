/* Who is in a cluster: what each node is told when its members change, so that it writes /etc/hosts and the hostfile and tries
 * to reach every other. Pure.
 *
 *     generation 7
 *     self 3
 *     within 22                                        seconds in which it is to reach them
 *     node 0 cfd-0 10.64.0.1 4 02:f5:d7:5c:7a:d8      rank, hostname, address, slots (physical cores), hardware address
 *     ipoib 0 0 10.65.0.1                             rank, rail, address
 *     hostkey 0 ssh-ed25519 AAAA…                     rank, the public key of its ssh server
 *     leaf 0 leaf0                                     rank, the leaf switch of its host: for topology.conf. Numbered as they
 *                                                      appear: which nodes share one matters, not what the site calls it
 */
#pragma once

#include "node.h"

#include <glib.h>

/* The lines that are the same for all. nodes: WeftNode, sorted by rank. leaves, host_keys: char *, those of each, same order;
 * a NULL among host_keys: it is not known. */
char *weft_roster_members(const GPtrArray *nodes, const GPtrArray *leaves, const GPtrArray *host_keys);
/* What goes before them, for one node. */
char *weft_roster_head(guint64 generation, guint self, guint within);
