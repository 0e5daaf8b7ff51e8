/* Who comes before whom. Age grows alike for all, and so never changes the order: only shares do. */
#include "queue-private.h"

#include <math.h>
#include <string.h>

#define SHARE_PERIOD (5 * WEFT_MINUTE) /* shares move slowly */
#define SHARE_STEPS 100                /* … and the order need not follow each core second */
#define REBASE 64                      /* half-lives after which the base is moved: 2^64 is far from what a double holds */
#define HOUR (60.0 * WEFT_MINUTE)

const WeftQueueOptions weft_queue_defaults = {
    .priority = 1,
    .age = 1,
    .share = 100,
    .half_life = 7 * 24 * 60 * WEFT_MINUTE,
    .depth = 64,
};

/* --- usage --- */

/* What a core second of that time counts, beside one of the base. */
static double
worth_at(const WeftQueue *queue, gint64 when)
{
    return queue->options.half_life > 0 ? exp2((double)(when - queue->base) / (double)queue->options.half_life) : 1;
}

/* What one core counts from the one time to the other; less than nothing where that is the earlier one. */
static double
core_worth(const WeftQueue *queue, gint64 from, gint64 to)
{
    if (queue->options.half_life <= 0)
        return (double)(to - from) / G_USEC_PER_SEC;
    return (worth_at(queue, to) - worth_at(queue, from)) * (double)queue->options.half_life / G_USEC_PER_SEC / G_LN2;
}

static void
begin_count(WeftQueue *queue, gint64 when)
{
    if (queue->settled == 0)
        queue->base = queue->settled = when;
}

WeftSharer *
weft_queue_sharer(WeftQueue *queue, const char *name)
{
    WeftSharer *sharer = g_hash_table_lookup(queue->sharers, name);
    if (!sharer) {
        sharer = g_new0(WeftSharer, 1);
        sharer->name = g_strdup(name);
        sharer->weight = 1;
        g_hash_table_insert(queue->sharers, sharer->name, sharer);
        g_ptr_array_add(queue->tenants, sharer);
    }
    return sharer;
}

void
weft_queue_set_share(WeftQueue *queue, const char *tenant, double weight)
{
    weft_queue_sharer(queue, tenant)->weight = MAX(weight, 0);
    queue->share = TRUE;
}

void
weft_queue_charge(WeftQueue *queue, const char *tenant, double core_seconds, gint64 when)
{
    begin_count(queue, when);
    weft_queue_sharer(queue, tenant)->used += core_seconds * worth_at(queue, when);
    queue->share = TRUE;
}

/* Usage is added up for all at once, later: what that would count too much or too little is made up for here. */
void
weft_queue_meter(WeftQueue *queue, WeftSharer *sharer, gint64 cores, gint64 since)
{
    begin_count(queue, since);
    sharer->used += (double)cores * core_worth(queue, since, queue->settled);
    sharer->cores += cores;
}

static void
rebase(WeftQueue *queue)
{
    double worth = worth_at(queue, queue->settled);
    for (guint i = 0; i < queue->tenants->len; i++)
        ((WeftSharer *)queue->tenants->pdata[i])->used /= worth;
    queue->base = queue->settled;
}

static void
add_up(WeftQueue *queue)
{
    begin_count(queue, queue->now);
    double worth = core_worth(queue, queue->settled, queue->now);
    for (guint i = 0; i < queue->tenants->len; i++) {
        WeftSharer *sharer = queue->tenants->pdata[i];
        sharer->used += (double)sharer->cores * worth;
        sharer->cores -= sharer->ending;
        sharer->ending = 0;
    }
    queue->settled = queue->now;
    if (queue->options.half_life > 0 && (queue->now - queue->base) / queue->options.half_life >= REBASE)
        rebase(queue);
}

/* --- points --- */

int
weft_waiter_compare(gconstpointer a, gconstpointer b)
{
    const WeftWaiter *x = *(WeftWaiter *const *)a;
    const WeftWaiter *y = *(WeftWaiter *const *)b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->ask.since != y->ask.since)
        return x->ask.since < y->ask.since ? -1 : 1;
    return strcmp(x->key, y->key);
}

void
weft_waiter_score(const WeftQueue *queue, WeftWaiter *waiter)
{
    waiter->score = queue->options.priority * waiter->ask.priority + waiter->tenant->points -
                    queue->options.age * (double)waiter->ask.since / HOUR;
}

/* Shares are of those that want or have something now: others leave theirs to them. */
static gboolean
find_shares(WeftQueue *queue)
{
    double used = 0, weight = 0;
    for (guint i = 0; i < queue->tenants->len; i++) {
        const WeftSharer *sharer = queue->tenants->pdata[i];
        used += sharer->active > 0 ? MAX(sharer->used, 0) : 0;
        weight += sharer->active > 0 ? sharer->weight : 0;
    }
    gboolean changed = FALSE;
    for (guint i = 0; i < queue->tenants->len; i++) {
        WeftSharer *sharer = queue->tenants->pdata[i];
        double got = used > 0 ? sharer->used / used : 0;
        double due = weight > 0 ? sharer->weight / weight : 0;
        double term = due > 0 ? CLAMP(1 - got / due, -1, 1) : -1;
        double points = queue->options.share * round(term * SHARE_STEPS) / SHARE_STEPS;
        changed = changed || (sharer->active > 0 && sharer->points != points);
        sharer->points = points;
    }
    queue->shared = queue->now;
    queue->share = FALSE;
    return changed;
}

/* Who has passed one that is promised something may take it from there. */
static void
note_passes(WeftQueue *queue)
{
    guint first = G_MAXUINT;
    for (guint i = queue->order->len; i-- > 0;) {
        WeftWaiter *waiter = queue->order->pdata[i];
        if (waiter->index > first) {
            waiter->ahead = ++queue->stamp;
            weft_queue_look_at(queue, waiter);
        }
        if (waiter->pledge.made)
            first = MIN(first, waiter->index);
    }
}

static void
reorder(WeftQueue *queue)
{
    gboolean sorted = TRUE;
    for (guint i = 0; i < queue->order->len; i++) {
        WeftWaiter *waiter = queue->order->pdata[i];
        waiter->index = i;
        weft_waiter_score(queue, waiter);
        sorted = sorted && (i == 0 || weft_waiter_compare(&queue->order->pdata[i - 1], &queue->order->pdata[i]) < 0);
    }
    if (sorted)
        return;
    g_ptr_array_sort(queue->order, weft_waiter_compare);
    note_passes(queue);
}

void
weft_queue_settle(WeftQueue *queue)
{
    add_up(queue);
    if ((queue->share || queue->now - queue->shared >= SHARE_PERIOD) && find_shares(queue))
        reorder(queue);
}

/* --- the order --- */

/* Where it is, or would be. */
guint
weft_queue_index(const WeftQueue *queue, const WeftWaiter *waiter)
{
    guint low = 0, high = queue->order->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (weft_waiter_compare(&queue->order->pdata[middle], &waiter) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void
weft_queue_insert(WeftQueue *queue, WeftWaiter *waiter)
{
    weft_waiter_score(queue, waiter);
    g_ptr_array_insert(queue->order, (gint)weft_queue_index(queue, waiter), waiter);
}
