/* Which way of copying suits a node that is to be moved, and how a driver goes on from pass to pass. Pure. Beside the driver's
 * contract, whose words it uses: whoever calls move() asks here first. */
#pragma once

#include "hypervisor.h"

typedef struct WeftCopyFacts {
    guint64 memory;    /* bytes of the node */
    guint64 rate;      /* bytes a second that it writes to, as measure() tells */
    guint64 bandwidth; /* bytes a second between the hosts; 0: not known, and taken for WEFT_COPY_LINK or _RDMA */
    gint64 stall;      /* microseconds that it may stand still */
    gboolean rdma;     /* both hosts have RDMA */
    gboolean emulated; /* there is no KVM, and the emulator loses writes to memory that is being copied: QEMU's before 9.0 */
} WeftCopyFacts;

/* What is measured in a second may be so many times as much in the next ones. */
#define WEFT_COPY_DOUBT 2
/* The slowest link that hosts are likely to have, 1 Gbit/s. Were it faster, a hybrid would end as a pre-copy does. */
#define WEFT_COPY_LINK ((guint64)110 << 20)
/* … and with RDMA: InfiniBand's first. */
#define WEFT_COPY_RDMA ((guint64)900 << 20)

WeftCopy weft_copy_choose(const WeftCopyFacts *facts);

/* May it go over RDMA, where both hosts have that? */
gboolean weft_copy_takes_rdma(WeftCopy copy);

/* --- from pass to pass --- */

/* One that begins. */
typedef struct WeftCopyPass {
    guint number;    /* 1: nothing was copied yet */
    guint64 carried; /* bytes of the one before */
    guint64 left;    /* bytes that were written meanwhile */
    gboolean fits;   /* were it the last, the domain would stand still no longer than it may */
    guint vain;      /* turns other than WEFT_TURN_ON until now */
} WeftCopyPass;

typedef enum {
    WEFT_TURN_ON,     /* the stall gets shorter with it */
    WEFT_TURN_GRANT,  /* it does not: more of the stall that is allowed is granted, and pre-copy may end */
    WEFT_TURN_SWITCH, /* on to post-copy */
    WEFT_TURN_END,    /* it would never end: it is broken off */
} WeftCopyTurn;

/* The stall that is allowed is granted in so many parts, one of them from the beginning. */
#define WEFT_COPY_GRANTS 10

WeftCopyTurn weft_copy_turn(WeftCopy copy, const WeftCopyPass *pass);
