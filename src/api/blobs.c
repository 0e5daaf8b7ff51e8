#include "blobs.h"

#include "blob-file.h"
#include "clock-trust.h"
#include "clock.h"
#include "errors.h"
#include "records.h"
#include "wakeup.h"
#include "workers.h"

#include <errno.h>
#include <glib/gstdio.h>

#define WORKERS 2    /* that write and remove */
#define FILES_MAX 16 /* whose sums are remembered; others are summed again when they go on */
#define FORGOTTEN (24 * 3600 * (gint64)G_USEC_PER_SEC)

struct WeftBlobs {
    WeftStore *store;
    char *folder;
    guint64 reserve;
    guint watch;
    GHashTable *images;      /* name to WeftImage: what the store has */
    GHashTable *templates;   /* id, and "<id>.disk", to the digest that it is saved as */
    GHashTable *checkpoints; /* key to WeftCheckpoint */
    GHashTable *named;       /* digest to how many times these three name it */
    GHashTable *pins;        /* digest to how many pins */
    GHashTable *doomed;      /* digests of files that go soon, unless somebody wants them by then: nobody sees them */
    GHashTable *files;       /* digest to WeftBlobFile that nobody writes to */
    GHashTable *busy;        /* digests that somebody writes to */
    WeftWorkers *readers;
    GThreadPool *workers; /* what waits for them is done before the end */
    GAsyncQueue *done;    /* Job */
    GSource *wakeup;
};

/* Without written: the file is removed. */
typedef struct {
    char *digest;
    WeftBlobFile *file;
    WeftBlobPiece piece;
    WeftBlob blob;
    GError *error;
    WeftBlobWritten written;
    ino_t inode; /* of the file that is removed, and not of another that came in its place */
    gpointer data;
} Job;

/* Readers pin files, records name them, and workers remove them: neither between the look whether one is wanted and its
 * removal. */
G_LOCK_DEFINE_STATIC(wanted);

/* --- which files are wanted --- */

static gboolean
is_wanted(WeftBlobs *blobs, const char *digest)
{
    return g_hash_table_contains(blobs->named, digest) || g_hash_table_contains(blobs->pins, digest);
}

static void
count(GHashTable *counts, const char *digest, int by)
{
    guint n = GPOINTER_TO_UINT(g_hash_table_lookup(counts, digest)) + (guint)by;
    if (n)
        g_hash_table_insert(counts, g_strdup(digest), GUINT_TO_POINTER(n));
    else
        g_hash_table_remove(counts, digest);
}

/* A record more, or less, that names it; FALSE: nobody wants it. */
static gboolean
name(WeftBlobs *blobs, const char *digest, int by)
{
    G_LOCK(wanted);
    count(blobs->named, digest, by);
    gboolean is = is_wanted(blobs, digest);
    G_UNLOCK(wanted);
    return is;
}

/* thread: any, as the next */
static gboolean
is_doomed(WeftBlobs *blobs, const char *digest)
{
    G_LOCK(wanted);
    gboolean is = g_hash_table_contains(blobs->doomed, digest) && !is_wanted(blobs, digest);
    G_UNLOCK(wanted);
    return is;
}

static void
spare(WeftBlobs *blobs, const char *digest)
{
    G_LOCK(wanted);
    g_hash_table_remove(blobs->doomed, digest);
    G_UNLOCK(wanted);
}

/* thread: a worker. It has another name first, as large files take long to go; one that a crash leaves so is swept. */
static void
remove_doomed(WeftBlobs *blobs, const char *digest, ino_t inode)
{
    GStatBuf info;
    g_autofree char *path = g_build_filename(blobs->folder, digest, NULL), *gone = g_strconcat(path, ".gone", NULL);
    G_LOCK(wanted);
    gboolean doomed = g_hash_table_remove(blobs->doomed, digest) && !is_wanted(blobs, digest);
    gboolean goes = doomed && g_stat(path, &info) == 0 && info.st_ino == inode;
    int failure = goes && g_rename(path, gone) < 0 ? errno : 0;
    G_UNLOCK(wanted);
    if (goes && !failure && g_unlink(gone) < 0)
        failure = errno;
    if (failure)
        g_warning("cannot remove %s, which no image names any more: %s", path, g_strerror(failure));
}

static void
remove_soon(WeftBlobs *blobs, const char *digest)
{
    GStatBuf info;
    g_autofree char *path = g_build_filename(blobs->folder, digest, NULL);
    if (g_stat(path, &info) < 0)
        return;
    Job *job = g_new0(Job, 1);
    job->digest = g_strdup(digest);
    job->inode = info.st_ino;
    G_LOCK(wanted);
    g_hash_table_add(blobs->doomed, g_strdup(digest));
    G_UNLOCK(wanted);
    g_thread_pool_push(blobs->workers, job, NULL);
}

/* One that names it less. */
static void
drop(WeftBlobs *blobs, const char *digest)
{
    if (!name(blobs, digest, -1))
        remove_soon(blobs, digest);
}

/* A file that no record named yet. */
static void
file_ended(WeftBlobs *blobs, const char *digest)
{
    if (!name(blobs, digest, 0))
        remove_soon(blobs, digest);
}

static void
note_image(WeftBlobs *blobs, WeftImage *image)
{
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++)
        name(blobs, file->digest, 1);
    g_hash_table_insert(blobs->images, g_strdup(image->name), image);
}

static void
image_gone(WeftBlobs *blobs, const char *name)
{
    gpointer key = NULL, image = NULL;
    if (!g_hash_table_steal_extended(blobs->images, name, &key, &image))
        return;
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++)
        drop(blobs, file->digest);
    weft_image_free(image);
    g_free(key);
}

/* The files of what it was before are dropped when they are counted for what it is. */
static void
exchange_image(WeftBlobs *blobs, WeftImage *image)
{
    gpointer key = NULL, before = NULL;
    g_hash_table_steal_extended(blobs->images, image->name, &key, &before);
    note_image(blobs, image);
    const WeftImageFile *file;
    for (guint i = 0; before && (file = weft_image_file(before, i)); i++)
        drop(blobs, file->digest);
    g_clear_pointer((WeftImage **)&before, weft_image_free);
    g_free(key);
}

static void
image_changed(WeftBlobs *blobs, const char *name)
{
    g_autoptr(GError) error = NULL;
    WeftImage *image = weft_store_load_image(blobs->store, name, NULL, &error);
    if (image)
        exchange_image(blobs, image);
    else if (!g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        g_warning("%s", error->message);
}

static void
note_template(WeftBlobs *blobs, const WeftTemplate *template)
{
    if (template->digest) {
        g_hash_table_replace(blobs->templates, g_strdup(template->id), g_strdup(template->digest));
        name(blobs, template->digest, 1);
    }
    if (template->disk) {
        g_hash_table_replace(blobs->templates, g_strconcat(template->id, ".disk", NULL), g_strdup(template->disk));
        name(blobs, template->disk, 1);
    }
}

/* What a template was saved as before is of no use to anybody. */
static void
template_changed(WeftBlobs *blobs, const char *id)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftTemplate) template = weft_store_load_template(blobs->store, id, NULL, &error);
    g_autofree char *disk = g_strconcat(id, ".disk", NULL);
    g_autofree char *before = g_strdup(g_hash_table_lookup(blobs->templates, id));
    g_autofree char *disk_before = g_strdup(g_hash_table_lookup(blobs->templates, disk));
    if (!template && !g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        g_warning("%s", error->message);
        return;
    }
    g_hash_table_remove(blobs->templates, id);
    g_hash_table_remove(blobs->templates, disk);
    if (template)
        note_template(blobs, template);
    if (before)
        drop(blobs, before);
    if (disk_before)
        drop(blobs, disk_before);
}

/* Takes the checkpoint over. */
static void
note_checkpoint(WeftBlobs *blobs, const char *key, WeftCheckpoint *checkpoint)
{
    const WeftImageFile *file;
    for (guint at = 0; (file = weft_checkpoint_next_file(checkpoint, &at));)
        name(blobs, file->digest, 1);
    g_hash_table_insert(blobs->checkpoints, g_strdup(key), checkpoint);
}

static void
checkpoint_changed(WeftBlobs *blobs, const WeftChange *change)
{
    gpointer old_key = NULL, before = NULL;
    g_hash_table_steal_extended(blobs->checkpoints, change->key, &old_key, &before);
    if (!change->deleted)
        note_checkpoint(blobs, change->key, weft_checkpoint_copy(change->made_of));
    const WeftImageFile *file;
    for (guint at = 0; before && (file = weft_checkpoint_next_file(before, &at));)
        drop(blobs, file->digest);
    g_free(old_key);
    weft_checkpoint_free(before);
}

static void
on_changes(const WeftChange *changes, gsize n, gpointer data)
{
    for (gsize i = 0; i < n; i++)
        if (changes[i].kind == WEFT_KIND_IMAGE && changes[i].deleted)
            image_gone(data, changes[i].key);
        else if (changes[i].kind == WEFT_KIND_IMAGE)
            image_changed(data, changes[i].key);
        else if (changes[i].kind == WEFT_KIND_TEMPLATE)
            template_changed(data, changes[i].key);
        else if (changes[i].kind == WEFT_KIND_CHECKPOINT)
            checkpoint_changed(data, &changes[i]);
    /* When it is known what the same commit names. */
    for (gsize i = 0; i < n; i++) {
        const char *digest = weft_change_ended_file(&changes[i]);
        if (digest)
            file_ended(data, digest);
    }
}

struct WeftBlobPin {
    GHashTable *pins;
    GPtrArray *digests;
};

static void
add_pin(WeftBlobPin *pin, const char *digest)
{
    count(pin->pins, digest, 1);
    g_ptr_array_add(pin->digests, g_strdup(digest));
}

static WeftBlobPin *
pin_new(WeftBlobs *blobs)
{
    WeftBlobPin *pin = g_new(WeftBlobPin, 1);
    pin->pins = g_hash_table_ref(blobs->pins);
    pin->digests = g_ptr_array_new_with_free_func(g_free);
    return pin;
}

WeftBlobPin *
weft_blobs_pin(WeftBlobs *blobs, const WeftImage *image)
{
    WeftBlobPin *pin = pin_new(blobs);
    const WeftImageFile *file;
    G_LOCK(wanted);
    for (guint i = 0; (file = weft_image_file(image, i)); i++)
        add_pin(pin, file->digest);
    G_UNLOCK(wanted);
    return pin;
}

WeftBlobPin *
weft_blobs_pin_checkpoint(WeftBlobs *blobs, const WeftCheckpoint *checkpoint)
{
    WeftBlobPin *pin = pin_new(blobs);
    const WeftImageFile *file;
    G_LOCK(wanted);
    for (guint at = 0; (file = weft_checkpoint_next_file(checkpoint, &at));)
        add_pin(pin, file->digest);
    G_UNLOCK(wanted);
    return pin;
}

void
weft_blob_pin_free(WeftBlobPin *pin)
{
    if (!pin)
        return;
    G_LOCK(wanted);
    for (guint i = 0; i < pin->digests->len; i++)
        count(pin->pins, pin->digests->pdata[i], -1);
    G_UNLOCK(wanted);
    g_hash_table_unref(pin->pins);
    g_ptr_array_unref(pin->digests);
    g_free(pin);
}

/* --- writing --- */

static void
job_free(Job *job)
{
    g_clear_error(&job->error);
    g_clear_pointer(&job->piece.bytes, g_byte_array_unref);
    g_free(job->digest);
    g_free(job);
}

static void
work(gpointer data, gpointer user_data)
{
    Job *job = data;
    WeftBlobs *blobs = user_data;
    if (!job->written) {
        remove_doomed(blobs, job->digest, job->inode);
        job_free(job);
        return;
    }
    weft_blob_file_write(job->file, &job->piece, &job->blob, &job->error);
    g_async_queue_push(blobs->done, job);
    weft_wakeup_ask(blobs->wakeup);
}

static void
remember_sum(WeftBlobs *blobs, Job *job)
{
    gboolean goes_on = !job->error && !job->blob.complete;
    if (goes_on && g_hash_table_size(blobs->files) < FILES_MAX)
        g_hash_table_insert(blobs->files, g_strdup(job->digest), job->file);
    else
        weft_blob_file_free(job->file);
}

/* FALSE: there was none. */
static gboolean
deliver_one(WeftBlobs *blobs)
{
    Job *job = g_async_queue_try_pop(blobs->done);
    if (!job)
        return FALSE;
    g_hash_table_remove(blobs->busy, job->digest);
    remember_sum(blobs, job);
    job->written(&job->blob, job->error, job->data);
    job_free(job);
    return TRUE;
}

/* One at a time, so that a burst of them keeps nobody waiting. */
static void
deliver(gpointer data)
{
    WeftBlobs *blobs = data;
    if (deliver_one(blobs))
        weft_wakeup_ask(blobs->wakeup);
}

static WeftBlobFile *
take_file(WeftBlobs *blobs, const char *digest)
{
    gpointer key = NULL, file = NULL;
    if (!g_hash_table_steal_extended(blobs->files, digest, &key, &file))
        return weft_blob_file_new(blobs->folder, digest, blobs->reserve);
    g_free(key);
    return file;
}

void
weft_blobs_write(WeftBlobs *blobs, const WeftBlobPiece *piece, WeftBlobWritten written, gpointer data)
{
    if (g_hash_table_contains(blobs->busy, piece->digest)) {
        g_autoptr(GError) error = NULL;
        weft_error_refuse(&error, WEFT_ERROR_BUSY, "another piece of blob %s is being written; try again in a second",
                          piece->digest);
        written(NULL, error, data);
        return;
    }
    spare(blobs, piece->digest);
    Job *job = g_new0(Job, 1);
    job->digest = g_strdup(piece->digest);
    job->file = take_file(blobs, piece->digest);
    job->piece = *piece;
    job->piece.digest = job->digest;
    g_byte_array_ref(piece->bytes);
    job->written = written;
    job->data = data;
    g_hash_table_add(blobs->busy, g_strdup(piece->digest));
    g_thread_pool_push(blobs->workers, job, NULL);
}

/* --- reading --- */

typedef struct {
    const char *folder;
    char *digest;
    guint64 offset;
    guint64 length;
    GBytes *bytes;
    GError *error;
    gint64 took;
    WeftBlobRead read;
    gpointer data;
    GDestroyNotify free_data;
} Reading;

static void
reading_free(gpointer data)
{
    Reading *reading = data;
    reading->free_data(reading->data);
    g_clear_pointer(&reading->bytes, g_bytes_unref);
    g_clear_error(&reading->error);
    g_free(reading->digest);
    g_free(reading);
}

/* thread: a reader */
static void
reading_run(gpointer data)
{
    Reading *reading = data;
    gint64 since = weft_clock_thread();
    reading->bytes = weft_blob_file_read(reading->folder, reading->digest, reading->offset, reading->length, &reading->error);
    reading->took = weft_clock_thread() - since;
}

static void
reading_done(gpointer data)
{
    const Reading *reading = data;
    reading->read(reading->bytes, reading->took, reading->error, reading->data);
}

void
weft_blobs_read(WeftBlobs *blobs, const WeftBlobPiece *piece, WeftBlobRead read, gpointer data, GDestroyNotify free_data)
{
    Reading *reading = g_new(Reading, 1);
    *reading = (Reading){
        .folder = blobs->folder,
        .digest = g_strdup(piece->digest),
        .offset = piece->offset,
        .length = piece->total,
        .read = read,
        .data = data,
        .free_data = free_data,
    };
    weft_workers_push(blobs->readers, &(WeftTask){ reading_run, reading_done, reading_free, reading });
}

gboolean
weft_blobs_look(WeftBlobs *blobs, const char *digest, WeftBlob *ret_blob, GError **error)
{
    *ret_blob = (WeftBlob){ 0 };
    return is_doomed(blobs, digest) || weft_blob_file_look(blobs->folder, digest, ret_blob, error);
}

gboolean
weft_blobs_head(WeftBlobs *blobs, const char *digest, guint8 *head, gsize *length, GError **error)
{
    return weft_blob_file_head(blobs->folder, digest, head, length, error);
}

/* --- from start to end --- */

static gboolean
read_images(WeftBlobs *blobs, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(blobs->store, &(WeftQuery){ .kind = WEFT_KIND_IMAGE }, error);
    if (!records)
        return FALSE;
    for (guint i = 0; i < records->len; i++) {
        WeftImage *image = weft_record_image(records->pdata[i], error);
        if (!image)
            return FALSE;
        note_image(blobs, image);
    }
    return TRUE;
}

static gboolean
read_templates(WeftBlobs *blobs, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(blobs->store, &(WeftQuery){ .kind = WEFT_KIND_TEMPLATE }, error);
    if (!records)
        return FALSE;
    for (guint i = 0; i < records->len; i++) {
        g_autoptr(WeftTemplate) template = weft_record_template(records->pdata[i], error);
        if (!template)
            return FALSE;
        note_template(blobs, template);
    }
    return TRUE;
}

static gboolean
read_checkpoints(WeftBlobs *blobs, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(blobs->store, &(WeftQuery){ .kind = WEFT_KIND_CHECKPOINT }, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        WeftCheckpoint *checkpoint = weft_record_checkpoint(record, error);
        if (!checkpoint)
            return FALSE;
        note_checkpoint(blobs, record->key, checkpoint);
    }
    return records != NULL;
}

/* Only what has the name of a file of ours, and is not being used by anybody. A whole file must have ended by a record of this
 * store, and not have been written since: an older store, or an empty one, does not know whose it is. */
static void
sweep_file(WeftBlobs *blobs, const char *name)
{
    GStatBuf info;
    g_autofree char *path = g_build_filename(blobs->folder, name, NULL);
    g_autofree char *digest = g_strndup(name, strcspn(name, "."));
    gboolean whole = g_str_equal(digest, name);
    if (!weft_digest_check(digest, NULL) || is_wanted(blobs, name) || g_stat(path, &info) < 0)
        return;
    if (whole && !weft_store_ended_after(blobs->store, WEFT_THING_IMAGE, digest, info.st_mtime * G_USEC_PER_SEC)) {
        g_message("%s: no record of this store names it, or says that it has ended; it is left alone", path);
        return;
    }
    /* Files have the times of the wall clock. */
    WeftClockState clock = weft_clock_state();
    if (clock.trust != WEFT_CLOCK_TRUSTED || clock.now - info.st_mtime * G_USEC_PER_SEC < FORGOTTEN)
        return;
    g_message("removing %s: no image names it, and nobody has written to it for a day", path);
    g_unlink(path);
}

static gboolean
sweep(WeftBlobs *blobs, GError **error)
{
    g_autoptr(GDir) folder = g_dir_open(blobs->folder, 0, error);
    const char *name;
    while (folder && (name = g_dir_read_name(folder)))
        sweep_file(blobs, name);
    return folder != NULL;
}

static GHashTable *
table_of_digests(GDestroyNotify free_value)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_value);
}

WeftBlobs *
weft_blobs_new(WeftStore *store, const char *folder, guint64 reserve, GError **error)
{
    g_autoptr(WeftBlobs) blobs = g_new0(WeftBlobs, 1);
    blobs->store = store;
    blobs->folder = g_strdup(folder);
    blobs->reserve = reserve;
    blobs->images = table_of_digests((GDestroyNotify)weft_image_free);
    blobs->templates = table_of_digests(g_free);
    blobs->checkpoints = table_of_digests((GDestroyNotify)weft_checkpoint_free);
    blobs->named = table_of_digests(NULL);
    blobs->pins = table_of_digests(NULL);
    blobs->doomed = table_of_digests(NULL);
    blobs->files = table_of_digests((GDestroyNotify)weft_blob_file_free);
    blobs->busy = table_of_digests(NULL);
    if (g_mkdir_with_parents(folder, 0700) < 0) {
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot make the folder of images %s: %s", folder, g_strerror(errno));
        return NULL;
    }
    if (!read_images(blobs, error) || !read_templates(blobs, error) || !read_checkpoints(blobs, error) || !sweep(blobs, error))
        return NULL;
    blobs->done = g_async_queue_new();
    blobs->wakeup = weft_wakeup_new(deliver, blobs);
    blobs->readers = weft_workers_new(WEFT_BLOB_READERS, 0);
    blobs->workers = g_thread_pool_new(work, blobs, WORKERS, FALSE, NULL);
    blobs->watch = weft_store_watch(store, on_changes, blobs);
    return g_steal_pointer(&blobs);
}

void
weft_blobs_free(WeftBlobs *blobs)
{
    if (!blobs)
        return;
    if (blobs->workers) {
        weft_store_unwatch(blobs->store, blobs->watch);
        weft_workers_free(blobs->readers);
        g_thread_pool_free(blobs->workers, FALSE, TRUE);
        while (deliver_one(blobs))
            ;
        g_source_destroy(blobs->wakeup);
        g_source_unref(blobs->wakeup);
        g_async_queue_unref(blobs->done);
    }
    g_hash_table_unref(blobs->images);
    g_hash_table_unref(blobs->templates);
    g_hash_table_unref(blobs->checkpoints);
    g_hash_table_unref(blobs->named);
    g_hash_table_unref(blobs->pins);
    g_hash_table_unref(blobs->doomed);
    g_hash_table_unref(blobs->files);
    g_hash_table_unref(blobs->busy);
    g_free(blobs->folder);
    g_free(blobs);
}
