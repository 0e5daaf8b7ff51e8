/* The other hosts of a VXLAN: their IPv4 addresses (in_addr_t). */
#pragma once

#include <glib.h>
#include <netinet/in.h>

/* The address of each of the names (char *). May take as long as the host's resolver does. */
GArray *weft_peers_resolve(GPtrArray *names, GError **error);

/* A line each, and back; what is no address is passed over. */
char *weft_peers_format(GArray *peers);
GArray *weft_peers_parse(const char *text);
