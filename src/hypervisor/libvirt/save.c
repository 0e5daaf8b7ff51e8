#include "driver.h"
#include "errors.h"
#include "file.h"
#include "saved.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE (256u << 10)
#define LOOK (G_USEC_PER_SEC / 5) /* between looks whether anybody still waits */

/* --- save --- */

typedef struct Saving {
    char *domain;
    char *name; /* of the volume */
    WeftSaveMode mode;
    WeftSaved saved;
    WeftOwnDisk own;
} Saving;

static void
saving_free(gpointer data)
{
    Saving *saving = data;
    g_free(saving->domain);
    g_free(saving->name);
    weft_own_disk_clear(&saving->own);
    g_free(saving);
}

/* Is there a file that was written to its end? One that was not is of no use. */
static gboolean
find_whole(WeftCall *call, virStoragePool *pool, const char *name, gboolean *ret_whole, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStorageVol) volume = weft_vir_volume(pool, name, &failed);
    WeftSavedHead head;
    g_autoptr(GBytes) front = volume ? weft_vir_saved_front(call, volume, &head, &failed) : NULL;
    *ret_whole = front != NULL;
    if (!failed || failed->code == WEFT_ERROR_INVALID)
        return TRUE;
    g_propagate_error(error, g_steal_pointer(&failed));
    return FALSE;
}

/* Its own disk changes over to a layer at the same moment; the others nobody writes to. */
static void
write_disk(GString *xml, virDomain *domain, const char *target, const WeftOwnDisk *own)
{
    if (g_strcmp0(target, own->target) != 0)
        g_string_append_printf(xml, "<disk name='%s' snapshot='no'/>", target);
    else
        g_string_append_printf(xml,
                               "<disk name='%s' snapshot='external' type='file'><driver type='qcow2'/><source file='%s/%s%s'/>"
                               "</disk>",
                               target, WEFT_POOL_PATH, virDomainGetName(domain), WEFT_LAYER_SUFFIX);
}

static char *
snapshot_xml(virDomain *domain, const char *path, const WeftOwnDisk *own)
{
    static const char *const way[] = { "devices", "disk", NULL };
    char *live = virDomainGetXMLDesc(domain, 0);
    g_autoptr(xmlDoc) doc = live ? weft_xml_parse(live, "domain", NULL) : NULL;
    g_autoptr(GString) xml = g_string_new(NULL);
    free(live);
    g_string_append_printf(xml, "<domainsnapshot><memory snapshot='external' file='%s'/><disks>", path);
    for (const xmlNode *disk = doc ? weft_xml_find(xmlDocGetRootElement(doc), way) : NULL; disk;
         disk = weft_xml_next(disk, "disk")) {
        g_autofree char *target = weft_xml_get(weft_xml_child(disk, "target"), "dev");
        write_disk(xml, domain, target ? target : "", own);
    }
    g_string_append(xml, "</disks></domainsnapshot>");
    return g_string_free(g_steal_pointer(&xml), FALSE);
}

/* Microseconds that it stood still, by QEMU's word; at least one, since it did. */
static gint64
standstill_of(virDomain *domain)
{
    virTypedParameter *params = NULL;
    int n = 0, type = 0;
    unsigned long long milliseconds = 0;
    if (virDomainGetJobStats(domain, &type, &params, &n, VIR_DOMAIN_JOB_STATS_COMPLETED) == 0)
        virTypedParamsGetULLong(params, n, VIR_DOMAIN_JOB_DOWNTIME, &milliseconds);
    virTypedParamsFree(params, n);
    return MAX((gint64)milliseconds * 1000, 1);
}

/* A guest that writes faster than the host's disk would be copied for ever: when nobody waits any more, it is broken off. */
typedef struct Watch {
    WeftCall *call;
    const char *domain;
    GMutex mutex;
    GCond ended_now;
    gboolean ended;
} Watch;

/* On a connection of its own: see calls.c. */
static void
break_off(const Watch *watch)
{
    g_autoptr(virConnect) conn = weft_vir_dial(watch->call->host, NULL);
    g_autoptr(virDomain) domain = conn ? virDomainLookupByName(conn, watch->domain) : NULL;
    if (domain)
        virDomainAbortJob(domain);
}

static gpointer
watch_saving(gpointer data)
{
    Watch *watch = data;
    g_mutex_lock(&watch->mutex);
    while (!watch->ended) {
        g_cond_wait_until(&watch->ended_now, &watch->mutex, g_get_monotonic_time() + LOOK);
        if (watch->ended || weft_call_go_on(watch->call, 0, 0, NULL))
            continue;
        g_mutex_unlock(&watch->mutex);
        break_off(watch);
        g_mutex_lock(&watch->mutex);
    }
    g_mutex_unlock(&watch->mutex);
    return NULL;
}

static void
watch_end(Watch *watch, GThread *thread)
{
    g_mutex_lock(&watch->mutex);
    watch->ended = TRUE;
    g_cond_signal(&watch->ended_now);
    g_mutex_unlock(&watch->mutex);
    g_thread_join(thread);
    g_mutex_clear(&watch->mutex);
    g_cond_clear(&watch->ended_now);
}

/* While it runs on its memory is copied as in a migration, and it stands still for the rest. */
static gboolean
save_running(WeftCall *call, virDomain *domain, const char *path, Saving *saving, GError **error)
{
    g_autofree char *xml = snapshot_xml(domain, path, &saving->own);
    Watch watch = { .call = call, .domain = virDomainGetName(domain) };
    g_mutex_init(&watch.mutex);
    g_cond_init(&watch.ended_now);
    GThread *thread = g_thread_new("save", watch_saving, &watch);
    virDomainSnapshot *snapshot = virDomainSnapshotCreateXML(
        domain, xml,
        VIR_DOMAIN_SNAPSHOT_CREATE_LIVE | VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA | VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT);
    watch_end(&watch, thread);
    if (!snapshot)
        return weft_vir_fail(error, "saving domain %s", virDomainGetName(domain));
    virDomainSnapshotFree(snapshot);
    saving->saved.paused = standstill_of(domain);
    return TRUE;
}

/* Nobody else resumes it while libvirt saves it; somebody may have right before. */
static gboolean
check_still(virDomain *domain, WeftSaveMode mode, GError **error)
{
    int state = VIR_DOMAIN_NOSTATE;
    if (mode != WEFT_SAVE_STILL)
        return TRUE;
    if (virDomainGetState(domain, &state, NULL, 0) < 0)
        return weft_vir_fail(error, "asking whether domain %s stands still", virDomainGetName(domain));
    return state == VIR_DOMAIN_PAUSED ||
           weft_error_refuse(error, WEFT_ERROR_CONFLICT, "domain %s runs, and was to be saved while it stands still",
                             virDomainGetName(domain));
}

/* The volume first, so that the pool knows of it: libvirt writes to whatever file has that path. */
static gboolean
save_domain(WeftCall *call, virStoragePool *pool, virDomain *domain, Saving *saving, GError **error)
{
    g_autofree char *path = g_build_filename(WEFT_POOL_PATH, saving->name, NULL);
    if (!weft_vir_share_nothing(domain, error) || !weft_vir_layer_drop(call, domain, error) ||
        !weft_vir_volume_make(call, pool, saving->name, NULL, error) || !weft_call_go_on(call, 0, 0, error))
        return FALSE;
    if (saving->mode != WEFT_SAVE_AWAY
            ? (!saving->own.target || weft_vir_layer_make(pool, domain, &saving->own, error)) &&
                  save_running(call, domain, path, saving, error) && check_still(domain, saving->mode, error)
            : virDomainSaveFlags(domain, path, NULL, 0) == 0 || weft_vir_fail(error, "saving domain %s", saving->domain))
        return TRUE;
    weft_vir_volume_remove(pool, saving->name, NULL);
    weft_vir_layer_drop(call, domain, NULL);
    return FALSE;
}

static gboolean
tell_size(virStoragePool *pool, Saving *saving, GError **error)
{
    g_autoptr(virStorageVol) volume = weft_vir_volume(pool, saving->name, error);
    return volume && weft_vir_volume_size(volume, &saving->saved.size, error);
}

static gboolean
run_save(WeftCall *call, GError **error)
{
    Saving *saving = call->args;
    gboolean whole = FALSE;
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    if (!pool || !find_whole(call, pool, saving->name, &whole, error))
        return FALSE;
    g_autoptr(virDomain) domain = weft_vir_domain_running(call, saving->domain, &failed);
    gboolean gone = failed && failed->code == WEFT_ERROR_NOT_FOUND;
    if (whole && gone)
        return tell_size(pool, saving, error);
    if (failed || !check_still(domain, saving->mode, &failed) || !weft_vir_own_disk(domain, &saving->own, &failed)) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    /* The layer came last. */
    if (whole && saving->mode != WEFT_SAVE_AWAY && (!saving->own.target || saving->own.layered))
        return tell_size(pool, saving, error);
    return save_domain(call, pool, domain, saving, error) && tell_size(pool, saving, error);
}

gboolean
weft_vir_save(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftSaveMode mode, WeftSaved *ret_saved,
              GCancellable *cancellable, GError **error)
{
    Saving *saving = g_new0(Saving, 1);
    *saving = (Saving){ g_strdup(domain), g_strconcat(domain, WEFT_SAVED_SUFFIX, NULL), mode, { 0 }, { 0 } };
    g_autofree char *about = weft_vir_about_domain(domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_save, saving, saving_free);
    if (!weft_call_wait(call, about, cancellable, error))
        return FALSE;
    *ret_saved = saving->saved;
    return TRUE;
}

/* --- fetch --- */

typedef struct Fetching {
    char *name;
    char *path;
    char *part; /* until it is whole */
    int fd;
    guint64 most; /* that it may have; 0: any */
    guint64 reserve;
    guint64 size; /* that its host says that it has: not to be relied on */
    guint64 done;
    GChecksum *sum;
} Fetching;

static void
fetching_free(gpointer data)
{
    Fetching *fetching = data;
    if (fetching->fd >= 0)
        close(fetching->fd);
    g_unlink(fetching->part);
    g_free(fetching->name);
    g_free(fetching->path);
    g_free(fetching->part);
    g_checksum_free(fetching->sum);
    g_free(fetching);
}

static gboolean
fail_file(const Fetching *fetching, GError **error)
{
    int reason = errno;
    gboolean full = reason == ENOSPC || reason == EDQUOT;
    return weft_error_refuse(error, full ? WEFT_ERROR_EXHAUSTED : WEFT_ERROR_FAILED, "file %s: %s", fetching->part,
                             g_strerror(reason));
}

static gboolean
check_size(const Fetching *fetching, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(fetching->path);
    if (fetching->most && fetching->size > fetching->most)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "volume %s has %" G_GUINT64_FORMAT " bytes, and what is saved in it %" G_GUINT64_FORMAT
                                 " at most; see who writes to the host's pool",
                                 fetching->name, fetching->size, fetching->most);
    if (weft_file_check_room(folder, fetching->size, fetching->reserve, error))
        return TRUE;
    g_prefix_error(error, "volume %s: ", fetching->name);
    return FALSE;
}

static gboolean
receive(WeftCall *call, virStream *stream, Fetching *fetching, GError **error)
{
    g_autofree char *piece = g_malloc(PIECE);
    int n;
    while ((n = virStreamRecv(stream, piece, PIECE)) > 0) {
        if ((guint64)n > fetching->size - fetching->done)
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "more came than the %" G_GUINT64_FORMAT " bytes that its host said; fetch it again",
                                     fetching->size);
        if (!weft_file_write(fetching->fd, piece, (gsize)n))
            return fail_file(fetching, error);
        g_checksum_update(fetching->sum, (const guchar *)piece, n);
        fetching->done += (guint64)n;
        if (!weft_call_go_on(call, fetching->done, fetching->size, error))
            return FALSE;
    }
    return n == 0 || weft_vir_fail(error, "receiving");
}

static gboolean
download(WeftCall *call, virStorageVol *volume, Fetching *fetching, GError **error)
{
    g_autoptr(virStream) stream = virStreamNew(call->conn, 0);
    if (!stream || virStorageVolDownload(volume, stream, 0, 0, 0) < 0)
        return weft_vir_fail(error, "reading volume %s", fetching->name);
    if (!receive(call, stream, fetching, error)) {
        g_prefix_error(error, "reading volume %s: ", fetching->name);
        virStreamAbort(stream);
        return FALSE;
    }
    if (virStreamFinish(stream) < 0)
        return weft_vir_fail(error, "reading volume %s", fetching->name);
    return fetching->done == fetching->size ||
           weft_error_refuse(error, WEFT_ERROR_FAILED,
                             "volume %s gave %" G_GUINT64_FORMAT " bytes of %" G_GUINT64_FORMAT "; fetch it again",
                             fetching->name, fetching->done, fetching->size);
}

static gboolean
run_fetch(WeftCall *call, GError **error)
{
    Fetching *fetching = call->args;
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    g_autoptr(virStorageVol) volume = pool ? weft_vir_volume(pool, fetching->name, &failed) : NULL;
    if (!volume) {
        if (failed)
            g_propagate_error(error, g_steal_pointer(&failed));
        return pool && !(*error) ? weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "there is no %s", fetching->name) : FALSE;
    }
    if (!weft_vir_volume_size(volume, &fetching->size, error) || !check_size(fetching, error))
        return FALSE;
    fetching->fd = open(fetching->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fetching->fd < 0)
        return fail_file(fetching, error);
    if (!download(call, volume, fetching, error))
        return FALSE;
    return weft_file_place(fetching->fd, fetching->part, fetching->path, 0) || fail_file(fetching, error);
}

gboolean
weft_vir_fetch(WeftHypervisor *hv, const WeftHostAddress *host, const WeftFetch *fetch, WeftImageFile *ret_file,
               GCancellable *cancellable, GError **error)
{
    Fetching *fetching = g_new0(Fetching, 1);
    *fetching = (Fetching){ g_strdup(fetch->name),
                            g_strdup(fetch->path),
                            g_strconcat(fetch->path, ".part", NULL),
                            -1,
                            fetch->most,
                            fetch->reserve,
                            0,
                            0,
                            g_checksum_new(G_CHECKSUM_SHA256) };
    g_autofree char *about = g_strdup(fetch->name);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_fetch, fetching, fetching_free);
    call->progress = fetch->progress;
    call->progress_data = fetch->data;
    if (!weft_call_wait(call, about, cancellable, error))
        return FALSE;
    *ret_file = (WeftImageFile){ .digest = g_strdup(g_checksum_get_string(fetching->sum)), .size = fetching->size };
    return TRUE;
}
