/* The queue on a worker. The main thread only notes what changes for it, and hands these notes over together with a snapshot of
 * the fleet of the same moment; the worker takes them in, goes through the queue, and answers with what it decided. One errand
 * at a time. Decisions are of the moment of the snapshot: whoever carries one out first makes sure that it still holds, and
 * tells where it does not. thread: main. */
#pragma once

#include "queue.h"

typedef struct WeftQueueWorker WeftQueueWorker;

/* One that waits, as it was put, for any thread: never changed. Counted. */
typedef struct WeftQueueAsk {
    char *key;
    guint64 serial;
    WeftAsk ask; /* with all that it points to, but for the rule, and what its nodes get at their start */
} WeftQueueAsk;
WeftQueueAsk *weft_queue_ask_ref(WeftQueueAsk *ask);
void weft_queue_ask_unref(WeftQueueAsk *ask);

/* Of a kind of which a refusal tells more. */
static inline gboolean
weft_wait_is_about_room(WeftWaitWhy why)
{
    return why == WEFT_WAIT_ROOM || why == WEFT_WAIT_NEVER;
}

typedef enum { WEFT_DECIDE_START, WEFT_DECIDE_PREEMPT } WeftDecisionKind;

typedef struct WeftDecision {
    WeftDecisionKind kind;
    WeftQueueAsk *ask;       /* who starts, or for whom others are stopped */
    WeftPlacement placement; /* of a start, with seats of its own */
    GPtrArray *nodes;        /* … WeftNode as weft_placement_nodes() has them */
    gint64 when;
    char *victim; /* key of the hold that is to be stopped */
} WeftDecision;

/* Somebody of whom it is to be told why it waits. */
typedef struct WeftQueueLook {
    char *key;
    WeftWaitWhy told; /* why it was told before, … */
    gboolean stale;   /* … and that is to be told in words again, even if it is the same */
    gboolean doubted; /* … as what the words were about has changed since */
    gint64 asked;     /* monotonic */
    /* The answer. */
    WeftQueueAsk *ask; /* NULL: it was not looked at, or does not wait any more */
    WeftWait wait;
    gboolean explained;
    char *refusal; /* why there is no room for it; NULL: there is, or it was not explained */
} WeftQueueLook;

/* A line of the queue. */
typedef struct WeftQueueLine {
    WeftQueueAsk *ask;
    WeftWait wait;
} WeftQueueLine;

/* What is asked of the worker, and what it answers. */
typedef struct WeftErrand {
    guint64 number;
    gint64 now;
    gboolean run;     /* the queue is gone through; else only notes are taken in */
    GPtrArray *looks; /* WeftQueueLook: as many of them as there is time for */
    /* Of the moment at which it began, for dry runs: nothing that it starts is in them. */
    WeftFleetSnapshot *fleet;
    WeftQueueSnapshot *queue;
    /* The answer. */
    GPtrArray *decisions; /* WeftDecision, in their order */
    GPtrArray *lines;     /* WeftQueueLine, in the order of the queue */
    gint64 next;          /* as of weft_queue_run() */
    gint64 took;          /* microseconds of processor time */
} WeftErrand;
void weft_errand_free(WeftErrand *errand);

/* Gets the errand back, and owns it. */
typedef void (*WeftErrandDone)(WeftErrand *errand, gpointer data);

/* The fleet is borrowed and must live longer. */
WeftQueueWorker *weft_queue_worker_new(WeftFleet *fleet, const WeftQueueOptions *options, WeftErrandDone done, gpointer data);
/* What is under way is broken off; nobody is told any more. */
void weft_queue_worker_free(WeftQueueWorker *worker);

gboolean weft_queue_worker_is_busy(const WeftQueueWorker *worker);
/* Has it taken in all that was noted? */
gboolean weft_queue_worker_is_current(const WeftQueueWorker *worker);
/* The number of the errand that begins next, and takes in all that was noted until now; they are counted from 1. */
guint64 weft_queue_worker_next(const WeftQueueWorker *worker);
/* Takes the looks over. Must not be busy. */
void weft_queue_worker_begin(WeftQueueWorker *worker, gint64 now, gboolean run, GPtrArray *looks);

/* Notes: what the functions of queue.h of that name are to be told, by the next errand. A put is always of a new one. */
void weft_queue_worker_put(WeftQueueWorker *worker, const WeftAsk *ask, guint64 serial);
void weft_queue_worker_hold(WeftQueueWorker *worker, const WeftHold *hold);
/* what: weft_queue_withdraw(), weft_queue_release() or another that takes nothing but a key. */
void weft_queue_worker_tell(WeftQueueWorker *worker, void (*what)(WeftQueue *queue, const char *key), const char *key);
void weft_queue_worker_book(WeftQueueWorker *worker, const WeftBooking *bookings, guint n);
void weft_queue_worker_doubt(WeftQueueWorker *worker);
void weft_queue_worker_set_share(WeftQueueWorker *worker, const char *tenant, double weight);
void weft_queue_worker_charge(WeftQueueWorker *worker, const char *tenant, double core_seconds, gint64 when);
