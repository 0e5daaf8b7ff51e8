/* Clusters whose walltime is over are removed, as if somebody had asked for it. thread: main. */
#pragma once

#include "cluster.h"

typedef struct WeftControl WeftControl;
typedef struct WeftExpiry WeftExpiry;

/* Reads from the store what ends when. NULL with an error. */
WeftExpiry *weft_expiry_new(WeftControl *control, GError **error);
void weft_expiry_free(WeftExpiry *expiry);
/* The cluster of that key ends as its status says; NULL: it is not there any more. Cheap where that is known. */
void weft_expiry_set(WeftExpiry *expiry, const char *key, const WeftClusterStatus *status);
