#include "figures.h"

#include <math.h>

/* As many digits as mean something, and the same ones everywhere. */
static json_t *
number(double value)
{
    double scale = pow(10, 5 - floor(log10(MAX(fabs(value), 1e-6))));
    return json_real(round(value * scale) / scale);
}

static json_t *
seconds(gint64 time)
{
    return number((double)time / G_USEC_PER_SEC);
}

static json_t *
spread(const WeftSpread *s)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", number(s->mean), "median", number(s->median), "p95", number(s->p95), "max",
                     number(s->max));
}

static json_t *
jobs(const WeftSimulation *s)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "submitted", (int)s->jobs, "impossible",
                     (int)s->impossible, "started", (int)s->started, "ended", (int)s->ended, "waiting", (int)s->waiting, "cut",
                     (int)s->cut, "preempted", (int)s->preempted, "backfilled", (int)s->backfilled, "promised",
                     (int)s->promised, "late", (int)s->late);
}

/* Means over each step; for fragmentation of what was free in it. */
static json_t *
series(const WeftSimulation *s)
{
    const WeftMeter *m = &s->meter;
    json_t *busy = json_array(), *stranded = json_array(), *waiting = json_array();
    for (guint i = 0; i < m->n_steps; i++) {
        double length = weft_meter_step_length(m, i), all = length * (double)s->cores;
        double unused = all - m->steps[WEFT_METER_BUSY][i];
        json_array_append_new(busy, number(m->steps[WEFT_METER_BUSY][i] / all));
        json_array_append_new(stranded, number(unused > 0 ? m->steps[WEFT_METER_STRANDED][i] / unused : 0));
        json_array_append_new(waiting, number(m->steps[WEFT_METER_WAITING][i] / length));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "step", seconds(m->step), "utilisation", busy, "fragmentation", stranded, "queue",
                     waiting);
}

json_t *
weft_simulation_to_json(const WeftSimulation *s)
{
    json_t *json = json_pack("{s:o, s:o, s:o, s:I}", "jobs", jobs(s), "submitting", seconds(s->fed), "span", seconds(s->span),
                             "cores", (json_int_t)s->cores);
    const struct {
        const char *name;
        json_t *value;
    } figures[] = { { "offered", number(s->offered) },
                    { "utilisation", number(s->busy) },
                    { "utilisation_submitting", number(s->busy_fed) },
                    { "fragmentation", number(s->stranded) },
                    { "wait", spread(&s->wait) },
                    { "bounded_slowdown", spread(&s->bounded_slowdown) },
                    { "leaves", spread(&s->leaves) },
                    { "leaves_over_least", spread(&s->detour) },
                    { "queue", json_pack("{s:o, s:o}", "mean", number(s->queue), "max", number(s->queue_max)) },
                    { "nodes", json_pack("{s:I, s:I, s:I}", "placed", (json_int_t)s->nodes, "fit_numa", (json_int_t)s->whole,
                                         "split", (json_int_t)s->split) },
                    { "series", series(s) } };
    for (guint i = 0; i < G_N_ELEMENTS(figures); i++)
        json_object_set_new(json, figures[i].name, figures[i].value);
    return json;
}
