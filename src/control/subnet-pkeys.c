#include "subnet-private.h"

#include "clock.h"
#include "errors.h"

void
weft_subnet_hold(WeftSubnet *subnet, guint pkey, const char *holder)
{
    g_hash_table_insert(subnet->pkeys, GUINT_TO_POINTER(pkey), g_strdup(holder));
}

const char *
weft_subnet_holder(const WeftSubnet *subnet, guint pkey)
{
    return g_hash_table_lookup(subnet->pkeys, GUINT_TO_POINTER(pkey));
}

/* A clock that was set back must not make it rest longer than it would from now. */
void
weft_subnet_rest(WeftSubnet *subnet, guint pkey, gint64 freed)
{
    gint64 until = MIN(freed, weft_clock_now()) + subnet->control->options.pkey_rest;
    g_hash_table_insert(subnet->resting, GUINT_TO_POINTER(pkey), g_memdup2(&until, sizeof until));
}

/* When it may be given to the next; 0: at once. */
static gint64
rests_until(const WeftSubnet *subnet, guint pkey, gint64 now)
{
    const gint64 *until = g_hash_table_lookup(subnet->resting, GUINT_TO_POINTER(pkey));
    return until && *until > now ? *until : 0;
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
    if (!subnet->rested)
        subnet->rested = g_timeout_add((guint)MIN((first - now) / 1000 + 1, G_MAXINT), rest_over, subnet);
}

guint
weft_subnets_take_pkey(WeftSubnets *subnets, const char *fabric, const char *cluster_key, GError **error)
{
    WeftSubnet *subnet = weft_subnet_find(subnets, fabric);
    guint first = subnet->fabric->pkey_first, n = subnet->fabric->pkey_last - first + 1;
    gint64 now = weft_clock_now(), soonest = G_MAXINT64;
    for (guint i = 0; i < n; i++) {
        guint pkey = first + (subnet->next + i) % n;
        if (weft_subnet_holder(subnet, pkey))
            continue;
        gint64 until = rests_until(subnet, pkey, now);
        if (until) {
            soonest = MIN(soonest, until);
            continue;
        }
        subnet->next = (pkey - first + 1) % n;
        weft_subnet_hold(subnet, pkey, cluster_key);
        return pkey;
    }
    refuse(subnet, soonest, now, error);
    return 0;
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
weft_subnets_free_pkey(WeftSubnets *subnets, const char *fabric, guint pkey)
{
    WeftSubnet *subnet;
    if (drop(subnets, fabric, pkey, &subnet))
        weft_subnet_rest(subnet, pkey, weft_clock_now());
}

gboolean
weft_subnets_is_foreign(const WeftSubnets *subnets, const char *fabric, guint pkey)
{
    return g_strcmp0(weft_subnet_holder(weft_subnet_find(subnets, fabric), pkey), WEFT_HELD_BY_SITE) == 0;
}

/* --- what is written of those that rest --- */

void
weft_subnets_prune(WeftSubnets *subnets, WeftTxn *txn, guint most)
{
    GHashTableIter each, iter;
    gpointer value, pkey, until;
    g_hash_table_iter_init(&each, subnets->by_name);
    while (g_hash_table_iter_next(&each, NULL, &value)) {
        WeftSubnet *subnet = value;
        g_hash_table_iter_init(&iter, subnet->resting);
        while (most > 0 && g_hash_table_iter_next(&iter, &pkey, &until)) {
            if (*(gint64 *)until > weft_clock_now())
                continue;
            weft_txn_forget_pkey(txn, subnet->fabric->name, GPOINTER_TO_UINT(pkey));
            g_hash_table_iter_remove(&iter);
            most--;
        }
    }
}

gboolean
weft_subnets_load_rests(WeftSubnets *subnets, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_PKEY_REST };
    g_autoptr(GPtrArray) records = weft_store_list(subnets->control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        WeftSubnet *subnet = weft_subnet_find(subnets, record->scope);
        guint pkey;
        gint64 freed;
        if (subnet && weft_record_pkey_rest(record, &pkey, &freed))
            weft_subnet_rest(subnet, pkey, freed);
    }
    return records != NULL;
}
