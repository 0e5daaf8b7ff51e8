#include "domain-xml-private.h"
#include "hypervisor.h"
#include "protocol.h"

#define BUS_NUMBERS 256 /* of a PCI domain */
#define SHM_SLOT "0x10" /* on the root bus; libvirt fills it from below, with ports */
#define QUEUES_MAX 8

/* The guest's PCIe tree: a port on the root bus for each device, some spare; and an expander bus for each set of devices that
 * are neighbours on the host, so that the guest sees which adapter is near to which GPU and to which memory. */
typedef struct Expander {
    const char *root; /* of the host; NULL: unknown */
    guint numa;       /* of the host */
    GArray *members;  /* guint, of passthroughs */
    guint index;      /* of its controller; its ports follow */
} Expander;

typedef struct Tree {
    WeftXml *xml;
    const WeftDomainSpec *spec;
    GArray *passthroughs;
    GPtrArray *expanders;
    GArray *expanded; /* Expander *, by passthrough; NULL: on the root bus */
} Tree;

static void
expander_free(Expander *expander)
{
    g_array_unref(expander->members);
    g_free(expander);
}

static void
pci_address(WeftXml *xml, const WeftPci *pci, const char *type)
{
    weft_xml_begin(xml, "address");
    if (type)
        weft_xml_attribute(xml, "type", type);
    weft_xml_attribute_format(xml, "domain", "0x%04x", pci->domain);
    weft_xml_attribute_format(xml, "bus", "0x%02x", pci->bus);
    weft_xml_attribute_format(xml, "slot", "0x%02x", pci->slot);
    weft_xml_attribute_format(xml, "function", "0x%x", pci->function);
    weft_xml_end(xml);
}

/* --- neighbours --- */

static gboolean
are_neighbours(const WeftPassthrough *a, const WeftPassthrough *b)
{
    return a->numa == b->numa && a->root && b->root && g_str_equal(a->root, b->root);
}

/* Where the guest has one cell, a device alone gains nothing by a bus of its own. */
static gboolean
wants_expander(const Tree *tree, guint index)
{
    const WeftPassthrough *device = &g_array_index(tree->passthroughs, WeftPassthrough, index);
    if (weft_domain_cell(tree->spec, device->numa) >= 0)
        return TRUE;
    for (guint i = 0; i < tree->passthroughs->len; i++) {
        if (i != index && are_neighbours(device, &g_array_index(tree->passthroughs, WeftPassthrough, i)))
            return TRUE;
    }
    return FALSE;
}

static Expander *
expander_for(Tree *tree, const WeftPassthrough *device)
{
    for (guint i = 0; i < tree->expanders->len; i++) {
        Expander *expander = tree->expanders->pdata[i];
        if (expander->numa == device->numa && g_strcmp0(expander->root, device->root) == 0)
            return expander;
    }
    Expander *expander = g_new0(Expander, 1);
    expander->root = device->root;
    expander->numa = device->numa;
    expander->members = g_array_new(FALSE, FALSE, sizeof(guint));
    g_ptr_array_add(tree->expanders, expander);
    return expander;
}

static void
find_neighbours(Tree *tree)
{
    for (guint i = 0; i < tree->passthroughs->len; i++) {
        Expander *expander = NULL;
        if (!tree->spec->parted && wants_expander(tree, i)) {
            expander = expander_for(tree, &g_array_index(tree->passthroughs, WeftPassthrough, i));
            g_array_append_val(expander->members, i);
        }
        g_array_append_val(tree->expanded, expander);
    }
}

/* --- controllers --- */

static guint
count_disks(const WeftImage *image)
{
    return image ? (image->disk ? 2 : 1) : 0;
}

/* The guest's network, virtio-serial and random numbers, its disks, and what is passed through to the root bus. */
static guint
count_ports(const Tree *tree)
{
    guint count = 3 + count_disks(tree->spec->image) + WEFT_DOMAIN_SPARE_PORTS;
    for (guint i = 0; i < tree->expanded->len; i++)
        count += g_array_index(tree->expanded, Expander *, i) == NULL;
    return count;
}

static void
begin_controller(WeftXml *xml, guint index, const char *model)
{
    weft_xml_begin(xml, "controller");
    weft_xml_attribute(xml, "type", "pci");
    weft_xml_attribute_format(xml, "index", "%u", index);
    weft_xml_attribute(xml, "model", model);
}

static void
write_expander(const Tree *tree, const Expander *expander, guint bus_number)
{
    WeftXml *xml = tree->xml;
    int cell = weft_domain_cell(tree->spec, expander->numa);
    begin_controller(xml, expander->index, "pcie-expander-bus");
    weft_xml_begin(xml, "target");
    weft_xml_attribute_format(xml, "busNr", "%u", bus_number);
    if (cell >= 0) {
        g_autofree char *node = g_strdup_printf("%d", cell);
        weft_xml_element(xml, "node", node);
    }
    weft_xml_end(xml);
    weft_xml_end(xml);
    for (guint i = 0; i < expander->members->len; i++) {
        begin_controller(xml, expander->index + 1 + i, "pcie-root-port");
        pci_address(xml, &(WeftPci){ .bus = expander->index, .slot = i }, "pci");
        weft_xml_end(xml);
    }
}

/* libvirt gives the root bus's ports their addresses, and the devices that have none their port. */
static void
write_controllers(Tree *tree)
{
    guint index = 0, numbers = 0;
    begin_controller(tree->xml, index++, "pcie-root");
    weft_xml_end(tree->xml);
    for (guint ports = count_ports(tree); ports > 0; ports--) {
        begin_controller(tree->xml, index++, "pcie-root-port");
        weft_xml_end(tree->xml);
    }
    for (guint i = 0; i < tree->expanders->len; i++)
        numbers += 1 + ((const Expander *)tree->expanders->pdata[i])->members->len;
    /* Bus numbers from the end, as many as each has ports: libvirt's own choice leaves room for one port only. */
    for (guint i = 0; i < tree->expanders->len; i++) {
        Expander *expander = tree->expanders->pdata[i];
        expander->index = index;
        write_expander(tree, expander, BUS_NUMBERS - numbers);
        index += 1 + expander->members->len;
        numbers -= 1 + expander->members->len;
    }
    weft_xml_empty(tree->xml, "controller", "type", "usb", "index", "0", "model", "none");
    /* As many as there are channels, and one that the device keeps for itself: QEMU would make and watch queues for 31. */
    weft_xml_empty(tree->xml, "controller", "type", "virtio-serial", "index", "0", "ports", "3");
}

/* --- what is passed through --- */

static guint
place_among(const GArray *members, guint wanted)
{
    guint i = 0;
    while (g_array_index(members, guint, i) != wanted)
        i++;
    return i;
}

static void
write_alias(WeftXml *xml, const WeftNode *node, guint part)
{
    gboolean adapter = part < node->devices->len;
    guint number = adapter ? ((const WeftDevice *)node->devices->pdata[part])->rail : part - node->devices->len;
    weft_xml_begin(xml, "alias");
    weft_xml_attribute_format(xml, "name", adapter ? WEFT_DOMAIN_RAIL "%u" : WEFT_DOMAIN_GPU "%u", number);
    weft_xml_end(xml);
}

/* managed: libvirt takes the device from the host's driver and gives it back. */
static void
begin_hostdev(WeftXml *xml, const WeftPassthrough *device)
{
    weft_xml_begin(xml, "hostdev");
    weft_xml_attribute(xml, "mode", "subsystem");
    weft_xml_attribute(xml, "type", "pci");
    weft_xml_attribute(xml, "managed", "yes");
    weft_xml_empty(xml, "driver", "name", "vfio");
    weft_xml_begin(xml, "source");
    if (device)
        pci_address(xml, &device->pci, NULL);
    weft_xml_end(xml);
    /* Nothing boots from the fabric, and an adapter's option ROM costs seconds; a GPU's driver may want the GPU's. */
    if (device && device->adapter)
        weft_xml_empty(xml, "rom", "enabled", "no");
}

void
weft_domain_write_part(WeftXml *xml, const WeftDomainSpec *spec, guint part, const WeftPassthrough *device)
{
    begin_hostdev(xml, device);
    write_alias(xml, spec->node, part);
    weft_xml_end(xml);
}

static void
write_hostdev(const Tree *tree, guint index)
{
    WeftXml *xml = tree->xml;
    const WeftPassthrough *device = &g_array_index(tree->passthroughs, WeftPassthrough, index);
    const Expander *expander = g_array_index(tree->expanded, Expander *, index);
    begin_hostdev(xml, device);
    write_alias(xml, tree->spec->node, device->part);
    if (expander)
        pci_address(xml, &(WeftPci){ .bus = expander->index + 1 + place_among(expander->members, index) }, "pci");
    weft_xml_end(xml);
}

static void
write_tree(WeftXml *xml, const WeftDomainSpec *spec, GArray *passthroughs)
{
    Tree tree = {
        .xml = xml,
        .spec = spec,
        .passthroughs = passthroughs,
        .expanders = g_ptr_array_new_with_free_func((GDestroyNotify)expander_free),
        .expanded = g_array_new(FALSE, FALSE, sizeof(Expander *)),
    };
    find_neighbours(&tree);
    write_controllers(&tree);
    for (guint i = 0; !spec->parted && i < passthroughs->len; i++)
        write_hostdev(&tree, i);
    g_ptr_array_unref(tree.expanders);
    g_array_unref(tree.expanded);
}

/* --- disks --- */

typedef struct Disk {
    const char *file; /* of the pool */
    const char *format;
    const WeftImageFile *base; /* what it is a node's own layer over; NULL: nothing, and it is read only */
    gboolean shareable;
    const char *serial; /* NULL: none */
} Disk;

static void
write_source(WeftXml *xml, const char *file)
{
    g_autofree char *path = g_build_filename(WEFT_POOL_PATH, file, NULL);
    weft_xml_empty(xml, "source", "file", path);
}

/* Said here, nobody needs to find it out from the layer's header: neither libvirt nor the helper that writes QEMU's AppArmor
 * profile, which may not read it. And the chain ends here: the header of a user's image could name any file of the host. */
static void
write_base(WeftXml *xml, const WeftImageFile *base)
{
    g_autofree char *file = weft_image_file_name(base->digest);
    weft_xml_begin(xml, "backingStore");
    weft_xml_attribute(xml, "type", "file");
    weft_xml_empty(xml, "format", "type", weft_disk_format_words[base->format]);
    write_source(xml, file);
    weft_xml_empty(xml, "backingStore");
    weft_xml_end(xml);
}

/* A node's own layer goes past the host's page cache, whose memory and threads belong to other nodes; freed blocks go back to
 * the host. What all nodes of a host read, they read once: it stays in that cache. */
static void
write_disk(WeftXml *xml, const Disk *disk, const char *target)
{
    weft_xml_begin(xml, "disk");
    weft_xml_attribute(xml, "type", "file");
    weft_xml_attribute(xml, "device", "disk");
    weft_xml_begin(xml, "driver");
    weft_xml_attribute(xml, "name", "qemu");
    weft_xml_attribute(xml, "type", disk->format);
    if (disk->base) {
        weft_xml_attribute(xml, "cache", "none");
        weft_xml_attribute(xml, "io", "native");
        weft_xml_attribute(xml, "discard", "unmap");
    }
    weft_xml_attribute(xml, "iothread", G_STRINGIFY(WEFT_DOMAIN_IOTHREAD));
    weft_xml_end(xml);
    write_source(xml, disk->file);
    if (disk->base)
        write_base(xml, disk->base);
    weft_xml_empty(xml, "target", "dev", target, "bus", "virtio");
    if (disk->serial)
        weft_xml_element(xml, "serial", disk->serial);
    if (!disk->base)
        weft_xml_empty(xml, "readonly");
    if (disk->shareable)
        weft_xml_empty(xml, "shareable");
    weft_xml_end(xml);
}

static void
write_disks(WeftXml *xml, const WeftDomainSpec *spec)
{
    if (!spec->image)
        return;
    g_autofree char *domain = weft_node_domain(spec->node);
    g_autofree char *own = g_strconcat(domain, WEFT_DISK_SUFFIX, NULL);
    g_autofree char *seed = g_strconcat(domain, WEFT_SEED_SUFFIX, NULL);
    const WeftImageFile *disk = spec->image->disk;
    if (disk && disk->format == WEFT_DISK_READONLY) {
        g_autofree char *shared = weft_image_file_name(disk->digest);
        write_disk(xml, &(Disk){ .file = shared, .format = "raw", .shareable = TRUE }, "vda");
    } else if (disk) {
        write_disk(xml, &(Disk){ .file = own, .format = "qcow2", .base = disk }, "vda");
    }
    write_disk(xml, &(Disk){ .file = seed, .format = "raw", .serial = "weft-seed" }, disk ? "vdb" : "vda");
}

/* --- network --- */

/* "wef" and the MAC's twelve digits: unique wherever the node is, as long as Linux allows, and neither the bridge's nor the
 * VXLAN's. libvirt forgets names that begin like its own. */
static char *
interface_name(const char *mac)
{
    g_auto(GStrv) bytes = g_strsplit(mac, ":", -1);
    g_autofree char *digits = g_strjoinv("", bytes);
    g_autofree char *lower = g_ascii_strdown(digits, -1);
    return g_strconcat("wef", lower, NULL);
}

/* Nothing keeps a node from using a MAC of another: the bridge has no members but those of its own cluster, and hosts without
 * libvirt's network filters are to be served too. Isolated ports would keep a cluster's nodes from each other. */
void
weft_domain_write_nic(WeftXml *xml, const WeftDomainSpec *spec, const char *alias)
{
    g_autofree char *bridge = weft_network_bridge(spec->vxlan);
    g_autofree char *name = interface_name(spec->node->mac);
    guint queues = MIN(weft_domain_vcpus(spec), QUEUES_MAX);
    weft_xml_begin(xml, "interface");
    weft_xml_attribute(xml, "type", "bridge");
    weft_xml_empty(xml, "mac", "address", spec->node->mac);
    weft_xml_empty(xml, "source", "bridge", bridge);
    weft_xml_empty(xml, "target", "dev", name);
    weft_xml_empty(xml, "model", "type", "virtio");
    /* One queue for each processor that can send at the same time; an emulated one cannot. */
    if (queues > 1 && !spec->tcg) {
        weft_xml_begin(xml, "driver");
        weft_xml_attribute_format(xml, "queues", "%u", queues);
        weft_xml_end(xml);
    }
    /* Otherwise an emulated processor spins for another thread to see each of its orders. */
    if (spec->tcg)
        weft_xml_empty(xml, "driver", "ioeventfd", "off");
    weft_xml_empty(xml, "mtu", "size", G_STRINGIFY(WEFT_NETWORK_MTU));
    if (spec->copied)
        weft_xml_empty(xml, "link", "state", "down");
    weft_xml_empty(xml, "rom", "enabled", "no");
    if (alias)
        weft_xml_empty(xml, "alias", "name", alias);
    weft_xml_end(xml);
}

/* Shared by the cluster's nodes on this host. On the root bus: libvirt takes it for a device of old PCI, which would get two
 * bridges of its own otherwise. */
static void
write_shm(WeftXml *xml, const WeftDomainSpec *spec)
{
    if (!spec->shm)
        return;
    g_autofree char *size = g_strdup_printf("%" G_GUINT64_FORMAT, spec->shm_size >> 20);
    weft_xml_begin(xml, "shmem");
    weft_xml_attribute_format(xml, "name", "weft-%s", spec->node->cluster);
    weft_xml_empty(xml, "model", "type", "ivshmem-plain");
    weft_xml_begin(xml, "size");
    weft_xml_attribute(xml, "unit", "M");
    weft_xml_text(xml, size);
    weft_xml_end(xml);
    weft_xml_empty(xml, "address", "type", "pci", "domain", "0x0000", "bus", "0x00", "slot", SHM_SLOT, "function", "0x0");
    weft_xml_end(xml);
}

/* --- the rest --- */

static void
write_channel(WeftXml *xml, const char *name)
{
    weft_xml_begin(xml, "channel");
    weft_xml_attribute(xml, "type", "unix");
    weft_xml_empty(xml, "target", "type", "virtio", "name", name);
    weft_xml_end(xml);
}

/* The console keeps no log on the host: the guest could fill the host's disk with it. */
static void
write_console(WeftXml *xml)
{
    weft_xml_begin(xml, "serial");
    weft_xml_attribute(xml, "type", "pty");
    weft_xml_empty(xml, "target", "port", "0");
    weft_xml_end(xml);
    weft_xml_begin(xml, "console");
    weft_xml_attribute(xml, "type", "pty");
    weft_xml_empty(xml, "target", "type", "serial", "port", "0");
    weft_xml_end(xml);
}

static void
write_random(WeftXml *xml)
{
    weft_xml_begin(xml, "rng");
    weft_xml_attribute(xml, "model", "virtio");
    weft_xml_begin(xml, "backend");
    weft_xml_attribute(xml, "model", "random");
    weft_xml_text(xml, "/dev/urandom");
    weft_xml_end(xml);
    weft_xml_end(xml);
}

void
weft_domain_write_devices(WeftXml *xml, const WeftDomainSpec *spec, GArray *passthroughs)
{
    weft_xml_begin(xml, "devices");
    write_disks(xml, spec);
    write_tree(xml, spec, passthroughs);
    if (spec->later)
        weft_xml_empty(xml, "controller", "type", "pci", "model", "pcie-root-port"); /* what is plugged needs a free one */
    weft_domain_write_nic(xml, spec, spec->copied ? WEFT_DOMAIN_NIC : NULL);
    write_console(xml);
    write_channel(xml, "org.qemu.guest_agent.0");
    write_channel(xml, WEFT_PORT_NAME);
    write_random(xml);
    write_shm(xml, spec);
    weft_xml_empty(xml, "memballoon", "model", "none");
    weft_xml_end(xml);
}
