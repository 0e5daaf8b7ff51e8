#include "readers.h"

#include "clock.h"
#include "request.h"
#include "wakeup.h"
#include "workers.h"

struct WeftReaders {
    WeftStore *store; /* the main thread's */
    WeftWorkers *workers;
    GPtrArray *stores; /* WeftStore, the readers' */
    GPtrArray *idle;   /* those that nobody reads with */
    GQueue waiting;    /* Job */
    GSource *wakeup;   /* runs give_out() */
};

typedef struct {
    WeftReaders *readers;
    WeftRequest *request; /* a reference */
    WeftShare *share;     /* once it has a reader, with the next: */
    WeftStore *store;
    WeftReading read;
    gpointer data;
    GDestroyNotify free_data;
    gboolean waited;
    gint64 took; /* processor time */
} Job;

static void
drop_data(Job *job)
{
    if (job->data && job->free_data)
        job->free_data(job->data);
    job->data = NULL;
}

static void
job_free(gpointer data)
{
    Job *job = data;
    drop_data(job);
    weft_share_free(job->share);
    weft_request_unref(job->request);
    g_free(job);
}

/* thread: a reader */
static void
run(gpointer data)
{
    Job *job = data;
    gint64 since = weft_clock_thread();
    job->read(job->request, job->data);
    drop_data(job);
    job->took = weft_clock_thread() - since;
}

static void
done(gpointer data)
{
    Job *job = data;
    WeftReaders *readers = job->readers;
    g_ptr_array_add(readers->idle, job->store);
    g_clear_pointer(&job->share, weft_share_free);
    weft_request_charge(job->request, job->took);
    weft_request_end_reading(job->request, readers->store);
    weft_wakeup_ask(readers->wakeup);
}

/* Whoever came into debt while this waited is refused as if it came now. What has begun is ended. */
static gboolean
refuse_debtor(Job *job)
{
    g_autoptr(GError) error = NULL;
    if (!job->waited || job->data || weft_request_check_debt(job->request, WEFT_BUDGET_PROCESSOR, &error))
        return FALSE;
    weft_request_fail(job->request, error);
    job_free(job);
    return TRUE;
}

/* FALSE: its tenant has as many readers as it may. */
static gboolean
start(Job *job)
{
    GPtrArray *idle = job->readers->idle;
    job->share = weft_request_take(job->request, WEFT_SHARE_READERS, NULL);
    job->waited = TRUE;
    if (!job->share)
        return FALSE;
    job->store = g_ptr_array_steal_index_fast(idle, idle->len - 1);
    weft_request_begin_reading(job->request, job->store);
    weft_workers_push(job->readers->workers, &(WeftTask){ run, done, job_free, job });
    return TRUE;
}

static void
give_out(gpointer data)
{
    WeftReaders *readers = data;
    for (GList *link = readers->waiting.head, *next; link && readers->idle->len; link = next) {
        next = link->next;
        if (refuse_debtor(link->data) || start(link->data))
            g_queue_delete_link(&readers->waiting, link);
    }
}

void
weft_readers_add(WeftRequest *request, WeftReading read, gpointer data, GDestroyNotify free_data)
{
    Job *job = g_new0(Job, 1);
    job->readers = request->readers;
    job->request = weft_request_ref(request);
    job->read = read;
    job->data = data;
    job->free_data = free_data;
    g_queue_push_tail(&request->readers->waiting, job);
    weft_wakeup_ask(request->readers->wakeup);
}

void
weft_readers_cancel(WeftRequest *request)
{
    GQueue *waiting = &request->readers->waiting;
    for (GList *link = waiting->head, *next; link; link = next) {
        Job *job = link->data;
        next = link->next;
        if (job->request != request)
            continue;
        g_queue_delete_link(waiting, link);
        job_free(job);
    }
}

static void
store_free(gpointer store)
{
    weft_store_free(store);
}

WeftReaders *
weft_readers_new(WeftStore *store, guint count, GError **error)
{
    WeftReaders *readers = g_new0(WeftReaders, 1);
    readers->store = store;
    readers->stores = g_ptr_array_new_with_free_func(store_free);
    readers->idle = g_ptr_array_new();
    for (guint i = 0; i < count; i++) {
        WeftStore *own = weft_store_reader(store, error);
        if (!own) {
            weft_readers_free(readers);
            return NULL;
        }
        g_ptr_array_add(readers->stores, own);
        g_ptr_array_add(readers->idle, own);
    }
    readers->workers = weft_workers_new(count, 0);
    readers->wakeup = weft_wakeup_new(give_out, readers);
    return readers;
}

/* Nobody waits any more: the connections are closed. */
void
weft_readers_free(WeftReaders *readers)
{
    if (!readers)
        return;
    g_assert(g_queue_is_empty(&readers->waiting));
    weft_workers_free(readers->workers);
    if (readers->wakeup)
        g_source_destroy(readers->wakeup);
    g_clear_pointer(&readers->wakeup, g_source_unref);
    g_ptr_array_unref(readers->idle);
    g_ptr_array_unref(readers->stores);
    g_free(readers);
}
