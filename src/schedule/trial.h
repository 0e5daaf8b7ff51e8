/* One attempt to place a whole request in one fabric, with all its bandwidth in one lane. */
#pragma once

#include "board.h"
#include "fleet-private.h"
#include "gang.h"
#include "schedule.h"

/* A group of the request of which nodes are to be placed. */
typedef struct WeftTrialGroup {
    guint8 group; /* of the cluster, by index */
    guint count;
    WeftShape shape;
} WeftTrialGroup;

typedef struct WeftTrial {
    WeftFleet *fleet;
    WeftRealm *realm;
    WeftBoard *board;
    const WeftPlaceRequest *request;
    const WeftLane *lane; /* NULL: best effort */
    guint n;
    WeftTrialGroup groups[WEFT_GROUPS_MAX];
} WeftTrial;

/* What each group asks of hosts there. bridge: path auto is the bridge. FALSE: a lane is asked for, and there are no devices.
 */
gboolean weft_trial_begin(WeftTrial *trial, gboolean bridge);
/* Places all, to board->seats. FALSE: there is no room. */
gboolean weft_trial_place(WeftTrial *trial);

/* Seats for what board->picks says, behind those that are there. kept: also in the fleet, until it is rolled back. FALSE: a
 * host has less than it said. */
gboolean weft_trial_seat(WeftTrial *trial, const WeftTrialGroup *group, gboolean kept);
/* A copy of a host's slot to try on, until the next one. */
WeftSlot *weft_trial_copy(WeftTrial *trial, guint number);
/* Closes hosts for the time of a look ahead, which it begins; returns its mark (schedule.c). NULL: none. */
guint weft_place_close_avoided(WeftFleet *fleet, GHashTable *avoid);
/* May it go by the bridge where there are no functions left, if its traffic suits that (schedule.c)? */
gboolean weft_place_may_bridge(const WeftPlaceRequest *request);
/* The leaves where the cluster has nodes already, in order; none: it has none there. Returns the stamp of their hosts. */
guint32 weft_trial_list_own(const WeftTrial *trial, WeftLeafSet *ret_leaves);
/* … of a request with several groups (trial-mixed.c). */
gboolean weft_trial_place_mixed(WeftTrial *trial);

/* Orders of groups that are worth a try. */
#define WEFT_ORDERS_MAX 6
typedef struct WeftMixOrders {
    guint n;
    guint orders[WEFT_ORDERS_MAX][WEFT_GROUPS_MAX];
} WeftMixOrders;

/* --- several groups, host after host (trial-hosts.c) --- */

#define WEFT_BIDS_MAX 64
#define WEFT_SEAT_WORK 16 /* a seat that is tried takes as long as a look at so many hosts */

/* What a host would take. */
typedef struct WeftBid {
    guint place;
    double worth;  /* as parts of the groups */
    guint64 spare; /* nodes that would fit there, whatever is missing */
} WeftBid;

typedef struct WeftFilling {
    WeftTrial *trial;
    WeftIndex *const *indexes; /* of each group, as the fleet is */
    const WeftMixOrders *orders;
    guint passed; /* so many of the best hosts are passed over when the first one is chosen */
    /* from here on its own */
    guint left; /* nodes that have no place yet */
    guint missing[WEFT_GROUPS_MAX];
    guint64 work;  /* hosts that were looked at, and seats */
    guint32 stamp; /* of the hosts that are filled */
    guint n_bids;
    gboolean more; /* … than these */
    guint limits[WEFT_GROUPS_MAX];
    WeftBid bids[WEFT_BIDS_MAX]; /* the best first */
} WeftFilling;

void weft_filling_begin(WeftFilling *filling);
/* As many as find a place on these leaves: to board->seats and board->picks, behind those that are there. FALSE: some are left.
 * There must be no other stamp meanwhile. */
gboolean weft_filling_go_on(WeftFilling *filling, const WeftLeafSet *leaves);
