#include "plan.h"

#include "check.h"
#include "errors.h"
#include "partitions.h"
#include "table.h"

typedef struct {
    guint64 guid;
    osm_physp_t *physp;
    WeftTable *table;
    GHashTable *pkeys; /* set */
} PortPlan;

struct WeftPlan {
    osm_opensm_t *osm;
    gboolean both;
    gboolean enforce;
    GHashTable *ports; /* guint64 * → PortPlan */
    GPtrArray *order;  /* the same, borrowed, as they came */
    GArray *absent;
};

static void
free_port(gpointer data)
{
    PortPlan *port = data;
    weft_table_free(port->table);
    g_hash_table_unref(port->pkeys);
    g_free(port);
}

static osm_port_t *
find_port(const WeftPlan *plan, guint64 guid)
{
    osm_port_t *port = osm_get_port_by_guid(&plan->osm->subn, cl_hton64(guid));
    return port && port->p_physp && weft_table_is_known(port->p_physp) ? port : NULL;
}

static PortPlan *
add_port(WeftPlan *plan, const osm_port_t *port, guint64 guid)
{
    PortPlan *mine = g_new0(PortPlan, 1);
    mine->guid = guid;
    mine->physp = port->p_physp;
    mine->table = weft_table_new(port->p_physp, plan->both);
    mine->pkeys = g_hash_table_new(NULL, NULL);
    g_hash_table_insert(plan->ports, &mine->guid, mine);
    g_ptr_array_add(plan->order, mine);
    return mine;
}

/* *ret_port NULL: it is not in the fabric, or no sweep has made its table yet. */
static gboolean
get_port(WeftPlan *plan, guint64 guid, PortPlan **ret_port, GError **error)
{
    *ret_port = g_hash_table_lookup(plan->ports, &guid);
    const osm_port_t *port = *ret_port ? NULL : find_port(plan, guid);
    if (!port)
        return TRUE;
    if (!weft_check_port(port, error))
        return FALSE;
    *ret_port = add_port(plan, port, guid);
    return TRUE;
}

static gboolean
set_standing(WeftPlan *plan, guint64 guid, const WeftStanding *standing, GError **error)
{
    PortPlan *port;
    if (!get_port(plan, guid, &port, error))
        return FALSE;
    if (!port) {
        if (standing->full || standing->limited)
            g_array_append_val(plan->absent, guid);
        return TRUE;
    }
    g_hash_table_add(port->pkeys, GUINT_TO_POINTER((guint)standing->pkey));
    return weft_table_set(port->table, standing, error);
}

/* All that opensm has in the partition but those of keep (set of guint64 *; NULL: none). */
static gboolean
drop_members(WeftPlan *plan, guint pkey, GHashTable *keep, GError **error)
{
    const osm_prtn_t *partition = weft_partitions_find(plan->osm, pkey);
    if (!partition)
        return TRUE;
    const WeftStanding none = { .pkey = (guint16)pkey };
    g_autoptr(GArray) guids = weft_partitions_members(partition);
    for (guint i = 0; i < guids->len; i++) {
        guint64 *guid = &g_array_index(guids, guint64, i);
        if (!(keep && g_hash_table_contains(keep, guid)) && !set_standing(plan, *guid, &none, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
drop_strangers(WeftPlan *plan, const WeftPartition *partition, GError **error)
{
    g_autoptr(GHashTable) members = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < partition->members->len; i++)
        g_hash_table_add(members, &g_array_index(partition->members, WeftMember, i).port_guid);
    return drop_members(plan, partition->pkey, members, error);
}

static gboolean
add_members(WeftPlan *plan, const WeftPartition *partition, GError **error)
{
    for (guint i = 0; i < partition->members->len; i++) {
        const WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        const WeftStanding standing = {
            .pkey = (guint16)partition->pkey,
            .full = member->membership != WEFT_MEMBER_LIMITED,
            .limited = member->membership != WEFT_MEMBER_FULL,
            .index0 = member->index == 0,
        };
        if (!set_standing(plan, member->port_guid, &standing, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
concerns(const WeftPlanInput *input, GHashTable *pkeys)
{
    for (guint i = 0; i < input->change->set->len; i++)
        if (g_hash_table_contains(pkeys, GUINT_TO_POINTER(((WeftPartition *)input->change->set->pdata[i])->pkey)))
            return TRUE;
    for (guint i = 0; i < input->change->removed->len; i++)
        if (g_hash_table_contains(pkeys, GUINT_TO_POINTER(g_array_index(input->change->removed, WeftPartitionRemoval, i).pkey)))
            return TRUE;
    return FALSE;
}

static void
add_pkeys(GHashTable *to, GHashTable *pkeys)
{
    GHashTableIter iter;
    gpointer pkey;
    g_hash_table_iter_init(&iter, pkeys);
    while (g_hash_table_iter_next(&iter, &pkey, NULL))
        g_hash_table_add(to, pkey);
}

/* Looks at ports that this change may leave as they are. */
static gboolean
add_ports(WeftPlan *plan, const WeftPlanInput *input, GHashTable *ports, GError **error)
{
    GHashTableIter iter;
    gpointer guid, pkeys;
    g_hash_table_iter_init(&iter, ports);
    while (g_hash_table_iter_next(&iter, &guid, &pkeys)) {
        PortPlan *port;
        if (ports == input->lagging && !concerns(input, pkeys))
            continue;
        if (!get_port(plan, *(guint64 *)guid, &port, error))
            return FALSE;
        if (port)
            add_pkeys(port->pkeys, pkeys);
    }
    return TRUE;
}

static gboolean
check_peers(const WeftPlan *plan, GError **error)
{
    for (guint i = 0; plan->enforce && i < plan->order->len; i++)
        if (!weft_table_check_peer(((PortPlan *)plan->order->pdata[i])->table, error))
            return FALSE;
    return TRUE;
}

/* What goes makes room for what comes. */
static gboolean
fill(WeftPlan *plan, const WeftPlanInput *input, GError **error)
{
    GPtrArray *set = input->change->set;
    for (guint i = 0; i < input->gone->len; i++)
        if (!drop_members(plan, g_array_index(input->gone, guint16, i), NULL, error))
            return FALSE;
    for (guint i = 0; i < set->len; i++)
        if (!drop_strangers(plan, set->pdata[i], error))
            return FALSE;
    for (guint i = 0; i < set->len; i++)
        if (!add_members(plan, set->pdata[i], error))
            return FALSE;
    /* A port that did not answer when one of these partitions was changed before gets another chance, and may fail this change,
     * too. */
    return add_ports(plan, input, input->lagging, error) && add_ports(plan, input, input->also, error) &&
           check_peers(plan, error);
}

WeftPlan *
weft_plan_new(const WeftPlanInput *input, GError **error)
{
    g_autoptr(WeftPlan) plan = g_new0(WeftPlan, 1);
    plan->osm = input->osm;
    plan->both = input->osm->subn.opt.allow_both_pkeys;
    plan->enforce = weft_osm_enforces(input->osm);
    plan->ports = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, free_port);
    plan->order = g_ptr_array_new();
    plan->absent = g_array_new(FALSE, FALSE, sizeof(guint64));
    return fill(plan, input, error) ? g_steal_pointer(&plan) : NULL;
}

void
weft_plan_free(WeftPlan *plan)
{
    if (!plan)
        return;
    g_array_unref(plan->absent);
    g_ptr_array_unref(plan->order);
    g_hash_table_unref(plan->ports);
    g_free(plan);
}

void
weft_plan_commit(WeftPlan *plan, WeftRound *round)
{
    for (guint i = 0; i < plan->order->len; i++) {
        const PortPlan *port = plan->order->pdata[i];
        weft_table_commit(port->table);
        weft_table_send(port->table, plan->enforce, round);
    }
}

void
weft_plan_read(const WeftPlan *plan, WeftRound *round)
{
    for (guint i = 0; i < plan->order->len; i++)
        weft_table_read(((PortPlan *)plan->order->pdata[i])->physp, plan->enforce, round);
}

GArray *
weft_plan_absent(const WeftPlan *plan)
{
    return plan->absent;
}

void
weft_plan_collect(const WeftPlan *plan, GHashTable *ports)
{
    for (guint i = 0; i < plan->order->len; i++) {
        const PortPlan *port = plan->order->pdata[i];
        GHashTable *there = g_hash_table_lookup(ports, &port->guid);
        if (there)
            add_pkeys(there, port->pkeys);
        else
            g_hash_table_insert(ports, g_memdup2(&port->guid, sizeof port->guid), g_hash_table_ref(port->pkeys));
    }
}
