#include "meter.h"

#include <string.h>

void
weft_meter_init(WeftMeter *meter, gint64 start)
{
    *meter = (WeftMeter){ .start = start, .now = start, .step = G_USEC_PER_SEC };
}

/* Two steps become one. */
static void
widen(WeftMeter *meter)
{
    meter->step *= 2;
    for (guint what = 0; what < WEFT_METERS; what++) {
        double *steps = meter->steps[what];
        for (guint i = 0; i < WEFT_METER_STEPS / 2; i++)
            steps[i] = steps[2 * i] + steps[2 * i + 1];
        memset(steps + WEFT_METER_STEPS / 2, 0, WEFT_METER_STEPS / 2 * sizeof *steps);
    }
}

/* Within one step. */
static void
count(WeftMeter *meter, guint step, gint64 until)
{
    double seconds = (double)(until - meter->now) / G_USEC_PER_SEC;
    for (guint what = 0; what < WEFT_METERS; what++) {
        double sum = meter->value[what] * seconds;
        meter->highest[what] = MAX(meter->highest[what], meter->value[what]);
        meter->sum[what] += sum;
        meter->steps[what][step] += sum;
    }
    meter->now = until;
    meter->n_steps = step + 1;
}

void
weft_meter_advance(WeftMeter *meter, gint64 now)
{
    while (now - meter->start > meter->step * WEFT_METER_STEPS)
        widen(meter);
    while (meter->now < now) {
        guint step = (guint)((meter->now - meter->start) / meter->step);
        count(meter, step, MIN(now, meter->start + (step + 1) * meter->step));
    }
}

void
weft_meter_add(WeftMeter *meter, WeftMeterWhat what, double change)
{
    meter->value[what] += change;
}

double
weft_meter_step_length(const WeftMeter *meter, guint step)
{
    gint64 start = meter->start + step * meter->step;
    return (double)(MIN(meter->now, start + meter->step) - start) / G_USEC_PER_SEC;
}
