#include "checkpoint-archive.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_MAX (16u << 20)
#define MEMBERS_MAX 4096
#define DIGEST_LENGTH 64
#define SIZE_OCTAL_MAX 077777777777ULL /* what the field's digits hold */

/* --- headers --- */

static guint
sum_of(const WeftArchiveHeader *header)
{
    WeftArchiveHeader copy = *header;
    memset(copy.checksum, ' ', sizeof copy.checksum);
    guint sum = 0;
    for (gsize i = 0; i < sizeof copy; i++)
        sum += ((const guint8 *)&copy)[i];
    return sum;
}

WeftArchiveHeader
weft_archive_header(const char *name, guint64 size)
{
    WeftArchiveHeader header = { .mode = "0000600", .uid = "0000000", .gid = "0000000", .mtime = "00000000000", .type = '0' };
    memcpy(header.magic, "ustar", 6);
    memcpy(header.version, "00", 2);
    g_strlcpy(header.name, name, sizeof header.name);
    if (size <= SIZE_OCTAL_MAX) {
        g_snprintf(header.size, sizeof header.size, "%011" G_GINT64_MODIFIER "o", size);
    } else {
        header.size[0] = (char)0x80;
        for (guint i = 0; i < 8; i++)
            header.size[11 - i] = (char)(size >> (8 * i));
    }
    g_snprintf(header.checksum, sizeof header.checksum, "%06o", sum_of(&header));
    return header;
}

guint64
weft_archive_padded(guint64 size)
{
    return (size + WEFT_ARCHIVE_BLOCK - 1) / WEFT_ARCHIVE_BLOCK * WEFT_ARCHIVE_BLOCK;
}

/* Digits of a field, which need not be ended. */
static guint64
octal(const char *field, gsize length)
{
    guint64 number = 0;
    for (gsize i = 0; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        number = number << 3 | (guint64)(field[i] - '0');
    return number;
}

static guint64
size_of(const WeftArchiveHeader *header)
{
    guint64 size = 0;
    if ((guint8)header->size[0] != 0x80)
        return octal(header->size, sizeof header->size);
    for (guint i = 4; i < 12; i++)
        size = size << 8 | (guint8)header->size[i];
    return size;
}

/* Is it one that export writes? */
static gboolean
is_sound(const WeftArchiveHeader *header)
{
    return octal(header->checksum, sizeof header->checksum) == sum_of(header) &&
           (header->type == '0' || header->type == '\0') && memchr(header->name, '\0', sizeof header->name);
}

/* --- reading --- */

static void
member_free(gpointer data)
{
    WeftArchiveMember *member = data;
    g_free(member->name);
    g_free(member);
}

static gboolean
is_expected(const char *name, guint index)
{
    if (index == 0)
        return strcmp(name, WEFT_ARCHIVE_MANIFEST) == 0;
    return strlen(name) == DIGEST_LENGTH && strspn(name, "0123456789abcdef") == DIGEST_LENGTH;
}

/* Adds the member whose header is at the offset, and moves on to the next. */
static gboolean
add_member(GPtrArray *members, const WeftArchiveHeader *header, guint64 end, guint64 *offset)
{
    if (!is_sound(header) || !is_expected(header->name, members->len))
        return FALSE;
    guint64 start = *offset + WEFT_ARCHIVE_BLOCK, size = size_of(header);
    if (start > end || size > end - start)
        return FALSE;
    WeftArchiveMember member = { .name = g_strdup(header->name), .offset = start, .size = size };
    g_ptr_array_add(members, g_memdup2(&member, sizeof member));
    *offset = start + weft_archive_padded(size);
    return TRUE;
}

GPtrArray *
weft_archive_members(int fd)
{
    g_autoptr(GPtrArray) members = g_ptr_array_new_with_free_func(member_free);
    struct stat file;
    guint64 offset = 0;
    if (fstat(fd, &file) < 0)
        return NULL;
    while (members->len < MEMBERS_MAX) {
        WeftArchiveHeader header;
        if (pread(fd, &header, sizeof header, (off_t)offset) != sizeof header)
            return NULL;
        if (!header.name[0])
            return members->len > 0 ? g_steal_pointer(&members) : NULL;
        if (!add_member(members, &header, (guint64)file.st_size, &offset))
            return NULL;
    }
    return NULL;
}

json_t *
weft_archive_manifest(int fd, const GPtrArray *members)
{
    const WeftArchiveMember *first = members->pdata[0];
    if (first->size > MANIFEST_MAX)
        return NULL;
    g_autofree char *text = g_malloc(first->size + 1);
    json_t *manifest = NULL;
    if (pread(fd, text, first->size, (off_t)first->offset) == (ssize_t)first->size)
        manifest = json_loadb(text, first->size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(manifest))
        g_clear_pointer(&manifest, json_decref);
    return manifest;
}
