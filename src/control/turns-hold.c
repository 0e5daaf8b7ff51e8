#include "turns.h"

#include "clock.h"
#include "work.h"

/* --- what runs --- */

static void
add_seat(const WeftTurns *turns, const WeftNode *node, GArray *seats)
{
    WeftSeat seat;
    if (weft_fleet_seat_of(turns->control->fleet, node, &seat))
        g_array_append_val(seats, seat);
}

/* What is being removed is as good as gone. */
static gint64
end_of(const WeftWork *work, gint64 now)
{
    const WeftClusterStatus *status = work->status;
    if (work->cluster->deleted || (status && status->phase == WEFT_CLUSTER_PREEMPTED && !work->grant))
        return now;
    if (status && status->placed)
        return status->ends ? status->ends : WEFT_QUEUE_NEVER;
    gint64 placed = work->grant ? work->grant->when : now;
    return work->cluster->walltime ? placed + (gint64)work->cluster->walltime * G_USEC_PER_SEC : WEFT_QUEUE_NEVER;
}

void
weft_turns_hold(WeftTurns *turns, const WeftWork *work)
{
    const WeftCluster *cluster = work->cluster;
    gint64 now = weft_clock_now(), granted = work->grant ? work->grant->when : now;
    g_autoptr(GArray) seats = g_array_new(FALSE, FALSE, sizeof(WeftSeat));
    for (guint i = 0; i < work->nodes->len; i++)
        add_seat(turns, ((const WeftNodeWork *)work->nodes->pdata[i])->node, seats);
    if (work->grant)
        g_array_append_vals(seats, work->grant->placement.seats, work->grant->placement.n);
    WeftHold hold = { .key = work->key,
                      .cluster = cluster->id,
                      .tenant = cluster->tenant,
                      .priority = cluster->priority,
                      .preemptible = cluster->preemptible,
                      .since = work->status && work->status->placed ? work->status->placed : granted,
                      .end = end_of(work, now),
                      .seats = (const WeftSeat *)(gpointer)seats->data,
                      .n = seats->len };
    if (seats->len)
        weft_queue_worker_hold(turns->worker, &hold);
    else
        weft_queue_worker_tell(turns->worker, weft_queue_release, work->key);
    weft_turns_wake(turns);
    weft_turns_moved(turns, work);
}

/* --- who must be apart from whom --- */

/* Of the cluster of that name of the same tenant. */
static char *
key_beside(const char *key, const char *name)
{
    return g_strdup_printf("%.*s%s", (int)(strchr(key, '/') - key) + 1, key, name);
}

/* Keys (char *) of clusters of its tenant that it names (own; NULL: none), or that name it. */
static GPtrArray *
list_related(const WeftTurns *turns, const char *key, const GPtrArray *own)
{
    GPtrArray *related = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; own && i < own->len; i++)
        g_ptr_array_add(related, key_beside(key, own->pdata[i]));
    GHashTable *naming = g_hash_table_lookup(turns->named, key);
    GHashTableIter iter;
    gpointer other;
    if (!naming)
        return related;
    g_hash_table_iter_init(&iter, naming);
    while (g_hash_table_iter_next(&iter, &other, NULL))
        g_ptr_array_add(related, g_strdup(other));
    return related;
}

static void
doubt_all(WeftTurns *turns, const GPtrArray *related)
{
    for (guint i = 0; i < related->len; i++) {
        WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, related->pdata[i]);
        if (waiter)
            weft_waiter_doubt(turns, waiter);
    }
}

static void
add_naming(WeftTurns *turns, const char *key, const char *name)
{
    g_autofree char *other = key_beside(key, name);
    GHashTable *naming = g_hash_table_lookup(turns->named, other);
    if (!naming) {
        naming = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
        g_hash_table_insert(turns->named, g_steal_pointer(&other), naming);
    }
    g_hash_table_add(naming, g_strdup(key));
}

static void
remove_naming(WeftTurns *turns, const char *key, const char *name)
{
    g_autofree char *other = key_beside(key, name);
    GHashTable *naming = g_hash_table_lookup(turns->named, other);
    if (!naming) /* it was named twice */
        return;
    g_hash_table_remove(naming, key);
    if (g_hash_table_size(naming) == 0)
        g_hash_table_remove(turns->named, other);
}

static void
forget_wish(WeftTurns *turns, const char *key)
{
    const GPtrArray *list = g_hash_table_lookup(turns->aparts, key);
    for (guint i = 0; list && i < list->len; i++)
        remove_naming(turns, key, list->pdata[i]);
    g_hash_table_remove(turns->aparts, key);
}

void
weft_turns_note_wish(WeftTurns *turns, const char *key, const WeftCluster *cluster)
{
    forget_wish(turns, key);
    if (!cluster)
        g_hash_table_remove(turns->where, key);
    if (!cluster || cluster->apart->len == 0)
        return;
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < cluster->apart->len; i++) {
        g_ptr_array_add(list, g_strdup(cluster->apart->pdata[i]));
        add_naming(turns, key, cluster->apart->pdata[i]);
    }
    g_hash_table_insert(turns->aparts, g_strdup(key), list);
    g_autoptr(GPtrArray) related = list_related(turns, key, list);
    doubt_all(turns, related);
}

/* --- where those are --- */

static void
add_loaded(const WeftWork *work, GHashTable *hosts)
{
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        g_hash_table_add(hosts, g_strdup(node->host));
        if (node->target)
            g_hash_table_add(hosts, g_strdup(node->target->host));
    }
    for (guint i = 0; work->grant && i < work->grant->placement.n; i++) {
        const char *name = weft_fleet_name(work->control->fleet, work->grant->placement.seats[i].host);
        if (name)
            g_hash_table_add(hosts, g_strdup(name));
    }
}

static void
add_stored(WeftStore *store, const char *key, GHashTable *hosts)
{
    g_autoptr(WeftCluster) cluster = weft_store_load_cluster(store, key, NULL, NULL);
    const WeftKind kinds[] = { WEFT_KIND_NODE, WEFT_KIND_MOVE };
    for (guint k = 0; cluster && k < G_N_ELEMENTS(kinds); k++) {
        WeftQuery query = { .kind = kinds[k], .scope = cluster->id };
        g_autoptr(GPtrArray) records = weft_store_list(store, &query, NULL);
        for (guint i = 0; records && i < records->len; i++)
            if (((const WeftRecord *)records->pdata[i])->place[0])
                g_hash_table_add(hosts, g_strdup(((const WeftRecord *)records->pdata[i])->place));
    }
}

static void
add_hosts_of(const WeftTurns *turns, const char *key, GHashTable *hosts)
{
    const WeftWork *work = g_hash_table_lookup(turns->control->works, key);
    if (work && work->nodes)
        add_loaded(work, hosts);
    else
        add_stored(turns->control->store, key, hosts);
}

/* Most that is told of a cluster leaves its nodes where they are. */
void
weft_turns_moved(WeftTurns *turns, const WeftWork *work)
{
    g_autoptr(GPtrArray) related = list_related(turns, work->key, g_hash_table_lookup(turns->aparts, work->key));
    if (related->len == 0) {
        g_hash_table_remove(turns->where, work->key);
        return;
    }
    g_autoptr(GHashTable) hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GHashTable *before = g_hash_table_lookup(turns->where, work->key);
    add_loaded(work, hosts);
    if (before && weft_turns_same_hosts(before, hosts))
        return;
    g_hash_table_insert(turns->where, g_strdup(work->key), g_steal_pointer(&hosts));
    doubt_all(turns, related);
}

void
weft_turns_pin(WeftTurns *turns, const char *key, gboolean pinned)
{
    weft_queue_worker_tell(turns->worker, pinned ? weft_queue_pin : weft_queue_unpin, key);
    weft_turns_wake(turns);
    if (!pinned)
        weft_bookings_clear_again(turns);
}

gboolean
weft_turns_can_stop(WeftTurns *turns, const char *key)
{
    g_autoptr(GHashTable) hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    add_hosts_of(turns, key, hosts);
    GHashTableIter iter;
    gpointer name;
    g_hash_table_iter_init(&iter, hosts);
    while (g_hash_table_iter_next(&iter, &name, NULL))
        if (weft_hosts_seen(turns->control->hosts, name) == WEFT_SEEN_HELD)
            return FALSE;
    return TRUE;
}

void
weft_turns_add_apart(WeftTurns *turns, const WeftCluster *cluster, GHashTable *hosts)
{
    if (g_hash_table_size(turns->aparts) == 0 && cluster->apart->len == 0)
        return;
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    g_autoptr(GPtrArray) related = list_related(turns, key, cluster->apart);
    for (guint i = 0; i < related->len; i++)
        add_hosts_of(turns, related->pdata[i], hosts);
}
