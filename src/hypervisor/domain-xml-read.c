#include "domain-xml.h"
#include "errors.h"

#include <libxml/parser.h>
#include <string.h>

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
