#include "bounds.h"
#include "checks.h"
#include "discover.h"
#include "hosts.h"
#include "turns.h"

#include <string.h>

/* Milliseconds: a cluster that ends lets go of many devices of a host, and one question is for all of them. */
#define RELEASED_AFTER 2000
#define TOLD_MAX 32 /* devices of a host of which each has an event of its own, at once */

const WeftInventory *
weft_hosts_inventory(const WeftHosts *hosts, const char *name, const WeftRest **ret_trouble)
{
    static const WeftRest none;
    const WeftWatch *host = weft_hosts_find(hosts, name);
    if (ret_trouble)
        *ret_trouble = host ? &host->inspection : &none;
    return host ? host->inventory : NULL;
}

void
weft_hosts_add_of_other_kind(const WeftHosts *hosts, const char *kind, GHashTable *names)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, hosts->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftWatch *host = value;
        g_autofree char *own = host->inventory ? weft_inventory_kind(host->inventory) : NULL;
        if (g_strcmp0(own, kind) != 0)
            g_hash_table_add(names, g_strdup(host->name));
    }
}

void
weft_hosts_hardware_changed(WeftHosts *hosts, const char *name)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host)
        host->inspect = TRUE;
    weft_hosts_hint(hosts, name);
}

static gboolean
ask_what_was_released(gpointer data)
{
    WeftWatch *host = data;
    host->released = 0;
    weft_hosts_hardware_changed(host->control->hosts, host->name);
    return G_SOURCE_REMOVE;
}

void
weft_hosts_devices_released(WeftHosts *hosts, const char *name)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host && !host->released)
        host->released = g_timeout_add(RELEASED_AFTER, ask_what_was_released, host);
}

/* --- RDMA between two of them --- */

static const char *
rdma_address(const WeftWatch *host)
{
    const WeftHost *described = host ? weft_fleet_host(host->control->fleet, host->name) : NULL;
    return described ? weft_host_rdma_address(described, host->inventory) : NULL;
}

const char *
weft_hosts_rdma(const WeftHosts *hosts, const char *from, const char *to)
{
    g_autofree char *way = g_strdup_printf("%s %s", from, to);
    const WeftWatch *here = weft_hosts_find(hosts, from), *there = weft_hosts_find(hosts, to);
    return rdma_address(here) && !g_hash_table_contains(hosts->no_rdma, way) ? rdma_address(there) : NULL;
}

/* A try costs the node that moves some seconds: the next one is worth it only when something may have changed. */
void
weft_hosts_rdma_failed(WeftHosts *hosts, const char *from, const char *to)
{
    g_hash_table_add(hosts->no_rdma, g_strdup_printf("%s %s", from, to));
}

static gboolean
begins_or_ends_at(gpointer way, gpointer value, gpointer host)
{
    const char *to = strchr(way, ' ') + 1;
    return strcmp(to, host) == 0 || (strlen(host) == (gsize)(to - 1 - (const char *)way) && g_str_has_prefix(way, host));
}

/* It told anew what it is able to: both what was tried to it and from it may work by now. */
static void
forget_failed_rdma(const WeftWatch *host)
{
    g_hash_table_foreach_remove(host->control->hosts->no_rdma, begins_or_ends_at, host->name);
}

/* --- hardware that nobody described --- */

/* Cores, pages or devices that nodes hold are never taken from under them: their claims would be on nothing. */
static void
tell_kept(WeftWatch *host)
{
    if (host->kept_told)
        return;
    host->kept_told = TRUE;
    WeftTxn *txn = weft_txn_new("host-hardware-kept");
    weft_txn_tell(txn, "host-hardware-kept", NULL, host->name,
                  "host %s has less than its nodes hold; its old description stays until they are elsewhere: weft drain "
                  "--evict %s",
                  host->name, host->name);
    weft_control_commit_quietly(host->control, txn);
}

static gboolean
is_same(const WeftHost *a, const WeftHost *b)
{
    json_t *x = weft_host_to_json(a), *y = weft_host_to_json(b);
    gboolean same = json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

static void
discover(WeftWatch *host)
{
    const WeftHost *before = weft_fleet_host(host->control->fleet, host->name);
    if ((host->described && !before->discovered) || host->inventory->hardware->cores->len == 0)
        return;
    g_autoptr(WeftHost) after = weft_discover(before, host->inventory);
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    if (!nodes || is_same(before, after))
        return;
    if (!weft_discover_holds(after, nodes)) {
        tell_kept(host);
        return;
    }
    host->kept_told = FALSE;
    WeftTxn *txn = weft_txn_new("host-discovered");
    weft_txn_put_host(txn, after, host->revision);
    weft_txn_tell(txn, "host-discovered", NULL, host->name, "host %s has %u cores, %u HCAs and %u GPUs", host->name,
                  after->cores->len, after->hcas->len, after->gpus->len);
    weft_control_commit_quietly(host->control, txn);
}

/* --- devices --- */

/* Without an IOMMU none of them can be given to a node, nor what is in quarantine. */
void
weft_watch_tell_devices(WeftWatch *host)
{
    g_autoptr(WeftHost) usable = weft_discover_usable(host->inventory);
    weft_fleet_set_devices(host->control->fleet, host->name, usable);
}

/* The first of them, which stands for all; NULL: none is. */
static char *
quarantine_text(const WeftWatch *host)
{
    g_autoptr(GHashTable) devices = weft_discover_quarantine(host->inventory ? host->inventory->hook : NULL);
    g_autoptr(GList) names = g_list_sort(g_hash_table_get_keys(devices), (GCompareFunc)strcmp);
    if (!names)
        return NULL;
    guint n = g_hash_table_size(devices);
    g_autofree char *count = g_strdup_printf(" and %u more are", n - 1);
    return g_strdup_printf("%s%s in quarantine, and no node gets it: weft doctor %s", (const char *)names->data,
                           n > 1 ? count : " is", host->name);
}

/* One device that has come into quarantine, or has left it. */
static void
tell_device(const WeftWatch *host, WeftTxn *txn, const char *pci, const char *why)
{
    g_autofree char *clipped = why ? g_utf8_substring(why, 0, MIN(g_utf8_strlen(why, -1), WEFT_TEXT_MAX)) : NULL;
    if (why)
        weft_txn_tell(txn, "device-quarantined", NULL, host->name,
                      "host %s: %s is in quarantine, and no node gets it: %s; repair it, then type there: weft-hook readmit %s",
                      host->name, pci, clipped, pci);
    else
        weft_txn_tell(txn, "device-readmitted", NULL, host->name,
                      "host %s: %s is out of quarantine, and nodes get it again: somebody typed weft-hook readmit %s there",
                      host->name, pci, pci);
}

/* Those of one set that are not in the other; of many, some stand for all. Returns how many there are. */
static guint
tell_difference(const WeftWatch *host, WeftTxn *txn, const char *event, GHashTable *set, GHashTable *other)
{
    GHashTableIter iter;
    gpointer pci, why;
    guint n = 0;
    g_hash_table_iter_init(&iter, set);
    while (g_hash_table_iter_next(&iter, &pci, &why))
        if (!g_hash_table_contains(other, pci) && n++ < TOLD_MAX)
            tell_device(host, txn, pci, set == host->quarantine ? NULL : why);
    if (n > TOLD_MAX)
        weft_txn_tell(txn, event, NULL, host->name, "host %s: so are %u more devices: weft doctor %s", host->name, n - TOLD_MAX,
                      host->name);
    return n;
}

/* What was told is kept with the host's state, so that the next weftd does not tell it again, and sees what was readmitted
 * in the meantime. A host that says nothing of a quarantine has let nothing go. */
static void
tell_quarantine(WeftWatch *host)
{
    if (!json_is_array(json_object_get(host->inventory->hook, "quarantine")))
        return;
    if (host->told_before) {
        host->inspect = TRUE; /* a former change is still being written: the host is asked again after that */
        return;
    }
    g_autoptr(GHashTable) now = weft_discover_quarantine(host->inventory->hook);
    g_autoptr(WeftTxn) txn = weft_txn_new("device-quarantined");
    guint in = tell_difference(host, txn, "device-quarantined", now, host->quarantine);
    guint out = tell_difference(host, txn, "device-readmitted", host->quarantine, now);
    if (!in && !out)
        return;
    GHashTableIter iter;
    gpointer pci;
    GHashTable *told = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_hash_table_iter_init(&iter, now);
    while (g_hash_table_iter_next(&iter, &pci, NULL))
        g_hash_table_add(told, g_strdup(pci));
    weft_watch_commit_quarantine(host, g_steal_pointer(&txn), told);
}

static const WeftNode *
node_of(const GPtrArray *nodes, const char *domain)
{
    for (guint i = 0; i < nodes->len; i++) {
        g_autofree char *own = weft_node_domain(nodes->pdata[i]);
        if (g_strcmp0(own, domain) == 0)
            return nodes->pdata[i];
    }
    return NULL;
}

/* What was taken from under a node while it runs it does not get again. One on its way, or at rest, may have let it go. */
static void
find_bereft(WeftWatch *host)
{
    json_t *lacking = json_object_get(host->inventory->hook, "lacking"), *item;
    g_autoptr(GPtrArray) nodes = json_array_size(lacking) ? weft_watch_nodes(host) : NULL;
    gsize i;
    json_array_foreach (lacking, i, item) {
        const WeftNode *node = nodes ? node_of(nodes, json_string_value(json_object_get(item, "domain"))) : NULL;
        const char *pci = json_string_value(json_object_get(item, "pci"));
        if (!node || !pci || node->target || node->still)
            continue;
        g_autofree char *detail =
            g_strdup_printf("%s is not on host %s any more: weft doctor %s tells what is", pci, host->name, host->name);
        weft_control_node_bereft(host->control, node, detail);
    }
}

/* --- asking --- */

char *
weft_watch_trouble_text(const WeftWatch *host)
{
    return host->inspection.attempts && !host->inventory
               ? g_strdup_printf("it does not tell what it is able to: %s", host->inspection.detail)
               : quarantine_text(host);
}

static void
ask_again(WeftWatch *host, const char *words, const char *detail)
{
    weft_rest_fail(&host->inspection, &host->control->options.backoff, WEFT_DEED_INSPECT, words, detail);
    host->inspect = TRUE;
    weft_watch_recheck(host, host->inspection.not_before - g_get_monotonic_time());
}

/* Nodes that wait for it are woken each time: they go elsewhere in the end. */
static void
mute(WeftWatch *host, const WeftJob *job, const GError *error)
{
    g_autofree char *words = weft_words(WEFT_DEED_INSPECT, error, job->deadline);
    ask_again(host, words, error->message);
    if (host->inspection.attempts == 1 && !host->inventory) {
        g_warning("host %s does not tell what it is able to, asking again: %s", host->name, error->message);
        g_autofree char *reason = weft_watch_trouble_text(host);
        weft_watch_tell_state(host, reason, "host-mute");
    }
    weft_watch_heard(host);
    g_autoptr(GPtrArray) nodes = host->inventory ? NULL : weft_watch_nodes(host);
    weft_watch_wake_clusters(host, nodes, TRUE);
}

static void
spoke(WeftWatch *host, WeftInventory *inventory)
{
    gboolean first = !host->inventory;
    WeftInventory *before = host->inventory;
    g_autofree char *told = weft_watch_trouble_text(host);
    /* Only a report mends what a killed hook left there, and nobody else may come to that host for long. */
    if (inventory->hook_error)
        ask_again(host, "weft-hook does not answer", inventory->hook_error);
    else
        weft_rest_clear(&host->inspection);
    host->inventory = inventory;
    tell_quarantine(host);
    weft_inventory_free(before);
    g_autofree char *reason = weft_watch_trouble_text(host);
    if (g_strcmp0(told, reason) != 0 && (first || host->state == WEFT_HOST_UP))
        weft_watch_tell_state(host, reason, NULL);
    forget_failed_rdma(host);
    weft_clock_watch_heard(host->control->clock, host->name, inventory->time);
    weft_watch_tell_devices(host);
    find_bereft(host);
    discover(host);
    weft_watch_update_open(host);
    weft_watch_heard(host);
    weft_control_room_changed(host->control);
    if (!first)
        return;
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    weft_watch_wake_clusters(host, nodes, TRUE);
    weft_turns_kind_known(host->control->turns);
}

static void
inspected(WeftJob *job, const GError *error)
{
    WeftControl *control = job->owner;
    WeftWatch *host = weft_hosts_find(control->hosts, job->host);
    host->errands--;
    if (host->removed) {
        weft_hosts_end_removal(control->hosts, host);
        return;
    }
    if (error)
        mute(host, job, error);
    else
        spoke(host, g_steal_pointer(&job->inventory));
}

void
weft_watch_inspect(WeftWatch *host)
{
    WeftControl *control = host->control;
    if (!host->inspect || host->errands)
        return;
    host->inspect = FALSE;
    host->errands++;
    weft_jobs_submit(control->jobs, weft_watch_job(host, WEFT_STEP_INSPECT, NULL, control->options.list_deadline, inspected));
}
