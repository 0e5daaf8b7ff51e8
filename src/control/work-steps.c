#include "clock.h"
#include "domain-xml.h"
#include "errors.h"
#include "words.h"
#include "work.h"

/* --- trouble --- */

/* Backs off, and says so to the user. */
static gint64
rest(WeftWork *work, guint attempt, const char *what, const GError *error)
{
    gint64 delay = weft_backoff_delay(&work->control->options.backoff, attempt);
    g_autofree char *wait = weft_duration_format(delay);
    weft_work_set_trouble(work, g_strdup_printf("%s; try %u in %s", what, attempt + 1, wait), error->message);
    return g_get_monotonic_time() + delay;
}

static void
node_rest(WeftWork *work, WeftNodeWork *item, const char *words, const GError *error)
{
    g_autofree char *label = weft_node_label(item->node);
    g_autofree char *what = g_strdup_printf("%s: %s", label, words);
    item->not_before = rest(work, ++item->attempts, what, error);
}

/* A start that went wrong. A host that cannot be reached gets a few tries before its node looks for another. */
static void
start_failed(WeftWork *work, WeftNodeWork *item, WeftDeed deed, gint64 deadline, const GError *error)
{
    WeftErrorCode code = weft_error_code(error);
    g_autofree char *words = weft_words(deed, error, deadline);
    node_rest(work, item, words, error);
    if (code == WEFT_ERROR_UNAVAILABLE) {
        weft_hosts_hint(work->control->hosts, item->node->host);
        if (item->attempts < work->control->options.starts_max)
            return;
        item->node->starts = work->control->options.starts_max;
    }
    g_autofree char *reason = g_strdup_printf("%s (try %u)", words, item->attempts);
    weft_work_set_phase(item, WEFT_NODE_FAILED, reason, error->message);
    item->stopped = FALSE;
    if (code == WEFT_ERROR_INVALID) {
        g_autofree char *label = weft_node_label(item->node);
        work->fatal = TRUE;
        weft_work_set_trouble(work, g_strdup_printf("%s cannot start: %s", label, words), error->message);
    }
}

/* --- hosts --- */

static void
submit(WeftWork *work, WeftNodeWork *item, WeftJob *job)
{
    job->owner = work;
    job->subject = g_strdup(item->node->id);
    g_hash_table_insert(work->jobs, g_strdup(item->node->id), job->cancellable);
    weft_jobs_submit(work->control->jobs, job);
}

/* The node that an ended job was about; NULL when it is of no interest any more. */
static WeftNodeWork *
job_ended(const WeftJob *job)
{
    WeftWork *work = job->owner;
    g_hash_table_remove(work->jobs, job->subject);
    weft_work_wake(work);
    return weft_work_find(work, job->subject);
}

static void
awaited(const WeftJob *job, WeftContents *contents, const GError *error)
{
    WeftNodeWork *item = job_ended(job);
    if (!item || item->node->phase != WEFT_NODE_CLAIMED)
        return;
    if (error) {
        start_failed(job->owner, item, WEFT_DEED_GREET, job->deadline, error);
        return;
    }
    weft_work_set_phase(item, WEFT_NODE_READY, NULL, NULL);
    g_clear_pointer(&item->node->reason, g_free);
    g_clear_pointer(&item->node->detail, g_free);
    item->node->starts = 0;
    item->attempts = 0;
}

static void
started(const WeftJob *job, WeftContents *contents, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = job_ended(job);
    if (!item || item->node->phase != WEFT_NODE_CLAIMED)
        return;
    if (error) {
        start_failed(work, item, WEFT_DEED_START, job->deadline, error);
        return;
    }
    g_autofree char *domain = weft_node_domain(item->node);
    WeftJob *next = weft_job_new(WEFT_STEP_AWAIT, job->host, job->uri, domain);
    next->deadline = work->control->options.await_deadline;
    next->done = awaited;
    submit(work, item, next);
}

void
weft_work_start(WeftWork *work, WeftNodeWork *item)
{
    WeftControl *control = work->control;
    const WeftHost *host = weft_fleet_host(control->fleet, item->node->host);
    WeftDomainSpec spec = { item->node, host, work->status->pkey, work->status->vxlan };
    g_autoptr(GError) error = NULL;
    g_autofree char *xml = weft_domain_xml_format(&spec, &error);
    if (!xml) {
        start_failed(work, item, WEFT_DEED_START, 0, error);
        return;
    }
    item->stopped = FALSE;
    WeftJob *job = weft_job_new(WEFT_STEP_START, host->name, host->uri, xml);
    job->deadline = control->options.start_deadline;
    job->done = started;
    submit(work, item, job);
}

static void
stopped(const WeftJob *job, WeftContents *contents, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = job_ended(job);
    if (!item)
        return;
    if (!error) {
        item->stopped = TRUE;
        return;
    }
    g_autofree char *words = weft_words(WEFT_DEED_STOP, error, job->deadline);
    node_rest(work, item, words, error);
    if (weft_error_code(error) == WEFT_ERROR_UNAVAILABLE)
        weft_hosts_hint(work->control->hosts, item->node->host);
}

void
weft_work_stop(WeftWork *work, WeftNodeWork *item)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, item->node->host);
    g_autofree char *domain = weft_node_domain(item->node);
    WeftJob *job = weft_job_new(WEFT_STEP_STOP, item->node->host, host ? host->uri : NULL, domain);
    job->deadline = work->control->options.stop_deadline;
    job->done = stopped;
    submit(work, item, job);
}

/* --- fabric --- */

static void
wired(const GError *error, gpointer data)
{
    WeftWork *work = data;
    work->wiring = FALSE;
    weft_work_wake(work);
    gboolean conflict = error && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    if (conflict && work->status) {
        work->pkey_taken = weft_subnets_is_foreign(work->control->subnets, work->status->fabric, work->status->pkey);
        weft_subnets_hint(work->control->subnets, work->status->fabric);
    }
    /* A partition of that number that is not weft's is not ours to remove: ours is gone. */
    if (error && !(conflict && work->cluster && work->cluster->deleted)) {
        g_autofree char *words = weft_words(WEFT_DEED_WIRE, error, work->control->options.apply_deadline);
        work->wire_not_before = rest(work, ++work->wire_attempts, words, error);
        return;
    }
    work->wire_attempts = 0;
    weft_work_set_trouble(work, NULL, NULL);
    if (work->status && work->status->wired < work->wiring_generation) {
        work->status->wired = work->wiring_generation;
        work->status_dirty = TRUE;
    }
}

static void
add_members(const WeftWork *work, const WeftNode *node, WeftPartition *partition)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, node->host);
    for (guint i = 0; host && i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        const WeftHca *hca = weft_host_hca(host, device->hca);
        if (!hca)
            continue;
        /* A whole HCA is the node's own: its P_Key belongs at index 0. On a shared port that must never be asked for. */
        weft_partition_add(partition, &(WeftMember){ .port_guid = hca->port_guid,
                                                     .virtual_guid = device->guid,
                                                     .membership = WEFT_MEMBER_FULL,
                                                     .index = device->vf < 0 ? 0 : -1 });
    }
}

WeftPartition *
weft_work_partition(const WeftWork *work)
{
    g_autofree char *name = weft_partition_name(work->cluster->id);
    WeftPartition *partition = weft_partition_new(work->status->pkey, name);
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        if (node->phase != WEFT_NODE_STOPPING && node->phase != WEFT_NODE_LOST)
            add_members(work, node, partition);
    }
    return partition;
}

void
weft_work_wire(WeftWork *work)
{
    WeftClusterStatus *status = work->status;
    if (work->wiring || work->wire_not_before > g_get_monotonic_time())
        return;
    WeftWiring *wiring = weft_subnets_wiring(work->control->subnets, status->fabric);
    work->wiring = TRUE;
    work->wiring_generation = status->generation;
    if (work->cluster->deleted)
        weft_wiring_remove(wiring, status->pkey, wired, work);
    else
        weft_wiring_set(wiring, weft_work_partition(work), wired, work);
}
