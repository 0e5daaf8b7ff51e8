/* Placement: fleet and request in, places or a reason out. Pure: no I/O, no clock, no globals. */
#pragma once

#include "cluster.h"
#include "fleet.h"

#include <glib.h>

typedef struct WeftPlaceRequest {
    const WeftCluster *cluster;
    const char *fabric;  /* where the cluster already is; NULL: anywhere the wish allows */
    const guint *counts; /* nodes to place of each of the cluster's groups */
    GHashTable *avoid;   /* names of hosts not to use; NULL: none */
    guint sl;            /* of the lane that the cluster already has; 0: none yet */
} WeftPlaceRequest;

/* All nodes or none. Returns WeftNode skeletons in order of groups, with group, host, cores, memory, devices (without GUIDs),
 * gpus, image, path, sl and bandwidth filled in; where bandwidth is asked for, all in one lane. WEFT_ERROR_EXHAUSTED: it does
 * not fit, and the message names what is scarcest. The fleet is not changed. */
GPtrArray *weft_schedule(const WeftFleet *fleet, const WeftPlaceRequest *request, GError **error);
