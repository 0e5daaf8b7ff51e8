#include "driver.h"
#include "errors.h"
#include "hook.h"
#include "saved.h"

#include <string.h>

#define PIECE (256u << 10)

/* --- the pool for what forks need: a reboot empties it as it does the memory --- */

static const char pool_xml[] = "<pool type='dir'><name>" WEFT_FORK_POOL "</name><target><path>" WEFT_FORK_PATH "</path>"
                               "<permissions><mode>0711</mode></permissions></target></pool>";

virStoragePool *
weft_vir_fork_pool(WeftCall *call, GError **error)
{
    virStoragePool *pool = virStoragePoolLookupByName(call->conn, WEFT_FORK_POOL);
    if (!pool && weft_vir_failed_with(VIR_ERR_NO_STORAGE_POOL))
        pool = virStoragePoolCreateXML(call->conn, pool_xml, VIR_STORAGE_POOL_CREATE_WITH_BUILD);
    if (!pool) /* somebody else was quicker? */
        pool = virStoragePoolLookupByName(call->conn, WEFT_FORK_POOL);
    if (!pool)
        weft_vir_fail(error, "making storage pool " WEFT_FORK_POOL " at " WEFT_FORK_PATH);
    return pool;
}

/* --- small volumes as bytes --- */

static gboolean
receive(virStream *stream, GByteArray *bytes, guint64 max, GError **error)
{
    g_autofree char *piece = g_malloc(PIECE);
    int n;
    while ((n = virStreamRecv(stream, piece, PIECE)) > 0) {
        if (bytes->len + (guint64)n > max)
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "it has more than %" G_GUINT64_FORMAT " bytes", max);
        g_byte_array_append(bytes, (const guint8 *)piece, (guint)n);
    }
    return n == 0 || weft_vir_fail(error, "receiving");
}

GBytes *
weft_vir_volume_read(WeftCall *call, virStorageVol *volume, guint64 length, guint64 max, GError **error)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_autoptr(virStream) stream = virStreamNew(call->conn, 0);
    if (!stream || virStorageVolDownload(volume, stream, 0, length, 0) < 0) {
        weft_vir_fail(error, "reading volume %s", virStorageVolGetName(volume));
        return NULL;
    }
    if (!receive(stream, bytes, max, error)) {
        g_prefix_error(error, "reading volume %s: ", virStorageVolGetName(volume));
        virStreamAbort(stream);
        return NULL;
    }
    virStreamFinish(stream);
    return g_byte_array_free_to_bytes(g_steal_pointer(&bytes));
}

typedef struct Rest {
    const char *data;
    gsize left;
} Rest;

static gssize
take_rest(gpointer data, char *buffer, gsize size, GError **error)
{
    Rest *rest = data;
    gsize n = MIN(size, rest->left);
    memcpy(buffer, rest->data, n);
    rest->data += n;
    rest->left -= n;
    return (gssize)n;
}

gboolean
weft_vir_volume_write(WeftCall *call, virStorageVol *volume, GBytes *bytes, GError **error)
{
    Rest rest = { .data = g_bytes_get_data(bytes, &rest.left) };
    const WeftFill fill = { .total = rest.left, .source = take_rest, .data = &rest };
    return weft_vir_volume_fill(call, volume, &fill, error);
}

gboolean
weft_vir_volume_make(WeftCall *call, virStoragePool *pool, const char *name, GBytes *bytes, GError **error)
{
    if (!weft_vir_volume_remove(pool, name, error))
        return FALSE;
    g_autoptr(virStorageVol) volume = weft_vir_volume_create(
        pool, &(WeftVolume){ .name = name, .format = "raw", .capacity = bytes ? g_bytes_get_size(bytes) : 0 }, error);
    return volume && (!bytes || weft_vir_volume_write(call, volume, bytes, error));
}

/* --- what comes before QEMU's part of a saved file --- */

GBytes *
weft_vir_saved_front(WeftCall *call, virStorageVol *volume, WeftSavedHead *ret_head, GError **error)
{
    g_autoptr(GBytes) start = weft_vir_volume_read(call, volume, WEFT_SAVED_HEAD, WEFT_SAVED_HEAD, error);
    gsize length;
    const guint8 *data = start ? g_bytes_get_data(start, &length) : NULL;
    if (!start || !weft_saved_head_read(data, length, ret_head, error)) {
        g_prefix_error(error, "volume %s: ", virStorageVolGetName(volume));
        return NULL;
    }
    guint64 whole = WEFT_SAVED_HEAD + (guint64)ret_head->length;
    g_autoptr(GBytes) front = weft_vir_volume_read(call, volume, whole, whole, error);
    if (front && g_bytes_get_size(front) == whole)
        return g_steal_pointer(&front);
    if (front)
        weft_error_refuse(error, WEFT_ERROR_INVALID, "volume %s is cut within its definition; save the domain again",
                          virStorageVolGetName(volume));
    return NULL;
}
