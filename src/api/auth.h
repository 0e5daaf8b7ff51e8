/* Who is calling. */
#pragma once

#include "store.h"
#include "tenant.h"

#include <glib.h>

/* The other end of a connection, as the kernel knows it. */
typedef struct WeftPeer {
    gboolean local; /* Unix socket */
    guint uid;      /* if local */
    char *user;     /* the name of that user, its number where it has none */
} WeftPeer;

WeftPeer *weft_peer_new(int fd, gboolean local);
void weft_peer_free(WeftPeer *peer);
/* root, and the user that weftd runs as. */
gboolean weft_peer_is_admin(const WeftPeer *peer);

/* authorization is the header of that name, NULL: none; on the Unix socket it counts before the peer's user. */
WeftPrincipal *weft_auth_identify(WeftStore *store, const WeftPeer *peer, const char *authorization, GError **error);

/* Do these changes touch who may do what? */
gboolean weft_auth_is_touched(const WeftChange *changes, gsize n);

/* A fresh secret, and what of it is stored. */
char *weft_auth_secret(void);
char *weft_auth_hash(const char *secret);
