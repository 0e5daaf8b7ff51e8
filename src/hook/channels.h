/* The host's ends of a node's serial ports: the sockets of its channels and the terminal of its console. libvirt gives them to
 * QEMU's user, which all nodes of a host share, and AppArmor does not judge who connects to a socket. A guest that has broken
 * out of its QEMU could so talk to the guest program of any other node, and read its console. */
#pragma once

#include "context.h"

#include <glib.h>

/* Makes them root's, as libvirt's monitor is. QEMU has them open, and libvirtd, which is root, connects to them as before. xml:
 * of a domain that runs. An end that is not there is passed over. */
gboolean weft_channels_take(const WeftHook *hook, const char *xml, GError **error);
