/* Who is connected. One user cannot have all connections of the Unix socket, and a request that is on its way must come to an
 * end: sending a byte now and then does not hold a connection for ever. */
#pragma once

#include "auth.h"

#include <glib.h>

typedef struct WeftConnections WeftConnections;

typedef struct WeftConnection {
    WeftConnections *all;
    WeftPeer *peer;
    int fd;       /* borrowed */
    gint64 since; /* when the request began that is on its way, or could have begun; 0: it is complete */
} WeftConnection;

/* patience: microseconds that a request may take to come. */
WeftConnections *weft_connections_new(guint per_user, gint64 patience);
void weft_connections_free(WeftConnections *connections);

/* One too many is shut down at once: whoever reads from it finds its end. */
WeftConnection *weft_connection_new(WeftConnections *connections, int fd, gboolean local);
void weft_connection_free(WeftConnection *connection);

void weft_connection_waits(WeftConnection *connection);
void weft_connection_has_request(WeftConnection *connection);
