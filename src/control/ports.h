/* P_Key tables as they are in the ports: read a few at a time, so that looking at a large fabric does not load it. Those who
 * ask while a question is under way share the next one: many clusters that are wired at once cost a few questions. */
#pragma once

#include "fabric.h"

/* What a port should hold. */
typedef struct WeftPortWish {
    guint64 port_guid;
    guint pkey;     /* number of the partition that wants it */
    guint16 key;    /* with the bit of full membership where it is one */
    gboolean first; /* it must be at index 0 */
} WeftPortWish;

/* A wish for each port among the members of a partition, once. */
void weft_port_wishes_add(GArray *wishes, const WeftPartition *partition);
/* The ports of these wishes, each once (guint64). */
GArray *weft_port_wishes_ports(const GArray *wishes);
/* Port GUID (guint64 *) to GArray of its wishes. */
GHashTable *weft_port_wishes_by_port(const GArray *wishes);
/* NULL: the table fulfils it. Else what is wrong, to be put behind the port's name: "does not answer". */
char *weft_port_wish_check(const WeftPortWish *wish, const WeftPortTable *table);

typedef struct WeftPorts WeftPorts;

WeftPorts *weft_ports_new(WeftFabricDriver *driver, gint64 deadline);
/* Callbacks do not run any more. */
void weft_ports_free(WeftPorts *ports);

/* Reads the tables of these ports (guint64); takes the array over. hurry: somebody waits for it, and it goes before those for
 * whom nobody does. tables: WeftPortTable in order, borrowed; NULL with an error. */
typedef void (*WeftPortsRead)(GPtrArray *tables, const GError *error, gpointer data);
void weft_ports_read(WeftPorts *ports, GArray *port_guids, gboolean hurry, WeftPortsRead callback, gpointer data);
