/* Which way of copying suits a node that is to be moved. Pure. Beside the driver's contract, whose words it uses: whoever calls
 * move() asks here first. */
#pragma once

#include "hypervisor.h"

typedef struct WeftCopyFacts {
    guint64 memory;    /* bytes of the node */
    guint64 rate;      /* bytes a second that it writes to, as measure() tells */
    guint64 bandwidth; /* bytes a second between the hosts; 0: no limit is known, and nothing is in its way */
    gint64 stall;      /* microseconds that it may stand still */
    gboolean emulated; /* there is no KVM, and the emulator loses writes to memory that is being copied: QEMU's before 9.0 */
} WeftCopyFacts;

/* What is measured in a second may be so many times as much in the next ones. */
#define WEFT_COPY_DOUBT 2

WeftCopy weft_copy_choose(const WeftCopyFacts *facts);
