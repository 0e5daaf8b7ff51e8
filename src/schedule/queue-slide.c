/* Promises that move up. They stay where they are: to look for other places each time that something ends early would cost most
 * of all, and when it starts it is placed anew anyway. */
#include "queue-private.h"

typedef void (*Change)(WeftFleet *fleet, const WeftSeat *seats, guint n, const char *cluster);

static void
change_marked(WeftQueue *queue, const WeftSeat *seats, guint n, const char *cluster, Change change)
{
    for (guint i = 0; i < n; i++)
        if (weft_queue_has_mark(queue, seats[i].host))
            change(queue->fleet, &seats[i], 1, cluster);
}

/* Is all free then that its seats have, and not only their cores? */
static gboolean
has_room(WeftQueue *queue, const WeftWaiter *waiter, gint64 start)
{
    const WeftPlacement *placement = &waiter->pledge.placement;
    guint mark = weft_fleet_begin(queue->fleet);
    weft_queue_mark(queue, placement->seats, placement->n);
    for (guint i = 0; start > queue->now && i < queue->ends->len; i++) {
        const WeftRunner *runner = g_array_index(queue->ends, WeftEnd, i).runner;
        if (weft_runner_end(queue, runner) <= start)
            change_marked(queue, runner->seats, runner->n, runner->cluster, weft_fleet_give_seats);
    }
    weft_queue_list_honoured(queue, waiter, start, weft_waiter_end(waiter, start), FALSE);
    for (guint i = 0; i < queue->honoured->len; i++) {
        const WeftWaiter *other = queue->honoured->pdata[i];
        change_marked(queue, (const WeftSeat *)other->pledge.seats->data, other->pledge.seats->len,
                      other->ask.request.cluster->id, weft_fleet_take_seats);
    }
    gboolean fits = weft_fleet_has_room(queue->fleet, placement->seats, placement->n);
    weft_fleet_rollback(queue->fleet, mark);
    return fits;
}

/* When the last of the holds has ended that do until then, of those among the marked cores. */
static gint64
last_end(const WeftQueue *queue, gint64 until)
{
    gint64 last = 0;
    for (guint i = queue->ends->len; i-- > 0;) {
        const WeftRunner *runner = g_array_index(queue->ends, WeftEnd, i).runner;
        gint64 end = weft_runner_end(queue, runner);
        if (runner->end <= until && end > last && weft_cells_meets(&queue->cells, runner->spots))
            last = end;
    }
    return last;
}

/* … and of what is promised to others, or booked. */
static gint64
last_use(WeftQueue *queue, const WeftWaiter *waiter)
{
    gint64 until = waiter->pledge.start, last = last_end(queue, until);
    for (guint i = 0; i < queue->promised->len && last < until; i++) {
        const WeftWaiter *other = queue->promised->pdata[i];
        if (other != waiter && other->pledge.start < until && other->pledge.end > last &&
            weft_cells_meets(&queue->cells, other->pledge.spots))
            last = other->pledge.end;
    }
    for (guint i = 0; i < queue->bookings->len && last < until; i++) {
        const WeftBooked *booked = &g_array_index(queue->bookings, WeftBooked, i);
        if (weft_booked_bars(booked, waiter, last, until))
            last = booked->end;
    }
    return MIN(last, until);
}

gint64
weft_queue_slide(WeftQueue *queue, const WeftWaiter *waiter)
{
    weft_cells_mark(&queue->cells, waiter->pledge.spots);
    gint64 first = MAX(last_use(queue, waiter), queue->now);
    return first < waiter->pledge.start && has_room(queue, waiter, first) ? first : waiter->pledge.start;
}

/* Placement may find no room for what was promised: of what several are to have one after the other it counts all but the cores
 * as if they had it at once. */
gboolean
weft_queue_stands(WeftQueue *queue, const WeftWaiter *waiter)
{
    const WeftPlacement *placement = &waiter->pledge.placement;
    weft_cells_begin(&queue->cells, waiter->node_cores);
    weft_queue_take_honoured(queue, waiter, queue->now, weft_waiter_end(waiter, queue->now), FALSE);
    return weft_cells_has(&queue->cells, waiter->pledge.spots) &&
           weft_fleet_has_room(queue->fleet, placement->seats, placement->n);
}
