/* Copies of the queue for other threads: what runs until when, what is promised, and what is booked. Seats are shared. */
#include "queue-private.h"

struct WeftQueueSnapshot {
    gatomicrefcount refs;
    guint64 version;
    WeftQueueOptions options;
    gint64 now;
    guint n;
    WeftRunner *runners;
    GArray *ends;        /* WeftEnd, of these */
    GPtrArray *promised; /* WeftWaiter, as far as they are heeded */
    GArray *bookings;
};

/* --- life --- */

static void
promise_free(gpointer data)
{
    WeftWaiter *waiter = data;
    g_free(((WeftCluster *)waiter->ask.request.cluster)->id);
    g_free((WeftCluster *)waiter->ask.request.cluster);
    g_array_unref(waiter->pledge.seats);
    g_array_unref(waiter->pledge.spots);
    g_free(waiter);
}

static WeftWaiter *
promise_copy(const WeftWaiter *waiter)
{
    WeftCluster *cluster = g_new0(WeftCluster, 1);
    WeftWaiter *copy = g_new0(WeftWaiter, 1);
    cluster->id = g_strdup(waiter->ask.request.cluster->id);
    copy->ask.request.cluster = cluster;
    copy->cores = waiter->cores;
    copy->wait = waiter->wait;
    copy->pledge = waiter->pledge;
    g_array_ref(copy->pledge.seats);
    g_array_ref(copy->pledge.spots);
    return copy;
}

static void
copy_runners(WeftQueueSnapshot *snapshot, const GArray *ends)
{
    snapshot->n = ends->len;
    snapshot->runners = g_new0(WeftRunner, ends->len);
    snapshot->ends = g_array_copy((GArray *)ends);
    for (guint i = 0; i < ends->len; i++) {
        WeftEnd *end = &g_array_index(snapshot->ends, WeftEnd, i);
        WeftRunner *runner = &snapshot->runners[i];
        *runner = *end->runner;
        end->runner = runner;
        if (runner->cluster)
            g_ref_string_acquire(runner->cluster);
        if (runner->seats)
            g_atomic_rc_box_acquire(runner->seats);
        g_array_ref(runner->spots);
    }
}

WeftQueueSnapshot *
weft_queue_snapshot_ref(WeftQueueSnapshot *snapshot)
{
    if (snapshot)
        g_atomic_ref_count_inc(&snapshot->refs);
    return snapshot;
}

void
weft_queue_snapshot_unref(WeftQueueSnapshot *snapshot)
{
    if (!snapshot || !g_atomic_ref_count_dec(&snapshot->refs))
        return;
    for (guint i = 0; i < snapshot->n; i++) {
        WeftRunner *runner = &snapshot->runners[i];
        g_clear_pointer(&runner->cluster, g_ref_string_release);
        g_clear_pointer(&runner->seats, g_atomic_rc_box_release);
        g_array_unref(runner->spots);
    }
    g_free(snapshot->runners);
    g_array_unref(snapshot->ends);
    g_ptr_array_unref(snapshot->promised);
    g_array_unref(snapshot->bookings);
    g_free(snapshot);
}

WeftQueueSnapshot *
weft_queue_snapshot(WeftQueue *queue)
{
    WeftQueueSnapshot *snapshot = queue->snapshot;
    if (snapshot && snapshot->version == queue->version && snapshot->now == queue->now)
        return weft_queue_snapshot_ref(snapshot);
    weft_queue_snapshot_unref(snapshot);
    queue->snapshot = snapshot = g_new0(WeftQueueSnapshot, 1);
    g_atomic_ref_count_init(&snapshot->refs);
    snapshot->version = queue->version;
    snapshot->options = queue->options;
    snapshot->now = queue->now;
    copy_runners(snapshot, queue->ends);
    snapshot->promised = g_ptr_array_new_with_free_func(promise_free);
    for (guint i = 0; i < queue->promised->len; i++)
        g_ptr_array_add(snapshot->promised, promise_copy(queue->promised->pdata[i]));
    snapshot->bookings = g_array_ref(queue->bookings);
    return weft_queue_snapshot_ref(snapshot);
}

/* --- looking ahead --- */

/* Foreseeing reads these and writes none of them. */
static WeftQueue *
make_queue(const WeftQueueSnapshot *snapshot, WeftFleet *fleet)
{
    WeftQueue *queue = weft_queue_new(fleet, &snapshot->options);
    g_array_unref(queue->ends);
    g_array_unref(queue->bookings);
    g_ptr_array_unref(queue->promised);
    queue->ends = g_array_ref(snapshot->ends);
    queue->bookings = g_array_ref(snapshot->bookings);
    queue->promised = g_ptr_array_ref(snapshot->promised);
    queue->now = snapshot->now;
    return queue;
}

gboolean
weft_queue_snapshot_foresee(const WeftQueueSnapshot *snapshot, WeftFleet *fleet, const WeftAsk *ask, gint64 now,
                            WeftPlacement *ret_placement, gint64 *ret_when)
{
    g_autoptr(WeftQueue) queue = make_queue(snapshot, fleet);
    return weft_queue_foresee(queue, ask, now, ret_placement, ret_when);
}
