/* The queue: who starts now, who when, and why not yet. Priority, fair share of tenants, conservative backfill by walltimes:
 * each of the first ones that wait is promised a time and places, and nobody who comes later delays them but those who have
 * more points. Pure: the time is told, and the same calls give the same answers. Times are microseconds since 1970. */
#pragma once

#include "fleet.h"
#include "schedule.h"

#include <glib.h>

#define WEFT_QUEUE_NEVER G_MAXINT64

typedef struct WeftQueueOptions {
    double priority;  /* points for each step of priority */
    double age;       /* … for each hour that it waits, without limit: nobody starves */
    double share;     /* … for the whole of its tenant's share not yet used; minus as many for twice of it used */
    gint64 half_life; /* after which past usage counts half */
    guint depth;      /* so many of those that wait are promised a time; the others only fill gaps */
} WeftQueueOptions;
/* A point for a step of priority and for an hour, 100 for a share, which a week halves, and 64 promises: a tenant that has used
 * nothing passes one that has used twice its share by 200 hours of waiting, or 200 steps of priority. */
extern const WeftQueueOptions weft_queue_defaults;

/* What waits for places. */
typedef struct WeftAsk {
    const char *key; /* of its cluster */
    WeftPlaceRequest
        request;  /* what it points to stays until the ask is withdrawn or put anew, counts are copied; avoid may change */
    gint64 since; /* when it began to wait */
    gint priority;
    gint64 walltime; /* of what is placed; 0: without end */
    gboolean preemptible;
} WeftAsk;

/* What runs, or is kept. Its seats are taken in the fleet. */
typedef struct WeftHold {
    const char *key;
    const char *cluster; /* id, under which its seats are taken; NULL: as weft_fleet_take_seats() has it */
    const char *tenant;
    gint priority;
    gboolean preemptible;
    gint64 since;
    gint64 end;            /* WEFT_QUEUE_NEVER: nobody knows */
    const WeftSeat *seats; /* copied */
    guint n;
} WeftHold;

/* Hosts that are kept for somebody, or nobody. */
typedef struct WeftBooking {
    const char *name;
    const char *tenant; /* who may use them then; NULL: nobody, they are to be worked on */
    gint64 start;
    gint64 end;
    char **hosts; /* names; those that are not there are passed over */
} WeftBooking;

/* Why something waits. */
typedef enum {
    WEFT_WAIT_NEW,     /* not looked at yet */
    WEFT_WAIT_ROOM,    /* there is no room now */
    WEFT_WAIT_TURN,    /* there is room, which is promised to others before it */
    WEFT_WAIT_VICTIMS, /* clusters that give way to it are being stopped */
    WEFT_WAIT_NEVER,   /* it would not fit into an empty fleet */
    WEFT_WAIT_REFUSED, /* the start callback refused it */
    WEFT_WAITS
} WeftWaitWhy;
extern const char *const weft_wait_words[WEFT_WAITS + 1];

typedef struct WeftWait {
    guint place; /* in the queue, from 1 */
    WeftWaitWhy why;
    gint64 when; /* promised: never later than told before, unless hosts went, a hold outstays its end, or others came before it
                    who have more points. 0: not known */
    double points; /* by which the queue is ordered */
    double share;  /* the part of these that its tenant's usage makes */
} WeftWait;

typedef struct WeftQueue WeftQueue;

/* The fleet is borrowed and must stay. */
WeftQueue *weft_queue_new(WeftFleet *fleet, const WeftQueueOptions *options);
void weft_queue_free(WeftQueue *queue);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftQueue, weft_queue_free)

/* New, or in place of what is there of that key. One that asks for the same as before keeps what it was promised. */
void weft_queue_put(WeftQueue *queue, const WeftAsk *ask);
void weft_queue_withdraw(WeftQueue *queue, const char *key);
/* Tells of what runs, and of the change where it is known already. It does not touch the fleet. What takes room that the queue
 * has not given, or longer than it was told, makes it doubt. */
void weft_queue_hold(WeftQueue *queue, const WeftHold *hold);
void weft_queue_release(WeftQueue *queue, const char *key);
/* Replaces all bookings. */
void weft_queue_book(WeftQueue *queue, const WeftBooking *bookings, guint n);
/* Something else changed for better or worse (hosts, fabrics): promises are made anew. */
void weft_queue_doubt(WeftQueue *queue);

/* A tenant's part of what all get, as a weight (1 unless told), and what it has used: core seconds, ended at that time. What
 * holds use is counted by the queue itself. */
void weft_queue_set_share(WeftQueue *queue, const char *tenant, double weight);
void weft_queue_charge(WeftQueue *queue, const char *tenant, double core_seconds, gint64 when);

/* What weft_queue_run() decides. start: takes the seats in the fleet, tells weft_queue_hold(), and returns TRUE; the ask is
 * withdrawn then. FALSE: it cannot be after all; it is tried again when there is more room, or doubt. preempt: stops a hold,
 * and tells weft_queue_release() once it is gone, now or later. Both may tell the queue of anything but run it. */
typedef struct WeftQueueOps {
    gboolean (*start)(const WeftAsk *ask, const WeftPlacement *placement, gpointer data);
    void (*preempt)(const char *victim, const WeftAsk *ask, gpointer data);
} WeftQueueOps;
/* Looks at who can start now. Cheap where nothing changed. Returns when it should be looked at again without a change: the next
 * promise that is due, or a booking that ends; WEFT_QUEUE_NEVER: not. */
gint64 weft_queue_run(WeftQueue *queue, gint64 now, const WeftQueueOps *ops, gpointer data);

/* For a run whose decisions are carried out later, elsewhere, and may turn out not to hold: weft_queue_assume() is all that its
 * start has to do. It takes the seats in the fleet, and holds them beside what the cluster has, until weft_queue_hold() tells
 * how it is. Returns the time from which on it holds them. */
gint64 weft_queue_assume(WeftQueue *queue, const WeftAsk *ask, const WeftPlacement *placement);
/* It did not start after all: what was only assumed is free. Nothing happens where the queue has been told how it is. */
void weft_queue_take_back(WeftQueue *queue, const char *key);
/* It asks again, and cannot start for another reason than room: as if the start callback had refused it. */
void weft_queue_refuse(WeftQueue *queue, const char *key);
/* A hold of that key, now or later, is stopped for nobody until it is unpinned as often as it was pinned. */
void weft_queue_pin(WeftQueue *queue, const char *key);
void weft_queue_unpin(WeftQueue *queue, const char *key);
/* A hold that was to be stopped stays after all. */
void weft_queue_spare(WeftQueue *queue, const char *key);

/* When somebody who came now would start at the latest, and where: if all promises are kept, and nobody gives way. Nothing
 * changes. *ret_when <= now: at once; WEFT_QUEUE_NEVER: nobody knows. FALSE: there is no time at which it would fit, as things
 * are. */
gboolean weft_queue_foresee(WeftQueue *queue, const WeftAsk *ask, gint64 now, WeftPlacement *ret_placement, gint64 *ret_when);

/* What foreseeing depends on, as it is now, for other threads: never changed, and shared by those that were made while nothing
 * changed. Costs a little for each hold. */
typedef struct WeftQueueSnapshot WeftQueueSnapshot;
WeftQueueSnapshot *weft_queue_snapshot(WeftQueue *queue);
/* NULL is allowed. thread: any. */
WeftQueueSnapshot *weft_queue_snapshot_ref(WeftQueueSnapshot *snapshot);
void weft_queue_snapshot_unref(WeftQueueSnapshot *snapshot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftQueueSnapshot, weft_queue_snapshot_unref)
/* As weft_queue_foresee() of the queue as it was. fleet: follows the snapshot of the same moment. thread: any, one at a time
 * for each fleet. */
gboolean weft_queue_snapshot_foresee(const WeftQueueSnapshot *snapshot, WeftFleet *fleet, const WeftAsk *ask, gint64 now,
                                     WeftPlacement *ret_placement, gint64 *ret_when);

guint weft_queue_length(const WeftQueue *queue);
/* look: whether there is room for it now, which costs a placement; else that is as it was known last. NULL: it does not wait.
 */
const WeftWait *weft_queue_wait(const WeftQueue *queue, const char *key, gboolean look);
/* Keys (const char *, borrowed) of those that wait, in their order. */
GPtrArray *weft_queue_order(const WeftQueue *queue);
