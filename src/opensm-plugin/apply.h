/* Changes weft's partitions: opensm's memory and the tables of only those ports that are concerned, and the file that a later
 * sweep or start of opensm reads; it ends when the file is on the disk and the last port has answered. Refused is what cannot
 * be before anything changes.
 *
 * A sweep may run meanwhile, and write what it read before: then the ports are read back when it has written, and what is not
 * right is written again.
 *
 * A port that does not answer fails the change, with its name. The wish then stands in the file and in opensm's memory: the
 * next sweep, or the same change again, completes it. */
#pragma once

#include "osm.h"

#include <jansson.h>

WeftApplier *weft_applier_new(void);
void weft_applier_free(WeftApplier *applier);
/* Held while opensm has a change that its file has not yet: who compares the two takes it. */
GMutex *weft_applier_writing(WeftApplier *applier);
/* A port has something else than opensm wishes: the next change looks at it. thread: any. */
void weft_applier_note_drift(WeftApplier *applier, guint64 port_guid);
/* thread: one at a time; blocks. */
json_t *weft_apply(WeftOsm *weft, json_t *request, GError **error);
