#include "image-head.h"

#include "bounds.h"
#include "errors.h"

#include <elf.h>
#include <string.h>

#define SECTOR 512
#define QCOW2 "QFI\xfb"
#define LENGTH_2 72 /* of the header of version 2 */
#define LENGTH_3 104
#define TABLE_MAX (32u << 20) /* bytes of the first table: QEMU opens none that is larger */
#define FLATTEN "; make one that stands alone: qemu-img convert -O qcow2 OLD NEW"

/* --- qcow2 --- */

/* The features of version 3 without which a reader must not open the file. */
enum { DIRTY = 1 << 0, CORRUPT = 1 << 1, DATA_FILE = 1 << 2, COMPRESSION = 1 << 3, LONG_ENTRIES = 1 << 4 };

/* A file, and as much of its beginning as is there. */
typedef struct Head {
    const WeftImageFile *file;
    const guint8 *bytes;
    gsize length;
} Head;

typedef struct Qcow2 {
    guint32 version, cluster_bits, encryption, entries;
    guint64 backing, size, table, counts, features;
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
read_header(const Head *head, Qcow2 *ret_qcow2, GError **error)
{
    const guint8 *header = head->bytes;
    guint32 version = head->length >= LENGTH_2 ? be32(header + 4) : 0;
    if (version < 2 || version > 3 || (version == 3 && head->length < LENGTH_3))
        return refuse("the file is no qcow2 of version 2 or 3; make one: qemu-img convert -O qcow2 OLD NEW", error);
    *ret_qcow2 = (Qcow2){
        .version = version,
        .backing = be64(header + 8),
        .cluster_bits = be32(header + 20),
        .size = be64(header + 24),
        .encryption = be32(header + 32),
        .entries = be32(header + 36),
        .table = be64(header + 40),
        .counts = be64(header + 48),
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

/* As QEMU has it: tables begin with a cluster, and the first one leads to the whole of the disk. */
static gboolean
check_tables(const Qcow2 *qcow2, guint64 file_size, GError **error)
{
    if (qcow2->cluster_bits < 9 || qcow2->cluster_bits > 21)
        return refuse("the image has clusters of a size that cannot be; make it anew", error);
    if (qcow2->size == 0 || qcow2->size > WEFT_IMAGE_SIZE_MAX)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "disk: the image describes a disk of %" G_GUINT64_FORMAT
                                 " bytes, which must be 1 to %" G_GUINT64_FORMAT ": qemu-img resize --shrink FILE SIZE",
                                 qcow2->size, (guint64)WEFT_IMAGE_SIZE_MAX);
    guint64 bytes = (guint64)qcow2->entries * sizeof(guint64), cluster = 1ull << qcow2->cluster_bits;
    guint64 reach = cluster * (cluster / (qcow2->features & LONG_ENTRIES ? 16 : 8));
    if (bytes > TABLE_MAX || qcow2->table > file_size || bytes > file_size - qcow2->table || qcow2->counts >= file_size)
        return refuse("the image's tables are not within its file; was it cut? Bring it here again", error);
    if (qcow2->table % cluster || qcow2->counts % cluster || !qcow2->counts || qcow2->entries < (qcow2->size - 1) / reach + 1)
        return refuse("the image's tables cannot be; make it anew: qemu-img convert -O qcow2 OLD NEW", error);
    return TRUE;
}

static gboolean
check_qcow2(const Head *head, GError **error)
{
    Qcow2 qcow2 = { 0 };
    if (!read_header(head, &qcow2, error))
        return FALSE;
    if (qcow2.backing)
        return refuse("the image is a layer over another file" FLATTEN, error);
    if (qcow2.encryption)
        return refuse("the image is encrypted, and weft has no key" FLATTEN, error);
    return check_features(qcow2.features, error) && check_tables(&qcow2, head->file->size, error);
}

guint64
weft_image_capacity(const WeftImageFile *file, const guint8 *bytes, gsize length)
{
    Qcow2 qcow2 = { 0 };
    gboolean known = file->format == WEFT_DISK_QCOW2 && read_header(&(Head){ file, bytes, length }, &qcow2, NULL);
    return known ? qcow2.size : file->size;
}

gboolean
weft_image_layer_check(const char *base, const guint8 *bytes, gsize length, GError **error)
{
    Qcow2 qcow2 = { 0 };
    if (length < 4 || memcmp(bytes, QCOW2, 4) != 0 || !read_header(&(Head){ NULL, bytes, length }, &qcow2, error))
        return error && *error ? FALSE : refuse("the file is no qcow2", error);
    gsize size = be32(bytes + 16);
    gboolean whole = !qcow2.backing;
    gboolean same = qcow2.backing < length && size == strlen(base) && size <= length - qcow2.backing &&
                    memcmp(bytes + qcow2.backing, base, size) == 0;
    if (!(whole || same) || qcow2.encryption || (qcow2.features & DATA_FILE))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "disk: the file is no layer over %s", base);
    return TRUE;
}

/* --- the others --- */

/* A node could not write to what lacks of the last sector. */
static gboolean
check_sectors(const Head *head, GError **error)
{
    return head->file->size % SECTOR == 0 ||
           weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "disk: has %" G_GUINT64_FORMAT
                             " bytes, and a disk has whole sectors of 512; was it cut? Else fill it up: truncate -s %%512 FILE",
                             head->file->size);
}

static gboolean
check_elf(const Head *head, GError **error)
{
    Elf64_Ehdr elf = { 0 };
    memcpy(&elf, head->bytes, MIN(head->length, sizeof elf));
    if (elf.e_ident[EI_CLASS] == ELFCLASS64 && elf.e_ident[EI_DATA] == ELFDATA2LSB &&
        GUINT16_FROM_LE(elf.e_machine) == EM_X86_64 && GUINT16_FROM_LE(elf.e_type) == ET_EXEC)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "kernel: the file is ELF of machine %u and type %u, and that of a kernel for x86-64 is %u and %u; "
                             "give its vmlinux, or its bzImage",
                             GUINT16_FROM_LE(elf.e_machine), GUINT16_FROM_LE(elf.e_type), EM_X86_64, ET_EXEC);
}

#define MAGIC(text) (text), sizeof(text) - 1

/* Disks have no magic but for qcow2: what they are must be told. */
static const struct Format {
    WeftImagePart part;
    WeftDiskFormat disk;
    const char *name; /* for messages */
    guint at;
    const char *magic;
    gsize magic_length;
    gboolean (*check)(const Head *head, GError **error); /* NULL: the magic is all */
} formats[] = {
    { WEFT_PART_DISK, WEFT_DISK_QCOW2, "a qcow2", 0, MAGIC(QCOW2), check_qcow2 },
    { WEFT_PART_DISK, WEFT_DISK_RAW, NULL, 0, MAGIC(""), check_sectors },
    { WEFT_PART_DISK, WEFT_DISK_READONLY, NULL, 0, MAGIC(""), NULL },
    { WEFT_PART_KERNEL, 0, "ELF", 0, MAGIC(ELFMAG), check_elf },
    { WEFT_PART_KERNEL, 0, "a bzImage", 0x202, MAGIC("HdrS"), NULL },
    { WEFT_PART_INITRD, 0, "a cpio archive", 0, MAGIC("07070"), NULL },
    { WEFT_PART_INITRD, 0, "packed by gzip", 0, MAGIC("\x1f\x8b"), NULL },
    { WEFT_PART_INITRD, 0, "packed by bzip2", 0, MAGIC("BZh"), NULL },
    { WEFT_PART_INITRD, 0, "packed by lzma", 0, MAGIC("\x5d\0\0"), NULL },
    { WEFT_PART_INITRD, 0, "packed by xz", 0,
      MAGIC("\xfd"
            "7zXZ"),
      NULL },
    { WEFT_PART_INITRD, 0, "packed by lzo", 0, MAGIC("\x89LZO"), NULL },
    { WEFT_PART_INITRD, 0, "packed by lz4", 0, MAGIC("\x02\x21\x4c\x18"), NULL },
    { WEFT_PART_INITRD, 0, "packed by zstd", 0, MAGIC("\x28\xb5\x2f\xfd"), NULL },
};

/* What a part may be, for whoever gave something else. */
static const char *const remedies[WEFT_PARTS] = {
    [WEFT_PART_KERNEL] = "a kernel is ELF (vmlinux) or a bzImage (vmlinuz); give one of these",
    [WEFT_PART_INITRD] = "an initrd is a cpio archive, plain or packed by gzip, bzip2, lzma, xz, lzo, lz4 or zstd; make one: "
                         "find . | cpio -o -H newc | gzip > INITRD",
};

static gboolean
begins_as(const Head *head, const struct Format *format)
{
    return format->magic_length > 0 && head->length >= format->at + format->magic_length &&
           memcmp(head->bytes + format->at, format->magic, format->magic_length) == 0;
}

/* A disk that begins as no other is of the format that it is said to have. */
static const struct Format *
find_format(WeftImagePart part, const Head *head)
{
    for (const struct Format *format = formats; format < formats + G_N_ELEMENTS(formats); format++)
        if (format->part == part && (format->magic_length ? begins_as(head, format) : format->disk == head->file->format))
            return format;
    return NULL;
}

static gboolean
refuse_part(WeftImagePart part, const Head *head, GError **error)
{
    g_autoptr(GString) seen = g_string_new("begins with");
    for (gsize i = 0; i < MIN(head->length, 4); i++)
        g_string_append_printf(seen, " %02x", head->bytes[i]);
    for (gsize i = 0; i < G_N_ELEMENTS(formats); i++)
        if (begins_as(head, &formats[i]))
            g_string_printf(seen, "is %s", formats[i].name);
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: the file %s, and %s", weft_image_part_words[part], seen->str,
                             remedies[part]);
}

gboolean
weft_image_head_check(WeftImagePart part, const WeftImageFile *file, const guint8 *bytes, gsize length, GError **error)
{
    Head head = { file, bytes, length };
    const struct Format *format = find_format(part, &head);
    if (part == WEFT_PART_DISK && (!format || format->disk != file->format))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "disk.format: is %s, and the file is %s qcow2",
                                 weft_disk_format_words[file->format], format ? "a" : "no");
    if (!format)
        return refuse_part(part, &head, error);
    return !format->check || format->check(&head, error);
}
