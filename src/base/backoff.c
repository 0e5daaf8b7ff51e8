#include "backoff.h"

#include "id.h"

gint64
weft_backoff_delay(const WeftBackoff *backoff, guint attempt)
{
    gint64 delay = MIN(backoff->base, backoff->max);
    for (guint i = 1; i < attempt && delay < backoff->max; i++)
        delay = delay > backoff->max / 2 ? backoff->max : delay * 2;
    if (delay <= 0)
        return 0;
    gint64 half = delay / 2;
    return delay - half + (gint64)(weft_random_u64() % (guint64)(half + 1));
}
