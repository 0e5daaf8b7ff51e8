/* weftd's own questions to a guest program. */
#include "link-private.h"

#include "clock.h"
#include "errors.h"

#include <string.h>

#define OUTPUT_MAX WEFT_WINDOW /* so that no window need ever be given for more */
#define ANSWER_MAX 500
#define PARTS 2

struct WeftAsk {
    WeftSession session;
    GBytes *input[PARTS]; /* what is to be sent, one after the other */
    guint part;           /* … of which this one is being sent */
    gsize sent;           /* … so far */
    GString *output;
    GSource *cancelled; /* NULL: nobody can */
    guint later;        /* it failed before it began */
    WeftLinkAnswered answered;
    gpointer data;
};

void
weft_ask_free(WeftAsk *ask)
{
    weft_session_close(&ask->session);
    g_ptr_array_remove_fast(ask->session.link->asks, ask);
    if (ask->cancelled) {
        g_source_destroy(ask->cancelled);
        g_source_unref(ask->cancelled);
    }
    if (ask->later)
        g_source_remove(ask->later);
    g_string_free(ask->output, TRUE);
    for (guint i = 0; i < PARTS; i++)
        g_bytes_unref(ask->input[i]);
    g_free(ask);
}

/* The callback may free the link. */
static void
answer(WeftAsk *ask, const GError *error)
{
    WeftLinkAnswered answered = ask->answered;
    gpointer data = ask->data;
    g_autofree char *output = g_string_free(ask->output, FALSE);
    ask->output = g_string_new(NULL);
    weft_ask_free(ask);
    answered(!error || g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED) ? output : NULL, error, data);
}

static void
fail(WeftAsk *ask, WeftErrorCode code, const char *why)
{
    g_autoptr(GError) error = g_error_new_literal(WEFT_ERROR, (gint)code, why);
    answer(ask, error);
}

static gboolean
cancelled(GCancellable *cancellable, gpointer ask)
{
    fail(ask, WEFT_ERROR_TIMEOUT, "the node did not answer in time");
    return G_SOURCE_REMOVE;
}

static gboolean
too_early(gpointer data)
{
    WeftAsk *ask = data;
    ask->later = 0;
    fail(ask, WEFT_ERROR_UNAVAILABLE, "the guest program of the node does not answer");
    return G_SOURCE_REMOVE;
}

/* Fit for an error message, a log and a terminal, whatever the guest said. */
static char *
last_line(const char *output, gssize length)
{
    g_autofree char *text = g_utf8_make_valid(output, length);
    g_strchomp(text);
    const char *start = strrchr(text, '\n');
    GString *line = g_string_new(NULL);
    guint chars = 0;
    for (const char *p = start ? start + 1 : text; *p && chars < ANSWER_MAX; p = g_utf8_next_char(p), chars++) {
        gunichar c = g_utf8_get_char(p);
        g_string_append_unichar(line, g_unichar_isprint(c) ? c : '?');
    }
    return g_string_free(line, FALSE);
}

static void
exited(WeftAsk *ask, guint status)
{
    g_autofree char *line = last_line(ask->output->str, (gssize)ask->output->len);
    g_autofree char *why = *line ? g_strdup(line) : g_strdup_printf("it ended with status %u", status);
    if (status == 0)
        answer(ask, NULL);
    else
        fail(ask, WEFT_ERROR_FAILED, why);
}

static void
gather(WeftAsk *ask, const guint8 *bytes, gsize count)
{
    if (ask->output->len + count < OUTPUT_MAX)
        g_string_append_len(ask->output, (const char *)bytes, (gssize)count);
    else
        fail(ask, WEFT_ERROR_FAILED, "the node answered with more text than anyone asked for");
}

static void
deliver(WeftSession *session, const struct weft_frame *frame, const guint8 *payload)
{
    WeftAsk *ask = (WeftAsk *)session;
    g_autofree char *text = NULL;
    switch (frame->type) {
    case WEFT_FRAME_DATA:
    case WEFT_FRAME_ERROR_DATA:
        gather(ask, payload, frame->length);
        break;
    case WEFT_FRAME_WINDOW:
        weft_ask_resume(ask);
        break;
    case WEFT_FRAME_EXIT:
        exited(ask, weft_be32(payload));
        break;
    case WEFT_FRAME_REFUSE:
        text = last_line((const char *)payload, frame->length);
        fail(ask, WEFT_ERROR_INVALID, *text ? text : "the node refused it, and did not say why");
        break;
    default:
        break;
    }
}

static void
session_ended(WeftSession *session, const GError *why)
{
    answer((WeftAsk *)session, why);
}

void
weft_ask_resume(WeftAsk *ask)
{
    WeftSession *session = &ask->session;
    while (session->id != 0 && !session->link->full && !session->eof) {
        gsize length;
        const guint8 *bytes = g_bytes_get_data(ask->input[ask->part], &length);
        if (ask->sent == length && ask->part + 1 < PARTS) {
            ask->part++;
            ask->sent = 0;
            continue;
        }
        gsize n = MIN(MIN(length - ask->sent, session->may_send), WEFT_FRAME_MAX);
        if (n == 0 && ask->sent < length)
            return;
        session->eof = n == 0;
        weft_session_send(session, n ? WEFT_FRAME_DATA : WEFT_FRAME_EOF, n ? bytes + ask->sent : NULL, n);
        session->may_send -= n;
        ask->sent += n;
    }
}

/* With the time of now: a node that stood still sets its clock by it. */
static void
open_session(WeftAsk *ask, const char *kind)
{
    g_autofree char *text = g_strdup_printf("%s\nnow=%" G_GINT64_FORMAT, kind, weft_clock_now());
    gsize length = strlen(text) + 1;
    text[strlen(kind)] = '\0';
    weft_session_begin(&ask->session, text, length);
}

void
weft_link_ask(WeftLink *link, const WeftQuestion *question, GCancellable *cancellable, WeftLinkAnswered answered, gpointer data)
{
    static const WeftSessionOps ops = { deliver, session_ended };
    WeftAsk *ask = g_new0(WeftAsk, 1);
    ask->session = (WeftSession){ .ops = &ops, .link = link };
    ask->input[0] = g_bytes_new(question->input, question->input ? strlen(question->input) : 0);
    ask->input[1] = question->more ? g_bytes_ref(question->more) : g_bytes_new(NULL, 0);
    ask->output = g_string_new(NULL);
    ask->answered = answered;
    ask->data = data;
    g_ptr_array_add(link->asks, ask);
    if (cancellable) {
        ask->cancelled = g_cancellable_source_new(cancellable);
        g_source_set_callback(ask->cancelled, G_SOURCE_FUNC(cancelled), ask, NULL);
        g_source_attach(ask->cancelled, NULL);
    }
    if (!link->pipe || link->state != WEFT_LINK_OPEN) {
        ask->later = g_idle_add(too_early, ask);
        return;
    }
    open_session(ask, question->kind);
    weft_ask_resume(ask);
}
