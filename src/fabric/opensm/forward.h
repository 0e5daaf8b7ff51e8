/* A socket of another machine, brought here by ssh. ssh is started when it is needed, and again when it ended. thread: any. */
#pragma once

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftForwardOptions {
    const char *program; /* NULL: "ssh" */
    const char *key;     /* NULL: as ssh is configured */
} WeftForwardOptions;

typedef struct WeftForward WeftForward;

/* url: "ssh://user@machine[:port]/path/of.sock"; INVALID names what is wrong with it. */
WeftForward *weft_forward_new(const char *url, const WeftForwardOptions *options, GError **error);
/* Ends ssh as well. */
void weft_forward_free(WeftForward *forward);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftForward, weft_forward_free)

/* Of the socket on this machine. */
const char *weft_forward_path(const WeftForward *forward);

/* Waits until the socket is there, at most until the deadline (of g_get_monotonic_time()). ssh that ended is not started again
 * before a while, which grows from time to time: UNAVAILABLE with what it said. */
gboolean weft_forward_open(WeftForward *forward, gint64 deadline, GCancellable *cancellable, GError **error);
