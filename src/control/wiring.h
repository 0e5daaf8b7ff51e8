/* Partitions on their way to the subnet managers. Changes that come while one is being applied are gathered and go together
 * with the next: a manager that sweeps the whole fabric for a change then sweeps once for many clusters. */
#pragma once

#include "fabric.h"

typedef struct WeftWiring WeftWiring;

/* On the main thread, once for each change that was asked for. */
typedef void (*WeftWired)(const GError *error, gpointer data);

/* A manager that does not answer is no reason not to begin. */
WeftWiring *weft_wiring_new(const char *fabric, WeftFabricDriver *driver, gint64 deadline);
/* Asked before each change; FALSE: all that wait are answered with the error. */
typedef gboolean (*WeftWiringMay)(gpointer data, GError **error);
/* Somebody else has changed the fabric since: those of the change that came too late are answered with BUSY after this. */
typedef void (*WeftWiringOvertaken)(gpointer data);
void weft_wiring_guard(WeftWiring *wiring, WeftWiringMay may, WeftWiringOvertaken overtaken, gpointer data);
/* Callbacks do not run any more. */
void weft_wiring_free(WeftWiring *wiring);

/* Takes the partition over. A later wish for the same number replaces one that still waits (whose callback runs with it). */
void weft_wiring_set(WeftWiring *wiring, WeftPartition *partition, WeftWired callback, gpointer data);
/* name: as in WeftPartitionRemoval. */
void weft_wiring_remove(WeftWiring *wiring, guint pkey, const char *name, WeftWired callback, gpointer data);

/* Asks the manager for all partitions. NULL with an error; borrowed. */
typedef void (*WeftSurveyed)(const char *fabric, GPtrArray *partitions, const GError *error, gpointer data);
void weft_wiring_survey(WeftWiring *wiring, WeftSurveyed callback, gpointer data);
