/* The inside of the queue.
 *
 * Time goes on where what is known ends: what has no end is taken to end at WEFT_FAR + the time at which it began, so that the
 * oldest ends first, and all of it long after everything that has an end. So one plan serves both: those that wait for room
 * that nobody knows the end of stand in line as well, and only their time is not told. */
#pragma once

#include "queue.h"

#define WEFT_MINUTE ((gint64)60 * G_USEC_PER_SEC)
#define WEFT_FAR ((gint64)1 << 62)
#define WEFT_FAR_STAY ((gint64)365 * 24 * 60 * WEFT_MINUTE) /* of what has no end, and begins after WEFT_FAR */
#define WEFT_OVERRUN WEFT_MINUTE                            /* what should be gone and is not is taken to go so much later */

/* A tenant. */
typedef struct WeftSharer {
    char *name;
    double weight;
    double used;   /* core seconds, in the worth that they have at the queue's base */
    gint64 cores;  /* that its holds have */
    gint64 ending; /* … of these, those that were released since it was last added up */
    guint active;  /* asks and holds */
    double points; /* for its share, in steps of a hundredth: by these the queue is ordered */
} WeftSharer;

/* Cores of a host that a seat has. */
typedef struct WeftSpot {
    guint32 host;
    guint32 word;
    guint64 bits;
} WeftSpot;

/* Places and a time that were promised. */
typedef struct WeftPledge {
    gint64 start;
    gint64 end;
    guint64 made;            /* stamp; 0: none is promised */
    GArray *seats;           /* never changed but replaced, and spots as well: snapshots share them */
    GArray *spots;           /* WeftSpot, of these */
    WeftPlacement placement; /* … and this is what they amount to */
} WeftPledge;

/* Room that nobody had counted on. */
typedef struct WeftFreed {
    gint64 start; /* 0: as soon as somebody knows what time it is */
    guint64 cores;
    guint64 seats;
} WeftFreed;

/* An ask that waits. */
typedef struct WeftWaiter {
    WeftAsk ask; /* its key and counts are its own */
    char *key;
    guint counts[WEFT_GROUPS_MAX];
    char *kind;      /* all that its places depend on, but for the counts */
    gboolean unlike; /* … and more, so that nothing follows from how others of the kind fared */
    guint64 cores;
    guint nodes;      /* of so many … */
    guint node_cores; /* … cores each; where they are not alike, each of its cores counts as one */
    WeftSharer *tenant;
    double score; /* orders: its points but for what all gain alike while they wait */
    WeftWait wait;
    WeftPledge pledge;
    guint64 ahead;   /* stamp: it has come before others, and promises to those behind it that are older yield, once; 0: they do
                        not */
    gint64 patience; /* until then it waits rather than make others yield; 0: it does not */
    guint victims;   /* holds that are leaving for it */
    guint index;     /* in the order, before it was last sorted */
    guint lack;      /* so many of its nodes had no place when it last wanted to start at once … */
    WeftFreed hope;  /* … and so much became free since */
    guint64 seen;    /* … of all that did */
    gboolean look;   /* something about it is new */
    gboolean lost;   /* there is no time at which it would fit, as things are */
    gboolean barred; /* it was refused, and the room that it gave back thereby is none that it is tried again for */
    gboolean gone;   /* it does not wait any more, and is freed after the run */
} WeftWaiter;

/* A hold. */
typedef struct WeftRunner {
    char *key;
    GRefString *cluster; /* NULL: none */
    WeftSharer *tenant;
    gint priority;
    gboolean preemptible;
    gboolean leaving; /* it was told to */
    WeftWaiter *heir; /* for whom; NULL: for nobody who still waits */
    gint64 since;
    gint64 end; /* WEFT_FAR + since: nobody knows */
    gint64 due; /* … were it not told to leave */
    guint64 cores;
    guint assumed;   /* the last so many seats are only assumed */
    WeftSeat *seats; /* g_atomic_rc_box: these, cluster and spots never change, and snapshots share them */
    guint n;
    GArray *spots; /* WeftSpot, of these */
} WeftRunner;

typedef struct WeftBooked {
    char *tenant; /* NULL: nobody */
    gint64 start;
    gint64 end;
    char **hosts;
} WeftBooked;

/* When a hold ends. The plan is drawn from these at each run, and all of them lie together. */
typedef struct WeftEnd {
    gint64 time;
    guint64 cores;
    WeftRunner *runner;
} WeftEnd;

/* Free cores of the fleet from this time on. At most so many: what is free may lie where nobody can use it together. */
typedef struct WeftStep {
    gint64 time;
    gint64 free;
    gboolean gain; /* something ends here, so that it is worth a try */
} WeftStep;

/* 64 cores of a host. */
typedef struct WeftCell {
    guint64 free;     /* now */
    guint64 then;     /* … when some holds have ended */
    guint64 left;     /* … and of that, what is not promised */
    guint32 then_for; /* the look that this is of; of another: nothing is different there */
    guint32 left_for;
} WeftCell;

/* Which cores are free where. */
typedef struct WeftCells {
    guint n;        /* hosts */
    guint words;    /* cells of each */
    WeftCell *cell; /* by host and word */
    guint32 look;
    guint32 look_then;
    guint32 look_left;
    guint cores;     /* of a node that is looked for */
    gint64 fit_then; /* so many of them fit */
    gint64 fit_left;
    guint64 total;                     /* cores that are free now */
    guint32 hosts[WEFT_CORES_MAX + 1]; /* by the number of their free cores */
} WeftCells;

struct WeftQueue {
    WeftFleet *fleet;
    WeftQueueOptions options;
    gint64 now; /* as last told */

    GHashTable *waiters; /* by key; owned */
    GPtrArray *order;    /* WeftWaiter */
    GPtrArray *arrived;  /* … that came while the order was being gone through */
    GPtrArray *gone;     /* … that went meanwhile; owned */
    GPtrArray *promised; /* … with a promise */
    GPtrArray *honoured; /* … of them, those that the one that is looked at must heed */
    GHashTable *runners; /* by key; owned */
    GArray *ends;        /* WeftEnd, the first one first */
    guint yielding;      /* holds that are preemptible */
    GHashTable *pinned;  /* key of one that is not all the same, to how often it is pinned */
    GArray *bookings;    /* WeftBooked; never changed but replaced */
    guint64 stamp;
    guint64 version;             /* counts changes of ends, promised and bookings */
    WeftQueueSnapshot *snapshot; /* the latest; NULL: none */

    GHashTable *sharers; /* by name; owned */
    GPtrArray *tenants;  /* the same, in the order in which they came */
    gint64 base;         /* usage of then counts as it is, half as much of a half-life before, twice as much after */
    gint64 settled;      /* until when usage is added up; 0: not at all yet */
    gint64 shared;       /* when the points for shares were last found out */
    gboolean share;      /* they have to be */

    gboolean doubt; /* promises are to be made anew */
    gboolean stale; /* … and the cells read: they follow holds by themselves, but not hosts */
    gboolean room;  /* there may be more room than there was */
    guint looks;    /* waiters that are new in something */
    guint64 least;  /* nobody that waits asks for fewer cores */
    WeftCells cells;
    GArray *freed;     /* WeftFreed */
    guint64 forgotten; /* … of which there were so many before these */
    GArray *steps;     /* WeftStep: the plan */
    GArray *trial;     /* … the plan without some */
    GArray *hosts;     /* guint32 by number: the stamp of whom it was last marked for */
    guint32 marks;
    GPtrArray *misses; /* WeftWaiter that found no room now, in this look */
    int budget;        /* placements that may still be tried in vain, for those that have no right to be looked at */

    const WeftQueueOps *ops; /* while it runs */
    gpointer data;
    WeftWaiter *starting;
};

/* --- order (queue-order.c) --- */

WeftSharer *weft_queue_sharer(WeftQueue *queue, const char *name);
/* Which of two comes first. */
int weft_waiter_compare(gconstpointer a, gconstpointer b);
void weft_waiter_score(const WeftQueue *queue, WeftWaiter *waiter);
void weft_queue_insert(WeftQueue *queue, WeftWaiter *waiter);
guint weft_queue_index(const WeftQueue *queue, const WeftWaiter *waiter);
/* So many cores more are used from that time on. */
void weft_queue_meter(WeftQueue *queue, WeftSharer *sharer, gint64 cores, gint64 since);
/* Adds up what was used until now, and brings the order up to date. */
void weft_queue_settle(WeftQueue *queue);

/* --- the plan in numbers (queue-steps.c) --- */

/* When something that starts then would end. */
gint64 weft_waiter_end(const WeftWaiter *waiter, gint64 start);
/* When a hold is taken to end. */
gint64 weft_runner_end(const WeftQueue *queue, const WeftRunner *runner);
/* From holds, promises and bookings, for the present. */
void weft_queue_draw(WeftQueue *queue);
/* So many more cores are free between the two times. */
void weft_steps_add(GArray *steps, gint64 start, gint64 end, gint64 cores);
/* The first step from that one on, and before that time, at which something ends and the waiter has cores enough until its end;
 * the plan's length: there is none. lack: becomes less where cores lacked for fewer nodes. */
guint weft_steps_find(const GArray *steps, guint from, gint64 before, const WeftWaiter *waiter, guint *lack);

/* --- the plan in bits (queue-cells.c) --- */

void weft_spots_set(GArray *spots, const WeftSeat *seats, guint n);
/* As the fleet is. */
void weft_cells_read(WeftCells *cells, const WeftFleet *fleet);
void weft_cells_clear(WeftCells *cells);
void weft_cells_change(WeftCells *cells, const GArray *spots, gboolean taken);
/* Looks ahead for nodes of so many cores: first what is given until then, then, as often as wished, what is taken of it. */
void weft_cells_begin(WeftCells *cells, guint cores);
void weft_cells_give(WeftCells *cells, const GArray *spots);
void weft_cells_look(WeftCells *cells);
void weft_cells_take(WeftCells *cells, const GArray *spots);
void weft_cells_bar(WeftCells *cells, guint host);
/* Marks these cores, until the next look; and tells whether others are among them. */
void weft_cells_mark(WeftCells *cells, const GArray *spots);
gboolean weft_cells_meets(const WeftCells *cells, const GArray *spots);
/* Are all of these cores left? */
gboolean weft_cells_has(const WeftCells *cells, const GArray *spots);
/* Is there a node's worth left on the host? If not, it makes no difference what is given there. */
gboolean weft_cells_has_left(const WeftCells *cells, guint host);
/* … or as long as nothing is taken there? */
gboolean weft_cells_matters(const WeftCells *cells, guint host);

/* --- promises (queue-promise.c) --- */

/* placement NULL: as promised before, and only the time is another. */
void weft_queue_promise(WeftQueue *queue, WeftWaiter *waiter, gint64 start, const WeftPlacement *placement);
void weft_queue_unpromise(WeftQueue *queue, WeftWaiter *waiter);
/* Does what the one is promised yield to the other? */
gboolean weft_waiter_yields(const WeftWaiter *other, const WeftWaiter *waiter);
gboolean weft_booked_bars(const WeftBooked *booked, const WeftWaiter *waiter, gint64 start, gint64 end);
/* To queue->honoured: those whose promises the waiter must not break between the two times. yield: but for those that yield. */
void weft_queue_list_honoured(WeftQueue *queue, const WeftWaiter *waiter, gint64 start, gint64 end, gboolean yield);
/* Closes what is booked for others between the two times; between begin and rollback. */
void weft_queue_close_booked(const WeftQueue *queue, const WeftWaiter *waiter, gint64 start, gint64 end);
/* Those that yield what they were promised to the waiter, which starts then, there, are looked at anew. */
void weft_queue_take_promises(WeftQueue *queue, WeftWaiter *waiter, gint64 start, const WeftPlacement *placement);
/* Marks hosts of seats; and tells whether a host, or one that others are on, was among those that were marked last. */
void weft_queue_mark(WeftQueue *queue, const WeftSeat *seats, guint n);
gboolean weft_queue_has_mark(const WeftQueue *queue, guint host);
gboolean weft_queue_is_marked(const WeftQueue *queue, const GArray *spots);

/* --- when and where (queue-seek.c) --- */

/* Looks for the first time from now on, and before that one, at which there is room for the waiter. Those that yield to it lose
 * their promise and are looked at anew. FALSE: there is none. */
gboolean weft_queue_seek(WeftQueue *queue, WeftWaiter *waiter, gint64 before, WeftPlacement *ret_placement, gint64 *ret_start);
/* Takes of the cells what the waiter cannot have between the two times. yield: what yields to it, it can. */
void weft_queue_take_honoured(WeftQueue *queue, const WeftWaiter *waiter, gint64 start, gint64 end, gboolean yield);

/* --- sooner, in the same place (queue-slide.c) --- */

/* The first time from which on it could have what it was promised, where it was promised, and be in nobody's way. */
gint64 weft_queue_slide(WeftQueue *queue, const WeftWaiter *waiter);
/* Can it have it now? */
gboolean weft_queue_stands(WeftQueue *queue, const WeftWaiter *waiter);

/* --- holds (queue-hold.c) --- */

void weft_runner_free(WeftRunner *runner);
/* It ends at another time than was thought. */
void weft_queue_end(WeftQueue *queue, WeftRunner *runner, gint64 end);

/* --- preemption (queue-preempt.c) --- */

/* Has holds stopped so that the waiter can start, if that helps. Returns whether it was promised their room. */
gboolean weft_queue_preempt(WeftQueue *queue, WeftWaiter *waiter);

/* --- who waits (queue-ask.c) --- */

WeftWaiter *weft_waiter_new(WeftQueue *queue, const WeftAsk *ask);
void weft_waiter_free(WeftWaiter *waiter);
/* Is that what it waits for already? Then only what the ask points to is taken over. */
gboolean weft_waiter_renew(WeftWaiter *waiter, const WeftAsk *ask);
/* It is looked at in the next run, or later in this one if it has not had its turn. */
void weft_queue_look_at(WeftQueue *queue, WeftWaiter *waiter);
/* It waits no more. */
void weft_queue_drop(WeftQueue *queue, WeftWaiter *waiter);
