/* HTTP on a listening socket, in the main loop: collects requests, lets them be answered, sends the answers. */
#pragma once

#include "api.h"
#include "request.h"

#include <glib.h>

/* blobs: borrowed; NULL: none. */
WeftServer *weft_server_new(WeftStore *store, const WeftApiOptions *options, WeftBlobs *blobs);
void weft_server_free(WeftServer *server);

typedef struct WeftListener {
    int fd;         /* bound and listening; taken over */
    gboolean local; /* a Unix socket: the peer's credentials count */
    guint connections;
    const char *certificate; /* PEM texts, copied; NULL: no TLS */
    const char *key;
} WeftListener;

gboolean weft_server_listen(WeftServer *server, const WeftListener *listener, GError **error);

/* From a callback of the HTTP library only: nothing happens on the connection until it is woken. */
void weft_server_pause(WeftRequest *request);
/* Fine at any time. */
void weft_server_wake(WeftRequest *request);
/* Ends an upgraded connection; what was written to it may still be taken for a while. */
void weft_server_hang_up(WeftRequest *request, struct MHD_UpgradeResponseHandle *handle);
