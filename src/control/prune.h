/* Drops records that are needed no more: old events, and those of a tenant that has too many; answers that were kept for
 * requests that are sent again; numbers of partitions that have rested; reservations that are over; and what has ended. That of
 * an image's file goes once the file is nowhere, since a digest may come back, every other one by its age: what comes back
 * later than that is not proved any more, and held.
 *
 * They are read on a worker, a few at a time: there may be millions. thread: main. */
#pragma once

#include "control-private.h"

typedef struct WeftPruner WeftPruner;

WeftPruner *weft_pruner_new(WeftControl *control, GError **error);
/* Waits for what is being read. NULL is fine. */
void weft_pruner_free(WeftPruner *pruner);
/* Something was told of the tenant: it may have too many events. */
void weft_pruner_told(WeftPruner *pruner, const char *tenant);
/* Adds deletions of the ends of some images' files, soon after they ended: the fewer backups have them, the better. TRUE: there
 * may be more. */
gboolean weft_pruner_drop_images(WeftPruner *pruner, WeftTxn *txn);
