#include "domain-xml.h"
#include "errors.h"
#include "hypervisor.h"
#include "xml.h"

#include <string.h>

static gboolean
is_marked(const xmlNode *node, const char *name)
{
    return weft_xml_is(node, name) && weft_xml_is_of(node, WEFT_DOMAIN_NAMESPACE);
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
    g_autofree char *hca = weft_xml_get(device, "hca");
    g_autofree char *vf = weft_xml_get(device, "vf");
    g_autofree char *guid = weft_xml_get(device, "guid");
    if (vf && hca)
        g_ptr_array_add(facts->uses, g_strdup_printf("vf/%s/%s", hca, vf));
    else
        add_use(facts, "hca", hca);
    add_use(facts, "guid", guid);
}

/* As it is written: blanks around a name are not libvirt's to forgive. */
static char *
content_of(const xmlNode *node)
{
    xmlChar *text = xmlNodeGetContent(node);
    char *copy = g_strdup((const char *)text);
    xmlFree(text);
    return copy;
}

static void
read_mark(WeftDomainFacts *facts, const xmlNode *metadata)
{
    const xmlNode *mark = metadata ? metadata->children : NULL;
    while (mark && !is_marked(mark, "node"))
        mark = mark->next;
    if (!mark)
        return;
    facts->node = weft_xml_get(mark, "id");
    facts->site = weft_xml_get(mark, "site");
    facts->placement = weft_xml_get(mark, "placement");
    for (const xmlNode *node = mark->children; node; node = node->next) {
        if (is_marked(node, "device"))
            read_device(facts, node);
        if (is_marked(node, "record") && !facts->record)
            facts->record = content_of(node);
        if (is_marked(node, "gpu")) {
            g_autofree char *name = weft_xml_get(node, "name");
            add_use(facts, "gpu", name);
        }
    }
}

static void
read_pins(WeftDomainFacts *facts, const xmlNode *cputune)
{
    for (const xmlNode *node = cputune ? cputune->children : NULL; node; node = node->next) {
        if (weft_xml_is(node, "vcpupin")) {
            g_autofree char *cpu = weft_xml_get(node, "cpuset");
            add_use(facts, "cpu", cpu);
        }
    }
}

static WeftDomainFacts *
read_document(xmlDoc *doc, GError **error)
{
    const xmlNode *root = xmlDocGetRootElement(doc);
    const xmlNode *name = root && weft_xml_is(root, "domain") ? weft_xml_child(root, "name") : NULL;
    /* Domains have no document type; without one there are no entities to expand either. */
    if (!name || doc->intSubset) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "not a domain definition: it needs <domain> with <name> and no DOCTYPE");
        return NULL;
    }

    WeftDomainFacts *facts = g_new0(WeftDomainFacts, 1);
    facts->name = content_of(name);
    facts->uses = g_ptr_array_new_with_free_func(g_free);
    read_mark(facts, weft_xml_child(root, "metadata"));
    read_pins(facts, weft_xml_child(root, "cputune"));
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
    g_autoptr(xmlDoc) doc = weft_xml_load(xml);
    if (!doc) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "not a domain definition: it is not well-formed XML");
        return NULL;
    }
    return read_document(doc, error);
}

GPtrArray *
weft_domain_xml_images(const char *xml)
{
    static const char prefix[] = WEFT_POOL_PATH "/" WEFT_IMAGE_PREFIX;
    GPtrArray *digests = g_ptr_array_new_with_free_func(g_free);
    for (const char *at = xml; (at = strstr(at, prefix)); at += strlen(prefix))
        g_ptr_array_add(digests, g_strndup(at + strlen(prefix), WEFT_DIGEST_LENGTH));
    return digests;
}

void
weft_domain_facts_free(WeftDomainFacts *facts)
{
    if (!facts)
        return;
    g_free(facts->name);
    g_free(facts->node);
    g_free(facts->site);
    g_free(facts->placement);
    g_free(facts->record);
    g_clear_pointer(&facts->uses, g_ptr_array_unref);
    g_free(facts);
}
