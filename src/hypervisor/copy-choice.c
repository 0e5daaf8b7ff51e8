#include "copy-choice.h"

#define PASSES 5      /* that a pre-copy may take by the measured rate, the first included */
#define WORTH 3 / 4   /* of what a pass carried: if it leaves no more, another one is worth its time */
#define PASSES_MAX 30 /* after which none is; whoever writes less than the link carries needs a handful */
#define CHANCE 1      /* of those that were not worth it: whatever else the hosts do may have made one slow */
#define VAIN_MAX 10   /* likewise: all of the stall was granted, and did not suffice */

/* Of the memory M a pass of pre-copy leaves what was written meanwhile: r/b of it, where r is written and b is carried in a
 * second. It is done when what is left takes no longer than the stall s, that is s × b; so after n passes, if M × (r/b)ⁿ ≤ s ×
 * b. A node that would need many passes, or of which that is not certain, is moved by the hybrid: it has no longer stall where
 * pre-copy would have done, and else the rest follows when it runs there. Pre-copy needs no luck: should a host die, the node
 * is whole on the other. Post-copy alone has the guest wait for pages that the first pass would have brought; it is for guests
 * that an emulator runs, whose writes QEMU does not follow reliably from pass to pass. */
WeftCopy
weft_copy_choose(const WeftCopyFacts *facts)
{
    if (facts->emulated)
        return WEFT_COPY_POST;
    double rest = (double)facts->memory;
    double bandwidth = (double)(facts->bandwidth > 0 ? facts->bandwidth : facts->rdma ? WEFT_COPY_RDMA : WEFT_COPY_LINK);
    double enough = bandwidth * (double)facts->stall / G_USEC_PER_SEC;
    double left = (double)facts->rate * WEFT_COPY_DOUBT / bandwidth;
    for (guint pass = 0; pass < PASSES && left < 1; pass++) {
        rest *= left;
        if (rest <= enough)
            return WEFT_COPY_PRE;
    }
    return WEFT_COPY_HYBRID;
}

/* The stall of a pre-copy is what its last pass carries, and the one of a post-copy, pages that the guest needs at once and
 * must wait for, is longer by far: so passes go on as long as each leaves noticeably less, and the hybrid switches only where
 * even the stall that is allowed would not do. With three quarters at most all of these together carry four times what the
 * first of them did. */
WeftCopyTurn
weft_copy_turn(WeftCopy copy, const WeftCopyPass *pass)
{
    if (copy == WEFT_COPY_POST)
        return WEFT_TURN_SWITCH;
    if (pass->number <= 1 || (pass->number <= PASSES_MAX && pass->left <= pass->carried * WORTH))
        return WEFT_TURN_ON;
    gboolean endless = pass->vain >= VAIN_MAX;
    if (copy == WEFT_COPY_HYBRID && (endless || (!pass->fits && pass->vain >= CHANCE)))
        return WEFT_TURN_SWITCH;
    return endless ? WEFT_TURN_END : WEFT_TURN_GRANT;
}

/* RDMA pins what has arrived. A post-copy throws away, of that, all that was written meanwhile, and takes fresh pages for it:
 * huge ones that are pinned do not return to their pool, which has as many as the node has claimed, and QEMU dies for lack of
 * one. Nor is it known that a post-copy that broke over RDMA can be resumed. */
gboolean
weft_copy_takes_rdma(WeftCopy copy)
{
    return copy == WEFT_COPY_PRE;
}
