/* Ports of no described host in weft's partitions, while the store may be older than the site: it was restored, or a host was
 * taken that knew a later one. They may be of hosts that were added since, with nodes that this store does not know. What is
 * there before this weftd may change anything is left as it is, until the host is described or an operator releases it; what
 * comes later is a stranger's, and is repaired. The doubt ends by itself once no such port is left. */
#include "doctor.h"
#include "site-record.h"
#include "subnet-private.h"

typedef struct Inherited {
    guint pkey;
    GArray *members; /* WeftMember */
    gboolean told;
} Inherited;

static void
inherited_free(gpointer data)
{
    Inherited *inherited = data;
    g_array_unref(inherited->members);
    g_free(inherited);
}

GHashTable *
weft_subnet_inherited_new(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, inherited_free);
}

gboolean
weft_subnet_inherits(const WeftSubnet *subnet, const char *name)
{
    return subnet->control->subnets->aged && name && (!subnet->took_stock || g_hash_table_contains(subnet->inherited, name));
}

static const Inherited *
find(const WeftSubnet *subnet, const char *name)
{
    return subnet->control->subnets->aged && name ? g_hash_table_lookup(subnet->inherited, name) : NULL;
}

gboolean
weft_subnet_is_inherited(const WeftSubnet *subnet, const char *name)
{
    return find(subnet, name) != NULL;
}

/* Of no host: there is nothing more to tell of it, and there may be thousands. */
char *
weft_subnet_inherited_port(const WeftSubnet *subnet, const char *name)
{
    const Inherited *inherited = find(subnet, name);
    return inherited ? g_strdup_printf("port 0x%016" G_GINT64_MODIFIER "x",
                                       g_array_index(inherited->members, WeftMember, 0).port_guid)
                     : NULL;
}

/* A fabric without a named manager never answers, and takes no nodes: whoever is on another one is not there. */
static gboolean
is_asked(const WeftSubnet *subnet, const char *fabric)
{
    return subnet->driver->ops->management != WEFT_FABRIC_UNNAMED || !fabric || g_str_equal(subnet->fabric->name, fabric);
}

gboolean
weft_subnets_may_hide(const WeftSubnets *subnets, const char *cluster_id, const char *fabric)
{
    g_autofree char *name = subnets->aged ? weft_partition_name(cluster_id) : NULL;
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (name && g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftSubnet *subnet = value;
        if (is_asked(subnet, fabric) && (!subnet->counted || g_hash_table_contains(subnet->inherited, name)))
            return TRUE;
    }
    return FALSE;
}

/* --- telling of them --- */

static void
tell(const WeftSubnet *subnet, const char *name, Inherited *inherited)
{
    g_autofree char *port = weft_subnet_inherited_port(subnet, name);
    inherited->told = TRUE;
    WeftTxn *txn = weft_txn_new("partition-inherited");
    weft_txn_tell(
        txn, "partition-held", NULL, NULL,
        "fabric %s: %s is in partition 0x%04x (%s) and of no host that this store knows, which is older than the site; "
        "the partition is left alone: add the host, or weft fabric release %s 0x%04x",
        subnet->fabric->name, port, inherited->pkey, name, subnet->fabric->name, inherited->pkey);
    weft_control_commit_quietly(subnet->control, txn);
}

void
weft_subnet_examine_inherited(const WeftSubnet *subnet, const char *check, json_t *checks)
{
    GHashTableIter iter;
    gpointer name, value;
    g_hash_table_iter_init(&iter, subnet->inherited);
    while (subnet->control->subnets->aged && g_hash_table_iter_next(&iter, &name, &value)) {
        const Inherited *inherited = value;
        g_autofree char *port = weft_subnet_inherited_port(subnet, name);
        g_autofree char *remedy = g_strdup_printf("add its host; if it is none of this site's: weft fabric release %s 0x%04x",
                                                  subnet->fabric->name, inherited->pkey);
        weft_doctor_add(
            checks, check, WEFT_HEALTH_WARN, remedy,
            "%s is in partition 0x%04x (%s) and of no host that this store knows, which is older than the site; the "
            "partition is left alone",
            port, inherited->pkey, (const char *)name);
    }
}

/* --- looking for them --- */

static gboolean
is_server(const WeftSharing *sharing, guint64 port_guid)
{
    for (guint i = 0; sharing && i < sharing->shared->servers->len; i++)
        if (g_array_index(sharing->shared->servers, guint64, i) == port_guid)
            return TRUE;
    return FALSE;
}

static GHashTable *
ports_of(const Inherited *inherited)
{
    GHashTable *ports = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; inherited && i < inherited->members->len; i++)
        g_hash_table_add(ports, &g_array_index(inherited->members, WeftMember, i).port_guid);
    return ports;
}

/* ports: of described hosts. Where stock was taken, nothing is added to what the last survey found. */
static void
collect(const WeftSubnet *subnet, const WeftPartition *partition, GHashTable *ports, GHashTable *found)
{
    const Inherited *before = g_hash_table_lookup(subnet->inherited, partition->name);
    const WeftSharing *sharing = weft_subnet_sharing(subnet, partition->pkey);
    g_autoptr(GHashTable) had = ports_of(before);
    Inherited now = { .pkey = partition->pkey, .told = before && before->told };
    for (guint i = 0; i < partition->members->len; i++) {
        const WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        if (g_hash_table_contains(ports, &member->port_guid) || is_server(sharing, member->port_guid) ||
            (subnet->took_stock && !g_hash_table_contains(had, &member->port_guid)))
            continue;
        if (!now.members)
            now.members = g_array_new(FALSE, FALSE, sizeof(WeftMember));
        g_array_append_val(now.members, *member);
    }
    if (now.members)
        g_hash_table_replace(found, g_strdup(partition->name), g_memdup2(&now, sizeof now));
}

static void
keep_shared(WeftSubnet *subnet)
{
    for (guint i = 0; i < subnet->sharings->len; i++) {
        WeftSharing *sharing = subnet->sharings->pdata[i];
        const char *name = weft_subnet_held_name(subnet, sharing->shared->pkey);
        const Inherited *inherited = name ? g_hash_table_lookup(subnet->inherited, name) : NULL;
        if (inherited)
            g_array_append_vals(sharing->strangers, inherited->members->data, inherited->members->len);
    }
}

/* No port is in doubt on any fabric: this store knows all that there is. */
static gboolean
is_over(const WeftSubnets *subnets)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftSubnet *subnet = value;
        if (!subnet->took_stock || g_hash_table_size(subnet->inherited) > 0)
            return FALSE;
    }
    return TRUE;
}

static void
act_on(WeftSubnet *subnet, gboolean changed)
{
    WeftSubnets *subnets = subnet->control->subnets;
    GHashTableIter iter;
    gpointer name, value;
    keep_shared(subnet);
    g_hash_table_iter_init(&iter, subnet->inherited);
    while (g_hash_table_iter_next(&iter, &name, &value))
        if (!((const Inherited *)value)->told)
            tell(subnet, name, value);
    if (is_over(subnets)) {
        WeftTxn *txn = weft_txn_new("store-trusted");
        subnets->aged = FALSE;
        weft_txn_forget_aged(txn);
        weft_control_commit_quietly(subnet->control, txn);
    }
    if (changed)
        weft_hosts_wake_doubtful(subnet->control->hosts);
}

void
weft_subnet_look_for_inherited(WeftSubnet *subnet, const GPtrArray *partitions)
{
    guint before = g_hash_table_size(subnet->inherited);
    gboolean took_stock = subnet->took_stock, counted = subnet->counted;
    if (!took_stock || before > 0) {
        GHashTable *found = weft_subnet_inherited_new();
        g_autoptr(GHashTable) ports = weft_hosts_ports(subnet->control->hosts, subnet->fabric->name);
        for (guint i = 0; i < partitions->len; i++) {
            const WeftPartition *partition = partitions->pdata[i];
            if (weft_partition_is_ours(partition->name) && weft_subnet_may_write(subnet, partition->pkey) &&
                !g_hash_table_contains(subnet->released, partition->name))
                collect(subnet, partition, ports, found);
        }
        g_hash_table_unref(subnet->inherited);
        subnet->inherited = found;
        subnet->counted = TRUE;
        subnet->took_stock |= weft_subnet_may_change(subnet);
    }
    if (subnet->control->subnets->aged)
        act_on(subnet, took_stock != subnet->took_stock || counted != subnet->counted ||
                           before != g_hash_table_size(subnet->inherited));
}

/* --- the doubt --- */

void
weft_subnets_take_stock(WeftSubnets *subnets)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (subnets->aged && g_hash_table_iter_next(&iter, NULL, &value))
        if (!((const WeftSubnet *)value)->took_stock)
            weft_subnet_survey(value);
}

void
weft_subnets_doubt_store(WeftSubnets *subnets, WeftTxn *txn)
{
    GHashTableIter iter;
    gpointer value;
    weft_txn_set_aged(txn);
    subnets->aged = TRUE;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        WeftSubnet *subnet = value;
        subnet->took_stock = subnet->counted = FALSE;
    }
    weft_subnets_take_stock(subnets);
}

/* The word is needed no longer than this run: the ports are removed at once. */
void
weft_subnets_release_asked(WeftSubnets *subnets, const char *key)
{
    g_auto(GStrv) words = g_strsplit(key, "/", 3); /* the prefix, fabric and name */
    WeftSubnet *subnet = g_strv_length(words) == 3 ? weft_subnet_find(subnets, words[1]) : NULL;
    if (subnet) {
        g_hash_table_add(subnet->released, g_strdup(words[2]));
        weft_subnet_survey(subnet);
    }
    WeftTxn *txn = weft_txn_new("release-heard");
    weft_txn_delete(txn, WEFT_KIND_META, key, WEFT_ANY);
    weft_control_commit_quietly(subnets->control, txn);
}
