#include "errors.h"
#include "fake-hypervisor.h"
#include "hypervisor-moves.h"
#include "protocol.h"
#include "scratch.h"

#include <glib/gstdio.h>
#include <string.h>

#define NAMESPACE "https://weft.dev/xmlns/domain/1"

static gpointer
fake_create(void)
{
    return scratch_new();
}

static WeftHypervisor *
fake_open(gpointer world)
{
    g_autoptr(GError) error = NULL;
    WeftHypervisor *hv = weft_hypervisor_fake_new(world, &error);
    g_assert_no_error(error);
    return hv;
}

static char *
fake_definition(const char *node, guint memory_mib)
{
    return g_strdup_printf("<domain type='kvm'>\n  <name>weft-%s</name>\n"
                           "  <metadata><weft:node xmlns:weft='" NAMESPACE "' id='%s'/></metadata>\n"
                           "  <memory unit='MiB'>%u</memory>\n</domain>\n",
                           node, node, memory_mib);
}

static char *
fake_device(void)
{
    return g_strdup("<interface type='bridge'><alias name='ua-nic'/></interface>");
}

static char *
fake_disk(const char *node, const char *digest)
{
    return g_strdup_printf("<disk><source file='" WEFT_POOL_PATH "/weft-%s.disk'/><backingStore><source file='" WEFT_POOL_PATH
                           "/image-%s'/></backingStore></disk>",
                           node, digest);
}

static char *
written_to(gpointer world, const char *host, const char *domain, const char *suffix)
{
    g_autofree char *path = g_strdup_printf("%s/%s/pool/%s%s", (char *)world, host, domain, suffix);
    char *text = NULL;
    return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

static void
fake_write(gpointer world, const char *host, const char *domain, char byte)
{
    g_autofree char *layer = written_to(world, host, domain, ".layer"), *disk = written_to(world, host, domain, ".disk");
    g_autofree char *file = g_strdup_printf("%s/pool/%s%s", host, domain, layer ? ".layer" : ".disk");
    g_autofree char *text = g_strdup_printf("%s%c", layer ? layer : disk, byte);
    scratch_write(world, file, text);
}

static gboolean
fake_has(gpointer world, const char *host, const char *domain, char byte)
{
    g_autofree char *layer = written_to(world, host, domain, ".layer"), *disk = written_to(world, host, domain, ".disk");
    const char *last = layer && *layer ? layer : disk;
    g_assert_true(last && *last);
    return last[strlen(last) - 1] == byte;
}

static void
fake_fault(gpointer world, const char *host, const char *line)
{
    g_autofree char *file = g_strdup_printf("%s/faults", host);
    scratch_write(world, file, line);
}

static char *
fake_image_sum(gpointer world, const char *host, const char *digest)
{
    g_autofree char *path = g_strdup_printf("%s/%s/pool/image-%s", (char *)world, host, digest);
    g_autofree char *text = NULL;
    gsize length;
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    return g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, length);
}

static void
fake_put_file(gpointer world, const char *host, const char *name, const char *text)
{
    g_autofree char *file = g_strdup_printf("%s/pool/%s", host, name);
    scratch_write(world, file, text);
}

static char *
fake_file_text(gpointer world, const char *host, const char *name)
{
    return written_to(world, host, name, "");
}

static void
fake_add_foreign(gpointer world, const char *host, const char *name)
{
    g_autofree char *file = g_strdup_printf("%s/domains/%s.xml", host, name);
    g_autofree char *text = g_strdup_printf("<domain type='kvm'><name>%s</name></domain>\n", name);
    scratch_write(world, file, text);
}

static void
fake_end_domain(gpointer world, const char *host, const char *name)
{
    g_autofree char *running = g_strdup_printf("%s/%s/domains/%s.xml", (char *)world, host, name);
    g_autofree char *stopped = g_strdup_printf("%s/%s/domains/%s.off", (char *)world, host, name);
    g_assert_cmpint(g_rename(running, stopped), ==, 0);
}

static void
fake_reboot(gpointer world, const char *host, const char *name)
{
    g_autofree char *line = g_strdup_printf("%s %s\n", host, name);
    scratch_write(world, "reboots", line);
}

static const WeftHypervisorFixture fake = {
    .name = "fake",
    .create = fake_create,
    .open = fake_open,
    .destroy = scratch_free,
    .hosts = { { "n1", "fake://n1" }, { "n2", "fake://n2" } },
    .definition = fake_definition,
    .device = fake_device,
    .disk = fake_disk,
    .write = fake_write,
    .has = fake_has,
    .lets_go = TRUE,
    .crowd = 10,
    .hello_channel = WEFT_CHANNEL_GUEST,
    .ask = WEFT_SYNC "0123456789abcdef",
    .ask_length = WEFT_SYNC_LENGTH + WEFT_NONCE_LENGTH,
    .hello = WEFT_SYNC "0123456789abcdef",
    .hello_length = WEFT_SYNC_LENGTH + WEFT_NONCE_LENGTH,
    .fault = fake_fault,
    .image_sum = fake_image_sum,
    .put_file = fake_put_file,
    .file_text = fake_file_text,
    .add_foreign = fake_add_foreign,
    .end_domain = fake_end_domain,
    .reboot = fake_reboot,
};

/* --- the fake's own: no resource of a host twice --- */

static char *
definition_with(const char *node, const char *device, guint cpu)
{
    return g_strdup_printf("<domain><name>weft-%s</name>"
                           "<metadata><weft:node xmlns:weft='" NAMESPACE "' id='%s'>%s</weft:node></metadata>"
                           "<cputune><vcpupin vcpu='0' cpuset='%u'/><emulatorpin cpuset='0'/></cputune></domain>",
                           node, node, device, cpu);
}

static gboolean
start(WeftHypervisor *hv, const WeftHostAddress *host, const char *xml, GError **error)
{
    WeftStart start = { .xml = xml };
    return hv->ops->start(hv, host, &start, NULL, error);
}

#define VF0 "<weft:device hca='mlx5_0' vf='0' guid='0x02000000000000a0'/>"
#define VF0_LATER "<weft:device rail='0' hca='mlx5_0' vf='0' guid='0x02000000000000a0' plugged='later'/>"
#define VF1 "<weft:device hca='mlx5_0' vf='1' guid='0x02000000000000a1'/>"
#define VF1_GUID0 "<weft:device hca='mlx5_0' vf='1' guid='0x02000000000000a0'/>"
#define VF10 "<weft:device hca='mlx5_0' vf='10' guid='0x02000000000000aa'/>"
#define HCA0 "<weft:device hca='mlx5_0'/>"
#define HCA1 "<weft:device hca='mlx5_1'/>"
#define GPU "<weft:gpu name='0000:41:00.0'/>"

/* clang-format off */
static const struct {
    const char *first, *second;
    guint first_cpu, second_cpu;
    const char *twice; /* NULL: they can be neighbours */
} neighbours[] = {
    { VF0,  VF1,       1, 2, NULL },
    { VF0,  VF10,      1, 2, NULL },
    { VF1,  VF10,      1, 2, NULL },
    { VF0,  HCA1,      1, 2, NULL },
    { "",   "",        1, 11, NULL },
    { "",   "",        1, 1, "cpu/1" },
    { VF0,  VF0,       1, 2, "vf/mlx5_0/0" },
    { VF0,  VF1_GUID0, 1, 2, "guid/0x02000000000000a0" },
    { VF0,  HCA0,      1, 2, "hca/mlx5_0" },
    { HCA0, VF0,       1, 2, "vf/mlx5_0/0" },
    { HCA0, HCA0,      1, 2, "hca/mlx5_0" },
    { GPU,  GPU,       1, 2, "gpu/0000:41:00.0" },
};
/* clang-format on */

static void
check_neighbours(gsize i)
{
    gpointer world = fake_create();
    g_autoptr(WeftHypervisor) hv = fake_open(world);
    g_autoptr(GError) error = NULL;
    g_autofree char *first = definition_with("1a-1", neighbours[i].first, neighbours[i].first_cpu);
    g_autofree char *second = definition_with("1a-2", neighbours[i].second, neighbours[i].second_cpu);

    g_assert_true(start(hv, &fake.hosts[0], first, NULL));
    gboolean ok = start(hv, &fake.hosts[0], second, &error);
    g_assert_cmpint(ok, ==, neighbours[i].twice == NULL);
    if (!ok) {
        g_autofree char *message =
            g_strdup_printf("host n1: domain weft-1a-2 cannot have %s: domain weft-1a-1 has it already", neighbours[i].twice);
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        g_assert_cmpstr(error->message, ==, message);
        g_assert_true(start(hv, &fake.hosts[1], second, NULL));
        g_assert_true(hv->ops->stop(hv, &fake.hosts[0], "weft-1a-1", NULL, NULL));
        g_assert_true(start(hv, &fake.hosts[0], second, NULL));
    }
    scratch_free(world);
}

static void
double_use(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(neighbours); i++)
        check_neighbours(i);
}

/* A test copies domains behind the driver's back: what such a file uses counts as well. */
static void
double_use_beside_dropped_file(void)
{
    gpointer world = fake_create();
    g_autoptr(WeftHypervisor) hv = fake_open(world);
    g_autoptr(GError) error = NULL;
    g_autofree char *dropped = definition_with("1a-1", VF0, 1);
    g_autofree char *second = definition_with("1a-2", VF0, 2);
    scratch_write(world, "n1/domains/weft-1a-1.xml", dropped);
    g_assert_false(start(hv, &fake.hosts[0], second, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    scratch_free(world);
}

#define RACERS 8

static gpointer
race_for_vf(gpointer data)
{
    static gint serial;
    WeftHypervisor *hv = data;
    guint mine = (guint)g_atomic_int_add(&serial, 1) + 1;
    g_autofree char *node = g_strdup_printf("1a-%u", mine);
    g_autofree char *xml = definition_with(node, VF0, mine);
    return GINT_TO_POINTER(start(hv, &fake.hosts[0], xml, NULL));
}

static void
double_use_at_once(void)
{
    gpointer world = fake_create();
    g_autoptr(WeftHypervisor) hv = fake_open(world);
    GThread *threads[RACERS];
    for (guint i = 0; i < RACERS; i++)
        threads[i] = g_thread_new("racer", race_for_vf, hv);
    int winners = 0;
    for (guint i = 0; i < RACERS; i++)
        winners += GPOINTER_TO_INT(g_thread_join(threads[i]));
    g_assert_cmpint(winners, ==, 1);
    scratch_free(world);
}

/* --- moves --- */

static gboolean
move_to_second(WeftHypervisor *hv, const char *xml, GError **error)
{
    WeftMoved moved;
    const WeftMove move = { .domain = "weft-1a-1", .xml = xml, .copy = WEFT_COPY_POST };
    return hv->ops->move(hv, &fake.hosts[0], &fake.hosts[1], &move, &moved, NULL, error);
}

/* As one whose post-copy broke: it stands still between its hosts, both tell of it, and the same call ends what was begun. */
static void
move_broken(void)
{
    gpointer world = fake_create();
    g_autoptr(WeftHypervisor) hv = fake_open(world);
    g_autoptr(GError) error = NULL;
    g_autofree char *xml = definition_with("1a-1", VF0_LATER, 1);
    g_assert_true(start(hv, &fake.hosts[0], xml, NULL));
    fake_fault(world, "n2", "fail post-copy 1");
    g_assert_false(move_to_second(hv, xml, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    for (guint i = 0; i < 2; i++) {
        g_autoptr(WeftContents) contents = hv->ops->list(hv, &fake.hosts[i], NULL, NULL);
        g_assert_cmpuint(contents->domains->len, ==, 1);
    }
    g_assert_true(move_to_second(hv, xml, NULL));
    g_autoptr(WeftContents) left = hv->ops->list(hv, &fake.hosts[0], NULL, NULL);
    g_assert_cmpuint(left->domains->len, ==, 0);
    scratch_free(world);
}

static void
rdma_fails(void)
{
    gpointer world = fake_create();
    g_autoptr(WeftHypervisor) hv = fake_open(world);
    g_autofree char *xml = definition_with("1a-1", VF0_LATER, 1);
    g_auto(WeftMoved) moved = { 0 };
    const WeftMove move = { .domain = "weft-1a-1", .xml = xml, .copy = WEFT_COPY_PRE, .rdma = "192.0.2.1" };
    g_assert_true(start(hv, &fake.hosts[0], xml, NULL));
    fake_fault(world, "n2", "fail rdma 1 nobody answers");
    g_assert_true(hv->ops->move(hv, &fake.hosts[0], &fake.hosts[1], &move, &moved, NULL, NULL));
    g_assert_false(moved.rdma);
    g_assert_nonnull(strstr(moved.rdma_failed, "nobody answers"));
    scratch_free(world);
}

static void
refuse_to_go_along(WeftHypervisor *hv, const char *xml)
{
    g_autoptr(GError) unmoved = NULL, unsaved = NULL;
    WeftSaved saved;
    g_assert_false(move_to_second(hv, xml, &unmoved));
    g_assert_error(unmoved, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_false(hv->ops->save(hv, &fake.hosts[0], "weft-1a-1", WEFT_SAVE_RUNNING, &saved, NULL, &unsaved));
    g_assert_error(unsaved, WEFT_ERROR, WEFT_ERROR_INVALID);
}

/* As libvirt refuses it: what is the host's must be unplugged first, whether it was there from the start or plugged later. */
static void
host_devices_stay(void)
{
    gpointer world = fake_create();
    g_autoptr(WeftHypervisor) hv = fake_open(world);
    g_autofree char *xml = definition_with("1a-1", VF0, 1), *there = definition_with("1a-1", VF0_LATER, 1);
    const char *device = "<hostdev><alias name='ua-rail0'/></hostdev>";
    WeftPlugged plugged;
    g_assert_true(start(hv, &fake.hosts[0], xml, NULL));
    refuse_to_go_along(hv, there);
    g_assert_true(hv->ops->unplug(hv, &fake.hosts[0], "weft-1a-1", device, NULL, NULL));
    g_assert_true(hv->ops->plug(hv, &fake.hosts[0], "weft-1a-1", device, &plugged, NULL, NULL));
    refuse_to_go_along(hv, there);
    g_assert_true(hv->ops->unplug(hv, &fake.hosts[0], "weft-1a-1", device, NULL, NULL));
    g_assert_true(move_to_second(hv, there, NULL));
    g_assert_true(hv->ops->plug(hv, &fake.hosts[1], "weft-1a-1", device, &plugged, NULL, NULL));
    g_assert_cmpuint(plugged.copied, ==, 0);
    scratch_free(world);
}

/* --- measured by hand: contract-hypervisor -m perf --- */

#define STARTERS 16
#define HOSTS_EACH 64
#define DOMAINS_EACH 10

static gpointer
start_fleet(gpointer data)
{
    static gint serial;
    WeftHypervisor *hv = data;
    int mine = g_atomic_int_add(&serial, 1);
    for (guint i = 0; i < HOSTS_EACH * DOMAINS_EACH; i++) {
        g_autofree char *name = g_strdup_printf("h%d-%u", mine, i % HOSTS_EACH);
        g_autofree char *node = g_strdup_printf("1a-%d-%u", mine, i);
        g_autofree char *xml = definition_with(node, "", i / HOSTS_EACH);
        WeftHostAddress host = { name, "" };
        g_assert_true(start(hv, &host, xml, NULL));
    }
    return NULL;
}

static void
starts_per_second(void)
{
    gpointer world = fake_create();
    g_autoptr(WeftHypervisor) hv = fake_open(world);
    GThread *threads[STARTERS];
    g_test_timer_start();
    for (guint i = 0; i < STARTERS; i++)
        threads[i] = g_thread_new("starter", start_fleet, hv);
    for (guint i = 0; i < STARTERS; i++)
        g_thread_join(threads[i]);
    double rate = STARTERS * HOSTS_EACH * DOMAINS_EACH / g_test_timer_elapsed();
    g_test_maximized_result(rate, "%.0f starts a second", rate);
    scratch_free(world);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    weft_hypervisor_contract_add(&fake);
    weft_hypervisor_moves_add(&fake);
    g_test_add_func("/hypervisor/fake/move-broken", move_broken);
    g_test_add_func("/hypervisor/fake/rdma-fails", rdma_fails);
    g_test_add_func("/hypervisor/fake/host-devices-stay", host_devices_stay);
    g_test_add_func("/hypervisor/fake/double-use", double_use);
    g_test_add_func("/hypervisor/fake/double-use-beside-dropped-file", double_use_beside_dropped_file);
    g_test_add_func("/hypervisor/fake/double-use-at-once", double_use_at_once);
    if (g_test_perf())
        g_test_add_func("/hypervisor/fake/starts-per-second", starts_per_second);
    return weft_hypervisor_contract_run();
}
