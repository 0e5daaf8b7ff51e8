/* What runs. */
#include "queue-private.h"

#include <string.h>

/* Behind all that end then or before. */
static guint
find_end(const WeftQueue *queue, gint64 end)
{
    guint low = 0, high = queue->ends->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(queue->ends, WeftEnd, middle).time <= end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void
insert_runner(WeftQueue *queue, WeftRunner *runner)
{
    WeftEnd end = { runner->end, runner->cores, runner };
    g_array_insert_val(queue->ends, find_end(queue, end.time), end);
    queue->version++;
}

static void
remove_runner(WeftQueue *queue, WeftRunner *runner)
{
    guint i = find_end(queue, runner->end);
    while (g_array_index(queue->ends, WeftEnd, --i).runner != runner)
        ;
    g_array_remove_index(queue->ends, i);
    queue->version++;
}

/* While it runs, the plan follows. */
static void
draw(WeftQueue *queue, const WeftRunner *runner, gboolean taken)
{
    if (queue->ops)
        weft_steps_add(queue->steps, queue->now, weft_runner_end(queue, runner),
                       taken ? -(gint64)runner->cores : (gint64)runner->cores);
}

static void
note_freed(WeftQueue *queue, const WeftRunner *runner, gint64 since)
{
    g_array_append_val(queue->freed, ((WeftFreed){ since, runner->cores, runner->n }));
}

void
weft_queue_end(WeftQueue *queue, WeftRunner *runner, gint64 end)
{
    draw(queue, runner, FALSE);
    remove_runner(queue, runner);
    if (end < runner->end)
        note_freed(queue, runner, end);
    runner->end = end;
    insert_runner(queue, runner);
    draw(queue, runner, TRUE);
}

void
weft_runner_free(WeftRunner *runner)
{
    if (!runner)
        return;
    g_free(runner->key);
    g_clear_pointer(&runner->cluster, g_ref_string_release);
    g_clear_pointer(&runner->seats, g_atomic_rc_box_release);
    g_array_unref(runner->spots);
    g_free(runner);
}

static guint64
count_cores(const GArray *spots)
{
    guint64 cores = 0;
    for (guint i = 0; i < spots->len; i++)
        cores += (guint)__builtin_popcountll(g_array_index(spots, WeftSpot, i).bits);
    return cores;
}

static WeftRunner *
runner_new(WeftQueue *queue, const WeftHold *hold)
{
    WeftRunner *runner = g_new0(WeftRunner, 1);
    runner->key = g_strdup(hold->key);
    runner->cluster = hold->cluster ? g_ref_string_new(hold->cluster) : NULL;
    runner->tenant = weft_queue_sharer(queue, hold->tenant);
    runner->priority = hold->priority;
    runner->preemptible = hold->preemptible;
    runner->since = hold->since;
    runner->end = runner->due = hold->end < WEFT_FAR ? hold->end : WEFT_FAR + hold->since;
    runner->seats = hold->n ? g_atomic_rc_box_dup(hold->n * sizeof *hold->seats, (WeftSeat *)hold->seats) : NULL;
    runner->n = hold->n;
    runner->spots = g_array_new(FALSE, FALSE, sizeof(WeftSpot));
    weft_spots_set(runner->spots, hold->seats, hold->n);
    runner->cores = count_cores(runner->spots);
    return runner;
}

static void
add_runner(WeftQueue *queue, WeftRunner *runner)
{
    g_hash_table_insert(queue->runners, runner->key, runner);
    insert_runner(queue, runner);
    draw(queue, runner, TRUE);
    weft_cells_change(&queue->cells, runner->spots, TRUE);
    queue->yielding += runner->preemptible;
    queue->share |= runner->tenant->active++ == 0;
}

static void
drop_runner(WeftQueue *queue, WeftRunner *runner)
{
    draw(queue, runner, FALSE);
    remove_runner(queue, runner);
    weft_cells_change(&queue->cells, runner->spots, FALSE);
    queue->yielding -= runner->preemptible;
    queue->share |= --runner->tenant->active == 0;
    g_hash_table_remove(queue->runners, runner->key);
}

static gboolean
has_same_seats(const WeftRunner *a, const WeftRunner *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->seats, b->seats, a->n * sizeof *a->seats) == 0);
}

/* What was started by the queue itself is as it was planned; what else takes room may lie where some was promised. */
static gboolean
is_planned(const WeftQueue *queue, const WeftRunner *runner)
{
    return queue->starting && strcmp(queue->starting->key, runner->key) == 0 &&
           runner->end <= weft_waiter_end(queue->starting, queue->now);
}

/* Usage goes on from where it is added up. */
static void
replace(WeftQueue *queue, WeftRunner *old, WeftRunner *runner)
{
    runner->leaving = old->leaving;
    runner->heir = old->heir;
    if (old->leaving)
        runner->end = MIN(runner->end, old->end);
    queue->doubt = queue->doubt || runner->end > old->end || !has_same_seats(old, runner);
    if (runner->end < old->end) {
        queue->room = TRUE;
        note_freed(queue, old, runner->end);
    }
    weft_queue_meter(queue, old->tenant, -(gint64)old->cores, queue->settled);
    weft_queue_meter(queue, runner->tenant, (gint64)runner->cores, queue->settled);
    drop_runner(queue, old);
    add_runner(queue, runner);
}

void
weft_queue_hold(WeftQueue *queue, const WeftHold *hold)
{
    WeftRunner *runner = runner_new(queue, hold);
    WeftRunner *old = g_hash_table_lookup(queue->runners, hold->key);
    if (old) {
        replace(queue, old, runner);
        return;
    }
    queue->doubt = queue->doubt || !is_planned(queue, runner);
    weft_queue_meter(queue, runner->tenant, (gint64)runner->cores, runner->since);
    add_runner(queue, runner);
}

void
weft_queue_release(WeftQueue *queue, const char *key)
{
    WeftRunner *runner = g_hash_table_lookup(queue->runners, key);
    if (!runner)
        return;
    queue->room = TRUE;
    runner->tenant->ending += (gint64)runner->cores;
    note_freed(queue, runner, 0);
    if (runner->heir && --runner->heir->victims == 0)
        weft_queue_look_at(queue, runner->heir);
    drop_runner(queue, runner);
}

/* --- what is only assumed --- */

gint64
weft_queue_assume(WeftQueue *queue, const WeftAsk *ask, const WeftPlacement *placement)
{
    const WeftCluster *cluster = ask->request.cluster;
    const WeftRunner *old = g_hash_table_lookup(queue->runners, ask->key);
    gint64 end = ask->walltime > 0 ? queue->now + ask->walltime : WEFT_QUEUE_NEVER;
    g_autoptr(GArray) seats = g_array_new(FALSE, FALSE, sizeof(WeftSeat));
    if (old)
        g_array_append_vals(seats, old->seats, old->n);
    g_array_append_vals(seats, placement->seats, placement->n);
    WeftHold hold = { .key = ask->key,
                      .cluster = cluster->id,
                      .tenant = cluster->tenant,
                      .priority = ask->priority,
                      .preemptible = ask->preemptible,
                      .since = old ? old->since : queue->now,
                      .end = old ? old->due : end,
                      .seats = (const WeftSeat *)(gpointer)seats->data,
                      .n = seats->len };
    weft_fleet_take_seats(queue->fleet, placement->seats, placement->n, cluster->id);
    weft_queue_hold(queue, &hold);
    ((WeftRunner *)g_hash_table_lookup(queue->runners, ask->key))->assumed = placement->n;
    return queue->now;
}

void
weft_queue_take_back(WeftQueue *queue, const char *key)
{
    const WeftRunner *runner = g_hash_table_lookup(queue->runners, key);
    if (!runner || !runner->assumed)
        return;
    if (runner->n == runner->assumed) {
        weft_queue_release(queue, key);
        return;
    }
    WeftHold hold = { .key = key,
                      .cluster = runner->cluster,
                      .tenant = runner->tenant->name,
                      .priority = runner->priority,
                      .preemptible = runner->preemptible,
                      .since = runner->since,
                      .end = runner->due,
                      .seats = runner->seats,
                      .n = runner->n - runner->assumed };
    weft_queue_hold(queue, &hold);
}

void
weft_queue_pin(WeftQueue *queue, const char *key)
{
    guint times = GPOINTER_TO_UINT(g_hash_table_lookup(queue->pinned, key));
    g_hash_table_insert(queue->pinned, g_strdup(key), GUINT_TO_POINTER(times + 1));
}

void
weft_queue_unpin(WeftQueue *queue, const char *key)
{
    guint times = GPOINTER_TO_UINT(g_hash_table_lookup(queue->pinned, key));
    if (times > 1)
        g_hash_table_insert(queue->pinned, g_strdup(key), GUINT_TO_POINTER(times - 1));
    else
        g_hash_table_remove(queue->pinned, key);
    queue->doubt = TRUE;
}

void
weft_queue_spare(WeftQueue *queue, const char *key)
{
    WeftRunner *runner = g_hash_table_lookup(queue->runners, key);
    if (!runner || !runner->leaving)
        return;
    if (runner->heir && --runner->heir->victims == 0)
        weft_queue_look_at(queue, runner->heir);
    runner->leaving = FALSE;
    runner->heir = NULL;
    weft_queue_end(queue, runner, runner->due);
    queue->doubt = TRUE;
}
