#include "mads.h"

#include "errors.h"

#include <infiniband/ibnetdisc.h>
#include <infiniband/mad.h>
#include <infiniband/umad.h>
#include <string.h>

#define TIMEOUT_MS 100
#define RETRIES 3
#define BLOCK 32 /* P_Keys in a datagram */
#define MEGABIT G_GUINT64_CONSTANT(1000000)
#define LINK_ACTIVE 4
#define SM_MASTER 3

const char weft_mads_absent[] = "is not in the fabric";
static const char silent[] = "does not answer";

/* A table of P_Keys, and the way there. */
typedef struct Spot {
    ib_portid_t way;
    guint port; /* 0 for a host's own table */
    guint capacity;
} Spot;

typedef struct Place {
    guint64 guid;
    Spot own;
    Spot enforced;
} Place;

struct WeftMads {
    char *device;
    int port_number;
    guint64 m_key;
    struct ibmad_port *port; /* NULL: not open */
    GHashTable *places;      /* Place by port GUID; NULL: the fabric was not looked at */
};

WeftMads *
weft_mads_new(const WeftMadsOptions *options)
{
    WeftMads *mads = g_new0(WeftMads, 1);
    mads->device = g_strdup(options->device);
    mads->port_number = (int)options->port;
    mads->m_key = options->m_key;
    return mads;
}

void
weft_mads_free(WeftMads *mads)
{
    if (!mads)
        return;
    if (mads->port)
        mad_rpc_close_port(mads->port);
    g_clear_pointer(&mads->places, g_hash_table_unref);
    g_free(mads->device);
    g_free(mads);
}

static gboolean
open_port(WeftMads *mads, GError **error)
{
    int classes[] = { IB_SMI_CLASS, IB_SMI_DIRECT_CLASS };
    if (mads->port)
        return TRUE;
    madrpc_show_errors(0);
    mads->port = mad_rpc_open_port(mads->device, mads->port_number, classes, G_N_ELEMENTS(classes));
    if (!mads->port)
        return weft_error_refuse(
            error, WEFT_ERROR_UNAVAILABLE,
            "no port of this machine takes management datagrams (%s, port %d); is the adapter there, ib_umad "
            "loaded, and may weft open /dev/infiniband/umad*?",
            mads->device ? mads->device : "any adapter", mads->port_number);
    mad_rpc_set_timeout(mads->port, TIMEOUT_MS);
    mad_rpc_set_retries(mads->port, RETRIES);
    smp_mkey_set(mads->port, mads->m_key);
    return TRUE;
}

static gboolean
query(WeftMads *mads, const ib_portid_t *way, guint attribute, guint modifier, guint8 *answer)
{
    ib_portid_t target = *way;
    return smp_query_via(answer, &target, attribute, modifier, 0, mads->port) != NULL;
}

/* --- the map --- */

/* Bits a second of one lane, and lanes, by the bits of PortInfo; the best first. As Linux tells them: FDR's 14.0625 is 14. */
typedef struct {
    guint bit;
    guint value;
} Speed;
static const Speed extended[] = { { 8, 100000 }, { 4, 50000 }, { 2, 25000 }, { 1, 14000 } };
static const Speed plain[] = { { 4, 10000 }, { 2, 5000 }, { 1, 2500 } };
static const Speed lanes[] = { { 16, 2 }, { 8, 12 }, { 4, 8 }, { 2, 4 }, { 1, 1 } };

static guint
look_up(const Speed *table, gsize n, guint bits)
{
    for (gsize i = 0; i < n; i++)
        if (bits & table[i].bit)
            return table[i].value;
    return 0;
}

static guint64
rate_of(ibnd_port_t *port)
{
    guint lane = look_up(extended, G_N_ELEMENTS(extended), mad_get_field(port->info, 0, IB_PORT_LINK_SPEED_EXT_ACTIVE_F));
    if (lane == 0)
        lane = look_up(plain, G_N_ELEMENTS(plain), mad_get_field(port->info, 0, IB_PORT_LINK_SPEED_ACTIVE_F));
    return lane * look_up(lanes, G_N_ELEMENTS(lanes), mad_get_field(port->info, 0, IB_PORT_LINK_WIDTH_ACTIVE_F)) * MEGABIT;
}

static WeftMapKind
kind_of(const ibnd_node_t *node)
{
    return node->type == IB_NODE_SWITCH ? WEFT_MAP_SWITCH : node->type == IB_NODE_ROUTER ? WEFT_MAP_ROUTER : WEFT_MAP_ADAPTER;
}

static guint
capacity_of(ibnd_node_t *node, int number)
{
    if (node->type == IB_NODE_SWITCH && number > 0)
        return mad_get_field(node->switchinfo, 0, IB_SW_PARTITION_ENFORCE_CAP_F);
    return mad_get_field(node->info, 0, IB_NODE_PARTITION_CAP_F);
}

static WeftMapPort
describe_port(ibnd_node_t *node, ibnd_port_t *port, GHashTable *indices)
{
    gboolean is_switch = node->type == IB_NODE_SWITCH;
    WeftMapPort described = { .number = (guint)port->portnum, .pkeys = capacity_of(node, port->portnum), .peer = -1 };
    if (!is_switch || port->portnum == 0) {
        described.guid = is_switch ? mad_get_field64(node->info, 0, IB_NODE_PORT_GUID_F) : port->guid;
        described.lid = is_switch ? node->smalid : port->base_lid;
    }
    described.active = mad_get_field(port->info, 0, IB_PORT_STATE_F) == LINK_ACTIVE;
    if (!port->remoteport)
        return described;
    described.rate = rate_of(port);
    described.peer = GPOINTER_TO_INT(g_hash_table_lookup(indices, port->remoteport->node));
    described.peer_port = (guint)port->remoteport->portnum;
    return described;
}

static WeftFabricMap *
describe(ibnd_fabric_t *fabric, GError **error)
{
    g_autoptr(WeftFabricMap) map = weft_fabric_map_new();
    g_autoptr(GHashTable) indices = g_hash_table_new(NULL, NULL);
    for (ibnd_node_t *node = fabric->nodes; node; node = node->next) {
        g_autofree char *description = g_utf8_make_valid(node->nodedesc, -1);
        g_hash_table_insert(indices, node, GINT_TO_POINTER((int)map->nodes->len));
        weft_fabric_map_add(map, kind_of(node), node->guid, g_strchomp(description));
    }
    for (ibnd_node_t *node = fabric->nodes; node; node = node->next) {
        WeftMapNode *into = map->nodes->pdata[GPOINTER_TO_INT(g_hash_table_lookup(indices, node))];
        for (int i = 0; i <= node->numports; i++) {
            if (!node->ports[i])
                continue;
            WeftMapPort port = describe_port(node, node->ports[i], indices);
            g_array_append_val(into->ports, port);
        }
    }
    return weft_fabric_map_seal(map, error) ? g_steal_pointer(&map) : NULL;
}

/* --- the ways to ports --- */

static void
add_place(GHashTable *places, ibnd_port_t *port)
{
    const ibnd_port_t *far = port->remoteport;
    Place *place = g_new0(Place, 1);
    place->guid = port->guid;
    place->own.way = port->node->path_portid;
    place->own.capacity = capacity_of(port->node, port->portnum);
    if (far && far->node->type == IB_NODE_SWITCH && far->node->path_portid.drpath.cnt + 1 < IB_SUBNET_PATH_HOPS_MAX) {
        place->enforced = (Spot){ far->node->path_portid, (guint)far->portnum, capacity_of(far->node, far->portnum) };
        /* Over that very cable: who answers there is who hangs on that port of the switch. */
        place->own.way = far->node->path_portid;
        place->own.way.drpath.p[++place->own.way.drpath.cnt] = (uint8_t)far->portnum;
    }
    g_hash_table_replace(places, &place->guid, place);
}

static GHashTable *
find_places(ibnd_fabric_t *fabric)
{
    GHashTable *places = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
    for (ibnd_node_t *node = fabric->nodes; node; node = node->next)
        for (int i = 1; node->type != IB_NODE_SWITCH && i <= node->numports; i++)
            if (node->ports[i])
                add_place(places, node->ports[i]);
    return places;
}

static ibnd_fabric_t *
discover(WeftMads *mads, GError **error)
{
    /* It opens a port of its own; umad2sim knows one at a time. */
    if (mads->port)
        mad_rpc_close_port(g_steal_pointer(&mads->port));
    ibnd_config_t config = { .timeout_ms = TIMEOUT_MS, .retries = RETRIES, .mkey = mads->m_key };
    ibnd_fabric_t *fabric = ibnd_discover_fabric(mads->device, mads->port_number, NULL, &config);
    if (!fabric) {
        weft_error_refuse(
            error, WEFT_ERROR_UNAVAILABLE,
            "the fabric cannot be looked at from here (%s, port %d); is the adapter there, ib_umad loaded, and may "
            "weft open /dev/infiniband/umad*?",
            mads->device ? mads->device : "any adapter", mads->port_number);
        return NULL;
    }
    g_clear_pointer(&mads->places, g_hash_table_unref);
    mads->places = find_places(fabric);
    if (!open_port(mads, error)) {
        ibnd_destroy_fabric(fabric);
        return NULL;
    }
    return fabric;
}

WeftFabricMap *
weft_mads_map(WeftMads *mads, GError **error)
{
    ibnd_fabric_t *fabric = discover(mads, error);
    WeftFabricMap *map = fabric ? describe(fabric, error) : NULL;
    if (fabric)
        ibnd_destroy_fabric(fabric);
    return map;
}

/* --- tables --- */

static gboolean
read_spot(WeftMads *mads, const Spot *spot, GArray *pkeys)
{
    for (guint first = 0; first < spot->capacity; first += BLOCK) {
        guint16 block[BLOCK];
        if (!query(mads, &spot->way, IB_ATTR_PKEY_TBL, spot->port << 16 | first / BLOCK, (guint8 *)block))
            return FALSE;
        for (guint i = 0; i < MIN(BLOCK, spot->capacity - first); i++) {
            guint16 pkey = GUINT16_FROM_BE(block[i]);
            g_array_append_val(pkeys, pkey);
        }
    }
    return TRUE;
}

static gboolean
read_enforced(WeftMads *mads, const Place *place, WeftPortTable *table)
{
    if (place->enforced.port == 0)
        return TRUE;
    table->enforced = g_array_new(FALSE, FALSE, sizeof(guint16));
    return read_spot(mads, &place->enforced, table->enforced);
}

/* Whoever is at the end of the way. 0: nobody answers. */
static guint64
who_is_there(WeftMads *mads, const Place *place)
{
    guint8 info[IB_SMP_DATA_SIZE];
    return query(mads, &place->own.way, IB_ATTR_NODE_INFO, 0, info) ? mad_get_field64(info, 0, IB_NODE_PORT_GUID_F) : 0;
}

static const Place *
find_place(WeftMads *mads, guint64 guid, gboolean anew, GError **error)
{
    if (anew || !mads->places) {
        ibnd_fabric_t *fabric = discover(mads, error);
        if (!fabric)
            return NULL;
        ibnd_destroy_fabric(fabric);
    } else if (!open_port(mads, error)) { /* the last look failed, and left it closed */
        return NULL;
    }
    return g_hash_table_lookup(mads->places, &guid);
}

gboolean
weft_mads_read(WeftMads *mads, WeftPortTable *table, gboolean enforced, GError **error)
{
    g_autoptr(GError) failed = NULL;
    gboolean known = mads->places != NULL;
    const Place *place = find_place(mads, table->port_guid, FALSE, &failed);
    /* It was plugged elsewhere, or came after the last look. */
    if (!failed && known && (!place || who_is_there(mads, place) != table->port_guid))
        place = find_place(mads, table->port_guid, TRUE, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (!place)
        table->error = g_strdup(weft_mads_absent);
    else if (!read_spot(mads, &place->own, table->pkeys))
        table->error = g_strdup(silent);
    else if (enforced && !read_enforced(mads, place, table))
        table->error = g_strdup("its switch does not answer");
    return TRUE;
}

/* --- the manager --- */

gboolean
weft_mads_has_master(WeftMads *mads, gboolean *ret_has, GError **error)
{
    guint8 info[IB_SMP_DATA_SIZE];
    ib_portid_t self = { 0 };
    if (!open_port(mads, error))
        return FALSE;
    *ret_has = FALSE;
    if (!query(mads, &self, IB_ATTR_PORT_INFO, 0, info))
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "this machine's own port does not answer");
    ib_portid_t manager = { .lid = (int)mad_get_field(info, 0, IB_PORT_SMLID_F) };
    if (manager.lid && query(mads, &manager, IB_ATTR_SMINFO, 0, info))
        *ret_has = mad_get_field(info, 0, IB_SMINFO_STATE_F) == SM_MASTER;
    return TRUE;
}
