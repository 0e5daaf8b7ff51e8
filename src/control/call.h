/* A call to a driver that is cancelled when its time is up. */
#pragma once

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftCall {
    GCancellable *cancellable; /* NULL: none is under way */
    guint timer;
} WeftCall;

/* invariant: call stays where it is until weft_call_end(). deadline: microseconds from now. */
void weft_call_begin(WeftCall *call, gint64 deadline);
void weft_call_end(WeftCall *call);
