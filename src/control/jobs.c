#include "jobs.h"

#include "clock.h"
#include "errors.h"
#include "failpoint.h"
#include "host-uri.h"
#include "job-queue.h"
#include "wakeup.h"
#include "watchdog.h"

#include <unistd.h>

const char *const weft_step_words[WEFT_STEPS + 1] = {
    [WEFT_STEP_START] = "start",
    [WEFT_STEP_STOP] = "stop",
    [WEFT_STEP_LIST] = "list",
    [WEFT_STEP_INSPECT] = "inspect",
    [WEFT_STEP_OPEN] = "open",
    [WEFT_STEP_CONNECT] = "connect",
    [WEFT_STEP_DISCONNECT] = "disconnect",
    [WEFT_STEP_BRING] = "bring",
    [WEFT_STEP_DISCARD] = "discard",
    [WEFT_STEP_SAVE] = "save",
    [WEFT_STEP_FETCH] = "fetch",
    [WEFT_STEP_PRIME] = "prime",
    [WEFT_STEP_UNPRIME] = "unprime",
    [WEFT_STEP_PLUG] = "plug",
    [WEFT_STEP_UNPLUG] = "unplug",
    [WEFT_STEP_PAUSE] = "pause",
    [WEFT_STEP_RESUME] = "resume",
    [WEFT_STEP_MEASURE] = "measure",
    [WEFT_STEP_MOVE] = "move",
};

/* Looking, talking, doing and carrying have workers of their own: hosts that hang in one hold up no other. So has what only a
 * client waits for: no client holds up what weft does by itself. */
typedef enum { LOOK, TALK, DO, CARRY, ANSWER, PURPOSES } Purpose;

static const Purpose purpose_of[WEFT_STEPS] = {
    [WEFT_STEP_START] = DO,   [WEFT_STEP_STOP] = DO,      [WEFT_STEP_LIST] = LOOK,     [WEFT_STEP_INSPECT] = LOOK,
    [WEFT_STEP_OPEN] = TALK,  [WEFT_STEP_CONNECT] = DO,   [WEFT_STEP_DISCONNECT] = DO, [WEFT_STEP_BRING] = CARRY,
    [WEFT_STEP_DISCARD] = DO, [WEFT_STEP_SAVE] = CARRY,   [WEFT_STEP_FETCH] = CARRY,   [WEFT_STEP_PRIME] = CARRY,
    [WEFT_STEP_UNPRIME] = DO, [WEFT_STEP_PLUG] = DO,      [WEFT_STEP_UNPLUG] = DO,     [WEFT_STEP_PAUSE] = DO,
    [WEFT_STEP_RESUME] = DO,  [WEFT_STEP_MEASURE] = LOOK, [WEFT_STEP_MOVE] = CARRY,
};

/* One of so many workers, and of those for one host; whether a tenant's jobs may last, and so leave half to others. */
static const struct {
    guint all, host;
    gboolean lasting;
} shares[PURPOSES] = {
    [LOOK] = { 2, 2 }, [TALK] = { 2, 1 }, [DO] = { 1, 1 }, [CARRY] = { 4, 2, TRUE }, [ANSWER] = { 2, 2 },
};

typedef struct Pool {
    GThreadPool *threads;
    WeftJobQueue *queue; /* of those that wait: a thread is free for each that begins */
} Pool;

struct WeftJobs {
    WeftHypervisor *hv;
    Pool pools[PURPOSES];
    GHashTable *pending; /* set of WeftJob: all that have not ended */
    GSource *wakeup;     /* runs deliver() on the main thread */
    GSource *clock;      /* rings when the first deadline may have passed */
    WeftJobGuard guard;  /* NULL: everything is allowed */
    WeftJobDisowned disowned;
    gpointer guard_data;
    GQueue waiting; /* for what the guard waits for */
    GMutex mutex;
    GQueue done; /* guarded by the mutex */
};

void
weft_job_file_free(WeftImageFile *file)
{
    if (file)
        g_free(file->digest);
    g_free(file);
}

void
weft_job_free(WeftJob *job)
{
    g_free(job->host);
    g_free(job->uri);
    g_free(job->text);
    g_free(job->subject);
    g_free(job->tenant);
    g_clear_pointer(&job->others, g_ptr_array_unref);
    g_free(job->path);
    g_free(job->site);
    g_clear_pointer(&job->seed, g_bytes_unref);
    g_clear_pointer(&job->network, weft_host_network_free);
    g_free(job->primed);
    g_free(job->xml);
    g_free(job->to);
    g_free(job->to_uri);
    g_free(job->rdma);
    weft_moved_clear(&job->moved);
    weft_job_file_free(job->file);
    weft_job_file_free(job->saved);
    weft_job_file_free(job->disk);
    weft_job_file_free(job->fetched);
    if (job->prepare_free)
        job->prepare_free(job->prepare_data);
    g_clear_pointer(&job->contents, weft_contents_free);
    g_clear_pointer(&job->unknown, g_hash_table_unref);
    weft_owner_free(job->record);
    g_clear_error(&job->claim_error);
    g_clear_pointer(&job->inventory, weft_inventory_free);
    if (job->fd >= 0)
        close(job->fd);
    g_clear_error(&job->error);
    g_object_unref(job->cancellable);
    g_free(job);
}

WeftJob *
weft_job_new(WeftStepType step, const char *host, const char *uri, const char *text)
{
    WeftJob *job = g_new0(WeftJob, 1);
    job->step = step;
    job->host = g_strdup(host);
    job->uri = g_strdup(uri);
    job->text = g_strdup(text);
    job->cancellable = g_cancellable_new();
    job->fd = -1;
    return job;
}

WeftImageFile *
weft_job_file_copy(const WeftImageFile *file)
{
    WeftImageFile *copy = g_memdup2(file, sizeof *file);
    copy->digest = g_strdup(file->digest);
    return copy;
}

guint64
weft_job_brought(const WeftJob *job)
{
    return __atomic_load_n(&job->brought, __ATOMIC_RELAXED);
}

/* --- on a worker --- */

static void
brought(guint64 done, guint64 total, gpointer data)
{
    WeftJob *job = data;
    __atomic_store_n(&job->brought, done, __ATOMIC_RELAXED);
    __atomic_store_n(&job->alive, g_get_monotonic_time(), __ATOMIC_RELAXED);
}

static void
keep_fetched(WeftJob *job, const WeftImageFile *file)
{
    job->fetched = g_memdup2(file, sizeof *file);
    job->keep(job, &job->error);
}

/* run: what its host is to compare by itself; NULL: it was claimed, or need not be. */
static void
call_driver(WeftHypervisor *hv, WeftJob *job, const char *run)
{
    const WeftHostAddress host = { job->host, job->uri };
    const WeftDomainOrigin origin = { job->saved, job->disk, job->primed, job->paused };
    const WeftStart start = { job->text, job->seed, job->file, job->disk_size, job->saved || job->own ? &origin : NULL, run };
    const WeftBring bring = { job->file, job->path, job->site, brought, job };
    const WeftFetch fetch = { job->text, job->path, job->most, job->reserve, brought, job };
    WeftImageFile fetched = { 0 };
    WeftMove move = job->move;
    move.domain = job->text;
    move.xml = job->xml;
    move.rdma = job->rdma;
    move.progress = brought;
    move.data = job;

    weft_failpoint_edge(weft_step_words[job->step], "before");
    switch (job->step) {
    case WEFT_STEP_START:
        hv->ops->start(hv, &host, &start, job->cancellable, &job->error);
        break;
    case WEFT_STEP_STOP:
        hv->ops->stop(hv, &host, job->text, job->cancellable, &job->error);
        break;
    case WEFT_STEP_LIST:
        job->contents = hv->ops->list(hv, &host, job->cancellable, &job->error);
        break;
    case WEFT_STEP_INSPECT:
        job->inventory = hv->ops->inspect(hv, &host, job->cancellable, &job->error);
        break;
    case WEFT_STEP_OPEN:
        job->fd = hv->ops->open(hv, &host, job->text, job->channel, job->cancellable, &job->error);
        break;
    case WEFT_STEP_CONNECT:
        hv->ops->connect(hv, &host, job->network, run, job->cancellable, &job->error);
        break;
    case WEFT_STEP_DISCONNECT:
        hv->ops->disconnect(hv, &host, job->network->vxlan, job->cancellable, &job->error);
        break;
    case WEFT_STEP_BRING:
        hv->ops->bring(hv, &host, &bring, job->cancellable, &job->error);
        break;
    case WEFT_STEP_DISCARD:
        hv->ops->discard(hv, &host, job->text, job->cancellable, &job->error);
        break;
    case WEFT_STEP_SAVE:
        hv->ops->save(hv, &host, job->text, job->mode, &job->standstill, job->cancellable, &job->error);
        break;
    case WEFT_STEP_FETCH:
        if (hv->ops->fetch(hv, &host, &fetch, &fetched, job->cancellable, &job->error))
            keep_fetched(job, &fetched);
        break;
    case WEFT_STEP_PRIME:
        hv->ops->prime(hv, &host, &(WeftPrime){ job->text, job->xml, job->saved }, job->cancellable, &job->error);
        break;
    case WEFT_STEP_UNPRIME:
        hv->ops->unprime(hv, &host, job->text, job->cancellable, &job->error);
        break;
    case WEFT_STEP_PLUG:
        hv->ops->plug(hv, &host, job->text, job->xml, &job->plugged, job->cancellable, &job->error);
        break;
    case WEFT_STEP_UNPLUG:
        hv->ops->unplug(hv, &host, job->text, job->xml, job->cancellable, &job->error);
        break;
    case WEFT_STEP_PAUSE:
        hv->ops->pause(hv, &host, job->text, job->cancellable, &job->error);
        break;
    case WEFT_STEP_RESUME:
        hv->ops->resume(hv, &host, job->text, job->cancellable, &job->error);
        break;
    case WEFT_STEP_MEASURE:
        hv->ops->measure(hv, &host, job->text, &job->rate, job->cancellable, &job->error);
        break;
    case WEFT_STEP_MOVE:
        hv->ops->move(hv, &host, &(WeftHostAddress){ job->to, job->to_uri }, &move, &job->moved, job->cancellable, &job->error);
        break;
    case WEFT_STEPS:
        g_assert_not_reached();
    }
    job->ended = g_get_monotonic_time();
    weft_failpoint_edge(weft_step_words[job->step], "after");
}

/* A URI that was taken once, before weftd knew better, may name a program: nothing goes there, whoever asks. */
static gboolean
may_reach(const char *uri, GError **error)
{
    g_autoptr(GError) unfit = NULL;
    return !uri || weft_host_uri_check(uri, &unfit) ||
           weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "its URI is not taken any more: %s", unfit->message);
}

static gboolean
may_go(WeftJob *job)
{
    return may_reach(job->uri, &job->error) && may_reach(job->to_uri, &job->error);
}

static gboolean
claim_one(WeftHypervisor *hv, WeftJob *job, const char *name, const char *uri)
{
    const WeftHostAddress host = { name, uri };
    g_clear_pointer(&job->record, weft_owner_free);
    weft_failpoint_edge("claim", "before");
    gboolean ok = hv->ops->claim(hv, &host, job->claim, job->take, &job->verdict, &job->record, job->cancellable, &job->error);
    weft_failpoint_edge("claim", "after");
    return ok && job->verdict == WEFT_OWNER_GRANTED;
}

/* A look goes on all the same: what is there is shown, and left as it is. */
static gboolean
claim_hosts(WeftHypervisor *hv, WeftJob *job)
{
    if (!job->claim || (claim_one(hv, job, job->host, job->uri) && (!job->to || claim_one(hv, job, job->to, job->to_uri))))
        return TRUE;
    if (job->step == WEFT_STEP_LIST) {
        job->claim_error = g_steal_pointer(&job->error);
        return TRUE;
    }
    if (!job->error)
        weft_error_refuse(&job->error, WEFT_ERROR_UNAVAILABLE, "the host is not this weftd's any more");
    return FALSE;
}

static gboolean
host_has_answered(const GError *error)
{
    WeftErrorCode code = weft_error_code(error);
    return code != WEFT_ERROR_TIMEOUT && code != WEFT_ERROR_UNAVAILABLE;
}

/* What is made anew names the run of weftd that has it made, and its host compares that in the same moment. Only where that
 * fails the host is claimed as for all else, with the runs before: another weftd that has it may be why, whatever the error
 * says. */
static void
act(WeftHypervisor *hv, WeftJob *job)
{
    g_autoptr(GError) failed = NULL;
    if (job->claim && (job->step == WEFT_STEP_START || job->step == WEFT_STEP_CONNECT)) {
        call_driver(hv, job, job->claim->run);
        if (!job->error || !host_has_answered(job->error))
            return;
        failed = g_steal_pointer(&job->error);
    }
    if (!claim_hosts(hv, job))
        return;
    if (failed && weft_error_code(failed) != WEFT_ERROR_DENIED)
        job->error = g_steal_pointer(&failed);
    else
        call_driver(hv, job, NULL);
}

/* Hosts say what they like, and not always in UTF-8, as records and answers are written. */
static void
tidy_text(char **text)
{
    if (!*text || g_utf8_validate(*text, -1, NULL))
        return;
    char *valid = g_utf8_make_valid(*text, -1);
    g_free(*text);
    *text = valid;
}

static void
tidy(WeftJob *job)
{
    if (job->error)
        tidy_text(&job->error->message);
    if (job->claim_error)
        tidy_text(&job->claim_error->message);
    tidy_text(&job->moved.rdma_failed);
    if (job->contents)
        weft_contents_tidy(job->contents);
}

static void
run(gpointer data, gpointer user_data)
{
    WeftJob *job = data;
    WeftJobs *jobs = user_data;

    if (job->error) {
        ; /* it was refused */
    } else if (g_cancellable_is_cancelled(job->cancellable)) {
        g_set_error(&job->error, WEFT_ERROR, WEFT_ERROR_TIMEOUT, "cancelled");
    } else if (may_go(job)) {
        __atomic_store_n(&job->alive, g_get_monotonic_time(), __ATOMIC_RELAXED);
        if (!job->prepare || job->prepare(job, &job->error))
            act(jobs->hv, job);
    }
    tidy(job);
    if (job->ponder && job->contents)
        job->ponder(job);
    g_mutex_lock(&jobs->mutex);
    g_queue_push_tail(&jobs->done, job);
    g_mutex_unlock(&jobs->mutex);
    weft_wakeup_ask(jobs->wakeup);
}

/* --- on the main thread --- */

static void
ring_by(WeftJobs *jobs, gint64 time)
{
    gint64 set = g_source_get_ready_time(jobs->clock);
    if (set < 0 || time < set)
        g_source_set_ready_time(jobs->clock, time);
}

/* One clock for all, as nearly all end in time: a timer each would wake the main loop twice for every job. */
static void
check_deadlines(gpointer data)
{
    WeftJobs *jobs = data;
    gint64 now = g_get_monotonic_time();
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, jobs->pending);
    while (g_hash_table_iter_next(&iter, &item, NULL)) {
        WeftJob *job = item;
        gint64 alive = __atomic_load_n(&job->alive, __ATOMIC_RELAXED);
        gint64 due = (alive ? alive : now) + job->deadline;
        if (due > now) {
            ring_by(jobs, due);
        } else if (!job->late) {
            job->late = TRUE;
            g_cancellable_cancel(job->cancellable);
        }
    }
}

static void
name_deadline(WeftJob *job)
{
    if (!job->late || !job->error)
        return;
    g_autofree char *limit = weft_duration_format(job->deadline);
    g_clear_error(&job->error);
    g_set_error(&job->error, WEFT_ERROR, WEFT_ERROR_TIMEOUT, "no answer within %s", limit);
}

static Pool *
pool_of(WeftJobs *jobs, const WeftJob *job)
{
    return &jobs->pools[job->asked ? ANSWER : purpose_of[job->step]];
}

/* It may have waited for long: what was allowed then need not be by now. */
static gboolean
may_begin(WeftJobs *jobs, const Pool *pool, WeftJob *job)
{
    if (job->error || !jobs->guard || jobs->guard(job, jobs->guard_data, &job->error) != WEFT_JOB_WAITS)
        return TRUE;
    weft_job_queue_end(pool->queue, job);
    g_queue_push_tail(&jobs->waiting, job);
    return FALSE;
}

static void
launch(WeftJobs *jobs, const Pool *pool)
{
    for (WeftJob *job; (job = weft_job_queue_begin(pool->queue));)
        if (may_begin(jobs, pool, job))
            g_thread_pool_push(pool->threads, job, NULL);
}

static void
finish(WeftJobs *jobs, WeftJob *job)
{
    Pool *pool = pool_of(jobs, job);
    weft_job_queue_end(pool->queue, job);
    launch(jobs, pool);
    g_hash_table_remove(jobs->pending, job);
    name_deadline(job);
    weft_watchdog_mark(weft_step_words[job->step], job->host);
    if (jobs->disowned && job->verdict != WEFT_OWNER_GRANTED)
        jobs->disowned(job, jobs->guard_data);
    job->done(job, job->error);
    weft_job_free(job);
}

static WeftJob *
pop_done(WeftJobs *jobs)
{
    g_mutex_lock(&jobs->mutex);
    WeftJob *job = g_queue_pop_head(&jobs->done);
    g_mutex_unlock(&jobs->mutex);
    return job;
}

/* A few at a time, so that a burst of answers does not keep the API waiting. */
static void
deliver(gpointer data)
{
    WeftJobs *jobs = data;
    for (guint i = 0; i < 8; i++) {
        WeftJob *job = pop_done(jobs);
        if (!job)
            return;
        finish(jobs, job);
    }
    weft_wakeup_ask(jobs->wakeup);
}

WeftJobs *
weft_jobs_new(WeftHypervisor *hv, guint workers, guint workers_per_host)
{
    WeftJobs *jobs = g_new0(WeftJobs, 1);
    jobs->hv = hv;
    for (guint i = 0; i < PURPOSES; i++) {
        guint all = MAX(workers / shares[i].all, 1), host = MAX(workers_per_host / shares[i].host, 1);
        jobs->pools[i] =
            (Pool){ g_thread_pool_new(run, jobs, (int)all, FALSE, NULL), weft_job_queue_new(all, host, shares[i].lasting) };
    }
    jobs->pending = g_hash_table_new(NULL, NULL);
    jobs->wakeup = weft_wakeup_new(deliver, jobs);
    jobs->clock = weft_wakeup_new(check_deadlines, jobs);
    g_mutex_init(&jobs->mutex);
    return jobs;
}

void
weft_jobs_guard(WeftJobs *jobs, WeftJobGuard guard, WeftJobDisowned disowned, gpointer data)
{
    jobs->guard = guard;
    jobs->disowned = disowned;
    jobs->guard_data = data;
}

static void
admit(WeftJobs *jobs, WeftJob *job)
{
    WeftJobVerdict verdict = jobs->guard ? jobs->guard(job, jobs->guard_data, &job->error) : WEFT_JOB_ALLOWED;
    if (verdict == WEFT_JOB_WAITS) {
        g_queue_push_tail(&jobs->waiting, job);
        return;
    }
    ring_by(jobs, g_get_monotonic_time() + job->deadline);
    weft_job_queue_add(pool_of(jobs, job)->queue, job);
    launch(jobs, pool_of(jobs, job));
}

void
weft_jobs_ask_again(WeftJobs *jobs)
{
    for (guint n = g_queue_get_length(&jobs->waiting); n; n--)
        admit(jobs, g_queue_pop_head(&jobs->waiting));
}

void
weft_jobs_submit(WeftJobs *jobs, WeftJob *job)
{
    g_hash_table_add(jobs->pending, job);
    admit(jobs, job);
}

void
weft_jobs_join(WeftJobs *jobs, WeftJob *job, const char *tenant)
{
    weft_job_queue_join(pool_of(jobs, job)->queue, job, tenant);
}

gboolean
weft_jobs_withdraw(WeftJobs *jobs, WeftJob *job)
{
    if (!weft_job_queue_remove(pool_of(jobs, job)->queue, job))
        return FALSE;
    g_hash_table_remove(jobs->pending, job);
    weft_job_free(job);
    return TRUE;
}

void
weft_jobs_free(WeftJobs *jobs)
{
    if (!jobs)
        return;
    GHashTableIter iter;
    gpointer job;
    g_hash_table_iter_init(&iter, jobs->pending);
    while (g_hash_table_iter_next(&iter, &job, NULL))
        g_cancellable_cancel(((WeftJob *)job)->cancellable);
    for (guint i = 0; i < PURPOSES; i++)
        g_thread_pool_free(jobs->pools[i].threads, FALSE, TRUE);
    g_source_destroy(jobs->wakeup);
    g_source_unref(jobs->wakeup);
    g_source_destroy(jobs->clock);
    g_source_unref(jobs->clock);
    g_hash_table_iter_init(&iter, jobs->pending);
    while (g_hash_table_iter_next(&iter, &job, NULL))
        weft_job_free(job);
    g_hash_table_unref(jobs->pending);
    for (guint i = 0; i < PURPOSES; i++)
        weft_job_queue_free(jobs->pools[i].queue);
    g_queue_clear(&jobs->done);
    g_queue_clear(&jobs->waiting);
    g_mutex_clear(&jobs->mutex);
    g_free(jobs);
}
