#include "xml.h"

#include "errors.h"

#include <libxml/parser.h>
#include <string.h>

#define XML_MAX (16u << 20) /* capabilities of a machine with 1,024 CPUs stay far below */

gboolean
weft_xml_is(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && xmlStrEqual(node->name, BAD_CAST name);
}

gboolean
weft_xml_is_of(const xmlNode *node, const char *ns)
{
    return node->type == XML_ELEMENT_NODE && node->ns && xmlStrEqual(node->ns->href, BAD_CAST ns);
}

/* libxml2 wants this before a second thread comes, as it does not order by itself who finds it initialized. */
static void
initialize(void)
{
    static gsize done;
    if (g_once_init_enter(&done)) {
        xmlInitParser();
        g_once_init_leave(&done, 1);
    }
}

xmlDoc *
weft_xml_load(const char *text)
{
    initialize();
    return xmlReadMemory(text, (int)strlen(text), NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
}

xmlDoc *
weft_xml_parse(const char *text, const char *root, GError **error)
{
    g_autoptr(xmlDoc) doc = strlen(text) > XML_MAX ? NULL : weft_xml_load(text);
    const xmlNode *top = doc ? xmlDocGetRootElement(doc) : NULL;
    if (!top || doc->intSubset || !weft_xml_is(top, root)) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "not XML of a <%s>", root);
        return NULL;
    }
    return g_steal_pointer(&doc);
}

static const xmlNode *
first_named(const xmlNode *node, const char *name)
{
    while (node && !weft_xml_is(node, name))
        node = node->next;
    return node;
}

const xmlNode *
weft_xml_child(const xmlNode *parent, const char *name)
{
    return parent ? first_named(parent->children, name) : NULL;
}

const xmlNode *
weft_xml_next(const xmlNode *node, const char *name)
{
    return first_named(node->next, name);
}

const xmlNode *
weft_xml_find(const xmlNode *root, const char *const *path)
{
    for (; root && *path; path++)
        root = weft_xml_child(root, *path);
    return root;
}

const xmlNode *
weft_xml_child_ns(const xmlNode *parent, const char *name, const char *ns)
{
    const xmlNode *node = weft_xml_child(parent, name);
    while (node && !weft_xml_is_of(node, ns))
        node = weft_xml_next(node, name);
    return node;
}

static char *
take(xmlChar *text)
{
    char *copy = g_strdup((const char *)text);
    xmlFree(text);
    return copy;
}

char *
weft_xml_content(const xmlNode *node)
{
    return node ? g_strstrip(take(xmlNodeGetContent(node))) : NULL;
}

char *
weft_xml_get(const xmlNode *node, const char *name)
{
    xmlChar *value = node ? xmlGetNoNsProp(node, BAD_CAST name) : NULL;
    return value ? take(value) : NULL;
}

gboolean
weft_xml_number(const char *text, guint base, guint64 max, guint64 *ret_number)
{
    if (!text)
        return FALSE;
    if (base == 0 || base == 16) {
        gboolean hex = g_str_has_prefix(text, "0x");
        text += hex ? 2 : 0;
        base = hex || base == 16 ? 16 : 10;
    }
    return g_ascii_string_to_unsigned(text, base, 0, max, ret_number, NULL);
}

char *
weft_xml_escape(const char *text)
{
    return g_markup_escape_text(text, -1);
}
