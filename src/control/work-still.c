/* Nodes that stand still, or lose what they have of their host, for a while: each step can be repeated, and whoever asked asks
 * again after a restart. */
#include "work.h"

#include "errors.h"
#include "protocol.h"
#include "roster.h"
#include "size.h"

#define BYTES_PER_MICROSECOND 500 /* memory is pinned, and copied where it was shared, at least that fast */
#define HOOKLESS "hooks 0\n"      /* what the guest program says first where there is none */
#define NO_HOOK                                                                                                                \
    "it has devices of its host, and what is open on them would break: register a hook in /" WEFT_QUIESCE_FOLDER               \
    ", or give --disrupt"

typedef struct Still {
    WeftWork *work;
    char *node; /* id */
    gboolean disrupt;
    gboolean back; /* devices come */
    gboolean fork; /* … into one that was forked; its guest never stood still */
    WeftPlugged plugged;
    guint device;    /* the next */
    gboolean kept;   /* it could not be brought to rest, and has let go of none: its host refused the first */
    gint64 deadline; /* of the step under way */
    char *why;       /* it could not be brought to rest, and goes on; NULL: all is well */
    GError *error;   /* … */
    WeftStillDone done;
} Still;

static void next(Still *still, WeftNodeWork *item);

void
weft_still_free(gpointer data)
{
    Still *still = data;
    g_free(still->node);
    g_free(still->why);
    g_clear_error(&still->error);
    g_free(still);
}

gboolean
weft_work_needs_still(const WeftNode *node)
{
    return weft_node_parts(node) > 0;
}

gboolean
weft_work_is_stilling(const WeftWork *work, const char *node_id)
{
    return g_hash_table_contains(work->stills, node_id);
}

/* --- ends --- */

static void
end(Still *still)
{
    WeftWork *work = still->work;
    g_hash_table_steal(work->stills, still->node);
    still->done(work, still->node, still->why, still->error);
    weft_still_free(still);
}

/* It goes on as it was, as far as that can be; what is told is why it was not brought to rest. */
static void
failed(Still *still, WeftNodeWork *item, char *why, const GError *error, gboolean undo)
{
    gboolean first = !still->error;
    if (first) {
        still->why = why;
        still->error = g_error_copy(error);
    } else {
        g_warning("node %s does not go on after it could not be brought to rest: %s", still->node, error->message);
        g_free(why);
    }
    if (!first || still->back || !undo || !item) {
        end(still);
        return;
    }
    still->back = TRUE;
    still->device = still->kept ? weft_node_parts(item->node) : 0;
    next(still, item);
}

static void
step_failed(Still *still, WeftNodeWork *item, WeftDeed deed, const GError *error)
{
    failed(still, item, weft_words(deed, error, still->deadline), error, TRUE);
}

/* The item of a step that has ended; NULL: it is of no interest any more, and whoever asked is told. */
static WeftNodeWork *
step_ended(WeftWork *work, const char *node_id, Still **ret_still)
{
    WeftNodeWork *item = weft_work_step_ended(work, node_id);
    *ret_still = g_hash_table_lookup(work->stills, node_id);
    WeftNodePhase phase = item ? item->node->phase : WEFT_NODE_STOPPING;
    if (phase != WEFT_NODE_STOPPING && phase != WEFT_NODE_LOST && phase != WEFT_NODE_FAILED)
        return item;
    g_autoptr(GError) gone = g_error_new(WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "node %s went meanwhile", node_id);
    failed(*ret_still, NULL, g_strdup("it went meanwhile"), gone, FALSE);
    return NULL;
}

/* --- devices --- */

/* What the devices of a fork's host cost it, which pin all memory. */
static void
note_copy(WeftNodeWork *item, const WeftPlugged *plugged)
{
    if (plugged->copied == 0)
        return;
    item->node->copied = plugged->copied;
    item->node->copy_time = (guint64)plugged->took;
    item->copied = item->dirty = TRUE;
}

void
weft_work_tell_copied(const WeftWork *work, WeftTxn *txn, WeftNodeWork *item)
{
    if (!item->copied)
        return;
    g_autofree char *label = weft_node_label(item->node);
    g_autofree char *size = weft_size_format(item->node->copied >> 20 << 20);
    item->copied = FALSE;
    weft_txn_tell(txn, "node-copied", work->cluster, item->node->host,
                  "%s: %s that it shared with its template were copied in %.2f s when devices of its host were plugged", label,
                  size, (double)item->node->copy_time / G_USEC_PER_SEC);
}

/* Its host is another weftd's by now, and was not called: it refuses to plug devices, too. But its guest was quiesced here, and
 * is to go on. */
static gboolean
was_disowned(const WeftJob *job)
{
    const WeftWork *work = job->owner;
    return job->step == WEFT_STEP_UNPLUG && job->ended == 0 && weft_hosts_has_disowned(work->control->hosts, job);
}

static void
device_done(WeftJob *job, const GError *error)
{
    Still *still;
    WeftNodeWork *item = step_ended(job->owner, job->subject, &still);
    if (!item)
        return;
    if (error) {
        if (weft_error_code(error) == WEFT_ERROR_UNAVAILABLE)
            weft_hosts_hint(still->work->control->hosts, item->node->host);
        still->kept = still->device == 0 && was_disowned(job);
        step_failed(still, item, job->step == WEFT_STEP_PLUG ? WEFT_DEED_PLUG : WEFT_DEED_UNPLUG, error);
        return;
    }
    still->device++;
    still->plugged.took += job->plugged.took;
    still->plugged.copied += job->plugged.copied;
    next(still, item);
}

static void
change_device(Still *still, WeftNodeWork *item)
{
    g_autoptr(GError) error = NULL;
    WeftWork *work = still->work;
    const WeftHost *host = weft_fleet_host(work->control->fleet, item->node->host);
    g_autofree char *domain = weft_node_domain(item->node);
    g_autofree char *xml = weft_work_device(work, item->node, still->device, &error);
    if (!xml) {
        step_failed(still, item, still->back ? WEFT_DEED_PLUG : WEFT_DEED_UNPLUG, error);
        return;
    }
    WeftJob *job = weft_job_new(still->back ? WEFT_STEP_PLUG : WEFT_STEP_UNPLUG, host->name, host->uri, domain);
    job->xml = g_steal_pointer(&xml);
    job->deadline = still->deadline =
        work->control->options.still_deadline + (gint64)(weft_node_memory(item->node) / BYTES_PER_MICROSECOND);
    job->done = device_done;
    weft_work_submit(work, item, job);
}

/* --- the guest --- */

static void
quiesced(const WeftTalk *talk, const char *output, const GError *error)
{
    Still *still;
    WeftNodeWork *item = step_ended(talk->work, talk->node, &still);
    if (!item)
        return;
    if (!error) {
        next(still, item);
        return;
    }
    gboolean told = g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    if (told && !still->disrupt && weft_work_needs_still(item->node) && output && g_str_has_prefix(output, HOOKLESS)) {
        failed(still, item, g_strdup(NO_HOOK), error, FALSE);
        return;
    }
    /* What it says itself is its tenant's own; then all is as it was. Otherwise nobody knows how far it got. */
    g_autofree char *words = weft_words(WEFT_DEED_QUIESCE, error, talk->deadline);
    failed(still, item, told ? g_strdup_printf("%s: %s", words, error->message) : g_steal_pointer(&words), error,
           !told && !g_error_matches(error, WEFT_ERROR, WEFT_ERROR_INVALID));
}

static void
resumed(const WeftTalk *talk, const char *output, const GError *error)
{
    Still *still;
    WeftNodeWork *item = step_ended(talk->work, talk->node, &still);
    if (!item)
        return;
    if (!error) {
        end(still);
        return;
    }
    g_autofree char *words = weft_words(WEFT_DEED_WAKE, error, talk->deadline);
    gboolean told = g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    failed(still, item, told ? g_strdup_printf("%s: %s", words, error->message) : g_steal_pointer(&words), error, FALSE);
}

/* The guest program must have given up before we do: it knows better which hook it waits for. */
static void
ask_guest(Still *still, WeftNodeWork *item)
{
    gint64 deadline = still->work->control->options.still_deadline, seconds = deadline / G_USEC_PER_SEC;
    gboolean needed = !still->back && !still->disrupt && weft_work_needs_still(item->node);
    const WeftHost *host = weft_fleet_host(still->work->control->fleet, item->node->host);
    g_autofree char *rails = still->back ? weft_roster_rails(item->node, host) : g_strdup("");
    g_autofree char *input = g_strdup_printf("within %" G_GINT64_FORMAT "\n%s%s", MAX(seconds - seconds / 4, 1),
                                             needed ? "hooks needed\n" : "", rails);
    WeftWorkAsk ask = { still->back ? "resume" : "quiesce", input, deadline, still->back ? resumed : quiesced };
    still->deadline = deadline;
    weft_work_ask(still->work, item, &ask);
}

/* It has its devices; one that was forked goes on without being told. */
static void
wake(Still *still, WeftNodeWork *item)
{
    if (still->fork) {
        note_copy(item, &still->plugged);
        end(still);
    } else {
        ask_guest(still, item);
    }
}

/* --- the partition --- */

static void
verified(WeftDeed deed, const GError *error, gpointer data)
{
    Still *still = data;
    WeftNodeWork *item = step_ended(still->work, still->node, &still);
    if (!item)
        return;
    if (error)
        step_failed(still, item, deed, error);
    else
        wake(still, item);
}

/* Its ports have what they had: nothing is sent through one that has not. */
static void
verify(Still *still, WeftNodeWork *item)
{
    WeftWork *work = still->work;
    g_autofree char *name = weft_partition_name(work->cluster->id);
    g_autoptr(WeftPartition) partition = weft_partition_new(work->status->pkey, name);
    weft_control_add_members(work->control, item->node, partition);
    if (partition->members->len == 0) {
        wake(still, item);
        return;
    }
    still->deadline = work->control->options.apply_deadline;
    g_hash_table_insert(work->jobs, g_strdup(still->node), NULL);
    weft_subnets_verify(work->control->subnets, work->status->fabric, partition, verified, still);
}

/* --- one after the other --- */

static void
next(Still *still, WeftNodeWork *item)
{
    if (still->device < weft_node_parts(item->node))
        change_device(still, item);
    else if (still->back)
        verify(still, item);
    else
        end(still);
}

static Still *
still_new(WeftWork *work, const WeftNodeWork *item, WeftStillDone done)
{
    Still *still = g_new0(Still, 1);
    *still = (Still){ .work = work, .node = g_strdup(item->node->id), .done = done };
    g_hash_table_insert(work->stills, still->node, still);
    return still;
}

void
weft_work_still(WeftWork *work, WeftNodeWork *item, gboolean disrupt, WeftStillDone done)
{
    Still *still = still_new(work, item, done);
    still->disrupt = disrupt;
    ask_guest(still, item);
}

void
weft_work_plug_fork(WeftWork *work, WeftNodeWork *item, WeftStillDone done)
{
    Still *still = still_new(work, item, done);
    still->back = still->fork = TRUE;
    next(still, item);
}

void
weft_work_go_on(WeftWork *work, WeftNodeWork *item, WeftStillDone done)
{
    Still *still = still_new(work, item, done);
    still->back = TRUE;
    next(still, item);
}
