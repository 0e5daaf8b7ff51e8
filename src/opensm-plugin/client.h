/* One connection: bytes in, requests out; frames in, bytes out. thread: the door's. */
#pragma once

#include "wire.h"

#include <glib.h>

struct WeftDoor;

typedef struct WeftClient {
    guint64 number;
    struct WeftDoor *owner;
    gboolean listens;
    guint pending; /* requests that were not answered yet */

    int fd;
    GSource *source;
    gpointer tag; /* of the descriptor in the source */
    WeftWireReader *reader;
    GQueue out; /* GBytes */
    gsize queued;
    gsize written;  /* of the first */
    gint64 heard;   /* when it was heard or answered last, or came */
    gint64 begun;   /* when the frame began that has not ended; 0: none */
    gint64 stalled; /* since when it takes nothing; 0: it does, or has all */
} WeftClient;

/* Takes the descriptor over. */
WeftClient *weft_client_new(int fd, guint64 number, struct WeftDoor *owner);
void weft_client_free(WeftClient *client);
/* serve is called with the client whenever there is something to do. FALSE from it: the client is freed. */
typedef gboolean (*WeftClientServe)(WeftClient *client, GIOCondition condition);
void weft_client_attach(WeftClient *client, GMainContext *context, WeftClientServe serve);

/* Reads and writes what is possible. FALSE: it is over. */
gboolean weft_client_serve(WeftClient *client, GIOCondition condition);
/* The next request, which then is pending; NULL: none, or it has enough in hand. */
json_t *weft_client_next(WeftClient *client);
/* FALSE: it reads so little that too much waits for it. */
gboolean weft_client_write(WeftClient *client, GBytes *frame);
/* One that was pending is answered. */
void weft_client_settle(WeftClient *client);
gboolean weft_client_is_late(const WeftClient *client);
