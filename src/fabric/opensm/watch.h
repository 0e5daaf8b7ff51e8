/* Listens to all managers at once, and tells what happens: also to the standby, since it is the one that knows first when it
 * rules. */
#pragma once

#include "plugin-link.h"

typedef struct WeftWatch WeftWatch;

/* thread: any. */
typedef void (*WeftWatchTell)(WeftFabricEvent event, const char *detail, gpointer data);

/* managers: WeftPluginManager, borrowed. deadline: microseconds for each conversation. */
WeftWatch *weft_watch_new(GPtrArray *managers, gint64 deadline, WeftWatchTell tell, gpointer data);
/* Nothing is told afterwards. */
void weft_watch_free(WeftWatch *watch);
