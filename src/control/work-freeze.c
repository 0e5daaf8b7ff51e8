/* A checkpoint: all nodes of a cluster are quiesced, stand still together, are saved where they are, go on, and their files are
 * fetched. Each stage is done by all before the next begins.
 *
 * The record of the checkpoint is the wish and what is known of it: "wanted" is begun from the start, whatever was done of it
 * before, "saved" goes on behind the stage that made it so, and with the files that it names only those of the hosts are left
 * to be removed. Whatever fails before, they go on; then the record says why. */
#include "work-freeze.h"
#include "clock.h"
#include "errors.h"

typedef enum {
    WAKE,  /* what an earlier try left standing still */
    CLEAR, /* … and its files */
    STILL,
    PAUSE,
    SAVE,
    RECORD, /* that they are saved */
    LET_GO,
    GO_ON,
    FETCH,
    FETCH_DISK, /* of those that have one of their own */
    KEEP,       /* that they are here */
    SWEEP,
    END,
} Stage;

/* What is done to a node in a stage. */
typedef struct Deed {
    WeftStepType step;
    void (*talk)(WeftWork *work, WeftNodeWork *item); /* what is done with its guest instead; NULL: nothing */
    const char *suffix;                               /* of the file that the call is about, behind the domain's name */
    gboolean again;    /* a failure is tried again before it counts: nobody stands still meanwhile, or must not */
    const char *doing; /* for whoever waits */
} Deed;

static void begin_still(WeftWork *work, WeftNodeWork *item);
static void begin_go_on(WeftWork *work, WeftNodeWork *item);

static const Deed deeds[END] = {
    [WAKE] = { WEFT_STEP_RESUME, NULL, "", TRUE, "quiesced" },
    [CLEAR] = { WEFT_STEP_DISCARD, NULL, WEFT_SAVED_SUFFIX, TRUE, "quiesced" },
    [STILL] = { 0, begin_still, "", FALSE, "quiesced" },
    [PAUSE] = { WEFT_STEP_PAUSE, NULL, "", FALSE, "stopped" },
    [SAVE] = { WEFT_STEP_SAVE, NULL, "", FALSE, "saved" },
    [LET_GO] = { WEFT_STEP_RESUME, NULL, "", TRUE, "going on" },
    [GO_ON] = { 0, begin_go_on, "", TRUE, "going on" },
    [FETCH] = { WEFT_STEP_FETCH, NULL, WEFT_SAVED_SUFFIX, TRUE, "fetched" },
    [FETCH_DISK] = { WEFT_STEP_FETCH, NULL, WEFT_DISK_SUFFIX, TRUE, "fetched" },
    [SWEEP] = { WEFT_STEP_DISCARD, NULL, WEFT_SAVED_SUFFIX, TRUE, "fetched" },
};

static void
share_free(gpointer data)
{
    WeftFreezeShare *share = data;
    weft_job_file_free(share->file);
    weft_job_file_free(share->disk);
    weft_rest_clear(&share->rest);
    g_free(share);
}

void
weft_freeze_free(WeftFreeze *freeze)
{
    if (!freeze)
        return;
    g_hash_table_unref(freeze->shares);
    g_free(freeze->name);
    g_free(freeze->reason);
    g_free(freeze->detail);
    g_free(freeze);
}

static WeftFreeze *
freeze_new(const WeftCheckpoint *checkpoint)
{
    WeftFreeze *freeze = g_new0(WeftFreeze, 1);
    freeze->name = g_strdup(checkpoint->name);
    freeze->shares = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, share_free);
    if (checkpoint->state == WEFT_CHECKPOINT_SAVED)
        freeze->stage = weft_checkpoint_has_files(checkpoint) ? KEEP : RECORD;
    return freeze;
}

static WeftFreezeShare *
share_of(const WeftFreeze *freeze, const char *node_id)
{
    WeftFreezeShare *share = g_hash_table_lookup(freeze->shares, node_id);
    if (!share) {
        share = g_new0(WeftFreezeShare, 1);
        g_hash_table_insert(freeze->shares, g_strdup(node_id), share);
    }
    return share;
}

gboolean
weft_work_is_freezing(const WeftWork *work)
{
    return work->freeze && work->cluster && weft_checkpoints_unfinished(work->control->checkpoints, work->cluster->id, NULL);
}

char *
weft_work_tell_freezing(const WeftWork *work)
{
    const WeftFreeze *freeze = work->freeze;
    guint done = 0;
    if (!freeze || freeze->stage == END || !deeds[freeze->stage].doing)
        return NULL;
    for (guint i = 0; i < work->nodes->len; i++)
        done += share_of(freeze, ((const WeftNodeWork *)work->nodes->pdata[i])->node->id)->done > freeze->stage;
    return g_strdup_printf("checkpoint %s: %u of %u nodes are %s", freeze->name, done, work->nodes->len,
                           deeds[freeze->stage].doing);
}

/* Also one that began anew by itself meanwhile, and is to meet the others: it would stand still for ever. */
static gboolean
runs(const WeftNode *node)
{
    return node->phase == WEFT_NODE_UP || node->phase == WEFT_NODE_READY;
}

static void
pass(const WeftFreeze *freeze, WeftFreezeShare *share)
{
    share->done = freeze->stage + 1;
    weft_rest_clear(&share->rest);
}

/* --- what goes wrong --- */

/* Whoever stands still goes on, and then it is told. The first reason counts. */
static void
fail(WeftWork *work, const char *reason, const char *detail)
{
    WeftFreeze *freeze = work->freeze;
    GHashTableIter iter;
    gpointer share;
    if (freeze->reason)
        return;
    g_hash_table_iter_init(&iter, freeze->shares);
    while (g_hash_table_iter_next(&iter, NULL, &share))
        weft_rest_clear(&((WeftFreezeShare *)share)->rest);
    freeze->reason = g_strdup(reason);
    freeze->detail = g_strdup(detail);
    freeze->stage = LET_GO;
    weft_work_wake(work);
}

/* One that cannot be let go on is started anew, as if it had died. */
static void
give_up(WeftWork *work, WeftNodeWork *item, const char *said, const GError *error)
{
    WeftFreeze *freeze = work->freeze;
    switch (freeze->stage) {
    case LET_GO:
        if (item && runs(item->node))
            weft_work_set_phase(work, item, WEFT_NODE_FAILED, "it was stopped for a checkpoint, and could not be let go on",
                                error->message);
        return;
    case GO_ON:
    case SWEEP: /* it goes with its domain */
        g_warning("cluster %s: checkpoint %s: %s: %s", work->key, freeze->name, said, error->message);
        return;
    default:
        fail(work, said, error->message);
    }
}

/* words: for its tenant. */
static void
deed_failed(WeftWork *work, const char *node_id, const char *words, const GError *error)
{
    WeftFreeze *freeze = work->freeze;
    WeftNodeWork *item = weft_work_find(work, node_id);
    WeftFreezeShare *share = share_of(freeze, node_id);
    const Deed *deed = &deeds[freeze->stage];
    g_autofree char *label = item ? weft_node_label(item->node) : g_strdup("a node");
    g_autofree char *said = g_strdup_printf("%s: %s", label, words);
    weft_rest_fail(&share->rest, &work->control->options.backoff, WEFT_DEED_FREEZE, said, error->message);
    gboolean hopeless = !deed->again || g_error_matches(error, WEFT_ERROR, WEFT_ERROR_INVALID) ||
                        share->rest.attempts >= work->control->options.starts_max;
    if (hopeless) {
        pass(freeze, share);
        give_up(work, item, said, error);
    } else {
        weft_work_wake_at(work, share->rest.not_before);
    }
}

/* --- what a node does --- */

static void
keep_file(WeftImageFile **file, const WeftJob *job)
{
    weft_job_file_free(*file);
    *file = weft_job_file_copy(job->fetched);
}

static void
note_stop(WeftFreeze *freeze, WeftFreezeShare *share, const WeftJob *job)
{
    share->stopped = job->ended;
    freeze->first = freeze->first ? MIN(freeze->first, job->ended) : job->ended;
    freeze->last = MAX(freeze->last, job->ended);
    freeze->taken = weft_clock_now();
}

static void
note(WeftFreeze *freeze, WeftFreezeShare *share, const WeftJob *job)
{
    switch (freeze->stage) {
    case PAUSE:
        note_stop(freeze, share, job);
        break;
    case LET_GO:
        if (share->stopped)
            freeze->paused = MAX(freeze->paused, job->ended - share->stopped);
        break;
    case FETCH:
    case FETCH_DISK:
        keep_file(freeze->stage == FETCH ? &share->file : &share->disk, job);
        break;
    default:
        break;
    }
}

/* The share that a step was for; NULL: of a stage, or a checkpoint, that was given up meanwhile. */
static WeftFreezeShare *
share_ended(WeftWork *work, const char *node_id)
{
    WeftFreezeShare *share = work->freeze ? g_hash_table_lookup(work->freeze->shares, node_id) : NULL;
    gboolean current = share && share->running == work->freeze->stage + 1u;
    if (share)
        share->running = 0;
    return current ? share : NULL;
}

/* Its host is another weftd's: that says nothing of the node, which waits until the host is ours, and is tried again then. */
static gboolean
was_disowned(const WeftWork *work, const WeftJob *job)
{
    return deeds[work->freeze->stage].again && weft_hosts_has_disowned(work->control->hosts, job);
}

static void
called(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftFreezeShare *share = share_ended(work, job->subject);
    weft_work_step_ended(work, job->subject);
    if (!share) {
        weft_images_drop(work->control->images, job);
    } else if (error && was_disowned(work, job)) {
        share->rest.not_before = g_get_monotonic_time() + weft_backoff_delay(&work->control->options.backoff, 1);
    } else if (error) {
        g_autofree char *words = weft_words(WEFT_DEED_FREEZE, error, job->deadline);
        deed_failed(work, job->subject, words, error);
    } else {
        note(work->freeze, share, job);
        pass(work->freeze, share);
    }
}

static void
talked(WeftWork *work, const char *node_id, const char *why, const GError *error)
{
    WeftFreezeShare *share = share_ended(work, node_id);
    if (share && why)
        deed_failed(work, node_id, why, error);
    else if (share)
        pass(work->freeze, share);
    weft_work_wake(work);
}

static void
begin_still(WeftWork *work, WeftNodeWork *item)
{
    const WeftCheckpoint *checkpoint = weft_checkpoints_unfinished(work->control->checkpoints, work->cluster->id, NULL);
    weft_work_still(work, item, checkpoint && checkpoint->disrupt, talked);
}

static void
begin_go_on(WeftWork *work, WeftNodeWork *item)
{
    weft_work_go_on(work, item, talked);
}

/* Bytes of the file that is fetched. */
static guint64
most_of(const WeftWork *work, const WeftNodeWork *item)
{
    const WeftGroup *group = work->cluster->groups->pdata[weft_node_group(item->node, work->cluster)];
    guint64 disk = group->disk ? group->disk : WEFT_IMAGE_SIZE_MAX;
    return WEFT_SAVED_MAX(work->freeze->stage == FETCH_DISK ? disk : weft_node_memory(item->node));
}

static void
call(WeftWork *work, WeftNodeWork *item, const Deed *deed)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, item->node->host);
    g_autofree char *domain = weft_node_domain(item->node);
    g_autofree char *text = g_strconcat(domain, deed->suffix, NULL);
    WeftJob *job = weft_job_new(deed->step, host->name, host->uri, text);
    gboolean carries = deed->step == WEFT_STEP_SAVE || deed->step == WEFT_STEP_FETCH || deed->step == WEFT_STEP_DISCARD;
    job->deadline = weft_images_deadline(work->control, carries ? weft_node_memory(item->node) : 0);
    job->mode = WEFT_SAVE_STILL;
    if (deed->step == WEFT_STEP_FETCH)
        weft_images_fetch(work->control, job, weft_images_path(work->control, text), most_of(work, item));
    job->done = called;
    weft_work_submit(work, item, job);
}

/* --- a stage --- */

static gboolean
is_skipped(const WeftFreeze *freeze, const WeftCheckpoint *checkpoint)
{
    gboolean failed = freeze->reason != NULL;
    switch (freeze->stage) {
    case LET_GO:
    case GO_ON:
        return checkpoint->hidden; /* they stay, and are stopped then */
    case FETCH:
    case FETCH_DISK:
        return failed;
    case RECORD:
    case KEEP:
        return TRUE;
    case SWEEP:
        return checkpoint->hidden;
    default:
        return FALSE;
    }
}

/* Only those that run can; that others do not has failed it already. */
static gboolean
has_part(const WeftWork *work, const WeftNodeWork *item)
{
    return runs(item->node) && (work->freeze->stage != FETCH_DISK || weft_work_own_disk(work, item->node));
}

/* A node on a host that is another weftd's may stand still for that one's checkpoint. */
static gboolean
is_disowned(const WeftWork *work, const WeftNodeWork *item)
{
    return has_part(work, item) && weft_hosts_is_passive(work->control->hosts, item->node->host);
}

/* A stage that would let the others stand still until an operator has decided whose such a host is fails instead. */
static gboolean
check_owners(WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len && !deeds[work->freeze->stage].again; i++)
        if (is_disowned(work, work->nodes->pdata[i])) {
            fail(work, "a host of it belongs to another weftd", NULL);
            return FALSE;
        }
    return TRUE;
}

/* TRUE: all have done it. */
static gboolean
run_stage(WeftWork *work)
{
    WeftFreeze *freeze = work->freeze;
    const Deed *deed = &deeds[freeze->stage];
    gboolean all = TRUE;
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        WeftFreezeShare *share = share_of(freeze, item->node->id);
        if (share->done > freeze->stage || !has_part(work, item))
            continue;
        all = FALSE;
        if (is_disowned(work, item))
            continue; /* the cluster is woken when the host is ours */
        if (!weft_rest_is_over(&share->rest, work->now))
            weft_work_wake_at(work, share->rest.not_before);
        if (share->running || g_hash_table_contains(work->jobs, item->node->id) ||
            weft_work_is_stilling(work, item->node->id) || !weft_rest_is_over(&share->rest, work->now) ||
            (deed->talk && !weft_hosts_inventory(work->control->hosts, item->node->host, NULL)))
            continue; /* its host's first word, too, wakes the cluster */
        share->running = freeze->stage + 1;
        if (deed->talk)
            deed->talk(work, item);
        else
            call(work, item, deed);
    }
    return all;
}

static gboolean
check_skew(WeftWork *work)
{
    const WeftFreeze *freeze = work->freeze;
    gint64 skew = freeze->last - freeze->first, limit = work->control->options.checkpoint_skew;
    if (skew <= limit)
        return TRUE;
    g_autofree char *reason =
        g_strdup_printf("its nodes stopped within %" G_GINT64_FORMAT " ms, which is more than the %" G_GINT64_FORMAT
                        " ms that are allowed; try again, or ask an operator for a longer checkpoint_skew",
                        skew / 1000, limit / 1000);
    fail(work, reason, NULL);
    return FALSE;
}

/* --- all of them --- */

/* After a start the hosts tell what they are one by one. */
static gboolean
are_kinds_known(const WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++)
        if (!weft_hosts_inventory(work->control->hosts, ((const WeftNodeWork *)work->nodes->pdata[i])->node->host, NULL))
            return FALSE;
    return TRUE;
}

/* kind: that of those before, of which one is known. */
static const char *
check_kind(const WeftWork *work, const WeftNode *node, char **kind)
{
    const WeftRest *trouble;
    const WeftInventory *inventory = weft_hosts_inventory(work->control->hosts, node->host, &trouble);
    if (!inventory)
        return trouble->attempts ? "a host of it does not tell what it is able to, and so not where it could be restored"
                                 : NULL;
    g_autofree char *own = weft_inventory_kind(inventory);
    if (*kind && g_strcmp0(own, *kind) != 0)
        return "its hosts are of several kinds: there would be no place where all of it could be restored";
    if (!*kind)
        *kind = g_steal_pointer(&own);
    return NULL;
}

/* Why it cannot be put aside, now or at all; static. */
static const char *
find_obstacle(const WeftWork *work)
{
    g_autofree char *kind = NULL;
    if (!work->control->options.images)
        return "this site keeps no images, and so no checkpoints";
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        const char *why = weft_checkpoint_obstacle(work->cluster, node);
        if (!why)
            why = check_kind(work, node, &kind);
        if (why)
            return why;
    }
    return NULL;
}

static gboolean
is_whole(const WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        if (item->leaving || item->node->phase != WEFT_NODE_READY || item->node->target ||
            item->node->met != work->status->generation)
            return FALSE;
    }
    return work->nodes->len == weft_cluster_count(work->cluster) && work->status->was_ready;
}

/* All have done what they were to do; FALSE: it failed, and they go on. */
static gboolean
record(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision)
{
    const WeftFreeze *freeze = work->freeze;
    if (freeze->stage == END && freeze->reason) {
        weft_freeze_record_failed(work, checkpoint, revision);
    } else if (freeze->stage == END) {
        weft_freeze_record_complete(work, checkpoint, revision);
    } else if (freeze->stage == RECORD) {
        if (!check_skew(work))
            return FALSE;
        weft_freeze_record_saved(work, checkpoint, revision);
    } else if (!weft_freeze_record_files(work, checkpoint, revision)) {
        fail(work, "a node of it was changed while its file was fetched", NULL);
        return FALSE;
    }
    return TRUE;
}

/* TRUE: a commit is under way. */
static gboolean
advance(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision)
{
    WeftFreeze *freeze = work->freeze;
    for (;;) {
        gboolean unwritten = (freeze->stage == RECORD && checkpoint->state != WEFT_CHECKPOINT_SAVED) ||
                             (freeze->stage == KEEP && !freeze->reason && !weft_checkpoint_has_files(checkpoint));
        if (freeze->stage == END || unwritten)
            return record(work, checkpoint, revision);
        if (!is_skipped(freeze, checkpoint) && (!check_owners(work) || !run_stage(work)))
            return FALSE;
        freeze->stage++;
    }
}

gboolean
weft_work_freeze(WeftWork *work)
{
    gint64 revision = 0;
    const WeftCheckpoint *checkpoint = weft_checkpoints_unfinished(work->control->checkpoints, work->cluster->id, &revision);
    if (!checkpoint || g_strcmp0(work->freeze ? work->freeze->name : NULL, checkpoint->name) != 0)
        g_clear_pointer(&work->freeze, weft_freeze_free);
    if (!checkpoint || !work->status)
        return FALSE;
    if (!work->freeze)
        work->freeze = freeze_new(checkpoint);
    const char *obstacle = checkpoint->state == WEFT_CHECKPOINT_WANTED ? find_obstacle(work) : NULL;
    if (weft_checkpoint_has_files(checkpoint)) {
        work->freeze->stage = work->cluster->deleted ? END : work->freeze->stage;
    } else if (work->cluster->deleted) {
        fail(work, "the cluster was removed meanwhile", NULL);
        work->freeze->stage = END;
    } else if (!is_whole(work)) {
        fail(work, "a node of it failed, moved or was to go meanwhile; wait until it is ready, and try again", NULL);
    } else if (obstacle) {
        fail(work, obstacle, NULL);
    } else if (checkpoint->state == WEFT_CHECKPOINT_WANTED && (!are_kinds_known(work) || !weft_work_know_host_keys(work))) {
        return FALSE;
    }
    return advance(work, checkpoint, revision);
}

/* --- giving way --- */

gboolean
weft_work_freeze_away(WeftWork *work, const char **ret_why)
{
    const WeftCluster *cluster = work->cluster;
    *ret_why = NULL;
    if (weft_work_is_freezing(work))
        return TRUE;
    if (cluster->capture || !work->status || !is_whole(work))
        return FALSE;
    *ret_why = find_obstacle(work);
    if (*ret_why)
        return FALSE;
    g_autoptr(WeftCheckpoint) wanted = weft_checkpoint_new();
    wanted->tenant = g_strdup(cluster->tenant);
    wanted->name = weft_checkpoint_hidden_name(cluster->id);
    wanted->cluster = g_strdup(cluster->id);
    wanted->wish = weft_cluster_copy(cluster);
    wanted->creator = g_strdup("weft");
    wanted->created = weft_clock_now();
    wanted->hidden = TRUE;
    WeftTxn *txn = weft_txn_new("checkpoint-wanted");
    weft_txn_put_checkpoint(txn, wanted, NULL, WEFT_ABSENT);
    weft_work_commit(work, txn);
    return TRUE;
}
