/* Moves bytes both ways between pairs of descriptors and does not look at them. What one side does not take, the other is not
 * asked for: a pair holds at most one read of each direction, an idle one holds nothing. thread: main. SIGPIPE is ignored. */
#pragma once

#include <glib.h>

typedef struct WeftSplices WeftSplices;
typedef struct WeftSplice WeftSplice;

WeftSplices *weft_splices_new(void);
/* All splices are gone before. NULL is fine. */
void weft_splices_free(WeftSplices *splices);

/* Called once, when the far side has ended and all it said was handed on, when the near side hung up, or when either broke. It
 * may free the splice. */
typedef void (*WeftSpliceEnded)(gpointer data);

/* How a side is read and written, with errno as read(2) and write(2) have it. */
typedef struct WeftSpliceIo {
    gssize (*read)(int fd, gpointer io, void *bytes, gsize size);
    gssize (*write)(int fd, gpointer io, const void *bytes, gsize size);
} WeftSpliceIo;

typedef struct WeftSpliceEnds {
    int near; /* non-blocking, borrowed */
    int far;
    const WeftSpliceIo *near_io; /* NULL: as a plain descriptor */
    gpointer io;                 /* for its functions */
    gboolean whole;              /* a near side that stops sending has ended, instead of getting what still comes */
} WeftSpliceEnds;

WeftSplice *weft_splice_new(WeftSplices *splices, const WeftSpliceEnds *ends, WeftSpliceEnded ended, gpointer data);
/* What had been read from the near side already, before anything else of it. */
void weft_splice_begin(WeftSplice *splice, const void *bytes, gsize size);
/* NULL is fine. */
void weft_splice_free(WeftSplice *splice);
