/* A seat: what one node would have on one host. Plain data without pointers: placement makes thousands of them a second. */
#pragma once

#include "node.h"

#include <glib.h>

#define WEFT_SEAT_PARTS 16   /* NUMA nodes that one node may be spread over */
#define WEFT_SEAT_NO_HCA 255 /* in hca: a device that the host does not have any more */

typedef struct WeftBits {
    guint64 words[WEFT_CORES_MAX / 64];
} WeftBits;

/* Its share of a NUMA node. */
typedef struct WeftSeatPart {
    guint8 numa;
    guint8 size;   /* of its pages: index into the NUMA node's; the same page size in all parts of a new seat */
    guint16 cores; /* so many of the seat's cores are there; 0 only where locality is none */
    guint32 pages;
} WeftSeatPart;

typedef struct WeftSeat {
    guint host;   /* its number in the fleet, which stays while the fleet lives (weft_fleet_number()) */
    guint8 group; /* of its cluster, by index */
    guint8 path;  /* WeftPath, never auto */
    guint8 n_parts;
    guint8 n_rails;
    guint8 hca[WEFT_RAILS_MAX]; /* by rail: index of the host's HCA */
    gint8 vf[WEFT_RAILS_MAX];   /* -1: the whole HCA */
    guint32 gpus;               /* by bits: indices of the host's GPUs */
    guint sl;                   /* service level of its lane; 0: best effort */
    guint64 bandwidth;          /* guaranteed to each of its devices there */
    gboolean exclusive;
    WeftSeatPart parts[WEFT_SEAT_PARTS];
    WeftBits cores; /* by id */
} WeftSeat;
