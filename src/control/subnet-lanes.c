#include "subnet-private.h"

/* The link's own rate; what its other end says where the port itself does not tell. */
void
weft_subnet_note_rate(WeftSubnet *subnet, const WeftFabricMap *map, const WeftMapPort *port)
{
    guint64 rate = port->rate;
    if (!rate && port->peer >= 0) {
        const WeftMapPort *other = weft_map_node_port(map->nodes->pdata[port->peer], port->peer_port);
        rate = other ? other->rate : 0;
    }
    if (rate && port->guid)
        g_hash_table_insert(subnet->rates, g_memdup2(&port->guid, sizeof port->guid), g_memdup2(&rate, sizeof rate));
}

static char *
obstacle(const WeftManager *manager)
{
    g_autofree char *rival = weft_lanes_rival(manager->routing);
    if (g_strcmp0(manager->way, "pool") == 0)
        return g_strdup("the partitions of a pool have no service levels of their own");
    if (rival)
        return g_strdup_printf("routing engine %s keeps the service levels for itself", rival);
    if (!manager->qos)
        return g_strdup("quality of service is off in its subnet manager; an operator turns it on with: weft fabric qos");
    return NULL;
}

void
weft_subnet_tell_lanes(const WeftSubnet *subnet, WeftFleetFabric *told)
{
    told->qos = subnet->fabric->qos;
    told->no_lanes = subnet->manager ? obstacle(subnet->manager) : NULL;
    told->rates = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    GHashTableIter iter;
    gpointer guid, rate;
    g_hash_table_iter_init(&iter, subnet->rates);
    while (g_hash_table_iter_next(&iter, &guid, &rate))
        g_hash_table_insert(told->rates, g_memdup2(guid, sizeof(guint64)), g_memdup2(rate, sizeof(guint64)));
}
