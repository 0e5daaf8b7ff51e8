/* The process's one reckoning of time: reads the machine's clocks for reckoning.h. thread: any. */
#pragma once

#include "reckoning.h"

typedef struct WeftClockState {
    WeftClockTrust trust;
    gint64 now;   /* what weft_clock_now() says */
    gint64 wall;  /* what the wall clock says */
    gint64 bound; /* what it may differ by */
    gint64 since; /* times from then on are wrong by wall - now, should the wall clock be right */
} WeftClockState;

/* From now on the wall clock is watched. mark: see weft_reckoning_begin(). */
void weft_clock_begin(const WeftClockMark *mark, gint64 bound);
WeftClockState weft_clock_state(void);
/* May nothing end, begin or be dropped because of its age? */
gboolean weft_clock_is_held(void);
/* This moment, to be kept for the next start. */
WeftClockMark weft_clock_mark(void);

/* While it is written that the wall clock is accepted, nothing ends by either time. */
void weft_clock_hold(void);
/* It is later by so much than what was reckoned, as the wall clock says. */
void weft_clock_accept(gint64 gap);
/* What is reckoned is right, whatever the wall clock says: it is as after a jump. */
void weft_clock_confirm(void);
