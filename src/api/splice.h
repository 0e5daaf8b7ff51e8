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

typedef struct WeftSpliceEnds {
    int near; /* non-blocking, borrowed; a near side that only stops sending still gets what comes */
    int far;
    int line; /* the connection beneath the near side, where the near side does not tell of its end; -1: it does */
} WeftSpliceEnds;

WeftSplice *weft_splice_new(WeftSplices *splices, const WeftSpliceEnds *ends, WeftSpliceEnded ended, gpointer data);
/* What had been read from the near side already, before anything else of it. */
void weft_splice_begin(WeftSplice *splice, const void *bytes, gsize size);
/* NULL is fine. */
void weft_splice_free(WeftSplice *splice);
