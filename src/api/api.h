/* The API: HTTP/1.1 and JSON under /v1. It reads and writes the store: what is to happen is a wish there. What is
 * in the nodes and on the hosts now it learns through the gate. */
#pragma once

#include "gate.h"
#include "store.h"

#include <glib.h>

typedef struct WeftApiOptions {
    const char *socket_path;     /* Unix socket; peer credentials decide */
    const char *socket_group;    /* its group, mode 0660; NULL: mode 0666, credentials decide alone */
    const char *tcp_address;     /* "127.0.0.1:7600" or "[::1]:7600"; NULL: no TCP */
    const char *tls_certificate; /* files in PEM; required with TCP */
    const char *tls_key;
    guint connections; /* at the same time, in all */
    guint connections_per_address;
    guint body_max;            /* bytes */
    guint requests_per_second; /* of one principal, in the mean */
    guint requests_burst;
    guint streams;             /* event streams at the same time, in all */
    guint sessions;            /* sessions and consoles at the same time, in all */
    gint64 idle_timeout;       /* microseconds before an idle connection is closed */
    const char *images;        /* folder of the images' files, by their digest; NULL: images are UNAVAILABLE */
    const char *default_image; /* what "default" means in a specification; NULL: the image of that name */
    gboolean check_images;     /* refuse a cluster whose image is not known: a real node starts from one, a fake from none */
    WeftGate *gate;            /* to nodes and hosts, borrowed; NULL: whoever asks for it is told that it is UNAVAILABLE */
} WeftApiOptions;

extern const WeftApiOptions weft_api_defaults;

typedef struct WeftApi WeftApi;

WeftApi *weft_api_new(WeftStore *store, const WeftApiOptions *options, GError **error);
void weft_api_free(WeftApi *api);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftApi, weft_api_free)

/* The port that TCP listens on, for tests that ask for port 0; 0 without TCP. */
guint weft_api_port(const WeftApi *api);

/* The route table as JSON, for tests and documentation: [{"method","path","role"}, …]. */
json_t *weft_api_routes(void);
