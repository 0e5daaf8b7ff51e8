/* P_Key tables as the ports of a fabric have them, told by whoever is asked over a socket: a line with a port's GUID
 * there, a line with its P_Keys by index back ("0x7fff 0x8001 0x0000"), nothing where there is no such port. A virtual port's
 * GUID is asked for in the same way. */
#pragma once

#include <glib.h>

#define PORT_PKEYS 128

typedef struct PortTable {
    guint n; /* 0: nobody knows of this port */
    guint16 pkeys[PORT_PKEYS];
} PortTable;

/* Whom to ask: a Unix socket's path, or "ADDRESS:PORT"; borrowed. Without one there is no fabric. */
void ports_use(const char *socket);
gboolean ports_are_known(void);
gboolean ports_ask(guint64 guid, PortTable *ret_table);
