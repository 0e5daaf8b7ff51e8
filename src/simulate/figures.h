/* The figures of a simulation for programs and for eyes. Pure. */
#pragma once

#include "simulation.h"

#include <jansson.h>

/* Shares are from 0 to 1, times are seconds. "series" has a value for each step of so many seconds. */
json_t *weft_simulation_to_json(const WeftSimulation *simulation);

/* A plot of utilisation and queue length over time, as SVG that stands alone, in light and dark. title: a line above it. */
char *weft_simulation_plot(const WeftSimulation *simulation, const char *title);
