#include "phase.h"

const char *const weft_cluster_phase_words[WEFT_CLUSTER_PHASES + 1] = {
    [WEFT_CLUSTER_QUEUED] = "queued",
    [WEFT_CLUSTER_PLACED] = "placed",
    [WEFT_CLUSTER_WIRING] = "wiring",
    [WEFT_CLUSTER_STARTING] = "starting",
    [WEFT_CLUSTER_READY] = "ready",
    [WEFT_CLUSTER_SCALING] = "scaling",
    [WEFT_CLUSTER_HEALING] = "healing",
    [WEFT_CLUSTER_MIGRATING] = "migrating",
    [WEFT_CLUSTER_CHECKPOINTING] = "checkpointing",
    [WEFT_CLUSTER_SUSPENDED] = "suspended",
    [WEFT_CLUSTER_PREEMPTED] = "preempted",
    [WEFT_CLUSTER_STOPPING] = "stopping",
    [WEFT_CLUSTER_DELETED] = "deleted",
    [WEFT_CLUSTER_FAILED] = "failed",
};

const char *const weft_node_phase_words[WEFT_NODE_PHASES + 1] = {
    [WEFT_NODE_CLAIMED] = "claimed", [WEFT_NODE_UP] = "up",     [WEFT_NODE_READY] = "ready",
    [WEFT_NODE_FAILED] = "failed",   [WEFT_NODE_LOST] = "lost", [WEFT_NODE_STOPPING] = "stopping",
};

#define C(phase) (1u << WEFT_CLUSTER_##phase)
#define N(phase) (1u << WEFT_NODE_##phase)

/* Several steps may be committed together, so a phase may be skipped on the way up, but ready is only ever reached from a
 * phase in which nodes were looked at. Before it was ever ready a cluster is placed, wired and started (and queued again,
 * should it then want others for which there is no room); afterwards it scales and heals, and stays in that phase until it is
 * ready again. Whoever holds something may have to give way; it is placed anew then. Whoever is stopping can only be deleted: a
 * delete wins. */
static const guint cluster_next[WEFT_CLUSTER_PHASES] = {
    [WEFT_CLUSTER_QUEUED] = C(PLACED) | C(WIRING) | C(STARTING) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_PLACED] = C(QUEUED) | C(WIRING) | C(STARTING) | C(PREEMPTED) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_WIRING] = C(QUEUED) | C(STARTING) | C(PREEMPTED) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_STARTING] = C(QUEUED) | C(WIRING) | C(READY) | C(PREEMPTED) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_READY] =
        C(SCALING) | C(HEALING) | C(MIGRATING) | C(CHECKPOINTING) | C(SUSPENDED) | C(PREEMPTED) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_SCALING] = C(READY) | C(HEALING) | C(MIGRATING) | C(CHECKPOINTING) | C(PREEMPTED) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_HEALING] = C(READY) | C(SCALING) | C(CHECKPOINTING) | C(PREEMPTED) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_MIGRATING] =
        C(READY) | C(SCALING) | C(HEALING) | C(CHECKPOINTING) | C(SUSPENDED) | C(PREEMPTED) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_CHECKPOINTING] = C(READY) | C(SCALING) | C(HEALING) | C(SUSPENDED) | C(PREEMPTED) | C(STOPPING) | C(FAILED),
    [WEFT_CLUSTER_SUSPENDED] = C(QUEUED) | C(PLACED) | C(WIRING) | C(STARTING) | C(STOPPING),
    [WEFT_CLUSTER_PREEMPTED] = C(QUEUED) | C(PLACED) | C(WIRING) | C(STARTING) | C(STOPPING),
    [WEFT_CLUSTER_STOPPING] = C(DELETED),
    [WEFT_CLUSTER_DELETED] = 0,
    [WEFT_CLUSTER_FAILED] =
        C(QUEUED) | C(PLACED) | C(WIRING) | C(STARTING) | C(SCALING) | C(HEALING) | C(PREEMPTED) | C(STOPPING),
};

/* A ready one that reboots is up until it has met the others again. A lost node is failed again when its host comes back before
 * it was replaced; it never turns ready by itself. */
static const guint node_next[WEFT_NODE_PHASES] = {
    [WEFT_NODE_CLAIMED] = N(UP) | N(READY) | N(FAILED) | N(LOST) | N(STOPPING),
    [WEFT_NODE_UP] = N(READY) | N(FAILED) | N(LOST) | N(STOPPING),
    [WEFT_NODE_READY] = N(UP) | N(FAILED) | N(LOST) | N(STOPPING),
    [WEFT_NODE_FAILED] = N(CLAIMED) | N(LOST) | N(STOPPING),
    [WEFT_NODE_LOST] = N(FAILED) | N(STOPPING),
    [WEFT_NODE_STOPPING] = 0,
};

static const guint settled = C(READY) | C(SUSPENDED) | C(FAILED) | C(DELETED);

gboolean
weft_cluster_phase_may_follow(WeftClusterPhase from, WeftClusterPhase to)
{
    return from == to || (cluster_next[from] & (1u << to));
}

gboolean
weft_node_phase_may_follow(WeftNodePhase from, WeftNodePhase to)
{
    return from == to || (node_next[from] & (1u << to));
}

gboolean
weft_cluster_phase_is_settled(WeftClusterPhase phase)
{
    return (settled & (1u << phase)) != 0;
}
