/* Promises: who has one, and who has to heed it. */
#include "queue-private.h"

/* --- marks --- */

void
weft_queue_mark(WeftQueue *queue, const WeftSeat *seats, guint n)
{
    queue->marks++;
    for (guint i = 0; i < n; i++) {
        if (seats[i].host >= queue->hosts->len)
            g_array_set_size(queue->hosts, seats[i].host + 1);
        g_array_index(queue->hosts, guint32, seats[i].host) = queue->marks;
    }
}

gboolean
weft_queue_has_mark(const WeftQueue *queue, guint host)
{
    return host < queue->hosts->len && g_array_index(queue->hosts, guint32, host) == queue->marks;
}

gboolean
weft_queue_is_marked(const WeftQueue *queue, const GArray *spots)
{
    for (guint i = 0; i < spots->len; i++)
        if (weft_queue_has_mark(queue, g_array_index(spots, WeftSpot, i).host))
            return TRUE;
    return FALSE;
}

/* --- promises --- */

void
weft_queue_unpromise(WeftQueue *queue, WeftWaiter *waiter)
{
    if (!waiter->pledge.made)
        return;
    if (queue->ops)
        weft_steps_add(queue->steps, waiter->pledge.start, waiter->pledge.end, (gint64)waiter->cores);
    waiter->pledge.made = 0;
    waiter->wait.when = 0;
    g_ptr_array_remove_fast(queue->promised, waiter);
    queue->version++;
    g_ptr_array_set_size(queue->misses, 0);
    g_array_append_val(queue->freed, ((WeftFreed){ waiter->pledge.start, waiter->cores, waiter->pledge.seats->len }));
}

void
weft_queue_promise(WeftQueue *queue, WeftWaiter *waiter, gint64 start, const WeftPlacement *placement)
{
    weft_queue_unpromise(queue, waiter);
    WeftPledge *pledge = &waiter->pledge;
    pledge->start = start;
    pledge->end = weft_waiter_end(waiter, start);
    pledge->made = ++queue->stamp;
    if (placement) {
        g_array_unref(pledge->seats);
        g_array_unref(pledge->spots);
        pledge->seats = g_array_sized_new(FALSE, FALSE, sizeof(WeftSeat), placement->n);
        pledge->spots = g_array_new(FALSE, FALSE, sizeof(WeftSpot));
        g_array_append_vals(pledge->seats, placement->seats, placement->n);
        weft_spots_set(pledge->spots, placement->seats, placement->n);
        pledge->placement = *placement;
        pledge->placement.seats = (WeftSeat *)pledge->seats->data;
    }
    waiter->wait.when = start < WEFT_FAR ? start : 0;
    g_ptr_array_add(queue->promised, waiter);
    queue->version++;
    weft_steps_add(queue->steps, pledge->start, pledge->end, -(gint64)waiter->cores);
}

/* Who came later, and yet is before it, goes first. Nobody was stopped for nothing: least of all to take the same room again.
 */
gboolean
weft_waiter_yields(const WeftWaiter *other, const WeftWaiter *waiter)
{
    return other->pledge.made < waiter->ahead && other->wait.why != WEFT_WAIT_VICTIMS &&
           weft_waiter_compare(&waiter, &other) < 0;
}

static gboolean
overlaps(const WeftWaiter *other, gint64 start, gint64 end)
{
    return other->pledge.start < end && other->pledge.end > start;
}

gboolean
weft_booked_bars(const WeftBooked *booked, const WeftWaiter *waiter, gint64 start, gint64 end)
{
    return booked->start < end && booked->end > start && g_strcmp0(booked->tenant, waiter->tenant->name) != 0;
}

void
weft_queue_list_honoured(WeftQueue *queue, const WeftWaiter *waiter, gint64 start, gint64 end, gboolean yield)
{
    g_ptr_array_set_size(queue->honoured, 0);
    for (guint i = 0; i < queue->promised->len; i++) {
        WeftWaiter *other = queue->promised->pdata[i];
        if (other != waiter && overlaps(other, start, end) && !(yield && weft_waiter_yields(other, waiter)))
            g_ptr_array_add(queue->honoured, other);
    }
}

void
weft_queue_close_booked(const WeftQueue *queue, const WeftWaiter *waiter, gint64 start, gint64 end)
{
    for (guint i = 0; i < queue->bookings->len; i++) {
        const WeftBooked *booked = &g_array_index(queue->bookings, WeftBooked, i);
        if (weft_booked_bars(booked, waiter, start, end))
            for (char **host = booked->hosts; *host; host++)
                weft_fleet_set_open(queue->fleet, *host, FALSE);
    }
}

void
weft_queue_take_promises(WeftQueue *queue, WeftWaiter *waiter, gint64 start, const WeftPlacement *placement)
{
    gint64 end = weft_waiter_end(waiter, start);
    weft_queue_mark(queue, placement->seats, placement->n);
    for (guint i = queue->promised->len; i-- > 0;) {
        WeftWaiter *other = queue->promised->pdata[i];
        if (other == waiter || !overlaps(other, start, end) || !weft_waiter_yields(other, waiter) ||
            !weft_queue_is_marked(queue, other->pledge.spots))
            continue;
        other->patience = end < WEFT_FAR ? other->pledge.start + end - start : 0;
        weft_queue_unpromise(queue, other);
        other->ahead = ++queue->stamp;
        weft_queue_look_at(queue, other);
    }
}
