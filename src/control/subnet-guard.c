/* Whether partitions may be changed at all. A store that is a copy, or an older one, knows clusters worse than the weftd that
 * runs them, and the fabric has no place for a record of whose it is: hosts say it. */
#include "doctor.h"
#include "errors.h"
#include "subnet-private.h"

/* --- ports in a partition that this store may be too old to know of --- */

static void
note_strangers(WeftSubnet *subnet, const WeftPartition *partition, GHashTable *unknown_ports)
{
    WeftSharing *sharing = weft_subnet_sharing(subnet, partition->pkey);
    const char *cluster = weft_partition_cluster(partition->name);
    for (guint i = 0; (sharing || cluster) && i < partition->members->len; i++) {
        const WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        const char *host = weft_hosts_stranger(unknown_ports, member->port_guid, sharing ? NULL : cluster);
        if (host && sharing)
            g_array_append_val(sharing->strangers, *member);
        else if (host)
            g_hash_table_replace(subnet->strangers, GUINT_TO_POINTER(partition->pkey), g_strdup(host));
    }
}

void
weft_subnet_look_for_strangers(WeftSubnet *subnet, const GPtrArray *partitions)
{
    g_autoptr(GHashTable) unknown_ports = weft_hosts_unknown_ports(subnet->control->hosts, subnet->fabric->name);
    g_hash_table_remove_all(subnet->strangers);
    for (guint i = 0; i < subnet->sharings->len; i++)
        g_array_set_size(((WeftSharing *)subnet->sharings->pdata[i])->strangers, 0);
    for (guint i = 0; g_hash_table_size(unknown_ports) > 0 && i < partitions->len; i++)
        note_strangers(subnet, partitions->pdata[i], unknown_ports);
}

/* Until its partitions were seen, each host that has not answered may have a port in one. */
gboolean
weft_subnet_has_stranger(const WeftSubnet *subnet, guint pkey)
{
    if (weft_subnet_inherits(subnet, weft_subnet_held_name(subnet, pkey)))
        return TRUE;
    if (subnet->surveyed)
        return g_hash_table_contains(subnet->strangers, GUINT_TO_POINTER(pkey));
    g_autoptr(GHashTable) unknown_ports = weft_hosts_unknown_ports(subnet->control->hosts, subnet->fabric->name);
    return g_hash_table_size(unknown_ports) > 0;
}

/* --- may it be changed? --- */

gboolean
weft_subnet_may_change(const WeftSubnet *subnet)
{
    return weft_hosts_may_wire(subnet->control->hosts, subnet->fabric->name);
}

gboolean
weft_subnets_may_wire(const WeftSubnets *subnets, const char *fabric, guint pkey, const char *cluster_id)
{
    const WeftHosts *hosts = subnets->control->hosts;
    const WeftSubnet *subnet = fabric ? weft_subnet_find(subnets, fabric) : NULL;
    return !weft_hosts_hold_cluster(hosts, cluster_id) &&
           (!subnet || (weft_hosts_may_wire(hosts, fabric) && !weft_subnet_has_stranger(subnet, pkey)));
}

char *
weft_subnets_why_not_wire(const WeftSubnets *subnets, const char *fabric, guint pkey)
{
    const WeftSubnet *subnet = fabric ? weft_subnet_find(subnets, fabric) : NULL;
    char *why = subnet ? weft_hosts_why_not_wire(subnets->control->hosts, fabric) : NULL;
    const char *host = subnet && !why ? g_hash_table_lookup(subnet->strangers, GUINT_TO_POINTER(pkey)) : NULL;
    if (subnet && !why && subnet->trouble && weft_subnet_has_stranger(subnet, pkey))
        return g_strdup("the subnet manager cannot be reached");
    g_autofree char *port =
        subnet && !why && !host ? weft_subnet_inherited_port(subnet, weft_subnet_held_name(subnet, pkey)) : NULL;
    if (port)
        return g_strdup_printf("%s is in its partition and of no host that this store knows, which is older than the site; the "
                               "partition is left as it is: add the host, or weft fabric release %s 0x%04x",
                               port, fabric, pkey);
    if (!host)
        return why;
    return g_strdup_printf(
        "a port of host %s is in its partition and no node of it there is known; until that host answers and is "
        "not held, or is removed, the partition is left as it is",
        host);
}

/* --- the last gate, for whoever has not asked before --- */

static gboolean
guard(gpointer data, GError **error)
{
    const WeftSubnet *subnet = data;
    if (weft_subnet_may_change(subnet))
        return TRUE;
    g_autofree char *why = weft_hosts_why_not_wire(subnet->control->hosts, subnet->fabric->name);
    return weft_error_refuse(error, WEFT_ERROR_BUSY, "fabric %s: %s", subnet->fabric->name,
                             why ? why : "its hosts have not said yet whose they are");
}

static void
overtaken(gpointer data)
{
    const WeftSubnet *subnet = data;
    weft_hosts_doubt_owner(subnet->control->hosts, subnet->fabric->name);
}

void
weft_subnet_guard(WeftSubnet *subnet)
{
    weft_wiring_guard(subnet->wiring, guard, overtaken, subnet);
}

void
weft_subnet_examine_guard(const WeftSubnet *subnet, const char *check, json_t *checks)
{
    g_autofree char *why = weft_hosts_why_not_wire(subnet->control->hosts, subnet->fabric->name);
    if (why)
        weft_doctor_add(
            checks, check, WEFT_HEALTH_FAIL,
            "stop the other weftd, or use the right store; then weft site take; look after hosts that do not answer", "%s",
            why);
}
