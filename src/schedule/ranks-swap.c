#include "ranks-private.h"

#include <string.h>

/* Edges that may be looked at, and those of tries after the first: some 40 and 3 ms. */
#define WORK 20000000
#define WORK_AGAIN 1000000
#define TRIES 40
#define KICKS_MAX 8

typedef struct Search {
    const WeftRankMap *map;
    guint *at;     /* host by rank */
    guint64 *cost; /* by rank, of its edges */
    gint64 *gain;  /* by host, of moving the rank there that is looked at now */
    gint64 work;   /* edges that may still be looked at */
} Search;

static guint
edges_of(const WeftRankMap *map, guint rank)
{
    return map->first[rank + 1] - map->first[rank];
}

static guint64
cost_of(const WeftRankMap *map, const guint *at, guint rank)
{
    const guint16 *row = weft_rank_distances(map, at[rank]);
    guint64 sum = 0;
    for (guint i = map->first[rank]; i < map->first[rank + 1]; i++)
        sum += (guint64)map->edges[i].weight * row[at[map->edges[i].rank]];
    return sum;
}

guint64
weft_ranks_cost_at(const WeftRankMap *map, const guint *at)
{
    guint64 twice = 0;
    for (guint rank = 0; rank < map->n; rank++)
        twice += cost_of(map, at, rank);
    return twice / 2;
}

/* --- one swap --- */

static void
look_around(Search *search, guint rank)
{
    const WeftRankMap *map = search->map;
    for (guint host = 0; host < map->hosts; host++)
        search->gain[host] = (gint64)search->cost[rank];
    for (guint i = map->first[rank]; i < map->first[rank + 1]; i++) {
        const guint16 *row = weft_rank_distances(map, search->at[map->edges[i].rank]);
        for (guint host = 0; host < map->hosts; host++)
            search->gain[host] -= (gint64)map->edges[i].weight * row[host];
    }
    search->work -= (gint64)map->hosts * edges_of(map, rank);
}

/* What b saves by moving to the host of a, when a comes the other way. The edge between them stays as long as it is, while what
 * a saves was counted as if it became none. */
static gint64
gain_back(Search *search, guint b, guint a)
{
    const WeftRankMap *map = search->map;
    const guint16 *from = weft_rank_distances(map, search->at[b]), *to = weft_rank_distances(map, search->at[a]);
    gint64 sum = 0;
    for (guint i = map->first[b]; i < map->first[b + 1]; i++) {
        guint rank = map->edges[i].rank, host = search->at[rank];
        gint64 shorter = rank == a ? -(gint64)from[host] : (gint64)from[host] - to[host];
        sum += map->edges[i].weight * shorter;
    }
    search->work -= edges_of(map, b);
    return sum;
}

static void
swap(Search *search, guint a, guint b)
{
    const WeftRankMap *map = search->map;
    const guint both[] = { a, b };
    guint host = search->at[a];
    search->at[a] = search->at[b];
    search->at[b] = host;
    for (guint k = 0; k < G_N_ELEMENTS(both); k++) {
        search->cost[both[k]] = cost_of(map, search->at, both[k]);
        for (guint i = map->first[both[k]]; i < map->first[both[k] + 1]; i++)
            search->cost[map->edges[i].rank] = cost_of(map, search->at, map->edges[i].rank);
    }
}

/* FALSE: there is none that saves anything. */
static gboolean
swap_with_best(Search *search, guint a)
{
    const WeftRankMap *map = search->map;
    guint best = a;
    gint64 most = 0;
    if (search->cost[a] == 0)
        return FALSE;
    look_around(search, a);
    for (guint b = 0; b < map->n; b++) {
        gint64 there = search->gain[search->at[b]];
        if (there + (gint64)search->cost[b] <= most || map->group[b] != map->group[a] || search->at[b] == search->at[a])
            continue;
        gint64 gain = there + gain_back(search, b, a);
        if (gain > most) {
            most = gain;
            best = b;
        }
    }
    if (best != a)
        swap(search, a, best);
    return best != a;
}

/* --- many --- */

static guint64
descend(Search *search)
{
    const WeftRankMap *map = search->map;
    for (guint i = 0; i < map->n; i++)
        search->cost[i] = cost_of(map, search->at, i);
    gboolean better = TRUE;
    while (better) {
        better = FALSE;
        for (guint a = 0; a < map->n && search->work > 0; a++)
            better |= swap_with_best(search, a);
    }
    return weft_ranks_cost_at(map, search->at);
}

/* Below n; the same row of numbers each time. */
static guint
pick(guint32 *state, guint n)
{
    *state = *state * 1664525 + 1013904223;
    return (guint)((guint64)*state * n >> 32);
}

static void
kick(const WeftRankMap *map, guint *at, guint32 *state)
{
    for (guint left = 1 + pick(state, KICKS_MAX); left > 0; left--) {
        guint a = pick(state, map->n), b = pick(state, map->n), host = at[a];
        if (map->group[a] != map->group[b])
            continue;
        at[a] = at[b];
        at[b] = host;
    }
}

/* Where no swap saves anything, two that cost something may lead on: small clusters end at the best order nearly always so. */
guint64
weft_ranks_improve(const WeftRankMap *map, guint *at, guint64 bound)
{
    gsize size = map->n * sizeof(guint);
    g_autofree guint64 *cost = g_new(guint64, map->n);
    g_autofree gint64 *gain = g_new(gint64, map->hosts);
    g_autofree guint *other = g_new(guint, map->n);
    Search search = { .map = map, .at = at, .cost = cost, .gain = gain, .work = WORK };
    guint64 least = descend(&search);
    guint32 state = 1;
    search.at = other;
    search.work = MIN(search.work, WORK_AGAIN);
    for (guint i = 0; i < TRIES && least > bound && search.work > 0; i++) {
        memcpy(other, at, size);
        kick(map, other, &state);
        guint64 reached = descend(&search);
        if (reached < least) {
            least = reached;
            memcpy(at, other, size);
        }
    }
    return least;
}
