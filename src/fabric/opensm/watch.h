/* Listens to all managers at once, and tells what happens: also to the standby, since it is the one that knows first when it
 * rules. */
#pragma once

#include "plugin-link.h"

typedef struct WeftPluginWatch WeftPluginWatch;

/* thread: any. */
typedef void (*WeftPluginTell)(WeftFabricEvent event, const char *detail, gpointer data);

/* managers: WeftPluginManager, borrowed. deadline: microseconds for each conversation. */
WeftPluginWatch *weft_plugin_watch_new(GPtrArray *managers, gint64 deadline, WeftPluginTell tell, gpointer data);
/* Nothing is told afterwards. */
void weft_plugin_watch_free(WeftPluginWatch *watch);
