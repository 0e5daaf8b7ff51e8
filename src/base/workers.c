#include "workers.h"

#include "wakeup.h"
#include "watchdog.h"

#include <sys/resource.h>
#include <unistd.h>

struct WeftWorkers {
    GThreadPool *threads; /* its own, as their priority is */
    int nice;
    GSource *wakeup;
    GMutex mutex;
    GQueue ended;  /* WeftTask; under the mutex */
    gint stopping; /* atomic */
};

static void
task_free(WeftTask *task)
{
    task->free_data(task->data);
    g_free(task);
}

/* Linux gives each thread a priority of its own; one that cannot be lowered computes all the same. */
static void
step_back(int nice)
{
    static _Thread_local gboolean done;
    if (!done && nice && setpriority(PRIO_PROCESS, (id_t)gettid(), nice) != 0)
        g_debug("a worker keeps its priority");
    done = TRUE;
}

static void
work(gpointer data, gpointer pool)
{
    WeftTask *task = data;
    WeftWorkers *workers = pool;
    step_back(workers->nice);
    if (!g_atomic_int_get(&workers->stopping))
        task->run(task->data);
    g_mutex_lock(&workers->mutex);
    g_queue_push_tail(&workers->ended, task);
    g_mutex_unlock(&workers->mutex);
    weft_wakeup_ask(workers->wakeup);
}

static WeftTask *
pop_ended(WeftWorkers *workers)
{
    g_mutex_lock(&workers->mutex);
    WeftTask *task = g_queue_pop_head(&workers->ended);
    g_mutex_unlock(&workers->mutex);
    return task;
}

/* One at a time, so that a burst of results keeps nobody waiting. */
static void
deliver(gpointer data)
{
    WeftWorkers *workers = data;
    WeftTask *task = pop_ended(workers);
    if (!task)
        return;
    weft_wakeup_ask(workers->wakeup);
    weft_watchdog_mark("the result of a worker", NULL);
    task->done(task->data);
    task_free(task);
}

WeftWorkers *
weft_workers_new(guint threads, int nice)
{
    WeftWorkers *workers = g_new0(WeftWorkers, 1);
    workers->nice = nice;
    g_mutex_init(&workers->mutex);
    workers->wakeup = weft_wakeup_new(deliver, workers);
    workers->threads = g_thread_pool_new(work, workers, (gint)threads, TRUE, NULL);
    return workers;
}

void
weft_workers_free(WeftWorkers *workers)
{
    if (!workers)
        return;
    g_atomic_int_set(&workers->stopping, TRUE);
    g_thread_pool_free(workers->threads, FALSE, TRUE);
    g_source_destroy(workers->wakeup);
    g_source_unref(workers->wakeup);
    for (WeftTask *task; (task = pop_ended(workers));)
        task_free(task);
    g_mutex_clear(&workers->mutex);
    g_free(workers);
}

void
weft_workers_push(WeftWorkers *workers, const WeftTask *task)
{
    g_thread_pool_push(workers->threads, g_memdup2(task, sizeof *task), NULL);
}
