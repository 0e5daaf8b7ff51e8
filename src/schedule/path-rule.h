/* Which path nodes gain most from, by where their messages go. Measured by others: while fewer than about 20 % of the messages
 * leave the host, the hypervisor's bridge is faster than a virtual function; above 50 % the function wins by at least 40 %. Of
 * what lies between nothing was told: there the function is taken. Pure. */
#pragma once

#include "cluster.h"

#include <glib.h>

typedef struct WeftPathRule {
    guint bridge_below; /* percent of the traffic between hosts: less than this goes by the bridge; 0: nothing does */
    guint64 shm;        /* bytes that nodes on one host share then, where the cluster asked for none; 0: none */
} WeftPathRule;

/* No shared memory: only programs that know of it use it, and it is taken from the host. */
#define WEFT_PATH_RULE_PUBLISHED                                                                                               \
    {                                                                                                                          \
        .bridge_below = 20                                                                                                     \
    }
extern const WeftPathRule weft_path_rule_published;

/* between: percent of the cluster's traffic that leaves a host. The path for all its nodes with path auto, where the fabric has
 * virtual functions to give: nodes of one job talk by one path. ret_shm: bytes to share beside it. */
WeftPath weft_path_rule_apply(const WeftPathRule *rule, guint between, guint64 *ret_shm);
