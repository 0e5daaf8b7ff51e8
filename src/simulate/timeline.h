/* What happens next: a heap of times. */
#pragma once

#include <glib.h>

typedef struct WeftMoment {
    gint64 time;
    guint job;
    guint run; /* which of the job's runs ends then */
} WeftMoment;

typedef struct WeftTimeline {
    GArray *moments; /* WeftMoment */
} WeftTimeline;

void weft_timeline_init(WeftTimeline *timeline);
void weft_timeline_clear(WeftTimeline *timeline);
void weft_timeline_push(WeftTimeline *timeline, const WeftMoment *moment);
/* The earliest, of the same time that of the first job; NULL: none. Until the next change. */
const WeftMoment *weft_timeline_first(const WeftTimeline *timeline);
void weft_timeline_pop(WeftTimeline *timeline);
