/* A fabric that nobody manages. Ports get no partition there; partitions without members, as those of clusters whose nodes use
 * the bridge, need none. */
#pragma once

#include "fabric.h"

/* What weft.yaml must have for a fabric, for people. */
#define WEFT_FABRIC_NAME_MANAGER                                                                                               \
    "write \"manager: { driver: opensm, managers: [/run/weft/opensm.sock] }\" there, or \"manager: { driver: none }\" for a "  \
    "site without a subnet manager of its own, where only the path bridge works; then restart weftd (weft.yaml(5))"

/* management: WEFT_FABRIC_UNMANAGED, or WEFT_FABRIC_UNNAMED, where every call fails and tells what to write. name: of the
 * fabric. pkeys: the numbers that it may be asked to write. */
WeftFabricDriver *weft_fabric_none_new(const char *name, WeftFabricManagement management, const WeftPkeys *pkeys);
