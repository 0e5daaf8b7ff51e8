/* What a look at a host found: what is there against what its nodes say. Pure. */
#pragma once

#include "hypervisor.h"
#include "node.h"

#include <glib.h>

typedef struct WeftLookInput {
    const WeftContents *contents;
    const GPtrArray *nodes; /* WeftNode: those that the store has on this host, or on their way to it */
    GHashTable *holders;    /* VXLAN id to the id of the cluster whose partition has it; absent: nobody's */
    GHashTable *images;     /* set of digests that somebody may want; NULL: not known, so nobody's are touched */
} WeftLookInput;

typedef struct WeftLook {
    GPtrArray *stale;    /* names of domains with weft's mark that no node explains, or whose node was given up */
    GPtrArray *foreign;  /* names of domains that are not weft's */
    GPtrArray *gone;     /* WeftNode: up or ready, but without a running domain */
    GPtrArray *networks; /* WeftHostNetwork: of no cluster that has nodes here, or not its present number */
    GPtrArray *images;   /* digests that nobody wants any more */
} WeftLook;

/* Everything in the look is borrowed from the input. */
void weft_look(const WeftLookInput *input, WeftLook *ret_look);
void weft_look_clear(WeftLook *look);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftLook, weft_look_clear)
