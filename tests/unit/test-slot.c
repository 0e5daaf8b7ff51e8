#include "slot-private.h"

/* --- hosts, shapes and what happens to them --- */

#define G (1ULL << 30)
#define M (1ULL << 20)

static const WeftFleetFabric nothing_told;

typedef struct Case {
    WeftHost *host;
    WeftSlot *slot;
} Case;

static WeftHost *
host_from(const char *text)
{
    g_autoptr(GError) error = NULL;
    json_t *json = json_loads(text, 0, NULL);
    g_assert_nonnull(json);
    WeftHost *host = weft_host_from_json(json, "host", &error);
    json_decref(json);
    g_assert_no_error(error);
    return host;
}

static Case
case_of(const char *hardware, const WeftFleetFabric *told)
{
    g_autofree char *text = g_strdup_printf("{\"name\":\"n0\",\"fabric\":\"ib0\",%s}", hardware);
    Case c = { .host = host_from(text) };
    c.slot = weft_slot_new(7, c.host, told ? told : &nothing_told);
    weft_slot_set_open(c.slot, TRUE);
    return c;
}

static void
case_clear(Case *c)
{
    weft_slot_free(c->slot);
    weft_host_free(c->host);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Case, case_clear)

static WeftSeat
must_seat(const WeftSlot *slot, const WeftShape *shape)
{
    WeftSeat seat;
    g_assert_true(weft_slot_seat(slot, shape, &seat));
    return seat;
}

/* Nodes that would fit were nothing taken, and it were open. */
static guint
fit_empty(const WeftSlot *slot, const WeftShape *shape)
{
    guint room[WEFT_SCARCE_KINDS];
    weft_slot_room_empty(slot, shape, room);
    return room[WEFT_SCARCE_LOCALITY];
}

static gboolean
has(const WeftSlot *slot, const char *cluster)
{
    return weft_ledger_find(slot->ledger, cluster) != NULL;
}

/* Seats and takes as many as there is room for. */
static guint
fill(WeftSlot *slot, const WeftShape *shape, const char *cluster)
{
    guint n = 0;
    WeftSeat seat;
    for (; weft_slot_seat(slot, shape, &seat); n++)
        weft_slot_take_seat(slot, &seat, cluster);
    return n;
}

static void
assert_fit(WeftSlot *slot, const WeftShape *shape, guint expected)
{
    g_assert_cmpuint(weft_slot_fit(slot, shape), ==, expected);
    guint64 *copy = g_malloc(weft_slot_size(slot));
    weft_slot_save(slot, copy);
    g_assert_cmpuint(fill(slot, shape, NULL), ==, expected);
    weft_slot_restore(slot, copy);
    g_free(copy);
    g_assert_cmpuint(weft_slot_fit(slot, shape), ==, expected);
}

/* "0,1,4" */
static void
assert_cores(const WeftSeat *seat, const char *expected)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < WEFT_CORES_MAX; i++)
        if (seat->cores.words[i / 64] >> (i % 64) & 1)
            g_string_append_printf(text, "%s%u", text->len ? "," : "", i);
    g_assert_cmpstr(text->str, ==, expected);
}

static WeftShape
shape_of(guint cores, guint64 memory)
{
    return (WeftShape){ .cores = cores, .memory = memory, .path = WEFT_PATH_BRIDGE };
}

static WeftShape
shape_with(guint cores, guint64 memory, guint rails, guint gpus, WeftLocality locality)
{
    return (WeftShape){ .cores = cores,
                        .memory = memory,
                        .rails = rails,
                        .gpus = gpus,
                        .path = rails ? WEFT_PATH_SRIOV : WEFT_PATH_BRIDGE,
                        .locality = locality };
}

#define TWO_SOCKETS                                                                                                            \
    "\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048,\"1G\":1}},{\"cores\":4,\"pages\":{\"2M\":2048}}],"                         \
    "\"hcas\":[{\"name\":\"mlx5_0\",\"numa\":0,\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":3},"                                   \
    "{\"name\":\"mlx5_1\",\"numa\":1,\"rail\":1,\"port_guid\":\"0x2\",\"vfs\":3}],"                                            \
    "\"gpus\":[{\"name\":\"g0\",\"numa\":0},{\"name\":\"g1\",\"numa\":1}]"

/* --- cores and memory --- */

static void
test_whole(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape shape = shape_with(3, 2 * G, 1, 1, WEFT_LOCALITY_PREFERRED);
    WeftSeat seat = must_seat(c.slot, &shape);
    assert_cores(&seat, "0,1,2");
    g_assert_cmpuint(seat.host, ==, 7);
    g_assert_cmpuint(seat.n_parts, ==, 1);
    g_assert_cmpuint(seat.parts[0].size, ==, 1);
    g_assert_cmpuint(seat.parts[0].pages, ==, 1024);
    g_assert_cmpuint(seat.hca[0], ==, 0);
    g_assert_true(seat.vf[0] == 0);
    g_assert_cmpuint(seat.gpus, ==, 1);
    assert_fit(c.slot, &shape, 2);
}

static void
test_fullest_first(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape two = shape_of(2, 256 * M), one = shape_of(1, 256 * M);
    WeftSeat first = must_seat(c.slot, &two);
    weft_slot_take_seat(c.slot, &first, "a");
    WeftSeat second = must_seat(c.slot, &two);
    assert_cores(&second, "2,3");
    weft_slot_give_seat(c.slot, &first, "a");
    weft_slot_take_seat(c.slot, &second, "a");
    WeftSeat third = must_seat(c.slot, &one);
    assert_cores(&third, "0");
}

/* Of equally full ones, the one whose devices it would not leave idle. */
static void
test_idle_devices(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048}},{\"cores\":4,\"pages\":{\"2M\":2048}},"
                             "{\"cores\":4,\"pages\":{\"2M\":2048}}],\"gpus\":[{\"name\":\"g0\",\"numa\":0}],"
                             "\"hcas\":[{\"name\":\"a\",\"numa\":1,\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":3}]",
                             NULL);
    WeftShape bare = shape_of(1, 256 * M), gpu = shape_with(1, 256 * M, 0, 1, WEFT_LOCALITY_PREFERRED);
    WeftShape vf = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED);
    g_assert_cmpuint(must_seat(c.slot, &bare).parts[0].numa, ==, 2);
    g_assert_cmpuint(must_seat(c.slot, &gpu).parts[0].numa, ==, 0);
    g_assert_cmpuint(must_seat(c.slot, &vf).parts[0].numa, ==, 1);
}

static void
test_page_sizes(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape shape = shape_of(1, G);
    WeftSeat seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.parts[0].size, ==, 0);
    g_assert_cmpuint(seat.parts[0].pages, ==, 1);
    assert_fit(c.slot, &shape, 8);
    shape.page_size = G;
    assert_fit(c.slot, &shape, 1);
    shape.page_size = 2 * M;
    assert_fit(c.slot, &shape, 8);
    shape.memory = 3 * M;
    assert_fit(c.slot, &shape, 0);
    shape.page_size = 4 << 10;
    assert_fit(c.slot, &shape, 0);
}

static void
test_joined(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape shape = shape_with(6, 6 * G, 2, 2, WEFT_LOCALITY_PREFERRED);
    WeftSeat seat = must_seat(c.slot, &shape);
    assert_cores(&seat, "0,1,2,3,4,5");
    g_assert_cmpuint(seat.n_parts, ==, 2);
    g_assert_cmpuint(seat.parts[0].cores, ==, 4);
    g_assert_cmpuint(seat.parts[0].pages, ==, 2048);
    g_assert_cmpuint(seat.parts[1].pages, ==, 1024);
    g_assert_cmpuint(seat.gpus, ==, 3);
    assert_fit(c.slot, &shape, 1);
    shape.locality = WEFT_LOCALITY_REQUIRED;
    assert_fit(c.slot, &shape, 0);
}

/* What three NUMA nodes leave over makes one node more; one of five needs the fewest that have enough. */
static void
test_joined_of_rests(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":5,\"pages\":{\"2M\":4096}},{\"cores\":5,\"pages\":{\"2M\":4096}},"
                             "{\"cores\":6,\"pages\":{\"2M\":4096}}]",
                             NULL);
    WeftShape shape = shape_of(4, G);
    assert_fit(c.slot, &shape, 4);
    shape.cores = 3;
    assert_fit(c.slot, &shape, 5);
    shape.cores = 7;
    WeftSeat seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.n_parts, ==, 2);
    assert_cores(&seat, "0,10,11,12,13,14,15");
}

/* The last part comes from the smallest that has enough, so that the larger stays larger. */
static void
test_joined_keeps_the_larger(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":5,\"pages\":{\"2M\":4096}},{\"cores\":6,\"pages\":{\"2M\":4096}},"
                             "{\"cores\":3,\"pages\":{\"2M\":4096}}]",
                             NULL);
    WeftShape shape = shape_of(8, G);
    WeftSeat seat = must_seat(c.slot, &shape);
    assert_cores(&seat, "5,6,7,8,9,10,11,12");
}

/* What is rounded up in one part must not cost the next node the memory of its cores. */
static void
test_rounding_spares_the_rest(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":2,\"pages\":{\"1G\":3}},{\"cores\":3,\"pages\":{\"1G\":5}},"
                             "{\"cores\":3,\"pages\":{\"1G\":5}}]",
                             NULL);
    WeftShape shape = shape_of(4, 6 * G);
    WeftSeat seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.parts[0].pages, ==, 1); /* of 1.5 */
    g_assert_cmpuint(seat.parts[1].pages, ==, 5); /* of 4.5 */
    assert_fit(c.slot, &shape, 2);
}

static void
test_split_is_rounded(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":2,\"pages\":{\"1G\":3}},{\"cores\":2,\"pages\":{\"1G\":3}}]", NULL);
    WeftShape shape = shape_of(3, 4 * G);
    WeftSeat seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.parts[0].pages, ==, 3); /* of 2.7 */
    g_assert_cmpuint(seat.parts[1].pages, ==, 1); /* of 1.3 */
    assert_fit(c.slot, &shape, 1);
}

static void
test_anywhere(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":4,\"pages\":{\"2M\":512}},{\"cores\":0,\"pages\":{\"2M\":1536}}]", NULL);
    WeftShape shape = shape_of(2, 2 * G);
    assert_fit(c.slot, &shape, 0);
    shape.locality = WEFT_LOCALITY_NONE;
    assert_fit(c.slot, &shape, 2);
    WeftSeat seat = must_seat(c.slot, &shape);
    assert_cores(&seat, "0,1");
    g_assert_cmpuint(seat.n_parts, ==, 2);
    g_assert_cmpuint(seat.parts[0].pages, ==, 512);
    g_assert_cmpuint(seat.parts[1].cores, ==, 0);
    g_assert_cmpuint(seat.parts[1].pages, ==, 512);
}

static void
test_housekeeping(void)
{
    g_auto(Case) c = case_of("\"housekeeping\":1,\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048}}]", NULL);
    WeftShape shape = shape_of(1, 256 * M);
    assert_fit(c.slot, &shape, 3);
    WeftSeat seat = must_seat(c.slot, &shape);
    assert_cores(&seat, "1");
    seat.cores.words[0] |= 1;
    weft_slot_take_seat(c.slot, &seat, "a");
    weft_slot_give_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &shape, 3);
}

/* --- devices --- */

/* GPU g0 and the function are below one root, g1 is below another. */
#define ROOTS                                                                                                                  \
    "\"numa\":[{\"cores\":8,\"pages\":{\"2M\":8192}},{\"cores\":8,\"pages\":{\"2M\":8192}}],"                                  \
    "\"hcas\":[{\"name\":\"a\",\"numa\":0,\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":4,\"root\":\"r0\"},"                        \
    "{\"name\":\"b\",\"numa\":0,\"rail\":0,\"port_guid\":\"0x2\",\"vfs\":4,\"root\":\"r1\"}],"                                 \
    "\"gpus\":[{\"name\":\"g0\",\"numa\":0,\"root\":\"r1\"},{\"name\":\"g1\",\"numa\":0,\"root\":\"r2\"},"                     \
    "{\"name\":\"g2\",\"numa\":1,\"root\":\"r3\"}]"

static void
test_roots(void)
{
    g_auto(Case) c = case_of(ROOTS, NULL);
    WeftShape shape = shape_with(1, 256 * M, 1, 1, WEFT_LOCALITY_REQUIRED);
    WeftSeat seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.hca[0], ==, 1);
    g_assert_cmpuint(seat.gpus, ==, 1);
    assert_fit(c.slot, &shape, 1);
    shape.locality = WEFT_LOCALITY_PREFERRED;
    seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.hca[0], ==, 1);
    g_assert_cmpuint(seat.gpus, ==, 1);
    assert_fit(c.slot, &shape, 3);
    weft_slot_take_seat(c.slot, &seat, NULL);
    seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.gpus, ==, 2); /* local, if not below the root */
    g_assert_cmpuint(seat.parts[0].numa, ==, 0);
    weft_slot_take_seat(c.slot, &seat, NULL);
    seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.gpus, ==, 4); /* remote */
}

/* A root that is not known goes with any; those that are known are not spoilt for it. */
static void
test_unknown_roots(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":8,\"pages\":{\"2M\":8192}}],"
                             "\"hcas\":[{\"name\":\"a\",\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":1},"
                             "{\"name\":\"b\",\"rail\":0,\"port_guid\":\"0x2\",\"vfs\":2,\"root\":\"r1\"}],"
                             "\"gpus\":[{\"name\":\"g0\",\"root\":\"r1\"},{\"name\":\"g1\",\"root\":\"r2\"},{\"name\":\"g2\"}]",
                             NULL);
    WeftShape shape = shape_with(1, 256 * M, 1, 1, WEFT_LOCALITY_REQUIRED);
    assert_fit(c.slot, &shape, 3);
    shape.gpus = 2;
    assert_fit(c.slot, &shape, 1);
}

/* GPUs of unknown root go where fewest of them are needed. */
static void
test_cheapest_root(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":8,\"pages\":{\"2M\":8192}}],"
                             "\"hcas\":[{\"name\":\"a\",\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":1,\"root\":\"r1\"},"
                             "{\"name\":\"b\",\"rail\":0,\"port_guid\":\"0x2\",\"vfs\":1,\"root\":\"r2\"},"
                             "{\"name\":\"c\",\"rail\":0,\"port_guid\":\"0x3\",\"vfs\":2,\"root\":\"r3\"},"
                             "{\"name\":\"d\",\"rail\":0,\"port_guid\":\"0x4\",\"vfs\":3,\"root\":\"r3\"}],"
                             "\"gpus\":[{\"name\":\"g0\"},{\"name\":\"g1\"},{\"name\":\"g2\",\"root\":\"r2\"},"
                             "{\"name\":\"g3\",\"root\":\"r3\"}]",
                             NULL);
    WeftShape shape = shape_with(1, 256 * M, 1, 2, WEFT_LOCALITY_REQUIRED);
    assert_fit(c.slot, &shape, 2);
    shape.gpus = 3;
    assert_fit(c.slot, &shape, 1);
    shape.gpus = 1;
    assert_fit(c.slot, &shape, 4);
    WeftSeat seat = must_seat(c.slot, &shape);
    weft_slot_take_seat(c.slot, &seat, NULL);
    seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.hca[0], ==, 3); /* of those below r3, the one with most to spare */
}

/* As few devices of other NUMA nodes as can be. */
static void
test_few_remote(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048}},{\"cores\":8,\"pages\":{\"2M\":2048}},"
                             "{\"cores\":0}],\"gpus\":[{\"name\":\"g0\",\"numa\":2}],"
                             "\"hcas\":[{\"name\":\"a\",\"numa\":1,\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":3}]",
                             NULL);
    WeftShape shape = shape_with(1, 256 * M, 1, 1, WEFT_LOCALITY_PREFERRED);
    g_assert_cmpuint(must_seat(c.slot, &shape).parts[0].numa, ==, 1);
    shape.locality = WEFT_LOCALITY_REQUIRED;
    assert_fit(c.slot, &shape, 0);
}

/* Which root the first rail's function is of decides how many GPUs the others find. */
static void
test_several_rails(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":8,\"pages\":{\"2M\":8192}}],"
                             "\"hcas\":[{\"name\":\"a\",\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":1,\"root\":\"r1\"},"
                             "{\"name\":\"b\",\"rail\":0,\"port_guid\":\"0x2\",\"vfs\":1,\"root\":\"r2\"},"
                             "{\"name\":\"c\",\"rail\":1,\"port_guid\":\"0x3\",\"vfs\":1,\"root\":\"r1\"},"
                             "{\"name\":\"d\",\"rail\":1,\"port_guid\":\"0x4\",\"vfs\":1,\"root\":\"r3\"}],"
                             "\"gpus\":[{\"name\":\"g0\",\"root\":\"r1\"},{\"name\":\"g1\",\"root\":\"r1\"},"
                             "{\"name\":\"g2\",\"root\":\"r2\"},{\"name\":\"g3\",\"root\":\"r3\"}]",
                             NULL);
    WeftShape shape = shape_with(1, 256 * M, 2, 2, WEFT_LOCALITY_REQUIRED);
    assert_fit(c.slot, &shape, 2);
    shape.gpus = 1;
    assert_fit(c.slot, &shape, 2);
    shape.gpus = 4;
    assert_fit(c.slot, &shape, 0);
}

static void
test_most_to_spare(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":8,\"pages\":{\"2M\":8192}}],"
                             "\"hcas\":[{\"name\":\"a\",\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":2},"
                             "{\"name\":\"b\",\"rail\":0,\"port_guid\":\"0x2\",\"vfs\":3},"
                             "{\"name\":\"c\",\"rail\":0,\"vfs\":9}]",
                             NULL);
    WeftShape shape = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED);
    assert_fit(c.slot, &shape, 5); /* nobody knows which port c is */
    WeftSeat seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.hca[0], ==, 1);
    weft_slot_take_seat(c.slot, &seat, "a");
    seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.hca[0], ==, 0);
}

/* Pairs of GPUs stay together, the pair that is broken already is used up first. */
static void
test_whole_roots_stay(void)
{
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":8,\"pages\":{\"2M\":8192}}],"
                             "\"gpus\":[{\"name\":\"g0\",\"root\":\"r1\"},{\"name\":\"g1\",\"root\":\"r1\"},"
                             "{\"name\":\"g2\",\"root\":\"r2\"},{\"name\":\"g3\",\"root\":\"r2\"}]",
                             NULL);
    WeftShape one = shape_with(1, 256 * M, 0, 1, WEFT_LOCALITY_PREFERRED), two = one;
    two.gpus = 2;
    WeftSeat seat = must_seat(c.slot, &one);
    g_assert_cmpuint(seat.gpus, ==, 1);
    weft_slot_take_seat(c.slot, &seat, "a");
    g_assert_cmpuint(must_seat(c.slot, &one).gpus, ==, 2);
    g_assert_cmpuint(must_seat(c.slot, &two).gpus, ==, 12);
    g_assert_cmpuint(weft_slot_free_gpus(c.slot), ==, 3);
}

static void
test_passthrough(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape vf = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED), whole = vf;
    whole.path = WEFT_PATH_PASSTHROUGH;
    assert_fit(c.slot, &whole, 1);
    WeftSeat seat = must_seat(c.slot, &whole);
    g_assert_true(seat.vf[0] == -1);
    weft_slot_take_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &whole, 0);
    assert_fit(c.slot, &vf, 0);
    weft_slot_give_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &vf, 3);
    seat = must_seat(c.slot, &vf);
    weft_slot_take_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &whole, 0);
}

static void
test_absent(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape vf = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED), gpu = vf;
    gpu = shape_with(1, 256 * M, 0, 1, WEFT_LOCALITY_PREFERRED);
    g_autoptr(WeftHost) bare = weft_host_new();
    g_autoptr(WeftHost) few = host_from("{\"name\":\"n0\",\"fabric\":\"ib0\",\"numa\":[{\"cores\":1}],"
                                        "\"hcas\":[{\"name\":\"mlx5_0\",\"vfs\":1}],\"gpus\":[{\"name\":\"g1\"}]}");
    g_assert_true(weft_slot_is_complete(c.slot));
    weft_slot_set_devices(c.slot, bare);
    assert_fit(c.slot, &vf, 0);
    assert_fit(c.slot, &gpu, 0);
    vf.path = WEFT_PATH_PASSTHROUGH;
    assert_fit(c.slot, &vf, 0);
    vf.path = WEFT_PATH_SRIOV;
    g_assert_false(weft_slot_is_complete(c.slot));
    weft_slot_set_devices(c.slot, few);
    assert_fit(c.slot, &vf, 1);
    assert_fit(c.slot, &gpu, 1);
    vf.path = WEFT_PATH_PASSTHROUGH;
    assert_fit(c.slot, &vf, 1);
    weft_slot_empty(c.slot);
    assert_fit(c.slot, &vf, 1);
    g_assert_cmpuint(fit_empty(c.slot, &gpu), ==, 1);
}

static void
test_no_virtual(void)
{
    WeftFleetFabric told = { .no_virtual = (char *)"opensm" };
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":8,\"pages\":{\"2M\":8192}}],"
                             "\"hcas\":[{\"name\":\"a\",\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":2,\"driver\":\"mlx4\"},"
                             "{\"name\":\"b\",\"rail\":0,\"port_guid\":\"0x2\",\"vfs\":3}]",
                             &told);
    WeftShape vf = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED), whole = vf;
    whole.path = WEFT_PATH_PASSTHROUGH;
    assert_fit(c.slot, &vf, 2);
    assert_fit(c.slot, &whole, 2);
    told.no_virtual = NULL;
    weft_slot_told(c.slot);
    assert_fit(c.slot, &vf, 5);
    g_assert_true(weft_slot_gives_functions(c.slot));
}

/* --- others on the host --- */

static void
test_keys(void)
{
    WeftFleetFabric told = { .pkeys = 2 };
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":16,\"pages\":{\"2M\":8192}}],"
                             "\"hcas\":[{\"name\":\"a\",\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":9}]",
                             &told);
    WeftShape shape = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED);
    WeftSeat a = must_seat(c.slot, &shape);
    weft_slot_take_seat(c.slot, &a, "a");
    assert_fit(c.slot, &shape, 8); /* all of one more cluster */
    WeftSeat b = must_seat(c.slot, &shape);
    weft_slot_take_seat(c.slot, &b, "b");
    assert_fit(c.slot, &shape, 0);
    shape.cluster = "c";
    assert_fit(c.slot, &shape, 0);
    shape.cluster = "b";
    assert_fit(c.slot, &shape, 7);
    WeftSeat more = must_seat(c.slot, &shape);
    weft_slot_take_seat(c.slot, &more, "b");
    weft_slot_give_seat(c.slot, &b, "b");
    assert_fit(c.slot, &shape, 7);
    WeftShape bare = shape_of(1, 256 * M);
    WeftSeat beside = must_seat(c.slot, &bare);
    weft_slot_take_seat(c.slot, &beside, "b");
    weft_slot_give_seat(c.slot, &more, "b");
    shape.cluster = NULL;
    assert_fit(c.slot, &shape, 8); /* b's last node there has no function */
}

static void
test_port_has_its_own_number_of_keys(void)
{
    guint64 guid = 1;
    WeftFleetFabric told = { .pkeys = 5, .ports = g_hash_table_new(g_int64_hash, g_int64_equal) };
    g_hash_table_insert(told.ports, &guid, GUINT_TO_POINTER(1));
    g_auto(Case) c = case_of(TWO_SOCKETS, &told);
    WeftShape shape = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED);
    WeftSeat seat = must_seat(c.slot, &shape);
    weft_slot_take_seat(c.slot, &seat, "a");
    guint room[WEFT_SCARCE_KINDS];
    weft_slot_room(c.slot, &shape, room);
    g_assert_cmpuint(room[WEFT_SCARCE_PKEYS], ==, 0);
    g_assert_cmpuint(room[WEFT_SCARCE_FUNCTIONS], ==, 2);
    assert_fit(c.slot, &shape, 0);
    g_hash_table_unref(told.ports);
}

static void
test_exclusive(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape plain = shape_of(1, 256 * M), alone = plain, own = plain;
    alone.exclusive = TRUE;
    own.cluster = "a";
    assert_fit(c.slot, &alone, 8);
    WeftSeat seat = must_seat(c.slot, &plain);
    weft_slot_take_seat(c.slot, &seat, "b");
    assert_fit(c.slot, &alone, 0);
    alone.cluster = "b";
    assert_fit(c.slot, &alone, 7);
    weft_slot_give_seat(c.slot, &seat, "b");
    seat.exclusive = TRUE;
    weft_slot_take_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &plain, 0);
    assert_fit(c.slot, &own, 7);
    g_assert_true(has(c.slot, "a"));
    g_assert_false(has(c.slot, "b"));
    guint room[WEFT_SCARCE_KINDS];
    weft_slot_room(c.slot, &plain, room);
    g_assert_cmpuint(room[WEFT_SCARCE_HOSTS], ==, 0);
    g_assert_cmpuint(room[WEFT_SCARCE_LOCALITY], ==, 7);
    g_assert_cmpuint(fit_empty(c.slot, &plain), ==, 8);
    weft_slot_give_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &plain, 8);
}

static void
test_lanes(void)
{
    guint64 guid = 1, rate = 100000000000;
    WeftFleetFabric told = { .rates = g_hash_table_new(g_int64_hash, g_int64_equal) };
    g_hash_table_insert(told.rates, &guid, &rate);
    g_auto(Case) c = case_of("\"numa\":[{\"cores\":16,\"pages\":{\"2M\":8192}}],"
                             "\"hcas\":[{\"name\":\"a\",\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":9},"
                             "{\"name\":\"b\",\"rail\":0,\"port_guid\":\"0x2\",\"vfs\":9}]",
                             &told);
    WeftShape shape = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED);
    assert_fit(c.slot, &shape, 16);
    shape.lane = (WeftLane){ .sl = 1, .share = 40 };
    shape.bandwidth = 10000000000;
    assert_fit(c.slot, &shape, 4); /* b's rate is not known */
    WeftSeat seat = must_seat(c.slot, &shape);
    g_assert_cmpuint(seat.sl, ==, 1);
    weft_slot_take_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &shape, 3);
    shape.lane.sl = 2;
    assert_fit(c.slot, &shape, 4);
    guint room[WEFT_SCARCE_KINDS];
    weft_slot_room(c.slot, &shape, room);
    g_assert_cmpuint(room[WEFT_SCARCE_BANDWIDTH], ==, 4);
    shape.lane.sl = 1;
    WeftSeat more = must_seat(c.slot, &shape);
    weft_slot_take_seat(c.slot, &more, "b");
    weft_slot_give_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &shape, 3);
    weft_slot_give_seat(c.slot, &more, "b");
    assert_fit(c.slot, &shape, 4);
    g_hash_table_unref(told.rates);
}

/* --- descriptions and snapshots --- */

static void
test_inherit(void)
{
    WeftFleetFabric told = { .pkeys = 1 };
    g_auto(Case) c = case_of(TWO_SOCKETS, &told);
    WeftShape shape = shape_with(2, G, 1, 1, WEFT_LOCALITY_PREFERRED);
    WeftSeat seat = must_seat(c.slot, &shape);
    weft_slot_take_seat(c.slot, &seat, "a");
    g_auto(Case) next = case_of("\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048,\"1G\":2}},{\"cores\":4}],"
                                "\"hcas\":[{\"name\":\"new\",\"rail\":1,\"port_guid\":\"0x3\",\"vfs\":3},"
                                "{\"name\":\"mlx5_0\",\"rail\":0,\"port_guid\":\"0x1\",\"vfs\":3}],"
                                "\"gpus\":[{\"name\":\"g1\"},{\"name\":\"g0\"}]",
                                &told);
    weft_slot_set_open(next.slot, FALSE);
    weft_slot_inherit(next.slot, c.slot);
    g_assert_true(weft_slot_is_open(next.slot));
    g_assert_true(has(next.slot, "a"));
    g_assert_cmpuint(weft_slot_nodes(next.slot), ==, 1);
    assert_fit(next.slot, &shape, 0);
    shape.cluster = "a";
    assert_fit(next.slot, &shape, 1);
    WeftShape big = shape_of(1, G);
    big.page_size = G;
    assert_fit(next.slot, &big, 1);
    g_assert_cmpuint(must_seat(next.slot, &shape).gpus, ==, 1);
    assert_cores(&(WeftSeat){ .cores = must_seat(next.slot, &shape).cores }, "2,3");
}

/* What a description does not have any more is passed over when it is taken and given. */
static void
test_shrunk(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape shape = shape_with(8, 8 * G, 2, 2, WEFT_LOCALITY_PREFERRED);
    WeftGroup group = { .name = (char *)"nodes", .image = (char *)"mpi" };
    WeftSeat seat = must_seat(c.slot, &shape);
    g_autoptr(WeftNode) node = weft_slot_node(c.slot, &seat, &group);
    g_auto(Case) less = case_of("\"numa\":[{\"cores\":2,\"pages\":{\"2M\":100}}],"
                                "\"hcas\":[{\"name\":\"mlx5_1\",\"rail\":1,\"port_guid\":\"0x2\",\"vfs\":0}]",
                                NULL);
    WeftSeat left;
    g_assert_true(weft_slot_seat_of(less.slot, node, &left));
    g_assert_cmpuint(left.hca[0], ==, WEFT_SEAT_NO_HCA);
    weft_slot_take_seat(less.slot, &left, "a");
    WeftShape one = shape_of(1, 64 * M);
    assert_fit(less.slot, &one, 0);
    weft_slot_give_seat(less.slot, &left, "a");
    assert_fit(less.slot, &one, 2);
    g_autoptr(WeftNode) stranger = weft_node_new();
    g_ptr_array_add(stranger->gpus, g_strdup("g0"));
    g_assert_false(weft_slot_seat_of(less.slot, stranger, &left));
}

/* As an older placement may have made it. */
static void
test_two_sizes_in_one_numa_node(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    g_autoptr(WeftNode) node = weft_node_new();
    WeftSeat seat;
    g_array_append_val(node->memory, ((WeftMemory){ 0, G, 1 }));
    g_array_append_val(node->memory, ((WeftMemory){ 0, 2 * M, 2048 }));
    g_assert_true(weft_slot_seat_of(c.slot, node, &seat));
    weft_slot_take_seat(c.slot, &seat, "a");
    WeftShape shape = shape_of(1, G);
    assert_fit(c.slot, &shape, 4); /* of the other */
    weft_slot_give_seat(c.slot, &seat, "a");
    assert_fit(c.slot, &shape, 8);
}

static void
test_snapshot_of_clusters(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape shape = shape_with(1, 256 * M, 1, 0, WEFT_LOCALITY_PREFERRED);
    WeftSeat seat = must_seat(c.slot, &shape);
    weft_slot_take_seat(c.slot, &seat, "a");
    guint64 *first = g_malloc(weft_slot_size(c.slot)), *second = g_malloc(weft_slot_size(c.slot));
    weft_slot_save(c.slot, first);
    weft_slot_give_seat(c.slot, &seat, "a");
    g_assert_false(has(c.slot, "a"));
    weft_slot_save(c.slot, second);
    fill(c.slot, &shape, "b");
    weft_slot_restore(c.slot, second);
    g_assert_cmpuint(weft_slot_nodes(c.slot), ==, 0);
    fill(c.slot, &shape, "b");
    weft_slot_restore(c.slot, first);
    g_assert_true(has(c.slot, "a"));
    g_assert_false(has(c.slot, "b"));
    g_free(first);
    g_free(second);
}

static void
test_closed(void)
{
    g_auto(Case) c = case_of(TWO_SOCKETS, NULL);
    WeftShape shape = shape_of(1, 256 * M);
    weft_slot_set_open(c.slot, FALSE);
    assert_fit(c.slot, &shape, 0);
    g_assert_cmpuint(fit_empty(c.slot, &shape), ==, 8);
    guint room[WEFT_SCARCE_KINDS];
    weft_slot_room(c.slot, &shape, room);
    g_assert_cmpuint(room[WEFT_SCARCE_CORES], ==, 8);
    g_assert_cmpuint(room[WEFT_SCARCE_GPUS], ==, G_MAXUINT);
}

static void
add_cases(void)
{
    g_test_add_func("/slot/whole", test_whole);
    g_test_add_func("/slot/fullest-first", test_fullest_first);
    g_test_add_func("/slot/idle-devices", test_idle_devices);
    g_test_add_func("/slot/page-sizes", test_page_sizes);
    g_test_add_func("/slot/joined", test_joined);
    g_test_add_func("/slot/joined-of-rests", test_joined_of_rests);
    g_test_add_func("/slot/joined-keeps-the-larger", test_joined_keeps_the_larger);
    g_test_add_func("/slot/rounding-spares-the-rest", test_rounding_spares_the_rest);
    g_test_add_func("/slot/split-is-rounded", test_split_is_rounded);
    g_test_add_func("/slot/anywhere", test_anywhere);
    g_test_add_func("/slot/housekeeping", test_housekeeping);
    g_test_add_func("/slot/roots", test_roots);
    g_test_add_func("/slot/unknown-roots", test_unknown_roots);
    g_test_add_func("/slot/cheapest-root", test_cheapest_root);
    g_test_add_func("/slot/few-remote", test_few_remote);
    g_test_add_func("/slot/several-rails", test_several_rails);
    g_test_add_func("/slot/most-to-spare", test_most_to_spare);
    g_test_add_func("/slot/whole-roots-stay", test_whole_roots_stay);
    g_test_add_func("/slot/passthrough", test_passthrough);
    g_test_add_func("/slot/absent", test_absent);
    g_test_add_func("/slot/no-virtual", test_no_virtual);
    g_test_add_func("/slot/keys", test_keys);
    g_test_add_func("/slot/keys-of-a-port", test_port_has_its_own_number_of_keys);
    g_test_add_func("/slot/exclusive", test_exclusive);
    g_test_add_func("/slot/lanes", test_lanes);
    g_test_add_func("/slot/inherit", test_inherit);
    g_test_add_func("/slot/shrunk", test_shrunk);
    g_test_add_func("/slot/two-sizes-in-one-numa-node", test_two_sizes_in_one_numa_node);
    g_test_add_func("/slot/snapshot-of-clusters", test_snapshot_of_clusters);
    g_test_add_func("/slot/closed", test_closed);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_cases();
    return g_test_run();
}
