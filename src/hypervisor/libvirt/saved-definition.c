#include "saved.h"

#include "errors.h"
#include "hook.h"
#include "xml.h"

#include <string.h>

#define QEMU_NAMESPACE "http://libvirt.org/schemas/domain/qemu/1.0"
#define SMALL_PAGE 4096
#define TRANSLATION_MIB 128 /* for each processor */

/* --- sizes --- */

/* An amount of memory in KiB, as libvirt reads it. 0: it lacks or is none. */
static guint64
amount_of(const xmlNode *node)
{
    static const struct {
        const char *unit;
        guint64 bytes;
    } units[] = { { "b", 1 },           { "bytes", 1 },    { "KB", 1000 },        { "k", 1 << 10 },
                  { "KiB", 1 << 10 },   { "MB", 1000000 }, { "M", 1 << 20 },      { "MiB", 1 << 20 },
                  { "GB", 1000000000 }, { "G", 1 << 30 },  { "GiB", 1ULL << 30 }, { "T", 1ULL << 40 },
                  { "TiB", 1ULL << 40 } };
    g_autofree char *text = weft_xml_content(node);
    g_autofree char *unit = weft_xml_get(node, "unit");
    guint64 number = 0;
    if (!text || !weft_xml_number(text, 10, G_MAXUINT64 >> 40, &number))
        return 0;
    for (gsize i = 0; unit && i < G_N_ELEMENTS(units); i++) {
        if (g_str_equal(unit, units[i].unit))
            return number * units[i].bytes / 1024;
    }
    return number;
}

static gboolean
check_number(const char *what, guint64 saved, guint64 wanted, GError **error)
{
    return saved == wanted || weft_error_refuse(error, WEFT_ERROR_INVALID,
                                                "a domain with %" G_GUINT64_FORMAT
                                                " %s cannot go on from a saved one with %" G_GUINT64_FORMAT "; let it boot",
                                                wanted, what, saved);
}

static guint64
vcpus_of(const xmlNode *root)
{
    g_autofree char *text = weft_xml_content(weft_xml_child(root, "vcpu"));
    guint64 number = 1;
    if (text)
        weft_xml_number(text, 10, G_MAXUINT32, &number);
    return number;
}

static gboolean
check_size(const xmlNode *saved, const xmlNode *wanted, GError **error)
{
    g_autofree char *theirs = weft_xml_get(saved, "type");
    g_autofree char *ours = weft_xml_get(wanted, "type");
    if (g_strcmp0(theirs, ours) != 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "a domain of type %s cannot go on from a saved one of type %s; let it boot",
                                 ours ? ours : "nothing", theirs ? theirs : "nothing");
    return check_number("KiB of memory", amount_of(weft_xml_child(saved, "memory")),
                        amount_of(weft_xml_child(wanted, "memory")), error) &&
           check_number("processors", vcpus_of(saved), vcpus_of(wanted), error);
}

/* --- elements --- */

static xmlNode *
add(xmlNode *parent, const char *name)
{
    return xmlNewChild(parent, NULL, BAD_CAST name, NULL);
}

static void
drop_all(xmlNode *parent, const char *name)
{
    for (xmlNode *node; (node = (xmlNode *)weft_xml_child(parent, name));) {
        xmlUnlinkNode(node);
        xmlFreeNode(node);
    }
}

/* What the definition says of it, or nothing. */
static void
replace(xmlNode *parent, const xmlNode *from, const char *name)
{
    const xmlNode *wanted = weft_xml_child(from, name);
    drop_all(parent, name);
    if (wanted)
        xmlAddChild(parent, xmlDocCopyNode((xmlNode *)wanted, parent->doc, 1));
}

static void
drop_namespace(xmlNode *root, const char *space)
{
    for (xmlNode *node = root->children, *next; node; node = next) {
        next = node->next;
        if (!weft_xml_is_of(node, space))
            continue;
        xmlUnlinkNode(node);
        xmlFreeNode(node);
    }
}

/* --- devices --- */

static guint
count_of(const xmlNode *devices, const char *kind)
{
    guint count = 0;
    for (const xmlNode *device = weft_xml_child(devices, kind); device; device = weft_xml_next(device, kind))
        count++;
    return count;
}

static char *
target_of(const xmlNode *device)
{
    return weft_xml_get(weft_xml_child(device, "target"), "dev");
}

/* A disk is known by where the guest sees it, the others by their order. */
static const xmlNode *
find_like(const xmlNode *devices, const xmlNode *device, guint index, gboolean by_target)
{
    const char *kind = (const char *)device->name;
    g_autofree char *wanted = target_of(device);
    const xmlNode *found = weft_xml_child(devices, kind);
    for (; found; found = weft_xml_next(found, kind)) {
        g_autofree char *target = target_of(found);
        if (by_target ? g_strcmp0(target, wanted) == 0 : index-- == 0)
            return found;
    }
    return NULL;
}

/* The parts of a device that belong to its host or its node. */
typedef struct Parts {
    const char *kind;
    const char *const *elements;
    const char *attribute; /* NULL: none */
    gboolean by_target;
} Parts;

static const Parts parts[] = {
    { "disk", (const char *const[]){ "source", "backingStore", NULL }, NULL, TRUE },
    { "interface", (const char *const[]){ "mac", "source", "target", "link", NULL }, NULL, FALSE },
    { "shmem", (const char *const[]){ NULL }, "name", FALSE },
    { "hostdev", (const char *const[]){ "source", NULL }, NULL, FALSE },
};

static void
change_device(xmlNode *device, const xmlNode *wanted, const Parts *part)
{
    for (guint i = 0; part->elements[i]; i++)
        replace(device, wanted, part->elements[i]);
    g_autofree char *value = part->attribute ? weft_xml_get(wanted, part->attribute) : NULL;
    if (value)
        xmlSetProp(device, BAD_CAST part->attribute, BAD_CAST value);
    if (weft_xml_child(wanted, "alias")) /* what was plugged keeps its own, by which it is unplugged */
        replace(device, wanted, "alias");
}

static gboolean
change_devices(xmlNode *saved, const xmlNode *wanted, const Parts *part, GError **error)
{
    guint index = 0;
    if (!check_number(part->kind, count_of(saved, part->kind), count_of(wanted, part->kind), error))
        return FALSE;
    for (const xmlNode *device = weft_xml_child(saved, part->kind); device; device = weft_xml_next(device, part->kind)) {
        const xmlNode *like = find_like(wanted, device, index++, part->by_target);
        g_autofree char *target = target_of(device);
        if (!like)
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "a domain without %s %s cannot go on from a saved one that has it; let it boot",
                                     part->kind, target ? target : "");
        change_device((xmlNode *)device, like, part);
    }
    return TRUE;
}

GPtrArray *
weft_saved_unlinked(const char *definition)
{
    static const char *const path[] = { "devices", "interface", NULL };
    GPtrArray *aliases = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(xmlDoc) doc = weft_xml_parse(definition, "domain", NULL);
    const xmlNode *interface = doc ? weft_xml_find(xmlDocGetRootElement(doc), path) : NULL;
    for (; interface; interface = weft_xml_next(interface, "interface")) {
        g_autofree char *state = weft_xml_get(weft_xml_child(interface, "link"), "state");
        g_autofree char *alias = weft_xml_get(weft_xml_child(interface, "alias"), "name");
        if (alias && g_strcmp0(state, "down") == 0)
            g_ptr_array_add(aliases, g_steal_pointer(&alias));
    }
    return aliases;
}

/* --- memory in a file --- */

guint64
weft_saved_page_size(const char *definition)
{
    static const char *const path[] = { "memoryBacking", "hugepages", "page", NULL };
    g_autoptr(xmlDoc) doc = weft_xml_parse(definition, "domain", NULL);
    const xmlNode *page = doc ? weft_xml_find(xmlDocGetRootElement(doc), path) : NULL;
    g_autofree char *size = weft_xml_get(page, "size");
    guint64 kib = 0;
    return size && weft_xml_number(size, 10, G_MAXUINT32, &kib) ? kib * 1024 : SMALL_PAGE;
}

static void
add_argument(xmlNode *commandline, const char *value)
{
    xmlNode *argument = xmlNewChild(commandline, commandline->ns, BAD_CAST "arg", NULL);
    xmlSetProp(argument, BAD_CAST "value", BAD_CAST value);
}

static xmlNs *
qemu_namespace(xmlNode *root)
{
    xmlNs *space = xmlSearchNsByHref(root->doc, root, BAD_CAST QEMU_NAMESPACE);
    return space ? space : xmlNewNs(root, BAD_CAST QEMU_NAMESPACE, BAD_CAST "qemu");
}

/* QEMU is to take its memory as it is before libvirt has it read the state: a second monitor reads that from a file, which the
 * hook makes. */
static void
add_monitor(xmlNode *root, const char *domain)
{
    g_autofree char *pipe = g_strdup_printf("pipe,id=weft-fork,path=" WEFT_FORK_PATH "/%s", domain);
    xmlNode *commandline = xmlNewChild(root, qemu_namespace(root), BAD_CAST "commandline", NULL);
    add_argument(commandline, "-chardev");
    add_argument(commandline, pipe);
    add_argument(commandline, "-mon");
    add_argument(commandline, "chardev=weft-fork,mode=control");
}

/* Otherwise libvirt asks for each of several hundred features of the processor by itself, which takes longer than all else.
 * What it then knows of the processor nobody needs: nodes get all of the host's. Nor does anybody need how long KVM polled, for
 * which it asks all QEMUs of a host whenever that is looked at; QEMU reads questions byte by byte. */
void
weft_saved_start_quickly(xmlNode *root)
{
    xmlNode *capabilities = xmlNewChild(root, qemu_namespace(root), BAD_CAST "capabilities", NULL);
    const char *const without[] = { "cpu-unavailable-features", "query-stats" };
    for (gsize i = 0; i < G_N_ELEMENTS(without); i++) {
        xmlNode *del = xmlNewChild(capabilities, capabilities->ns, BAD_CAST "del", NULL);
        xmlSetProp(del, BAD_CAST "capability", BAD_CAST without[i]);
    }
}

/* The file's pages are huge or not: to libvirt it is a file. With <hugepages> it would have QEMU write to every page first. */
static void
use_file(xmlNode *root, const WeftSavedMemory *memory)
{
    xmlNode *backing = (xmlNode *)weft_xml_child(root, "memoryBacking");
    if (!backing)
        backing = add(root, "memoryBacking");
    const char *const others[] = { "hugepages", "source", "access", "allocation" };
    for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
        drop_all(backing, others[i]);
    xmlSetProp(add(backing, "source"), BAD_CAST "type", BAD_CAST "file");
    xmlSetProp(add(backing, "access"), BAD_CAST "mode", BAD_CAST(memory->made ? "shared" : "private"));
}

static void
mark_memory(xmlNode *root, const WeftSavedMemory *memory, guint64 page_size)
{
    g_autofree char *page = g_strdup_printf("%" G_GUINT64_FORMAT, page_size);
    xmlNode *metadata = (xmlNode *)weft_xml_child(root, "metadata");
    if (!metadata)
        metadata = add(root, "metadata");
    xmlNode *mark = add(metadata, "memory");
    xmlSetNs(mark, xmlNewNs(mark, BAD_CAST WEFT_MEMORY_NAMESPACE, BAD_CAST "memory"));
    xmlSetProp(mark, BAD_CAST "id", BAD_CAST memory->id);
    xmlSetProp(mark, BAD_CAST "generation", BAD_CAST memory->generation);
    xmlSetProp(mark, BAD_CAST "page", BAD_CAST page);
    xmlSetProp(mark, BAD_CAST "use", BAD_CAST(memory->made ? WEFT_MEMORY_MAKE : WEFT_MEMORY_SHARE));
}

/* QEMU keeps what it translates of an emulated guest in up to 1 GiB, and a fork has its own: of an idle node that would be most
 * of its memory. */
static void
bound_translation(xmlNode *root)
{
    g_autofree char *type = weft_xml_get(root, "type");
    g_autofree char *size = g_strdup_printf("%" G_GUINT64_FORMAT, TRANSLATION_MIB * vcpus_of(root));
    xmlNode *features = (xmlNode *)weft_xml_child(root, "features");
    if (g_strcmp0(type, "qemu") != 0)
        return;
    if (!features)
        features = add(root, "features");
    drop_all(features, "tcg");
    xmlNode *cache = xmlNewChild(add(features, "tcg"), NULL, BAD_CAST "tb-cache", BAD_CAST size);
    xmlSetProp(cache, BAD_CAST "unit", BAD_CAST "MiB");
}

/* --- all of it --- */

static gboolean
change(xmlNode *root, const xmlNode *wanted, GError **error)
{
    static const char *const own[] = { "name",     "uuid",          "title",   "description",
                                       "metadata", "memoryBacking", "cputune", "numatune" };
    xmlNode *devices = (xmlNode *)weft_xml_child(root, "devices");
    for (gsize i = 0; i < G_N_ELEMENTS(own); i++)
        replace(root, wanted, own[i]);
    drop_namespace(root, QEMU_NAMESPACE);
    for (gsize i = 0; devices && i < G_N_ELEMENTS(parts); i++) {
        if (!change_devices(devices, weft_xml_child(wanted, "devices"), &parts[i], error))
            return FALSE;
    }
    return TRUE;
}

char *
weft_saved_definition(const char *saved, const char *definition, const WeftSavedMemory *memory, GError **error)
{
    g_autoptr(xmlDoc) doc = weft_xml_parse(saved, "domain", error);
    g_autoptr(xmlDoc) wanted = doc ? weft_xml_parse(definition, "domain", error) : NULL;
    if (!wanted)
        return NULL;
    xmlNode *root = xmlDocGetRootElement(doc);
    if (!check_size(root, xmlDocGetRootElement(wanted), error) || !change(root, xmlDocGetRootElement(wanted), error))
        return NULL;
    if (memory) {
        g_autofree char *name = weft_xml_content(weft_xml_child(root, "name"));
        mark_memory(root, memory, weft_saved_page_size(definition));
        use_file(root, memory);
        if (!memory->made) {
            add_monitor(root, name);
            bound_translation(root);
        }
    }
    weft_saved_start_quickly(root);
    xmlChar *text = NULL;
    int length = 0;
    xmlDocDumpMemory(doc, &text, &length);
    char *copy = g_strndup((const char *)text, (gsize)length);
    xmlFree(text);
    return copy;
}
