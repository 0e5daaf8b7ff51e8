/* An index of a fabric's hosts for one shape: how many nodes fit on each, and sums of that for leaves, in order. Kept up with
 * the changes of the fleet: a question costs what changed since the last one, not what is there. */
#pragma once

#include "shape.h"

#include <glib.h>

typedef struct WeftFleet WeftFleet;
typedef struct WeftRealm WeftRealm;
typedef struct WeftSlot WeftSlot;

/* What a host, or a leaf, has for a shape; sorted by it. */
typedef struct WeftOffer {
    guint32 key; /* of a host: its fit × 4, and more for what would be wasted or broken up; of a leaf: the sum of its fits */
    guint32 at;  /* the host's place in the realm, or the leaf */
} WeftOffer;

typedef struct WeftIndex {
    WeftRealm *realm;
    WeftShape shape;
    char *cluster;      /* what the shape points to */
    GHashTable *labels; /* that hosts must have; NULL: none */
    gboolean built;
    guint64 seen;       /* changes of the fleet */
    guint32 *keys;      /* by place: as in its offer */
    guint32 *versions;  /* … of the slot then */
    WeftOffer *hosts;   /* of each leaf its hosts, the least first; a leaf's lie where the realm has them */
    guint32 *sums;      /* by leaf: of its hosts' fits */
    guint32 *capacity;  /* by leaf: as in its offers */
    WeftOffer **leaves; /* by level: of each zone its leaves, the least first */
    guint64 total;
    guint max;        /* no host ever had more */
    GArray *dirty;    /* guint32: leaves whose sum changed */
    guint8 *is_dirty; /* by leaf */
} WeftIndex;

/* The index of the shape, up to date. labels: a host must carry all of these; empty or NULL: none. */
WeftIndex *weft_index_get(WeftFleet *fleet, WeftRealm *realm, const WeftShape *shape, GHashTable *labels);
void weft_index_free(WeftIndex *index);

static inline guint
weft_offer_fit(WeftOffer offer)
{
    return offer.key >> 2;
}

static inline gboolean
weft_offer_is_empty(WeftOffer offer)
{
    return offer.key & 1;
}

/* The first of n sorted offers that is not less than that key. */
guint weft_offers_find(const WeftOffer *offers, guint n, guint32 key);
