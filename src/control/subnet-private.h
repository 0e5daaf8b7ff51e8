/* One fabric as the reconciler works on it, for the files subnet*.c only. */
#pragma once

#include "call.h"
#include "control-private.h"
#include "ports.h"

/* A partition that clusters share, and what each of them brings into it. */
typedef struct WeftSharing {
    const WeftShared *shared;
    GHashTable *members; /* cluster key to GArray of WeftMember */
    GArray *strangers;   /* WeftMember, of hosts that have not answered yet or are held, without nodes by the store */
} WeftSharing;

typedef struct WeftSubnet {
    WeftControl *control;
    WeftFabric *fabric;
    WeftFabricDriver *driver;
    WeftWiring *wiring;
    WeftPorts *ports;

    /* subnet-pkeys.c */
    GHashTable *pkeys;   /* number to WeftPkeyHold */
    GHashTable *resting; /* number to WeftPkeyRest */
    guint rested;        /* timer: somebody waits for one that rests */
    gint64 rested_at;    /* … until then */

    /* subnet-wire.c */
    GPtrArray *wires;    /* clusters on their way into the fabric */
    GPtrArray *sharings; /* WeftSharing */

    /* subnet-drift.c */
    GHashTable *expected;      /* number to WeftPartition, of clusters that are wired, and not being changed */
    GHashTable *suspects;      /* numbers that looked wrong in the last survey: a second look decides */
    GHashTable *port_suspects; /* the same of the last patrol of the ports */
    char *trouble;             /* why it could not be looked at the last time; NULL: it could */
    gboolean surveying;
    gboolean survey_again; /* something happened meanwhile */
    gboolean surveyed;     /* all partitions were seen once, and the site's own are known */
    GHashTable *present;   /* number to the name of the partition that the manager had of it then */
    GPtrArray *outside;    /* char *, partitions that carry weft's mark outside of its numbers, for people */
    guint foreign;         /* partitions of the site's own, the default one apart */
    gboolean patrolling;
    gboolean patrol_again; /* something happened meanwhile */
    gint64 patrolled;      /* monotonic, when the last one began; 0: none did, or it could read nothing */
    GPtrArray *silent;     /* char *, ports of clusters that could not be read, for people */
    GPtrArray *open;       /* char *, those that are full members of the default partition */

    /* subnet-guard.c */
    GHashTable *strangers; /* number of a cluster's partition to the name of a host that has not answered since weftd started or
                              is held, has a port in it, and no node of the cluster by the store */

    /* subnet-inherited.c */
    GHashTable *inherited; /* name of a partition to Inherited: its members on ports of no described host */
    GHashTable *released;  /* set of names of those that an operator has released in this run */
    gboolean counted;      /* they were looked for since weftd started, or the store was doubted */
    gboolean took_stock;   /* … while partitions may be changed: what comes now is a stranger's */

    /* subnet-surplus.c */
    GHashTable *surplus; /* char *, a key in a port where it does not belong, to how many patrols in a row have seen it */

    /* subnet-manager.c */
    WeftManager *manager; /* as it last said; NULL: it never did */
    WeftCall greet;
    gboolean greet_again; /* something happened meanwhile */

    /* subnet-map.c */
    WeftCall map;
    gboolean map_again;      /* something happened meanwhile */
    gint64 mapped;           /* monotonic, when the manager last answered; 0: never, or with an error the last time */
    gboolean map_told;       /* the manager has told one; until then what was imported counts */
    gboolean map_known;      /* what was imported has not changed since it was read */
    GCancellable *importing; /* the last that was read, or is; NULL: none */
    GHashTable *places;      /* port GUID to the size of its P_Key table */
    GHashTable *rates;       /* port GUID to bits a second (guint64 *) of its link */
    GHashTable *leaves;      /* port GUID to its switch's name; replaced, never changed: the fleet has it too */

    /* subnet-hops.c; replaced likewise */
    GHashTable *switches;   /* name of a switch to its row; NULL: not known */
    GArray *hops;           /* as weft_fabric_map_distances() has them */
    guint64 hops_sum;       /* of the switches and cables that were counted last */
    GCancellable *counting; /* NULL: nothing is */
} WeftSubnet;

/* A number that is in use. Who: a cluster by its key, the site (""), a shared partition ("/<name>"), or a partition that
 * carries weft's mark while no record says what became of it ("?"): that one is left alone until an operator says so. */
typedef struct WeftPkeyHold {
    char *holder;
    char *name; /* of the partition */
} WeftPkeyHold;

#define WEFT_HELD_BY_SITE ""
#define WEFT_HELD_UNPROVED "?"
static inline gboolean
weft_holder_is_cluster(const char *holder)
{
    return holder && *holder && *holder != '/' && *holder != '?';
}

/* Whether it is not ours to change: the site's, or of somebody whom no record here knows. */
static inline gboolean
weft_holder_is_foreign(const char *holder)
{
    return holder && (g_str_equal(holder, WEFT_HELD_BY_SITE) || g_str_equal(holder, WEFT_HELD_UNPROVED));
}

/* A number whose partition has ended. */
typedef struct WeftPkeyRest {
    gint64 until; /* nobody gets it before */
    char *name;   /* of the partition that had it; NULL: the site's */
    char *tenant; /* whose cluster had it; NULL: nobody's */
} WeftPkeyRest;

struct WeftSubnets {
    WeftControl *control;
    GHashTable *by_name; /* WeftSubnet */
    guint timer;
    gboolean aged; /* the store may be older than the site: subnet-inherited.c */
};

WeftSubnet *weft_subnet_find(const WeftSubnets *subnets, const char *name);

/* subnet-pkeys.c */
GHashTable *weft_subnet_holds_new(void);
GHashTable *weft_subnet_rests_new(void);
void weft_subnet_hold(WeftSubnet *subnet, guint pkey, const char *holder, const char *name);
const char *weft_subnet_holder(const WeftSubnet *subnet, guint pkey); /* NULL: nobody */
/* Of the partition that the holder has there; NULL: nobody holds it. */
const char *weft_subnet_held_name(const WeftSubnet *subnet, guint pkey);
/* It was in use until now. name: of its partition; NULL: the site's. */
void weft_subnet_rest(WeftSubnet *subnet, guint pkey, const char *name, const char *tenant, gint64 freed);
/* Of the partition that had this number last; NULL: not known, or it is long ago. */
const char *weft_subnet_rested_name(const WeftSubnet *subnet, guint pkey);
/* Whether the number is one of weft's here: for clusters, shared, or shared until lately. */
gboolean weft_subnet_may_write(const WeftSubnet *subnet, guint pkey);
/* Whether a record says that it has ended. */
gboolean weft_subnet_has_ended(const WeftSubnet *subnet, const WeftPartition *partition);
gboolean weft_subnets_load_rests(WeftSubnets *subnets, GError **error);

/* subnet-wire.c */
void weft_wire_free(gpointer data);
WeftSharing *weft_sharing_new(const WeftShared *shared);
void weft_sharing_free(gpointer data);
/* So the fabric should have it. */
WeftPartition *weft_sharing_partition(const WeftSharing *sharing);
WeftSharing *weft_subnet_sharing(const WeftSubnet *subnet, guint pkey); /* NULL: not shared */
/* Tells the manager of it again. */
void weft_subnet_share_again(WeftSubnet *subnet, const WeftSharing *sharing);
/* "port 0x… of host n3 (mlx4_0)", as far as that is known. */
char *weft_subnet_name_port(const WeftSubnet *subnet, guint64 port_guid);

/* subnet-drift.c */
/* Asks for all partitions; once more when it is under way, or when something looked wrong. */
void weft_subnet_survey(WeftSubnet *subnet);
/* Reads the tables of all ports of hosts and of what is shared; once more when it is under way. */
void weft_subnet_patrol(WeftSubnet *subnet);
void weft_subnet_tell_repair(WeftSubnet *subnet, const char *what);

/* subnet-guard.c */
/* Nothing is changed by way of its wiring that may not be. */
void weft_subnet_guard(WeftSubnet *subnet);
/* May its partitions be changed, as far as that does not depend on which? */
gboolean weft_subnet_may_change(const WeftSubnet *subnet);
/* Is it left as it is for a port that this store may be too old to know? */
gboolean weft_subnet_has_stranger(const WeftSubnet *subnet, guint pkey);
/* Among all that the manager has. */
void weft_subnet_look_for_strangers(WeftSubnet *subnet, const GPtrArray *partitions);
void weft_subnet_examine_guard(const WeftSubnet *subnet, const char *check, json_t *checks);

/* subnet-inherited.c */
GHashTable *weft_subnet_inherited_new(void);
/* Among all that the manager has; after weft_subnet_look_for_strangers(). */
void weft_subnet_look_for_inherited(WeftSubnet *subnet, const GPtrArray *partitions);
/* Is a port of no described host in the partition of that name, or may be, and is it left alone for that? */
gboolean weft_subnet_inherits(const WeftSubnet *subnet, const char *name);
/* … it is known to be. */
gboolean weft_subnet_is_inherited(const WeftSubnet *subnet, const char *name);
/* The first of these ports in words; NULL: none is known. */
char *weft_subnet_inherited_port(const WeftSubnet *subnet, const char *name);
void weft_subnet_examine_inherited(const WeftSubnet *subnet, const char *check, json_t *checks);

/* subnet-surplus.c */
/* Has the manager write the tables again in which keys of weft's numbers are that are not given to the port, where the last
 * patrol saw the same. given: weft_port_wishes_by_port(). TRUE: a second look must decide. */
gboolean weft_subnet_look_for_surplus(WeftSubnet *subnet, GHashTable *given, const GPtrArray *tables);
/* Those that were seen twice, in words (char *, borrowed). */
GPtrArray *weft_subnet_surplus(const WeftSubnet *subnet);

/* subnet-lanes.c: what may be promised of the hosts' links */
void weft_subnet_note_rate(WeftSubnet *subnet, const WeftFabricMap *map, const WeftMapPort *port);
void weft_subnet_tell_lanes(const WeftSubnet *subnet, WeftFleetFabric *told);

/* subnet-map.c */
GHashTable *weft_subnet_leaves_new(void);
void weft_subnet_read_map(WeftSubnet *subnet);
/* What is being read of it is not taken any more. */
void weft_subnet_forget_import(WeftSubnet *subnet);

/* subnet-hops.c */
/* Counts how far its switches are from each other, and tells the fleet later; until then it is as it was. */
void weft_subnet_note_hops(WeftSubnet *subnet, const WeftFabricMap *map);
void weft_subnet_end_hops(WeftSubnet *subnet);

/* subnet-manager.c */
void weft_subnet_greet(WeftSubnet *subnet);
void weft_subnet_heard(WeftFabricEvent event, const char *detail, gpointer data);
/* Placement learns what the fabric allows. */
void weft_subnet_tell_fleet(WeftSubnet *subnet);
void weft_subnet_examine(const WeftSubnet *subnet, json_t *checks);
