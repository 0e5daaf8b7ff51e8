#include "driver.h"
#include "errors.h"

#include <string.h>
#include <sys/socket.h>

/* Those that are dialled by TCP first. A name that ssh is given may be known to its configuration only. */
/* clang-format off */
static const struct {
    const char *transport;
    guint16 port;
} dialled[] = {
    { "tls", 16514 },
    { "tcp", 16509 },
};
/* clang-format on */

static guint16
default_port(const char *transport)
{
    for (gsize i = 0; i < G_N_ELEMENTS(dialled); i++) {
        if (g_str_equal(dialled[i].transport, transport))
            return dialled[i].port;
    }
    return 0;
}

static void
note_peer(WeftVirHost *host, GSocketConnection *connection)
{
    g_autoptr(GSocketAddress) peer = g_socket_connection_get_remote_address(connection, NULL);
    g_mutex_lock(&host->mutex);
    g_set_object(&host->peer, peer);
    g_mutex_unlock(&host->mutex);
}

/* libvirt itself gives up only when TCP does, after minutes. */
static gboolean
knock(WeftVirHost *host, GUri *uri, const char *transport, GError **error)
{
    const WeftLibvirtOptions *options = &host->shared->options;
    guint16 port = default_port(transport);
    if (port == 0)
        return TRUE;
    g_autoptr(GError) failed = NULL;
    g_autoptr(GSocketClient) client = g_socket_client_new();
    g_socket_client_set_enable_proxy(client, FALSE);
    g_socket_client_set_timeout(client, (guint)((options->dial_limit + G_USEC_PER_SEC - 1) / G_USEC_PER_SEC));
    if (g_uri_get_port(uri) > 0)
        port = (guint16)g_uri_get_port(uri);
    g_autoptr(GSocketConnection) connection = g_socket_client_connect_to_host(client, g_uri_get_host(uri), port, NULL, &failed);
    if (!connection)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s port %u: %s", g_uri_get_host(uri), port, failed->message);
    note_peer(host, connection);
    return TRUE;
}

static void
end_if_to(int fd, const struct sockaddr_storage *peer, gssize size)
{
    struct sockaddr_storage found = { 0 };
    socklen_t length = sizeof found;
    if (getpeername(fd, (struct sockaddr *)&found, &length) == 0 && length == size && memcmp(&found, peer, length) == 0)
        shutdown(fd, SHUT_RDWR);
}

static void
end_all_to(GSocketAddress *address)
{
    struct sockaddr_storage peer = { 0 };
    if (!g_socket_address_to_native(address, &peer, sizeof peer, NULL))
        return;
    g_autoptr(GDir) open = g_dir_open("/proc/self/fd", 0, NULL);
    for (const char *fd; open && (fd = g_dir_read_name(open));)
        end_if_to((int)g_ascii_strtoll(fd, NULL, 10), &peer, g_socket_address_get_native_size(address));
}

/* libvirt hides its sockets, but a call that waits on one for a host which has died meanwhile returns only when that ends. */
void
weft_vir_hang_up(WeftVirHost *host)
{
    if (!host->peer)
        return;
    for (guint i = 0; i < host->before->len; i++)
        end_all_to(g_ptr_array_index(host->before, i));
    end_all_to(host->peer);
    g_clear_object(&host->peer);
}

static const char *
transport_of(GUri *uri)
{
    const char *plus = strchr(g_uri_get_scheme(uri), '+');
    const char *host = g_uri_get_host(uri);
    if (plus)
        return plus + 1;
    return host && *host ? "tls" : "unix";
}

/* Nobody is there to type a password. */
static char *
without_questions(GUri *uri, const char *transport, const char *text)
{
    if (!g_str_equal(transport, "ssh"))
        return g_strdup(text);
    return g_strdup_printf("%s%sno_tty=1", text, g_uri_get_query(uri) ? "&" : "?");
}

static int
refuse_question(virConnectCredential *questions, unsigned n, void *data)
{
    return -1;
}

virConnect *
weft_vir_dial(WeftVirHost *host, GError **error)
{
    const char *text = host->uri;
    g_autoptr(GError) wrong = NULL;
    g_autoptr(GUri) uri = g_uri_parse(text, G_URI_FLAGS_NONE, &wrong);
    if (!uri) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "URI \"%s\": %s; it should look like qemu+tls://HOST/system", text,
                          wrong->message);
        return NULL;
    }
    const char *transport = transport_of(uri);
    if (!knock(host, uri, transport, error))
        return NULL;

    g_autofree char *quiet = without_questions(uri, transport, text);
    virConnectAuth nobody = { .cb = refuse_question };
    g_autoptr(virConnect) conn = virConnectOpenAuth(quiet, &nobody, 0);
    if (!conn) {
        weft_vir_fail(error, "connecting to %s", text);
        return NULL;
    }
    return g_steal_pointer(&conn);
}

/* A local driver has none (1), and needs none. */
gboolean
weft_vir_keep_alive(virConnect *conn, const WeftLibvirtOptions *options, GError **error)
{
    if (options->keepalive == 0 || virConnectSetKeepAlive(conn, (int)options->keepalive, options->keepalive_count) >= 0)
        return TRUE;
    return weft_vir_fail(error, "asking for keepalive");
}

/* --- a host's own connection --- */

typedef struct Dial {
    WeftVirHost *host;
    guint number;
} Dial;

/* With the mutex held. */
static void
note_failure(WeftVirHost *host, const char *reason)
{
    host->dial = 0;
    host->failures++;
    host->next_dial = g_get_monotonic_time() + weft_backoff_delay(&host->shared->options.backoff, host->failures);
    g_free(host->reason);
    host->reason = g_strdup(reason);
    g_cond_broadcast(&host->news);
}

/* With the mutex held. TRUE: the host has taken it. */
static gboolean
take_connection(WeftVirHost *host, guint number, virConnect *conn, const GError *failed)
{
    if (host->dial != number) { /* too late: given up */
        host->abandoned--;
        return FALSE;
    }
    if (!conn) {
        note_failure(host, failed->message);
        return FALSE;
    }
    host->dial = 0;
    host->failures = 0;
    g_cond_broadcast(&host->news);
    if (host->closed)
        return FALSE;
    host->conn = conn;
    host->taken = FALSE;
    weft_vir_forget_marks(host);
    return TRUE;
}

static void
run_dial(gpointer data)
{
    g_autofree Dial *dial = data;
    g_autoptr(WeftVirHost) host = dial->host;
    g_autoptr(GError) failed = NULL;
    g_autoptr(virConnect) conn = weft_vir_dial(host, &failed);
    if (conn && !weft_vir_keep_alive(conn, &host->shared->options, &failed))
        g_clear_pointer(&conn, virConnectClose);
    if (conn)
        weft_vir_events_add(host, conn);

    g_mutex_lock(&host->mutex);
    gboolean taken = take_connection(host, dial->number, conn, failed);
    g_mutex_unlock(&host->mutex);

    if (!taken)
        return;
    conn = NULL;
    weft_vir_tell(host, WEFT_NEWS_MISSED, NULL);
}

/* With the mutex held. */
static void
begin_dial(WeftVirHost *host)
{
    host->dial = ++host->dials;
    host->dial_deadline = g_get_monotonic_time() + host->shared->options.dial_limit;
    Dial *dial = g_new(Dial, 1);
    *dial = (Dial){ weft_vir_host_ref(host), host->dial };
    weft_vir_helper(run_dial, dial);
}

gboolean
weft_vir_cancelled(GCancellable *cancellable, GError **error)
{
    if (!g_cancellable_is_cancelled(cancellable))
        return FALSE;
    weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "cancelled");
    return TRUE;
}

static void
wait_for_dial(WeftVirHost *host)
{
    guint number = host->dial;
    if (g_cond_wait_until(&host->news, &host->mutex, host->dial_deadline) || host->dial != number)
        return;
    host->abandoned++;
    weft_vir_hang_up(host);
    g_autofree char *reason =
        g_strdup_printf("%s does not answer within %g s", host->uri, (double)host->shared->options.dial_limit / G_USEC_PER_SEC);
    note_failure(host, reason);
}

gboolean
weft_vir_await_connection(WeftVirHost *host, GCancellable *cancellable, GError **error)
{
    for (;;) {
        if (weft_vir_cancelled(cancellable, error))
            return FALSE;
        if (host->closed)
            return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "its address has changed, or weftd ends");
        if (host->conn)
            return TRUE;
        if (host->dial == 0 && g_get_monotonic_time() < host->next_dial)
            return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s", host->reason);
        if (host->dial == 0)
            begin_dial(host);
        wait_for_dial(host);
    }
}
