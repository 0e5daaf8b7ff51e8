#include "hosts.h"
#include "turns.h"

#include "clock.h"
#include "prune.h"
#include "site-record.h"
#include "trials.h"
#include "wakeup.h"
#include "watchdog.h"
#include "work.h"

#define PUMP_SLICE 1000   /* microseconds of steps before the main loop looks at others */
#define LINKS_RESTING 512 /* a cluster of that size greets and meets over the same links */
#define ROOM_WAKES 32     /* so many whose nodes wait are looked at when there is room; the others try again by themselves */

const WeftControlOptions weft_control_defaults = {
    .workers = 32,
    .workers_per_host = 4,
    .start_deadline = 120 * G_USEC_PER_SEC,
    .await_deadline = 300 * G_USEC_PER_SEC,
    .meet_deadline = 60 * G_USEC_PER_SEC,
    .still_deadline = 90 * G_USEC_PER_SEC,
    .stop_deadline = 60 * G_USEC_PER_SEC,
    .connect_deadline = 30 * G_USEC_PER_SEC,
    .list_deadline = 15 * G_USEC_PER_SEC,
    .apply_deadline = 60 * G_USEC_PER_SEC,
    .backoff = { .base = G_USEC_PER_SEC / 2, .max = 60 * G_USEC_PER_SEC },
    .host_grace = 30 * G_USEC_PER_SEC,
    .scan_interval = 60 * G_USEC_PER_SEC,
    .patrol_interval = 15 * 60 * G_USEC_PER_SEC,
    .pkey_rest = 5 * 60 * G_USEC_PER_SEC,
    .starts_max = 3,
    .events_per_tenant = 10000,
    .event_age = 30 * 24 * 3600 * (gint64)G_USEC_PER_SEC,
    .request_age = 24 * 3600 * (gint64)G_USEC_PER_SEC,
    .ended_age = 30 * 24 * 3600 * (gint64)G_USEC_PER_SEC,
    .link_idle = 60 * G_USEC_PER_SEC,
    .path_rule = WEFT_PATH_RULE_PUBLISHED,
    .templates = TRUE,
    .migration_stall = 300 * 1000,
    .moves_per_host = 2,
    .template_age = 7 * 24 * 3600 * (gint64)G_USEC_PER_SEC,
    .template_retry = 15 * 60 * G_USEC_PER_SEC,
    .capture_deadline = 15 * 60 * G_USEC_PER_SEC,
    .checkpoint_skew = G_USEC_PER_SEC / 5,
    .expiry_warning = 10 * 60 * G_USEC_PER_SEC,
    .clock_bound = 10 * 60 * G_USEC_PER_SEC,
};

/* --- commits --- */

typedef struct Commit {
    WeftControl *control;
    WeftCommitted callback;
    gpointer data;
} Commit;

static void
commit_ended(gint64 revision, const GError *error, gpointer data)
{
    g_autofree Commit *commit = data;
    commit->control->commits--;
    if (commit->callback)
        commit->callback(revision, error, commit->data);
    else if (error)
        g_warning("cannot be written, the next look tries again: %s", error->message);
}

void
weft_control_commit(WeftControl *control, WeftTxn *txn, WeftCommitted callback, gpointer data)
{
    Commit commit = { control, callback, data };
    control->commits++;
    weft_store_commit(control->store, txn, commit_ended, g_memdup2(&commit, sizeof commit));
}

void
weft_control_commit_quietly(WeftControl *control, WeftTxn *txn)
{
    weft_control_commit(control, txn, NULL, NULL);
}

/* --- the queue of clusters to look at --- */

void
weft_control_room_made(WeftControl *control)
{
    control->room_made = TRUE;
    weft_wakeup_ask(control->pump);
}

void
weft_control_room_changed(WeftControl *control)
{
    weft_control_room_made(control);
    weft_turns_doubt(control->turns);
}

static int
compare_age(gconstpointer a, gconstpointer b)
{
    gint64 x = weft_work_created(a), y = weft_work_created(b);
    return x < y ? -1 : x > y;
}

/* The oldest first: who waited longest gets the room. */
static void
wake_waiting(WeftControl *control)
{
    g_autoptr(GList) waiting = g_list_sort(g_hash_table_get_keys(control->waiting), compare_age);
    guint n = 0;
    for (GList *link = waiting; link && n < ROOM_WAKES; link = link->next, n++)
        weft_work_try_room(link->data);
    control->room_made = FALSE;
}

static void
pump(gpointer data)
{
    WeftControl *control = data;
    gint64 end = g_get_monotonic_time() + PUMP_SLICE;
    if (control->room_made)
        wake_waiting(control);
    WeftWork *work;
    while ((work = g_queue_pop_head(&control->awake))) {
        weft_watchdog_mark("a step of cluster", work->key);
        weft_work_step(work);
        weft_turns_read(control->turns);
        if (g_get_monotonic_time() > end) {
            weft_wakeup_ask(control->pump);
            break;
        }
    }
    /* Behind them: nodes that lost their hosts have room first. */
    weft_watchdog_mark("the queue", NULL);
    weft_turns_run(control->turns);
}

static void
tenant_changed(WeftControl *control, const WeftChange *change)
{
    weft_turns_tenant_changed(control->turns, change->key);
    weft_control_wake_tenant(control, change->key); /* it may have been granted what nodes of it wait for */
    if (change->deleted)
        weft_templates_tenant_gone(control->templates, change->key);
}

static void
store_changed(const WeftChange *changes, gsize n, gpointer data)
{
    WeftControl *control = data;
    for (gsize i = 0; i < n; i++) {
        if (changes[i].kind == WEFT_KIND_CLUSTER)
            weft_control_wish_changed(control, changes[i].key);
        else if (changes[i].kind == WEFT_KIND_HOST)
            weft_hosts_changed(control->hosts, changes[i].key, changes[i].deleted);
        else if (changes[i].kind == WEFT_KIND_MOVE)
            weft_control_moves_changed(control, changes[i].scope);
        else if (changes[i].kind == WEFT_KIND_TENANT)
            tenant_changed(control, &changes[i]);
        else if (changes[i].kind == WEFT_KIND_RESERVATION)
            weft_bookings_changed(control->turns);
        else if (changes[i].kind == WEFT_KIND_IMAGE)
            weft_images_changed(control->images);
        else if (changes[i].kind == WEFT_KIND_TEMPLATE)
            weft_templates_changed(control->templates, changes[i].key);
        else if (changes[i].kind == WEFT_KIND_CHECKPOINT)
            weft_checkpoints_changed(control->checkpoints, &changes[i]);
        else if (changes[i].kind == WEFT_KIND_EVENT && !changes[i].deleted && *changes[i].scope)
            weft_pruner_told(control->pruner, changes[i].scope);
        else if (changes[i].kind == WEFT_KIND_FABRIC_MAP)
            weft_subnets_map_changed(control->subnets, changes[i].key);
        else if (changes[i].kind == WEFT_KIND_META && !changes[i].deleted && g_str_has_prefix(changes[i].key, WEFT_TAKE_PREFIX))
            weft_hosts_take(control->hosts, changes[i].key + strlen(WEFT_TAKE_PREFIX));
        else if (changes[i].kind == WEFT_KIND_META && !changes[i].deleted &&
                 g_str_has_prefix(changes[i].key, WEFT_RELEASE_PREFIX))
            weft_subnets_release_asked(control->subnets, changes[i].key);
        else if (changes[i].kind == WEFT_KIND_ENDED && *changes[i].place)
            weft_hosts_confirmation_changed(control->hosts, &changes[i]);
        else if (changes[i].kind == WEFT_KIND_PKEY_REST && !changes[i].deleted)
            weft_subnets_rest_changed(control->subnets, changes[i].scope, changes[i].key);
    }
}

/* --- a full disk --- */

static void
room_changed(gboolean full, gpointer data)
{
    WeftControl *control = data;
    WeftTxn *txn = weft_txn_new("store-room");
    if (full)
        weft_txn_tell(txn, "store-full", NULL, NULL,
                      "the disk of weftd's store is full: only removals are taken, and what admins ask for, until there is "
                      "room on it");
    else
        weft_txn_tell(txn, "store-has-room", NULL, NULL, "there is room again on the disk of weftd's store");
    g_message("%s", full ? "the disk of the store is full, its reserve is in use: make room there"
                         : "there is room again on the disk of the store");
    weft_control_commit_quietly(control, txn);
}

/* --- life --- */

/* What is in use is what the nodes say. */
static gboolean
load_nodes(WeftControl *control, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .limit = 1000 };
    g_autofree char *after = NULL;
    for (;;) {
        query.after = after;
        g_autoptr(GPtrArray) records = weft_store_list(control->store, &query, error);
        if (!records)
            return FALSE;
        for (guint i = 0; i < records->len; i++) {
            g_autoptr(WeftNode) node = weft_record_node(records->pdata[i], error);
            if (!node)
                return FALSE;
            weft_fleet_take(control->fleet, node);
            if (node->target)
                weft_control_take_target(control, node);
            if (node->template)
                weft_templates_note_fork(control->templates, node->template);
        }
        if (records->len < query.limit)
            return TRUE;
        g_free(after);
        after = g_strdup(((WeftRecord *)records->pdata[records->len - 1])->key);
    }
}

/* Every cluster is looked at once: what was left half done goes on, and the others are put away again. */
static gboolean
wake_clusters(WeftControl *control, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_CLUSTER };
    g_autoptr(GPtrArray) records = weft_store_list(control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++)
        weft_control_wake(control, ((WeftRecord *)records->pdata[i])->key);
    return records && weft_turns_load(control->turns, records->len, error);
}

static void
advance_clock(WeftControl *control)
{
    WeftQuery query = { .kind = WEFT_KIND_EVENT, .limit = 1, .backwards = TRUE };
    g_autoptr(GPtrArray) records = weft_store_list(control->store, &query, NULL);
    if (records && records->len)
        weft_clock_advance(g_ascii_strtoll(((WeftRecord *)records->pdata[0])->key, NULL, 16));
}

static void
host_hinted(const char *host, WeftNews news, const char *domain, gpointer data)
{
    WeftControl *control = data;
    if (news == WEFT_NEWS_MISSED)
        weft_hosts_doubt_guests(control->hosts, host);
    if (news == WEFT_NEWS_MISSED || news == WEFT_NEWS_HARDWARE)
        weft_hosts_hardware_changed(control->hosts, host);
    else if (news == WEFT_NEWS_CHANGED)
        weft_hosts_hint(control->hosts, host);
    else if (g_str_has_prefix(domain, WEFT_DOMAIN_PREFIX))
        weft_control_node_rebooted(control, domain + strlen(WEFT_DOMAIN_PREFIX), NULL);
}

/* Its host, its domain or its guest may be gone; or all are there, but the guest is another. A look has guests asked, so that
 * one that ends its stream whenever it is asked is left to the next look that is due anyway. */
static void
stream_lost(const char *host, gboolean again, gpointer data)
{
    WeftControl *control = data;
    weft_hosts_doubt_guests(control->hosts, host);
    if (!again)
        weft_hosts_hint(control->hosts, host);
}

static void
guest_rebooted(const char *node, const char *boot, gpointer data)
{
    weft_control_node_rebooted(data, node, boot);
}

WeftControl *
weft_control_new(WeftStore *store, WeftHypervisor *hv, GHashTable *fabrics, const WeftControlOptions *options, GError **error)
{
    g_autoptr(WeftControl) control = g_new0(WeftControl, 1);
    control->store = store;
    control->hv = hv;
    control->options = *options;
    control->fleet = weft_fleet_new();
    control->works = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)weft_work_free);
    control->waiting = g_hash_table_new(NULL, NULL);
    control->moves = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    control->jobs = weft_jobs_new(hv, options->workers, options->workers_per_host);
    control->pump = weft_wakeup_new(pump, control);
    WeftLinkLimits limits = { options->list_deadline, options->link_idle, LINKS_RESTING, options->backoff };
    control->links = weft_links_new(control->jobs, &limits, &(WeftLinkListener){ stream_lost, guest_rebooted, control });
    control->images = weft_images_new(control);
    control->templates = weft_templates_new(control);
    control->checkpoints = weft_checkpoints_new(control);
    control->gate = weft_control_gate_new(control);
    control->turns = weft_turns_new(control);
    control->clock = weft_clock_watch_new(control);
    control->trials = weft_trials_new(control);

    advance_clock(control);
    control->hosts = weft_hosts_new(control, error);
    if (control->hosts)
        weft_jobs_guard(control->jobs, weft_hosts_guard, weft_hosts_disowned, control->hosts);
    control->subnets = control->hosts ? weft_subnets_new(control, fabrics, error) : NULL;
    if (!control->subnets || !weft_templates_load(control->templates, error) ||
        !weft_checkpoints_load(control->checkpoints, error) || !load_nodes(control, error) ||
        !weft_subnets_begin(control->subnets, error) || !(control->expiry = weft_expiry_new(control, error)) ||
        !wake_clusters(control, error) || !(control->pruner = weft_pruner_new(control, error)))
        return NULL;
    hv->ops->watch(hv, host_hinted, control);
    control->watch = weft_store_watch(store, store_changed, control);
    weft_store_watch_room(store, room_changed, control);
    if (weft_store_is_full(store))
        room_changed(TRUE, control);
    return g_steal_pointer(&control);
}

void
weft_control_free(WeftControl *control)
{
    if (!control)
        return;
    control->closing = TRUE;
    if (control->watch)
        weft_store_unwatch(control->store, control->watch);
    weft_store_watch_room(control->store, NULL, NULL);
    weft_pruner_free(control->pruner);
    weft_clock_watch_stop(control->clock);
    g_source_destroy(control->pump);
    weft_jobs_free(control->jobs);
    weft_links_free(control->links);
    while (control->commits)
        g_main_context_iteration(NULL, TRUE);
    weft_trials_free(control->trials);
    weft_control_gate_free(control->gate);
    weft_templates_free(control->templates);
    weft_checkpoints_free(control->checkpoints);
    weft_images_free(control->images);
    weft_subnets_free(control->subnets);
    weft_hosts_free(control->hosts);
    g_queue_clear(&control->awake);
    g_hash_table_unref(control->works);
    g_hash_table_unref(control->waiting);
    g_hash_table_unref(control->moves);
    weft_expiry_free(control->expiry);
    weft_clock_watch_free(control->clock);
    weft_turns_free(control->turns);
    g_source_unref(control->pump);
    weft_fleet_free(control->fleet);
    g_free(control);
}
