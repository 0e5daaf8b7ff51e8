/* What the libvirt driver decides when it moves a domain. */
#include "copy-choice.h"
#include "move-plan.h"

#include <libvirt/libvirt.h>
#include <string.h>

/* --- how a domain is --- */

/* clang-format off */
static const struct {
    int state, reason;
    WeftMoveEnd end;
} states[] = {
    { VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_BOOTED,          WEFT_END_RUNS },
    { VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_MIGRATED,        WEFT_END_RUNS },
    { VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_POSTCOPY,        WEFT_END_COPIES },
    { VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_POSTCOPY_FAILED, WEFT_END_BROKEN },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_USER,             WEFT_END_PAUSED },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_IOERROR,          WEFT_END_PAUSED },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_MIGRATION,        WEFT_END_HALTED },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_STARTING_UP,      WEFT_END_HALTED },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_POSTCOPY,         WEFT_END_COPIES },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_POSTCOPY_FAILED,  WEFT_END_BROKEN },
    { VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_MIGRATED,        WEFT_END_ABSENT },
};
/* clang-format on */

static void
ends(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(states); i++)
        g_assert_cmpint(weft_move_end(states[i].state, states[i].reason), ==, states[i].end);
}

/* --- what follows from it --- */

/* A world of two ends, on which steps are taken as the driver does. */
typedef struct World {
    WeftMoveEnd here, there;
} World;

static gboolean
take(World *world, WeftMoveStep step)
{
    switch (step) {
    case WEFT_MOVE_BEGIN:
        g_assert_cmpint(world->here, ==, WEFT_END_RUNS);
        g_assert_cmpint(world->there, ==, WEFT_END_ABSENT);
        *world = (World){ WEFT_END_ABSENT, WEFT_END_RUNS };
        return TRUE;
    case WEFT_MOVE_RESUME:
    case WEFT_MOVE_AWAIT:
        *world = (World){ WEFT_END_ABSENT, WEFT_END_RUNS };
        return TRUE;
    case WEFT_MOVE_BREAK:
        world->here = WEFT_END_BROKEN;
        return TRUE;
    case WEFT_MOVE_WAKE:
        g_assert_cmpint(world->there, ==, WEFT_END_ABSENT);
        world->here = WEFT_END_RUNS;
        return TRUE;
    case WEFT_MOVE_CLEAR:
        world->there = WEFT_END_ABSENT;
        return TRUE;
    case WEFT_MOVE_END:
        g_assert_true(world->there == WEFT_END_RUNS || world->there == WEFT_END_PAUSED);
        world->here = WEFT_END_ABSENT;
        return TRUE;
    default:
        return FALSE;
    }
}

/* From wherever a killed weftd left them: it ends, and no step starts what may run elsewhere, or ends what is nowhere else. */
static void
steps(void)
{
    for (int here = 0; here < WEFT_ENDS; here++) {
        for (int there = 0; there < WEFT_ENDS; there++) {
            World world = { (WeftMoveEnd)here, (WeftMoveEnd)there };
            for (guint n = 0; take(&world, weft_move_step(world.here, world.there)); n++)
                g_assert_cmpuint(n, <, 4);
            WeftMoveStep last = weft_move_step(world.here, world.there);
            g_assert_true(last == WEFT_MOVE_DONE || last == WEFT_MOVE_LOST || last == WEFT_MOVE_REFUSE);
        }
    }
}

/* What has run in post-copy there is never woken here, nor cleared there while this end still has pages of it. */
static void
post_copy_is_kept(void)
{
    const WeftMoveEnd both[] = { WEFT_END_COPIES, WEFT_END_BROKEN };
    for (gsize i = 0; i < G_N_ELEMENTS(both); i++) {
        g_assert_cmpint(weft_move_step(both[i], WEFT_END_ABSENT), ==, WEFT_MOVE_LOST);
        for (gsize j = 0; j < G_N_ELEMENTS(both); j++)
            g_assert_cmpint(weft_move_step(both[i], both[j]), !=, WEFT_MOVE_CLEAR);
    }
    g_assert_cmpint(weft_move_step(WEFT_END_BROKEN, WEFT_END_BROKEN), ==, WEFT_MOVE_RESUME);
    g_assert_cmpint(weft_move_step(WEFT_END_HALTED, WEFT_END_ABSENT), ==, WEFT_MOVE_WAKE);
    g_assert_cmpint(weft_move_step(WEFT_END_HALTED, WEFT_END_RUNS), ==, WEFT_MOVE_END);
}

/* --- the definition there --- */

#define LIVE                                                                                                                   \
    "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>weft-1a-1</name>"                        \
    "<metadata><weft:node xmlns:weft='urn:w' id='old'><weft:owner run='old'/></weft:node><driver:definition "                  \
    "xmlns:driver='https://weft.dev/xmlns/definition/1' sha256='old'/></metadata>"                                             \
    "<memoryBacking><access mode='private'/></memoryBacking><cputune><vcpupin vcpu='0' cpuset='1'/></cputune><devices>"        \
    "<disk><source file='/var/lib/libvirt/images/weft/weft-1a-1.disk'/><backingStore type='file'><format type='qcow2'/>"       \
    "<source file='/var/lib/libvirt/images/weft/image-ab'/></backingStore><target dev='vda'/></disk>"                          \
    "<interface type='bridge'><mac address='02:00:00:00:00:01'/><source bridge='weft1'/><target dev='wefa'/>"                  \
    "<address type='pci' bus='0x07'/></interface></devices>"                                                                   \
    "<qemu:commandline><qemu:arg value='-mon'/></qemu:commandline></domain>"
#define WANTED                                                                                                                 \
    "<domain type='kvm'><name>weft-1a-1</name><metadata><weft:node xmlns:weft='urn:w' id='new'/></metadata>"                   \
    "<memoryBacking><hugepages/></memoryBacking><cputune><vcpupin vcpu='0' cpuset='5'/></cputune><numatune/>"                  \
    "<devices><interface type='bridge'><mac address='02:00:00:00:00:01'/><source bridge='weft2'/><target dev='wefb'/>"         \
    "</interface></devices></domain>"

static void
definition(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *xml = weft_move_definition(LIVE, WANTED, 0, &error);
    g_assert_no_error(error);
    const char *const has[] = { "id=\"new\"",   "cpuset=\"5\"", "weft2", "wefb",
                                "<hugepages/>", "<numatune/>",  "0x07",  "weft-1a-1.disk" };
    const char *const lacks[] = {
        "id=\"old\"", "cpuset=\"1\"", "weft1\"", "wefa", "private", "-mon", "sha256=\"old\"", "owner"
    };
    for (gsize i = 0; i < G_N_ELEMENTS(has); i++)
        g_assert_nonnull(strstr(xml, has[i]));
    for (gsize i = 0; i < G_N_ELEMENTS(lacks); i++)
        g_assert_null(strstr(xml, lacks[i]));
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, WANTED, -1);
    g_assert_nonnull(strstr(xml, digest));
    g_assert_null(weft_move_definition("rubbish", WANTED, 0, NULL));
    g_assert_null(weft_move_definition(LIVE, "rubbish", 0, NULL));
}

/* Taken over neither from the domain, which may have kept one, nor left without a unit. */
static void
limit(void)
{
    const char *limited = "<domain><name>a</name><memtune><hard_limit unit='KiB'>7</hard_limit></memtune><devices/></domain>";
    g_autofree char *without = weft_move_definition(limited, WANTED, 0, NULL);
    g_assert_null(strstr(without, "memtune"));
    g_autofree char *with = weft_move_definition(limited, WANTED, 1114112, NULL);
    g_assert_nonnull(strstr(with, "<memtune><hard_limit unit=\"KiB\">1114112</hard_limit></memtune>"));
    g_assert_null(strstr(with, ">7<"));
}

static void
own_disk(void)
{
    g_autofree char *base = NULL, *format = NULL, *none = NULL, *nothing = NULL;
    g_autofree char *disk = weft_move_own_disk(LIVE, &base, &format);
    g_assert_cmpstr(disk, ==, "vda");
    g_assert_cmpstr(base, ==, "image-ab");
    g_assert_cmpstr(format, ==, "qcow2");
    g_assert_null(weft_move_own_disk(WANTED, &none, &nothing));
}

/* --- which way --- */

#define MIB ((guint64)1 << 20)
#define STALL (300 * 1000)

/* clang-format off */
static const struct {
    guint64 memory, rate, bandwidth;
    gint64 stall;
    gboolean emulated;
    WeftCopy copy;
} choices[] = {
    { 512 * MIB,         0,   50 * MIB,   STALL,   FALSE, WEFT_COPY_PRE },    /* idle: once is enough */
    { 512 * MIB,         1,   50 * MIB,   STALL,   FALSE, WEFT_COPY_PRE },
    { 512 * MIB,  10 * MIB,   50 * MIB,   STALL,   FALSE, WEFT_COPY_PRE },    /* 512, 205, 82, 33, 13: as much as 0.3 s carry */
    { 512 * MIB,  10 * MIB,   50 * MIB,   STALL / 10, FALSE, WEFT_COPY_HYBRID }, /* a tenth of that is not reached */
    { 512 * MIB,  20 * MIB,   50 * MIB,   STALL,   FALSE, WEFT_COPY_HYBRID }, /* it would be, but not soon */
    { 512 * MIB,  50 * MIB,   50 * MIB,   STALL,   FALSE, WEFT_COPY_HYBRID },
    { 512 * MIB, 500 * MIB,   50 * MIB,   STALL,   FALSE, WEFT_COPY_HYBRID }, /* never */
    { 512 * MIB, 500 * MIB, 5000 * MIB,   STALL,   FALSE, WEFT_COPY_PRE },
    { 512 * MIB, 500 * MIB,          0,   STALL,   FALSE, WEFT_COPY_HYBRID }, /* of a link that nobody knows */
    { 512 * MIB,         0,          0,   STALL,   FALSE, WEFT_COPY_PRE },
    { 512 * MIB,  10 * MIB,   50 * MIB,       0,   FALSE, WEFT_COPY_HYBRID },
    { 512 * MIB,         0,   50 * MIB,   STALL,   TRUE,  WEFT_COPY_POST },
};
/* clang-format on */

static void
choice(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(choices); i++) {
        const WeftCopyFacts facts = { .memory = choices[i].memory,
                                      .rate = choices[i].rate,
                                      .bandwidth = choices[i].bandwidth,
                                      .stall = choices[i].stall,
                                      .emulated = choices[i].emulated };
        g_assert_cmpint(weft_copy_choose(&facts), ==, choices[i].copy);
    }
}

/* What is done when a pass begins that has so much to carry. */
/* clang-format off */
static const struct {
    WeftCopy copy;
    WeftCopyPass pass;
    WeftCopyTurn turn;
} turns[] = {
    /*                    number carried    left       fits   vain */
    { WEFT_COPY_POST,   {  1,    0,         0,         FALSE, 0 },  WEFT_TURN_SWITCH },
    { WEFT_COPY_PRE,    {  1,    0,         0,         FALSE, 0 },  WEFT_TURN_ON },
    { WEFT_COPY_HYBRID, {  1,    0,         0,         TRUE,  0 },  WEFT_TURN_ON },
    { WEFT_COPY_PRE,    {  2,  400 * MIB, 130 * MIB,   FALSE, 0 },  WEFT_TURN_ON },
    { WEFT_COPY_HYBRID, {  2,  400 * MIB, 130 * MIB,   FALSE, 0 },  WEFT_TURN_ON },
    { WEFT_COPY_HYBRID, {  3,  128 * MIB,  96 * MIB,   FALSE, 0 },  WEFT_TURN_ON },     /* slower than the link, and be it by a little */
    { WEFT_COPY_HYBRID, {  3,  128 * MIB, 128 * MIB,   FALSE, 0 },  WEFT_TURN_GRANT },  /* perhaps faster */
    { WEFT_COPY_HYBRID, {  4,  128 * MIB, 128 * MIB,   FALSE, 1 },  WEFT_TURN_SWITCH }, /* faster */
    { WEFT_COPY_PRE,    {  3,  128 * MIB, 128 * MIB,   FALSE, 0 },  WEFT_TURN_GRANT },
    { WEFT_COPY_HYBRID, {  8,    6 * MIB,   5 * MIB,   TRUE,  0 },  WEFT_TURN_GRANT },  /* there is little to be gained */
    { WEFT_COPY_HYBRID, {  8,    6 * MIB,   5 * MIB,   TRUE,  9 },  WEFT_TURN_GRANT },
    { WEFT_COPY_HYBRID, {  8,    6 * MIB,   5 * MIB,   TRUE,  10 }, WEFT_TURN_SWITCH }, /* both end */
    { WEFT_COPY_PRE,    { 13,    6 * MIB,   5 * MIB,   TRUE,  10 }, WEFT_TURN_END },
    { WEFT_COPY_PRE,    { 30,  100 * MIB,  50 * MIB,   FALSE, 0 },  WEFT_TURN_ON },
    { WEFT_COPY_PRE,    { 31,  100 * MIB,  50 * MIB,   FALSE, 0 },  WEFT_TURN_GRANT },
    { WEFT_COPY_HYBRID, { 32,  100 * MIB,  50 * MIB,   FALSE, 1 },  WEFT_TURN_SWITCH },
};
/* clang-format on */

static void
passes(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(turns); i++)
        g_assert_cmpint(weft_copy_turn(turns[i].copy, &turns[i].pass), ==, turns[i].turn);
}

/* A link of 50 MiB/s, and how a domain that writes so much a second fares by passes alone; what is left of it in the end. */
static guint64
copy_all(WeftCopy copy, guint64 rate, guint64 hot, WeftCopyTurn *ret_turn)
{
    WeftCopyPass pass = { .number = 1, .left = 384 * MIB };
    guint64 link = 50 * MIB, part = link * STALL / G_USEC_PER_SEC / WEFT_COPY_GRANTS;
    do {
        *ret_turn = weft_copy_turn(copy, &pass);
        pass.vain += *ret_turn != WEFT_TURN_ON;
        if (*ret_turn >= WEFT_TURN_SWITCH || pass.left <= part * MIN(1 + pass.vain, WEFT_COPY_GRANTS))
            return pass.left;
        pass.carried = pass.left;
        pass.left = MIN(hot, pass.carried * rate / link);
        pass.fits = pass.left <= part * WEFT_COPY_GRANTS;
        pass.number++;
    } while (pass.number < 100);
    g_assert_not_reached();
}

/* Whoever writes slower than the link stands still for no longer by hybrid than by pre-copy; whoever writes faster arrives. */
static void
hybrid_suits_all(void)
{
    for (guint64 rate = 0; rate <= 200; rate += 5) {
        WeftCopyTurn pre, hybrid;
        guint64 left = copy_all(WEFT_COPY_PRE, rate * MIB, 128 * MIB, &pre);
        guint64 left_by_hybrid = copy_all(WEFT_COPY_HYBRID, rate * MIB, 128 * MIB, &hybrid);
        g_assert_cmpint(hybrid, !=, WEFT_TURN_END);
        if (rate <= 35)
            g_assert_cmpint(pre, <=, WEFT_TURN_GRANT);
        if (hybrid <= WEFT_TURN_GRANT)
            g_assert_cmpuint(left_by_hybrid, ==, left);
        g_assert_true(rate > 35 || hybrid <= WEFT_TURN_GRANT);
        g_assert_true(rate < 50 || (hybrid == WEFT_TURN_SWITCH && pre == WEFT_TURN_END));
    }
}

static void
over_rdma(void)
{
    g_assert_true(weft_copy_takes_rdma(WEFT_COPY_PRE));
    g_assert_false(weft_copy_takes_rdma(WEFT_COPY_POST));
    g_assert_false(weft_copy_takes_rdma(WEFT_COPY_HYBRID));
    WeftCopyFacts facts = { .memory = 512 * MIB, .rate = 100 * MIB, .stall = STALL };
    g_assert_cmpint(weft_copy_choose(&facts), ==, WEFT_COPY_HYBRID);
    facts.rdma = TRUE;
    g_assert_cmpint(weft_copy_choose(&facts), ==, WEFT_COPY_PRE);
    facts.bandwidth = 50 * MIB;
    g_assert_cmpint(weft_copy_choose(&facts), ==, WEFT_COPY_HYBRID);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/moves/ends", ends);
    g_test_add_func("/moves/steps", steps);
    g_test_add_func("/moves/post-copy-is-kept", post_copy_is_kept);
    g_test_add_func("/moves/definition", definition);
    g_test_add_func("/moves/limit", limit);
    g_test_add_func("/moves/over-rdma", over_rdma);
    g_test_add_func("/moves/own-disk", own_disk);
    g_test_add_func("/moves/choice", choice);
    g_test_add_func("/moves/passes", passes);
    g_test_add_func("/moves/hybrid-suits-all", hybrid_suits_all);
    return g_test_run();
}
