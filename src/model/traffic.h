/* Who of a cluster talks to whom, as numbers: the user's matrix, and the pairs (WeftTraffic) that it becomes. For cluster.c. */
#pragma once

#include "fields.h"

#include <glib.h>
#include <jansson.h>

/* "matrix": n rows of n numbers, what each rank sends to each. What both send to each other is one weight. Weights that 32 bits
 * do not hold, or fractions, are scaled, since only their ratios matter. Absent is empty. */
void weft_traffic_read_matrix(WeftFields *fields, guint n, GArray *traffic);

/* As it is stored: "traffic": [[a, b, weight], …]. Absent is empty. */
void weft_traffic_read(WeftFields *fields, GArray *traffic);
json_t *weft_traffic_write(const GArray *traffic);
