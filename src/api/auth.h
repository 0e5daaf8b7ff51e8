/* Who is calling. */
#pragma once

#include "store.h"
#include "tenant.h"

#include <glib.h>
#include <sys/socket.h>

/* The other end of a connection, as the kernel knows it. */
typedef struct WeftPeer {
    gboolean local; /* Unix socket */
    guint uid;      /* if local */
    char *user;     /* the name of that user, its number where it has none; NULL: it cannot be found out now, or not local */
    guint pid;      /* if local */
    char *address;  /* "192.0.2.7:50123", "[2001:db8::7]:50123"; NULL: local */
    char *party;    /* in words, for limits: "uid 1000", "192.0.2.7"; an IPv6 site counts as one: "2001:db8:1:2::/64" */
} WeftPeer;

/* Of a connection that was accepted from this address. NULL: the kernel does not know who is at the other end. */
WeftPeer *weft_peer_new(int fd, const struct sockaddr_storage *address);
void weft_peer_free(WeftPeer *peer);
/* root, and the user that weftd runs as. */
gboolean weft_peer_is_admin(const WeftPeer *peer);

/* authorization is the header of that name, NULL: none; on the Unix socket it counts before the peer's user. */
WeftPrincipal *weft_auth_identify(WeftStore *store, const WeftPeer *peer, const char *authorization, GError **error);

/* Do these changes touch what a principal may do that came with this header? Most are about somebody else, and everybody who
 * is connected would be identified again for each. */
gboolean weft_auth_is_touched(const WeftPrincipal *principal, const char *authorization, const WeftChange *changes, gsize n);

/* A fresh secret, and what of it is stored. */
char *weft_auth_secret(void);
char *weft_auth_hash(const char *secret);
