/* What every part of the hook is given: where the host's files are, and who carries its netlink messages. */
#pragma once

#include "netlink.h"

typedef struct WeftHook {
    const char *root; /* stands before /sys, /run, /dev and /etc: "" but in tests */
    WeftNetlink *netlink;
} WeftHook;

/* Where the hook keeps its lock and its records. Not weftd's folder: that may belong to somebody else than root. */
#define WEFT_HOOK_RUN "/run/weft-hook"
