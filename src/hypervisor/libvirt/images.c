#include "domain-xml.h"
#include "driver.h"
#include "errors.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Bringing {
    char *digest;
    guint64 size;
    char *path;
    char *site;
    char *name;  /* of the volume */
    char *whole; /* of the one that says that it is whole */
    int fd;
} Bringing;

static void
bringing_free(gpointer data)
{
    Bringing *bringing = data;
    if (bringing->fd >= 0)
        close(bringing->fd);
    g_free(bringing->digest);
    g_free(bringing->path);
    g_free(bringing->site);
    g_free(bringing->name);
    g_free(bringing->whole);
    g_free(bringing);
}

static Bringing *
bringing_new(const char *digest, GError **error)
{
    if (!weft_digest_check(digest, error))
        return NULL;
    Bringing *bringing = g_new0(Bringing, 1);
    bringing->fd = -1;
    bringing->digest = g_strdup(digest);
    bringing->name = weft_image_file_name(digest);
    bringing->whole = g_strconcat(bringing->name, WEFT_IMAGE_WHOLE, NULL);
    return bringing;
}

/* --- weftd's own file --- */

static gboolean
fail_file(const Bringing *bringing, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "image file %s: %s", bringing->path, g_strerror(errno));
}

static gssize
read_file(gpointer data, char *buffer, gsize size, GError **error)
{
    const Bringing *bringing = data;
    gssize n;
    do
        n = read(bringing->fd, buffer, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        fail_file(bringing, error);
    if (n == 0)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "image file %s became shorter", bringing->path);
    return n > 0 ? n : -1;
}

static gboolean
hash_file(WeftCall *call, const Bringing *bringing, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_autofree char *buffer = g_malloc(1 << 20);
    for (guint64 at = 0; at < bringing->size;) {
        gssize n = read_file((gpointer)bringing, buffer, (gsize)MIN(1u << 20, bringing->size - at), error);
        if (n < 0 || !weft_call_go_on(call, 0, bringing->size, error))
            return FALSE;
        g_checksum_update(sum, (const guchar *)buffer, n);
        at += (guint64)n;
    }
    if (!g_str_equal(g_checksum_get_string(sum), bringing->digest))
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "image file %s is not what it was: its SHA-256 is %s and not %s; add the image again",
                                 bringing->path, g_checksum_get_string(sum), bringing->digest);
    return TRUE;
}

/* What tells one state of a file from another. */
static char *
state_of(const struct stat *info)
{
    return g_strdup_printf("%ju %ju %jd %jd.%09ld %jd.%09ld", (uintmax_t)info->st_dev, (uintmax_t)info->st_ino,
                           (intmax_t)info->st_size, (intmax_t)info->st_mtim.tv_sec, info->st_mtim.tv_nsec,
                           (intmax_t)info->st_ctim.tv_sec, info->st_ctim.tv_nsec);
}

/* Hashing takes as long as sending: a file that goes to many hosts is hashed once, until it changes. */
static gboolean
check_content(WeftCall *call, const Bringing *bringing, const struct stat *info, GError **error)
{
    WeftShared *shared = call->host->shared;
    g_autofree char *state = state_of(info);
    g_mutex_lock(&shared->mutex);
    gboolean known = g_strcmp0(g_hash_table_lookup(shared->hashed, bringing->digest), state) == 0;
    g_mutex_unlock(&shared->mutex);
    if (known)
        return TRUE;
    if (!hash_file(call, bringing, error))
        return FALSE;
    g_mutex_lock(&shared->mutex);
    g_hash_table_insert(shared->hashed, g_strdup(bringing->digest), g_steal_pointer(&state));
    g_mutex_unlock(&shared->mutex);
    return TRUE;
}

static gboolean
open_file(WeftCall *call, Bringing *bringing, GError **error)
{
    struct stat info;
    bringing->fd = open(bringing->path, O_RDONLY | O_CLOEXEC);
    if (bringing->fd < 0 || fstat(bringing->fd, &info) < 0)
        return fail_file(bringing, error);
    if (!S_ISREG(info.st_mode) || (guint64)info.st_size != bringing->size)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "image file %s has %jd bytes, not %" G_GUINT64_FORMAT "; add the image again", bringing->path,
                                 (intmax_t)info.st_size, bringing->size);
    return check_content(call, bringing, &info, error);
}

/* --- on the host --- */

/* The volume, and how much of it is there; a new one when there is none, or one that cannot be ours. */
static virStorageVol *
find_or_create(virStoragePool *pool, const Bringing *bringing, guint64 *ret_there, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStorageVol) volume = weft_vir_volume(pool, bringing->name, &failed);
    if (failed || (volume && !weft_vir_volume_size(volume, ret_there, &failed))) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return NULL;
    }
    if (volume && *ret_there <= bringing->size)
        return g_steal_pointer(&volume);
    if (!weft_vir_volume_remove(pool, bringing->name, error))
        return NULL;
    *ret_there = 0;
    return weft_vir_volume_create(pool, &(WeftVolume){ .name = bringing->name, .format = "raw" }, error);
}

static gboolean
is_whole(virStoragePool *pool, const Bringing *bringing, guint64 there, gboolean *ret_whole, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStorageVol) whole = weft_vir_volume(pool, bringing->whole, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    *ret_whole = whole && there == bringing->size;
    /* The host lost power before the last bytes were on its disk. */
    return *ret_whole || !whole || weft_vir_volume_remove(pool, bringing->whole, error);
}

static gboolean
send_rest(WeftCall *call, virStorageVol *volume, Bringing *bringing, guint64 there, GError **error)
{
    if (!open_file(call, bringing, error))
        return FALSE;
    if (lseek(bringing->fd, (off_t)there, SEEK_SET) < 0)
        return fail_file(bringing, error);
    const WeftFill rest = { .offset = there, .total = bringing->size, .source = read_file, .data = bringing };
    return there == bringing->size || weft_vir_volume_fill(call, volume, &rest, error);
}

static gboolean
check_arrived(virStorageVol *volume, const Bringing *bringing, GError **error)
{
    guint64 there = 0;
    if (!weft_vir_volume_size(volume, &there, error))
        return FALSE;
    return there == bringing->size ||
           weft_error_refuse(error, WEFT_ERROR_FAILED, "volume %s has %" G_GUINT64_FORMAT " bytes, not %" G_GUINT64_FORMAT,
                             bringing->name, there, bringing->size);
}

static gboolean
run_bring(WeftCall *call, GError **error)
{
    Bringing *bringing = call->args;
    guint64 there = 0;
    gboolean whole = FALSE;
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    gboolean marked = pool && weft_vir_mark_make(call, &(WeftFileMark){ bringing->name, bringing->site, NULL }, error);
    g_autoptr(virStorageVol) volume = marked ? find_or_create(pool, bringing, &there, error) : NULL;
    if (!volume || !is_whole(pool, bringing, there, &whole, error))
        return FALSE;
    if (whole)
        return TRUE;
    g_autoptr(GError) failed = NULL;
    if (!send_rest(call, volume, bringing, there, &failed) || !check_arrived(volume, bringing, &failed)) {
        /* What is there is of no use, or needs the room that somebody else lacks. */
        if (failed->code == WEFT_ERROR_EXHAUSTED || failed->code == WEFT_ERROR_INVALID)
            weft_vir_volume_remove(pool, bringing->name, NULL);
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    g_autoptr(virStorageVol) mark =
        weft_vir_volume_create(pool, &(WeftVolume){ .name = bringing->whole, .format = "raw" }, error);
    return mark != NULL;
}

gboolean
weft_vir_bring(WeftHypervisor *hv, const WeftHostAddress *host, const WeftBring *bring, GCancellable *cancellable,
               GError **error)
{
    Bringing *bringing = bringing_new(bring->file->digest, error);
    if (!bringing)
        return FALSE;
    bringing->size = bring->file->size;
    bringing->path = g_strdup(bring->path);
    bringing->site = g_strdup(bring->site);
    g_autofree char *about = g_strdup(bringing->name);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_bring, bringing, bringing_free);
    call->progress = bring->progress;
    call->progress_data = bring->data;
    return weft_call_wait(call, about, cancellable, error);
}

/* First what says that it is whole: so that it is never whole and cut. */
static gboolean
run_discard(WeftCall *call, GError **error)
{
    const Bringing *bringing = call->args;
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    return pool && weft_vir_volume_remove(pool, bringing->whole, error) &&
           weft_vir_volume_remove(pool, bringing->name, error) && weft_vir_marks_remove(call, bringing->name, error);
}

/* The file first, since its room is needed. One that does not run has no use for its layer, and loses it when it is stopped. */
static gboolean
run_discard_saved(WeftCall *call, GError **error)
{
    g_autofree char *name = g_strconcat(call->args, WEFT_SAVED_SUFFIX, NULL);
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    if (!pool || !weft_vir_volume_remove(pool, name, error))
        return FALSE;
    g_autoptr(GError) failed = NULL;
    g_autoptr(virDomain) domain = weft_vir_domain_running(call, call->args, &failed);
    if (domain || failed->code == WEFT_ERROR_NOT_FOUND)
        return !domain || weft_vir_layer_drop(call, domain, error);
    g_propagate_error(error, g_steal_pointer(&failed));
    return FALSE;
}

/* Of a domain: after what is under way with it. */
static gboolean
discard_saved(WeftHypervisor *hv, const WeftHostAddress *host, const char *name, GCancellable *cancellable, GError **error)
{
    char *domain = g_strndup(name, strlen(name) - strlen(WEFT_SAVED_SUFFIX));
    g_autofree char *about = weft_vir_about_domain(domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_discard_saved, domain, g_free);
    return weft_call_wait(call, about, cancellable, error);
}

gboolean
weft_vir_discard(WeftHypervisor *hv, const WeftHostAddress *host, const char *digest, GCancellable *cancellable, GError **error)
{
    if (g_str_has_suffix(digest, WEFT_SAVED_SUFFIX))
        return discard_saved(hv, host, digest, cancellable, error);
    Bringing *bringing = bringing_new(digest, error);
    if (!bringing)
        return FALSE;
    g_autofree char *about = g_strdup(bringing->name);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_discard, bringing, bringing_free);
    return weft_call_wait(call, about, cancellable, error);
}

/* --- before a start --- */

static gboolean
check_there(virStoragePool *pool, const char *digest, GError **error)
{
    g_autofree char *name = weft_image_file_name(digest);
    g_autofree char *whole = g_strconcat(name, WEFT_IMAGE_WHOLE, NULL);
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStorageVol) volume = weft_vir_volume(pool, whole, &failed);
    if (!volume && !failed)
        weft_error_refuse(&failed, WEFT_ERROR_NOT_FOUND, "there is no %s; bring it first", name);
    if (failed)
        g_propagate_error(error, g_steal_pointer(&failed));
    return volume != NULL;
}

gboolean
weft_vir_images_check(WeftCall *call, const char *xml, const WeftImageFile *base, GError **error)
{
    g_autoptr(GPtrArray) digests = weft_domain_xml_images(xml);
    if (digests->len == 0 && !base)
        return TRUE;
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    if (!pool || (base && !check_there(pool, base->digest, error)))
        return FALSE;
    for (guint i = 0; i < digests->len; i++)
        if (!check_there(pool, digests->pdata[i], error))
            return FALSE;
    return TRUE;
}
