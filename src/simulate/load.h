/* A load: the jobs that a simulation replays, in order of their submission. One job is one cluster. Plain data. */
#pragma once

#include <glib.h>

/* Bounds of one job; more than these is no job but a mistake. */
#define WEFT_LOAD_TIME_MAX (100LL * 366 * 24 * 3600) /* seconds: when it is submitted */
#define WEFT_LOAD_PROCESSORS_MAX 100000000u
#define WEFT_LOAD_HOSTS_MAX 100000u
#define WEFT_LOAD_IDS_MAX 1000000000 /* numbers of users and groups */

typedef struct WeftLoadJob {
    gint64 number; /* as the trace numbers it */
    gint64 submit; /* microseconds since the trace begins; … for the others */
    gint64 run;    /* it would run so long */
    gint64 walltime;
    guint processors;
    guint user; /* 0: not known */
    guint group;
    gboolean gpus;        /* each of its nodes wants its share of a host's GPUs */
    gboolean preemptible; /* gives way to those that are not */
} WeftLoadJob;

typedef struct WeftLoad {
    GArray *jobs;     /* WeftLoadJob, by submit */
    guint hosts;      /* that the trace was recorded on (MaxNodes); 0: not told */
    guint processors; /* MaxProcs; 0: not told */
    /* Lines of a trace that are no job to replay: */
    guint partial;    /* one of several parts of a job, which has a line for the whole as well */
    guint incomplete; /* that never ran, or of which the time or size is not told */
} WeftLoad;

WeftLoad *weft_load_new(void);
void weft_load_free(WeftLoad *load);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftLoad, weft_load_free)

/* Into order of submission; those of the same time stay as they are. */
void weft_load_sort(WeftLoad *load);
