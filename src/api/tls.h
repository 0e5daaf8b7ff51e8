/* TLS before the HTTP library: connections come in encrypted here and go on in plain, over a socket pair. The library has TLS
 * of its own, but forwards upgraded connections four bytes at a time (see docs/decisions). thread: main. */
#pragma once

#include <glib.h>
#include <sys/socket.h>

typedef struct WeftTls WeftTls;

/* A connection whose handshake is done. fd: the callee's. */
typedef void (*WeftTlsAccepted)(int fd, const struct sockaddr *address, socklen_t length, gpointer data);

typedef struct WeftTlsOptions {
    int fd; /* bound and listening; taken over */
    const char *certificate;
    const char *key;   /* PEM texts */
    guint connections; /* at the same time; more are closed at once */
    gint64 patience;   /* microseconds that a handshake may take */
} WeftTlsOptions;

/* NULL with an error: the certificate and the key are not both in PEM, or do not belong together. */
WeftTls *weft_tls_new(const WeftTlsOptions *options, WeftTlsAccepted accepted, gpointer data, GError **error);
/* NULL is fine. */
void weft_tls_free(WeftTls *tls);
