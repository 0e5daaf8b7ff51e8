/* Hardware that nobody described: a host's description made of what it says itself. Pure. */
#pragma once

#include "host.h"
#include "node.h"

#include <glib.h>

/* The description with the inventory's hardware in it, marked as discovered. One core of each NUMA node that has several is
 * kept for the host, and of its memory that is not in huge pages a quarter, at least 1 GiB. Port GUIDs that the inventory lacks
 * are taken from the hook's report; an HCA without one is left out, as no partition could name it. */
WeftHost *weft_discover(const WeftHost *description, const WeftInventory *inventory);

/* The description with the PCI addresses and roots of adapters and GPUs that it does not tell, as the host itself says. */
WeftHost *weft_discover_addresses(const WeftHost *description, const WeftInventory *inventory);

/* What it can give nodes: its devices without those that the report has in quarantine, a function of which has no address
 * then. Where nothing can be passed on, none. */
WeftHost *weft_discover_usable(const WeftInventory *inventory);
/* The devices that are in quarantine by that report, to the reason; borrowed from it. What is no name of a device, and what is
 * more than a host can have, is left out. */
GHashTable *weft_discover_quarantine(json_t *report);

/* Does the host have all that these nodes (WeftNode) hold? */
gboolean weft_discover_holds(const WeftHost *host, const GPtrArray *nodes);
