#include "fake-fabric.h"

#include "errors.h"
#include "fake-world.h"
#include "faults.h"

typedef struct FakeFabric {
    WeftFabricDriver base;
    WeftFakeWorld world;
    GThreadPool *pool; /* of one thread: the manager does one thing after the other */
    GQueue tasks;      /* Task, those without an answer; thread: main */
} FakeFabric;

/* A call: made on the main thread, run on the worker, answered on the main thread. */
typedef struct Task {
    FakeFabric *fabric;
    const char *op;
    WeftFabricChange *change; /* NULL: a list */
    WeftFabricApplied applied;
    WeftFabricListed listed;
    gpointer data;
    GCancellable *cancellable; /* our own: the caller's or the end of the driver cancels it */
    GCancellable *callers;
    gulong chained;
    GPtrArray *partitions;
    GError *error;
    GSource *answer;
} Task;

static void
task_free(Task *task)
{
    g_cancellable_disconnect(task->callers, task->chained);
    g_clear_object(&task->callers);
    g_clear_object(&task->cancellable);
    g_source_destroy(task->answer);
    g_source_unref(task->answer);
    weft_fabric_change_free(task->change);
    g_clear_pointer(&task->partitions, g_ptr_array_unref);
    g_clear_error(&task->error);
    g_free(task);
}

static gboolean
task_pass(Task *task)
{
    const char *const files[] = { task->fabric->world.faults, NULL };
    if (!weft_faults_pass(task->op, files, task->cancellable, &task->error))
        return FALSE;
    if (!g_cancellable_is_cancelled(task->cancellable))
        return TRUE;
    g_set_error(&task->error, WEFT_ERROR, WEFT_ERROR_TIMEOUT, "%s was cancelled", task->op);
    return FALSE;
}

/* thread: worker. */
static void
task_run(gpointer data, gpointer pool_data)
{
    Task *task = data;
    WeftFakeWorld *world = &task->fabric->world;
    if (task_pass(task)) {
        if (task->change)
            weft_fake_world_apply(world, task->change, &task->error);
        else
            task->partitions = weft_fake_world_list(world, &task->error);
    }
    g_prefix_error(&task->error, "fabric: ");
    g_source_attach(task->answer, NULL);
}

static gboolean
task_answer(gpointer data)
{
    Task *task = data;
    g_queue_remove(&task->fabric->tasks, task);
    if (task->applied)
        task->applied(task->error, task->data);
    else
        task->listed(task->partitions, task->error, task->data);
    task_free(task);
    return G_SOURCE_REMOVE;
}

static void
cancel(GCancellable *callers, gpointer ours)
{
    g_cancellable_cancel(ours);
}

static Task *
task_new(WeftFabricDriver *fabric, const char *op, GCancellable *cancellable, gpointer data)
{
    Task *task = g_new0(Task, 1);
    task->fabric = (FakeFabric *)fabric;
    task->op = op;
    task->data = data;
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
task_push(Task *task)
{
    g_queue_push_tail(&task->fabric->tasks, task);
    g_thread_pool_push(task->fabric->pool, task, NULL);
}

static void
fake_apply(WeftFabricDriver *fabric, WeftFabricChange *change, GCancellable *cancellable, WeftFabricApplied callback,
           gpointer data)
{
    Task *task = task_new(fabric, "apply", cancellable, data);
    task->change = change;
    task->applied = callback;
    task_push(task);
}

static void
fake_list(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricListed callback, gpointer data)
{
    Task *task = task_new(fabric, "list", cancellable, data);
    task->listed = callback;
    task_push(task);
}

static gboolean
fake_generation(WeftFabricDriver *fabric, guint64 *ret_generation, GError **error)
{
    return weft_fake_world_generation(&((FakeFabric *)fabric)->world, ret_generation, error);
}

static void
fake_free(WeftFabricDriver *fabric)
{
    FakeFabric *fake = (FakeFabric *)fabric;
    for (GList *link = fake->tasks.head; link; link = link->next)
        g_cancellable_cancel(((Task *)link->data)->cancellable);
    if (fake->pool)
        g_thread_pool_free(fake->pool, FALSE, TRUE);
    g_queue_clear_full(&fake->tasks, (GDestroyNotify)task_free);
    weft_fake_world_clear(&fake->world);
    g_free(fake);
}

static const WeftFabricDriverOps fake_ops = {
    .name = "fake",
    .apply = fake_apply,
    .list = fake_list,
    .generation = fake_generation,
    .free = fake_free,
};

WeftFabricDriver *
weft_fabric_fake_new(const char *world, GError **error)
{
    FakeFabric *fake = g_new0(FakeFabric, 1);
    fake->base.ops = &fake_ops;
    g_queue_init(&fake->tasks);
    if (weft_fake_world_open(&fake->world, world, error))
        fake->pool = g_thread_pool_new(task_run, NULL, 1, TRUE, error);
    if (!fake->pool) {
        fake_free(&fake->base);
        return NULL;
    }
    return &fake->base;
}
