#include "tls.h"

#include "errors.h"
#include "splice.h"

#include <errno.h>
#include <glib-unix.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#define PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define ACCEPT_MAX 16 /* in one turn of the main loop */
#define FAREWELL_SECONDS 5

struct WeftTls {
    int fd;
    guint source;
    guint connections;
    gint64 patience;
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priorities;
    WeftSplices *splices;
    GPtrArray *all; /* Line */
    WeftTlsAccepted accepted;
    gpointer data;
};

/* One connection. */
typedef struct {
    WeftTls *tls;
    int fd;
    int plain; /* our end of the pair; -1: the handshake is not done */
    struct sockaddr_storage address;
    socklen_t length;
    gnutls_session_t session;
    guint source;   /* of the handshake, and of the farewell */
    guint deadline; /* for either */
    WeftSplice *splice;
} Line;

static void
line_free(gpointer data)
{
    Line *line = data;
    g_ptr_array_remove_fast(line->tls->all, line);
    g_clear_handle_id(&line->source, g_source_remove);
    g_clear_handle_id(&line->deadline, g_source_remove);
    weft_splice_free(line->splice);
    if (line->plain >= 0) {
        gnutls_bye(line->session, GNUTLS_SHUT_WR);
        close(line->plain);
    }
    gnutls_deinit(line->session);
    close(line->fd);
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
    gssize n = gnutls_record_recv(io, bytes, size);
    /* Whoever hangs up without a word has ended too. */
    return n == GNUTLS_E_PREMATURE_TERMINATION ? 0 : as_errno(n);
}

static gssize
write_tls(int fd, gpointer io, const void *bytes, gsize size)
{
    return as_errno(gnutls_record_send(io, bytes, size));
}

static const WeftSpliceIo tls_io = { read_tls, write_tls };

/* --- handshake --- */

static gboolean
begin_splice(Line *line)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        g_warning("cannot take a connection: %s", g_strerror(errno));
        return FALSE;
    }
    line->plain = pair[0];
    WeftSpliceEnds ends = { .near = line->fd, .far = line->plain, .near_io = &tls_io, .io = line->session };
    line->splice = weft_splice_new(line->tls->splices, &ends, say_farewell, line);
    line->tls->accepted(pair[1], (const struct sockaddr *)&line->address, line->length, line->tls->data);
    return TRUE;
}

static gboolean on_handshake(int fd, GIOCondition condition, gpointer data);

static gboolean
shake_hands(Line *line)
{
    int result = gnutls_handshake(line->session);
    if (result == GNUTLS_E_SUCCESS) {
        g_clear_handle_id(&line->deadline, g_source_remove);
        return begin_splice(line);
    }
    if (gnutls_error_is_fatal(result))
        return FALSE;
    GIOCondition wanted = gnutls_record_get_direction(line->session) ? G_IO_OUT : G_IO_IN;
    line->source = g_unix_fd_add(line->fd, wanted, on_handshake, line);
    return TRUE;
}

static gboolean
on_handshake(int fd, GIOCondition condition, gpointer data)
{
    Line *line = data;
    line->source = 0;
    if (!shake_hands(line))
        line_free(line);
    return G_SOURCE_REMOVE;
}

static void
begin_line(WeftTls *tls, int fd, const struct sockaddr_storage *address, socklen_t length)
{
    Line *line = g_new0(Line, 1);
    line->tls = tls;
    line->fd = fd;
    line->plain = -1;
    line->address = *address;
    line->length = length;
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    gnutls_init(&line->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_priority_set(line->session, tls->priorities);
    gnutls_credentials_set(line->session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    gnutls_transport_set_int(line->session, fd);
    line->deadline = g_timeout_add((guint)CLAMP(tls->patience / 1000, 1, G_MAXINT), on_deadline, line);
    g_ptr_array_add(tls->all, line);
    if (!shake_hands(line))
        line_free(line);
}

static gboolean
on_connection(int listening, GIOCondition condition, gpointer data)
{
    WeftTls *tls = data;
    for (guint i = 0; i < ACCEPT_MAX; i++) {
        struct sockaddr_storage address = { 0 };
        socklen_t length = sizeof address;
        int fd = accept4(listening, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            break;
        if (tls->all->len < tls->connections)
            begin_line(tls, fd, &address, length);
        else
            close(fd);
    }
    return G_SOURCE_CONTINUE;
}

/* --- life --- */

WeftTls *
weft_tls_new(const WeftTlsOptions *options, WeftTlsAccepted accepted, gpointer data, GError **error)
{
    WeftTls *tls = g_new0(WeftTls, 1);
    tls->fd = options->fd;
    tls->connections = options->connections;
    tls->patience = options->patience;
    tls->accepted = accepted;
    tls->data = data;
    tls->all = g_ptr_array_new();
    tls->splices = weft_splices_new();
    gnutls_datum_t certificate = { (guchar *)options->certificate, (guint)strlen(options->certificate) };
    gnutls_datum_t key = { (guchar *)options->key, (guint)strlen(options->key) };
    gnutls_certificate_allocate_credentials(&tls->credentials);
    gnutls_priority_init(&tls->priorities, PRIORITIES, NULL);
    int result = gnutls_certificate_set_x509_key_mem(tls->credentials, &certificate, &key, GNUTLS_X509_FMT_PEM);
    if (result < 0) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED,
                    "cannot serve HTTPS: are the certificate and its key in PEM, and do they belong together? (%s)",
                    gnutls_strerror(result));
        weft_tls_free(tls);
        return NULL;
    }
    tls->source = g_unix_fd_add(tls->fd, G_IO_IN, on_connection, tls);
    return tls;
}

void
weft_tls_free(WeftTls *tls)
{
    if (!tls)
        return;
    g_clear_handle_id(&tls->source, g_source_remove);
    while (tls->all->len)
        line_free(tls->all->pdata[0]);
    g_ptr_array_unref(tls->all);
    weft_splices_free(tls->splices);
    gnutls_certificate_free_credentials(tls->credentials);
    gnutls_priority_deinit(tls->priorities);
    close(tls->fd);
    g_free(tls);
}
