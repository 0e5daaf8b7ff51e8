/* The inside of the fleet, for placement only. */
#pragma once

#include "fleet.h"
#include "index.h"
#include "slot.h"

#define WEFT_LEVELS_MAX 16

/* Leaves that are near to each other; they lie together. */
typedef struct WeftZone {
    guint first;
    guint n;
} WeftZone;

/* The zones within which any two leaves are at most so far from each other. */
typedef struct WeftLevel {
    guint hops; /* G_MAXUINT: distances are not known */
    guint n;
    WeftZone *zones;
    guint *zone_of; /* by leaf */
} WeftLevel;

/* The hosts of one fabric in the order in which they are looked at: by zone, leaf and name. */
typedef struct WeftRealm {
    const char *fabric;
    const WeftFleetFabric *told;
    guint n;
    guint *numbers; /* of the hosts, by place */
    guint *leaf_of; /* by place */
    guint n_leaves;
    guint *leaf_first;    /* places; one more than there are leaves */
    guint *order;         /* of the leaves by their names, as they are numbered here */
    GHashTable *switches; /* as told: name to row in hops; NULL: distances are not known */
    guint n_switches;
    GArray *hops;
    int *rows; /* of each leaf's switches in hops, by leaf and rail; -1: not known */
    guint rails;
    guint n_levels; /* the last one is a zone of all */
    WeftLevel levels[WEFT_LEVELS_MAX];
    gboolean irregular;       /* zones overlap: it is no tree */
    gboolean stale;           /* its hosts or distances changed since it was made */
    gboolean gives_functions; /* a host has some that can be given, now or when they are free */
    gboolean gives_known;
    GPtrArray *indexes; /* WeftIndex, the latest used last */
} WeftRealm;

/* Where a host is in the order. */
typedef struct WeftPlace {
    WeftRealm *realm; /* NULL: it came or moved, and is not sorted yet, or has gone */
    guint place;
    guint kept; /* the innermost look ahead that has a copy of its slot; 0: none */
} WeftPlace;

struct WeftFleet {
    GHashTable *by_name; /* borrowed name to WeftSlot */
    GHashTable *numbers; /* name to number, of all that ever were there */
    GPtrArray *names;    /* by number, borrowed from that */
    GPtrArray *slots;    /* WeftSlot by number; NULL: it has gone */
    GPtrArray *hosts;    /* WeftHost, likewise */
    GArray *versions;    /* guint32 by number: counts changes */
    GArray *places;      /* WeftPlace by number */
    GArray *log;         /* guint32: numbers of the slots that changed, in order */
    guint64 log_start;   /* changes before the first in the log */
    GHashTable *fabrics; /* name to WeftFleetFabric */
    GPtrArray *realms;   /* WeftRealm, by the name of the fabric */
    GArray *order;       /* guint: hosts by fabric, leaf and name, when they were sorted last */
    gboolean sorted;
    guint mark;                /* of the innermost weft_fleet_begin(); 0: none */
    GArray *journal;           /* what the rollback restores */
    GByteArray *blocks;        /* … the slots */
    struct WeftBoard *board;   /* placement's own memory */
    guint64 tellings;          /* how often something was told of a fabric */
    WeftFleetSnapshot *latest; /* that was made of it, or that it followed; NULL: none */
};

/* Copies what is told of a fabric; the tables are shared. */
WeftFleetFabric weft_fabric_copy(const WeftFleetFabric *fabric);
void weft_fabric_clear(WeftFleetFabric *fabric);
/* The number of a name, a new one where it has none. */
guint weft_fleet_give_number(WeftFleet *fleet, const char *name);
/* Which functions there are may have changed. */
void weft_fleet_doubt_functions(WeftFleet *fleet);

/* Something about the slot changes now. Snapshots it first where it may have to be undone. */
void weft_fleet_touch(WeftFleet *fleet, WeftSlot *slot);

static inline WeftSlot *
weft_fleet_slot(const WeftFleet *fleet, guint number)
{
    return fleet->slots->pdata[number];
}

static inline guint32
weft_fleet_version(const WeftFleet *fleet, guint number)
{
    return g_array_index(fleet->versions, guint32, number);
}

/* --- order (fleet-order.c) --- */

void weft_realm_free(WeftRealm *realm);
/* The leaf switch of a rail; NULL: not known. */
const char *weft_slot_leaf(const WeftSlot *slot, guint rail);
/* Would it be on the same leaves, were it described and told of so? */
gboolean weft_slot_would_stay(const WeftSlot *slot, const WeftHost *host, const WeftFleetFabric *told);
/* The name of a leaf; "": not known. */
const char *weft_realm_leaf_name(const WeftFleet *fleet, const WeftRealm *realm, guint leaf);

gboolean weft_realm_gives_functions(WeftFleet *fleet, WeftRealm *realm);

/* --- distances (fleet-zones.c) --- */

/* Brings its leaves, which are in order of names, into that of zones. before: what it replaces, from which it takes over what
 * still holds; NULL: nothing. */
void weft_realm_make_zones(WeftRealm *realm, const WeftFleet *fleet, WeftRealm *before);
void weft_realm_clear_zones(WeftRealm *realm);
/* Cables between two leaves, on the rail where they are most; G_MAXUINT: not known. */
guint weft_realm_hops(const WeftRealm *realm, guint a, guint b);

/* --- lanes (fleet-lanes.c) --- */

/* The lanes to try for the request in the fabric, the best first. 0: none, and why. */
guint weft_fleet_lanes(const WeftFleet *fleet, const WeftRealm *realm, guint64 bandwidth, guint sl,
                       const WeftLane *ret_lanes[WEFT_LANES_MAX], GError **error);
