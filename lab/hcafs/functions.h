/* What the drivers of mlx4 and mlx5 have for a virtual function, and what it can do with that. */
#pragma once

#include "ports.h"

#include <glib.h>

#define DEVICES "/devices/pci0000:00"
#define DRIVERS "/bus/pci/drivers"
#define HCA "%s/infiniband/%s" /* of a physical function's folder and an HCA's name */
#define FUNCTIONS "/.functions"

typedef struct Adapter {
    gboolean mlx4;
    gboolean vendor; /* mlx5 by the vendor's driver */
    char *name;
    char *pf;             /* PCI address */
    char *folder;         /* its own: DEVICES/PCI, or where a real one lies */
    gboolean real, on;    /* a real one, whose driver has it */
    GPtrArray *functions; /* of a real one: addresses by number, NULL where there is none now */
    guint number;         /* from 1 */
    guint ports;          /* of mlx4 */
    guint born;           /* functions at the beginning */
    guint vfs, total;     /* that there are now, that there can be */
    int numa;
    guint64 guid;     /* of port 1 */
    char **keys;      /* its port's, where no fabric tells; may be NULL */
    PortTable table;  /* as read last */
    GHashTable *kept; /* "VF/FILE" to the value that it had when the function went */
} Adapter;

char *function_address(const Adapter *a, guint vf);
/* The port's own files of mlx4. */
void function_add_ports(Adapter *a);
void function_add(Adapter *a, guint vf);
void function_remove(Adapter *a, guint vf);
