/* Looks at hosts that clients ask for. There is at most one of a kind at a host at a time, and it answers all who asked before
 * it ended: however many ask, and hang up, each host is asked once. They have workers of their own (WeftJob.asked): nobody who
 * only wants to know how busy a node is delays the looks by which weft notices that a host is lost. thread: main. */
#pragma once

#include "jobs.h"

typedef struct WeftProbes WeftProbes;
typedef struct WeftProbe WeftProbe; /* somebody who waits for one */

/* job: with its outcome, borrowed. */
typedef void (*WeftProbed)(WeftJob *job, const GError *error, gpointer data);

/* deadline: of each, in microseconds. */
WeftProbes *weft_probes_new(WeftJobs *jobs, gint64 deadline);
/* Nothing is called any more. The jobs must have ended. */
void weft_probes_free(WeftProbes *probes);

/* step: WEFT_STEP_LIST or WEFT_STEP_INSPECT. Calls back once, later, and the look is gone then. */
WeftProbe *weft_probe_ask(WeftProbes *probes, WeftStepType step, const WeftHostAddress *host, WeftProbed probed, gpointer data);
/* Nobody waits for it any more. A job that nobody waits for is not begun; one that has begun is left to end, for it would be
 * begun again by the next who asks. */
void weft_probe_cancel(WeftProbe *probe);
