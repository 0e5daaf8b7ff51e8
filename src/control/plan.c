#include "plan.h"

static gboolean
is_wired(const WeftPlanInput *input)
{
    return input->status && input->status->wired == input->status->generation;
}

/* --- nodes --- */

/* A lost host is fenced: it takes no node again before its stale domains and networks are destroyed. */
static gboolean
is_gone(const WeftNodeView *view)
{
    return view->stopped || (view->host == WEFT_SEEN_LOST && (!view->node->target || view->target == WEFT_SEEN_LOST));
}

static gboolean
is_parted(const WeftNodeView *view)
{
    return (view->parted || view->host == WEFT_SEEN_LOST) &&
           (!view->node->target || view->parted_there || view->target == WEFT_SEEN_LOST);
}

static gboolean
waits_for(WeftSeen host)
{
    return host == WEFT_SEEN_SILENT || host == WEFT_SEEN_HELD;
}

static WeftAction
plan_stopping(const WeftPlanInput *input, const WeftNodeView *view)
{
    if (is_gone(view))
        return is_wired(input) && is_parted(view) && !view->busy && !input->cluster->deleted ? WEFT_DO_RELEASE
                                                                                             : WEFT_DO_NOTHING;
    return view->busy || view->resting || view->host == WEFT_SEEN_HELD ? WEFT_DO_NOTHING : WEFT_DO_STOP;
}

static WeftAction
plan_failed(const WeftPlanInput *input, const WeftNodeView *view)
{
    if (view->busy || view->resting || waits_for(view->host))
        return WEFT_DO_NOTHING;
    /* It is stopped once it is replaced: a host that cannot even do that holds up nobody. */
    if (view->node->starts >= input->starts_max || view->emptied)
        return WEFT_DO_REPLACE;
    return view->stopped ? WEFT_DO_RETRY : WEFT_DO_STOP;
}

/* What it is started from may be on its way while fabric and hosts are told. */
static WeftAction
plan_claimed(const WeftPlanInput *input, const WeftNodeView *view)
{
    if (view->started)
        return WEFT_DO_GREET;
    if (!view->prepared)
        return WEFT_DO_PREPARE;
    return is_wired(input) && input->connected ? WEFT_DO_START : WEFT_DO_NOTHING;
}

/* On its way to another host, or at rest: it meets nobody. */
static gboolean
is_away(const WeftNode *node)
{
    return (node->target || node->still) && (node->phase == WEFT_NODE_UP || node->phase == WEFT_NODE_READY);
}

/* Those that are there: whoever is lost or leaves is waited for by nobody. */
static gboolean
may_meet(const WeftPlanInput *input)
{
    if (!is_wired(input) || !input->connected)
        return FALSE;
    for (guint i = 0; i < input->n_nodes; i++) {
        WeftNodePhase phase = input->nodes[i].node->phase;
        if (phase == WEFT_NODE_CLAIMED || phase == WEFT_NODE_FAILED || is_away(input->nodes[i].node))
            return FALSE;
    }
    return TRUE;
}

/* Up or ready: has it met the present members? */
static WeftAction
plan_up(const WeftPlanInput *input, const WeftNodeView *view, gboolean meet)
{
    gboolean met = view->node->phase == WEFT_NODE_READY && view->node->met == input->status->generation;
    return meet && !met ? WEFT_DO_MEET : WEFT_DO_NOTHING;
}

/* One whose target is lost returns, whatever runs for it, and so does one that was called off. */
static WeftAction
plan_moving(const WeftNodeView *view)
{
    if (view->target == WEFT_SEEN_LOST || view->called_off)
        return WEFT_DO_RETURN;
    gboolean waits = view->busy || view->resting || waits_for(view->host) || waits_for(view->target);
    return waits ? WEFT_DO_NOTHING : WEFT_DO_MOVE;
}

static WeftAction
plan_node(const WeftPlanInput *input, const WeftNodeView *view, gboolean meet)
{
    WeftNodePhase phase = view->node->phase;
    if (phase == WEFT_NODE_STOPPING)
        return plan_stopping(input, view);
    if (phase == WEFT_NODE_LOST)
        return view->host == WEFT_SEEN_UP                      ? WEFT_DO_RECOVER
               : view->resting || view->host == WEFT_SEEN_HELD ? WEFT_DO_NOTHING
                                                               : WEFT_DO_REPLACE;
    if (view->host == WEFT_SEEN_LOST)
        return WEFT_DO_LOSE;
    if (view->node->target && is_away(view->node))
        return plan_moving(view);
    if (view->host == WEFT_SEEN_EVICTING && !view->resting)
        return WEFT_DO_REPLACE;
    if (phase == WEFT_NODE_FAILED)
        return plan_failed(input, view);
    if (view->busy || view->resting || view->host != WEFT_SEEN_UP)
        return WEFT_DO_NOTHING;
    if (is_away(view->node))
        return is_wired(input) && input->connected ? WEFT_DO_GO_ON : WEFT_DO_NOTHING;
    return phase == WEFT_NODE_CLAIMED ? plan_claimed(input, view) : plan_up(input, view, meet);
}

/* --- moves --- */

/* A gang is never split by two moves: all are there and know each other before one leaves. */
static gboolean
is_calm(const WeftPlanInput *input)
{
    if (!is_wired(input) || !input->connected || input->cluster->deleted ||
        !weft_cluster_phase_may_follow(input->status->phase, WEFT_CLUSTER_MIGRATING))
        return FALSE;
    for (guint i = 0; i < input->n_nodes; i++) {
        const WeftNode *node = input->nodes[i].node;
        if (node->phase != WEFT_NODE_READY || node->met != input->status->generation || is_away(node))
            return FALSE;
    }
    return TRUE;
}

static void
plan_leave(const WeftPlanInput *input, WeftPlan *plan)
{
    if (!is_calm(input))
        return;
    for (guint i = 0; i < input->n_nodes; i++) {
        const WeftNodeView *view = &input->nodes[i];
        if (plan->actions[i] != WEFT_DO_NOTHING || !view->leaves || view->busy || view->host != WEFT_SEEN_UP)
            continue;
        plan->actions[i] = WEFT_DO_LEAVE;
        return;
    }
}

/* --- how many --- */

static gboolean
is_wanted_phase(const WeftNode *node)
{
    return node->phase != WEFT_NODE_STOPPING;
}

static int
compare_ranks(gconstpointer a, gconstpointer b, gpointer nodes)
{
    const WeftNodeView *views = nodes;
    guint x = views[*(const guint *)a].node->rank, y = views[*(const guint *)b].node->rank;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The highest ranks go first: a job that counts its nodes from 0 keeps them. */
static void
retire_surplus(const WeftPlanInput *input, guint group, guint surplus, WeftAction *actions)
{
    g_autoptr(GArray) staying = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = 0; i < input->n_nodes; i++)
        if (is_wanted_phase(input->nodes[i].node) && weft_node_group(input->nodes[i].node, input->cluster) == group)
            g_array_append_val(staying, i);
    g_array_sort_with_data(staying, compare_ranks, (gpointer)input->nodes);
    for (guint i = 0; i < surplus; i++)
        actions[g_array_index(staying, guint, i)] = WEFT_DO_RETIRE;
}

/* All nodes go before it asks for new ones. */
static gboolean
gives_way(const WeftPlanInput *input)
{
    return input->status && input->status->phase == WEFT_CLUSTER_PREEMPTED && input->n_nodes > 0;
}

static void
plan_counts(const WeftPlanInput *input, WeftPlan *plan)
{
    gboolean none = input->cluster->deleted || gives_way(input);
    guint have[WEFT_GROUPS_MAX] = { 0 };
    for (guint i = 0; i < input->n_nodes; i++)
        if (is_wanted_phase(input->nodes[i].node))
            have[weft_node_group(input->nodes[i].node, input->cluster)]++;
    for (guint g = 0; g < input->cluster->groups->len; g++) {
        guint want = none ? 0 : ((const WeftGroup *)input->cluster->groups->pdata[g])->count;
        if (have[g] > want)
            retire_surplus(input, g, have[g] - want, plan->actions);
        else
            plan->missing[g] = want - have[g];
    }
}

/* --- the cluster --- */

/* Every node has stopped, and the partition has gone. */
static gboolean
is_finished(const WeftPlanInput *input)
{
    if (!input->cluster->deleted || (input->status && !is_wired(input)))
        return FALSE;
    for (guint i = 0; i < input->n_nodes; i++) {
        const WeftNodeView *view = &input->nodes[i];
        if (view->node->phase != WEFT_NODE_STOPPING || view->busy || !is_gone(view) || !is_parted(view))
            return FALSE;
    }
    return TRUE;
}

void
weft_plan(const WeftPlanInput *input, WeftPlan *ret_plan)
{
    *ret_plan = (WeftPlan){ .actions = g_new0(WeftAction, input->n_nodes + 1) };
    gboolean meet = may_meet(input);
    for (guint i = 0; i < input->n_nodes; i++)
        ret_plan->actions[i] = plan_node(input, &input->nodes[i], meet);
    plan_counts(input, ret_plan);
    plan_leave(input, ret_plan);
    ret_plan->wire = input->status && input->status->pkey && !is_wired(input);
    ret_plan->finish = is_finished(input);
}

void
weft_plan_clear(WeftPlan *plan)
{
    g_clear_pointer(&plan->actions, g_free);
}

static WeftClusterPhase
phase_before_ready(const WeftPlanInput *input)
{
    if (input->n_nodes == 0)
        return WEFT_CLUSTER_QUEUED;
    if (is_wired(input))
        return WEFT_CLUSTER_STARTING;
    /* Its members changed before it ever was ready: back to the fabric, not to the queue. */
    gboolean began = input->status && input->status->phase != WEFT_CLUSTER_QUEUED &&
                     input->status->phase != WEFT_CLUSTER_PLACED && input->status->phase != WEFT_CLUSTER_PREEMPTED;
    return began ? WEFT_CLUSTER_WIRING : WEFT_CLUSTER_PLACED;
}

static gboolean
any_away(const WeftPlanInput *input)
{
    for (guint i = 0; i < input->n_nodes; i++)
        if (is_away(input->nodes[i].node))
            return TRUE;
    return FALSE;
}

WeftClusterPhase
weft_plan_phase(const WeftPlanInput *input)
{
    guint ready = 0, staying = 0;
    gboolean broken = input->status && input->status->phase == WEFT_CLUSTER_HEALING;
    gboolean moves = input->status && input->status->phase == WEFT_CLUSTER_MIGRATING;
    for (guint i = 0; i < input->n_nodes; i++) {
        WeftNodePhase phase = input->nodes[i].node->phase;
        staying += phase != WEFT_NODE_STOPPING;
        ready += phase == WEFT_NODE_READY && input->status && input->nodes[i].node->met == input->status->generation;
        broken |= phase == WEFT_NODE_FAILED || phase == WEFT_NODE_LOST || weft_node_has_rebooted(input->nodes[i].node);
    }
    if (input->cluster->deleted)
        return WEFT_CLUSTER_STOPPING;
    if (input->status && input->status->phase == WEFT_CLUSTER_PREEMPTED && staying == 0)
        return WEFT_CLUSTER_PREEMPTED;
    if (ready == input->n_nodes && !any_away(input) && ready == weft_cluster_count(input->cluster) && is_wired(input))
        /* They may be ready before the store took that they start. */
        return weft_cluster_phase_may_follow(input->status->phase, WEFT_CLUSTER_READY) ? WEFT_CLUSTER_READY
                                                                                       : WEFT_CLUSTER_STARTING;
    if (!input->status || !input->status->was_ready)
        return phase_before_ready(input);
    if (broken)
        return WEFT_CLUSTER_HEALING;
    moves = moves && staying == input->n_nodes && staying == weft_cluster_count(input->cluster);
    return (moves || any_away(input)) && weft_cluster_phase_may_follow(input->status->phase, WEFT_CLUSTER_MIGRATING)
               ? WEFT_CLUSTER_MIGRATING
               : WEFT_CLUSTER_SCALING;
}
