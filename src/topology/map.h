/* What a fabric looks like: switches, adapters, ports and cables. Read from the subnet manager, or from a file that
 * ibnetdiscover wrote. Pure: no I/O. */
#pragma once

#include <glib.h>
#include <jansson.h>

#define WEFT_MAP_NODES_MAX 65536u   /* more than a subnet has LIDs */
#define WEFT_MAP_SWITCHES_MAX 4096u /* distances between all of them are kept */
#define WEFT_MAP_PORTS_MAX 255u     /* the highest number of a port */
#define WEFT_MAP_NAME_MAX 64u       /* characters of a description: as many as InfiniBand has */
#define WEFT_MAP_LID_MAX 65535u
#define WEFT_MAP_RATE_MAX G_GUINT64_CONSTANT(10000000000000) /* 10 Tbit/s: four times 12x XDR */

typedef enum { WEFT_MAP_SWITCH, WEFT_MAP_ADAPTER, WEFT_MAP_ROUTER } WeftMapKind;
extern const char *const weft_map_kind_words[]; /* "switch", "adapter", "router" */

typedef struct WeftMapPort {
    guint number; /* from 1; 0 is a switch's own */
    guint64 guid; /* of an adapter's port, and of a switch's port 0; else 0 */
    guint lid;
    guint pkeys;     /* places in its P_Key table; of a switch's port in the table that it enforces; 0: not known */
    gboolean active; /* it carries data */
    guint64 rate;    /* bits a second as Linux tells them, 100,000,000,000 for 4x EDR; 0: not known */
    int peer;        /* index of the node at the other end; -1: none */
    guint peer_port; /* number of its port */
} WeftMapPort;

typedef struct WeftMapNode {
    WeftMapKind kind;
    guint64 guid;
    char *description;
    GArray *ports; /* WeftMapPort, by number */
} WeftMapNode;

typedef struct WeftFabricMap {
    GPtrArray *nodes; /* WeftMapNode, by kind and GUID: the same fabric gives the same order */
} WeftFabricMap;

WeftFabricMap *weft_fabric_map_new(void);
WeftFabricMap *weft_fabric_map_copy(const WeftFabricMap *map);
void weft_fabric_map_free(WeftFabricMap *map);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFabricMap, weft_fabric_map_free)

/* Adds a node without ports; the map owns it. Ports are added to its array; then weft_fabric_map_seal() sorts everything and
 * checks that each cable has two ends and each number is within its bound (INVALID names the port): what is sealed can be
 * written as JSON and read again. */
WeftMapNode *weft_fabric_map_add(WeftFabricMap *map, WeftMapKind kind, guint64 guid, const char *description);
gboolean weft_fabric_map_seal(WeftFabricMap *map, GError **error);

/* Bits a second of a link, by the bits of its port's PortInfo: LinkSpeedExtActive, LinkSpeedActive and LinkWidthActive. As
 * Linux tells them: FDR's 14.0625 is 14. 0: not known. */
guint64 weft_map_rate(guint extended, guint plain, guint width);

/* The port of that number in a sealed map; NULL: none. */
const WeftMapPort *weft_map_node_port(const WeftMapNode *node, guint number);

/* { "nodes": [ { "kind": "switch", "guid": "0x…", "description": "…", "ports": [ { "number": 1, "guid": "0x…", "lid": 4,
 * "pkeys": 32, "active": true, "rate": 100000000000, "peer": "0x<node guid>", "peer_port": 1 }, … ] }, … ] } What is zero or
 * false may be left out, and "peer" where there is no cable. */
WeftFabricMap *weft_fabric_map_from_json(json_t *json, GError **error);
json_t *weft_fabric_map_to_json(const WeftFabricMap *map);

/* The text that ibnetdiscover writes without options, or that ibsim reads; GUIDs that a file does not tell are those that ibsim
 * gives. INVALID names the line. */
WeftFabricMap *weft_fabric_map_from_ibnetdiscover(const char *text, GError **error);

/* --- asking it --- */

typedef struct WeftMapPlace {
    int node; /* index; -1: not there */
    guint port;
} WeftMapPlace;
WeftMapPlace weft_fabric_map_find_port(const WeftFabricMap *map, guint64 port_guid);
/* The switch that the port hangs on; -1: none. */
int weft_fabric_map_leaf(const WeftFabricMap *map, guint64 port_guid);
/* How many switches there are; they come first. */
guint weft_fabric_map_switches(const WeftFabricMap *map);
/* A switch's name: its description where that is a word of its own in the fabric, else "switch-<guid>". Never with characters
 * that Slurm's topology.conf or a shell would stumble over. */
GPtrArray *weft_fabric_map_switch_names(const WeftFabricMap *map); /* char *, in order of the map */
char *weft_fabric_map_switch_name(const WeftFabricMap *map, int node);
/* Cables between two switches on the shortest way, by index of the nodes; G_MAXUINT: no way. The table is n × n of switches in
 * order of the map. */
GArray *weft_fabric_map_distances(const WeftFabricMap *map); /* guint8; 255: no way */
