/* What every part of the hook and of host preparation is given: where the host's files are, and who carries its netlink
 * messages. */
#pragma once

typedef struct WeftNetlink WeftNetlink;

typedef struct WeftHook {
    const char *root;     /* stands before /sys, /run, /dev, /etc and settings in /proc: "" but in tests */
    WeftNetlink *netlink; /* the hook's; NULL elsewhere */
} WeftHook;

/* Where the hook keeps its lock and its records. Not weftd's folder: that may belong to somebody else than root. */
#define WEFT_HOOK_RUN "/run/weft-hook"
