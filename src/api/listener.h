/* A listening socket and those who are connected to it, up to where HTTP begins: they are let in, shake hands or get a name,
 * and are handed on. thread: main. */
#pragma once

#include "certificates.h"
#include "connections.h"
#include "users.h"

#include <glib.h>

typedef struct WeftListener WeftListener;

typedef enum WeftListenerKind {
    WEFT_LISTENER_USERS,  /* a Unix socket for everybody on this machine */
    WEFT_LISTENER_ADMINS, /* one for root and weftd's user, with seats and descriptors of its own: those who come wait for one
                           */
    WEFT_LISTENER_TLS,
} WeftListenerKind;

typedef struct WeftListenerOptions {
    WeftListenerKind kind;
    int fd; /* bound and listening; taken over */
    const char *name;
    WeftSeatLimits limits;
    WeftConnectionTimes times;
    const WeftCertificates *certificates; /* borrowed; for TLS */
    WeftUsers *users;                     /* borrowed */
} WeftListenerOptions;

/* A connection that may speak HTTP now on fd. Both are the callee's. */
typedef void (*WeftListenerReady)(WeftConnection *connection, int fd, gpointer data);

WeftListener *weft_listener_new(const WeftListenerOptions *options, WeftListenerReady ready, gpointer data);
/* Nobody is let in any more. */
void weft_listener_stop(WeftListener *listener);
/* Whoever was given connections has given them back, and nobody waits for a name. NULL is fine. */
void weft_listener_free(WeftListener *listener);

/* How many descriptors its connections take at most. */
guint weft_listener_descriptors(WeftListenerKind kind, guint seats);
