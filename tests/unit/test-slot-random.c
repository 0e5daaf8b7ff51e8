/* Slots of random hosts, against books and an exact solver.
 *
 * WEFT_SLOT_SEED tells the first seed, WEFT_SLOT_CASES how many from there on, WEFT_SLOT_SIZE how many NUMA nodes a host has at
 * most: a case that fails is run again by its seed alone, and made smaller by the size. */
#include "slot-world.h"

#include <signal.h>
#include <string.h>

/* --- policies --- */

static gboolean
has_core(const WeftSeat *seat, guint i)
{
    return seat->cores.words[i / 64] >> (i % 64) & 1;
}

static gboolean
is_below(const World *w, const WeftSeat *seat, const WeftGpu *gpu)
{
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        const char *root = world_hca(w, seat->hca[rail])->root;
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
        local = local && world_hca(w, seat->hca[rail])->numa == numa;
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

/* --- the properties --- */

static void
settle(World *w)
{
    WeftSeat seat;
    for (guint n = world_pick(w, 6); n > 0; n--) {
        WeftShape shape = world_shape(w);
        if (!shape.cluster)
            shape.cluster = world_clusters[1];
        if (w->seats->len && world_pick(w, 4) == 0)
            world_give(w, world_pick(w, w->seats->len));
        else if (weft_slot_seat(w->slot, &shape, &seat))
            world_take(w, &seat, shape.cluster);
    }
}

/* Are there pages of two world_sizes that it could have? Then the larger are taken first, which may cost a joined node. */
static gboolean
has_choice_of_pages(const World *w, const WeftShape *shape)
{
    gboolean both[SIZES] = { FALSE };
    for (guint n = 0; n < w->host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(w->host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            both[numa->pages[i].size == world_sizes[1]] = TRUE;
    }
    return both[0] && both[1] && shape->page_size == 0 && shape->memory % world_sizes[0] == 0;
}

static guint counts[WEFT_LOCALITIES], rounded, chosen;

static void
check_fit(const World *w, const WeftShape *shape, guint fit)
{
    guint exact = world_solve(w, shape, 1);
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
        g_assert_cmpuint(fit, >=, world_solve(w, shape, shape->cores));
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
        gboolean known = !shape->bandwidth || weft_lanes_find(&w->told.qos, shape->lane.sl);
        g_assert_true(weft_slot_accepts(w->slot, &seat, shape->cluster) == known);
        world_take(w, &seat, cluster);
        g_assert_false(weft_slot_accepts(w->slot, &seat, shape->cluster));
        g_assert_cmpuint(weft_slot_fit(w->slot, shape), ==, fit - n - 1);
    }
    g_assert_false(weft_slot_seat(w->slot, shape, &seat));
    g_assert_cmpuint(weft_slot_nodes(w->slot), ==, nodes + fit);
    world_balance(w);
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
        guint room[WEFT_SCARCE_KINDS];
        WeftShape shape = world_shape(w);
        g_assert_cmpuint(weft_slot_fit(heir, &shape), ==, weft_slot_fit(w->slot, &shape));
        weft_slot_room_empty(heir, &shape, room);
        g_assert_cmpuint(room[WEFT_SCARCE_LOCALITY], ==, weft_slot_fit(fresh, &shape));
    }
    weft_slot_empty(heir);
    g_assert_cmpuint(weft_slot_nodes(heir), ==, 0);
    WeftShape shape = world_shape(w);
    g_assert_cmpuint(weft_slot_fit(heir, &shape), ==, weft_slot_fit(fresh, &shape));
    weft_slot_free(heir);
    weft_slot_free(fresh);
}

static void
check_case(guint32 seed, guint size)
{
    g_autoptr(World) w = world_new(seed, size);
    settle(w);
    WeftShape shape = world_shape(w);
    guint before = w->seats->len;
    gsize bytes = weft_slot_size(w->slot);
    g_autofree guint64 *copy = g_malloc(bytes);
    g_autofree guint64 *shadow = g_malloc(bytes);
    check_room(w, &shape);
    check_heirs(w);

    weft_slot_save(w->slot, copy);
    check_filling(w, &shape, NULL);
    while (w->seats->len > before)
        world_give(w, before + world_pick(w, w->seats->len - before));
    g_assert_cmpmem(w->slot, bytes, copy, bytes);

    check_filling(w, &shape, shape.cluster);
    g_array_set_size(w->seats, before);
    g_ptr_array_set_size(w->keepers, (int)before);
    memcpy(shadow, copy, bytes);
    weft_slot_restore(w->slot, copy);
    g_assert_cmpmem(w->slot, bytes, shadow, bytes);

    check_filling(w, &shape, shape.cluster);
    while (w->seats->len)
        world_give(w, world_pick(w, w->seats->len));
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
    /* NOLINTNEXTLINE(bugprone-signal-handler): the process is about to abort, and its seed is worth the risk */
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
