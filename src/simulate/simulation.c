#include "simulation.h"

#include "kinds.h"
#include "spread.h"
#include "timeline.h"

#include <string.h>

#define EPOCH G_TIME_SPAN_DAY             /* of the queue's clock when the trace begins: 0 would be no time there */
#define SHORT_RUN (10.0 * G_USEC_PER_SEC) /* runs are as long at least where slowdowns are compared */

/* A job from its submission to its end. */
typedef struct Live {
    WeftCluster cluster; /* its own are only id and tenant */
    char key[16];        /* its number in the load */
    guint job;
    gboolean running;
    guint nodes;
    guint run;               /* counts its starts */
    gint64 end;              /* of this run */
    gint64 promised;         /* at first; 0: not yet */
    WeftPlacement placement; /* while it runs; the seats are its own */
} Live;

typedef struct Engine {
    WeftSite *site;
    const WeftLoad *load;
    const WeftSimulateOptions *options;
    WeftKinds *kinds;
    WeftQueue *queue;
    WeftSimulation *result;
    WeftMeter *meter; /* of the result */
    WeftTimeline ends;
    GHashTable *tenants; /* number to name */
    Live **live;         /* by job */
    guint next;          /* job to be submitted */
    guint oldest;        /* none before it waits */
    gint64 now;
    guint16 *used;      /* cores by host */
    GArray *started;    /* guint, jobs of this look at the queue */
    GQueue unpromised;  /* jobs that wait and were not told when, as far as is known */
    WeftSample samples; /* of what ended */
} Engine;

static const WeftLoadJob *
load_job(const Engine *e, guint job)
{
    return &g_array_index(e->load->jobs, WeftLoadJob, job);
}

static gint64
run_time(const WeftLoadJob *job)
{
    return MIN(job->run, job->walltime);
}

/* --- what hosts have --- */

/* A host is stranded as far as it has nodes and could have more. */
static void
use_host(Engine *e, guint host, int cores)
{
    guint16 *used = &e->used[host];
    guint whole = e->site->options.cores, before = *used ? whole - *used : 0;
    *used = (guint16)(*used + cores);
    weft_meter_add(e->meter, WEFT_METER_STRANDED, (double)(*used ? whole - *used : 0) - before);
    weft_meter_add(e->meter, WEFT_METER_BUSY, cores);
}

static void
use_seats(Engine *e, const Live *live, gboolean taken)
{
    int cores = weft_kinds_demand(e->kinds, live->job)->cores;
    for (guint i = 0; i < live->placement.n; i++)
        use_host(e, live->placement.seats[i].host, taken ? cores : -cores);
}

/* --- what happens --- */

static void
put_ask(Engine *e, Live *live, gint64 since)
{
    const WeftLoadJob *job = load_job(e, live->job);
    WeftAsk ask = { .key = live->key,
                    .request = { .cluster = &live->cluster, .counts = &live->nodes },
                    .since = since,
                    .walltime = job->walltime,
                    .preemptible = job->preemptible };
    weft_queue_put(e->queue, &ask);
    live->running = FALSE;
    e->oldest = MIN(e->oldest, live->job);
    weft_meter_add(e->meter, WEFT_METER_WAITING, 1);
}

static char *
tenant_of(Engine *e, const WeftLoadJob *job)
{
    gpointer number = GUINT_TO_POINTER(e->options->by_group ? job->group : job->user);
    char *name = g_hash_table_lookup(e->tenants, number);
    if (!name) {
        name = g_strdup_printf("t%u", GPOINTER_TO_UINT(number));
        g_hash_table_insert(e->tenants, number, name);
    }
    return name;
}

static void
submit(Engine *e, guint index)
{
    const WeftDemand *demand = weft_kinds_demand(e->kinds, index);
    const WeftLoadJob *job = load_job(e, index);
    e->result->jobs++;
    if (demand->least == 0) {
        e->result->impossible++;
        return;
    }
    Live *live = e->live[index] = g_new0(Live, 1);
    live->cluster = weft_kinds_cluster(e->kinds, demand->kind);
    live->cluster.id = live->key;
    live->cluster.tenant = tenant_of(e, job);
    live->cluster.layout = e->options->layout;
    live->cluster.preemptible = job->preemptible;
    live->job = index;
    live->nodes = demand->nodes;
    g_snprintf(live->key, sizeof live->key, "%010u", index); /* in order of submission also as words */
    put_ask(e, live, e->now);
    g_queue_push_tail(&e->unpromised, GUINT_TO_POINTER(index));
}

/* It gives back what it held. */
static void
stop(Engine *e, Live *live)
{
    weft_fleet_give_seats(e->site->fleet, live->placement.seats, live->placement.n, live->key);
    weft_queue_release(e->queue, live->key);
    use_seats(e, live, FALSE);
    g_clear_pointer(&live->placement.seats, g_free);
}

static void
note_end(Engine *e, const Live *live)
{
    const WeftLoadJob *job = load_job(e, live->job);
    double run = (double)run_time(job), stay = (double)(e->now - EPOCH - job->submit);
    weft_sample_add(&e->samples, WEFT_SAMPLE_WAIT, (stay - run) / G_USEC_PER_SEC);
    weft_sample_add(&e->samples, WEFT_SAMPLE_SLOWDOWN, MAX(stay / MAX(run, SHORT_RUN), 1));
    weft_sample_add(&e->samples, WEFT_SAMPLE_LEAVES, live->placement.leaves);
    weft_sample_add(&e->samples, WEFT_SAMPLE_DETOUR,
                    (double)live->placement.leaves / weft_kinds_demand(e->kinds, live->job)->least);
    e->result->ended++;
    e->result->cut += job->run > job->walltime;
    e->result->nodes += live->placement.n;
    if (weft_kinds_demand(e->kinds, live->job)->whole) {
        e->result->whole += live->placement.n;
        e->result->split += live->placement.split;
    }
}

/* A run that was ended before its time had to give way: its job waits anew. */
static void
end_run(Engine *e, const WeftMoment *moment)
{
    Live *live = e->live[moment->job];
    if (!live || !live->running || live->run != moment->run)
        return; /* it had given way already */
    stop(e, live);
    if (e->now < live->end) {
        e->result->preempted++;
        put_ask(e, live, e->now);
        return;
    }
    note_end(e, live);
    g_clear_pointer(&e->live[moment->job], g_free);
}

/* --- what the queue decides --- */

static Live *
live_of(Engine *e, const char *key)
{
    return e->live[g_ascii_strtoull(key, NULL, 10)];
}

static gboolean
start(const WeftAsk *ask, const WeftPlacement *placement, gpointer data)
{
    Engine *e = data;
    Live *live = live_of(e, ask->key);
    const WeftLoadJob *job = load_job(e, live->job);
    live->placement = *placement;
    live->placement.seats = g_memdup2(placement->seats, placement->n * sizeof *placement->seats);
    live->running = TRUE;
    live->end = e->now + run_time(job);
    e->result->started += live->run++ == 0;
    weft_fleet_take_seats(e->site->fleet, live->placement.seats, placement->n, live->key);
    WeftHold hold = { .key = live->key,
                      .cluster = live->key,
                      .tenant = live->cluster.tenant,
                      .preemptible = job->preemptible,
                      .since = e->now,
                      .end = e->now + job->walltime,
                      .seats = live->placement.seats,
                      .n = placement->n };
    weft_queue_hold(e->queue, &hold);
    weft_timeline_push(&e->ends, &(WeftMoment){ live->end, live->job, live->run });
    use_seats(e, live, TRUE);
    weft_meter_add(e->meter, WEFT_METER_WAITING, -1);
    g_array_append_val(e->started, live->job);
    return TRUE;
}

/* It ends when the queue has decided all: in the same instant. */
static void
preempt(const char *victim, const WeftAsk *ask, gpointer data)
{
    Engine *e = data;
    const Live *live = live_of(e, victim);
    weft_timeline_push(&e->ends, &(WeftMoment){ e->now, live->job, live->run });
}

static gboolean
waits(const Engine *e, guint job)
{
    return e->live[job] && !e->live[job]->running;
}

/* Only of first starts: one that had to give way was before the others already. */
static void
note_starts(Engine *e)
{
    while (e->oldest < e->next && !waits(e, e->oldest))
        e->oldest++;
    for (guint i = 0; i < e->started->len; i++) {
        const Live *live = e->live[g_array_index(e->started, guint, i)];
        if (live->run > 1)
            continue;
        e->result->backfilled += live->job > e->oldest;
        e->result->promised += live->promised > 0;
        e->result->late += live->promised > 0 && e->now > live->promised;
    }
    g_array_set_size(e->started, 0);
}

/* In order of submission, as far as they were told: one that was not holds up those behind it, who then were told later than
 * is known here. That is no matter where the order is that of submission, and only there promises are kept strictly. */
static void
note_promises(Engine *e)
{
    while (!g_queue_is_empty(&e->unpromised)) {
        guint job = GPOINTER_TO_UINT(g_queue_peek_head(&e->unpromised));
        const WeftWait *wait = waits(e, job) ? weft_queue_wait(e->queue, e->live[job]->key, TRUE) : NULL;
        if (wait && wait->when == 0)
            return;
        if (wait)
            e->live[job]->promised = wait->when;
        g_queue_pop_head(&e->unpromised);
    }
}

/* --- time --- */

static gint64
next_time(const Engine *e, gint64 wake)
{
    const WeftMoment *end = weft_timeline_first(&e->ends);
    gboolean look = wake > e->now && e->meter->value[WEFT_METER_WAITING] > 0;
    gint64 time = look ? wake : WEFT_QUEUE_NEVER;
    if (e->next < e->load->jobs->len)
        time = MIN(time, load_job(e, e->next)->submit + EPOCH);
    return end ? MIN(time, end->time) : time;
}

static void
step(Engine *e)
{
    weft_meter_advance(e->meter, e->now);
    for (const WeftMoment *end; (end = weft_timeline_first(&e->ends)) && end->time <= e->now;) {
        WeftMoment moment = *end;
        weft_timeline_pop(&e->ends);
        end_run(e, &moment);
    }
    guint before = e->next;
    while (e->next < e->load->jobs->len && load_job(e, e->next)->submit + EPOCH <= e->now)
        submit(e, e->next++);
    if (before < e->next && e->next == e->load->jobs->len) {
        e->result->busy_fed = e->meter->sum[WEFT_METER_BUSY];
        e->result->fed = e->now - e->meter->start;
    }
}

static void
run(Engine *e)
{
    static const WeftQueueOps ops = { start, preempt };
    gint64 wake = WEFT_QUEUE_NEVER;
    while ((e->now = next_time(e, wake)) != WEFT_QUEUE_NEVER) {
        step(e);
        wake = weft_queue_run(e->queue, e->now, &ops, e);
        note_starts(e);
        note_promises(e);
    }
}

/* --- what comes of it --- */

static double
share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static void
sum_up(Engine *e)
{
    WeftSimulation *s = e->result;
    const WeftMeter *m = e->meter;
    s->cores = weft_site_cores(e->site);
    s->span = m->now - m->start;
    double asked = 0, seconds = (double)s->span / G_USEC_PER_SEC, fed = (double)s->fed / G_USEC_PER_SEC;
    for (guint i = 0; i < e->load->jobs->len; i++) {
        const WeftDemand *demand = weft_kinds_demand(e->kinds, i);
        if (demand->least > 0)
            asked += (double)run_time(load_job(e, i)) / G_USEC_PER_SEC * demand->nodes * demand->cores;
    }
    s->offered = share(asked, fed * (double)s->cores);
    s->busy = share(m->sum[WEFT_METER_BUSY], seconds * (double)s->cores);
    s->busy_fed = share(s->busy_fed, fed * (double)s->cores);
    s->stranded = share(m->sum[WEFT_METER_STRANDED], seconds * (double)s->cores - m->sum[WEFT_METER_BUSY]);
    s->queue = share(m->sum[WEFT_METER_WAITING], seconds);
    s->queue_max = m->highest[WEFT_METER_WAITING];
    s->waiting = s->jobs - s->impossible - s->ended;
    s->wait = weft_sample_spread(&e->samples, WEFT_SAMPLE_WAIT);
    s->bounded_slowdown = weft_sample_spread(&e->samples, WEFT_SAMPLE_SLOWDOWN);
    s->leaves = weft_sample_spread(&e->samples, WEFT_SAMPLE_LEAVES);
    s->detour = weft_sample_spread(&e->samples, WEFT_SAMPLE_DETOUR);
}

static void
engine_clear(Engine *e)
{
    for (guint i = 0; i < e->load->jobs->len; i++)
        g_free(e->live[i]);
    weft_queue_free(e->queue);
    weft_kinds_free(e->kinds);
    weft_timeline_clear(&e->ends);
    weft_sample_clear(&e->samples);
    g_hash_table_unref(e->tenants);
    g_array_unref(e->started);
    g_queue_clear(&e->unpromised);
    g_free(e->live);
    g_free(e->used);
}

WeftSimulation *
weft_simulate(WeftSite *site, const WeftLoad *load, const WeftSimulateOptions *options, GError **error)
{
    g_autoptr(WeftKinds) kinds = weft_kinds_new(site, load, options->cores_per_node, error);
    if (!kinds)
        return NULL;
    WeftSimulation *result = g_new0(WeftSimulation, 1);
    Engine e = { .site = site,
                 .load = load,
                 .options = options,
                 .kinds = g_steal_pointer(&kinds),
                 .queue = weft_queue_new(site->fleet, &options->queue),
                 .result = result,
                 .meter = &result->meter,
                 .tenants = g_hash_table_new_full(NULL, NULL, NULL, g_free),
                 .live = g_new0(Live *, load->jobs->len + 1),
                 .used = g_new0(guint16, weft_fleet_size(site->fleet) + 1),
                 .started = g_array_new(FALSE, FALSE, sizeof(guint)) };
    weft_timeline_init(&e.ends);
    weft_sample_init(&e.samples);
    weft_meter_init(e.meter, load->jobs->len ? load_job(&e, 0)->submit + EPOCH : EPOCH);
    run(&e);
    sum_up(&e);
    engine_clear(&e);
    return result;
}

void
weft_simulation_free(WeftSimulation *simulation)
{
    g_free(simulation);
}
