#include "tunnel.h"

#include "errors.h"
#include "terminal.h"

#include <errno.h>
#include <gio/gio.h>
#include <signal.h>

#define HEAD_MAX (16 * 1024)
#define PROBLEM_MAX (64 * 1024)
#define PATIENCE_MS 40000 /* a node has 30 s to answer */

struct WeftTunnel {
    char *url;
    CURL *easy;
    curl_socket_t fd;
    GString *begun;    /* came together with the answer to the upgrade */
    gboolean has_more; /* the last look found something */
    char detail[CURL_ERROR_SIZE];
};

void
weft_tunnel_free(WeftTunnel *tunnel)
{
    if (!tunnel)
        return;
    curl_easy_cleanup(tunnel->easy);
    g_string_free(tunnel->begun, TRUE);
    g_free(tunnel->url);
    g_free(tunnel);
}

int
weft_tunnel_fd(const WeftTunnel *tunnel)
{
    return tunnel->fd;
}

gboolean
weft_tunnel_has_more(const WeftTunnel *tunnel)
{
    return tunnel->has_more;
}

/* --- moving bytes --- */

static gssize
set_lost(const WeftTunnel *tunnel, GError **error)
{
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE,
                "weftd at %s ended the connection: the node or weftd was stopped, or your token was revoked", tunnel->url);
    return -1;
}

gssize
weft_tunnel_send(WeftTunnel *tunnel, const void *bytes, gsize size, GError **error)
{
    size_t sent = 0;
    CURLcode result = curl_easy_send(tunnel->easy, bytes, size, &sent);
    if (result == CURLE_OK)
        return (gssize)sent;
    return result == CURLE_AGAIN ? 0 : set_lost(tunnel, error);
}

gssize
weft_tunnel_receive(WeftTunnel *tunnel, void *bytes, gsize size, GError **error)
{
    if (tunnel->begun->len) {
        gsize n = MIN(size, tunnel->begun->len);
        memcpy(bytes, tunnel->begun->str, n);
        g_string_erase(tunnel->begun, 0, (gssize)n);
        return (gssize)n;
    }
    size_t got = 0;
    CURLcode result = curl_easy_recv(tunnel->easy, bytes, size, &got);
    tunnel->has_more = result == CURLE_OK && got > 0;
    if (tunnel->has_more)
        return (gssize)got;
    return result == CURLE_AGAIN ? 0 : set_lost(tunnel, error);
}

/* --- the upgrade --- */

static gboolean
wait_for(WeftTunnel *tunnel, short events, gint64 end, GError **error)
{
    struct pollfd fd = { tunnel->fd, events, 0 };
    gint64 left = MAX(0, (end - g_get_monotonic_time()) / 1000);
    int ready = weft_terminal_poll(&fd, 1, (int)left);
    if (ready > 0)
        return TRUE;
    if (ready < 0 && errno == EINTR) {
        int signal = weft_terminal_signal();
        if (!signal || signal == SIGWINCH)
            return TRUE;
        g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "interrupted");
        return FALSE;
    }
    return weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "weftd at %s gave no answer", tunnel->url);
}

static gboolean
send_all(WeftTunnel *tunnel, const char *text, gint64 end, GError **error)
{
    for (gsize sent = 0, size = strlen(text); sent < size;) {
        gssize n = weft_tunnel_send(tunnel, text + sent, size - sent, error);
        if (n < 0 || (n == 0 && !wait_for(tunnel, POLLOUT, end, error)))
            return FALSE;
        sent += (gsize)n;
    }
    return TRUE;
}

/* Reads on; FALSE at the end of the connection, too. */
static gboolean
read_on(WeftTunnel *tunnel, GString *text, gint64 end, GError **error)
{
    char buffer[4096];
    gssize n = weft_tunnel_receive(tunnel, buffer, sizeof buffer, error);
    if (n > 0)
        g_string_append_len(text, buffer, n);
    return n > 0 || (n == 0 && wait_for(tunnel, POLLIN, end, error));
}

static gsize
content_length(const char *head)
{
    g_autofree char *lower = g_ascii_strdown(head, -1);
    const char *found = strstr(lower, "\r\ncontent-length:");
    return found ? (gsize)g_ascii_strtoull(found + strlen("\r\ncontent-length:"), NULL, 10) : 0;
}

static gboolean
take_refusal(WeftTunnel *tunnel, long status, GString *text, gsize body, gint64 end, GError **error)
{
    gsize size = MIN(content_length(text->str), PROBLEM_MAX);
    while (text->len < body + size && read_on(tunnel, text, end, NULL))
        continue;
    weft_client_set_problem(status, text->str + body, text->len - body, error);
    return FALSE;
}

static gboolean
take_answer(WeftTunnel *tunnel, gint64 end, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    const char *blank = NULL;
    while (!(blank = strstr(text->str, "\r\n\r\n"))) {
        if (text->len > HEAD_MAX)
            return weft_error_refuse(error, WEFT_ERROR_FAILED, "weftd at %s answered with what is no HTTP", tunnel->url);
        if (!read_on(tunnel, text, end, error))
            return FALSE;
    }
    gsize body = (gsize)(blank - text->str) + strlen("\r\n\r\n");
    long status = g_str_has_prefix(text->str, "HTTP/1.1 ") ? strtol(text->str + strlen("HTTP/1.1 "), NULL, 10) : 0;
    if (status != 101)
        return take_refusal(tunnel, status, text, body, end, error);
    g_string_append_len(tunnel->begun, text->str + body, (gssize)(text->len - body));
    return TRUE;
}

static gboolean
dial(WeftTunnel *tunnel, WeftClient *client, const char *path, GError **error)
{
    weft_client_prepare(client, tunnel->easy, path);
    curl_easy_setopt(tunnel->easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(tunnel->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(tunnel->easy, CURLOPT_ERRORBUFFER, tunnel->detail);
    CURLcode result = curl_easy_perform(tunnel->easy);
    if (result != CURLE_OK) {
        weft_client_set_lost(client, tunnel->easy, result, tunnel->detail, error);
        return FALSE;
    }
    return curl_easy_getinfo(tunnel->easy, CURLINFO_ACTIVESOCKET, &tunnel->fd) == CURLE_OK;
}

WeftTunnel *
weft_tunnel_open(WeftClient *client, const char *path, const char *protocol, GError **error)
{
    g_autoptr(WeftTunnel) tunnel = g_new0(WeftTunnel, 1);
    gint64 end = g_get_monotonic_time() + PATIENCE_MS * G_TIME_SPAN_MILLISECOND;
    tunnel->url = g_strdup(weft_client_url(client));
    tunnel->begun = g_string_new(NULL);
    tunnel->easy = curl_easy_init();
    g_autofree char *text = weft_client_upgrade_text(client, path, protocol);
    if (!dial(tunnel, client, path, error) || !send_all(tunnel, text, end, error) || !take_answer(tunnel, end, error))
        return NULL;
    return g_steal_pointer(&tunnel);
}
