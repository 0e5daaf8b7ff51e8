/* Nodes that do not reach each other on their partition: who is moved? Pure. */
#pragma once

#include <glib.h>

/* What a node said when it last tried to reach the others. */
typedef struct WeftMeeting {
    guint rank;
    const char *host;
    guint moved;             /* so often already, since others did not reach it */
    gboolean was_ready;      /* it has something to lose */
    gboolean failed;         /* FALSE: it reached them, or has not tried */
    const GArray *unreached; /* guint, ranks: once for each address that did not answer; empty: nobody in particular */
} WeftMeeting;

/* Which nodes are to be somewhere else. The host that does not reach most others is to blame: where it is a single one, all its
 * nodes; else one node, moved least often, of the highest rank. What then still fails tells more. Those that were ready stay:
 * what their user has there counts more than those who cannot join. Returns how many. */
guint weft_plan_outcasts(const WeftMeeting *meetings, guint n, gboolean *ret_outcasts);
