/* Calls to hosts, on bounded workers: so many in all, so many to one host, each with a deadline. Awaiting a guest takes long
 * and asks little, and how long is up to a tenant's image: it has workers of its own, so that no other call waits for it.
 *
 * thread: jobs are submitted on the main thread and end by their callback there; only the driver's call itself runs on a
 * worker, between the failpoints "STEP-before" and "STEP-after". */
#pragma once

#include "hypervisor.h"

#include <gio/gio.h>
#include <glib.h>

typedef enum { WEFT_STEP_START, WEFT_STEP_AWAIT, WEFT_STEP_STOP, WEFT_STEP_LIST, WEFT_STEPS } WeftStepType;
extern const char *const weft_step_words[WEFT_STEPS + 1];

typedef struct WeftJobs WeftJobs;
typedef struct WeftJob WeftJob;

/* contents: what a list found, borrowed. A job that was cancelled or ran into its deadline ends with WEFT_ERROR_TIMEOUT. */
typedef void (*WeftJobDone)(const WeftJob *job, WeftContents *contents, const GError *error);

struct WeftJob {
    WeftStepType step;
    char *host;
    char *uri;       /* NULL: the driver knows */
    char *text;      /* the definition to start, or the domain's name */
    gint64 deadline; /* microseconds from the moment that it runs */
    WeftJobDone done;
    gpointer owner; /* the caller's, borrowed */
    char *subject;  /* the caller's: the node that it is about */
    GCancellable *cancellable;

    WeftContents *contents; /* the outcome */
    GError *error;
    gboolean late; /* its deadline passed */
};

WeftJobs *weft_jobs_new(WeftHypervisor *hv, guint workers, guint workers_per_host);
/* Cancels everything and waits until the workers are idle; callbacks do not run any more. */
void weft_jobs_free(WeftJobs *jobs);

/* A job to fill in; submitting takes it over. */
WeftJob *weft_job_new(WeftStepType step, const char *host, const char *uri, const char *text);
void weft_jobs_submit(WeftJobs *jobs, WeftJob *job);
