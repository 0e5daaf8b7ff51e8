/* The tables by which ports make lanes, as the ports themselves hold them: read by management datagrams from a port of this
 * machine. thread: blocks. */
#pragma once

#include "lanes.h"
#include "mads.h"

/* Looks at every host's port, and at the switch's port that it hangs on. Adds a text for people to wrong (char *) for each that
 * does not hold the lanes. UNAVAILABLE: the fabric cannot be looked at from here. */
gboolean weft_lane_tables_check(const WeftMadsOptions *options, const WeftLanes *lanes, GPtrArray *wrong, guint *ret_ports,
                                GError **error);
