#include "work.h"

#include <string.h>

/* Each of a thousand hosts has all the others as peers: a step compares and tells so many, which takes some milliseconds. */
#define PEERS_AT_ONCE 32768

/* Which hosts should have what follows from where the nodes are: all that have nodes which are to stay know each other. A host
 * whose last node has stopped forgets the network before that node is released, so that no host has one which no node
 * explains. */

void
weft_join_free(gpointer data)
{
    WeftJoin *join = data;
    weft_rest_clear(&join->rest);
    g_free(join->host);
    g_free(join);
}

static WeftJoin *
join_get(WeftWork *work, const char *host)
{
    WeftJoin *join = g_hash_table_lookup(work->joins, host);
    if (!join) {
        join = g_new0(WeftJoin, 1);
        join->host = g_strdup(host);
        g_hash_table_insert(work->joins, join->host, join);
    }
    if (join->look != work->look)
        join->members = join->occupants = 0;
    join->look = work->look;
    return join;
}

static gboolean
is_present(const WeftWork *work, const WeftJoin *join)
{
    return join->look == work->look;
}

/* --- which hosts --- */

static void
count_node(WeftWork *work, const WeftNodeWork *item, const char *host)
{
    WeftJoin *join = join_get(work, host);
    if (item->node->phase != WEFT_NODE_STOPPING && item->node->phase != WEFT_NODE_LOST)
        join->members++;
    else
        join->occupants += !item->stopped;
}

/* One on its way is on both hosts. A host that is lost joins nothing, and others must not wait for it. */
static void
count_nodes(WeftWork *work)
{
    work->look++;
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        const WeftNode *target = item->node->target;
        if (item->leaving)
            continue;
        count_node(work, item, item->node->host);
        if (target && weft_hosts_seen(work->control->hosts, target->host) != WEFT_SEEN_LOST)
            count_node(work, item, target->host);
    }
}

static void
forget_absent(WeftWork *work)
{
    GHashTableIter iter;
    gpointer join;
    g_hash_table_iter_init(&iter, work->joins);
    while (g_hash_table_iter_next(&iter, NULL, &join))
        if (!is_present(work, join) && !((WeftJoin *)join)->busy)
            g_hash_table_iter_remove(&iter);
}

/* Never 0. */
static guint64
digest_members(const WeftWork *work)
{
    guint64 digest = weft_mix(work->status->vxlan) | 1;
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, work->joins);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftJoin *join = value;
        if (is_present(work, join) && join->members)
            digest +=
                2 * weft_mix(weft_mix(g_str_hash(join->host)) + (guint64)weft_hosts_revision(work->control->hosts, join->host));
    }
    return digest;
}

static int
compare_texts(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *
address_of(const WeftWork *work, const char *name)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, name);
    return host ? weft_host_address(host) : g_strdup(name);
}

static void
gather_peers(WeftWork *work)
{
    g_ptr_array_set_size(work->peers, 0);
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, work->joins);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftJoin *join = value;
        if (is_present(work, join) && join->members)
            g_ptr_array_add(work->peers, address_of(work, join->host));
    }
    g_ptr_array_sort(work->peers, compare_texts);
}

/* --- what each should have --- */

/* NULL: nothing. */
static WeftHostNetwork *
wish_for(WeftWork *work, const WeftJoin *join)
{
    if (!join->members)
        return NULL;
    work->compared += work->peers->len;
    WeftHostNetwork *network = weft_host_network_new(work->status->vxlan, work->cluster->id, work->control->options.site);
    g_autofree char *own = address_of(work, join->host);
    for (guint i = 0; i < work->peers->len; i++)
        if (strcmp(work->peers->pdata[i], own) != 0)
            g_ptr_array_add(network->peers, g_strdup(work->peers->pdata[i]));
    return network;
}

/* A thousand hosts with a thousand peers each are compared once, not at each look. */
static gboolean
is_right(WeftWork *work, WeftJoin *join)
{
    guint64 serial;
    const WeftHostNetwork *has = weft_hosts_network(work->control->hosts, join->host, work->status->vxlan, &serial);
    if (!join->members)
        return !has;
    if (!has)
        return FALSE;
    if (join->epoch == work->epoch && join->serial == serial)
        return join->right;
    g_autoptr(WeftHostNetwork) wish = wish_for(work, join);
    join->epoch = work->epoch;
    join->serial = serial;
    join->right = weft_host_network_equal(has, wish);
    return join->right;
}

/* The next step goes on. */
static gboolean
had_enough(WeftWork *work)
{
    if (work->compared < PEERS_AT_ONCE)
        return FALSE;
    weft_work_wake(work);
    return TRUE;
}

void
weft_work_survey(WeftWork *work)
{
    work->connected = FALSE;
    if (!work->status || !work->status->vxlan)
        return;
    count_nodes(work);
    forget_absent(work);
    guint64 epoch = digest_members(work);
    if (epoch != work->epoch)
        gather_peers(work);
    work->epoch = epoch;
    work->connected = TRUE;
    work->compared = 0;
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, work->joins);
    while (work->connected && g_hash_table_iter_next(&iter, NULL, &value)) {
        WeftJoin *join = value;
        if (is_present(work, join) && join->members)
            work->connected = !join->busy && is_right(work, join) && !had_enough(work);
    }
}

gboolean
weft_work_has_parted(const WeftWork *work, const char *host)
{
    guint64 serial;
    const WeftJoin *join = g_hash_table_lookup(work->joins, host);
    return !work->status || !work->status->vxlan || (join && join->members) ||
           !weft_hosts_network(work->control->hosts, host, work->status->vxlan, &serial);
}

/* --- telling --- */

/* A host that does not join keeps all nodes from starting: those that have not begun there go to another. */
static void
look_elsewhere(WeftWork *work, const char *host, const char *words, const char *detail)
{
    for (guint i = 0; work->nodes && i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        gboolean begun = item->started || g_hash_table_contains(work->jobs, item->node->id);
        if (item->node->phase == WEFT_NODE_CLAIMED && !begun && item->revision && strcmp(item->node->host, host) == 0)
            weft_work_host_failed(work, item, words, detail);
        if (item->node->target && strcmp(item->node->target->host, host) == 0)
            weft_work_target_failed(work, item, words, detail);
    }
}

static void
told(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftJoin *join = g_hash_table_lookup(work->joins, job->host);
    join->busy = FALSE;
    weft_work_wake(work);
    if (error) {
        g_autofree char *words = weft_words(WEFT_DEED_CONNECT, error, job->deadline);
        weft_rest_fail(&join->rest, &work->control->options.backoff, WEFT_DEED_CONNECT, words, error->message);
        weft_hosts_hint(work->control->hosts, job->host);
        if (join->rest.attempts >= work->control->options.starts_max)
            look_elsewhere(work, job->host, words, error->message);
        return;
    }
    weft_rest_clear(&join->rest);
    weft_hosts_set_network(work->control->hosts, job->host, job->network->vxlan,
                           job->step == WEFT_STEP_CONNECT ? job->network : NULL);
}

/* Whatever comes of a call that did not end well: something may be there. */
static void
doubt(const WeftWork *work, const WeftJoin *join)
{
    g_autoptr(WeftHostNetwork) something =
        weft_host_network_new(work->status->vxlan, work->cluster->id, work->control->options.site);
    g_ptr_array_add(something->peers, g_strdup("")); /* no wish is like that */
    weft_hosts_set_network(work->control->hosts, join->host, something->vxlan, something);
}

static void
tell(WeftWork *work, WeftJoin *join)
{
    WeftControl *control = work->control;
    WeftHostNetwork *wish = wish_for(work, join);
    const WeftHost *host = weft_fleet_host(control->fleet, join->host);
    WeftJob *job = weft_job_new(wish ? WEFT_STEP_CONNECT : WEFT_STEP_DISCONNECT, join->host, host->uri, NULL);
    job->network = wish ? wish : weft_host_network_new(work->status->vxlan, work->cluster->id, work->control->options.site);
    job->deadline = control->options.connect_deadline;
    job->owner = work;
    job->tenant = g_strdup(work->cluster->tenant);
    job->done = told;
    if (wish)
        doubt(work, join);
    join->busy = TRUE;
    weft_jobs_submit(control->jobs, job);
}

static gboolean
can_be_told(const WeftWork *work, const WeftJoin *join)
{
    WeftSeen seen = weft_hosts_seen(work->control->hosts, join->host);
    return is_present(work, join) && !join->busy && (join->members || !join->occupants) &&
           (seen == WEFT_SEEN_UP || seen == WEFT_SEEN_EVICTING);
}

void
weft_work_connect(WeftWork *work)
{
    if (!work->status || !work->status->vxlan)
        return;
    work->compared = 0;
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, work->joins);
    while (g_hash_table_iter_next(&iter, NULL, &value) && !had_enough(work)) {
        WeftJoin *join = value;
        if (!can_be_told(work, join) || is_right(work, join))
            continue;
        if (weft_rest_is_over(&join->rest, work->now))
            tell(work, join);
        else
            weft_work_wake_at(work, join->rest.not_before);
    }
}

gboolean
weft_work_is_connecting(const WeftWork *work)
{
    GHashTableIter iter;
    gpointer join;
    g_hash_table_iter_init(&iter, work->joins);
    while (g_hash_table_iter_next(&iter, NULL, &join))
        if (((WeftJoin *)join)->busy)
            return TRUE;
    return FALSE;
}
