/* Which rank sits where, so that those that talk most are near: Scotch maps the traffic onto the places. Pure: the same input
 * gives the same order. */
#pragma once

#include "cluster.h"

#include <glib.h>

/* A place that was found for a rank. */
typedef struct WeftRankPlace {
    guint host;  /* equal numbers: the same host */
    guint leaf;  /* … the same leaf switch */
    guint group; /* ranks of a group take places of that group only */
} WeftRankPlace;

/* Cables between two leaves by their numbers, the same both ways; more than 255 count as 255. */
typedef guint (*WeftHops)(guint a, guint b, gconstpointer data);

/* The traffic (WeftTraffic) of a pattern among n ranks. stencil2d and stencil3d: the grid of n that is nearest to a square or
 * cube, numbered as MPI_Cart_create() does with what MPI_Dims_create() gives (the shortest side counts first), without
 * wrap-around; of a prime number that is a row. cluster: for the matrix, of which pairs beyond n are left out. */
GArray *weft_pattern_traffic(const WeftCluster *cluster, guint n);

/* traffic: each pair once, of ranks below n. A rank is of the group of its place in the order as it is. ret_places[rank]: index
 * of the place that it gets. Never worse than the order as it is, by weft_ranks_cost().
 * thread: any. */
void weft_ranks_map(const GArray *traffic, const WeftRankPlace *places, guint n, WeftHops hops, gconstpointer data,
                    guint *ret_places);
/* Sum over the traffic of weight × distance: 0 on one host, 1 on one leaf, else 1 + cables. order: index of the place by rank,
 * as weft_ranks_map() returns it; NULL: as they are. */
guint64
weft_ranks_cost(const GArray *traffic, const WeftRankPlace *places, const guint *order, WeftHops hops, gconstpointer data);
/* Percent of the traffic that leaves a host, rounded down; 0 where there is none. */
guint weft_ranks_between(const GArray *traffic, const WeftRankPlace *places, const guint *order);
