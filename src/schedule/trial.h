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
/* Closes hosts for the time of a look ahead, which it begins; returns its mark (schedule.c). */
guint weft_place_close_avoided(WeftFleet *fleet, GHashTable *avoid);
/* … of a request with several groups (trial-mixed.c). */
gboolean weft_trial_place_mixed(WeftTrial *trial);

/* Orders of groups that are worth a try. */
#define WEFT_ORDERS_MAX 6
typedef struct WeftMixOrders {
    guint n;
    guint orders[WEFT_ORDERS_MAX][WEFT_GROUPS_MAX];
} WeftMixOrders;
/* All groups on these leaves, host after host (trial-hosts.c): to board->seats and board->picks. indexes: of each group, up to
 * date. first: 0, the best host is the first one; 1, the next best, and so on below WEFT_FIRSTS. FALSE: it found no way. */
#define WEFT_FIRSTS 8
gboolean weft_trial_fill_hosts(WeftTrial *trial, WeftIndex *const *indexes, const WeftLeafSet *leaves,
                               const WeftMixOrders *orders, guint first);
