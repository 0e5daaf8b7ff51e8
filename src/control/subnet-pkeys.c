#include "subnet-private.h"

#include "clock.h"
#include "errors.h"
#include "held.h"
#include "id.h"

static void
hold_free(gpointer data)
{
    WeftPkeyHold *hold = data;
    g_free(hold->holder);
    g_free(hold->name);
    g_free(hold);
}

GHashTable *
weft_subnet_holds_new(void)
{
    return g_hash_table_new_full(NULL, NULL, NULL, hold_free);
}

void
weft_subnet_hold(WeftSubnet *subnet, guint pkey, const char *holder, const char *name)
{
    WeftPkeyHold hold = { g_strdup(holder), g_strdup(name) };
    g_hash_table_insert(subnet->pkeys, GUINT_TO_POINTER(pkey), g_memdup2(&hold, sizeof hold));
}

const char *
weft_subnet_holder(const WeftSubnet *subnet, guint pkey)
{
    const WeftPkeyHold *hold = g_hash_table_lookup(subnet->pkeys, GUINT_TO_POINTER(pkey));
    return hold ? hold->holder : NULL;
}

const char *
weft_subnet_held_name(const WeftSubnet *subnet, guint pkey)
{
    const WeftPkeyHold *hold = g_hash_table_lookup(subnet->pkeys, GUINT_TO_POINTER(pkey));
    return hold ? hold->name : NULL;
}

gboolean
weft_subnet_may_write(const WeftSubnet *subnet, guint pkey)
{
    WeftPkeys pkeys = weft_fabric_pkeys(subnet->fabric);
    return weft_pkeys_contain(&pkeys, pkey) || weft_subnet_rested_name(subnet, pkey);
}

/* --- numbers that rest --- */

static void
rest_free(gpointer data)
{
    WeftPkeyRest *rest = data;
    g_free(rest->name);
    g_free(rest->tenant);
    g_free(rest);
}

GHashTable *
weft_subnet_rests_new(void)
{
    return g_hash_table_new_full(NULL, NULL, NULL, rest_free);
}

/* A clock that was set back must not make it rest longer than it would from now. */
void
weft_subnet_rest(WeftSubnet *subnet, guint pkey, const char *name, const char *tenant, gint64 freed)
{
    WeftPkeyRest rest = { .until = MIN(freed, weft_clock_now()) + subnet->control->options.pkey_rest,
                          .name = g_strdup(name),
                          .tenant = g_strdup(tenant) };
    g_hash_table_insert(subnet->resting, GUINT_TO_POINTER(pkey), g_memdup2(&rest, sizeof rest));
}

const char *
weft_subnet_rested_name(const WeftSubnet *subnet, guint pkey)
{
    const WeftPkeyRest *rest = g_hash_table_lookup(subnet->resting, GUINT_TO_POINTER(pkey));
    return rest ? rest->name : NULL;
}

gboolean
weft_subnet_has_ended(const WeftSubnet *subnet, const WeftPartition *partition)
{
    const char *id = weft_partition_cluster(partition->name);
    return g_strcmp0(weft_subnet_rested_name(subnet, partition->pkey), partition->name) == 0 ||
           (id && weft_store_has_ended(subnet->control->store, WEFT_THING_NETWORK, id));
}

/* When it may be given to the next; 0: at once. */
static gint64
rests_until(const WeftSubnet *subnet, guint pkey, gint64 now)
{
    const WeftPkeyRest *rest = g_hash_table_lookup(subnet->resting, GUINT_TO_POINTER(pkey));
    return rest && rest->until > now ? rest->until : 0;
}

static gboolean
rest_over(gpointer data)
{
    WeftSubnet *subnet = data;
    subnet->rested = 0;
    weft_control_room_changed(subnet->control);
    return G_SOURCE_REMOVE;
}

/* Those that wait for it look again as soon as there is one. */
static void
look_again(WeftSubnet *subnet, gint64 at, gint64 now)
{
    if (subnet->rested && subnet->rested_at <= at)
        return;
    g_clear_handle_id(&subnet->rested, g_source_remove);
    subnet->rested_at = at;
    subnet->rested = g_timeout_add((guint)MIN((at - now) / 1000 + 1, G_MAXINT), rest_over, subnet);
}

/* Numbers in weft's range that are neither held nor rest. */
static guint
count_free(const WeftSubnet *subnet, gint64 now)
{
    guint n = 0;
    for (guint pkey = subnet->fabric->pkey_first; pkey <= subnet->fabric->pkey_last; pkey++)
        n += !weft_subnet_holder(subnet, pkey) && !rests_until(subnet, pkey, now);
    return n;
}

/* How many of a tenant's numbers rest, and until when the first does. */
static guint
count_resting(const WeftSubnet *subnet, const char *tenant, gint64 now, gint64 *ret_first)
{
    GHashTableIter iter;
    gpointer value;
    guint n = 0;
    *ret_first = G_MAXINT64;
    g_hash_table_iter_init(&iter, subnet->resting);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftPkeyRest *rest = value;
        if (rest->until <= now || g_strcmp0(rest->tenant, tenant) != 0)
            continue;
        *ret_first = MIN(*ret_first, rest->until);
        n++;
    }
    return n;
}

/* Whoever makes clusters and deletes them again and again would put all numbers to rest, and nobody else got one. */
static gboolean
leaves_enough(WeftSubnet *subnet, const char *tenant, gint64 now, GError **error)
{
    gint64 first;
    guint resting = count_resting(subnet, tenant, now, &first);
    guint left = resting ? count_free(subnet, now) : 0;
    if (resting <= left || left == 0)
        return TRUE;
    look_again(subnet, first, now);
    return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                             "%u partition numbers of clusters that tenant %s has deleted rest before they are used again, "
                             "more than are left on fabric %s",
                             resting, tenant, subnet->fabric->name);
}

static void
refuse(WeftSubnet *subnet, gint64 first, gint64 now, GError **error)
{
    const char *name = subnet->fabric->name;
    if (first == G_MAXINT64) {
        g_set_error(
            error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED,
            "every partition number of fabric %s, 0x%04x to 0x%04x, is in use; a cluster must go, or an operator give it "
            "more: pkey_first and pkey_last in weft.yaml",
            name, subnet->fabric->pkey_first, subnet->fabric->pkey_last);
        return;
    }
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED,
                "every partition number of fabric %s is in use, or rests before it is used again", name);
    look_again(subnet, first, now);
}

guint
weft_subnets_take_pkey(WeftSubnets *subnets, const char *fabric, const char *cluster_key, const WeftCluster *cluster,
                       gboolean again, GError **error)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    g_autofree char *name = weft_partition_name(cluster->id);
    WeftPkeyOrder order = weft_pkey_order(subnet->fabric->pkey_first, subnet->fabric->pkey_last, weft_random_u64());
    gint64 now = weft_clock_now(), soonest = G_MAXINT64;
    if (!subnet->surveyed) {
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "which partitions fabric %s has already is not known yet", fabric);
        return 0;
    }
    if (weft_hosts_await_looks(subnet->control->hosts, cluster_key)) {
        weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "which partition numbers things on hosts have is not known yet");
        return 0;
    }
    if (!again && !leaves_enough(subnet, cluster->tenant, now, error))
        return 0;
    for (guint i = 0; i < order.n; i++) {
        guint pkey = weft_pkey_at(&order, i);
        if (weft_subnet_holder(subnet, pkey) || weft_site_holds_number(subnet->control, subnet->fabric, pkey))
            continue;
        gint64 until = rests_until(subnet, pkey, now);
        if (until) {
            soonest = MIN(soonest, until);
            continue;
        }
        weft_subnet_hold(subnet, pkey, cluster_key, name);
        return pkey;
    }
    refuse(subnet, soonest, now, error);
    return 0;
}

void
weft_subnets_adopt_pkey(WeftSubnets *subnets, const char *fabric, guint pkey, const char *cluster_key, const char *cluster_id)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    g_autofree char *name = weft_partition_name(cluster_id);
    if (subnet)
        weft_subnet_hold(subnet, pkey, cluster_key, name);
}

static gboolean
drop(WeftSubnets *subnets, const char *fabric, guint pkey, WeftSubnet **ret_subnet)
{
    WeftSubnet *subnet = pkey ? weft_subnet_find(subnets, fabric) : NULL;
    if (!subnet)
        return FALSE;
    g_hash_table_remove(subnet->pkeys, GUINT_TO_POINTER(pkey));
    g_hash_table_remove(subnet->expected, GUINT_TO_POINTER(pkey));
    *ret_subnet = subnet;
    return TRUE;
}

void
weft_subnets_return_pkey(WeftSubnets *subnets, const char *fabric, guint pkey)
{
    WeftSubnet *subnet;
    drop(subnets, fabric, pkey, &subnet);
}

void
weft_subnets_free_pkey(WeftSubnets *subnets, const char *fabric, guint pkey, const char *tenant)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    g_autofree char *name = subnet ? g_strdup(weft_subnet_held_name(subnet, pkey)) : NULL;
    if (drop(subnets, fabric, pkey, &subnet))
        weft_subnet_rest(subnet, pkey, name, tenant, weft_clock_now());
}

void
weft_subnets_leave_pkey(WeftSubnets *subnets, const char *fabric, guint pkey, const WeftCluster *cluster)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    g_autofree char *name = weft_partition_name(cluster->id);
    if (subnet)
        weft_subnet_rest(subnet, pkey, name, cluster->tenant, weft_clock_now());
}

gboolean
weft_subnets_is_foreign(const WeftSubnets *subnets, const char *fabric, guint pkey)
{
    return weft_holder_is_foreign(weft_subnet_holder(weft_subnet_find(subnets, fabric), pkey));
}

gboolean
weft_subnets_is_unproved(const WeftSubnets *subnets, const char *fabric, guint pkey)
{
    const WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    return weft_subnet_is_inherited(subnet, weft_subnet_held_name(subnet, pkey)) ||
           g_strcmp0(weft_subnet_holder(subnet, pkey), WEFT_HELD_UNPROVED) == 0;
}

/* --- what is written of those that rest --- */

/* What says that it has ended is needed until the fabric has forgotten it. */
static gboolean
may_be_there(const WeftSubnet *subnet, gpointer pkey, const char *name)
{
    return !subnet->surveyed || subnet->trouble || g_strcmp0(name, g_hash_table_lookup(subnet->present, pkey)) == 0;
}

void
weft_subnets_prune(WeftSubnets *subnets, WeftTxn *txn, guint most)
{
    GHashTableIter each, iter;
    gpointer value, pkey, rest;
    g_hash_table_iter_init(&each, subnets->by_name);
    while (g_hash_table_iter_next(&each, NULL, &value)) {
        WeftSubnet *subnet = value;
        g_hash_table_iter_init(&iter, subnet->resting);
        while (most > 0 && g_hash_table_iter_next(&iter, &pkey, &rest)) {
            const WeftPkeyRest *ended = rest;
            if (ended->until > weft_clock_now() || (ended->name && may_be_there(subnet, pkey, ended->name)))
                continue;
            weft_txn_forget_pkey(txn, subnet->fabric->name, GPOINTER_TO_UINT(pkey));
            g_hash_table_iter_remove(&iter);
            most--;
        }
    }
}

static void
load_rest(WeftSubnets *subnets, const WeftRecord *record)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, record->scope);
    guint pkey;
    gint64 freed;
    g_autofree char *name = NULL, *tenant = NULL;
    if (subnet && weft_record_pkey_rest(record, &pkey, &name, &tenant, &freed))
        weft_subnet_rest(subnet, pkey, name, tenant, freed);
}

void
weft_subnets_rest_changed(WeftSubnets *subnets, const char *fabric, const char *key)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    g_autoptr(WeftRecord) record = weft_store_get(subnets->control->store, WEFT_KIND_PKEY_REST, key, NULL);
    if (!subnet || !record)
        return;
    load_rest(subnets, record);
    weft_subnet_survey(subnet);
}

gboolean
weft_subnets_load_rests(WeftSubnets *subnets, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_PKEY_REST };
    g_autoptr(GPtrArray) records = weft_store_list(subnets->control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++)
        load_rest(subnets, records->pdata[i]);
    return records != NULL;
}
