/* Dry runs, on workers and on a snapshot of fleet and queue. Each tenant has one computed at a time, and a few that wait; so
 * many are computed in all, and one more for operators. thread: main. */
#pragma once

#include "control-private.h"

typedef struct WeftTrials WeftTrials;

/* report: as place() of gate.h has it, borrowed; NULL with an error, or when it was cancelled. */
typedef void (*WeftTried)(json_t *report, const GError *error, gpointer data);

WeftTrials *weft_trials_new(WeftControl *control);
/* Waits for what is computed; nobody is called back any more. */
void weft_trials_free(WeftTrials *trials);
/* Takes the cluster over. operator: one asks, who does not wait for the tenant's. cancellable: polled while it is computed;
 * NULL: it cannot be. tried: once, later. */
void weft_trials_ask(WeftTrials *trials, WeftCluster *cluster, gboolean operator, GCancellable * cancellable, WeftTried tried,
                     gpointer data);
/* Fleet and queue of a later moment are known: those that waited for them may run. */
void weft_trials_go_on(WeftTrials *trials);
