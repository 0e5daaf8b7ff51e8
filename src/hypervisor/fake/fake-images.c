#include "fake-private.h"

#include "domain-xml.h"
#include "errors.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART ".part" /* not whole yet */
#define CHUNK 65536

/* An image on its way. */
typedef struct Copy {
    const char *world;
    const char *host;
    const WeftBring *bring;
    GCancellable *cancellable;
    int from;
    int to;
} Copy;

const char *
weft_fake_image_digest(const char *file)
{
    const char *digest = g_str_has_prefix(file, WEFT_IMAGE_PREFIX) ? file + strlen(WEFT_IMAGE_PREFIX) : "";
    return weft_digest_check(digest, NULL) ? digest : NULL;
}

gboolean
weft_fake_images_check(const WeftFakeFolder *pool, const char *xml, GError **error)
{
    g_autoptr(GPtrArray) digests = weft_domain_xml_images(xml);
    for (guint i = 0; i < digests->len; i++) {
        g_autofree char *name = weft_image_file_name(digests->pdata[i]);
        if (!weft_fake_exists(pool, name, "")) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "host %s: there is no %s; bring it first", pool->host, name);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
copy_chunk(const Copy *copy, guint64 *offset, GError **error)
{
    char bytes[CHUNK];
    gssize n = pread(copy->from, bytes, sizeof bytes, (off_t)*offset);
    if (n < 0)
        return weft_fake_fail(error, "reading", copy->bring->path);
    if (n == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s is shorter than %" G_GUINT64_FORMAT " bytes", copy->bring->path,
                                 copy->bring->file->size);
    if (pwrite(copy->to, bytes, (gsize)n, (off_t)*offset) != n)
        return weft_fake_fail(error, "writing", copy->bring->file->digest);
    *offset += (guint64)n;
    return TRUE;
}

/* Goes on where the last one was broken off. A test may break it off in the middle: op "bring-half". */
static gboolean
copy_rest(const Copy *copy, GError **error)
{
    const WeftBring *bring = copy->bring;
    struct stat status;
    if (fstat(copy->to, &status) < 0)
        return weft_fake_fail(error, "looking at", bring->file->digest);
    gboolean half = (guint64)status.st_size * 2 >= bring->file->size;
    for (guint64 offset = MIN((guint64)status.st_size, bring->file->size); offset < bring->file->size;) {
        if (!half && offset * 2 >= bring->file->size) {
            half = TRUE;
            if (!weft_fake_pass(copy->world, copy->host, "bring-half", copy->cancellable, error))
                return FALSE;
        }
        if (g_cancellable_is_cancelled(copy->cancellable))
            return weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "host %s: bring was cancelled", copy->host);
        if (!copy_chunk(copy, &offset, error))
            return FALSE;
        if (bring->progress)
            bring->progress(offset, bring->file->size, bring->data);
    }
    return TRUE;
}

static gboolean
check_whole(const Copy *copy, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    guint8 bytes[CHUNK];
    gssize n = 0;
    for (guint64 offset = 0; (n = pread(copy->to, bytes, sizeof bytes, (off_t)offset)) > 0; offset += (guint64)n)
        g_checksum_update(sum, bytes, n);
    if (n < 0)
        return weft_fake_fail(error, "reading", copy->bring->file->digest);
    if (g_str_equal(g_checksum_get_string(sum), copy->bring->file->digest))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s is not what it was: its SHA-256 is %s and not %s",
                             copy->bring->path, g_checksum_get_string(sum), copy->bring->file->digest);
}

/* Two that bring the same wait for each other at the part's lock; whoever comes second finds the image there. */
static gboolean
bring_part(Copy *copy, const WeftFakeFolder *pool, GError **error)
{
    g_autofree char *name = weft_image_file_name(copy->bring->file->digest);
    g_autofree char *part = g_strconcat(name, PART, NULL);
    copy->to = openat(pool->fd, part, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (copy->to < 0 || flock(copy->to, LOCK_EX) < 0)
        return weft_fake_fail(error, "writing", part);
    if (weft_fake_exists(pool, name, ""))
        return weft_fake_remove(pool, part, "", error);
    if (!copy_rest(copy, error))
        return FALSE;
    if (!check_whole(copy, error)) {
        weft_fake_remove(pool, part, "", NULL);
        return FALSE;
    }
    if (renameat(pool->fd, part, pool->fd, name) < 0)
        return weft_fake_fail(error, "naming", part);
    return TRUE;
}

/* The folder is there, and nobody is kept from it. */
static gboolean
open_pool(const char *world, const char *host, WeftFakeFolder *ret_pool, GError **error)
{
    if (!weft_fake_folder_lock(world, host, WEFT_FAKE_POOL, ret_pool, error))
        return FALSE;
    flock(ret_pool->fd, LOCK_UN);
    return TRUE;
}

gboolean
weft_fake_bring(WeftHypervisor *hv, const WeftHostAddress *host, const WeftBring *bring, GCancellable *cancellable,
                GError **error)
{
    const char *world = ((WeftFakeHypervisor *)hv)->world;
    WeftFakeFolder pool;
    if (!weft_fake_pass(world, host->name, "bring", cancellable, error) || !weft_digest_check(bring->file->digest, error) ||
        !open_pool(world, host->name, &pool, error))
        return FALSE;
    g_autofree char *name = weft_image_file_name(bring->file->digest);
    Copy copy = { .world = world, .host = host->name, .bring = bring, .cancellable = cancellable, .from = -1, .to = -1 };
    gboolean ok = weft_fake_mark_make(&pool, name, bring->site, NULL, error);
    if (ok && !weft_fake_exists(&pool, name, "")) {
        copy.from = open(bring->path, O_RDONLY | O_CLOEXEC);
        ok = copy.from < 0 ? weft_fake_fail(error, "opening", bring->path) : bring_part(&copy, &pool, error);
    }
    if (copy.from >= 0)
        close(copy.from);
    if (copy.to >= 0)
        close(copy.to);
    weft_fake_folder_close(&pool);
    return ok;
}

static gboolean
discard_saved(const char *world, const char *host, const char *name, GError **error)
{
    g_autofree char *domain = g_strndup(name, strlen(name) - strlen(WEFT_SAVED_SUFFIX));
    WeftFakeFolder pool;
    if (!weft_fake_check_name(name, error) || !weft_fake_folder_lock(world, host, WEFT_FAKE_POOL, &pool, error))
        return FALSE;
    gboolean ok = weft_fake_remove(&pool, name, "", error) && weft_fake_layer_drop(&pool, domain, error);
    weft_fake_folder_close(&pool);
    return ok;
}

gboolean
weft_fake_discard(WeftHypervisor *hv, const WeftHostAddress *host, const char *digest, GCancellable *cancellable,
                  GError **error)
{
    const char *world = ((WeftFakeHypervisor *)hv)->world;
    WeftFakeFolder pool;
    if (!weft_fake_pass(world, host->name, "discard", cancellable, error))
        return FALSE;
    if (g_str_has_suffix(digest, WEFT_SAVED_SUFFIX))
        return discard_saved(world, host->name, digest, error);
    if (!weft_digest_check(digest, error) || !weft_fake_folder_open(world, host->name, WEFT_FAKE_POOL, &pool, error))
        return FALSE;
    g_autofree char *name = weft_image_file_name(digest);
    gboolean ok = weft_fake_remove(&pool, name, PART, error) && weft_fake_remove(&pool, name, "", error) &&
                  weft_fake_marks_remove(&pool, name, error);
    weft_fake_folder_close(&pool);
    return ok;
}
