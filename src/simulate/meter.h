/* Values that change over time: their means, their highest, and how they went. */
#pragma once

#include <glib.h>

#define WEFT_METER_STEPS 512 /* at most so many, and at least half of them once it was long enough */

typedef enum {
    WEFT_METER_BUSY,     /* cores that nodes have */
    WEFT_METER_STRANDED, /* free cores of hosts that have nodes */
    WEFT_METER_WAITING,  /* jobs */
    WEFT_METERS
} WeftMeterWhat;

typedef struct WeftMeter {
    gint64 start, now; /* microseconds */
    gint64 step;       /* … of each part in steps: whole seconds */
    guint n_steps;     /* that were begun */
    double value[WEFT_METERS];
    double highest[WEFT_METERS];
    double sum[WEFT_METERS]; /* value × seconds since the start */
    double steps[WEFT_METERS][WEFT_METER_STEPS];
} WeftMeter;

void weft_meter_init(WeftMeter *meter, gint64 start);
/* The values were as they are until now. */
void weft_meter_advance(WeftMeter *meter, gint64 now);
/* A value that lasts no time counts for nothing. */
void weft_meter_add(WeftMeter *meter, WeftMeterWhat what, double change);
/* Seconds of that step: the last one may be cut short. */
double weft_meter_step_length(const WeftMeter *meter, guint step);
