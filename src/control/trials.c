#include "trials.h"

#include "clock.h"
#include "dry-run.h"
#include "turns.h"
#include "workers.h"

#define AT_ONCE 3 /* of all tenants */
#define RESERVE 1 /* of operators, beside them */
#define NICE 10   /* nobody waits for them but who asked */

typedef struct Trial {
    WeftTrials *trials;
    WeftCluster *cluster;
    char *account; /* the tenant; "": operators */
    GCancellable *cancellable;
    WeftTried tried;
    gpointer data;
    guint64 moment; /* it is computed on fleet and queue of that moment, or a later one */
    gboolean running;
    WeftDryRun run;
    WeftFleetSnapshot *fleet;
    WeftQueueSnapshot *queue;
    WeftFleet *follower; /* while it runs */
    json_t *report;
} Trial;

struct WeftTrials {
    WeftControl *control;
    WeftWorkers *workers;
    GQueue trials;        /* Trial: those that wait and those that run, in order */
    guint running;        /* of tenants */
    guint running_own;    /* of operators */
    GPtrArray *followers; /* WeftFleet that nobody uses now: what was indexed there is of use to the next */
};

static void
trial_free(gpointer data)
{
    Trial *trial = data;
    g_clear_object(&trial->cancellable);
    g_clear_pointer(&trial->run.barred, g_hash_table_unref);
    g_clear_pointer(&trial->run.kept, g_hash_table_unref);
    g_clear_pointer(&trial->follower, weft_fleet_free);
    weft_fleet_snapshot_unref(trial->fleet);
    weft_queue_snapshot_unref(trial->queue);
    weft_cluster_free(trial->cluster);
    json_decref(trial->report);
    g_free(trial->account);
    g_free(trial);
}

/* --- on a worker --- */

static void
compute(gpointer data)
{
    Trial *trial = data;
    gint64 begin = weft_clock_thread();
    weft_fleet_follow(trial->follower, trial->fleet);
    trial->report = weft_dry_run(&trial->run, trial->follower, trial->queue);
    if (trial->report)
        json_object_set_new(trial->report, "spent", json_integer(weft_clock_thread() - begin));
}

/* --- whose turn it is --- */

static gboolean
is_operators(const Trial *trial)
{
    return *trial->account == 0;
}

static guint *
running_of(const Trial *trial)
{
    return is_operators(trial) ? &trial->trials->running_own : &trial->trials->running;
}

static gboolean
runs_one(const WeftTrials *trials, const char *account)
{
    for (const GList *link = trials->trials.head; link; link = link->next) {
        const Trial *trial = link->data;
        if (trial->running && strcmp(trial->account, account) == 0)
            return TRUE;
    }
    return FALSE;
}

static gboolean
may_run(const Trial *trial)
{
    guint most = is_operators(trial) ? RESERVE : AT_ONCE;
    const WeftErrand *moment = weft_turns_moment(trial->trials->control->turns);
    return moment && moment->number >= trial->moment && !trial->running && *running_of(trial) < most &&
           !runs_one(trial->trials, trial->account);
}

static void run_some(WeftTrials *trials);

static void
computed(gpointer data)
{
    Trial *trial = data;
    WeftTrials *trials = trial->trials;
    g_ptr_array_add(trials->followers, g_steal_pointer(&trial->follower));
    g_queue_remove(&trials->trials, trial);
    --*running_of(trial);
    run_some(trials);
    trial->tried(trial->report, NULL, trial->data);
}

static void
fill_in(Trial *trial)
{
    WeftControl *control = trial->trials->control;
    GHashTable *barred = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GHashTable *kept = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    weft_control_add_barred(control, trial->cluster, barred);
    weft_bookings_add(control->turns, trial->cluster->tenant, kept);
    trial->run =
        (WeftDryRun){ trial->cluster, barred, kept, &control->options.path_rule, weft_clock_now(), trial->cancellable };
    const WeftErrand *moment = weft_turns_moment(control->turns);
    trial->fleet = weft_fleet_snapshot_ref(moment->fleet);
    trial->queue = weft_queue_snapshot_ref(moment->queue);
}

static void
run(Trial *trial)
{
    GPtrArray *followers = trial->trials->followers;
    fill_in(trial);
    trial->follower = followers->len ? g_ptr_array_steal_index(followers, followers->len - 1) : weft_fleet_new();
    trial->running = TRUE;
    ++*running_of(trial);
    weft_workers_push(trial->trials->workers, &(WeftTask){ compute, computed, trial_free, trial });
}

/* A client that hung up wants nothing any more. */
static void
drop_cancelled(WeftTrials *trials)
{
    for (GList *link = trials->trials.head, *next; link; link = next) {
        Trial *trial = link->data;
        next = link->next;
        if (trial->running || !g_cancellable_is_cancelled(trial->cancellable))
            continue;
        g_queue_delete_link(&trials->trials, link);
        trial->tried(NULL, NULL, trial->data);
        trial_free(trial);
    }
}

static void
run_some(WeftTrials *trials)
{
    drop_cancelled(trials);
    for (GList *link = trials->trials.head; link; link = link->next)
        if (may_run(link->data))
            run(link->data);
}

/* --- asking --- */

void
weft_trials_ask(WeftTrials *trials, WeftCluster *cluster, gboolean operator, GCancellable * cancellable, WeftTried tried,
                gpointer data)
{
    Trial *trial = g_new0(Trial, 1);
    trial->trials = trials;
    trial->cluster = cluster;
    trial->account = g_strdup(operator? "" : cluster->tenant);
    trial->cancellable = cancellable ? g_object_ref(cancellable) : NULL;
    trial->tried = tried;
    trial->data = data;
    trial->moment = weft_turns_await_moment(trials->control->turns);
    g_queue_push_tail(&trials->trials, trial);
    run_some(trials);
}

void
weft_trials_go_on(WeftTrials *trials)
{
    run_some(trials);
}

WeftTrials *
weft_trials_new(WeftControl *control)
{
    WeftTrials *trials = g_new0(WeftTrials, 1);
    trials->control = control;
    trials->workers = weft_workers_new(AT_ONCE + RESERVE, NICE);
    trials->followers = g_ptr_array_new_with_free_func((GDestroyNotify)weft_fleet_free);
    return trials;
}

void
weft_trials_free(WeftTrials *trials)
{
    if (!trials)
        return;
    for (Trial *trial; (trial = g_queue_pop_head(&trials->trials));)
        if (!trial->running)
            trial_free(trial);
    weft_workers_free(trials->workers);
    g_ptr_array_unref(trials->followers);
    g_free(trials);
}
