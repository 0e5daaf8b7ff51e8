/* The figures of a simulation as a table. */
#pragma once

#include "load.h"
#include "simulation.h"
#include "site.h"

/* What was simulated, in words. */
typedef struct WeftSimulateNames {
    const char *load;
    const char *rules;
} WeftSimulateNames;

/* On standard output. */
void weft_simulate_table(const WeftSimulation *simulation, const WeftSite *site, const WeftLoad *load,
                         const WeftSimulateNames *names);
