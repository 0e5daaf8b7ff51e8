/* Something to do on the main thread, soon: a source of the main loop that runs a function once it was asked to. However often
 * it is asked until then, the function runs once. */
#pragma once

#include <glib.h>

/* Belongs to the caller: g_source_destroy() ends it, g_source_unref() frees it. */
GSource *weft_wakeup_new(void (*run)(gpointer data), gpointer data);

/* thread: any. Nothing happens after g_source_destroy(). */
void weft_wakeup_ask(GSource *wakeup);
