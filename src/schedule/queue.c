#include "queue-private.h"

#include <string.h>

const char *const weft_wait_words[WEFT_WAITS + 1] = {
    [WEFT_WAIT_NEW] = "new",         [WEFT_WAIT_ROOM] = "room",   [WEFT_WAIT_TURN] = "turn",
    [WEFT_WAIT_VICTIMS] = "victims", [WEFT_WAIT_NEVER] = "never", [WEFT_WAIT_REFUSED] = "refused",
};

static void
sharer_free(gpointer data)
{
    WeftSharer *sharer = data;
    g_free(sharer->name);
    g_free(sharer);
}

static void
booked_clear(gpointer data)
{
    WeftBooked *booked = data;
    g_free(booked->tenant);
    g_strfreev(booked->hosts);
}

static GArray *
bookings_new(void)
{
    GArray *bookings = g_array_new(FALSE, FALSE, sizeof(WeftBooked));
    g_array_set_clear_func(bookings, booked_clear);
    return bookings;
}

WeftQueue *
weft_queue_new(WeftFleet *fleet, const WeftQueueOptions *options)
{
    WeftQueue *queue = g_new0(WeftQueue, 1);
    queue->fleet = fleet;
    queue->options = options ? *options : weft_queue_defaults;
    queue->waiters = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)weft_waiter_free);
    queue->order = g_ptr_array_new();
    queue->arrived = g_ptr_array_new();
    queue->gone = g_ptr_array_new_with_free_func((GDestroyNotify)weft_waiter_free);
    queue->promised = g_ptr_array_new();
    queue->honoured = g_ptr_array_new();
    queue->misses = g_ptr_array_new();
    queue->runners = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)weft_runner_free);
    queue->ends = g_array_new(FALSE, FALSE, sizeof(WeftEnd));
    queue->pinned = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    queue->bookings = bookings_new();
    queue->sharers = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, sharer_free);
    queue->tenants = g_ptr_array_new();
    queue->steps = g_array_new(FALSE, FALSE, sizeof(WeftStep));
    queue->trial = g_array_new(FALSE, FALSE, sizeof(WeftStep));
    queue->hosts = g_array_new(FALSE, TRUE, sizeof(guint32));
    queue->freed = g_array_new(FALSE, FALSE, sizeof(WeftFreed));
    weft_queue_doubt(queue);
    return queue;
}

void
weft_queue_free(WeftQueue *queue)
{
    if (!queue)
        return;
    GPtrArray *lists[] = { queue->order,    queue->arrived, queue->gone,   queue->promised,
                           queue->honoured, queue->misses,  queue->tenants };
    for (guint i = 0; i < G_N_ELEMENTS(lists); i++)
        g_ptr_array_unref(lists[i]);
    GArray *arrays[] = { queue->ends, queue->bookings, queue->steps, queue->trial, queue->hosts, queue->freed };
    for (guint i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_array_unref(arrays[i]);
    g_hash_table_unref(queue->waiters);
    g_hash_table_unref(queue->runners);
    g_hash_table_unref(queue->pinned);
    g_hash_table_unref(queue->sharers);
    weft_queue_snapshot_unref(queue->snapshot);
    weft_cells_clear(&queue->cells);
    g_free(queue);
}

void
weft_queue_put(WeftQueue *queue, const WeftAsk *ask)
{
    WeftWaiter *waiter = g_hash_table_lookup(queue->waiters, ask->key);
    if (waiter && weft_waiter_renew(waiter, ask))
        return;
    if (waiter)
        weft_queue_withdraw(queue, ask->key);
    waiter = weft_waiter_new(queue, ask);
    g_hash_table_insert(queue->waiters, waiter->key, waiter);
    queue->share |= waiter->tenant->active++ == 0;
    queue->least = MIN(queue->least, waiter->cores);
    weft_queue_look_at(queue, waiter);
    if (queue->ops)
        g_ptr_array_add(queue->arrived, waiter);
    else
        weft_queue_insert(queue, waiter);
}

/* What was promised to it others can have, also those for whom there was no time. */
void
weft_queue_withdraw(WeftQueue *queue, const char *key)
{
    WeftWaiter *waiter = g_hash_table_lookup(queue->waiters, key);
    if (!waiter)
        return;
    if (waiter->pledge.made) {
        queue->room = TRUE;
        for (guint i = 0; i < queue->order->len; i++)
            ((WeftWaiter *)queue->order->pdata[i])->lost = FALSE;
    }
    weft_queue_drop(queue, waiter);
}

void
weft_queue_doubt(WeftQueue *queue)
{
    queue->doubt = queue->stale = TRUE;
    /* What changed may be what it was refused for: the next run tries it, even if that is the first one since. */
    for (guint i = 0; i < queue->order->len; i++)
        ((WeftWaiter *)queue->order->pdata[i])->barred = FALSE;
}

/* --- bookings --- */

static gboolean
is_same_booking(const WeftBooked *booked, const WeftBooking *booking)
{
    return g_strcmp0(booked->tenant, booking->tenant) == 0 && booked->start == booking->start && booked->end == booking->end &&
           g_strv_equal((const char *const *)booked->hosts, (const char *const *)booking->hosts);
}

void
weft_queue_book(WeftQueue *queue, const WeftBooking *bookings, guint n)
{
    gboolean same = queue->bookings->len == n;
    for (guint i = 0; same && i < n; i++)
        same = is_same_booking(&g_array_index(queue->bookings, WeftBooked, i), &bookings[i]);
    if (same)
        return;
    g_array_unref(queue->bookings);
    queue->bookings = bookings_new();
    queue->version++;
    for (guint i = 0; i < n; i++) {
        WeftBooked booked = { .tenant = g_strdup(bookings[i].tenant),
                              .start = bookings[i].start,
                              .end = bookings[i].end,
                              .hosts = g_strdupv(bookings[i].hosts) };
        g_array_append_val(queue->bookings, booked);
    }
    queue->doubt = TRUE;
}

/* --- what is told --- */

guint
weft_queue_length(const WeftQueue *queue)
{
    return g_hash_table_size(queue->waiters);
}

/* Would it have room now, were nothing promised to others? */
static gboolean
has_room(const WeftQueue *queue, const WeftWaiter *waiter)
{
    if (queue->cells.total < waiter->cores)
        return FALSE;
    WeftPlacement placement;
    WeftPlaceRequest request = waiter->ask.request;
    request.only_room = TRUE;
    guint mark = weft_fleet_begin(queue->fleet);
    weft_queue_close_booked(queue, waiter, queue->now, weft_waiter_end(waiter, queue->now));
    gboolean fits = weft_place(queue->fleet, &request, &placement);
    weft_fleet_rollback(queue->fleet, mark);
    return fits;
}

/* Places and points change with each step of time and others: they are found out only when somebody asks. */
const WeftWait *
weft_queue_wait(const WeftQueue *queue, const char *key, gboolean look)
{
    WeftWaiter *waiter = g_hash_table_lookup(queue->waiters, key);
    if (!waiter)
        return NULL;
    WeftWait *wait = &waiter->wait;
    double hours = (double)(queue->now - waiter->ask.since) / (60.0 * WEFT_MINUTE);
    wait->place = weft_queue_index(queue, waiter) + 1;
    wait->share = waiter->tenant->points;
    wait->points = queue->options.priority * waiter->ask.priority + queue->options.age * hours + wait->share;
    if (look && !queue->ops && (wait->why == WEFT_WAIT_ROOM || wait->why == WEFT_WAIT_TURN))
        wait->why = has_room(queue, waiter) ? WEFT_WAIT_TURN : WEFT_WAIT_ROOM;
    return wait;
}

GPtrArray *
weft_queue_order(const WeftQueue *queue)
{
    GPtrArray *keys = g_ptr_array_new();
    for (guint i = 0; i < queue->order->len; i++)
        g_ptr_array_add(keys, ((WeftWaiter *)queue->order->pdata[i])->key);
    return keys;
}
