#include "orphans.h"

#define LOOK (20 * G_TIME_SPAN_MILLISECOND)
#define LONG_ENOUGH (3 * G_TIME_SPAN_SECOND)

gboolean
weft_orphans_wait(gint64 began)
{
    if (g_get_monotonic_time() - began > LONG_ENOUGH)
        return FALSE;
    g_usleep(LOOK);
    return TRUE;
}
