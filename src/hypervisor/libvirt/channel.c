/* Between a libvirt stream and one end of a socket pair. All but sending happens on the main thread, driven by events; libvirt
 * has no way to send that never blocks, so each piece is sent by a helper thread while the socket is not read. */
#include "driver.h"
#include "errors.h"
#include "protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE (64u << 10)

typedef struct Pump {
    WeftVirHost *host;
    virConnect *conn; /* its own */
    virStream *stream;
    WeftChannel channel;
    char *claim; /* its name among the host's streams */

    int fd; /* from here main thread only; -1: closed */
    guint readable, writable, hangup;
    gboolean listening;  /* to the stream's events */
    gboolean ended;      /* the stream; what it gave may still be on its way */
    GByteArray *pending; /* from the stream, for the socket */
    guint taken;         /* bytes at its beginning that are gone already */

    char *piece; /* to the stream; a helper's while it is being sent */
    gsize piece_length;
    gboolean sent;
} Pump;

/* --- its end --- */

typedef struct Remains {
    virConnect *conn;
    virStream *stream;
} Remains;

static void
bury(gpointer data)
{
    g_autofree Remains *remains = data;
    if (remains->stream) {
        virStreamAbort(remains->stream);
        virStreamFree(remains->stream);
    }
    if (remains->conn)
        virConnectClose(remains->conn);
}

static void
pump_clear(gpointer data)
{
    Pump *pump = data;
    Remains *remains = g_new(Remains, 1);
    *remains = (Remains){ pump->conn, pump->stream };
    weft_vir_helper(bury, remains);
    if (pump->fd >= 0)
        close(pump->fd);
    g_byte_array_unref(pump->pending);
    g_free(pump->piece);
    g_free(pump->claim);
    weft_vir_host_unref(pump->host);
}

static void
pump_unref(gpointer pump)
{
    g_atomic_rc_box_release_full(pump, pump_clear);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Pump, pump_unref)

static void
give_up_claim(Pump *pump)
{
    g_mutex_lock(&pump->host->mutex);
    if (g_hash_table_lookup(pump->host->streams, pump->claim) == GINT_TO_POINTER(pump->fd))
        g_hash_table_remove(pump->host->streams, pump->claim);
    g_mutex_unlock(&pump->host->mutex);
}

static void
stop_listening(Pump *pump)
{
    if (pump->listening)
        virStreamEventRemoveCallback(pump->stream);
    pump->listening = FALSE;
}

/* Once; drops the reference that an open pump has on itself. From here on nobody would notice that the host is silent: what is
 * still being sent, and the farewell, must end some day. Before, libvirt's question whether it is alive could block the main
 * thread when a guest does not read. */
static void
pump_close(Pump *pump)
{
    if (pump->fd < 0)
        return;
    give_up_claim(pump);
    weft_vir_keep_alive(pump->conn, &pump->host->shared->options, NULL);
    g_clear_handle_id(&pump->readable, g_source_remove);
    g_clear_handle_id(&pump->writable, g_source_remove);
    g_clear_handle_id(&pump->hangup, g_source_remove);
    stop_listening(pump);
    shutdown(pump->fd, SHUT_RDWR); /* on_broken() has it too */
    close(pump->fd);
    pump->fd = -1;
    pump_unref(pump);
}

/* --- from the stream to the socket --- */

static gboolean on_writable(int fd, GIOCondition condition, gpointer data);

static guint
pending(const Pump *pump)
{
    return pump->pending->len - pump->taken;
}

/* Moves the rest to the front now and then, not each time. */
static void
forget_taken(Pump *pump, guint n)
{
    pump->taken += n;
    if (pump->taken < pump->pending->len / 2)
        return;
    g_byte_array_remove_range(pump->pending, 0, pump->taken);
    pump->taken = 0;
}

static void
flush(Pump *pump)
{
    gssize n = 0;
    while (pending(pump) > 0 && (n = send(pump->fd, pump->pending->data + pump->taken, pending(pump), MSG_NOSIGNAL)) > 0)
        forget_taken(pump, (guint)n);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        pump_close(pump);
        return;
    }
    if (pending(pump) > 0 && pump->writable == 0)
        pump->writable = g_unix_fd_add(pump->fd, G_IO_OUT, on_writable, pump);
    if (pending(pump) == 0 && pump->ended)
        pump_close(pump);
}

static gboolean
on_writable(int fd, GIOCondition condition, gpointer data)
{
    Pump *pump = data;
    pump->writable = 0;
    flush(pump);
    return G_SOURCE_REMOVE;
}

/* FALSE: it sent more than anybody has to bear. */
static gboolean
keep(Pump *pump, const char *data, gsize length)
{
    if (pending(pump) + length <= WEFT_STREAM_BUFFER)
        g_byte_array_append(pump->pending, (const guint8 *)data, (guint)length);
    else if (pump->channel == WEFT_CHANNEL_GUEST)
        return FALSE;
    return TRUE;
}

static void
on_stream(virStream *stream, int events, void *data)
{
    Pump *pump = data;
    char buffer[PIECE];
    int n = virStreamRecv(stream, buffer, sizeof buffer);
    if (n == -2)
        return;
    if (n <= 0) {
        pump->ended = TRUE;
        stop_listening(pump);
    } else if (!keep(pump, buffer, (gsize)n)) {
        pump_close(pump);
        return;
    }
    if (pump->writable == 0)
        flush(pump);
}

/* --- from the socket to the stream --- */

static gboolean
is_hung_up(int fd)
{
    GPollFD poll = { .fd = fd };
    return g_poll(&poll, 1, 0) > 0 && (poll.revents & (G_IO_HUP | G_IO_ERR | G_IO_NVAL));
}

static gboolean on_readable(int fd, GIOCondition condition, gpointer data);

static gboolean
on_sent(gpointer data)
{
    Pump *pump = data;
    if (pump->fd < 0)
        return G_SOURCE_REMOVE;
    if (pump->sent)
        pump->readable = g_unix_fd_add(pump->fd, G_IO_IN, on_readable, pump);
    else
        pump_close(pump);
    return G_SOURCE_REMOVE;
}

/* On a helper thread. */
static void
send_piece(gpointer data)
{
    Pump *pump = data;
    gsize at = 0;
    int n = 0;
    while (at < pump->piece_length && (n = virStreamSend(pump->stream, pump->piece + at, pump->piece_length - at)) > 0)
        at += (gsize)n;
    pump->sent = at == pump->piece_length;
    g_idle_add_full(G_PRIORITY_DEFAULT, on_sent, pump, pump_unref);
}

static gboolean
on_hangup(int fd, GIOCondition condition, gpointer data)
{
    Pump *pump = data;
    pump->hangup = 0;
    pump_close(pump);
    return G_SOURCE_REMOVE;
}

/* Whoever ended only its writing still reads: a stream cannot be closed by half, so it stays open. */
static gboolean
on_readable(int fd, GIOCondition condition, gpointer data)
{
    Pump *pump = data;
    gssize n = read(fd, pump->piece, PIECE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return G_SOURCE_CONTINUE;
    pump->readable = 0;
    if (n > 0) {
        pump->piece_length = (gsize)n;
        weft_vir_helper(send_piece, g_atomic_rc_box_acquire(pump));
    } else if (n < 0 || is_hung_up(fd)) {
        pump_close(pump);
    } else {
        pump->hangup = g_unix_fd_add(fd, G_IO_HUP, on_hangup, pump);
    }
    return G_SOURCE_REMOVE;
}

/* --- its beginning --- */

static gboolean
on_begin(gpointer data)
{
    Pump *pump = data;
    if (virStreamEventAddCallback(pump->stream, VIR_STREAM_EVENT_READABLE, on_stream, pump, NULL) < 0) {
        pump_close(pump);
        return G_SOURCE_REMOVE;
    }
    pump->listening = TRUE;
    pump->readable = g_unix_fd_add(pump->fd, G_IO_IN, on_readable, pump);
    return G_SOURCE_REMOVE;
}

typedef struct Opening {
    char *domain;
    WeftChannel channel;
    char *claim;
    int fd; /* the caller's end */
} Opening;

static void
opening_free(gpointer data)
{
    Opening *opening = data;
    if (opening->fd >= 0)
        close(opening->fd);
    g_free(opening->domain);
    g_free(opening->claim);
    g_free(opening);
}

static gboolean
fail_open(const Opening *opening, GError **error)
{
    const virError *failure = virGetLastError();
    if (failure && failure->code == VIR_ERR_OPERATION_INVALID)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "domain %s is not running", opening->domain);
    if (failure && failure->code == VIR_ERR_OPERATION_FAILED && g_str_has_prefix(failure->message, "operation failed: Active "))
        return weft_error_refuse(error, WEFT_ERROR_BUSY, "the console of domain %s is open already", opening->domain);
    return weft_vir_fail(error, "opening the stream of domain %s", opening->domain);
}

static gboolean
open_stream(Pump *pump, const Opening *opening, GError **error)
{
    g_autoptr(virDomain) domain = virDomainLookupByName(pump->conn, opening->domain);
    if (!domain)
        return weft_vir_fail(error, "looking for domain %s", opening->domain);
    pump->stream = virStreamNew(pump->conn, VIR_STREAM_NONBLOCK);
    if (!pump->stream)
        return weft_vir_fail(error, "making a stream");
    int failed = opening->channel == WEFT_CHANNEL_GUEST
                     ? virDomainOpenChannel(domain, WEFT_PORT_NAME, pump->stream, VIR_DOMAIN_CHANNEL_FORCE)
                     : virDomainOpenConsole(domain, NULL, pump->stream, 0);
    return failed == 0 || fail_open(opening, error);
}

/* libvirt does not tell a stream that its connection broke. thread: any. */
static void
on_broken(virConnect *conn, int reason, void *fd)
{
    shutdown(GPOINTER_TO_INT(fd), SHUT_RDWR);
}

static void
close_copy(void *fd)
{
    close(GPOINTER_TO_INT(fd));
}

/* The connection gets a copy of the descriptor and nothing else of ours: it may live longer. */
static gboolean
watch_connection(const Pump *pump, GError **error)
{
    int copy = fcntl(pump->fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "dup: %s", g_strerror(errno));
    if (virConnectRegisterCloseCallback(pump->conn, on_broken, GINT_TO_POINTER(copy), close_copy) == 0)
        return TRUE;
    close(copy);
    return weft_vir_fail(error, "watching the connection");
}

static gboolean
connect_pump(Pump *pump, Opening *opening, GError **error)
{
    int ends[2];
    pump->conn = weft_vir_dial(pump->host, error);
    if (!pump->conn || !open_stream(pump, opening, error))
        return FALSE;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "socketpair: %s", g_strerror(errno));
    pump->fd = ends[0];
    opening->fd = ends[1];
    return watch_connection(pump, error);
}

/* One stream of ours per channel. What its user has closed already does not count, though the main thread may not know yet. */
static gboolean
check_free(WeftVirHost *host, const char *claim, GError **error)
{
    gpointer fd;
    g_mutex_lock(&host->mutex);
    gboolean busy = g_hash_table_lookup_extended(host->streams, claim, NULL, &fd) && !is_hung_up(GPOINTER_TO_INT(fd));
    g_mutex_unlock(&host->mutex);
    return !busy || weft_error_refuse(error, WEFT_ERROR_BUSY, "the %s is open already", claim);
}

static Pump *
pump_new(WeftVirHost *host, const Opening *opening)
{
    Pump *pump = g_atomic_rc_box_new0(Pump);
    pump->host = weft_vir_host_ref(host);
    pump->channel = opening->channel;
    pump->claim = g_strdup(opening->claim);
    pump->fd = -1;
    pump->pending = g_byte_array_new();
    pump->piece = g_malloc(PIECE);
    return pump;
}

static gboolean
run_open(WeftCall *call, GError **error)
{
    Opening *opening = call->args;
    WeftVirHost *host = call->host;
    if (!check_free(host, opening->claim, error))
        return FALSE;
    g_autoptr(Pump) pump = pump_new(host, opening);
    if (!connect_pump(pump, opening, error))
        return FALSE;
    g_mutex_lock(&host->mutex);
    g_hash_table_replace(host->streams, g_strdup(pump->claim), GINT_TO_POINTER(pump->fd));
    g_mutex_unlock(&host->mutex);
    /* Its own reference until it is closed, and the one of its first event. */
    g_atomic_rc_box_acquire(pump);
    g_idle_add_full(G_PRIORITY_DEFAULT, on_begin, g_steal_pointer(&pump), pump_unref);
    return TRUE;
}

char *
weft_vir_stream_name(const char *domain, WeftChannel channel)
{
    return g_strdup_printf("%s of domain %s", channel == WEFT_CHANNEL_GUEST ? "guest channel" : "console", domain);
}

int
weft_vir_open(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftChannel channel,
              GCancellable *cancellable, GError **error)
{
    Opening *opening = g_new0(Opening, 1);
    opening->domain = g_strdup(domain);
    opening->channel = channel;
    opening->claim = weft_vir_stream_name(domain, channel);
    opening->fd = -1;
    g_autofree char *about = g_strdup(opening->claim);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_open, opening, opening_free);
    call->bare = TRUE;
    return weft_call_wait(call, about, cancellable, error) ? g_steal_fd(&opening->fd) : -1;
}
