/* The plan in numbers: how many cores are free from when to when. It never says no where there is room, and so spares the fleet
 * most of the looks that would be in vain. */
#include "queue-private.h"

gint64
weft_waiter_end(const WeftWaiter *waiter, gint64 start)
{
    if (waiter->ask.walltime > 0)
        return start + waiter->ask.walltime;
    return start < WEFT_FAR ? WEFT_FAR + start + 1 : start + WEFT_FAR_STAY; /* after those that began before or with it */
}

gint64
weft_runner_end(const WeftQueue *queue, const WeftRunner *runner)
{
    return runner->end > queue->now ? runner->end : queue->now + WEFT_OVERRUN;
}

static WeftStep *
step_at(const GArray *steps, guint i)
{
    return &g_array_index(steps, WeftStep, i);
}

/* The last step that is not after that time. */
static guint
step_before(const GArray *steps, gint64 time)
{
    guint low = 0, high = steps->len;
    while (high - low > 1) {
        guint middle = low + (high - low) / 2;
        if (step_at(steps, middle)->time <= time)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The step that begins then. What lies before the plan begins with it. */
static guint
step_cut(GArray *steps, gint64 time)
{
    guint i = step_before(steps, time);
    if (step_at(steps, i)->time >= time)
        return i;
    WeftStep new = { time, step_at(steps, i)->free, FALSE };
    g_array_insert_val(steps, i + 1, new);
    return i + 1;
}

void
weft_steps_add(GArray *steps, gint64 start, gint64 end, gint64 cores)
{
    guint from = step_cut(steps, start);
    guint to = step_cut(steps, end);
    for (guint i = from; i < to; i++)
        step_at(steps, i)->free += cores;
    step_at(steps, to)->gain = TRUE;
}

/* How many nodes of the waiter so many cores are too few for. */
static void
note_lack(const WeftWaiter *waiter, gint64 free, guint *lack)
{
    gint64 lacking = (gint64)waiter->cores - MAX(free, 0);
    *lack = MIN(*lack, (guint)((lacking + waiter->node_cores - 1) / waiter->node_cores));
}

guint
weft_steps_find(const GArray *steps, guint from, gint64 before, const WeftWaiter *waiter, guint *lack)
{
    gint64 cores = (gint64)waiter->cores;
    for (guint i = from; i < steps->len && step_at(steps, i)->time < before; i++) {
        if (i > 0 && !step_at(steps, i)->gain)
            continue;
        gint64 end = weft_waiter_end(waiter, step_at(steps, i)->time);
        guint next = i;
        while (next < steps->len && step_at(steps, next)->time < end && step_at(steps, next)->free >= cores)
            next++;
        if (next == steps->len || step_at(steps, next)->time >= end)
            return i;
        note_lack(waiter, step_at(steps, next)->free, lack);
        i = next; /* nothing that starts before it reaches its end */
    }
    return steps->len;
}

/* Holds are in the order of their ends, so that this is one walk; those that are over their end come first. */
static void
draw_holds(WeftQueue *queue, gint64 free)
{
    gint64 over = 0;
    WeftStep last = { queue->now, free, TRUE };
    for (guint i = 0; i < queue->ends->len; i++) {
        const WeftEnd *end = &g_array_index(queue->ends, WeftEnd, i);
        if (end->time <= queue->now) {
            over += (gint64)end->cores;
            continue;
        }
        if (end->time > last.time) {
            g_array_append_val(queue->steps, last);
            last.time = end->time;
        }
        last.free += (gint64)end->cores;
    }
    g_array_append_val(queue->steps, last);
    if (over > 0) {
        guint from = step_cut(queue->steps, queue->now + WEFT_OVERRUN);
        step_at(queue->steps, from)->gain = TRUE;
        for (guint i = from; i < queue->steps->len; i++)
            step_at(queue->steps, i)->free += over;
    }
}

void
weft_queue_draw(WeftQueue *queue)
{
    g_array_set_size(queue->steps, 0);
    draw_holds(queue, (gint64)queue->cells.total);
    for (guint i = 0; i < queue->promised->len; i++) {
        const WeftWaiter *waiter = queue->promised->pdata[i];
        weft_steps_add(queue->steps, waiter->pledge.start, waiter->pledge.end, -(gint64)waiter->cores);
    }
    for (guint i = 0; i < queue->bookings->len; i++) {
        const WeftBooked *booked = &g_array_index(queue->bookings, WeftBooked, i);
        if (booked->end > queue->now)
            step_at(queue->steps, step_cut(queue->steps, booked->end))->gain = TRUE;
    }
}
