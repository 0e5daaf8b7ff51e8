/* What a link and its sessions share. */
#pragma once

#include "link.h"
#include "pipe.h"
#include "reader.h"

#include <glib.h>

typedef struct WeftSession WeftSession;

typedef struct WeftSessionOps {
    /* A frame of its own from the guest, well-formed and within its window. After EXIT and REFUSE it has left the link. */
    void (*deliver)(WeftSession *session, const struct weft_frame *frame, const guint8 *payload);
    /* The link ended it: it has left the link. */
    void (*ended)(WeftSession *session, const GError *why);
} WeftSessionOps;

struct WeftSession {
    const WeftSessionOps *ops;
    WeftLink *link;
    guint32 id;        /* 0: not in the link */
    guint may_send;    /* bytes of DATA */
    guint may_receive; /* likewise, and of ERROR_DATA */
    gboolean eof;      /* it sent its last DATA */
};

struct WeftLink {
    gint references; /* the caller's, and that of who is calling back */
    WeftPipe *pipe;  /* NULL: the stream ended, or the link was freed */
    struct weft_reader reader;
    guint8 nonce[WEFT_NONCE_LENGTH];
    enum { WEFT_LINK_SYNCING, WEFT_LINK_GREETING, WEFT_LINK_OPEN } state;
    WeftLinkGreeted greeted;
    WeftLinkLost lost;
    gpointer data;
    GHashTable *sessions; /* id to WeftSession */
    GPtrArray *clients;   /* WeftClient, also those whose session ended and that still read what is left */
    GPtrArray *asks;      /* WeftAsk */
    guint32 last_id;
    gsize stray; /* bytes that may still come for sessions that have ended */
    gboolean full;
};

/* The most that waits for a client that does not read: a window of single bytes, or a large one. */
#define WEFT_SESSION_QUEUE_MAX (2 * WEFT_WINDOW_MAX)

/* Sends OPEN; the session is in the link from now on. Its kind and keys are payload. */
void weft_session_begin(WeftSession *session, gconstpointer payload, gsize length);
/* Takes it out of the link, and tells the guest to hang up. Nothing happens when it is not in it. */
void weft_session_close(WeftSession *session);
void weft_session_send(WeftSession *session, enum weft_frame_type type, gconstpointer payload, gsize length);

typedef struct WeftClient WeftClient;
void weft_client_hold(WeftClient *client, gboolean held);
void weft_client_free(WeftClient *client);

typedef struct WeftAsk WeftAsk;
/* There is room again. */
void weft_ask_resume(WeftAsk *ask);
void weft_ask_free(WeftAsk *ask);
