#include "slot-world.h"

#include <string.h>

const guint64 world_sizes[SIZES] = { 1 * G, 2 * M };
const char *const world_clusters[CLUSTERS] = { NULL, "0aaaaaaaaaaa", "0bbbbbbbbbbb", "0ccccccccccc" };
static const char *const roots[] = { NULL, "r1", "r2", "r3" };

guint
world_pick(World *w, guint below)
{
    return (guint)g_rand_int_range(w->dice, 0, (gint32)below);
}

/* --- hosts and shapes --- */

static void
add_numa(World *w, guint index)
{
    WeftNuma numa = { 0 };
    gboolean housekeeping = world_pick(w, 3) == 0;
    for (guint i = 0; i < SIZES; i++)
        if (w->crowded || world_pick(w, 3))
            numa.pages[numa.n_pages++] = (WeftPages){ world_sizes[i], world_pick(w, world_sizes[i] == G ? 17 : 8193) };
    for (guint n = w->crowded ? 9 : world_pick(w, 10); n > 0; n--) {
        WeftCore core = { (guint16)w->host->cores->len, (guint8)index, housekeeping, 1, { 0 } };
        housekeeping = FALSE;
        g_array_append_val(w->host->cores, core);
    }
    g_array_append_val(w->host->numa, numa);
}

static void
add_devices(World *w)
{
    for (guint n = w->crowded ? HCAS_MAX : 1 + world_pick(w, HCAS_MAX), i = 0; i < n; i++) {
        WeftHca *hca = weft_hca_new();
        hca->name = g_strdup_printf("h%u", i);
        hca->driver = world_pick(w, 2);
        hca->numa = world_pick(w, w->host->numa->len);
        hca->rail = i ? world_pick(w, 2) : 0;
        hca->vfs = world_pick(w, 6);
        hca->port_guid = world_pick(w, 10) ? i + 1 : 0;
        hca->root = g_strdup(roots[world_pick(w, G_N_ELEMENTS(roots))]);
        w->rates[i] = RATE * world_pick(w, 8);
        g_hash_table_insert(w->told.rates, &hca->port_guid, &w->rates[i]);
        g_ptr_array_add(w->host->hcas, hca);
    }
    for (guint n = w->crowded ? GPUS_MAX : world_pick(w, GPUS_MAX + 1), i = 0; i < n; i++) {
        WeftGpu *gpu = g_new0(WeftGpu, 1);
        gpu->name = g_strdup_printf("g%u", i);
        gpu->numa = world_pick(w, w->host->numa->len);
        gpu->root = g_strdup(roots[world_pick(w, G_N_ELEMENTS(roots))]);
        g_ptr_array_add(w->host->gpus, gpu);
    }
}

World *
world_new(guint32 seed, guint size)
{
    World *w = g_new0(World, 1);
    w->dice = g_rand_new_with_seed(seed);
    w->host = weft_host_new();
    w->host->name = g_strdup("n0");
    w->told.rates = g_hash_table_new(g_int64_hash, g_int64_equal);
    w->crowded = world_pick(w, 12) == 0;
    w->told.pkeys = w->crowded ? 0 : world_pick(w, 3);
    w->told.no_virtual = w->crowded || world_pick(w, 8) ? NULL : (char *)"no";
    for (guint n = 1 + world_pick(w, w->crowded ? 1 : size), i = 0; i < n; i++)
        add_numa(w, i);
    add_devices(w);
    w->slot = weft_slot_new(seed, w->host, &w->told);
    weft_slot_set_open(w->slot, TRUE);
    w->seats = g_array_new(FALSE, FALSE, sizeof(WeftSeat));
    w->keepers = g_ptr_array_new();
    return w;
}

void
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

static WeftShape
shape_of_devices(World *w)
{
    return (WeftShape){ .cores = 1,
                        .memory = 64 * M,
                        .rails = 1 + world_pick(w, 2),
                        .gpus = 1 + world_pick(w, 3),
                        .path = WEFT_PATH_SRIOV,
                        .locality = world_pick(w, 4) ? WEFT_LOCALITY_REQUIRED : WEFT_LOCALITY_PREFERRED,
                        .cluster = world_clusters[world_pick(w, CLUSTERS)] };
}

WeftShape
world_shape(World *w)
{
    if (w->crowded)
        return shape_of_devices(w);
    static const guint64 memories[] = { 64 * M, 512 * M, 1 * G, 1536 * M, 2 * G, 3 * G, 4 * G, 6 * G };
    WeftShape shape = { .cores = 1 + world_pick(w, 6), .memory = memories[world_pick(w, G_N_ELEMENTS(memories))] };
    shape.page_size = world_pick(w, 2) ? world_sizes[world_pick(w, SIZES)] : 0;
    shape.gpus = world_pick(w, 2) ? world_pick(w, 3) : 0;
    shape.rails = world_pick(w, 6) ? world_pick(w, 2) : 2;
    shape.path = shape.rails ? (world_pick(w, 5) ? WEFT_PATH_SRIOV : WEFT_PATH_PASSTHROUGH) : WEFT_PATH_BRIDGE;
    shape.locality = world_pick(w, WEFT_LOCALITIES);
    shape.exclusive = world_pick(w, 8) == 0;
    shape.cluster = world_clusters[world_pick(w, CLUSTERS)];
    if (shape.rails && world_pick(w, 4) == 0) {
        shape.lane = (WeftLane){ .sl = 1, .share = SHARE };
        shape.bandwidth = RATE;
    }
    return shape;
}

void
world_take(World *w, const WeftSeat *seat, const char *cluster)
{
    weft_slot_take_seat(w->slot, seat, cluster);
    g_array_append_val(w->seats, *seat);
    g_ptr_array_add(w->keepers, (gpointer)cluster);
}

void
world_give(World *w, guint i)
{
    WeftSeat seat = g_array_index(w->seats, WeftSeat, i);
    const char *cluster = w->keepers->pdata[i];
    g_array_remove_index(w->seats, i);
    g_ptr_array_remove_index(w->keepers, i);
    weft_slot_give_seat(w->slot, &seat, cluster);
}

/* --- books --- */

const WeftHca *
world_hca(const World *w, guint i)
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
    const WeftHca *hca = world_hca(w, h);
    g_assert_cmpuint(hca->rail, ==, rail);
    g_assert_cmpuint(hca->port_guid, !=, 0);
    if (seat->path == WEFT_PATH_PASSTHROUGH) {
        g_assert_true(seat->vf[rail] == -1);
        g_assert_false(books->functions[h][WEFT_VFS_MAX]);
        memset(books->functions[h], TRUE, sizeof books->functions[h]);
    } else {
        g_assert_true(seat->vf[rail] >= 0 && seat->vf[rail] < (int)hca->vfs);
        g_assert_false(hca->driver == WEFT_HCA_MLX5 && w->told.no_virtual);
        g_assert_false(books->functions[h][(guint)seat->vf[rail]]);
        books->functions[h][(guint)seat->vf[rail]] = books->functions[h][WEFT_VFS_MAX] = TRUE;
    }
    books->bits[h] += seat->bandwidth;
    g_assert_true(seat->bandwidth == 0 || books->bits[h] <= w->rates[h] * SHARE / 100);
    for (guint i = 0; i < CLUSTERS; i++)
        if (g_strcmp0(world_clusters[i], cluster) == 0)
            books->keys[h][i] = TRUE;
}

Books
world_balance(const World *w)
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
        for (guint i = 1; i < CLUSTERS; i++)
            keys += books.keys[h][i];
        g_assert_cmpuint(keys, <=, w->told.pkeys);
    }
    return books;
}
