#include "reckoning.h"

#include <string.h>

#define DAY (24 * 60 * 60 * (gint64)G_USEC_PER_SEC)
#define MOMENT G_USEC_PER_SEC /* less is not counted: parts of it would be lost by rounding */

const char *const weft_clock_trust_words[] = { "trusted", "jumped", "held", NULL };

gint64
weft_reckoning_gap(const WeftReckoning *self, const WeftClockReading *reading)
{
    return reading->wall - (reading->ticks + self->offset);
}

static gboolean
is_within(gint64 difference, gint64 bound)
{
    return difference <= bound && difference >= -bound;
}

/* What was followed counts less and less: after a day as much may be followed again. */
static void
wear_off(WeftReckoning *self, gint64 ticks)
{
    if (ticks - self->worn < MOMENT)
        return;
    double worn = (double)self->bound * (double)(ticks - self->worn) / DAY;
    if (worn >= (double)ABS(self->followed))
        self->followed = 0;
    else
        self->followed -= (gint64)(self->followed < 0 ? -worn : worn);
    self->worn = ticks;
}

void
weft_reckoning_begin(WeftReckoning *self, const WeftClockReading *reading, const WeftClockMark *mark, gint64 bound)
{
    *self = (WeftReckoning){ .bound = bound, .offset = reading->wall - reading->ticks, .worn = reading->ticks };
    if (!mark)
        return;
    self->followed = mark->followed;
    if (mark->boot[0] && g_str_equal(mark->boot, reading->boot)) {
        self->offset = mark->time - mark->ticks;
        self->worn = mark->ticks;
        weft_reckoning_now(self, reading);
    } else if (!is_within(reading->wall - mark->time, bound)) {
        self->offset = mark->time - reading->ticks;
        self->trust = WEFT_CLOCK_HELD;
        self->since = mark->jumped ? G_MININT64 : mark->time;
    }
}

void
weft_reckoning_confirm(WeftReckoning *self)
{
    self->trust = WEFT_CLOCK_JUMPED;
    self->since = G_MININT64;
}

gint64
weft_reckoning_now(WeftReckoning *self, const WeftClockReading *reading)
{
    gint64 gap = weft_reckoning_gap(self, reading);
    wear_off(self, reading->ticks);
    if (is_within(gap, self->bound) && is_within(self->followed + gap, self->bound)) {
        self->offset += gap;
        self->followed += gap;
        self->trust = WEFT_CLOCK_TRUSTED;
    } else if (self->trust == WEFT_CLOCK_TRUSTED) {
        weft_reckoning_confirm(self);
    }
    return reading->ticks + self->offset;
}

void
weft_reckoning_accept(WeftReckoning *self, gint64 gap)
{
    self->offset += gap;
    self->followed = 0;
    self->trust = WEFT_CLOCK_TRUSTED;
}

gboolean
weft_clock_is_for_hosts(WeftClockTrust trust, gint64 since)
{
    return trust == WEFT_CLOCK_HELD && since != G_MININT64;
}

WeftClockVerdict
weft_clock_judge(guint hosts, guint wall, guint reckoned, guint neither)
{
    guint heard = wall + reckoned + neither, least = MAX(MIN(hosts, WEFT_CLOCK_JURY), heard) / 2 + 1;
    return wall >= least ? WEFT_VERDICT_WALL : reckoned >= least ? WEFT_VERDICT_RECKONED : WEFT_VERDICT_NONE;
}
