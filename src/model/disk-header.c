#include "disk-header.h"

#include "bounds.h"
#include "errors.h"

#include <string.h>

#define MAGIC "QFI\xfb"
#define MAGIC_LENGTH 4
#define LENGTH_2 72 /* of the header of version 2 */
#define LENGTH_3 104
#define TABLE_MAX (32u << 20) /* bytes of the first table: QEMU opens none that is larger */
#define FLATTEN "; make one that stands alone: qemu-img convert -O qcow2 OLD NEW"

/* The features of version 3 without which a reader must not open the file. */
enum { DIRTY = 1 << 0, CORRUPT = 1 << 1, DATA_FILE = 1 << 2, COMPRESSION = 1 << 3, LONG_ENTRIES = 1 << 4 };

typedef struct Qcow2 {
    guint32 version, cluster_bits, encryption, entries;
    guint64 backing, size, table, features;
} Qcow2;

static guint32
be32(const guint8 *at)
{
    guint32 value;
    memcpy(&value, at, sizeof value);
    return GUINT32_FROM_BE(value);
}

static guint64
be64(const guint8 *at)
{
    return (guint64)be32(at) << 32 | be32(at + 4);
}

static gboolean
refuse(const char *problem, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "disk: %s", problem);
}

static gboolean
read_header(const guint8 *header, gsize length, Qcow2 *ret_qcow2, GError **error)
{
    guint32 version = length >= LENGTH_2 ? be32(header + 4) : 0;
    if (version < 2 || version > 3 || (version == 3 && length < LENGTH_3))
        return refuse("the file is no qcow2 of version 2 or 3; make one: qemu-img convert -O qcow2 OLD NEW", error);
    *ret_qcow2 = (Qcow2){
        .version = version,
        .backing = be64(header + 8),
        .cluster_bits = be32(header + 20),
        .size = be64(header + 24),
        .encryption = be32(header + 32),
        .entries = be32(header + 36),
        .table = be64(header + 40),
        .features = version == 3 ? be64(header + 72) : 0,
    };
    return TRUE;
}

static gboolean
check_features(guint64 features, GError **error)
{
    if (features & DATA_FILE)
        return refuse("the image keeps its data in another file" FLATTEN, error);
    if (features & (DIRTY | CORRUPT))
        return refuse("the image was not closed, or is corrupt; mend it: qemu-img check -r all FILE", error);
    if (features & ~(guint64)(COMPRESSION | LONG_ENTRIES))
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "disk: the image has features that weft does not know (0x%" G_GINT64_MODIFIER "x)" FLATTEN,
                                 features);
    return TRUE;
}

static gboolean
check_tables(const Qcow2 *qcow2, guint64 file_size, GError **error)
{
    guint64 bytes = (guint64)qcow2->entries * sizeof(guint64);
    if (qcow2->cluster_bits < 9 || qcow2->cluster_bits > 21)
        return refuse("the image has clusters of a size that cannot be; make it anew", error);
    if (bytes > TABLE_MAX || qcow2->table > file_size || bytes > file_size - qcow2->table)
        return refuse("the image's tables are not within its file; was it cut? Bring it here again", error);
    if (qcow2->size == 0 || qcow2->size > WEFT_IMAGE_SIZE_MAX)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "disk: the image describes a disk of %" G_GUINT64_FORMAT
                                 " bytes, which must be 1 to %" G_GUINT64_FORMAT ": qemu-img resize --shrink FILE SIZE",
                                 qcow2->size, (guint64)WEFT_IMAGE_SIZE_MAX);
    return TRUE;
}

static gboolean
check_qcow2(const guint8 *header, gsize length, guint64 file_size, GError **error)
{
    Qcow2 qcow2 = { 0 };
    if (!read_header(header, length, &qcow2, error))
        return FALSE;
    if (qcow2.backing)
        return refuse("the image is a layer over another file" FLATTEN, error);
    if (qcow2.encryption)
        return refuse("the image is encrypted, and weft has no key" FLATTEN, error);
    return check_features(qcow2.features, error) && check_tables(&qcow2, file_size, error);
}

gboolean
weft_disk_header_check(const WeftImageFile *file, const guint8 *header, gsize length, GError **error)
{
    gboolean is_qcow2 = length >= MAGIC_LENGTH && memcmp(header, MAGIC, MAGIC_LENGTH) == 0;
    if (is_qcow2 != (file->format == WEFT_DISK_QCOW2))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "disk.format: is %s, and the file is %s qcow2",
                                 weft_disk_format_words[file->format], is_qcow2 ? "a" : "no");
    return !is_qcow2 || check_qcow2(header, length, file->size, error);
}
