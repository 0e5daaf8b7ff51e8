#include "tls.h"

#include "clock.h"
#include "splice.h"

#include <errno.h>
#include <glib-unix.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#define PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define FAREWELL_SECONDS 5

struct WeftTls {
    const WeftCertificates *certificates;
    gnutls_priority_t priorities;
    WeftSplices *splices;
    GPtrArray *all; /* Line */
    WeftTlsReady ready;
    gpointer data;
    GMainContext *context; /* of the thread that shakes hands */
    GMainLoop *loop;
    GThread *thread;
};

/* One connection. While hands are shaken it belongs to that thread, but for being shut down. */
typedef struct {
    WeftTls *tls;
    WeftConnection *connection;
    int fd;
    gnutls_session_t session; /* NULL: not begun */
    WeftCredentials *credentials;
    GSource *handshake; /* what its next step waits for, on either thread; NULL: the handshake is over */
    gboolean done;      /* … and has succeeded */

    int plain;      /* our end of the pair; -1: none */
    guint source;   /* of the farewell */
    guint deadline; /* for it */
    WeftSplice *splice;
} Line;

static void
clear_source(GSource **source)
{
    if (!*source)
        return;
    g_source_destroy(*source);
    g_clear_pointer(source, g_source_unref);
}

static void
line_free(gpointer data)
{
    Line *line = data;
    g_ptr_array_remove_fast(line->tls->all, line);
    clear_source(&line->handshake);
    g_clear_handle_id(&line->source, g_source_remove);
    g_clear_handle_id(&line->deadline, g_source_remove);
    weft_splice_free(line->splice);
    if (line->plain >= 0) {
        gnutls_bye(line->session, GNUTLS_SHUT_WR);
        close(line->plain);
    }
    if (line->session)
        gnutls_deinit(line->session);
    weft_credentials_unref(line->credentials);
    weft_connection_closed(line->connection);
    close(line->fd);
    weft_connection_unref(line->connection);
    g_free(line);
}

/* --- farewell --- */

static gboolean
on_deadline(gpointer data)
{
    ((Line *)data)->deadline = 0;
    line_free(data);
    return G_SOURCE_REMOVE;
}

static gboolean
on_discard(int fd, GIOCondition condition, gpointer data)
{
    guint8 bytes[4096];
    gssize n = recv(fd, bytes, sizeof bytes, 0);
    if (n > 0 || (n < 0 && errno == EAGAIN))
        return G_SOURCE_CONTINUE;
    ((Line *)data)->source = 0;
    line_free(data);
    return G_SOURCE_REMOVE;
}

/* A socket that is closed with bytes in it that nobody read takes back what it sent before: so the client goes first. */
static void
say_farewell(gpointer data)
{
    Line *line = data;
    g_clear_pointer(&line->splice, weft_splice_free);
    gnutls_bye(line->session, GNUTLS_SHUT_WR);
    shutdown(line->fd, SHUT_WR);
    close(line->plain);
    line->plain = -1;
    line->source = g_unix_fd_add(line->fd, G_IO_IN, on_discard, line);
    line->deadline = g_timeout_add_seconds(FAREWELL_SECONDS, on_deadline, line);
}

/* --- encrypted bytes --- */

static gssize
as_errno(gssize result)
{
    if (result >= 0)
        return result;
    errno = result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED || result == GNUTLS_E_WARNING_ALERT_RECEIVED
                ? EAGAIN
                : ECONNRESET;
    return -1;
}

static gssize
read_tls(int fd, gpointer io, void *bytes, gsize size)
{
    Line *line = io;
    gint64 began = weft_clock_thread();
    gssize n = gnutls_record_recv(line->session, bytes, size);
    line->connection->time += weft_clock_thread() - began;
    /* Whoever hangs up without a word has ended too. */
    return n == GNUTLS_E_PREMATURE_TERMINATION ? 0 : as_errno(n);
}

static gssize
write_tls(int fd, gpointer io, const void *bytes, gsize size)
{
    return as_errno(gnutls_record_send(((Line *)io)->session, bytes, size));
}

static const WeftSpliceIo tls_io = { read_tls, write_tls };

/* --- after the handshake --- */

static gboolean
begin_splice(Line *line)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        g_info("a connection of %s ends after its handshake: %s", line->connection->peer->party, g_strerror(errno));
        return FALSE;
    }
    line->plain = pair[0];
    /* TLS tells of no difference between a client that sends no more and one that is gone, and what is done for the latter has
     * to end. */
    WeftSpliceEnds ends = { .near = line->fd, .far = line->plain, .near_io = &tls_io, .io = line, .whole = TRUE };
    line->splice = weft_splice_new(line->tls->splices, &ends, say_farewell, line);
    line->tls->ready(line->connection, pair[1], line->tls->data);
    return TRUE;
}

static gboolean
on_shaken(gpointer data)
{
    Line *line = data;
    clear_source(&line->handshake);
    if (!line->done || !begin_splice(line))
        line_free(line);
    return G_SOURCE_REMOVE;
}

/* --- the handshake; thread: its own --- */

/* The next step of the line is on that context's thread, and the line belongs to it from now on. */
static void
go_on(Line *line, GSource *source, GSourceFunc step, GMainContext *context)
{
    g_clear_pointer(&line->handshake, g_source_unref);
    line->handshake = source;
    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, step, line, NULL);
    g_source_attach(source, context);
}

static gboolean on_handshake(int fd, GIOCondition condition, gpointer data);

static void
shake_hands(Line *line)
{
    gboolean given_up = g_atomic_int_get(&line->connection->given_up);
    char byte;
    if (!given_up && recv(line->fd, &byte, 1, MSG_PEEK) == 1)
        weft_connection_is_heard(line->connection);
    int result = given_up ? GNUTLS_E_SESSION_EOF : gnutls_handshake(line->session);
    if (result != GNUTLS_E_SUCCESS && !gnutls_error_is_fatal(result)) {
        GIOCondition wanted = gnutls_record_get_direction(line->session) ? G_IO_OUT : G_IO_IN;
        go_on(line, g_unix_fd_source_new(line->fd, wanted), G_SOURCE_FUNC(on_handshake), line->tls->context);
        return;
    }
    line->done = result == GNUTLS_E_SUCCESS;
    go_on(line, g_idle_source_new(), on_shaken, NULL);
}

static gboolean
on_handshake(int fd, GIOCondition condition, gpointer data)
{
    shake_hands(data);
    return G_SOURCE_REMOVE;
}

static gboolean
begin_handshake(gpointer data)
{
    Line *line = data;
    int yes = 1;
    setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    gnutls_init(&line->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_priority_set(line->session, line->tls->priorities);
    gnutls_credentials_set(line->session, GNUTLS_CRD_CERTIFICATE, weft_credentials_get(line->credentials));
    gnutls_transport_set_int(line->session, line->fd);
    shake_hands(line);
    return G_SOURCE_REMOVE;
}

static gpointer
run_handshakes(gpointer data)
{
    WeftTls *tls = data;
    g_main_context_push_thread_default(tls->context);
    g_main_loop_run(tls->loop);
    g_main_context_pop_thread_default(tls->context);
    return NULL;
}

/* --- life --- */

void
weft_tls_begin(WeftTls *tls, WeftConnection *connection)
{
    Line *line = g_new0(Line, 1);
    line->tls = tls;
    line->connection = weft_connection_ref(connection);
    line->credentials = weft_certificates_current(tls->certificates);
    line->fd = connection->fd;
    line->plain = -1;
    g_ptr_array_add(tls->all, line);
    go_on(line, g_idle_source_new(), begin_handshake, tls->context);
}

WeftTls *
weft_tls_new(const WeftCertificates *certificates, WeftTlsReady ready, gpointer data)
{
    WeftTls *tls = g_new0(WeftTls, 1);
    tls->ready = ready;
    tls->data = data;
    tls->all = g_ptr_array_new();
    tls->splices = weft_splices_new();
    tls->certificates = certificates;
    gnutls_priority_init(&tls->priorities, PRIORITIES, NULL);
    tls->context = g_main_context_new();
    tls->loop = g_main_loop_new(tls->context, FALSE);
    tls->thread = g_thread_new("handshakes", run_handshakes, tls);
    return tls;
}

static gboolean
quit(gpointer loop)
{
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}

/* By a source of its own: a loop that has not begun to run does not notice that it is to quit. */
static void
stop_thread(WeftTls *tls)
{
    GSource *source = g_idle_source_new();
    g_source_set_callback(source, quit, tls->loop, NULL);
    g_source_attach(source, tls->context);
    g_source_unref(source);
    g_thread_join(tls->thread);
}

void
weft_tls_free(WeftTls *tls)
{
    if (!tls)
        return;
    stop_thread(tls);
    while (tls->all->len)
        line_free(tls->all->pdata[0]);
    g_main_loop_unref(tls->loop);
    g_main_context_unref(tls->context);
    g_ptr_array_unref(tls->all);
    weft_splices_free(tls->splices);
    gnutls_priority_deinit(tls->priorities);
    g_free(tls);
}
