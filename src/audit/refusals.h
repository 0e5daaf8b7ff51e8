/* How many requests that were refused, or done and changed nothing, get an entry each in the audit trail: they cost who sends
 * them nothing, so that somebody could fill a disk with it. Beyond that they are counted, and summed in one entry for each who
 * sent them. Pure. */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef struct WeftRefusals WeftRefusals;

WeftRefusals *weft_refusals_new(void);
void weft_refusals_free(WeftRefusals *refusals);

/* Whose request changed nothing. Strangers have one share together: an address is free to take. */
typedef struct WeftRefused {
    const char *account; /* NULL: a stranger */
    const char *from;    /* where it came from */
    guint status;
} WeftRefused;

/* Has it an entry of its own? now: microseconds, monotonic. FALSE: it is counted. */
gboolean weft_refusals_admit(WeftRefusals *refusals, const WeftRefused *refused, gint64 now);
/* It is counted, whatever was admitted. */
void weft_refusals_count(WeftRefusals *refusals, const WeftRefused *refused, gint64 now);
gboolean weft_refusals_has_sums(const WeftRefusals *refusals);
/* What was counted since the last time, and is counted no more: an array of objects with "account" (null: strangers), "count",
 * and counts by "statuses" and "from". */
json_t *weft_refusals_take_sums(WeftRefusals *refusals);
