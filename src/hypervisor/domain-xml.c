#include "domain-xml.h"

#include "errors.h"

#include <libxml/parser.h>
#include <libxml/xmlwriter.h>
#include <string.h>

#define PREFIX "weft"
#define SMALL_PAGE 4096

/* --- writing --- */

/* A writer whose first error sticks. */
typedef struct Writer {
    xmlTextWriter *xml;
    GError *error;
} Writer;

static void
begin(Writer *writer, const char *element)
{
    xmlTextWriterStartElement(writer->xml, BAD_CAST element);
}

static void
end(Writer *writer)
{
    xmlTextWriterEndElement(writer->xml);
}

/* XML has no way to write control characters, escaped or not. */
static gboolean
is_writable(const char *text)
{
    if (!g_utf8_validate(text, -1, NULL))
        return FALSE;
    for (const char *c = text; *c; c++) {
        if (g_ascii_iscntrl(*c))
            return FALSE;
    }
    return TRUE;
}

static const char *
checked(Writer *writer, const char *what, const char *text)
{
    if (is_writable(text))
        return text;
    if (!writer->error) {
        g_autofree char *shown = g_strescape(text, NULL);
        g_set_error(&writer->error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "%s \"%s\" cannot be written as XML: use plain text without control characters", what, shown);
    }
    return "";
}

static void
attribute(Writer *writer, const char *name, const char *value)
{
    xmlTextWriterWriteAttribute(writer->xml, BAD_CAST name, BAD_CAST checked(writer, name, value));
}

static void G_GNUC_PRINTF(3, 4) attribute_format(Writer *writer, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *value = g_strdup_vprintf(format, args);
    va_end(args);
    attribute(writer, name, value);
}

static void
element(Writer *writer, const char *name, const char *text)
{
    xmlTextWriterWriteElement(writer->xml, BAD_CAST name, BAD_CAST checked(writer, name, text));
}

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
write_identity(Writer *writer, const WeftNode *node)
{
    g_autofree char *name = weft_node_domain(node);
    g_autofree char *uuid = node_uuid(node->id);
    element(writer, "name", name);
    element(writer, "uuid", uuid);
}

static void
write_device_mark(Writer *writer, const WeftDevice *device)
{
    begin(writer, PREFIX ":device");
    attribute_format(writer, "rail", "%u", device->rail);
    attribute(writer, "hca", device->hca);
    if (device->vf >= 0) {
        attribute_format(writer, "vf", "%d", device->vf);
        attribute_format(writer, "guid", "0x%016" G_GINT64_MODIFIER "x", device->guid);
    }
    end(writer);
}

/* Weft's mark, and what the hook on the host needs to know. */
static void
write_metadata(Writer *writer, const WeftDomainSpec *spec)
{
    const WeftNode *node = spec->node;
    g_autofree char *hostname = weft_node_hostname(node);

    begin(writer, "metadata");
    begin(writer, PREFIX ":node");
    attribute(writer, "xmlns:" PREFIX, WEFT_DOMAIN_NAMESPACE);
    attribute(writer, "id", node->id);
    attribute(writer, "tenant", node->tenant);
    attribute_format(writer, "rank", "%u", node->rank);
    attribute(writer, "hostname", hostname);
    attribute(writer, "path", weft_path_words[node->path]);
    attribute(writer, "mac", node->mac);
    begin(writer, PREFIX ":cluster");
    attribute(writer, "id", node->cluster);
    attribute(writer, "name", node->cluster_name);
    end(writer);
    begin(writer, PREFIX ":partition");
    attribute_format(writer, "pkey", "0x%04x", spec->pkey);
    attribute_format(writer, "vxlan", "%u", spec->vxlan);
    end(writer);
    for (guint i = 0; i < node->devices->len; i++)
        write_device_mark(writer, g_ptr_array_index(node->devices, i));
    for (guint i = 0; i < node->gpus->len; i++) {
        begin(writer, PREFIX ":gpu");
        attribute(writer, "name", g_ptr_array_index(node->gpus, i));
        end(writer);
    }
    end(writer);
    end(writer);
}

static void
write_memory(Writer *writer, const WeftNode *node)
{
    g_autofree char *size = g_strdup_printf("%" G_GUINT64_FORMAT, weft_node_memory(node) / 1024);
    begin(writer, "memory");
    attribute(writer, "unit", "KiB");
    xmlTextWriterWriteString(writer->xml, BAD_CAST size);
    end(writer);
}

static gboolean
has_page_size_before(const WeftNode *node, guint index)
{
    guint64 size = g_array_index(node->memory, WeftMemory, index).page_size;
    for (guint i = 0; i < index; i++) {
        if (g_array_index(node->memory, WeftMemory, i).page_size == size)
            return TRUE;
    }
    return FALSE;
}

static void
write_memory_backing(Writer *writer, const WeftNode *node)
{
    gboolean open = FALSE;
    for (guint i = 0; i < node->memory->len; i++) {
        const WeftMemory *memory = &g_array_index(node->memory, WeftMemory, i);
        if (memory->page_size <= SMALL_PAGE || has_page_size_before(node, i))
            continue;
        if (!open) {
            begin(writer, "memoryBacking");
            begin(writer, "hugepages");
            open = TRUE;
        }
        begin(writer, "page");
        attribute_format(writer, "size", "%" G_GUINT64_FORMAT, memory->page_size / 1024);
        attribute(writer, "unit", "KiB");
        end(writer);
    }
    if (open) {
        end(writer);
        end(writer);
    }
}

static int
compare_guint(gconstpointer a, gconstpointer b)
{
    guint x = *(const guint *)a, y = *(const guint *)b;
    return x < y ? -1 : x > y;
}

/* "0-3,32" of the numbers; NULL when there are none. */
static char *
format_set(GArray *numbers)
{
    if (numbers->len == 0)
        return NULL;
    g_array_sort(numbers, compare_guint);
    const guint *n = (const guint *)(gpointer)numbers->data;
    GString *text = g_string_new(NULL);
    for (guint first = 0, last; first < numbers->len; first = last + 1) {
        for (last = first; last + 1 < numbers->len && n[last + 1] <= n[last] + 1; last++)
            ;
        g_string_append_printf(text, "%s%u", first ? "," : "", n[first]);
        if (n[last] > n[first])
            g_string_append_printf(text, "-%u", n[last]);
    }
    return g_string_free(text, FALSE);
}

static char *
housekeeping_cpus(const WeftHost *host)
{
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = 0; i < host->cores->len; i++) {
        const WeftCore *core = &g_array_index(host->cores, WeftCore, i);
        for (guint t = 0; core->housekeeping && t < core->n_cpus; t++) {
            guint cpu = core->cpus[t];
            g_array_append_val(cpus, cpu);
        }
    }
    return format_set(cpus);
}

/* Every hardware thread of the node's cores is a virtual CPU of its own, the threads of a core side by side. */
static GArray *
node_cpus(const WeftDomainSpec *spec)
{
    GArray *cpus = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = 0; i < spec->node->cores->len; i++) {
        const WeftCore *core = &g_array_index(spec->host->cores, WeftCore, g_array_index(spec->node->cores, guint16, i));
        for (guint t = 0; t < core->n_cpus; t++) {
            guint cpu = core->cpus[t];
            g_array_append_val(cpus, cpu);
        }
    }
    return cpus;
}

static void
write_cpus(Writer *writer, const WeftDomainSpec *spec)
{
    g_autoptr(GArray) cpus = node_cpus(spec);
    g_autofree char *emulator = housekeeping_cpus(spec->host);
    g_autofree char *count = g_strdup_printf("%u", cpus->len);

    begin(writer, "vcpu");
    attribute(writer, "placement", "static");
    xmlTextWriterWriteString(writer->xml, BAD_CAST count);
    end(writer);
    begin(writer, "cputune");
    for (guint i = 0; i < cpus->len; i++) {
        begin(writer, "vcpupin");
        attribute_format(writer, "vcpu", "%u", i);
        attribute_format(writer, "cpuset", "%u", g_array_index(cpus, guint, i));
        end(writer);
    }
    if (emulator) {
        begin(writer, "emulatorpin");
        attribute(writer, "cpuset", emulator);
        end(writer);
    }
    end(writer);
}

static void
write_numa(Writer *writer, const WeftNode *node)
{
    g_autoptr(GArray) nodes = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = 0; i < node->memory->len; i++)
        g_array_append_val(nodes, g_array_index(node->memory, WeftMemory, i).numa);
    g_autofree char *set = format_set(nodes);

    begin(writer, "numatune");
    begin(writer, "memory");
    attribute(writer, "mode", "strict");
    attribute(writer, "nodeset", set);
    end(writer);
    end(writer);
}

static void
write_os(Writer *writer)
{
    begin(writer, "os");
    begin(writer, "type");
    attribute(writer, "arch", "x86_64");
    attribute(writer, "machine", "q35");
    xmlTextWriterWriteString(writer->xml, BAD_CAST "hvm");
    end(writer);
    end(writer);
}

static void
write_domain(Writer *writer, const WeftDomainSpec *spec)
{
    begin(writer, "domain");
    attribute(writer, "type", "kvm");
    write_identity(writer, spec->node);
    write_metadata(writer, spec);
    write_memory(writer, spec->node);
    write_memory_backing(writer, spec->node);
    write_cpus(writer, spec);
    write_numa(writer, spec->node);
    write_os(writer);
    end(writer);
}

/* --- the node must fit its host --- */

static gboolean refuse(const WeftDomainSpec *spec, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);

static gboolean
refuse(const WeftDomainSpec *spec, GError **error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *what = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                "node %s does not fit host %s: %s; correct the host's description, or place it elsewhere", spec->node->id,
                spec->host->name, what);
    return FALSE;
}

static gboolean
check(const WeftDomainSpec *spec, GError **error)
{
    const WeftNode *node = spec->node;
    const WeftHost *host = spec->host;

    if (node->cores->len == 0 || node->memory->len == 0)
        return refuse(spec, error, "a domain needs a core and memory");
    for (guint i = 0; i < node->cores->len; i++) {
        guint16 core = g_array_index(node->cores, guint16, i);
        if (core >= host->cores->len)
            return refuse(spec, error, "there is no core %u", core);
    }
    for (guint i = 0; i < node->memory->len; i++) {
        guint numa = g_array_index(node->memory, WeftMemory, i).numa;
        if (numa >= host->numa->len)
            return refuse(spec, error, "there is no NUMA node %u", numa);
    }
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *device = g_ptr_array_index(node->devices, i);
        if (!weft_host_hca(host, device->hca))
            return refuse(spec, error, "there is no HCA %s", device->hca);
    }
    return TRUE;
}

char *
weft_domain_xml_format(const WeftDomainSpec *spec, GError **error)
{
    if (!check(spec, error))
        return NULL;

    xmlBuffer *buffer = xmlBufferCreate();
    Writer writer = { .xml = xmlNewTextWriterMemory(buffer, 0) };
    xmlTextWriterSetIndent(writer.xml, 1);
    xmlTextWriterSetIndentString(writer.xml, BAD_CAST "  ");
    write_domain(&writer, spec);
    xmlFreeTextWriter(writer.xml);

    char *text = writer.error ? NULL : g_strdup((const char *)xmlBufferContent(buffer));
    xmlBufferFree(buffer);
    if (!text)
        g_propagate_prefixed_error(error, writer.error, "node %s: ", spec->node->id);
    return text;
}

/* --- reading --- */

static gboolean
is_element(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && xmlStrEqual(node->name, BAD_CAST name);
}

static gboolean
is_marked(const xmlNode *node, const char *name)
{
    return is_element(node, name) && node->ns && xmlStrEqual(node->ns->href, BAD_CAST WEFT_DOMAIN_NAMESPACE);
}

static const xmlNode *
child(const xmlNode *parent, const char *name)
{
    for (const xmlNode *node = parent ? parent->children : NULL; node; node = node->next) {
        if (is_element(node, name))
            return node;
    }
    return NULL;
}

static char *
take(xmlChar *text)
{
    char *copy = g_strdup((const char *)text);
    xmlFree(text);
    return copy;
}

static char *
get(const xmlNode *node, const char *name)
{
    return take(xmlGetNoNsProp(node, BAD_CAST name));
}

static void
add_use(WeftDomainFacts *facts, const char *kind, const char *what)
{
    if (what)
        g_ptr_array_add(facts->uses, g_strdup_printf("%s/%s", kind, what));
}

static void
read_device(WeftDomainFacts *facts, const xmlNode *device)
{
    g_autofree char *hca = get(device, "hca");
    g_autofree char *vf = get(device, "vf");
    g_autofree char *guid = get(device, "guid");
    if (vf && hca)
        g_ptr_array_add(facts->uses, g_strdup_printf("vf/%s/%s", hca, vf));
    else
        add_use(facts, "hca", hca);
    add_use(facts, "guid", guid);
}

static void
read_mark(WeftDomainFacts *facts, const xmlNode *metadata)
{
    const xmlNode *mark = metadata ? metadata->children : NULL;
    while (mark && !is_marked(mark, "node"))
        mark = mark->next;
    if (!mark)
        return;
    facts->node = get(mark, "id");
    for (const xmlNode *node = mark->children; node; node = node->next) {
        if (is_marked(node, "device"))
            read_device(facts, node);
        if (is_marked(node, "gpu")) {
            g_autofree char *name = get(node, "name");
            add_use(facts, "gpu", name);
        }
    }
}

static void
read_pins(WeftDomainFacts *facts, const xmlNode *cputune)
{
    for (const xmlNode *node = cputune ? cputune->children : NULL; node; node = node->next) {
        if (is_element(node, "vcpupin")) {
            g_autofree char *cpu = get(node, "cpuset");
            add_use(facts, "cpu", cpu);
        }
    }
}

static WeftDomainFacts *
read_document(xmlDoc *doc, GError **error)
{
    const xmlNode *root = xmlDocGetRootElement(doc);
    const xmlNode *name = root && is_element(root, "domain") ? child(root, "name") : NULL;
    /* Domains have no document type; without one there are no entities to expand either. */
    if (!name || doc->intSubset) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "not a domain definition: it needs <domain> with <name> and no DOCTYPE");
        return NULL;
    }

    WeftDomainFacts *facts = g_new0(WeftDomainFacts, 1);
    facts->name = take(xmlNodeGetContent(name));
    facts->uses = g_ptr_array_new_with_free_func(g_free);
    read_mark(facts, child(root, "metadata"));
    read_pins(facts, child(root, "cputune"));
    return facts;
}

WeftDomainFacts *
weft_domain_xml_read(const char *xml, GError **error)
{
    gsize length = strlen(xml);
    if (length > WEFT_DOMAIN_XML_MAX) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "a domain definition of %zu bytes is too large: at most %d", length,
                    WEFT_DOMAIN_XML_MAX);
        return NULL;
    }
    xmlDoc *doc = xmlReadMemory(xml, length, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    if (!doc) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "not a domain definition: it is not well-formed XML");
        return NULL;
    }
    WeftDomainFacts *facts = read_document(doc, error);
    xmlFreeDoc(doc);
    return facts;
}

void
weft_domain_facts_free(WeftDomainFacts *facts)
{
    if (!facts)
        return;
    g_free(facts->name);
    g_free(facts->node);
    g_clear_pointer(&facts->uses, g_ptr_array_unref);
    g_free(facts);
}

gboolean
weft_domain_xml_identify(const char *xml, char **ret_name, char **ret_node, GError **error)
{
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(xml, error);
    if (!facts)
        return FALSE;
    *ret_name = g_steal_pointer(&facts->name);
    *ret_node = g_steal_pointer(&facts->node);
    return TRUE;
}
