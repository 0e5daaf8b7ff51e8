#include "copy-choice.h"

#define PASSES 5 /* that a pre-copy may take, the first included */

/* Of the memory M a pass of pre-copy leaves what was written meanwhile: r/b of it, where r is written and b is carried in a
 * second. It is done when what is left takes no longer than the stall s, that is s × b; so after n passes, if M × (r/b)ⁿ ≤ s ×
 * b. A node that would need many passes is moved by the hybrid: all of it once, and the rest when it runs there. Post-copy
 * alone has the guest wait for pages that the first pass would have brought; it is for guests that an emulator runs, whose
 * writes QEMU does not follow reliably from pass to pass. */
WeftCopy
weft_copy_choose(const WeftCopyFacts *facts)
{
    if (facts->emulated)
        return WEFT_COPY_POST;
    double rest = (double)facts->memory;
    double enough = (double)facts->bandwidth * (double)facts->stall / G_USEC_PER_SEC;
    double left = facts->bandwidth > 0 ? (double)facts->rate * WEFT_COPY_DOUBT / (double)facts->bandwidth : 0;
    for (guint pass = 0; pass < PASSES && left < 1; pass++) {
        rest *= left;
        if (rest <= enough)
            return WEFT_COPY_PRE;
    }
    return WEFT_COPY_HYBRID;
}
