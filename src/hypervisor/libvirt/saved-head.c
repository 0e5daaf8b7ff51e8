#include "saved.h"

#include "errors.h"

#include <string.h>

#define MAGIC "LibvirtQemudSave"
#define MAGIC_PART "LibvirtQemudPart" /* until its last byte is written */
#define MAGIC_LENGTH 16
#define VERSION_MAX 2
#define FIELDS 5
#define ALIGN 8

static const char magic[MAGIC_LENGTH] = MAGIC;

static gboolean
check_magic(const guint8 *bytes, gsize length, GError **error)
{
    if (length < WEFT_SAVED_HEAD)
        return weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "not a saved domain: it has %" G_GSIZE_FORMAT " bytes, less than the head of one; save it again", length);
    if (memcmp(bytes, MAGIC_PART, MAGIC_LENGTH) == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "a saved domain whose saving was broken off; save it again");
    return memcmp(bytes, magic, sizeof magic) == 0 ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "not a saved domain: it does not begin with " MAGIC "; save it again");
}

/* A version beyond all known ones is one of a machine of the other byte order. */
static void
read_fields(const guint8 *bytes, guint32 *fields)
{
    memcpy(fields, bytes + MAGIC_LENGTH, FIELDS * sizeof *fields);
    if (fields[0] <= VERSION_MAX)
        return;
    for (guint i = 0; i < FIELDS; i++)
        fields[i] = GUINT32_SWAP_LE_BE(fields[i]);
}

gboolean
weft_saved_head_read(const guint8 *bytes, gsize length, WeftSavedHead *ret_head, GError **error)
{
    guint32 fields[FIELDS];
    if (!check_magic(bytes, length, error))
        return FALSE;
    read_fields(bytes, fields);
    WeftSavedHead head = { fields[0], fields[1], fields[2], fields[3], fields[4], { 0 } };
    memcpy(head.rest, bytes + WEFT_SAVED_HEAD - sizeof head.rest, sizeof head.rest);
    if (head.version == 0 || head.version > VERSION_MAX)
        return weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "a saved domain of version %u, which is not known; save it by a libvirt that writes version %d", head.version,
            VERSION_MAX);
    if (head.length == 0 || head.length > WEFT_SAVED_FRONT_MAX || head.cookie >= head.length)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "a damaged saved domain: %u bytes of definition, cookie at %u; save it again", head.length,
                                 head.cookie);
    *ret_head = head;
    return TRUE;
}

char *
weft_saved_xml(const WeftSavedHead *head, const guint8 *data, GError **error)
{
    gsize room = head->cookie ? head->cookie : head->length;
    const guint8 *end = memchr(data, '\0', room);
    if (end && end > data && g_utf8_validate((const char *)data, end - data, NULL))
        return g_strndup((const char *)data, (gsize)(end - data));
    weft_error_refuse(error, WEFT_ERROR_INVALID, "a damaged saved domain: its definition is no text; save it again");
    return NULL;
}

/* The cookie with its NUL; what follows is room. */
static gsize
cookie_length(const WeftSavedHead *head, const guint8 *data)
{
    if (!head->cookie)
        return 0;
    const guint8 *end = memchr(data + head->cookie, '\0', head->length - head->cookie);
    return end ? (gsize)(end - data) + 1 - head->cookie : head->length - head->cookie;
}

GBytes *
weft_saved_front(const WeftSavedHead *head, const guint8 *data, const char *xml, guint32 room, GError **error)
{
    gsize text = strlen(xml) + 1, cookie = cookie_length(head, data);
    gsize used = (text + cookie + ALIGN - 1) / ALIGN * ALIGN, length = room ? room : used;
    if (text + cookie > length || length > WEFT_SAVED_FRONT_MAX) {
        weft_error_refuse(error, WEFT_ERROR_INVALID,
                          "a definition of %" G_GSIZE_FORMAT " bytes does not fit into a saved domain, which has room for %u",
                          text, room ? room : WEFT_SAVED_FRONT_MAX);
        return NULL;
    }
    const guint32 fields[FIELDS] = { head->version, (guint32)length, head->running, head->compressed,
                                     head->cookie ? (guint32)text : 0 };
    guint8 *front = g_malloc0(WEFT_SAVED_HEAD + length);
    memcpy(front, magic, sizeof magic);
    memcpy(front + MAGIC_LENGTH, fields, sizeof fields);
    memcpy(front + WEFT_SAVED_HEAD - sizeof head->rest, head->rest, sizeof head->rest);
    memcpy(front + WEFT_SAVED_HEAD, xml, text);
    memcpy(front + WEFT_SAVED_HEAD + text, data + head->cookie, cookie);
    return g_bytes_new_take(front, WEFT_SAVED_HEAD + length);
}
