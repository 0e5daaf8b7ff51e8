/* The files that libvirt puts domains aside in: a head, the domain's definition, a cookie of libvirt's own, then QEMU's state
 * and memory. Pure: bytes and texts go in and come out. */
#pragma once

#include <glib.h>
#include <libxml/tree.h>

#define WEFT_SAVED_HEAD 92                 /* bytes of the head */
#define WEFT_SAVED_FRONT_MAX (16u << 20)   /* of what comes before QEMU's part; libvirt leaves 64 KiB of room in it */
#define WEFT_SAVED_STATE_MAX (64ULL << 20) /* of a file without memory: devices' state is some hundred KiB */

typedef struct WeftSavedHead {
    guint32 version;
    guint32 length;  /* of definition, cookie and room, after the head */
    guint32 running; /* whether the domain ran */
    guint32 compressed;
    guint32 cookie; /* where in it the cookie begins; 0: there is none */
    guint8 rest[WEFT_SAVED_HEAD - 36];
} WeftSavedHead;

/* INVALID unless it is the head of a whole file. Byte order is the writer's, and is told by the version. */
gboolean weft_saved_head_read(const guint8 *bytes, gsize length, WeftSavedHead *ret_head, GError **error);
/* The definition in what follows the head. */
char *weft_saved_xml(const WeftSavedHead *head, const guint8 *data, GError **error);
/* Head and data with another definition, cookie and all else kept. room: data's length that must come out, so that it fits
 * where the old one was; 0: as long as it takes. */
GBytes *weft_saved_front(const WeftSavedHead *head, const guint8 *data, const char *xml, guint32 room, GError **error);

/* Memory that a domain has in a file of its host: see hook.h. */
typedef struct WeftSavedMemory {
    const char *id;
    const char *generation;
    gboolean made; /* the domain makes it; else it shares it until it writes to it */
} WeftSavedMemory;

/* The definition of a domain that goes on from a saved one: its devices with their addresses are the saved one's; name,
 * identity, places on the host and files are those of the definition. INVALID where size or devices differ. memory NULL: it has
 * its own. */
char *weft_saved_definition(const char *saved, const char *definition, const WeftSavedMemory *memory, GError **error);
/* Aliases of the interfaces whose link a definition wants down: char *. */
GPtrArray *weft_saved_unlinked(const char *definition);
/* Has libvirt ask QEMU less when the domain starts. Adds to a <domain>. */
void weft_saved_start_quickly(xmlNode *root);
/* The size of the pages that a definition wants, bytes. */
guint64 weft_saved_page_size(const char *definition);
