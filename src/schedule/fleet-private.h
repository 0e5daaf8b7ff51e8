/* The inside of the fleet, for placement only. */
#pragma once

#include "fleet.h"
#include "id.h"
#include "lane-choice.h"
#include "schedule.h"

#define WEFT_SLOT_WHOLE 127 /* as a VF's number: the whole HCA is taken */

/* A P_Key in the table of an HCA's port: one for all nodes of a cluster there. */
typedef struct WeftPortKey {
    guint hca;
    guint nodes;
    char cluster[WEFT_ID_LENGTH + 1];
} WeftPortKey;

/* What is promised in a lane on an HCA's port. */
typedef struct WeftPortLane {
    guint hca;
    guint sl;
    WeftLaneUse use;
} WeftPortLane;

/* What is taken on one host. Plain data beside the host: placement copies it, and tries on the copy. */
typedef struct WeftSlot {
    WeftHost *host;
    const WeftFleetFabric *told; /* of its fabric */
    gboolean open;
    guint free_cores;   /* of all NUMA nodes, without housekeeping */
    guint free_vfs;     /* of all HCAs, and there */
    guint64 free_bytes; /* in pages of all sizes and NUMA nodes */
    guint fabric;       /* numbers for the names, equal where these are: given by weft_fleet_sort() */
    guint leaf;
    guint roomy;    /* rails, the first ones, with a port that has room for any P_Key: known without a look at the HCAs */
    WeftBits cores; /* taken, or housekeeping */
    guint32 gpus;   /* taken */
    guint64 pages[WEFT_NUMA_MAX][WEFT_PAGE_SIZES_MAX]; /* taken */
    guint64 vfs[WEFT_HCAS_MAX][2];                     /* taken */
    GArray *keys;                                      /* WeftPortKey; a trial's copy borrows them */
    guint8 n_keys[WEFT_HCAS_MAX];                      /* of each HCA */
    guint16 tried;                                     /* HCAs that a trial would give a key for the cluster that it places */
    GArray *lanes;                                     /* WeftPortLane; a trial's copy borrows them */
    guint64 tried_bits[WEFT_HCAS_MAX];                 /* that a trial would promise, in the lane that it tries */
    guint32 absent_gpus;                               /* described, and not there */
    guint64 absent_vfs[WEFT_HCAS_MAX][2];              /* … likewise; the whole HCA too */
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

/* Index of the HCA of that name; -1: none. */
int weft_slot_hca(const WeftHost *host, const char *name);

/* --- lanes (fleet-lanes.c) --- */

/* Takes or gives what the node is guaranteed on the device's port. */
void weft_slot_promise(WeftSlot *slot, const WeftDevice *device, const WeftNode *node, gboolean taken);
void weft_slot_add_lane(WeftSlot *slot, guint hca, guint sl, WeftLaneUse use);
/* Bits a second of the HCA's port that are not promised in the lane yet. */
guint64 weft_slot_lane_room(const WeftSlot *slot, guint hca, const WeftLane *lane);
/* Nodes of so many rails that the lane has room for: as many as on the rail that has least. */
guint weft_slot_guarantees(const WeftSlot *slot, const WeftLane *lane, guint64 bandwidth, guint rails);
/* Bits a second; 0: not known. */
guint64 weft_slot_rate(const WeftSlot *slot, guint hca);

/* The lanes to try for the request in the fabric of that slot, the best first. 0: none, and why. */
guint weft_fleet_lanes(const WeftFleet *fleet, const WeftSlot *first, const WeftPlaceRequest *request,
                       const WeftLane *ret_lanes[WEFT_LANES_MAX], GError **error);

/* Nothing of it is taken. */
gboolean weft_slot_hca_is_free(const WeftSlot *slot, guint hca);
gboolean weft_slot_gpu_is_free(const WeftSlot *slot, guint gpu);
/* Is there all that is described? */
gboolean weft_slot_is_complete(const WeftSlot *slot);

/* What the host does not have (its description may have shrunk under a node) is passed over. */
void weft_slot_take(WeftSlot *slot, const WeftNode *node);
void weft_slot_give(WeftSlot *slot, const WeftNode *node);
