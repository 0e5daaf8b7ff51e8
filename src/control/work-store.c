#include "clock.h"
#include "errors.h"
#include "text.h"
#include "turns.h"
#include "work.h"

#include <string.h>

#define NODES_AT_ONCE 128 /* that a step reads, each in some 20 to 50 microseconds */

static void
node_work_free(gpointer data)
{
    WeftNodeWork *item = data;
    weft_rest_clear(&item->rest);
    g_clear_pointer(&item->unreached, g_byte_array_unref);
    g_free(item->host_key);
    g_free(item->unforked);
    g_free(item->unforked_detail);
    weft_rest_clear(&item->leave);
    weft_node_free(item->given_up);
    weft_node_free(item->before);
    g_free(item->unmoved);
    g_free(item->unmoved_detail);
    weft_moved_clear(&item->trip);
    weft_node_free(item->node);
    g_free(item);
}

static WeftNodeWork *
node_work_new(WeftNode *node, gint64 revision)
{
    WeftNodeWork *item = g_new0(WeftNodeWork, 1);
    item->node = node;
    item->revision = revision;
    return item;
}

WeftNodeWork *
weft_work_add(WeftWork *work, WeftNode *node, gint64 revision)
{
    WeftNodeWork *item = node_work_new(node, revision);
    g_ptr_array_add(work->nodes, item);
    return item;
}

WeftNodeWork *
weft_work_find(const WeftWork *work, const char *node_id)
{
    for (guint i = 0; work->nodes && i < work->nodes->len; i++)
        if (strcmp(((WeftNodeWork *)work->nodes->pdata[i])->node->id, node_id) == 0)
            return work->nodes->pdata[i];
    return NULL;
}

/* Whoever is started anew, or never again, has met nobody. */
static gboolean
is_over(WeftNodePhase phase)
{
    return phase == WEFT_NODE_FAILED || phase == WEFT_NODE_LOST || phase == WEFT_NODE_STOPPING;
}

void
weft_work_set_phase(WeftWork *work, WeftNodeWork *item, WeftNodePhase phase, const char *reason, const char *detail)
{
    WeftNode *node = item->node;
    if (!weft_node_phase_may_follow(node->phase, phase)) {
        g_critical("node %s: phase %s must not follow %s", node->id, weft_node_phase_words[phase],
                   weft_node_phase_words[node->phase]);
        return;
    }
    node->phase = phase;
    item->dirty = TRUE;
    if (reason) {
        g_free(node->reason);
        node->reason = g_strdup(reason);
        g_free(node->detail);
        node->detail = g_strdup(detail);
    }
    if (is_over(phase)) {
        node->met = 0;
        node->still = FALSE;
        g_clear_pointer(&node->boot, g_free);
        item->started = FALSE;
        weft_links_drop(work->control->links, node->id);
    }
}

void
weft_work_interrupt(WeftWork *work, const WeftNodeWork *item)
{
    GCancellable *running = g_hash_table_lookup(work->jobs, item->node->id);
    if (running)
        g_cancellable_cancel(running);
}

void
weft_work_retire(WeftWork *work, WeftNodeWork *item)
{
    weft_work_interrupt(work, item);
    weft_work_set_phase(work, item, WEFT_NODE_STOPPING, NULL, NULL);
    weft_rest_clear(&item->rest);
}

void
weft_work_set_waiting(WeftWork *work, gboolean waiting)
{
    if (waiting)
        g_hash_table_add(work->control->waiting, work);
    else
        g_hash_table_remove(work->control->waiting, work);
}

/* --- reading --- */

/* What it asks for, or was granted, is no longer what it wants. */
static void
leave_queue(WeftWork *work)
{
    if (!work->control->closing)
        weft_turns_withdraw(work->control->turns, work);
    weft_work_revoke(work);
}

void
weft_work_unload(WeftWork *work)
{
    if (work->nodes)
        leave_queue(work);
    g_clear_pointer(&work->cluster, weft_cluster_free);
    g_clear_pointer(&work->status, weft_cluster_status_free);
    g_clear_pointer(&work->nodes, g_ptr_array_unref);
    g_clear_pointer(&work->reading, g_ptr_array_unref);
    work->status_revision = 0;
    work->status_dirty = FALSE;
    weft_work_set_waiting(work, FALSE);
}

static gboolean
load_status(WeftWork *work, GError **error)
{
    g_autoptr(GError) missing = NULL;
    work->status = weft_store_load_cluster_status(work->control->store, work->key, &work->status_revision, &missing);
    work->told_phase = work->status ? (int)work->status->phase : -1;
    if (work->status || g_error_matches(missing, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        return TRUE;
    g_propagate_error(error, g_steal_pointer(&missing));
    return FALSE;
}

/* Some of them. Nobody but its work changes them, or else it begins again (weft_control_reload()). *ret_all: these were the
 * last. */
static gboolean
read_nodes(WeftWork *work, const char *cluster_id, gboolean *ret_all, GError **error)
{
    const WeftNodeWork *last = work->reading ? work->reading->pdata[work->reading->len - 1] : NULL;
    if (last && strcmp(last->node->cluster, cluster_id) != 0) {
        g_clear_pointer(&work->reading, g_ptr_array_unref);
        last = NULL;
    }
    WeftQuery query = {
        .kind = WEFT_KIND_NODE, .scope = cluster_id, .after = last ? last->node->id : NULL, .limit = NODES_AT_ONCE
    };
    g_autoptr(GPtrArray) records = weft_store_list(work->control->store, &query, error);
    if (!records)
        return FALSE;
    if (!work->reading)
        work->reading = g_ptr_array_new_with_free_func(node_work_free);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        WeftNode *node = weft_record_node(record, error);
        if (!node)
            return FALSE;
        g_ptr_array_add(work->reading, node_work_new(node, record->revision));
    }
    *ret_all = records->len < NODES_AT_ONCE;
    return TRUE;
}

/* Somebody wants something else: what was given up, or passed over, is tried again. */
static void
try_anew(WeftWork *work)
{
    work->fatal = FALSE;
    weft_rest_clear(&work->doom);
    weft_rest_clear(&work->place);
    work->moves = 0;
    g_hash_table_remove_all(work->shunned);
    for (guint i = 0; work->nodes && i < work->nodes->len; i++)
        ((WeftNodeWork *)work->nodes->pdata[i])->refused = FALSE;
}

/* Until all its nodes are read it is as if it were not loaded. */
static gboolean
load(WeftWork *work, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_store_load_cluster(work->control->store, work->key, &work->cluster_revision, error);
    if (!cluster)
        return FALSE;
    /* Only the wish is new: what is known of the nodes stays. A cluster of the same name that is another one is loaded anew. */
    gboolean same = work->cluster && strcmp(work->cluster->id, cluster->id) == 0, all = TRUE;
    if (same)
        leave_queue(work);
    else if (work->cluster)
        weft_work_unload(work);
    if (!same && !read_nodes(work, cluster->id, &all, error))
        return FALSE;
    if (!all)
        return TRUE;
    g_clear_pointer(&work->cluster, weft_cluster_free);
    work->cluster = g_steal_pointer(&cluster);
    if (!same) {
        if (!load_status(work, error))
            return FALSE;
        work->nodes = g_steal_pointer(&work->reading);
        work->wishes_stale = TRUE;
    }
    if (work->wish_stale)
        try_anew(work);
    work->wish_stale = FALSE;
    weft_turns_note_wish(work->control->turns, work->key, work->cluster);
    weft_turns_hold(work->control->turns, work);
    return TRUE;
}

WeftLoad
weft_work_refresh(WeftWork *work)
{
    if (work->cluster && !work->wish_stale)
        return WEFT_WORK_LOADED;
    g_autoptr(GError) error = NULL;
    if (load(work, &error)) {
        weft_work_wake(work);
        return WEFT_WORK_READ;
    }
    weft_work_unload(work);
    if (g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        weft_turns_note_wish(work->control->turns, work->key, NULL);
        return WEFT_WORK_GONE;
    }
    g_warning("cluster %s: cannot be read, trying again: %s", work->key, error->message);
    weft_work_wake_at(work, g_get_monotonic_time() + G_USEC_PER_SEC);
    return WEFT_WORK_LATER;
}

/* --- what it amounts to --- */

/* A node that is to be started, perhaps elsewhere, waits while anything of its cluster is held: that may have its rank by now.
 */
static gboolean
waits_to_start(const WeftWork *work, const WeftNode *node)
{
    return (node->phase == WEFT_NODE_CLAIMED || node->phase == WEFT_NODE_FAILED || node->phase == WEFT_NODE_LOST) &&
           weft_hosts_hold_cluster(work->control->hosts, work->cluster->id);
}

/* Who is moved, or may be, is not created anew meanwhile. */
static WeftSeen
host_seen(const WeftWork *work, const WeftNode *node)
{
    WeftSeen seen = waits_to_start(work, node) ? WEFT_SEEN_HELD : weft_hosts_seen_of(work->control->hosts, node);
    if (seen == WEFT_SEEN_HELD)
        weft_hosts_await_looks(work->control->hosts, work->key);
    gboolean moving = weft_hosts_is_moving(work->control->hosts, node->host, NULL);
    if (!moving || (seen != WEFT_SEEN_EVICTING && seen != WEFT_SEEN_UP))
        return seen;
    if (work->cluster->capture)
        return WEFT_SEEN_EVICTING;
    return seen == WEFT_SEEN_EVICTING && weft_work_can_be_moved(work, node) ? WEFT_SEEN_UP : seen;
}

static WeftNodeView
view_of(const WeftWork *work, const WeftNodeWork *item)
{
    WeftNode *node = item->node;
    const WeftNode *target = node->target;
    return (WeftNodeView){
        .node = node,
        .host = host_seen(work, node),
        .busy = g_hash_table_contains(work->jobs, node->id),
        .resting = !weft_rest_is_over(&item->rest, work->now),
        .started = item->started,
        .stopped = item->stopped,
        .prepared = node->phase != WEFT_NODE_CLAIMED || weft_work_is_prepared(work, node),
        .parted = weft_work_has_parted(work, node->host),
        .target = target ? weft_hosts_seen(work->control->hosts, target->host) : WEFT_SEEN_UP,
        .called_off = weft_work_is_called_off(work, item),
        .leaves = weft_work_leaves(work, item),
        .emptied = weft_work_is_emptied(work, node),
        .parted_there = !target || weft_work_has_parted(work, target->host),
    };
}

/* Nothing is stopped on a host that is held; one that ended before this store was copied back is seen not to be there. */
static void
note_stopped(WeftWork *work)
{
    const WeftHosts *hosts = work->control->hosts;
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        const WeftNode *node = item->node, *target = node->target;
        if (node->phase != WEFT_NODE_STOPPING || item->stopped)
            continue;
        gboolean held = weft_hosts_seen(hosts, node->host) == WEFT_SEEN_HELD ||
                        (target && weft_hosts_seen(hosts, target->host) == WEFT_SEEN_HELD);
        item->stopped =
            held && weft_hosts_lack(hosts, node->host, node->id) && (!target || weft_hosts_lack(hosts, target->host, node->id));
    }
}

WeftPlanInput
weft_work_input(WeftWork *work, WeftNodeView **ret_views)
{
    note_stopped(work);
    weft_work_survey(work);
    WeftNodeView *views = g_new0(WeftNodeView, work->nodes->len + 1);
    guint n = 0;
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        if (!item->leaving)
            views[n++] = view_of(work, item);
    }
    *ret_views = views;
    return (WeftPlanInput){ work->cluster, work->status, views, n, work->control->options.starts_max, work->connected };
}

gboolean
weft_work_has_homeless(const WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        if (item->homeless && weft_hosts_seen(work->control->hosts, item->node->host) != WEFT_SEEN_UP)
            return TRUE;
        if (item->awaits)
            return TRUE;
    }
    return FALSE;
}

static WeftClusterPhase
phase_of(WeftWork *work)
{
    g_autofree WeftNodeView *views = NULL;
    WeftPlanInput input = weft_work_input(work, &views);
    WeftClusterPhase phase = weft_plan_phase(&input);
    if (work->fatal && phase != WEFT_CLUSTER_STOPPING)
        return WEFT_CLUSTER_FAILED;
    if (phase == WEFT_CLUSTER_READY && weft_work_is_freezing(work))
        return WEFT_CLUSTER_CHECKPOINTING;
    return phase == WEFT_CLUSTER_PLACED && work->wire.attempts ? WEFT_CLUSTER_WIRING : phase;
}

static void
ensure_status(WeftWork *work)
{
    if (work->status)
        return;
    WeftClusterStatus *status = g_new0(WeftClusterStatus, 1);
    status->cluster = g_strdup(work->cluster->id);
    status->tenant = g_strdup(work->cluster->tenant);
    status->name = g_strdup(work->cluster->name);
    status->since = weft_clock_now();
    work->status = status;
    work->status_dirty = TRUE;
}

static void
set_phase(WeftWork *work, WeftClusterPhase phase)
{
    WeftClusterStatus *status = work->status;
    if (status->phase == phase)
        return;
    if (!weft_cluster_phase_may_follow(status->phase, phase)) {
        g_critical("cluster %s: phase %s must not follow %s", work->key, weft_cluster_phase_words[phase],
                   weft_cluster_phase_words[status->phase]);
        return;
    }
    status->phase = phase;
    status->since = weft_clock_now();
    status->was_ready |= phase == WEFT_CLUSTER_READY;
    work->status_dirty = TRUE;
}

/* It comes back as if it had never been: with all new nodes, and its whole walltime. */
void
weft_work_retire_all(WeftWork *work, WeftTxn *txn, const char *why, gboolean anew)
{
    WeftClusterStatus *status = work->status;
    leave_queue(work);
    if (anew)
        try_anew(work);
    weft_work_forget_origin(work);
    set_phase(work, WEFT_CLUSTER_PREEMPTED);
    status->was_ready = FALSE;
    status->placed = status->ends = 0;
    status->generation++;
    work->status_dirty = TRUE;
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (item->node->phase != WEFT_NODE_STOPPING)
            weft_work_retire(work, item);
    }
    weft_rest_say(&work->place, WEFT_DEED_STOP, why, NULL);
    weft_turns_hold(work->control->turns, work);
    weft_work_commit(work, txn);
}

/* TRUE: it was another one. */
static gboolean
set_text(char **text, const char *value)
{
    if (g_strcmp0(*text, value) == 0)
        return FALSE;
    g_free(*text);
    *text = g_strdup(value);
    return TRUE;
}

/* Of those that failed at the same: always the same one, so that what is told does not change with each try. */
static const WeftRest *
first_join(const WeftWork *work)
{
    const WeftJoin *first = NULL;
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, work->joins);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftJoin *join = value;
        if (join->rest.what && (!first || strcmp(join->host, first->host) < 0))
            first = join;
    }
    return first ? &first->rest : NULL;
}

static const WeftRest *
rest_of(const WeftNodeWork *item)
{
    return item->rest.what ? &item->rest : item->leave.what ? &item->leave : NULL;
}

static const WeftRest *
first_node(const WeftWork *work)
{
    const WeftNodeWork *first = NULL;
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        if (rest_of(item) && (!first || item->node->rank < first->node->rank))
            first = item;
    }
    return first ? rest_of(first) : NULL;
}

/* What most keeps it from being ready; NULL: nothing. */
static const WeftRest *
trouble_of(const WeftWork *work)
{
    const WeftRest *rests[] = { &work->doom, &work->place, &work->wire, first_join(work), first_node(work) };
    for (guint i = 0; i < G_N_ELEMENTS(rests); i++)
        if (rests[i] && rests[i]->what)
            return rests[i];
    return NULL;
}

/* Of its nodes on hosts that do not answer, the first one's: TRUE when there is any. */
static gboolean
tell_silence(const WeftWork *work, char **ret_text, char **ret_detail)
{
    const WeftNode *first = NULL;
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        if (weft_hosts_is_silent(work->control->hosts, node->host) && (!first || node->rank < first->rank))
            first = node;
    }
    if (!first)
        return FALSE;
    g_autofree char *label = weft_node_label(first);
    g_autofree char *silence = weft_hosts_silence(work->control->hosts, first->host, ret_detail);
    *ret_text = g_strdup_printf("node %s: its host %s", label, silence);
    return TRUE;
}

/* What went wrong, or else which host is silent, or else how far its image is. */
static void
update_reason(WeftWork *work)
{
    g_autofree char *text = NULL, *detail = NULL;
    gboolean well = work->status->phase == WEFT_CLUSTER_READY && !weft_work_has_homeless(work);
    const WeftRest *trouble = well ? NULL : trouble_of(work);
    if (trouble) {
        text = weft_rest_text(trouble);
        detail = g_strdup(trouble->detail);
    } else if (!tell_silence(work, &text, &detail) && !well) {
        if (work->cluster->deleted && weft_hosts_are_looked_at(work->control->hosts) &&
            weft_hosts_hold_cluster(work->control->hosts, work->cluster->id))
            text = g_strdup("something of it is held on a host, and an operator decides what becomes of that: weft site ls");
        else if (!weft_work_may_wire(work))
            text = weft_subnets_why_not_wire(work->control->subnets, work->status->fabric, work->status->pkey);
        if (!text)
            weft_work_tell_preparing(work, &text, &detail);
        if (!text)
            weft_work_tell_moving(work, &text);
        if (!text)
            text = weft_work_tell_freezing(work);
    }
    work->status_dirty |= set_text(&work->status->reason, text);
    work->status_dirty |= set_text(&work->status->detail, detail);
}

gboolean
weft_work_update_status(WeftWork *work)
{
    ensure_status(work);
    set_phase(work, phase_of(work));
    WeftClusterStatus *status = work->status;

    guint nodes = 0, ready = 0;
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        nodes += !item->leaving;
        ready += item->node->phase == WEFT_NODE_READY;
    }
    work->status_dirty |= status->nodes != nodes || status->ready != ready;
    status->nodes = nodes;
    status->ready = ready;
    update_reason(work);
    return work->status_dirty;
}

/* --- writing --- */

static char *
phase_message(const WeftWork *work)
{
    const WeftClusterStatus *status = work->status;
    g_autofree char *nodes = weft_text_count(status->nodes, "node");
    g_autofree char *wished = weft_text_count(weft_cluster_count(work->cluster), "node");
    switch (status->phase) {
    case WEFT_CLUSTER_PLACED:
        if (status->unmanaged)
            return g_strdup_printf("%s placed on fabric %s, which nobody manages", nodes, status->fabric);
        return g_strdup_printf("%s placed, partition 0x%04x of fabric %s", nodes, status->pkey, status->fabric);
    case WEFT_CLUSTER_STARTING:
        if (status->unmanaged)
            return g_strdup_printf("no partition is programmed, starting %s on VXLAN %u", nodes, status->vxlan);
        return g_strdup_printf("partition 0x%04x is wired, starting %s", status->pkey, nodes);
    case WEFT_CLUSTER_READY:
        return g_strdup_printf("%s ready", wished);
    case WEFT_CLUSTER_SCALING:
        return g_strdup_printf("to %s, %u %s ready", wished, status->ready, status->ready == 1 ? "is" : "are");
    case WEFT_CLUSTER_MIGRATING:
        return g_strdup("a node moves to another host");
    case WEFT_CLUSTER_STOPPING:
        return g_strdup_printf("stopping %s", nodes);
    default:
        return g_strdup(status->reason ? status->reason : weft_cluster_phase_words[status->phase]);
    }
}

static void
put_status(WeftWork *work, WeftTxn *txn)
{
    if (!weft_work_update_status(work))
        return;
    if (work->status->phase == WEFT_CLUSTER_READY && weft_work_is_cloning(work))
        weft_work_end_clone(work, txn);
    if (work->status->phase == WEFT_CLUSTER_READY && work->status->origin)
        weft_work_thawed(work, txn);
    weft_txn_put_cluster_status(txn, work->status, work->status_revision ? work->status_revision : WEFT_ABSENT);
    /* A manager with older partitions may bring it back under that number: then it has ended there. */
    g_autofree char *partition = weft_partition_name(work->cluster->id);
    if (work->pkey_left)
        weft_txn_rest_pkey(txn, work->status->fabric, work->pkey_left, partition, work->cluster->tenant, weft_clock_now());
    work->status_dirty = FALSE;
    work->status_writing = TRUE;
    if (work->told_phase == (int)work->status->phase)
        return;
    work->told_phase = (int)work->status->phase;
    g_autofree char *type = g_strconcat("cluster-", weft_cluster_phase_words[work->status->phase], NULL);
    g_autofree char *message = phase_message(work);
    weft_txn_tell(txn, type, work->cluster, NULL, "%s", message);
}

/* Nodes that left make room; the others have the new revision. */
static void
take_over(WeftWork *work, gint64 revision)
{
    gboolean room = FALSE;
    for (guint i = work->nodes->len; i-- > 0;) {
        WeftNodeWork *item = work->nodes->pdata[i];
        item->departing = FALSE;
        if (item->before) {
            weft_work_left(work, item);
            room = TRUE;
        }
        if (item->leaving) {
            weft_fleet_give(work->control->fleet, item->node);
            if (item->node->target)
                weft_control_give_target(work->control, item->node);
            g_ptr_array_remove_index(work->nodes, i);
            room = TRUE;
        } else if (item->writing) {
            item->revision = revision;
            item->writing = FALSE;
        }
    }
    if (work->status_writing)
        work->status_revision = revision;
    if (work->status_writing && work->status->phase == WEFT_CLUSTER_READY)
        weft_control_wake_clones(work->control, work->cluster->id);
    if (work->status && work->status->phase == WEFT_CLUSTER_PREEMPTED)
        work->preempt = NULL;
    weft_expiry_set(work->control->expiry, work->key, work->finishing ? NULL : work->status);
    if (work->pkey_left && work->status)
        weft_subnets_leave_pkey(work->control->subnets, work->status->fabric, work->pkey_left, work->cluster);
    if (work->finishing)
        weft_subnets_free_pkey(work->control->subnets, work->status ? work->status->fabric : NULL,
                               work->status ? work->status->pkey : 0, work->cluster->tenant);
    if (!room)
        return;
    weft_turns_hold(work->control->turns, work);
    weft_control_room_made(work->control);
}

/* Nothing of it happened: what was reserved for it is free again, and the store tells how things are. */
static void
undo(WeftWork *work, const GError *error)
{
    gboolean taken = g_error_matches(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    for (guint i = work->nodes->len; i-- > 0;) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (item->departing) {
            weft_control_give_target(work->control, item->node);
            if (taken)
                weft_hosts_recount(work->control->hosts, item->node->target->host);
        }
        if (item->revision)
            continue;
        weft_fleet_give(work->control->fleet, item->node);
        /* Placement thought it free: it shall know better the next time. */
        if (taken)
            weft_hosts_recount(work->control->hosts, item->node->host);
        g_ptr_array_remove_index(work->nodes, i);
    }
    weft_turns_hold(work->control->turns, work);
    if (work->pkey_new)
        weft_subnets_return_pkey(work->control->subnets, work->status->fabric, work->status->pkey);
    weft_work_unload(work);
    if (!g_error_matches(error, WEFT_ERROR, WEFT_ERROR_CONFLICT)) {
        g_warning("cluster %s: cannot be written, trying again: %s", work->key, error->message);
        work->write_not_before = g_get_monotonic_time() + G_USEC_PER_SEC;
    }
}

/* The next cluster of its name must not suffer from what this one went through. */
static void
bury(WeftWork *work)
{
    g_clear_pointer(&work->captures, g_ptr_array_unref);
    weft_work_forget_origin(work);
    weft_work_unload(work);
    try_anew(work);
    weft_rest_clear(&work->wire);
}

static void
committed(gint64 revision, const GError *error, gpointer data)
{
    WeftWork *work = data;
    work->committing = FALSE;
    if (error)
        undo(work, error);
    else
        take_over(work, revision);
    if (work->finishing && !error)
        bury(work);
    work->finishing = work->pkey_new = work->status_writing = FALSE;
    work->pkey_left = 0;
    weft_work_wake(work);
}

/* A status that is being written meets a conflict, and is read again. */
void
weft_control_end_changed(WeftControl *control, const char *cluster_key, const WeftClusterStatus *status, gint64 revision)
{
    WeftWork *work = g_hash_table_lookup(control->works, cluster_key);
    if (!work || !work->status || work->status->ends == status->ends)
        return;
    work->status->placed = status->placed;
    work->status->ends = status->ends;
    if (!work->status_writing)
        work->status_revision = revision;
    weft_turns_hold(control->turns, work);
}

static void
share_lanes(const WeftWork *work, WeftTxn *txn, const WeftNode *node)
{
    for (guint i = 0; node->bandwidth && i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        weft_txn_share_lane(txn, node, device, weft_fleet_lane_room(work->control->fleet, node->host, device->hca, node->sl));
    }
}

/* … with what it holds, here and there. */
static void
put_claims(const WeftWork *work, WeftTxn *txn, const WeftNodeWork *item)
{
    const WeftFleet *fleet = work->control->fleet;
    const WeftNode *node = item->node;
    g_autoptr(WeftNode) there = node->target ? weft_node_moved(node) : NULL;
    weft_txn_put_moved_node(txn, node, weft_fleet_host(fleet, node->host), there ? weft_fleet_host(fleet, there->host) : NULL,
                            item->revision);
    share_lanes(work, txn, node);
    if (there)
        share_lanes(work, txn, there);
}

/* Stays that ended with this commit, so that what is left of them may be removed: those of a host that was given up, and the
 * end of a move where the node is not. */
static void
end_stays(WeftTxn *txn, WeftNodeWork *item)
{
    if (item->given_up)
        weft_txn_end_placements(txn, item->given_up);
    g_clear_pointer(&item->given_up, weft_node_free);
    if (!item->before)
        return;
    g_autoptr(WeftNode) left = weft_node_moved(item->before);
    if (g_strcmp0(left->placement, item->node->placement) == 0)
        weft_txn_end_stay(txn, item->before);
    else
        weft_txn_end_stay(txn, left);
}

void
weft_work_commit(WeftWork *work, WeftTxn *txn)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (!item->dirty || item->leaving || item->revision == 0)
            continue;
        end_stays(txn, item);
        if (item->claims)
            put_claims(work, txn, item);
        else
            weft_txn_put_node(txn, item->node, item->revision);
        item->dirty = item->claims = FALSE;
        item->writing = TRUE;
    }
    if (!work->finishing) {
        weft_work_tell(work, txn);
        put_status(work, txn);
    }
    work->committing = TRUE;
    weft_control_commit(work->control, txn, committed, work);
}
