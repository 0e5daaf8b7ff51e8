/* The fleet as placement sees it: every host, and what is free on it. Derived from hosts and nodes, never stored. */
#pragma once

#include "host.h"
#include "lane.h"
#include "node.h"
#include "seat.h"

#include <glib.h>

typedef struct WeftFleet WeftFleet;

WeftFleet *weft_fleet_new(void);
void weft_fleet_free(WeftFleet *fleet);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFleet, weft_fleet_free)

/* Adds a host or replaces its description; takes it over. What nodes hold there stays taken. A new host is closed. */
void weft_fleet_put_host(WeftFleet *fleet, WeftHost *host);
void weft_fleet_remove_host(WeftFleet *fleet, const char *name);
const WeftHost *weft_fleet_host(const WeftFleet *fleet, const char *name);
/* Those of a fabric (WeftHost), borrowed, in no order; NULL: of all fabrics. */
GPtrArray *weft_fleet_hosts(const WeftFleet *fleet, const char *fabric);
/* The leaf switch of its first rail: as it is described, else as the fabric tells; "": not known, or no such host. Hosts of
 * which it is not known count as one leaf. */
const char *weft_fleet_leaf(const WeftFleet *fleet, const char *name);

/* An open host takes new nodes: the reconciler opens it once it was seen up and clean, and closes it when it is lost. */
void weft_fleet_set_open(WeftFleet *fleet, const char *name, gboolean open);

/* What a fabric's manager and ports mean for placement. A fabric of which nothing was told has no limits. */
typedef struct WeftFleetFabric {
    char *closed;       /* why no node can be placed there now; NULL: one can */
    char *no_devices;   /* why none of its ports can be given, as a function or whole; NULL: they can */
    char *no_virtual;   /* why virtual functions of mlx5, which are ports of their own, cannot be given; NULL: they can */
    guint pkeys;        /* clusters whose P_Keys a port has room for, where no more is known of it; 0: any number */
    GHashTable *ports;  /* port GUID (guint64 *) to the same number, of those of which it is known; NULL: of none */
    WeftLanes qos;      /* what may be promised of the hosts' links */
    char *no_lanes;     /* why nothing of it can be promised now; NULL: it can */
    GHashTable *rates;  /* port GUID (guint64 *) to bits a second (guint64 *); a port that is not there promises nothing */
    GHashTable *leaves; /* port GUID (guint64 *) to the name (char *) of the switch that it hangs on; NULL: of none is known */
    GHashTable *switches; /* name (char *) of a switch to its row in hops (GUINT_TO_POINTER); NULL: distances are not known, and
                             all leaves are as far from each other */
    GArray *hops;         /* guint8, cables between two switches, n × n; 255: no way */
} WeftFleetFabric;
/* Replaces what was told before. Takes what the struct holds. */
void weft_fleet_set_fabric(WeftFleet *fleet, const char *name, const WeftFleetFabric *told);

/* Bits a second that the lane of a service level has on a host's port in all; 0: none, or not known. */
guint64 weft_fleet_lane_room(const WeftFleet *fleet, const char *host, const char *hca, guint sl);

/* What the host has, by its own word: adapters, functions and GPUs that are described and not among it, and functions of which
 * the address is "" there, are not placed on. All
 * of them are there until this is told, and after each weft_fleet_put_host(). */
void weft_fleet_set_devices(WeftFleet *fleet, const char *name, const WeftHost *found);

/* To be called before placement when hosts came or went; cheap when none did. */
void weft_fleet_sort(WeftFleet *fleet);
/* Takes notice of what has changed now, while nobody waits, so that the next decision need not. */
void weft_fleet_prepare(WeftFleet *fleet);

/* The number of a host, which stays while the fleet lives; G_MAXUINT: none of that name. */
guint weft_fleet_number(const WeftFleet *fleet, const char *name);
/* NULL: it has gone. */
const char *weft_fleet_name(const WeftFleet *fleet, guint number);
guint weft_fleet_size(const WeftFleet *fleet);
/* Cores that nodes could have in all, on open hosts, and those of them that are free. */
guint64 weft_fleet_cores(const WeftFleet *fleet, guint64 *ret_free);

/* A host that is not there is passed over: its nodes hold nothing that could be given to others. */
void weft_fleet_take(WeftFleet *fleet, const WeftNode *node);
void weft_fleet_give(WeftFleet *fleet, const WeftNode *node);
/* Pages of a host that are no node's: memory that nodes are forked from. They hold no cluster off that wants the host for
 * itself. */
void weft_fleet_take_pages(WeftFleet *fleet, const char *host, const WeftMemory *memory);
void weft_fleet_give_pages(WeftFleet *fleet, const char *host, const WeftMemory *memory);
/* Are so many free there? */
gboolean weft_fleet_has_pages(const WeftFleet *fleet, const char *host, const WeftMemory *memory);
/* Nothing is taken there any more. */
void weft_fleet_empty(WeftFleet *fleet, const char *host);

/* The same by seats. cluster: id, under which they are taken. */
void weft_fleet_take_seats(WeftFleet *fleet, const WeftSeat *seats, guint n, const char *cluster);
void weft_fleet_give_seats(WeftFleet *fleet, const WeftSeat *seats, guint n, const char *cluster);
/* Is all that they have free? See weft_slot_has_room(). */
gboolean weft_fleet_has_room(WeftFleet *fleet, const WeftSeat *seats, guint n);
/* What the node holds; FALSE: its host is not there. */
gboolean weft_fleet_seat_of(const WeftFleet *fleet, const WeftNode *node, WeftSeat *ret_seat);

/* The fleet as it is now, for other threads: never changed, and shared by those that were made while nothing changed. Costs
 * what changed since the last one was made. Not between weft_fleet_begin() and weft_fleet_rollback(). The fleet must live
 * longer. */
typedef struct WeftFleetSnapshot WeftFleetSnapshot;
WeftFleetSnapshot *weft_fleet_snapshot(WeftFleet *fleet);
/* NULL is allowed, and stays NULL. thread: any. */
WeftFleetSnapshot *weft_fleet_snapshot_ref(WeftFleetSnapshot *snapshot);
void weft_fleet_snapshot_unref(WeftFleetSnapshot *snapshot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFleetSnapshot, weft_fleet_snapshot_unref)
/* Makes a fleet what the snapshot says: one that began empty, and is changed by nothing else. The hosts have the same numbers.
 * Costs what differs from what it followed before, and placement keeps what it knows. */
void weft_fleet_follow(WeftFleet *fleet, WeftFleetSnapshot *snapshot);
/* Seats that were found on the snapshot, whatever has happened since: can a cluster have all of them now? Costs a little for
 * each. */
gboolean
weft_fleet_accepts(WeftFleet *fleet, const WeftFleetSnapshot *snapshot, const WeftSeat *seats, guint n, const char *cluster);

/* Looking ahead: what is taken, given and closed from here on is undone by the rollback. May be nested. Hosts must neither come
 * nor go, nor fabrics change, in between. */
guint weft_fleet_begin(WeftFleet *fleet);
void weft_fleet_rollback(WeftFleet *fleet, guint mark);
