#include "errors.h"
#include "site-record.h"
#include "subnet-private.h"
#include "watchdog.h"

WeftSubnet *
weft_subnet_find(const WeftSubnets *subnets, const char *name)
{
    return name ? g_hash_table_lookup(subnets->by_name, name) : NULL;
}

const WeftFabric *
weft_subnets_fabric(const WeftSubnets *subnets, const char *name)
{
    return weft_subnet_find(subnets, name)->fabric;
}

gboolean
weft_subnets_has_manager(const WeftSubnets *subnets, const char *name)
{
    return weft_subnet_find(subnets, name)->manager != NULL;
}

WeftFabricManagement
weft_subnets_management(const WeftSubnets *subnets, const char *name)
{
    return weft_subnet_find(subnets, name)->driver->ops->management;
}

WeftFabricDriver *
weft_subnets_driver(const WeftSubnets *subnets, const char *name)
{
    const WeftSubnet *subnet = weft_subnet_find(subnets, name);
    return subnet ? subnet->driver : NULL;
}

const char *
weft_subnets_holder(const WeftSubnets *subnets, guint vxlan)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftSubnet *subnet = value;
        guint pkey = vxlan - subnet->fabric->vxlan_base;
        if (vxlan > subnet->fabric->vxlan_base && pkey <= subnet->fabric->pkey_last)
            return weft_subnet_holder(subnet, pkey);
    }
    return NULL;
}

void
weft_subnets_read_ports(WeftSubnets *subnets, const char *fabric, GArray *port_guids, WeftPortsRead callback, gpointer data)
{
    weft_ports_read(weft_subnet_find(subnets, fabric)->ports, port_guids, FALSE, callback, data);
}

void
weft_subnets_hint(WeftSubnets *subnets, const char *fabric)
{
    weft_subnet_survey(weft_subnet_find(subnets, fabric));
}

void
weft_subnets_map_changed(WeftSubnets *subnets, const char *fabric)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    if (!subnet)
        return;
    subnet->map_known = FALSE;
    weft_subnet_read_map(subnet);
}

void
weft_subnets_examine(const WeftSubnets *subnets, json_t *checks)
{
    GHashTableIter iter;
    gpointer subnet;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &subnet))
        weft_subnet_examine(subnet, checks);
}

/* when: 0 where it never succeeded, or failed the last time. */
static gboolean
is_due(const WeftSubnet *subnet, gint64 when)
{
    return when == 0 || g_get_monotonic_time() - when >= subnet->control->options.patrol_interval;
}

/* Without a hint: who is master and what it has each time, the map and the ports now and then, and soon where they could not be
 * read. */
static gboolean
look(gpointer data)
{
    WeftSubnets *subnets = data;
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        WeftSubnet *subnet = value;
        weft_watchdog_mark("the look at fabric", subnet->fabric->name);
        weft_subnet_greet(subnet);
        weft_subnet_survey(subnet);
        if (!subnet->map.cancellable && is_due(subnet, subnet->mapped))
            weft_subnet_read_map(subnet);
        if (!subnet->patrolling && is_due(subnet, subnet->patrolled))
            weft_subnet_patrol(subnet);
    }
    return G_SOURCE_CONTINUE;
}

/* --- life --- */

static void
subnet_free(gpointer data)
{
    WeftSubnet *subnet = data;
    subnet->driver->ops->listen(subnet->driver, NULL, NULL);
    weft_wiring_free(subnet->wiring);
    weft_ports_free(subnet->ports);
    weft_call_end(&subnet->greet);
    weft_call_end(&subnet->map);
    weft_subnet_forget_import(subnet);
    weft_subnet_end_hops(subnet);
    g_clear_handle_id(&subnet->rested, g_source_remove);
    GHashTable *const tables[] = { subnet->pkeys,         subnet->resting, subnet->expected,  subnet->suspects,
                                   subnet->port_suspects, subnet->present, subnet->places,    subnet->rates,
                                   subnet->leaves,        subnet->surplus, subnet->strangers, subnet->inherited,
                                   subnet->released };
    for (gsize i = 0; i < G_N_ELEMENTS(tables); i++)
        g_hash_table_unref(tables[i]);
    GPtrArray *const arrays[] = { subnet->wires, subnet->sharings, subnet->silent, subnet->open, subnet->outside };
    for (gsize i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_ptr_array_unref(arrays[i]);
    weft_manager_free(subnet->manager);
    weft_fabric_free(subnet->fabric);
    g_free(subnet->trouble);
    g_free(subnet);
}

static void
share(WeftSubnet *subnet)
{
    for (guint i = 0; i < subnet->fabric->shared->len; i++) {
        const WeftShared *shared = subnet->fabric->shared->pdata[i];
        g_autofree char *holder = g_strconcat("/", shared->name, NULL);
        g_autofree char *name = weft_partition_shared_name(shared->name);
        weft_subnet_hold(subnet, shared->pkey, holder, name);
        g_ptr_array_add(subnet->sharings, weft_sharing_new(shared));
    }
}

static WeftSubnet *
subnet_new(WeftControl *control, WeftFabric *fabric, WeftFabricDriver *driver)
{
    WeftSubnet *subnet = g_new0(WeftSubnet, 1);
    *subnet = (WeftSubnet){ .control = control, .fabric = fabric, .driver = driver };
    subnet->wiring = weft_wiring_new(fabric->name, driver, control->options.apply_deadline);
    weft_subnet_guard(subnet);
    subnet->ports = weft_ports_new(driver, control->options.apply_deadline);
    subnet->wires = g_ptr_array_new_with_free_func(weft_wire_free);
    subnet->sharings = g_ptr_array_new_with_free_func(weft_sharing_free);
    subnet->silent = g_ptr_array_new_with_free_func(g_free);
    subnet->open = g_ptr_array_new_with_free_func(g_free);
    subnet->pkeys = weft_subnet_holds_new();
    subnet->resting = weft_subnet_rests_new();
    subnet->present = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    subnet->outside = g_ptr_array_new_with_free_func(g_free);
    subnet->expected = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)weft_partition_free);
    subnet->suspects = g_hash_table_new(NULL, NULL);
    subnet->strangers = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    subnet->inherited = weft_subnet_inherited_new();
    subnet->released = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    subnet->port_suspects = g_hash_table_new(NULL, NULL);
    subnet->surplus = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    subnet->places = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    subnet->rates = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    subnet->leaves = weft_subnet_leaves_new();
    share(subnet);
    weft_subnet_tell_fleet(subnet);
    driver->ops->listen(driver, weft_subnet_heard, subnet);
    return subnet;
}

static gboolean
load_fabrics(WeftSubnets *subnets, GHashTable *drivers, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(subnets->control->store, &(WeftQuery){ .kind = WEFT_KIND_FABRIC }, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftFabric) fabric = weft_record_fabric(records->pdata[i], error);
        if (!fabric)
            return FALSE;
        WeftFabricDriver *driver = g_hash_table_lookup(drivers, fabric->name);
        if (!driver)
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "fabric %s has no driver; describe it in weft.yaml",
                                     fabric->name);
        g_hash_table_insert(subnets->by_name, fabric->name, subnet_new(subnets->control, fabric, driver));
        g_steal_pointer(&fabric);
    }
    return records != NULL;
}

static gboolean
load_pkeys(WeftSubnets *subnets, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_CLUSTER_STATUS };
    g_autoptr(GPtrArray) records = weft_store_list(subnets->control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        g_autoptr(WeftClusterStatus) status = weft_record_cluster_status(record, error);
        if (!status)
            return FALSE;
        WeftSubnet *subnet = status->pkey ? weft_subnet_find(subnets, status->fabric) : NULL;
        g_autofree char *name = weft_partition_name(status->cluster);
        if (subnet)
            weft_subnet_hold(subnet, status->pkey, record->key, name);
    }
    return records != NULL;
}

WeftSubnets *
weft_subnets_new(WeftControl *control, GHashTable *drivers, GError **error)
{
    WeftSubnets *subnets = g_new0(WeftSubnets, 1);
    subnets->control = control;
    subnets->aged = weft_store_is_aged(control->store);
    subnets->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, subnet_free);
    if (!load_fabrics(subnets, drivers, error) || !load_pkeys(subnets, error) || !weft_subnets_load_rests(subnets, error)) {
        weft_subnets_free(subnets);
        return NULL;
    }
    subnets->timer = g_timeout_add((guint)(control->options.scan_interval / 1000), look, subnets);
    return subnets;
}

/* What a cluster brings into shared partitions. */
static gboolean
load_members(WeftSubnets *subnets, const WeftCluster *cluster, const WeftClusterStatus *status, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = cluster->id };
    g_autoptr(GPtrArray) records = weft_store_list(subnets->control->store, &query, error);
    g_autoptr(WeftPartition) partition = weft_partition_new(status->pkey, cluster->id);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftNode) node = weft_record_node(records->pdata[i], error);
        if (!node)
            return FALSE;
        weft_control_add_members(subnets->control, node, partition);
    }
    if (records)
        weft_subnets_share(subnets, status->fabric, cluster, partition);
    return records != NULL;
}

gboolean
weft_subnets_begin(WeftSubnets *subnets, GError **error)
{
    WeftStore *store = subnets->control->store;
    g_autoptr(GPtrArray) records = weft_store_list(store, &(WeftQuery){ .kind = WEFT_KIND_CLUSTER }, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        g_autoptr(WeftCluster) cluster = weft_record_cluster(record, error);
        if (!cluster)
            return FALSE;
        g_autoptr(WeftClusterStatus) status =
            cluster->shared->len ? weft_store_load_cluster_status(store, record->key, NULL, NULL) : NULL;
        if (status && status->pkey && !load_members(subnets, cluster, status, error))
            return FALSE;
    }
    look(subnets);
    return records != NULL;
}

void
weft_subnets_free(WeftSubnets *subnets)
{
    if (!subnets)
        return;
    g_clear_handle_id(&subnets->timer, g_source_remove);
    g_hash_table_unref(subnets->by_name);
    g_free(subnets);
}
