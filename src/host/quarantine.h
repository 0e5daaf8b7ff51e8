/* Devices that nobody gets: what was to be done when a node had gone failed. A file each, in a folder that outlives a reboot;
 * the caller has the hook's lock to change any. */
#pragma once

#include "context.h"

#include <glib.h>
#include <jansson.h>

#define WEFT_QUARANTINE_PATH "/var/lib/weft/quarantine"

/* Why; one that is there already keeps its time. */
gboolean weft_quarantine_put(const WeftHook *hook, const char *pci, const char *why, GError **error);
void weft_quarantine_drop(const WeftHook *hook, const char *pci);
/* "since 2026-11-18T20:00:00Z: why"; NULL: it is not in quarantine. */
char *weft_quarantine_why(const WeftHook *hook, const char *pci);
/* The address of a device in quarantine that has its firmware in common with this physical function, or whole device: itself,
 * or another of its slot ("0000:41:00"); NULL: there is none. */
char *weft_quarantine_of_slot(const WeftHook *hook, const char *pci);
gboolean weft_quarantine_is_same_slot(const char *pci, const char *other);
/* For the host's report: [ { "pci", "since", "why", "whole": false of a virtual function } ]. */
json_t *weft_quarantine_list(const WeftHook *hook);
