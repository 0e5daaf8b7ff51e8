/* Partitions on their way to the subnet managers. Changes that come while one is being applied are gathered and go together
 * with the next: a manager that sweeps the whole fabric for a change then sweeps once for many clusters. */
#pragma once

#include "fabric.h"

typedef struct WeftWiring WeftWiring;

/* On the main thread, once for each change that was asked for. */
typedef void (*WeftWired)(const GError *error, gpointer data);

/* A manager that does not answer is no reason not to begin. */
WeftWiring *weft_wiring_new(const char *fabric, WeftFabricDriver *driver, gint64 deadline);
/* Callbacks do not run any more. */
void weft_wiring_free(WeftWiring *wiring);

/* Takes the partition over. A later wish for the same number replaces one that still waits (whose callback runs with it). */
void weft_wiring_set(WeftWiring *wiring, WeftPartition *partition, WeftWired callback, gpointer data);
void weft_wiring_remove(WeftWiring *wiring, guint pkey, WeftWired callback, gpointer data);

/* Asks the manager for all partitions. NULL with an error; borrowed. */
typedef void (*WeftSurveyed)(const char *fabric, GPtrArray *partitions, const GError *error, gpointer data);
void weft_wiring_survey(WeftWiring *wiring, WeftSurveyed callback, gpointer data);
