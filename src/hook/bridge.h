/* The host's part of a partition's Ethernet: a bridge, and a VXLAN to the other hosts as one of its ports. */
#pragma once

#include "context.h"

#include <glib.h>
#include <netinet/in.h>

/* Makes what is missing of bridge and VXLAN and sets what is there as it must be. The host itself has no leg in it: it neither
 * answers nor routes there. */
gboolean weft_bridge_ensure(const WeftHook *hook, guint vxlan, GError **error);
/* The same of the ports that others, libvirt above all, have added since. */
gboolean weft_bridge_seal(const WeftHook *hook, guint vxlan, GError **error);

/* Frames for all go to exactly these hosts (in_addr_t) from now on. New ones are added before old ones go. */
gboolean weft_bridge_set_peers(const WeftHook *hook, guint vxlan, GArray *peers, GError **error);

/* Is anything but the VXLAN on the bridge? */
gboolean weft_bridge_has_ports(const WeftHook *hook, guint vxlan, gboolean *ret_has, GError **error);
/* Success also when there is none. */
gboolean weft_bridge_remove(const WeftHook *hook, guint vxlan, GError **error);
/* The VXLANs (guint) of which this host has a part, each once. */
GArray *weft_bridge_list(const WeftHook *hook, GError **error);
