#include "subnet-private.h"

#include "fabric-view.h"
#include "failpoint.h"
#include "match.h"

GHashTable *
weft_subnet_leaves_new(void)
{
    return g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
}

/* --- ports --- */

static guint
smaller(guint a, guint b)
{
    return a && b ? MIN(a, b) : a ? a : b;
}

/* The table of a host's port, and that of the switch's port at the other end, where it is enforced. */
static void
note_places(GHashTable *places, const WeftFabricMap *map, const WeftMapPort *port)
{
    guint pkeys = port->pkeys;
    if (port->peer >= 0) {
        const WeftMapNode *peer = map->nodes->pdata[port->peer];
        const WeftMapPort *other = weft_map_node_port(peer, port->peer_port);
        pkeys = peer->kind == WEFT_MAP_SWITCH && other ? smaller(pkeys, other->pkeys) : pkeys;
    }
    if (pkeys)
        g_hash_table_insert(places, g_memdup2(&port->guid, sizeof port->guid), GUINT_TO_POINTER(pkeys));
}

static void
note_leaf(WeftSubnet *subnet, const GPtrArray *switches, const WeftMapPort *port)
{
    if (port->peer >= 0 && (guint)port->peer < switches->len)
        g_hash_table_insert(subnet->leaves, g_memdup2(&port->guid, sizeof port->guid), g_strdup(switches->pdata[port->peer]));
}

static void
note_ports(WeftSubnet *subnet, const WeftFabricMap *map)
{
    g_autoptr(GPtrArray) switches = weft_fabric_map_switch_names(map);
    g_hash_table_remove_all(subnet->places);
    g_hash_table_remove_all(subnet->rates);
    g_hash_table_unref(subnet->leaves);
    subnet->leaves = weft_subnet_leaves_new();
    for (guint i = switches->len; i < map->nodes->len; i++) {
        const WeftMapNode *node = map->nodes->pdata[i];
        for (guint p = 0; node->kind == WEFT_MAP_ADAPTER && p < node->ports->len; p++) {
            const WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, p);
            if (!port->guid)
                continue;
            note_places(subnet->places, map, port);
            weft_subnet_note_rate(subnet, map, port);
            note_leaf(subnet, switches, port);
        }
    }
}

/* --- hosts that do not say which port is theirs --- */

/* It is written down and stays: a name on the fabric can be changed by whoever has the adapter, and partitions must not follow.
 */
static void
write_ports(WeftSubnet *subnet, const WeftHost *before, const WeftPortMatch *const *matches, guint n)
{
    WeftControl *control = subnet->control;
    g_autoptr(WeftHost) after = weft_host_copy(before);
    WeftTxn *txn = weft_txn_new("host-ports-found");
    for (guint i = 0; i < n; i++) {
        WeftHca *hca = (WeftHca *)weft_host_hca(after, matches[i]->hca);
        if (hca->port_guid)
            continue;
        hca->port_guid = matches[i]->port_guid;
        weft_txn_tell(txn, "host-port-found", NULL, after->name,
                      "%s of host %s is port 0x%016" G_GINT64_MODIFIER "x of fabric %s", hca->name, after->name, hca->port_guid,
                      subnet->fabric->name);
    }
    weft_txn_put_host(txn, after, weft_hosts_revision(control->hosts, after->name));
    weft_control_commit_quietly(control, txn);
}

static gboolean
any_lacks_ports(const GPtrArray *hosts)
{
    for (guint i = 0; i < hosts->len; i++)
        if (weft_host_lacks_ports(hosts->pdata[i]))
            return TRUE;
    return FALSE;
}

static void
find_ports(WeftSubnet *subnet, const WeftFabricMap *map)
{
    g_autoptr(GPtrArray) hosts = weft_fleet_hosts(subnet->control->fleet, subnet->fabric->name);
    if (!any_lacks_ports(hosts))
        return;
    g_autoptr(WeftMatches) matches = weft_fabric_match(map, hosts);
    guint next;
    for (guint i = 0; i < matches->ports->len; i = next) {
        const WeftPortMatch *const *first = (const WeftPortMatch *const *)&matches->ports->pdata[i];
        gboolean lacks = FALSE;
        const WeftHost *host = weft_fleet_host(subnet->control->fleet, (*first)->host);
        for (next = i; next < matches->ports->len; next++) {
            const WeftPortMatch *match = matches->ports->pdata[next];
            if (!g_str_equal(match->host, host->name))
                break;
            lacks |= weft_host_hca(host, match->hca)->port_guid == 0;
        }
        if (lacks)
            write_ports(subnet, host, first, next - i);
    }
}

/* --- reading --- */

static void
take_map(WeftSubnet *subnet, const WeftFabricMap *map)
{
    note_ports(subnet, map);
    weft_subnet_note_hops(subnet, map);
    find_ports(subnet, map);
    weft_subnet_tell_fleet(subnet);
    weft_control_room_changed(subnet->control);
}

/* thread: worker. */
static void
read_import(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    GError *error = NULL;
    WeftFabricMap *map = data ? weft_view_imported(data, &error) : weft_fabric_map_new();
    if (map)
        g_task_return_pointer(task, map, (GDestroyNotify)weft_fabric_map_free);
    else
        g_task_return_error(task, error);
}

/* Cancelled: another one was imported meanwhile, or the subnet is not there any more. */
static void
import_read(GObject *source, GAsyncResult *result, gpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFabricMap) map = g_task_propagate_pointer(G_TASK(result), &error);
    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        return;
    WeftSubnet *subnet = data;
    if (error)
        g_warning("fabric %s: the map that was imported cannot be read: %s", subnet->fabric->name, error->message);
    if (!map)
        map = weft_fabric_map_new();
    if (!subnet->map_told)
        take_map(subnet, map);
}

void
weft_subnet_forget_import(WeftSubnet *subnet)
{
    g_cancellable_cancel(subnet->importing);
    g_clear_object(&subnet->importing);
}

static void
take_import(WeftSubnet *subnet)
{
    g_autoptr(GError) error = NULL;
    WeftRecord *record = weft_store_get(subnet->control->store, WEFT_KIND_FABRIC_MAP, subnet->fabric->name, &error);
    if (error)
        g_warning("fabric %s: the map that was imported cannot be loaded: %s", subnet->fabric->name, error->message);
    weft_subnet_forget_import(subnet);
    subnet->importing = g_cancellable_new();
    subnet->map_known = TRUE;
    g_autoptr(GTask) task = g_task_new(NULL, subnet->importing, import_read, subnet);
    g_task_set_task_data(task, record, (GDestroyNotify)weft_record_free);
    g_task_run_in_thread(task, read_import);
}

static void
mapped(const WeftFabricMap *map, const GError *error, gpointer data)
{
    WeftSubnet *subnet = data;
    weft_failpoint_edge("map", "after");
    weft_call_end(&subnet->map);
    subnet->mapped = error ? 0 : g_get_monotonic_time();
    if (error)
        g_debug("fabric %s: no map: %s", subnet->fabric->name, error->message);
    gboolean told = map && map->nodes->len > 0;
    subnet->map_told |= told;
    if (told)
        take_map(subnet, map);
    else if (!subnet->map_told && !subnet->map_known)
        take_import(subnet);
    if (subnet->map_again)
        weft_subnet_read_map(subnet);
}

void
weft_subnet_read_map(WeftSubnet *subnet)
{
    subnet->map_again = subnet->map.cancellable != NULL;
    if (subnet->map_again)
        return;
    weft_call_begin(&subnet->map, subnet->control->options.list_deadline);
    weft_failpoint_edge("map", "before");
    subnet->driver->ops->map(subnet->driver, subnet->map.cancellable, mapped, subnet);
}
