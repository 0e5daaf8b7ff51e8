/* The seam to the subnet manager of a fabric. Implementations: opensm (by its plugin, by its partitions file, or by a pool of
 * partitions that are on every port already), none (nobody manages the fabric), and for tests fake (a world in files).
 *
 * thread: all calls on the main thread; they return at once, and their callback runs later on the main thread, also after a
 * cancellation. Errors as in hypervisor.h. */
#pragma once

#include "map.h"
#include "partition.h"
#include "pkeys.h"

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftFabricDriver WeftFabricDriver;

typedef struct WeftPartitionRemoval {
    guint pkey;
    char name[WEFT_PARTITION_NAME_MAX + 1]; /* of the partition that goes; "": none is there, and ports are to forget the key */
} WeftPartitionRemoval;

/* A change of weft's partitions: those in set get exactly these members, those in removed go. A partition is known by its
 * number and its name: where the number has a partition of another name already, of whomever, the change is refused (CONFLICT).
 */
typedef struct WeftFabricChange {
    guint64 generation; /* grows with each change; a driver refuses one that is older than what it applied (CONFLICT) */
    GPtrArray *set;     /* WeftPartition */
    GArray *removed;    /* WeftPartitionRemoval */
} WeftFabricChange;

/* A P_Key table as it was read from a port. */
typedef struct WeftPortTable {
    guint64 port_guid;
    GArray *pkeys;    /* guint16 with the bit of full membership, by index; 0: empty */
    GArray *enforced; /* the same of the switch's port at the other end; NULL: no switch there, or it enforces nothing */
    char *error;      /* why it was not read ("does not answer"); NULL: it was */
} WeftPortTable;

WeftPortTable *weft_port_table_new(guint64 port_guid);
void weft_port_table_free(WeftPortTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftPortTable, weft_port_table_free)

/* What the manager says of itself. */
typedef struct WeftManager {
    char *way;               /* "plugin", "file", "pool", "none", "fake" */
    char *version;           /* "OpenSM 3.3.23" */
    char *where;             /* the machine or socket that answered; for people */
    gboolean master;         /* it rules the fabric just now */
    gboolean sweeping;       /* it looks at the whole fabric just now */
    gboolean virtualization; /* it programs the virtual ports of mlx5's virtual functions */
    gboolean qos;            /* it heeds service levels */
    gboolean enforces;       /* switches check partitions at hosts' ports */
    gboolean keeps_indices;  /* P_Keys keep their place in the ports' tables, also over its restarts */
    char *routing;           /* engine in use, "minhop"; NULL: not known */
    guint64 generation;      /* of the last change that it has seen, of whomever; 0: not known */
} WeftManager;

void weft_manager_free(WeftManager *manager);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftManager, weft_manager_free)

typedef enum {
    WEFT_FABRIC_EVENT_PORTS,   /* ports came or went, or links changed: the map should be read again */
    WEFT_FABRIC_EVENT_SWEPT,   /* a sweep of the whole fabric is over: what was drifting may have changed */
    WEFT_FABRIC_EVENT_MANAGER, /* another manager rules, or it can be reached again: all should be looked at */
    WEFT_FABRIC_EVENT_LOST,    /* no manager can be reached; the detail tells why */
} WeftFabricEvent;
/* detail: for people, may be NULL. */
typedef void (*WeftFabricHeard)(WeftFabricEvent event, const char *detail, gpointer data);

WeftFabricChange *weft_fabric_change_new(guint64 generation);
void weft_fabric_change_free(WeftFabricChange *change);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFabricChange, weft_fabric_change_free)

void weft_fabric_change_remove(WeftFabricChange *change, guint pkey, const char *name);
/* INVALID: it touches a number that is not weft's. */
gboolean weft_fabric_change_check(const WeftFabricChange *change, const WeftPkeys *pkeys, GError **error);

typedef void (*WeftFabricApplied)(const GError *error, gpointer data);
/* partitions: WeftPartition by number, the site's own as well; NULL with an error. Borrowed. */
typedef void (*WeftFabricListed)(GPtrArray *partitions, const GError *error, gpointer data);
/* The rest alike: NULL with an error, borrowed. tables: WeftPortTable, in order of the GUIDs asked for. */
typedef void (*WeftFabricMapped)(const WeftFabricMap *map, const GError *error, gpointer data);
typedef void (*WeftFabricVerified)(GPtrArray *tables, const GError *error, gpointer data);
typedef void (*WeftFabricGreeted)(const WeftManager *manager, const GError *error, gpointer data);

/* Who programs partitions there. */
typedef enum {
    WEFT_FABRIC_MANAGED,
    WEFT_FABRIC_UNMANAGED, /* nobody, and the site says so: no port of it is given to nodes */
    WEFT_FABRIC_UNNAMED,   /* the site does not say: the fabric is left as it is, and takes no nodes */
} WeftFabricManagement;

typedef struct WeftFabricDriverOps {
    const char *name;
    WeftFabricManagement management;
    /* All of the change or nothing of it; ends when the ports have it. Idempotent. A number of another partition is CONFLICT,
     * one that is not among those that the driver was given is INVALID, and removing one that is not there is success. Takes
     * the change over. */
    void (*apply)(WeftFabricDriver *fabric, WeftFabricChange *change, GCancellable *cancellable, WeftFabricApplied callback,
                  gpointer data);
    void (*list)(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricListed callback, gpointer data);
    /* Who rules, and what it is able to. */
    void (*greet)(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricGreeted callback, gpointer data);
    /* Nodes, ports and links as the manager knows them, without asking the fabric. */
    void (*map)(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricMapped callback, gpointer data);
    /* Reads the tables of these ports (guint64) back from the ports themselves. Takes the array over. */
    void (*verify)(WeftFabricDriver *fabric, GArray *port_guids, GCancellable *cancellable, WeftFabricVerified callback,
                   gpointer data);
    /* From now on, on the main thread; NULL: no more. Events are hints: what they tell may be told twice, or be over. */
    void (*listen)(WeftFabricDriver *fabric, WeftFabricHeard heard, gpointer data);
    /* The largest generation that the manager has seen: where the next change must start. thread: may block briefly; start-up
     * only. */
    gboolean (*generation)(WeftFabricDriver *fabric, guint64 *ret_generation, GError **error);
    void (*free)(WeftFabricDriver *fabric);
} WeftFabricDriverOps;

struct WeftFabricDriver {
    const WeftFabricDriverOps *ops;
};

/* Cancels what is pending; callbacks do not run any more. NULL is fine. */
void weft_fabric_driver_free(WeftFabricDriver *fabric);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFabricDriver, weft_fabric_driver_free)
