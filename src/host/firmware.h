/* Whether a device's firmware is what it was before a node had it, by the tool of its vendor: what the tool tells of it is
 * remembered in a file that outlives a reboot, from before a node gets the device until the node is gone and it was compared.
 * The functions of a slot have one firmware: what is remembered for any of them is compared. */
#pragma once

#include "context.h"

#include <glib.h>
#include <jansson.h>

typedef enum { WEFT_FIRMWARE_ADAPTER, WEFT_FIRMWARE_GPU, WEFT_FIRMWARE_KINDS } WeftFirmwareKind;

/* For the host's report: { "mstflint": true, "nvidia-smi": false }, which tools are there. */
json_t *weft_firmware_tools(const WeftHook *hook);
/* Remembers what it is now. Success also where there is no tool, or none that can tell: nothing is compared then. FALSE: it is
 * not what an earlier node was given, which nobody compared. */
gboolean weft_firmware_note(const WeftHook *hook, WeftFirmwareKind kind, const char *pci, GError **error);
gboolean weft_firmware_is_noted(const WeftHook *hook, WeftFirmwareKind kind, const char *pci);
/* Is it what was remembered? Forgets it then. FALSE also where it cannot be told any more. */
gboolean weft_firmware_compare(const WeftHook *hook, WeftFirmwareKind kind, const char *pci, GError **error);
/* It is good as it is now. */
void weft_firmware_accept(const WeftHook *hook, WeftFirmwareKind kind, const char *pci);
void weft_firmware_forget(const WeftHook *hook, const char *pci);
