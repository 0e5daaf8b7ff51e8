/* The P_Key tables of a fabric's ports beside what its manager says they hold. Pure. */
#pragma once

#include "fabric.h"

#include <jansson.h>

/* Ports of these hosts (WeftHost), and of these wishes (WeftPortWish), each once (guint64). */
GArray *weft_tables_ports(const GPtrArray *hosts, const GArray *wishes);

/* The "ports" of gate.h's tables. exact: a port that is not in one of weft's partitions must not have its P_Key, which is not
 * so where a pool of them is on every port. */
json_t *weft_report_tables(const GPtrArray *hosts, const GPtrArray *partitions, const GPtrArray *tables, gboolean exact);
