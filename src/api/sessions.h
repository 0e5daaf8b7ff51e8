/* Sessions in nodes and their consoles: connections that are upgraded and then spliced with what the gate opened. */
#pragma once

#include "cluster.h"
#include "gate.h"
#include "node.h"
#include "router.h"
#include "store.h"

#include <glib.h>

typedef struct WeftSessions WeftSessions;
struct MHD_Response;

/* gate NULL: each is UNAVAILABLE. */
WeftSessions *weft_sessions_new(WeftStore *store, WeftGate *gate);
/* Before the HTTP daemons stop: the library wants upgraded connections back. */
void weft_sessions_end(WeftSessions *sessions);
/* All requests are gone. NULL is fine. */
void weft_sessions_free(WeftSessions *sessions);

/* What a connection is upgraded to, by kind: "weft-session/1". */
extern const char *const weft_session_protocols[];

/* Answers the request, later: with the upgrade, when the gate has opened the node and the event is written. Takes over cluster
 * and node. BUSY where there are too many. */
gboolean weft_sessions_open(WeftRequest *request, WeftCluster *cluster, WeftNode *node, WeftGateKind kind, GError **error);

/* The upgrade of a request whose session is open. */
struct MHD_Response *weft_session_response(void);
