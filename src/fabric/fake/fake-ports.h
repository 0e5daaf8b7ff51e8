/* The partitions of the fake subnet manager by port: what a port holds costs what is on it to tell, not what is in the fabric.
 */
#pragma once

#include "partition.h"

typedef struct WeftFakePorts WeftFakePorts;

/* A port in a partition. */
typedef struct WeftFakeSeat {
    guint pkey;
    const WeftMember *member; /* the first of this port: its virtual functions are one entry of its table */
} WeftFakeSeat;

WeftFakePorts *weft_fake_ports_new(void);
void weft_fake_ports_free(WeftFakePorts *ports); /* NULL is fine */

/* In place of the one that had its number; takes it over. */
void weft_fake_ports_set(WeftFakePorts *ports, WeftPartition *partition);
void weft_fake_ports_remove(WeftFakePorts *ports, guint pkey);

/* WeftFakeSeat by number, borrowed until the next change; NULL: it is in no partition. */
const GArray *weft_fake_ports_seats(const WeftFakePorts *ports, guint64 port_guid);
