/* Is opensm laid out in memory as the headers say that we were compiled with? They depend on how opensm was configured, and the
 * version alone does not tell that. */
#pragma once

#include "osm.h"

/* Reads what is known through the structures. NULL: all is where it should be; else what is not. */
char *weft_check_layout(osm_opensm_t *osm);
/* The same of a port, its node and the cable's other end, before anything of it is used. lock: held. */
gboolean weft_check_port(const osm_port_t *port, GError **error);
