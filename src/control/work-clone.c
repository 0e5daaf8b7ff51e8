/* Clones. What the nodes of the other cluster have in memory is put aside while they run, one file each, as templates that
 * nobody else gets; only then are places asked for. The clone's nodes are forked from them, one after the other, and the last
 * of them being ready, they go. Until they are all here a weftd that was killed begins anew; from then on the other cluster may
 * do as it likes.
 *
 * Each node is saved at a moment of its own: its peers are not in the clone's partition, and what it was saying to them is
 * lost. */
#include "clock.h"
#include "errors.h"
#include "size.h"
#include "text.h"
#include "work.h"

#define LOOK (G_USEC_PER_SEC) /* until what a host is able to is known */
#define NAMED_MAX 8           /* nodes of which the pause is told, each */

typedef enum { CLEAR, SAVE, FETCH, FETCH_DISK, CLEAN, DONE } Step;

/* A node that is being put aside. */
typedef struct Capture {
    char *node;     /* id */
    char *template; /* id */
    char *label;
    char *host;
    char *domain;
    guint64 memory;
    guint64 most[2]; /* bytes that its file and its own disk may have */
    gboolean own_disk;
    Step step;
    gboolean busy;
    gboolean hopeless; /* trying again cannot help */
    WeftRest rest;
    WeftImageFile file, disk;
    gint64 paused;
} Capture;

void
weft_capture_free(gpointer data)
{
    Capture *capture = data;
    g_free(capture->node);
    g_free(capture->template);
    g_free(capture->label);
    g_free(capture->host);
    g_free(capture->domain);
    g_free(capture->file.digest);
    g_free(capture->disk.digest);
    weft_rest_clear(&capture->rest);
    g_free(capture);
}

gboolean
weft_work_is_cloning(const WeftWork *work)
{
    return work->cluster->clone_of && !(work->status && work->status->cloned);
}

gboolean
weft_control_is_cloned(const WeftControl *control, const char *cluster_id)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, control->works);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftWork *work = value;
        if (work->captures && work->cluster && g_strcmp0(work->cluster->clone_of, cluster_id) == 0)
            return TRUE;
    }
    return weft_templates_is_source(control->templates, cluster_id);
}

void
weft_control_wake_clones(WeftControl *control, const char *cluster_id)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, control->works);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        WeftWork *work = value;
        if (work->cluster && g_strcmp0(work->cluster->clone_of, cluster_id) == 0)
            weft_work_wake(work);
    }
}

/* --- it cannot be --- */

static void
forgotten(WeftJob *job, const GError *error)
{
}

/* Nobody wants it any more: its file on its host is of no use to anybody. */
static void
drop_saved(const WeftControl *control, const char *host_name, const char *domain)
{
    const WeftHost *host = weft_fleet_host(control->fleet, host_name);
    g_autofree char *name = g_strconcat(domain, WEFT_SAVED_SUFFIX, NULL);
    if (!host)
        return;
    WeftJob *discard = weft_job_new(WEFT_STEP_DISCARD, host->name, host->uri, name);
    discard->deadline = control->options.stop_deadline;
    discard->done = forgotten;
    weft_jobs_submit(control->jobs, discard);
}

/* What runs for them is broken off, and cleans up when it has ended. */
static void
end_captures(WeftWork *work)
{
    for (guint i = 0; work->captures && i < work->captures->len; i++) {
        const Capture *capture = work->captures->pdata[i];
        GCancellable *running = capture->busy ? g_hash_table_lookup(work->jobs, capture->node) : NULL;
        if (running)
            g_cancellable_cancel(running);
        else if (capture->step != DONE)
            drop_saved(work->control, capture->host, capture->domain);
    }
    g_clear_pointer(&work->captures, g_ptr_array_unref);
}

static void
doom(WeftWork *work, const char *why, const char *detail)
{
    g_autofree char *text = g_strdup_printf("it cannot be cloned: %s", why);
    end_captures(work);
    work->fatal = TRUE;
    weft_rest_clear(&work->place);
    weft_rest_say(&work->doom, WEFT_DEED_CAPTURE, text, detail);
    weft_work_wake(work);
}

/* What was begun has failed for good: whoever starts anew knows it, too. */
static void
fail(WeftWork *work, const char *why, const char *detail)
{
    WeftTemplates *templates = work->control->templates;
    g_autoptr(GPtrArray) records = weft_templates_of_clone(templates, work->cluster->id);
    WeftTxn *txn = weft_txn_new("clone-failed");
    for (guint i = 0; i < records->len; i++) {
        g_autoptr(WeftTemplate) failed = weft_template_copy(records->pdata[i]);
        failed->state = WEFT_TEMPLATE_FAILED;
        failed->size = failed->disk_size = 0;
        failed->since = weft_clock_now();
        g_free(failed->reason);
        g_free(failed->detail);
        failed->reason = g_strdup(why);
        failed->detail = g_strdup(detail);
        weft_templates_put_private(templates, txn, failed);
    }
    doom(work, why, detail);
    weft_work_commit(work, txn);
}

/* --- what it is cloned from --- */

typedef struct Source {
    WeftCluster *cluster;
    WeftClusterStatus *status; /* NULL: none yet */
    gint64 status_revision;
    GPtrArray *nodes; /* WeftNode, those that are copied */
} Source;

static void
source_clear(Source *source)
{
    weft_cluster_free(source->cluster);
    if (source->status)
        weft_cluster_status_free(source->status);
    g_clear_pointer(&source->nodes, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Source, source_clear)

static int
compare_ranks(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftNode *const *)a)->rank, y = (*(WeftNode *const *)b)->rank;
    return x < y ? -1 : x > y;
}

static gboolean
load_nodes(const WeftWork *work, Source *source, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = source->cluster->id };
    g_autoptr(GPtrArray) records = weft_store_list(work->control->store, &query, error);
    source->nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftNode) node = weft_record_node(records->pdata[i], error);
        if (!node)
            return FALSE;
        gboolean meant = !work->cluster->clone_node || g_str_equal(work->cluster->clone_node, node->id);
        if (meant && node->phase == WEFT_NODE_READY)
            g_ptr_array_add(source->nodes, g_steal_pointer(&node));
    }
    g_ptr_array_sort(source->nodes, compare_ranks);
    return records != NULL;
}

/* FALSE without an error: it is gone. */
static gboolean
load_source(const WeftWork *work, Source *ret_source, GError **error)
{
    WeftStore *store = work->control->store;
    g_autoptr(WeftRecord) record = weft_store_cluster_of_id(store, work->cluster->clone_of, error);
    ret_source->cluster = record ? weft_record_cluster(record, error) : NULL;
    if (!ret_source->cluster || ret_source->cluster->deleted)
        return FALSE;
    ret_source->status = weft_store_load_cluster_status(store, record->key, &ret_source->status_revision, NULL);
    return load_nodes(work, ret_source, error);
}

/* --- beginning --- */

/* Why it cannot be now; NULL: nothing speaks against it. ret_later: it may be later. */
static const char *
check_source(const WeftWork *work, const Source *source, gboolean *ret_later)
{
    *ret_later = TRUE;
    if (!source->status || source->status->phase != WEFT_CLUSTER_READY)
        return "the cluster that it is cloned from is not ready";
    for (guint i = 0; i < source->nodes->len; i++)
        if (!weft_hosts_inventory(work->control->hosts, ((const WeftNode *)source->nodes->pdata[i])->host, NULL))
            return "what the hosts of the nodes that it is cloned from are able to is not known yet";
    *ret_later = FALSE;
    return source->nodes->len ? NULL : "the node that it is cloned from is gone";
}

/* A template of the clone's alone, for as long as its nodes are not up. */
static void
make_private(const WeftWork *work, const WeftNode *node, WeftTemplate *record)
{
    const WeftGroup *group = work->cluster->groups->pdata[0]; /* a clone has nodes of one shape */
    g_free(record->id);
    record->id = weft_template_private_id(work->cluster->id, node->rank);
    record->generation = 1;
    record->since = weft_clock_now();
    record->source = g_strdup(node->id);
    record->rank = node->rank;
    record->cluster = g_strdup(work->cluster->id);
    record->tenant = g_strdup(work->cluster->tenant);
    record->size = WEFT_SAVED_LIVE_MAX(record->memory);
    record->disk_size = weft_work_own_disk(work, node) ? WEFT_SAVED_MAX(group->disk ? group->disk : WEFT_IMAGE_SIZE_MAX) : 0;
}

/* What they are put aside as: WeftTemplate. NULL: they cannot, and why. */
static GPtrArray *
describe(const WeftWork *work, const Source *source, char **ret_why)
{
    g_autoptr(GPtrArray) records = g_ptr_array_new_with_free_func((GDestroyNotify)weft_template_free);
    for (guint i = 0; i < source->nodes->len; i++) {
        const char *why = NULL;
        const WeftNode *node = source->nodes->pdata[i];
        WeftTemplate *record = weft_templates_describe(work->control->templates, node, &why);
        if (record)
            g_ptr_array_add(records, record);
        if (record && !g_str_equal(((const WeftTemplate *)records->pdata[0])->kind, record->kind))
            why = "its host is of another kind than those of other nodes; clone one of them alone";
        if (!record || why) {
            g_autofree char *label = weft_node_label(node);
            *ret_why = g_strdup_printf("%s: %s", label, why);
            return NULL;
        }
        make_private(work, node, record);
    }
    return g_steal_pointer(&records);
}

/* The claims of the transaction decide; this is for a reason that helps. */
static gboolean
check_storage(const WeftWork *work, const WeftTenant *tenant, const GPtrArray *records, char **ret_why)
{
    guint64 used = 0, more = 0, limit = tenant->quota[WEFT_QUOTA_STORAGE];
    for (guint i = 0; i < records->len; i++)
        more += weft_template_storage(records->pdata[i]);
    if (!limit || !weft_store_quota_used(work->control->store, tenant->name, WEFT_QUOTA_STORAGE, &used, NULL) ||
        (used <= limit && more <= limit - used))
        return TRUE;
    g_autofree char *used_text = weft_size_format(used), *limit_text = weft_size_format(limit);
    g_autofree char *more_text = weft_size_format(more);
    *ret_why = g_strdup_printf("its tenant's storage has no room for the memory of its nodes: %s of %s in use, up to %s more",
                               used_text, limit_text, more_text);
    return FALSE;
}

/* The other cluster must not have begun something else meanwhile. */
static void
begin(WeftWork *work, const Source *source)
{
    g_autofree char *why = NULL;
    g_autofree char *key = weft_cluster_key(source->cluster->tenant, source->cluster->name);
    g_autoptr(GPtrArray) records = describe(work, source, &why);
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(work->control->store, work->cluster->tenant, NULL, NULL);
    if (!records || (tenant && !check_storage(work, tenant, records, &why))) {
        doom(work, why, NULL);
        return;
    }
    WeftTxn *txn = weft_txn_new("clone-begun");
    weft_txn_expect(txn, WEFT_KIND_CLUSTER_STATUS, key, source->status_revision);
    weft_txn_expect(txn, WEFT_KIND_CLUSTER, work->key, work->cluster_revision);
    for (guint i = 0; i < records->len; i++)
        weft_txn_put_template(txn, records->pdata[i], tenant, WEFT_ABSENT);
    weft_work_commit(work, txn);
}

static void
look_at_source(WeftWork *work)
{
    g_auto(Source) source = { 0 };
    g_autoptr(GError) error = NULL;
    gboolean later = FALSE, there = load_source(work, &source, &error);
    const char *why = there ? check_source(work, &source, &later) : "the cluster that it is cloned from is gone";
    if (error) {
        g_warning("cluster %s: what it is cloned from cannot be read: %s", work->key, error->message);
        weft_work_wake_at(work, g_get_monotonic_time() + LOOK);
    } else if (!why) {
        begin(work, &source);
    } else if (later && source.status && source.status->phase != WEFT_CLUSTER_FAILED) {
        weft_work_waits(work, why);
        weft_work_wake_at(work, g_get_monotonic_time() + LOOK);
    } else {
        doom(work, why, NULL);
    }
}

/* --- each node --- */

static Capture *
find_capture(const WeftWork *work, const char *node)
{
    for (guint i = 0; work->captures && i < work->captures->len; i++) {
        Capture *capture = work->captures->pdata[i];
        if (g_str_equal(capture->node, node))
            return capture;
    }
    return NULL;
}

/* Whether the same again can help. A node that writes faster than it is saved does so the next time, too. */
static gboolean
is_hopeless(const WeftWork *work, const Capture *capture, const WeftJob *job, const GError *error)
{
    WeftErrorCode code = weft_error_code(error);
    return code == WEFT_ERROR_INVALID || (code == WEFT_ERROR_TIMEOUT && job->step == WEFT_STEP_SAVE) ||
           capture->rest.attempts >= work->control->options.starts_max;
}

static void
step_failed(WeftWork *work, Capture *capture, const WeftJob *job, const GError *error)
{
    g_autofree char *words = weft_words(WEFT_DEED_CLONE, error, job->deadline);
    g_autofree char *what = g_strdup_printf("%s: %s", capture->label, words);
    capture->step = CLEAR;
    weft_rest_fail(&capture->rest, &work->control->options.backoff, WEFT_DEED_CLONE, what, error->message);
    capture->hopeless = is_hopeless(work, capture, job, error);
    weft_work_wake_at(work, capture->rest.not_before);
}

static void
keep_file(Capture *capture, const WeftJob *job)
{
    WeftImageFile *file = capture->step == FETCH ? &capture->file : &capture->disk;
    g_free(file->digest);
    *file = *job->fetched;
    file->digest = g_strdup(job->fetched->digest);
}

static void
step_ended(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    Capture *capture = find_capture(work, job->subject);
    weft_work_step_ended(work, job->subject);
    if (capture && !error && job->step == WEFT_STEP_SAVE)
        capture->paused = job->standstill.paused;
    if (capture && !error && job->step == WEFT_STEP_FETCH)
        keep_file(capture, job);
    if (!capture) {
        weft_images_drop(work->control->images, job);
        g_autofree char *domain = g_strconcat(WEFT_DOMAIN_PREFIX, job->subject, NULL);
        drop_saved(work->control, job->host, domain);
        return;
    }
    capture->busy = FALSE;
    if (error)
        step_failed(work, capture, job, error);
    else
        capture->step += capture->step == FETCH && !capture->own_disk ? 2 : 1;
}

static WeftJob *
step_job(const WeftWork *work, const Capture *capture)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, capture->host);
    const char *uri = host ? host->uri : NULL;
    const char *suffix = capture->step == FETCH_DISK ? WEFT_DISK_SUFFIX : WEFT_SAVED_SUFFIX;
    gboolean fetches = capture->step == FETCH || capture->step == FETCH_DISK;
    g_autofree char *file = g_strconcat(capture->domain, suffix, NULL);
    if (capture->step == SAVE) {
        WeftJob *job = weft_job_new(WEFT_STEP_SAVE, capture->host, uri, capture->domain);
        job->mode = WEFT_SAVE_RUNNING;
        return job;
    }
    WeftJob *job = weft_job_new(fetches ? WEFT_STEP_FETCH : WEFT_STEP_DISCARD, capture->host, uri, file);
    if (fetches) {
        g_autofree char *name = g_strconcat(capture->template, suffix, NULL);
        weft_images_fetch(work->control, job, weft_images_path(work->control, name),
                          capture->most[capture->step == FETCH_DISK]);
    }
    return job;
}

static void
take_step(WeftWork *work, Capture *capture)
{
    WeftJob *job = step_job(work, capture);
    job->deadline = weft_images_deadline(work->control, capture->memory);
    job->done = step_ended;
    job->owner = work;
    job->tenant = g_strdup(work->cluster->tenant);
    job->subject = g_strdup(capture->node);
    capture->busy = TRUE;
    g_hash_table_insert(work->jobs, g_strdup(capture->node), job->cancellable);
    weft_jobs_submit(work->control->jobs, job);
}

/* --- all of them --- */

/* Is it still there, where it was, and well? */
static gboolean
is_there(const WeftWork *work, const Capture *capture)
{
    g_autoptr(WeftNode) node = weft_store_load_node(work->control->store, capture->node, NULL, NULL);
    return node && node->phase == WEFT_NODE_READY && !node->target && g_str_equal(node->host, capture->host);
}

static Capture *
capture_new(const WeftWork *work, const WeftTemplate *record, const WeftNode *node)
{
    Capture *capture = g_new0(Capture, 1);
    *capture = (Capture){ .node = g_strdup(node->id),
                          .template = g_strdup(record->id),
                          .label = weft_node_label(node),
                          .host = g_strdup(node->host),
                          .domain = weft_node_domain(node),
                          .memory = weft_node_memory(node),
                          .most = { record->size, record->disk_size },
                          .own_disk = weft_work_own_disk(work, node) != NULL };
    return capture;
}

/* FALSE: one of them is gone. */
static gboolean
make_captures(WeftWork *work, const GPtrArray *records)
{
    g_autoptr(GPtrArray) captures = g_ptr_array_new_with_free_func(weft_capture_free);
    for (guint i = 0; i < records->len; i++) {
        const WeftTemplate *record = records->pdata[i];
        g_autoptr(WeftNode) node = weft_store_load_node(work->control->store, record->source, NULL, NULL);
        if (!node)
            return FALSE;
        g_ptr_array_add(captures, capture_new(work, record, node));
    }
    work->captures = g_steal_pointer(&captures);
    return TRUE;
}

/* "cfd[0] stood still for 31 ms, cfd[1] for 28 ms" */
static char *
tell_pauses(const GPtrArray *captures, gint64 *ret_longest)
{
    GString *text = g_string_new(NULL);
    *ret_longest = 0;
    for (guint i = 0; i < captures->len; i++) {
        const Capture *capture = captures->pdata[i];
        *ret_longest = MAX(*ret_longest, capture->paused);
        if (i >= NAMED_MAX)
            continue;
        g_string_append_printf(text, "%s%s %s%.1f ms", i ? ", " : "", capture->label, i ? "for " : "stood still for ",
                               (double)capture->paused / 1000);
    }
    if (captures->len > NAMED_MAX)
        g_string_append_printf(text, ", and %u more for at most %.1f ms", captures->len - NAMED_MAX,
                               (double)*ret_longest / 1000);
    return g_string_free(text, FALSE);
}

static void
put_captured(const WeftWork *work, WeftTxn *txn, const Capture *capture)
{
    WeftTemplates *templates = work->control->templates;
    const WeftTemplate *record = weft_templates_find(templates, capture->template);
    if (!record)
        return;
    g_autoptr(WeftTemplate) ready = weft_template_copy(record);
    ready->state = WEFT_TEMPLATE_READY;
    ready->since = ready->captured = ready->used = weft_clock_now();
    ready->digest = g_strdup(capture->file.digest);
    ready->size = capture->file.size;
    ready->disk = g_strdup(capture->disk.digest);
    ready->disk_size = capture->disk.size;
    ready->host = g_strdup(capture->host);
    ready->paused = capture->paused;
    weft_templates_put_private(templates, txn, ready);
}

/* From now on nothing of the other cluster is needed any more. */
static void
all_captured(WeftWork *work)
{
    g_autofree char *pauses = tell_pauses(work->captures, &work->status->paused);
    WeftTxn *txn = weft_txn_new("clone-captured");
    g_autoptr(WeftRecord) source = weft_store_cluster_of_id(work->control->store, work->cluster->clone_of, NULL);
    g_autoptr(WeftCluster) cluster = source ? weft_record_cluster(source, NULL) : NULL;
    for (guint i = 0; i < work->captures->len; i++)
        put_captured(work, txn, work->captures->pdata[i]);
    if (cluster)
        weft_txn_tell(txn, "cluster-cloned", cluster, NULL, "was cloned into %s: %s", work->cluster->name, pauses);
    weft_txn_tell(txn, "cluster-cloned", work->cluster, NULL, "has the memory that it is cloned from: %s", pauses);
    work->status_dirty = TRUE;
    g_clear_pointer(&work->captures, g_ptr_array_unref);
    weft_rest_clear(&work->place);
    weft_work_commit(work, txn);
}

static void
tell_progress(WeftWork *work, guint done)
{
    g_autofree char *nodes = weft_text_count(work->captures->len, "node");
    g_autofree char *text = g_strdup_printf("saving the memory of %s that it is cloned from, %u done", nodes, done);
    for (guint i = 0; i < work->captures->len; i++) {
        const Capture *capture = work->captures->pdata[i];
        if (capture->rest.what) {
            weft_work_waits(work, capture->rest.what);
            return;
        }
    }
    weft_work_waits(work, text);
}

static void
go_on(WeftWork *work)
{
    guint done = 0;
    for (guint i = 0; i < work->captures->len; i++) {
        Capture *capture = work->captures->pdata[i];
        done += capture->step == DONE;
        if (capture->hopeless) {
            g_autofree char *why = g_strdup(capture->rest.what), *detail = g_strdup(capture->rest.detail);
            fail(work, why, detail);
            return;
        }
        if (capture->busy || capture->step == DONE)
            continue;
        if (!weft_rest_is_over(&capture->rest, work->now)) {
            weft_work_wake_at(work, capture->rest.not_before);
            continue;
        }
        if (capture->step < CLEAN && !is_there(work, capture)) {
            g_autofree char *why = g_strdup_printf("%s went, or was started anew, before its memory was saved", capture->label);
            fail(work, why, NULL);
            return;
        }
        take_step(work, capture);
    }
    if (done == work->captures->len)
        all_captured(work);
    else
        tell_progress(work, done);
}

gboolean
weft_work_clone(WeftWork *work)
{
    g_autoptr(GPtrArray) records = weft_templates_of_clone(work->control->templates, work->cluster->id);
    WeftTemplateState state = WEFT_TEMPLATE_READY;
    const WeftTemplate *failed = NULL;
    for (guint i = 0; i < records->len; i++) {
        const WeftTemplate *record = records->pdata[i];
        if (record->state != WEFT_TEMPLATE_READY)
            state = record->state;
        if (record->state == WEFT_TEMPLATE_FAILED)
            failed = record;
    }
    if (!records->len)
        look_at_source(work);
    else if (failed)
        doom(work, failed->reason, failed->detail);
    else if (state == WEFT_TEMPLATE_READY)
        return TRUE;
    else if (!work->captures && !make_captures(work, records))
        fail(work, "a node that it is cloned from went before its memory was saved", NULL);
    else
        go_on(work);
    return FALSE;
}

char *
weft_work_clone_template(const WeftWork *work, guint rank)
{
    g_autoptr(GPtrArray) records = weft_templates_of_clone(work->control->templates, work->cluster->id);
    return records->len ? g_strdup(((const WeftTemplate *)records->pdata[rank % records->len])->id) : NULL;
}

/* What a weftd that died had begun to save, before this one knew that it was of no use any more. */
static void
drop_begun(const WeftWork *work)
{
    g_autoptr(GPtrArray) records = weft_templates_of_clone(work->control->templates, work->cluster->id);
    for (guint i = 0; !work->captures && i < records->len; i++) {
        const WeftTemplate *record = records->pdata[i];
        g_autoptr(WeftNode) node = weft_store_load_node(work->control->store, record->source, NULL, NULL);
        if (!node || record->state != WEFT_TEMPLATE_CAPTURING)
            continue;
        g_autofree char *domain = weft_node_domain(node);
        drop_saved(work->control, node->host, domain);
    }
}

void
weft_work_end_clone(WeftWork *work, WeftTxn *txn)
{
    if (!work->cluster->clone_of)
        return;
    drop_begun(work);
    end_captures(work);
    weft_templates_end_clone(work->control->templates, txn, work->cluster->id);
    if (weft_work_is_cloning(work) && work->status && !work->cluster->deleted) {
        work->status->cloned = weft_clock_now();
        work->status_dirty = TRUE;
    }
}
