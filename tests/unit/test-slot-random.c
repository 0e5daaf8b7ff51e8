/* Random hosts and shapes, against books and an exact solver of its own.
 *
 * WEFT_SLOT_SEED tells the first seed, WEFT_SLOT_CASES how many from there on, WEFT_SLOT_SIZE how many NUMA nodes a host has at
 * most: a case that fails is run again by its seed alone, and made smaller by the size. */
#include "slot.h"

#include <signal.h>
#include <string.h>

#define G (1ULL << 30)
#define M (1ULL << 20)
#define NUMA_MAX 4
#define HCAS_MAX 4
#define SIZES 2
#define SHARE 50
#define RATE 1000000000ULL

static const guint64 sizes[SIZES] = { 1 * G, 2 * M };
static const char *const clusters[] = { NULL, "0aaaaaaaaaaa", "0bbbbbbbbbbb", "0ccccccccccc" };
static const char *const roots[] = { NULL, "r1", "r2", "r3" };

typedef struct World {
    GRand *dice;
    WeftHost *host;
    WeftFleetFabric told;
    guint64 rates[HCAS_MAX];
    WeftSlot *slot;
    GArray *seats;      /* WeftSeat that are taken */
    GPtrArray *keepers; /* and by which cluster; NULL: tried */
} World;

static guint
pick(World *w, guint below)
{
    return (guint)g_rand_int_range(w->dice, 0, (gint32)below);
}

/* --- worlds --- */

static void
add_numa(World *w, guint index)
{
    WeftNuma numa = { 0 };
    gboolean housekeeping = pick(w, 3) == 0;
    for (guint i = 0; i < SIZES; i++)
        if (pick(w, 3))
            numa.pages[numa.n_pages++] = (WeftPages){ sizes[i], pick(w, sizes[i] == G ? 17 : 8193) };
    for (guint n = pick(w, 10); n > 0; n--) {
        WeftCore core = { (guint16)w->host->cores->len, (guint8)index, housekeeping, 1, { 0 } };
        housekeeping = FALSE;
        g_array_append_val(w->host->cores, core);
    }
    g_array_append_val(w->host->numa, numa);
}

static void
add_devices(World *w)
{
    for (guint n = 1 + pick(w, HCAS_MAX), i = 0; i < n; i++) {
        WeftHca *hca = weft_hca_new();
        hca->name = g_strdup_printf("h%u", i);
        hca->driver = pick(w, 2);
        hca->numa = pick(w, w->host->numa->len);
        hca->rail = i ? pick(w, 2) : 0;
        hca->vfs = pick(w, 6);
        hca->port_guid = pick(w, 10) ? i + 1 : 0;
        hca->root = g_strdup(roots[pick(w, G_N_ELEMENTS(roots))]);
        w->rates[i] = RATE * pick(w, 8);
        g_hash_table_insert(w->told.rates, &hca->port_guid, &w->rates[i]);
        g_ptr_array_add(w->host->hcas, hca);
    }
    for (guint n = pick(w, 9), i = 0; i < n; i++) {
        WeftGpu *gpu = g_new0(WeftGpu, 1);
        gpu->name = g_strdup_printf("g%u", i);
        gpu->numa = pick(w, w->host->numa->len);
        gpu->root = g_strdup(roots[pick(w, G_N_ELEMENTS(roots))]);
        g_ptr_array_add(w->host->gpus, gpu);
    }
}

static World *
world_new(guint32 seed, guint size)
{
    World *w = g_new0(World, 1);
    w->dice = g_rand_new_with_seed(seed);
    w->host = weft_host_new();
    w->host->name = g_strdup("n0");
    w->told.rates = g_hash_table_new(g_int64_hash, g_int64_equal);
    w->told.pkeys = pick(w, 3);
    w->told.no_virtual = pick(w, 8) ? NULL : (char *)"no";
    for (guint n = 1 + pick(w, size), i = 0; i < n; i++)
        add_numa(w, i);
    add_devices(w);
    w->slot = weft_slot_new(seed, w->host, &w->told);
    weft_slot_set_open(w->slot, TRUE);
    w->seats = g_array_new(FALSE, FALSE, sizeof(WeftSeat));
    w->keepers = g_ptr_array_new();
    return w;
}

static void
world_free(World *w)
{
    weft_slot_free(w->slot);
    weft_host_free(w->host);
    g_hash_table_unref(w->told.rates);
    g_array_unref(w->seats);
    g_ptr_array_unref(w->keepers);
    g_rand_free(w->dice);
    g_free(w);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(World, world_free)

static WeftShape
random_shape(World *w)
{
    static const guint64 memories[] = { 64 * M, 512 * M, 1 * G, 1536 * M, 2 * G, 3 * G, 4 * G, 6 * G };
    WeftShape shape = { .cores = 1 + pick(w, 6), .memory = memories[pick(w, G_N_ELEMENTS(memories))] };
    shape.page_size = pick(w, 2) ? sizes[pick(w, SIZES)] : 0;
    shape.gpus = pick(w, 2) ? pick(w, 3) : 0;
    shape.rails = pick(w, 6) ? pick(w, 2) : 2;
    shape.path = shape.rails ? (pick(w, 5) ? WEFT_PATH_SRIOV : WEFT_PATH_PASSTHROUGH) : WEFT_PATH_BRIDGE;
    shape.locality = pick(w, WEFT_LOCALITIES);
    shape.exclusive = pick(w, 8) == 0;
    shape.cluster = clusters[pick(w, G_N_ELEMENTS(clusters))];
    if (shape.rails && pick(w, 4) == 0) {
        shape.lane = (WeftLane){ .sl = 1, .share = SHARE };
        shape.bandwidth = RATE;
    }
    return shape;
}

static void
take(World *w, const WeftSeat *seat, const char *cluster)
{
    weft_slot_take_seat(w->slot, seat, cluster);
    g_array_append_val(w->seats, *seat);
    g_ptr_array_add(w->keepers, (gpointer)cluster);
}

static void
give(World *w, guint i)
{
    WeftSeat seat = g_array_index(w->seats, WeftSeat, i);
    const char *cluster = w->keepers->pdata[i];
    g_array_remove_index(w->seats, i);
    g_ptr_array_remove_index(w->keepers, i);
    weft_slot_give_seat(w->slot, &seat, cluster);
}

/* --- books of its own --- */

typedef struct Books {
    gboolean cores[WEFT_CORES_MAX];
    guint64 pages[NUMA_MAX][WEFT_PAGE_SIZES_MAX];
    gboolean functions[HCAS_MAX][WEFT_VFS_MAX + 1]; /* the last: something of the HCA */
    guint64 bits[HCAS_MAX];
    gboolean keys[HCAS_MAX][G_N_ELEMENTS(clusters)]; /* the first: tried */
    guint32 gpus;
} Books;

static const WeftHca *
hca_of(const World *w, guint i)
{
    g_assert_cmpuint(i, <, w->host->hcas->len);
    return w->host->hcas->pdata[i];
}

static gboolean
has_core(const WeftSeat *seat, guint i)
{
    return seat->cores.words[i / 64] >> (i % 64) & 1;
}

static void
book_cores(const World *w, Books *books, const WeftSeat *seat)
{
    for (guint i = 0; i < WEFT_CORES_MAX; i++) {
        if (!has_core(seat, i))
            continue;
        g_assert_cmpuint(i, <, w->host->cores->len);
        g_assert_false(g_array_index(w->host->cores, WeftCore, i).housekeeping);
        g_assert_false(books->cores[i]);
        books->cores[i] = TRUE;
    }
}

static void
book_pages(const World *w, Books *books, const WeftSeat *seat)
{
    for (guint i = 0; i < seat->n_parts; i++) {
        const WeftSeatPart *part = &seat->parts[i];
        const WeftNuma *numa = &g_array_index(w->host->numa, WeftNuma, part->numa);
        books->pages[part->numa][part->size] += part->pages;
        g_assert_cmpuint(books->pages[part->numa][part->size], <=, numa->pages[part->size].count);
    }
}

static void
book_function(const World *w, Books *books, const WeftSeat *seat, guint rail, const char *cluster)
{
    guint h = seat->hca[rail];
    const WeftHca *hca = hca_of(w, h);
    g_assert_cmpuint(hca->rail, ==, rail);
    g_assert_cmpuint(hca->port_guid, !=, 0);
    if (seat->path == WEFT_PATH_PASSTHROUGH) {
        g_assert_cmpint(seat->vf[rail], ==, -1);
        g_assert_false(books->functions[h][WEFT_VFS_MAX]);
        memset(books->functions[h], TRUE, sizeof books->functions[h]);
    } else {
        g_assert_cmpint(seat->vf[rail], >=, 0);
        g_assert_cmpint(seat->vf[rail], <, (int)hca->vfs);
        g_assert_false(hca->driver == WEFT_HCA_MLX5 && w->told.no_virtual);
        g_assert_false(books->functions[h][(guint)seat->vf[rail]]);
        books->functions[h][(guint)seat->vf[rail]] = books->functions[h][WEFT_VFS_MAX] = TRUE;
    }
    books->bits[h] += seat->bandwidth;
    g_assert_true(seat->bandwidth == 0 || books->bits[h] <= w->rates[h] * SHARE / 100);
    for (guint i = 0; i < G_N_ELEMENTS(clusters); i++)
        if (g_strcmp0(clusters[i], cluster) == 0)
            books->keys[h][i] = TRUE;
}

/* Nothing twice, and nothing that is not there. */
static Books
balance(const World *w)
{
    Books books = { 0 };
    for (guint i = 0; i < w->seats->len; i++) {
        const WeftSeat *seat = &g_array_index(w->seats, WeftSeat, i);
        book_cores(w, &books, seat);
        book_pages(w, &books, seat);
        for (guint rail = 0; rail < seat->n_rails; rail++)
            book_function(w, &books, seat, rail, w->keepers->pdata[i]);
        g_assert_cmpuint(books.gpus & seat->gpus, ==, 0);
        g_assert_cmpuint(seat->gpus >> w->host->gpus->len, ==, 0);
        books.gpus |= seat->gpus;
    }
    for (guint h = 0; w->told.pkeys && h < w->host->hcas->len; h++) {
        guint keys = 0;
        for (guint i = 1; i < G_N_ELEMENTS(clusters); i++)
            keys += books.keys[h][i];
        g_assert_cmpuint(keys, <=, w->told.pkeys);
    }
    return books;
}

/* --- policies --- */

static gboolean
is_below(const World *w, const WeftSeat *seat, const WeftGpu *gpu)
{
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        const char *root = hca_of(w, seat->hca[rail])->root;
        if (!root || !gpu->root || strcmp(root, gpu->root) == 0)
            return TRUE;
    }
    return seat->n_rails == 0;
}

static gboolean
is_local(const World *w, const WeftSeat *seat)
{
    guint numa = seat->parts[0].numa;
    gboolean local = seat->n_parts == 1;
    for (guint rail = 0; rail < seat->n_rails; rail++)
        local = local && hca_of(w, seat->hca[rail])->numa == numa;
    for (guint i = 0; i < w->host->gpus->len; i++) {
        const WeftGpu *gpu = w->host->gpus->pdata[i];
        if (seat->gpus >> i & 1)
            local = local && gpu->numa == numa && is_below(w, seat, gpu);
    }
    return local;
}

/* Returns the bytes that it has there, which are as they should be. */
static guint64
check_part(const World *w, const WeftShape *shape, const WeftSeat *seat, const WeftSeatPart *part)
{
    guint cores = 0;
    guint64 size = g_array_index(w->host->numa, WeftNuma, part->numa).pages[part->size].size;
    for (guint i = 0; i < w->host->cores->len; i++)
        cores += g_array_index(w->host->cores, WeftCore, i).numa == part->numa && has_core(seat, i);
    g_assert_cmpuint(cores, ==, part->cores);
    g_assert_true(part->pages == 0 || shape->page_size == 0 || shape->page_size == size);
    if (shape->locality != WEFT_LOCALITY_NONE) {
        gint64 off = (gint64)(part->pages * size * shape->cores) - (gint64)(shape->memory * cores);
        g_assert_cmpuint(cores, >, 0);
        g_assert_cmpint(ABS(off), <, (gint64)((part->pages ? size : 1 * G) * shape->cores));
    }
    return part->pages * size;
}

/* What was asked for, no more and no less. */
static void
check_seat(const World *w, const WeftShape *shape, const WeftSeat *seat)
{
    guint cores = 0;
    guint64 memory = 0;
    for (guint i = 0; i < seat->n_parts; i++) {
        memory += check_part(w, shape, seat, &seat->parts[i]);
        cores += seat->parts[i].cores;
        g_assert_true(i == 0 || seat->parts[i - 1].numa < seat->parts[i].numa);
    }
    g_assert_cmpuint(cores, ==, shape->cores);
    g_assert_cmpuint(memory, ==, shape->memory);
    g_assert_cmpuint(seat->n_rails, ==, shape->rails);
    g_assert_cmpuint((guint)__builtin_popcount(seat->gpus), ==, shape->gpus);
    g_assert_cmpuint(seat->bandwidth, ==, shape->bandwidth);
    g_assert_true(shape->locality != WEFT_LOCALITY_REQUIRED || is_local(w, seat));
}

static void
check_round_trip(const World *w, const WeftSeat *seat)
{
    WeftSeat again;
    WeftGroup group = { .name = (char *)"nodes", .image = (char *)"mpi" };
    g_autoptr(WeftNode) node = weft_slot_node(w->slot, seat, &group);
    g_assert_true(weft_slot_seat_of(w->slot, node, &again));
    g_assert_cmpmem(&again, sizeof again, seat, sizeof *seat);
}

/* --- an exact solver: the most nodes at once, by trying everything --- */

typedef struct Spot {
    guint16 pages[NUMA_MAX][SIZES];
    guint8 cores[NUMA_MAX];
    guint8 functions[HCAS_MAX];
    guint8 gpus;
    guint8 zero[3];
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
    gboolean right = s->shape->page_size == 0 || s->shape->page_size == sizes[size];
    return right && s->shape->memory % sizes[size] == 0 ? (guint)(s->shape->memory / sizes[size]) * s->scale : 0;
}

/* The rest of the node, from a NUMA node on: each part's pages are its share rounded up or down. */
static guint
best_split(Solver *s, const Spot *spot, guint numa, guint size, guint cores, guint pages)
{
    guint best = 0;
    if (cores == 0)
        return pages ? 0 : 1 + best_of(s, spot);
    for (guint x = 0; numa < s->w->host->numa->len && x <= MIN(cores, spot->cores[numa]); x++) {
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
        const WeftHca *hca = hca_of(s->w, i);
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
    const WeftHca *hca = hca_of(w, h);
    guint n = 0, keys = 0;
    gboolean own = books->keys[h][0];
    for (guint i = 1; i < G_N_ELEMENTS(clusters); i++) {
        keys += books->keys[h][i];
        own |= books->keys[h][i] && g_strcmp0(shape->cluster, clusters[i]) == 0;
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
            spot.pages[n][numa->pages[i].size == sizes[1]] = (guint16)((numa->pages[i].count - books->pages[n][i]) * scale);
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
            n += hca_of(w, h)->rail == rail ? spot->functions[h] : 0;
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

/* scale 1: parts may be rounded either way, whatever it does to others; cores of a node: memory is split to the byte. */
static guint
solve(const World *w, const WeftShape *shape, guint scale)
{
    Books books = balance(w);
    Spot spot = spot_by_books(w, &books, shape, scale);
    g_autoptr(GHashTable) known = g_hash_table_new_full(spot_hash, spot_equal, g_free, NULL);
    guint most = is_admitted(w, shape) ? devices_by_books(w, shape, &spot) : 0;
    if (shape->locality == WEFT_LOCALITY_NONE)
        merge(&spot);
    return most ? MIN(most, best_of(&(Solver){ w, shape, scale, known }, &spot)) : 0;
}

/* --- the properties --- */

static void
settle(World *w)
{
    WeftSeat seat;
    for (guint n = pick(w, 6); n > 0; n--) {
        WeftShape shape = random_shape(w);
        if (!shape.cluster)
            shape.cluster = clusters[1];
        if (w->seats->len && pick(w, 4) == 0)
            give(w, pick(w, w->seats->len));
        else if (weft_slot_seat(w->slot, &shape, &seat))
            take(w, &seat, shape.cluster);
    }
}

/* Are there pages of two sizes that it could have? Then the larger are taken first, which may cost a joined node. */
static gboolean
has_choice_of_pages(const World *w, const WeftShape *shape)
{
    gboolean both[SIZES] = { FALSE };
    for (guint n = 0; n < w->host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(w->host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            both[numa->pages[i].size == sizes[1]] = TRUE;
    }
    return both[0] && both[1] && shape->page_size == 0 && shape->memory % sizes[0] == 0;
}

static guint counts[WEFT_LOCALITIES], rounded, chosen;

static void
check_fit(const World *w, const WeftShape *shape, guint fit)
{
    guint exact = solve(w, shape, 1);
    g_assert_cmpuint(fit, <=, exact);
    counts[shape->locality] += exact > 0;
    if (shape->locality != WEFT_LOCALITY_PREFERRED) {
        g_assert_cmpuint(fit, ==, exact);
        return;
    }
    gboolean choice = has_choice_of_pages(w, shape);
    chosen += choice && fit < exact;
    rounded += !choice && fit < exact;
    if (!choice)
        g_assert_cmpuint(fit, >=, solve(w, shape, shape->cores));
}

/* Seats and takes until there is no room: as often as was said. */
static void
check_filling(World *w, const WeftShape *shape, const char *cluster)
{
    WeftSeat seat;
    guint fit = weft_slot_fit(w->slot, shape);
    guint nodes = weft_slot_nodes(w->slot);
    check_fit(w, shape, fit);
    for (guint n = 0; n < fit; n++) {
        g_assert_true(weft_slot_seat(w->slot, shape, &seat));
        check_seat(w, shape, &seat);
        check_round_trip(w, &seat);
        take(w, &seat, cluster);
        g_assert_cmpuint(weft_slot_fit(w->slot, shape), ==, fit - n - 1);
    }
    g_assert_false(weft_slot_seat(w->slot, shape, &seat));
    g_assert_cmpuint(weft_slot_nodes(w->slot), ==, nodes + fit);
    balance(w);
}

static void
check_room(const World *w, const WeftShape *shape)
{
    guint room[WEFT_SCARCE_KINDS];
    guint fit = weft_slot_fit(w->slot, shape);
    weft_slot_room(w->slot, shape, room);
    for (guint i = 0; i < WEFT_SCARCE_KINDS; i++)
        g_assert_cmpuint(room[i], >=, fit);
    g_assert_true(room[WEFT_SCARCE_HOSTS] ? room[WEFT_SCARCE_LOCALITY] == fit : fit == 0);
}

/* A fresh slot that inherits, and one that is emptied, say the same. */
static void
check_heirs(World *w)
{
    WeftSlot *heir = weft_slot_new(0, w->host, &w->told), *fresh = weft_slot_new(0, w->host, &w->told);
    weft_slot_inherit(heir, w->slot);
    weft_slot_set_open(fresh, TRUE);
    for (guint i = 0; i < 8; i++) {
        WeftShape shape = random_shape(w);
        g_assert_cmpuint(weft_slot_fit(heir, &shape), ==, weft_slot_fit(w->slot, &shape));
        g_assert_cmpuint(weft_slot_fit_empty(heir, &shape), ==, weft_slot_fit(fresh, &shape));
    }
    weft_slot_empty(heir);
    g_assert_cmpuint(weft_slot_nodes(heir), ==, 0);
    WeftShape shape = random_shape(w);
    g_assert_cmpuint(weft_slot_fit(heir, &shape), ==, weft_slot_fit(fresh, &shape));
    weft_slot_free(heir);
    weft_slot_free(fresh);
}

static void
check_case(guint32 seed, guint size)
{
    g_autoptr(World) w = world_new(seed, size);
    settle(w);
    WeftShape shape = random_shape(w);
    guint before = w->seats->len;
    gsize bytes = weft_slot_size(w->slot);
    g_autofree guint64 *copy = g_malloc(bytes);
    g_autofree guint64 *shadow = g_malloc(bytes);
    check_room(w, &shape);
    check_heirs(w);

    weft_slot_save(w->slot, copy);
    check_filling(w, &shape, NULL);
    while (w->seats->len > before)
        give(w, before + pick(w, w->seats->len - before));
    g_assert_cmpmem(w->slot, bytes, copy, bytes);

    check_filling(w, &shape, shape.cluster);
    g_array_set_size(w->seats, before);
    g_ptr_array_set_size(w->keepers, (int)before);
    memcpy(shadow, copy, bytes);
    weft_slot_restore(w->slot, copy);
    g_assert_cmpmem(w->slot, bytes, shadow, bytes);

    check_filling(w, &shape, shape.cluster);
    while (w->seats->len)
        give(w, pick(w, w->seats->len));
    WeftSlot *fresh = weft_slot_new(seed, w->host, &w->told);
    weft_slot_set_open(fresh, TRUE);
    g_assert_cmpmem(w->slot, bytes, fresh, bytes);
    weft_slot_free(fresh);
}

static guint
wish(const char *name, guint otherwise)
{
    const char *text = g_getenv(name);
    return text ? (guint)g_ascii_strtoull(text, NULL, 10) : otherwise;
}

static guint32 running;

static void
tell_seed(int signal G_GNUC_UNUSED)
{
    g_printerr("# run again with: WEFT_SLOT_SEED=%u WEFT_SLOT_CASES=1\n", running);
}

static void
test_properties(void)
{
    guint first = wish("WEFT_SLOT_SEED", 1), n = wish("WEFT_SLOT_CASES", 10000);
    guint size = CLAMP(wish("WEFT_SLOT_SIZE", 3), 1, NUMA_MAX);
    for (running = first; running < first + n; running++)
        check_case(running, size);
    g_test_message("seeds %u to %u: room for required in %u, preferred in %u, none in %u; of the preferred ones, there could "
                   "have been more with other pages in %u, and with other rounding in %u",
                   first, first + n - 1, counts[WEFT_LOCALITY_REQUIRED], counts[WEFT_LOCALITY_PREFERRED],
                   counts[WEFT_LOCALITY_NONE], chosen, rounded);
}

/* --- how long it takes --- */

static void
test_time(void)
{
    static const char text[] = "{\"name\":\"n0\",\"fabric\":\"ib0\",\"numa\":[{\"cores\":32,\"pages\":{\"2M\":65536}},"
                               "{\"cores\":32,\"pages\":{\"2M\":65536}}],"
                               "\"hcas\":[{\"name\":\"a\",\"port_guid\":\"0x1\",\"vfs\":16}]}";
    const guint rounds = 200000;
    WeftFleetFabric told = { 0 };
    json_t *json = json_loads(text, 0, NULL);
    g_autoptr(WeftHost) host = weft_host_from_json(json, "host", NULL);
    json_decref(json);
    WeftSlot *slot = weft_slot_new(0, host, &told);
    WeftShape shape = { .cores = 7, .memory = 8 * G, .rails = 1, .path = WEFT_PATH_SRIOV };
    WeftSeat seat;
    guint sum = 0;
    weft_slot_set_open(slot, TRUE);
    gint64 start = g_get_monotonic_time();
    for (guint i = 0; i < rounds; i++)
        sum += weft_slot_fit(slot, &shape);
    gint64 fit = g_get_monotonic_time();
    for (guint i = 0; i < rounds; i++) {
        sum += weft_slot_seat(slot, &shape, &seat);
        weft_slot_take_seat(slot, &seat, NULL);
        weft_slot_give_seat(slot, &seat, NULL);
    }
    gint64 end = g_get_monotonic_time();
    g_assert_cmpuint(sum, ==, rounds * 10); /* eight whole nodes and a joined one, and each seat */
    g_test_message("%zu bytes; fit %.0f ns, seat with take and give %.0f ns", weft_slot_size(slot),
                   (double)(fit - start) * 1000 / rounds, (double)(end - fit) * 1000 / rounds);
    weft_slot_free(slot);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    signal(SIGABRT, tell_seed);
    g_test_add_func("/slot/random/properties", test_properties);
    g_test_add_func("/slot/random/time", test_time);
    return g_test_run();
}
