/* Checkpoints: which there are. Those that are being made are made by the work of their cluster (work-freeze.c), those that a
 * cluster is restored from are looked up here by its work (work-thaw.c). thread: main. */
#pragma once

#include "checkpoint.h"
#include "store.h"

typedef struct WeftControl WeftControl;
typedef struct WeftCheckpoints WeftCheckpoints;

WeftCheckpoints *weft_checkpoints_new(WeftControl *control);
gboolean weft_checkpoints_load(WeftCheckpoints *checkpoints, GError **error);
void weft_checkpoints_free(WeftCheckpoints *checkpoints);

/* The record of one changed or went: its cluster is woken, if it is being made. */
void weft_checkpoints_changed(WeftCheckpoints *checkpoints, const WeftChange *change);

/* All are borrowed until something changes, NULL: there is none. ret_revision may be NULL. */
const WeftCheckpoint *
weft_checkpoints_find(const WeftCheckpoints *checkpoints, const char *tenant, const char *name, gint64 *ret_revision);
/* The one of a cluster that is being made. */
const WeftCheckpoint *
weft_checkpoints_unfinished(const WeftCheckpoints *checkpoints, const char *cluster_id, gint64 *ret_revision);
/* The complete one that was made when the cluster gave way. */
const WeftCheckpoint *
weft_checkpoints_hidden(const WeftCheckpoints *checkpoints, const WeftCluster *cluster, gint64 *ret_revision);
/* What the nodes of a cluster go on from when they are placed next. */
const WeftCheckpoint *
weft_checkpoints_origin(const WeftCheckpoints *checkpoints, const WeftCluster *cluster, const WeftClusterStatus *status);
/* Is it a file of any? */
gboolean weft_checkpoints_have(const WeftCheckpoints *checkpoints, const char *digest);

/* Adds the digests that hosts are to have, since clusters are being restored from them, to a set that owns its texts. */
void weft_checkpoints_add_digests(const WeftCheckpoints *checkpoints, GHashTable *digests);
/* Adds the names of hosts where the cluster cannot be restored to a set that owns them. */
void weft_checkpoints_add_barred(const WeftCheckpoints *checkpoints, const WeftCluster *cluster, GHashTable *hosts);
