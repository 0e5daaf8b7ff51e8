/* A checkpoint: a whole cluster put aside at one moment, its wish and its nodes' saved files, to be restored from. */
#pragma once

#include "cluster.h"
#include "image.h"
#include "node.h"

#include <glib.h>
#include <jansson.h>

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
    GArray *guids;        /* guint64, of its fabric devices by rail; empty: none */
    WeftImageFile *saved; /* state and memory */
    WeftImageFile *disk;  /* what it wrote to its own disk; NULL: it has none */
} WeftCheckpointNode;

typedef struct WeftCheckpoint {
    char *tenant;
    char *name;        /* unique within its tenant */
    char *cluster;     /* id of the cluster that it is of */
    WeftCluster *wish; /* of that cluster then, all of it */
    GPtrArray *nodes;  /* WeftCheckpointNode, by rank; of all nodes */
    char *kind;        /* of the hosts: weft_inventory_kind() */
    char *creator;     /* principal */
    gint64 taken;      /* when all its nodes stood still */
    gint64 paused;     /* microseconds that they did, the longest of them */
    gint64 skew;       /* … between the first and the last that stopped */
    gboolean complete; /* all files are here; until then it is being made, and nothing is restored from it */
} WeftCheckpoint;

WeftCheckpoint *weft_checkpoint_from_json(json_t *json, GError **error);
json_t *weft_checkpoint_to_json(const WeftCheckpoint *checkpoint);
void weft_checkpoint_free(WeftCheckpoint *checkpoint);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftCheckpoint, weft_checkpoint_free)
WeftCheckpoint *weft_checkpoint_new(void);
WeftCheckpointNode *weft_checkpoint_node_new(void);

/* Bytes of all its files. */
guint64 weft_checkpoint_size(const WeftCheckpoint *checkpoint);
/* The first, second … of its files; NULL: there are no more. */
const WeftImageFile *weft_checkpoint_file(const WeftCheckpoint *checkpoint, guint n);
