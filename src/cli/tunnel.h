/* A connection to weftd that goes on as something else than HTTP. */
#pragma once

#include "client.h"

#include <glib.h>

typedef struct WeftTunnel WeftTunnel;

/* Asks for the upgrade and waits for it. A refusal is an error of the code that the problem document says. */
WeftTunnel *weft_tunnel_open(WeftClient *client, const char *path, const char *protocol, GError **error);
/* NULL is fine. */
void weft_tunnel_free(WeftTunnel *tunnel);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTunnel, weft_tunnel_free)

int weft_tunnel_fd(const WeftTunnel *tunnel);
/* May there be more to receive that poll() would not tell of? */
gboolean weft_tunnel_has_more(const WeftTunnel *tunnel);

/* How many bytes; 0: none now; -1: the connection is lost. Neither blocks. */
gssize weft_tunnel_send(WeftTunnel *tunnel, const void *bytes, gsize size, GError **error);
gssize weft_tunnel_receive(WeftTunnel *tunnel, void *bytes, gsize size, GError **error);
