#include "clock.h"
#include "errors.h"
#include "host-uri.h"
#include "hosts.h"

void
weft_watch_free(gpointer data)
{
    WeftWatch *host = data;
    g_clear_handle_id(&host->recheck, g_source_remove);
    g_clear_handle_id(&host->released, g_source_remove);
    g_clear_handle_id(&host->late, g_source_remove);
    g_hash_table_unref(host->suspects);
    g_hash_table_unref(host->reported);
    g_ptr_array_unref(host->held);
    g_hash_table_unref(host->pinned);
    g_ptr_array_unref(host->confirmed);
    g_clear_pointer(&host->confirmations, g_hash_table_unref);
    g_hash_table_unref(host->absent);
    g_hash_table_unref(host->domains);
    g_free(host->passive);
    weft_watch_facts_free(host);
    weft_inventory_free(host->inventory);
    weft_rest_clear(&host->inspection);
    g_free(host->excuse);
    g_free(host->barred);
    g_free(host->reason);
    g_hash_table_unref(host->quarantine);
    g_clear_pointer(&host->told_before, g_hash_table_unref);
    g_free(host->name);
    g_free(host);
}

static gboolean
is_busy(const WeftWatch *host)
{
    return host->scanning || host->stopping || host->errands;
}

static void
remove_host(WeftHosts *hosts, WeftWatch *host)
{
    host->removed = TRUE;
    weft_watch_update_open(host);
    weft_watch_heard(host);
    weft_watch_looked_at(host);
    weft_watch_forget_owner(host);
    weft_watch_hold(host, NULL);
    weft_watch_pin_clusters(host, NULL);
    weft_hosts_dequeue(hosts, host);
    if (is_busy(host))
        return;
    weft_fleet_remove_host(hosts->control->fleet, host->name);
    g_ptr_array_remove_fast(hosts->round, host);
    g_hash_table_remove(hosts->by_name, host->name);
}

void
weft_hosts_end_removal(WeftHosts *hosts, WeftWatch *host)
{
    if (is_busy(host))
        return;
    g_autofree char *name = g_strdup(host->name);
    remove_host(hosts, host);
    weft_hosts_changed(hosts, name, FALSE);
}

static WeftWatch *
add_host(WeftHosts *hosts, const char *name)
{
    WeftWatch *host = g_new0(WeftWatch, 1);
    host->control = hosts->control;
    host->name = g_strdup(name);
    host->doubts_guests = TRUE; /* what happened while nobody listened is not known */
    host->since = weft_clock_now();
    host->suspects = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    host->reported = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    host->domains = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    host->quarantine = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    host->held = g_ptr_array_new_with_free_func((GDestroyNotify)weft_found_free);
    host->pinned = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    host->confirmed = g_ptr_array_new_with_free_func((GDestroyNotify)weft_found_free);
    host->absent = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    weft_watch_facts_new(host);
    g_hash_table_insert(hosts->by_name, host->name, host);
    hosts->unheard++;
    hosts->unlooked++;
    g_ptr_array_add(hosts->round, host);
    weft_hosts_enqueue(hosts, host);
    return host;
}

/* What it was described with was taken then. */
static char *
why_barred(const WeftHost *description)
{
    g_autoptr(GError) unfit = NULL;
    if (weft_host_uri_check(description->uri, &unfit))
        return NULL;
    const char *name = description->name;
    return g_strdup_printf("its URI is not taken any more, and nothing is asked of it: %s; describe it with another one: weft "
                           "drain %s --evict gives its nodes up, weft host rm %s removes it, weft host add adds it again",
                           unfit->message, name, name);
}

static void
describe(WeftHosts *hosts, WeftHost *description, gint64 revision)
{
    WeftWatch *host = weft_hosts_find(hosts, description->name);
    if (!host)
        host = add_host(hosts, description->name);
    host->revision = revision;
    host->draining = description->draining;
    host->moving = description->moving;
    host->disrupting = description->disrupting;
    host->evicting = description->evicting;
    host->described = description->cores->len > 0;
    g_free(host->barred);
    host->barred = why_barred(description);
    weft_fleet_put_host(hosts->control->fleet, description);
    if (host->inventory)
        weft_watch_tell_devices(host);
    weft_watch_update_open(host);
}

/* In which way it is emptied. */
typedef struct Drain {
    gboolean moving, disrupting, evicting;
} Drain;

static Drain
drain_of(const WeftWatch *host)
{
    return (Drain){ host->moving, host->disrupting, host->evicting };
}

static void
tell_drain(const WeftWatch *host, Drain before)
{
    Drain now = drain_of(host);
    gboolean same = memcmp(&now, &before, sizeof now) == 0;
    if (same && !now.evicting && !now.moving)
        return;
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    weft_watch_wake_clusters(host, nodes, TRUE);
    for (guint i = 0; nodes && !same && i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
        weft_control_drain_changed(host->control, key);
    }
}

void
weft_hosts_changed(WeftHosts *hosts, const char *name, gboolean deleted)
{
    g_autoptr(GError) error = NULL;
    gint64 revision;
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host && deleted && !host->removed)
        remove_host(hosts, host);
    host = weft_hosts_find(hosts, name);
    if (host && host->removed)
        return;
    WeftHost *description = weft_store_load_host(hosts->control->store, name, &revision, &error);
    if (!description) {
        if (host && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
            remove_host(hosts, host);
        return;
    }
    Drain before = host ? drain_of(host) : (Drain){ 0 };
    describe(hosts, description, revision);
    if (weft_host_lacks_ports(description))
        weft_subnets_map_changed(hosts->control->subnets, description->fabric);
    weft_hosts_launch(hosts);
    host = weft_hosts_find(hosts, name);
    tell_drain(host, before);
    if (host->answered && !host->evicting)
        weft_control_room_changed(hosts->control);
}

/* --- at the start --- */

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
        WeftWatch *host = weft_hosts_find(hosts, status->host);
        if (!host)
            continue;
        host->state = status->state;
        host->since = status->since;
        host->reason = g_strdup(status->reason);
        g_auto(GStrv) quarantine = g_strsplit(status->quarantine ? status->quarantine : "", " ", -1);
        for (guint n = 0; quarantine[n]; n++)
            g_hash_table_add(host->quarantine, g_strdup(quarantine[n]));
        host->heard = host->state == WEFT_HOST_LOST; /* nobody waits for those */
        hosts->unheard -= host->heard;
        host->unwritten = status->reason && status->state == WEFT_HOST_UP; /* what was wrong may be so no more */
    }
    return records != NULL;
}

gboolean
weft_hosts_load(WeftHosts *hosts, GError **error)
{
    return load_descriptions(hosts, error) && load_states(hosts, error);
}
