#include "metadata.h"

#include "domain-mark.h"
#include "errors.h"
#include "hook.h"
#include "id.h"
#include "names.h"
#include "text.h"
#include "xml.h"

#include <string.h>

#define REMEDY "have weftd and the hook of the same version (" WEFT_VERSION ")"
#define VXLAN_MAX 0xffffff
#define PKEY_NUMBER 0x7fff /* of a P_Key's bits; as a number, the default partition */
#define PKEY_MAX 0x7ffe
#define WORD_MAX 64

static void
device_free(gpointer data)
{
    WeftHookDevice *device = data;
    g_free(device->hca);
    g_free(device->pci);
    g_free(device->pf);
    g_free(device);
}

static void
memory_free(WeftHookMemory *memory)
{
    if (!memory)
        return;
    g_free(memory->id);
    g_free(memory->generation);
    g_free(memory);
}

void
weft_hook_node_free(WeftHookNode *node)
{
    if (!node)
        return;
    g_free(node->domain);
    g_free(node->id);
    g_free(node->run);
    memory_free(node->memory);
    g_ptr_array_unref(node->devices);
    g_ptr_array_unref(node->gpus);
    g_ptr_array_unref(node->hostdevs);
    g_free(node);
}

gboolean
weft_hook_is_domain(const char *xml)
{
    return strstr(xml, WEFT_DOMAIN_NAMESPACE) != NULL;
}

gboolean
weft_hook_is_network(const char *xml)
{
    return strstr(xml, WEFT_NETWORK_NAMESPACE) != NULL;
}

/* --- elements and attributes --- */

/* weft's one element of that name in the metadata. */
static const xmlNode *
mark(const xmlNode *metadata, const char *name, const char *space, GError **error)
{
    const xmlNode *found = NULL;
    for (const xmlNode *node = metadata ? metadata->children : NULL; node; node = node->next) {
        if (!weft_xml_is_of(node, space))
            continue;
        if (found || !weft_xml_is(node, name)) {
            weft_error_refuse(error, WEFT_ERROR_INVALID, "the metadata has an element %s beside weft's %s: " REMEDY,
                              (const char *)node->name, name);
            return NULL;
        }
        found = node;
    }
    if (!found)
        weft_error_refuse(error, WEFT_ERROR_INVALID, "the metadata lacks weft's element %s: " REMEDY, name);
    return found;
}

static gboolean
refuse(const xmlNode *node, const char *name, const char *value, const char *rule, GError **error)
{
    g_autofree char *shown = value ? weft_text_quote(value) : g_strdup("nothing");
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "the metadata's %s has %s as %s, which must be %s: " REMEDY,
                             (const char *)node->name, shown, name, rule);
}

/* A number in its one written form: base 16 has "0x" in front, and neither has a sign or blanks. */
static gboolean
get_number(const xmlNode *node, const char *name, guint base, guint64 max, guint64 *ret_number, GError **error)
{
    g_autofree char *value = weft_xml_get(node, name);
    const char *digits = value;
    if (value && base == 16)
        digits = g_str_has_prefix(value, "0x") ? value + 2 : NULL;
    if (digits && g_ascii_string_to_unsigned(digits, base, 0, max, ret_number, NULL))
        return TRUE;
    g_autofree char *rule = g_strdup_printf(
        base == 16 ? "a number from 0x0 to 0x%" G_GINT64_MODIFIER "x" : "a number from 0 to %" G_GUINT64_FORMAT, max);
    return refuse(node, name, value, rule, error);
}

gboolean
weft_hook_is_pci(const char *text)
{
    static const char form[] = "xxxx:xx:xx.o";
    if (strlen(text) != strlen(form))
        return FALSE;
    for (gsize i = 0; form[i]; i++) {
        gboolean fits = form[i] == 'x'   ? g_ascii_isxdigit(text[i]) && !g_ascii_isupper(text[i])
                        : form[i] == 'o' ? text[i] >= '0' && text[i] <= '7'
                                         : text[i] == form[i];
        if (!fits)
            return FALSE;
    }
    return TRUE;
}

static gboolean
get_pci(const xmlNode *node, const char *name, char **ret_pci, GError **error)
{
    g_autofree char *value = weft_xml_get(node, name);
    if (!value || !weft_hook_is_pci(value))
        return refuse(node, name, value, "a PCI address such as 0000:41:00.1", error);
    *ret_pci = g_steal_pointer(&value);
    return TRUE;
}

static xmlDoc *
parse(const char *xml, GError **error)
{
    xmlDoc *doc = weft_xml_load(xml);
    if (!doc || doc->intSubset || !xmlDocGetRootElement(doc)) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "standard input is %s: let libvirt run the hook",
                          doc ? "XML with a document type" : "not XML");
        g_clear_pointer(&doc, xmlFreeDoc);
    }
    return doc;
}

/* <weft:owner run="…"/>, of nodes and of networks. */
static gboolean
read_owner(const xmlNode *element, char **ret_run, GError **error)
{
    g_autofree char *run = weft_xml_get(element, "run");
    if (!run || !weft_id_is_valid(run) || *ret_run)
        return refuse(element, "run", run, "one run of weftd", error);
    *ret_run = g_steal_pointer(&run);
    return TRUE;
}

/* --- nodes --- */

static gboolean
get_driver(const xmlNode *node, WeftHcaDriver *ret_driver, GError **error)
{
    g_autofree char *value = weft_xml_get(node, "driver");
    for (WeftHcaDriver driver = WEFT_HCA_MLX4; value && driver <= WEFT_HCA_MLX5; driver++) {
        if (g_str_equal(value, weft_hca_driver_words[driver])) {
            *ret_driver = driver;
            return TRUE;
        }
    }
    return refuse(node, "driver", value, "mlx4 or mlx5", error);
}

static gboolean
read_function(WeftHookDevice *device, const xmlNode *node, GError **error)
{
    guint64 vf = 0;
    g_autofree char *whole = weft_xml_get(node, "vf");
    if (!whole) {
        device->vf = -1;
        return g_str_equal(device->pci, device->pf) || refuse(node, "pci", device->pci, "its pf, without vf", error);
    }
    if (!get_number(node, "vf", 10, WEFT_VFS_MAX - 1, &vf, error) ||
        !get_number(node, "guid", 16, G_MAXUINT64, &device->guid, error))
        return FALSE;
    device->vf = (int)vf;
    if (device->guid == 0 || device->guid == G_MAXUINT64)
        return refuse(node, "guid", "0 or all ones", "a GUID", error);
    return TRUE;
}

static gboolean
read_shared(WeftHookDevice *device, const xmlNode *node, GError **error)
{
    g_autofree char *text = weft_xml_get(node, "shared");
    g_auto(GStrv) words = text ? g_strsplit(text, " ", WEFT_SHARED_MAX + 1) : NULL;
    for (guint i = 0; words && words[i]; i++) {
        guint64 key;
        if (i == WEFT_SHARED_MAX || !g_str_has_prefix(words[i], "0x") ||
            !g_ascii_string_to_unsigned(words[i] + 2, 16, 1, G_MAXUINT16, &key, NULL) || (key & PKEY_NUMBER) == 0 ||
            (key & PKEY_NUMBER) == PKEY_NUMBER || (key & PKEY_NUMBER) == device->pkey)
            return refuse(node, "shared", text, "P_Keys of other partitions than its own and the default", error);
        device->shared[device->n_shared++] = (guint16)key;
    }
    return TRUE;
}

static gboolean
read_device(WeftHookDevice *device, const xmlNode *node, GError **error)
{
    guint64 rail = 0, pkey = 0;
    device->hca = weft_xml_get(node, "hca");
    if (!device->hca)
        return refuse(node, "hca", NULL, "the name of an HCA", error);
    if (!weft_grammar_check(WEFT_GRAMMAR_DEVICE, device->hca, "HCA", error) || !get_driver(node, &device->driver, error) ||
        !get_number(node, "rail", 10, WEFT_RAILS_MAX - 1, &rail, error) ||
        !get_number(node, "pkey", 16, PKEY_MAX, &pkey, error) || !get_pci(node, "pci", &device->pci, error) ||
        !get_pci(node, "pf", &device->pf, error))
        return FALSE;
    if (pkey == 0)
        return refuse(node, "pkey", "0x0", "the number of a partition", error);
    device->rail = (guint)rail;
    device->pkey = (guint)pkey;
    return read_shared(device, node, error) && read_function(device, node, error);
}

static gboolean
add_device(WeftHookNode *node, const xmlNode *element, GError **error)
{
    if (node->devices->len >= WEFT_RAILS_MAX)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "the metadata has more than %d devices: " REMEDY, WEFT_RAILS_MAX);
    WeftHookDevice *device = g_new0(WeftHookDevice, 1);
    g_ptr_array_add(node->devices, device);
    if (!read_device(device, element, error))
        return FALSE;
    for (guint i = 0; i + 1 < node->devices->len; i++) {
        const WeftHookDevice *other = g_ptr_array_index(node->devices, i);
        if (g_str_equal(other->pci, device->pci) || other->rail == device->rail)
            return refuse(element, "pci or rail", device->pci, "no other device's", error);
    }
    return TRUE;
}

static gboolean
add_gpu(WeftHookNode *node, const xmlNode *element, GError **error)
{
    char *pci = NULL;
    if (!get_pci(element, "name", &pci, error))
        return FALSE;
    g_ptr_array_add(node->gpus, pci);
    return node->gpus->len <= WEFT_GPUS_MAX ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "the metadata has more than %d GPUs: " REMEDY, WEFT_GPUS_MAX);
}

static gboolean
read_partition(WeftHookNode *node, const xmlNode *element, GError **error)
{
    guint64 vxlan = 0;
    if (!get_number(element, "vxlan", 10, VXLAN_MAX, &vxlan, error))
        return FALSE;
    node->vxlan = (guint)vxlan;
    return vxlan > 0 || refuse(element, "vxlan", "0", "the number of a VXLAN", error);
}

static gboolean
read_children(WeftHookNode *node, const xmlNode *element, GError **error)
{
    for (const xmlNode *part = element->children; part; part = part->next) {
        /* These say nothing that a host is to do; the record is for weftd to read again. */
        if (part->type != XML_ELEMENT_NODE || weft_xml_is(part, "cluster") || weft_xml_is(part, "record"))
            continue;
        gboolean ok;
        if (weft_xml_is(part, "partition"))
            ok = read_partition(node, part, error);
        else if (weft_xml_is(part, "device"))
            ok = add_device(node, part, error);
        else if (weft_xml_is(part, "gpu"))
            ok = add_gpu(node, part, error);
        else if (weft_xml_is(part, "owner"))
            ok = read_owner(part, &node->run, error);
        else /* what it means is not known here: to pass over it might be to let something slip */
            ok = weft_error_refuse(error, WEFT_ERROR_INVALID, "the metadata's %s is not known to this hook: " REMEDY,
                                   (const char *)part->name);
        if (!ok)
            return FALSE;
    }
    return node->vxlan > 0 || refuse(element, "partition", NULL, "there", error);
}

/* <hostdev type='pci'><source><address domain='0x0000' bus='0x41' slot='0x00' function='0x1'/></source></hostdev> */
static gboolean
add_hostdev(WeftHookNode *node, const xmlNode *hostdev, GError **error)
{
    g_autofree char *type = weft_xml_get(hostdev, "type");
    const xmlNode *address = weft_xml_child(weft_xml_child(hostdev, "source"), "address");
    guint64 domain = 0, bus = 0, slot = 0, function = 0;
    if (g_strcmp0(type, "pci") != 0 || !address)
        return TRUE;
    if (!get_number(address, "domain", 16, 0xffff, &domain, error) || !get_number(address, "bus", 16, 0xff, &bus, error) ||
        !get_number(address, "slot", 16, 0x1f, &slot, error) || !get_number(address, "function", 16, 7, &function, error))
        return FALSE;
    g_ptr_array_add(node->hostdevs,
                    g_strdup_printf("%04x:%02x:%02x.%x", (guint)domain, (guint)bus, (guint)slot, (guint)function));
    return TRUE;
}

static gboolean
read_hostdevs(WeftHookNode *node, const xmlNode *devices, GError **error)
{
    for (const xmlNode *device = devices ? devices->children : NULL; device; device = device->next) {
        if (weft_xml_is(device, "hostdev") && !add_hostdev(node, device, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
read_identity(WeftHookNode *node, const char *name, const xmlNode *element, GError **error)
{
    g_autofree char *id = weft_xml_get(element, "id");
    if (!id || !g_str_has_prefix(name, WEFT_DOMAIN_PREFIX) || !g_str_equal(name + strlen(WEFT_DOMAIN_PREFIX), id) ||
        !weft_name_check(name, "domain", NULL))
        return refuse(element, "id", id, "the domain's name after \"" WEFT_DOMAIN_PREFIX "\"", error);
    node->domain = g_strdup(name);
    node->id = g_steal_pointer(&id);
    return TRUE;
}

/* --- memory in a file --- */

/* A part of a file's name. */
static gboolean
get_word(const xmlNode *node, const char *name, char **ret_word, GError **error)
{
    g_autofree char *value = weft_xml_get(node, name);
    gsize length = value ? strspn(value, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-") : 0;
    if (length == 0 || length > WORD_MAX || value[length])
        return refuse(node, name, value, "up to 64 letters, digits and \"-\"", error);
    *ret_word = g_steal_pointer(&value);
    return TRUE;
}

static gboolean
read_use(WeftHookMemory *memory, const xmlNode *node, GError **error)
{
    g_autofree char *use = weft_xml_get(node, "use");
    memory->made = g_strcmp0(use, WEFT_MEMORY_MAKE) == 0;
    return memory->made || g_strcmp0(use, WEFT_MEMORY_SHARE) == 0 ||
           refuse(node, "use", use, WEFT_MEMORY_MAKE " or " WEFT_MEMORY_SHARE, error);
}

/* libvirt writes it in KiB always. */
static gboolean
read_size(WeftHookNode *node, const xmlNode *root, GError **error)
{
    const xmlNode *element = weft_xml_child(root, "memory");
    g_autofree char *text = weft_xml_content(element);
    g_autofree char *unit = weft_xml_get(element, "unit");
    guint64 kib = 0;
    if (!text || g_strcmp0(unit, "KiB") != 0 || !weft_xml_number(text, 10, G_MAXUINT64 >> 10, &kib) || kib == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "the domain has no memory in KiB: let libvirt run the hook");
    node->size = kib * 1024;
    return TRUE;
}

static gboolean
read_memory(WeftHookNode *node, const xmlNode *root, GError **error)
{
    const xmlNode *element = weft_xml_child_ns(weft_xml_child(root, "metadata"), "memory", WEFT_MEMORY_NAMESPACE);
    guint64 number = 0;
    if (!element)
        return TRUE;
    g_autofree char *running = weft_xml_get(root, "id");
    if (running && !get_number(root, "id", 10, G_MAXINT32, &number, error))
        return FALSE;
    node->number = (guint)number;
    WeftHookMemory *memory = node->memory = g_new0(WeftHookMemory, 1);
    return read_size(node, root, error) && get_word(element, "id", &memory->id, error) &&
           get_word(element, "generation", &memory->generation, error) &&
           get_number(element, "page", 10, G_MAXUINT32, &memory->page, error) && read_use(memory, element, error);
}

WeftHookNode *
weft_hook_node_read(const char *name, const char *xml, GError **error)
{
    g_autoptr(xmlDoc) doc = parse(xml, error);
    if (!doc)
        return NULL;
    const xmlNode *root = xmlDocGetRootElement(doc);
    const xmlNode *element = mark(weft_xml_child(root, "metadata"), "node", WEFT_DOMAIN_NAMESPACE, error);
    if (!element)
        return NULL;
    g_autoptr(WeftHookNode) node = g_new0(WeftHookNode, 1);
    node->devices = g_ptr_array_new_with_free_func(device_free);
    node->gpus = g_ptr_array_new_with_free_func(g_free);
    node->hostdevs = g_ptr_array_new_with_free_func(g_free);
    if (!read_identity(node, name, element, error) || !read_children(node, element, error) || !read_memory(node, root, error) ||
        !read_hostdevs(node, weft_xml_child(root, "devices"), error))
        return NULL;
    return g_steal_pointer(&node);
}

/* --- networks --- */

static gboolean
add_peer(WeftHostNetwork *network, const xmlNode *element, GError **error)
{
    g_autofree char *address = weft_xml_get(element, "address");
    if (!weft_xml_is(element, "peer") || !address)
        return refuse(element, "address", address, "that of a peer", error);
    if (network->peers->len >= WEFT_NODES_MAX)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "the metadata has more than %d peers: " REMEDY, WEFT_NODES_MAX);
    if (!weft_host_name_check(address, error))
        return FALSE;
    g_ptr_array_add(network->peers, g_steal_pointer(&address));
    return TRUE;
}

static gboolean
read_peers(WeftHostNetwork *network, const xmlNode *element, char **ret_run, GError **error)
{
    for (const xmlNode *part = element->children; part; part = part->next) {
        if (part->type != XML_ELEMENT_NODE)
            continue;
        if (weft_xml_is(part, "owner") ? !read_owner(part, ret_run, error) : !add_peer(network, part, error))
            return FALSE;
    }
    return TRUE;
}

WeftHostNetwork *
weft_hook_network_read(const char *name, const char *xml, char **ret_run, GError **error)
{
    g_autoptr(xmlDoc) doc = parse(xml, error);
    if (!doc)
        return NULL;
    const xmlNode *root = xmlDocGetRootElement(doc);
    if (weft_xml_is(root, "hookData"))
        root = weft_xml_child(root, "network");
    const xmlNode *element = mark(weft_xml_child(root, "metadata"), "network", WEFT_NETWORK_NAMESPACE, error);
    guint64 vxlan = 0;
    if (!element || !get_number(element, "vxlan", 10, VXLAN_MAX, &vxlan, error))
        return NULL;
    g_autofree char *cluster = weft_xml_get(element, "cluster");
    g_autofree char *site = weft_xml_get(element, "site");
    g_autofree char *expected = g_strdup_printf(WEFT_NETWORK_PREFIX "%" G_GUINT64_FORMAT, vxlan);
    if (vxlan == 0 || !g_str_equal(name, expected)) {
        refuse(element, "vxlan", expected, "the number in the network's name", error);
        return NULL;
    }
    g_autoptr(WeftHostNetwork) network = weft_host_network_new((guint)vxlan, cluster, site);
    g_autofree char *run = NULL;
    if (!read_peers(network, element, &run, error))
        return NULL;
    if (ret_run)
        *ret_run = g_steal_pointer(&run);
    return g_steal_pointer(&network);
}
