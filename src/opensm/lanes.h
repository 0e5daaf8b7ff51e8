/* opensm's options that make lanes of service levels: which level goes over which virtual lane, and how ports take turns
 * between these. Pure, as options.h. */
#pragma once

#include "lane.h"
#include "options.h"

/* Everything goes into the table of low priority: what is in the other may starve it. Its places beyond these are unused. */
char *weft_lanes_vlarb(const WeftLanes *lanes); /* "0:64,1:128", as opensm wants it */
char *weft_lanes_sl2vl(const WeftLanes *lanes); /* "0,1,0,0,…"; levels without a lane are best effort */

/* All options that matter (WeftOption), for weft_options_harden(). INVALID: a routing engine that the text names keeps the
 * service levels for itself, or a line that opensm would not read as it stands. */
GPtrArray *weft_lanes_check(const char *text, const WeftLanes *lanes, GError **error);

/* "1:40,2:20", service levels and shares, as people type them. */
gboolean weft_lanes_parse(const char *text, WeftLanes *ret_lanes, GError **error);
