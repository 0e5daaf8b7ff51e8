#include "blob-file.h"

#include "errors.h"
#include "failpoint.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <gnutls/crypto.h>
#include <unistd.h>

#define PART ".part"
#define CHUNK (1 << 20) /* of what is read again after a restart */
#define SUM_LENGTH 32

struct WeftBlobFile {
    char *folder;
    char *digest;
    char *path;
    char *part;
    gnutls_hash_hd_t sum; /* of the first bytes; NULL: of none */
    guint64 summed;       /* how many these are */
    guint64 reserve;      /* bytes that stay free in the folder */
    gboolean inherited;   /* an earlier weftd received some of it */
};

WeftBlobFile *
weft_blob_file_new(const char *folder, const char *digest, guint64 reserve)
{
    WeftBlobFile *file = g_new0(WeftBlobFile, 1);
    file->folder = g_strdup(folder);
    file->digest = g_strdup(digest);
    file->reserve = reserve;
    file->path = g_build_filename(folder, digest, NULL);
    file->part = g_strconcat(file->path, PART, NULL);
    return file;
}

/* The sum begins anew. */
static void
forget_sum(WeftBlobFile *file)
{
    if (file->sum)
        gnutls_hash_deinit(file->sum, NULL);
    file->sum = NULL;
    file->summed = 0;
    file->inherited = FALSE;
}

void
weft_blob_file_free(WeftBlobFile *file)
{
    if (!file)
        return;
    forget_sum(file);
    g_free(file->folder);
    g_free(file->digest);
    g_free(file->path);
    g_free(file->part);
    g_free(file);
}

/* In words for whoever sends it; a full disk is not a fault of weft. */
static gboolean
fail(const WeftBlobFile *file, const char *verb, GError **error)
{
    int saved = errno;
    if (saved == ENOSPC || saved == EDQUOT)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                 "the disk with %s is full; make room there, or remove an image, and send it again",
                                 file->folder);
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot %s %s: %s", verb, file->part, g_strerror(saved));
}

gboolean
weft_blob_file_look(const char *folder, const char *digest, WeftBlob *ret_blob, GError **error)
{
    GStatBuf info;
    g_autofree char *path = g_build_filename(folder, digest, NULL);
    g_autofree char *part = g_strconcat(path, PART, NULL);
    gboolean complete = g_stat(path, &info) == 0;
    gboolean there = complete || g_stat(part, &info) == 0;
    if (!there && errno != ENOENT)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot look at %s: %s", path, g_strerror(errno));
    *ret_blob = (WeftBlob){ .size = there ? (guint64)info.st_size : 0, .complete = complete };
    return TRUE;
}

gboolean
weft_blob_file_head(const char *folder, const char *digest, guint8 *head, gsize *length, GError **error)
{
    g_autofree char *path = g_build_filename(folder, digest, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, head, *length, 0) : -1;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot read %s: %s", path, g_strerror(saved));
    *length = (gsize)n;
    return TRUE;
}

static gboolean
check_offset(const WeftBlobFile *file, const WeftBlobPiece *piece, guint64 size, GError **error)
{
    if (piece->offset == size)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                             "offset: %" G_GUINT64_FORMAT " does not continue blob %s, of which %" G_GUINT64_FORMAT
                             " bytes are here; go on from there",
                             piece->offset, file->digest, size);
}

static gboolean
add_to_sum(WeftBlobFile *file, gconstpointer data, gsize length, GError **error)
{
    int rc = file->sum ? 0 : gnutls_hash_init(&file->sum, GNUTLS_DIG_SHA256);
    if (rc >= 0)
        rc = gnutls_hash(file->sum, data, length);
    if (rc < 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot sum up %s: %s", file->part, gnutls_strerror(rc));
    file->summed += length;
    return TRUE;
}

/* A restart forgot the sum of what is there. */
static gboolean
catch_up(WeftBlobFile *file, int fd, guint64 size, GError **error)
{
    g_autofree guint8 *chunk = file->summed < size ? g_malloc(CHUNK) : NULL;
    if (file->summed > size)
        forget_sum(file);
    while (file->summed < size) {
        ssize_t n = pread(fd, chunk, MIN(CHUNK, size - file->summed), (off_t)file->summed);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(file, "read", error);
        if (!add_to_sum(file, chunk, (gsize)n, error))
            return FALSE;
        file->inherited = TRUE;
    }
    return TRUE;
}

/* The file ends where a whole piece ends, whatever happens: that is where the next one goes on. On a full disk nothing of it
 * stays: others need the room, and whoever sent it may never come back. */
static gboolean
append(WeftBlobFile *file, int fd, const WeftBlobPiece *piece, GError **error)
{
    if (lseek(fd, (off_t)piece->offset, SEEK_SET) >= 0 &&
        weft_file_write(fd, (const char *)piece->bytes->data, piece->bytes->len))
        return add_to_sum(file, piece->bytes->data, piece->bytes->len, error);
    gboolean full = errno == ENOSPC || errno == EDQUOT;
    fail(file, "write", error);
    if (full) {
        g_unlink(file->part);
        forget_sum(file);
    } else if (ftruncate(fd, (off_t)piece->offset) < 0)
        g_warning("cannot shorten %s: %s", file->part, g_strerror(errno));
    return FALSE;
}

static char *
sum_text(WeftBlobFile *file)
{
    guint8 sum[SUM_LENGTH];
    gnutls_hash_output(file->sum, sum);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < SUM_LENGTH; i++)
        g_string_append_printf(text, "%02x", sum[i]);
    return g_string_free(text, FALSE);
}

/* Pieces are not synced: what an earlier weftd had of them may have gone with the power, which is no fault of who sends it. */
static gboolean
refuse_sum(const WeftBlobFile *file, const char *sum, gboolean inherited, GError **error)
{
    g_unlink(file->part);
    return weft_error_refuse(error, inherited ? WEFT_ERROR_UNAVAILABLE : WEFT_ERROR_INVALID,
                             "blob %s: what came has the SHA-256 %s and was removed; %s? send it again", file->digest, sum,
                             inherited ? "was some of it lost in a power cut" : "is the file being changed");
}

static gboolean
finish(WeftBlobFile *file, int fd, GError **error)
{
    gboolean inherited = file->inherited;
    g_autofree char *sum = sum_text(file);
    forget_sum(file);
    if (!g_str_equal(sum, file->digest))
        return refuse_sum(file, sum, inherited, error);
    return weft_file_place(fd, file->part, file->path, 0) || fail(file, "keep", error);
}

static gboolean
write_piece(WeftBlobFile *file, int fd, const WeftBlobPiece *piece, WeftBlob *blob, GError **error)
{
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0)
        return fail(file, "read", error);
    if ((guint64)size > piece->total) {
        /* It cannot become what its digest says any more. */
        if (ftruncate(fd, 0) < 0)
            return fail(file, "shorten", error);
        size = 0;
    }
    if (!check_offset(file, piece, (guint64)size, error) ||
        !weft_file_check_room(file->folder, piece->total - piece->offset, file->reserve, error) ||
        !catch_up(file, fd, piece->offset, error) || !append(file, fd, piece, error))
        return FALSE;
    weft_failpoint("blob-written");
    blob->size = piece->offset + piece->bytes->len;
    blob->complete = blob->size == piece->total;
    return !blob->complete || finish(file, fd, error);
}

gboolean
weft_blob_file_write(WeftBlobFile *file, const WeftBlobPiece *piece, WeftBlob *ret_blob, GError **error)
{
    WeftBlob blob = { 0 };
    if (!weft_blob_file_look(file->folder, file->digest, &blob, error))
        return FALSE;
    if (!blob.complete) {
        int fd = open(file->part, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return fail(file, "open", error);
        gboolean ok = write_piece(file, fd, piece, &blob, error);
        close(fd);
        if (!ok)
            return FALSE;
    }
    *ret_blob = blob;
    return TRUE;
}

GBytes *
weft_blob_file_read(const char *folder, const char *digest, guint64 offset, guint64 length, GError **error)
{
    g_autofree char *path = g_build_filename(folder, digest, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    g_autofree guint8 *bytes = g_malloc(length);
    gsize done = 0;
    gssize n = fd < 0 ? -1 : 1;
    while (n > 0 && done < length) {
        n = pread(fd, bytes + done, length - done, (off_t)(offset + done));
        done += n > 0 ? (gsize)n : 0;
    }
    if (n < 0)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "blob %s cannot be read: %s", digest, g_strerror(errno));
    if (fd >= 0)
        close(fd);
    return n < 0 ? NULL : g_bytes_new_take(g_steal_pointer(&bytes), done);
}
