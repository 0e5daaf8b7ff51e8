/* A non-blocking descriptor in the main loop: bytes come in as they come, frames go out through a queue. thread: main. */
#pragma once

#include "protocol.h"

#include <glib.h>

typedef struct WeftPipe WeftPipe;

/* Each may free the pipe. */
typedef struct WeftPipeOps {
    void (*received)(gpointer owner, const guint8 *bytes, gsize count);
    void (*drained)(gpointer owner);                    /* what was queued has been written */
    void (*ended)(gpointer owner, const GError *error); /* nothing more will happen: free it */
} WeftPipeOps;

/* Takes the descriptor over. */
WeftPipe *weft_pipe_new(int fd, const WeftPipeOps *ops, gpointer owner);
/* Writes what it can without waiting, and closes. NULL is fine. */
void weft_pipe_free(WeftPipe *pipe);

void weft_pipe_write(WeftPipe *pipe, gconstpointer bytes, gsize count);
void weft_pipe_send(WeftPipe *pipe, guint32 session, enum weft_frame_type type, gconstpointer payload, gsize length);
gsize weft_pipe_queued(const WeftPipe *pipe);

/* While held it reads nothing. */
void weft_pipe_hold(WeftPipe *pipe, gboolean held);
