/* The phases of clusters and nodes, and which may follow which: data, not code. */
#pragma once

#include <glib.h>

typedef enum {
    WEFT_CLUSTER_QUEUED, /* wished for; no room yet, or not yet looked at */
    WEFT_CLUSTER_PLACED, /* everything it needs is claimed */
    WEFT_CLUSTER_WIRING, /* the fabric is being told */
    WEFT_CLUSTER_STARTING,
    WEFT_CLUSTER_READY,   /* seen working from inside */
    WEFT_CLUSTER_SCALING, /* was ready; nodes come or go */
    WEFT_CLUSTER_HEALING, /* was ready; a node was lost or failed */
    WEFT_CLUSTER_MIGRATING,
    WEFT_CLUSTER_CHECKPOINTING,
    WEFT_CLUSTER_SUSPENDED,
    WEFT_CLUSTER_PREEMPTED,
    WEFT_CLUSTER_STOPPING,
    WEFT_CLUSTER_DELETED,
    WEFT_CLUSTER_FAILED, /* trying again cannot help until the wish changes; the reason says why */
    WEFT_CLUSTER_PHASES
} WeftClusterPhase;

typedef enum {
    WEFT_NODE_CLAIMED,  /* has its resources; not yet seen running */
    WEFT_NODE_UP,       /* answers from inside; has not met the others yet */
    WEFT_NODE_READY,    /* has reached every other node on the partition */
    WEFT_NODE_FAILED,   /* its domain died or never came; to be started again where it is */
    WEFT_NODE_LOST,     /* its host is gone: to be replaced, never to be trusted again */
    WEFT_NODE_STOPPING, /* to be stopped, taken out of the partition, and released */
    WEFT_NODE_PHASES
} WeftNodePhase;

extern const char *const weft_cluster_phase_words[WEFT_CLUSTER_PHASES + 1];
extern const char *const weft_node_phase_words[WEFT_NODE_PHASES + 1];

/* A phase may always follow itself. */
gboolean weft_cluster_phase_may_follow(WeftClusterPhase from, WeftClusterPhase to);
gboolean weft_node_phase_may_follow(WeftNodePhase from, WeftNodePhase to);

/* The reconciler has nothing to do for a cluster in this phase whose wish did not change. */
gboolean weft_cluster_phase_is_settled(WeftClusterPhase phase);
