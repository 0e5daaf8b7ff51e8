#include "fabric-contract.h"
#include "fake-fabric.h"
#include "scratch.h"

#define PORT(i) (0x0002c90300000100 + (i))
static const guint64 ports[] = { PORT(0), PORT(1), PORT(2),  PORT(3),  PORT(4),  PORT(5),  PORT(6),  PORT(7),
                                 PORT(8), PORT(9), PORT(10), PORT(11), PORT(12), PORT(13), PORT(14), PORT(15) };

static WeftFabricDriver *
fake_open(const char *world)
{
    g_autoptr(GError) error = NULL;
    WeftPkeys pkeys = { 0 };
    weft_pkeys_add(&pkeys, 1, WEFT_CONTRACT_PKEY_LAST);
    WeftFabricDriver *driver = weft_fabric_fake_new(world, &pkeys, &error);
    g_assert_no_error(error);
    return driver;
}

static void
fake_fault(const char *world, const char *line)
{
    scratch_write(world, "faults", line);
}

static void
fake_add_foreign(const char *world, guint pkey, const char *name)
{
    g_autofree char *file = g_strdup_printf("partitions/0x%04x", pkey);
    scratch_write(world, file, name);
}

static void
fake_silence(const char *world, guint port, gboolean on)
{
    g_autofree char *file = g_strdup_printf("tables/0x%016" G_GINT64_MODIFIER "x", ports[port]);
    scratch_write(world, file, on ? "silent" : NULL);
}

static void
fake_sweep(const char *world)
{
    scratch_write(world, "events", "swept\n");
}

/* Two leaves with eight hosts each. */
static char *
fake_create(void)
{
    char *world = scratch_new();
    g_autoptr(GString) map = g_string_new(NULL);
    for (guint leaf = 0; leaf < 2; leaf++) {
        g_string_append_printf(map, "switchguid=0x%x\nSwitch 8 \"S-%x\" # \"leaf%u\"\n", 0x10 + leaf, 0x10 + leaf, leaf + 1);
        for (guint i = 0; i < 8; i++)
            g_string_append_printf(map, "[%u] \"H-%u\"[1]\n", i + 1, leaf * 8 + i);
        g_string_append(map, "\n");
    }
    for (guint i = 0; i < 16; i++)
        g_string_append_printf(map,
                               "caguid=0x%" G_GINT64_MODIFIER "x\nCa 1 \"H-%u\" # \"h%u mlx4_0\"\n[1](%" G_GINT64_MODIFIER
                               "x) \"S-%x\"[%u] # lid %u lmc 0 \"leaf\" lid 1 4xEDR\n\n",
                               ports[i] + 0x1000, i, i + 1, ports[i], 0x10 + i / 8, i % 8 + 1, i + 10);
    scratch_write(world, "map", map->str);
    return world;
}

static const WeftFabricFixture fake = {
    .name = "fake",
    .way = "fake",
    .ports = ports,
    .churn = 64,
    .kills = 20,
    .virtualization = TRUE,
    .silence = fake_silence,
    .sweep = fake_sweep,
    .create = fake_create,
    .open = fake_open,
    .destroy = scratch_free,
    .fault = fake_fault,
    .add_foreign = fake_add_foreign,
};

int
main(int argc, char **argv)
{
    return weft_fabric_contract_main(&fake, argc, argv);
}
