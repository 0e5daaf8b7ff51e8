#include "errors.h"
#include "move-plan.h"
#include "move.h"

#include <string.h>

#define SEED_MAX (64u << 20)
#define PIECE (256u << 10)

/* --- the seed --- */

static gboolean
receive(virStream *stream, GByteArray *bytes, GError **error)
{
    g_autofree char *buffer = g_malloc(PIECE);
    int n;
    while ((n = virStreamRecv(stream, buffer, PIECE)) > 0 && bytes->len <= SEED_MAX)
        g_byte_array_append(bytes, (const guint8 *)buffer, (guint)n);
    if (n < 0 || bytes->len > SEED_MAX || virStreamFinish(stream) < 0) {
        virStreamAbort(stream);
        return n > 0 ? weft_error_refuse(error, WEFT_ERROR_INVALID, "the seed is larger than any that weft makes")
                     : weft_vir_fail(error, "reading the seed");
    }
    return TRUE;
}

/* NULL without an error: it has none. */
static GBytes *
read_seed(WeftCall *here, const char *domain, GError **error)
{
    g_autofree char *name = g_strconcat(domain, WEFT_SEED_SUFFIX, NULL);
    g_autoptr(virStoragePool) pool = weft_vir_pool(here, error);
    g_autoptr(virStorageVol) volume = pool ? weft_vir_volume(pool, name, error) : NULL;
    if (!volume)
        return NULL;
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_autoptr(virStream) stream = virStreamNew(here->conn, 0);
    if (!stream || virStorageVolDownload(volume, stream, 0, 0, 0) < 0) {
        weft_vir_fail(error, "reading volume %s", name);
        return NULL;
    }
    return receive(stream, bytes, error) ? g_byte_array_free_to_bytes(g_steal_pointer(&bytes)) : NULL;
}

/* --- its own disk --- */

/* Of the size that it has here, and empty: what is in it is copied with the memory. */
static gboolean
make_layer(WeftCall *here, WeftCall *there, const WeftVolume *like, GError **error)
{
    virStorageVolInfo info;
    g_autoptr(virStoragePool) pool = weft_vir_pool(here, error);
    g_autoptr(virStorageVol) volume = pool ? virStorageVolLookupByName(pool, like->name) : NULL;
    if (!pool)
        return FALSE;
    if (!volume || virStorageVolGetInfo(volume, &info) < 0)
        return weft_vir_fail(error, "asking for volume %s", like->name);
    WeftVolume layer = *like;
    layer.capacity = info.capacity;
    g_autoptr(virStoragePool) other = weft_vir_pool(there, error);
    g_autoptr(virStorageVol) made = other ? weft_vir_volume_create(other, &layer, error) : NULL;
    return made != NULL;
}

gboolean
weft_move_files(WeftCall *here, WeftCall *there, const WeftMoving *moving, const char *live, char **ret_disk, GError **error)
{
    g_autofree char *base = NULL, *format = NULL;
    g_autofree char *disk = weft_move_own_disk(live, &base, &format);
    g_autofree char *name = g_strconcat(moving->domain, WEFT_DISK_SUFFIX, NULL);
    g_autoptr(GError) failed = NULL;
    g_autoptr(GBytes) seed = read_seed(here, moving->domain, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    const WeftVolume layer = { .name = name, .format = "qcow2", .base = base, .base_format = format ? format : "raw" };
    if (!weft_vir_images_check(there, moving->xml, NULL, error) || !weft_vir_domain_mark(there, moving->xml, error) ||
        !weft_vir_files_remove(there, moving->domain, error) ||
        !weft_vir_files_make(there, moving->domain, &(WeftStart){ .seed = seed }, error) ||
        (disk && !make_layer(here, there, &layer, error))) {
        g_prefix_error(error, "host %s: ", there->host->name);
        return FALSE;
    }
    *ret_disk = g_steal_pointer(&disk);
    return TRUE;
}
