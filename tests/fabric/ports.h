/* P_Key tables read and written on the ports themselves: by whoever watches a subnet manager from outside, in tests and
 * benchmarks. The way to a port is found once, by directed routes, so that nothing here depends on the manager's routing. */
#pragma once

#include <glib.h>
#include <infiniband/ibnetdisc.h>

#define PORTS_BLOCK 32 /* P_Keys in one MAD */
#define PORTS_TABLE_MAX 2048

/* The table of a host's port, or that by which a switch checks at one of its ports. */
typedef struct PortsTable {
    ib_portid_t way;
    guint port;     /* of the switch; 0: a host's, which MADs reach as they come in */
    guint capacity; /* 0: there is none */
} PortsTable;

typedef struct PortsPort {
    guint64 guid;
    PortsTable own;
    PortsTable enforced; /* at the other end of the cable */
    guint64 switch_guid;
} PortsPort;

typedef struct Ports {
    struct ibmad_port *mads;
    GHashTable *by_guid; /* guint64 -> PortsPort: hosts' ports that have a cable to a switch */
} Ports;

/* Looks at the whole fabric; ends the program where it cannot. */
Ports *ports_discover(void);
void ports_free(Ports *ports);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Ports, ports_free)

/* Ends the program where there is no such port. */
const PortsPort *ports_get(const Ports *ports, guint64 guid);
guint64 ports_parse_guid(const char *text);

typedef struct PortsRead {
    const PortsTable *table;
    guint block;
    guint16 pkeys[PORTS_BLOCK];
    gboolean answered;
} PortsRead;

/* These blocks, all asked for at once. */
void ports_read_blocks(const Ports *ports, PortsRead *reads, guint n);
/* All P_Keys by index (table->capacity of them); FALSE: no answer. */
gboolean ports_read(const Ports *ports, const PortsTable *table, guint16 *pkeys);
gboolean ports_write_block(const Ports *ports, const PortsTable *table, guint block, const guint16 *pkeys);
