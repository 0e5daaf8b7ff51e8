/* A program in a node: what it reads and writes, as frames over a tunnel. Nothing blocks but opening. */
#pragma once

#include "cli.h"

#include <glib.h>
#include <poll.h>

typedef struct WeftSession WeftSession;

typedef struct WeftSessionSpec {
    char **command;   /* NULL: a login shell */
    char **variables; /* "NAME=VALUE", NULL: none */
    const char *user; /* NULL: root */
    gboolean tty;     /* of the size of this terminal */
} WeftSessionSpec;

/* What comes from the node. */
enum { WEFT_SESSION_OUTPUT, WEFT_SESSION_ERRORS, WEFT_SESSION_STREAMS };

WeftSession *weft_session_open(WeftCli *cli, const char *cluster, guint rank, const WeftSessionSpec *spec, GError **error);
/* Hangs up if it still runs. NULL is fine. */
void weft_session_free(WeftSession *session);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftSession, weft_session_free)

const char *weft_session_label(const WeftSession *session); /* "cfd[3]" */

/* What to wait for; returns the longest time in ms, -1: any. After the wait, move what can be moved. FALSE: it is lost, or was
 * refused. */
int weft_session_prepare(const WeftSession *session, struct pollfd *ret_fd);
gboolean weft_session_move(WeftSession *session, GError **error);
/* Both in one, for who has nothing else to wait for. Ends early when a signal came. */
gboolean weft_session_turn(WeftSession *session, GError **error);

/* What came and was not yet taken. Taking it allows the node to send as much again. */
const GByteArray *weft_session_has(const WeftSession *session, guint stream);
void weft_session_take(WeftSession *session, guint stream, gsize size);
/* Has it ended? Then no more comes. */
gboolean weft_session_has_ended(const WeftSession *session, int *ret_status);
gboolean weft_session_is_at_end(const WeftSession *session); /* of what it writes */

/* How much may be sent now. */
gsize weft_session_room(const WeftSession *session);
void weft_session_send(WeftSession *session, const void *bytes, gsize size);
void weft_session_send_end(WeftSession *session); /* no more input */
void weft_session_send_signal(WeftSession *session, int number);
void weft_session_send_size(WeftSession *session);
