/* That the sanitizer finds what nothing orders, and is content with what GLib orders. Each case runs in a process of its own,
 * whose reports are not those of the tests. */
#include "wakeup.h"

#include <glib.h>

#define ROUNDS 200

static int shared; /* what the threads of a case race for */

/* --- what is not ordered --- */

static gpointer
count(gpointer data)
{
    for (int i = 0; i < ROUNDS; i++)
        shared++;
    return NULL;
}

static void
race(void)
{
    GThread *thread = g_thread_new("racer", count, NULL);
    count(NULL);
    g_thread_join(thread);
}

static gpointer
free_string(gpointer data)
{
    g_free(data);
    return NULL;
}

/* The two threads know of each other by nothing but time. */
static void
use_while_freed(void)
{
    char *text = g_strdup("text");
    GThread *thread = g_thread_new("racer", free_string, text);
    text[0] = 'T';
    g_thread_join(thread);
}

/* --- what is --- */

static GMutex mutex;
static GCond cond;
static GMainLoop *loop;
static GAsyncQueue *queue;

static gpointer
count_locked(gpointer data)
{
    for (int i = 0; i < ROUNDS; i++) {
        g_mutex_lock(&mutex);
        shared++;
        g_mutex_unlock(&mutex);
    }
    return NULL;
}

static void
lock(void)
{
    GThread *thread = g_thread_new("locker", count_locked, NULL);
    count_locked(NULL);
    g_mutex_lock(&mutex);
    shared++;
    g_mutex_unlock(&mutex);
    g_thread_join(thread);
}

static gpointer
wait_for_one(gpointer data)
{
    g_mutex_lock(&mutex);
    while (!shared)
        g_cond_wait(&cond, &mutex);
    shared = 2;
    g_cond_signal(&cond);
    g_mutex_unlock(&mutex);
    return NULL;
}

static void
wait(void)
{
    GThread *thread = g_thread_new("waiter", wait_for_one, NULL);
    g_mutex_lock(&mutex);
    shared = 1;
    g_cond_signal(&cond);
    while (shared != 2)
        g_cond_wait_until(&cond, &mutex, g_get_monotonic_time() + G_TIME_SPAN_SECOND);
    g_mutex_unlock(&mutex);
    g_thread_join(thread);
}

static void
add_item(gpointer item, gpointer data)
{
    shared += *(int *)item;
    g_free(item);
}

static void
use_pool(void)
{
    GThreadPool *pool = g_thread_pool_new(add_item, NULL, 1, FALSE, NULL);
    for (int i = 0; i < ROUNDS; i++)
        g_thread_pool_push(pool, g_memdup2(&i, sizeof i), NULL);
    g_thread_pool_free(pool, FALSE, TRUE);
    g_assert_cmpint(shared, ==, ROUNDS * (ROUNDS - 1) / 2);
}

static gpointer
take_items(gpointer data)
{
    for (int i = 0; i < ROUNDS; i++)
        add_item(g_async_queue_pop(queue), NULL);
    return NULL;
}

static void
use_queue(void)
{
    queue = g_async_queue_new();
    GThread *thread = g_thread_new("taker", take_items, NULL);
    for (int i = 0; i < ROUNDS; i++)
        g_async_queue_push(queue, g_memdup2(&i, sizeof i));
    g_thread_join(thread);
    g_async_queue_unref(queue);
}

static gboolean
end_loop(gpointer data)
{
    shared++;
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}

static gpointer
add_idle(gpointer data)
{
    shared++;
    g_idle_add(end_loop, NULL);
    return NULL;
}

static void
use_idle(void)
{
    loop = g_main_loop_new(NULL, FALSE);
    GThread *thread = g_thread_new("adder", add_idle, NULL);
    g_main_loop_run(loop);
    g_thread_join(thread);
    g_main_loop_unref(loop);
}

static void
woken(gpointer data)
{
    end_loop(NULL);
}

static gpointer
wake(gpointer wakeup)
{
    shared++;
    weft_wakeup_ask(wakeup);
    return NULL;
}

static void
use_wakeup(void)
{
    loop = g_main_loop_new(NULL, FALSE);
    GSource *wakeup = weft_wakeup_new(woken, NULL);
    GThread *thread = g_thread_new("waker", wake, wakeup);
    g_main_loop_run(loop);
    g_thread_join(thread);
    g_source_destroy(wakeup);
    g_source_unref(wakeup);
    g_main_loop_unref(loop);
}

/* Box: an int that each owner of a reference writes. */
static void
clear_box(gpointer box)
{
    *(int *)box = 0;
}

static gpointer
drop_box(gpointer box)
{
    g_atomic_rc_box_release_full(box, clear_box);
    return NULL;
}

static void
use_references(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        int *box = g_atomic_rc_box_new0(int);
        GThread *thread = g_thread_new("owner", drop_box, g_atomic_rc_box_acquire(box));
        shared = *box;
        drop_box(box);
        g_thread_join(thread);
    }
}

/* --- */

static const struct {
    const char *path;
    void (*run)(void);
    gboolean races;
} cases[] = {
    { "/tsan/race", race, TRUE },
    { "/tsan/use-while-freed", use_while_freed, TRUE },
    { "/tsan/mutex", lock, FALSE },
    { "/tsan/cond", wait, FALSE },
    { "/tsan/pool", use_pool, FALSE },
    { "/tsan/queue", use_queue, FALSE },
    { "/tsan/idle", use_idle, FALSE },
    { "/tsan/wakeup", use_wakeup, FALSE },
    { "/tsan/references", use_references, FALSE },
};

static void
test_case(gconstpointer data)
{
    guint i = GPOINTER_TO_UINT(data);
    if (g_test_subprocess()) {
        cases[i].run();
        return;
    }
    g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
    if (cases[i].races) {
        g_test_trap_assert_failed();
        g_test_trap_assert_stderr("*WARNING: ThreadSanitizer: *");
    } else {
        g_test_trap_assert_passed();
        g_test_trap_assert_stderr_unmatched("*WARNING: ThreadSanitizer: *");
    }
}

/* A subprocess tells its races on stderr, not where TSAN_OPTIONS has the reports of the tests written to. */
static void
report_on_stderr(void)
{
    const char *options = g_getenv("TSAN_OPTIONS");
    g_autofree char *more = g_strconcat(options ? options : "", ":log_path=stderr:exitcode=66", NULL);
    g_setenv("TSAN_OPTIONS", more, TRUE);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    report_on_stderr();
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++)
        g_test_add_data_func(cases[i].path, GUINT_TO_POINTER(i), test_case);
    return g_test_run();
}
