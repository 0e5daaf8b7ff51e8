#include "control-private.h"
#include "doctor.h"
#include "errors.h"

/* A fabric as the reconciler works on it. */
typedef struct Subnet {
    WeftControl *control;
    WeftFabric *fabric;
    WeftWiring *wiring;
    WeftFabricDriver *driver;
    char *trouble;        /* why it could not be looked at the last time; NULL: it could */
    GHashTable *pkeys;    /* number to the key of the cluster that holds it; "" is the site's own */
    GHashTable *expected; /* number to a digest of its partition, of clusters that have rested since the start */
    GHashTable *suspects; /* numbers that looked wrong in the last survey: a second look decides */
    guint next;           /* numbers are given in turn, so that a freed one rests */
} Subnet;

struct WeftSubnets {
    WeftControl *control;
    GHashTable *by_name; /* Subnet */
    guint timer;
};

static void
subnet_free(gpointer data)
{
    Subnet *subnet = data;
    weft_wiring_free(subnet->wiring);
    g_hash_table_unref(subnet->pkeys);
    g_hash_table_unref(subnet->expected);
    g_hash_table_unref(subnet->suspects);
    weft_fabric_free(subnet->fabric);
    g_free(subnet->trouble);
    g_free(subnet);
}

static Subnet *
find(const WeftSubnets *subnets, const char *name)
{
    return g_hash_table_lookup(subnets->by_name, name);
}

const WeftFabric *
weft_subnets_fabric(const WeftSubnets *subnets, const char *name)
{
    return find(subnets, name)->fabric;
}

WeftWiring *
weft_subnets_wiring(const WeftSubnets *subnets, const char *name)
{
    return find(subnets, name)->wiring;
}

WeftFabricDriver *
weft_subnets_driver(const WeftSubnets *subnets, const char *name)
{
    const Subnet *subnet = find(subnets, name);
    return subnet ? subnet->driver : NULL;
}

/* --- partition numbers --- */

static void
hold(Subnet *subnet, guint pkey, const char *owner)
{
    g_hash_table_insert(subnet->pkeys, GUINT_TO_POINTER(pkey), g_strdup(owner));
}

guint
weft_subnets_take_pkey(WeftSubnets *subnets, const char *fabric, const char *cluster_key)
{
    Subnet *subnet = find(subnets, fabric);
    guint first = subnet->fabric->pkey_first, n = subnet->fabric->pkey_last - first + 1;
    for (guint i = 0; i < n; i++) {
        guint pkey = first + (subnet->next + i) % n;
        if (g_hash_table_contains(subnet->pkeys, GUINT_TO_POINTER(pkey)))
            continue;
        subnet->next = (pkey - first + 1) % n;
        hold(subnet, pkey, cluster_key);
        return pkey;
    }
    return 0;
}

void
weft_subnets_give_pkey(WeftSubnets *subnets, const char *fabric, guint pkey)
{
    Subnet *subnet = pkey ? find(subnets, fabric) : NULL;
    if (!subnet)
        return;
    g_hash_table_remove(subnet->pkeys, GUINT_TO_POINTER(pkey));
    g_hash_table_remove(subnet->expected, GUINT_TO_POINTER(pkey));
}

const char *
weft_subnets_holder(const WeftSubnets *subnets, guint vxlan)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const Subnet *subnet = value;
        guint pkey = vxlan - subnet->fabric->vxlan_base;
        if (vxlan > subnet->fabric->vxlan_base && pkey <= subnet->fabric->pkey_last)
            return g_hash_table_lookup(subnet->pkeys, GUINT_TO_POINTER(pkey));
    }
    return NULL;
}

gboolean
weft_subnets_is_foreign(const WeftSubnets *subnets, const char *fabric, guint pkey)
{
    return g_strcmp0(g_hash_table_lookup(find(subnets, fabric)->pkeys, GUINT_TO_POINTER(pkey)), "") == 0;
}

/* --- what the fabric should have --- */

/* Of its name and its members' GUIDs, in whatever order: what keeps clusters apart. Members themselves would take memory. */
static guint64
digest_of(const WeftPartition *partition)
{
    guint64 digest = weft_mix(g_str_hash(partition->name));
    for (guint i = 0; i < partition->members->len; i++) {
        const WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        digest += weft_mix(weft_mix(member->port_guid) + member->virtual_guid);
    }
    return digest;
}

void
weft_subnets_expect(WeftSubnets *subnets, const char *fabric, const WeftPartition *partition)
{
    guint64 digest = digest_of(partition);
    g_hash_table_insert(find(subnets, fabric)->expected, GUINT_TO_POINTER(partition->pkey), g_memdup2(&digest, sizeof digest));
}

/* --- looking for what no wish explains --- */

typedef struct Removal {
    Subnet *subnet;
    guint pkey;
    char *name;
} Removal;

static void
garbage_removed(const GError *error, gpointer data)
{
    Removal *removal = data;
    if (error) {
        g_warning("fabric %s: partition 0x%04x (%s) that no cluster explains was not removed: %s",
                  removal->subnet->fabric->name, removal->pkey, removal->name, error->message);
    } else {
        WeftTxn *txn = weft_txn_new("partition-garbage-removed");
        weft_txn_tell(txn, "garbage-removed", NULL, NULL,
                      "fabric %s: partition 0x%04x (%s) that no cluster explains was removed", removal->subnet->fabric->name,
                      removal->pkey, removal->name);
        weft_control_commit_quietly(removal->subnet->control, txn);
    }
    g_free(removal->name);
    g_free(removal);
}

static void
remove_garbage(Subnet *subnet, const WeftPartition *partition)
{
    Removal removal = { subnet, partition->pkey, g_strdup(partition->name) };
    weft_wiring_remove(subnet->wiring, partition->pkey, garbage_removed, g_memdup2(&removal, sizeof removal));
}

/* The site's own: told once, and its number is never given to a cluster. */
static void
respect_foreign(Subnet *subnet, const WeftPartition *partition)
{
    hold(subnet, partition->pkey, "");
    WeftTxn *txn = weft_txn_new("partition-foreign-seen");
    weft_txn_tell(txn, "foreign-partition", NULL, NULL,
                  "fabric %s: partition 0x%04x (%s) lies in weft's range and is not weft's; its number is left alone",
                  subnet->fabric->name, partition->pkey, partition->name);
    weft_control_commit_quietly(subnet->control, txn);
}

static gboolean
is_in_range(const Subnet *subnet, guint pkey)
{
    return pkey >= subnet->fabric->pkey_first && pkey <= subnet->fabric->pkey_last;
}

/* The first time it only becomes a suspect: what was looked at may have changed meanwhile. */
static gboolean
is_confirmed(Subnet *subnet, GHashTable *suspects, guint pkey)
{
    g_hash_table_add(suspects, GUINT_TO_POINTER(pkey));
    return g_hash_table_contains(subnet->suspects, GUINT_TO_POINTER(pkey));
}

static void
look_at_foreign(Subnet *subnet, const WeftPartition *partition)
{
    g_autofree char *owner = g_strdup(g_hash_table_lookup(subnet->pkeys, GUINT_TO_POINTER(partition->pkey)));
    if (!is_in_range(subnet, partition->pkey) || g_strcmp0(owner, "") == 0)
        return;
    respect_foreign(subnet, partition);
    if (owner)
        weft_control_pkey_taken(subnet->control, owner);
}

/* Of a cluster at rest: somebody else changed it, or an older manager took over. */
static gboolean
is_altered(const Subnet *subnet, const WeftPartition *partition, const char *owner)
{
    const guint64 *expected = g_hash_table_lookup(subnet->expected, GUINT_TO_POINTER(partition->pkey));
    return expected && *expected != digest_of(partition) && !weft_control_is_working(subnet->control, owner);
}

static void
look_at_partition(Subnet *subnet, GHashTable *suspects, const WeftPartition *partition)
{
    const char *owner = g_hash_table_lookup(subnet->pkeys, GUINT_TO_POINTER(partition->pkey));
    if (!weft_partition_is_ours(partition->name))
        look_at_foreign(subnet, partition);
    else if (!owner && is_confirmed(subnet, suspects, partition->pkey))
        remove_garbage(subnet, partition);
    else if (owner && *owner && is_altered(subnet, partition, owner) && is_confirmed(subnet, suspects, partition->pkey))
        weft_control_rewire(subnet->control, owner);
}

/* A cluster at rest whose partition the manager does not have. */
static void
look_for_missing(Subnet *subnet, GHashTable *suspects, GHashTable *present)
{
    GHashTableIter iter;
    gpointer pkey, key;
    g_hash_table_iter_init(&iter, subnet->pkeys);
    while (g_hash_table_iter_next(&iter, &pkey, &key))
        if (*(const char *)key && !g_hash_table_contains(present, pkey) && !weft_control_is_working(subnet->control, key) &&
            is_confirmed(subnet, suspects, GPOINTER_TO_UINT(pkey)))
            weft_control_rewire(subnet->control, key);
}

/* A number that the site has given up is free again. */
static void
forget_foreign(Subnet *subnet, GHashTable *present)
{
    GHashTableIter iter;
    gpointer pkey, key;
    g_hash_table_iter_init(&iter, subnet->pkeys);
    while (g_hash_table_iter_next(&iter, &pkey, &key))
        if (!*(const char *)key && !g_hash_table_contains(present, pkey))
            g_hash_table_iter_remove(&iter);
}

static void
surveyed(const char *fabric, GPtrArray *partitions, const GError *error, gpointer data)
{
    Subnet *subnet = data;
    g_free(subnet->trouble);
    subnet->trouble = error ? g_strdup(error->message) : NULL;
    if (error) {
        g_warning("fabric %s cannot be looked at: %s", fabric, error->message);
        return;
    }
    GHashTable *suspects = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) present = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < partitions->len; i++) {
        const WeftPartition *partition = partitions->pdata[i];
        g_hash_table_add(present, GUINT_TO_POINTER(partition->pkey));
        look_at_partition(subnet, suspects, partition);
    }
    look_for_missing(subnet, suspects, present);
    forget_foreign(subnet, present);
    g_hash_table_unref(subnet->suspects);
    subnet->suspects = suspects;
}

void
weft_subnets_hint(WeftSubnets *subnets, const char *fabric)
{
    Subnet *subnet = find(subnets, fabric);
    weft_wiring_survey(subnet->wiring, surveyed, subnet);
}

static gboolean
survey(gpointer data)
{
    WeftSubnets *subnets = data;
    GHashTableIter iter;
    gpointer subnet;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &subnet))
        weft_wiring_survey(((Subnet *)subnet)->wiring, surveyed, subnet);
    return G_SOURCE_CONTINUE;
}

void
weft_subnets_examine(const WeftSubnets *subnets, json_t *checks)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, subnets->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const Subnet *subnet = value;
        g_autofree char *check = g_strdup_printf("fabric %s", subnet->fabric->name);
        if (subnet->trouble)
            weft_doctor_add(checks, check, WEFT_HEALTH_FAIL, "look whether its subnet manager runs", "%s", subnet->trouble);
        else if (g_str_equal(subnet->driver->ops->name, "fake"))
            weft_doctor_add(checks, check, WEFT_HEALTH_WARN,
                            "no driver for a subnet manager is there yet; the path bridge needs none: "
                            "its clusters are kept apart by their VXLANs",
                            "driver fake: partitions are written to files, and no subnet manager is told of them");
        else
            weft_doctor_add(checks, check, WEFT_HEALTH_OK, NULL, "driver %s answers", subnet->driver->ops->name);
    }
}

/* --- life --- */

static Subnet *
subnet_new(WeftControl *control, WeftFabric *fabric, GHashTable *drivers, GError **error)
{
    WeftFabricDriver *driver = g_hash_table_lookup(drivers, fabric->name);
    if (!driver) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "fabric %s has no driver; describe it in weft.yaml", fabric->name);
        return NULL;
    }
    WeftWiring *wiring = weft_wiring_new(fabric->name, driver, control->options.apply_deadline, error);
    if (!wiring)
        return NULL;
    Subnet *subnet = g_new0(Subnet, 1);
    *subnet = (Subnet){ .control = control, .fabric = fabric, .wiring = wiring, .driver = driver };
    subnet->pkeys = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    subnet->expected = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    subnet->suspects = g_hash_table_new(NULL, NULL);
    return subnet;
}

static gboolean
load_fabrics(WeftSubnets *subnets, GHashTable *drivers, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(subnets->control->store, &(WeftQuery){ .kind = WEFT_KIND_FABRIC }, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftFabric) fabric = weft_record_fabric(records->pdata[i], error);
        Subnet *subnet = fabric ? subnet_new(subnets->control, fabric, drivers, error) : NULL;
        if (!subnet)
            return FALSE;
        g_hash_table_insert(subnets->by_name, fabric->name, subnet);
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
        Subnet *subnet = status->pkey ? find(subnets, status->fabric) : NULL;
        if (subnet)
            hold(subnet, status->pkey, record->key);
    }
    return records != NULL;
}

WeftSubnets *
weft_subnets_new(WeftControl *control, GHashTable *drivers, GError **error)
{
    WeftSubnets *subnets = g_new0(WeftSubnets, 1);
    subnets->control = control;
    subnets->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, subnet_free);
    if (!load_fabrics(subnets, drivers, error) || !load_pkeys(subnets, error)) {
        weft_subnets_free(subnets);
        return NULL;
    }
    survey(subnets);
    subnets->timer = g_timeout_add((guint)(control->options.scan_interval / 1000), survey, subnets);
    return subnets;
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
