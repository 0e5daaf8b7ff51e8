/* weft-discover, which looks at the whole fabric, as a process of its own. */
#pragma once

#include "mads.h"

#include <jansson.h>

/* What it printed, as discover-main.c tells. thread: any; blocks, and ends soon after the cancellable was cancelled (TIMEOUT).
 * UNAVAILABLE: it could not be started, was killed, failed, was late, or printed something else. */
json_t *weft_discovery_run(const WeftMadsOptions *options, GCancellable *cancellable, GError **error);
