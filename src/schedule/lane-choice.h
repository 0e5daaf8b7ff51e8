/* Which lane a cluster gets. Service levels are few: clusters of equal guarantees share a lane, and where no lane is free any
 * more, those of near ones, since within a lane all are served alike. Pure. */
#pragma once

#include "lane.h"

/* What is promised in a lane, over the whole fabric. */
typedef struct WeftLaneUse {
    guint64 bits; /* a second, over all devices */
    guint devices;
} WeftLaneUse;

/* Lanes (by index) in the order in which to try them for a guarantee on links of that rate; those that are too small are left
 * out. First the lane in which everybody has the same, then free ones, the smallest first, then the others, the nearest
 * first. Returns how many there are. */
guint weft_lane_choices(const WeftLanes *lanes, const WeftLaneUse *uses, guint64 bandwidth, guint64 rate,
                        guint ret_choices[WEFT_LANES_MAX]);
