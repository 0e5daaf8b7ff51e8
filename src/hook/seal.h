/* A bridge is an interface of the host too, through which a node could talk to any address and service of the host. These keep
 * the host out of the nodes' networks. */
#pragma once

#include "context.h"

#include <glib.h>

/* The host takes up no addresses on this interface and says nothing there. Before it is put up. */
gboolean weft_seal_mute(const char *interface, GError **error);

/* Nothing that the bridge would hand up to the host gets there. What it forwards is not touched. */
gboolean weft_seal_bridge(const WeftHook *hook, int index, const char *interface, GError **error);
