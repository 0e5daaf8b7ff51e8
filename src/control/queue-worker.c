#include "queue-worker.h"

#include "clock.h"
#include "workers.h"

#define LOOK_SLICE (20 * 1000) /* microseconds that an errand spends on words; at least one is looked at */

/* What the main thread has to say to the queue. */
typedef struct Note Note;
struct Note {
    void (*take_in)(WeftQueueWorker *worker, Note *note); /* on the worker */
    char *key;                                            /* … or the tenant */
    void (*what)(WeftQueue *queue, const char *key);
    WeftQueueAsk *ask;
    WeftHold hold;
    GArray *bookings; /* WeftBooking */
    double number;
    gint64 when;
};

struct WeftQueueWorker {
    WeftFleet *fleet; /* the live one */
    WeftWorkers *thread;
    WeftErrandDone done;
    gpointer data;
    GPtrArray *notes; /* that no errand has taken along */
    guint64 errands;
    gboolean busy;
    GCancellable *closing;

    /* The worker's, while it is busy. */
    WeftQueue *queue;
    WeftFleet *follower;
    GHashTable *asks;   /* key to WeftQueueAsk: what the queue's asks point to */
    WeftErrand *errand; /* the one under way */
    GPtrArray *taken;   /* Note: what it takes in */
};

/* --- plain data --- */

static void
ask_clear(gpointer data)
{
    WeftQueueAsk *ask = data;
    WeftPlaceRequest *request = &ask->ask.request;
    weft_cluster_free((WeftCluster *)request->cluster);
    g_free((char *)request->fabric);
    g_free((guint *)request->counts);
    g_clear_pointer(&request->avoid, g_hash_table_unref);
    g_free((WeftNode *)request->like);
    g_clear_object(&request->cancellable);
    g_free(ask->key);
}

WeftQueueAsk *
weft_queue_ask_ref(WeftQueueAsk *ask)
{
    return g_atomic_rc_box_acquire(ask);
}

void
weft_queue_ask_unref(WeftQueueAsk *ask)
{
    if (ask)
        g_atomic_rc_box_release_full(ask, ask_clear);
}

/* What its nodes get is long, and does not matter here. */
static WeftCluster *
copy_wish(const WeftCluster *cluster)
{
    g_autoptr(GPtrArray) none = g_ptr_array_new_with_free_func(g_free);
    WeftCluster wish = *cluster;
    wish.user_data = NULL;
    wish.ssh_keys = none;
    return weft_cluster_copy(&wish);
}

/* Of a node that it is to be like only numbers are looked at. */
static WeftQueueAsk *
ask_new(const WeftAsk *ask, guint64 serial, GCancellable *closing)
{
    WeftQueueAsk *copy = g_atomic_rc_box_new0(WeftQueueAsk);
    WeftPlaceRequest *request = &copy->ask.request;
    copy->key = g_strdup(ask->key);
    copy->serial = serial;
    copy->ask = *ask;
    copy->ask.key = copy->key;
    request->cluster = copy_wish(ask->request.cluster);
    request->fabric = g_strdup(ask->request.fabric);
    request->counts = g_memdup2(ask->request.counts, ask->request.cluster->groups->len * sizeof *ask->request.counts);
    request->avoid = ask->request.avoid ? g_hash_table_ref(ask->request.avoid) : NULL;
    request->like = g_memdup2(ask->request.like, sizeof *ask->request.like);
    request->cancellable = g_object_ref(closing);
    return copy;
}

static void
decision_free(gpointer data)
{
    WeftDecision *decision = data;
    weft_queue_ask_unref(decision->ask);
    g_free(decision->placement.seats);
    g_clear_pointer(&decision->nodes, g_ptr_array_unref);
    g_free(decision->victim);
    g_free(decision);
}

static void
look_free(gpointer data)
{
    WeftQueueLook *look = data;
    weft_queue_ask_unref(look->ask);
    g_free(look->key);
    g_free(look->refusal);
    g_free(look);
}

static void
line_free(gpointer data)
{
    WeftQueueLine *line = data;
    weft_queue_ask_unref(line->ask);
    g_free(line);
}

void
weft_errand_free(WeftErrand *errand)
{
    if (!errand)
        return;
    g_ptr_array_unref(errand->looks);
    g_ptr_array_unref(errand->decisions);
    g_ptr_array_unref(errand->lines);
    weft_fleet_snapshot_unref(errand->fleet);
    weft_queue_snapshot_unref(errand->queue);
    g_free(errand);
}

static void
note_free(gpointer data)
{
    Note *note = data;
    weft_queue_ask_unref(note->ask);
    g_free((char *)note->hold.cluster);
    g_free((char *)note->hold.tenant);
    g_free((WeftSeat *)note->hold.seats);
    for (guint i = 0; note->bookings && i < note->bookings->len; i++) {
        WeftBooking *booking = &g_array_index(note->bookings, WeftBooking, i);
        g_free((char *)booking->name);
        g_free((char *)booking->tenant);
        g_strfreev(booking->hosts);
    }
    g_clear_pointer(&note->bookings, g_array_unref);
    g_free(note->key);
    g_free(note);
}

/* --- notes: each as it is written, and as the worker takes it in --- */

static Note *
add_note(WeftQueueWorker *worker, void (*take_in)(WeftQueueWorker *, Note *), const char *key)
{
    Note *note = g_new0(Note, 1);
    note->take_in = take_in;
    note->key = g_strdup(key);
    g_ptr_array_add(worker->notes, note);
    return note;
}

static void
take_in_put(WeftQueueWorker *worker, Note *note)
{
    WeftQueueAsk *ask = g_steal_pointer(&note->ask);
    weft_queue_withdraw(worker->queue, ask->key);
    weft_queue_put(worker->queue, &ask->ask);
    g_hash_table_replace(worker->asks, ask->key, ask);
}

void
weft_queue_worker_put(WeftQueueWorker *worker, const WeftAsk *ask, guint64 serial)
{
    add_note(worker, take_in_put, NULL)->ask = ask_new(ask, serial, worker->closing);
}

static void
take_in_hold(WeftQueueWorker *worker, Note *note)
{
    weft_queue_hold(worker->queue, &note->hold);
}

void
weft_queue_worker_hold(WeftQueueWorker *worker, const WeftHold *hold)
{
    Note *note = add_note(worker, take_in_hold, hold->key);
    note->hold = *hold;
    note->hold.key = note->key;
    note->hold.cluster = g_strdup(hold->cluster);
    note->hold.tenant = g_strdup(hold->tenant);
    note->hold.seats = g_memdup2(hold->seats, hold->n * sizeof *hold->seats);
}

static void
take_in_key(WeftQueueWorker *worker, Note *note)
{
    note->what(worker->queue, note->key);
    if (note->what == weft_queue_withdraw)
        g_hash_table_remove(worker->asks, note->key);
}

void
weft_queue_worker_tell(WeftQueueWorker *worker, void (*what)(WeftQueue *queue, const char *key), const char *key)
{
    add_note(worker, take_in_key, key)->what = what;
}

static void
take_in_book(WeftQueueWorker *worker, Note *note)
{
    weft_queue_book(worker->queue, (const WeftBooking *)(gpointer)note->bookings->data, note->bookings->len);
}

void
weft_queue_worker_book(WeftQueueWorker *worker, const WeftBooking *bookings, guint n)
{
    Note *note = add_note(worker, take_in_book, NULL);
    note->bookings = g_array_new(FALSE, FALSE, sizeof(WeftBooking));
    for (guint i = 0; i < n; i++) {
        WeftBooking copy = bookings[i];
        copy.name = g_strdup(copy.name);
        copy.tenant = g_strdup(copy.tenant);
        copy.hosts = g_strdupv(copy.hosts);
        g_array_append_val(note->bookings, copy);
    }
}

static void
take_in_doubt(WeftQueueWorker *worker, Note *note)
{
    weft_queue_doubt(worker->queue);
}

void
weft_queue_worker_doubt(WeftQueueWorker *worker)
{
    add_note(worker, take_in_doubt, NULL);
}

static void
take_in_share(WeftQueueWorker *worker, Note *note)
{
    weft_queue_set_share(worker->queue, note->key, note->number);
}

void
weft_queue_worker_set_share(WeftQueueWorker *worker, const char *tenant, double weight)
{
    add_note(worker, take_in_share, tenant)->number = weight;
}

static void
take_in_charge(WeftQueueWorker *worker, Note *note)
{
    weft_queue_charge(worker->queue, note->key, note->number, note->when);
}

void
weft_queue_worker_charge(WeftQueueWorker *worker, const char *tenant, double core_seconds, gint64 when)
{
    Note *note = add_note(worker, take_in_charge, tenant);
    note->number = core_seconds;
    note->when = when;
}

/* --- on the worker --- */

static WeftDecision *
add_decision(WeftQueueWorker *worker, WeftDecisionKind kind, const char *key)
{
    WeftDecision *decision = g_new0(WeftDecision, 1);
    decision->kind = kind;
    decision->ask = weft_queue_ask_ref(g_hash_table_lookup(worker->asks, key));
    g_ptr_array_add(worker->errand->decisions, decision);
    return decision;
}

static gboolean
start(const WeftAsk *ask, const WeftPlacement *placement, gpointer data)
{
    WeftQueueWorker *worker = data;
    WeftDecision *decision = add_decision(worker, WEFT_DECIDE_START, ask->key);
    decision->placement = *placement;
    decision->placement.seats = g_memdup2(placement->seats, placement->n * sizeof *placement->seats);
    decision->when = weft_queue_assume(worker->queue, ask, &decision->placement);
    decision->nodes = weft_placement_nodes(worker->follower, &ask->request, &decision->placement);
    return TRUE;
}

static void
preempt(const char *victim, const WeftAsk *ask, gpointer data)
{
    add_decision(data, WEFT_DECIDE_PREEMPT, ask->key)->victim = g_strdup(victim);
}

static const WeftQueueOps ops = { start, preempt };

static void
look_at(WeftQueueWorker *worker, WeftQueueLook *look)
{
    g_autoptr(GError) error = NULL;
    const WeftWait *wait = weft_queue_wait(worker->queue, look->key, TRUE);
    if (!wait)
        return;
    look->ask = weft_queue_ask_ref(g_hash_table_lookup(worker->asks, look->key));
    look->wait = *wait;
    if (!weft_wait_is_about_room(wait->why) || (wait->why == look->told && !look->stale))
        return;
    weft_place_explain_refusal(worker->follower, &look->ask->ask.request, &error);
    look->explained = TRUE;
    look->refusal = error ? g_strdup(error->message) : NULL;
}

static void
look_at_some(WeftQueueWorker *worker)
{
    const WeftErrand *errand = worker->errand;
    gint64 end = weft_clock_thread() + LOOK_SLICE;
    for (guint i = 0; i < errand->looks->len && (i == 0 || weft_clock_thread() < end); i++)
        look_at(worker, errand->looks->pdata[i]);
}

static void
list_lines(WeftQueueWorker *worker)
{
    g_autoptr(GPtrArray) order = weft_queue_order(worker->queue);
    for (guint i = 0; i < order->len; i++) {
        WeftQueueLine line = { weft_queue_ask_ref(g_hash_table_lookup(worker->asks, order->pdata[i])),
                               *weft_queue_wait(worker->queue, order->pdata[i], FALSE) };
        g_ptr_array_add(worker->errand->lines, g_memdup2(&line, sizeof line));
    }
}

/* What was started does not wait any more; the queue itself points to it no longer than it is gone through. TRUE: something
 * was. */
static gboolean
forget_started(WeftQueueWorker *worker)
{
    const GPtrArray *decisions = worker->errand->decisions;
    gboolean any = FALSE;
    for (guint i = 0; i < decisions->len; i++) {
        const WeftDecision *decision = decisions->pdata[i];
        if (decision->kind == WEFT_DECIDE_START)
            any |= g_hash_table_remove(worker->asks, decision->ask->key);
    }
    return any;
}

/* With what is promised now, where what runs is as in the fleet. */
static void
renew_snapshot(WeftQueueWorker *worker)
{
    weft_queue_snapshot_unref(worker->errand->queue);
    worker->errand->queue = weft_queue_snapshot(worker->queue);
}

/* What is assumed to start is taken in the follower only for as long as this goes on: it follows the live fleet, where the main
 * thread may decide otherwise. */
static void
compute(gpointer data)
{
    WeftQueueWorker *worker = data;
    WeftErrand *errand = worker->errand;
    gint64 begin = weft_clock_thread();
    weft_fleet_follow(worker->follower, errand->fleet);
    for (guint i = 0; i < worker->taken->len; i++) {
        Note *note = worker->taken->pdata[i];
        note->take_in(worker, note);
    }
    errand->queue = weft_queue_snapshot(worker->queue);
    guint mark = weft_fleet_begin(worker->follower);
    if (errand->run)
        errand->next = weft_queue_run(worker->queue, errand->now, &ops, worker);
    if (!forget_started(worker))
        renew_snapshot(worker);
    look_at_some(worker);
    list_lines(worker);
    weft_fleet_rollback(worker->follower, mark);
    errand->took = weft_clock_thread() - begin;
}

/* --- there and back --- */

static void
computed(gpointer data)
{
    WeftQueueWorker *worker = data;
    g_clear_pointer(&worker->taken, g_ptr_array_unref);
    worker->busy = FALSE;
    worker->done(g_steal_pointer(&worker->errand), worker->data);
}

static void
keep(gpointer data)
{
}

guint64
weft_queue_worker_next(const WeftQueueWorker *worker)
{
    return worker->errands + 1;
}

void
weft_queue_worker_begin(WeftQueueWorker *worker, gint64 now, gboolean run, GPtrArray *looks)
{
    g_return_if_fail(!worker->busy);
    WeftErrand *errand = worker->errand = g_new0(WeftErrand, 1);
    errand->number = ++worker->errands;
    errand->now = now;
    errand->run = run;
    errand->looks = looks;
    g_ptr_array_set_free_func(looks, look_free);
    errand->decisions = g_ptr_array_new_with_free_func(decision_free);
    errand->lines = g_ptr_array_new_with_free_func(line_free);
    errand->next = WEFT_QUEUE_NEVER;
    errand->fleet = weft_fleet_snapshot(worker->fleet);
    worker->taken = worker->notes;
    worker->notes = g_ptr_array_new_with_free_func(note_free);
    worker->busy = TRUE;
    weft_workers_push(worker->thread, &(WeftTask){ compute, computed, keep, worker });
}

gboolean
weft_queue_worker_is_busy(const WeftQueueWorker *worker)
{
    return worker->busy;
}

gboolean
weft_queue_worker_is_current(const WeftQueueWorker *worker)
{
    return !worker->busy && worker->notes->len == 0;
}

WeftQueueWorker *
weft_queue_worker_new(WeftFleet *fleet, const WeftQueueOptions *options, WeftErrandDone done, gpointer data)
{
    WeftQueueWorker *worker = g_new0(WeftQueueWorker, 1);
    worker->fleet = fleet;
    worker->thread = weft_workers_new(1, 0);
    worker->done = done;
    worker->data = data;
    worker->notes = g_ptr_array_new_with_free_func(note_free);
    worker->closing = g_cancellable_new();
    worker->follower = weft_fleet_new();
    worker->queue = weft_queue_new(worker->follower, options);
    worker->asks = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)weft_queue_ask_unref);
    return worker;
}

void
weft_queue_worker_free(WeftQueueWorker *worker)
{
    if (!worker)
        return;
    g_cancellable_cancel(worker->closing);
    weft_workers_free(worker->thread);
    weft_queue_free(worker->queue);
    weft_fleet_free(worker->follower);
    g_hash_table_unref(worker->asks);
    weft_errand_free(worker->errand);
    g_clear_pointer(&worker->taken, g_ptr_array_unref);
    g_ptr_array_unref(worker->notes);
    g_object_unref(worker->closing);
    g_free(worker);
}
