/* When, and where: the times at which something ends are gone through. Counting cores rules most of them out, the bits of the
 * cores nearly all that are left, and where both say yes the fleet is made what it would be, and placement is asked. */
#include "queue-private.h"

#define PATIENCE 8 /* times at which placement is tried one after the other; then ever more are passed over */

typedef struct Search {
    WeftQueue *queue;
    WeftWaiter *waiter;
    gboolean yield;  /* there are promises that yield to it */
    gboolean yields; /* it was found where they do */
    guint lack;      /* nodes that had no place, where it came nearest */
    guint given;     /* holds, by their ends, that have ended at the time that is looked at */
    guint overs;     /* … of these, so many should have before now */
    gboolean over;   /* … and have, then */
} Search;

/* --- in bits --- */

static const WeftRunner *
runner_at(const Search *search, guint i)
{
    return g_array_index(search->queue->ends, WeftEnd, i).runner;
}

static void
give_until(Search *search, gint64 time)
{
    WeftQueue *queue = search->queue;
    for (; search->given < queue->ends->len && g_array_index(queue->ends, WeftEnd, search->given).time <= time; search->given++)
        if (runner_at(search, search->given)->end <= queue->now)
            search->overs = search->given + 1;
        else
            weft_cells_give(&queue->cells, runner_at(search, search->given)->spots);
    if (time < queue->now + WEFT_OVERRUN || search->over)
        return;
    search->over = TRUE;
    for (guint i = 0; i < search->overs; i++)
        weft_cells_give(&queue->cells, runner_at(search, i)->spots);
}

void
weft_queue_take_honoured(WeftQueue *queue, const WeftWaiter *waiter, gint64 start, gint64 end, gboolean yield)
{
    WeftCells *cells = &queue->cells;
    weft_queue_list_honoured(queue, waiter, start, end, yield);
    weft_cells_look(cells);
    for (guint i = 0; i < queue->honoured->len; i++)
        weft_cells_take(cells, ((const WeftWaiter *)queue->honoured->pdata[i])->pledge.spots);
    for (guint i = 0; i < queue->bookings->len; i++) {
        const WeftBooked *booked = &g_array_index(queue->bookings, WeftBooked, i);
        if (weft_booked_bars(booked, waiter, start, end))
            for (char **host = booked->hosts; *host; host++)
                weft_cells_bar(cells, weft_fleet_number(queue->fleet, *host));
    }
}

static gboolean
has_cores(Search *search, gint64 start, gint64 end)
{
    weft_queue_take_honoured(search->queue, search->waiter, start, end, search->yields);
    gint64 lack = (gint64)search->waiter->nodes - search->queue->cells.fit_left;
    if (lack <= 0)
        return TRUE;
    search->lack = MIN(search->lack, (guint)lack);
    return FALSE;
}

/* --- in the fleet --- */

/* Gives what has ended by then, where that makes a difference, … */
static void
give_seats(const Search *search)
{
    WeftQueue *queue = search->queue;
    for (guint i = search->over ? 0 : search->overs; i < search->given; i++) {
        const WeftRunner *runner = runner_at(search, i);
        for (guint s = 0; s < runner->n; s++)
            if (weft_cells_has_left(&queue->cells, runner->seats[s].host))
                weft_fleet_give_seats(queue->fleet, &runner->seats[s], 1, runner->cluster);
    }
}

/* … and takes what is promised: also of what others still have then, since it may need more than they of all but the cores. */
static void
take_seats(const Search *search)
{
    WeftQueue *queue = search->queue;
    for (guint i = 0; i < queue->honoured->len; i++) {
        const WeftWaiter *other = queue->honoured->pdata[i];
        for (guint s = 0; s < other->pledge.seats->len; s++) {
            const WeftSeat *seat = &g_array_index(other->pledge.seats, WeftSeat, s);
            if (weft_cells_matters(&queue->cells, seat->host))
                weft_fleet_take_seats(queue->fleet, seat, 1, other->ask.request.cluster->id);
        }
    }
}

/* Is it on a host of which something is promised to others, or is anything booked? */
static gboolean
collides(WeftQueue *queue, const WeftPlacement *placement)
{
    weft_queue_mark(queue, placement->seats, placement->n);
    for (guint i = 0; i < queue->honoured->len; i++)
        if (weft_queue_is_marked(queue, ((const WeftWaiter *)queue->honoured->pdata[i])->pledge.spots))
            return TRUE;
    return queue->bookings->len > 0;
}

static gboolean
has_place(Search *search, gint64 start, gint64 end, WeftPlacement *ret_placement)
{
    WeftQueue *queue = search->queue;
    const WeftPlaceRequest *request = &search->waiter->ask.request;
    gboolean fits = TRUE;
    if (start <= queue->now) /* it may well find one where nothing is promised */
        fits = weft_place(queue->fleet, request, ret_placement);
    if (fits && (start > queue->now || collides(queue, ret_placement))) {
        guint mark = weft_fleet_begin(queue->fleet);
        give_seats(search);
        take_seats(search);
        weft_queue_close_booked(queue, search->waiter, start, end);
        fits = weft_place(queue->fleet, request, ret_placement);
        weft_fleet_rollback(queue->fleet, mark);
    }
    if (fits)
        return TRUE;
    queue->budget--;
    search->lack = MIN(search->lack, 1);
    return FALSE;
}

/* --- both --- */

static gint64
step_time(const GArray *steps, guint i)
{
    return g_array_index(steps, WeftStep, i).time;
}

/* Nobody loses a promise where there is another place at that time. */
static gboolean
try_at(Search *search, gint64 start, WeftPlacement *ret_placement)
{
    gint64 end = weft_waiter_end(search->waiter, start);
    give_until(search, start);
    for (search->yields = FALSE;; search->yields = TRUE) {
        if (has_cores(search, start, end) && has_place(search, start, end, ret_placement))
            return TRUE;
        if (search->yields || !search->yield)
            return FALSE;
    }
}

/* The plan in numbers, without what is promised to the waiter itself and to those that yield to it. */
static const GArray *
steps_for(Search *search)
{
    WeftQueue *queue = search->queue;
    const GArray *steps = queue->steps;
    for (guint i = 0; i < queue->promised->len; i++) {
        const WeftWaiter *other = queue->promised->pdata[i];
        gboolean yields = other != search->waiter && weft_waiter_yields(other, search->waiter);
        if (other != search->waiter && !yields)
            continue;
        search->yield = search->yield || yields;
        if (steps == queue->steps) {
            g_array_set_size(queue->trial, 0);
            g_array_append_vals(queue->trial, steps->data, steps->len);
            steps = queue->trial;
        }
        weft_steps_add(queue->trial, other->pledge.start, other->pledge.end, (gint64)other->cores);
    }
    return steps;
}

static gboolean
search_now(Search *search, const GArray *steps, WeftPlacement *ret_placement)
{
    WeftQueue *queue = search->queue;
    search->lack = G_MAXUINT;
    gboolean found = weft_steps_find(steps, 0, queue->now + 1, search->waiter, &search->lack) == 0 &&
                     try_at(search, queue->now, ret_placement);
    search->waiter->lack = search->lack;
    search->waiter->hope = (WeftFreed){ 0 };
    search->waiter->seen = queue->forgotten + queue->freed->len;
    return found;
}

static gboolean
search_later(Search *search, const GArray *steps, gint64 before, WeftPlacement *ret_placement, gint64 *ret_start)
{
    WeftQueue *queue = search->queue;
    guint tries = 0;
    for (guint i = weft_steps_find(steps, 1, before, search->waiter, &search->lack); i < steps->len;
         i = weft_steps_find(steps, i + 1, before, search->waiter, &search->lack)) {
        int budget = queue->budget;
        *ret_start = step_time(steps, i);
        if (try_at(search, *ret_start, ret_placement))
            return TRUE;
        tries += queue->budget < budget;
        if (before < WEFT_QUEUE_NEVER && queue->budget <= 0)
            return FALSE;
        if (g_cancellable_is_cancelled(search->waiter->ask.request.cancellable))
            return FALSE;
        if (tries > PATIENCE && i + 2 < steps->len) /* the last one is the emptiest, and not passed over */
            i = MIN(i + (1U << MIN(tries - PATIENCE, 16)), steps->len - 2);
    }
    return FALSE;
}

gboolean
weft_queue_seek(WeftQueue *queue, WeftWaiter *waiter, gint64 before, WeftPlacement *ret_placement, gint64 *ret_start)
{
    Search search = { .queue = queue, .waiter = waiter };
    const GArray *steps = steps_for(&search);
    *ret_start = queue->now;
    weft_cells_begin(&queue->cells, waiter->node_cores);
    gboolean found =
        search_now(&search, steps, ret_placement) || search_later(&search, steps, before, ret_placement, ret_start);
    if (found && search.yields)
        weft_queue_take_promises(queue, waiter, *ret_start, ret_placement);
    return found;
}
