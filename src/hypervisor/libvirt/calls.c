#include "driver.h"
#include "errors.h"

#define IDLE_LIMIT (15 * 60 * G_USEC_PER_SEC)

/* --- the hosts of a driver --- */

/* With the driver's mutex held. A host that nobody asks for was removed, or has another address now. */
static void
forget_idle(WeftLibvirt *driver, gint64 now)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, driver->hosts);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (now - ((WeftVirHost *)value)->used > IDLE_LIMIT)
            g_hash_table_iter_remove(&iter);
    }
}

static WeftVirHost *
find_host(WeftLibvirt *driver, const WeftHostAddress *address)
{
    gint64 now = g_get_monotonic_time();
    g_mutex_lock(&driver->mutex);
    WeftVirHost *host = g_hash_table_lookup(driver->hosts, address->name);
    if (!host || !g_str_equal(host->uri, address->uri)) {
        forget_idle(driver, now);
        host = weft_vir_host_new(driver->shared, address);
        g_hash_table_replace(driver->hosts, host->name, host);
    }
    host->used = now;
    weft_vir_host_ref(host);
    g_mutex_unlock(&driver->mutex);
    return host;
}

/* --- a call --- */

WeftCall *
weft_call_new(WeftHypervisor *hv, const WeftHostAddress *address, WeftCallRun run, gpointer args, GDestroyNotify args_free)
{
    WeftCall *call = g_atomic_rc_box_new0(WeftCall);
    call->host = find_host((WeftLibvirt *)hv, address);
    call->run = run;
    call->args = args;
    call->args_free = args_free;
    return call;
}

static void
call_clear(gpointer data)
{
    WeftCall *call = data;
    if (call->args_free)
        call->args_free(call->args);
    weft_vir_host_unref(call->host);
    g_clear_pointer(&call->made, g_ptr_array_unref);
    g_free(call->about);
    g_clear_error(&call->error);
}

void
weft_call_unref(WeftCall *call)
{
    g_atomic_rc_box_release_full(call, call_clear);
}

gboolean
weft_call_go_on(WeftCall *call, guint64 step, guint64 total, GError **error)
{
    g_mutex_lock(&call->host->mutex);
    gboolean abandoned = call->abandoned;
    if (total > 0) {
        call->step = step;
        call->total = total;
    }
    if (call->progress)
        g_cond_broadcast(&call->host->news);
    g_mutex_unlock(&call->host->mutex);
    return !abandoned || weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "cancelled");
}

/* --- its connection ---
 *
 * A connection serves one call at a time. libvirt allows more, but before 10.4 a client whose threads share a connection
 * crashes when it breaks (CVE-2024-4418). */

#define SPARES_MAX 4

/* With the mutex held. */
static void
take_connection(WeftCall *call)
{
    WeftVirHost *host = call->host;
    if (call->bare)
        return;
    if (!host->taken) {
        host->taken = call->primary = TRUE;
        call->conn = host->conn;
        virConnectRef(call->conn);
        return;
    }
    while ((call->conn = g_queue_pop_head(&host->spares)) && virConnectIsAlive(call->conn) != 1)
        weft_vir_goodbye(call->conn);
}

/* On a helper thread. */
static gboolean
dial_spare(WeftCall *call, GError **error)
{
    const WeftLibvirtOptions *options = &call->host->shared->options;
    g_autoptr(virConnect) conn = weft_vir_dial(call->host, error);
    if (!conn || !weft_vir_keep_alive(conn, options, error))
        return FALSE;
    call->conn = g_steal_pointer(&conn);
    g_mutex_lock(&call->host->mutex);
    weft_vir_forget_marks(call->host); /* perhaps the host has booted, and the first connection has not noticed */
    g_mutex_unlock(&call->host->mutex);
    return TRUE;
}

/* With the mutex held. What it returns is to be closed without it. */
static virConnect *
give_back(WeftCall *call, gboolean broken)
{
    WeftVirHost *host = call->host;
    virConnect *conn = g_steal_pointer(&call->conn);
    if (conn && host->conn == conn)
        host->taken = FALSE;
    else if (conn && host->conn && !broken && host->spares.length < SPARES_MAX && !call->primary) {
        g_queue_push_tail(&host->spares, conn);
        return NULL;
    }
    return conn;
}

/* --- on a helper thread --- */

static void
run_call(gpointer data)
{
    g_autoptr(WeftCall) call = data;
    WeftVirHost *host = call->host;
    GError *error = NULL;
    virResetLastError();
    gboolean ok = (call->bare || call->conn || dial_spare(call, &error)) && call->run(call, &error);
    g_clear_pointer(&call->pool, virStoragePoolFree);
    gboolean broken = !ok && call->conn && virConnectIsAlive(call->conn) != 1;
    if (broken && error->code != WEFT_ERROR_TIMEOUT)
        error->code = WEFT_ERROR_UNAVAILABLE;
    if (broken)
        weft_vir_host_lose(host, call->conn);

    g_mutex_lock(&host->mutex);
    call->done = TRUE;
    call->ok = ok;
    call->error = error;
    if (call->about)
        g_hash_table_remove(host->busy, call->about);
    if (call->abandoned)
        host->abandoned--;
    virConnect *unwanted = give_back(call, broken);
    g_cond_broadcast(&host->news);
    g_mutex_unlock(&host->mutex);
    if (unwanted)
        virConnectClose(unwanted);
}

/* With the mutex held from here on. */

static gboolean
take_turn(WeftCall *call, const char *about, GCancellable *cancellable, GError **error)
{
    while (about && g_hash_table_contains(call->host->busy, about)) {
        if (weft_vir_cancelled(cancellable, error))
            return FALSE;
        g_cond_wait(&call->host->news, &call->host->mutex);
    }
    call->about = g_strdup(about);
    if (about)
        g_hash_table_add(call->host->busy, call->about);
    return TRUE;
}

static gboolean
check_room(WeftCall *call, GError **error)
{
    const WeftVirHost *host = call->host;
    if (host->abandoned < host->shared->options.abandoned_max)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%u calls to it have not returned yet", host->abandoned);
}

static void
tell_progress(WeftCall *call, guint64 *told)
{
    if (!call->progress || call->step == *told)
        return;
    guint64 step = *told = call->step, total = call->total;
    g_mutex_unlock(&call->host->mutex);
    call->progress(step, total, call->progress_data);
    g_mutex_lock(&call->host->mutex);
}

static gboolean
wait_until_done(WeftCall *call, GCancellable *cancellable, GError **error)
{
    guint64 told = 0;
    while (!call->done) {
        if (weft_vir_cancelled(cancellable, error)) {
            call->abandoned = TRUE;
            call->host->abandoned++;
            return FALSE;
        }
        g_cond_wait(&call->host->news, &call->host->mutex);
        tell_progress(call, &told);
    }
    if (!call->ok)
        g_propagate_error(error, g_steal_pointer(&call->error));
    return call->ok;
}

static gboolean
wait_locked(WeftCall *call, const char *about, GCancellable *cancellable, GError **error)
{
    if (weft_vir_cancelled(cancellable, error) || !take_turn(call, about, cancellable, error))
        return FALSE;
    if (!check_room(call, error) || !weft_vir_await_connection(call->host, cancellable, error)) {
        if (about)
            g_hash_table_remove(call->host->busy, call->about);
        g_cond_broadcast(&call->host->news);
        return FALSE;
    }
    take_connection(call);
    weft_vir_helper(run_call, g_atomic_rc_box_acquire(call));
    return wait_until_done(call, cancellable, error);
}

static void
wake(GCancellable *cancellable, gpointer data)
{
    WeftVirHost *host = data;
    g_mutex_lock(&host->mutex);
    g_cond_broadcast(&host->news);
    g_mutex_unlock(&host->mutex);
}

gboolean
weft_call_wait(WeftCall *call, const char *about, GCancellable *cancellable, GError **error)
{
    gulong handler = cancellable ? g_cancellable_connect(cancellable, G_CALLBACK(wake), call->host, NULL) : 0;
    g_mutex_lock(&call->host->mutex);
    gboolean ok = wait_locked(call, about, cancellable, error);
    g_mutex_unlock(&call->host->mutex);
    if (handler)
        g_cancellable_disconnect(cancellable, handler);
    if (!ok)
        g_prefix_error(error, "host %s: ", call->host->name);
    return ok;
}
