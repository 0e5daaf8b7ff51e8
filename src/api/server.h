/* HTTP on listening sockets, in the main loop: collects requests, lets them be answered, sends the answers. */
#pragma once

#include "api.h"
#include "listener.h"
#include "request.h"

#include <glib.h>

/* blobs: borrowed; NULL: none. NULL: the HTTP library does not start. */
WeftServer *weft_server_new(WeftStore *store, const WeftApiOptions *options, WeftBlobs *blobs, GError **error);
void weft_server_free(WeftServer *server);

typedef struct WeftServerSocket {
    WeftListenerKind kind;
    int fd; /* bound and listening; taken over */
    const char *name;
    guint connections;
    const WeftCertificates *certificates; /* borrowed; for TLS */
} WeftServerSocket;

void weft_server_listen(WeftServer *server, const WeftServerSocket *socket);

/* From a callback of the HTTP library only: nothing happens on the connection until it is woken. */
void weft_server_pause(WeftRequest *request);
/* Likewise, for a while, if whoever pays for the request is in debt, or is no operator and this turn of the main loop has been
 * long already; FALSE: neither. What was to be done for it is tried again then, and asks again. */
gboolean weft_server_make_wait(WeftRequest *request);
/* FALSE where its answer has to have an end. */
gboolean weft_server_may_last(const WeftRequest *request, GError **error);
/* Fine at any time. */
void weft_server_wake(WeftRequest *request);
/* Ends an upgraded connection; what was written to it may still be taken for a while. */
void weft_server_hang_up(WeftRequest *request, struct MHD_UpgradeResponseHandle *handle);
