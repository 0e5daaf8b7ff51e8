/* Progress on the standard error: one live line on a terminal, a plain line for each change elsewhere. */
#pragma once

#include <glib.h>

typedef struct WeftProgress WeftProgress;

WeftProgress *weft_progress_new(const char *what);
/* Removes the live line. */
void weft_progress_free(WeftProgress *progress);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftProgress, weft_progress_free)

/* To be called at each change, and about once a second so that the live line's clock goes on. */
void weft_progress_show(WeftProgress *progress, const char *text);
/* When the next call is due, monotonic; G_MAXINT64 where nothing is live. */
gint64 weft_progress_due(const WeftProgress *progress);
