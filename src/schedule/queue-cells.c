/* The plan in bits: which cores are free where, now and at another time. It knows nothing but cores, and so never says no where
 * there is room; where it says yes, the fleet is asked. */
#include "queue-private.h"

#include "fleet-private.h"

#include <string.h>

/* --- seats in bits --- */

void
weft_spots_set(GArray *spots, const WeftSeat *seats, guint n)
{
    g_array_set_size(spots, 0);
    for (guint i = 0; i < n; i++)
        for (guint w = 0; w < G_N_ELEMENTS(seats[i].cores.words); w++) {
            WeftSpot spot = { seats[i].host, (guint16)w, (guint16)i, seats[i].cores.words[w] };
            if (spot.bits)
                g_array_append_val(spots, spot);
        }
}

/* --- now --- */

static guint
count_bits(const WeftCells *cells, const guint64 *words)
{
    guint n = 0;
    for (guint i = 0; i < cells->words; i++)
        n += (guint)__builtin_popcountll(words[i]);
    return n;
}

static gboolean
is_known(const WeftCells *cells, const WeftSpot *spot)
{
    return spot->host < cells->n && spot->word < cells->words;
}

static void
resize(WeftCells *cells, guint n, guint words)
{
    cells->n = n;
    cells->words = words;
    cells->free = g_renew(guint64, cells->free, (gsize)n * words);
    cells->then = g_renew(guint64, cells->then, (gsize)n * words);
    cells->left = g_renew(guint64, cells->left, (gsize)n * words);
    cells->then_for = g_renew(guint32, cells->then_for, n);
    cells->left_for = g_renew(guint32, cells->left_for, n);
    memset(cells->then_for, 0, n * sizeof *cells->then_for);
    memset(cells->left_for, 0, n * sizeof *cells->left_for);
    memset(cells->free, 0, (gsize)n * words * sizeof *cells->free);
    memset(cells->hosts, 0, sizeof cells->hosts);
    cells->look = 0;
    cells->total = 0;
}

void
weft_cells_read(WeftCells *cells, const WeftFleet *fleet)
{
    guint n = weft_fleet_size(fleet), words = 1;
    for (guint i = 0; i < n; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, i);
        words = slot ? MAX(words, (weft_slot_host(slot)->cores->len + 63) / 64) : words;
    }
    resize(cells, n, words);
    for (guint i = 0; i < n; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, i);
        WeftBits bits = { 0 };
        if (slot && weft_slot_is_open(slot))
            weft_slot_free_bits(slot, &bits);
        memcpy(&cells->free[(gsize)i * words], bits.words, words * sizeof *bits.words);
        guint free = count_bits(cells, bits.words);
        cells->hosts[free]++;
        cells->total += free;
    }
}

void
weft_cells_clear(WeftCells *cells)
{
    g_free(cells->free);
    g_free(cells->then);
    g_free(cells->left);
    g_free(cells->then_for);
    g_free(cells->left_for);
}

void
weft_cells_change(WeftCells *cells, const GArray *spots, gboolean taken)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot))
            continue;
        guint64 *words = &cells->free[(gsize)spot->host * cells->words];
        guint before = count_bits(cells, words);
        words[spot->word] = taken ? words[spot->word] & ~spot->bits : words[spot->word] | spot->bits;
        guint after = count_bits(cells, words);
        cells->hosts[before]--;
        cells->hosts[after]++;
        cells->total = cells->total - before + after;
    }
}

/* --- then --- */

static gboolean
is_then(const WeftCells *cells, guint host)
{
    return cells->then_for[host] == cells->look_then;
}

static guint64 *
words_then(WeftCells *cells, guint host)
{
    guint64 *then = &cells->then[(gsize)host * cells->words];
    if (!is_then(cells, host)) {
        cells->then_for[host] = cells->look_then;
        memcpy(then, &cells->free[(gsize)host * cells->words], cells->words * sizeof *then);
    }
    return then;
}

static guint64 *
words_left(WeftCells *cells, guint host)
{
    guint64 *left = &cells->left[(gsize)host * cells->words];
    if (cells->left_for[host] != cells->look_left) {
        const guint64 *words = is_then(cells, host) ? cells->then : cells->free;
        cells->left_for[host] = cells->look_left;
        memcpy(left, &words[(gsize)host * cells->words], cells->words * sizeof *left);
    }
    return left;
}

static guint32
next_look(WeftCells *cells)
{
    if (++cells->look == 0) {
        memset(cells->then_for, 0, cells->n * sizeof *cells->then_for);
        memset(cells->left_for, 0, cells->n * sizeof *cells->left_for);
        cells->look = 1;
    }
    return cells->look;
}

void
weft_cells_begin(WeftCells *cells, guint cores)
{
    cells->cores = MAX(cores, 1);
    cells->look_then = next_look(cells);
    cells->look_left = cells->look_then;
    cells->fit_then = 0;
    for (guint free = cells->cores; free <= WEFT_CORES_MAX && free <= 64 * cells->words; free++)
        cells->fit_then += (gint64)cells->hosts[free] * (free / cells->cores);
}

void
weft_cells_give(WeftCells *cells, const GArray *spots)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot))
            continue;
        guint64 *words = words_then(cells, spot->host);
        guint before = count_bits(cells, words) / cells->cores;
        words[spot->word] |= spot->bits;
        cells->fit_then += count_bits(cells, words) / cells->cores - before;
    }
}

void
weft_cells_look(WeftCells *cells)
{
    cells->look_left = next_look(cells);
    cells->fit_left = cells->fit_then;
}

void
weft_cells_take(WeftCells *cells, const GArray *spots)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot))
            continue;
        guint64 *words = words_left(cells, spot->host);
        guint before = count_bits(cells, words) / cells->cores;
        words[spot->word] &= ~spot->bits;
        cells->fit_left -= before - count_bits(cells, words) / cells->cores;
    }
}

void
weft_cells_bar(WeftCells *cells, guint host)
{
    if (host >= cells->n)
        return;
    guint64 *words = words_left(cells, host);
    cells->fit_left -= count_bits(cells, words) / cells->cores;
    memset(words, 0, cells->words * sizeof *words);
}

/* By host and word. */
static const guint64 *
find_left(const WeftCells *cells, guint host)
{
    return cells->left_for[host] == cells->look_left ? cells->left : is_then(cells, host) ? cells->then : cells->free;
}

gboolean
weft_cells_has(const WeftCells *cells, const GArray *spots)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot) || spot->bits & ~find_left(cells, spot->host)[(gsize)spot->host * cells->words + spot->word])
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_cells_has_left(const WeftCells *cells, guint host)
{
    if (host >= cells->n)
        return TRUE;
    for (guint i = 0; i < cells->words; i++)
        if (find_left(cells, host)[(gsize)host * cells->words + i])
            return TRUE;
    return FALSE;
}

gboolean
weft_cells_counts(const WeftCells *cells, const WeftSpot *spot)
{
    if (!is_known(cells, spot))
        return TRUE;
    gsize at = (gsize)spot->host * cells->words + spot->word;
    guint64 then = is_then(cells, spot->host) ? cells->then[at] : cells->free[at];
    return (weft_cells_has_left(cells, spot->host) ? then : cells->free[at]) & spot->bits;
}

gboolean
weft_cells_is_clear(const WeftCells *cells, const WeftSeat *seats, guint n)
{
    for (guint i = 0; i < n; i++)
        if (seats[i].host >= cells->n || cells->left_for[seats[i].host] == cells->look_left)
            return FALSE;
    return TRUE;
}
