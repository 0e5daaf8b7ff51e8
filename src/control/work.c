#include "work.h"

#include "clock.h"
#include "id.h"
#include "turns.h"
#include "wakeup.h"

#define STEPS_AT_ONCE 64 /* then others get their turn, */
#define STEPS_TIME 4000  /* … or after so many microseconds of processor time: definitions of large nodes are long */

/* --- waking --- */

static WeftWork *
work_get(WeftControl *control, const char *key)
{
    WeftWork *work = g_hash_table_lookup(control->works, key);
    if (work)
        return work;
    work = g_new0(WeftWork, 1);
    work->control = control;
    work->key = g_strdup(key);
    work->jobs = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    work->gone = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    work->bereft = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    work->rebooted = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    work->joins = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, weft_join_free);
    work->stills = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, weft_still_free);
    work->peers = g_ptr_array_new_with_free_func(g_free);
    work->wishes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_move_wish_free);
    work->shunned = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_hash_table_insert(control->works, work->key, work);
    return work;
}

void
weft_work_free(WeftWork *work)
{
    weft_work_unload(work);
    g_clear_handle_id(&work->timer, g_source_remove);
    g_hash_table_unref(work->jobs);
    g_hash_table_unref(work->gone);
    g_hash_table_unref(work->bereft);
    g_hash_table_unref(work->rebooted);
    g_hash_table_unref(work->joins);
    g_hash_table_unref(work->stills);
    g_clear_pointer(&work->captures, g_ptr_array_unref);
    g_ptr_array_unref(work->peers);
    g_ptr_array_unref(work->wishes);
    g_hash_table_unref(work->shunned);
    weft_rest_clear(&work->doom);
    weft_rest_clear(&work->wire);
    weft_rest_clear(&work->place);
    weft_freeze_free(work->freeze);
    g_clear_pointer(&work->members, g_bytes_unref);
    g_free(work->key);
    g_free(work);
}

void
weft_work_wake(WeftWork *work)
{
    if (work->awake)
        return;
    work->awake = TRUE;
    g_queue_push_tail(&work->control->awake, work);
    weft_wakeup_ask(work->control->pump);
}

static gboolean
timer_rang(gpointer data)
{
    WeftWork *work = data;
    work->timer = 0;
    weft_work_wake(work);
    return G_SOURCE_REMOVE;
}

void
weft_work_wake_at(WeftWork *work, gint64 time)
{
    if (work->timer && work->timer_at <= time)
        return;
    g_clear_handle_id(&work->timer, g_source_remove);
    gint64 delay = MAX(time - g_get_monotonic_time(), 0);
    work->timer_at = time;
    work->timer = g_timeout_add((guint)(delay / 1000 + 1), timer_rang, work);
}

void
weft_control_wake(WeftControl *control, const char *cluster_key)
{
    weft_work_wake(work_get(control, cluster_key));
}

void
weft_control_wake_all(WeftControl *control)
{
    GHashTableIter iter;
    gpointer work;
    g_hash_table_iter_init(&iter, control->works);
    while (g_hash_table_iter_next(&iter, NULL, &work))
        weft_work_wake(work);
}

void
weft_control_wake_tenant(WeftControl *control, const char *tenant)
{
    GHashTableIter iter;
    gpointer value;
    g_autofree char *prefix = weft_cluster_key(tenant, "");
    g_hash_table_iter_init(&iter, control->works);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        WeftWork *work = value;
        if (!g_str_has_prefix(work->key, prefix))
            continue;
        if (work->nodes)
            weft_work_try_room(work);
        else
            weft_work_wake(work);
    }
}

void
weft_control_wish_changed(WeftControl *control, const char *cluster_key)
{
    WeftWork *work = work_get(control, cluster_key);
    work->wish_stale = TRUE;
    weft_work_wake(work);
}

gint64
weft_work_created(const WeftWork *work)
{
    return work->cluster->created;
}

void
weft_work_try_room(WeftWork *work)
{
    work->place.not_before = 0;
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (item->homeless)
            item->rest.not_before = 0;
        if (item->awaits)
            item->leave.not_before = 0;
    }
    weft_work_wake(work);
}

void
weft_control_node_gone(WeftControl *control, const WeftNode *node, const char *reason)
{
    g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
    WeftWork *work = work_get(control, key);
    g_hash_table_insert(work->gone, g_strdup(node->id), g_strdup(reason));
    weft_work_wake(work);
}

void
weft_control_node_bereft(WeftControl *control, const WeftNode *node, const char *detail)
{
    g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
    WeftWork *work = work_get(control, key);
    g_hash_table_insert(work->bereft, g_strdup(node->id), g_strdup(detail));
    weft_work_wake(work);
}

void
weft_control_node_rebooted(WeftControl *control, const char *node_id, const char *boot)
{
    g_autoptr(WeftNode) node = weft_store_load_node(control->store, node_id, NULL, NULL);
    if (!node || control->closing)
        return;
    g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
    WeftWork *work = work_get(control, key);
    g_hash_table_insert(work->rebooted, g_strdup(node_id), g_strdup(boot));
    weft_work_wake(work);
}

void
weft_control_moves_changed(WeftControl *control, const char *cluster_id)
{
    g_autoptr(WeftRecord) record = weft_store_cluster_of_id(control->store, cluster_id, NULL);
    if (!record)
        return;
    WeftWork *work = work_get(control, record->key);
    work->wishes_stale = TRUE;
    weft_work_wake(work);
}

void
weft_control_rewire(WeftControl *control, const char *cluster_key)
{
    WeftWork *work = work_get(control, cluster_key);
    work->rewire = TRUE;
    weft_work_wake(work);
}

void
weft_control_preempt(WeftControl *control, const char *cluster_key, const char *why)
{
    WeftWork *work = work_get(control, cluster_key);
    work->preempt = why;
    weft_work_wake(work);
}

void
weft_control_pkey_taken(WeftControl *control, const char *cluster_key)
{
    WeftWork *work = work_get(control, cluster_key);
    work->pkey_taken = TRUE;
    weft_work_wake(work);
}

void
weft_control_reload(WeftControl *control, const char *cluster_key)
{
    WeftWork *work = g_hash_table_lookup(control->works, cluster_key);
    if (work && !work->committing) /* else its commit fails, and it is read again for that */
        weft_work_unload(work);
    weft_control_wake(control, cluster_key);
}

gboolean
weft_control_is_calling(const WeftControl *control, const WeftNode *node)
{
    g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
    const WeftWork *work = g_hash_table_lookup(control->works, key);
    return work && g_hash_table_contains(work->jobs, node->id);
}

gboolean
weft_control_is_working(WeftControl *control, const char *cluster_key)
{
    return g_hash_table_contains(control->works, cluster_key);
}

/* --- a step --- */

/* Only one that was ready knew the others. It may have told them meanwhile that it is another. */
static void
hear_of_reboots(WeftWork *work)
{
    GHashTableIter iter;
    gpointer id, boot;
    g_hash_table_iter_init(&iter, work->rebooted);
    while (g_hash_table_iter_next(&iter, &id, &boot)) {
        WeftNodeWork *item = weft_work_find(work, id);
        if (!item || item->node->phase != WEFT_NODE_READY || (boot && g_strcmp0(item->node->boot, boot) == 0))
            continue;
        weft_work_set_phase(work, item, WEFT_NODE_UP, "it rebooted, and has to meet the others again", NULL);
        item->node->met = 0;
        g_clear_pointer(&item->node->host_key, g_free);
    }
    g_hash_table_remove_all(work->rebooted);
}

/* What the world reports about a node that is not up any more anyway is of no interest. */
static WeftNodeWork *
find_up(const WeftWork *work, const char *id)
{
    WeftNodeWork *item = weft_work_find(work, id);
    return item && (item->node->phase == WEFT_NODE_UP || item->node->phase == WEFT_NODE_READY) ? item : NULL;
}

/* It would not get the device again: it is placed anew at once. */
static void
hear_of_bereft(WeftWork *work)
{
    GHashTableIter iter;
    gpointer id, detail;
    g_hash_table_iter_init(&iter, work->bereft);
    while (g_hash_table_iter_next(&iter, &id, &detail)) {
        WeftNodeWork *item = find_up(work, id);
        if (!item)
            continue;
        item->node->bereft = TRUE;
        weft_work_host_failed(work, item, "a device of its host was taken away from it", detail);
    }
    g_hash_table_remove_all(work->bereft);
}

/* weft.yaml gave its fabric a manager, who has to be told of the cluster, or took it away. */
static void
follow_manager(WeftWork *work)
{
    WeftClusterStatus *status = work->status;
    if (!status || !status->pkey)
        return;
    WeftFabricManagement management = weft_subnets_management(work->control->subnets, status->fabric);
    gboolean unmanaged = management == WEFT_FABRIC_UNMANAGED;
    if (management == WEFT_FABRIC_UNNAMED || status->unmanaged == unmanaged)
        return;
    status->unmanaged = unmanaged;
    work->rewire = work->status_dirty = TRUE;
}

static void
hear_reports(WeftWork *work)
{
    GHashTableIter iter;
    gpointer id, reason;
    hear_of_reboots(work);
    hear_of_bereft(work);
    g_hash_table_iter_init(&iter, work->gone);
    while (g_hash_table_iter_next(&iter, &id, &reason)) {
        WeftNodeWork *item = find_up(work, id);
        if (item)
            weft_work_set_phase(work, item, WEFT_NODE_FAILED, reason, NULL);
    }
    g_hash_table_remove_all(work->gone);
    follow_manager(work);
    if (work->rewire && work->status && work->status->generation == work->status->wired) {
        work->status->generation++;
        work->status_dirty = TRUE;
    }
    work->rewire = FALSE;
    /* Its partition goes, also when no node has to go any more. */
    if (work->cluster->deleted && work->status && work->status->pkey && work->status->phase != WEFT_CLUSTER_STOPPING) {
        work->status->generation++;
        work->status_dirty = TRUE;
    }
    if (work->pkey_taken && work->status && work->status->pkey && !work->cluster->deleted)
        weft_work_renumber(work);
    work->pkey_taken = FALSE;
}

static void
renew(char **placement)
{
    g_free(*placement);
    *placement = weft_id_new();
}

/* What runs there, or on the way there, has ended for good, whatever becomes of the node: it is another stay from now on.
 * Should this store ever be an older one, what the next stay started is not taken for this. */
static void
give_up_stay(WeftNodeWork *item)
{
    json_auto_t *json = weft_node_to_json(item->node);
    g_clear_pointer(&item->given_up, weft_node_free);
    item->given_up = weft_node_from_json(json, NULL);
    renew(&item->node->placement);
    if (item->node->target)
        renew(&item->node->target->placement);
}

/* Changes the node's phase as planned; TRUE when the partition's members change with it. */
static gboolean
mark(WeftWork *work, WeftNodeWork *item, WeftAction action)
{
    switch (action) {
    case WEFT_DO_RETIRE:
        weft_work_retire(work, item);
        return TRUE;
    case WEFT_DO_LOSE:
        weft_work_interrupt(work, item);
        give_up_stay(item);
        weft_work_set_phase(work, item, WEFT_NODE_LOST, "its host is lost", NULL);
        return TRUE;
    case WEFT_DO_RECOVER:
        weft_work_set_phase(work, item, WEFT_NODE_FAILED, "its host was lost and came back", NULL);
        return TRUE;
    case WEFT_DO_RETRY:
        give_up_stay(item);
        weft_work_set_phase(work, item, WEFT_NODE_CLAIMED, NULL, NULL);
        item->node->starts++;
        if (item->node->target)
            weft_work_unmove(work, item);
        return FALSE;
    default:
        g_assert_not_reached();
    }
}

static gboolean
is_mark(WeftAction action)
{
    return action >= WEFT_DO_RETIRE && action <= WEFT_DO_RETRY;
}

/* NULL: there is nothing to tell of it. */
static const char *
news_of(const WeftNode *node)
{
    if (node->phase == WEFT_NODE_LOST)
        return "node-lost";
    if (weft_node_has_rebooted(node))
        return "node-rebooted";
    return node->phase == WEFT_NODE_FAILED && node->reason ? "node-failed" : NULL;
}

static void
tell_marked(const WeftWork *work, WeftTxn *txn)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (!item->dirty)
            continue;
        weft_work_tell_cold(work, txn, item);
        if (item->before)
            weft_work_forget_move(work, txn, item->before);
        weft_work_tell_copied(work, txn, item);
        const char *type = news_of(item->node);
        if (type)
            weft_work_tell_event(work, txn, type, item->node, item->node->detail, ": %s", item->node->reason);
    }
}

/* Writes what is new of the nodes: what the steps brought, and what the plan changes. TRUE when a commit is under way. */
static gboolean
mark_nodes(WeftWork *work, const WeftPlan *plan)
{
    gboolean any = FALSE, members = FALSE;
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (is_mark(plan->actions[i]) && !(work->fatal && plan->actions[i] == WEFT_DO_RETRY))
            members |= mark(work, item, plan->actions[i]);
        any |= item->dirty;
    }
    if (!any)
        return FALSE;
    if (members && work->status) {
        work->status->generation++;
        work->status_dirty = TRUE;
    }
    WeftTxn *txn = weft_txn_new("nodes-marked");
    tell_marked(work, txn);
    weft_work_commit(work, txn);
    return TRUE;
}

static gboolean
release(WeftWork *work, const WeftPlan *plan)
{
    g_autoptr(WeftTxn) txn = weft_txn_new("nodes-released");
    gint64 now = weft_clock_now();
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (plan->actions[i] != WEFT_DO_RELEASE)
            continue;
        weft_txn_release_node(txn, item->node, item->revision, now);
        weft_work_forget_move(work, txn, item->node);
        item->leaving = TRUE;
    }
    if (weft_txn_is_empty(txn))
        return FALSE;
    weft_work_commit(work, g_steal_pointer(&txn));
    return TRUE;
}

/* The last transaction of a cluster: its nodes, its partition number, its quota and its name become free together. */
static void
finish(WeftWork *work)
{
    WeftTxn *txn = weft_txn_new("cluster-released");
    gint64 now = weft_clock_now();
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        weft_txn_release_node(txn, item->node, item->revision, now);
        weft_work_forget_move(work, txn, item->node);
        item->leaving = TRUE;
    }
    weft_work_end_clone(work, txn);
    if (work->status_revision)
        weft_txn_delete(txn, WEFT_KIND_CLUSTER_STATUS, work->key, work->status_revision);
    g_autofree char *partition = weft_partition_name(work->cluster->id);
    if (work->status && work->status->pkey)
        weft_txn_rest_pkey(txn, work->status->fabric, work->status->pkey, partition, work->cluster->tenant, now);
    weft_work_forget_frozen(work, txn);
    weft_txn_delete(txn, WEFT_KIND_CLUSTER, work->key, work->cluster_revision);
    weft_txn_end(txn, WEFT_THING_NETWORK, work->cluster->id);
    weft_txn_tell(txn, "cluster-deleted", work->cluster, NULL, "everything it held is free");
    work->finishing = TRUE;
    weft_work_commit(work, txn);
}

static void
run_step(WeftWork *work, WeftNodeWork *item, WeftAction action)
{
    switch (action) {
    case WEFT_DO_PREPARE:
        weft_work_prepare(work, item);
        break;
    case WEFT_DO_START:
        weft_work_start(work, item);
        break;
    case WEFT_DO_GREET:
        weft_work_greet(work, item);
        break;
    case WEFT_DO_MEET:
        weft_work_meet(work, item);
        break;
    case WEFT_DO_MOVE:
        weft_work_move(work, item);
        break;
    case WEFT_DO_RETURN:
        weft_work_return(work, item);
        break;
    case WEFT_DO_GO_ON:
        weft_work_let_go_on(work, item);
        break;
    case WEFT_DO_STOP:
        weft_work_stop(work, item);
        break;
    default:
        break;
    }
}

static void
run_steps(WeftWork *work, const WeftPlan *plan)
{
    guint steps = 0;
    gint64 end = 0;
    g_clear_pointer(&work->members, g_bytes_unref);
    for (guint i = 0; i < work->nodes->len; i++) {
        if (plan->actions[i] < WEFT_DO_PREPARE || (work->fatal && plan->actions[i] != WEFT_DO_STOP))
            continue;
        /* Preparing is only asking, and makes no node busy: counted, the first that wait for their image would be all. */
        if (steps == 0)
            end = weft_clock_thread() + STEPS_TIME;
        if (plan->actions[i] != WEFT_DO_PREPARE && (++steps > STEPS_AT_ONCE || weft_clock_thread() > end)) {
            weft_work_wake(work);
            return;
        }
        run_step(work, work->nodes->pdata[i], plan->actions[i]);
    }
}

/* Wakes it when the first of what rests may go on. */
static void
rest_until_first(WeftWork *work)
{
    gint64 first = G_MAXINT64;
    gint64 times[] = { work->wire.not_before, work->place.not_before };
    for (guint i = 0; i < G_N_ELEMENTS(times); i++)
        if (times[i] > work->now)
            first = MIN(first, times[i]);
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        gint64 rests[] = { item->rest.not_before, item->leave.not_before };
        for (guint r = 0; r < G_N_ELEMENTS(rests); r++)
            if (rests[r] > work->now)
                first = MIN(first, rests[r]);
    }
    if (first < G_MAXINT64)
        weft_work_wake_at(work, first);
}

static gboolean
is_idle(const WeftWork *work)
{
    return !work->committing && !work->wiring && !work->awake && g_hash_table_size(work->jobs) == 0 &&
           !weft_work_is_connecting(work);
}

static void
forget(WeftWork *work)
{
    g_hash_table_remove(work->control->works, work->key);
}

/* What the fabric has of it must stay as it is now. */
static void
put_away(WeftWork *work)
{
    const WeftClusterStatus *status = work->status;
    if (status->pkey && status->wired == status->generation)
        weft_subnets_expect(work->control->subnets, status->fabric, weft_work_partition(work));
    forget(work);
}

/* Nothing more to do now: what the user sees must be what is so, and a settled cluster leaves the memory once its hosts are
 * known to have its network. */
static void
settle(WeftWork *work)
{
    if (weft_work_update_status(work) || weft_work_has_news(work)) {
        WeftTxn *txn = weft_txn_new("cluster-progressed");
        weft_work_commit(work, txn);
        return;
    }
    gboolean rests = weft_cluster_phase_is_settled(work->status->phase) && (work->connected || work->fatal);
    if (is_idle(work) && !work->timer && rests)
        put_away(work);
}

/* Put aside where it can be, it goes on later; else it begins anew. TRUE: a commit is under way. */
static gboolean
leave(WeftWork *work)
{
    const char *why;
    if (weft_work_freeze_away(work, &why))
        return work->committing;
    WeftTxn *txn = weft_txn_new("cluster-preempted");
    if (why)
        weft_txn_tell(txn, "cluster-not-frozen", work->cluster, NULL,
                      "it begins anew when it comes back, and is not put aside: %s", why);
    weft_work_retire_all(work, txn, work->preempt, TRUE);
    return TRUE;
}

/* One that does not give way, or has nothing to give, is left alone. */
static gboolean
give_way(WeftWork *work)
{
    gboolean holds = FALSE, asked = work->preempt && work->cluster->preemptible && !work->cluster->deleted;
    for (guint i = 0; i < work->nodes->len; i++)
        holds |= ((const WeftNodeWork *)work->nodes->pdata[i])->node->phase != WEFT_NODE_STOPPING;
    if (asked && holds)
        return leave(work);
    if (asked)
        weft_work_revoke(work);
    work->preempt = NULL;
    return FALSE;
}

/* A clone has no places before what it begins with is there. */
static gboolean
is_held(WeftWork *work)
{
    return work->nodes->len == 0 && !work->fatal && !work->cluster->deleted && weft_work_is_cloning(work) &&
           !weft_work_clone(work) && !work->fatal;
}

static void
act(WeftWork *work, const WeftPlan *plan)
{
    /* A node that is held may be one of an older store's cluster: that is not at its end before an operator has removed it.
     * What is held no longer wakes its cluster. */
    if (plan->finish && !weft_hosts_hold_cluster(work->control->hosts, work->cluster->id)) {
        finish(work);
        return;
    }
    if (is_held(work)) {
        if (!work->committing)
            settle(work);
        return;
    }
    if (work->committing)
        return;
    if (work->fatal) {
        weft_turns_withdraw(work->control->turns, work);
        weft_work_revoke(work);
    }
    if (weft_work_end_moves(work) || weft_work_thaw(work, plan) || mark_nodes(work, plan) ||
        (!work->fatal && weft_work_place(work, plan)) || release(work, plan) || weft_work_leave(work, plan))
        return;
    /* Only what is recorded: a generation that the store does not know of could be given again to other members. */
    if (!weft_work_may_wire(work)) {
        weft_hosts_await_free(work->control->hosts, work->key);
    } else {
        if (plan->wire && !work->status_dirty)
            weft_work_wire(work);
        weft_work_connect(work);
    }
    run_steps(work, plan);
    rest_until_first(work);
    /* Most find their places at once: then nobody needs to be told that they waited. */
    if (work->nodes->len > 0 || !weft_turns_is_fresh(work->control->turns, work))
        settle(work);
}

void
weft_work_step(WeftWork *work)
{
    work->awake = FALSE;
    work->derived = 0;
    work->now = g_get_monotonic_time();
    if (work->committing)
        return; /* its end wakes us */
    if (work->write_not_before > work->now) {
        weft_work_wake_at(work, work->write_not_before);
        return;
    }
    switch (weft_work_refresh(work)) {
    case WEFT_WORK_GONE:
        if (is_idle(work))
            forget(work);
        return;
    case WEFT_WORK_READ:
    case WEFT_WORK_LATER:
        return;
    case WEFT_WORK_LOADED:
        break;
    }
    if (work->wishes_stale)
        weft_work_read_wishes(work);
    weft_work_hear_drains(work);
    hear_reports(work);
    if (weft_work_freeze(work) || give_way(work))
        return;
    g_autofree WeftNodeView *views = NULL;
    WeftPlanInput input = weft_work_input(work, &views);
    g_auto(WeftPlan) plan = { 0 };
    weft_plan(&input, &plan);
    weft_work_note(work);
    act(work, &plan);
}
