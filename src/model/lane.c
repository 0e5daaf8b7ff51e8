#include "lane.h"

#include <stdlib.h>

#define PERCENT 100
#define PLACES_COMMON 8
#define VLS_MAX (WEFT_LANES_MAX + 1)

/* --- turns --- */

/* Packets of each virtual lane in one round. */
typedef struct Round {
    guint packets[VLS_MAX];
    guint total;
} Round;

static guint
turns_of(guint packets)
{
    return (packets + WEFT_TURN_PACKETS - 1) / WEFT_TURN_PACKETS;
}

/* Each lane rounded up, best effort what is left. FALSE: nothing is left, or the table is too small. */
static gboolean
make_round(const WeftLanes *lanes, guint places, guint total, Round *ret_round)
{
    *ret_round = (Round){ .total = total };
    guint taken = 0, turns = 0;
    for (guint i = 0; i < lanes->n; i++) {
        guint packets = (lanes->lanes[i].share * total + PERCENT - 1) / PERCENT;
        ret_round->packets[i + 1] = packets;
        taken += packets;
        turns += turns_of(packets);
    }
    if (taken >= total)
        return FALSE;
    ret_round->packets[0] = total - taken;
    return turns + turns_of(total - taken) <= places;
}

/* The shortest round in which best effort has most. */
static gboolean
best_round(const WeftLanes *lanes, guint places, Round *ret_best)
{
    gboolean found = FALSE;
    Round round;
    for (guint total = 1; total <= places * WEFT_TURN_PACKETS; total++) {
        if (!make_round(lanes, places, total, &round))
            continue;
        if (!found || round.packets[0] * ret_best->total > ret_best->packets[0] * total)
            *ret_best = round;
        found = TRUE;
    }
    return found;
}

guint
weft_lanes_places(const WeftLanes *lanes)
{
    return lanes->n < PLACES_COMMON ? PLACES_COMMON : VLS_MAX;
}

/* Every lane's first turn, then every lane's second: so that none waits longer than it must. */
guint
weft_lanes_arbitrate(const WeftLanes *lanes, guint places, WeftTurn ret_turns[WEFT_TURNS_MAX])
{
    Round round = { 0 };
    guint n = 0;
    if (!best_round(lanes, MIN(places, WEFT_TURNS_MAX), &round))
        return 0;
    while (round.total > 0)
        for (guint vl = 0; vl <= lanes->n; vl++) {
            guint packets = MIN(round.packets[vl], WEFT_TURN_PACKETS);
            if (packets == 0)
                continue;
            ret_turns[n++] = (WeftTurn){ vl, packets };
            round.packets[vl] -= packets;
            round.total -= packets;
        }
    return n;
}

/* --- lanes --- */

const WeftLane *
weft_lanes_find(const WeftLanes *lanes, guint sl)
{
    for (guint i = 0; i < lanes->n; i++)
        if (lanes->lanes[i].sl == sl)
            return &lanes->lanes[i];
    return NULL;
}

guint64
weft_lane_room(const WeftLane *lane, guint64 rate)
{
    return rate / PERCENT * lane->share;
}

static int
compare(gconstpointer a, gconstpointer b)
{
    const WeftLane *x = a, *y = b;
    return (int)x->sl - (int)y->sl;
}

static void
check(WeftFields *f, const WeftLanes *lanes)
{
    WeftTurn turns[WEFT_TURNS_MAX];
    guint sum = 0;
    for (guint i = 0; i < lanes->n; i++) {
        sum += lanes->lanes[i].share;
        if (i && lanes->lanes[i].sl == lanes->lanes[i - 1].sl)
            weft_fields_fail(f, "lanes", "service level %u has two lanes; give each lane its own", lanes->lanes[i].sl);
    }
    if (sum > PERCENT - WEFT_SHARE_LEAST)
        weft_fields_fail(f, "lanes", "take %u %% of the links; leave at least %d %% for all that has no guarantee", sum,
                         WEFT_SHARE_LEAST);
    else if (!weft_lanes_arbitrate(lanes, weft_lanes_places(lanes), turns))
        weft_fields_fail(
            f, "lanes",
            "no arbitration table of %u places gives these shares; make them multiples of 5 or 10, fewer, or leave "
            "more for all that has no guarantee",
            weft_lanes_places(lanes));
}

void
weft_lanes_read(WeftFields *fields, const char *name, WeftLanes *lanes)
{
    *lanes = (WeftLanes){ 0 };
    json_t *object = weft_fields_object(fields, name), *item;
    if (!object)
        return;
    WeftFields f;
    g_autofree char *where = weft_fields_path(fields, name);
    weft_fields_begin(&f, object, "%s", where);
    json_t *items = weft_fields_array(&f, "lanes", WEFT_LANES_MAX);
    gsize i;
    json_array_foreach (items, i, item) {
        WeftFields lane;
        weft_fields_begin(&lane, item, "%s.lanes[%zu]", where, i);
        lanes->lanes[i].sl = (guint)weft_fields_uint(&lane, "sl", 1, WEFT_LANES_MAX, WEFT_REQUIRED);
        lanes->lanes[i].share = (guint)weft_fields_uint(&lane, "share", 1, PERCENT - WEFT_SHARE_LEAST, WEFT_REQUIRED);
        weft_fields_end(&lane, f.error ? NULL : &f.error);
        lanes->n++;
    }
    qsort(lanes->lanes, lanes->n, sizeof lanes->lanes[0], compare);
    if (!f.error && lanes->n)
        check(&f, lanes);
    weft_fields_end(&f, fields->error ? NULL : &fields->error);
}

json_t *
weft_lanes_write(const WeftLanes *lanes)
{
    json_t *items = json_array();
    for (guint i = 0; i < lanes->n; i++)
        json_array_append_new(items,
                              json_pack("{s:i, s:i}", "sl", (int)lanes->lanes[i].sl, "share", (int)lanes->lanes[i].share));
    return json_pack("{s:o}", "lanes", items);
}

char *
weft_lanes_rival(const char *routing)
{
    static const char *const harmless[] = {
        "minhop", "updn", "dnup", "file", "ftree", "dor", "sssp", "none", "(null)", "", NULL
    };
    g_auto(GStrv) names = g_strsplit_set(routing ? routing : "", ", \t", -1);
    for (guint i = 0; names[i]; i++)
        if (!g_strv_contains(harmless, names[i]))
            return g_strdup(names[i]);
    return NULL;
}
