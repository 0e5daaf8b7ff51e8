/* A subnet manager whose world is a folder:
 *
 *     WORLD/partitions/0x0001          a partition, text: its name, its settings if any, then a member a line
 *     WORLD/generation                 the last that was applied
 *     WORLD/map                        the fabric as JSON (see map.h) or as ibnetdiscover writes it; none: no nodes
 *     WORLD/tables/0x0002c90300000101  P_Keys that the port of this GUID holds whatever the partitions say ("0x7fff 0x8001"),
 * until the next change of a partition that it is in; or "silent": it does not
 *                                      answer, and a change of such a partition fails WORLD/manager                    what the
 * manager is not able to, as JSON: { "virtualization": false } WORLD/events                     written anew, tells each of its
 * lines: "ports", "swept", "manager" or "lost", and a detail WORLD/faults                     what goes wrong (see faults.h);
 * the operations are apply, list, greet, map and verify
 */
#pragma once

#include "fabric.h"

/* pkeys: the numbers that it may write. */
WeftFabricDriver *weft_fabric_fake_new(const char *world, const WeftPkeys *pkeys, GError **error);
