/* A checkpoint: a whole cluster put aside at one moment, its wish and its nodes' saved files, to be restored from. */
#pragma once

#include "cluster.h"
#include "image.h"
#include "node.h"

#include <glib.h>
#include <jansson.h>

/* How far it is. */
typedef enum {
    WEFT_CHECKPOINT_WANTED,   /* its nodes are being stopped and saved: whoever finds it so begins anew */
    WEFT_CHECKPOINT_SAVED,    /* they are, on their hosts, and go on; their files are fetched */
    WEFT_CHECKPOINT_COMPLETE, /* all files are here: it can be restored from */
    WEFT_CHECKPOINT_FAILED,   /* the reason tells why; it has no files */
    WEFT_CHECKPOINT_STATES
} WeftCheckpointState;
extern const char *const weft_checkpoint_words[WEFT_CHECKPOINT_STATES + 1];

#define WEFT_CHECKPOINTS_MAX 32 /* of a tenant; those that weft made for itself do not count */

/* What one of its nodes was, and is to be again: places on hosts and addresses are found anew, what is inside stays. */
typedef struct WeftCheckpointNode {
    guint rank;
    char *group;
    char *hostname;
    guint cpus; /* virtual processors */
    guint64 memory;
    guint64 page_size;
    WeftPath path;
    char *mac;            /* that its guest knows its network by */
    char *host_key;       /* public, of its ssh server; NULL: it has none of weft's */
    GArray *guids;        /* guint64, of its fabric devices by rail; empty: none */
    WeftImageFile *saved; /* state and memory */
    WeftImageFile *disk;  /* its own, as a layer over its image; NULL: it has none */
} WeftCheckpointNode;

typedef struct WeftCheckpoint {
    char *tenant;
    char *name;        /* unique within its tenant */
    char *cluster;     /* id of the cluster that it is of */
    WeftCluster *wish; /* of that cluster then, all of it */
    GPtrArray *nodes;  /* WeftCheckpointNode, by rank; of all nodes; copies share them */
    char *kind;        /* of the hosts: weft_inventory_kind() */
    char *creator;     /* principal */
    gint64 created;
    gint64 taken;       /* when all its nodes stood still; 0: not yet */
    gint64 paused;      /* microseconds that they did, the longest of them */
    gint64 skew;        /* … between the first and the last that stopped */
    guint64 generation; /* of the cluster's members, which its guests remember */
    WeftCheckpointState state;
    char *reason;      /* in words for its tenant; NULL: nothing to say */
    char *detail;      /* the driver's words, for operators; NULL: none */
    gboolean disrupt;  /* what its nodes have open on devices of their hosts may break */
    gboolean hidden;   /* weft made it for itself, of a cluster that gives way: it goes when that is restored */
    gboolean imported; /* it came in a file from elsewhere: its cluster was another site's */
    gint64 restored;   /* when a cluster was last restored from it; 0: never */
} WeftCheckpoint;

WeftCheckpoint *weft_checkpoint_from_json(json_t *json, GError **error);
json_t *weft_checkpoint_to_json(const WeftCheckpoint *checkpoint);
void weft_checkpoint_free(WeftCheckpoint *checkpoint);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftCheckpoint, weft_checkpoint_free)
WeftCheckpoint *weft_checkpoint_new(void);
WeftCheckpointNode *weft_checkpoint_node_new(void);

/* Bytes of all its files. */
guint64 weft_checkpoint_size(const WeftCheckpoint *checkpoint);
/* … and of what is kept for it: while it is made, the most that its files may have; none where it failed. */
guint64 weft_checkpoint_storage(const WeftCheckpoint *checkpoint);
/* The next of its files; NULL: there are no more. at: 0 at first, and then what it left there. */
const WeftImageFile *weft_checkpoint_next_file(const WeftCheckpoint *checkpoint, guint *at);
gboolean weft_checkpoint_has_files(const WeftCheckpoint *checkpoint);

/* Is somebody at work on it? */
gboolean weft_checkpoint_is_being_made(const WeftCheckpoint *checkpoint);
/* That of a rank; NULL: there is none. */
const WeftCheckpointNode *weft_checkpoint_node(const WeftCheckpoint *checkpoint, guint rank);
/* What weft names one that it makes for itself. */
#define WEFT_CHECKPOINT_HIDDEN "preempted-"
char *weft_checkpoint_hidden_name(const char *cluster_id);
/* With the same nodes: there may be a thousand, so they are shared, and whoever changes some makes others in their place. */
WeftCheckpoint *weft_checkpoint_copy(const WeftCheckpoint *checkpoint);
/* Without files. */
WeftCheckpointNode *weft_checkpoint_node_copy(const WeftCheckpointNode *node);
/* Takes them over instead of those that it has. */
void weft_checkpoint_set_nodes(WeftCheckpoint *checkpoint, GPtrArray *nodes);
GPtrArray *weft_checkpoint_nodes_new(void);
/* Why a node cannot be put aside, in words for its tenant, static; NULL: it can. */
const char *weft_checkpoint_obstacle(const WeftCluster *cluster, const WeftNode *node);
