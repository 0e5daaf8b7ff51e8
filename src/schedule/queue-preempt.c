/* Who gives way: as few holds as possible, the least important first, of these the youngest, which lose least. */
#include "queue-private.h"

#include <string.h>

static int
compare_victims(gconstpointer a, gconstpointer b)
{
    const WeftRunner *x = *(WeftRunner *const *)a;
    const WeftRunner *y = *(WeftRunner *const *)b;
    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    if (x->since != y->since)
        return x->since > y->since ? -1 : 1;
    return strcmp(x->key, y->key);
}

/* Those that would give way to it, in no order. */
static GPtrArray *
find_candidates(const WeftQueue *queue, const WeftWaiter *waiter)
{
    GPtrArray *candidates = g_ptr_array_new();
    for (guint i = 0; i < queue->ends->len; i++) {
        WeftRunner *runner = g_array_index(queue->ends, WeftEnd, i).runner;
        if (runner->preemptible && !runner->leaving && runner->priority <= waiter->ask.priority &&
            !g_hash_table_contains(queue->pinned, runner->key))
            g_ptr_array_add(candidates, runner);
    }
    return candidates;
}

/* They may take their time to leave. */
static gint64
stay_end(const WeftQueue *queue, const WeftWaiter *waiter)
{
    return weft_waiter_end(waiter, queue->now + WEFT_OVERRUN);
}

/* Would there be cores enough were the first n of these gone? */
static gboolean
has_cores(WeftQueue *queue, const WeftWaiter *waiter, const GPtrArray *victims, guint n)
{
    weft_cells_begin(&queue->cells, waiter->node_cores);
    for (guint i = 0; i < n; i++)
        weft_cells_give(&queue->cells, ((const WeftRunner *)victims->pdata[i])->spots);
    weft_queue_take_honoured(queue, waiter, queue->now, stay_end(queue, waiter), FALSE);
    return queue->cells.fit_left >= (gint64)waiter->nodes;
}

/* How many of them must go at least; all of them would do. */
static guint
count_needed(WeftQueue *queue, const WeftWaiter *waiter, const GPtrArray *victims)
{
    guint low = 0, high = victims->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (has_cores(queue, waiter, victims, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void
give(WeftQueue *queue, const WeftRunner *runner)
{
    weft_fleet_give_seats(queue->fleet, runner->seats, runner->n, runner->cluster);
}

static void
take(WeftQueue *queue, const WeftRunner *runner)
{
    weft_fleet_take_seats(queue->fleet, runner->seats, runner->n, runner->cluster);
}

/* What is promised to others is taken last: it may be where one of those is that gave way. */
static gboolean
fits(WeftQueue *queue, const WeftWaiter *waiter, WeftPlacement *ret_placement)
{
    guint mark = weft_fleet_begin(queue->fleet);
    weft_queue_list_honoured(queue, waiter, queue->now, stay_end(queue, waiter), FALSE);
    for (guint i = 0; i < queue->honoured->len; i++) {
        const WeftWaiter *other = queue->honoured->pdata[i];
        weft_fleet_take_seats(queue->fleet, (const WeftSeat *)other->pledge.seats->data, other->pledge.seats->len,
                              other->ask.request.cluster->id);
    }
    weft_queue_close_booked(queue, waiter, queue->now, stay_end(queue, waiter));
    gboolean placed = weft_place(queue->fleet, &waiter->ask.request, ret_placement);
    weft_fleet_rollback(queue->fleet, mark);
    return placed;
}

/* Gives of these until it fits, each time twice as many more; those that are not needed for that leave the list. */
static gboolean
give_enough(WeftQueue *queue, const WeftWaiter *waiter, GPtrArray *victims, WeftPlacement *ret_placement)
{
    guint given = 0;
    for (guint n = count_needed(queue, waiter, victims), more = 1; given < victims->len; n += more, more *= 2) {
        for (; given < MIN(n, victims->len); given++)
            give(queue, victims->pdata[given]);
        if (fits(queue, waiter, ret_placement)) {
            g_ptr_array_set_size(victims, (gint)given);
            return TRUE;
        }
    }
    return FALSE;
}

/* Keeps those out of the list on whose hosts nothing was placed, then each without whom there is a place as well, the most
 * important first. */
static void
spare(WeftQueue *queue, const WeftWaiter *waiter, GPtrArray *victims, WeftPlacement *placement)
{
    weft_queue_mark(queue, placement->seats, placement->n);
    for (guint i = victims->len; i-- > 0;) {
        const WeftRunner *runner = victims->pdata[i];
        if (weft_queue_is_marked(queue, runner->spots))
            continue;
        take(queue, runner);
        g_ptr_array_remove_index(victims, i);
    }
    for (guint i = victims->len; i-- > 0 && victims->len > 1;) {
        const WeftRunner *runner = victims->pdata[i];
        take(queue, runner);
        if (fits(queue, waiter, placement))
            g_ptr_array_remove_index(victims, i);
        else
            give(queue, runner);
    }
}

static void
stop(WeftQueue *queue, WeftWaiter *waiter, const GPtrArray *victims)
{
    g_autoptr(GPtrArray) keys = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < victims->len; i++) {
        WeftRunner *runner = victims->pdata[i];
        runner->leaving = TRUE;
        runner->heir = waiter;
        weft_queue_end(queue, runner, MIN(runner->end, queue->now));
        waiter->victims++;
        g_ptr_array_add(keys, g_strdup(runner->key));
    }
    for (guint i = 0; i < keys->len; i++)
        queue->ops->preempt(keys->pdata[i], &waiter->ask, queue->data);
}

/* What is promised to others is no room for it, and what comes without that anybody is stopped is enough. */
gboolean
weft_queue_preempt(WeftQueue *queue, WeftWaiter *waiter)
{
    if (queue->yielding == 0 || waiter->ask.preemptible || waiter->victims > 0 ||
        (waiter->pledge.made && waiter->pledge.start <= queue->now + WEFT_OVERRUN))
        return FALSE;
    g_autoptr(GPtrArray) victims = find_candidates(queue, waiter);
    if (victims->len == 0 || !has_cores(queue, waiter, victims, victims->len))
        return FALSE;
    g_ptr_array_sort(victims, compare_victims);
    WeftPlacement placement;
    guint mark = weft_fleet_begin(queue->fleet);
    gboolean found = give_enough(queue, waiter, victims, &placement);
    if (found) {
        spare(queue, waiter, victims, &placement);
        found = fits(queue, waiter, &placement);
    }
    weft_fleet_rollback(queue->fleet, mark);
    if (!found)
        return FALSE;
    weft_queue_promise(queue, waiter, queue->now + WEFT_OVERRUN, &placement);
    waiter->wait.why = WEFT_WAIT_VICTIMS;
    stop(queue, waiter, victims);
    return TRUE;
}
