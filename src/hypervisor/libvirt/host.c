#include "driver.h"

#include <sys/socket.h>

typedef struct Errand {
    void (*run)(gpointer data);
    gpointer data;
} Errand;

static void
run_errand(gpointer data, gpointer unused)
{
    g_autofree Errand *errand = data;
    errand->run(errand->data);
}

/* For the life of the process, as a call that was left behind may outlive any driver. How many threads there are is bounded
 * where calls begin. */
void
weft_vir_helper(void (*run)(gpointer data), gpointer data)
{
    static gsize once;
    static GThreadPool *helpers;
    if (g_once_init_enter(&once)) {
        helpers = g_thread_pool_new(run_errand, NULL, -1, FALSE, NULL);
        g_once_init_leave(&once, 1);
    }
    Errand *errand = g_new(Errand, 1);
    *errand = (Errand){ run, data };
    g_thread_pool_push(helpers, errand, NULL);
}

static void
shared_clear(gpointer data)
{
    WeftShared *shared = data;
    g_hash_table_unref(shared->hashed);
    g_mutex_clear(&shared->mutex);
}

void
weft_shared_unref(WeftShared *shared)
{
    g_atomic_rc_box_release_full(shared, shared_clear);
}

WeftVirHost *
weft_vir_host_new(WeftShared *shared, const WeftHostAddress *address)
{
    WeftVirHost *host = g_atomic_rc_box_new0(WeftVirHost);
    host->shared = g_atomic_rc_box_acquire(shared);
    host->name = g_strdup(address->name);
    host->uri = g_strdup(address->uri);
    g_mutex_init(&host->mutex);
    g_cond_init(&host->news);
    host->busy = g_hash_table_new(g_str_hash, g_str_equal);
    host->marks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    host->before = g_ptr_array_new_with_free_func(g_object_unref);
    g_queue_init(&host->spares);
    host->primed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)weft_vir_primed_unref);
    host->streams = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    host->networks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)weft_host_network_free);
    return host;
}

WeftVirHost *
weft_vir_host_ref(WeftVirHost *host)
{
    return g_atomic_rc_box_acquire(host);
}

static void
host_clear(gpointer data)
{
    WeftVirHost *host = data;
    g_hash_table_unref(host->busy);
    g_hash_table_unref(host->marks);
    g_hash_table_unref(host->networks);
    g_hash_table_unref(host->primed);
    g_hash_table_unref(host->streams);
    g_ptr_array_unref(host->before);
    g_cond_clear(&host->news);
    g_mutex_clear(&host->mutex);
    g_free(host->reason);
    g_clear_object(&host->peer);
    g_free(host->name);
    g_free(host->uri);
    weft_shared_unref(host->shared);
}

void
weft_vir_host_unref(WeftVirHost *host)
{
    g_atomic_rc_box_release_full(host, host_clear);
}

static void
say_goodbye(gpointer conn)
{
    virConnectClose(conn);
}

void
weft_vir_goodbye(virConnect *conn)
{
    weft_vir_helper(say_goodbye, conn);
}

void
weft_vir_forget_marks(WeftVirHost *host)
{
    g_hash_table_remove_all(host->marks);
    host->forgotten++;
}

/* With the mutex held. The streams have connections of their own, which nobody asks whether they are alive. */
static void
drop_connections(WeftVirHost *host)
{
    GHashTableIter iter;
    gpointer fd;
    if (host->conn)
        weft_vir_goodbye(g_steal_pointer(&host->conn));
    for (gpointer spare; (spare = g_queue_pop_head(&host->spares));)
        weft_vir_goodbye(spare);
    host->pool = FALSE;
    weft_vir_forget_marks(host);
    g_hash_table_iter_init(&iter, host->streams);
    while (g_hash_table_iter_next(&iter, NULL, &fd))
        shutdown(GPOINTER_TO_INT(fd), SHUT_RDWR);
    g_cond_broadcast(&host->news);
}

void
weft_vir_host_close(WeftVirHost *host)
{
    g_mutex_lock(&host->mutex);
    host->closed = TRUE;
    drop_connections(host);
    g_mutex_unlock(&host->mutex);
}

void
weft_vir_host_lose(WeftVirHost *host, virConnect *conn)
{
    g_mutex_lock(&host->mutex);
    gboolean lost = host->conn == conn && !host->closed;
    if (lost) {
        drop_connections(host);
        weft_vir_hang_up(host);
    }
    g_mutex_unlock(&host->mutex);
    if (lost)
        weft_vir_tell(host, WEFT_NEWS_CHANGED, NULL);
}
