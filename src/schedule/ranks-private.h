/* What the parts of weft_ranks_map() work on. */
#pragma once

#include "ranks.h"

typedef struct WeftRankEdge {
    guint rank; /* at the other end */
    guint32 weight;
} WeftRankEdge;

/* Places of one group on one host are as good as each other: so ranks are given hosts, and each host keeps as many ranks of
 * each group as it has places. Hosts and groups have numbers from 0 here. */
typedef struct WeftRankMap {
    guint n;
    guint hosts;
    guint groups;
    guint *host;       /* by place, and so by rank in the order as it was */
    guint *group;      /* likewise */
    guint16 *distance; /* between hosts, hosts × hosts */
    guint *first;      /* by rank, n + 1: its first edge */
    WeftRankEdge *edges;
    guint64 weight; /* of all traffic */
} WeftRankMap;

static inline const guint16 *
weft_rank_distances(const WeftRankMap *map, guint host)
{
    return map->distance + (gsize)host * map->hosts;
}

/* at: host by rank, which is filled in. FALSE: Scotch failed, and at holds nothing of use. */
gboolean weft_ranks_scotch(const WeftRankMap *map, guint *at);

guint64 weft_ranks_cost_at(const WeftRankMap *map, const guint *at);
/* Swaps ranks while that saves anything and is not too much work, and not below a cost that cannot be undercut. Returns the
 * cost in the end. */
guint64 weft_ranks_improve(const WeftRankMap *map, guint *at, guint64 bound);
