#include "blocking.h"

#include "errors.h"
#include "wakeup.h"

#define EVENTS_MAX 256 /* that wait for the main thread; events are hints, and the oldest tell what the newest do */

typedef struct Blocking {
    WeftFabricDriver base;
    WeftFabricDriverOps ops; /* the table of base: every driver of this kind has its own name */
    const WeftBlockingOps *calls;
    gpointer self;
    WeftPkeys pkeys;
    GThreadPool *pool; /* of one thread */
    GQueue tasks;      /* Task, those without an answer; thread: main */
    GMutex turn;       /* held by the call under way */

    WeftFabricHeard heard; /* thread: main */
    gpointer heard_data;
    GMutex lock;
    GQueue events; /* Event; under the lock */
    GSource *wakeup;
} Blocking;

typedef struct Event {
    WeftFabricEvent event;
    char *detail;
} Event;

typedef struct Task Task;

/* How an operation runs on the worker, what its callback is given, and how that is freed. */
typedef struct Kind {
    gpointer (*run)(Task *task);
    void (*answer)(const Task *task);
    void (*free)(gpointer result);
} Kind;

/* A call: made on the main thread, run on the worker, answered on the main thread. */
struct Task {
    Blocking *fabric;
    const Kind *kind;
    WeftFabricChange *change;
    GArray *port_guids;
    GCallback callback;
    gpointer data;
    GCancellable *cancellable; /* our own: the caller's or the end of the driver cancels it */
    GCancellable *callers;
    gulong chained;
    gpointer result;
    GError *error;
    GSource *answer;
};

/* --- the operations --- */

static gpointer
run_apply(Task *task)
{
    const Blocking *fabric = task->fabric;
    return GINT_TO_POINTER(weft_fabric_change_check(task->change, &fabric->pkeys, &task->error) &&
                           fabric->calls->apply(fabric->self, task->change, task->cancellable, &task->error));
}

static gpointer
run_list(Task *task)
{
    return task->fabric->calls->list(task->fabric->self, task->cancellable, &task->error);
}

static gpointer
run_greet(Task *task)
{
    const Blocking *fabric = task->fabric;
    WeftManager *manager = fabric->calls->greet(fabric->self, task->cancellable, &task->error);
    if (manager && !fabric->calls->generation(fabric->self, &manager->generation, task->cancellable, NULL))
        manager->generation = 0;
    return manager;
}

static gpointer
run_map(Task *task)
{
    return task->fabric->calls->map(task->fabric->self, task->cancellable, &task->error);
}

static gpointer
run_verify(Task *task)
{
    return task->fabric->calls->verify(task->fabric->self, task->port_guids, task->cancellable, &task->error);
}

static void
answer_apply(const Task *task)
{
    ((WeftFabricApplied)task->callback)(task->error, task->data);
}

static void
answer_list(const Task *task)
{
    ((WeftFabricListed)task->callback)(task->result, task->error, task->data);
}

static void
answer_greet(const Task *task)
{
    ((WeftFabricGreeted)task->callback)(task->result, task->error, task->data);
}

static void
answer_map(const Task *task)
{
    ((WeftFabricMapped)task->callback)(task->result, task->error, task->data);
}

static void
answer_verify(const Task *task)
{
    ((WeftFabricVerified)task->callback)(task->result, task->error, task->data);
}

static void
unref_array(gpointer array)
{
    if (array)
        g_ptr_array_unref(array);
}

static void
free_nothing(gpointer result)
{
}

static const Kind apply = { run_apply, answer_apply, free_nothing };
static const Kind list = { run_list, answer_list, unref_array };
static const Kind greet = { run_greet, answer_greet, (GDestroyNotify)weft_manager_free };
static const Kind map = { run_map, answer_map, (GDestroyNotify)weft_fabric_map_free };
static const Kind verify = { run_verify, answer_verify, unref_array };

/* --- tasks --- */

static void
task_free(Task *task)
{
    g_cancellable_disconnect(task->callers, task->chained);
    g_clear_object(&task->callers);
    g_clear_object(&task->cancellable);
    g_source_destroy(task->answer);
    g_source_unref(task->answer);
    weft_fabric_change_free(task->change);
    g_clear_pointer(&task->port_guids, g_array_unref);
    task->kind->free(task->result);
    g_clear_error(&task->error);
    g_free(task);
}

/* thread: worker. A caller who gave up before its turn finds nothing done. */
static void
task_run(gpointer data, gpointer pool_data)
{
    Task *task = data;
    if (g_cancellable_is_cancelled(task->cancellable)) {
        weft_error_refuse(&task->error, WEFT_ERROR_TIMEOUT, "it was cancelled before its turn");
    } else {
        g_mutex_lock(&task->fabric->turn);
        task->result = task->kind->run(task);
        g_mutex_unlock(&task->fabric->turn);
    }
    g_prefix_error(&task->error, "fabric: ");
    g_source_attach(task->answer, NULL);
}

static gboolean
task_answer(gpointer data)
{
    Task *task = data;
    g_queue_remove(&task->fabric->tasks, task);
    task->kind->answer(task);
    task_free(task);
    return G_SOURCE_REMOVE;
}

static void
cancel(GCancellable *callers, gpointer ours)
{
    g_cancellable_cancel(ours);
}

static Task *
task_new(WeftFabricDriver *fabric, const Kind *kind, GCancellable *cancellable)
{
    Task *task = g_new0(Task, 1);
    task->fabric = (Blocking *)fabric;
    task->kind = kind;
    task->cancellable = g_cancellable_new();
    if (cancellable) {
        task->callers = g_object_ref(cancellable);
        task->chained = g_cancellable_connect(cancellable, G_CALLBACK(cancel), g_object_ref(task->cancellable), g_object_unref);
    }
    task->answer = g_idle_source_new();
    g_source_set_priority(task->answer, G_PRIORITY_DEFAULT);
    g_source_set_callback(task->answer, task_answer, task, NULL);
    return task;
}

static void
task_push(Task *task, GCallback callback, gpointer data)
{
    task->callback = callback;
    task->data = data;
    g_queue_push_tail(&task->fabric->tasks, task);
    g_thread_pool_push(task->fabric->pool, task, NULL);
}

static void
blocking_apply(WeftFabricDriver *fabric, WeftFabricChange *change, GCancellable *cancellable, WeftFabricApplied callback,
               gpointer data)
{
    Task *task = task_new(fabric, &apply, cancellable);
    task->change = change;
    task_push(task, G_CALLBACK(callback), data);
}

static void
blocking_list(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricListed callback, gpointer data)
{
    task_push(task_new(fabric, &list, cancellable), G_CALLBACK(callback), data);
}

static void
blocking_greet(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricGreeted callback, gpointer data)
{
    task_push(task_new(fabric, &greet, cancellable), G_CALLBACK(callback), data);
}

static void
blocking_map(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricMapped callback, gpointer data)
{
    task_push(task_new(fabric, &map, cancellable), G_CALLBACK(callback), data);
}

static void
blocking_verify(WeftFabricDriver *fabric, GArray *port_guids, GCancellable *cancellable, WeftFabricVerified callback,
                gpointer data)
{
    Task *task = task_new(fabric, &verify, cancellable);
    task->port_guids = port_guids;
    task_push(task, G_CALLBACK(callback), data);
}

static gboolean
blocking_generation(WeftFabricDriver *fabric, guint64 *ret_generation, GError **error)
{
    Blocking *blocking = (Blocking *)fabric;
    g_mutex_lock(&blocking->turn);
    gboolean ok = blocking->calls->generation(blocking->self, ret_generation, NULL, error);
    g_mutex_unlock(&blocking->turn);
    return ok;
}

/* --- events --- */

static void
event_free(gpointer data)
{
    Event *event = data;
    g_free(event->detail);
    g_free(event);
}

void
weft_blocking_tell(WeftFabricDriver *fabric, WeftFabricEvent event, const char *detail)
{
    Blocking *blocking = (Blocking *)fabric;
    Event *told = g_new(Event, 1);
    *told = (Event){ event, g_strdup(detail) };
    g_mutex_lock(&blocking->lock);
    g_queue_push_tail(&blocking->events, told);
    if (blocking->events.length > EVENTS_MAX)
        event_free(g_queue_pop_head(&blocking->events));
    g_mutex_unlock(&blocking->lock);
    weft_wakeup_ask(blocking->wakeup);
}

static Event *
next_event(Blocking *blocking)
{
    g_mutex_lock(&blocking->lock);
    Event *event = g_queue_pop_head(&blocking->events);
    g_mutex_unlock(&blocking->lock);
    return event;
}

static void
hand_out(gpointer data)
{
    Blocking *blocking = data;
    for (Event *event; (event = next_event(blocking));) {
        if (blocking->heard)
            blocking->heard(event->event, event->detail, blocking->heard_data);
        event_free(event);
    }
}

static void
blocking_listen(WeftFabricDriver *fabric, WeftFabricHeard heard, gpointer data)
{
    Blocking *blocking = (Blocking *)fabric;
    gboolean was = blocking->heard != NULL, is = heard != NULL;
    blocking->heard = heard;
    blocking->heard_data = data;
    if (was != is)
        blocking->calls->listen(blocking->self, is);
}

/* --- making and ending it --- */

static void
blocking_free(WeftFabricDriver *fabric)
{
    Blocking *blocking = (Blocking *)fabric;
    for (GList *link = blocking->tasks.head; link; link = link->next)
        g_cancellable_cancel(((Task *)link->data)->cancellable);
    blocking_listen(fabric, NULL, NULL);
    g_thread_pool_free(blocking->pool, FALSE, TRUE);
    g_queue_clear_full(&blocking->tasks, (GDestroyNotify)task_free);
    blocking->calls->free(blocking->self);
    g_source_destroy(blocking->wakeup);
    g_source_unref(blocking->wakeup);
    g_queue_clear_full(&blocking->events, event_free);
    g_mutex_clear(&blocking->lock);
    g_mutex_clear(&blocking->turn);
    g_free(blocking);
}

WeftFabricDriver *
weft_blocking_new(const WeftBlockingOps *ops, gpointer self, const WeftPkeys *pkeys)
{
    Blocking *blocking = g_new0(Blocking, 1);
    blocking->ops = (WeftFabricDriverOps){
        .name = ops->name,
        .management = ops->management,
        .apply = blocking_apply,
        .list = blocking_list,
        .greet = blocking_greet,
        .map = blocking_map,
        .verify = blocking_verify,
        .listen = blocking_listen,
        .generation = blocking_generation,
        .free = blocking_free,
    };
    blocking->base.ops = &blocking->ops;
    blocking->calls = ops;
    blocking->self = self;
    blocking->pkeys = *pkeys;
    /* Not exclusive: such a pool is given threads of GLib's own, which cannot fail here. */
    blocking->pool = g_thread_pool_new(task_run, NULL, 1, FALSE, NULL);
    g_mutex_init(&blocking->turn);
    g_mutex_init(&blocking->lock);
    blocking->wakeup = weft_wakeup_new(hand_out, blocking);
    return &blocking->base;
}
