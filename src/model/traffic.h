/* Who of a cluster talks to whom, as numbers: the user's matrix, and the pairs (WeftTraffic) that it becomes. For cluster.c. */
#pragma once

#include "fields.h"

#include <glib.h>
#include <jansson.h>

/* "matrix": n rows of n numbers, what each rank sends to each. What both send to each other is one weight. Weights that 32 bits
 * do not hold, or fractions, are scaled, since only their ratios matter. Absent is empty. */
void weft_traffic_read_matrix(WeftFields *fields, guint n, GArray *traffic);

/* As it is stored: "traffic": a text, since tens of thousands of JSON numbers in a record would cost everybody who reads it.
 * It is the base64 of two numbers for each pair, in their order: by how much a * WEFT_NODES_MAX + b is more than that of the
 * pair before, and the weight; each number in groups of 7 bits, the lowest first, with the highest bit of a byte set where more
 * follow. Absent is empty. */
void weft_traffic_read(WeftFields *fields, GArray *traffic);
/* Pairs are in the order of a, then of b. */
json_t *weft_traffic_write(const GArray *traffic);
