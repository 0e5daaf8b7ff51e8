/* Changes weft's partitions: opensm's memory and the tables of only those ports that are concerned, and the file that a later
 * sweep or start of opensm reads; it ends when the file is on the disk and the last port has answered. Refused is what cannot
 * be before anything changes.
 *
 * A port that does not answer fails the change, with its name. The wish then stands in the file and in opensm's memory: the
 * next sweep, or the same change again, completes it. */
#pragma once

#include "osm.h"

#include <jansson.h>

WeftApplier *weft_applier_new(void);
void weft_applier_free(WeftApplier *applier);
/* thread: one at a time; blocks. */
json_t *weft_apply(WeftOsm *weft, json_t *request, GError **error);
