/* What to do next for a cluster: wish and what is known in, actions out. Pure. */
#pragma once

#include "cluster.h"
#include "node.h"

#include <glib.h>

/* What is known of a node's host. */
typedef enum {
    WEFT_SEEN_SILENT, /* not heard of yet, or not just now: wait */
    WEFT_SEEN_UP,
    WEFT_SEEN_LOST,
    WEFT_SEEN_EVICTING, /* up, and to be emptied */
    WEFT_SEEN_HELD,     /* not looked at yet, or left as it is: nothing is started or ended there */
} WeftSeen;

typedef struct WeftNodeView {
    const WeftNode *node;
    WeftSeen host;
    gboolean busy;         /* a step runs for it */
    gboolean resting;      /* backs off after a failure */
    gboolean started;      /* its domain was seen to run */
    gboolean stopped;      /* its domain is known to be gone */
    gboolean prepared;     /* its host has what it takes to start it: its image is there */
    WeftSeen target;       /* of the host that it is being moved to */
    gboolean called_off;   /* it is not to be moved after all */
    gboolean leaves;       /* it is to be moved, and may be now */
    gboolean emptied;      /* its host is to have no nodes any more */
    gboolean parted_there; /* as parted, of the host that it is being moved to */
    gboolean parted;       /* its host has no network of the cluster any more, or keeps it for others of its nodes */
} WeftNodeView;

/* What to do with a node. The first group changes its record, the second calls its host. */
typedef enum {
    WEFT_DO_NOTHING,
    WEFT_DO_RETIRE,  /* → stopping: nobody wants it any more */
    WEFT_DO_LOSE,    /* → lost: its host is gone */
    WEFT_DO_RECOVER, /* lost → failed: its host came back, clean, before a replacement was found */
    WEFT_DO_RETRY,   /* failed → claimed: its domain is gone, start it again where it is */
    WEFT_DO_REPLACE, /* a new node elsewhere takes its rank, and this one retires, in one transaction */
    WEFT_DO_LEAVE,   /* it holds a place on another host as well from now on */
    WEFT_DO_RELEASE, /* gone from its host and from the partition: free what it holds */
    WEFT_DO_PREPARE,
    WEFT_DO_START,
    WEFT_DO_GREET,  /* its domain runs: wait for its first answer from inside */
    WEFT_DO_MEET,   /* ask it to reach all others */
    WEFT_DO_MOVE,   /* the next step to the host where it has a place, too */
    WEFT_DO_RETURN, /* that host is lost, or it was called off: it is not moved */
    WEFT_DO_GO_ON,  /* it was brought to rest, and gets its devices */
    WEFT_DO_STOP,
} WeftAction;

typedef struct WeftPlanInput {
    const WeftCluster *cluster;
    const WeftClusterStatus *status; /* NULL: not yet looked at */
    const WeftNodeView *nodes;
    guint n_nodes;
    guint starts_max;   /* starts on one host before a node is placed elsewhere */
    gboolean connected; /* every host of it has the partition's network with the right peers */
} WeftPlanInput;

typedef struct WeftPlan {
    WeftAction *actions;            /* one for each node */
    guint missing[WEFT_GROUPS_MAX]; /* nodes to place, of each group */
    gboolean wire;                  /* the fabric must be told of the members */
    gboolean finish;                /* the cluster is to be gone, and nothing is left but its records */
} WeftPlan;

void weft_plan(const WeftPlanInput *input, WeftPlan *ret_plan);
void weft_plan_clear(WeftPlan *plan);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftPlan, weft_plan_clear)

/* The phase that wish and nodes amount to. */
WeftClusterPhase weft_plan_phase(const WeftPlanInput *input);
