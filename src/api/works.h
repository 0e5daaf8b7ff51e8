/* Long reads, done a step at a time between other work: one step of one request in each turn of the main loop, whoever asks and
 * how often. */
#pragma once

#include "router.h"

#include <glib.h>

typedef struct WeftWorks WeftWorks;

WeftWorks *weft_works_new(void);
void weft_works_free(WeftWorks *works);

/* Calls step, in turn with the other works, until it returns FALSE or the client is gone. data is taken over. BUSY where the
 * caller has too many already. */
gboolean weft_works_add(WeftRequest *request, GSourceFunc step, gpointer data, GDestroyNotify free_data, GError **error);
void weft_works_cancel(WeftRequest *request);
