/* The inside of the fleet, for placement only. */
#pragma once

#include "fleet.h"
#include "id.h"

typedef struct WeftBits {
    guint64 words[WEFT_CORES_MAX / 64];
} WeftBits;

#define WEFT_SLOT_WHOLE 127 /* as a VF's number: the whole HCA is taken */

/* A P_Key in the table of an HCA's port: one for all nodes of a cluster there. */
typedef struct WeftPortKey {
    guint hca;
    guint nodes;
    char cluster[WEFT_ID_LENGTH + 1];
} WeftPortKey;

/* What is taken on one host. Plain data beside the host: placement copies it, and tries on the copy. */
typedef struct WeftSlot {
    WeftHost *host;
    const WeftFleetFabric *told; /* of its fabric */
    gboolean open;
    guint free_cores;   /* of all NUMA nodes, without housekeeping */
    guint free_vfs;     /* of all HCAs */
    guint64 free_bytes; /* in pages of all sizes and NUMA nodes */
    guint fabric;       /* numbers for the names, equal where these are: given by weft_fleet_sort() */
    guint leaf;
    WeftBits cores;                                    /* taken, or housekeeping */
    guint32 gpus;                                      /* taken */
    guint64 pages[WEFT_NUMA_MAX][WEFT_PAGE_SIZES_MAX]; /* taken */
    guint64 vfs[WEFT_HCAS_MAX][2];                     /* taken */
    GArray *keys;                                      /* WeftPortKey; a trial's copy borrows them */
    guint8 n_keys[WEFT_HCAS_MAX];                      /* of each HCA */
    guint16 tried;                                     /* HCAs that a trial would give a key for the cluster that it places */
} WeftSlot;

struct WeftFleet {
    GHashTable *by_name; /* borrowed name to WeftSlot */
    GPtrArray *slots;    /* WeftSlot, by fabric, leaf, name */
    GHashTable *fabrics; /* name to WeftFleetFabric */
    gboolean sorted;
};

/* Bytes in pages of which so many are used. */
guint64 weft_free_bytes(const WeftPages *pages, guint64 used);
gboolean weft_slot_core_is_free(const WeftSlot *slot, guint core);
gboolean weft_slot_vf_is_free(const WeftSlot *slot, guint hca, guint vf);
/* Has the HCA's port the cluster's P_Key, or room for it? cluster NULL: one that has no node yet. */
gboolean weft_slot_takes_key(const WeftSlot *slot, guint hca, const char *cluster);

/* What the host does not have (its description may have shrunk under a node) is passed over. */
void weft_slot_take(WeftSlot *slot, const WeftNode *node);
void weft_slot_give(WeftSlot *slot, const WeftNode *node);
