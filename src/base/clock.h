/* Time as weft records it: microseconds since 1970, UTC. */
#pragma once

#include <glib.h>

/* The time to decide by and to write down: the wall clock's, as long as it is trusted (see reckoning.h and clock-trust.h).
 * Before weft_clock_begin() it always is. thread: any. */
gint64 weft_clock_now(void);

/* Microseconds of processor time that the calling thread has used. */
gint64 weft_clock_thread(void);

/* Strictly increasing within the process, even when the wall clock steps back: fit to be an identifier.
 * weft_clock_advance() makes all later stamps larger than the given one (after a restart). thread: any. */
gint64 weft_clock_stamp(void);
void weft_clock_advance(gint64 at_least);

/* RFC 3339 in UTC with milliseconds, "2026-01-31T12:00:00.000Z", and back. */
char *weft_clock_format(gint64 time);
gboolean weft_clock_parse(const char *text, gint64 *ret_time, GError **error);

/* "90s", "5m", "2h", "1d", "250ms" to microseconds, and a short form back ("3 m 20 s"). */
gboolean weft_duration_parse(const char *text, gint64 *ret_duration, GError **error);
char *weft_duration_format(gint64 duration);
