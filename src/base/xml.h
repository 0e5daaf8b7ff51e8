/* Reading XML that others wrote, with libxml2. */
#pragma once

#include <glib.h>
#include <libxml/tree.h>

G_DEFINE_AUTOPTR_CLEANUP_FUNC(xmlDoc, xmlFreeDoc)

/* NULL: it is not well-formed. Nothing is fetched. Where a text may come from a stranger, refuse one that has an intSubset (a
 * DOCTYPE): without it there are no entities to expand. */
xmlDoc *weft_xml_load(const char *text);
/* NULL with INVALID unless it is well-formed, has this root, no DOCTYPE and a bearable size. */
xmlDoc *weft_xml_parse(const char *text, const char *root, GError **error);

/* Is it an element of that name; and of that namespace? */
gboolean weft_xml_is(const xmlNode *node, const char *name);
gboolean weft_xml_is_of(const xmlNode *node, const char *ns);
/* The first child of that name; NULL: there is none, or no parent. */
const xmlNode *weft_xml_child(const xmlNode *parent, const char *name);
const xmlNode *weft_xml_next(const xmlNode *node, const char *name);        /* the next sibling of that name */
const xmlNode *weft_xml_find(const xmlNode *root, const char *const *path); /* NULL-ended names, downwards */
const xmlNode *weft_xml_child_ns(const xmlNode *parent, const char *name, const char *ns);
char *weft_xml_content(const xmlNode *node);               /* stripped; NULL when node is NULL */
char *weft_xml_get(const xmlNode *node, const char *name); /* an attribute; NULL: it lacks, or node is NULL */
/* FALSE: no number up to max. base 0: as in C. */
gboolean weft_xml_number(const char *text, guint base, guint64 max, guint64 *ret_number);
char *weft_xml_escape(const char *text);
