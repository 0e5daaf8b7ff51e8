/* The plan in places: the fleet is made what it would be, and placement is asked. */
#include "queue-private.h"

#define PATIENCE 8 /* times that are tried one after the other; then ever more are passed over */

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
weft_queue_is_marked(const WeftQueue *queue, const WeftSeat *seats, guint n)
{
    for (guint i = 0; i < n; i++)
        if (seats[i].host < queue->hosts->len && g_array_index(queue->hosts, guint32, seats[i].host) == queue->marks)
            return TRUE;
    return FALSE;
}

/* --- promises --- */

void
weft_queue_unpromise(WeftQueue *queue, WeftWaiter *waiter)
{
    if (!waiter->promise.made)
        return;
    if (queue->ops)
        weft_steps_add(queue->steps, waiter->promise.start, waiter->promise.end, (gint64)waiter->cores);
    waiter->promise.made = 0;
    waiter->wait.when = 0;
    g_ptr_array_remove_fast(queue->promised, waiter);
    g_ptr_array_set_size(queue->misses, 0);
}

void
weft_queue_promise(WeftQueue *queue, WeftWaiter *waiter, gint64 start, const WeftPlacement *placement)
{
    weft_queue_unpromise(queue, waiter);
    WeftPromise *promise = &waiter->promise;
    promise->start = start;
    promise->end = weft_waiter_end(waiter, start);
    promise->made = ++queue->stamp;
    if (placement) {
        g_array_set_size(promise->seats, 0);
        g_array_append_vals(promise->seats, placement->seats, placement->n);
    }
    waiter->wait.when = start < WEFT_FAR ? start : 0;
    g_ptr_array_add(queue->promised, waiter);
    weft_steps_add(queue->steps, promise->start, promise->end, -(gint64)waiter->cores);
}

/* Who came later, and yet is before it, goes first. Nobody was stopped for nothing. */
static gboolean
yields_to(const WeftWaiter *other, const WeftWaiter *waiter)
{
    return other->promise.made < waiter->ahead && other->victims == 0 && weft_waiter_compare(&waiter, &other) < 0;
}

static gboolean
overlaps(const WeftWaiter *other, gint64 start, gint64 end)
{
    return other->promise.start < end && other->promise.end > start;
}

static gboolean
is_barred(const WeftBooked *booked, const WeftWaiter *waiter, gint64 start, gint64 end)
{
    return booked->start < end && booked->end > start && g_strcmp0(booked->tenant, waiter->tenant->name) != 0;
}

void
weft_queue_honour(const WeftQueue *queue, const WeftWaiter *waiter, gint64 start, gint64 end, gboolean yield)
{
    for (guint i = 0; i < queue->promised->len; i++) {
        const WeftWaiter *other = queue->promised->pdata[i];
        if (other == waiter || !overlaps(other, start, end) || (yield && yields_to(other, waiter)))
            continue;
        weft_fleet_take_seats(queue->fleet, (const WeftSeat *)other->promise.seats->data, other->promise.seats->len,
                              other->ask.request.cluster->id);
    }
    weft_queue_close_booked(queue, waiter, start, end);
}

void
weft_queue_close_booked(const WeftQueue *queue, const WeftWaiter *waiter, gint64 start, gint64 end)
{
    for (guint i = 0; i < queue->bookings->len; i++) {
        const WeftBooked *booked = &g_array_index(queue->bookings, WeftBooked, i);
        if (is_barred(booked, waiter, start, end))
            for (char **host = booked->hosts; *host; host++)
                weft_fleet_set_open(queue->fleet, *host, FALSE);
    }
}

/* --- seeking --- */

typedef struct Search {
    WeftQueue *queue;
    WeftWaiter *waiter;
    gboolean yield;  /* there are promises that yield to it */
    guint given;     /* holds, by their ends, that have been given */
    gboolean over;   /* … and those that should have ended before now */
    guint overs;     /* so many are these */
    gboolean yields; /* it was found where others yield */
} Search;

static void
give(Search *search, guint i)
{
    const WeftRunner *runner = search->queue->by_end->pdata[i];
    weft_fleet_give_seats(search->queue->fleet, runner->seats, runner->n, runner->cluster);
}

static void
give_until(Search *search, gint64 time)
{
    WeftQueue *queue = search->queue;
    for (; search->given < queue->by_end->len; search->given++) {
        const WeftRunner *runner = queue->by_end->pdata[search->given];
        if (runner->end > time)
            break;
        if (runner->end > queue->now)
            give(search, search->given);
        else
            search->overs = search->given + 1;
    }
    if (time >= queue->now + WEFT_OVERRUN && !search->over) {
        search->over = TRUE;
        for (guint i = 0; i < search->overs; i++)
            give(search, i);
    }
}

static gboolean
try_placing(Search *search, gint64 start, gboolean yield, WeftPlacement *ret_placement)
{
    WeftQueue *queue = search->queue;
    guint mark = weft_fleet_begin(queue->fleet);
    weft_queue_honour(queue, search->waiter, start, weft_waiter_end(search->waiter, start), yield);
    gboolean fits = weft_place(queue->fleet, &search->waiter->ask.request, ret_placement);
    weft_fleet_rollback(queue->fleet, mark);
    queue->budget -= !fits;
    return fits;
}

/* A fleet of which most is booked needs no look. */
static gboolean
is_closed(const Search *search, gint64 start)
{
    const WeftQueue *queue = search->queue;
    gint64 end = weft_waiter_end(search->waiter, start);
    for (guint i = 0; i < queue->bookings->len; i++) {
        const WeftBooked *booked = &g_array_index(queue->bookings, WeftBooked, i);
        if (is_barred(booked, search->waiter, start, end) && search->waiter->cores + booked->cores > queue->capacity)
            return TRUE;
    }
    return FALSE;
}

/* Nobody loses a promise where there is another place at that time. */
static gboolean
try_at(Search *search, gint64 start, WeftPlacement *ret_placement)
{
    if (is_closed(search, start))
        return FALSE;
    give_until(search, start);
    search->yields = FALSE;
    if (try_placing(search, start, FALSE, ret_placement))
        return TRUE;
    search->yields = search->yield;
    return search->yield && try_placing(search, start, TRUE, ret_placement);
}

/* The plan in numbers, without what is promised to the waiter itself and to those that yield to it. */
static const GArray *
steps_for(Search *search)
{
    WeftQueue *queue = search->queue;
    const GArray *steps = queue->steps;
    for (guint i = 0; i < queue->promised->len; i++) {
        const WeftWaiter *other = queue->promised->pdata[i];
        gboolean yields = other != search->waiter && yields_to(other, search->waiter);
        if (other != search->waiter && !yields)
            continue;
        search->yield = search->yield || yields;
        if (steps == queue->steps) {
            g_array_set_size(queue->trial, 0);
            g_array_append_vals(queue->trial, steps->data, steps->len);
            steps = queue->trial;
        }
        weft_steps_add(queue->trial, other->promise.start, other->promise.end, (gint64)other->cores);
    }
    return steps;
}

static gboolean
search_steps(Search *search, gint64 before, WeftPlacement *ret_placement, gint64 *ret_start)
{
    const GArray *steps = steps_for(search);
    guint tries = 0;
    for (guint i = weft_steps_find(steps, 0, search->waiter); i < steps->len;) {
        *ret_start = g_array_index(steps, WeftStep, i).time;
        if (*ret_start >= before)
            return FALSE;
        if (try_at(search, *ret_start, ret_placement))
            return TRUE;
        if (before < WEFT_QUEUE_NEVER && search->queue->budget <= 0)
            return FALSE;
        guint skip = ++tries > PATIENCE ? MIN(1U << MIN(tries - PATIENCE, 16), steps->len - i) : 1;
        guint next = weft_steps_find(steps, i + skip, search->waiter);
        /* The last one is the emptiest: nothing was left out that could have been. */
        i = next == steps->len && skip > 1 && i < steps->len - 1 ? weft_steps_find(steps, steps->len - 1, search->waiter)
                                                                 : next;
    }
    return FALSE;
}

static void
take_promises(WeftQueue *queue, WeftWaiter *waiter, gint64 start, const WeftPlacement *placement)
{
    gint64 end = weft_waiter_end(waiter, start);
    weft_queue_mark(queue, placement->seats, placement->n);
    for (guint i = queue->promised->len; i-- > 0;) {
        WeftWaiter *other = queue->promised->pdata[i];
        if (other == waiter || !overlaps(other, start, end) || !yields_to(other, waiter) ||
            !weft_queue_is_marked(queue, (const WeftSeat *)other->promise.seats->data, other->promise.seats->len))
            continue;
        weft_queue_unpromise(queue, other);
        other->ahead = ++queue->stamp;
        weft_queue_look_at(queue, other);
    }
}

gboolean
weft_queue_seek(WeftQueue *queue, WeftWaiter *waiter, gint64 before, WeftPlacement *ret_placement, gint64 *ret_start)
{
    Search search = { .queue = queue, .waiter = waiter };
    guint mark = weft_fleet_begin(queue->fleet);
    gboolean found = search_steps(&search, before, ret_placement, ret_start);
    weft_fleet_rollback(queue->fleet, mark);
    if (found && search.yields)
        take_promises(queue, waiter, *ret_start, ret_placement);
    return found;
}
