/* The libvirt driver as far as it needs no host: what it reads from libvirt's texts, and how it meets hosts that are not
 * there. (The rest is in tests/contract.) */
#include "driver.h"
#include "errors.h"
#include "inventory.h"

#include <gio/gio.h>
#include <string.h>

#define REWRITE (g_strcmp0(g_getenv("WEFT_GOLDEN_REWRITE"), "1") == 0)

/* --- inventory: NAME.capabilities.xml, NAME.devices.xml and NAME.report.txt give NAME.json --- */

static char *
golden_path(const char *file)
{
    return g_test_build_filename(G_TEST_DIST, "..", "golden", "inventory", file, NULL);
}

static char *
golden_text(const char *file)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = golden_path(file);
    char *text = NULL;
    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    return text;
}

/* One file holds them all, though libvirt gives them one by one. */
static GPtrArray *
split_devices(const char *text)
{
    GPtrArray *devices = g_ptr_array_new_with_free_func(g_free);
    for (const char *at = strstr(text, "<device>"); at; at = strstr(at + 1, "<device>")) {
        const char *end = strstr(at, "</device>");
        g_ptr_array_add(devices, g_strndup(at, (gsize)(end - at) + strlen("</device>")));
    }
    return devices;
}

static WeftInventory *
read_golden(gboolean *ret_offers_kvm, gboolean *ret_flag)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *capabilities = golden_text("two-sockets.capabilities.xml");
    g_autofree char *texts = golden_text("two-sockets.devices.xml");
    g_autoptr(GPtrArray) devices = split_devices(texts);
    g_autoptr(WeftInventory) inventory = weft_inventory_new();
    weft_inventory_read_capabilities(inventory, capabilities, ret_offers_kvm, ret_flag, &error);
    g_assert_no_error(error);
    weft_inventory_read_devices(inventory, devices);
    return g_steal_pointer(&inventory);
}

/* A host's description needs names that an inventory does not have. */
static char *
describe(WeftInventory *inventory)
{
    WeftHost *host = inventory->hardware;
    host->name = g_strdup("n1");
    host->fabric = g_strdup("ib0");
    host->leaf = g_strdup("leaf1");
    host->uri = g_strdup("qemu:///system");
    json_t *json = weft_host_to_json(host);
    char *dump = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
    char *text = g_strdup_printf("%s\n", dump);
    free(dump);
    json_decref(json);
    return text;
}

static void
compare(const char *got, const char *file)
{
    g_autofree char *path = golden_path(file);
    if (REWRITE)
        g_assert_true(g_file_set_contents(path, got, -1, NULL));
    g_autofree char *expected = golden_text(file);
    g_assert_cmpstr(got, ==, expected);
}

static void
reads_two_sockets(void)
{
    gboolean offers, flag;
    g_autoptr(WeftInventory) inventory = read_golden(&offers, &flag);
    g_assert_true(offers);
    g_assert_true(flag);
    g_assert_true(inventory->iommu);
    g_assert_cmpstr(inventory->cpu_model, ==, "Cascadelake-Server");
    g_autofree char *got = describe(inventory);
    compare(got, "two-sockets.json");
}

static void
reads_report(void)
{
    gboolean offers, flag;
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftInventory) inventory = read_golden(&offers, &flag);
    g_autofree char *message = golden_text("two-sockets.report.txt");
    inventory->hook = weft_inventory_read_report(message, &error);
    g_assert_no_error(error);
    weft_inventory_apply_report(inventory);
    g_autofree char *got = describe(inventory);
    compare(got, "two-sockets-with-report.json");
}

/* Whatever its maker calls it: the driver that has it is the host's word. */
static void
takes_what_the_host_calls_an_hca(void)
{
    g_autoptr(WeftInventory) inventory = weft_inventory_new();
    g_autoptr(GPtrArray) devices =
        split_devices("<device><path>/sys/devices/pci0000:40/0000:40:00.0/0000:41:00.0</path><capability type='pci'>"
                      "<class>0x010802</class><domain>0</domain><bus>65</bus><slot>0</slot><function>0</function>"
                      "<product id='0x0010'/><vendor id='0x1b36'/><capability type='virt_functions'>"
                      "<address domain='0x0000' bus='0x41' slot='0x00' function='0x1'/></capability></capability></device>");
    weft_inventory_read_devices(inventory, devices);
    g_assert_cmpuint(inventory->hardware->hcas->len, ==, 0);
    inventory->hook = json_pack("{s:[{s:s, s:s, s:s, s:s}]}", "hcas", "name", "mlx4_0", "driver", "mlx4", "pci", "0000:41:00.0",
                                "port_guid", "0x0002c90300000101");
    weft_inventory_read_devices(inventory, devices);
    weft_inventory_apply_report(inventory);
    g_assert_cmpuint(inventory->hardware->hcas->len, ==, 1);
    const WeftHca *hca = inventory->hardware->hcas->pdata[0];
    g_assert_cmpstr(hca->name, ==, "mlx4_0");
    g_assert_cmpint(hca->driver, ==, WEFT_HCA_MLX4);
    g_assert_cmpstr(hca->root, ==, "pci0000:40");
    g_assert_cmpstr(hca->vf_pci->pdata[0], ==, "0000:41:00.1");
    g_assert_cmpuint(hca->port_guid, ==, 0x0002c90300000101);
}

static void
refuses_reports(void)
{
    const char *const bad[] = {
        "",
        "Hook script execution failed: weft-hook: the kernel has no vxlan",
        "weft-hook: report",
        "weft-hook: report\n",
        "weft-hook: report\n{\"version\": ",
        "weft-hook: report\n[1] {}",
    };
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(weft_inventory_read_report(bad[i], &error));
        g_assert_nonnull(error);
    }
}

/* Whatever a host says, it is taken or refused: never more cores than there may be, and no NUMA node that nobody counts. */
static void
bears_odd_capabilities(void)
{
    const struct {
        const char *cells;
        int cores; /* -1: refused */
    } odd[] = {
        { "", 0 },
        { "<cell id='64'/>", -1 },
        { "<cell/>", -1 },
        { "<cell id='-1'/>", -1 },
        { "<cell id='0'><cpus><cpu id='0'/><cpu/><cpu id='x'/><cpu id='70000'/></cpus></cell>", 1 },
        { "<cell id='0'><cpus><cpu id='1' siblings='0-1'/><cpu id='0' siblings='0-1'/></cpus></cell>", 1 },
        { "<cell id='0'><cpus><cpu id='0' siblings='0-60000'/></cpus></cell>", 0 },
        { "<cell id='0'><cpus><cpu id='5' siblings='5-4'/></cpus></cell>", 0 },
        { "<cell id='0'><pages unit='KiB' size='3'>1</pages><pages unit='KiB' size='99999999999'>1</pages>"
          "<pages unit='MiB' size='2'>1</pages><pages unit='KiB' size='2048'>-4</pages></cell>",
          0 },
    };
    for (guint i = 0; i < G_N_ELEMENTS(odd); i++) {
        gboolean offers, flag;
        g_autoptr(WeftInventory) inventory = weft_inventory_new();
        g_autofree char *xml =
            g_strdup_printf("<capabilities><host><topology><cells>%s</cells></topology></host></capabilities>", odd[i].cells);
        gboolean ok = weft_inventory_read_capabilities(inventory, xml, &offers, &flag, NULL);
        g_assert_cmpint(ok, ==, odd[i].cores >= 0);
        if (ok)
            g_assert_cmpint((int)inventory->hardware->cores->len, ==, odd[i].cores);
        for (guint n = 0; n < inventory->hardware->numa->len; n++)
            g_assert_cmpuint(g_array_index(inventory->hardware->numa, WeftNuma, n).n_pages, ==, 0);
    }
}

static void
refuses_other_texts(void)
{
    const char *const bad[] = { "", "rubbish", "<host/>", "<!DOCTYPE capabilities [<!ENTITY a 'b'>]><capabilities/>" };
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        gboolean offers, flag;
        g_autoptr(GError) error = NULL;
        g_autoptr(WeftInventory) inventory = weft_inventory_new();
        g_assert_false(weft_inventory_read_capabilities(inventory, bad[i], &offers, &flag, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    }
}

/* --- errors --- */

static void
explains_what_is_not_plain(void)
{
    g_autofree char *tls = weft_vir_explain("Unable to read TLS confirmation: Input/output error");
    g_assert_nonnull(strstr(tls, "Input/output error (the host does not take this certificate"));
    g_autofree char *ssh = weft_vir_explain("Warning: no identity\r\nweft@n1: Permission denied");
    g_assert_cmpstr(ssh, ==, "Warning: no identity; weft@n1: Permission denied");
}

/* libvirt's getters forget its last error. */
static void
tells_error_with_name(void)
{
    g_autoptr(GError) error = NULL;
    virConnect *conn = virConnectOpen("test:///default");
    g_autoptr(virDomain) domain = virDomainLookupByName(conn, "test");
    g_assert_nonnull(domain);
    g_assert_cmpint(virDomainCreate(domain), <, 0);
    g_assert_false(weft_vir_fail(&error, "starting %s", virDomainGetName(domain)));
    g_assert_nonnull(strstr(error->message, "starting test: "));
    g_assert_nonnull(strstr(error->message, "already running"));
    virConnectClose(conn);
}

/* --- files of hosts --- */

static const WeftLibvirtOptions options = {
    .dial_limit = G_USEC_PER_SEC / 2,
    .keepalive = 1,
    .keepalive_count = 2,
    .abandoned_max = 2,
    .backoff = { .base = 60 * G_USEC_PER_SEC, .max = 60 * G_USEC_PER_SEC },
};

static WeftHypervisor *
new_driver(void)
{
    g_autoptr(GError) error = NULL;
    WeftHypervisor *hv = weft_hypervisor_libvirt_new(&options, &error);
    g_assert_no_error(error);
    return hv;
}

/* libvirt's own imitation of a host keeps volumes' definitions, and takes no bytes for them: so bringing one ends early. */
static void
lets_nobody_read_its_volumes(void)
{
    WeftLibvirtOptions plain = options;
    plain.keepalive = 0; /* which it does not know */
    g_autoptr(WeftHypervisor) hv = weft_hypervisor_libvirt_new(&plain, NULL);
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, "memory", -1);
    const WeftImageFile file = { .digest = digest, .size = strlen("memory") };
    const WeftBring bring = { .file = &file, .path = "/nowhere", .site = "9c8lmbz0jb9v" };
    virConnect *conn = virConnectOpen("test:///default"); /* as long as it is open, others are to the same imitation */
    g_autoptr(virStoragePool) pool = virStoragePoolDefineXML(
        conn, "<pool type='dir'><name>" WEFT_POOL "</name><target><path>" WEFT_POOL_PATH "</path></target></pool>", 0);
    g_assert_cmpint(virStoragePoolCreate(pool, 0), ==, 0);
    g_autoptr(virStorageVol) saved = weft_vir_volume_create(pool, &(WeftVolume){ .name = "saved", .format = "raw" }, NULL);
    g_assert_nonnull(saved);
    g_assert_false(hv->ops->bring(hv, &(WeftHostAddress){ "n1", "test:///default" }, &bring, NULL, NULL));
    virStorageVol **volumes = NULL;
    int n = virStoragePoolListAllVolumes(pool, &volumes, 0);
    g_assert_cmpint(n, >=, 2); /* what says whose the file is comes before it */
    for (int i = 0; i < n; i++) {
        char *xml = virStorageVolGetXMLDesc(volumes[i], 0);
        g_assert_nonnull(strstr(xml, "<mode>0600</mode>"));
        free(xml);
        virStorageVolFree(volumes[i]);
    }
    free(volumes);
    virConnectClose(conn);
}

/* A pool of the name that somebody made elsewhere: nothing is put where no node would find it. */
static void
refuses_pool_of_another_folder(void)
{
    g_autoptr(GError) error = NULL;
    WeftLibvirtOptions plain = options;
    plain.keepalive = 0;
    g_autoptr(WeftHypervisor) hv = weft_hypervisor_libvirt_new(&plain, NULL);
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, "memory", -1);
    const WeftImageFile file = { .digest = digest, .size = strlen("memory") };
    const WeftBring bring = { .file = &file, .path = "/nowhere", .site = "9c8lmbz0jb9v" };
    virConnect *conn = virConnectOpen("test:///default");
    g_autoptr(virStoragePool) pool = virStoragePoolDefineXML(
        conn, "<pool type='dir'><name>" WEFT_POOL "</name><target><path>/srv/elsewhere</path></target></pool>", 0);
    g_assert_cmpint(virStoragePoolCreate(pool, 0), ==, 0);
    g_assert_false(hv->ops->bring(hv, &(WeftHostAddress){ "n1", "test:///default" }, &bring, NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    g_assert_nonnull(strstr(error->message, "storage pool weft has its files in /srv/elsewhere, where weft has them in "
                                            "/var/lib/libvirt/images/weft; run on that host: virsh pool-destroy weft"));
    g_assert_cmpint(virStoragePoolNumOfVolumes(pool), ==, 0);
    virStoragePoolDestroy(pool);
    virStoragePoolUndefine(pool);
    virConnectClose(conn);
}

static void
finds_hook_text(void)
{
    g_autofree char *text = weft_vir_hook_text(
        "Hook script execution failed: internal error: Child process (LC_ALL=C PATH=/usr/bin /etc/libvirt/hooks/qemu.d/weft "
        "weft-1a-1 prepare begin -) unexpected exit status 1: weft-hook: VF 3 is used by weft-1a-2: stop it first\n");
    g_assert_cmpstr(text, ==, "weft-hook: VF 3 is used by weft-1a-2: stop it first");
    g_autofree char *translated = weft_vir_hook_text(
        "Ausführung des Hook-Skripts fehlgeschlagen: Interner Fehler: Kindprozess (LC_ALL=C /etc/libvirt/hooks/qemu.d/weft "
        "weft-1a-1 prepare begin -) unerwarteter exit status 1: weft-hook: owner other - : run 3r0000000000 of weftd\n");
    g_assert_cmpstr(translated, ==, "weft-hook: owner other - : run 3r0000000000 of weftd");
    g_assert_null(weft_vir_hook_text("internal error: Child process (/usr/bin/qemu-img) unexpected exit status 1: no"));
}

/* --- hosts that are not there --- */

static void
expect_unavailable(WeftHypervisor *hv, const char *uri, int code)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftContents) contents = hv->ops->list(hv, &(WeftHostAddress){ "n1", uri }, NULL, &error);
    g_assert_null(contents);
    g_assert_error(error, WEFT_ERROR, code);
    g_assert_true(g_str_has_prefix(error->message, "host n1: "));
}

static void
refuses_closed_port(void)
{
    g_autoptr(WeftHypervisor) hv = new_driver();
    expect_unavailable(hv, "qemu+tcp://127.0.0.1:1/system", WEFT_ERROR_UNAVAILABLE);
    expect_unavailable(hv, "rubbish", WEFT_ERROR_UNAVAILABLE);
}

/* A host that takes connections and never answers. */
typedef struct Mute {
    GSocketListener *listener;
    char *uri;
    gint accepted;
    GThread *thread;
    GCancellable *end;
} Mute;

static gpointer
be_mute(gpointer data)
{
    Mute *mute = data;
    g_autoptr(GPtrArray) held = g_ptr_array_new_with_free_func(g_object_unref);
    for (;;) {
        GSocketConnection *connection = g_socket_listener_accept(mute->listener, NULL, mute->end, NULL);
        if (!connection)
            return NULL;
        g_atomic_int_inc(&mute->accepted);
        g_ptr_array_add(held, connection);
    }
}

static void
mute_start(Mute *mute)
{
    g_autoptr(GError) error = NULL;
    *mute = (Mute){ .listener = g_socket_listener_new(), .end = g_cancellable_new() };
    guint16 port = g_socket_listener_add_any_inet_port(mute->listener, NULL, &error);
    g_assert_no_error(error);
    mute->uri = g_strdup_printf("qemu+tcp://127.0.0.1:%u/system", port);
    mute->thread = g_thread_new("mute", be_mute, mute);
}

static void
mute_end(Mute *mute)
{
    g_cancellable_cancel(mute->end);
    g_thread_join(mute->thread);
    g_clear_object(&mute->listener);
    g_clear_object(&mute->end);
    g_free(mute->uri);
}

/* Many callers at once, and later ones: it is dialled once, and the pause is kept. */
static gpointer
list_mute(gpointer data)
{
    gpointer *both = data;
    expect_unavailable(both[0], ((Mute *)both[1])->uri, WEFT_ERROR_UNAVAILABLE);
    return NULL;
}

static void
dials_once(void)
{
    Mute mute;
    mute_start(&mute);
    WeftHypervisor *hv = new_driver();
    gpointer both[] = { hv, &mute };
    GThread *threads[20];
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
        threads[i] = g_thread_new("caller", list_mute, both);
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
        g_thread_join(threads[i]);
    list_mute(both);
    g_assert_cmpint(g_atomic_int_get(&mute.accepted), <=, 2); /* ours, and libvirt's */
    weft_hypervisor_free(hv);
    mute_end(&mute);
}

typedef struct Hanging {
    WeftHypervisor *hv;
    const char *uri;
    GCancellable *cancellable;
    GError *error;
} Hanging;

static gpointer
run_hanging(gpointer data)
{
    Hanging *hanging = data;
    weft_contents_free(
        hanging->hv->ops->list(hanging->hv, &(WeftHostAddress){ "n1", hanging->uri }, hanging->cancellable, &hanging->error));
    return NULL;
}

static void
cancels_while_dialling(void)
{
    Mute mute;
    mute_start(&mute);
    WeftHypervisor *hv = new_driver();
    Hanging hanging = { hv, mute.uri, g_cancellable_new(), NULL };
    GThread *thread = g_thread_new("hanging", run_hanging, &hanging);
    g_cancellable_cancel(hanging.cancellable);
    g_thread_join(thread);
    g_assert_error(hanging.error, WEFT_ERROR, WEFT_ERROR_TIMEOUT);
    g_clear_error(&hanging.error);
    g_object_unref(hanging.cancellable);
    weft_hypervisor_free(hv);
    mute_end(&mute);
}

/* A host that boots counts its domains from 1 again, and a node that is started there again has the same UUID: what was known
 * of the former one must not be told of this one. */
static void
forgets_marks_with_the_connection(void)
{
    g_autoptr(WeftHypervisor) hv = new_driver();
    WeftLibvirt *driver = (WeftLibvirt *)hv;
    g_autoptr(WeftVirHost) host =
        weft_vir_host_new(driver->shared, &(WeftHostAddress){ "n1", "qemu+tcp://127.0.0.1:1/system" });
    g_hash_table_insert(host->marks, g_strdup("11111111-2222-3333-4444-555555555555 1"), g_strdup("<node/>"));
    guint before = host->forgotten;
    weft_vir_host_lose(host, host->conn);
    g_assert_cmpuint(g_hash_table_size(host->marks), ==, 0);
    g_assert_cmpuint(host->forgotten, !=, before); /* a look under way puts back nothing that it asked for before */
}

/* Each message that goes over a connection is several lines of these. */
static void
ignore_log(const char *domain, GLogLevelFlags level, const char *message, gpointer data)
{
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_log_set_handler(NULL, G_LOG_LEVEL_DEBUG, ignore_log, NULL);
    g_test_add_func("/libvirt/inventory/two-sockets", reads_two_sockets);
    g_test_add_func("/libvirt/inventory/report", reads_report);
    g_test_add_func("/libvirt/inventory/hca-by-report", takes_what_the_host_calls_an_hca);
    g_test_add_func("/libvirt/inventory/refuses-reports", refuses_reports);
    g_test_add_func("/libvirt/inventory/odd-capabilities", bears_odd_capabilities);
    g_test_add_func("/libvirt/inventory/other-texts", refuses_other_texts);
    g_test_add_func("/libvirt/files/where-nodes-find-them", refuses_pool_of_another_folder);
    g_test_add_func("/libvirt/files/for-nobody-else", lets_nobody_read_its_volumes);
    g_test_add_func("/libvirt/errors/hook", finds_hook_text);
    g_test_add_func("/libvirt/errors/explained", explains_what_is_not_plain);
    g_test_add_func("/libvirt/errors/with-name", tells_error_with_name);
    g_test_add_func("/libvirt/hosts/closed-port", refuses_closed_port);
    g_test_add_func("/libvirt/hosts/dials-once", dials_once);
    g_test_add_func("/libvirt/hosts/cancels-while-dialling", cancels_while_dialling);
    g_test_add_func("/libvirt/hosts/forgets-marks", forgets_marks_with_the_connection);
    return g_test_run();
}
