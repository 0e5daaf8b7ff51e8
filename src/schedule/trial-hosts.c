/* Several groups, host after host: each time the host that takes most of what is missing, of all groups together. Where a
 * request is small this needs fewer hosts than one group after the other, whose first takes hosts that suit it alone. */
#include "trial.h"

#include <string.h>

#define HOSTS_TRIED 8 /* before one is chosen */

static double
worth_of(const WeftFilling *filling, const guint *taken)
{
    double worth = 0;
    for (guint i = 0; i < filling->trial->n; i++)
        worth += (double)taken[i] / filling->trial->groups[i].count;
    return worth;
}

static gboolean
is_better(const WeftBid *a, const WeftBid *b)
{
    return a->worth != b->worth ? a->worth > b->worth : a->spare < b->spare;
}

/* --- bids --- */

/* Counting each group by itself: never too low. */
static void
add_bid(WeftFilling *filling, guint place)
{
    WeftBid bid = { .place = place };
    guint taken[WEFT_GROUPS_MAX];
    for (guint i = 0; i < filling->trial->n; i++) {
        guint fit = filling->indexes[i]->keys[place] >> 2;
        taken[i] = MIN(fit, filling->missing[i]);
        bid.spare += fit;
    }
    bid.worth = worth_of(filling, taken);
    guint at = filling->n_bids;
    while (at > 0 && is_better(&bid, &filling->bids[at - 1]))
        at--;
    if (bid.worth == 0)
        return;
    filling->more |= filling->n_bids == WEFT_BIDS_MAX;
    if (at == WEFT_BIDS_MAX)
        return;
    guint behind = MIN(filling->n_bids, WEFT_BIDS_MAX - 1) - at;
    memmove(&filling->bids[at + 1], &filling->bids[at], behind * sizeof bid);
    filling->bids[at] = bid;
    filling->n_bids = MIN(filling->n_bids + 1, WEFT_BIDS_MAX);
}

static void
collect_bids(WeftFilling *filling, const WeftLeafSet *leaves)
{
    const WeftRealm *realm = filling->trial->realm;
    const WeftBoard *board = filling->trial->board;
    filling->n_bids = 0;
    filling->more = FALSE;
    for (guint i = 0; i < leaves->n; i++) {
        guint first = realm->leaf_first[leaves->at[i]], end = realm->leaf_first[leaves->at[i] + 1];
        for (guint place = first; place < end; place++)
            if (board->stamps[place] != filling->stamp)
                add_bid(filling, place);
        filling->work += end - first;
    }
}

/* Notes what a host may bring of each group at most. Did that change? Only then, bids are worth less than they were. */
static gboolean
limits_changed(WeftFilling *filling)
{
    gboolean changed = FALSE;
    for (guint i = 0; i < filling->trial->n; i++) {
        guint limit = MIN(filling->missing[i], filling->indexes[i]->max);
        changed |= limit != filling->limits[i];
        filling->limits[i] = limit;
    }
    return changed;
}

static void
remove_bid(WeftFilling *filling, guint place)
{
    guint at = 0;
    while (filling->bids[at].place != place)
        at++;
    memmove(&filling->bids[at], &filling->bids[at + 1], (filling->n_bids - 1 - at) * sizeof *filling->bids);
    filling->n_bids--;
}

/* --- seats --- */

/* Seats on the host in that order of groups, behind those that the board has; they do not count there yet. Returns how many. */
static guint
seat_on(WeftFilling *filling, guint place, const guint *order, guint *ret_taken)
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
    filling->work += WEFT_SEAT_WORK * (n + 1);
    return n;
}

/* Do all groups find the same there? */
static gboolean
are_alike(const WeftFilling *filling, const WeftBid *a, const WeftBid *b)
{
    for (guint i = 0; i < filling->trial->n; i++)
        if (filling->indexes[i]->keys[a->place] != filling->indexes[i]->keys[b->place])
            return FALSE;
    return TRUE;
}

/* The bid that holds best what it promised, after so many that are passed over; its order too. FALSE: none takes anything. */
static gboolean
choose(WeftFilling *filling, guint passed, WeftBid *ret_bid, const guint **ret_order)
{
    guint seen = 0;
    *ret_bid = (WeftBid){ .worth = 0 };
    for (guint b = 0; b < filling->n_bids && seen < HOSTS_TRIED && is_better(&filling->bids[b], ret_bid); b++) {
        if ((b > 0 && are_alike(filling, &filling->bids[b], &filling->bids[b - 1])) || seen++ < passed)
            continue;
        for (guint o = 0; o < filling->orders->n; o++) {
            WeftBid bid = filling->bids[b];
            guint taken[WEFT_GROUPS_MAX];
            seat_on(filling, bid.place, filling->orders->orders[o], taken);
            bid.worth = worth_of(filling, taken);
            if (!is_better(&bid, ret_bid))
                continue;
            *ret_bid = bid;
            *ret_order = filling->orders->orders[o];
        }
    }
    return ret_bid->worth > 0;
}

/* --- all of it --- */

void
weft_filling_begin(WeftFilling *filling)
{
    WeftBoard *board = filling->trial->board;
    filling->left = 0;
    for (guint i = 0; i < filling->trial->n; i++)
        filling->left += filling->missing[i] = filling->trial->groups[i].count;
    filling->stamp = weft_board_stamp(board);
    board->n_seats = board->n_picks = 0;
}

gboolean
weft_filling_go_on(WeftFilling *filling, const WeftLeafSet *leaves)
{
    WeftBoard *board = filling->trial->board;
    for (gboolean first = TRUE; filling->left; first = FALSE) {
        WeftBid bid;
        const guint *order = filling->orders->orders[0];
        guint taken[WEFT_GROUPS_MAX];
        if (limits_changed(filling) || first || (filling->more && filling->n_bids < HOSTS_TRIED))
            collect_bids(filling, leaves);
        if (!choose(filling, board->n_picks ? 0 : filling->passed, &bid, &order))
            return FALSE;
        guint n = seat_on(filling, bid.place, order, taken);
        for (guint i = 0; i < filling->trial->n; i++)
            filling->missing[i] -= taken[i];
        board->n_seats += n;
        filling->left -= n;
        board->stamps[bid.place] = filling->stamp;
        board->picks[board->n_picks++] = (WeftPick){ bid.place, n };
        remove_bid(filling, bid.place);
    }
    return TRUE;
}
