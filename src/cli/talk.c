#include "talk.h"

#include "terminal.h"

#include <errno.h>
#include <gio/gio.h>
#include <signal.h>
#include <unistd.h>

#define CHUNK 4096                /* what a pipe takes for sure when poll() says that it takes something */
#define HOLD_MAX (64 * 1024)      /* bytes that wait for the standard output before no more is taken from the nodes */
#define LINE_MAX_BYTES (8 * 1024) /* a longer line is cut */
#define PATIENCE (2 * G_TIME_SPAN_SECOND)

enum { INPUT, OUTPUT, ERRORS, FIXED };

struct WeftTalk {
    gboolean labelled;
    gboolean reads; /* the standard input goes to the node */
    GPtrArray *sessions;
    GByteArray *held[WEFT_SESSION_STREAMS]; /* for the standard output and error */
    GArray *fds;                            /* struct pollfd: the fixed ones, then one for each session */
    int status;
    gint64 interrupted; /* when the last signal was sent on; 0: none was */
};

WeftTalk *
weft_talk_new(gboolean labelled, gboolean tty)
{
    WeftTalk *talk = g_new0(WeftTalk, 1);
    talk->labelled = labelled;
    talk->reads = !labelled;
    talk->sessions = g_ptr_array_new_with_free_func((GDestroyNotify)weft_session_free);
    for (guint i = 0; i < WEFT_SESSION_STREAMS; i++)
        talk->held[i] = g_byte_array_new();
    talk->fds = g_array_new(FALSE, TRUE, sizeof(struct pollfd));
    if (tty)
        weft_terminal_make_raw();
    return talk;
}

void
weft_talk_free(WeftTalk *talk)
{
    if (!talk)
        return;
    weft_terminal_restore();
    g_ptr_array_unref(talk->sessions);
    for (guint i = 0; i < WEFT_SESSION_STREAMS; i++)
        g_byte_array_unref(talk->held[i]);
    g_array_unref(talk->fds);
    g_free(talk);
}

void
weft_talk_add(WeftTalk *talk, WeftSession *session)
{
    g_ptr_array_add(talk->sessions, session);
    if (talk->labelled)
        weft_session_send_end(session);
}

int
weft_talk_status(const WeftTalk *talk)
{
    return talk->status;
}

/* --- from the nodes --- */

static void
hold(WeftTalk *talk, guint stream, const void *bytes, gsize size)
{
    g_byte_array_append(talk->held[stream], bytes, (guint)size);
}

/* Whole lines; the last one also without its end when nothing more comes. */
static void
hold_lines(WeftTalk *talk, WeftSession *session, guint stream)
{
    const GByteArray *came = weft_session_has(session, stream);
    const char *label = weft_session_label(session);
    while (came->len && talk->held[stream]->len < HOLD_MAX) {
        const guint8 *end = memchr(came->data, '\n', came->len);
        gboolean last = !end && (came->len >= LINE_MAX_BYTES || weft_session_is_at_end(session));
        if (!end && !last)
            return;
        gsize size = end ? (gsize)(end - came->data) : came->len;
        hold(talk, stream, label, strlen(label));
        hold(talk, stream, ": ", 2);
        hold(talk, stream, came->data, size);
        hold(talk, stream, "\n", 1);
        weft_session_take(session, stream, size + (end ? 1 : 0));
    }
}

static void
take_output(WeftTalk *talk, WeftSession *session)
{
    for (guint i = 0; i < WEFT_SESSION_STREAMS; i++) {
        const GByteArray *came = weft_session_has(session, i);
        if (talk->labelled) {
            hold_lines(talk, session, i);
        } else if (came->len && talk->held[i]->len < HOLD_MAX) {
            hold(talk, i, came->data, came->len);
            weft_session_take(session, i, came->len);
        }
    }
}

/* It has ended, and nothing of it is left. */
static gboolean
is_done(WeftTalk *talk, const WeftSession *session)
{
    int status = 0;
    if (!weft_session_has_ended(session, &status) || weft_session_has(session, WEFT_SESSION_OUTPUT)->len ||
        weft_session_has(session, WEFT_SESSION_ERRORS)->len)
        return FALSE;
    talk->status = MAX(talk->status, status);
    return TRUE;
}

static gboolean
move_sessions(WeftTalk *talk, GError **error)
{
    for (guint i = talk->sessions->len; i > 0; i--) {
        WeftSession *session = talk->sessions->pdata[i - 1];
        gboolean fine = weft_session_move(session, error);
        take_output(talk, session);
        if (!fine || is_done(talk, session))
            g_ptr_array_remove_index_fast(talk->sessions, i - 1);
        if (!fine)
            return FALSE;
    }
    return TRUE;
}

static void
write_held(WeftTalk *talk, guint stream, int fd)
{
    GByteArray *held = talk->held[stream];
    gssize n = write(fd, held->data, MIN(held->len, CHUNK));
    if (n > 0)
        g_byte_array_remove_range(held, 0, (guint)n);
    else if (n < 0 && errno != EINTR && errno != EAGAIN)
        g_byte_array_set_size(held, 0); /* as with a full disk: the program's status tells the rest */
}

/* --- to the nodes --- */

static void
read_input(WeftTalk *talk, WeftSession *session)
{
    guint8 bytes[8192];
    gssize n = read(STDIN_FILENO, bytes, MIN(sizeof bytes, weft_session_room(session)));
    if (n > 0)
        weft_session_send(session, bytes, (gsize)n);
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
        return;
    weft_session_send_end(session);
    talk->reads = FALSE;
}

/* The second one within a short time is for weft itself. */
static gboolean
pass_signals(WeftTalk *talk, GError **error)
{
    for (int number; (number = weft_terminal_signal());) {
        gint64 now = g_get_monotonic_time();
        if (number != SIGWINCH && talk->interrupted && now - talk->interrupted < PATIENCE) {
            g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "interrupted");
            return FALSE;
        }
        for (guint i = 0; i < talk->sessions->len; i++) {
            if (number == SIGWINCH)
                weft_session_send_size(talk->sessions->pdata[i]);
            else
                weft_session_send_signal(talk->sessions->pdata[i], number);
        }
        talk->interrupted = number == SIGWINCH ? talk->interrupted : now;
    }
    return TRUE;
}

/* --- the loop --- */

static int
prepare(WeftTalk *talk)
{
    g_array_set_size(talk->fds, FIXED + talk->sessions->len);
    struct pollfd *fds = (struct pollfd *)talk->fds->data;
    gboolean reads = talk->reads && talk->sessions->len == 1 && weft_session_room(talk->sessions->pdata[0]);
    fds[INPUT] = (struct pollfd){ reads ? STDIN_FILENO : -1, POLLIN, 0 };
    fds[OUTPUT] = (struct pollfd){ talk->held[WEFT_SESSION_OUTPUT]->len ? STDOUT_FILENO : -1, POLLOUT, 0 };
    fds[ERRORS] = (struct pollfd){ talk->held[WEFT_SESSION_ERRORS]->len ? STDERR_FILENO : -1, POLLOUT, 0 };
    int timeout = -1;
    for (guint i = 0; i < talk->sessions->len; i++)
        if (weft_session_prepare(talk->sessions->pdata[i], &fds[FIXED + i]) == 0)
            timeout = 0;
    return timeout;
}

static gboolean
turn(WeftTalk *talk, GError **error)
{
    int timeout = prepare(talk);
    const struct pollfd *fds = (const struct pollfd *)talk->fds->data;
    if (weft_terminal_poll((struct pollfd *)talk->fds->data, talk->fds->len, timeout) < 0)
        return pass_signals(talk, error);
    if (fds[OUTPUT].revents)
        write_held(talk, WEFT_SESSION_OUTPUT, STDOUT_FILENO);
    if (fds[ERRORS].revents)
        write_held(talk, WEFT_SESSION_ERRORS, STDERR_FILENO);
    if (fds[INPUT].revents)
        read_input(talk, talk->sessions->pdata[0]);
    return move_sessions(talk, error);
}

gboolean
weft_talk_until(WeftTalk *talk, guint fewer, GError **error)
{
    gboolean fine = TRUE;
    while (fine && talk->sessions->len >= MAX(fewer, 1))
        fine = turn(talk, error);
    while (talk->held[WEFT_SESSION_OUTPUT]->len || talk->held[WEFT_SESSION_ERRORS]->len)
        if (!turn(talk, fine ? error : NULL))
            return FALSE;
    return fine;
}
