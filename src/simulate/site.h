/* The site of a simulation: its hosts and switches, made up or taken from a fabric's map. */
#pragma once

#include "fleet.h"
#include "map.h"

typedef struct WeftSiteOptions {
    guint hosts; /* not with a map */
    guint cores; /* of each host, that nodes may have; … */
    guint sockets;
    guint64 memory;
    guint vfs; /* of each adapter; 0: nodes have the bridge */
    guint gpus;
    /* A fat tree: */
    guint leaf_hosts;
    guint levels; /* of switches; 1: one switch */
    guint radix;  /* so many switches of one level are below the same ones of the next; those of the last but one all are */
} WeftSiteOptions;

typedef struct WeftSite {
    WeftFleet *fleet;
    WeftSiteOptions options; /* hosts: as many as there are */
    guint leaves;            /* with hosts */
} WeftSite;

/* Its hosts are open, and all alike. */
WeftSite *weft_site_new(const WeftSiteOptions *options);
/* Each host that has an adapter in the map, by the first word of its description ("n1 mlx5_0"), or each adapter where that
 * tells nothing. INVALID: there is none. */
WeftSite *weft_site_from_map(const WeftSiteOptions *options, const WeftFabricMap *map, GError **error);
void weft_site_free(WeftSite *site);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftSite, weft_site_free)

/* Cores of all hosts. */
guint64 weft_site_cores(const WeftSite *site);
