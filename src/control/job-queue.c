#include "job-queue.h"

/* What one tenant wants of one host. */
typedef struct Lane {
    char *host;
    GQueue jobs;
} Lane;

/* All that one tenant wants; "" is weft itself. */
typedef struct Turn {
    char *tenant;
    GHashTable *lanes; /* host to Lane, while it has jobs */
    GQueue order;      /* Lane: the first is next */
} Turn;

struct WeftJobQueue {
    guint workers, per_host;
    gboolean lasting;
    guint running;
    GHashTable *busy;  /* host to how many run there */
    GHashTable *own;   /* tenant to how many of its jobs run */
    GHashTable *turns; /* tenant to Turn, while it has jobs */
    GQueue order;      /* Turn: the first is next */
};

static void
lane_free(gpointer data)
{
    Lane *lane = data;
    g_queue_clear(&lane->jobs);
    g_free(lane->host);
    g_free(lane);
}

static void
turn_free(gpointer data)
{
    Turn *turn = data;
    g_queue_clear(&turn->order);
    g_hash_table_unref(turn->lanes);
    g_free(turn->tenant);
    g_free(turn);
}

WeftJobQueue *
weft_job_queue_new(guint workers, guint per_host, gboolean lasting)
{
    WeftJobQueue *queue = g_new0(WeftJobQueue, 1);
    queue->workers = workers;
    queue->per_host = per_host;
    queue->lasting = lasting;
    queue->busy = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    queue->own = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    queue->turns = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, turn_free);
    return queue;
}

void
weft_job_queue_free(WeftJobQueue *queue)
{
    g_queue_clear(&queue->order);
    g_hash_table_unref(queue->turns);
    g_hash_table_unref(queue->busy);
    g_hash_table_unref(queue->own);
    g_free(queue);
}

static const char *
tenant_of(const WeftJob *job)
{
    return job->tenant ? job->tenant : "";
}

static Turn *
turn_get(WeftJobQueue *queue, const char *tenant)
{
    Turn *turn = g_hash_table_lookup(queue->turns, tenant);
    if (turn)
        return turn;
    turn = g_new0(Turn, 1);
    turn->tenant = g_strdup(tenant);
    turn->lanes = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, lane_free);
    g_hash_table_insert(queue->turns, turn->tenant, turn);
    g_queue_push_tail(&queue->order, turn);
    return turn;
}

static Lane *
lane_get(Turn *turn, const char *host)
{
    Lane *lane = g_hash_table_lookup(turn->lanes, host);
    if (lane)
        return lane;
    lane = g_new0(Lane, 1);
    lane->host = g_strdup(host);
    g_hash_table_insert(turn->lanes, lane->host, lane);
    g_queue_push_tail(&turn->order, lane);
    return lane;
}

static void
add_to(WeftJobQueue *queue, const char *tenant, WeftJob *job)
{
    g_queue_push_tail(&lane_get(turn_get(queue, tenant), job->host)->jobs, job);
}

void
weft_job_queue_add(WeftJobQueue *queue, WeftJob *job)
{
    job->queued = TRUE;
    add_to(queue, tenant_of(job), job);
    for (guint i = 0; job->others && i < job->others->len; i++)
        add_to(queue, job->others->pdata[i], job);
}

void
weft_job_queue_join(WeftJobQueue *queue, WeftJob *job, const char *tenant)
{
    if (g_str_equal(tenant, tenant_of(job)) ||
        (job->others && g_ptr_array_find_with_equal_func(job->others, tenant, g_str_equal, NULL)))
        return;
    if (!job->others)
        job->others = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(job->others, g_strdup(tenant));
    if (job->queued)
        add_to(queue, tenant, job);
}

static gboolean
remove_from(WeftJobQueue *queue, const char *tenant, WeftJob *job)
{
    Turn *turn = g_hash_table_lookup(queue->turns, tenant);
    Lane *lane = turn ? g_hash_table_lookup(turn->lanes, job->host) : NULL;
    if (!lane || !g_queue_remove(&lane->jobs, job))
        return FALSE;
    if (g_queue_is_empty(&lane->jobs)) {
        g_queue_remove(&turn->order, lane);
        g_hash_table_remove(turn->lanes, lane->host);
    }
    if (g_queue_is_empty(&turn->order)) {
        g_queue_remove(&queue->order, turn);
        g_hash_table_remove(queue->turns, turn->tenant);
    }
    return TRUE;
}

/* It is in no tenant's turn any more. */
static void
leave_turns(WeftJobQueue *queue, WeftJob *job)
{
    job->queued = FALSE;
    remove_from(queue, tenant_of(job), job);
    for (guint i = 0; job->others && i < job->others->len; i++)
        remove_from(queue, job->others->pdata[i], job);
}

static guint
count(GHashTable *counts, const char *whose)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(counts, whose));
}

static void
set_count(GHashTable *counts, const char *whose, guint n)
{
    if (n)
        g_hash_table_insert(counts, g_strdup(whose), GUINT_TO_POINTER(n));
    else
        g_hash_table_remove(counts, whose);
}

static gboolean
may_begin(const WeftJobQueue *queue, const Turn *turn)
{
    return !queue->lasting || !*turn->tenant || count(queue->own, turn->tenant) < queue->workers - queue->running;
}

/* Of hosts on which as many run as may, there are at most as many as there are workers. */
static WeftJob *
take_from(const WeftJobQueue *queue, Turn *turn)
{
    for (guint n = g_queue_get_length(&turn->order); n; n--) {
        Lane *lane = g_queue_pop_head(&turn->order);
        WeftJob *job = count(queue->busy, lane->host) < queue->per_host ? g_queue_pop_head(&lane->jobs) : NULL;
        if (g_queue_is_empty(&lane->jobs))
            g_hash_table_remove(turn->lanes, lane->host);
        else
            g_queue_push_tail(&turn->order, lane);
        if (job)
            return job;
    }
    return NULL;
}

WeftJob *
weft_job_queue_begin(WeftJobQueue *queue)
{
    WeftJob *job = NULL;
    for (guint n = g_queue_get_length(&queue->order); n && !job && queue->running < queue->workers; n--) {
        Turn *turn = g_queue_pop_head(&queue->order);
        job = may_begin(queue, turn) ? take_from(queue, turn) : NULL;
        if (g_queue_is_empty(&turn->order))
            g_hash_table_remove(queue->turns, turn->tenant);
        else
            g_queue_push_tail(&queue->order, turn);
    }
    if (!job)
        return NULL;
    leave_turns(queue, job);
    queue->running++;
    set_count(queue->busy, job->host, count(queue->busy, job->host) + 1);
    set_count(queue->own, tenant_of(job), count(queue->own, tenant_of(job)) + 1);
    return job;
}

void
weft_job_queue_end(WeftJobQueue *queue, const WeftJob *job)
{
    queue->running--;
    set_count(queue->busy, job->host, count(queue->busy, job->host) - 1);
    set_count(queue->own, tenant_of(job), count(queue->own, tenant_of(job)) - 1);
}

gboolean
weft_job_queue_remove(WeftJobQueue *queue, WeftJob *job)
{
    if (!job->queued)
        return FALSE;
    leave_turns(queue, job);
    return TRUE;
}
