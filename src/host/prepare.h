/* weft host prepare, on the host itself: makes it as /etc/weft/host.yaml wishes, and tells what is in order and what is not.
 * Both weft and weft-hook carry it: a host may have the hook only. */
#pragma once

#include <glib.h>

/* The options that are its own, for GOption. */
extern const GOptionEntry weft_prepare_options[];

/* Does it, and prints what it did, or found to be done in a dry run, and how the host is then. ret_status: 1 where something
 * was refused or failed, or a check fails. Files below /sys, /dev, /run and /etc are below WEFT_HOOK_ROOT, for tests. FALSE:
 * the wish is wrong, or cannot be read; nothing was changed. */
gboolean weft_prepare_run(gboolean json, int *ret_status, GError **error);
