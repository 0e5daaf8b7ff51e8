/* Connections of clients that speak frames themselves: what a tenant sends comes in here. */
#include "link-private.h"

#include "errors.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define LINGER_SECONDS 30 /* to read what is left */

struct WeftClient {
    WeftSession session;
    WeftPipe *pipe;
    struct weft_reader reader;
    guint linger; /* its session has ended: a timer */
};

static WeftClient *
client_of(WeftSession *session)
{
    return (WeftClient *)session;
}

void
weft_client_free(WeftClient *client)
{
    weft_session_close(&client->session);
    g_ptr_array_remove_fast(client->session.link->clients, client);
    weft_pipe_free(client->pipe);
    if (client->linger)
        g_source_remove(client->linger);
    g_free(client);
}

void
weft_client_hold(WeftClient *client, gboolean held)
{
    if (!client->linger)
        weft_pipe_hold(client->pipe, held);
}

static gboolean
lingered(gpointer client)
{
    ((WeftClient *)client)->linger = 0;
    weft_client_free(client);
    return G_SOURCE_REMOVE;
}

/* Lets it read what is queued, then closes. */
static void
finish(WeftClient *client)
{
    weft_pipe_hold(client->pipe, TRUE);
    client->linger = g_timeout_add_seconds(LINGER_SECONDS, lingered, client);
}

static void
refuse(WeftClient *client, const char *why)
{
    weft_session_close(&client->session);
    weft_pipe_send(client->pipe, WEFT_ONLY_SESSION, WEFT_FRAME_REFUSE, why, MIN(strlen(why), WEFT_FRAME_MAX));
    finish(client);
}

/* --- from the guest --- */

static void
deliver(WeftSession *session, const struct weft_frame *frame, const guint8 *payload)
{
    WeftClient *client = client_of(session);
    weft_pipe_send(client->pipe, WEFT_ONLY_SESSION, frame->type, payload, frame->length);
    if (session->id == 0)
        finish(client);
    else if (weft_pipe_queued(client->pipe) > WEFT_SESSION_QUEUE_MAX)
        refuse(client, "too much waits to be read");
}

static void
session_ended(WeftSession *session, const GError *why)
{
    refuse(client_of(session), why->message);
}

/* --- from the client --- */

static const char *
relay(WeftClient *client, const struct weft_frame *frame, const guint8 *payload)
{
    weft_session_send(&client->session, frame->type, payload, frame->length);
    return NULL;
}

static const char *
take_open(WeftClient *client, const struct weft_frame *frame, const guint8 *payload)
{
    if (client->session.id != 0)
        return "the session is open already";
    if (payload[frame->length - 1] != '\0')
        return "the last text of OPEN is not ended by NUL";
    if (strcmp((const char *)payload, "exec") != 0)
        return "sessions of this kind are not for clients; ask for \"exec\"";
    weft_session_begin(&client->session, payload, frame->length);
    return NULL;
}

static const char *
take_data(WeftClient *client, const struct weft_frame *frame, const guint8 *payload)
{
    if (client->session.eof)
        return "data came after its end";
    if (frame->length > client->session.may_send)
        return "more data came than the window allows";
    client->session.may_send -= frame->length;
    return relay(client, frame, payload);
}

static const char *
take_eof(WeftClient *client, const struct weft_frame *frame, const guint8 *payload)
{
    if (client->session.eof)
        return "its end came twice";
    client->session.eof = TRUE;
    return relay(client, frame, payload);
}

/* What waits in the queue counts as well: who allows more without having read keeps weftd from holding it. */
static const char *
take_window(WeftClient *client, const struct weft_frame *frame, const guint8 *payload)
{
    guint more = weft_be32(payload);
    gsize queued = MIN(weft_pipe_queued(client->pipe), WEFT_WINDOW_MAX);
    if (more > WEFT_WINDOW_MAX || client->session.may_receive + more + queued > WEFT_WINDOW_MAX)
        return "the window is larger than " G_STRINGIFY(WEFT_WINDOW_MAX) " bytes";
    client->session.may_receive += more;
    return relay(client, frame, payload);
}

/* NULL: all is well; else why the session ends. An empty text: because the client wants it. */
static const char *
take_close(WeftClient *client, const struct weft_frame *frame, const guint8 *payload)
{
    return "";
}

static const struct {
    const char *(*take)(WeftClient *client, const struct weft_frame *frame, const guint8 *payload);
} from_client[WEFT_FRAME_TYPES] = {
    [WEFT_FRAME_OPEN] = { take_open },     [WEFT_FRAME_DATA] = { take_data }, [WEFT_FRAME_EOF] = { take_eof },
    [WEFT_FRAME_WINDOW] = { take_window }, [WEFT_FRAME_SIGNAL] = { relay },   [WEFT_FRAME_RESIZE] = { relay },
    [WEFT_FRAME_CLOSE] = { take_close },
};

static const char *
take(WeftClient *client, const struct weft_frame *frame, const guint8 *payload)
{
    if (frame->session != WEFT_ONLY_SESSION)
        return "a connection has one session, number 1";
    if (!from_client[frame->type].take || !weft_frame_fits(frame))
        return "a frame is malformed or not for the node";
    if (client->session.id == 0 && frame->type != WEFT_FRAME_OPEN && frame->type != WEFT_FRAME_CLOSE)
        return "a session begins with OPEN";
    return from_client[frame->type].take(client, frame, payload);
}

static void
received(gpointer owner, const guint8 *bytes, gsize count)
{
    WeftClient *client = owner;
    while (!client->linger) {
        struct weft_frame frame;
        const guint8 *payload = NULL;
        enum weft_read result = weft_reader_next(&client->reader, &bytes, &count, &frame, &payload);
        if (result == WEFT_READ_MORE)
            return;
        const char *problem = result == WEFT_READ_FRAME ? take(client, &frame, payload) : "a frame is malformed";
        if (problem && *problem == '\0') {
            weft_client_free(client);
            return;
        }
        if (problem)
            refuse(client, problem);
    }
}

static void
drained(gpointer owner)
{
    WeftClient *client = owner;
    if (client->linger)
        weft_client_free(client);
}

static void
ended(gpointer owner, const GError *error)
{
    weft_client_free(owner);
}

int
weft_link_connect(WeftLink *link, GError **error)
{
    static const WeftPipeOps pipe_ops = { received, drained, ended };
    static const WeftSessionOps session_ops = { deliver, session_ended };
    int ends[2];
    if (!link->pipe || link->state != WEFT_LINK_OPEN) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "the guest program of the node does not answer");
        return -1;
    }
    if (link->clients->len >= WEFT_SESSIONS_MAX) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_BUSY, "the node has %d sessions already; end one, or try again later",
                    WEFT_SESSIONS_MAX);
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_BUSY, "no socket for the session: %s; try again later", g_strerror(errno));
        return -1;
    }
    WeftClient *client = g_new0(WeftClient, 1);
    client->session = (WeftSession){ .ops = &session_ops, .link = link };
    client->pipe = weft_pipe_new(ends[0], &pipe_ops, client);
    g_ptr_array_add(link->clients, client);
    weft_client_hold(client, link->full);
    return ends[1];
}
