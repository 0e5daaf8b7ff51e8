/* A shape: what each node of a group asks of a host. Requests of equal shape share an index of the fleet. */
#pragma once

#include "cluster.h"
#include "lane.h"

#include <glib.h>

typedef struct WeftShape {
    guint cores;
    guint64 memory;
    guint64 page_size; /* 0: any that divides the memory, the largest first */
    guint gpus;
    guint rails;   /* fabric devices; 0 with path bridge */
    WeftPath path; /* never auto */
    WeftLocality locality;
    gboolean exclusive;
    WeftLane lane;     /* sl 0: best effort */
    guint64 bandwidth; /* guaranteed to each device there; 0 with best effort */
    const char
        *cluster; /* id of one that has nodes already, where that makes a difference (P_Keys, exclusive hosts); else NULL */
} WeftShape;
