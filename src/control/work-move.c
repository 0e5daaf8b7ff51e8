/* Nodes on their way to another host: the driver's call is repeated until it tells how it ended, also after a restart, and one
 * transaction ends the move. */
#include "work.h"

#include "clock.h"
#include "copy-choice.h"
#include "errors.h"
#include "size.h"

#define TELL_AGAIN G_USEC_PER_SEC /* how far it is */
#define TIMEOUTS 2                /* as many times as nodes are started on one host: what hangs may only be slow */

/* --- on its way --- */

/* It ends where it began. hopeless: nor would the next time be any better. */
static void
give_up(WeftWork *work, WeftNodeWork *item, const char *why, const char *detail, gboolean hopeless)
{
    g_free(item->unmoved);
    g_free(item->unmoved_detail);
    item->unmoved = g_strdup(why);
    item->unmoved_detail = g_strdup(detail);
    item->hopeless = hopeless;
    item->doubtful = FALSE;
    weft_work_wake(work);
}

/* Likewise, where nobody told how far it got: one that has gone over, or is about to, goes on. */
static void
give_up_in_doubt(WeftWork *work, WeftNodeWork *item, const char *why, const char *detail)
{
    give_up(work, item, why, detail, FALSE);
    item->doubtful = TRUE;
}

void
weft_work_target_failed(WeftWork *work, WeftNodeWork *item, const char *why, const char *detail)
{
    if (!g_hash_table_contains(work->jobs, item->node->id))
        give_up(work, item, why, detail, FALSE);
}

/* A call that was broken off leaves things as they are: only the same call tells how they are. */
static gboolean
goes_on(WeftErrorCode code)
{
    return code == WEFT_ERROR_CONFLICT || code == WEFT_ERROR_TIMEOUT || code == WEFT_ERROR_UNAVAILABLE ||
           code == WEFT_ERROR_BUSY;
}

static void
lose(WeftWork *work, WeftNodeWork *item, const GError *error)
{
    weft_work_set_phase(work, item, WEFT_NODE_FAILED, "it was lost on its way to another host", error->message);
    item->stopped = FALSE;
    weft_rest_clear(&item->rest);
}

static void
move_failed(WeftWork *work, WeftNodeWork *item, const GError *error, gint64 deadline)
{
    WeftErrorCode code = weft_error_code(error);
    g_autofree char *words = code == WEFT_ERROR_CONFLICT
                                 ? g_strdup("the link between the hosts broke; it stands still until it is back")
                                 : weft_words(WEFT_DEED_MOVE, error, deadline);
    weft_work_node_rests(work, item, WEFT_DEED_MOVE, words, error->message);
    weft_hosts_hint(work->control->hosts, item->node->host);
    weft_hosts_hint(work->control->hosts, item->node->target->host);
    if (code == WEFT_ERROR_NOT_FOUND)
        lose(work, item, error);
    else if (code == WEFT_ERROR_TIMEOUT && item->rest.attempts >= TIMEOUTS * work->control->options.starts_max)
        give_up_in_doubt(work, item, words, error->message);
    else if (!goes_on(code) && (code == WEFT_ERROR_INVALID || item->rest.attempts >= work->control->options.starts_max))
        give_up(work, item, words, error->message, FALSE);
}

/* The item of a step that has ended; NULL: it is not on its way any more. */
static WeftNodeWork *
step_ended(WeftWork *work, const char *node_id)
{
    WeftNodeWork *item = weft_work_step_ended(work, node_id);
    if (item)
        item->moving = NULL;
    gboolean alive = item && (item->node->phase == WEFT_NODE_READY || item->node->phase == WEFT_NODE_UP);
    return alive && item->node->target ? item : NULL;
}

/* Nor the same move, should it have hung: the next call goes over TCP. */
static void
note_rdma(const WeftWork *work, const WeftJob *job, gboolean failed)
{
    if (!job->rdma || !(failed || job->moved.rdma_failed))
        return;
    if (job->moved.rdma_failed)
        g_warning("moves from host %s to %s do not go over RDMA: %s", job->host, job->to, job->moved.rdma_failed);
    weft_hosts_rdma_failed(work->control->hosts, job->host, job->to);
}

static void
moved(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    note_rdma(work, job, error != NULL);
    WeftNodeWork *item = step_ended(work, job->subject);
    if (!item)
        return;
    if (error) {
        move_failed(work, item, error, job->deadline);
        return;
    }
    item->arrived = TRUE;
    weft_moved_clear(&item->trip);
    item->trip = job->moved;
    job->moved.rdma_failed = NULL;
    item->copy = job->move.copy;
}

static WeftJob *
job_here(const WeftWork *work, const WeftNodeWork *item, WeftStepType step, WeftJobDone done)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, item->node->host);
    g_autofree char *domain = weft_node_domain(item->node);
    WeftJob *job = weft_job_new(step, host->name, host->uri, domain);
    job->deadline = work->control->options.start_deadline;
    job->done = done;
    return job;
}

static WeftCopy
choose_copy(const WeftWork *work, const WeftNodeWork *item)
{
    static const WeftCopy copies[] = { [WEFT_METHOD_PRE_COPY] = WEFT_COPY_PRE,
                                       [WEFT_METHOD_POST_COPY] = WEFT_COPY_POST,
                                       [WEFT_METHOD_HYBRID] = WEFT_COPY_HYBRID };
    const WeftControlOptions *options = &work->control->options;
    const WeftMoveWish *wish = weft_work_wish(work, item->node);
    const WeftInventory *inventory = weft_hosts_inventory(work->control->hosts, item->node->host, NULL);
    if (wish && wish->copy != WEFT_METHOD_AUTO)
        return copies[wish->copy];
    WeftCopyFacts facts = { .memory = weft_node_memory(item->node),
                            .rate = item->rate,
                            .bandwidth = options->migration_bandwidth,
                            .stall = options->migration_stall,
                            .rdma = weft_hosts_rdma(work->control->hosts, item->node->host, item->node->target->host) != NULL,
                            .emulated = inventory && !inventory->kvm && !options->trust_emulator };
    return weft_copy_choose(&facts);
}

static void
begin_move(WeftWork *work, WeftNodeWork *item)
{
    g_autoptr(GError) error = NULL;
    const WeftControlOptions *options = &work->control->options;
    const WeftHost *to = weft_fleet_host(work->control->fleet, item->node->target->host);
    g_autoptr(WeftNode) there = weft_node_moved(item->node);
    g_autofree char *xml = weft_work_definition_parted(work, there, &error);
    if (!xml) {
        give_up(work, item, "its definition there cannot be made", error->message, FALSE);
        return;
    }
    WeftJob *job = job_here(work, item, WEFT_STEP_MOVE, moved);
    job->xml = g_steal_pointer(&xml);
    job->to = g_strdup(to->name);
    job->to_uri = g_strdup(to->uri);
    job->move = (WeftMove){ .copy = choose_copy(work, item),
                            .stall = options->migration_stall,
                            .bandwidth = options->migration_bandwidth,
                            .patience = options->start_deadline / 2 }; /* so it has ended before the call has to */
    if (weft_copy_takes_rdma(job->move.copy))
        job->rdma = g_strdup(weft_hosts_rdma(work->control->hosts, job->host, job->to));
    item->moving = job;
    weft_work_submit(work, item, job);
    weft_work_wake_at(work, g_get_monotonic_time() + TELL_AGAIN);
}

/* Where it cannot be told, it is taken for one that writes without end. */
static void
measured(WeftJob *job, const GError *error)
{
    WeftNodeWork *item = step_ended(job->owner, job->subject);
    if (!item)
        return;
    item->measured = TRUE;
    item->rate = error ? G_MAXUINT32 : job->rate;
}

static void
stilled(WeftWork *work, const char *node_id, const char *why, const GError *error)
{
    WeftNodeWork *item = weft_work_find(work, node_id);
    weft_work_wake(work);
    if (!item || !item->node->target || item->node->phase == WEFT_NODE_STOPPING || item->node->phase == WEFT_NODE_LOST ||
        item->node->phase == WEFT_NODE_FAILED)
        return;
    WeftErrorCode code = error ? weft_error_code(error) : WEFT_ERROR_FAILED;
    /* It may have gone there already, before a restart: moving it again tells. */
    item->at_rest = !error || code == WEFT_ERROR_NOT_FOUND;
    if (item->at_rest)
        return;
    weft_work_node_rests(work, item, WEFT_DEED_QUIESCE, why, error->message);
    if (!goes_on(code) || item->rest.attempts >= work->control->options.starts_max)
        give_up(work, item, why, error->message, !goes_on(code));
}

/* --- it stays --- */

/* It was too late to stay: only the call that moves it knows how far it is. */
static void
go_over(WeftWork *work, WeftNodeWork *item)
{
    item->doubtful = FALSE;
    item->gone_over = TRUE;
    g_clear_pointer(&item->unmoved, g_free);
    g_clear_pointer(&item->unmoved_detail, g_free);
    weft_rest_clear(&item->rest);
    weft_work_wake(work);
}

static void
looked(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = step_ended(work, job->subject);
    if (!item || !item->unmoved)
        return;
    WeftErrorCode code = error ? weft_error_code(error) : WEFT_ERROR_FAILED;
    gboolean left = error && (code == WEFT_ERROR_CONFLICT || code == WEFT_ERROR_NOT_FOUND);
    item->stays = !error;
    if (left && item->doubtful)
        go_over(work, item);
    else if (left)
        lose(work, item, error);
    else if (error)
        weft_work_node_rests(work, item, WEFT_DEED_MOVE, item->unmoved, error->message);
}

/* Does it run where it began? One that switched to post-copy before never will again, and of one that was halted only the
 * target could tell whether it runs there: that one is started anew. */
static void
look_here(WeftWork *work, WeftNodeWork *item)
{
    if (!weft_hosts_is_passive(work->control->hosts, item->node->host) && weft_rest_is_over(&item->rest, work->now) &&
        !item->stays && !g_hash_table_contains(work->jobs, item->node->id))
        weft_work_submit(work, item, job_here(work, item, WEFT_STEP_RESUME, looked));
}

/* TRUE: what it needs there is there. */
static gboolean
is_prepared_there(WeftWork *work, WeftNodeWork *item)
{
    WeftControl *control = work->control;
    const char *host = item->node->target->host;
    const WeftImage *image = item->node->image ? weft_images_find(control->images, item->node->image) : NULL;
    if (!weft_hosts_inventory(control->hosts, host, NULL))
        return FALSE;
    if (!image || weft_images_are_on(control->images, host, image))
        return TRUE;
    const WeftRest *trouble = weft_images_trouble(control->images, host, image);
    if (trouble->attempts >= control->options.starts_max)
        give_up(work, item, trouble->what, trouble->detail, FALSE);
    else
        weft_images_bring(control->images, host, image, work->key);
    return FALSE;
}

void
weft_work_move(WeftWork *work, WeftNodeWork *item)
{
    const WeftMoveWish *wish = weft_work_wish(work, item->node);
    if (item->unmoved)
        look_here(work, item);
    if (item->arrived || item->unmoved || !is_prepared_there(work, item))
        return;
    if (work->status->wired != work->status->generation || !work->connected)
        return;
    if (!item->measured)
        weft_work_submit(work, item, job_here(work, item, WEFT_STEP_MEASURE, measured));
    else if (item->node->still && !item->at_rest)
        weft_work_still(work, item, wish && wish->disrupt, stilled);
    else
        begin_move(work, item);
}

/* --- the end --- */

static char *
trip_text(const WeftNodeWork *item)
{
    g_autofree char *took = weft_duration_format(item->trip.took);
    g_autofree char *stall = weft_duration_format(item->trip.stall);
    g_autofree char *sent = weft_size_about(item->trip.sent);
    const char *way = item->trip.rdma ? " over RDMA" : item->trip.rdma_failed ? ", over TCP as RDMA failed" : "";
    return g_strdup_printf("moved to another host within %s; it stood still for %s, %s were sent by %s in %u pass%s%s", took,
                           stall, sent, weft_copy_words[item->copy], item->trip.passes, item->trip.passes == 1 ? "" : "es",
                           way);
}

/* Its record says from now on that it is there. */
static void
arrive(WeftWork *work, WeftNodeWork *item, WeftTxn *txn)
{
    gint64 now = weft_clock_now();
    WeftNode *there = weft_node_moved(item->node);
    g_autofree char *words = trip_text(item);
    weft_txn_put_usage(txn, item->node, now);
    there->since = MAX(now, item->node->since + 1);
    there->met = 0; /* the others are to be reached from there, too */
    weft_work_forget_move(work, txn, item->node);
    item->before = item->node;
    item->node = there;
    weft_work_tell_event(work, txn, "node-moved", there, item->trip.rdma_failed, " %s", words);
    weft_links_drop(work->control->links, there->id);
    weft_rest_clear(&item->rest);
    weft_rest_clear(&item->leave);
    item->failed_moves = 0;
}

void
weft_work_unmove(WeftWork *work, WeftNodeWork *item)
{
    json_auto_t *json = weft_node_to_json(item->node);
    item->before = weft_node_from_json(json, NULL);
    g_clear_pointer(&item->node->target, weft_node_free);
    item->dirty = item->claims = TRUE;
    weft_work_members_changed(work, item->node);
}

static void
stay(WeftWork *work, WeftNodeWork *item, WeftTxn *txn)
{
    g_autofree char *words = g_strdup_printf("is not moved, and runs on where it is: %s", item->unmoved);
    weft_work_forget_move(work, txn, item->node);
    if (!weft_work_is_called_off(work, item))
        weft_work_shun(work, item->node->target->host, FALSE);
    weft_work_tell_event(work, txn, "node-move-failed", item->node, item->unmoved_detail, " %s", words);
    weft_work_unmove(work, item);
    weft_rest_clear(&item->rest);
    if (!weft_work_is_emptied(work, item->node))
        return;
    weft_rest_fail(&item->leave, &work->control->options.backoff, WEFT_DEED_MOVE, words, item->unmoved_detail);
    if (item->hopeless || ++item->failed_moves >= work->control->options.starts_max) {
        g_free(item->node->reason);
        item->node->reason = g_strdup(item->unmoved);
    }
}

gboolean
weft_work_end_moves(WeftWork *work)
{
    g_autoptr(WeftTxn) txn = weft_txn_new("move-ended");
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        gboolean alive = item->node->phase == WEFT_NODE_READY || item->node->phase == WEFT_NODE_UP;
        if (item->node->target && alive && item->arrived)
            arrive(work, item, txn);
        else if (item->node->target && alive && item->unmoved && item->stays)
            stay(work, item, txn);
        else
            continue;
        if (item->node->devices->len && item->arrived)
            weft_work_members_changed(work, item->node);
        item->dirty = item->claims = TRUE;
        item->arrived = item->stays = FALSE;
        g_clear_pointer(&item->unmoved, g_free);
        g_clear_pointer(&item->unmoved_detail, g_free);
    }
    if (weft_txn_is_empty(txn))
        return FALSE;
    work->wishes_stale = TRUE;
    weft_work_commit(work, g_steal_pointer(&txn));
    return TRUE;
}

char *
weft_work_called_off_words(const WeftMoveWish *wish)
{
    return g_strdup_printf("%s called it off", wish->called_off);
}

gboolean
weft_work_is_called_off(const WeftWork *work, const WeftNodeWork *item)
{
    const WeftMoveWish *wish = weft_work_wish(work, item->node);
    return wish && wish->called_off && !item->gone_over;
}

static void
turn_back(WeftWork *work, WeftNodeWork *item)
{
    gboolean lost = weft_hosts_seen(work->control->hosts, item->node->target->host) == WEFT_SEEN_LOST;
    g_autofree char *words = lost ? NULL : weft_work_called_off_words(weft_work_wish(work, item->node));
    if (lost)
        give_up(work, item, "the host that it was to be moved to is lost", NULL, FALSE);
    else
        give_up_in_doubt(work, item, words, NULL);
}

/* What runs for it ends first; then it is where it was, or nowhere. */
void
weft_work_return(WeftWork *work, WeftNodeWork *item)
{
    if (item->unmoved)
        look_here(work, item);
    else if (g_hash_table_contains(work->jobs, item->node->id))
        weft_work_interrupt(work, item);
    else
        turn_back(work, item);
}

/* --- going on --- */

static void
went_on(WeftWork *work, const char *node_id, const char *why, const GError *error)
{
    WeftNodeWork *item = weft_work_find(work, node_id);
    weft_work_wake(work);
    if (!item || item->node->target || (item->node->phase != WEFT_NODE_READY && item->node->phase != WEFT_NODE_UP))
        return;
    if (!error) {
        item->node->still = FALSE;
        item->dirty = TRUE;
        weft_rest_clear(&item->rest);
        return;
    }
    weft_work_node_rests(work, item, WEFT_DEED_PLUG, why, error->message);
    if (item->rest.attempts < work->control->options.starts_max)
        return;
    weft_work_set_phase(work, item, WEFT_NODE_FAILED, why, error->message);
    item->stopped = FALSE;
}

void
weft_work_let_go_on(WeftWork *work, WeftNodeWork *item)
{
    if (weft_hosts_inventory(work->control->hosts, item->node->host, NULL)) /* its first word wakes the cluster */
        weft_work_go_on(work, item, went_on);
}

/* --- what is told meanwhile --- */

void
weft_work_tell_moving(WeftWork *work, char **ret_text)
{
    for (guint i = 0; i < work->nodes->len && !*ret_text; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        if (!item->node->target)
            continue;
        g_autofree char *label = weft_node_label(item->node);
        if (!item->moving) {
            *ret_text = g_strdup_printf("%s is about to move to another host", label);
            continue;
        }
        guint64 memory = MAX(weft_node_memory(item->node), 1), sent = weft_job_brought(item->moving);
        *ret_text = g_strdup_printf("%s is moving to another host by %s: %u %%", label,
                                    weft_copy_words[item->moving->move.copy], (guint)MIN(sent * 100 / memory, 100));
        weft_work_wake_at(work, g_get_monotonic_time() + TELL_AGAIN);
    }
}
