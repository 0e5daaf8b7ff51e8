/* Who is connected to one listener, how far each is, and until when it has to have come further: sending or taking a byte now
 * and then does not hold a connection. Who gets in and who goes is decided in admission.h. thread: main. */
#pragma once

#include "admission.h"
#include "auth.h"

#include <glib.h>
#include <sys/socket.h>

typedef struct WeftConnections WeftConnections;

typedef struct WeftConnection {
    WeftPeer *peer;

    /* for connections.c */
    WeftConnections *all;
    grefcount references;
    WeftSeat seat;
    gboolean seated; /* FALSE: it had to give up its seat, and ends as soon as whoever reads from it notices */
    gint given_up;   /* atomic: whoever works for it can stop */
    gboolean known;  /* a principal has answered for it, or the kernel */
    int fd;          /* borrowed; -1: closed */
    gint64 deadline; /* 0: none */
    gint64 time;     /* microseconds that the main thread took to decrypt for it, and charged to nobody yet */
} WeftConnection;

/* Microseconds in which something has to come as a whole, however many bytes of it come in between. */
typedef struct WeftConnectionTimes {
    gint64 handshake;
    gint64 head; /* … of a request, from the end of the last one on */
    gint64 body;
    gint64 answer; /* … to be taken */
    gboolean open; /* there is also what has no end: streams and sessions */
} WeftConnectionTimes;

WeftConnections *weft_connections_new(const WeftSeatLimits *limits, const WeftConnectionTimes *times);
/* All connections are gone before. NULL is fine. */
void weft_connections_free(WeftConnections *connections);

/* One that came, in its handshake. The peer is taken over. NULL: it is refused, and fd is still the caller's. Where it takes
 * the place of another, that one is shut down: whoever reads from it finds its end. */
WeftConnection *weft_connection_new(WeftConnections *connections, int fd, WeftPeer *peer);
WeftConnection *weft_connection_ref(WeftConnection *connection);
void weft_connection_unref(WeftConnection *connection);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftConnection, weft_connection_unref)

/* How many may be open at once, with those that gave up their seat and are not closed yet. */
guint weft_connections_open_max(guint seats);
/* They are: nobody else may come for the moment. */
gboolean weft_connections_is_crowded(const WeftConnections *connections);
/* No seat is left, and nobody has only waited for a while: those who came just now may not have been heard yet. */
gboolean weft_connections_is_full(const WeftConnections *connections);
/* Shuts one down, as for somebody who has no connection yet: there are no descriptors left. */
void weft_connections_give_up_one(WeftConnections *connections);

/* Something came of it. thread: any. */
void weft_connection_is_heard(WeftConnection *connection);
/* It waits for a request. */
void weft_connection_waits(WeftConnection *connection);
/* The head of one has come. known: of a principal that is known. */
void weft_connection_has_head(WeftConnection *connection, gboolean known);
/* It has come as a whole; for strangers nothing changes. */
void weft_connection_has_request(WeftConnection *connection);
/* Its answer is on its way, and has an end after that many bytes. */
void weft_connection_has_answer(WeftConnection *connection, guint64 size);
/* May it become a stream or a session? */
gboolean weft_connection_may_last(const WeftConnection *connection);
/* What is to be charged for it from now on is the caller's to charge. */
gint64 weft_connection_take_time(WeftConnection *connection);
/* Its descriptor is about to be closed. */
void weft_connection_closed(WeftConnection *connection);
