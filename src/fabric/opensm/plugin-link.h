/* A connection to the plugin inside one opensm. thread: one at a time; blocks. */
#pragma once

#include "forward.h"
#include "wire.h"

/* Where a plugin is. thread: any. */
typedef struct WeftPluginManager {
    char *address;        /* as it was given; for people */
    char *path;           /* of the socket on this machine */
    WeftForward *forward; /* what brings the socket here; NULL: it is here */
} WeftPluginManager;

/* INVALID: neither a path nor ssh://user@machine/path. */
WeftPluginManager *weft_plugin_manager_new(const char *address, const WeftForwardOptions *options, GError **error);
void weft_plugin_manager_free(WeftPluginManager *manager);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftPluginManager, weft_plugin_manager_free)

typedef struct WeftPluginLink WeftPluginLink;

/* deadline: of g_get_monotonic_time(). Errors are UNAVAILABLE (it is not there, it hung up, it spoke nonsense) or TIMEOUT;
 * after one the link is of no use any more. */
WeftPluginLink *weft_plugin_link_new(WeftPluginManager *manager, gint64 deadline, GCancellable *cancellable, GError **error);
void weft_plugin_link_free(WeftPluginLink *link);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftPluginLink, weft_plugin_link_free)

/* Asks, and waits for the answer to it; takes the request over. An answer that tells of a failure is one: its error is not set.
 */
json_t *weft_plugin_link_ask(WeftPluginLink *link, json_t *request, gint64 deadline, GCancellable *cancellable, GError **error);
/* The next event, however long it takes. */
json_t *weft_plugin_link_hear(WeftPluginLink *link, GCancellable *cancellable, GError **error);

/* "hello", and what it answers; a plugin of another protocol is UNAVAILABLE. */
WeftManager *weft_plugin_link_greet(WeftPluginLink *link, gint64 deadline, GCancellable *cancellable, GError **error);
