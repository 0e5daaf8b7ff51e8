/* A hypervisor whose world is a folder, so that it survives weftd as real hosts do:
 *
 *     WORLD/HOST/domains/NAME.xml      a running domain
 *     WORLD/HOST/domains/NAME.off      a stopped one
 *     WORLD/HOST/faults                what goes wrong there, a line each (see faults.h)
 *     WORLD/faults                     … on every host
 *
 * Hosts need not be prepared: a folder appears with the first domain. Two nodes that use the same core, VF or GUID of a host
 * are refused at start, whatever weft believes: so that a test finds out. */
#pragma once

#include "hypervisor.h"

WeftHypervisor *weft_hypervisor_fake_new(const char *world, GError **error);
