/* What is held on hosts, and what an operator decides about it: for weft site. */
#pragma once

#include "control-private.h"

/* Does something that is held have that partition's number, or its network's? Then no cluster may get it. */
gboolean weft_site_holds_number(const WeftControl *control, const WeftFabric *fabric, guint pkey);

/* { "items": [ { "host", "since", "kind": a word of weft_thing_words, "id", "name", "key", "site" or null, "placement" or null,
 *   "running", "tenant" or null, "cluster" or null, "node" or null: as its mark says,
 *   "verdict": "unproved", "elsewhere" (then "recorded_on" names the host) or "confirmed" (it is to be removed) }, … ], by
 * host and key; "next" or null }. At most limit of them, and WEFT_SITE_PAGE_MAX: marks are long to read. after: the "next" of
 * those before; NULL: from the first. */
#define WEFT_SITE_PAGE_MAX 128
json_t *weft_site_held(const WeftControl *control, const char *after, guint limit);

/* What is asked for: { "host", "keys": [ … ], "who": the principal, "dry_run" }. */
typedef struct WeftSiteOrder {
    const char *host;
    GPtrArray *keys; /* char * */
    const char *who;
    gboolean dry_run;
} WeftSiteOrder;

/* error NULL: it is written, or could be. */
typedef void (*WeftSiteDone)(const GError *error, gpointer data);

/* Writes that exactly these things are to be removed from the host; looks there do the rest once nothing unproved is left.
 * CONFLICT: one of them is not held there (any more), or is recorded on another host. */
void weft_site_remove(WeftControl *control, const WeftSiteOrder *order, WeftSiteDone done, gpointer data);
/* Writes records of the nodes as their marks say, with all that they hold, in one transaction, which also releases nodes that
 * are recorded on that host and were not there twice, and takes back what was confirmed of those that are adopted. INVALID,
 * CONFLICT or EXHAUSTED: one of them cannot be, and none is. */
void weft_site_adopt(WeftControl *control, const WeftSiteOrder *order, WeftSiteDone done, gpointer data);
