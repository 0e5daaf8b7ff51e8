/* The part of the suite of hypervisor drivers that is about plugging, pausing, measuring and moving. */
#pragma once

#include "hypervisor-contract.h"

void weft_hypervisor_moves_add(const WeftHypervisorFixture *fixture);
