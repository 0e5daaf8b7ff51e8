#include "spread.h"

void
weft_sample_init(WeftSample *sample)
{
    for (guint i = 0; i < WEFT_SAMPLES; i++)
        sample->values[i] = g_array_new(FALSE, FALSE, sizeof(double));
}

void
weft_sample_clear(WeftSample *sample)
{
    for (guint i = 0; i < WEFT_SAMPLES; i++)
        g_array_unref(sample->values[i]);
}

void
weft_sample_add(WeftSample *sample, WeftSampleWhat what, double value)
{
    g_array_append_val(sample->values[what], value);
}

static int
compare(gconstpointer a, gconstpointer b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The least value that so many percent are not above. */
static double
ranked(const GArray *values, guint percent)
{
    guint64 rank = ((guint64)values->len * percent + 99) / 100;
    return g_array_index(values, double, rank - 1);
}

WeftSpread
weft_sample_spread(WeftSample *sample, WeftSampleWhat what)
{
    GArray *values = sample->values[what];
    double sum = 0;
    if (values->len == 0)
        return (WeftSpread){ 0 };
    g_array_sort(values, compare);
    for (guint i = 0; i < values->len; i++)
        sum += g_array_index(values, double, i);
    return (WeftSpread){ sum / values->len, ranked(values, 50), ranked(values, 95), ranked(values, 100) };
}
