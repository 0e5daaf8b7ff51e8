/* What a look at a host found: its domains against what its nodes say. Pure. */
#pragma once

#include "hypervisor.h"
#include "node.h"

#include <glib.h>

typedef struct WeftLook {
    GPtrArray *stale;   /* names of domains with weft's mark that no node explains, or whose node was given up */
    GPtrArray *foreign; /* names of domains that are not weft's */
    GPtrArray *gone;    /* WeftNode: ready, but without a running domain */
} WeftLook;

/* domains: WeftDomain, nodes: WeftNode, those that the store has on this host. Everything in the look is borrowed from them. */
void weft_look(const GPtrArray *domains, const GPtrArray *nodes, WeftLook *ret_look);
void weft_look_clear(WeftLook *look);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftLook, weft_look_clear)
