#include "subnet-private.h"

#include "errors.h"

/* --- what is shared --- */

WeftSharing *
weft_sharing_new(const WeftShared *shared)
{
    WeftSharing *sharing = g_new0(WeftSharing, 1);
    sharing->shared = shared;
    sharing->members = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_array_unref);
    sharing->strangers = g_array_new(FALSE, FALSE, sizeof(WeftMember));
    return sharing;
}

void
weft_sharing_free(gpointer data)
{
    WeftSharing *sharing = data;
    g_hash_table_unref(sharing->members);
    g_array_unref(sharing->strangers);
    g_free(sharing);
}

WeftSharing *
weft_subnet_sharing(const WeftSubnet *subnet, guint pkey)
{
    for (guint i = 0; i < subnet->sharings->len; i++)
        if (((const WeftSharing *)subnet->sharings->pdata[i])->shared->pkey == pkey)
            return subnet->sharings->pdata[i];
    return NULL;
}

/* A server's port that is a host's too stays a full member. */
static void
add_port(WeftPartition *partition, GHashTable *seen, guint64 port_guid, WeftMembership membership)
{
    if (g_hash_table_add(seen, g_memdup2(&port_guid, sizeof port_guid)))
        g_array_append_val(partition->members, ((WeftMember){ .port_guid = port_guid, .membership = membership, .index = -1 }));
}

static void
add_members(WeftPartition *partition, GHashTable *seen, const GArray *members, WeftMembership membership)
{
    for (guint i = 0; i < members->len; i++) {
        WeftMember member = g_array_index(members, WeftMember, i);
        if (!member.virtual_guid) {
            add_port(partition, seen, member.port_guid, membership);
            continue;
        }
        member.membership = membership;
        member.index = -1;
        g_array_append_val(partition->members, member);
    }
}

WeftPartition *
weft_sharing_partition(const WeftSharing *sharing)
{
    g_autofree char *name = weft_partition_shared_name(sharing->shared->name);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    WeftPartition *partition = weft_partition_new(sharing->shared->pkey, name);
    for (guint i = 0; i < sharing->shared->servers->len; i++)
        add_port(partition, seen, g_array_index(sharing->shared->servers, guint64, i), WEFT_MEMBER_FULL);
    GHashTableIter iter;
    gpointer members;
    g_hash_table_iter_init(&iter, sharing->members);
    while (g_hash_table_iter_next(&iter, NULL, &members))
        add_members(partition, seen, members, sharing->shared->clusters);
    add_members(partition, seen, sharing->strangers, sharing->shared->clusters);
    return partition;
}

static gboolean
is_asked_for(const WeftSharing *sharing, const WeftCluster *cluster)
{
    return !cluster->deleted && weft_shared_allows(sharing->shared, cluster->tenant) &&
           g_ptr_array_find_with_equal_func(cluster->shared, sharing->shared->name, g_str_equal, NULL);
}

/* What the cluster brings into it from now on; TRUE: the manager must be told. */
static gboolean
bring(WeftSharing *sharing, const char *key, const WeftCluster *cluster, const WeftPartition *own)
{
    if (!is_asked_for(sharing, cluster) || !own)
        return g_hash_table_remove(sharing->members, key);
    g_hash_table_insert(sharing->members, g_strdup(key), g_array_copy(own->members));
    return TRUE;
}

void
weft_subnets_share(WeftSubnets *subnets, const char *fabric, const WeftCluster *cluster, const WeftPartition *own)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    for (guint i = 0; subnet && i < subnet->sharings->len; i++)
        bring(subnet->sharings->pdata[i], key, cluster, own);
}

static void
shared_again(const GError *error, gpointer data)
{
    const WeftSubnet *subnet = data;
    if (error)
        g_warning("fabric %s: a shared partition was not set, the next look tries again: %s", subnet->fabric->name,
                  error->message);
}

void
weft_subnet_share_again(WeftSubnet *subnet, const WeftSharing *sharing)
{
    if (!weft_subnet_may_change(subnet))
        return;
    weft_wiring_set(subnet->wiring, weft_sharing_partition(sharing), shared_again, subnet);
}

void
weft_subnets_shared_keys(const WeftSubnets *subnets, const char *fabric, const WeftCluster *cluster, GArray *keys)
{
    const WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    for (guint i = 0; i < cluster->shared->len; i++) {
        const WeftShared *shared = weft_fabric_shared(subnet->fabric, cluster->shared->pdata[i]);
        if (shared && weft_shared_allows(shared, cluster->tenant))
            g_array_append_val(keys, (guint16){ (guint16)weft_shared_key(shared) });
    }
}

/* Would a node there make a limited member of a port that serves? A port is one or the other, and of mlx4 it is the node's,
 * too. */
static gboolean
serves(const WeftHost *host, const WeftShared *shared)
{
    for (guint i = 0; i < host->hcas->len; i++) {
        const WeftHca *hca = host->hcas->pdata[i];
        for (guint k = 0; hca->driver == WEFT_HCA_MLX4 && k < shared->servers->len; k++)
            if (g_array_index(shared->servers, guint64, k) == hca->port_guid)
                return TRUE;
    }
    return FALSE;
}

void
weft_subnets_add_servers(const WeftSubnets *subnets, const WeftCluster *cluster, GHashTable *names)
{
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (cluster->shared->len > 0 && g_hash_table_iter_next(&iter, NULL, &item)) {
        const WeftSubnet *subnet = item;
        g_autoptr(GPtrArray) hosts = weft_fleet_hosts(subnet->control->fleet, subnet->fabric->name);
        for (guint i = 0; i < cluster->shared->len; i++) {
            const WeftShared *shared = weft_fabric_shared(subnet->fabric, cluster->shared->pdata[i]);
            for (guint k = 0; shared && shared->clusters == WEFT_MEMBER_LIMITED && k < hosts->len; k++)
                if (serves(hosts->pdata[k], shared))
                    g_hash_table_add(names, ((const WeftHost *)hosts->pdata[k])->name);
        }
    }
}

/* --- a cluster on its way into the fabric: all its partitions, then a look at its ports --- */

typedef struct Wire {
    WeftSubnet *subnet;
    guint pending;  /* partitions that the manager has not confirmed */
    GArray *wishes; /* WeftPortWish */
    GError *error;
    WeftSubnetWired callback;
    gpointer data;
} Wire;

void
weft_wire_free(gpointer data)
{
    Wire *wire = data;
    g_array_unref(wire->wishes);
    g_clear_error(&wire->error);
    g_free(wire);
}

static void
end(Wire *wire, WeftDeed deed, const GError *error)
{
    if (!wire->subnet->control->closing)
        wire->callback(deed, error, wire->data);
    g_ptr_array_remove_fast(wire->subnet->wires, wire);
}

char *
weft_subnet_name_port(const WeftSubnet *subnet, guint64 port_guid)
{
    g_autoptr(WeftRecord) record = weft_store_holder_of_guid(subnet->control->store, subnet->fabric->name, port_guid, NULL);
    g_autoptr(WeftHost) host = record && record->kind == WEFT_KIND_HOST ? weft_record_host(record, NULL) : NULL;
    for (guint i = 0; host && i < host->hcas->len; i++) {
        const WeftHca *hca = host->hcas->pdata[i];
        if (hca->port_guid == port_guid)
            return g_strdup_printf("port 0x%016" G_GINT64_MODIFIER "x of host %s (%s)", port_guid, host->name, hca->name);
    }
    return g_strdup_printf("port 0x%016" G_GINT64_MODIFIER "x", port_guid);
}

/* The first port that has not what it should; the tables are in order of the ports. */
static GError *
find_fault(const Wire *wire, const GPtrArray *tables)
{
    g_autoptr(GHashTable) by_port = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < tables->len; i++) {
        const WeftPortTable *table = tables->pdata[i];
        g_hash_table_insert(by_port, (gpointer)&table->port_guid, (gpointer)table);
    }
    for (guint i = 0; i < wire->wishes->len; i++) {
        const WeftPortWish *wish = &g_array_index(wire->wishes, WeftPortWish, i);
        const WeftPortTable *table = g_hash_table_lookup(by_port, &wish->port_guid);
        g_autofree char *fault = table ? weft_port_wish_check(wish, table) : g_strdup("was not read");
        if (!fault)
            continue;
        g_autofree char *port = weft_subnet_name_port(wire->subnet, wish->port_guid);
        return g_error_new(WEFT_ERROR, table && table->error ? WEFT_ERROR_UNAVAILABLE : WEFT_ERROR_FAILED, "%s %s", port,
                           fault);
    }
    return NULL;
}

static void
ports_read(GPtrArray *tables, const GError *error, gpointer data)
{
    Wire *wire = data;
    g_autoptr(GError) fault = tables ? find_fault(wire, tables) : NULL;
    gboolean silent = g_error_matches(fault, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    if (wire->error && !silent)
        end(wire, WEFT_DEED_WIRE, wire->error);
    else
        end(wire, WEFT_DEED_VERIFY, error ? error : fault);
}

/* A change takes long where a port does not answer: then the ports tell which. */
static gboolean
is_worth_a_look(const Wire *wire)
{
    return wire->wishes->len > 0 && (!wire->error || g_error_matches(wire->error, WEFT_ERROR, WEFT_ERROR_TIMEOUT));
}

static void
applied(const GError *error, gpointer data)
{
    Wire *wire = data;
    if (error && !wire->error)
        wire->error = g_error_copy(error);
    if (--wire->pending > 0)
        return;
    if (is_worth_a_look(wire))
        weft_ports_read(wire->subnet->ports, weft_port_wishes_ports(wire->wishes), TRUE, ports_read, wire);
    else
        end(wire, WEFT_DEED_WIRE, wire->error);
}

/* Its ports must have what they are to be in the shared one as well: those of servers are more than the cluster brings. */
static void
wish_shared(Wire *wire, const WeftPartition *shared, const WeftPartition *own)
{
    g_autoptr(WeftPartition) there = weft_partition_new(shared->pkey, shared->name);
    g_autoptr(GHashTable) ports = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < own->members->len; i++)
        g_hash_table_add(ports, &g_array_index(own->members, WeftMember, i).port_guid);
    for (guint i = 0; i < shared->members->len; i++) {
        const WeftMember *member = &g_array_index(shared->members, WeftMember, i);
        if (g_hash_table_contains(ports, &member->port_guid))
            g_array_append_val(there->members, *member);
    }
    weft_port_wishes_add(wire->wishes, there);
}

static void
wire_shared(Wire *wire, WeftSharing *sharing, const WeftWireOrder *order)
{
    g_autofree char *key = weft_cluster_key(order->cluster->tenant, order->cluster->name);
    if (!bring(sharing, key, order->cluster, order->partition))
        return;
    WeftPartition *partition = weft_sharing_partition(sharing);
    if (order->partition && g_hash_table_contains(sharing->members, key))
        wish_shared(wire, partition, order->partition);
    wire->pending++;
    weft_wiring_set(wire->subnet->wiring, partition, applied, wire);
}

static Wire *
wire_new(WeftSubnet *subnet, WeftSubnetWired callback, gpointer data)
{
    Wire *wire = g_new0(Wire, 1);
    *wire = (Wire){ .subnet = subnet, .pending = 1, .callback = callback, .data = data };
    wire->wishes = g_array_new(FALSE, FALSE, sizeof(WeftPortWish));
    g_ptr_array_add(subnet->wires, wire);
    return wire;
}

void
weft_subnets_verify(WeftSubnets *subnets, const char *fabric, const WeftPartition *partition, WeftSubnetWired callback,
                    gpointer data)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    Wire *wire = wire_new(subnet, callback, data);
    weft_port_wishes_add(wire->wishes, partition);
    weft_ports_read(subnet->ports, weft_port_wishes_ports(wire->wishes), TRUE, ports_read, wire);
}

static void
remove_own(Wire *wire, const WeftWireOrder *order)
{
    g_autofree char *name = weft_partition_name(order->cluster->id);
    weft_wiring_remove(wire->subnet->wiring, order->pkey, name, applied, wire);
}

void
weft_subnets_wire(WeftSubnets *subnets, const WeftWireOrder *order, WeftSubnetWired callback, gpointer data)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, order->fabric);
    Wire *wire = wire_new(subnet, callback, data);
    if (order->partition)
        weft_port_wishes_add(wire->wishes, order->partition);

    for (guint i = 0; i < subnet->sharings->len; i++)
        wire_shared(wire, subnet->sharings->pdata[i], order);
    if (order->partition)
        weft_wiring_set(subnet->wiring, order->partition, applied, wire);
    else
        remove_own(wire, order);
}
