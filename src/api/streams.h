/* Server-sent events. A stream is a position in the store's events: it reads on from there whenever its client has taken what
 * was read before. So it can neither skip nor repeat an event, and a slow client costs no memory. */
#pragma once

#include "router.h"
#include "store.h"

#include <glib.h>

typedef struct WeftStreams WeftStreams;
typedef struct WeftStream WeftStream;
struct MHD_Response;

WeftStreams *weft_streams_new(WeftStore *store);
void weft_streams_free(WeftStreams *streams);

/* Answers the request with a stream of the events of a cluster (its id), of a tenant, or, with both NULL, of all. BUSY when
 * there are too many streams. */
gboolean weft_streams_open(WeftRequest *request, const char *tenant, const char *cluster, GError **error);

/* Takes the stream over. */
struct MHD_Response *weft_stream_response(WeftStream *stream);
void weft_stream_free(WeftStream *stream);
