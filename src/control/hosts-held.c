#include "clock.h"
#include "errors.h"
#include "hosts.h"
#include "turns.h"

#include <string.h>

#define NAMED_MAX 3 /* things that a reason names: weft site lists all of them */

/* --- what is told --- */

static char *
name_found(const WeftFound *found)
{
    return found->thing == WEFT_THING_NODE      ? g_strdup_printf("domain %s", found->name)
           : found->thing == WEFT_THING_NETWORK ? g_strdup(found->name)
                                                : g_strdup_printf("%s %.24s", weft_thing_words[found->thing], found->name);
}

static char *
held_text(const GPtrArray *held)
{
    g_autoptr(GString) names = g_string_new(NULL);
    for (guint i = 0; i < held->len; i++) {
        const WeftFound *found = held->pdata[i];
        if (found->there)
            return g_strdup_printf("domain %s, which is recorded on host %s, is here: the two are one machine, or share their "
                                   "pool, or their addresses are mixed up, so nothing is started or removed here; correct the "
                                   "description of one of them, see: weft site ls",
                                   found->name, found->there);
    }
    for (guint i = 0; i < MIN(held->len, NAMED_MAX); i++) {
        g_autofree char *name = name_found(held->pdata[i]);
        g_string_append_printf(names, "%s%s", i ? ", " : "", name);
    }
    if (held->len > NAMED_MAX)
        g_string_append_printf(names, " and %u more", held->len - NAMED_MAX);
    return g_strdup_printf(
        "%s: marked as weft's, but this store has no record of having ended %s, so nothing is started or removed "
        "there; see: weft site ls",
        names->str, held->len == 1 ? "it" : "them");
}

static char *
why_held(const WeftWatch *host)
{
    return host->passive ? g_strdup(host->passive) : held_text(host->held);
}

char *
weft_hosts_held(const WeftHosts *hosts, const char *name, const char **ret_remedy)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    if (!host || !weft_watch_is_held(host))
        return NULL;
    *ret_remedy = host->passive ? "stop the other weftd, or use the right store; then weft site take"
                                : "weft site ls, then weft site adopt or weft site remove";
    return why_held(host);
}

/* --- which are held --- */

/* ret_counted: is also the same counted of them? */
static gboolean
is_same(const GPtrArray *before, const GPtrArray *after, gboolean *ret_counted)
{
    gboolean same = before->len == after->len;
    *ret_counted = same;
    for (guint i = 0; same && i < before->len; i++) {
        const WeftFound *a = before->pdata[i], *b = after->pdata[i];
        same = g_str_equal(a->key, b->key);
        *ret_counted &= same && a->runs == b->runs && !a->there == !b->there && g_strcmp0(a->number, b->number) == 0;
    }
    return same;
}

static void
count_id(GHashTable *counts, const char *id, int by)
{
    guint n = GPOINTER_TO_UINT(g_hash_table_lookup(counts, id)) + (guint)by;
    if (n)
        g_hash_table_insert(counts, g_strdup(id), GUINT_TO_POINTER(n));
    else
        g_hash_table_remove(counts, id);
}

/* A node's id begins with its cluster's. */
static char *
cluster_of(const WeftFound *found)
{
    return found->thing <= WEFT_THING_NETWORK ? g_strndup(found->id, strcspn(found->id, "-")) : NULL;
}

/* Each step of a cluster asks whether something of it is held: nobody has time to look at all hosts then. */
static void
count_held(GHashTable *counts, const GPtrArray *held, int by)
{
    for (guint i = 0; i < held->len; i++) {
        const WeftFound *found = held->pdata[i];
        if (found->there && !found->runs) /* files in a pool of both hosts: its own host goes on with it */
            continue;
        g_autofree char *cluster = cluster_of(found);
        if (cluster)
            count_id(counts, cluster, by);
        if (found->thing == WEFT_THING_NODE)
            count_id(counts, found->id, by);
        if (found->number)
            count_id(counts, found->number, by);
    }
}

/* What waited for these may go on, or has to wait. A host may have claimed to have thousands: each cluster is read once, and
 * those of which the same is held as before are left alone. */
static void
wake_clusters_of(WeftControl *control, const GPtrArray *before, const GPtrArray *after)
{
    g_autoptr(GHashTable) still = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) woken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < after->len; i++)
        g_hash_table_insert(still, ((const WeftFound *)after->pdata[i])->key, after->pdata[i]);
    for (guint i = 0; i < before->len; i++) {
        const WeftFound *found = before->pdata[i], *now = g_hash_table_lookup(still, found->key);
        char *id = now && now->runs == found->runs && !now->there == !found->there ? NULL : cluster_of(found);
        if (!id || !g_hash_table_add(woken, id))
            continue;
        g_autoptr(WeftRecord) record = weft_store_cluster_of_id(control->store, id, NULL);
        if (record)
            weft_control_wake(control, record->key);
    }
}

void
weft_watch_hold(WeftWatch *host, GPtrArray *found)
{
    GPtrArray *before = host->held;
    host->held = found ? found : g_ptr_array_new_with_free_func((GDestroyNotify)weft_found_free);
    gboolean counted, same = is_same(before, host->held, &counted);
    if (!counted) {
        count_held(host->control->hosts->held, before, -1);
        count_held(host->control->hosts->held, host->held, 1);
    }
    if (weft_watch_is_held(host) && (!same || host->state != WEFT_HOST_HELD || host->unwritten)) {
        g_autofree char *reason = why_held(host);
        g_warning("host %s is left as it is: %s", host->name, reason);
        weft_watch_set_held(host, reason);
    }
    if (!same)
        wake_clusters_of(host->control, before, host->held);
    g_ptr_array_unref(before);
}

void
weft_watch_forgive_held(WeftWatch *host)
{
    if (host->state != WEFT_HOST_LOST || host->held->len == 0)
        return;
    g_autoptr(GHashTable) confirmed = weft_watch_confirmations(host);
    g_autoptr(GPtrArray) forgiven = g_ptr_array_new();
    for (guint i = host->held->len; confirmed && i-- > 0;) {
        WeftFound *found = host->held->pdata[i];
        if (found->there || !g_hash_table_contains(confirmed, found->key))
            continue;
        found->confirmed = TRUE;
        g_ptr_array_add(forgiven, found);
        g_ptr_array_add(host->confirmed, g_ptr_array_steal_index(host->held, i));
    }
    count_held(host->control->hosts->held, forgiven, -1);
    wake_clusters_of(host->control, forgiven, host->held);
}

/* Those in one set and not in the other. */
static void
pin_new(WeftTurns *turns, GHashTable *keys, GHashTable *before, gboolean pinned)
{
    GHashTableIter iter;
    gpointer key;
    g_hash_table_iter_init(&iter, keys);
    while (g_hash_table_iter_next(&iter, &key, NULL))
        if (!g_hash_table_contains(before, key))
            weft_turns_pin(turns, key, pinned);
}

void
weft_watch_pin_clusters(WeftWatch *host, const GPtrArray *nodes)
{
    if (!nodes && g_hash_table_size(host->pinned) == 0)
        return; /* as at nearly every look */
    g_autoptr(GHashTable) before = host->pinned;
    host->pinned = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; nodes && i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        g_hash_table_add(host->pinned, weft_cluster_key(node->tenant, node->cluster_name));
    }
    pin_new(host->control->turns, host->pinned, before, TRUE);
    pin_new(host->control->turns, before, host->pinned, FALSE);
}

gboolean
weft_hosts_are_looked_at(const WeftHosts *hosts)
{
    return hosts->unlooked == 0;
}

gboolean
weft_hosts_await_looks(WeftHosts *hosts, const char *cluster_key)
{
    if (hosts->unlooked > 0)
        g_hash_table_add(hosts->waiting, g_strdup(cluster_key));
    return hosts->unlooked > 0;
}

void
weft_hosts_await_free(WeftHosts *hosts, const char *cluster_key)
{
    g_hash_table_add(hosts->waiting, g_strdup(cluster_key));
}

void
weft_hosts_wake_waiting(WeftHosts *hosts)
{
    GHashTableIter iter;
    gpointer key;
    g_hash_table_iter_init(&iter, hosts->waiting);
    while (g_hash_table_iter_next(&iter, &key, NULL))
        weft_control_wake(hosts->control, key);
    g_hash_table_remove_all(hosts->waiting);
}

/* A node that waited for this may be started, or given up, from now on, and a cluster be connected. */
void
weft_hosts_wake_doubtful(WeftHosts *hosts)
{
    GHashTableIter iter;
    gpointer value;
    weft_hosts_wake_waiting(hosts);
    weft_control_wake_all(hosts->control);
    g_hash_table_iter_init(&iter, hosts->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        if (((WeftWatch *)value)->gone_waits)
            weft_hosts_enqueue(hosts, value);
}

static void
all_looked_at(WeftHosts *hosts)
{
    weft_hosts_wake_doubtful(hosts);
    weft_subnets_take_stock(hosts->control->subnets);
    weft_control_room_changed(hosts->control); /* clusters that waited for a partition number get one from now on */
}

void
weft_watch_looked_at(WeftWatch *host)
{
    if (host->looked_at)
        return;
    host->looked_at = TRUE;
    weft_jobs_ask_again(host->control->jobs);
    if (--host->control->hosts->unlooked == 0)
        all_looked_at(host->control->hosts);
}

gboolean
weft_hosts_hold_cluster(const WeftHosts *hosts, const char *cluster_id)
{
    return hosts->unlooked > 0 || g_hash_table_contains(hosts->held, cluster_id);
}

gboolean
weft_hosts_lack(const WeftHosts *hosts, const char *name, const char *node_id)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    return host && host->known && host->answered && !host->passive && g_hash_table_contains(host->absent, node_id) &&
           weft_hosts_may_miss(hosts, name, node_id);
}

/* --- whose ports a store that is older may not know to be in use --- */

static gboolean
has_node_of(const WeftWatch *host, const char *cluster_id)
{
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    for (guint i = 0; nodes && i < nodes->len; i++)
        if (!cluster_id || g_str_equal(((const WeftNode *)nodes->pdata[i])->cluster, cluster_id))
            return TRUE;
    return FALSE;
}

GHashTable *
weft_hosts_unknown_ports(const WeftHosts *hosts, const char *fabric)
{
    GHashTable *ports = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    for (guint i = 0; i < hosts->round->len; i++) {
        const WeftWatch *host = hosts->round->pdata[i];
        gboolean clear = host->known && !weft_watch_is_held(host);
        const WeftHost *described = clear ? NULL : weft_fleet_host(hosts->control->fleet, host->name);
        if (!described || !g_str_equal(described->fabric, fabric))
            continue;
        for (guint k = 0; k < described->hcas->len; k++)
            g_hash_table_insert(ports, g_memdup2(&((const WeftHca *)described->hcas->pdata[k])->port_guid, sizeof(guint64)),
                                (gpointer)host);
    }
    return ports;
}

GHashTable *
weft_hosts_ports(const WeftHosts *hosts, const char *fabric)
{
    GHashTable *ports = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < hosts->round->len; i++) {
        const WeftHost *host = weft_fleet_host(hosts->control->fleet, ((const WeftWatch *)hosts->round->pdata[i])->name);
        for (guint k = 0; host && g_str_equal(host->fabric, fabric) && k < host->hcas->len; k++)
            g_hash_table_add(ports, &((WeftHca *)host->hcas->pdata[k])->port_guid);
    }
    return ports;
}

const char *
weft_hosts_stranger(GHashTable *unknown_ports, guint64 port_guid, const char *cluster_id)
{
    const WeftWatch *host = g_hash_table_lookup(unknown_ports, &port_guid);
    return host && !has_node_of(host, cluster_id) ? host->name : NULL;
}

gboolean
weft_hosts_runs(const WeftHosts *hosts, const char *name, const char *node_id)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    return host && g_hash_table_contains(host->domains, node_id);
}

gboolean
weft_hosts_may_miss(const WeftHosts *hosts, const char *name, const char *node_id)
{
    if (hosts->unlooked > 0 || g_hash_table_contains(hosts->held, node_id))
        return FALSE;
    g_autofree char *cluster = g_strndup(node_id, strcspn(node_id, "-"));
    const WeftHost *host = weft_fleet_host(hosts->control->fleet, name);
    return !weft_subnets_may_hide(hosts->control->subnets, cluster, host ? host->fabric : NULL);
}

WeftSeen
weft_hosts_seen_of(const WeftHosts *hosts, const WeftNode *node)
{
    WeftSeen seen = weft_hosts_seen(hosts, node->host);
    gboolean starts = node->phase == WEFT_NODE_CLAIMED || node->phase == WEFT_NODE_FAILED;
    if (node->phase == WEFT_NODE_LOST && seen != WEFT_SEEN_UP)
        seen = WEFT_SEEN_LOST;            /* it was given up, whatever else its host is held for */
    if (seen == WEFT_SEEN_LOST || starts) /* perhaps it was moved or started since: then it is adopted, not replaced */
        return weft_hosts_may_miss(hosts, node->host, node->id) ? seen : WEFT_SEEN_HELD;
    return seen;
}

/* --- what may be done there --- */

/* What a step means to a weftd that may not have the host, or may not know all that is there. A step that is named nowhere
 * below is guarded like those that change most. */
typedef enum {
    CHANGES,  /* it starts, stops, makes or removes something: only where the host is ours and nothing there is held */
    GOES_ON,  /* a node of ours that stands still goes on: only where the host is ours, but also where something is held */
    LEAVES_IT /* it changes nothing that another weftd could miss */
} Effect;

static const Effect effects[WEFT_STEPS] = {
    [WEFT_STEP_START] = CHANGES,
    [WEFT_STEP_STOP] = CHANGES,
    [WEFT_STEP_LIST] = LEAVES_IT,    /* a look claims the host by itself, and goes on all the same where that is another's */
    [WEFT_STEP_INSPECT] = LEAVES_IT, /* the host tells what it is able to */
    [WEFT_STEP_OPEN] = LEAVES_IT,    /* a stream; whoever tells a guest to do something asks before whose its host is */
    [WEFT_STEP_CONNECT] = CHANGES,
    [WEFT_STEP_DISCONNECT] = CHANGES,
    [WEFT_STEP_BRING] = CHANGES,
    [WEFT_STEP_DISCARD] = CHANGES,
    [WEFT_STEP_SAVE] = CHANGES,
    [WEFT_STEP_FETCH] = LEAVES_IT, /* a file of the host is read */
    [WEFT_STEP_PRIME] = CHANGES,
    [WEFT_STEP_UNPRIME] = CHANGES,
    [WEFT_STEP_PLUG] = GOES_ON,
    [WEFT_STEP_UNPLUG] = CHANGES,
    [WEFT_STEP_PAUSE] = CHANGES,
    [WEFT_STEP_RESUME] = GOES_ON,    /* the node may stand still for a checkpoint that another weftd is making */
    [WEFT_STEP_MEASURE] = LEAVES_IT, /* how much memory a domain writes */
    [WEFT_STEP_MOVE] = CHANGES,
};

/* A host that did not answer is not known to be another's: for a node that is to go on, its claim tells right before the call.
 */
static WeftJobVerdict
guard_host(const WeftHosts *hosts, const char *name, Effect effect, GError **error)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    if (!host || (host->known && !weft_watch_is_held(host)))
        return WEFT_JOB_ALLOWED;
    if (!host->looked_at)
        return WEFT_JOB_WAITS;
    if (effect == GOES_ON && !host->passive)
        return WEFT_JOB_ALLOWED;
    g_autofree char *why = weft_watch_is_held(host) ? why_held(host) : g_strdup("it has not answered yet what is there");
    weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "host %s is left as it is: %s", name, why);
    return WEFT_JOB_REFUSED;
}

/* An image may have come since, with a file that was to go: whoever brings it finds that there. Other files that are discarded
 * have no digest's name. */
static WeftJobVerdict
guard_file(const WeftHosts *hosts, const char *name, GError **error)
{
    GHashTable *wanted = weft_images_wanted(hosts->control->images);
    if (wanted && !g_hash_table_contains(wanted, name))
        return WEFT_JOB_ALLOWED;
    weft_error_refuse(error, wanted ? WEFT_ERROR_CONFLICT : WEFT_ERROR_UNAVAILABLE,
                      wanted ? "an image has that file again" : "which images there are cannot be read");
    return WEFT_JOB_REFUSED;
}

WeftJobVerdict
weft_hosts_guard(WeftJob *job, gpointer hosts, GError **error)
{
    Effect effect = effects[job->step];
    if (effect == LEAVES_IT)
        return WEFT_JOB_ALLOWED;
    job->claim = ((const WeftHosts *)hosts)->control->options.owner;
    WeftJobVerdict verdict = guard_host(hosts, job->host, effect, error);
    if (verdict == WEFT_JOB_ALLOWED && job->step == WEFT_STEP_DISCARD)
        return guard_file(hosts, job->text, error);
    return verdict == WEFT_JOB_ALLOWED && job->to ? guard_host(hosts, job->to, effect, error) : verdict;
}

gboolean
weft_hosts_is_passive(const WeftHosts *hosts, const char *name)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    return host && host->passive;
}

gboolean
weft_hosts_has_disowned(const WeftHosts *hosts, const WeftJob *job)
{
    return job->verdict != WEFT_OWNER_GRANTED || weft_hosts_is_passive(hosts, job->host);
}
