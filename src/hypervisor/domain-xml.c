#include "domain-xml.h"

#include "domain-xml-private.h"
#include "hypervisor.h"
#include "network.h"

#include <string.h>

#define CONSOLE "console="

/* A version 5 UUID of the URL "NAMESPACE/<node id>": the same node is the same domain wherever and whenever it is defined. */
static char *
node_uuid(const char *id)
{
    static const guint8 url_namespace[16] = { 0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1,
                                              0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8 };
    g_autofree char *url = g_strdup_printf("%s/%s", WEFT_DOMAIN_NAMESPACE, id);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA1);
    g_checksum_update(sum, url_namespace, sizeof url_namespace);
    g_checksum_update(sum, (const guint8 *)url, strlen(url));

    guint8 b[20];
    gsize length = sizeof b;
    g_checksum_get_digest(sum, b, &length);
    b[6] = (b[6] & 0x0f) | 0x50;
    b[8] = (b[8] & 0x3f) | 0x80;
    return g_strdup_printf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
                           b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static void
write_identity(WeftXml *xml, const WeftNode *node)
{
    g_autofree char *name = weft_node_domain(node);
    g_autofree char *uuid = node_uuid(node->id);
    g_autofree char *label = weft_node_label(node);
    g_autofree char *title = g_strdup_printf("%s/%s", node->tenant, label);
    weft_xml_element(xml, "name", name);
    weft_xml_element(xml, "uuid", uuid);
    weft_xml_element(xml, "title", title);
}

/* --- weft's mark, and what the hook on the host needs to know: see domain-xml.h --- */

static void
write_pci_mark(WeftXml *xml, const char *name, const char *address)
{
    WeftPci pci;
    if (!address || !weft_pci_parse(address, &pci))
        return;
    g_autofree char *text = weft_pci_format(&pci);
    weft_xml_attribute(xml, name, text);
}

static void
write_shared_mark(WeftXml *xml, const GArray *keys)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < keys->len; i++)
        g_string_append_printf(text, "%s0x%04x", i ? " " : "", g_array_index(keys, guint16, i));
    weft_xml_attribute(xml, "shared", text->str);
}

static void
write_device_mark(WeftXml *xml, const WeftDomainSpec *spec, const WeftDevice *device)
{
    const WeftHca *hca = weft_host_hca(spec->host, device->hca);
    gboolean whole = device->vf < 0;
    const char *address = whole ? hca->pci : (guint)device->vf < hca->vf_pci->len ? hca->vf_pci->pdata[device->vf] : NULL;
    weft_xml_begin(xml, "weft:device");
    weft_xml_attribute_format(xml, "rail", "%u", device->rail);
    weft_xml_attribute(xml, "hca", device->hca);
    weft_xml_attribute(xml, "driver", weft_hca_driver_words[hca->driver]);
    if (!whole)
        weft_xml_attribute_format(xml, "vf", "%d", device->vf);
    write_pci_mark(xml, "pci", address);
    write_pci_mark(xml, "pf", hca->pci);
    if (!whole)
        weft_xml_attribute_format(xml, "guid", "0x%016" G_GINT64_MODIFIER "x", device->guid);
    weft_xml_attribute_format(xml, "pkey", "0x%04x", spec->pkey);
    if (spec->shared && spec->shared->len)
        write_shared_mark(xml, spec->shared);
    if (spec->parted)
        weft_xml_attribute(xml, "plugged", "later");
    weft_xml_end(xml);
}

static void
write_gpu_mark(WeftXml *xml, const WeftDomainSpec *spec, const char *name)
{
    weft_xml_begin(xml, "weft:gpu");
    weft_xml_attribute(xml, "name", name);
    if (spec->parted)
        weft_xml_attribute(xml, "plugged", "later");
    weft_xml_end(xml);
}

static void
write_partition(WeftXml *xml, const WeftDomainSpec *spec)
{
    g_autofree char *bridge = weft_network_bridge(spec->vxlan);
    weft_xml_begin(xml, "weft:partition");
    weft_xml_attribute_format(xml, "pkey", "0x%04x", spec->pkey);
    weft_xml_attribute_format(xml, "vxlan", "%u", spec->vxlan);
    weft_xml_attribute(xml, "bridge", bridge);
    weft_xml_end(xml);
}

static void
write_metadata(WeftXml *xml, const WeftDomainSpec *spec)
{
    const WeftNode *node = spec->node;
    g_autofree char *hostname = weft_node_hostname(node);

    weft_xml_begin(xml, "metadata");
    weft_xml_begin(xml, "weft:node");
    weft_xml_attribute(xml, "xmlns:weft", WEFT_DOMAIN_NAMESPACE);
    weft_xml_attribute(xml, "id", node->id);
    weft_xml_attribute(xml, "tenant", node->tenant);
    weft_xml_attribute_format(xml, "rank", "%u", node->rank);
    weft_xml_attribute(xml, "hostname", hostname);
    weft_xml_attribute(xml, "path", weft_path_words[node->path]);
    weft_xml_attribute(xml, "mac", node->mac);
    if (spec->site)
        weft_xml_attribute(xml, "site", spec->site);
    if (spec->site && node->placement)
        weft_xml_attribute(xml, "placement", node->placement);
    weft_xml_empty(xml, "weft:cluster", "id", node->cluster, "name", node->cluster_name);
    write_partition(xml, spec);
    for (guint i = 0; i < node->devices->len; i++)
        write_device_mark(xml, spec, node->devices->pdata[i]);
    for (guint i = 0; i < node->gpus->len; i++)
        write_gpu_mark(xml, spec, node->gpus->pdata[i]);
    if (spec->record)
        weft_xml_element(xml, "weft:record", spec->record);
    weft_xml_end(xml);
    weft_xml_end(xml);
}

/* --- how it boots --- */

static void
write_boot_file(WeftXml *xml, const char *element, const WeftImageFile *file)
{
    if (!file)
        return;
    g_autofree char *name = weft_image_file_name(file->digest);
    g_autofree char *path = g_build_filename(WEFT_POOL_PATH, name, NULL);
    weft_xml_element(xml, element, path);
}

/* An image that names consoles of its own knows which it wants; the others' is the one that weft reads. */
static char *
command_line(const char *own)
{
    if (!own)
        return g_strdup(CONSOLE "ttyS0");
    if (g_str_has_prefix(own, CONSOLE) || strstr(own, " " CONSOLE))
        return g_strdup(own);
    return g_strconcat(CONSOLE "ttyS0 ", own, NULL);
}

static void
write_os(WeftXml *xml, const WeftImage *image)
{
    weft_xml_begin(xml, "os");
    weft_xml_begin(xml, "type");
    weft_xml_attribute(xml, "arch", "x86_64");
    weft_xml_attribute(xml, "machine", "q35");
    weft_xml_text(xml, "hvm");
    weft_xml_end(xml);
    if (image && image->kernel) {
        g_autofree char *cmdline = command_line(image->cmdline);
        write_boot_file(xml, "kernel", image->kernel);
        write_boot_file(xml, "initrd", image->initrd);
        weft_xml_element(xml, "cmdline", cmdline);
    } else if (image) {
        weft_xml_empty(xml, "boot", "dev", "hd");
    }
    weft_xml_end(xml);
}

/* A node that ends stays ended: the reconciler decides what becomes of it. */
static void
write_machine(WeftXml *xml, const WeftDomainSpec *spec)
{
    weft_xml_begin(xml, "features");
    weft_xml_empty(xml, "acpi");
    weft_xml_empty(xml, "apic");
    weft_xml_end(xml);
    weft_domain_write_cpu(xml, spec);
    weft_xml_empty(xml, "clock", "offset", "utc");
    weft_xml_element(xml, "on_poweroff", "destroy");
    weft_xml_element(xml, "on_reboot", "restart");
    weft_xml_element(xml, "on_crash", "destroy");
    weft_xml_begin(xml, "pm");
    weft_xml_empty(xml, "suspend-to-mem", "enabled", "no");
    weft_xml_empty(xml, "suspend-to-disk", "enabled", "no");
    weft_xml_end(xml);
}

static void
write_domain(WeftXml *xml, const WeftDomainSpec *spec, GArray *passthroughs, guint index)
{
    weft_xml_begin(xml, "domain");
    weft_xml_attribute(xml, "type", spec->tcg ? "qemu" : "kvm");
    write_identity(xml, spec->node);
    write_metadata(xml, spec);
    weft_domain_write_memory(xml, spec);
    weft_domain_write_vcpus(xml, spec);
    weft_domain_write_numatune(xml, spec);
    write_os(xml, spec->image);
    write_machine(xml, spec);
    weft_domain_write_devices(xml, spec, passthroughs);
    weft_xml_end(xml);
}

/* What was written by the function; NULL: it failed. */
typedef void (*Write)(WeftXml *xml, const WeftDomainSpec *spec, GArray *passthroughs, guint index);

static char *
format(const WeftDomainSpec *spec, GArray *passthroughs, Write write, guint index, GError **error)
{
    xmlBuffer *buffer = xmlBufferCreate();
    WeftXml xml = { .writer = xmlNewTextWriterMemory(buffer, 0) };
    xmlTextWriterSetIndent(xml.writer, 1);
    xmlTextWriterSetIndentString(xml.writer, BAD_CAST "  ");
    write(&xml, spec, passthroughs, index);
    xmlFreeTextWriter(xml.writer);

    char *text = xml.error ? NULL : g_strdup((const char *)xmlBufferContent(buffer));
    xmlBufferFree(buffer);
    if (!text)
        g_propagate_prefixed_error(error, xml.error, "node %s: ", spec->node->id);
    return text;
}

char *
weft_domain_xml_format(const WeftDomainSpec *spec, GError **error)
{
    g_autoptr(GArray) passthroughs = weft_domain_check(spec, error);
    return passthroughs ? format(spec, passthroughs, write_domain, 0, error) : NULL;
}

static void
write_nic(WeftXml *xml, const WeftDomainSpec *spec, GArray *passthroughs, guint index)
{
    weft_domain_write_nic(xml, spec, WEFT_DOMAIN_NIC);
}

char *
weft_domain_nic_format(const WeftDomainSpec *spec, GError **error)
{
    return format(spec, NULL, write_nic, 0, error);
}

static void
write_part(WeftXml *xml, const WeftDomainSpec *spec, GArray *passthroughs, guint index)
{
    const WeftPassthrough *device = NULL;
    for (guint i = 0; i < passthroughs->len && !device; i++) {
        const WeftPassthrough *other = &g_array_index(passthroughs, WeftPassthrough, i);
        if (other->part == index)
            device = other;
    }
    weft_domain_write_part(xml, spec, index, device);
}

char *
weft_domain_device_format(const WeftDomainSpec *spec, guint index, GError **error)
{
    g_autoptr(GArray) passthroughs = weft_domain_check(spec, error);
    return passthroughs ? format(spec, passthroughs, write_part, index, error) : NULL;
}
