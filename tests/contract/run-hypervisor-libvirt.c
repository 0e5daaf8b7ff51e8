/* The suite on real hosts. It runs where weftd would and needs WEFT_LAB_URIS, "NAME=URI NAME=URI", two hosts that it may empty;
 * where those names are network interfaces here, it also cuts their links. Without it everything is skipped. */
#include "errors.h"
#include "hypervisor-moves.h"
#include "hypervisor-site.h"
#include "libvirt-hypervisor.h"

#include <dlfcn.h>
#include <libvirt/libvirt-qemu.h>
#include <libvirt/libvirt.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#define NAMESPACE "https://weft.dev/xmlns/domain/1"

/* Some hosts are lost here, which takes as long to find out; others are only slow on a busy machine. */
static const WeftLibvirtOptions options = {
    .dial_limit = 10 * G_USEC_PER_SEC,
    .keepalive = 2,
    .keepalive_count = 4,
    .abandoned_max = 8,
    .backoff = { .base = G_USEC_PER_SEC / 20, .max = G_USEC_PER_SEC / 2 },
};

static WeftHypervisorFixture real;

static const char *
uri_of(const char *host)
{
    return g_str_equal(host, real.hosts[0].name) ? real.hosts[0].uri : real.hosts[1].uri;
}

static virConnect *
connect_to(const char *host)
{
    virConnect *conn = virConnectOpen(uri_of(host));
    g_assert_nonnull(conn);
    return conn;
}

/* --- emptying a host --- */

static void
remove_domains(virConnect *conn)
{
    virDomain **domains;
    int n = virConnectListAllDomains(conn, &domains, 0);
    for (int i = 0; i < n; i++) {
        virDomainDestroy(domains[i]);
        virDomainFree(domains[i]);
    }
    free(domains);
}

static void
remove_networks(virConnect *conn)
{
    virNetwork **networks;
    int n = virConnectListAllNetworks(conn, &networks, 0);
    for (int i = 0; i < n; i++) {
        virNetworkDestroy(networks[i]);
        virNetworkFree(networks[i]);
    }
    free(networks);
}

/* Whatever a test left there is for the hypervisor's user alone. libvirt lists some whose files are gone. */
static void
check_mode(virStorageVol *volume)
{
    char *xml = virStorageVolGetXMLDesc(volume, 0);
    if (xml && !strstr(xml, "<mode>0600</mode>"))
        g_error("others may read volume %s: %s", virStorageVolGetName(volume), xml);
    free(xml);
}

static void
remove_volumes(virConnect *conn, const char *name)
{
    virStorageVol **volumes = NULL;
    virStoragePool *pool = virStoragePoolLookupByName(conn, name);
    int n = pool ? virStoragePoolListAllVolumes(pool, &volumes, 0) : 0;
    for (int i = 0; i < n; i++) {
        check_mode(volumes[i]);
        virStorageVolDelete(volumes[i], 0);
        virStorageVolFree(volumes[i]);
    }
    free(volumes);
    if (pool)
        virStoragePoolFree(pool);
}

static void
empty_hosts(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(real.hosts); i++) {
        virConnect *conn = connect_to(real.hosts[i].name);
        remove_domains(conn);
        remove_networks(conn);
        remove_volumes(conn, WEFT_POOL);
        remove_volumes(conn, "weft-fork");
        virConnectClose(conn);
    }
}

static gpointer
real_create(void)
{
    empty_hosts();
    return NULL;
}

static void
real_destroy(gpointer world)
{
    empty_hosts();
}

/* --- the driver, and what happens to its hosts --- */

static WeftHypervisor *
real_open(gpointer world)
{
    g_autoptr(GError) error = NULL;
    WeftHypervisor *hv = weft_hypervisor_libvirt_new(&options, &error);
    g_assert_no_error(error);
    return hv;
}

#define DOMAIN_FORMAT                                                                                                          \
    "<domain type='qemu'><name>%s</name>%s<memory unit='MiB'>%u</memory><vcpu>1</vcpu>"                                        \
    "<os><type arch='x86_64' machine='q35'>hvm</type><bios useserial='yes'/></os><features><acpi/></features>"                 \
    "<devices><controller type='usb' model='none'/><controller type='pci' model='pcie-root'/>"                                 \
    "<controller type='pci' model='pcie-root-port'/><controller type='pci' model='pcie-root-port'/>"                           \
    "<controller type='pci' model='pcie-root-port'/>"                                                                          \
    "<channel type='unix'><target type='virtio' name='dev.weft.guest.0'/></channel>"                                           \
    "<serial type='pty'><target port='0'/></serial><console type='pty'><target type='serial' port='0'/></console>"             \
    "<memballoon model='none'/></devices></domain>"

static char *
real_definition(const char *node, guint memory_mib)
{
    g_autofree char *name = g_strdup_printf("weft-%s", node);
    g_autofree char *mark =
        g_strdup_printf("<metadata><weft:node xmlns:weft='" NAMESPACE "' id='%s' tenant='acme' rank='0' hostname='cfd-0' "
                        "path='bridge' mac='02:00:00:00:00:01'><weft:cluster id='4k2m8w9x1a2b' name='cfd'/>"
                        "<weft:partition pkey='0x0001' vxlan='10001' bridge='weft10001'/></weft:node></metadata>",
                        node);
    return g_strdup_printf(DOMAIN_FORMAT, name, mark, memory_mib);
}

static char *
real_device(void)
{
    return g_strdup("<interface type='bridge'><mac address='02:00:00:00:00:01'/><source bridge='weft10001'/>"
                    "<target dev='wef020000000001'/><model type='virtio'/><mtu size='1450'/><alias name='ua-net0'/>"
                    "<rom enabled='no'/></interface>");
}

static char *
real_disk(const char *node, const char *digest)
{
    return g_strdup_printf("<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>"
                           "<source file='" WEFT_POOL_PATH "/weft-%s.disk'/><backingStore type='file'><format type='raw'/>"
                           "<source file='" WEFT_POOL_PATH "/image-%s'/><backingStore/></backingStore>"
                           "<target dev='vda' bus='virtio'/></disk>",
                           node, digest);
}

#define CLUSTER 65536u /* what a layer has in one piece */

/* As its guest would, by QEMU's monitor. */
static void
real_write(gpointer world, const char *host, const char *name, char byte)
{
    char *answer = NULL;
    g_autofree char *line = g_strdup_printf("qemu-io -d /machine/peripheral/virtio-disk0/virtio-backend \"write -P %u %u %u\"",
                                            (guint)byte, CLUSTER, CLUSTER);
    virConnect *conn = connect_to(host);
    virDomain *domain = virDomainLookupByName(conn, name);
    g_assert_nonnull(domain);
    g_assert_cmpint(virDomainQemuMonitorCommand(domain, line, &answer, VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP), ==, 0);
    g_assert_null(strstr(answer, "rror"));
    free(answer);
    virDomainFree(domain);
    virConnectClose(conn);
}

static int
add_to_bytes(virStream *stream, const char *data, size_t length, void *bytes)
{
    g_byte_array_append(bytes, (const guint8 *)data, (guint)length);
    return (int)length;
}

static GByteArray *
read_volume(virConnect *conn, virStorageVol *volume)
{
    GByteArray *bytes = g_byte_array_new();
    virStream *stream = virStreamNew(conn, 0);
    g_assert_nonnull(volume);
    g_assert_cmpint(virStorageVolDownload(volume, stream, 0, 0, 0), ==, 0);
    g_assert_cmpint(virStreamRecvAll(stream, add_to_bytes, bytes), ==, 0);
    g_assert_cmpint(virStreamFinish(stream), ==, 0);
    virStreamFree(stream);
    virStorageVolFree(volume);
    return bytes;
}

/* In the file that it writes to now: what QEMU's command reads it tells nobody. */
static gboolean
real_has(gpointer world, const char *host, const char *name, char byte)
{
    g_autofree char *wanted = g_strnfill(CLUSTER, byte);
    virConnect *conn = connect_to(host);
    virDomain *domain = virDomainLookupByName(conn, name);
    char *xml = virDomainGetXMLDesc(domain, 0);
    const char *from = strstr(xml, "<source file='" WEFT_POOL_PATH);
    g_assert_nonnull(from);
    from += strlen("<source file='");
    g_autofree char *path = g_strndup(from, strcspn(from, "'"));
    g_autoptr(GByteArray) bytes = read_volume(conn, virStorageVolLookupByPath(conn, path));
    free(xml);
    virDomainFree(domain);
    virConnectClose(conn);
    return memmem(bytes->data, bytes->len, wanted, CLUSTER) != NULL;
}

static int
add_to_sum(virStream *stream, const char *data, size_t length, void *sum)
{
    g_checksum_update(sum, (const guchar *)data, (gssize)length);
    return (int)length;
}

static char *
real_image_sum(gpointer world, const char *host, const char *digest)
{
    virConnect *conn = connect_to(host);
    g_autofree char *path = g_strdup_printf(WEFT_POOL_PATH "/image-%s", digest);
    virStorageVol *volume = virStorageVolLookupByPath(conn, path);
    g_assert_nonnull(volume);
    virStream *stream = virStreamNew(conn, 0);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_assert_cmpint(virStorageVolDownload(volume, stream, 0, 0, 0), ==, 0);
    g_assert_cmpint(virStreamRecvAll(stream, add_to_sum, sum), ==, 0);
    g_assert_cmpint(virStreamFinish(stream), ==, 0);
    virStreamFree(stream);
    virStorageVolFree(volume);
    virConnectClose(conn);
    return g_strdup(g_checksum_get_string(sum));
}

static void
real_put_file(gpointer world, const char *host, const char *name, const char *text)
{
    virConnect *conn = connect_to(host);
    virStoragePool *pool = virStoragePoolLookupByName(conn, WEFT_POOL);
    virStream *stream = virStreamNew(conn, 0);
    g_autofree char *xml = g_strdup_printf("<volume><name>%s</name><capacity>%zu</capacity><target><format type='raw'/>"
                                           "<permissions><mode>0600</mode></permissions></target></volume>",
                                           name, strlen(text));
    virStorageVol *volume = virStorageVolCreateXML(pool, xml, 0);
    g_assert_nonnull(volume);
    g_assert_cmpint(virStorageVolUpload(volume, stream, 0, strlen(text), 0), ==, 0);
    g_assert_cmpint(virStreamSend(stream, text, strlen(text)), ==, (int)strlen(text));
    g_assert_cmpint(virStreamFinish(stream), ==, 0);
    virStorageVolFree(volume);
    virStreamFree(stream);
    virStoragePoolFree(pool);
    virConnectClose(conn);
}

static char *
real_file_text(gpointer world, const char *host, const char *name)
{
    virConnect *conn = connect_to(host);
    virStoragePool *pool = virStoragePoolLookupByName(conn, WEFT_POOL);
    virStorageVol *volume = virStorageVolLookupByName(pool, name);
    g_autoptr(GByteArray) bytes = volume ? read_volume(conn, volume) : NULL;
    virStoragePoolFree(pool);
    virConnectClose(conn);
    return bytes ? g_strndup((const char *)bytes->data, bytes->len) : NULL;
}

static void
real_add_foreign(gpointer world, const char *host, const char *name)
{
    virConnect *conn = connect_to(host);
    g_autofree char *xml = g_strdup_printf(DOMAIN_FORMAT, name, "", 64u);
    virDomain *domain = virDomainCreateXML(conn, xml, 0);
    g_assert_nonnull(domain);
    virDomainFree(domain);
    virConnectClose(conn);
}

static void
real_end_domain(gpointer world, const char *host, const char *name)
{
    virConnect *conn = connect_to(host);
    virDomain *domain = virDomainLookupByName(conn, name);
    g_assert_nonnull(domain);
    g_assert_cmpint(virDomainDestroy(domain), ==, 0);
    virDomainFree(domain);
    virConnectClose(conn);
}

static void
real_reboot(gpointer world, const char *host, const char *name)
{
    virConnect *conn = connect_to(host);
    virDomain *domain = virDomainLookupByName(conn, name);
    g_assert_nonnull(domain);
    g_assert_cmpint(virDomainReset(domain, 0), ==, 0);
    virDomainFree(domain);
    virConnectClose(conn);
}

/* Every fault is a cable that is cut: what was asked hangs, and nobody answers. */
static void
real_fault(gpointer world, const char *host, const char *line)
{
    g_autoptr(GError) error = NULL;
    int status = 0;
    const char *argv[] = { "ip", "link", "set", host, line ? "down" : "up", NULL };
    g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, &status, &error);
    g_assert_no_error(error);
    g_assert_true(g_spawn_check_wait_status(status, NULL));
}

/* --- two weftd that start the same node, whose files have the same names --- */

/* What another weftd does right before the driver makes its next domain, or volume: libvirt's functions are found here first.
 */
static struct {
    void (*before_domain)(void);
    void (*before_volume)(void);
} interjected;

static void
interject(void (**act)(void))
{
    void (*now)(void) = g_atomic_pointer_exchange(act, NULL);
    if (now)
        now();
}

virDomain *
virDomainCreateXML(virConnect *conn, const char *xml, unsigned int flags)
{
    virDomain *(*create)(virConnect *, const char *, unsigned int) = dlsym(RTLD_NEXT, "virDomainCreateXML");
    interject(&interjected.before_domain);
    return create(conn, xml, flags);
}

virStorageVol *
virStorageVolCreateXML(virStoragePool *pool, const char *xml, unsigned int flags)
{
    virStorageVol *(*create)(virStoragePool *, const char *, unsigned int) = dlsym(RTLD_NEXT, "virStorageVolCreateXML");
    interject(&interjected.before_volume);
    return create(pool, xml, flags);
}

#define INSTANCE "0bbbbbbbbbbb"
#define FIRST "0rrrrrrrrrrr"
#define SECOND "0sssssssssss"

static Site
open_site(void)
{
    return (Site){ .fixture = &real, .hv = real_open(NULL), .host = &real.hosts[0] };
}

/* What is left of the seed counts first, and then how the start ended. */
static void
start_first(Site *site, const char *seed)
{
    GError *error = NULL;
    g_autofree char *xml = real_definition(NODE, 256);
    g_autoptr(GBytes) bytes = g_bytes_new_static("the first's", strlen("the first's"));
    gboolean ok =
        site->hv->ops->start(site->hv, site->host, &(WeftStart){ .xml = xml, .seed = bytes, .run = FIRST }, NULL, &error);
    g_autofree char *left = real_file_text(NULL, site->host->name, "weft-" NODE ".seed");
    g_assert_cmpstr(left, ==, seed);
    expect(ok, error, WEFT_ERROR_DENIED);
}

/* The other one finds files of the first, claims the host and starts its own. */
static void
start_as_owner(void)
{
    Site site = open_site();
    expect_claim(&site, INSTANCE, SECOND, FIRST, FALSE, WEFT_OWNER_GRANTED);
    start_by(&site, SECOND, 256, NULL, WEFT_ERROR_DENIED);
    start_by(&site, NULL, 256, NULL, OK);
    weft_hypervisor_free(site.hv);
}

static void
put_another_seed(void)
{
    real_put_file(NULL, real.hosts[0].name, "weft-" NODE ".seed", "another's");
}

/* The first has made its files when the other one has the host: these are the other's when its own start fails. */
static void
start_loses_host(void)
{
    real_create();
    Site site = open_site();
    expect_claim(&site, INSTANCE, FIRST, NULL, TRUE, WEFT_OWNER_GRANTED);
    g_atomic_pointer_set(&interjected.before_domain, start_as_owner);
    start_first(&site, SEED);
    expect_listing(&site, "weft-" NODE ":" NODE);
    weft_hypervisor_free(site.hv);
    real_destroy(NULL);
}

/* Both find no file, and the other one makes its own first. */
static void
start_meets_file(void)
{
    real_create();
    Site site = open_site();
    expect_claim(&site, INSTANCE, FIRST, NULL, TRUE, WEFT_OWNER_GRANTED);
    start_by(&site, SECOND, 256, NULL, WEFT_ERROR_DENIED); /* there is a pool from here on */
    g_atomic_pointer_set(&interjected.before_volume, put_another_seed);
    start_first(&site, "another's");
    start_by(&site, NULL, 256, NULL, OK);
    weft_hypervisor_free(site.hv);
    real_destroy(NULL);
}

/* --- main --- */

/* Each message that goes over a connection is several lines of these. */
static void
ignore_log(const char *domain, GLogLevelFlags level, const char *message, gpointer data)
{
}

static WeftHypervisorFixture real = {
    .name = "libvirt",
    .create = real_create,
    .open = real_open,
    .destroy = real_destroy,
    .definition = real_definition,
    .device = real_device,
    .disk = real_disk,
    .write = real_write,
    .has = real_has,
    .crowd = 2,
    .tells = TRUE,
    .has_hook = TRUE,
    .image_sum = real_image_sum,
    .put_file = real_put_file,
    .file_text = real_file_text,
    .add_foreign = real_add_foreign,
    .end_domain = real_end_domain,
    .reboot = real_reboot,
};

static gboolean
read_hosts(const char *text)
{
    g_auto(GStrv) words = g_strsplit(text, " ", 2);
    for (guint i = 0; i < G_N_ELEMENTS(real.hosts); i++) {
        const char *equals = words[0] && words[i] ? strchr(words[i], '=') : NULL;
        if (!equals)
            return FALSE;
        real.hosts[i] = (WeftHostAddress){ g_strndup(words[i], (gsize)(equals - words[i])), g_strdup(equals + 1) };
    }
    if (if_nametoindex(real.hosts[0].name) > 0)
        real.fault = real_fault;
    return TRUE;
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    const char *uris = g_getenv("WEFT_LAB_URIS");
    if (!uris) {
        g_print("1..0 # SKIP WEFT_LAB_URIS names no hosts\n");
        return 0;
    }
    g_assert_true(read_hosts(uris));
    g_log_set_handler(NULL, G_LOG_LEVEL_DEBUG, ignore_log, NULL);
    weft_hypervisor_free(real_open(NULL)); /* whoever comes first decides for libvirt's event loop */

    weft_hypervisor_contract_add(&real);
    weft_hypervisor_moves_add(&real);
    g_test_add_func("/hypervisor/libvirt/start-loses-host", start_loses_host);
    g_test_add_func("/hypervisor/libvirt/start-meets-file", start_meets_file);
    int failed = weft_hypervisor_contract_run();
    for (guint i = 0; i < G_N_ELEMENTS(real.hosts); i++) {
        g_free((char *)real.hosts[i].name);
        g_free((char *)real.hosts[i].uri);
    }
    return failed;
}
