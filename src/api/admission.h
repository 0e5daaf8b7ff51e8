/* Who may connect, and who has to go for it. Pure: seats and limits in, a verdict out.
 *
 * A party is what one attacker has: a user of this machine, an IPv4 address or an IPv6 /64. Where there is no seat left, the
 * party that has the most of them gives one up, the seat least worth keeping first and the oldest first among equals; it never
 * gives one up to a party that has as many. So whoever has none gets in, as long as any seat is of somebody who only waits.
 * Strangers have their own number of seats: however many come from wherever, they take each other's, and not those of who is
 * known. One that has said nothing goes first, then any: were it the oldest, whoever comes fast enough would throw out
 * everybody who is still shaking hands. */
#pragma once

#include <glib.h>

/* How far a connection is, the least worth keeping first. */
typedef enum WeftStage {
    WEFT_STAGE_STRANGER, /* no whole request of a known principal has come yet */
    WEFT_STAGE_IDLE,     /* one has: it is between two requests, or sends the next one */
    WEFT_STAGE_ANSWERED, /* it takes its answer */
    WEFT_STAGE_BUSY,     /* weftd works for it, or it is a stream or a session: never given up */
} WeftStage;

typedef struct WeftParty {
    char *name;       /* "uid 1000", "192.0.2.7", "2001:db8:1:2::/64" */
    guint seats;      /* how many it has */
    guint strangers;  /* … of which nobody is known yet */
    guint open;       /* connections that are not closed yet, those without a seat too */
    gboolean trusted; /* an administrator of this machine: has no limit of its own, and takes precedence */
} WeftParty;

typedef struct WeftSeat {
    WeftParty *party;
    WeftStage stage;
    gint64 since; /* a stranger: when it came; others: when the stage began */
    gint heard;   /* atomic: a byte has come of it */
    gint64 slow;  /* of one that takes its answer: from when on it takes it so slowly that it may go for others of its party */
} WeftSeat;

typedef struct WeftNewcomer {
    const WeftParty *party;
    gint64 now; /* in the time of the seats */
    guint lot;  /* by chance: of strangers that are alike one goes whom nobody can foresee */
} WeftNewcomer;

typedef struct WeftSeatLimits {
    guint all;
    guint of_party;
    guint strangers;
} WeftSeatLimits;

/* seats: of WeftSeat. FALSE: the newcomer is refused. *ret_victim, where it is not NULL then,
 * has to give up its seat. */
gboolean weft_admission_decide(const WeftSeatLimits *limits, const GPtrArray *seats, const WeftNewcomer *newcomer,
                               WeftSeat **ret_victim);
