#include "turns.h"

#include "clock.h"
#include "trials.h"
#include "wakeup.h"
#include "watchdog.h"
#include "work.h"

#define SHARE_OF_TIME 2                 /* one part in so many of a processor's time is the queue's */
#define CARRY_SLICE (5 * 1000)          /* microseconds for which decisions are carried out at a time */
#define REVIEW_SLICE (5 * 1000)         /* … and those in doubt are reviewed */
#define PAUSE_MIN (10 * 1000)           /* microseconds */
#define PAUSE_MAX (60 * G_USEC_PER_SEC) /* the clock on the wall may be set meanwhile */

/* --- those that wait --- */

void
weft_waiter_move(WeftWaiter *waiter, GQueue *list)
{
    if (waiter->list)
        g_queue_unlink(waiter->list, &waiter->link);
    waiter->list = list;
    if (list)
        g_queue_push_tail_link(list, &waiter->link);
}

void
weft_waiter_doubt(WeftTurns *turns, WeftWaiter *waiter)
{
    if (waiter->doubted)
        return;
    waiter->doubted = &turns->doubtful;
    g_queue_push_tail_link(waiter->doubted, &waiter->doubt);
    weft_wakeup_ask(turns->control->pump);
}

static void
waiter_trust(WeftWaiter *waiter)
{
    if (waiter->doubted)
        g_queue_unlink(waiter->doubted, &waiter->doubt);
    waiter->doubted = NULL;
}

static void
waiter_free(gpointer data)
{
    WeftWaiter *waiter = data;
    weft_waiter_move(waiter, NULL);
    waiter_trust(waiter);
    g_clear_pointer(&waiter->avoid, g_hash_table_unref);
    g_free(waiter->refusal);
    g_free(waiter->refused);
    g_free(waiter);
}

static WeftWaiter *
waiter_new(WeftTurns *turns, WeftWork *work)
{
    WeftWaiter *waiter = g_new0(WeftWaiter, 1);
    waiter->work = work;
    waiter->link.data = waiter->doubt.data = waiter;
    waiter->shuns = TRUE;
    g_hash_table_insert(turns->by_key, work->key, waiter);
    return waiter;
}

/* Nodes that stay: it has begun already, and stays where it is. */
static gboolean
grows(const WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++)
        if (((const WeftNodeWork *)work->nodes->pdata[i])->node->phase != WEFT_NODE_STOPPING)
            return TRUE;
    return FALSE;
}

WeftPlaceRequest
weft_waiter_request(const WeftWaiter *waiter)
{
    const WeftWork *work = waiter->work;
    const WeftClusterStatus *status = work->status;
    return (WeftPlaceRequest){ .cluster = work->cluster,
                               .fabric = status ? status->fabric : NULL,
                               .counts = waiter->counts,
                               .avoid = g_hash_table_size(waiter->avoid) ? waiter->avoid : NULL,
                               .sl = status && grows(work) ? status->sl : 0,
                               .rule = &work->control->options.path_rule,
                               .like = waiter->likes ? &waiter->like : NULL };
}

gint64
weft_waiter_since(const WeftWaiter *waiter)
{
    const WeftCluster *cluster = waiter->work->cluster;
    return grows(waiter->work) && cluster->scaled ? cluster->scaled : cluster->created;
}

/* Of what is placed, microseconds; 0: without end. */
static gint64
walltime_of(const WeftWork *work)
{
    gint64 ends = work->status ? work->status->ends : 0;
    if (ends)
        return MAX(ends - weft_clock_now(), G_USEC_PER_SEC);
    return (gint64)work->cluster->walltime * G_USEC_PER_SEC;
}

/* Hosts that it cannot use. */
static GHashTable *
list_avoided(WeftWaiter *waiter)
{
    GHashTable *hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    waiter_trust(waiter);
    weft_control_add_barred(waiter->work->control, waiter->work->cluster, hosts);
    waiter->shuns = waiter->shuns && weft_work_add_shunned(waiter->work, hosts);
    return hosts;
}

gboolean
weft_turns_same_hosts(GHashTable *a, GHashTable *b)
{
    GHashTableIter iter;
    gpointer name;
    if (g_hash_table_size(a) != g_hash_table_size(b))
        return FALSE;
    g_hash_table_iter_init(&iter, a);
    while (g_hash_table_iter_next(&iter, &name, NULL))
        if (!g_hash_table_contains(b, name))
            return FALSE;
    return TRUE;
}

/* As a new one, which is looked at whatever was found of it before; where it stands follows from what it asks for. */
static void
put(WeftTurns *turns, WeftWaiter *waiter)
{
    const WeftWork *work = waiter->work;
    const WeftNode *like = weft_work_like(work);
    waiter->likes = like != NULL;
    waiter->like = like ? (WeftNode){ .path = like->path, .shm = like->shm } : (WeftNode){ 0 };
    WeftAsk ask = { .key = work->key,
                    .request = weft_waiter_request(waiter),
                    .since = weft_waiter_since(waiter),
                    .priority = work->cluster->priority,
                    .walltime = walltime_of(work),
                    .preemptible = work->cluster->preemptible };
    waiter->serial = ++turns->serial;
    waiter->wait.why = WEFT_WAIT_NEW;
    weft_queue_worker_put(turns->worker, &ask, waiter->serial);
    weft_waiter_move(waiter, &turns->fresh);
    weft_turns_wake(turns);
}

void
weft_turns_ask(WeftTurns *turns, WeftWork *work, const guint *counts)
{
    WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, work->key);
    if (waiter && memcmp(waiter->counts, counts, sizeof waiter->counts) == 0)
        return;
    if (!waiter)
        waiter = waiter_new(turns, work);
    g_clear_pointer(&waiter->avoid, g_hash_table_unref);
    waiter->avoid = list_avoided(waiter);
    memcpy(waiter->counts, counts, sizeof waiter->counts);
    put(turns, waiter);
}

void
weft_turns_withdraw(WeftTurns *turns, const WeftWork *work)
{
    if (!g_hash_table_contains(turns->by_key, work->key))
        return;
    weft_queue_worker_tell(turns->worker, weft_queue_withdraw, work->key);
    g_hash_table_remove(turns->by_key, work->key);
    weft_turns_wake(turns);
}

gboolean
weft_turns_is_fresh(const WeftTurns *turns, const WeftWork *work)
{
    const WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, work->key);
    return waiter && waiter->told == WEFT_WAIT_NEW;
}

void
weft_waiter_review(WeftTurns *turns, WeftWaiter *waiter)
{
    g_autoptr(GHashTable) avoid = list_avoided(waiter);
    if (weft_turns_same_hosts(avoid, waiter->avoid))
        return;
    g_hash_table_unref(waiter->avoid);
    waiter->avoid = g_steal_pointer(&avoid);
    put(turns, waiter);
}

/* However many there are, they are reviewed a few at a time; the queue may be gone through meanwhile. */
static void
review_some(WeftTurns *turns)
{
    gint64 end = weft_clock_thread() + REVIEW_SLICE;
    const GList *link;
    while ((link = turns->doubtful.head) && weft_clock_thread() < end)
        weft_waiter_review(turns, link->data);
    if (link)
        weft_wakeup_ask(turns->control->pump);
}

/* --- what the queue decides --- */

WeftWaiter *
weft_turns_find(const WeftTurns *turns, const WeftQueueAsk *ask)
{
    WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, ask->key);
    return waiter && waiter->serial == ask->serial ? waiter : NULL;
}

/* What it was given has been taken since, or its hosts have gone: it is as if it had been placed, and lost its hosts again.
 * Only this one is looked at anew, in its old place. */
static gboolean
holds(WeftTurns *turns, const WeftDecision *decision)
{
    const WeftPlacement *placement = &decision->placement;
    if (weft_fleet_accepts(turns->control->fleet, turns->answer->fleet, placement->seats, placement->n,
                           decision->ask->ask.request.cluster->id))
        return TRUE;
    g_debug("cluster %s: the places that were found for it are taken by now, others are looked for", decision->ask->key);
    return FALSE;
}

/* Where it is in doubt the decision may be void: others that it must be apart from have moved since. */
static void
clear_doubt(WeftTurns *turns, const char *key)
{
    WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, key);
    if (waiter && waiter->doubted)
        weft_waiter_review(turns, waiter);
}

static void
carry_start(WeftTurns *turns, WeftDecision *decision)
{
    g_autoptr(GError) error = NULL;
    WeftWaiter *waiter = weft_turns_find(turns, decision->ask);
    WeftWork *work = waiter ? waiter->work : NULL;
    if (waiter && holds(turns, decision) && weft_work_grant(work, decision, &error)) {
        g_hash_table_remove(turns->by_key, work->key);
        turns->started++;
        weft_turns_hold(turns, work);
        return;
    }
    weft_queue_worker_tell(turns->worker, weft_queue_take_back, decision->ask->key);
    weft_turns_wake(turns);
    if (!waiter)
        return;
    put(turns, waiter);
    if (!error)
        return;
    weft_queue_worker_tell(turns->worker, weft_queue_refuse, work->key);
    g_free(waiter->refused);
    waiter->refused = g_strdup(error->message);
}

static void
carry_preemption(WeftTurns *turns, const WeftDecision *decision)
{
    gboolean wanted = weft_turns_find(turns, decision->ask) != NULL;
    if (!wanted || !weft_turns_can_stop(turns, decision->victim)) {
        weft_queue_worker_tell(turns->worker, weft_queue_spare, decision->victim);
        if (!wanted)
            weft_turns_wake(turns);
        return;
    }
    turns->preempted++;
    weft_control_preempt(turns->control, decision->victim,
                         "it gave way to a cluster that goes before it, and waits for room again");
}

/* For a while; TRUE: all of it is done. */
static gboolean
carry_out(WeftTurns *turns)
{
    const GPtrArray *decisions = turns->answer->decisions;
    gint64 end = weft_clock_thread() + CARRY_SLICE;
    while (turns->carried < decisions->len && weft_clock_thread() < end) {
        WeftDecision *decision = decisions->pdata[turns->carried++];
        weft_watchdog_mark("a decision of the queue about", decision->ask->key);
        clear_doubt(turns, decision->ask->key);
        if (decision->kind == WEFT_DECIDE_START)
            carry_start(turns, decision);
        else
            carry_preemption(turns, decision);
    }
    return turns->carried == decisions->len;
}

/* --- when it is gone through --- */

static gboolean
rang(gpointer data)
{
    WeftTurns *turns = data;
    turns->timer = 0;
    weft_turns_wake(turns);
    return G_SOURCE_REMOVE;
}

static void
look_again_in(WeftTurns *turns, gint64 pause)
{
    g_clear_handle_id(&turns->timer, g_source_remove);
    turns->timer = g_timeout_add((guint)(CLAMP(pause, PAUSE_MIN, PAUSE_MAX) / 1000), rang, turns);
}

gboolean
weft_turns_is_awaited(const WeftTurns *turns)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, turns->by_key);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftWaiter *waiter = value;
        if (!waiter->work->cluster->capture && waiter->wait.why != WEFT_WAIT_NEW)
            return TRUE;
    }
    return FALSE;
}

void
weft_turns_kind_known(WeftTurns *turns)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, turns->by_key);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftCluster *cluster = ((WeftWaiter *)value)->work->cluster;
        if (cluster->capture || cluster->clone_of || cluster->checkpoint || cluster->preemptible)
            weft_waiter_doubt(turns, value);
    }
}

void
weft_turns_wake(WeftTurns *turns)
{
    turns->changed = TRUE;
    weft_wakeup_ask(turns->control->pump);
}

void
weft_turns_doubt(WeftTurns *turns)
{
    weft_queue_worker_doubt(turns->worker);
    turns->sweep_all = TRUE;
    turns->doubted = g_get_monotonic_time();
    weft_turns_wake(turns);
}

/* How things stand now; those that asked for something else meanwhile are new. */
static void
note_waits(WeftTurns *turns, const WeftErrand *errand)
{
    for (guint i = 0; i < errand->lines->len; i++) {
        const WeftQueueLine *line = errand->lines->pdata[i];
        WeftWaiter *waiter = weft_turns_find(turns, line->ask);
        if (waiter)
            waiter->wait = line->wait;
    }
}

static void
answered(WeftErrand *errand, gpointer data)
{
    WeftTurns *turns = data;
    if (turns->control->closing) {
        weft_errand_free(errand);
        return;
    }
    turns->answer = errand;
    turns->carried = 0;
    turns->runs += errand->run;
    turns->spent += errand->took;
    turns->not_before = g_get_monotonic_time() + errand->took * (SHARE_OF_TIME - 1);
    if (errand->next != WEFT_QUEUE_NEVER)
        look_again_in(turns, errand->next - weft_clock_now());
    note_waits(turns, errand);
    weft_wakeup_ask(turns->control->pump);
}

/* All that was decided has been carried out, and can be told. */
static void
finish(WeftTurns *turns)
{
    weft_errand_free(turns->last);
    turns->last = g_steal_pointer(&turns->answer);
    weft_watchdog_mark("words for those that wait", NULL);
    weft_turns_tell(turns, turns->last);
    g_ptr_array_set_size(turns->last->decisions, 0);
    g_ptr_array_set_size(turns->last->looks, 0);
    weft_watchdog_mark("the order of hosts", NULL);
    weft_fleet_prepare(turns->control->fleet);
    weft_watchdog_mark("dry runs that waited", NULL);
    weft_trials_go_on(turns->control->trials);
}

static void
begin_errand(WeftTurns *turns, gboolean run)
{
    if (run) {
        turns->changed = FALSE;
        for (GList *link; (link = g_queue_peek_head_link(&turns->fresh));)
            weft_waiter_move(link->data, &turns->untold);
    }
    turns->wanted = FALSE;
    weft_queue_worker_begin(turns->worker, weft_clock_now(), run, weft_turns_list_looks(turns));
}

void
weft_turns_run(WeftTurns *turns)
{
    if (turns->control->closing)
        return;
    if (turns->doubtful.head) {
        weft_watchdog_mark("a review of those that wait", NULL);
        review_some(turns);
        weft_watchdog_mark("the queue", NULL);
    }
    if (turns->answer && !carry_out(turns)) {
        weft_wakeup_ask(turns->control->pump);
        return;
    }
    if (turns->answer)
        finish(turns);
    if (weft_queue_worker_is_busy(turns->worker))
        return;
    gint64 pause = turns->not_before - g_get_monotonic_time();
    gboolean due = turns->changed && turns->began;
    if (due && pause > 0)
        look_again_in(turns, pause);
    if ((due && pause <= 0) || turns->wanted)
        begin_errand(turns, due && pause <= 0);
}

/* --- for dry runs --- */

guint64
weft_turns_await_moment(WeftTurns *turns)
{
    if (turns->last && !turns->answer && weft_queue_worker_is_current(turns->worker)) {
        weft_fleet_snapshot_unref(turns->last->fleet); /* nothing that the queue knows of has changed, but hosts may have */
        turns->last->fleet = weft_fleet_snapshot(turns->control->fleet);
        return turns->last->number;
    }
    turns->wanted = TRUE;
    weft_wakeup_ask(turns->control->pump);
    return weft_queue_worker_next(turns->worker);
}

const WeftErrand *
weft_turns_moment(const WeftTurns *turns)
{
    return turns->last;
}

/* --- the start --- */

/* Whoever waited longest before the restart must have asked, and who may be where must be known, before anybody gets places:
 * hosts that have not answered yet would look like none, and others would be sent away for it. */
void
weft_turns_begin(WeftTurns *turns)
{
    gboolean known = turns->late || (weft_past_is_known(turns) && weft_hosts_are_heard(turns->control->hosts));
    if (turns->began || turns->unread || !known)
        return;
    turns->began = TRUE;
    g_clear_handle_id(&turns->grace, g_source_remove);
    weft_turns_wake(turns);
}

void
weft_turns_read(WeftTurns *turns)
{
    if (turns->unread && --turns->unread == 0)
        weft_turns_begin(turns);
}

static gboolean
grace_is_over(gpointer data)
{
    WeftTurns *turns = data;
    turns->grace = 0;
    turns->late = TRUE;
    weft_turns_begin(turns);
    return G_SOURCE_REMOVE;
}

gboolean
weft_turns_load(WeftTurns *turns, guint clusters, GError **error)
{
    turns->unread = clusters;
    turns->grace = g_timeout_add((guint)(turns->control->options.host_grace / 1000), grace_is_over, turns);
    if (!weft_past_load(turns, error) || !weft_bookings_load(turns, error))
        return FALSE;
    weft_turns_begin(turns);
    return TRUE;
}

WeftTurns *
weft_turns_new(WeftControl *control)
{
    WeftTurns *turns = g_new0(WeftTurns, 1);
    turns->control = control;
    turns->worker = weft_queue_worker_new(control->fleet, &control->options.queue, answered, turns);
    turns->by_key = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, waiter_free);
    turns->aparts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref);
    turns->where = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_hash_table_unref);
    turns->named = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_hash_table_unref);
    return turns;
}

void
weft_turns_free(WeftTurns *turns)
{
    if (!turns)
        return;
    g_clear_handle_id(&turns->timer, g_source_remove);
    g_clear_handle_id(&turns->grace, g_source_remove);
    g_clear_handle_id(&turns->teller, g_source_remove);
    weft_past_free(turns->past);
    weft_bookings_free(turns->bookings);
    g_hash_table_unref(turns->by_key);
    g_hash_table_unref(turns->aparts);
    g_hash_table_unref(turns->named);
    g_hash_table_unref(turns->where);
    weft_queue_worker_free(turns->worker);
    weft_errand_free(turns->answer);
    weft_errand_free(turns->last);
    g_free(turns);
}
