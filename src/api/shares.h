/* What clients share: so many event streams, sessions, questions to hosts and the like at the same time. Each is a line of one
 * table, and all follow one rule:
 *
 * - one principal has at most a part of all;
 * - a tenant has at most as many as it leaves free: the first that takes what it can gets half, and there is room for another
 *   tenant as long as there is any;
 * - a reserve of each is kept for operators and admins.
 *
 * thread: main. Pure but for its own count. */
#pragma once

#include "payer.h"

#include <glib.h>

typedef enum {
    WEFT_SHARE_STREAMS,
    WEFT_SHARE_SESSIONS,
    WEFT_SHARE_READERS,
    WEFT_SHARE_TRIALS,
    WEFT_SHARE_QUESTIONS,
    WEFT_SHARE_UPLOADS,
    WEFT_SHARE_PIECES,
    WEFT_SHARE_KINDS
} WeftShareKind;

typedef struct WeftShares WeftShares; /* counted references: a share may outlive the server that gave it */
typedef struct WeftShare WeftShare;   /* one of them, until it is freed */

/* totals: how many of each kind there are. */
WeftShares *weft_shares_new(const guint totals[WEFT_SHARE_KINDS]);
void weft_shares_unref(WeftShares *shares);

/* NULL and BUSY where the payer must wait for another to end. */
WeftShare *weft_share_take(WeftShares *shares, WeftShareKind which, const WeftPayer *payer, GError **error);
/* NULL is fine. */
void weft_share_free(WeftShare *share);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftShare, weft_share_free)
