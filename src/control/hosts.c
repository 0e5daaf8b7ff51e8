#include "hosts.h"

#include "clock.h"
#include "turns.h"
#include "watchdog.h"

#define TICK_MILLISECONDS 50

WeftWatch *
weft_hosts_find(const WeftHosts *hosts, const char *name)
{
    return g_hash_table_lookup(hosts->by_name, name);
}

WeftSeen
weft_hosts_seen(const WeftHosts *hosts, const char *name)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    if (!host || host->state == WEFT_HOST_LOST)
        return weft_hosts_may_give_up(hosts) ? WEFT_SEEN_LOST : WEFT_SEEN_HELD;
    if (!host->known || weft_watch_is_held(host))
        return WEFT_SEEN_HELD;
    if (!host->answered)
        return WEFT_SEEN_SILENT;
    return host->evicting ? WEFT_SEEN_EVICTING : WEFT_SEEN_UP;
}

gboolean
weft_hosts_is_moving(const WeftHosts *hosts, const char *name, gboolean *ret_disrupt)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    if (ret_disrupt)
        *ret_disrupt = host && host->disrupting;
    return host && host->moving;
}

gint64
weft_hosts_revision(const WeftHosts *hosts, const char *name)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    return host ? host->revision : -1;
}

gboolean
weft_hosts_are_heard(const WeftHosts *hosts)
{
    return hosts->unheard == 0;
}

void
weft_watch_heard(WeftWatch *host)
{
    if (host->heard)
        return;
    host->heard = TRUE;
    if (--host->control->hosts->unheard == 0)
        weft_turns_begin(host->control->turns);
}

/* It takes nodes, but for what may be over in a moment. */
static gboolean
is_willing(const WeftWatch *host)
{
    return host->described && host->inventory && host->state == WEFT_HOST_UP && !host->draining && !host->evicting &&
           !host->removed;
}

gboolean
weft_hosts_may_open(const WeftHosts *hosts, const char *fabric)
{
    for (guint i = 0; i < hosts->round->len; i++) {
        const WeftWatch *host = hosts->round->pdata[i];
        if (is_willing(host) && !host->open && !host->unsure &&
            g_str_equal(weft_fleet_host(hosts->control->fleet, host->name)->fabric, fabric))
            return TRUE;
    }
    return FALSE;
}

void
weft_watch_update_open(WeftWatch *host)
{
    gboolean open = is_willing(host) && host->answered && host->clean;
    weft_fleet_set_open(host->control->fleet, host->name, open);
    if (host->open && !open)
        weft_turns_doubt(host->control->turns);
    host->open = open;
}

/* --- its nodes --- */

/* Whose target it is. */
static void
add_coming(const WeftWatch *host, GPtrArray *nodes, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_MOVE, .place = host->name };
    g_autoptr(GPtrArray) records = weft_store_list(host->control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftMoveWish) wish = weft_record_move(records->pdata[i], error);
        if (!wish)
            return;
        g_autoptr(WeftNode) node = weft_store_load_node(host->control->store, wish->node, NULL, NULL);
        if (node && node->target && g_str_equal(node->target->host, host->name))
            g_ptr_array_add(nodes, g_steal_pointer(&node));
    }
}

GPtrArray *
weft_watch_nodes(const WeftWatch *host)
{
    g_autoptr(GError) error = NULL;
    WeftQuery query = { .kind = WEFT_KIND_NODE, .place = host->name };
    g_autoptr(GPtrArray) records = weft_store_list(host->control->store, &query, &error);
    g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    for (guint i = 0; records && i < records->len; i++) {
        WeftNode *node = weft_record_node(records->pdata[i], &error);
        if (!node)
            break;
        g_ptr_array_add(nodes, node);
    }
    if (!error)
        add_coming(host, nodes, &error);
    if (!error)
        return g_steal_pointer(&nodes);
    g_warning("host %s: its nodes cannot be read: %s", host->name, error->message);
    return NULL;
}

void
weft_hosts_recount(WeftHosts *hosts, const char *name)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    g_autoptr(GPtrArray) nodes = host ? weft_watch_nodes(host) : NULL;
    if (!nodes)
        return;
    weft_fleet_empty(hosts->control->fleet, name);
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        g_autoptr(WeftNode) there = g_str_equal(node->host, name) ? NULL : weft_node_moved(node);
        weft_fleet_take(hosts->control->fleet, there ? there : node);
    }
    weft_templates_recount(hosts->control->templates, name);
    weft_turns_doubt(hosts->control->turns);
}

void
weft_watch_wake_clusters(const WeftWatch *host, const GPtrArray *nodes, gboolean ready_too)
{
    for (guint i = 0; nodes && i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (!ready_too && node->phase == WEFT_NODE_READY && !node->target && !node->still)
            continue;
        g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
        weft_control_wake(host->control, key);
    }
}

WeftJob *
weft_watch_job(const WeftWatch *host, WeftStepType step, const char *text, gint64 deadline, WeftJobDone done)
{
    WeftControl *control = host->control;
    WeftJob *job = weft_job_new(step, host->name, weft_fleet_host(control->fleet, host->name)->uri, text);
    job->deadline = deadline;
    job->owner = control;
    job->done = done;
    return job;
}

/* --- states --- */

static void
put_status(WeftWatch *host, WeftTxn *txn, const char *reason)
{
    g_autofree gpointer *devices = g_hash_table_get_keys_as_array(host->quarantine, NULL);
    g_autofree char *quarantine = g_strjoinv(" ", (char **)devices);
    char *written = g_strdup(reason); /* it may be the one that is kept */
    g_free(host->reason);
    host->reason = written;
    WeftHostStatus status = { host->name, host->state, host->since, host->reason, *quarantine ? quarantine : NULL };
    weft_txn_put_host_status(txn, &status, WEFT_ANY);
    /* A status must not outlive its host: whoever removes that removes both. */
    weft_txn_expect(txn, WEFT_KIND_HOST, host->name, host->revision);
}

typedef struct Written {
    WeftControl *control;
    char *host;
} Written;

static void
status_written(gint64 revision, const GError *error, gpointer data)
{
    g_autofree Written *written = data;
    g_autofree char *name = written->host;
    if (!error)
        return;
    g_warning("host %s: its state cannot be written, the next look tries again: %s", name, error->message);
    WeftWatch *host = weft_hosts_find(written->control->hosts, name);
    if (host)
        host->unwritten = TRUE;
}

static void
commit_status(WeftWatch *host, WeftTxn *txn)
{
    Written written = { host->control, g_strdup(host->name) };
    host->unwritten = FALSE;
    weft_control_commit(host->control, txn, status_written, g_memdup2(&written, sizeof written));
}

void
weft_watch_tell_state(WeftWatch *host, const char *reason, const char *event)
{
    WeftTxn *txn = weft_txn_new("host-state-told");
    put_status(host, txn, reason);
    if (event)
        weft_txn_tell(txn, event, NULL, host->name, "host %s takes no nodes: %s", host->name, reason);
    commit_status(host, txn);
}

/* What was not written was told to nobody: the host is asked again, and what has changed since then is told. */
static void
quarantine_written(gint64 revision, const GError *error, gpointer data)
{
    const Written *written = data;
    WeftWatch *host = weft_hosts_find(written->control->hosts, written->host);
    if (host && error && host->told_before) {
        g_hash_table_unref(host->quarantine);
        host->quarantine = g_steal_pointer(&host->told_before);
        host->inspect = TRUE;
        weft_watch_recheck(host, weft_backoff_delay(&host->control->options.backoff, 1));
    } else if (host) {
        g_clear_pointer(&host->told_before, g_hash_table_unref);
    }
    status_written(revision, error, data);
}

void
weft_watch_commit_quarantine(WeftWatch *host, WeftTxn *txn, GHashTable *told)
{
    g_autofree char *trouble = weft_watch_trouble_text(host);
    Written written = { host->control, g_strdup(host->name) };
    host->told_before = host->quarantine;
    host->quarantine = told;
    put_status(host, txn, host->state == WEFT_HOST_UP ? trouble : host->reason);
    weft_control_commit(host->control, txn, quarantine_written, g_memdup2(&written, sizeof written));
}

static void
set_state(WeftWatch *host, WeftHostState state)
{
    if (host->state != state)
        host->since = weft_clock_now();
    host->state = state;
}

void
weft_watch_set_held(WeftWatch *host, const char *reason)
{
    set_state(host, WEFT_HOST_HELD);
    WeftTxn *txn = weft_txn_new("host-held");
    put_status(host, txn, reason);
    weft_txn_tell(txn, "host-held", NULL, host->name, "host %s is left as it is: %s", host->name, reason);
    commit_status(host, txn);
}

static void
set_up(WeftWatch *host)
{
    gboolean was_lost = host->state == WEFT_HOST_LOST, was_held = host->state == WEFT_HOST_HELD;
    g_autofree char *trouble = weft_watch_trouble_text(host);
    set_state(host, WEFT_HOST_UP);
    WeftTxn *txn = weft_txn_new("host-up");
    put_status(host, txn, trouble);
    if (was_lost)
        weft_txn_tell(txn, "host-returned", NULL, host->name, "host %s is back, and clean", host->name);
    if (was_held)
        weft_txn_tell(txn, "host-freed", NULL, host->name, "host %s is held no longer", host->name);
    commit_status(host, txn);
}

static void
set_lost(WeftWatch *host, const char *reason)
{
    set_state(host, WEFT_HOST_LOST);
    weft_watch_forgive_lost(host);
    weft_watch_forgive_held(host);
    weft_watch_forget(host);
    weft_watch_pin_clusters(host, NULL);
    WeftTxn *txn = weft_txn_new("host-lost");
    put_status(host, txn, reason);
    weft_txn_tell(txn, "host-lost", NULL, host->name, "lost, its nodes are %s: %s",
                  weft_hosts_may_give_up(host->control->hosts) ? "replaced"
                                                               : "kept until it is known which weftd owns the hosts",
                  reason);
    commit_status(host, txn);
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    weft_watch_wake_clusters(host, nodes, TRUE);
}

/* Nodes there are left as they are, and it can be asked; nothing else. */
static void
host_held(WeftWatch *host, const GPtrArray *nodes)
{
    weft_watch_pin_clusters(host, nodes);
    host->inspect |= !host->answered;
    host->answered = TRUE;
    host->clean = FALSE;
    weft_watch_update_open(host);
    weft_watch_heard(host);
    weft_watch_inspect(host);
}

/* Meanwhile it was told that it does not answer. */
static void
tell_held_again(WeftWatch *host, const GPtrArray *nodes)
{
    const char *remedy;
    g_autofree char *reason = weft_hosts_held(host->control->hosts, host->name, &remedy);
    weft_watch_tell_state(host, reason, NULL);
    weft_watch_wake_clusters(host, nodes, TRUE);
}

static void
host_answered(WeftWatch *host, const WeftJob *look)
{
    gboolean clean;
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    if (!nodes)
        return;
    gboolean doubted = weft_watch_end_silence(host);
    g_clear_handle_id(&host->recheck, g_source_remove);
    weft_watch_learn(host, look->contents, nodes);
    gboolean again = weft_watch_act(host, look, nodes, &clean);
    if (!host->known)
        weft_hosts_wake_waiting(host->control->hosts);
    host->known = TRUE;
    weft_watch_looked_at(host);
    if (weft_watch_is_held(host)) {
        host_held(host, nodes);
        if (doubted)
            tell_held_again(host, nodes);
        if (again)
            weft_hosts_hint(host->control->hosts, host->name);
        return;
    }
    if (host->state != WEFT_HOST_UP && !clean)
        return; /* fenced until they are gone; the end of their removal looks again */
    weft_watch_pin_clusters(host, NULL);
    gboolean spoke = !host->answered, returned = spoke || doubted || (clean && !host->clean);
    gboolean freed = host->state == WEFT_HOST_HELD; /* what its clusters wanted to change there has waited */
    host->answered = TRUE;
    host->clean = clean;
    host->inspect |= spoke;
    if (host->state != WEFT_HOST_UP || host->unwritten || doubted)
        set_up(host);
    weft_watch_update_open(host);
    weft_watch_inspect(host);
    weft_watch_ask_guests(host, nodes);
    if (returned) {
        weft_watch_wake_clusters(host, nodes, host->evicting || host->moving || spoke || doubted || freed);
        weft_control_room_changed(host->control);
    }
    if (again)
        weft_hosts_hint(host->control->hosts, host->name);
}

static gboolean
recheck(gpointer data)
{
    WeftWatch *host = data;
    host->recheck = 0;
    weft_hosts_hint(host->control->hosts, host->name);
    return G_SOURCE_REMOVE;
}

void
weft_watch_recheck(WeftWatch *host, gint64 delay)
{
    if (!host->recheck)
        host->recheck = g_timeout_add((guint)MAX(delay / 1000, 10), recheck, host);
}

/* What runs there is not known, and is left as it is: an operator may give it up. */
static void
host_barred(WeftWatch *host)
{
    if (!host->unwritten && g_strcmp0(host->excuse, host->barred) == 0)
        return;
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    g_free(host->excuse);
    host->excuse = g_strdup(host->barred);
    weft_watch_set_held(host, host->barred);
    weft_watch_wake_clusters(host, nodes, TRUE);
}

static void
host_silent(WeftWatch *host, const char *reason)
{
    host->answered = FALSE;
    host->granted = FALSE; /* whoever rebooted or repaired it may have given it to another */
    weft_watch_update_open(host);
    weft_watch_heard(host);
    weft_watch_looked_at(host);
    if (host->barred && !host->evicting && host->state != WEFT_HOST_LOST) {
        host_barred(host);
        return;
    }
    weft_watch_look_failed(host, reason);
    if (host->state == WEFT_HOST_LOST && !host->unwritten)
        return;
    if (weft_watch_is_lost(host))
        set_lost(host, reason);
    else
        weft_watch_recheck(host, host->control->options.host_grace / 4);
}

/* --- looking --- */

static void
scanned(WeftJob *job, const GError *error)
{
    WeftControl *control = job->owner;
    WeftHosts *hosts = control->hosts;
    WeftWatch *host = weft_hosts_find(hosts, job->host);
    hosts->flying--;
    hosts->flying_doubted -= host->doubted;
    host->scanning = host->doubted = FALSE;
    g_clear_handle_id(&host->late, g_source_remove);
    if (host->removed)
        weft_hosts_end_removal(hosts, host);
    else if (error)
        host_silent(host, error->message);
    else {
        weft_watch_claimed(host, job);
        host_answered(host, job);
    }
    weft_hosts_launch(hosts);
}

static void
scan(WeftHosts *hosts, WeftWatch *host)
{
    WeftControl *control = hosts->control;
    WeftJob *job = weft_watch_job(host, WEFT_STEP_LIST, NULL, control->options.list_deadline, scanned);
    job->ponder = weft_watch_ponder;
    weft_watch_claim(host, job);
    host->scanning = TRUE;
    weft_watch_look_begins(host);
    hosts->flying++;
    weft_jobs_submit(control->jobs, job);
}

/* While *flying is below most. */
static void
launch_from(WeftHosts *hosts, GQueue *queue, const guint *flying, guint most)
{
    for (guint n = g_queue_get_length(queue); n && *flying < most; n--) {
        WeftWatch *host = g_queue_pop_head(queue);
        if (host->scanning) {
            g_queue_push_tail(queue, host); /* again, once this look has ended */
            continue;
        }
        host->queued = FALSE;
        host->doubted = queue == &hosts->doubtful;
        hosts->flying_doubted += host->doubted;
        scan(hosts, host);
    }
}

/* As many as there are workers for looks, and half of them for hosts that may not answer. */
void
weft_hosts_launch(WeftHosts *hosts)
{
    guint most = MAX(hosts->control->options.workers / 2, 1);
    launch_from(hosts, &hosts->doubtful, &hosts->flying_doubted, MAX(most / 2, 1));
    launch_from(hosts, &hosts->urgent, &hosts->flying, most);
}

void
weft_hosts_enqueue(WeftHosts *hosts, WeftWatch *host)
{
    if (!host->queued && !host->removed) {
        g_queue_push_tail(host->silent_since ? &hosts->doubtful : &hosts->urgent, host);
        host->queued = TRUE;
    }
}

void
weft_hosts_dequeue(WeftHosts *hosts, WeftWatch *host)
{
    g_queue_remove(&hosts->urgent, host);
    g_queue_remove(&hosts->doubtful, host);
    host->queued = FALSE;
}

void
weft_hosts_hint(WeftHosts *hosts, const char *name)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (!host || hosts->control->closing)
        return;
    weft_hosts_enqueue(hosts, host);
    weft_hosts_launch(hosts);
}

/* Every host once in each interval, a few at some ticks: what is less than one host's turn is kept for the next. */
static gboolean
tick(gpointer data)
{
    WeftHosts *hosts = data;
    guint64 interval = MAX((guint64)hosts->control->options.scan_interval / 1000, TICK_MILLISECONDS);
    weft_watchdog_mark("beginning looks at hosts", NULL);
    hosts->due += (guint64)hosts->round->len * TICK_MILLISECONDS;
    for (; hosts->due >= interval && hosts->round->len && !hosts->control->closing; hosts->due -= interval) {
        hosts->next = (hosts->next + 1) % hosts->round->len;
        weft_hosts_enqueue(hosts, hosts->round->pdata[hosts->next]);
    }
    if (!hosts->control->closing)
        weft_hosts_launch(hosts);
    return G_SOURCE_CONTINUE;
}

/* --- life --- */

WeftHosts *
weft_hosts_new(WeftControl *control, GError **error)
{
    WeftHosts *hosts = g_new0(WeftHosts, 1);
    hosts->control = control;
    hosts->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, weft_watch_free);
    hosts->no_rdma = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    hosts->waiting = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    hosts->held = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    hosts->round = g_ptr_array_new();
    if (!weft_hosts_load(hosts, error)) {
        weft_hosts_free(hosts);
        return NULL;
    }
    hosts->timer = g_timeout_add(TICK_MILLISECONDS, tick, hosts);
    return hosts;
}

void
weft_hosts_free(WeftHosts *hosts)
{
    if (!hosts)
        return;
    g_clear_handle_id(&hosts->timer, g_source_remove);
    g_queue_clear(&hosts->urgent);
    g_queue_clear(&hosts->doubtful);
    g_ptr_array_unref(hosts->round);
    g_hash_table_unref(hosts->by_name);
    g_hash_table_unref(hosts->no_rdma);
    g_hash_table_unref(hosts->waiting);
    g_hash_table_unref(hosts->held);
    g_free(hosts);
}
