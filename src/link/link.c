#include "link-private.h"

#include "errors.h"

#include <string.h>
#include <sys/random.h>

#define FULL (256 * 1024) /* bytes that wait for the guest: until they are gone, nobody may add to them */
#define FACTS_MAX 32

static void
link_unref(WeftLink *link)
{
    if (--link->references > 0)
        return;
    g_hash_table_unref(link->sessions);
    g_ptr_array_unref(link->clients);
    g_ptr_array_unref(link->asks);
    g_free(link);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftLink, link_unref)

static WeftLink *
link_ref(WeftLink *link)
{
    link->references++;
    return link;
}

/* --- sessions --- */

static void
hold_clients(WeftLink *link, gboolean held)
{
    link->full = held;
    for (guint i = 0; i < link->clients->len; i++)
        weft_client_hold(link->clients->pdata[i], held);
}

void
weft_session_send(WeftSession *session, enum weft_frame_type type, gconstpointer payload, gsize length)
{
    WeftLink *link = session->link;
    if (!link->pipe)
        return;
    weft_pipe_send(link->pipe, session->id, type, payload, length);
    if (!link->full && weft_pipe_queued(link->pipe) > FULL)
        hold_clients(link, TRUE);
}

void
weft_session_begin(WeftSession *session, gconstpointer payload, gsize length)
{
    WeftLink *link = session->link;
    do
        link->last_id = link->last_id % (G_MAXUINT32 - 1) + 1;
    while (g_hash_table_contains(link->sessions, GUINT_TO_POINTER(link->last_id)));
    session->id = link->last_id;
    session->may_send = WEFT_WINDOW;
    session->may_receive = WEFT_WINDOW;
    g_hash_table_insert(link->sessions, GUINT_TO_POINTER(session->id), session);
    weft_session_send(session, WEFT_FRAME_OPEN, payload, length);
}

static void
leave(WeftSession *session)
{
    g_hash_table_remove(session->link->sessions, GUINT_TO_POINTER(session->id));
    session->id = 0;
}

void
weft_session_close(WeftSession *session)
{
    if (session->id == 0)
        return;
    weft_session_send(session, WEFT_FRAME_CLOSE, NULL, 0);
    /* What is on its way already, were it all single bytes. */
    session->link->stray =
        MIN(session->link->stray + WEFT_SESSION_QUEUE_MAX, (gsize)WEFT_SESSIONS_MAX * WEFT_SESSION_QUEUE_MAX);
    leave(session);
}

guint
weft_link_sessions(const WeftLink *link)
{
    return link->clients->len + link->asks->len;
}

/* --- the end --- */

static void
end_sessions(WeftLink *link, const GError *why)
{
    GHashTableIter iter;
    gpointer session;
    for (;;) {
        g_hash_table_iter_init(&iter, link->sessions);
        if (!g_hash_table_iter_next(&iter, NULL, &session))
            return;
        leave(session);
        ((WeftSession *)session)->ops->ended(session, why);
    }
}

/* The caller holds a reference: a callback may free the link. */
static void
fail(WeftLink *link, const GError *why)
{
    g_clear_pointer(&link->pipe, weft_pipe_free);
    gboolean greeted = link->state == WEFT_LINK_OPEN;
    end_sessions(link, why);
    if (greeted && link->lost)
        link->lost(link, why, link->data);
    else if (!greeted && link->greeted)
        link->greeted(link, NULL, why, link->data);
}

static void
break_off(WeftLink *link, const char *why)
{
    g_autoptr(GError) error = g_error_new(WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "the guest program %s", why);
    fail(link, error);
}

static void
ended(gpointer owner, const GError *error)
{
    g_autoptr(WeftLink) link = link_ref(owner);
    g_autoptr(GError) why = g_error_copy(error);
    g_prefix_error(&why, "the connection to the node ended: ");
    fail(link, why);
}

void
weft_link_free(WeftLink *link)
{
    if (!link)
        return;
    link->greeted = NULL;
    link->lost = NULL;
    for (guint i = link->asks->len; i > 0; i--)
        weft_ask_free(link->asks->pdata[i - 1]);
    g_autoptr(GError) why = g_error_new(WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "the connection to the node was closed");
    end_sessions(link, why);
    for (guint i = link->clients->len; i > 0; i--)
        weft_client_free(link->clients->pdata[i - 1]);
    g_clear_pointer(&link->pipe, weft_pipe_free);
    link_unref(link);
}

/* --- what the guest says --- */

static GHashTable *
read_facts(const guint8 *payload, gsize length)
{
    GHashTable *facts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    const char *end = (const char *)payload + length;
    for (const char *text = (const char *)payload; text < end && g_hash_table_size(facts) < FACTS_MAX;) {
        gsize n = strnlen(text, (gsize)(end - text));
        const char *equals = memchr(text, '=', n);
        if (equals && g_utf8_validate(text, (gssize)n, NULL))
            g_hash_table_insert(facts, g_strndup(text, (gsize)(equals - text)),
                                g_strndup(equals + 1, n - (gsize)(equals - text) - 1));
        text += n + 1;
    }
    return facts;
}

static void
welcome(WeftLink *link, const struct weft_frame *frame, const guint8 *payload)
{
    if (frame->session != 0 || frame->type != WEFT_FRAME_WELCOME) {
        break_off(link, "did not begin with a welcome");
        return;
    }
    g_autoptr(GHashTable) facts = read_facts(payload, frame->length);
    link->state = WEFT_LINK_OPEN;
    link->greeted(link, facts, NULL, link->data);
}

static const gboolean from_guest[WEFT_FRAME_TYPES] = {
    [WEFT_FRAME_DATA] = TRUE,   [WEFT_FRAME_ERROR_DATA] = TRUE, [WEFT_FRAME_EOF] = TRUE,
    [WEFT_FRAME_WINDOW] = TRUE, [WEFT_FRAME_EXIT] = TRUE,       [WEFT_FRAME_REFUSE] = TRUE,
};

/* FALSE: it broke the rules. */
static gboolean
admit(WeftSession *session, const struct weft_frame *frame, const guint8 *payload)
{
    if (!from_guest[frame->type] || !weft_frame_fits(frame))
        return FALSE;
    if (frame->type == WEFT_FRAME_WINDOW) {
        guint more = weft_be32(payload);
        if (more > WEFT_WINDOW_MAX || session->may_send + more > WEFT_WINDOW_MAX)
            return FALSE;
        session->may_send += more;
    } else if (frame->type == WEFT_FRAME_DATA || frame->type == WEFT_FRAME_ERROR_DATA) {
        if (frame->length > session->may_receive)
            return FALSE;
        session->may_receive -= frame->length;
    }
    return TRUE;
}

static void
route(WeftLink *link, const struct weft_frame *frame, const guint8 *payload)
{
    WeftSession *session = g_hash_table_lookup(link->sessions, GUINT_TO_POINTER(frame->session));
    gsize size = WEFT_FRAME_HEADER + (gsize)frame->length;
    if (!session && size <= link->stray) {
        link->stray -= size;
    } else if (!session) {
        break_off(link, "spoke of sessions that nobody opened");
    } else if (!admit(session, frame, payload)) {
        g_autoptr(GError) error =
            g_error_new(WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "the guest program did not keep to the protocol; restart the node");
        weft_session_close(session);
        session->ops->ended(session, error);
    } else {
        if (frame->type == WEFT_FRAME_EXIT || frame->type == WEFT_FRAME_REFUSE)
            leave(session);
        session->ops->deliver(session, frame, payload);
    }
}

/* A guest program that was started anew knows of no session: it says so by a sync that nobody asked for. */
static void
synced(WeftLink *link, const guint8 *nonce)
{
    if (link->state == WEFT_LINK_SYNCING && memcmp(nonce, link->nonce, sizeof link->nonce) == 0)
        link->state = WEFT_LINK_GREETING;
    else if (link->state == WEFT_LINK_SYNCING)
        weft_reader_hunt(&link->reader);
    else
        break_off(link, "was started anew");
}

static void
received(gpointer owner, const guint8 *bytes, gsize count)
{
    g_autoptr(WeftLink) link = link_ref(owner);
    while (link->pipe) {
        struct weft_frame frame;
        const guint8 *payload = NULL;
        switch (weft_reader_next(&link->reader, &bytes, &count, &frame, &payload)) {
        case WEFT_READ_MORE:
            return;
        case WEFT_READ_SYNC:
            synced(link, payload);
            break;
        case WEFT_READ_FRAME:
            (link->state == WEFT_LINK_GREETING ? welcome : route)(link, &frame, payload);
            break;
        case WEFT_READ_BROKEN:
            break_off(link, "sent something that is no frame");
            break;
        }
    }
}

static void
drained(gpointer owner)
{
    g_autoptr(WeftLink) link = link_ref(owner);
    if (link->full)
        hold_clients(link, FALSE);
    for (guint i = 0; i < link->asks->len; i++)
        weft_ask_resume(link->asks->pdata[i]);
}

/* --- the beginning --- */

/* The guest program may be in the middle of a frame that a conversation before this one began: it takes what comes first for
 * the rest of it, and the padding is no header. */
static void
send_sync(WeftLink *link)
{
    guint8 padding[WEFT_FRAME_MAX + WEFT_FRAME_HEADER];
    memset(padding, 0xff, sizeof padding);
    weft_pipe_write(link->pipe, padding, sizeof padding);
    weft_pipe_write(link->pipe, WEFT_SYNC, WEFT_SYNC_LENGTH);
    weft_pipe_write(link->pipe, link->nonce, sizeof link->nonce);
}

WeftLink *
weft_link_new(int fd, WeftLinkGreeted greeted, WeftLinkLost lost, gpointer data)
{
    static const WeftPipeOps ops = { received, drained, ended };
    WeftLink *link = g_new0(WeftLink, 1);
    link->references = 1;
    link->greeted = greeted;
    link->lost = lost;
    link->data = data;
    link->sessions = g_hash_table_new(NULL, NULL);
    link->clients = g_ptr_array_new();
    link->asks = g_ptr_array_new();
    weft_reader_hunt(&link->reader);
    while (getrandom(link->nonce, sizeof link->nonce, 0) != sizeof link->nonce)
        continue;
    link->pipe = weft_pipe_new(fd, &ops, link);
    send_sync(link);
    return link;
}
