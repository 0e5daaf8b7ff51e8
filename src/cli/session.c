#include "session.h"

#include "errors.h"
#include "reader.h"
#include "terminal.h"
#include "tunnel.h"

#define BLOCK (64 * 1024)
#define GRANT (WEFT_WINDOW / 4) /* smaller permissions wait until they are worth a frame */

struct WeftSession {
    char *label;
    WeftTunnel *tunnel;
    struct weft_reader reader;
    GByteArray *unsent;
    GByteArray *came[WEFT_SESSION_STREAMS];
    gsize may_send;
    gsize may_receive;
    gsize taken; /* and not yet granted again */
    gboolean at_end;
    gboolean ended;
    int status;
};

/* --- what goes out --- */

static void
send_frame(WeftSession *session, guint16 type, const void *payload, gsize length)
{
    struct weft_frame frame = { WEFT_ONLY_SESSION, type, (uint16_t)length };
    guint8 header[WEFT_FRAME_HEADER];
    weft_frame_encode(&frame, header);
    g_byte_array_append(session->unsent, header, sizeof header);
    if (length)
        g_byte_array_append(session->unsent, payload, (guint)length);
}

static void
send_number(WeftSession *session, guint16 type, guint32 number)
{
    guint8 payload[4];
    weft_put_be32(number, payload);
    send_frame(session, type, payload, sizeof payload);
}

gsize
weft_session_room(const WeftSession *session)
{
    return session->unsent->len < WEFT_WINDOW ? session->may_send : 0;
}

void
weft_session_send(WeftSession *session, const void *bytes, gsize size)
{
    for (gsize done = 0; done < size; done += MIN(size - done, WEFT_FRAME_MAX))
        send_frame(session, WEFT_FRAME_DATA, (const guint8 *)bytes + done, MIN(size - done, WEFT_FRAME_MAX));
    session->may_send -= size;
}

void
weft_session_send_end(WeftSession *session)
{
    send_frame(session, WEFT_FRAME_EOF, NULL, 0);
}

void
weft_session_send_signal(WeftSession *session, int number)
{
    send_number(session, WEFT_FRAME_SIGNAL, (guint32)number);
}

void
weft_session_send_size(WeftSession *session)
{
    guint rows, columns;
    weft_terminal_size(&rows, &columns);
    send_number(session, WEFT_FRAME_RESIZE, (guint32)(rows << 16 | (columns & 0xffff)));
}

/* --- what comes in --- */

static gboolean
take_data(WeftSession *session, guint stream, const struct weft_frame *frame, const guint8 *payload)
{
    if (frame->length > session->may_receive)
        return FALSE;
    session->may_receive -= frame->length;
    g_byte_array_append(session->came[stream], payload, frame->length);
    return TRUE;
}

static gboolean
take_window(WeftSession *session, const guint8 *payload)
{
    session->may_send += weft_be32(payload);
    return session->may_send <= G_MAXINT32;
}

static gboolean
take_exit(WeftSession *session, const guint8 *payload)
{
    session->status = (int)(weft_be32(payload) & 0xff);
    session->ended = session->at_end = TRUE;
    return TRUE;
}

static gboolean
take_refusal(const WeftSession *session, const struct weft_frame *frame, const guint8 *payload, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "node %s: %.*s", session->label, (int)frame->length,
                             (const char *)payload);
}

static gboolean
take_frame(WeftSession *session, const struct weft_frame *frame, const guint8 *payload, GError **error)
{
    gboolean sane = frame->session == WEFT_ONLY_SESSION && weft_frame_fits(frame) && !session->ended;
    if (sane && frame->type == WEFT_FRAME_REFUSE)
        return take_refusal(session, frame, payload, error);
    if (sane && frame->type == WEFT_FRAME_DATA)
        sane = take_data(session, WEFT_SESSION_OUTPUT, frame, payload);
    else if (sane && frame->type == WEFT_FRAME_ERROR_DATA)
        sane = take_data(session, WEFT_SESSION_ERRORS, frame, payload);
    else if (sane && frame->type == WEFT_FRAME_WINDOW)
        sane = take_window(session, payload);
    else if (sane && frame->type == WEFT_FRAME_EXIT)
        sane = take_exit(session, payload);
    else if (sane && frame->type == WEFT_FRAME_EOF)
        session->at_end = TRUE;
    else
        sane = FALSE;
    return sane ||
           weft_error_refuse(error, WEFT_ERROR_FAILED,
                             "node %s: sent what is no answer; are weft and weftd of the same version?", session->label);
}

static gboolean
take_bytes(WeftSession *session, const guint8 *bytes, gsize size, GError **error)
{
    struct weft_frame frame;
    const uint8_t *payload;
    size_t left = size;
    for (;;) {
        enum weft_read found = weft_reader_next(&session->reader, &bytes, &left, &frame, &payload);
        if (found == WEFT_READ_MORE)
            return TRUE;
        if (found != WEFT_READ_FRAME)
            frame = (struct weft_frame){ 0 };
        if (!take_frame(session, &frame, payload, error))
            return FALSE;
    }
}

const GByteArray *
weft_session_has(const WeftSession *session, guint stream)
{
    return session->came[stream];
}

void
weft_session_take(WeftSession *session, guint stream, gsize size)
{
    g_byte_array_remove_range(session->came[stream], 0, (guint)size);
    session->taken += size;
    if (session->taken < GRANT || session->ended)
        return;
    send_number(session, WEFT_FRAME_WINDOW, (guint32)session->taken);
    session->may_receive += session->taken;
    session->taken = 0;
}

gboolean
weft_session_has_ended(const WeftSession *session, int *ret_status)
{
    if (session->ended)
        *ret_status = session->status;
    return session->ended;
}

gboolean
weft_session_is_at_end(const WeftSession *session)
{
    return session->at_end;
}

/* --- moving --- */

int
weft_session_prepare(const WeftSession *session, struct pollfd *ret_fd)
{
    short events = POLLIN | (session->unsent->len ? POLLOUT : 0);
    *ret_fd = (struct pollfd){ session->ended ? -1 : weft_tunnel_fd(session->tunnel), events, 0 };
    return !session->ended && weft_tunnel_has_more(session->tunnel) ? 0 : -1;
}

static gboolean
send_unsent(WeftSession *session, GError **error)
{
    while (session->unsent->len) {
        gssize n = weft_tunnel_send(session->tunnel, session->unsent->data, session->unsent->len, error);
        if (n <= 0)
            return n == 0;
        g_byte_array_remove_range(session->unsent, 0, (guint)n);
    }
    return TRUE;
}

/* What came before the connection was lost counts: an exit status, or why it was refused. */
gboolean
weft_session_move(WeftSession *session, GError **error)
{
    guint8 block[BLOCK];
    GError *lost = NULL;
    if (session->ended)
        return TRUE;
    send_unsent(session, &lost);
    gssize n = weft_tunnel_receive(session->tunnel, block, sizeof block, lost ? NULL : &lost);
    if (n > 0 && !take_bytes(session, block, (gsize)n, error)) {
        g_clear_error(&lost);
        return FALSE;
    }
    if (n > 0 || !lost || session->ended) {
        g_clear_error(&lost);
        return TRUE;
    }
    g_propagate_prefixed_error(error, lost, "node %s: ", session->label);
    return FALSE;
}

gboolean
weft_session_turn(WeftSession *session, GError **error)
{
    struct pollfd fd;
    int timeout = weft_session_prepare(session, &fd);
    weft_terminal_poll(&fd, 1, timeout);
    return weft_session_move(session, error);
}

/* --- life --- */

static void
add_text(GByteArray *payload, const char *key, const char *value)
{
    g_byte_array_append(payload, (const guint8 *)key, (guint)strlen(key));
    g_byte_array_append(payload, (const guint8 *)value, (guint)strlen(value) + 1);
}

static void
add_number(GByteArray *payload, const char *key, guint number)
{
    g_autofree char *text = g_strdup_printf("%u", number);
    add_text(payload, key, text);
}

static void
add_terminal(GByteArray *payload)
{
    guint rows, columns;
    weft_terminal_size(&rows, &columns);
    add_text(payload, "tty=", "1");
    add_number(payload, "rows=", rows);
    add_number(payload, "cols=", columns);
    const char *kind = g_getenv("TERM");
    if (kind)
        add_text(payload, "env=TERM=", kind);
}

static gboolean
send_open(WeftSession *session, const WeftSessionSpec *spec, GError **error)
{
    g_autoptr(GByteArray) payload = g_byte_array_new();
    add_text(payload, "", "exec");
    for (char **word = spec->command; word && *word; word++)
        add_text(payload, "arg=", *word);
    if (spec->tty)
        add_terminal(payload);
    for (char **pair = spec->variables; pair && *pair; pair++)
        add_text(payload, "env=", *pair);
    if (spec->user)
        add_text(payload, "user=", spec->user);
    if (payload->len > WEFT_FRAME_MAX)
        return weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "the command and its variables have %u bytes and may have %d; put them into a file, and take it"
            " there with weft scp",
            payload->len, WEFT_FRAME_MAX);
    send_frame(session, WEFT_FRAME_OPEN, payload->data, payload->len);
    return TRUE;
}

WeftSession *
weft_session_open(WeftCli *cli, const char *cluster, guint rank, const WeftSessionSpec *spec, GError **error)
{
    g_autoptr(WeftSession) session = g_new0(WeftSession, 1);
    session->label = g_strdup_printf("%s[%u]", cluster, rank);
    session->unsent = g_byte_array_new();
    for (guint i = 0; i < WEFT_SESSION_STREAMS; i++)
        session->came[i] = g_byte_array_new();
    session->may_send = session->may_receive = WEFT_WINDOW;
    if (!send_open(session, spec, error))
        return NULL;
    g_autofree char *suffix = g_strdup_printf("/nodes/%u/session", rank);
    g_autofree char *path = weft_cli_cluster_path(cli, cluster, suffix);
    session->tunnel = weft_tunnel_open(cli->client, path, "weft-session/1", error);
    return session->tunnel ? g_steal_pointer(&session) : NULL;
}

void
weft_session_free(WeftSession *session)
{
    if (!session)
        return;
    weft_tunnel_free(session->tunnel);
    g_byte_array_unref(session->unsent);
    for (guint i = 0; i < WEFT_SESSION_STREAMS; i++)
        g_byte_array_unref(session->came[i]);
    g_free(session->label);
    g_free(session);
}

const char *
weft_session_label(const WeftSession *session)
{
    return session->label;
}
