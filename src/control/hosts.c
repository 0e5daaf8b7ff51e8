#include "clock.h"
#include "control-private.h"
#include "errors.h"
#include "look.h"

#define TICK_MILLISECONDS 50

/* A host as the reconciler watches it. */
typedef struct Host {
    WeftControl *control;
    char *name;
    gint64 revision; /* of its description */
    gboolean draining;
    gboolean evicting;
    WeftHostState state; /* as its status record says */
    gboolean unwritten;  /* … or should say: it could not be written */
    gboolean answered;   /* the last look was answered */
    gboolean clean;      /* … and nothing stale was there */
    gboolean queued;     /* to be looked at soon */
    gboolean scanning;
    gboolean doubted;     /* … as one that did not answer the last time */
    gboolean removed;     /* its description went; what runs there still has to end */
    guint stopping;       /* stale domains that are being destroyed */
    gint64 silent_since;  /* monotonic; 0: it answers */
    guint recheck;        /* timer while it is silent */
    GHashTable *suspects; /* what looked wrong the last time: a second look decides */
    GHashTable *reported; /* domains there that are not weft's, told already */
} Host;

struct WeftHosts {
    WeftControl *control;
    GHashTable *by_name; /* Host */
    GQueue urgent;       /* Host: to be looked at as soon as a worker is free */
    GQueue doubtful;     /* … that did not answer the last time: they may take long, and others must not wait for them */
    GPtrArray *round;    /* Host, borrowed: looked at in turn */
    guint next;          /* in the round */
    guint flying;        /* looks under way */
    guint flying_doubted;
    guint timer;
};

static void launch(WeftHosts *hosts);

static void
host_free(gpointer data)
{
    Host *host = data;
    g_clear_handle_id(&host->recheck, g_source_remove);
    g_hash_table_unref(host->suspects);
    g_hash_table_unref(host->reported);
    g_free(host->name);
    g_free(host);
}

static Host *
find(const WeftHosts *hosts, const char *name)
{
    return g_hash_table_lookup(hosts->by_name, name);
}

WeftSeen
weft_hosts_seen(const WeftHosts *hosts, const char *name)
{
    const Host *host = find(hosts, name);
    if (!host || host->state == WEFT_HOST_LOST)
        return WEFT_SEEN_LOST;
    if (!host->answered)
        return WEFT_SEEN_SILENT;
    return host->evicting ? WEFT_SEEN_EVICTING : WEFT_SEEN_UP;
}

gint64
weft_hosts_revision(const WeftHosts *hosts, const char *name)
{
    const Host *host = find(hosts, name);
    return host ? host->revision : -1;
}

static void
update_open(const Host *host)
{
    weft_fleet_set_open(host->control->fleet, host->name,
                        host->answered && host->clean && host->state == WEFT_HOST_UP && !host->draining && !host->evicting &&
                            !host->removed);
}

/* --- states --- */

static GPtrArray *
nodes_on(const Host *host)
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
        return g_steal_pointer(&nodes);
    g_warning("host %s: its nodes cannot be read: %s", host->name, error->message);
    return NULL;
}

void
weft_hosts_recount(WeftHosts *hosts, const char *name)
{
    const Host *host = find(hosts, name);
    g_autoptr(GPtrArray) nodes = host ? nodes_on(host) : NULL;
    if (!nodes)
        return;
    weft_fleet_empty(hosts->control->fleet, name);
    for (guint i = 0; i < nodes->len; i++)
        weft_fleet_take(hosts->control->fleet, nodes->pdata[i]);
}

static void
wake_clusters(const Host *host, const GPtrArray *nodes, gboolean ready_too)
{
    for (guint i = 0; nodes && i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (!ready_too && node->phase == WEFT_NODE_READY)
            continue;
        g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
        weft_control_wake(host->control, key);
    }
}

static void
put_status(const Host *host, WeftTxn *txn, const char *reason)
{
    WeftHostStatus status = { host->name, host->state, weft_clock_now(), (char *)reason };
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
    Host *host = find(written->control->hosts, name);
    if (host)
        host->unwritten = TRUE;
}

static void
commit_status(Host *host, WeftTxn *txn)
{
    Written written = { host->control, g_strdup(host->name) };
    host->unwritten = FALSE;
    weft_control_commit(host->control, txn, status_written, g_memdup2(&written, sizeof written));
}

static void
set_up(Host *host)
{
    gboolean was_lost = host->state == WEFT_HOST_LOST;
    host->state = WEFT_HOST_UP;
    WeftTxn *txn = weft_txn_new("host-up");
    put_status(host, txn, NULL);
    if (was_lost)
        weft_txn_tell(txn, "host-returned", NULL, host->name, "host %s is back, and clean", host->name);
    commit_status(host, txn);
}

static void
set_lost(Host *host, const char *reason)
{
    host->state = WEFT_HOST_LOST;
    WeftTxn *txn = weft_txn_new("host-lost");
    put_status(host, txn, reason);
    weft_txn_tell(txn, "host-lost", NULL, host->name, "host %s is lost, its nodes are replaced: %s", host->name, reason);
    commit_status(host, txn);
    g_autoptr(GPtrArray) nodes = nodes_on(host);
    wake_clusters(host, nodes, TRUE);
}

/* --- what a look found --- */

static void end_removal(WeftHosts *hosts, Host *host);

static void
stale_stopped(const WeftJob *job, WeftContents *contents, const GError *error)
{
    WeftControl *control = job->owner;
    Host *host = find(control->hosts, job->host);
    host->stopping--;
    if (host->removed)
        end_removal(control->hosts, host);
    else if (!error)
        weft_hosts_hint(control->hosts, job->host);
    if (error) {
        g_warning("host %s: domain %s that no node explains was not removed: %s", job->host, job->text, error->message);
        return;
    }
    WeftTxn *txn = weft_txn_new("domain-garbage-removed");
    weft_txn_tell(txn, "garbage-removed", NULL, job->host, "host %s: domain %s that no node explains was removed", job->host,
                  job->text);
    weft_control_commit_quietly(control, txn);
}

static void
destroy_stale(Host *host, const char *domain)
{
    WeftControl *control = host->control;
    WeftJob *job = weft_job_new(WEFT_STEP_STOP, host->name, weft_fleet_host(control->fleet, host->name)->uri, domain);
    job->deadline = control->options.stop_deadline;
    job->owner = control;
    job->done = stale_stopped;
    host->stopping++;
    weft_jobs_submit(control->jobs, job);
}

/* Tells each once, and remembers those that are still there. */
static void
report_foreign(Host *host, const GPtrArray *domains)
{
    GHashTable *seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < domains->len; i++) {
        const char *domain = domains->pdata[i];
        g_hash_table_add(seen, g_strdup(domain));
        if (g_hash_table_contains(host->reported, domain))
            continue;
        WeftTxn *txn = weft_txn_new("domain-foreign-seen");
        weft_txn_tell(txn, "foreign-domain", NULL, host->name,
                      "host %s: domain %s is not weft's and uses resources there; it is left alone", host->name, domain);
        weft_control_commit_quietly(host->control, txn);
    }
    g_hash_table_unref(host->reported);
    host->reported = seen;
}

/* The first time it only becomes a suspect: what was looked at may have changed since the look began. */
static gboolean
is_confirmed(const Host *host, GHashTable *suspects, const char *name)
{
    g_hash_table_add(suspects, g_strdup(name));
    return g_hash_table_contains(host->suspects, name);
}

/* On a host that does not take nodes yet nothing can have been started meanwhile: there one look is enough. */
static void
destroy_confirmed(Host *host, const GPtrArray *domains, GHashTable *suspects)
{
    for (guint i = 0; i < domains->len; i++)
        if (is_confirmed(host, suspects, domains->pdata[i]) || host->state != WEFT_HOST_UP)
            destroy_stale(host, domains->pdata[i]);
}

static void
report_gone(const Host *host, const GPtrArray *nodes, GHashTable *suspects)
{
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (!is_confirmed(host, suspects, node->id))
            continue;
        weft_control_node_gone(host->control, node, "its domain ended by itself");
        g_hash_table_remove(suspects, node->id); /* once it is started anew, one early look must not be enough */
    }
}

static gboolean
has_new(GHashTable *suspects, GHashTable *before)
{
    GHashTableIter iter;
    gpointer name;
    g_hash_table_iter_init(&iter, suspects);
    while (g_hash_table_iter_next(&iter, &name, NULL))
        if (!g_hash_table_contains(before, name))
            return TRUE;
    return FALSE;
}

/* Returns whether a second look is wanted; clean: nothing stale is there. */
static gboolean
act_on_look(Host *host, const GPtrArray *domains, const GPtrArray *nodes, gboolean *ret_clean)
{
    g_auto(WeftLook) look = { 0 };
    g_autoptr(GHashTable) suspects = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    weft_look(domains, nodes, &look);
    *ret_clean = look.stale->len == 0 && host->stopping == 0;
    if (host->stopping == 0)
        destroy_confirmed(host, look.stale, suspects);
    report_foreign(host, look.foreign);
    report_gone(host, look.gone, suspects);
    gboolean again = has_new(suspects, host->suspects);
    g_hash_table_unref(host->suspects);
    host->suspects = g_steal_pointer(&suspects);
    return again;
}

static void
host_answered(Host *host, const GPtrArray *domains)
{
    gboolean clean;
    g_autoptr(GPtrArray) nodes = nodes_on(host);
    if (!nodes)
        return;
    host->silent_since = 0;
    g_clear_handle_id(&host->recheck, g_source_remove);
    gboolean again = act_on_look(host, domains, nodes, &clean);
    if (host->state != WEFT_HOST_UP && !clean)
        return; /* fenced until they are gone; the end of their stops looks again */
    gboolean returned = !host->answered || (clean && !host->clean);
    host->answered = TRUE;
    host->clean = clean;
    if (host->state != WEFT_HOST_UP || host->unwritten)
        set_up(host);
    update_open(host);
    if (returned) {
        wake_clusters(host, nodes, host->evicting);
        weft_control_room_made(host->control);
    }
    if (again)
        weft_hosts_hint(host->control->hosts, host->name);
}

static gboolean
recheck(gpointer data)
{
    Host *host = data;
    host->recheck = 0;
    weft_hosts_hint(host->control->hosts, host->name);
    return G_SOURCE_REMOVE;
}

static void
host_silent(Host *host, const char *reason)
{
    gint64 now = g_get_monotonic_time(), grace = host->control->options.host_grace;
    host->answered = FALSE;
    update_open(host);
    if (!host->silent_since)
        host->silent_since = now;
    if (host->state == WEFT_HOST_LOST && !host->unwritten)
        return;
    if (host->state == WEFT_HOST_LOST || now - host->silent_since >= grace)
        set_lost(host, reason);
    else if (!host->recheck)
        host->recheck = g_timeout_add((guint)MAX(grace / 4000, 10), recheck, host);
}

/* --- looking --- */

static void
scanned(const WeftJob *job, WeftContents *contents, const GError *error)
{
    WeftControl *control = job->owner;
    WeftHosts *hosts = control->hosts;
    Host *host = find(hosts, job->host);
    hosts->flying--;
    hosts->flying_doubted -= host->doubted;
    host->scanning = host->doubted = FALSE;
    if (host->removed)
        end_removal(hosts, host);
    else if (error)
        host_silent(host, error->message);
    else
        host_answered(host, contents->domains);
    launch(hosts);
}

static void
scan(WeftHosts *hosts, Host *host)
{
    WeftControl *control = hosts->control;
    WeftJob *job = weft_job_new(WEFT_STEP_LIST, host->name, weft_fleet_host(control->fleet, host->name)->uri, NULL);
    job->deadline = control->options.list_deadline;
    job->owner = control;
    job->done = scanned;
    host->scanning = TRUE;
    hosts->flying++;
    weft_jobs_submit(control->jobs, job);
}

/* While *flying is below most. */
static void
launch_from(WeftHosts *hosts, GQueue *queue, const guint *flying, guint most)
{
    for (guint n = g_queue_get_length(queue); n && *flying < most; n--) {
        Host *host = g_queue_pop_head(queue);
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

/* Half of the workers, and a quarter for hosts that may not answer: looking must not hold up doing. */
static void
launch(WeftHosts *hosts)
{
    guint most = MAX(hosts->control->options.workers / 2, 1);
    launch_from(hosts, &hosts->doubtful, &hosts->flying_doubted, MAX(most / 2, 1));
    launch_from(hosts, &hosts->urgent, &hosts->flying, most);
}

static void
enqueue(WeftHosts *hosts, Host *host)
{
    if (!host->queued && !host->removed) {
        g_queue_push_tail(host->silent_since ? &hosts->doubtful : &hosts->urgent, host);
        host->queued = TRUE;
    }
}

static void
dequeue(WeftHosts *hosts, Host *host)
{
    g_queue_remove(&hosts->urgent, host);
    g_queue_remove(&hosts->doubtful, host);
    host->queued = FALSE;
}

void
weft_hosts_hint(WeftHosts *hosts, const char *name)
{
    Host *host = find(hosts, name);
    if (!host || hosts->control->closing)
        return;
    enqueue(hosts, host);
    launch(hosts);
}

/* Every host once in each interval, a few at each tick. */
static gboolean
tick(gpointer data)
{
    WeftHosts *hosts = data;
    guint64 interval = MAX((guint64)hosts->control->options.scan_interval / 1000, TICK_MILLISECONDS);
    guint n = (guint)((hosts->round->len * TICK_MILLISECONDS + interval - 1) / interval);
    for (guint i = 0; i < n && !hosts->control->closing; i++) {
        hosts->next = (hosts->next + 1) % hosts->round->len;
        enqueue(hosts, hosts->round->pdata[hosts->next]);
    }
    if (!hosts->control->closing)
        launch(hosts);
    return G_SOURCE_CONTINUE;
}

/* --- descriptions --- */

static void
remove_host(WeftHosts *hosts, Host *host)
{
    host->removed = TRUE;
    update_open(host);
    dequeue(hosts, host);
    if (host->scanning || host->stopping)
        return;
    weft_fleet_remove_host(hosts->control->fleet, host->name);
    g_ptr_array_remove_fast(hosts->round, host);
    g_hash_table_remove(hosts->by_name, host->name);
}

/* A step there has ended. Once all have, perhaps there is a new one of its name. */
static void
end_removal(WeftHosts *hosts, Host *host)
{
    if (host->scanning || host->stopping)
        return;
    g_autofree char *name = g_strdup(host->name);
    remove_host(hosts, host);
    weft_hosts_changed(hosts, name, FALSE);
}

static Host *
add_host(WeftHosts *hosts, const char *name)
{
    Host *host = g_new0(Host, 1);
    host->control = hosts->control;
    host->name = g_strdup(name);
    host->suspects = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    host->reported = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_hash_table_insert(hosts->by_name, host->name, host);
    g_ptr_array_add(hosts->round, host);
    enqueue(hosts, host);
    return host;
}

static void
describe(WeftHosts *hosts, WeftHost *description, gint64 revision)
{
    Host *host = find(hosts, description->name);
    if (!host)
        host = add_host(hosts, description->name);
    host->revision = revision;
    host->draining = description->draining;
    host->evicting = description->evicting;
    weft_fleet_put_host(hosts->control->fleet, description);
    update_open(host);
}

void
weft_hosts_changed(WeftHosts *hosts, const char *name, gboolean deleted)
{
    g_autoptr(GError) error = NULL;
    gint64 revision;
    Host *host = find(hosts, name);
    if (host && deleted && !host->removed)
        remove_host(hosts, host);
    host = find(hosts, name);
    if (host && host->removed)
        return;
    WeftHost *description = weft_store_load_host(hosts->control->store, name, &revision, &error);
    if (!description) {
        if (host && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
            remove_host(hosts, host);
        return;
    }
    gboolean was_evicting = host && host->evicting;
    describe(hosts, description, revision);
    launch(hosts);
    host = find(hosts, name);
    if (host->evicting || was_evicting) {
        g_autoptr(GPtrArray) nodes = nodes_on(host);
        wake_clusters(host, nodes, TRUE);
    }
    if (host->answered && !host->evicting)
        weft_control_room_made(hosts->control);
}

/* --- life --- */

static gboolean
load_descriptions(WeftHosts *hosts, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(hosts->control->store, &(WeftQuery){ .kind = WEFT_KIND_HOST }, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        WeftHost *host = weft_record_host(record, error);
        if (!host)
            return FALSE;
        describe(hosts, host, record->revision);
    }
    return records != NULL;
}

static gboolean
load_states(WeftHosts *hosts, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(hosts->control->store, &(WeftQuery){ .kind = WEFT_KIND_HOST_STATUS }, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftHostStatus) status = weft_record_host_status(records->pdata[i], error);
        if (!status)
            return FALSE;
        Host *host = find(hosts, status->host);
        if (host)
            host->state = status->state;
    }
    return records != NULL;
}

WeftHosts *
weft_hosts_new(WeftControl *control, GError **error)
{
    WeftHosts *hosts = g_new0(WeftHosts, 1);
    hosts->control = control;
    hosts->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, host_free);
    hosts->round = g_ptr_array_new();
    if (!load_descriptions(hosts, error) || !load_states(hosts, error)) {
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
    g_free(hosts);
}
