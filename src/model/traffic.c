#include "traffic.h"

#include "cluster.h"

#define ENTRY_MAX 1e15
#define SCALE 1000000.0 /* the heaviest weight, where weights are scaled */

static double
entry(const json_t *matrix, guint row, guint column)
{
    return json_number_value(json_array_get(json_array_get(matrix, row), column));
}

static gboolean
check_row(WeftFields *f, const json_t *row, guint i, guint n)
{
    if (!json_is_array(row) || json_array_size(row) != n) {
        weft_fields_fail(f, "matrix", "row %u must be a list of %u numbers, one for each node", i, n);
        return FALSE;
    }
    const json_t *item;
    gsize j;
    json_array_foreach (row, j, item) {
        if (!json_is_number(item) || json_number_value(item) < 0 || json_number_value(item) > ENTRY_MAX) {
            weft_fields_fail(f, "matrix", "row %u, column %zu must be a number from 0 to %g", i, j, ENTRY_MAX);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
check_matrix(WeftFields *f, const json_t *matrix, guint n)
{
    if (json_array_size(matrix) != n) {
        weft_fields_fail(f, "matrix", "has %zu rows, and the cluster %u nodes; give a row and a column for each node",
                         json_array_size(matrix), n);
        return FALSE;
    }
    for (guint i = 0; i < n; i++)
        if (!check_row(f, json_array_get(matrix, i), i, n))
            return FALSE;
    return TRUE;
}

/* The heaviest weight where they have to be scaled, since they are not all whole numbers of 32 bits; else 0. ret_pairs: how
 * many there are. */
static double
heaviest_to_scale(const json_t *matrix, guint n, guint *ret_pairs)
{
    double heaviest = 0;
    gboolean whole = TRUE;
    *ret_pairs = 0;
    for (guint i = 0; i < n; i++)
        for (guint j = i + 1; j < n; j++) {
            double weight = entry(matrix, i, j) + entry(matrix, j, i);
            heaviest = MAX(heaviest, weight);
            whole = whole && weight <= G_MAXUINT32 && weight == (guint32)weight;
            *ret_pairs += weight > 0;
        }
    return whole ? 0 : heaviest;
}

static void
add_pair(GArray *traffic, guint a, guint b, double weight)
{
    WeftTraffic pair = { (guint16)a, (guint16)b, (guint32)MAX(weight, 1) };
    g_array_append_val(traffic, pair);
}

void
weft_traffic_read_matrix(WeftFields *f, guint n, GArray *traffic)
{
    const json_t *matrix = weft_fields_array(f, "matrix", WEFT_NODES_MAX);
    guint pairs;
    if (!matrix || !check_matrix(f, matrix, n))
        return;
    double heaviest = heaviest_to_scale(matrix, n, &pairs);
    if (pairs > WEFT_TRAFFIC_MAX) {
        weft_fields_fail(f, "matrix", "%u pairs of nodes talk; at most %d are allowed: write 0 for those that say least", pairs,
                         WEFT_TRAFFIC_MAX);
        return;
    }
    for (guint i = 0; i < n; i++)
        for (guint j = i + 1; j < n; j++) {
            double weight = entry(matrix, i, j) + entry(matrix, j, i);
            if (weight > 0)
                add_pair(traffic, i, j, heaviest > 0 ? weight / heaviest * SCALE : weight);
        }
}

static gboolean
read_pair(json_t *item, GArray *traffic)
{
    json_int_t a, b, weight;
    if (json_unpack(item, "[I,I,I!]", &a, &b, &weight) != 0 || a < 0 || a >= b || b >= WEFT_NODES_MAX || weight < 1 ||
        weight > G_MAXUINT32)
        return FALSE;
    WeftTraffic pair = { (guint16)a, (guint16)b, (guint32)weight };
    g_array_append_val(traffic, pair);
    return TRUE;
}

void
weft_traffic_read(WeftFields *f, GArray *traffic)
{
    json_t *array = weft_fields_array(f, "traffic", WEFT_TRAFFIC_MAX), *item;
    gsize i;
    json_array_foreach (array, i, item)
        if (!read_pair(item, traffic)) {
            weft_fields_fail(f, "traffic", "item %zu must be [rank, higher rank, weight]", i);
            return;
        }
}

json_t *
weft_traffic_write(const GArray *traffic)
{
    json_t *array = json_array();
    for (guint i = 0; i < traffic->len; i++) {
        const WeftTraffic *pair = &g_array_index(traffic, WeftTraffic, i);
        json_array_append_new(array, json_pack("[i,i,I]", pair->a, pair->b, (json_int_t)pair->weight));
    }
    return array;
}
