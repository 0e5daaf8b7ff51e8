/* A subnet manager whose world is a folder:
 *
 *     WORLD/partitions/0x0001          a partition, text: its name, then a member a line
 *     WORLD/generation                 the last that was applied
 *     WORLD/faults                     what goes wrong (see faults.h)
 */
#pragma once

#include "fabric.h"

WeftFabricDriver *weft_fabric_fake_new(const char *world, GError **error);
