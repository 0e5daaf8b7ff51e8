/* weft-discover DEVICE PORT: looks at the whole fabric, for weftd. "" and 0: the first adapter with an active port, and the
 * first of its ports that is active. The M_Key is in WEFT_M_KEY. Exit status 2: the fabric cannot be looked at from here.
 *
 * A program of its own, because libibnetdisc (up to rdma-core 44, at least) frees its fabric twice where it gets an answer that
 * it does not expect, and the whole process ends with it.
 *
 * Prints { "map": …, "places": [ { "guid": "0x…", "way": [ 1, 7 ], "pkeys": 64, "enforced": 32 }, … ] }: the map as map.h tells
 * it, and of each adapter's port the ports that a directed route to it leaves by, and the places in its P_Key table. enforced:
 * the last of the route is a switch's port, and has such a table, too. */
#include "codec.h"
#include "map.h"

#include <infiniband/ibnetdisc.h>
#include <infiniband/mad.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#define TIMEOUT_MS 100
#define RETRIES 3
#define LINK_ACTIVE 4

/* --- the map --- */

static guint64
rate_of(ibnd_port_t *port)
{
    return weft_map_rate(mad_get_field(port->info, 0, IB_PORT_LINK_SPEED_EXT_ACTIVE_F),
                         mad_get_field(port->info, 0, IB_PORT_LINK_SPEED_ACTIVE_F),
                         mad_get_field(port->info, 0, IB_PORT_LINK_WIDTH_ACTIVE_F));
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

/* Not sealed: whoever reads it does. */
static json_t *
describe(ibnd_fabric_t *fabric)
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
    return weft_fabric_map_to_json(map);
}

/* --- the ways to ports --- */

static json_t *
write_way(const ib_dr_path_t *path)
{
    json_t *way = json_array();
    for (int i = 1; i <= path->cnt; i++)
        json_array_append_new(way, json_integer(path->p[i]));
    return way;
}

static json_t *
write_place(ibnd_port_t *port)
{
    const ibnd_port_t *far = port->remoteport;
    json_t *place =
        json_pack("{s:o, s:i}", "guid", weft_guid_write(port->guid), "pkeys", capacity_of(port->node, port->portnum));
    if (!far || far->node->type != IB_NODE_SWITCH || far->node->path_portid.drpath.cnt + 1 >= IB_SUBNET_PATH_HOPS_MAX) {
        json_object_set_new(place, "way", write_way(&port->node->path_portid.drpath));
        return place;
    }
    /* Over that very cable: who answers there is who hangs on that port of the switch. */
    json_t *way = write_way(&far->node->path_portid.drpath);
    json_array_append_new(way, json_integer(far->portnum));
    json_object_set_new(place, "way", way);
    json_object_set_new(place, "enforced", json_integer(capacity_of(far->node, far->portnum)));
    return place;
}

static json_t *
find_places(ibnd_fabric_t *fabric)
{
    json_t *places = json_array();
    for (ibnd_node_t *node = fabric->nodes; node; node = node->next)
        for (int i = 1; node->type != IB_NODE_SWITCH && i <= node->numports; i++)
            if (node->ports[i])
                json_array_append_new(places, write_place(node->ports[i]));
    return places;
}

int
main(int argc, char **argv)
{
    guint64 port;
    if (argc != 3 || !g_ascii_string_to_unsigned(argv[2], 10, 0, WEFT_MAP_PORTS_MAX, &port, NULL)) {
        fprintf(stderr, "usage: weft-discover DEVICE PORT\n");
        return 2;
    }
    /* weftd may be killed at any moment, and nobody waits for the answer then. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *key = g_getenv("WEFT_M_KEY");
    ibnd_config_t config = { .timeout_ms = TIMEOUT_MS, .retries = RETRIES, .mkey = key ? g_ascii_strtoull(key, NULL, 0) : 0 };
    ibnd_fabric_t *fabric = ibnd_discover_fabric(*argv[1] ? argv[1] : NULL, (int)port, NULL, &config);
    if (!fabric)
        return 2;
    json_auto_t *found = json_pack("{s:o, s:o}", "map", describe(fabric), "places", find_places(fabric));
    ibnd_destroy_fabric(fabric);
    return json_dumpf(found, stdout, JSON_COMPACT) == 0 && fflush(stdout) == 0 ? 0 : 1;
}
