/* When somebody who does not ask yet would start. */
#include "queue-private.h"

gboolean
weft_queue_foresee(WeftQueue *queue, const WeftAsk *ask, gint64 now, WeftPlacement *ret_placement, gint64 *ret_when)
{
    g_return_val_if_fail(!queue->ops, FALSE);
    gint64 before = queue->now; /* what has ended since then is for the next run to see */
    WeftWaiter *waiter = weft_waiter_new(queue, ask);
    waiter->ahead = 0;
    queue->now = MAX(queue->now, now);
    weft_fleet_sort(queue->fleet);
    weft_cells_read(&queue->cells, queue->fleet); /* they follow holds, also of hosts that are closed by now */
    weft_queue_draw(queue);
    gboolean found = weft_queue_seek(queue, waiter, WEFT_QUEUE_NEVER, ret_placement, ret_when);
    if (found && *ret_when >= WEFT_FAR)
        *ret_when = WEFT_QUEUE_NEVER;
    if (found && *ret_when <= queue->now)
        weft_place_map(queue->fleet, &ask->request, ret_placement);
    queue->now = before;
    weft_waiter_free(waiter);
    return found;
}
