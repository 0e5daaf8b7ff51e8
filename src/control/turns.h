/* Whose turn it is: the queue of schedule.h's queue inside the reconciler. Whoever wants new nodes asks here, and is granted
 * places when its turn comes; what it holds is told as it changes. All of it follows from the store: nothing is kept that a
 * restart would lose but promises, which are made anew. The queue itself is on a worker (queue-worker.h): a decision is carried
 * out only if it still holds then. thread: main.
 *
 *     turns.c         who asks, when the queue is gone through, and what it decides
 *     turns-hold.c    what runs, and who must be apart from whom
 *     turns-past.c    the tenants' shares, and what they have used lately
 *     turns-tell.c    why somebody waits
 *     bookings.c      reservations
 *     expiry.c        walltimes */
#pragma once

#include "control-private.h"
#include "queue-worker.h"

/* A cluster that waits for places. Lives while its work is loaded. */
typedef struct WeftWaiter {
    WeftWork *work;
    guint64 serial; /* of what it asks for now: a decision about another one is void */
    WeftWait wait;  /* as it was known last; WEFT_WAIT_NEW: not at all */
    guint counts[WEFT_GROUPS_MAX];
    GHashTable *avoid; /* names (char *) of hosts where it cannot be now */
    gboolean shuns;    /* … among them those that failed it */
    WeftNode like;     /* path and shm of one that is there, where the rule has chosen them */
    gboolean likes;    /* … is there one? */
    GList link;        /* in one of the lists below */
    GQueue *list;      /* … which; NULL: in none */
    GList doubt;       /* in the list of those in doubt */
    GQueue *doubted;   /* … which; NULL: it is not */
    WeftWaitWhy told;
    gboolean viewed;  /* somebody has read why, and may do so again */
    char *refusal;    /* why there is no place for it, as of then */
    gint64 explained; /* monotonic: as of when; 0: never */
    gint64 spoken;    /* … when it was last told */
    char *refused;    /* why it could not start although there is room; NULL: it was not tried */
} WeftWaiter;

typedef struct WeftBookings WeftBookings;
typedef struct WeftPast WeftPast;

struct WeftTurns {
    WeftControl *control;
    WeftQueueWorker *worker;
    GHashTable *by_key; /* WeftWaiter */
    guint64 serial;     /* of the latest ask */
    GHashTable *aparts; /* cluster key to GPtrArray of names, of those that must be apart from others */
    GHashTable *named;  /* … and back: cluster key to a set of the keys (char *) whose clusters name it */
    GHashTable *where;  /* cluster key to a set of hosts, as those were told of that must be apart from it */
    GQueue fresh;       /* WeftWaiter that the queue has not looked at yet */
    GQueue untold;      /* … of which it is to be told why they wait */
    GQueue doubtful;    /* … of which hosts that they cannot use may have changed */
    WeftErrand *answer; /* whose decisions are being carried out; NULL: none is */
    guint carried;      /* … so many of them */
    WeftErrand *last;   /* what the queue looked like then; NULL: nobody knows yet */
    gboolean changed;   /* since the queue was gone through */
    gboolean wanted;    /* something waits for an errand, whether the queue is gone through or not */
    gboolean began;     /* what is to be known at the start is known */
    gboolean late;      /* … or it took too long */
    guint unread;       /* clusters that were there at the start, and have not been looked at */
    gint64 not_before;  /* monotonic: it must not take all the time */
    guint timer;        /* until the queue is gone through again, changed or not */
    guint grace;        /* until it begins, whatever is not known */
    guint teller;       /* until more is told */
    gint64 swept;       /* monotonic, when the first ones were last looked at for what to tell */
    gboolean sweep_all; /* … and all have to be */
    gint64 doubted;     /* monotonic, when hosts or fabrics last changed */
    WeftPast *past;
    WeftBookings *bookings;
    guint64 runs, started, preempted;
    gint64 spent; /* microseconds of the worker */
};

WeftTurns *weft_turns_new(WeftControl *control);
void weft_turns_free(WeftTurns *turns);
/* Reads what the queue has to know of tenants, their usage, and reservations. clusters: so many are looked at before it begins.
 */
gboolean weft_turns_load(WeftTurns *turns, guint clusters, GError **error);
/* One of them was. */
void weft_turns_read(WeftTurns *turns);
/* Begins if all is known. */
void weft_turns_begin(WeftTurns *turns);

/* It wants so many nodes of each group placed. Nothing changes when it has asked for the same. */
void weft_turns_ask(WeftTurns *turns, WeftWork *work, const guint *counts);
/* … and no more, or not for now. */
void weft_turns_withdraw(WeftTurns *turns, const WeftWork *work);
/* Has the queue not looked at it yet since it asked? */
gboolean weft_turns_is_fresh(const WeftTurns *turns, const WeftWork *work);
/* Does somebody wait for room, but for the system's own? */
gboolean weft_turns_is_awaited(const WeftTurns *turns);
/* What a host is able to is known: those that want hosts of one kind look again. */
void weft_turns_kind_known(WeftTurns *turns);
/* Something changed for better or worse: look at the queue soon. */
void weft_turns_wake(WeftTurns *turns);
/* Hosts or fabrics did. */
void weft_turns_doubt(WeftTurns *turns);
/* Has the queue gone through where that is due, and carries out what it decided. */
void weft_turns_run(WeftTurns *turns);

/* Fleet and queue of one moment, for dry runs. Those of an errand of that number are of a later moment than this call; the
 * errand is asked for. */
guint64 weft_turns_await_moment(WeftTurns *turns);
/* The latest there is; NULL: none yet. Borrowed. */
const WeftErrand *weft_turns_moment(const WeftTurns *turns);

/* turns-hold.c */

/* What its nodes hold, as far as the store knows or is about to, and what was granted. */
void weft_turns_hold(WeftTurns *turns, const WeftWork *work);
/* Its wish is as it says now; NULL: there is none of that key any more. */
void weft_turns_note_wish(WeftTurns *turns, const char *key, const WeftCluster *cluster);
/* Adds the names of hosts with nodes of clusters that it must be apart from; hosts owns its names. */
void weft_turns_add_apart(WeftTurns *turns, const WeftCluster *cluster, GHashTable *hosts);
/* May that cluster give way now? One with a node on a held host could be stopped, but not be saved. */
gboolean weft_turns_can_stop(WeftTurns *turns, const char *key);
/* … and until it is told otherwise, as often. */
void weft_turns_pin(WeftTurns *turns, const char *key, gboolean pinned);
/* Nodes of that cluster came or went: who must be apart from it is told. */
void weft_turns_moved(WeftTurns *turns, const WeftWork *work);

/* turns-past.c */

/* Reads the usage of the last half-lives, between other work. */
gboolean weft_past_load(WeftTurns *turns, GError **error);
gboolean weft_past_is_known(const WeftTurns *turns);
void weft_past_free(WeftPast *past);
/* The tenant's record changed. */
void weft_turns_tenant_changed(WeftTurns *turns, const char *name);

/* turns-tell.c */

/* Those of whom the next errand is to find out why they wait (WeftQueueLook). */
GPtrArray *weft_turns_list_looks(WeftTurns *turns);
/* Tells those that were looked at; the others later. */
void weft_turns_tell(WeftTurns *turns, const WeftErrand *errand);
/* As WeftGateOps.queue has it. */
json_t *weft_turns_view(WeftTurns *turns, const char *tenant);

/* bookings.c */

gboolean weft_bookings_load(WeftTurns *turns, GError **error);
void weft_bookings_free(WeftBookings *bookings);
/* Clusters that could not be saved may be now: those on hosts of reservations that have begun are sent away. */
void weft_bookings_clear_again(WeftTurns *turns);
/* The record of a reservation changed. */
void weft_bookings_changed(WeftTurns *turns);
/* Adds the names of hosts that are kept from that tenant now; hosts owns its names. */
void weft_bookings_add(const WeftTurns *turns, const char *tenant, GHashTable *hosts);
/* Adds deletions of those that are over. */
void weft_bookings_prune(WeftTurns *turns, WeftTxn *txn);

/* Who asked for that; NULL: it has gone, or wants something else now. */
WeftWaiter *weft_turns_find(const WeftTurns *turns, const WeftQueueAsk *ask);
/* Are these sets of names the same? */
gboolean weft_turns_same_hosts(GHashTable *a, GHashTable *b);
/* For both: the lists of turns. */
void weft_waiter_move(WeftWaiter *waiter, GQueue *list);
/* When it began to wait. */
gint64 weft_waiter_since(const WeftWaiter *waiter);
/* The request that it makes of the fleet. */
WeftPlaceRequest weft_waiter_request(const WeftWaiter *waiter);
/* Which hosts it cannot use may have changed: that is found out now, … */
void weft_waiter_review(WeftTurns *turns, WeftWaiter *waiter);
/* … or soon, between other work, and before anything is decided about it. */
void weft_waiter_doubt(WeftTurns *turns, WeftWaiter *waiter);
