/* What was measured of each job, and how it is spread. */
#pragma once

#include "simulation.h"

typedef enum { WEFT_SAMPLE_WAIT, WEFT_SAMPLE_SLOWDOWN, WEFT_SAMPLE_LEAVES, WEFT_SAMPLE_DETOUR, WEFT_SAMPLES } WeftSampleWhat;

typedef struct WeftSample {
    GArray *values[WEFT_SAMPLES]; /* double */
} WeftSample;

void weft_sample_init(WeftSample *sample);
void weft_sample_clear(WeftSample *sample);
void weft_sample_add(WeftSample *sample, WeftSampleWhat what, double value);
/* All zero where there are none. Sorts them. */
WeftSpread weft_sample_spread(WeftSample *sample, WeftSampleWhat what);
