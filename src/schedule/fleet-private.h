/* The inside of the fleet, for placement only. */
#pragma once

#include "fleet.h"

typedef struct WeftBits {
    guint64 words[WEFT_CORES_MAX / 64];
} WeftBits;

#define WEFT_SLOT_WHOLE 127 /* as a VF's number: the whole HCA is taken */

/* What is taken on one host. Plain data beside the host: placement copies it, and tries on the copy. */
typedef struct WeftSlot {
    WeftHost *host;
    gboolean open;
    guint free_cores;   /* of all NUMA nodes, without housekeeping */
    guint free_vfs;     /* of all HCAs, and there */
    guint64 free_bytes; /* in pages of all sizes and NUMA nodes */
    guint fabric;       /* numbers for the names, equal where these are: given by weft_fleet_sort() */
    guint leaf;
    WeftBits cores;                                    /* taken, or housekeeping */
    guint32 gpus;                                      /* taken */
    guint64 pages[WEFT_NUMA_MAX][WEFT_PAGE_SIZES_MAX]; /* taken */
    guint64 vfs[WEFT_HCAS_MAX][2];                     /* taken */
    guint32 absent_gpus;                               /* described, and not there */
    guint64 absent_vfs[WEFT_HCAS_MAX][2];              /* … likewise; the whole HCA too */
} WeftSlot;

struct WeftFleet {
    GHashTable *by_name; /* borrowed name to WeftSlot */
    GPtrArray *slots;    /* WeftSlot, by fabric, leaf, name */
    gboolean sorted;
};

/* Bytes in pages of which so many are used. */
guint64 weft_free_bytes(const WeftPages *pages, guint64 used);
gboolean weft_slot_core_is_free(const WeftSlot *slot, guint core);
gboolean weft_slot_vf_is_free(const WeftSlot *slot, guint hca, guint vf);
/* Nothing of it is taken. */
gboolean weft_slot_hca_is_free(const WeftSlot *slot, guint hca);
gboolean weft_slot_gpu_is_free(const WeftSlot *slot, guint gpu);
/* Is there all that is described? */
gboolean weft_slot_is_complete(const WeftSlot *slot);

/* What the host does not have (its description may have shrunk under a node) is passed over. */
void weft_slot_take(WeftSlot *slot, const WeftNode *node);
void weft_slot_give(WeftSlot *slot, const WeftNode *node);
