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

/* --- as it is stored --- */

static void
append_number(GByteArray *bytes, guint32 number)
{
    for (; number > 0x7f; number >>= 7)
        g_byte_array_append(bytes, &(guint8){ (guint8)(number | 0x80) }, 1);
    g_byte_array_append(bytes, &(guint8){ (guint8)number }, 1);
}

/* FALSE: there is none, or 32 bits do not hold it. */
static gboolean
take_number(const guint8 **at, const guint8 *end, guint32 *ret_number)
{
    guint64 number = 0;
    for (guint shift = 0; *at < end && shift < 35; shift += 7) {
        guint8 byte = *(*at)++;
        number |= (guint64)(byte & 0x7f) << shift;
        *ret_number = (guint32)number;
        if (!(byte & 0x80))
            return number <= G_MAXUINT32;
    }
    return FALSE;
}

static gboolean
take_pair(const guint8 **at, const guint8 *end, guint64 *position, GArray *traffic)
{
    guint32 step, weight;
    if (!take_number(at, end, &step) || !take_number(at, end, &weight))
        return FALSE;
    *position += step;
    guint64 a = *position / WEFT_NODES_MAX, b = *position % WEFT_NODES_MAX;
    if (step == 0 || a >= b || weight == 0 || traffic->len == WEFT_TRAFFIC_MAX)
        return FALSE;
    WeftTraffic pair = { (guint16)a, (guint16)b, weight };
    g_array_append_val(traffic, pair);
    return TRUE;
}

void
weft_traffic_read(WeftFields *f, GArray *traffic)
{
    const char *text = weft_fields_string(f, "traffic", NULL);
    gsize length = 0;
    g_autofree guint8 *bytes = text ? g_base64_decode(text, &length) : NULL;
    guint64 position = 0;
    const guint8 *end = bytes ? bytes + length : NULL;
    for (const guint8 *at = bytes; at < end;)
        if (!take_pair(&at, end, &position, traffic)) {
            weft_fields_fail(f, "traffic", "is damaged behind pair %u", traffic->len);
            return;
        }
}

json_t *
weft_traffic_write(const GArray *traffic)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    guint last = 0;
    for (guint i = 0; i < traffic->len; i++) {
        const WeftTraffic *pair = &g_array_index(traffic, WeftTraffic, i);
        guint position = (guint)pair->a * WEFT_NODES_MAX + pair->b;
        g_assert(position > last);
        append_number(bytes, position - last);
        append_number(bytes, pair->weight);
        last = position;
    }
    g_autofree char *text = g_base64_encode(bytes->data, bytes->len);
    return json_string_nocheck(text);
}
