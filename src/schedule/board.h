/* What placement works with: memory of its own that grows once, so that nothing is allocated in the hot path. */
#pragma once

#include "index.h"
#include "seat.h"

#include <glib.h>

/* Nodes on one host. */
typedef struct WeftPick {
    guint place;
    guint count;
} WeftPick;

/* Leaves of a realm, as numbered there. */
typedef struct WeftLeafSet {
    guint n;
    guint at[WEFT_NODES_MAX];
} WeftLeafSet;

typedef struct WeftBoard {
    WeftSeat *seats; /* WEFT_NODES_MAX */
    guint n_seats;
    WeftSeat *best; /* likewise: what was found before, while something better is looked for */
    WeftPick picks[WEFT_NODES_MAX];
    guint n_picks;
    WeftLeafSet leaves;
    WeftLeafSet other;
    WeftOffer top[3][WEFT_NODES_MAX]; /* the largest hosts of all, of those in use, of empty ones */
    guint heads[WEFT_NODES_MAX];      /* by leaf of a set: how many of its hosts are left to look at */
    guint n_places;
    guint32 *stamps;      /* by place */
    guint32 *used;        /* by place: earlier groups of this trial are there */
    guint32 *leaf_stamps; /* by leaf */
    guint32 *used_leaves; /* … likewise */
    guint32 *far;         /* by leaf: cables to the set that is made */
    guint32 *ranks;       /* by place: its index in top, if it is there */
    guint32 stamp;        /* the latest that was given */
    gpointer block;       /* a slot to try on */
    gsize block_size;
} WeftBoard;

WeftBoard *weft_board_new(void);
void weft_board_free(WeftBoard *board);
/* Makes room for a realm's places, and for a slot's block. */
void weft_board_reserve(WeftBoard *board, guint places, gsize block);
/* A number that no place has. */
guint32 weft_board_stamp(WeftBoard *board);
