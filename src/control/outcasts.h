/* Nodes that do not reach each other on their partition: who is moved? Pure. */
#pragma once

#include <glib.h>

/* What a node said when it last tried to reach the others. */
typedef struct WeftMeeting {
    guint rank; /* below WEFT_NODES_MAX; no two have the same */
    const char *host;
    guint moved;                 /* so often already, since others did not reach it */
    gboolean was_ready;          /* it has something to lose */
    gboolean failed;             /* FALSE: it reached them, or has not tried */
    const GByteArray *unreached; /* by rank, how many of its addresses did not answer; empty or NULL: nobody in particular */
} WeftMeeting;

/* Which nodes are to be somewhere else. The host that does not reach most others is to blame: where it is a single one, all its
 * nodes; else one node, moved least often, of the highest rank. What then still fails tells more. Those that were ready stay:
 * what their user has there counts more than those who cannot join. Returns how many.
 *
 * A thousand nodes that name all others take a few milliseconds: one look at each pair of nodes, and nothing is hashed by pair.
 */
guint weft_plan_outcasts(const WeftMeeting *meetings, guint n, gboolean *ret_outcasts);
