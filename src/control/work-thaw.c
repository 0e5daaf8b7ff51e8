/* Nodes that go on from a checkpoint: each where it is placed now, as who it was, and all of them together.
 *
 * They are started standing still. When the last of them is there, and the partition is wired, a transaction says so, and all
 * go on. Until the cluster is ready they are one: where one of them fails, all begin anew from the checkpoint, since what the
 * others did meanwhile it does not know; where one must be elsewhere, all are placed anew. From then on they are nodes as
 * others. */
#include "clock.h"
#include "errors.h"
#include "roster.h"
#include "work.h"

#include <string.h>

#define ONE_FAILED "another node failed, and all go on from their checkpoint together"
#define PLACED_ANEW                                                                                                            \
    "a node of it cannot be where it was placed, and all go on from their checkpoint together: it is placed anew"

const WeftCheckpoint *
weft_work_origin(const WeftWork *work)
{
    const char *name = work->cluster && work->status ? work->status->origin : NULL;
    return name ? weft_checkpoints_find(work->control->checkpoints, work->cluster->tenant, name, NULL) : NULL;
}

const WeftCheckpointNode *
weft_work_saved_node(const WeftWork *work, const WeftNode *node)
{
    const WeftCheckpoint *origin = weft_work_origin(work);
    const WeftCheckpointNode *saved = origin ? weft_checkpoint_node(origin, node->rank) : NULL;
    return saved && saved->saved && strcmp(saved->group, node->group) == 0 ? saved : NULL;
}

/* --- placing --- */

void
weft_work_choose_origin(WeftWork *work)
{
    WeftClusterStatus *status = work->status;
    const WeftCheckpoint *origin = weft_checkpoints_origin(work->control->checkpoints, work->cluster, status);
    g_free(status->origin);
    status->origin = origin ? g_strdup(origin->name) : NULL;
    status->thawed = FALSE;
    if (!origin)
        return;
    /* Its guests remember the last members that they were told of, and take older ones for stale. */
    status->generation = MAX(status->generation, origin->generation);
    weft_images_changed(work->control->images);
}

guint
weft_work_saved_rank(const WeftWork *work, const WeftNode *node)
{
    const WeftCheckpoint *origin = weft_work_origin(work);
    for (guint i = 0; origin && i < origin->nodes->len; i++) {
        const WeftCheckpointNode *saved = origin->nodes->pdata[i];
        if (strcmp(saved->group, node->group) == 0 && !weft_work_has_rank(work, saved->rank))
            return saved->rank;
    }
    return WEFT_NODES_MAX;
}

void
weft_work_recall(const WeftWork *work, WeftNode *node)
{
    const WeftCheckpointNode *saved = weft_work_saved_node(work, node);
    if (!saved)
        return;
    g_free(node->mac);
    node->mac = g_strdup(saved->mac);
    g_autofree char *hostname = weft_node_hostname(node);
    if (strcmp(hostname, saved->hostname) != 0)
        node->hostname = g_strdup(saved->hostname);
    node->host_key = g_strdup(saved->host_key);
    /* Whole adapters have their own. */
    for (guint i = 0; node->path == WEFT_PATH_SRIOV && i < MIN(node->devices->len, saved->guids->len); i++)
        ((WeftDevice *)node->devices->pdata[i])->guid = g_array_index(saved->guids, guint64, i);
}

/* --- starting --- */

/* As an image of these files. */
static WeftImage
as_image(const WeftWork *work, const WeftCheckpointNode *saved)
{
    return (WeftImage){ .name = work->status->origin, .kernel = saved->saved, .disk = saved->disk };
}

gboolean
weft_work_is_recalled(const WeftWork *work, const WeftNode *node)
{
    const WeftCheckpointNode *saved = weft_work_saved_node(work, node);
    if (!saved)
        return TRUE;
    const WeftImage image = as_image(work, saved);
    return weft_images_are_on(work->control->images, node->host, &image);
}

gboolean
weft_work_bring_saved(WeftWork *work, WeftNodeWork *item)
{
    const WeftCheckpointNode *saved = weft_work_saved_node(work, item->node);
    if (!saved || weft_work_is_recalled(work, item->node))
        return FALSE;
    const WeftImage image = as_image(work, saved);
    weft_work_bring(work, item, &image);
    return TRUE;
}

void
weft_work_add_saved(const WeftWork *work, const WeftNode *node, WeftBringing *bringing)
{
    const WeftCheckpointNode *saved = weft_work_saved_node(work, node);
    if (!saved)
        return;
    const WeftImage image = as_image(work, saved);
    weft_images_add(work->control->images, node->host, &image, bringing);
}

/* One that boots has the key that follows from its id. */
void
weft_work_add_origin(WeftWork *work, WeftNodeWork *item, WeftJob *job)
{
    const WeftCheckpointNode *saved = weft_work_saved_node(work, item->node);
    if (!saved) {
        item->dirty |= item->node->host_key != NULL;
        g_clear_pointer(&item->node->host_key, g_free);
        return;
    }
    guint64 size = saved->saved->size + (saved->disk ? saved->disk->size : 0);
    job->saved = weft_job_file_copy(saved->saved);
    job->disk = saved->disk ? weft_job_file_copy(saved->disk) : NULL;
    job->paused = TRUE;
    job->deadline = weft_images_deadline(work->control, size);
}

/* --- together --- */

static gboolean
are_all_there(const WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        if (weft_work_saved_node(work, item->node) && (item->node->phase != WEFT_NODE_CLAIMED || !item->started))
            return FALSE;
    }
    return work->nodes->len > 0;
}

static gboolean
has_failed(const WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        if (item->node->phase == WEFT_NODE_FAILED && weft_work_saved_node(work, item->node))
            return TRUE;
    }
    return FALSE;
}

/* Those that failed by themselves keep their reason. */
static void
fail_others(WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        WeftNodePhase phase = item->node->phase;
        if (!weft_work_saved_node(work, item->node) || phase == WEFT_NODE_FAILED || phase == WEFT_NODE_STOPPING)
            continue;
        weft_work_interrupt(work, item);
        weft_work_set_phase(work, item, WEFT_NODE_FAILED, ONE_FAILED, NULL);
        item->stopped = FALSE;
    }
}

/* What cannot be read, or is of another kind than the host takes, will not be better anywhere: all hosts are of that kind.
 * NULL: there is hope for all of them. */
static const WeftNodeWork *
find_hopeless(const WeftWork *work, const char **ret_why, const char **ret_detail)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        const WeftCheckpointNode *saved = weft_work_saved_node(work, item->node);
        if (!saved)
            continue;
        const WeftImage image = as_image(work, saved);
        gboolean damaged = weft_images_is_damaged(work->control->images, item->node->host, &image);
        *ret_why = damaged ? "what was saved of it is damaged" : item->node->reason;
        *ret_detail =
            damaged ? weft_images_trouble(work->control->images, item->node->host, &image)->detail : item->node->detail;
        if (damaged || item->refused)
            return item;
    }
    return NULL;
}

/* hopeless: what weft put aside by itself nobody else can restore; without it the cluster boots, as if it had not been put
 * aside. */
static void
begin_anew(WeftWork *work, gboolean hopeless, const char *why, const char *detail)
{
    WeftTxn *txn = weft_txn_new("cluster-placed-anew");
    if (hopeless) {
        weft_work_tell_event(work, txn, "cluster-not-restored", NULL, detail, "%s", why);
        weft_work_forget_frozen(work, txn);
    }
    weft_work_retire_all(work, txn, why, hopeless);
}

/* TRUE: a commit is under way. */
static gboolean
give_up(WeftWork *work, const WeftNodeWork *item, const char *why, const char *detail)
{
    const WeftCheckpoint *origin = weft_work_origin(work);
    g_autofree char *label = weft_node_label(item->node);
    g_autofree char *said =
        g_strdup_printf("it begins anew, and does not go on from where it was put aside: %s: %s", label, why);
    gboolean hidden = origin ? origin->hidden : g_str_has_prefix(work->status->origin, WEFT_CHECKPOINT_HIDDEN);
    if (hidden)
        begin_anew(work, TRUE, said, detail);
    else
        weft_work_give_up(work, item->node, why, detail);
    return hidden;
}

static gboolean
place_anew(WeftWork *work, const WeftPlan *plan)
{
    gboolean away = FALSE;
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        gboolean goes = plan->actions[i] == WEFT_DO_REPLACE || plan->actions[i] == WEFT_DO_LOSE;
        if (!goes || !weft_work_saved_node(work, item->node))
            continue;
        if (item->node->phase == WEFT_NODE_FAILED)
            weft_work_shun(work, item->node->host, item->refused);
        away = TRUE;
    }
    if (!away)
        return FALSE;
    begin_anew(work, FALSE, PLACED_ANEW, NULL);
    return TRUE;
}

gboolean
weft_work_thaw(WeftWork *work, const WeftPlan *plan)
{
    WeftClusterStatus *status = work->status;
    if (!status || !status->origin || work->cluster->deleted || work->fatal)
        return FALSE;
    if (!weft_work_origin(work))
        return give_up(work, work->nodes->pdata[0], "its checkpoint is gone", NULL);
    const char *why, *detail;
    const WeftNodeWork *hopeless = find_hopeless(work, &why, &detail);
    if (hopeless)
        return give_up(work, hopeless, why, detail);
    if (place_anew(work, plan))
        return TRUE;
    gboolean failed = status->thawed && has_failed(work);
    if (!failed && (status->thawed || !are_all_there(work)))
        return FALSE;
    if (failed)
        fail_others(work);
    status->thawed = !failed;
    work->status_dirty = TRUE;
    weft_work_commit(work, weft_txn_new("cluster-thawed"));
    return TRUE;
}

/* --- one of them --- */

static void
goes_on(const WeftTalk *talk, const char *output, const GError *error)
{
    WeftWork *work = talk->work;
    WeftNodeWork *item = weft_work_step_ended(work, talk->node);
    if (!item || item->node->phase != WEFT_NODE_CLAIMED)
        return;
    /* It goes on: what its own hooks made of that is theirs. */
    if (error && !g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED))
        weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_THAW, talk->deadline, error });
    else
        weft_work_come_up(work, item);
}

/* Its guest takes itself for the node that was saved; whoever clones it calls it by the id that it has now. */
static void
ask_to_go_on(WeftWork *work, WeftNodeWork *item)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, item->node->host);
    g_autofree char *rails = weft_roster_rails(item->node, host);
    g_autofree char *input = g_strdup_printf("node %s\n%s", item->node->id, rails);
    weft_work_ask(work, item, &(WeftWorkAsk){ "resume", input, work->control->options.await_deadline, goes_on });
}

/* It has what it has of its host. */
static void
plugged(WeftWork *work, const char *node_id, const char *why, const GError *error)
{
    WeftNodeWork *item = weft_work_find(work, node_id);
    if (item && item->node->phase == WEFT_NODE_CLAIMED) {
        if (error)
            weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_THAW, 0, error, why });
        else
            ask_to_go_on(work, item);
    }
    weft_work_wake(work);
}

static void
resumed(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = weft_work_step_ended(work, job->subject);
    if (!item || item->node->phase != WEFT_NODE_CLAIMED)
        return;
    if (error)
        weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_THAW, job->deadline, error });
    else if (weft_node_parts(item->node))
        weft_work_plug_fork(work, item, plugged);
    else
        ask_to_go_on(work, item);
}

void
weft_work_let_go(WeftWork *work, WeftNodeWork *item)
{
    if (!work->status->thawed || work->status_dirty ||
        !weft_hosts_inventory(work->control->hosts, item->node->host, NULL)) /* its first word wakes the cluster */
        return;
    const WeftHost *host = weft_fleet_host(work->control->fleet, item->node->host);
    g_autofree char *domain = weft_node_domain(item->node);
    WeftJob *job = weft_job_new(WEFT_STEP_RESUME, host->name, host->uri, domain);
    job->deadline = work->control->options.start_deadline;
    job->done = resumed;
    weft_work_submit(work, item, job);
}

/* --- it is ready, or to be no more --- */

void
weft_work_forget_origin(WeftWork *work)
{
    WeftClusterStatus *status = work->status;
    if (!status || !status->origin)
        return;
    g_clear_pointer(&status->origin, g_free);
    status->thawed = FALSE;
    weft_images_changed(work->control->images);
}

void
weft_work_forget_frozen(const WeftWork *work, WeftTxn *txn)
{
    gint64 revision = 0;
    const WeftCheckpoint *hidden = weft_checkpoints_hidden(work->control->checkpoints, work->cluster, &revision);
    if (!hidden)
        return;
    weft_txn_remove_checkpoint(txn, hidden, revision);
}

void
weft_work_thawed(WeftWork *work, WeftTxn *txn)
{
    WeftClusterStatus *status = work->status;
    const WeftCheckpoint *origin = weft_work_origin(work);
    g_autofree char *taken = origin ? weft_clock_format(origin->taken) : NULL;
    weft_txn_tell(txn, "cluster-restored", work->cluster, NULL, "its nodes go on from %s%s%s",
                  origin && origin->hidden ? "where they were put aside" : "checkpoint ",
                  origin && origin->hidden ? ", at " : status->origin, origin && origin->hidden ? taken : "");
    weft_work_forget_frozen(work, txn);
    weft_work_forget_origin(work);
    status->restored = TRUE;
}
