#include "fabric-contract.h"
#include "fake-fabric.h"
#include "scratch.h"

static WeftFabricDriver *
fake_open(const char *world)
{
    g_autoptr(GError) error = NULL;
    WeftFabricDriver *driver = weft_fabric_fake_new(world, &error);
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

static const WeftFabricFixture fake = {
    .name = "fake",
    .create = scratch_new,
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
