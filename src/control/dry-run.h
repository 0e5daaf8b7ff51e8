/* Where a cluster would be placed now. Pure: for trials.h, on a worker. */
#pragma once

#include "queue.h"

#include <jansson.h>

typedef struct WeftDryRun {
    const WeftCluster *cluster;
    GHashTable *barred; /* names of hosts where it cannot be */
    GHashTable *kept;   /* … and of those that are kept for others just now */
    const WeftPathRule *rule;
    gint64 now;
    GCancellable *cancellable; /* NULL: it cannot be cancelled */
} WeftDryRun;

/* As place() of gate.h says; NULL: it was cancelled. fleet: follows a snapshot of the same moment as the queue's. */
json_t *weft_dry_run(const WeftDryRun *run, WeftFleet *fleet, const WeftQueueSnapshot *queue);
