/* TLS before the HTTP library: connections come in encrypted here and go on in plain, over a socket pair. The library has TLS
 * of its own, but shakes hands on the thread that serves everybody, and forwards upgraded connections four bytes at a time (see
 * docs/decisions). A thread of this module shakes hands; all else is on the main thread. */
#pragma once

#include "certificates.h"
#include "connections.h"

#include <glib.h>

/* How many descriptors a connection takes: its own, and the pair. */
#define WEFT_TLS_DESCRIPTORS 3

typedef struct WeftTls WeftTls;

/* A connection whose handshake is done, and a plain end of it; fd is the callee's. */
typedef void (*WeftTlsReady)(WeftConnection *connection, int fd, gpointer data);

/* certificates: borrowed. Each connection is shown those that are current when it comes. */
WeftTls *weft_tls_new(const WeftCertificates *certificates, WeftTlsReady ready, gpointer data);
/* NULL is fine. */
void weft_tls_free(WeftTls *tls);

/* Takes over the connection's descriptor, and holds a reference to it until that is closed. Who does not shake hands in time is
 * shut down by the connection's deadline. */
void weft_tls_begin(WeftTls *tls, WeftConnection *connection);
