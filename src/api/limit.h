/* How many requests a caller may make: a token bucket for each, in a table of bounded size. */
#pragma once

#include <glib.h>

typedef struct WeftLimit WeftLimit;

WeftLimit *weft_limit_new(guint per_second, guint burst);
void weft_limit_free(WeftLimit *limit);

/* cost is how many requests it counts as, now is monotonic, in microseconds. FALSE: not now. */
gboolean weft_limit_take(WeftLimit *limit, const char *who, guint cost, gint64 now);
