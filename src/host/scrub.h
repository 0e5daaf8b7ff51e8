/* What a node may have left in a virtual function, beside what the driver of its adapter knows of. Idempotent, and may be
 * killed anywhere: what was half done is found by looking. */
#pragma once

#include "context.h"

#include <glib.h>

/* Resets it. vfio does that when a process lets a function go, and tells nobody where it failed. Left out where it has no reset
 * of its own, and where a driver of the host has it. */
gboolean weft_scrub_reset(const WeftHook *hook, const char *pci, GError **error);

/* Erases the namespaces of an NVMe function: those that its controller has and no other. What more have is shared because the
 * site wants it. The caller has the lock. Success where the device is no NVMe. vf: its number. */
gboolean weft_scrub_namespaces(const WeftHook *hook, const char *pf, guint vf, GError **error);
