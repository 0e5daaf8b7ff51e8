/* Server-sent events, as far as the API uses them: id, event and data lines, and comments that keep the stream alive. Pure. */
#pragma once

#include <glib.h>

typedef struct WeftSseEvent {
    char *id;   /* NULL: none */
    char *data; /* lines joined by newlines */
} WeftSseEvent;

void weft_sse_event_free(WeftSseEvent *event);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftSseEvent, weft_sse_event_free)

typedef struct WeftSse WeftSse;

WeftSse *weft_sse_new(void);
void weft_sse_free(WeftSse *sse);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftSse, weft_sse_free)

/* Takes the next bytes, cut anywhere, and appends each event that they complete to events (WeftSseEvent). An event of more than
 * 1 MiB is FAILED: then the parser must not be used further. */
gboolean weft_sse_feed(WeftSse *sse, const char *bytes, gsize length, GQueue *events, GError **error);
