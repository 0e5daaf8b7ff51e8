#include "turns.h"

#include "clock.h"
#include "wakeup.h"
#include "work.h"

#define SHARE_OF_TIME 10                /* one part in so many of the main thread's time is the queue's */
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

static void
waiter_free(gpointer data)
{
    WeftWaiter *waiter = data;
    weft_waiter_move(waiter, NULL);
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
    waiter->link.data = waiter;
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
    weft_control_add_barred(waiter->work->control, waiter->work->cluster, hosts);
    waiter->shuns = waiter->shuns && weft_work_add_shunned(waiter->work, hosts);
    return hosts;
}

static gboolean
is_same_set(GHashTable *a, GHashTable *b)
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
    weft_queue_withdraw(turns->queue, work->key);
    weft_queue_put(turns->queue, &ask);
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
    weft_queue_withdraw(turns->queue, work->key);
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
    if (is_same_set(avoid, waiter->avoid))
        return;
    GHashTable *old = waiter->avoid;
    waiter->avoid = g_steal_pointer(&avoid);
    put(turns, waiter);
    g_hash_table_unref(old);
}

/* --- what the queue decides --- */

/* The ask that the queue goes on with points into the turn: it goes when the queue has been gone through. */
static gboolean
start(const WeftAsk *ask, const WeftPlacement *placement, gpointer data)
{
    WeftTurns *turns = data;
    g_autoptr(GError) error = NULL;
    WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, ask->key);
    WeftWork *work = waiter->work;
    if (!weft_work_grant(work, placement, &error)) {
        g_free(waiter->refused);
        waiter->refused = g_strdup(error->message);
        return FALSE;
    }
    g_hash_table_steal(turns->by_key, work->key);
    g_ptr_array_add(turns->granted, waiter);
    turns->started++;
    weft_turns_hold(turns, work);
    return TRUE;
}

static void
preempt(const char *victim, const WeftAsk *ask, gpointer data)
{
    WeftTurns *turns = data;
    turns->preempted++;
    weft_control_preempt(turns->control, victim, "it gave way to a cluster that goes before it, and waits for room again");
}

static const WeftQueueOps ops = { start, preempt };

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
        if (!waiter->work->cluster->capture && waiter->list != &turns->fresh)
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
            weft_waiter_review(turns, value);
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
    weft_queue_doubt(turns->queue);
    turns->sweep_all = TRUE;
    weft_turns_wake(turns);
}

static void
make_nodes(WeftTurns *turns)
{
    for (guint i = 0; i < turns->granted->len; i++) {
        const WeftWaiter *waiter = turns->granted->pdata[i];
        WeftPlaceRequest request = weft_waiter_request(waiter);
        weft_work_make_nodes(waiter->work, &request);
    }
    g_ptr_array_set_size(turns->granted, 0);
}

static gint64
go_through(WeftTurns *turns, gint64 now)
{
    gint64 begin = g_get_monotonic_time();
    gint64 next = weft_queue_run(turns->queue, now, &ops, turns);
    gint64 took = g_get_monotonic_time() - begin;
    make_nodes(turns);
    turns->changed = FALSE;
    turns->runs++;
    turns->spent += took;
    turns->not_before = begin + took * SHARE_OF_TIME;
    return next;
}

void
weft_turns_run(WeftTurns *turns)
{
    gint64 pause = turns->not_before - g_get_monotonic_time();
    if (!turns->changed || !turns->began || turns->control->closing)
        return;
    if (pause > 0) {
        look_again_in(turns, pause);
        return;
    }
    gint64 now = weft_clock_now(), next = go_through(turns, now);
    if (next != WEFT_QUEUE_NEVER)
        look_again_in(turns, next - now);
    for (GList *link; (link = g_queue_peek_head_link(&turns->fresh));)
        weft_waiter_move(link->data, &turns->untold);
    weft_turns_tell(turns);
    weft_fleet_prepare(turns->control->fleet);
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
    turns->queue = weft_queue_new(control->fleet, &control->options.queue);
    turns->by_key = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, waiter_free);
    turns->granted = g_ptr_array_new_with_free_func(waiter_free);
    turns->aparts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref);
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
    g_ptr_array_unref(turns->granted);
    g_hash_table_unref(turns->aparts);
    weft_queue_free(turns->queue);
    g_free(turns);
}
