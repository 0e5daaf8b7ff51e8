/* opensm's partitions in memory. lock: opensm's is held in all of these, for changes exclusively. */
#pragma once

#include "osm.h"
#include "partition.h"

osm_prtn_t *weft_partitions_find(osm_opensm_t *osm, guint pkey);
/* GUIDs of those that opensm has in it, guint64. */
GArray *weft_partitions_members(const osm_prtn_t *partition);
/* A copy of what opensm has. */
WeftPartition *weft_partitions_read(osm_opensm_t *osm, const osm_prtn_t *partition);

/* Makes opensm's as it would be after it had read ours from its file: members that are in the fabric, service level, broadcast
 * group. One without any member in the fabric goes, as opensm lets it go. FALSE: its broadcast group could not be made. */
gboolean weft_partitions_set(osm_opensm_t *osm, const WeftPartition *wish);
void weft_partitions_remove(osm_opensm_t *osm, guint pkey);
