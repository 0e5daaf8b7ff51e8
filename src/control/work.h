/* One cluster at work: what the store says of it, and what is under way. Lives only while there is something to do. */
#pragma once

#include "control-private.h"
#include "queue-worker.h"
#include "rest.h"
#include "templates.h"

typedef struct WeftNodeWork {
    WeftNode *node;
    gint64 revision;       /* of its record; 0 while its first commit is under way */
    gboolean dirty;        /* differs from its record */
    gboolean started;      /* its domain was seen to run since it was claimed */
    gboolean stopped;      /* its domain is known to be gone */
    gboolean writing;      /* the commit under way puts its record */
    gboolean leaving;      /* … or deletes it */
    gboolean homeless;     /* is to be placed elsewhere, and there is no room */
    gboolean refused;      /* its host cannot run it as it is, and never will */
    guint brought;         /* failures of its image on the way to its host that it has answered for */
    WeftRest rest;         /* failed steps since it was ready; its stops do not end the row */
    guint moved;           /* so often, since it and others did not reach each other */
    guint64 tried;         /* the generation of the members that it did not reach */
    guint tries;           /* … in a row, since one of them was moved */
    GByteArray *unreached; /* … whom the last time, as in outcasts.h; NULL: it has not failed since it met them */
    gboolean captured;     /* as the template that its cluster makes, or that failed: nothing more is to be done */
    char *unforked;        /* why it boots, and no event told yet; NULL: nothing to tell */
    char *unforked_detail; /* the driver's words, for operators; NULL: none */
    gboolean claims;       /* what it holds is another than in its record */
    gboolean departing;    /* the commit under way claims its target … */
    WeftNode *given_up;    /* as it was before its stay ended and another began, until that is written; NULL: none did */
    WeftNode *before;      /* … or ends its move: as it was; NULL: no such is under way */
    WeftRest leave;        /* why it could not leave its host, which is being emptied */
    gboolean awaits;       /* … and that there is no room for it, or that others move just now */
    guint failed_moves;    /* in a row, while its host is being emptied */
    WeftJob *moving;       /* the call that moves it, borrowed; NULL: none runs */
    gboolean measured;     /* what it writes … */
    guint64 rate;          /* … in bytes a second */
    gboolean at_rest;      /* … and it has let go of what cannot go along */
    gboolean arrived;      /* it runs there; the store does not know yet */
    WeftMoved trip;        /* … and how that went */
    WeftCopy copy;
    char *unmoved;        /* why it is not moved after all; the store does not know yet */
    char *unmoved_detail; /* the driver's words, for operators; NULL: none */
    gboolean hopeless;    /* … nor will it ever be */
    gboolean doubtful;    /* … but it may have gone over: nobody told */
    gboolean stays;       /* … and it was seen to run where it is */
    gboolean gone_over;   /* it was too late to call that off */
    gboolean copied;      /* what it shared with its template became its own, and no event told yet */
    gboolean whole;       /* a clone that could not share memory: it reads all of it for itself */
    char *host_key;       /* the public key of its ssh server, for the others; "": it has none; NULL: nobody asked yet */
} WeftNodeWork;

/* A host that failed the cluster, and is passed over for a while. */
typedef struct WeftShun {
    gint64 until; /* monotonic */
    gboolean refused;
} WeftShun;

/* Places that were granted, and are not in the store yet. They are taken in the fleet. */
typedef struct WeftGrant {
    WeftPlacement placement; /* with seats of its own */
    GPtrArray *nodes;        /* WeftNode, in the order of the seats */
    char *fabric;            /* of its hosts, which may go meanwhile */
    guint pkey;              /* its partition's number from now on; 0: it has one */
    gint64 when;
} WeftGrant;

/* A host of the cluster, and the partition's network there. */
typedef struct WeftJoin {
    char *host;
    guint64 look;    /* the last that found nodes there */
    guint members;   /* nodes that are to stay there */
    guint occupants; /* nodes that are to go, and have not stopped yet */
    guint64 serial;  /* of what the host was known to have when it was last compared */
    guint64 epoch;   /* … and of what it should have */
    gboolean right;  /* … and that was the same */
    gboolean busy;
    WeftRest rest;
} WeftJoin;

/* A checkpoint that is being made (work-freeze.c). */
typedef struct WeftFreeze WeftFreeze;

#define WEFT_MILESTONES 4 /* see work-tell.c */

struct WeftWork {
    WeftControl *control;
    char *key;

    WeftCluster *cluster; /* NULL: not loaded */
    gint64 cluster_revision;
    WeftClusterStatus *status; /* NULL: not yet placed nor queued */
    gint64 status_revision;
    GPtrArray *nodes;   /* WeftNodeWork */
    GPtrArray *reading; /* … those that were read, while others are still to be; NULL: none */

    GHashTable *jobs;                      /* node id to GCancellable, borrowed: what runs; outlives a reload */
    GPtrArray *wishes;                     /* WeftMoveWish: which of its nodes are to be moved */
    gboolean wishes_stale;                 /* … may be others by now */
    gboolean drains_changed;               /* of its hosts */
    GHashTable *gone;                      /* node id to reason: reported by the world, not yet looked at */
    GHashTable *bereft;                    /* node id to detail: likewise, of those that lost a device */
    GHashTable *rebooted;                  /* node id to the boot of its guest, NULL: another; likewise */
    GHashTable *joins;                     /* host to WeftJoin; outlives a reload */
    GHashTable *stills;                    /* node id to what is being brought to rest, or goes on (work-still.c); likewise */
    GPtrArray *captures;                   /* nodes that it is cloned from, while they are saved (work-clone.c); NULL: none */
    GPtrArray *peers;                      /* char *, addresses of the hosts with members, sorted */
    gsize compared;                        /* … of these, in this step, for all its hosts */
    guint derived;                         /* host keys, in this step */
    GBytes *members;                       /* the roster's lines of all who are up, while steps are begun; NULL: to be made */
    guint64 look;                          /* counts surveys of the hosts */
    guint64 epoch;                         /* a digest of which hosts have members, and of their descriptions */
    gboolean connected;                    /* all of them have the network as they should */
    GHashTable *shunned;                   /* host to WeftShun */
    guint moves;                           /* of nodes that others did not reach, in a row */
    gboolean fatal;                        /* trying again cannot help until the wish changes */
    WeftRest doom;                         /* … and why */
    int told_phase;                        /* the last that an event told; -1: none */
    gint64 round;                          /* when its first node was to start, monotonic; 0: none is */
    guint reached;                         /* set of what all nodes have behind them in this round */
    guint untold;                          /* … of which no event told yet */
    gint64 reached_after[WEFT_MILESTONES]; /* microseconds after the beginning of the round */
    gint64 tell_at;                        /* monotonic */
    gboolean status_dirty;
    gboolean status_writing;
    gboolean pkey_new;   /* the commit under way brings its partition number */
    guint pkey_left;     /* … and gives up this one, which another partition has; 0: none */
    gboolean finishing;  /* the commit under way is its last */
    gboolean awake;      /* in the queue */
    gboolean wish_stale; /* the wish's record changed since it was read */
    gboolean committing;
    gboolean wiring;
    gboolean rewire;           /* the fabric is not as it was told */
    gboolean pkey_taken;       /* … and never will be: the site uses its number */
    const char *preempt;       /* it is to give way, and why; NULL: it is not */
    WeftGrant *grant;          /* NULL: none */
    WeftFreeze *freeze;        /* what was done of the checkpoint that is being made; NULL: nothing */
    guint64 wiring_generation; /* what the fabric is being told */
    WeftRest wire;
    WeftRest place;
    gint64 now;              /* monotonic: when this step began; whatever rests then has a timer when it ends */
    gint64 write_not_before; /* the store refused a write: nothing is done until then */
    guint timer;
    gint64 timer_at;
};

/* work-store.c: reading, changing and writing its records. */

typedef enum { WEFT_WORK_LOADED, WEFT_WORK_READ, WEFT_WORK_GONE, WEFT_WORK_LATER } WeftLoad;

/* Brings what is in memory up to the store. READ: that took its time, and the next step goes on. LATER: the store cannot be
 * read now. Both wake it again. */
WeftLoad weft_work_refresh(WeftWork *work);
void weft_work_unload(WeftWork *work);
/* Adds all that differs from its record, and the phase that follows, and commits. */
void weft_work_commit(WeftWork *work, WeftTxn *txn);
/* Brings the status up to the nodes: phase, counts, reason. TRUE when it now differs from its record. */
gboolean weft_work_update_status(WeftWork *work);
/* What weft_plan() looks at; *ret_views is to be freed. */
WeftPlanInput weft_work_input(WeftWork *work, WeftNodeView **ret_views);
/* Moves a node on; it is written with the next commit. reason NULL: what was said of it before stands. */
void weft_work_set_phase(WeftWork *work, WeftNodeWork *item, WeftNodePhase phase, const char *reason, const char *detail);
/* Ends the call that runs for it. */
void weft_work_interrupt(WeftWork *work, const WeftNodeWork *item);
/* Nobody wants the node any more: ends what runs for it. */
void weft_work_retire(WeftWork *work, WeftNodeWork *item);
WeftNodeWork *weft_work_add(WeftWork *work, WeftNode *node, gint64 revision);
WeftNodeWork *weft_work_find(const WeftWork *work, const char *node_id);
/* Is there a node that should be elsewhere, and no room for it? */
gboolean weft_work_has_homeless(const WeftWork *work);
/* Retires all its nodes in that transaction, and lets it wait anew. anew: nothing is left of what failed it. */
void weft_work_retire_all(WeftWork *work, WeftTxn *txn, const char *why, gboolean anew);
/* Have some of its nodes nowhere to be? Only while it is loaded. */
void weft_work_set_waiting(WeftWork *work, gboolean waiting);

/* work-place.c: finding room. TRUE when a commit is under way. */
gboolean weft_work_place(WeftWork *work, const WeftPlan *plan);
/* Its turn has come: it may have these places, which are taken for it; they are claimed as soon as can be. Takes over what the
 * decision holds. EXHAUSTED: it cannot, since no partition number is free. */
gboolean weft_work_grant(WeftWork *work, WeftDecision *decision, GError **error);
/* It does not want them any more. */
void weft_work_revoke(WeftWork *work);
/* Adds names of hosts that failed it to a set that owns them; FALSE: none has. */
gboolean weft_work_add_shunned(WeftWork *work, GHashTable *hosts);
/* Is there a node of that rank that stays? */
gboolean weft_work_has_rank(const WeftWork *work, guint rank);
/* Passes a host over for a while. refused: it cannot run the cluster's nodes as they are. */
void weft_work_shun(WeftWork *work, const char *host, gboolean refused);
/* One of its nodes whose path the rule has chosen: those that come later talk to it. NULL: none. */
const WeftNode *weft_work_like(const WeftWork *work);
/* Why it waits for its turn. */
void weft_work_waits(WeftWork *work, const char *reason);

/* Takes another partition number: the site uses the one that it has. */
void weft_work_renumber(WeftWork *work);

/* work-wire.c: the partition in the fabric. */
void weft_work_wire(WeftWork *work);
/* … and whether that, and its networks on hosts, may be touched just now. */
gboolean weft_work_may_wire(const WeftWork *work);
/* What the fabric should have of it. */
WeftPartition *weft_work_partition(const WeftWork *work);

/* work-net.c: the partition's network on the hosts. */

/* Which of its hosts have it as they should? */
void weft_work_survey(WeftWork *work);
gboolean weft_work_has_parted(const WeftWork *work, const char *host);
/* Tells those that have it otherwise. */
void weft_work_connect(WeftWork *work);
gboolean weft_work_is_connecting(const WeftWork *work);
void weft_join_free(gpointer data);

/* work-steps.c: calls to hosts about nodes. */

/* Brings what is missing of it to the node's host, which answers for that. */
void weft_work_bring(WeftWork *work, WeftNodeWork *item, const WeftImage *image);
/* Is what it starts from on its host? */
gboolean weft_work_is_prepared(const WeftWork *work, const WeftNode *node);
void weft_work_prepare(WeftWork *work, WeftNodeWork *item);
/* … how far that is, or why it is no further; NULL: nothing to say. */
void weft_work_tell_preparing(const WeftWork *work, char **ret_text, char **ret_detail);
void weft_work_start(WeftWork *work, WeftNodeWork *item);
void weft_work_stop(WeftWork *work, WeftNodeWork *item);

/* Its definition, that of one which has gone on without its host's devices (a move, a restore), and that of its network device
 * alone, or of one of its host's, counted as weft_node_parts() does. */
char *weft_work_definition(WeftWork *work, const WeftNode *node, GError **error);
char *weft_work_definition_parted(WeftWork *work, const WeftNode *node, GError **error);
char *weft_work_nic(WeftWork *work, const WeftNode *node, GError **error);
char *weft_work_device(WeftWork *work, const WeftNode *node, guint index, GError **error);
/* What the disk that it writes to is laid over; NULL: it has none of its own. */
const WeftImageFile *weft_work_own_disk(const WeftWork *work, const WeftNode *node);
/* A call to its host, which ends with weft_work_step_ended(). Takes the job over. */
void weft_work_submit(WeftWork *work, WeftNodeWork *item, WeftJob *job);
/* P_Keys (guint16) of what it shares. */
GArray *weft_work_shared_keys(const WeftWork *work);

/* work-fork.c: nodes that are forked, and the one that becomes a template. */

/* Is the memory that it is forked from on its host, if it is? */
gboolean weft_work_is_primed(const WeftWork *work, const WeftNode *node);
void weft_work_prime(WeftWork *work, WeftNodeWork *item);
/* Its domain runs: tells it who it is; then it is up. */
void weft_work_become(WeftWork *work, WeftNodeWork *item);
/* Could it not be forked? It boots then, but for a clone, which would have lost what it is for. */
void weft_work_unforked(WeftWork *work, WeftNodeWork *item, const char *why, const char *detail);
/* It is not forked, now and when it is started anew. */
void weft_work_boot_cold(WeftWork *work, WeftNodeWork *item, const char *why, const char *detail);
/* … and an event tells so, once. */
void weft_work_tell_cold(const WeftWork *work, WeftTxn *txn, WeftNodeWork *item);
/* It is up: makes the template of it that its cluster is for. */
void weft_work_capture(WeftWork *work, WeftNodeWork *item);

/* work-leave.c: nodes that are to leave their host while they run, and where to. */

/* That it be moved; NULL: nobody asked, or its host is being emptied and it has not left. */
const WeftMoveWish *weft_work_wish(const WeftWork *work, const WeftNode *node);
/* Is it to stay after all? One that has gone over is not. */
gboolean weft_work_is_called_off(const WeftWork *work, const WeftNodeWork *item);
char *weft_work_called_off_words(const WeftMoveWish *wish);
/* Its ports are others, if it has any: the fabric must be told. */
void weft_work_members_changed(WeftWork *work, const WeftNode *node);
/* Which are to be moved, as the store has it. */
void weft_work_read_wishes(WeftWork *work);
/* Its host is being emptied by moves. */
gboolean weft_work_is_emptied(const WeftWork *work, const WeftNode *node);
/* As far as can be told before it is tried. */
gboolean weft_work_can_be_moved(const WeftWork *work, const WeftNode *node);
/* It is to be moved, and it is not too soon to try. */
gboolean weft_work_leaves(const WeftWork *work, const WeftNodeWork *item);
/* Those that could not leave may try again, if hosts are emptied in another way now. */
void weft_work_hear_drains(WeftWork *work);
/* Claims a place for the one that the plan lets go. TRUE when a commit is under way. */
gboolean weft_work_leave(WeftWork *work, const WeftPlan *plan);
/* What it held where it is no more is free. */
void weft_work_left(WeftWork *work, WeftNodeWork *item);
/* Deletes what is written of its move; FALSE: nothing is. */
gboolean weft_work_forget_move(const WeftWork *work, WeftTxn *txn, const WeftNode *node);

/* work-move.c: nodes on their way. */

/* The next step of one on its way. */
void weft_work_move(WeftWork *work, WeftNodeWork *item);
/* Its target is lost, or it was called off. */
void weft_work_return(WeftWork *work, WeftNodeWork *item);
/* Its target cannot have it. */
void weft_work_target_failed(WeftWork *work, WeftNodeWork *item, const char *why, const char *detail);
/* Writes which moves have ended. TRUE when a commit is under way. */
gboolean weft_work_end_moves(WeftWork *work);
/* It has no target any more, with the next commit. */
void weft_work_unmove(WeftWork *work, WeftNodeWork *item);
/* It was brought to rest for a move: it gets its devices, and goes on. */
void weft_work_let_go_on(WeftWork *work, WeftNodeWork *item);
/* How far moves are; NULL: nothing to say. */
void weft_work_tell_moving(WeftWork *work, char **ret_text);

/* work-still.c: nodes that stand still, or lose what they have of their host, for a while. */

/* Once, later, or before the call returns; the node's step has ended, and it may have gone meanwhile. why: NULL: it is done;
 * else in words for its tenant, with the error's for operators. */
typedef void (*WeftStillDone)(WeftWork *work, const char *node_id, const char *why, const GError *error);
/* Does it have devices of its host, which cannot go along? Others need no rest to be moved. */
gboolean weft_work_needs_still(const WeftNode *node);
/* Its guest comes to rest, and lets go of such devices. Refused where it has some and no hook to prepare for it, unless it may
 * be disrupted; where it fails, it goes on as it was. */
void weft_work_still(WeftWork *work, WeftNodeWork *item, gboolean disrupt, WeftStillDone done);
/* It gets these devices where it is now, and goes on once their ports have the partition's key. */
void weft_work_go_on(WeftWork *work, WeftNodeWork *item, WeftStillDone done);
/* One that was forked gets them: it never stood still. */
void weft_work_plug_fork(WeftWork *work, WeftNodeWork *item, WeftStillDone done);
/* … what they cost it is told with its record. */
void weft_work_tell_copied(const WeftWork *work, WeftTxn *txn, WeftNodeWork *item);
/* One of these is under way. */
gboolean weft_work_is_stilling(const WeftWork *work, const char *node_id);
void weft_still_free(gpointer data);

/* work-clone.c: a cluster that begins with the memory of another one's nodes. */

/* Is it a clone that was not ready yet? */
gboolean weft_work_is_cloning(const WeftWork *work);
/* Has that memory been put aside? Else it does so, step by step; it may have committed, or be lost. */
gboolean weft_work_clone(WeftWork *work);
/* What its node of that rank is forked from: id; NULL: it is gone. */
char *weft_work_clone_template(const WeftWork *work, guint rank);
/* It is ready, or to be gone: what was put aside goes with what is committed. */
void weft_work_end_clone(WeftWork *work, WeftTxn *txn);
void weft_capture_free(gpointer data);
/* work-freeze.c: a checkpoint of it is made. */

/* Takes the next step, if one is wanted. TRUE when a commit is under way. */
gboolean weft_work_freeze(WeftWork *work);
gboolean weft_work_is_freezing(const WeftWork *work);
/* It is to give way: begins to put it aside. FALSE: it cannot be, and why, in words for its tenant, static; NULL: nobody
 * expected it. */
#define WEFT_GAVE_WAY "it gave way to others, and waits for room again"
gboolean weft_work_freeze_away(WeftWork *work, const char **ret_why);
/* How far it is; NULL: nothing to say. */
char *weft_work_tell_freezing(const WeftWork *work);
void weft_freeze_free(WeftFreeze *freeze);

/* work-thaw.c: its nodes go on from a checkpoint. */

/* What they go on from; NULL: they start as others. */
const WeftCheckpoint *weft_work_origin(const WeftWork *work);
const WeftCheckpointNode *weft_work_saved_node(const WeftWork *work, const WeftNode *node);
/* It is about to be placed, for the first time or anew. */
void weft_work_choose_origin(WeftWork *work);
/* The rank of a saved node of its group that nobody has yet; WEFT_NODES_MAX: there is none. */
guint weft_work_saved_rank(const WeftWork *work, const WeftNode *node);
/* Makes it again who it was. */
void weft_work_recall(const WeftWork *work, WeftNode *node);
/* Is what it goes on from on its host, if it does? */
gboolean weft_work_is_recalled(const WeftWork *work, const WeftNode *node);
/* Begins to bring it; FALSE: there is nothing to bring. */
gboolean weft_work_bring_saved(WeftWork *work, WeftNodeWork *item);
void weft_work_add_saved(const WeftWork *work, const WeftNode *node, WeftBringing *bringing);
/* … and tells the job that starts it. */
void weft_work_add_origin(WeftWork *work, WeftNodeWork *item, WeftJob *job);
/* All are there, or one of them failed: all of them go on, or begin anew. TRUE when a commit is under way. */
gboolean weft_work_thaw(WeftWork *work, const WeftPlan *plan);
/* Its domain is there: it goes on with all others; then it is up. */
void weft_work_let_go(WeftWork *work, WeftNodeWork *item);
/* What was put aside when it gave way is of no use any more. */
void weft_work_forget_frozen(const WeftWork *work, WeftTxn *txn);
/* They go on from nothing any more: hosts need not keep it. */
void weft_work_forget_origin(WeftWork *work);
/* It is ready: adds what follows from that. */
void weft_work_thawed(WeftWork *work, WeftTxn *txn);

/* work-talk.c: conversations with nodes. */

/* What is asked of a node. */
typedef struct WeftTalk {
    WeftWork *work;
    char *node;         /* id */
    guint64 generation; /* of the members that it was told of */
    gint64 deadline;
    void (*answered)(const struct WeftTalk *talk, const char *output, const GError *error);
} WeftTalk;

typedef struct WeftWorkAsk {
    const char *kind;
    const char *input;
    gint64 deadline;
    /* Begins with weft_work_step_ended(). */
    void (*answered)(const WeftTalk *talk, const char *output, const GError *error);
} WeftWorkAsk;
void weft_work_ask(WeftWork *work, WeftNodeWork *item, const WeftWorkAsk *ask);
/* It has given its first answer, or knows who it is. */
void weft_work_come_up(WeftWork *work, WeftNodeWork *item);
void weft_work_greet(WeftWork *work, WeftNodeWork *item);
void weft_work_meet(WeftWork *work, WeftNodeWork *item);
/* Derives a few of those that are missing; FALSE: not all, and the next step goes on. */
gboolean weft_work_know_host_keys(WeftWork *work);
/* NULL: there is no secret, or no key of it, or it is not derived yet. */
const char *weft_work_host_key(const WeftNodeWork *item);

/* work-tell.c: where the time goes, told with whatever is committed next. */

/* Looks how far its nodes are. */
void weft_work_note(WeftWork *work);
/* Is there something to tell that has waited long enough? */
gboolean weft_work_has_news(const WeftWork *work);
void weft_work_tell(WeftWork *work, WeftTxn *txn);
/* An event of it, or of one of its nodes, whose label then goes right before the words. detail: a driver's words, for
 * operators; NULL: none. */
void weft_work_tell_event(const WeftWork *work, WeftTxn *txn, const char *type, const WeftNode *node, const char *detail,
                          const char *format, ...) G_GNUC_PRINTF(6, 7);

/* A step of a node failed: it backs off. Its label goes before the words. */
void weft_work_node_rests(WeftWork *work, WeftNodeWork *item, WeftDeed deed, const char *words, const char *detail);
/* It is tried on this host no more, once there is room on another. */
void weft_work_host_failed(WeftWork *work, WeftNodeWork *item, const char *reason, const char *detail);
/* It will not be better the next time, wherever. */
void weft_work_give_up(WeftWork *work, const WeftNode *node, const char *words, const char *detail);
/* Something on the way to its first answer went wrong: it backs off, fails, or cannot be. */
typedef struct WeftMishap {
    WeftDeed deed;
    gint64 deadline; /* that it had */
    const GError *error;
    const char *words; /* what to tell of it; NULL: what is said of that deed */
} WeftMishap;
void weft_work_start_failed(WeftWork *work, WeftNodeWork *item, const WeftMishap *mishap);
/* The node that a step was about has ended; NULL when it is of no interest any more. */
WeftNodeWork *weft_work_step_ended(WeftWork *work, const char *node_id);

void weft_work_wake(WeftWork *work);
/* Wakes it at that monotonic time at the latest. */
void weft_work_wake_at(WeftWork *work, gint64 time);
