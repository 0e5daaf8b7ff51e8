/* Threads that read requests and make their answers. What that takes grows with what clients send and have in the store, and
 * the main thread is everybody's: there a request is only let in, given to a reader, and sent its answer. Each reader has a
 * connection to the store of its own.
 *
 * Who waits for one is served in order, but that a tenant has as many at the same time as shares.h gives it: there is always
 * one for somebody else. The processor time is charged to who asked.
 *
 * thread: main, but for the work itself. */
#pragma once

#include "router.h"
#include "store.h"

#include <glib.h>

typedef struct WeftReaders WeftReaders;

/* thread: a reader. It ends in one of the ways that request.h has, and uses nothing else that the main thread may change. */
typedef void (*WeftReading)(WeftRequest *request, gpointer data);

WeftReaders *weft_readers_new(WeftStore *store, guint count, GError **error);
/* Waits for what is being read; nobody is told. NULL is fine. */
void weft_readers_free(WeftReaders *readers);

/* Has the request read, not before the main loop has come round: nobody else may have a reference to the data then. It is
 * taken over, and freed by the reader, or on the main thread where none came to it. */
void weft_readers_add(WeftRequest *request, WeftReading read, gpointer data, GDestroyNotify free_data);
/* The client is gone: what waits is not read any more, and what is being read may end early. */
void weft_readers_cancel(WeftRequest *request);
