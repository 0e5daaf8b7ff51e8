/* What was read lately, and by whom: where a read takes many requests, the first within an hour has an entry in the audit trail
 * that stands for all of them. Pure. */
#pragma once

#include <glib.h>

typedef struct WeftReads WeftReads;

WeftReads *weft_reads_new(void);
void weft_reads_free(WeftReads *reads);

/* Is this the first read of that key, who and what, within an hour? It is remembered then. now: microseconds, monotonic. Memory
 * is bounded: where too many are known all are forgotten, and more reads than need be are first ones. */
gboolean weft_reads_is_first(WeftReads *reads, const char *key, gint64 now);
