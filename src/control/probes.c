#include "probes.h"

/* What is under way at one host. */
typedef struct Visit {
    WeftProbes *probes;
    char *key; /* "STEP HOST" */
    WeftJob *job;
    GQueue waiting; /* WeftProbe */
} Visit;

struct WeftProbe {
    Visit *visit;
    WeftProbed probed;
    gpointer data;
};

struct WeftProbes {
    WeftJobs *jobs;
    gint64 deadline;
    GHashTable *visits; /* by key */
};

static void
visit_free(gpointer data)
{
    Visit *visit = data;
    g_queue_clear_full(&visit->waiting, g_free);
    g_free(visit->key);
    g_free(visit);
}

WeftProbes *
weft_probes_new(WeftJobs *jobs, gint64 deadline)
{
    WeftProbes *probes = g_new0(WeftProbes, 1);
    probes->jobs = jobs;
    probes->deadline = deadline;
    probes->visits = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, visit_free);
    return probes;
}

void
weft_probes_free(WeftProbes *probes)
{
    if (!probes)
        return;
    g_hash_table_unref(probes->visits);
    g_free(probes);
}

/* Whoever asks in a callback begins the next visit; whoever cancels in one is still in the queue, or has been told. */
static void
visited(WeftJob *job, const GError *error)
{
    Visit *visit = job->owner;
    WeftProbe *probe;
    g_hash_table_steal(visit->probes->visits, visit->key);
    while ((probe = g_queue_pop_head(&visit->waiting))) {
        probe->probed(job, error, probe->data);
        g_free(probe);
    }
    visit_free(visit);
}

static Visit *
begin_visit(WeftProbes *probes, WeftStepType step, const WeftHostAddress *host, char *key)
{
    Visit *visit = g_new0(Visit, 1);
    visit->probes = probes;
    visit->key = key;
    g_hash_table_insert(probes->visits, visit->key, visit);
    visit->job = weft_job_new(step, host->name, host->uri, NULL);
    visit->job->asked = TRUE;
    visit->job->deadline = probes->deadline;
    visit->job->owner = visit;
    visit->job->done = visited;
    weft_jobs_submit(probes->jobs, visit->job);
    return visit;
}

WeftProbe *
weft_probe_ask(WeftProbes *probes, WeftStepType step, const WeftHostAddress *host, WeftProbed probed, gpointer data)
{
    g_autofree char *key = g_strdup_printf("%s %s", weft_step_words[step], host->name);
    Visit *visit = g_hash_table_lookup(probes->visits, key);
    if (!visit)
        visit = begin_visit(probes, step, host, g_steal_pointer(&key));
    WeftProbe *probe = g_new(WeftProbe, 1);
    *probe = (WeftProbe){ visit, probed, data };
    g_queue_push_tail(&visit->waiting, probe);
    return probe;
}

void
weft_probe_cancel(WeftProbe *probe)
{
    Visit *visit = probe->visit;
    g_queue_remove(&visit->waiting, probe);
    g_free(probe);
    if (visit->waiting.length == 0 && weft_jobs_withdraw(visit->probes->jobs, visit->job))
        g_hash_table_remove(visit->probes->visits, visit->key);
}
