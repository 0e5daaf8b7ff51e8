/* Placement: fleet and request in, places or a reason out. Pure: no I/O, no clock, no globals. The fleet is changed only to
 * look (what is tried is undone, indexes are brought up to date): what it says is the same before and after. */
#pragma once

#include "cluster.h"
#include "fleet.h"
#include "path-rule.h"
#include "seat.h"

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftPlaceRequest {
    const WeftCluster *cluster;
    const char *fabric;       /* where the cluster already is; NULL: anywhere the wish allows */
    const guint *counts;      /* nodes to place of each of the cluster's groups */
    GHashTable *avoid;        /* names of hosts not to use; NULL: none */
    guint sl;                 /* of the lane that the cluster already has; 0: none yet */
    const WeftPathRule *rule; /* for path auto where the pattern is told; NULL: the published one */
    GHashTable *beside;       /* names of hosts where nodes of the cluster are: near these, if it is compact; NULL: none */
    const WeftNode *like;     /* one that is there, of path auto: what comes later talks by its path; NULL: none */
    gboolean only_room;       /* it is only asked whether there is room: ranks are not mapped, and nothing is chosen by them */
    gboolean later; /* ranks are mapped when it starts, by weft_place_map(), now only where there is no room otherwise */
    GCancellable
        *cancellable; /* cancelled on another thread: nobody wants to know any more, and no place is found; NULL: not */
} WeftPlaceRequest;

typedef struct WeftPlacement {
    guint n;
    WeftSeat *seats; /* in order of groups and, where the pattern is told, of ranks; the fleet's, until its next placement */
    guint leaves;    /* leaf switches that they are on */
    guint hosts;
    guint hops;   /* cables between the two leaves that are farthest from each other; 0: one leaf; G_MAXUINT: not known */
    guint split;  /* nodes over several NUMA nodes */
    guint remote; /* nodes with a function or GPU of another NUMA node than all of their cores */
    int between;  /* percent of the traffic that leaves a host, where the pattern is told; -1: it is not */
    guint64 shm;  /* bytes that nodes of path auto on one host share beside the bridge, by the rule or as so far; 0: none */
} WeftPlacement;

/* All nodes or none. Nothing is allocated where the shapes were seen before and no pattern is told. */
gboolean weft_place(WeftFleet *fleet, const WeftPlaceRequest *request, WeftPlacement *ret_placement);
/* Puts the seats of what was placed with later into the order of the ranks that are to have them, and chooses the path where
 * that is open. Nothing happens where that is done, or no pattern told. The seats are changed: they must not be shared. */
void weft_place_map(WeftFleet *fleet, const WeftPlaceRequest *request, WeftPlacement *placement);
/* Why there is no place for it, in words for the tenant that name what is scarcest, as WEFT_ERROR_EXHAUSTED. Looks at every
 * host. Returns whether it could fit were the fleet empty and all hosts up: if not, waiting is in vain. */
gboolean weft_place_explain_refusal(WeftFleet *fleet, const WeftPlaceRequest *request, GError **error);
/* Why it is where it is: lines (char *) of words for weft create --dry-run. */
GPtrArray *weft_place_explain(WeftFleet *fleet, const WeftPlaceRequest *request, const WeftPlacement *placement);

/* Both together: WeftNode skeletons in order of groups, with group, host, cores, memory, devices (without GUIDs), gpus, image,
 * path, sl, bandwidth, shm and exclusive filled in; where bandwidth is asked for, all in one lane. WEFT_ERROR_EXHAUSTED: it
 * does not fit, and the message names what is scarcest. */
GPtrArray *weft_schedule(WeftFleet *fleet, const WeftPlaceRequest *request, GError **error);
GPtrArray *weft_placement_nodes(const WeftFleet *fleet, const WeftPlaceRequest *request, const WeftPlacement *placement);
