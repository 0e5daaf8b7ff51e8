#include "move-plan.h"

#include "driver.h"

#include <string.h>

/* --- how far it got --- */

/* clang-format off */
static const struct {
    int state, reason;
    WeftMoveEnd end;
} ends[] = {
    { VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_POSTCOPY,        WEFT_END_COPIES },
    { VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_POSTCOPY_FAILED, WEFT_END_BROKEN },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_POSTCOPY,         WEFT_END_COPIES },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_POSTCOPY_FAILED,  WEFT_END_BROKEN },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_MIGRATION,        WEFT_END_HALTED },
    { VIR_DOMAIN_PAUSED,  VIR_DOMAIN_PAUSED_STARTING_UP,      WEFT_END_HALTED },
};
/* clang-format on */

WeftMoveEnd
weft_move_end(int state, int reason)
{
    for (gsize i = 0; i < G_N_ELEMENTS(ends); i++) {
        if (ends[i].state == state && ends[i].reason == reason)
            return ends[i].end;
    }
    switch (state) {
    case VIR_DOMAIN_RUNNING:
    case VIR_DOMAIN_BLOCKED:
        return WEFT_END_RUNS;
    case VIR_DOMAIN_SHUTOFF:
    case VIR_DOMAIN_CRASHED:
        return WEFT_END_ABSENT;
    default:
        return WEFT_END_PAUSED;
    }
}

/* Rows: here; columns: there.
 *
 * invariant: nothing is woken here unless nothing is there, and nothing is ended here unless all of it is there. A domain that
 * runs here and there is impossible as far as libvirt's word goes; should it be, the one that others know goes on. */
/* clang-format off */
static const WeftMoveStep steps[WEFT_ENDS][WEFT_ENDS] = {
    [WEFT_END_ABSENT] = { WEFT_MOVE_LOST,   WEFT_MOVE_DONE,   WEFT_MOVE_DONE,   WEFT_MOVE_CLEAR, WEFT_MOVE_AWAIT, WEFT_MOVE_CLEAR },
    [WEFT_END_RUNS]   = { WEFT_MOVE_BEGIN,  WEFT_MOVE_CLEAR,  WEFT_MOVE_CLEAR,  WEFT_MOVE_CLEAR, WEFT_MOVE_CLEAR, WEFT_MOVE_CLEAR },
    [WEFT_END_PAUSED] = { WEFT_MOVE_REFUSE, WEFT_MOVE_REFUSE, WEFT_MOVE_REFUSE, WEFT_MOVE_CLEAR, WEFT_MOVE_AWAIT, WEFT_MOVE_REFUSE },
    [WEFT_END_HALTED] = { WEFT_MOVE_WAKE,   WEFT_MOVE_END,    WEFT_MOVE_END,    WEFT_MOVE_CLEAR, WEFT_MOVE_AWAIT, WEFT_MOVE_RESUME },
    [WEFT_END_COPIES] = { WEFT_MOVE_LOST,   WEFT_MOVE_AWAIT,  WEFT_MOVE_AWAIT,  WEFT_MOVE_AWAIT, WEFT_MOVE_AWAIT, WEFT_MOVE_BREAK },
    [WEFT_END_BROKEN] = { WEFT_MOVE_LOST,   WEFT_MOVE_END,    WEFT_MOVE_END,    WEFT_MOVE_AWAIT, WEFT_MOVE_AWAIT, WEFT_MOVE_RESUME },
};
/* clang-format on */

WeftMoveStep
weft_move_step(WeftMoveEnd here, WeftMoveEnd there)
{
    return steps[here][there];
}

/* --- how it reads there --- */

#define QEMU_NAMESPACE "http://libvirt.org/schemas/domain/qemu/1.0"

/* What says where on a host the domain is, and for whom; all else is what its guest sees. */
static const char *const places[] = { "title", "metadata", "memtune", "memoryBacking", "cputune", "numatune" };

static void
drop(const xmlNode *node)
{
    xmlUnlinkNode((xmlNode *)node);
    xmlFreeNode((xmlNode *)node);
}

/* At its place, since the order of some elements has a meaning to those who read them. */
static void
replace_child(xmlNode *parent, const xmlNode *other, const char *name)
{
    const xmlNode *old = weft_xml_child(parent, name), *fresh = weft_xml_child(other, name);
    xmlNode *copy = fresh ? xmlDocCopyNode((xmlNode *)fresh, parent->doc, 1) : NULL;
    if (copy && old)
        xmlAddPrevSibling((xmlNode *)old, copy);
    else if (copy)
        xmlAddChild(parent, copy);
    if (old)
        drop(old);
}

/* Of a domain that was forked: libvirt refuses one whose memory is a file here and not there, and where pages are huge it makes
 * no difference to QEMU. */
static void
keep_source(xmlNode *root, xmlNode *source)
{
    xmlNode *backing = (xmlNode *)weft_xml_child(root, "memoryBacking");
    if (source && backing && !weft_xml_child(backing, "source"))
        xmlAddChild(backing, source);
    else if (source)
        xmlFreeNode(source);
}

/* A second monitor and the like were for its start here. */
static void
drop_qemu(xmlNode *root)
{
    const char *const names[] = { "commandline" };
    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        const xmlNode *node = weft_xml_child_ns(root, names[i], QEMU_NAMESPACE);
        if (node)
            drop(node);
    }
}

static char *
mac_of(const xmlNode *interface)
{
    return weft_xml_get(weft_xml_child(interface, "mac"), "address");
}

static const xmlNode *
find_interface(const xmlNode *devices, const char *mac)
{
    for (const xmlNode *node = weft_xml_child(devices, "interface"); node; node = weft_xml_next(node, "interface")) {
        g_autofree char *found = mac_of(node);
        if (mac && found && g_ascii_strcasecmp(found, mac) == 0)
            return node;
    }
    return NULL;
}

static void
reconnect(xmlNode *devices, const xmlNode *wanted)
{
    for (const xmlNode *node = weft_xml_child(devices, "interface"); node; node = weft_xml_next(node, "interface")) {
        g_autofree char *mac = mac_of(node);
        const xmlNode *there = find_interface(wanted, mac);
        if (!there)
            continue;
        replace_child((xmlNode *)node, there, "source");
        replace_child((xmlNode *)node, there, "target");
    }
}

static void
add_limit(xmlNode *root, guint64 limit)
{
    g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, limit);
    xmlNode *tune = xmlNewChild(root, NULL, BAD_CAST "memtune", NULL);
    xmlNode *hard = xmlNewChild(tune, NULL, BAD_CAST "hard_limit", BAD_CAST text);
    xmlNewProp(hard, BAD_CAST "unit", BAD_CAST "KiB");
}

char *
weft_move_definition(const char *live, const char *wanted, guint64 limit, GError **error)
{
    g_autoptr(xmlDoc) doc = weft_xml_parse(live, "domain", error);
    g_autoptr(xmlDoc) other = doc ? weft_xml_parse(wanted, "domain", error) : NULL;
    if (!other)
        return NULL;
    xmlNode *root = xmlDocGetRootElement(doc);
    const xmlNode *places_root = xmlDocGetRootElement(other);
    const xmlNode *source = weft_xml_child(weft_xml_child(root, "memoryBacking"), "source");
    xmlNode *kept = source ? xmlDocCopyNode((xmlNode *)source, doc, 1) : NULL;
    for (gsize i = 0; i < G_N_ELEMENTS(places); i++)
        replace_child(root, places_root, places[i]);
    keep_source(root, kept);
    if (limit > 0)
        add_limit(root, limit);
    drop_qemu(root);
    reconnect((xmlNode *)weft_xml_child(root, "devices"), weft_xml_child(places_root, "devices"));
    weft_vir_definition_mark(root, wanted);
    return weft_vir_xml_text(doc);
}

/* --- its own disk --- */

char *
weft_move_own_disk(const char *live, char **ret_base, char **ret_format)
{
    static const char *const path[] = { "devices", NULL };
    g_autoptr(xmlDoc) doc = weft_xml_parse(live, "domain", NULL);
    const xmlNode *devices = doc ? weft_xml_find(xmlDocGetRootElement(doc), path) : NULL;
    for (const xmlNode *disk = weft_xml_child(devices, "disk"); disk; disk = weft_xml_next(disk, "disk")) {
        const xmlNode *below = weft_xml_child(disk, "backingStore");
        g_autofree char *file = weft_xml_get(weft_xml_child(disk, "source"), "file");
        if (!file || !g_str_has_suffix(file, WEFT_DISK_SUFFIX))
            continue;
        g_autofree char *base = weft_xml_get(weft_xml_child(below, "source"), "file");
        *ret_base = base ? g_path_get_basename(base) : NULL;
        *ret_format = weft_xml_get(weft_xml_child(below, "format"), "type");
        return weft_xml_get(weft_xml_child(disk, "target"), "dev");
    }
    return NULL;
}
