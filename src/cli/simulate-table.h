/* The figures of a simulation as a table. */
#pragma once

#include "load.h"
#include "simulation.h"
#include "site.h"

/* On standard output. name: of the load. */
void weft_simulate_table(const WeftSimulation *simulation, const WeftSite *site, const WeftLoad *load, const char *name);
