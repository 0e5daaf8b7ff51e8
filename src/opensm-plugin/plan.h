/* What a change means for the ports: their tables as they shall be. lock: opensm's is held from weft_plan_new() to
 * weft_plan_commit(). */
#pragma once

#include "acks.h"
#include "fabric.h"

typedef struct WeftPlan WeftPlan;

typedef struct WeftPlanInput {
    osm_opensm_t *osm;
    const WeftFabricChange *change;
    GArray *gone;        /* guint16: partitions that go, weft's by the file or by their name */
    GHashTable *lagging; /* guint64 * → set of pkeys: ports that did not answer when these changed */
    GHashTable *also;    /* guint64 * → set of pkeys: ports that are looked at in any case */
} WeftPlanInput;

/* EXHAUSTED, CONFLICT or UNAVAILABLE: it cannot be so. Nothing is changed. */
WeftPlan *weft_plan_new(const WeftPlanInput *input, GError **error);
void weft_plan_free(WeftPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftPlan, weft_plan_free)

/* Makes the tables opensm's wish, and sends what the ports lack. lock: exclusive. */
void weft_plan_commit(WeftPlan *plan, WeftRound *round);
/* Asks the ports for all of their tables. */
void weft_plan_read(const WeftPlan *plan, WeftRound *round);
/* Members that are not in the fabric now (guint64): they get their keys when they come. */
GArray *weft_plan_absent(const WeftPlan *plan);
/* Adds its ports, with the P_Keys that it concerns there: guint64 * → set of GUINT_TO_POINTER(pkey), both owned. */
void weft_plan_collect(const WeftPlan *plan, GHashTable *ports);
