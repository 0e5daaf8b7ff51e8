/* Watches the site's clock (see reckoning.h): keeps its moments of trust in the store, tells when the wall clock is doubted,
 * asks hosts for theirs, and accepts the wall clock when an admin says so or, where it is held, a majority of them agrees with
 * it. thread: main. */
#pragma once

#include "store.h"

typedef struct WeftControl WeftControl;
typedef struct WeftClockWatch WeftClockWatch;

/* Begins to reckon from the store's last moment of trust on; before anything is written to it. */
gboolean weft_clock_watch_begin(WeftStore *store, gint64 bound, GError **error);

WeftClockWatch *weft_clock_watch_new(WeftControl *control);
/* Keeps the last moment; nothing is watched from then on. */
void weft_clock_watch_stop(WeftClockWatch *watch);
void weft_clock_watch_free(WeftClockWatch *watch);

/* A host told what its wall clock says; 0: it did not. */
void weft_clock_watch_heard(WeftClockWatch *watch, const char *host, gint64 time);

/* { "state": "trusted|jumped|held", "time": what weft goes by, "wall": what the clock of weftd's machine says (microseconds),
 *   "hosts": { "wall", "time", "neither": so many hosts agree with either } } */
json_t *weft_clock_watch_view(const WeftClockWatch *watch);
/* Appends what weft doctor says of it. */
void weft_clock_watch_examine(const WeftClockWatch *watch, json_t *checks);

/* error NULL: the wall clock is trusted. */
typedef void (*WeftClockAccepted)(const GError *error, gpointer data);
/* who: for the event. seen: what they were shown as the wall clock's time; it must be that still. CONFLICT: it is not, or
 * another acceptance is under way. */
void weft_clock_watch_accept(WeftClockWatch *watch, const char *who, gint64 seen, WeftClockAccepted accepted, gpointer data);
