#include "plugin-link.h"

#include "errors.h"

#include <gio/gunixsocketaddress.h>

#define CHUNK 65536
#define FOREVER G_MAXINT64

struct WeftPluginLink {
    GSocket *socket;
    WeftWireReader *reader;
    GQueue events; /* json_t, that came while an answer was waited for */
    json_int_t last;
};

/* --- where it is --- */

WeftPluginManager *
weft_plugin_manager_new(const char *address, const WeftForwardOptions *options, GError **error)
{
    g_autoptr(WeftPluginManager) manager = g_new0(WeftPluginManager, 1);
    manager->address = g_strdup(address);
    if (g_str_has_prefix(address, "ssh://")) {
        manager->forward = weft_forward_new(address, options, error);
        if (!manager->forward)
            return NULL;
        manager->path = g_strdup(weft_forward_path(manager->forward));
    } else if (g_path_is_absolute(address)) {
        manager->path = g_strdup(address);
    } else {
        weft_error_refuse(error, WEFT_ERROR_INVALID,
                          "manager \"%s\": give the path of its socket, or \"ssh://user@machine/run/weft-opensm.sock\"",
                          address);
        return NULL;
    }
    return g_steal_pointer(&manager);
}

void
weft_plugin_manager_free(WeftPluginManager *manager)
{
    if (!manager)
        return;
    weft_forward_free(manager->forward);
    g_free(manager->address);
    g_free(manager->path);
    g_free(manager);
}

/* --- bytes --- */

/* What GIO says, as one of ours. */
static gboolean
fail(GError *failed, const char *doing, GError **error)
{
    gboolean late =
        g_error_matches(failed, G_IO_ERROR, G_IO_ERROR_CANCELLED) || g_error_matches(failed, G_IO_ERROR, G_IO_ERROR_TIMED_OUT);
    weft_error_refuse(error, late ? WEFT_ERROR_TIMEOUT : WEFT_ERROR_UNAVAILABLE, "%s: %s", doing, failed->message);
    g_error_free(failed);
    return FALSE;
}

static gboolean
wait_until(WeftPluginLink *link, GIOCondition condition, gint64 deadline, GCancellable *cancellable, GError **error)
{
    gint64 left = deadline == FOREVER ? -1 : MAX(0, deadline - g_get_monotonic_time());
    return g_socket_condition_timed_wait(link->socket, condition, left, cancellable, error);
}

static gboolean
send_all(WeftPluginLink *link, GBytes *frame, gint64 deadline, GCancellable *cancellable, GError **error)
{
    gsize length, sent = 0;
    const char *bytes = g_bytes_get_data(frame, &length);
    GError *failed = NULL;
    while (sent < length && wait_until(link, G_IO_OUT, deadline, cancellable, &failed)) {
        gssize n = g_socket_send(link->socket, bytes + sent, length - sent, cancellable, &failed);
        if (n < 0 && !g_error_matches(failed, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK))
            break;
        g_clear_error(&failed);
        sent += n > 0 ? (gsize)n : 0;
    }
    return sent == length || fail(failed, "it does not take what is sent", error);
}

static gboolean
receive_some(WeftPluginLink *link, gint64 deadline, GCancellable *cancellable, GError **error)
{
    g_autofree guint8 *chunk = g_malloc(CHUNK);
    GError *failed = NULL;
    if (!wait_until(link, G_IO_IN, deadline, cancellable, &failed))
        return fail(failed, "no answer came", error);
    gssize n = g_socket_receive(link->socket, (char *)chunk, CHUNK, cancellable, &failed);
    if (n == 0)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "it hung up");
    if (n < 0 && g_error_matches(failed, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK)) {
        g_error_free(failed);
        return TRUE;
    }
    if (n < 0)
        return fail(failed, "no answer came", error);
    g_autoptr(GError) nonsense = NULL;
    return weft_wire_reader_feed(link->reader, chunk, (gsize)n, &nonsense) ||
           weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "it does not speak weft's protocol: %s", nonsense->message);
}

static json_t *
next_frame(WeftPluginLink *link, gint64 deadline, GCancellable *cancellable, GError **error)
{
    json_t *frame;
    while (!(frame = weft_wire_reader_next(link->reader)))
        if (!receive_some(link, deadline, cancellable, error))
            return NULL;
    return frame;
}

/* --- the link --- */

void
weft_plugin_link_free(WeftPluginLink *link)
{
    if (!link)
        return;
    g_clear_object(&link->socket);
    weft_wire_reader_free(link->reader);
    g_queue_clear_full(&link->events, (GDestroyNotify)json_decref);
    g_free(link);
}

static gboolean
dial(WeftPluginLink *link, const char *path, GError **error)
{
    GError *failed = NULL;
    g_autoptr(GSocketAddress) address = g_unix_socket_address_new(path);
    link->socket = g_socket_new(G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_DEFAULT, &failed);
    if (link->socket)
        g_socket_set_blocking(link->socket, FALSE);
    if (!link->socket || !g_socket_connect(link->socket, address, NULL, &failed))
        return fail(failed, path, error);
    return TRUE;
}

WeftPluginLink *
weft_plugin_link_new(WeftPluginManager *manager, gint64 deadline, GCancellable *cancellable, GError **error)
{
    g_autoptr(WeftPluginLink) link = g_new0(WeftPluginLink, 1);
    link->reader = weft_wire_reader_new(WEFT_WIRE_FRAME_MAX);
    if (manager->forward && !weft_forward_open(manager->forward, deadline, cancellable, error))
        return NULL;
    return dial(link, manager->path, error) ? g_steal_pointer(&link) : NULL;
}

json_t *
weft_plugin_link_ask(WeftPluginLink *link, json_t *request, gint64 deadline, GCancellable *cancellable, GError **error)
{
    json_object_set_new(request, "id", json_integer(++link->last));
    g_autoptr(GBytes) frame = weft_wire_frame(request);
    json_decref(request);
    if (g_bytes_get_size(frame) > WEFT_WIRE_REQUEST_MAX) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "a request of %zu bytes is too large for the plugin, which takes %u",
                          g_bytes_get_size(frame), WEFT_WIRE_REQUEST_MAX);
        return NULL;
    }
    if (!send_all(link, frame, deadline, cancellable, error))
        return NULL;
    for (json_t *answer; (answer = next_frame(link, deadline, cancellable, error));) {
        if (json_integer_value(json_object_get(answer, "id")) == link->last)
            return answer;
        g_queue_push_tail(&link->events, answer);
    }
    return NULL;
}

json_t *
weft_plugin_link_hear(WeftPluginLink *link, GCancellable *cancellable, GError **error)
{
    json_t *event = g_queue_pop_head(&link->events);
    return event ? event : next_frame(link, FOREVER, cancellable, error);
}

static WeftManager *
read_greeting(json_t *answer, GError **error)
{
    if (!weft_wire_check_answer(answer, error))
        return NULL;
    json_int_t protocol = json_integer_value(json_object_get(answer, "protocol"));
    if (protocol == WEFT_WIRE_PROTOCOL)
        return weft_wire_manager_from_json(json_object_get(answer, "manager"), error);
    weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                      "its plugin speaks protocol %" JSON_INTEGER_FORMAT
                      ", and weft %d; install the plugin that came with weft",
                      protocol, WEFT_WIRE_PROTOCOL);
    return NULL;
}

WeftManager *
weft_plugin_link_greet(WeftPluginLink *link, gint64 deadline, GCancellable *cancellable, GError **error)
{
    json_t *answer = weft_plugin_link_ask(link, json_pack("{ss}", "do", "hello"), deadline, cancellable, error);
    WeftManager *manager = answer ? read_greeting(answer, error) : NULL;
    json_decref(answer);
    return manager;
}
