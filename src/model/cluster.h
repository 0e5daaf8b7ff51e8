/* A cluster: what the user asked for (WeftCluster, written by the API) and how far it got (WeftClusterStatus, written by the
 * reconciler). They are two records, so that neither writer ever disturbs the other. */
#pragma once

#include "bounds.h"
#include "phase.h"

#include <glib.h>
#include <jansson.h>

typedef enum { WEFT_PATH_AUTO, WEFT_PATH_SRIOV, WEFT_PATH_PASSTHROUGH, WEFT_PATH_BRIDGE, WEFT_PATHS } WeftPath;
extern const char *const weft_path_words[WEFT_PATHS + 1];

/* How near to each other a node's cores, pages, functions and GPUs must be. */
typedef enum {
    WEFT_LOCALITY_PREFERRED, /* in one NUMA node, devices below one PCIe root, where that is possible */
    WEFT_LOCALITY_REQUIRED,  /* nowhere else */
    WEFT_LOCALITY_NONE,      /* anywhere on the host: packs densest */
    WEFT_LOCALITIES
} WeftLocality;
extern const char *const weft_locality_words[WEFT_LOCALITIES + 1];

/* How near to each other a cluster's nodes are. */
typedef enum {
    WEFT_LAYOUT_COMPACT, /* on the fewest leaf switches, the nearest of them, and there on the fewest hosts */
    WEFT_LAYOUT_SPREAD,  /* on as many leaf switches and hosts as can be, evenly: what fails takes few nodes with it */
    WEFT_LAYOUTS
} WeftLayout;
extern const char *const weft_layout_words[WEFT_LAYOUTS + 1];

/* Which ranks talk to which. */
typedef enum {
    WEFT_PATTERN_NONE, /* not told */
    WEFT_PATTERN_ALL,
    WEFT_PATTERN_RING,
    WEFT_PATTERN_STENCIL2D,
    WEFT_PATTERN_STENCIL3D,
    WEFT_PATTERN_MATRIX, /* as the matrix says */
    WEFT_PATTERNS
} WeftPattern;
extern const char *const weft_pattern_words[WEFT_PATTERNS + 1];

/* How its nodes start. */
typedef enum {
    WEFT_START_TEMPLATE, /* forked from a template, where there is one and it can be; they boot otherwise */
    WEFT_START_COLD,     /* each boots for itself */
    WEFT_START_WAYS
} WeftStartWay;
extern const char *const weft_start_words[WEFT_START_WAYS + 1];

/* So much is sent between two ranks, in any unit, both ways together. */
typedef struct WeftTraffic {
    guint16 a, b; /* a < b */
    guint32 weight;
} WeftTraffic;

typedef struct WeftGroup {
    char *name;  /* "nodes" unless told */
    guint count; /* 0 only while a cluster keeps other groups */
    guint cores; /* of each node, and so on */
    guint64 memory;
    guint64 page_size; /* 0: the largest that fits */
    guint gpus;
    guint rails; /* fabric devices; 0 with path bridge */
    WeftPath path;
    WeftLocality locality;
    char *image;
    guint64 disk; /* bytes of a node's own disk, where its image is qcow2 or raw; 0: as large as the image */
} WeftGroup;

typedef struct WeftCluster {
    char *id;   /* weft_id_new(); names domains and is never used again */
    char *name; /* unique within its tenant */
    char *tenant;
    char *fabric;        /* NULL: any */
    guint64 bandwidth;   /* bits a second that each node is guaranteed on each rail; 0: none */
    GPtrArray *groups;   /* WeftGroup */
    GHashTable *labels;  /* a host must carry all of these; never NULL */
    GPtrArray *ssh_keys; /* char *, public keys that may log in, a line each as in authorized_keys */
    char *user_data;     /* the user's own cloud-init user-data; NULL: none */
    gboolean slurm;      /* the nodes form a Slurm cluster too, rank 0 its controller */
    GPtrArray *shared;   /* char *, shared partitions that it joins beside its own */
    guint64 shm;         /* bytes of memory that its nodes on one host share, a power of two; 0: none */
    WeftLayout layout;
    gboolean exclusive;   /* its hosts take nodes of no other cluster */
    GPtrArray *apart;     /* char *, names of clusters of its tenant with which it shares no host */
    char *hosts;          /* hostlist: nowhere but there, which operators may say; NULL: anywhere */
    WeftPattern pattern;  /* for the order of ranks, and with path auto for the path */
    GArray *traffic;      /* WeftTraffic, with WEFT_PATTERN_MATRIX; never NULL */
    gint priority;        /* in the queue: WEFT_PRIORITY_MIN to WEFT_PRIORITY_MAX, more is sooner; 0: as most */
    guint64 walltime;     /* seconds that it may hold resources, from its first placement; 0: without end */
    gboolean preemptible; /* gives way to those that are not and find no room; it waits anew then */
    WeftStartWay start;
    char *creator; /* principal */
    gint64 created;
    gint64 scaled;    /* when more nodes were last asked for; 0: never */
    gboolean deleted; /* the wish is that it be gone */
    char *capture;    /* the template that its only node is to become: it is one of the system's own; NULL: none */
    char *checkpoint; /* that it was restored from; NULL: from none */
    char *keys;       /* id of the cluster whose keys its nodes have, since they are restored ones of it; NULL: its own */
    char *clone_of;   /* id of the cluster that it was cloned from; NULL: of none */
    char *clone_node; /* … and of its only node that was; NULL: all of them */
    gboolean bridged; /* path auto is the bridge: where it may be, no host had virtual functions when it was asked for */
} WeftCluster;

/* What a user may write; what is granted (id, tenant, creator, created and the like) is not among it:
 *
 *     { "name": "cfd", "count": 8, "cores": 4, "memory": "8G", "image": "mpi", "path": "auto", "gpus": 0, "rails": 1,
 *       "pages": "2M" (or "transparent", the same as "4K"), "fabric": "ib0", "bandwidth": "10G", "labels": {…},
 *       "ssh_keys": ["ssh-ed25519 AAAA…"],
 *       "user_data": "#cloud-config\n…", "slurm": false, "disk": "20G", "shm": "64M", "shared": ["storage"],
 *       "numa": "preferred", "layout": "compact", "exclusive": false, "apart": ["db"], "priority": 0, "walltime": "12h",
 *       "preemptible": false, "start": "template" (or "cold"), "hosts": "n[1-4]",
 *       "pattern": "ring" (or "matrix": [[0, 5, …], …], rows and columns are ranks) }
 *
 * which is one group, or { "name": "cfd", "groups": [ { "name": "gpu", "count": 4, … }, … ] }
 */
WeftCluster *weft_cluster_from_spec(json_t *json, GError **error);

WeftCluster *weft_cluster_from_json(json_t *json, GError **error);
json_t *weft_cluster_to_json(const WeftCluster *cluster);
WeftCluster *weft_cluster_copy(const WeftCluster *cluster);
void weft_cluster_free(WeftCluster *cluster);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftCluster, weft_cluster_free)

/* Whose keys its nodes have: a cluster's id. */
const char *weft_cluster_keys(const WeftCluster *cluster);
guint weft_cluster_count(const WeftCluster *cluster); /* nodes wished for, over all groups */
/* What the wish takes of each quota (WEFT_QUOTAS numbers). A whole HCA counts as a virtual function; memory that nodes share is
 * counted as if each were on a host of its own. */
void weft_cluster_demand(const WeftCluster *cluster, guint64 *ret_demand);
/* The kinds of devices that are to be granted (see tenant.h) which each node of a group has, as bits. */
guint weft_group_devices(const WeftGroup *group);
/* Changes the wished count of one group (NULL: the only one). INVALID where that is ambiguous, unknown or out of range. */
gboolean weft_cluster_scale(WeftCluster *cluster, const char *name, guint count, GError **error);

typedef struct WeftClusterStatus {
    char *cluster; /* the cluster's id */
    char *tenant;
    char *name;
    WeftClusterPhase phase;
    char *reason;       /* why it is not further, in words for the user; NULL: nothing to say */
    char *detail;       /* the driver's words, for operators only; NULL: none */
    gint64 since;       /* of this phase */
    char *fabric;       /* NULL until placed */
    guint pkey;         /* partition number, 0 until placed */
    guint sl;           /* service level of its lane; 0: best effort */
    guint vxlan;        /* its VXLAN id, which follows from the number and the fabric */
    gboolean unmanaged; /* nobody programs partitions on its fabric: its number is that of its VXLAN alone */
    guint64 generation; /* of the partition's members: grows with each change */
    guint64 wired;      /* the generation that the fabric has confirmed */
    guint next_serial;  /* of the next node */
    guint nodes;        /* that hold resources */
    guint ready;
    gboolean was_ready; /* has been ready once: from then on it scales and heals */
    gint64 placed;      /* when its nodes were first placed; 0: not yet, or anew since it was preempted */
    gint64 ends;        /* when its walltime is over; 0: never, or not placed yet */
    gint64 cloned;      /* when it was first ready with what it was cloned from; 0: not yet, or it is no clone */
    gint64 paused;      /* microseconds that a node that it was cloned from stood still, at most */
    char *origin;       /* the checkpoint that its nodes go on from, until it is ready; NULL: they start as others */
    gboolean thawed;    /* … and all were there, and are let go on together */
    gboolean restored;  /* has been ready after that: nodes that come later start as others */
} WeftClusterStatus;

WeftClusterStatus *weft_cluster_status_from_json(json_t *json, GError **error);
json_t *weft_cluster_status_to_json(const WeftClusterStatus *status);
void weft_cluster_status_free(WeftClusterStatus *status);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftClusterStatus, weft_cluster_status_free)
