/* The inside of a slot, for slot*.c only. */
#pragma once

#include "slot.h"

#include <string.h>

#define WEFT_SLOT_WHOLE 127         /* as a VF's number: the whole HCA is taken, or absent */
#define WEFT_SLOT_SIZES 6           /* page sizes that there are */
#define WEFT_SLOT_ID 23             /* characters of a cluster's id by which it is known */
#define WEFT_SLOT_UNKNOWN 0         /* as a root's number */
#define WEFT_SLOT_PAGES 0x7fffffffU /* of one size that a NUMA node may have: 8 TiB in the smallest */

/* --- the ledger: which clusters are on the host, and what is promised of its links (slot-ledger.c) --- */

typedef struct WeftTenancy {
    char cluster[WEFT_SLOT_ID + 1];
    guint16 nodes;
    guint16 exclusive;           /* of these, so many want the host for themselves */
    guint16 keys[WEFT_HCAS_MAX]; /* nodes with a device of each HCA: they share a P_Key in its port */
} WeftTenancy;

/* What is promised in a lane on an HCA's port. */
typedef struct WeftPromise {
    guint8 hca;
    guint8 sl;
    guint16 devices;
    guint64 bits;
} WeftPromise;

/* Never changed once it is made, but replaced: slots and their snapshots share it, on whatever thread. NULL is an empty one. */
typedef struct WeftLedger {
    gint refs;
    guint n_tenancies;
    guint n_promises;
    WeftPromise *promises; /* behind the tenancies */
    WeftTenancy tenancies[];
} WeftLedger;

WeftLedger *weft_ledger_ref(WeftLedger *ledger);
void weft_ledger_unref(WeftLedger *ledger);
/* With the seat's node, or without it. Takes the old one over, returns the new one. */
WeftLedger *weft_ledger_add(WeftLedger *old, const WeftSeat *seat, const char *cluster);
WeftLedger *weft_ledger_drop(WeftLedger *old, const WeftSeat *seat, const char *cluster);
/* A copy for a host whose HCAs are now at these indices; negative: gone. */
WeftLedger *weft_ledger_moved(const WeftLedger *old, const int hcas[WEFT_HCAS_MAX]);
/* NULL: the cluster has no node there. */
const WeftTenancy *weft_ledger_find(const WeftLedger *ledger, const char *cluster);
/* Bits a second that are promised in a lane. */
guint64 weft_ledger_bits(const WeftLedger *ledger, guint hca, guint sl);

/* --- the slot --- */

typedef struct WeftSlotNuma {
    guint16 first; /* its cores lie together */
    guint16 n_cores;
    guint16 free;
    guint16 gpus;
    guint8 n_sizes;
    guint8 shifts[WEFT_PAGE_SIZES_MAX]; /* a page of each size has so many bits of an address; the largest first */
    guint32 count[WEFT_PAGE_SIZES_MAX];
    guint32 used[WEFT_PAGE_SIZES_MAX]; /* more than there are where plans overlap */
} WeftSlotNuma;

typedef struct WeftSlotHca {
    guint64 taken[2];
    guint64 absent[2];  /* described, and not there */
    guint64 rate;       /* of its port, bits a second; 0: not known */
    guint64 tried_bits; /* promised to nodes that are only tried */
    guint32 places;     /* for P_Keys; 0: any number */
    guint16 n_keys;     /* without that of nodes that are only tried: these are all of one cluster, which had room for it */
    guint16 gpus;       /* below its PCIe root */
    guint8 root;
    guint8 numa;
    guint8 rail;
    guint8 vfs;
    guint8 free;      /* virtual functions */
    guint8 named : 1; /* a partition can name its port: that is known, and there is a manager */
    guint8 gives : 1; /* its virtual functions can be given at all */
} WeftSlotHca;

/* Behind it lie, each as long as the host needs it: the NUMA nodes, the HCAs, the bits of the cores that are free and of those
 * that may be given at all, and for each GPU those of the same NUMA node and root. */
struct WeftSlot {
    const WeftHost *host;
    const WeftFleetFabric *told;
    WeftLedger *ledger;
    guint32 size;
    guint32 number;
    guint32 free_cores;
    guint16 nodes; /* with those that are only tried */
    guint16 tried;
    guint16 exclusive; /* nodes that want the host for themselves, without those that are only tried */
    guint16 gpus_free; /* … and there */
    guint16 gpus_taken;
    guint16 gpus_absent;
    guint16 gpus_rootless; /* of which no root is known */
    guint8 n_gpus;
    guint8 n_numa;
    guint8 n_hcas;
    guint8 n_words;
    guint8 open;
    guint8 n_sizes;
    guint8 shifts[WEFT_SLOT_SIZES]; /* of all NUMA nodes, the largest first */
    WeftSlotNuma numa[];
};

static inline WeftSlotHca *
weft_slot_hcas(const WeftSlot *slot)
{
    return (WeftSlotHca *)((char *)slot + G_STRUCT_OFFSET(WeftSlot, numa) + (slot->n_numa * sizeof(WeftSlotNuma) + 7) / 8 * 8);
}

static inline guint64 *
weft_slot_free_words(const WeftSlot *slot)
{
    return (guint64 *)(weft_slot_hcas(slot) + slot->n_hcas);
}

static inline guint64 *
weft_slot_usable_words(const WeftSlot *slot)
{
    return weft_slot_free_words(slot) + slot->n_words;
}

static inline guint16 *
weft_slot_kin(const WeftSlot *slot)
{
    return (guint16 *)(weft_slot_usable_words(slot) + slot->n_words);
}

static inline guint32
weft_numa_free_pages(const WeftSlotNuma *numa, guint size)
{
    return numa->count[size] - MIN(numa->count[size], numa->used[size]);
}

/* Pages of a size that a node of the shape has; 0: it cannot have these. */
static inline guint64
weft_shape_pages(const WeftShape *shape, guint shift)
{
    guint64 page = 1ULL << shift;
    gboolean right = (shape->page_size == 0 || shape->page_size == page) && (shape->memory & (page - 1)) == 0;
    return right && shape->memory >> shift <= WEFT_SLOT_PAGES ? shape->memory >> shift : 0;
}

/* Index of the size in the NUMA node; -1: it has no such pages. */
static inline int
weft_numa_size(const WeftSlotNuma *numa, guint shift)
{
    for (guint i = 0; i < numa->n_sizes; i++)
        if (numa->shifts[i] == shift)
            return (int)i;
    return -1;
}

/* Are the cores, pages, functions and GPUs of the seat free? (slot.c) */
gboolean weft_slot_has_parts(const WeftSlot *slot, const WeftSeat *seat);

/* --- what there is for a shape (slot-fit.c) --- */

/* Devices that nodes of the shape could have. */
typedef struct WeftSpare {
    guint8 functions[WEFT_HCAS_MAX]; /* of each HCA */
    guint16 gpus;
} WeftSpare;

/* Returns for how many nodes there are devices, wherever on the host they are. */
guint weft_slot_spare(const WeftSlot *slot, const WeftShape *shape, WeftSpare *ret_spare);
/* May nodes of the shape be on the host at all, for others that are there? */
gboolean weft_slot_admits(const WeftSlot *slot, const WeftShape *shape);
/* Nodes whose cores and memory the NUMA node has. */
guint weft_numa_whole(const WeftSlotNuma *numa, const WeftShape *shape);
/* Nodes whose devices the NUMA node has, GPUs below the roots of their functions. */
guint weft_slot_local(const WeftSlot *slot, const WeftShape *shape, const WeftSpare *spare, guint numa);

/* What is left in a NUMA node when no whole node fits there any more. */
typedef struct WeftRest {
    guint32 pages[WEFT_PAGE_SIZES_MAX];
    guint32 cores;
} WeftRest;

/* Returns the cores that are left in all. */
guint weft_slot_rest(const WeftSlot *slot, const WeftShape *shape, WeftRest ret_rest[WEFT_NUMA_MAX]);
/* One more node out of what is left, over the fewest NUMA nodes, memory split as the cores are. Returns how many parts it has,
 * in order of NUMA nodes; 0: there is not enough. */
guint weft_slot_join(const WeftSlot *slot, const WeftShape *shape, WeftRest *rest, WeftSeatPart ret_parts[WEFT_SEAT_PARTS]);

/* --- GPUs below the roots of functions (slot-roots.c) --- */

/* Nodes for which the NUMA node has functions and GPUs such that each GPU is below the root of one of its node's functions. */
guint weft_roots_count(const WeftSlot *slot, const WeftShape *shape, const WeftSpare *spare, guint numa);
/* HCAs and GPUs for one of them, such that all the others still find theirs. FALSE: there is none. */
gboolean weft_roots_pick(const WeftSlot *slot, const WeftShape *shape, const WeftSpare *spare, guint numa, WeftSeat *seat);
