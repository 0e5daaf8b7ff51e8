/* Several groups, host after host: each time the host that takes most of what is missing, of all groups together. Where a
 * request is small this needs fewer hosts than one group after the other, whose first takes hosts that suit it alone. */
#include "trial.h"

#include <string.h>

#define BIDS_MAX WEFT_FIRSTS /* hosts that are tried before one is chosen, */
#define BIDS_LARGE 2         /* and of requests of more nodes */
#define NODES_SMALL 64       /* than these */

/* What a host would take. */
typedef struct Bid {
    guint place;
    double worth;  /* as parts of the groups */
    guint64 spare; /* nodes that would fit there, whatever is missing */
} Bid;

typedef struct Filling {
    WeftTrial *trial;
    const WeftMixOrders *orders;
    guint missing[WEFT_GROUPS_MAX];
    Bid bids[BIDS_MAX]; /* the best first */
    guint n_bids;
    guint most; /* bids that are kept */
} Filling;

static double
worth_of(const Filling *filling, const guint *taken)
{
    double worth = 0;
    for (guint i = 0; i < filling->trial->n; i++)
        worth += (double)taken[i] / filling->trial->groups[i].count;
    return worth;
}

static gboolean
is_better(const Bid *a, const Bid *b)
{
    return a->worth != b->worth ? a->worth > b->worth : a->spare < b->spare;
}

/* Counting each group by itself: never too low. */
static void
add_bid(Filling *filling, WeftIndex *const *indexes, guint place)
{
    Bid bid = { .place = place };
    guint taken[WEFT_GROUPS_MAX];
    for (guint i = 0; i < filling->trial->n; i++) {
        guint fit = indexes[i]->keys[place] >> 2;
        taken[i] = MIN(fit, filling->missing[i]);
        bid.spare += fit;
    }
    bid.worth = worth_of(filling, taken);
    guint at = filling->n_bids;
    while (at > 0 && is_better(&bid, &filling->bids[at - 1]))
        at--;
    if (bid.worth == 0 || at == filling->most)
        return;
    guint behind = MIN(filling->n_bids, filling->most - 1) - at;
    memmove(&filling->bids[at + 1], &filling->bids[at], behind * sizeof bid);
    filling->bids[at] = bid;
    filling->n_bids = MIN(filling->n_bids + 1, filling->most);
}

static void
collect_bids(Filling *filling, WeftIndex *const *indexes, const WeftLeafSet *leaves)
{
    const WeftRealm *realm = filling->trial->realm;
    const WeftBoard *board = filling->trial->board;
    filling->n_bids = 0;
    for (guint i = 0; i < leaves->n; i++)
        for (guint place = realm->leaf_first[leaves->at[i]]; place < realm->leaf_first[leaves->at[i] + 1]; place++)
            if (board->stamps[place] != board->stamp)
                add_bid(filling, indexes, place);
}

/* Seats on the host in that order of groups, behind those that the board has; they do not count there yet. Returns how many. */
static guint
seat_on(const Filling *filling, guint place, const guint *order, guint *ret_taken)
{
    WeftTrial *trial = filling->trial;
    WeftSlot *slot = weft_trial_copy(trial, trial->realm->numbers[place]);
    guint n = 0;
    for (guint k = 0; k < trial->n; k++) {
        const WeftTrialGroup *group = &trial->groups[order[k]];
        WeftSeat *seat = &trial->board->seats[trial->board->n_seats + n];
        guint *taken = &ret_taken[order[k]];
        for (*taken = 0; *taken < filling->missing[order[k]] && weft_slot_seat(slot, &group->shape, seat); (*taken)++) {
            seat->group = group->group;
            weft_slot_take_seat(slot, seat, NULL);
            seat = &trial->board->seats[trial->board->n_seats + ++n];
        }
    }
    return n;
}

/* The bid, from that on, that holds best what it promised; its order too. FALSE: none takes anything. */
static gboolean
choose(const Filling *filling, guint from, Bid *ret_bid, const guint **ret_order)
{
    *ret_bid = (Bid){ .worth = 0 };
    for (guint b = from; b < filling->n_bids && is_better(&filling->bids[b], ret_bid); b++)
        for (guint o = 0; o < filling->orders->n; o++) {
            Bid bid = filling->bids[b];
            guint taken[WEFT_GROUPS_MAX];
            seat_on(filling, bid.place, filling->orders->orders[o], taken);
            bid.worth = worth_of(filling, taken);
            if (!is_better(&bid, ret_bid))
                continue;
            *ret_bid = bid;
            *ret_order = filling->orders->orders[o];
        }
    return ret_bid->worth > 0;
}

gboolean
weft_trial_fill_hosts(WeftTrial *trial, WeftIndex *const *indexes, const WeftLeafSet *leaves, const WeftMixOrders *orders,
                      guint first)
{
    WeftBoard *board = trial->board;
    Filling filling = { .trial = trial, .orders = orders };
    guint left = 0;
    for (guint i = 0; i < trial->n; i++)
        left += filling.missing[i] = trial->groups[i].count;
    filling.most = left > NODES_SMALL ? BIDS_LARGE : BIDS_MAX;
    weft_board_stamp(board);
    board->n_seats = board->n_picks = 0;
    while (left) {
        Bid bid;
        const guint *order = orders->orders[0];
        guint taken[WEFT_GROUPS_MAX];
        collect_bids(&filling, indexes, leaves);
        if (!choose(&filling, board->n_picks ? 0 : first, &bid, &order))
            return FALSE;
        guint n = seat_on(&filling, bid.place, order, taken);
        for (guint i = 0; i < trial->n; i++)
            filling.missing[i] -= taken[i];
        board->n_seats += n;
        left -= n;
        board->stamps[bid.place] = board->stamp;
        board->picks[board->n_picks++] = (WeftPick){ bid.place, n };
    }
    return TRUE;
}
