/* Programs that weftd starts have its locks and its listening sockets for the moment between fork() and exec(). Where weftd is
 * killed in that moment, on a busy machine, whoever starts it again at once finds them taken by nobody that could be stopped.
 */
#pragma once

#include <glib.h>

/* Sleeps for a moment, to look again whether what is taken is free: loop until then. FALSE: that was tried long enough since
 * began (g_get_monotonic_time()), so whoever has it is here to stay. */
gboolean weft_orphans_wait(gint64 began);
