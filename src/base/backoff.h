/* Exponential back-off with jitter. */
#pragma once

#include <glib.h>

typedef struct WeftBackoff {
    gint64 base; /* microseconds before the second try */
    gint64 max;
} WeftBackoff;

/* Delay before try number attempt (1 is the first repetition): base × 2^(attempt-1), at most max, of which half is random. */
gint64 weft_backoff_delay(const WeftBackoff *backoff, guint attempt);
