/* A tiny world for tests of the queue: jobs that come, start when the queue says so, and end. It keeps its own books, and
 * fails where the queue gives what is taken, or breaks a promise without cause. Times are seconds. */
#pragma once

#include "queue.h"

#define MINUTES 60
#define HOURS 3600

typedef struct Job {
    const char *name;
    int at;       /* when it is asked for */
    guint nodes;  /* 0: there is none */
    int wall;     /* 0: without end */
    int runs;     /* how long it really does; 0: its walltime */
    guint cores;  /* of each node; 0: a whole host */
    guint memory; /* … in units of 64 MiB; 0: one */
    gint priority;
    gboolean preemptible;
    const char *tenant;  /* NULL: "t" */
    const char *pattern; /* NULL: none */
} Job;

typedef struct Run {
    Job job;
    char *name;
    WeftCluster *cluster;
    gboolean waits;
    gboolean holds;
    gboolean leaving; /* it was preempted */
    int asked;
    int started; /* -1: not yet */
    int ends;    /* where it holds */
    int told;    /* when it was said to start; 0: not known */
    GArray *seats;
} Run;

typedef struct World {
    WeftFleet *fleet;
    WeftQueue *queue;
    WeftQueueOptions options;
    guint cores;  /* of a host */
    guint vfs;    /* … virtual functions, of which each node has one; 0: there are none, and nodes need none */
    guint memory; /* … and memory, in units of 64 MiB */
    int now;
    int next;       /* when the queue wants to be asked; G_MAXINT: not */
    int stopping;   /* how long a preempted one takes to end; 0: it is gone at once */
    gboolean again; /* … and whether it asks anew then */
    GPtrArray *runs;
    GHashTable *owners;                                      /* what is taken, by a number for each core and function, to Run */
    GArray *bookings;                                        /* WeftBooking */
    const char *refused;                                     /* the one whose start is refused */
    void (*meddle)(struct World *world, const Run *started); /* called at each start; NULL: nothing */
    gboolean cause;                                          /* why promises may be broken, now */
    GString *log;                                            /* "a+0 " a start, "a-10 " an end, "a!10 " preempted */
} World;

/* Without virtual functions, and with memory enough. */
World *world_new(guint hosts, guint cores, const WeftQueueOptions *options);
World *world_new_scarce(guint hosts, guint cores, guint vfs, guint memory, const WeftQueueOptions *options);
void world_free(World *world);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(World, world_free)

void world_add_host(World *world, const char *name);
/* The fleet changed. */
void world_doubt(World *world);
Run *world_run_of(const World *world, const char *name);
void world_ask(World *world, const Job *job);
void world_withdraw(World *world, Run *run);
void world_book(World *world, const WeftBooking *bookings, guint n);
/* Ends what ends now, and asks the queue. */
void world_step(World *world);
/* The next time at which something happens by itself; G_MAXINT: nothing will. */
int world_next(const World *world);
/* Lets time pass, with all that happens by itself, until then. */
void world_go(World *world, int until);
/* Jobs in the order of their times, up to one without nodes; until nothing more happens. */
void world_play(World *world, const Job *jobs);
/* "a 0, b 10": when the jobs started, in the order in which they came; "-" for those that did not. */
char *world_starts(const World *world);
const WeftWait *world_wait(const World *world, const char *name);

/* Without shares. */
extern const WeftQueueOptions world_in_turn;
/* Lets time pass until the job comes, and asks for it. */
void world_ask_at(World *world, const Job *job);
void world_assert_starts(const World *world, const char *expected);
/* when: seconds; 0: it is not known. */
void world_assert_when(const World *world, const char *name, WeftWaitWhy why, int when);

/* A time as the queue has it. */
gint64 world_time(int seconds);
