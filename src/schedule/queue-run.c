/* Who is looked at, in the order of the queue: those of which something is new, those whose time has come, and if there may be
 * more room than there was, everybody who may gain by it. */
#include "queue-private.h"

#include <string.h>

#define BUDGET 12  /* placements that are tried in vain in one look, beside those that must be */
#define MEMORY 256 /* what became free, and is kept for those that have not had their turn */
#define ROUNDS 4   /* looks in one run: what the callbacks tell may ask for another */

/* --- one of them --- */

/* Only now its ranks are mapped: promises are made and broken far more often. Seats may be shared with snapshots. */
static void
start(WeftQueue *queue, WeftWaiter *waiter, const WeftPlacement *placement)
{
    WeftPlacement mapped = *placement;
    g_autofree WeftSeat *seats = mapped.seats = g_memdup2(placement->seats, placement->n * sizeof *placement->seats);
    weft_queue_unpromise(queue, waiter);
    weft_place_map(queue->fleet, &waiter->ask.request, &mapped);
    queue->starting = waiter;
    gboolean started = queue->ops->start(&waiter->ask, &mapped, queue->data);
    queue->starting = NULL;
    if (waiter->gone)
        return;
    if (started)
        weft_queue_drop(queue, waiter);
    else
        waiter->wait.why = WEFT_WAIT_REFUSED;
}

/* Starts it, or promises it a time before that one. */
static gboolean
settle(WeftQueue *queue, WeftWaiter *waiter, gint64 before)
{
    WeftPlacement placement;
    gint64 when;
    if (!weft_queue_seek(queue, waiter, before, &placement, &when))
        return FALSE;
    if (when <= queue->now)
        start(queue, waiter, &placement);
    else
        weft_queue_promise(queue, waiter, when, &placement);
    return TRUE;
}

/* One that lost its place is no more later than the one runs who took it, if there is room then. Only if there is none, others
 * yield to it in turn: so newcomers disturb few. */
static gboolean
make_do(WeftQueue *queue, WeftWaiter *waiter)
{
    gint64 patience = waiter->patience;
    guint64 ahead = waiter->ahead;
    waiter->patience = 0;
    waiter->ahead = 0;
    gboolean settled = patience > 0 && settle(queue, waiter, patience + 1);
    waiter->ahead = ahead;
    return settled;
}

/* As things are there is no time for it, and so nothing to keep for it. */
static void
give_up(WeftQueue *queue, WeftWaiter *waiter)
{
    waiter->lost = TRUE;
    if (!weft_place_explain_refusal(queue->fleet, &waiter->ask.request, NULL))
        waiter->wait.why = WEFT_WAIT_NEVER;
}

static gboolean
start_as_promised(WeftQueue *queue, WeftWaiter *waiter)
{
    WeftPlacement placement = waiter->pledge.placement;
    if (!weft_queue_stands(queue, waiter))
        return FALSE;
    start(queue, waiter, &placement);
    return TRUE;
}

/* Its time has come. If it cannot start, somebody is late: then it keeps its turn, and those behind it yield. */
static void
keep_promise(WeftQueue *queue, WeftWaiter *waiter)
{
    if (settle(queue, waiter, queue->now + 1) || start_as_promised(queue, waiter))
        return;
    if (waiter->victims > 0) {
        weft_queue_promise(queue, waiter, queue->now + WEFT_OVERRUN, NULL);
        return;
    }
    weft_queue_unpromise(queue, waiter);
    waiter->ahead = ++queue->stamp;
    waiter->wait.why = WEFT_WAIT_ROOM;
    if (!settle(queue, waiter, WEFT_QUEUE_NEVER))
        give_up(queue, waiter);
}

/* Has its time come? With those that gave way to it the last one left, too. */
static gboolean
is_due(const WeftQueue *queue, const WeftWaiter *waiter)
{
    return waiter->pledge.made &&
           (waiter->pledge.start <= queue->now || (waiter->wait.why == WEFT_WAIT_VICTIMS && waiter->victims == 0));
}

static gboolean
asks_no_less(const WeftWaiter *waiter, const WeftWaiter *other)
{
    if (waiter->ask.walltime > 0 && (other->ask.walltime == 0 || waiter->ask.walltime < other->ask.walltime))
        return FALSE;
    for (guint i = 0; i < G_N_ELEMENTS(waiter->counts); i++)
        if (waiter->counts[i] < other->counts[i])
            return FALSE;
    return !waiter->unlike && strcmp(waiter->kind, other->kind) == 0;
}

/* Has one that asks for the same or less found nothing already? */
static gboolean
is_hopeless(const WeftQueue *queue, const WeftWaiter *waiter)
{
    for (guint i = 0; i < queue->misses->len; i++)
        if (asks_no_less(waiter, queue->misses->pdata[i]))
            return TRUE;
    return FALSE;
}

/* For those that no time is promised. */
static void
fill_gap(WeftQueue *queue, WeftWaiter *waiter)
{
    if (is_hopeless(queue, waiter))
        return;
    int budget = queue->budget;
    if (!settle(queue, waiter, queue->now + 1) && queue->budget < budget && !waiter->unlike)
        g_ptr_array_add(queue->misses, waiter);
}

/* Those that newcomers have driven from the first places keep what they were promised, as long as they are not too many. */
static void
drive_out(WeftQueue *queue, const WeftWaiter *waiter)
{
    WeftWaiter *last = NULL;
    for (guint i = 0; i < queue->promised->len; i++) {
        WeftWaiter *other = queue->promised->pdata[i];
        if (other->wait.why != WEFT_WAIT_VICTIMS && weft_waiter_compare(last ? (gconstpointer)&last : &waiter, &other) < 0)
            last = other;
    }
    if (last)
        weft_queue_unpromise(queue, last);
}

static void
consider(WeftQueue *queue, WeftWaiter *waiter, gboolean ranked)
{
    queue->looks -= waiter->look;
    waiter->look = FALSE;
    if (waiter->wait.why == WEFT_WAIT_NEW)
        waiter->wait.why = WEFT_WAIT_ROOM;
    if (is_due(queue, waiter))
        keep_promise(queue, waiter);
    else if (waiter->pledge.made)
        settle(queue, waiter, waiter->pledge.start);
    else if (!ranked || waiter->lost)
        fill_gap(queue, waiter);
    else if (!make_do(queue, waiter) && !settle(queue, waiter, WEFT_QUEUE_NEVER))
        give_up(queue, waiter);
    if (waiter->ahead && queue->promised->len > 2 * queue->options.depth)
        drive_out(queue, waiter);
    waiter->ahead = 0;
}

/* --- all of them --- */

static gboolean
is_out(const WeftWaiter *waiter)
{
    return waiter->gone || waiter->wait.why == WEFT_WAIT_NEVER || waiter->wait.why == WEFT_WAIT_REFUSED;
}

/* Must it be looked at, whatever else there is? */
static gboolean
has_right(const WeftQueue *queue, const WeftWaiter *waiter, gboolean ranked)
{
    return waiter->look || is_due(queue, waiter) || (ranked && !waiter->pledge.made && !waiter->lost);
}

/* Takes notice of what became free since it was last looked at. */
static void
catch_up(const WeftQueue *queue, WeftWaiter *waiter)
{
    if (waiter->seen < queue->forgotten)
        waiter->lack = 0;
    gint64 end = weft_waiter_end(waiter, queue->now);
    for (guint64 i = MAX(waiter->seen, queue->forgotten) - queue->forgotten; i < queue->freed->len; i++) {
        const WeftFreed *freed = &g_array_index(queue->freed, WeftFreed, i);
        if (freed->start >= end)
            continue;
        waiter->hope.cores += freed->cores;
        waiter->hope.seats += freed->seats;
    }
    waiter->seen = queue->forgotten + queue->freed->len;
}

/* No more nodes than that can have found room by what became free. */
static gboolean
has_hope(const WeftWaiter *waiter)
{
    return waiter->hope.cores / waiter->node_cores + waiter->hope.seats >= waiter->lack;
}

/* There is more room than there was: perhaps it can start, or at least what it was promised can move up. */
static void
try_again(WeftQueue *queue, WeftWaiter *waiter)
{
    catch_up(queue, waiter);
    if (has_hope(waiter))
        fill_gap(queue, waiter);
    if (waiter->gone || !waiter->pledge.made)
        return;
    WeftPlacement placement = waiter->pledge.placement;
    gint64 first = weft_queue_slide(queue, waiter);
    if (first <= queue->now)
        start(queue, waiter, &placement);
    else if (first < waiter->pledge.start)
        weft_queue_promise(queue, waiter, first, NULL);
}

static void
look(WeftQueue *queue, WeftWaiter *waiter, gboolean ranked)
{
    if (has_right(queue, waiter, ranked))
        consider(queue, waiter, ranked);
    else
        try_again(queue, waiter);
    if (is_out(waiter) || !weft_queue_preempt(queue, waiter))
        return;
    if (!waiter->gone && waiter->victims == 0)
        keep_promise(queue, waiter);
}

/* Those for whom all have left that were stopped come first: nobody else is to find the room that was made. */
static void
look_at_heirs(WeftQueue *queue)
{
    for (guint i = 0; i < queue->promised->len;) {
        WeftWaiter *waiter = queue->promised->pdata[i++];
        if (waiter->wait.why == WEFT_WAIT_VICTIMS && waiter->victims == 0) {
            keep_promise(queue, waiter);
            i = 0; /* others may have lost their promise to it */
        }
    }
}

/* invariant: while this goes on, nobody enters or leaves the order. */
static void
look_at_all(WeftQueue *queue, gboolean room)
{
    guint rank = 0, depth = queue->options.depth, promises = queue->promised->len;
    guint64 least = G_MAXUINT64;
    for (guint i = 0; i < queue->order->len; i++) {
        WeftWaiter *waiter = queue->order->pdata[i];
        if (is_out(waiter))
            continue;
        gboolean ranked = rank < depth;
        rank += !waiter->lost;
        gboolean may = room && queue->budget > 0;
        if (!ranked && promises == 0 && queue->looks == 0 &&
            (!may || g_array_index(queue->steps, WeftStep, 0).free < (gint64)queue->least))
            return;
        promises -= waiter->pledge.made && promises > 0;
        if (may || has_right(queue, waiter, ranked))
            look(queue, waiter, ranked);
        least = waiter->gone ? least : MIN(least, waiter->cores);
    }
    queue->least = least;
}

/* Promises for whose sake somebody is stopped stay: the room is being made. */
static void
begin_anew(WeftQueue *queue)
{
    for (guint i = 0; i < queue->order->len; i++) {
        WeftWaiter *waiter = queue->order->pdata[i];
        waiter->lost = FALSE;
        waiter->lack = 0;
        if (waiter->victims > 0)
            continue;
        if (waiter->wait.why == WEFT_WAIT_NEVER || waiter->wait.why == WEFT_WAIT_VICTIMS)
            waiter->wait.why = WEFT_WAIT_ROOM;
        weft_queue_unpromise(queue, waiter);
    }
}

static void
tidy(WeftQueue *queue)
{
    guint kept = 0;
    for (guint i = 0; i < queue->order->len; i++) {
        WeftWaiter *waiter = queue->order->pdata[i];
        if (!waiter->gone)
            queue->order->pdata[kept++] = waiter;
    }
    g_ptr_array_set_size(queue->order, (gint)kept);
    for (guint i = 0; i < queue->arrived->len; i++) {
        WeftWaiter *waiter = queue->arrived->pdata[i];
        if (waiter->gone)
            continue;
        waiter->ahead = ++queue->stamp; /* others were promised something since it came */
        weft_queue_insert(queue, waiter);
    }
    g_ptr_array_set_size(queue->arrived, 0);
    g_ptr_array_set_size(queue->misses, 0);
    g_ptr_array_set_size(queue->gone, 0);
}

/* --- a run --- */

/* What was released is free from now on. */
static void
note_ends(WeftQueue *queue)
{
    for (guint i = 0; i < queue->freed->len; i++) {
        WeftFreed *freed = &g_array_index(queue->freed, WeftFreed, i);
        freed->start = freed->start ? freed->start : queue->now;
    }
}

/* Those that have not taken notice yet look in any case. */
static void
forget(WeftQueue *queue)
{
    if (queue->freed->len < MEMORY)
        return;
    queue->forgotten += queue->freed->len;
    g_array_set_size(queue->freed, 0);
}

/* Hosts that were booked can be had. */
static void
note_booking(WeftQueue *queue)
{
    queue->room = TRUE;
    for (guint i = 0; i < queue->order->len; i++)
        ((WeftWaiter *)queue->order->pdata[i])->lack = 0;
}

/* Those that were refused are tried again: something else has changed since. */
static void
forgive(WeftQueue *queue)
{
    for (guint i = 0; i < queue->order->len; i++) {
        WeftWaiter *waiter = queue->order->pdata[i];
        if (waiter->wait.why == WEFT_WAIT_REFUSED && !waiter->barred)
            waiter->wait.why = WEFT_WAIT_ROOM;
        waiter->barred = FALSE;
    }
}

static gint64
next_booking(const WeftQueue *queue, gint64 after)
{
    gint64 next = WEFT_QUEUE_NEVER;
    for (guint i = 0; i < queue->bookings->len; i++) {
        const WeftBooked *booked = &g_array_index(queue->bookings, WeftBooked, i);
        if (booked->end > after)
            next = MIN(next, booked->end);
    }
    return next;
}

static gint64
next_promise(const WeftQueue *queue)
{
    gint64 next = WEFT_QUEUE_NEVER;
    for (guint i = 0; i < queue->promised->len; i++) {
        const WeftWaiter *waiter = queue->promised->pdata[i];
        if (waiter->pledge.start < WEFT_FAR)
            next = MIN(next, waiter->pledge.start);
    }
    return next;
}

gint64
weft_queue_run(WeftQueue *queue, gint64 now, const WeftQueueOps *ops, gpointer data)
{
    g_return_val_if_fail(!queue->ops, now);
    gint64 before = queue->now;
    queue->now = MAX(before, now);
    weft_fleet_sort(queue->fleet);
    weft_queue_settle(queue);
    note_ends(queue);
    if (next_booking(queue, before) <= queue->now)
        note_booking(queue);
    if (queue->room || queue->doubt)
        forgive(queue);
    queue->ops = ops;
    queue->data = data;
    for (guint round = 0; round < ROUNDS; round++) {
        if (!queue->doubt && !queue->room && queue->looks == 0 && next_promise(queue) > queue->now)
            break;
        gboolean room = queue->room || queue->doubt;
        if (queue->stale)
            weft_cells_read(&queue->cells, queue->fleet);
        weft_queue_draw(queue);
        if (queue->doubt)
            begin_anew(queue);
        queue->room = queue->doubt = queue->stale = FALSE;
        queue->budget = BUDGET;
        look_at_heirs(queue);
        look_at_all(queue, room);
        tidy(queue);
    }
    queue->ops = NULL;
    forget(queue);
    return queue->order->len > 0 ? MIN(next_promise(queue), next_booking(queue, queue->now)) : WEFT_QUEUE_NEVER;
}
