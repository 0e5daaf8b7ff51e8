/* A simulation: a load on a site, hour by hour, against the queue and the placement that weftd has. Pure: no I/O, no clock; the
 * same input gives the same figures. */
#pragma once

#include "load.h"
#include "meter.h"
#include "site.h"

#include "queue.h"

typedef struct WeftSimulateOptions {
    WeftQueueOptions queue;
    WeftLayout layout;
    guint cores_per_node; /* of the largest node */
    gboolean by_group;    /* tenants are the trace's groups, not its users */
} WeftSimulateOptions;

/* Of all jobs that ended. */
typedef struct WeftSpread {
    double mean;
    double median; /* by nearest rank, as p95 */
    double p95;
    double max;
} WeftSpread;

typedef struct WeftSimulation {
    guint jobs;       /* that were submitted */
    guint impossible; /* of them, that would not fit into the empty fleet */
    guint started;
    guint ended;
    guint waiting;    /* when nothing more could happen */
    guint cut;        /* ended by their walltime */
    guint preempted;  /* times that one had to give way and wait anew */
    guint backfilled; /* started while one that was submitted before it waited on */
    guint promised;   /* that were told when they would start, before they did */
    guint late;       /* of them, started later than they were told at first */
    guint64 nodes;    /* that ended jobs had */
    guint64 whole;    /* of them, those that would fit into one NUMA node */
    guint64 split;    /* of these, over several */
    double offered;   /* core time of the jobs, of what the fleet had until the last was submitted */
    double busy;      /* core time that nodes had, of what there was from the first submission to the last end */
    double busy_fed;  /* the same up to the last submission */
    double stranded;  /* fragmentation: of the core time that was free, on hosts that had nodes */
    double queue;     /* jobs that waited, mean over the time */
    double queue_max;
    gint64 fed;                  /* microseconds from the first submission to the last */
    gint64 span;                 /* … to the last end */
    guint64 cores;               /* of the fleet */
    WeftSpread wait;             /* seconds: from submission to end, but for the run that counted */
    WeftSpread bounded_slowdown; /* (wait + run) / max(run, 10 s), at least 1 */
    WeftSpread leaves;
    WeftSpread detour; /* leaves over the least that would have held it in the empty fleet */
    WeftMeter meter;   /* how it went */
} WeftSimulation;

/* The site's fleet must be empty, and is again afterwards. */
WeftSimulation *weft_simulate(WeftSite *site, const WeftLoad *load, const WeftSimulateOptions *options, GError **error);
void weft_simulation_free(WeftSimulation *simulation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftSimulation, weft_simulation_free)
