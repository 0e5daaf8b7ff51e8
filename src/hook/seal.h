/* A bridge is an interface of the host too, through which a node could talk to any address and service of the host. These keep
 * the host out of the nodes' networks. */
#pragma once

#include "context.h"

#include <glib.h>

/* The host takes up no addresses on this interface and says nothing there. */
gboolean weft_seal_mute(const char *interface, GError **error);

/* A bridge does not forward frames to the addresses 01:80:c2:00:00:00 to 0f, which are between neighbours: it hands them to the
 * host, past the bridge, as if they had come to the port alone. The kernel then takes whatever is in them, also packets to any
 * of the host's addresses, and also VXLAN packets, with which a node could send frames into another cluster's network. So they
 * are forwarded like all others: a bit each, and all but pause frames, which are always dropped. Of the bridge the kernel does
 * not let the first three be set. */
#define WEFT_SEAL_BRIDGE_GROUPS 0xfff8
#define WEFT_SEAL_PORT_GROUPS 0xfffd
gboolean weft_seal_port(const WeftHook *hook, int index, const char *interface, GError **error);

/* Nothing that the bridge would hand up to the host gets there. What it forwards is not touched. */
gboolean weft_seal_bridge(const WeftHook *hook, int index, const char *interface, GError **error);
