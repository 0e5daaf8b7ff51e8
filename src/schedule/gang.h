/* Hosts for nodes of one shape: which leaves, and which hosts of these. */
#pragma once

#include "board.h"
#include "fleet-private.h"

/* The fewest leaves that hold so many nodes, of these the nearest to each other, of these those where they need the fewest
 * hosts and leave least behind. FALSE: there is no room. */
gboolean weft_gang_leaves(const WeftIndex *index, WeftBoard *board, guint n, WeftLeafSet *ret_leaves);
/* Adds the fewest leaves with which these hold so many nodes, from the smallest zone around the first of them that has enough.
 * FALSE: there is no room. */
gboolean weft_gang_add_leaves(const WeftIndex *index, WeftBoard *board, guint n, WeftLeafSet *leaves);
/* Leaves that so many nodes need in a zone of the level at least; G_MAXUINT: it has no room. */
guint weft_gang_fewest(const WeftIndex *index, guint level, const WeftZone *zone, guint n);
/* Sum of what the leaves have. */
guint64 weft_gang_capacity(const WeftIndex *index, const WeftLeafSet *leaves);
/* Hosts that so many nodes need there at least; G_MAXUINT: they have no room. */
guint weft_gang_hosts(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, guint n);
/* Cables between the two that are farthest from each other; 0: one. */
guint weft_gang_hops(const WeftRealm *realm, const WeftLeafSet *leaves);

/* The fewest hosts of these leaves that hold so many nodes, and of these the ones with least to spare; those that the board has
 * as used by this stamp (0: none) come first. To board->picks. FALSE: there is no room. */
gboolean weft_gang_compact(const WeftIndex *index, WeftBoard *board, const WeftLeafSet *leaves, guint n, guint32 used);
/* As evenly over as many leaves as can be, and there over as many hosts. To board->picks. */
gboolean weft_gang_spread(const WeftIndex *index, WeftBoard *board, guint n);
