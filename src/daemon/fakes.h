/* The drivers for tests: hosts that are folders, and managers whose partitions are files. A weftd that was built with
 * -Dfakes=false has none of them, and refuses a configuration that names one. */
#pragma once

#include "config.h"
#include "fabric.h"
#include "hypervisor.h"

/* FALSE: this weftd has none; the error says what to do. */
gboolean weft_fakes_are_built(GError **error);

WeftHypervisor *weft_fakes_hypervisor(const WeftConfig *config, GError **error);
/* world: its folder. */
WeftFabricDriver *weft_fakes_fabric(const char *world, const WeftPkeys *pkeys, GError **error);
