/* Says to ThreadSanitizer what GLib orders: GLib is not instrumented, and its mutexes, queues, pools and sources are made of
 * futexes and of atomics that the sanitizer does not see. Each function here does what GLib's of that name does, and annotates
 * it. Every program and module of a build with -Db_sanitize=thread is linked to this library before GLib, so that other
 * libraries' calls come here as well. It is not instrumented itself, and in a program without the sanitizer it annotates
 * nothing. */
#include <dlfcn.h>
#include <glib-object.h>
#include <sanitizer/tsan_interface.h>

#pragma weak __tsan_acquire
#pragma weak __tsan_release
#pragma weak __tsan_mutex_pre_lock
#pragma weak __tsan_mutex_post_lock
#pragma weak __tsan_mutex_pre_unlock
#pragma weak __tsan_mutex_post_unlock
#pragma weak __tsan_mutex_destroy

/* GLib's or GObject's own function of that name. RTLD_NEXT does not do: it finds nothing in a module that dlopen() loaded. */
#define REAL(name) ((__typeof__(&name))find(&real_##name, #name))
#define REMEMBER(name) static gpointer real_##name

static gpointer
find(gpointer *known, const char *name)
{
    gpointer function = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (function)
        return function;
    void *library = dlopen("libgobject-2.0.so.0", RTLD_LAZY);
    if (library)
        function = dlsym(library, name); /* in what it is linked to as well, which is GLib */
    if (!function)
        abort();
    __atomic_store_n(known, function, __ATOMIC_RELAXED);
    return function;
}

static void
acquire(gpointer what)
{
    if (&__tsan_acquire)
        __tsan_acquire(what);
}

static void
release(gpointer what)
{
    if (&__tsan_release)
        __tsan_release(what);
}

/* --- mutexes and conditions; GLib's other locks are those of pthreads, which the sanitizer knows --- */

static void
before_lock(GMutex *mutex, unsigned flags)
{
    if (&__tsan_mutex_pre_lock)
        __tsan_mutex_pre_lock(mutex, flags | __tsan_mutex_linker_init);
}

static void
after_lock(GMutex *mutex, unsigned flags)
{
    if (&__tsan_mutex_post_lock)
        __tsan_mutex_post_lock(mutex, flags | __tsan_mutex_linker_init, 0);
}

static void
before_unlock(GMutex *mutex)
{
    if (&__tsan_mutex_pre_unlock)
        __tsan_mutex_pre_unlock(mutex, __tsan_mutex_linker_init);
}

static void
after_unlock(GMutex *mutex)
{
    if (&__tsan_mutex_post_unlock)
        __tsan_mutex_post_unlock(mutex, __tsan_mutex_linker_init);
}

REMEMBER(g_mutex_lock);
void
g_mutex_lock(GMutex *mutex)
{
    before_lock(mutex, 0);
    REAL(g_mutex_lock)(mutex);
    after_lock(mutex, 0);
}

REMEMBER(g_mutex_trylock);
gboolean
g_mutex_trylock(GMutex *mutex)
{
    before_lock(mutex, __tsan_mutex_try_lock);
    gboolean got = REAL(g_mutex_trylock)(mutex);
    after_lock(mutex, got ? __tsan_mutex_try_lock : __tsan_mutex_try_lock_failed);
    return got;
}

REMEMBER(g_mutex_unlock);
void
g_mutex_unlock(GMutex *mutex)
{
    before_unlock(mutex);
    REAL(g_mutex_unlock)(mutex);
    after_unlock(mutex);
}

REMEMBER(g_mutex_clear);
void
g_mutex_clear(GMutex *mutex)
{
    REAL(g_mutex_clear)(mutex);
    if (&__tsan_mutex_destroy)
        __tsan_mutex_destroy(mutex, __tsan_mutex_linker_init);
}

REMEMBER(g_cond_wait);
void
g_cond_wait(GCond *cond, GMutex *mutex)
{
    before_unlock(mutex);
    after_unlock(mutex);
    REAL(g_cond_wait)(cond, mutex);
    before_lock(mutex, 0);
    after_lock(mutex, 0);
}

REMEMBER(g_cond_wait_until);
gboolean
g_cond_wait_until(GCond *cond, GMutex *mutex, gint64 end_time)
{
    before_unlock(mutex);
    after_unlock(mutex);
    gboolean woken = REAL(g_cond_wait_until)(cond, mutex, end_time);
    before_lock(mutex, 0);
    after_lock(mutex, 0);
    return woken;
}

/* The atomic read that comes before is a macro in our code, which is instrumented; who finds another at it waits in here. */
REMEMBER(g_once_init_enter);
gboolean(g_once_init_enter)(volatile void *location)
{
    gboolean first = REAL(g_once_init_enter)(location);
    if (!first)
        acquire((gpointer)location);
    return first;
}

REMEMBER(g_once_init_leave);
void(g_once_init_leave)(volatile void *location, gsize result)
{
    release((gpointer)location);
    REAL(g_once_init_leave)(location, result);
}

/* --- queues and pools --- */

REMEMBER(g_async_queue_push);
void
g_async_queue_push(GAsyncQueue *queue, gpointer data)
{
    release(queue);
    REAL(g_async_queue_push)(queue, data);
}

REMEMBER(g_async_queue_pop);
gpointer
g_async_queue_pop(GAsyncQueue *queue)
{
    gpointer data = REAL(g_async_queue_pop)(queue);
    acquire(queue);
    return data;
}

REMEMBER(g_async_queue_try_pop);
gpointer
g_async_queue_try_pop(GAsyncQueue *queue)
{
    gpointer data = REAL(g_async_queue_try_pop)(queue);
    acquire(queue);
    return data;
}

REMEMBER(g_async_queue_timeout_pop);
gpointer
g_async_queue_timeout_pop(GAsyncQueue *queue, guint64 timeout)
{
    gpointer data = REAL(g_async_queue_timeout_pop)(queue, timeout);
    acquire(queue);
    return data;
}

/* What a pool was made for; its user data. Never freed: a pool may outlive g_thread_pool_free(). */
typedef struct Pool {
    GFunc function;
    gpointer data;
    char pushed, run; /* addresses for the sanitizer */
} Pool;

static void
run_item(gpointer item, gpointer user_data)
{
    Pool *pool = user_data;
    acquire(&pool->pushed);
    pool->function(item, pool->data);
    release(&pool->run);
}

static Pool *
pool_new(GFunc function, gpointer data)
{
    Pool *pool = g_new0(Pool, 1);
    pool->function = function;
    pool->data = data;
    return pool;
}

REMEMBER(g_thread_pool_new);
GThreadPool *
g_thread_pool_new(GFunc function, gpointer data, gint threads, gboolean exclusive, GError **error)
{
    return REAL(g_thread_pool_new)(run_item, pool_new(function, data), threads, exclusive, error);
}

REMEMBER(g_thread_pool_new_full);
GThreadPool *
g_thread_pool_new_full(GFunc function, gpointer data, GDestroyNotify free_item, gint threads, gboolean exclusive,
                       GError **error)
{
    return REAL(g_thread_pool_new_full)(run_item, pool_new(function, data), free_item, threads, exclusive, error);
}

REMEMBER(g_thread_pool_push);
gboolean
g_thread_pool_push(GThreadPool *threads, gpointer item, GError **error)
{
    release(&((Pool *)threads->user_data)->pushed);
    return REAL(g_thread_pool_push)(threads, item, error);
}

REMEMBER(g_thread_pool_free);
void
g_thread_pool_free(GThreadPool *threads, gboolean immediate, gboolean wait)
{
    Pool *pool = threads->user_data;
    REAL(g_thread_pool_free)(threads, immediate, wait);
    if (wait)
        acquire(&pool->run);
}

/* --- sources: who attaches one or sets its time comes before its dispatch --- */

typedef gboolean (*Dispatch)(GSource *source, GSourceFunc callback, gpointer data);

/* A copy of a source's functions with dispatch in place of its own. */
typedef struct Functions {
    GSourceFuncs shim;
    const GSourceFuncs *own;
    struct Functions *next;
} Functions;

static Functions *all; /* under the lock */
static GMutex all_lock;

static gboolean
dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    acquire(source);
    return ((const Functions *)source->source_funcs)->own->dispatch(source, callback, data);
}

static Functions *
functions_of(const GSourceFuncs *own)
{
    Functions *found = all;
    while (found && found->own != own)
        found = found->next;
    if (found)
        return found;
    found = g_new0(Functions, 1);
    *found = (Functions){ *own, own, all };
    found->shim.dispatch = dispatch;
    return all = found;
}

REMEMBER(g_source_new);
GSource *
g_source_new(GSourceFuncs *own, guint size)
{
    g_mutex_lock(&all_lock);
    Functions *functions = functions_of(own);
    g_mutex_unlock(&all_lock);
    return REAL(g_source_new)(own->dispatch ? &functions->shim : own, size);
}

/* GLib makes these sources by functions that are its own: their tables are changed in place. */
static Dispatch dispatch_idle, dispatch_timeout;

static gboolean
on_idle(GSource *source, GSourceFunc callback, gpointer data)
{
    acquire(source);
    return dispatch_idle(source, callback, data);
}

static gboolean
on_timeout(GSource *source, GSourceFunc callback, gpointer data)
{
    acquire(source);
    return dispatch_timeout(source, callback, data);
}

__attribute__((constructor)) static void
change_tables(void)
{
    dispatch_idle = g_idle_funcs.dispatch;
    dispatch_timeout = g_timeout_funcs.dispatch;
    g_idle_funcs.dispatch = on_idle;
    g_timeout_funcs.dispatch = on_timeout;
}

REMEMBER(g_source_attach);
guint
g_source_attach(GSource *source, GMainContext *context)
{
    release(source);
    return REAL(g_source_attach)(source, context);
}

REMEMBER(g_source_set_ready_time);
void
g_source_set_ready_time(GSource *source, gint64 time)
{
    release(source);
    REAL(g_source_set_ready_time)(source, time);
}

guint
g_idle_add_full(gint priority, GSourceFunc function, gpointer data, GDestroyNotify free_data)
{
    GSource *source = g_idle_source_new();
    g_source_set_priority(source, priority);
    g_source_set_callback(source, function, data, free_data);
    guint id = g_source_attach(source, NULL);
    g_source_unref(source);
    return id;
}

guint
g_idle_add(GSourceFunc function, gpointer data)
{
    return g_idle_add_full(G_PRIORITY_DEFAULT_IDLE, function, data, NULL);
}

/* --- memory: what our code frees is checked against who still uses it, unlike what GLib frees by itself --- */

void
g_free(gpointer memory)
{
    free(memory);
}

/* --- counts of references: whoever gave one up comes before who frees --- */

REMEMBER(g_object_unref);
void
g_object_unref(gpointer object)
{
    release(object);
    acquire(object);
    REAL(g_object_unref)(object);
}

REMEMBER(g_bytes_unref);
void
g_bytes_unref(GBytes *bytes)
{
    if (bytes) {
        release(bytes);
        acquire(bytes);
    }
    REAL(g_bytes_unref)(bytes);
}

/* Only who gives up the last one clears: then, and not before, all others have given up theirs. */
static __thread GDestroyNotify clear_last;

static void
clear_box(gpointer box)
{
    acquire(box);
    if (clear_last)
        clear_last(box);
}

REMEMBER(g_atomic_rc_box_release_full);
void
g_atomic_rc_box_release_full(gpointer box, GDestroyNotify clear)
{
    GDestroyNotify outer = clear_last; /* where this is called by what clears another box */
    clear_last = clear;
    release(box);
    REAL(g_atomic_rc_box_release_full)(box, clear_box);
    clear_last = outer;
}

void
g_atomic_rc_box_release(gpointer box)
{
    g_atomic_rc_box_release_full(box, NULL);
}

REMEMBER(g_atomic_ref_count_dec);
gboolean(g_atomic_ref_count_dec)(gatomicrefcount *count)
{
    release(count);
    gboolean last = REAL(g_atomic_ref_count_dec)(count);
    if (last)
        acquire(count);
    return last;
}
