/* The most nodes at once, by trying everything. */
#include "slot-world.h"

#include <string.h>

typedef struct Spot {
    guint16 pages[NUMA_MAX][SIZES];
    guint8 cores[NUMA_MAX];
    guint8 functions[HCAS_MAX];
    guint8 gpus;
    guint8 zero[2];
} Spot;

typedef struct Solver {
    const World *w;
    const WeftShape *shape;
    guint scale; /* pages are counted in as many pieces */
    GHashTable *known;
} Solver;

static guint best_of(Solver *s, const Spot *spot);

static guint
pages_of(const Solver *s, guint size)
{
    gboolean right = s->shape->page_size == 0 || s->shape->page_size == world_sizes[size];
    return right && s->shape->memory % world_sizes[size] == 0 ? (guint)(s->shape->memory / world_sizes[size]) * s->scale : 0;
}

/* The rest of the node, from a NUMA node on: each part's pages are its share rounded up or down. */
static guint
best_split(Solver *s, const Spot *spot, guint numa, guint size, guint cores, guint pages)
{
    guint best = 0;
    if (cores == 0)
        return pages ? 0 : 1 + best_of(s, spot);
    for (guint x = 0; numa < MIN(s->w->host->numa->len, NUMA_MAX) && x <= MIN(cores, spot->cores[numa]); x++) {
        guint share = x * pages_of(s, size), all = s->shape->cores;
        for (guint y = share / all; y <= (share + all - 1) / all; y++) {
            Spot next = *spot;
            if (y > spot->pages[numa][size] || y > pages)
                continue;
            next.cores[numa] = (guint8)(next.cores[numa] - x);
            next.pages[numa][size] = (guint16)(next.pages[numa][size] - y);
            best = MAX(best, best_split(s, &next, numa + 1, size, cores - x, pages - y));
        }
    }
    return best;
}

/* The rest of the node's GPUs, from one on. below: roots by bits, the first for an unknown one. */
static guint
best_gpus(Solver *s, const Spot *spot, guint numa, guint below, guint from, guint missing)
{
    guint best = 0;
    if (missing == 0)
        return 1 + best_of(s, spot);
    for (guint i = from; i < s->w->host->gpus->len; i++) {
        const WeftGpu *gpu = s->w->host->gpus->pdata[i];
        gboolean right = s->shape->rails == 0 || below & 1 || !gpu->root || below >> (gpu->root[1] - '0') & 1;
        if (!right || !(spot->gpus >> i & 1) || gpu->numa != numa)
            continue;
        Spot next = *spot;
        next.gpus &= (guint8) ~(1U << i);
        best = MAX(best, best_gpus(s, &next, numa, below, i + 1, missing - 1));
    }
    return best;
}

static guint
best_functions(Solver *s, const Spot *spot, guint numa, guint below, guint rail)
{
    guint best = 0;
    if (rail == s->shape->rails)
        return best_gpus(s, spot, numa, below, 0, s->shape->gpus);
    for (guint i = 0; i < s->w->host->hcas->len; i++) {
        const WeftHca *hca = world_hca(s->w, i);
        if (hca->rail != rail || hca->numa != numa || spot->functions[i] == 0)
            continue;
        Spot next = *spot;
        next.functions[i]--;
        best = MAX(best, best_functions(s, &next, numa, below | 1U << (hca->root ? hca->root[1] - '0' : 0), rail + 1));
    }
    return best;
}

static guint
best_required(Solver *s, const Spot *spot, guint size)
{
    guint best = 0;
    for (guint numa = 0; numa < s->w->host->numa->len; numa++) {
        if (spot->cores[numa] < s->shape->cores || spot->pages[numa][size] < pages_of(s, size))
            continue;
        Spot next = *spot;
        next.cores[numa] = (guint8)(next.cores[numa] - s->shape->cores);
        next.pages[numa][size] = (guint16)(next.pages[numa][size] - pages_of(s, size));
        best = MAX(best, best_functions(s, &next, numa, 0, 0));
    }
    return best;
}

static guint
best_of(Solver *s, const Spot *spot)
{
    gpointer value;
    guint best = 0;
    if (g_hash_table_lookup_extended(s->known, spot, NULL, &value))
        return GPOINTER_TO_UINT(value);
    for (guint size = 0; size < SIZES; size++) {
        if (pages_of(s, size) == 0)
            continue;
        guint n = s->shape->locality == WEFT_LOCALITY_REQUIRED
                      ? best_required(s, spot, size)
                      : best_split(s, spot, 0, size, s->shape->cores, pages_of(s, size));
        best = MAX(best, n);
    }
    g_hash_table_insert(s->known, g_memdup2(spot, sizeof *spot), GUINT_TO_POINTER(best));
    return best;
}

static guint
spot_hash(gconstpointer data)
{
    guint hash = 5381;
    for (guint i = 0; i < sizeof(Spot); i++)
        hash = hash * 33 + ((const guint8 *)data)[i];
    return hash;
}

static gboolean
spot_equal(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, sizeof(Spot)) == 0;
}

/* --- what the solver starts from, by the books --- */

static guint
functions_by_books(const World *w, const Books *books, const WeftShape *shape, guint h)
{
    const WeftHca *hca = world_hca(w, h);
    guint n = 0, keys = 0;
    gboolean own = books->keys[h][0];
    for (guint i = 1; i < CLUSTERS; i++) {
        keys += books->keys[h][i];
        own |= books->keys[h][i] && g_strcmp0(shape->cluster, world_clusters[i]) == 0;
    }
    if (!hca->port_guid || !(own || w->told.pkeys == 0 || keys < w->told.pkeys))
        return 0;
    if (shape->path == WEFT_PATH_PASSTHROUGH)
        n = !books->functions[h][WEFT_VFS_MAX];
    for (guint i = 0; shape->path == WEFT_PATH_SRIOV && i < hca->vfs; i++)
        n += !books->functions[h][i] && !(hca->driver == WEFT_HCA_MLX5 && w->told.no_virtual);
    return shape->bandwidth ? MIN(n, (guint)((w->rates[h] * SHARE / 100 - books->bits[h]) / shape->bandwidth)) : n;
}

static Spot
spot_by_books(const World *w, const Books *books, const WeftShape *shape, guint scale)
{
    Spot spot = { .gpus = (guint8)(((1U << w->host->gpus->len) - 1) & ~books->gpus) };
    for (guint i = 0; i < w->host->cores->len; i++) {
        const WeftCore *core = &g_array_index(w->host->cores, WeftCore, i);
        spot.cores[core->numa] = (guint8)(spot.cores[core->numa] + !(core->housekeeping || books->cores[i]));
    }
    for (guint n = 0; n < w->host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(w->host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            spot.pages[n][numa->pages[i].size == world_sizes[1]] =
                (guint16)((numa->pages[i].count - books->pages[n][i]) * scale);
    }
    for (guint h = 0; h < w->host->hcas->len; h++)
        spot.functions[h] = (guint8)functions_by_books(w, books, shape, h);
    return spot;
}

/* With locality none the host is as one NUMA node. */
static void
merge(Spot *spot)
{
    for (guint n = 1; n < NUMA_MAX; n++) {
        spot->cores[0] = (guint8)(spot->cores[0] + spot->cores[n]);
        spot->cores[n] = 0;
        for (guint i = 0; i < SIZES; i++) {
            spot->pages[0][i] = (guint16)(spot->pages[0][i] + spot->pages[n][i]);
            spot->pages[n][i] = 0;
        }
    }
}

static guint
devices_by_books(const World *w, const WeftShape *shape, const Spot *spot)
{
    guint most = shape->gpus ? (guint)__builtin_popcount(spot->gpus) / shape->gpus : G_MAXUINT;
    for (guint rail = 0; rail < shape->rails; rail++) {
        guint n = 0;
        for (guint h = 0; h < w->host->hcas->len; h++)
            n += world_hca(w, h)->rail == rail ? spot->functions[h] : 0;
        most = MIN(most, n);
    }
    return most;
}

static gboolean
is_admitted(const World *w, const WeftShape *shape)
{
    for (guint i = 0; i < w->seats->len; i++) {
        gboolean other = g_strcmp0(w->keepers->pdata[i], shape->cluster) != 0 || !shape->cluster;
        if (w->keepers->pdata[i] && other && (shape->exclusive || g_array_index(w->seats, WeftSeat, i).exclusive))
            return FALSE;
    }
    return TRUE;
}

guint
world_solve(const World *w, const WeftShape *shape, guint scale)
{
    Books books = world_balance(w);
    Spot spot = spot_by_books(w, &books, shape, scale);
    g_autoptr(GHashTable) known = g_hash_table_new_full(spot_hash, spot_equal, g_free, NULL);
    guint most = is_admitted(w, shape) ? devices_by_books(w, shape, &spot) : 0;
    if (shape->locality == WEFT_LOCALITY_NONE)
        merge(&spot);
    return most ? MIN(most, best_of(&(Solver){ w, shape, scale, known }, &spot)) : 0;
}
