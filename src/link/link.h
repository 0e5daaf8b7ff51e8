/* A conversation with the guest program of one node, over the descriptor that the hypervisor's open() gave. Many sessions share
 * it, each within its window. thread: main, nothing blocks. */
#pragma once

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftLink WeftLink;

/* Once, when the guest program has answered the sync. facts: its WELCOME, text to text, borrowed. Or error: the stream ended,
 * lost() will not run, free it. A callback may free the link. */
typedef void (*WeftLinkGreeted)(WeftLink *link, GHashTable *facts, const GError *error, gpointer data);
/* The stream ended or broke after the greeting; every session has been told. The link is of no use any more: free it. */
typedef void (*WeftLinkLost)(WeftLink *link, const GError *error, gpointer data);

/* Takes the descriptor over (non-blocking) and sends the sync. A guest that is still booting answers when it is up: it is up to
 * the caller how long to wait. */
WeftLink *weft_link_new(int fd, WeftLinkGreeted greeted, WeftLinkLost lost, gpointer data);
/* Ends every session. Callbacks do not run any more. NULL is fine. */
void weft_link_free(WeftLink *link);

/* A connection for a client that speaks frames itself, with WEFT_ONLY_SESSION, which it begins with OPEN. Only the kinds
 * that a tenant may ask for are let through. Its other end is the caller's, non-blocking; closing it ends the session. -1 with
 * an error: BUSY when the node has WEFT_SESSIONS_MAX, UNAVAILABLE before the greeting and after the loss. */
int weft_link_connect(WeftLink *link, GError **error);

typedef struct WeftQuestion {
    const char *kind;
    const char *input; /* copied; NULL: nothing */
    GBytes *more;      /* behind the input, shared with whoever asks the same of others; NULL: nothing */
} WeftQuestion;

/* weftd's own question: opens a session of its kind, sends the input and EOF, and gathers its output (at most 64 KiB).
 * Answers once, later. error: UNAVAILABLE before the greeting and when the link is lost, TIMEOUT when cancelled, FAILED with
 * the output's last line when it did not exit with 0 (then output is there, too), INVALID when it was refused. */
typedef void (*WeftLinkAnswered)(const char *output, const GError *error, gpointer data);
void weft_link_ask(WeftLink *link, const WeftQuestion *question, GCancellable *cancellable, WeftLinkAnswered answered,
                   gpointer data);

/* How many sessions are open: a link that nobody uses may be closed. */
guint weft_link_sessions(const WeftLink *link);
