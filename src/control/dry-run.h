/* Where a cluster would be placed now, for the gate. */
#pragma once

#include "control-private.h"

/* As place() of gate.h tells it. Nothing is taken, and nothing changes. */
json_t *weft_dry_run(WeftControl *control, const WeftCluster *cluster);
