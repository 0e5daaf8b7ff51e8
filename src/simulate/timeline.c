#include "timeline.h"

static WeftMoment *
at(const WeftTimeline *timeline, guint i)
{
    return &g_array_index(timeline->moments, WeftMoment, i);
}

static gboolean
is_before(const WeftMoment *a, const WeftMoment *b)
{
    if (a->time != b->time)
        return a->time < b->time;
    return a->job != b->job ? a->job < b->job : a->run < b->run;
}

void
weft_timeline_init(WeftTimeline *timeline)
{
    timeline->moments = g_array_new(FALSE, FALSE, sizeof(WeftMoment));
}

void
weft_timeline_clear(WeftTimeline *timeline)
{
    g_array_unref(timeline->moments);
}

void
weft_timeline_push(WeftTimeline *timeline, const WeftMoment *moment)
{
    guint i = timeline->moments->len;
    g_array_append_vals(timeline->moments, moment, 1);
    for (; i > 0 && is_before(moment, at(timeline, (i - 1) / 2)); i = (i - 1) / 2)
        *at(timeline, i) = *at(timeline, (i - 1) / 2);
    *at(timeline, i) = *moment;
}

const WeftMoment *
weft_timeline_first(const WeftTimeline *timeline)
{
    return timeline->moments->len ? at(timeline, 0) : NULL;
}

void
weft_timeline_pop(WeftTimeline *timeline)
{
    guint n = timeline->moments->len - 1, i = 0;
    WeftMoment last = *at(timeline, n);
    g_array_set_size(timeline->moments, n);
    for (guint child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_before(at(timeline, child + 1), at(timeline, child)))
            child++;
        if (!is_before(at(timeline, child), &last))
            break;
        *at(timeline, i) = *at(timeline, child);
    }
    if (n > 0)
        *at(timeline, i) = last;
}
