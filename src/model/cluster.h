/* A cluster: what the user asked for (WeftCluster, written by the API) and how far it got (WeftClusterStatus, written by the
 * reconciler). They are two records, so that neither writer ever disturbs the other. */
#pragma once

#include "bounds.h"
#include "phase.h"

#include <glib.h>
#include <jansson.h>

typedef enum { WEFT_PATH_AUTO, WEFT_PATH_SRIOV, WEFT_PATH_PASSTHROUGH, WEFT_PATH_BRIDGE, WEFT_PATHS } WeftPath;
extern const char *const weft_path_words[WEFT_PATHS + 1];

typedef struct WeftGroup {
    char *name;  /* "nodes" unless told */
    guint count; /* 0 only while a cluster keeps other groups */
    guint cores; /* of each node, and so on */
    guint64 memory;
    guint64 page_size; /* 0: the largest that fits */
    guint gpus;
    guint rails; /* fabric devices; 0 with path bridge */
    WeftPath path;
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
    char *creator;       /* principal */
    gint64 created;
    gboolean deleted; /* the wish is that it be gone */
    gboolean bridged; /* path auto is the bridge: where it may be, no host had virtual functions when it was asked for */
} WeftCluster;

/* What a user may write; id, tenant, creator, created, deleted and bridged are not among it:
 *
 *     { "name": "cfd", "count": 8, "cores": 4, "memory": "8G", "image": "mpi", "path": "auto", "gpus": 0, "rails": 1,
 *       "pages": "2M" (or "transparent", the same as "4K"), "fabric": "ib0", "bandwidth": "10G", "labels": {…},
 *       "ssh_keys": ["ssh-ed25519 AAAA…"],
 *       "user_data": "#cloud-config\n…", "slurm": false, "disk": "20G", "shm": "64M", "shared": ["storage"] }
 *                                                                                                one group, or
 *     { "name": "cfd", "groups": [ { "name": "gpu", "count": 4, … }, … ] }
 */
WeftCluster *weft_cluster_from_spec(json_t *json, GError **error);

WeftCluster *weft_cluster_from_json(json_t *json, GError **error);
json_t *weft_cluster_to_json(const WeftCluster *cluster);
WeftCluster *weft_cluster_copy(const WeftCluster *cluster);
void weft_cluster_free(WeftCluster *cluster);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftCluster, weft_cluster_free)

guint weft_cluster_count(const WeftCluster *cluster); /* nodes wished for, over all groups */
/* What the wish takes of each quota (WEFT_QUOTAS numbers). A whole HCA counts as a virtual function. */
void weft_cluster_demand(const WeftCluster *cluster, guint64 *ret_demand);
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
    guint64 generation; /* of the partition's members: grows with each change */
    guint64 wired;      /* the generation that the fabric has confirmed */
    guint next_serial;  /* of the next node */
    guint nodes;        /* that hold resources */
    guint ready;
    gboolean was_ready; /* has been ready once: from then on it scales and heals */
} WeftClusterStatus;

WeftClusterStatus *weft_cluster_status_from_json(json_t *json, GError **error);
json_t *weft_cluster_status_to_json(const WeftClusterStatus *status);
void weft_cluster_status_free(WeftClusterStatus *status);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftClusterStatus, weft_cluster_status_free)
