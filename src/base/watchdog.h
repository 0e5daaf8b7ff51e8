/* A watchdog of the main loop: whatever keeps it from everybody else for longer than WEFT_SLICE_MAX is counted, and logged
 * with its name; so is a turn, from one wait for events to the next, whose slices take longer than WEFT_TURN_MAX together. The
 * measure is the thread's processor time: a thread that a busy machine does not run is not to blame. thread: main, all of it.
 */
#pragma once

#include <glib.h>

#define WEFT_SLICE_MAX (20 * 1000) /* microseconds */
#define WEFT_TURN_MAX (100 * 1000) /* likewise, beside the longest slice of the turn */

/* From now on, in the default main context. Before that marks do nothing. */
void weft_watchdog_start(void);

/* A new slice begins here, and ends at the next mark or where the main loop waits. kind: what runs, a literal. subject: for
 * whom or on what, copied; NULL: nobody. */
void weft_watchdog_mark(const char *kind, const char *subject);

typedef struct WeftWatchdogFigures {
    guint64 slices;   /* longer than WEFT_SLICE_MAX */
    guint64 turns;    /* of more than WEFT_TURN_MAX */
    gint64 longest;   /* of all slices, microseconds */
    gint64 last;      /* wall time at which a slice or a turn was too long, microseconds since 1970; 0: never */
    const char *what; /* the longest one; "": there was none */
} WeftWatchdogFigures;
WeftWatchdogFigures weft_watchdog_read(void);
