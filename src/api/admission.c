#include "admission.h"

/* How many times its seats a party may have open: those that gave up their seat are closed soon after, not at once. Somebody
 * who comes faster than that would have all that may be open. */
#define OPEN_OF_PARTY 2

/* Whose seats are looked at. */
typedef struct {
    WeftStage own;    /* up to which stage the newcomer's party gives one up; answers of its own it breaks off only if slow */
    WeftStage others; /* … another one */
    gboolean only_own;
    gboolean strangers; /* parties are compared by how many strangers they have, not by all their seats; chance decides */
} Rule;

static guint
count_strangers(const GPtrArray *seats)
{
    guint n = 0;
    for (guint i = 0; i < seats->len; i++)
        n += ((const WeftSeat *)seats->pdata[i])->stage == WEFT_STAGE_STRANGER;
    return n;
}

static guint
weight(const WeftParty *party, const Rule *rule)
{
    return rule->strangers ? party->strangers : party->seats;
}

static gboolean
is_slow(const WeftSeat *seat, gint64 now)
{
    return seat->stage == WEFT_STAGE_ANSWERED && seat->slow <= now;
}

static gboolean
may_go(const WeftSeat *seat, const WeftNewcomer *newcomer, const Rule *rule)
{
    const WeftParty *party = newcomer->party;
    if (seat->party == party)
        return seat->stage <= rule->own || (rule->own >= WEFT_STAGE_IDLE && is_slow(seat, newcomer->now));
    return !rule->only_own && seat->stage <= rule->others &&
           (party->trusted || weight(seat->party, rule) > weight(party, rule));
}

static gboolean
goes_before(const WeftSeat *seat, const WeftSeat *other, const Rule *rule)
{
    guint own = weight(seat->party, rule), others = weight(other->party, rule);
    if (own != others)
        return own > others;
    if (seat->stage != other->stage)
        return seat->stage < other->stage;
    if (rule->strangers)
        return !g_atomic_int_get(&seat->heard) && g_atomic_int_get(&other->heard);
    return seat->since < other->since;
}

static WeftSeat *
find_victim(const GPtrArray *seats, const WeftNewcomer *newcomer, const Rule *rule)
{
    WeftSeat *victim = NULL;
    for (guint i = 0; i < seats->len; i++) {
        WeftSeat *seat = seats->pdata[(i + newcomer->lot % seats->len) % seats->len];
        if (may_go(seat, newcomer, rule) && (!victim || goes_before(seat, victim, rule)))
            victim = seat;
    }
    return victim;
}

gboolean
weft_admission_decide(const WeftSeatLimits *limits, const GPtrArray *seats, const WeftNewcomer *newcomer, WeftSeat **ret_victim)
{
    static const Rule own = { .own = WEFT_STAGE_IDLE, .only_own = TRUE };
    static const Rule strangers = { .own = WEFT_STAGE_STRANGER, .others = WEFT_STAGE_STRANGER, .strangers = TRUE };
    static const Rule all = { .own = WEFT_STAGE_IDLE, .others = WEFT_STAGE_ANSWERED };
    const WeftParty *party = newcomer->party;
    *ret_victim = NULL;
    if (!party->trusted && party->open >= limits->of_party * OPEN_OF_PARTY)
        return FALSE;
    if (!party->trusted && party->seats >= limits->of_party)
        return (*ret_victim = find_victim(seats, newcomer, &own)) != NULL;
    if (count_strangers(seats) >= limits->strangers)
        return (*ret_victim = find_victim(seats, newcomer, &strangers)) != NULL;
    if (seats->len < limits->all)
        return TRUE;
    *ret_victim = find_victim(seats, newcomer, &all);
    if (!*ret_victim)
        *ret_victim = find_victim(seats, newcomer, &strangers);
    return *ret_victim != NULL;
}
