/* Which port of the fabric is which host's. */
#pragma once

#include "host.h"
#include "map.h"

/* A port that was found to be a host's adapter. */
typedef struct WeftPortMatch {
    char *host;
    char *hca;
    guint64 port_guid;
    char *leaf; /* name of its switch; NULL: it hangs on none */
    guint64 rate;
    guint pkeys;
} WeftPortMatch;

typedef struct WeftMatches {
    GPtrArray *ports;   /* WeftPortMatch, by host and adapter */
    GPtrArray *no_port; /* char *, "n3 mlx5_0: no port of the fabric has its GUID, and none is described as \"n3 …\"" */
    GPtrArray *no_host; /* char *, "0x… (\"MT4099 ConnectX-3\", on leaf2 port 7): no host has this GUID or this name" */
} WeftMatches;

/* By the port GUID of a host's adapter where its description has one; else by the NodeDescription "<host> <hca>" (as rdma-ndd
 * writes it), "<host> …" where the host has one adapter and nothing else on the fabric begins so. Names are compared without
 * their domain. A GUID that is in no host and a name that is ambiguous match nobody, and are told; so is an adapter of which
 * several ports have cables, and of which only the name is known. */
WeftMatches *weft_fabric_match(const WeftFabricMap *map, const GPtrArray *hosts);
void weft_matches_free(WeftMatches *matches);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftMatches, weft_matches_free)

/* A topology.conf of topology/tree for Slurm: a line for each switch with nodes or switches below it. Nodes are hosts' names.
 * Slurm wants a tree: of several ways up, the first in the map's order is taken; hosts on a spine are given a switch of their
 * own below it. */
char *weft_topology_slurm(const WeftFabricMap *map, const WeftMatches *matches);
