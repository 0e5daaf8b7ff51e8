#include "ranks-private.h"

#define CABLES_MAX 255

/* --- the measure --- */

static const WeftRankPlace *
place_of(const WeftRankPlace *places, const guint *order, guint rank)
{
    return &places[order ? order[rank] : rank];
}

static guint
distance(const WeftRankPlace *a, const WeftRankPlace *b, WeftHops hops, gconstpointer data)
{
    if (a->host == b->host)
        return 0;
    return a->leaf == b->leaf ? 1 : 1 + MIN(hops(a->leaf, b->leaf, data), CABLES_MAX);
}

guint64
weft_ranks_cost(const GArray *traffic, const WeftRankPlace *places, const guint *order, WeftHops hops, gconstpointer data)
{
    guint64 sum = 0;
    for (guint i = 0; i < traffic->len; i++) {
        const WeftTraffic *pair = &g_array_index(traffic, WeftTraffic, i);
        sum += (guint64)pair->weight * distance(place_of(places, order, pair->a), place_of(places, order, pair->b), hops, data);
    }
    return sum;
}

guint
weft_ranks_between(const GArray *traffic, const WeftRankPlace *places, const guint *order)
{
    guint64 sum = 0, between = 0;
    for (guint i = 0; i < traffic->len; i++) {
        const WeftTraffic *pair = &g_array_index(traffic, WeftTraffic, i);
        sum += pair->weight;
        if (place_of(places, order, pair->a)->host != place_of(places, order, pair->b)->host)
            between += pair->weight;
    }
    return sum ? (guint)(between * 100 / sum) : 0;
}

/* --- the map --- */

/* Gives each value a number from 0, by when it was first seen. */
static guint
number_of(GHashTable *numbers, guint value)
{
    gpointer known;
    if (g_hash_table_lookup_extended(numbers, GUINT_TO_POINTER(value), NULL, &known))
        return GPOINTER_TO_UINT(known);
    guint number = g_hash_table_size(numbers);
    g_hash_table_insert(numbers, GUINT_TO_POINTER(value), GUINT_TO_POINTER(number));
    return number;
}

static void
number_places(WeftRankMap *map, const WeftRankPlace *places)
{
    g_autoptr(GHashTable) hosts = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) groups = g_hash_table_new(NULL, NULL);
    map->host = g_new(guint, map->n);
    map->group = g_new(guint, map->n);
    for (guint i = 0; i < map->n; i++) {
        map->host[i] = number_of(hosts, places[i].host);
        map->group[i] = number_of(groups, places[i].group);
    }
    map->hosts = g_hash_table_size(hosts);
    map->groups = g_hash_table_size(groups);
}

static void
measure(WeftRankMap *map, const WeftRankPlace *places, WeftHops hops, gconstpointer data)
{
    g_autofree const WeftRankPlace **any = g_new(const WeftRankPlace *, map->hosts);
    for (guint i = 0; i < map->n; i++)
        any[map->host[i]] = &places[i];
    map->distance = g_new(guint16, (gsize)map->hosts * map->hosts);
    for (guint i = 0; i < map->hosts; i++)
        for (guint j = 0; j <= i; j++)
            map->distance[(gsize)i * map->hosts + j] = map->distance[(gsize)j * map->hosts + i] =
                (guint16)distance(any[j], any[i], hops, data);
}

static void
join_ranks(WeftRankMap *map, const GArray *traffic)
{
    const WeftTraffic *pairs = (const WeftTraffic *)traffic->data;
    map->first = g_new0(guint, map->n + 1);
    map->edges = g_new(WeftRankEdge, 2 * traffic->len);
    for (guint i = 0; i < traffic->len; i++) {
        map->weight += pairs[i].weight;
        map->first[pairs[i].a + 1] += pairs[i].weight > 0;
        map->first[pairs[i].b + 1] += pairs[i].weight > 0;
    }
    for (guint i = 0; i < map->n; i++)
        map->first[i + 1] += map->first[i];
    g_autofree guint *next = g_memdup2(map->first, map->n * sizeof(guint));
    for (guint i = 0; i < traffic->len; i++) {
        if (pairs[i].weight == 0)
            continue;
        map->edges[next[pairs[i].a]++] = (WeftRankEdge){ pairs[i].b, pairs[i].weight };
        map->edges[next[pairs[i].b]++] = (WeftRankEdge){ pairs[i].a, pairs[i].weight };
    }
}

static void
map_clear(WeftRankMap *map)
{
    g_free(map->host);
    g_free(map->group);
    g_free(map->distance);
    g_free(map->first);
    g_free(map->edges);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftRankMap, map_clear)

/* --- the whole --- */

/* Everybody talks to everybody alike: no order is better than another. */
static gboolean
is_even(const GArray *traffic, guint n)
{
    const WeftTraffic *pairs = (const WeftTraffic *)traffic->data;
    if (traffic->len < (guint64)n * (n - 1) / 2)
        return FALSE;
    for (guint i = 1; i < traffic->len; i++)
        if (pairs[i].weight != pairs[0].weight)
            return FALSE;
    return TRUE;
}

/* What all traffic costs at least: as if it went between the two places that are nearest. */
static guint64
lower_bound(const WeftRankMap *map)
{
    guint nearest = CABLES_MAX + 1;
    for (guint i = 0; i < map->hosts; i++)
        for (guint j = 0; j < i; j++)
            nearest = MIN(nearest, weft_rank_distances(map, i)[j]);
    return map->hosts < map->n ? 0 : nearest * map->weight;
}

/* Ranks get the places of their group on their host in order. */
static void
seat(const WeftRankMap *map, const guint *at, guint *ret_places)
{
    g_autofree guint *next = g_new0(guint, (gsize)map->hosts * map->groups);
    for (guint rank = 0; rank < map->n; rank++) {
        guint *place = &next[(gsize)at[rank] * map->groups + map->group[rank]];
        while (map->host[*place] != at[rank] || map->group[*place] != map->group[rank])
            ++*place;
        ret_places[rank] = (*place)++;
    }
}

void
weft_ranks_map(const GArray *traffic, const WeftRankPlace *places, guint n, WeftHops hops, gconstpointer data,
               guint *ret_places)
{
    for (guint i = 0; i < n; i++)
        ret_places[i] = i;
    if (n < 2 || is_even(traffic, n))
        return;
    g_auto(WeftRankMap) map = { .n = n };
    number_places(&map, places);
    measure(&map, places, hops, data);
    join_ranks(&map, traffic);
    guint64 before = weft_ranks_cost_at(&map, map.host), bound = lower_bound(&map);
    if (before == bound)
        return;

    g_autofree guint *at = g_new(guint, n);
    if (!weft_ranks_scotch(&map, at))
        memcpy(at, map.host, n * sizeof(guint));
    if (weft_ranks_improve(&map, at, bound) < before)
        seat(&map, at, ret_places);
}
