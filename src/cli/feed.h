/* An event stream of the API that outlives weftd: a lost connection is made again and goes on after the last event. */
#pragma once

#include "client.h"

typedef struct WeftFeed WeftFeed;

/* last_id NULL: only new events. The client must live longer. */
WeftFeed *weft_feed_new(WeftClient *client, const char *path, const char *last_id);
void weft_feed_free(WeftFeed *feed);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFeed, weft_feed_free)

/* Waits until something happened (events came, or the connection was made: what happened before it must be looked up), but not
 * before not_before nor after until; both monotonic. FALSE when weftd refuses the stream, or with CANCELLED after Ctrl-C. */
gboolean weft_feed_wait(WeftFeed *feed, gint64 not_before, gint64 until, GError **error);

/* The next event that came, NULL: none now. */
json_t *weft_feed_next(WeftFeed *feed);
