/* What jobs ask of the fleet: of those that ask for equal nodes, the clusters share all but their names. */
#pragma once

#include "load.h"
#include "site.h"

#include "cluster.h"

/* What one job asks for. */
typedef struct WeftDemand {
    guint16 kind;
    guint16 nodes;
    guint16 cores;  /* of each node */
    guint16 least;  /* leaves that so many nodes need in an empty fleet; 0: they do not fit into it */
    gboolean whole; /* each of them fits into one NUMA node */
} WeftDemand;

typedef struct WeftKinds WeftKinds;

/* Processors become as few equal nodes as hold them, of at most so many cores; memory and GPUs go with the cores. Asks the
 * site's fleet, which must be empty still, how near to each other they could be. */
WeftKinds *weft_kinds_new(const WeftSite *site, const WeftLoad *load, guint cores_per_node, GError **error);
void weft_kinds_free(WeftKinds *kinds);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftKinds, weft_kinds_free)

const WeftDemand *weft_kinds_demand(const WeftKinds *kinds, guint job);
/* A cluster of that kind, of which all that it points to is borrowed; id and tenant are left to the caller. */
WeftCluster weft_kinds_cluster(const WeftKinds *kinds, guint kind);
