/* Partition numbers that weft may write on a fabric. Partitions carry no mark of their site, so these numbers are what keeps
 * weft away from all others. As text: ranges and single numbers, "0x1000-0x1fff+0x7001". */
#pragma once

#include "bounds.h"

#include <glib.h>

#define WEFT_PKEY_FIRST 0x0001 /* partition numbers are 15 bits; 0x7fff is the default partition */
#define WEFT_PKEY_LAST 0x7ffe

/* What weft has where nothing else was configured. */
#define WEFT_PKEYS_FIRST 0x1000
#define WEFT_PKEYS_LAST 0x1fff

typedef struct WeftPkeys {
    guint n;
    struct {
        guint first, last;
    } ranges[2 * WEFT_SHARED_MAX + 1]; /* of clusters, and each that is shared, or was */
} WeftPkeys;

/* The numbers of a range, each once, in an order that a random number chooses: who gets the first that is free learns nothing
 * of how many others are in use. O(1) for each. */
typedef struct WeftPkeyOrder {
    guint first, n;    /* of the range */
    guint start, step; /* step has no divisor in common with n, so that all are met */
} WeftPkeyOrder;
WeftPkeyOrder weft_pkey_order(guint first, guint last, guint64 random);
guint weft_pkey_at(const WeftPkeyOrder *order, guint place); /* place: 0 to n - 1 */

/* A set that is full stays as it is. */
void weft_pkeys_add(WeftPkeys *pkeys, guint first, guint last);
gboolean weft_pkeys_contain(const WeftPkeys *pkeys, guint pkey);

char *weft_pkeys_format(const WeftPkeys *pkeys);
/* INVALID names what is wrong; ret_pkeys is untouched then. */
gboolean weft_pkeys_parse(const char *text, WeftPkeys *ret_pkeys, GError **error);
