#include "lane-choice.h"

#include <stdlib.h>

typedef struct Choice {
    guint lane;
    guint class;     /* same, free, other */
    double distance; /* how many times larger or smaller its guarantees are */
    guint share;
} Choice;

static Choice
look_at(const WeftLanes *lanes, const WeftLaneUse *uses, guint i, guint64 bandwidth)
{
    Choice choice = { .lane = i, .class = 1, .share = lanes->lanes[i].share };
    if (uses[i].devices == 0)
        return choice;
    double mean = (double)uses[i].bits / uses[i].devices;
    choice.distance = MAX(mean / (double)bandwidth, (double)bandwidth / mean);
    choice.class = uses[i].bits == bandwidth * uses[i].devices ? 0 : 2;
    return choice;
}

static int
compare(gconstpointer a, gconstpointer b)
{
    const Choice *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->class == 2 && x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    if (x->share != y->share)
        return x->share < y->share ? -1 : 1;
    return x->lane < y->lane ? -1 : 1;
}

guint
weft_lane_choices(const WeftLanes *lanes, const WeftLaneUse *uses, guint64 bandwidth, guint64 rate,
                  guint ret_choices[WEFT_LANES_MAX])
{
    Choice choices[WEFT_LANES_MAX] = { 0 };
    guint n = 0;
    for (guint i = 0; i < lanes->n; i++)
        if (weft_lane_room(&lanes->lanes[i], rate) >= bandwidth)
            choices[n++] = look_at(lanes, uses, i, bandwidth);
    qsort(choices, n, sizeof choices[0], compare);
    for (guint i = 0; i < n; i++)
        ret_choices[i] = choices[i].lane;
    return n;
}
