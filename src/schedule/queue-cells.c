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
            WeftSpot spot = { seats[i].host, w, seats[i].cores.words[w] };
            if (spot.bits)
                g_array_append_val(spots, spot);
        }
}

/* --- now --- */

static gboolean
is_known(const WeftCells *cells, const WeftSpot *spot)
{
    return spot->host < cells->n && spot->word < cells->words;
}

static WeftCell *
cell_of(const WeftCells *cells, const WeftSpot *spot)
{
    return &cells->cell[(gsize)spot->host * cells->words + spot->word];
}

static void
reset(WeftCells *cells, guint n, guint words)
{
    g_free(cells->cell);
    cells->cell = g_new0(WeftCell, (gsize)n * words);
    cells->n = n;
    cells->words = words;
    cells->look = cells->look_then = cells->look_left = 0;
    cells->total = 0;
    memset(cells->hosts, 0, sizeof cells->hosts);
}

void
weft_cells_read(WeftCells *cells, const WeftFleet *fleet)
{
    guint n = fleet->slots->len, words = 1; /* hosts keep their numbers when others go */
    for (guint i = 0; i < n; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, i);
        words = slot ? MAX(words, (weft_slot_host(slot)->cores->len + 63) / 64) : words;
    }
    reset(cells, n, words);
    for (guint i = 0; i < n; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, i);
        WeftBits bits = { 0 };
        guint free = 0;
        if (slot && weft_slot_is_open(slot))
            weft_slot_free_bits(slot, &bits);
        for (guint w = 0; w < words; w++) {
            cells->cell[(gsize)i * words + w].free = bits.words[w];
            free += (guint)__builtin_popcountll(bits.words[w]);
        }
        cells->hosts[free]++;
        cells->total += free;
    }
}

void
weft_cells_clear(WeftCells *cells)
{
    g_free(cells->cell);
}

static guint
count_free(const WeftCells *cells, guint host)
{
    guint n = 0;
    for (guint w = 0; host < cells->n && w < cells->words; w++)
        n += (guint)__builtin_popcountll(cells->cell[(gsize)host * cells->words + w].free);
    return n;
}

void
weft_cells_change(WeftCells *cells, const GArray *spots, gboolean taken)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot))
            continue;
        WeftCell *cell = cell_of(cells, spot);
        guint before = count_free(cells, spot->host);
        cell->free = taken ? cell->free & ~spot->bits : cell->free | spot->bits;
        guint after = count_free(cells, spot->host);
        cells->hosts[before]--;
        cells->hosts[after]++;
        cells->total = cells->total - before + after;
    }
}

/* --- then --- */

static guint64
then_of(const WeftCells *cells, const WeftCell *cell)
{
    return cell->then_for == cells->look_then ? cell->then : cell->free;
}

static guint64
left_of(const WeftCells *cells, const WeftCell *cell)
{
    return cell->left_for == cells->look_left ? cell->left : then_of(cells, cell);
}

static guint32
next_look(WeftCells *cells)
{
    if (++cells->look == 0) {
        for (gsize i = 0; i < (gsize)cells->n * cells->words; i++)
            cells->cell[i].then_for = cells->cell[i].left_for = 0;
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

/* How many nodes fit on the spot's host less or more, where that word of its cores changes. */
static gint64
gain(const WeftCells *cells, const WeftSpot *spot, guint64 before, guint64 after, gboolean left)
{
    guint others = 0;
    const WeftCell *first = &cells->cell[(gsize)spot->host * cells->words];
    for (guint w = 0; w < cells->words; w++)
        if (w != spot->word)
            others += (guint)__builtin_popcountll(left ? left_of(cells, first + w) : then_of(cells, first + w));
    guint was = others + (guint)__builtin_popcountll(before), is = others + (guint)__builtin_popcountll(after);
    return (gint64)(is / cells->cores) - (gint64)(was / cells->cores);
}

void
weft_cells_give(WeftCells *cells, const GArray *spots)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot))
            continue;
        WeftCell *cell = cell_of(cells, spot);
        guint64 before = then_of(cells, cell);
        cells->fit_then += gain(cells, spot, before, before | spot->bits, FALSE);
        cell->then = before | spot->bits;
        cell->then_for = cells->look_then;
    }
}

void
weft_cells_look(WeftCells *cells)
{
    cells->look_left = next_look(cells);
    cells->fit_left = cells->fit_then;
}

/* Most of what is promised is held by others until then, and not free anyway. */
static void
take_spot(WeftCells *cells, const WeftSpot *spot)
{
    WeftCell *cell = cell_of(cells, spot);
    guint64 before = left_of(cells, cell);
    if (!(before & spot->bits))
        return;
    cells->fit_left += gain(cells, spot, before, before & ~spot->bits, TRUE);
    cell->left = before & ~spot->bits;
    cell->left_for = cells->look_left;
}

void
weft_cells_take(WeftCells *cells, const GArray *spots)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (is_known(cells, spot))
            take_spot(cells, spot);
    }
}

void
weft_cells_bar(WeftCells *cells, guint host)
{
    for (guint w = 0; host < cells->n && w < cells->words; w++) {
        WeftSpot all = { host, w, G_MAXUINT64 };
        take_spot(cells, &all);
    }
}

gboolean
weft_cells_has(const WeftCells *cells, const GArray *spots)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot) || spot->bits & ~left_of(cells, cell_of(cells, spot)))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_cells_has_left(const WeftCells *cells, guint host)
{
    guint n = 0;
    for (guint w = 0; host < cells->n && w < cells->words; w++)
        n += (guint)__builtin_popcountll(left_of(cells, &cells->cell[(gsize)host * cells->words + w]));
    return host >= cells->n || n >= cells->cores;
}

gboolean
weft_cells_matters(const WeftCells *cells, guint host)
{
    return weft_cells_has_left(cells, host) || count_free(cells, host) >= cells->cores;
}

/* --- marks --- */

void
weft_cells_mark(WeftCells *cells, const GArray *spots)
{
    cells->look_left = next_look(cells);
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot))
            continue;
        WeftCell *cell = cell_of(cells, spot);
        cell->left = spot->bits | (cell->left_for == cells->look_left ? cell->left : 0);
        cell->left_for = cells->look_left;
    }
}

gboolean
weft_cells_meets(const WeftCells *cells, const GArray *spots)
{
    for (guint i = 0; i < spots->len; i++) {
        const WeftSpot *spot = &g_array_index(spots, WeftSpot, i);
        if (!is_known(cells, spot))
            return TRUE;
        const WeftCell *cell = cell_of(cells, spot);
        if (cell->left_for == cells->look_left && cell->left & spot->bits)
            return TRUE;
    }
    return FALSE;
}
