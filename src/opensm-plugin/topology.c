#include "look.h"

#include "map.h"
#include "table.h"

#define QDR 4 /* as a bit of PortInfo */

/* FDR10, which PortInfo does not know, is as fast as QDR. */
static guint64
find_rate(const osm_physp_t *physp)
{
    const ib_port_info_t *info = &physp->port_info;
    gboolean fdr10 = physp->ext_port_info.link_speed_active & FDR10;
    return weft_map_rate(ib_port_info_get_link_speed_ext_active(info), fdr10 ? QDR : ib_port_info_get_link_speed_active(info),
                         info->link_width_active);
}

static WeftMapKind
find_kind(const osm_node_t *node)
{
    switch (osm_node_get_type(node)) {
    case IB_NODE_TYPE_SWITCH:
        return WEFT_MAP_SWITCH;
    case IB_NODE_TYPE_ROUTER:
        return WEFT_MAP_ROUTER;
    default:
        return WEFT_MAP_ADAPTER;
    }
}

static WeftMapPort
read_port(const osm_physp_t *physp, GHashTable *indices)
{
    gboolean own = osm_node_get_type(physp->p_node) != IB_NODE_TYPE_SWITCH || physp->port_num == 0;
    WeftMapPort port = { .number = physp->port_num, .pkeys = weft_table_room(physp), .peer = -1 };
    port.guid = own ? cl_ntoh64(physp->port_guid) : 0;
    port.lid = own ? cl_ntoh16(osm_physp_get_base_lid(physp)) : 0;
    port.active = osm_physp_get_port_state(physp) == IB_LINK_ACTIVE;
    const osm_physp_t *peer = osm_physp_get_remote(physp);
    /* While a sweep runs a cable may have one end only: it is not there yet. */
    if (!peer || peer->p_remote_physp != physp || !g_hash_table_contains(indices, peer->p_node))
        return port;
    port.rate = find_rate(physp);
    port.peer = GPOINTER_TO_INT(g_hash_table_lookup(indices, peer->p_node));
    port.peer_port = peer->port_num;
    return port;
}

static void
read_ports(const osm_node_t *node, WeftMapNode *into, GHashTable *indices)
{
    guint first = find_kind(node) == WEFT_MAP_SWITCH ? 0 : 1;
    for (guint i = first; i < osm_node_get_num_physp(node); i++) {
        const osm_physp_t *physp = osm_node_get_physp_ptr((osm_node_t *)node, i);
        if (!physp)
            continue;
        WeftMapPort port = read_port(physp, indices);
        g_array_append_val(into->ports, port);
    }
}

/* lock: held. */
static void
read_nodes(const osm_subn_t *subn, WeftFabricMap *map)
{
    g_autoptr(GHashTable) indices = g_hash_table_new(NULL, NULL);
    const cl_qmap_t *nodes = &subn->node_guid_tbl;
    for (cl_map_item_t *item = cl_qmap_head(nodes); item != cl_qmap_end(nodes); item = cl_qmap_next(item)) {
        const osm_node_t *node = (const osm_node_t *)item;
        g_autofree char *description = g_utf8_make_valid(node->print_desc, -1);
        g_hash_table_insert(indices, (gpointer)node, GINT_TO_POINTER((int)map->nodes->len));
        weft_fabric_map_add(map, find_kind(node), cl_ntoh64(osm_node_get_node_guid(node)), description);
    }
    guint i = 0;
    for (cl_map_item_t *item = cl_qmap_head(nodes); item != cl_qmap_end(nodes); item = cl_qmap_next(item))
        read_ports((const osm_node_t *)item, map->nodes->pdata[i++], indices);
}

json_t *
weft_look_topology(WeftOsm *weft, json_t *request, GError **error)
{
    g_autoptr(WeftFabricMap) map = weft_fabric_map_new();
    CL_PLOCK_ACQUIRE(&weft->osm->lock);
    read_nodes(&weft->osm->subn, map);
    CL_PLOCK_RELEASE(&weft->osm->lock);
    if (!weft_fabric_map_seal(map, error))
        return NULL;
    return json_pack("{so}", "map", weft_fabric_map_to_json(map));
}
