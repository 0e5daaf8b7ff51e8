/* What the hook does when libvirt runs it. All are idempotent, take the host's lock, and may be killed anywhere: the next run
 * of any of them mends what was left. xml is what libvirt wrote to standard input. */
#pragma once

#include "context.h"

#include <glib.h>
#include <jansson.h>

/* May the node start here? Changes nothing. */
gboolean weft_hook_check(const WeftHook *hook, const char *domain, const char *xml, GError **error);
/* Sets up the node's devices and bridge, or nothing. */
gboolean weft_hook_prepare(const WeftHook *hook, const char *domain, const char *xml, GError **error);
/* Its interface is on the bridge, and it does not run yet: keeps the host out of that too. */
gboolean weft_hook_seal(const WeftHook *hook, const char *domain, const char *xml, GError **error);
/* The node runs: notes it down, and repairs nothing under its feet. */
gboolean weft_hook_note(const WeftHook *hook, const char *domain, const char *xml, GError **error);
/* Undoes what was prepared for this domain, and the bridge unless others need it. */
gboolean weft_hook_release(const WeftHook *hook, const char *domain, const char *xml, GError **error);

/* Makes the partition's network with exactly these peers. */
gboolean weft_hook_connect(const WeftHook *hook, const char *name, const char *xml, GError **error);
/* Forgets it, and removes it unless nodes are on it. */
gboolean weft_hook_disconnect(const WeftHook *hook, const char *name, const char *xml, GError **error);
/* Keeps the host out of all ports that the bridge has now; name as in WEFT_NETWORK_SEAL. Always FALSE: the error is the answer.
 */
gboolean weft_hook_seal_network(const WeftHook *hook, const char *name, const char *xml, GError **error);

/* An operator takes a device out of quarantine, by its PCI address. */
gboolean weft_hook_readmit(const WeftHook *hook, const char *pci, GError **error);

/* Devices that were taken from under nodes that run: [ { "domain", "pci" } ]. */
json_t *weft_hook_lacking(const WeftHook *hook);

/* Mends what others left behind, as most operations do first. */
void weft_hook_tidy(const WeftHook *hook);
