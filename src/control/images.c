#include "images.h"

#include "control-private.h"
#include "errors.h"
#include "file.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_PER_MICROSECOND 50 /* files and memory are read, written and sent at least that fast */
#define TELL_MILLISECONDS 1000
#define FORGET_AFTER (60 * (gint64)G_USEC_PER_SEC) /* a failure that nobody asks about any more */

/* A file on its way to a host, or one that did not get there. */
typedef struct Carry {
    WeftImages *images;
    char *key; /* "HOST DIGEST" */
    char *image;
    WeftJob *job;     /* NULL: it rests after a failure */
    guint64 reached;  /* bytes, when it failed last */
    gboolean damaged; /* … as weftd's own file is not what it was */
    WeftRest rest;
    GHashTable *waiting; /* set of keys of clusters */
} Carry;

struct WeftImages {
    WeftControl *control;
    GHashTable *by_name; /* WeftImage; NULL: to be read */
    GHashTable *wanted;  /* set of digests */
    GHashTable *carries; /* key to Carry */
    guint timer;         /* while there are any */
};

static void
carry_free(gpointer data)
{
    Carry *carry = data;
    g_hash_table_unref(carry->waiting);
    g_free(carry->key);
    g_free(carry->image);
    weft_rest_clear(&carry->rest);
    g_free(carry);
}

/* --- what there is --- */

static gboolean
load(WeftImages *images)
{
    if (images->by_name)
        return TRUE;
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) records = weft_store_list(images->control->store, &(WeftQuery){ .kind = WEFT_KIND_IMAGE }, &error);
    g_autoptr(GHashTable) by_name = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)weft_image_free);
    g_autoptr(GHashTable) wanted = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; records && i < records->len; i++) {
        WeftImage *image = weft_record_image(records->pdata[i], &error);
        if (!image)
            break;
        g_hash_table_insert(by_name, image->name, image);
        const WeftImageFile *file;
        for (guint n = 0; (file = weft_image_file(image, n)); n++)
            g_hash_table_add(wanted, g_strdup(file->digest));
    }
    if (error) {
        g_warning("the images cannot be read: %s", error->message);
        return FALSE;
    }
    weft_templates_add_digests(images->control->templates, wanted);
    weft_checkpoints_add_digests(images->control->checkpoints, wanted);
    images->by_name = g_steal_pointer(&by_name);
    images->wanted = g_steal_pointer(&wanted);
    return TRUE;
}

void
weft_images_changed(WeftImages *images)
{
    g_clear_pointer(&images->wanted, g_hash_table_unref);
    g_clear_pointer(&images->by_name, g_hash_table_unref);
}

const WeftImage *
weft_images_find(WeftImages *images, const char *name)
{
    return load(images) ? g_hash_table_lookup(images->by_name, name) : NULL;
}

GHashTable *
weft_images_wanted(WeftImages *images)
{
    return load(images) ? images->wanted : NULL;
}

gboolean
weft_images_are_on(const WeftImages *images, const char *host, const WeftImage *image)
{
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++)
        if (!weft_hosts_has_image(images->control->hosts, host, file->digest))
            return FALSE;
    return TRUE;
}

/* --- bringing --- */

static void
wake_waiting(const Carry *carry)
{
    GHashTableIter iter;
    gpointer key;
    g_hash_table_iter_init(&iter, carry->waiting);
    while (g_hash_table_iter_next(&iter, &key, NULL))
        weft_control_wake(carry->images->control, key);
}

static gboolean
is_whole(const WeftJob *job)
{
    struct stat info;
    return stat(job->path, &info) == 0 && (guint64)info.st_size == job->file->size;
}

static void
failed(Carry *carry, const WeftJob *job, const GError *error)
{
    WeftControl *control = carry->images->control;
    g_autofree char *words = weft_words(WEFT_DEED_BRING, error, job->deadline);
    g_autofree char *what = g_strdup_printf("image %s: %s", carry->image, words);
    weft_rest_fail(&carry->rest, &control->options.backoff, WEFT_DEED_BRING, what, error->message);
    carry->reached = weft_job_brought(job);
    carry->damaged = g_error_matches(error, WEFT_ERROR, WEFT_ERROR_INVALID) || !is_whole(job);
    weft_hosts_hint(control->hosts, job->host);
}

static void
brought(WeftJob *job, const GError *error)
{
    Carry *carry = job->owner;
    WeftImages *images = carry->images;
    carry->job = NULL;
    if (error)
        failed(carry, job, error);
    else
        weft_hosts_image_came(images->control->hosts, job->host, job->file->digest);
    wake_waiting(carry);
    if (!error)
        g_hash_table_remove(images->carries, carry->key);
}

gboolean
weft_images_carries(const WeftImages *images, const char *digest)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, images->carries);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        if (g_str_has_suffix(((const Carry *)value)->key, digest))
            return TRUE;
    return FALSE;
}

/* Wakes those who wait, so that they show how far it is; what nobody asks about any more is forgotten. */
static gboolean
tell(gpointer data)
{
    WeftImages *images = data;
    gint64 now = g_get_monotonic_time();
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, images->carries);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        Carry *carry = value;
        if (carry->job || carry->rest.not_before <= now)
            wake_waiting(carry);
        if (!carry->job && carry->rest.not_before + FORGET_AFTER < now)
            g_hash_table_iter_remove(&iter);
    }
    if (g_hash_table_size(images->carries))
        return G_SOURCE_CONTINUE;
    images->timer = 0;
    return G_SOURCE_REMOVE;
}

char *
weft_images_path(const WeftControl *control, const char *name)
{
    return g_build_filename(control->options.images, name, NULL);
}

gint64
weft_images_deadline(const WeftControl *control, guint64 bytes)
{
    return control->options.start_deadline + (gint64)(bytes / BYTES_PER_MICROSECOND);
}

/* thread: a worker. Files of one digest may come at the same time: only the first of them may be taken back. */
static gboolean
place(WeftJob *job, GError **error)
{
    struct stat info;
    g_autofree char *folder = g_path_get_dirname(job->path);
    g_autofree char *path = g_build_filename(folder, job->fetched->digest, NULL);
    if (stat(job->path, &info) == 0 && weft_file_place(-1, job->path, path, RENAME_NOREPLACE))
        job->inode = info.st_ino;
    if (job->inode || weft_file_place(-1, job->path, path, 0))
        return TRUE;
    weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot give file %s its name %s: %s", job->path, path, g_strerror(errno));
    unlink(job->path);
    return FALSE;
}

void
weft_images_drop(WeftImages *images, const WeftJob *job)
{
    struct stat info;
    if (!job->inode || !load(images) || g_hash_table_contains(images->wanted, job->fetched->digest))
        return;
    g_autofree char *path = weft_images_path(images->control, job->fetched->digest);
    if (stat(path, &info) == 0 && info.st_ino == job->inode)
        unlink(path);
}

void
weft_images_fetch(const WeftControl *control, WeftJob *job, char *path, guint64 most)
{
    job->path = path;
    job->most = most;
    job->reserve = control->options.reserve;
    job->keep = place;
}

/* Takes the tenant over. */
static void
send(Carry *carry, const char *host, const WeftImageFile *file, char *tenant)
{
    WeftControl *control = carry->images->control;
    WeftJob *job = weft_job_new(WEFT_STEP_BRING, host, weft_fleet_host(control->fleet, host)->uri, NULL);
    job->site = g_strdup(control->options.site);
    job->file = weft_job_file_copy(file);
    job->path = weft_images_path(control, file->digest);
    job->deadline = weft_images_deadline(control, file->size);
    job->owner = carry;
    job->tenant = tenant;
    job->done = brought;
    carry->job = job;
    weft_jobs_submit(control->jobs, job);
}

static Carry *
carry_find(const WeftImages *images, const char *host, const char *digest)
{
    g_autofree char *key = g_strdup_printf("%s %s", host, digest);
    return g_hash_table_lookup(images->carries, key);
}

static Carry *
carry_get(WeftImages *images, const char *host, const char *digest, const char *image)
{
    Carry *carry = carry_find(images, host, digest);
    if (carry)
        return carry;
    carry = g_new0(Carry, 1);
    carry->images = images;
    carry->key = g_strdup_printf("%s %s", host, digest);
    carry->image = g_strdup(image);
    carry->waiting = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_hash_table_insert(images->carries, carry->key, carry);
    if (!images->timer)
        images->timer = g_timeout_add(TELL_MILLISECONDS, tell, images);
    return carry;
}

void
weft_images_bring(WeftImages *images, const char *host, const WeftImage *image, const char *cluster_key)
{
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++) {
        if (weft_hosts_has_image(images->control->hosts, host, file->digest))
            continue;
        Carry *carry = carry_get(images, host, file->digest, image->name);
        g_autofree char *tenant = g_strndup(cluster_key, strcspn(cluster_key, "/"));
        g_hash_table_add(carry->waiting, g_strdup(cluster_key));
        if (carry->job)
            weft_jobs_join(images->control->jobs, carry->job, tenant);
        else if (weft_rest_is_over(&carry->rest, g_get_monotonic_time()))
            send(carry, host, file, g_steal_pointer(&tenant));
    }
}

/* --- how far --- */

/* It runs, and has got further than the last time. */
static gboolean
is_better(const Carry *carry)
{
    return carry->job && weft_job_brought(carry->job) > carry->reached;
}

const WeftRest *
weft_images_trouble(const WeftImages *images, const char *host, const WeftImage *image)
{
    static const WeftRest none;
    const WeftRest *worst = &none;
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++) {
        const Carry *carry = carry_find(images, host, file->digest);
        if (carry && carry->rest.attempts > worst->attempts)
            worst = &carry->rest;
    }
    return worst;
}

gboolean
weft_images_is_damaged(const WeftImages *images, const char *host, const WeftImage *image)
{
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++) {
        const Carry *carry = carry_find(images, host, file->digest);
        if (carry && carry->damaged)
            return TRUE;
    }
    return FALSE;
}

gboolean
weft_images_progress(const WeftImages *images, const char *host, const WeftImage *image)
{
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++) {
        const Carry *carry = carry_find(images, host, file->digest);
        if (carry && is_better(carry))
            return TRUE;
    }
    return FALSE;
}

static void
add(WeftBringing *bringing, const Carry *carry, const char *host, const WeftImageFile *file)
{
    if (!g_hash_table_add(bringing->files, (gpointer)carry))
        return;
    g_hash_table_add(bringing->hosts, (gpointer)host);
    bringing->image = carry->image;
    bringing->done += carry->job ? weft_job_brought(carry->job) : carry->reached;
    bringing->total += file->size;
    if (carry->rest.what && !is_better(carry) && (!bringing->trouble || carry->rest.attempts > bringing->trouble->attempts))
        bringing->trouble = &carry->rest;
}

void
weft_images_add(const WeftImages *images, const char *host, const WeftImage *image, WeftBringing *bringing)
{
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++) {
        const Carry *carry = carry_find(images, host, file->digest);
        if (carry)
            add(bringing, carry, host, file);
    }
}

void
weft_bringing_tell(const WeftBringing *bringing, char **ret_text, char **ret_detail)
{
    guint n = g_hash_table_size(bringing->hosts);
    if (bringing->trouble) {
        *ret_text = weft_rest_text(bringing->trouble);
        *ret_detail = g_strdup(bringing->trouble->detail);
    } else if (n) {
        guint percent = (guint)(bringing->done * 100 / MAX(bringing->total, 1));
        g_autofree char *hosts = weft_text_count(n, "host");
        *ret_text = g_strdup_printf("bringing image %s to %s: %u %%", bringing->image, hosts, MIN(percent, 100));
    }
}

WeftBringing *
weft_bringing_new(void)
{
    WeftBringing *bringing = g_new0(WeftBringing, 1);
    bringing->files = g_hash_table_new(NULL, NULL);
    bringing->hosts = g_hash_table_new(g_str_hash, g_str_equal);
    return bringing;
}

void
weft_bringing_free(WeftBringing *bringing)
{
    g_hash_table_unref(bringing->files);
    g_hash_table_unref(bringing->hosts);
    g_free(bringing);
}

/* --- life --- */

WeftImages *
weft_images_new(WeftControl *control)
{
    WeftImages *images = g_new0(WeftImages, 1);
    images->control = control;
    images->carries = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, carry_free);
    return images;
}

void
weft_images_free(WeftImages *images)
{
    if (!images)
        return;
    g_clear_handle_id(&images->timer, g_source_remove);
    weft_images_changed(images);
    g_hash_table_unref(images->carries);
    g_free(images);
}
