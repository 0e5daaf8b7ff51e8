/* Clusters whose walltime is over are removed, as if somebody had asked for it. thread: main. */
#pragma once

#include "cluster.h"
#include "store.h"

typedef struct WeftControl WeftControl;
typedef struct WeftExpiry WeftExpiry;

/* Reads from the store what ends when. NULL with an error. */
WeftExpiry *weft_expiry_new(WeftControl *control, GError **error);
void weft_expiry_free(WeftExpiry *expiry);
/* The clock is another one: adds to the transaction that clusters, tokens and reservations that began from then on end that
 * much later, so that what is left of them stays. … and takes it over once it is committed; what is due is done then. */
gboolean weft_expiry_shift(WeftExpiry *expiry, WeftTxn *txn, gint64 since, gint64 by, GError **error);
void weft_expiry_shifted(WeftExpiry *expiry, gint64 revision);
/* The cluster of that key ends as its status says; NULL: it is not there any more. Cheap where that is known. */
void weft_expiry_set(WeftExpiry *expiry, const char *key, const WeftClusterStatus *status);
