#include "ports.h"

#include <infiniband/umad.h>

/* ibsim loses nothing without saying so: only a busy machine takes its time. */
#define TIMEOUT_MS 10000
#define RETRIES 2

static void
add_port(Ports *ports, const ibnd_port_t *port)
{
    const ibnd_port_t *other = port->remoteport;
    if (!other || other->node->type != IB_NODE_SWITCH)
        return;
    PortsPort *found = g_new0(PortsPort, 1);
    found->guid = port->guid;
    found->switch_guid = other->node->guid;
    found->enforced.way = other->node->path_portid;
    found->enforced.port = (guint)other->portnum;
    found->enforced.capacity = mad_get_field(((ibnd_node_t *)other->node)->switchinfo, 0, IB_SW_PARTITION_ENFORCE_CAP_F);
    /* By that very cable: a host with two ports has two tables. */
    found->own.way = found->enforced.way;
    found->own.way.drpath.p[++found->own.way.drpath.cnt] = (guint8)other->portnum;
    found->own.capacity = mad_get_field(port->node->info, 0, IB_NODE_PARTITION_CAP_F);
    g_hash_table_insert(ports->by_guid, &found->guid, found);
}

Ports *
ports_discover(void)
{
    int classes[] = { IB_SMI_CLASS, IB_SMI_DIRECT_CLASS, IB_SA_CLASS };
    Ports *ports = g_new0(Ports, 1);
    ports->by_guid = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);

    ibnd_config_t config = { .timeout_ms = TIMEOUT_MS, .retries = RETRIES };
    ibnd_fabric_t *fabric = ibnd_discover_fabric(NULL, 0, NULL, &config);
    if (!fabric)
        g_error("the fabric cannot be looked at; is this inside its namespace, with umad2sim?");
    for (ibnd_node_t *node = fabric->nodes; node; node = node->next)
        for (int number = 1; node->type == IB_NODE_CA && number <= node->numports; number++)
            if (node->ports[number])
                add_port(ports, node->ports[number]);
    ibnd_destroy_fabric(fabric);

    ports->mads = mad_rpc_open_port(NULL, 0, classes, G_N_ELEMENTS(classes));
    if (!ports->mads)
        g_error("no port of this machine takes MADs");
    mad_rpc_set_timeout(ports->mads, TIMEOUT_MS);
    mad_rpc_set_retries(ports->mads, RETRIES);
    return ports;
}

void
ports_free(Ports *ports)
{
    if (!ports)
        return;
    mad_rpc_close_port(ports->mads);
    g_hash_table_unref(ports->by_guid);
    g_free(ports);
}

const PortsPort *
ports_get(const Ports *ports, guint64 guid)
{
    const PortsPort *found = g_hash_table_lookup(ports->by_guid, &guid);
    if (!found)
        g_error("no port with the GUID 0x%016" G_GINT64_MODIFIER "x can be reached", guid);
    return found;
}

guint64
ports_parse_guid(const char *text)
{
    char *end = NULL;
    guint64 guid = g_ascii_strtoull(text, &end, 16);
    if (*end || guid == 0)
        g_error("'%s' is no GUID; write it as 0x0002c90300100001", text);
    return guid;
}

static guint
modifier(const PortsTable *table, guint block)
{
    return table->port << 16 | block;
}

/* The low half of a transaction's number, where nobody between us and the port changes it. */
static void
ask_block(const Ports *ports, const PortsRead *read, guint32 number)
{
    ib_portid_t way = read->table->way;
    ib_rpc_t rpc = {
        .mgtclass = IB_SMI_DIRECT_CLASS,
        .method = IB_MAD_METHOD_GET,
        .attr = { .id = IB_ATTR_PKEY_TBL, .mod = modifier(read->table, read->block) },
        .timeout = TIMEOUT_MS,
        .dataoffs = IB_SMP_DATA_OFFS,
        .datasz = IB_SMP_DATA_SIZE,
        .trid = number,
    };
    if (mad_send_via(&rpc, &way, NULL, NULL, ports->mads) < 0)
        g_error("no MAD can be sent");
}

/* FALSE: the late answer to an earlier question. */
static gboolean
take_block(PortsRead *reads, guint n, guint32 first, void *umad)
{
    guint8 *mad = umad_get_mad(umad);
    guint32 place = (guint32)mad_get_field64(mad, 0, IB_MAD_TRID_F) - first;
    if (place >= n)
        return FALSE;
    if (umad_status(umad) != 0 || mad_get_field(mad, 0, IB_DRSMP_STATUS_F) != 0)
        return TRUE;
    guint16 answer[PORTS_BLOCK];
    memcpy(answer, mad + IB_SMP_DATA_OFFS, sizeof answer);
    for (guint i = 0; i < PORTS_BLOCK; i++)
        reads[place].pkeys[i] = GUINT16_FROM_BE(answer[i]);
    reads[place].answered = TRUE;
    return TRUE;
}

void
ports_read_blocks(const Ports *ports, PortsRead *reads, guint n)
{
    static guint32 asked;
    g_autofree void *umad = g_malloc0(umad_size() + IB_MAD_SIZE);
    guint32 first = asked + 1;
    for (guint i = 0; i < n; i++) {
        reads[i].answered = FALSE;
        ask_block(ports, &reads[i], ++asked);
    }
    for (guint heard = 0; heard < n && mad_receive_via(umad, TIMEOUT_MS, ports->mads);)
        heard += take_block(reads, n, first, umad) ? 1 : 0;
}

gboolean
ports_read(const Ports *ports, const PortsTable *table, guint16 *pkeys)
{
    PortsRead reads[PORTS_TABLE_MAX / PORTS_BLOCK];
    guint n = (table->capacity + PORTS_BLOCK - 1) / PORTS_BLOCK;
    g_assert_cmpuint(n, <=, G_N_ELEMENTS(reads));
    for (guint i = 0; i < n; i++)
        reads[i] = (PortsRead){ .table = table, .block = i };
    ports_read_blocks(ports, reads, n);
    for (guint i = 0; i < n; i++) {
        if (!reads[i].answered)
            return FALSE;
        guint first = i * PORTS_BLOCK;
        memcpy(pkeys + first, reads[i].pkeys, MIN(PORTS_BLOCK, table->capacity - first) * sizeof *pkeys);
    }
    return TRUE;
}

gboolean
ports_write_block(const Ports *ports, const PortsTable *table, guint block, const guint16 *pkeys)
{
    guint16 wanted[PORTS_BLOCK];
    ib_portid_t way = table->way;
    for (guint i = 0; i < PORTS_BLOCK; i++)
        wanted[i] = GUINT16_TO_BE(pkeys[i]);
    return smp_set_via(wanted, &way, IB_ATTR_PKEY_TBL, modifier(table, block), 0, ports->mads) != NULL;
}
