/* Lanes: the parts of a host's link that are promised to clusters. Each is a service level with a virtual lane of its own;
 * level 0 on lane 0 is best effort, and has what the others leave. */
#pragma once

#include "fields.h"

#include <glib.h>
#include <jansson.h>

#define WEFT_LANES_MAX 14          /* a port has 15 virtual lanes for data at most, and lane 0 is best effort's */
#define WEFT_SHARE_LEAST 5         /* percent that best effort keeps */
#define WEFT_BANDWIDTH_MIN 1000000 /* bits a second that a cluster may ask for */
#define WEFT_BANDWIDTH_MAX 100000000000000ULL

typedef struct WeftLane {
    guint sl;    /* service level, 1 to 14 */
    guint share; /* percent of a link */
} WeftLane;

typedef struct WeftLanes {
    guint n;
    WeftLane lanes[WEFT_LANES_MAX]; /* by service level; the virtual lane is the place in this list, from 1 */
} WeftLanes;

/* { "lanes": [ { "sl": 1, "share": 40 }, { "sl": 2, "share": 20 } ] }. Refused where ports could not keep the shares. */
void weft_lanes_read(WeftFields *fields, const char *name, WeftLanes *lanes);
json_t *weft_lanes_write(const WeftLanes *lanes);

/* NULL: the service level has no lane. */
const WeftLane *weft_lanes_find(const WeftLanes *lanes, guint sl);
/* Bits a second of a lane on a link of that rate. */
guint64 weft_lane_room(const WeftLane *lane, guint64 rate);

/* A port sends from its virtual lanes in turn, as its arbitration table says: a list of turns, each of a virtual lane and of a
 * weight in units of 64 bytes. A packet that has begun is sent whole, whatever is left of the weight: so turns that are no
 * multiple of the largest packet would shift the shares. Turns are therefore of one to four packets of 4 KiB, and a lane may
 * have several of them. */
#define WEFT_TURN_PACKETS 4
#define WEFT_TURNS_MAX 64

typedef struct WeftTurn {
    guint vl;
    guint packets; /* of 4 KiB, 1 to WEFT_TURN_PACKETS */
} WeftTurn;

/* As many places as the tables of common adapters have, which know eight virtual lanes; with more lanes as many as one for each
 * needs. */
guint weft_lanes_places(const WeftLanes *lanes);
/* Turns by which each lane has at least its share, and best effort as much of the rest as can be. Returns how many there are;
 * 0: no table of that many places does it. */
guint weft_lanes_arbitrate(const WeftLanes *lanes, guint places, WeftTurn ret_turns[WEFT_TURNS_MAX]);

/* Does one of these routing engines ("ftree,updn"; NULL: opensm's own choice) keep service levels for its own use, or might it?
 * Returns its name; NULL: none. */
char *weft_lanes_rival(const char *routing);
