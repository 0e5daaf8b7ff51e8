/* Who has how much of the room in which entries wait: one tenant takes at most half of what is left of it, so that others have
 * some, and the last eighth is for operators, admins and weftd itself. Pure. */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef struct WeftWaiting WeftWaiting;

WeftWaiting *weft_waiting_new(gsize size);
void weft_waiting_free(WeftWaiting *waiting);

/* fields: of an entry, which say whose it is. FALSE: there is no room for it. */
gboolean weft_waiting_take(WeftWaiting *waiting, const json_t *fields, gsize size);
/* Nothing waits any more. */
void weft_waiting_clear(WeftWaiting *waiting);
