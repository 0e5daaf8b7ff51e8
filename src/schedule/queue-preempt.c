/* Who gives way: as few holds as possible, the least important first, of these the youngest, which lose least. */
#include "queue-private.h"

#include <string.h>

#define PATIENCE 16 /* holds that are tried one after the other; then ever more are added at once */

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

/* In the order in which they give way; NULL: that would not be enough. */
static GPtrArray *
find_candidates(const WeftQueue *queue, const WeftWaiter *waiter)
{
    g_autoptr(GPtrArray) candidates = g_ptr_array_new();
    guint64 cores = queue->cells.total;
    for (guint i = 0; i < queue->by_end->len; i++) {
        WeftRunner *runner = queue->by_end->pdata[i];
        if (!runner->preemptible || runner->leaving || runner->priority > waiter->ask.priority)
            continue;
        g_ptr_array_add(candidates, runner);
        cores += runner->cores;
    }
    if (candidates->len == 0 || cores < waiter->cores)
        return NULL;
    g_ptr_array_sort(candidates, compare_victims);
    return g_steal_pointer(&candidates);
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

/* What is promised to others is taken last: it may be where one of those is that gave way. These may take their time to leave.
 */
static gboolean
fits(WeftQueue *queue, const WeftWaiter *waiter, WeftPlacement *ret_placement)
{
    gint64 end = weft_waiter_end(waiter, queue->now + WEFT_OVERRUN);
    guint mark = weft_fleet_begin(queue->fleet);
    weft_queue_list_honoured(queue, waiter, queue->now, end, FALSE);
    for (guint i = 0; i < queue->honoured->len; i++) {
        const WeftWaiter *other = queue->honoured->pdata[i];
        weft_fleet_take_seats(queue->fleet, (const WeftSeat *)other->pledge.seats->data, other->pledge.seats->len,
                              other->ask.request.cluster->id);
    }
    weft_queue_close_booked(queue, waiter, queue->now, end);
    gboolean placed = weft_place(queue->fleet, &waiter->ask.request, ret_placement);
    weft_fleet_rollback(queue->fleet, mark);
    return placed;
}

/* Gives of these until it fits; those that are not needed for that leave the list. */
static gboolean
give_enough(WeftQueue *queue, const WeftWaiter *waiter, GPtrArray *victims, WeftPlacement *ret_placement)
{
    guint64 free = queue->cells.total;
    guint tries = 0, skip = 0;
    for (guint i = 0; i < victims->len; i++) {
        const WeftRunner *victim = victims->pdata[i];
        give(queue, victim);
        free += victim->cores;
        gboolean last = i + 1 == victims->len;
        if (free < waiter->cores || (skip > 0 && skip-- && !last))
            continue;
        if (fits(queue, waiter, ret_placement)) {
            g_ptr_array_set_size(victims, (gint)i + 1);
            return TRUE;
        }
        skip = ++tries > PATIENCE ? 1U << MIN(tries - PATIENCE, 16) : 0;
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
    if (!victims)
        return FALSE;
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
