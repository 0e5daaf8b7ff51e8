#include "clock.h"
#include "fabric-tables.h"
#include "subnet-private.h"

#define DEFAULT_FULL 0xffff
#define DEFAULT_NUMBER 0x7fff

/* --- what the fabric should have --- */

void
weft_subnets_expect_nothing(WeftSubnets *subnets, const char *fabric, guint pkey)
{
    g_hash_table_remove(weft_subnet_find(subnets, fabric)->expected, GUINT_TO_POINTER(pkey));
}

void
weft_subnets_expect(WeftSubnets *subnets, const char *fabric, WeftPartition *partition)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    if (subnet->driver->ops->management == WEFT_FABRIC_MANAGED)
        g_hash_table_insert(subnet->expected, GUINT_TO_POINTER(partition->pkey), partition);
    else
        weft_partition_free(partition);
}

/* Of its name, its service level and its members, in whatever order: what keeps clusters apart. */
static guint64
digest_of(const WeftPartition *partition)
{
    guint64 digest = weft_mix(weft_mix(g_str_hash(partition->name)) + partition->sl);
    for (guint i = 0; i < partition->members->len; i++) {
        const WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        digest += weft_mix(weft_mix(member->port_guid + (guint64)member->membership) + member->virtual_guid);
    }
    return digest;
}

/* --- telling of it --- */

void
weft_subnet_tell_repair(WeftSubnet *subnet, const char *what)
{
    WeftTxn *txn = weft_txn_new("partition-drifted");
    weft_txn_tell(txn, "partition-repaired", NULL, NULL, "fabric %s: %s", subnet->fabric->name, what);
    weft_control_commit_quietly(subnet->control, txn);
}

static void
repair(WeftSubnet *subnet, guint pkey, const char *what)
{
    if (!weft_subnet_may_change(subnet))
        return;
    const char *holder = weft_subnet_holder(subnet, pkey);
    WeftSharing *sharing = weft_subnet_sharing(subnet, pkey);
    g_autofree char *message =
        g_strdup_printf("partition 0x%04x of %s%s was changed by others, and is set again: %s", pkey,
                        sharing ? "all that share " : "cluster ", sharing ? sharing->shared->name : holder, what);
    weft_subnet_tell_repair(subnet, message);
    if (sharing)
        weft_subnet_share_again(subnet, sharing);
    else
        weft_control_rewire(subnet->control, holder);
}

/* --- the manager's view: looking for what no wish explains --- */

typedef struct Removal {
    WeftSubnet *subnet;
    guint pkey;
    char *name;
} Removal;

static void
garbage_removed(const GError *error, gpointer data)
{
    Removal *removal = data;
    if (error) {
        g_warning("fabric %s: partition 0x%04x (%s) of a cluster that has ended was not removed: %s",
                  removal->subnet->fabric->name, removal->pkey, removal->name, error->message);
    } else {
        WeftTxn *txn = weft_txn_new("partition-garbage-removed");
        weft_txn_tell(txn, "garbage-removed", NULL, NULL, "fabric %s: partition 0x%04x (%s), which has ended, was removed",
                      removal->subnet->fabric->name, removal->pkey, removal->name);
        weft_control_commit_quietly(removal->subnet->control, txn);
    }
    g_free(removal->name);
    g_free(removal);
}

static void
remove_garbage(WeftSubnet *subnet, const WeftPartition *partition)
{
    if (!weft_subnet_may_change(subnet))
        return;
    Removal removal = { subnet, partition->pkey, g_strdup(partition->name) };
    weft_wiring_remove(subnet->wiring, partition->pkey, partition->name, garbage_removed, g_memdup2(&removal, sizeof removal));
}

/* The first time it only becomes a suspect: what was looked at may have changed meanwhile. */
static gboolean
is_confirmed(GHashTable *before, GHashTable *suspects, guint pkey)
{
    if (g_hash_table_contains(before, GUINT_TO_POINTER(pkey)))
        return TRUE;
    g_hash_table_add(suspects, GUINT_TO_POINTER(pkey));
    return FALSE;
}

/* Why a partition with one of weft's numbers is left as it is. */
typedef struct Respect {
    const char *holder; /* who has its number from now on */
    const char *event;
    const char *why;
} Respect;

/* It is told once, and its number is given to no cluster. A cluster that has the number gets another one, and its nodes are
 * started again: that needs a second look. */
static void
respect(WeftSubnet *subnet, GHashTable *suspects, const WeftPartition *partition, const Respect *as)
{
    g_autofree char *holder = g_strdup(weft_subnet_holder(subnet, partition->pkey));
    if (!weft_subnet_may_write(subnet, partition->pkey) || (holder && !weft_holder_is_cluster(holder)) ||
        (holder && !is_confirmed(subnet->suspects, suspects, partition->pkey)))
        return;
    weft_subnet_hold(subnet, partition->pkey, as->holder, partition->name);
    WeftTxn *txn = weft_txn_new("partition-foreign-seen");
    weft_txn_tell(txn, as->event, NULL, NULL, "fabric %s: partition 0x%04x (%s) %s", subnet->fabric->name, partition->pkey,
                  partition->name, as->why);
    weft_control_commit_quietly(subnet->control, txn);
    if (holder)
        weft_control_pkey_taken(subnet->control, holder);
}

/* The store ended its cluster, but may not have known all of its nodes: one is held, or a port is of a host that has not said
 * yet what is there. Where the number itself rests, the partition was removed once, or an operator has released it. */
static gboolean
is_in_use(const WeftSubnet *subnet, const WeftPartition *partition)
{
    const char *cluster = weft_partition_cluster(partition->name);
    if (!cluster || g_strcmp0(weft_subnet_rested_name(subnet, partition->pkey), partition->name) == 0)
        return FALSE;
    return weft_hosts_hold_cluster(subnet->control->hosts, cluster) ||
           g_hash_table_contains(subnet->strangers, GUINT_TO_POINTER(partition->pkey)) ||
           weft_subnet_inherits(subnet, partition->name);
}

/* It carries weft's mark, and no cluster of this store explains it. Without a record that it has ended it may be in use: by
 * clusters of another site, or of this one that an older store does not know. */
static void
look_at_unexplained(WeftSubnet *subnet, GHashTable *suspects, const WeftPartition *partition)
{
    static const Respect held = {
        WEFT_HELD_UNPROVED, "partition-held",
        "carries weft's mark, but no record says that it has ended; it is left alone: weft fabric release"
    };
    static const Respect in_use = {
        WEFT_HELD_UNPROVED, "partition-held",
        "is of a cluster that has ended, but a node of it is held, or may be on a host that has not answered; it is left alone"
    };
    if (!weft_subnet_has_ended(subnet, partition))
        respect(subnet, suspects, partition, &held);
    else if (is_in_use(subnet, partition)) {
        if (weft_hosts_are_looked_at(subnet->control->hosts))
            respect(subnet, suspects, partition, &in_use);
    } else if (is_confirmed(subnet->suspects, suspects, partition->pkey))
        remove_garbage(subnet, partition);
}

/* Of a cluster that is wired, or of a shared one: somebody else changed it, or an older manager took over. */
static gboolean
is_altered(const WeftSubnet *subnet, const WeftPartition *partition)
{
    const WeftSharing *sharing = weft_subnet_sharing(subnet, partition->pkey);
    g_autoptr(WeftPartition) shared = sharing ? weft_sharing_partition(sharing) : NULL;
    const WeftPartition *expected = g_hash_table_lookup(subnet->expected, GUINT_TO_POINTER(partition->pkey));
    const char *cluster = weft_partition_cluster(partition->name);
    if (shared)
        return digest_of(shared) != digest_of(partition);
    /* Members that this store does not know of may be nodes that are held. */
    if (cluster &&
        (weft_hosts_hold_cluster(subnet->control->hosts, cluster) || weft_subnet_has_stranger(subnet, partition->pkey)))
        return FALSE;
    return expected && digest_of(expected) != digest_of(partition);
}

static void
look_at_partition(WeftSubnet *subnet, GHashTable *suspects, const WeftPartition *partition)
{
    static const Respect foreign = { WEFT_HELD_BY_SITE, "foreign-partition",
                                     "lies in weft's range and is not weft's; its number is left alone" };
    if (!weft_partition_is_ours(partition->name))
        respect(subnet, suspects, partition, &foreign);
    else if (!weft_subnet_may_write(subnet, partition->pkey))
        g_ptr_array_add(subnet->outside, g_strdup_printf("partition 0x%04x (%s)", partition->pkey, partition->name));
    else if (g_strcmp0(weft_subnet_held_name(subnet, partition->pkey), partition->name) != 0 ||
             weft_holder_is_foreign(weft_subnet_holder(subnet, partition->pkey)))
        look_at_unexplained(subnet, suspects, partition);
    else if (is_altered(subnet, partition) && is_confirmed(subnet->suspects, suspects, partition->pkey))
        repair(subnet, partition->pkey, "it had other members in the manager");
}

/* A cluster that is wired, and the manager has not its partition. */
static void
look_for_missing(WeftSubnet *subnet, GHashTable *suspects, GHashTable *present)
{
    g_autoptr(GArray) missing = g_array_new(FALSE, FALSE, sizeof(guint));
    GHashTableIter iter;
    gpointer pkey, hold;
    g_hash_table_iter_init(&iter, subnet->pkeys);
    while (g_hash_table_iter_next(&iter, &pkey, &hold))
        if (weft_holder_is_cluster(((const WeftPkeyHold *)hold)->holder) && !g_hash_table_contains(present, pkey) &&
            g_hash_table_contains(subnet->expected, pkey) && is_confirmed(subnet->suspects, suspects, GPOINTER_TO_UINT(pkey)))
            g_array_append_val(missing, (guint){ GPOINTER_TO_UINT(pkey) });
    for (guint i = 0; i < missing->len; i++)
        repair(subnet, g_array_index(missing, guint, i), "the manager had none of it");
    for (guint i = 0; i < subnet->sharings->len; i++) {
        const WeftSharing *sharing = subnet->sharings->pdata[i];
        if (!g_hash_table_contains(present, GUINT_TO_POINTER(sharing->shared->pkey)))
            weft_subnet_share_again(subnet, sharing);
    }
}

/* A number that others have given up is free again, after its rest. */
static void
forget_foreign(WeftSubnet *subnet, GHashTable *present)
{
    GHashTableIter iter;
    gpointer pkey, hold;
    gboolean any = FALSE;
    g_hash_table_iter_init(&iter, subnet->pkeys);
    while (g_hash_table_iter_next(&iter, &pkey, &hold)) {
        if (!weft_holder_is_foreign(((const WeftPkeyHold *)hold)->holder) || g_hash_table_contains(present, pkey))
            continue;
        g_hash_table_iter_remove(&iter);
        weft_subnet_rest(subnet, GPOINTER_TO_UINT(pkey), NULL, NULL, weft_clock_now());
        any = TRUE;
    }
    if (any)
        weft_control_room_changed(subnet->control);
}

/* They take places in the tables of ports, wherever their numbers lie. */
static void
count_foreign(WeftSubnet *subnet, const GPtrArray *partitions)
{
    guint n = 0;
    for (guint i = 0; i < partitions->len; i++) {
        const WeftPartition *partition = partitions->pdata[i];
        n += !weft_partition_is_ours(partition->name) && partition->pkey != DEFAULT_NUMBER;
    }
    if (n == subnet->foreign)
        return;
    subnet->foreign = n;
    weft_subnet_tell_fleet(subnet);
}

static void
look_at_partitions(WeftSubnet *subnet, const GPtrArray *partitions)
{
    GHashTable *suspects = g_hash_table_new(NULL, NULL), *present = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    gboolean first = !subnet->surveyed, strangers = g_hash_table_size(subnet->strangers) > 0;
    g_ptr_array_set_size(subnet->outside, 0);
    weft_subnet_look_for_strangers(subnet, partitions);
    weft_subnet_look_for_inherited(subnet, partitions);
    for (guint i = 0; i < partitions->len; i++) {
        const WeftPartition *partition = partitions->pdata[i];
        g_hash_table_insert(present, GUINT_TO_POINTER(partition->pkey), g_strdup(partition->name));
        look_at_partition(subnet, suspects, partition);
    }
    look_for_missing(subnet, suspects, present);
    forget_foreign(subnet, present);
    count_foreign(subnet, partitions);
    subnet->surveyed = TRUE;
    g_hash_table_unref(subnet->present);
    subnet->present = present;
    if (first)
        weft_control_room_changed(subnet->control);
    if (first || strangers)
        weft_hosts_wake_waiting(subnet->control->hosts);
    g_hash_table_unref(subnet->suspects);
    subnet->suspects = suspects;
}

static void
surveyed(const char *fabric, GPtrArray *partitions, const GError *error, gpointer data)
{
    WeftSubnet *subnet = data;
    subnet->surveying = FALSE;
    g_free(subnet->trouble);
    subnet->trouble = error ? g_strdup(error->message) : NULL;
    if (error)
        g_warning("fabric %s cannot be looked at: %s", fabric, error->message);
    else
        look_at_partitions(subnet, partitions);
    if (subnet->survey_again || (!error && g_hash_table_size(subnet->suspects) > 0))
        weft_subnet_survey(subnet);
}

void
weft_subnet_survey(WeftSubnet *subnet)
{
    subnet->survey_again = subnet->surveying;
    if (subnet->surveying)
        return;
    subnet->surveying = TRUE;
    weft_wiring_survey(subnet->wiring, surveyed, subnet);
}

/* --- the ports' own view --- */

/* Of clusters that are wired: what is being changed is looked at by whoever changes it. And of what they share. */
static GArray *
list_wishes(const WeftSubnet *subnet)
{
    GArray *wishes = g_array_new(FALSE, FALSE, sizeof(WeftPortWish));
    GHashTableIter iter;
    gpointer pkey, partition;
    g_hash_table_iter_init(&iter, subnet->expected);
    while (g_hash_table_iter_next(&iter, &pkey, &partition))
        if (weft_holder_is_cluster(weft_subnet_holder(subnet, GPOINTER_TO_UINT(pkey))))
            weft_port_wishes_add(wishes, partition);
    for (guint i = 0; i < subnet->sharings->len; i++) {
        g_autoptr(WeftPartition) shared = weft_sharing_partition(subnet->sharings->pdata[i]);
        weft_port_wishes_add(wishes, shared);
    }
    return wishes;
}

static void
note_port(GPtrArray *list, const WeftSubnet *subnet, const WeftPortTable *table, const char *what)
{
    g_autofree char *port = weft_subnet_name_port(subnet, table->port_guid);
    g_ptr_array_add(list, g_strconcat(port, what ? " " : "", what, NULL));
}

static void
note_tables(WeftSubnet *subnet, GHashTable *by_port, const GPtrArray *tables)
{
    g_ptr_array_set_size(subnet->silent, 0);
    g_ptr_array_set_size(subnet->open, 0);
    for (guint i = 0; i < tables->len; i++) {
        const WeftPortTable *table = tables->pdata[i];
        if (!g_hash_table_contains(by_port, &table->port_guid))
            continue;
        if (table->error)
            note_port(subnet->silent, subnet, table, table->error);
        for (guint k = 0; k < table->pkeys->len; k++)
            if (g_array_index(table->pkeys, guint16, k) == DEFAULT_FULL)
                note_port(subnet->open, subnet, table, NULL);
    }
}

/* A port that does not answer is not repaired by telling the manager again: it is looked at when it comes back. */
static void
look_at_ports(WeftSubnet *subnet, const GArray *wishes, const GPtrArray *tables, GHashTable *suspects)
{
    g_autoptr(GHashTable) by_port = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_autoptr(GHashTable) done = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < tables->len; i++)
        g_hash_table_insert(by_port, &((WeftPortTable *)tables->pdata[i])->port_guid, tables->pdata[i]);
    for (guint i = 0; i < wishes->len; i++) {
        const WeftPortWish *wish = &g_array_index(wishes, WeftPortWish, i);
        const WeftPortTable *table = g_hash_table_lookup(by_port, &wish->port_guid);
        g_autofree char *fault = table && !table->error ? weft_port_wish_check(wish, table) : NULL;
        if (!fault || !is_confirmed(subnet->port_suspects, suspects, wish->pkey) ||
            !g_hash_table_add(done, GUINT_TO_POINTER(wish->pkey)))
            continue;
        g_autofree char *port = weft_subnet_name_port(subnet, wish->port_guid);
        g_autofree char *what = g_strdup_printf("%s %s", port, fault);
        repair(subnet, wish->pkey, what);
    }
}

static void
patrolled(GPtrArray *tables, const GError *error, gpointer data)
{
    WeftSubnet *subnet = data;
    GHashTable *suspects = g_hash_table_new(NULL, NULL);
    g_autoptr(GArray) wishes = list_wishes(subnet);
    g_autoptr(GHashTable) by_port = weft_port_wishes_by_port(wishes);
    gboolean unsure = FALSE;
    subnet->patrolling = FALSE;
    if (tables) {
        note_tables(subnet, by_port, tables);
        look_at_ports(subnet, wishes, tables, suspects);
        unsure = weft_subnet_look_for_surplus(subnet, by_port, tables);
    } else {
        subnet->patrolled = 0;
        g_warning("fabric %s: its ports cannot be read: %s", subnet->fabric->name, error->message);
    }
    unsure |= g_hash_table_size(suspects) > 0;
    g_hash_table_unref(subnet->port_suspects);
    subnet->port_suspects = suspects;
    if (subnet->patrol_again || unsure)
        weft_subnet_patrol(subnet);
}

static gboolean
has_clusters(const WeftSubnet *subnet)
{
    GHashTableIter iter;
    gpointer hold;
    g_hash_table_iter_init(&iter, subnet->pkeys);
    while (g_hash_table_iter_next(&iter, NULL, &hold))
        if (weft_holder_is_cluster(((const WeftPkeyHold *)hold)->holder))
            return TRUE;
    return FALSE;
}

/* Also of hosts without a cluster: they may hold what they should not. */
void
weft_subnet_patrol(WeftSubnet *subnet)
{
    subnet->patrol_again = subnet->patrolling;
    if (subnet->patrolling)
        return;
    g_autoptr(GArray) wishes = list_wishes(subnet);
    g_autoptr(GPtrArray) hosts = weft_fleet_hosts(subnet->control->fleet, subnet->fabric->name);
    g_autoptr(GArray) ports = weft_tables_ports(hosts, wishes);
    /* After a start it is not known yet how they should be, and a patrol that looks for nothing would put off the next. */
    if (ports->len == 0 || (wishes->len == 0 && has_clusters(subnet)))
        return;
    subnet->patrolled = g_get_monotonic_time();
    subnet->patrolling = TRUE;
    weft_ports_read(subnet->ports, g_steal_pointer(&ports), FALSE, patrolled, subnet);
}
