#include "errors.h"
#include "job-queue.h"
#include "jobs.h"
#include "outcasts.h"
#include "plan.h"
#include "ports.h"
#include "wiring.h"

#include <string.h>

/* --- the planner --- */

typedef struct Case {
    const char *name;
    /* the wish */
    guint count;
    gboolean deleted;
    /* what is known: a letter for each node, its phase (c u r f l s), then flags of the node behind it:
     * b busy, z resting, x stopped, o runs, i has no image there, n its host has the network still, m has not met the
     * present members, B was ready before, L host lost, S silent, E evicting, ! started too often, v is to be moved, e its
     * host is emptied by moves, T is on its way to a host, t … which is lost, W … which is silent, c … though somebody called
     * that off, p … which has the network, q is at rest; ranks count up. A ~ at the end: some host has not the right peers; a ^
     * before it all: it was preempted. */
    const char *nodes;
    gboolean wired;
    gboolean was_ready;
    /* what is to be done: a letter for each node (- nothing, R retire, L lose, C recover, T retry, P replace, F release, i
     * prepare, s start, g greet, m meet, k stop, V leave, M move, U return, G go on), then the number missing, then w (wire)
     * and f (finish) */
    const char *expected;
    WeftClusterPhase phase;
} Case;

static const Case cases[] = {
    { "new", 3, FALSE, "", FALSE, FALSE, " 3", WEFT_CLUSTER_QUEUED },
    { "placed", 2, FALSE, "c c", FALSE, FALSE, "-- 0w", WEFT_CLUSTER_PLACED },
    { "wired", 2, FALSE, "c c", TRUE, FALSE, "ss 0", WEFT_CLUSTER_STARTING },
    { "one is starting", 2, FALSE, "cb c", TRUE, FALSE, "-s 0", WEFT_CLUSTER_STARTING },
    { "one rests", 2, FALSE, "cz r", TRUE, FALSE, "-- 0", WEFT_CLUSTER_STARTING },
    { "a silent host is waited for", 1, FALSE, "cS", TRUE, FALSE, "- 0", WEFT_CLUSTER_STARTING },
    { "an image is brought while the fabric is told", 2, FALSE, "ci c", FALSE, FALSE, "i- 0w", WEFT_CLUSTER_PLACED },
    { "… and waited for", 2, FALSE, "cib c", TRUE, FALSE, "-s 0", WEFT_CLUSTER_STARTING },
    { "no start before all hosts have the network", 2, FALSE, "c c ~", TRUE, FALSE, "-- 0", WEFT_CLUSTER_STARTING },
    { "one that runs is waited for from inside", 2, FALSE, "co c", TRUE, FALSE, "gs 0", WEFT_CLUSTER_STARTING },
    { "… also while the others change", 2, FALSE, "co c ~", FALSE, FALSE, "g- 0w", WEFT_CLUSTER_PLACED },
    { "who is up waits for the others", 2, FALSE, "um co", TRUE, FALSE, "-g 0", WEFT_CLUSTER_STARTING },
    { "all are up and meet", 2, FALSE, "um um", TRUE, FALSE, "mm 0", WEFT_CLUSTER_STARTING },
    { "one is being asked", 2, FALSE, "umb r", TRUE, FALSE, "-- 0", WEFT_CLUSTER_STARTING },
    { "one did not reach the others just now", 2, FALSE, "umz r", TRUE, FALSE, "-- 0", WEFT_CLUSTER_STARTING },
    { "nobody meets while a host lacks the network", 2, FALSE, "um um ~", TRUE, FALSE, "-- 0", WEFT_CLUSTER_STARTING },
    { "nobody meets whom the fabric does not know", 2, FALSE, "um um", FALSE, FALSE, "-- 0w", WEFT_CLUSTER_PLACED },
    { "after a change all meet again", 3, FALSE, "rm rm um", TRUE, TRUE, "mmm 0", WEFT_CLUSTER_SCALING },
    { "… but not before the new one is up", 3, FALSE, "rm rm c", TRUE, TRUE, "--s 0", WEFT_CLUSTER_SCALING },
    { "whoever leaves is not waited for", 1, FALSE, "rm s", TRUE, TRUE, "mk 0", WEFT_CLUSTER_SCALING },
    { "one that came back up meets alone", 2, FALSE, "r um", TRUE, TRUE, "-m 0", WEFT_CLUSTER_SCALING },
    { "one that rebooted by itself is broken until then", 2, FALSE, "r umB", TRUE, TRUE, "-m 0", WEFT_CLUSTER_HEALING },
    { "… and asked again, not started anew", 2, FALSE, "r umBz", TRUE, TRUE, "-- 0", WEFT_CLUSTER_HEALING },
    { "a silent host is not asked", 2, FALSE, "r rmS", TRUE, TRUE, "-- 0", WEFT_CLUSTER_SCALING },
    { "ready", 2, FALSE, "r r", TRUE, TRUE, "-- 0", WEFT_CLUSTER_READY },
    { "ready before it was recorded that they start", 2, FALSE, "r r", TRUE, FALSE, "-- 0", WEFT_CLUSTER_STARTING },
    { "grow", 4, FALSE, "r r", TRUE, TRUE, "-- 2", WEFT_CLUSTER_SCALING },
    { "shrink takes the highest rank", 1, FALSE, "r r r", TRUE, TRUE, "-RR 0", WEFT_CLUSTER_SCALING },
    { "shrink while starting", 1, FALSE, "c cb", TRUE, FALSE, "sR 0", WEFT_CLUSTER_STARTING },
    { "a retired node is stopped", 1, FALSE, "r s", FALSE, TRUE, "-k 0w", WEFT_CLUSTER_SCALING },
    { "… but not while it is still being started", 1, FALSE, "r sb", FALSE, TRUE, "-- 0w", WEFT_CLUSTER_SCALING },
    { "stopped, but still in the partition", 1, FALSE, "r sx", FALSE, TRUE, "-- 0w", WEFT_CLUSTER_SCALING },
    { "stopped and out of the partition", 1, FALSE, "r sx", TRUE, TRUE, "-F 0", WEFT_CLUSTER_SCALING },
    { "… but its host has the network still", 1, FALSE, "r sxn", TRUE, TRUE, "-- 0", WEFT_CLUSTER_SCALING },
    { "a lost host cannot be asked to forget it", 1, FALSE, "r snL", TRUE, TRUE, "-F 0", WEFT_CLUSTER_SCALING },
    { "a lost host cannot be asked to stop it", 1, FALSE, "r sL", TRUE, TRUE, "-F 0", WEFT_CLUSTER_SCALING },
    { "a domain died", 2, FALSE, "r f", TRUE, TRUE, "-k 0", WEFT_CLUSTER_HEALING },
    { "… and is cleaned up", 2, FALSE, "r fx", TRUE, TRUE, "-T 0", WEFT_CLUSTER_HEALING },
    { "… too often", 2, FALSE, "r fx!", TRUE, TRUE, "-P 0", WEFT_CLUSTER_HEALING },
    { "… and its host does not even stop it", 2, FALSE, "r f!", TRUE, TRUE, "-P 0", WEFT_CLUSTER_HEALING },
    { "… but it rests first", 2, FALSE, "r f!z", TRUE, TRUE, "-- 0", WEFT_CLUSTER_HEALING },
    { "… and a silent host is waited for", 2, FALSE, "r f!S", TRUE, TRUE, "-- 0", WEFT_CLUSTER_HEALING },
    { "a host is lost", 2, FALSE, "r rL", TRUE, TRUE, "-L 0", WEFT_CLUSTER_READY },
    { "a lost node is replaced", 2, FALSE, "r lL", FALSE, TRUE, "-P 0w", WEFT_CLUSTER_HEALING },
    { "… unless there was no room just now", 2, FALSE, "r lLz", FALSE, TRUE, "-- 0w", WEFT_CLUSTER_HEALING },
    { "its host came back first", 2, FALSE, "r l", FALSE, TRUE, "-C 0w", WEFT_CLUSTER_HEALING },
    { "a host is emptied", 2, FALSE, "r rE", TRUE, TRUE, "-P 0", WEFT_CLUSTER_READY },
    { "delete", 2, TRUE, "r r", TRUE, TRUE, "RR 0", WEFT_CLUSTER_STOPPING },
    { "delete during create wins", 2, TRUE, "cb c", TRUE, FALSE, "RR 0", WEFT_CLUSTER_STOPPING },
    { "deleting", 2, TRUE, "s sx", FALSE, TRUE, "k- 0w", WEFT_CLUSTER_STOPPING },
    { "deleted but for the partition", 2, TRUE, "sx sx", FALSE, TRUE, "-- 0w", WEFT_CLUSTER_STOPPING },
    { "deleted", 2, TRUE, "sx sL", TRUE, TRUE, "-- 0f", WEFT_CLUSTER_STOPPING },
    { "deleted but for a network", 2, TRUE, "sx sxn", TRUE, TRUE, "-- 0", WEFT_CLUSTER_STOPPING },
    { "deleted while a step still runs", 2, TRUE, "sx sLb", TRUE, TRUE, "-- 0", WEFT_CLUSTER_STOPPING },
    { "who gives way", 2, FALSE, "^ s sx", FALSE, FALSE, "k- 0w", WEFT_CLUSTER_PREEMPTED },
    { "… should it not have gone that far", 2, FALSE, "^ r sx", FALSE, FALSE, "R- 0w", WEFT_CLUSTER_PLACED },
    { "… asks for no new ones before all have gone", 2, FALSE, "^ sx sx", TRUE, FALSE, "FF 0", WEFT_CLUSTER_PREEMPTED },
    { "… then for all", 2, FALSE, "^", TRUE, FALSE, " 2", WEFT_CLUSTER_PREEMPTED },
    { "… whatever is there of it still", 2, FALSE, "^ c c", FALSE, FALSE, "RR 0w", WEFT_CLUSTER_PLACED },
    { "… or it is deleted meanwhile", 2, TRUE, "^ sx", TRUE, FALSE, "- 0f", WEFT_CLUSTER_STOPPING },
    { "one is to be moved", 2, FALSE, "r rv", TRUE, TRUE, "-V 0", WEFT_CLUSTER_READY },
    { "… one after the other", 3, FALSE, "rv r rv", TRUE, TRUE, "V-- 0", WEFT_CLUSTER_READY },
    { "… not while it meets the others", 2, FALSE, "rm rv", TRUE, TRUE, "m- 0", WEFT_CLUSTER_SCALING },
    { "… nor while one is started anew", 2, FALSE, "fx rv", TRUE, TRUE, "T- 0", WEFT_CLUSTER_HEALING },
    { "… nor before the fabric knows all", 2, FALSE, "r rv", FALSE, TRUE, "-- 0w", WEFT_CLUSTER_SCALING },
    { "… nor while a host lacks the network", 2, FALSE, "r rv ~", TRUE, TRUE, "-- 0", WEFT_CLUSTER_READY },
    { "… nor from a silent host", 2, FALSE, "r rvS", TRUE, TRUE, "-- 0", WEFT_CLUSTER_READY },
    { "… but while others are waited for", 3, FALSE, "r rv", TRUE, TRUE, "-V 1", WEFT_CLUSTER_SCALING },
    { "on its way", 2, FALSE, "rv rT", TRUE, TRUE, "-M 0", WEFT_CLUSTER_MIGRATING },
    { "… step by step", 2, FALSE, "r rTb", TRUE, TRUE, "-- 0", WEFT_CLUSTER_MIGRATING },
    { "… though its host is to be emptied otherwise", 2, FALSE, "r rTE", TRUE, TRUE, "-M 0", WEFT_CLUSTER_MIGRATING },
    { "… after a rest", 2, FALSE, "r rTz", TRUE, TRUE, "-- 0", WEFT_CLUSTER_MIGRATING },
    { "… and nobody meets meanwhile", 2, FALSE, "rm rmT", TRUE, TRUE, "-M 0", WEFT_CLUSTER_MIGRATING },
    { "its target is lost", 2, FALSE, "r rTt", TRUE, TRUE, "-U 0", WEFT_CLUSTER_MIGRATING },
    { "… while something runs for it", 2, FALSE, "r rTtb", TRUE, TRUE, "-U 0", WEFT_CLUSTER_MIGRATING },
    { "its target is silent", 2, FALSE, "r rTW", TRUE, TRUE, "-- 0", WEFT_CLUSTER_MIGRATING },
    { "it is called off", 2, FALSE, "r rTcb", TRUE, TRUE, "-U 0", WEFT_CLUSTER_MIGRATING },
    { "its host is lost on the way", 2, FALSE, "r rTL", TRUE, TRUE, "-L 0", WEFT_CLUSTER_MIGRATING },
    { "… and is stopped where it was to be", 2, FALSE, "r sTL", TRUE, TRUE, "-k 1", WEFT_CLUSTER_SCALING },
    { "… unless that is lost, too", 2, FALSE, "r sTLt", TRUE, TRUE, "-F 1", WEFT_CLUSTER_SCALING },
    { "… where the network goes first", 2, FALSE, "r sTxp", TRUE, TRUE, "-- 1", WEFT_CLUSTER_SCALING },
    { "lost on its way, it is stopped", 2, FALSE, "r fT", TRUE, TRUE, "-k 0", WEFT_CLUSTER_HEALING },
    { "… and starts anew", 2, FALSE, "r fTx", TRUE, TRUE, "-T 0", WEFT_CLUSTER_HEALING },
    { "at rest it goes on", 2, FALSE, "r rqm", TRUE, TRUE, "-G 0", WEFT_CLUSTER_MIGRATING },
    { "… once the fabric knows where it is", 2, FALSE, "r rqm", FALSE, TRUE, "-- 0w", WEFT_CLUSTER_MIGRATING },
    { "who fails where all are moved away goes elsewhere", 2, FALSE, "r fe", TRUE, TRUE, "-P 0", WEFT_CLUSTER_HEALING },
    { "delete wins over a move", 1, TRUE, "rTb", TRUE, TRUE, "R 0", WEFT_CLUSTER_STOPPING },
    { "delete a lost one", 1, TRUE, "lL", FALSE, TRUE, "R 0w", WEFT_CLUSTER_STOPPING },
};

static const char action_letters[] = { '-', 'R', 'L', 'C', 'T', 'P', 'V', 'F', 'i', 's', 'g', 'm', 'M', 'U', 'G', 'k' };

#define GENERATION 2

static WeftNodePhase
phase_of_letter(char letter)
{
    static const char letters[] = "curfls";
    return (WeftNodePhase)(strchr(letters, letter) - letters);
}

static WeftSeen
seen_of_flags(const char *flags)
{
    if (strchr(flags, 'L'))
        return WEFT_SEEN_LOST;
    if (strchr(flags, 'S'))
        return WEFT_SEEN_SILENT;
    return strchr(flags, 'E') ? WEFT_SEEN_EVICTING : WEFT_SEEN_UP;
}

static WeftNodeView
view_of(const char *text, guint rank)
{
    WeftNode *node = weft_node_new();
    node->rank = rank;
    node->group = g_strdup("nodes");
    node->phase = phase_of_letter(text[0]);
    node->starts = strchr(text, '!') ? 3 : 0;
    node->met = strchr(text + 1, 'm') ? 1 : GENERATION;
    node->boot = strchr(text + 1, 'B') ? g_strdup("b0") : NULL;
    node->target = strchr(text + 1, 'T') ? weft_node_new() : NULL;
    node->still = strchr(text + 1, 'q') != NULL;
    WeftSeen target = strchr(text + 1, 't') ? WEFT_SEEN_LOST : strchr(text + 1, 'W') ? WEFT_SEEN_SILENT : WEFT_SEEN_UP;
    return (WeftNodeView){ .node = node,
                           .host = seen_of_flags(text + 1),
                           .busy = strchr(text + 1, 'b') != NULL,
                           .resting = strchr(text + 1, 'z') != NULL,
                           .started = strchr(text + 1, 'o') != NULL,
                           .stopped = strchr(text + 1, 'x') != NULL,
                           .prepared = !strchr(text + 1, 'i'),
                           .target = target,
                           .called_off = strchr(text + 1, 'c') != NULL,
                           .leaves = strchr(text + 1, 'v') != NULL,
                           .emptied = strchr(text + 1, 'e') != NULL,
                           .parted_there = !strchr(text + 1, 'p'),
                           .parted = !strchr(text + 1, 'n') };
}

static WeftCluster *
cluster_of(const Case *c)
{
    g_autofree char *text = g_strdup_printf("{\"name\":\"a\",\"count\":%u}", c->count);
    json_t *json = json_loads(text, 0, NULL);
    WeftCluster *cluster = weft_cluster_from_spec(json, NULL);
    json_decref(json);
    cluster->deleted = c->deleted;
    return cluster;
}

static char *
plan_to_text(const WeftPlan *plan, guint n)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < n; i++)
        g_string_append_c(text, action_letters[plan->actions[i]]);
    g_string_append_printf(text, " %u%s%s", plan->missing[0], plan->wire ? "w" : "", plan->finish ? "f" : "");
    return g_string_free(text, FALSE);
}

static void
test_plan(gconstpointer data)
{
    const Case *c = data;
    g_autoptr(WeftCluster) cluster = cluster_of(c);
    gboolean preempted = c->nodes[0] == '^';
    const char *listed = preempted ? c->nodes + strspn(c->nodes, "^ ") : c->nodes;
    g_auto(GStrv) words = g_strsplit(listed, " ", -1);
    guint n = listed[0] ? g_strv_length(words) : 0;
    gboolean connected = n == 0 || words[n - 1][0] != '~';
    n -= !connected;
    WeftNodeView views[8];
    for (guint i = 0; i < n; i++)
        views[i] = view_of(words[i], i);
    WeftClusterStatus status = { .pkey = 1, .generation = GENERATION, .wired = c->wired ? GENERATION : 1 };
    status.was_ready = c->was_ready;
    status.phase = c->was_ready ? WEFT_CLUSTER_READY : WEFT_CLUSTER_QUEUED;
    if (preempted)
        status.phase = WEFT_CLUSTER_PREEMPTED;
    WeftPlanInput input = { cluster, n || preempted ? &status : NULL, views, n, 3, connected };

    g_auto(WeftPlan) plan = { 0 };
    weft_plan(&input, &plan);
    g_autofree char *text = plan_to_text(&plan, n);
    g_assert_cmpstr(text, ==, c->expected);
    g_assert_cmpint(weft_plan_phase(&input), ==, c->phase);
    for (guint i = 0; i < n; i++)
        weft_node_free((WeftNode *)views[i].node);
}

/* --- who is moved --- */

typedef struct Outcast {
    const char *name;
    /* for each node by rank: - it reached all; else whom not, by their ranks, or ? for nobody in particular; then its host as a
     * capital letter (none: one of its own), + it was ready before, ' it was moved already */
    const char *meetings;
    const char *expected; /* - stays, m moves */
} Outcast;

static const Outcast outcasts[] = {
    { "all reach all", "- - -", "---" },
    { "one alone", "-", "-" },
    { "nobody", "", "" },
    { "a pair: the higher rank", "1 0", "-m" },
    { "… the other one if that did not help", "1 0'", "m-" },
    { "… and so on", "1' 0'", "-m" },
    { "… among others", "- 2 1 -", "--m-" },
    { "one that nobody reaches", "1 023 1 1", "-m--" },
    { "… and that says nothing yet", "1 - 1 1", "-m--" },
    { "one that reaches nobody, and whom others reached before", "- 023 - -", "-m--" },
    { "all are apart: one of them", "12 02 01", "--m" },
    { "two of four: one of them", "23 23 01 01", "---m" },
    { "two hosts: one node, to see whose fault it is", "23A 23A 01B 01B", "---m" },
    { "… and then all of the one that reaches neither", "23A 23A 01B 01C'", "mm--" },
    { "… but those that reach all", "23A -A 0B 0C", "m---" },
    { "neighbours on a host", "1A 0A -B", "-m-" },
    { "who says no names", "- ? -", "-m-" },
    { "who was ready stays, who joins is moved", "1+ 0", "-m" },
    { "… whatever its rank", "1 0+", "m-" },
    { "… though it is beside one on the host to blame", "23A+ 23A 01B 01C", "-m--" },
    { "who was ready and is in the way of all", "1 023+ 1 1", "----" },
    { "only they are left", "1+ 0+", "--" },
    { "names of nobody", "79 -", "m-" },
};

static WeftMeeting
meeting_of(const char *text, guint rank, char *host)
{
    GByteArray *ranks = g_byte_array_new();
    g_byte_array_set_size(ranks, 10);
    memset(ranks->data, 0, ranks->len);
    host[0] = (char)('0' + rank);
    for (const char *p = text; *p; p++) {
        if (g_ascii_isdigit(*p))
            ranks->data[g_ascii_digit_value(*p)]++;
        if (g_ascii_isupper(*p))
            host[0] = *p;
    }
    return (WeftMeeting){ rank, host, strchr(text, '\'') != NULL, strchr(text, '+') != NULL, text[0] != '-', ranks };
}

static void
test_outcasts(gconstpointer data)
{
    const Outcast *c = data;
    g_auto(GStrv) words = g_strsplit(c->meetings, " ", -1);
    guint n = g_strv_length(words), moved = 0;
    WeftMeeting meetings[8];
    char hosts[8][2] = { 0 }, text[9] = { 0 };
    gboolean marks[8];
    for (guint i = 0; i < n; i++)
        meetings[i] = meeting_of(words[i], i, hosts[i]);
    guint count = weft_plan_outcasts(meetings, n, marks);
    for (guint i = 0; i < n; i++) {
        text[i] = marks[i] ? 'm' : '-';
        moved += marks[i] != 0;
        g_byte_array_unref((GByteArray *)meetings[i].unreached);
    }
    g_assert_cmpstr(text, ==, c->expected);
    g_assert_cmpuint(count, ==, moved);
}

/* --- jobs: bounds and deadlines, on a hypervisor that counts and blocks --- */

typedef struct Counting {
    WeftHypervisor base;
    GMutex mutex;
    GCond changed;
    gboolean gate; /* calls wait until it opens or they are cancelled */
    guint running;
    guint most;
    guint calls;
} Counting;

static void
wake_counting(GCancellable *cancellable, gpointer data)
{
    Counting *self = data;
    g_mutex_lock(&self->mutex);
    g_cond_broadcast(&self->changed);
    g_mutex_unlock(&self->mutex);
}

static gboolean
counting_stop(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error)
{
    Counting *self = (Counting *)hv;
    gulong id = g_cancellable_connect(cancellable, G_CALLBACK(wake_counting), self, NULL);
    g_mutex_lock(&self->mutex);
    self->calls++;
    self->running++;
    self->most = MAX(self->most, self->running);
    g_cond_broadcast(&self->changed);
    while (!self->gate && !g_cancellable_is_cancelled(cancellable))
        g_cond_wait(&self->changed, &self->mutex);
    self->running--;
    gboolean ok = self->gate;
    g_mutex_unlock(&self->mutex);
    g_cancellable_disconnect(cancellable, id);
    if (!ok)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_TIMEOUT, "cancelled");
    return ok;
}

static const WeftHypervisorOps counting_ops = { .name = "counting", .stop = counting_stop };

typedef struct Ends {
    guint ok;
    guint failed;
    char *message;
} Ends;

static void
job_ended(WeftJob *job, const GError *error)
{
    Ends *ends = job->owner;
    if (error)
        ends->failed++;
    else
        ends->ok++;
    g_free(ends->message);
    ends->message = error ? g_strdup(error->message) : NULL;
}

static WeftJob *
stop_job(const char *host, gint64 deadline, Ends *ends)
{
    WeftJob *job = weft_job_new(WEFT_STEP_STOP, host, NULL, "d");
    job->deadline = deadline;
    job->done = job_ended;
    job->owner = ends;
    return job;
}

static void
wait_running(Counting *counting, guint n)
{
    g_mutex_lock(&counting->mutex);
    while (counting->running < n)
        g_cond_wait(&counting->changed, &counting->mutex);
    g_mutex_unlock(&counting->mutex);
}

static void
test_jobs_bounds(void)
{
    Counting counting = { .base = { &counting_ops } };
    Ends ends = { 0 };
    WeftJobs *jobs = weft_jobs_new(&counting.base, 8, 2);
    for (guint i = 0; i < 10; i++)
        weft_jobs_submit(jobs, stop_job("n1", 60 * G_USEC_PER_SEC, &ends));
    wait_running(&counting, 2);
    weft_jobs_submit(jobs, stop_job("n2", 60 * G_USEC_PER_SEC, &ends));
    wait_running(&counting, 3); /* another host does not wait behind the first */

    g_mutex_lock(&counting.mutex);
    counting.gate = TRUE;
    g_cond_broadcast(&counting.changed);
    g_mutex_unlock(&counting.mutex);
    while (ends.ok < 11)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(counting.most, ==, 3);
    weft_jobs_free(jobs);
    g_free(ends.message);
}

/* --- whose job is next --- */

static WeftJob *
job_of(WeftJobQueue *queue, const char *tenant, const char *host)
{
    WeftJob *job = weft_job_new(WEFT_STEP_STOP, host, NULL, NULL);
    job->tenant = g_strdup(tenant);
    weft_job_queue_add(queue, job);
    return job;
}

static void
assert_next(WeftJobQueue *queue, WeftJob *expected)
{
    WeftJob *job = weft_job_queue_begin(queue);
    g_assert_true(job == expected);
    if (!job)
        return;
    weft_job_queue_end(queue, job);
    weft_job_free(job);
}

/* Whoever comes last, and wants little, does not wait for all that another wants. */
static void
test_job_queue_turns(void)
{
    WeftJobQueue *queue = weft_job_queue_new(1, 1, FALSE);
    WeftJob *a1 = job_of(queue, "a", "n1"), *a2 = job_of(queue, "a", "n1"), *a3 = job_of(queue, "a", "n2");
    WeftJob *b1 = job_of(queue, "b", "n1"), *own = job_of(queue, NULL, "n3");
    WeftJob *order[] = { a1, b1, own, a3, a2 };
    for (guint i = 0; i < G_N_ELEMENTS(order); i++)
        assert_next(queue, order[i]);
    assert_next(queue, NULL);
    weft_job_queue_free(queue);
}

/* What two of them wait for comes in the turn that is first, and once. */
static void
test_job_queue_joined(void)
{
    WeftJobQueue *queue = weft_job_queue_new(1, 1, FALSE);
    WeftJob *a1 = job_of(queue, "a", "n1"), *a2 = job_of(queue, "a", "n2"), *a3 = job_of(queue, "a", "n3");
    WeftJob *a4 = job_of(queue, "a", "n3"), *gone = job_of(queue, "a", "n4");
    for (guint i = 0; i < 2; i++)
        weft_job_queue_join(queue, a4, "b");
    weft_job_queue_join(queue, a4, "a");
    weft_job_queue_join(queue, gone, "c");
    g_assert_true(weft_job_queue_remove(queue, gone));
    g_assert_false(weft_job_queue_remove(queue, gone));
    weft_job_free(gone);
    WeftJob *order[] = { a1, a4, a2, a3 };
    for (guint i = 0; i < G_N_ELEMENTS(order); i++)
        assert_next(queue, order[i]);
    assert_next(queue, NULL);
    weft_job_queue_free(queue);
}

static void
test_job_queue_bounds(void)
{
    WeftJobQueue *queue = weft_job_queue_new(2, 1, FALSE);
    WeftJob *a1 = job_of(queue, "a", "n1"), *a2 = job_of(queue, "a", "n1"), *b1 = job_of(queue, "b", "n1");
    WeftJob *a3 = job_of(queue, "a", "n2"), *a4 = job_of(queue, "a", "n3");
    g_assert_true(weft_job_queue_begin(queue) == a1);
    g_assert_true(weft_job_queue_begin(queue) == a3); /* the host of the others is busy */
    g_assert_null(weft_job_queue_begin(queue));       /* both workers are */
    g_assert_false(weft_job_queue_remove(queue, a1));
    g_assert_true(weft_job_queue_remove(queue, a4));
    weft_job_queue_end(queue, a1);
    g_assert_true(weft_job_queue_begin(queue) == b1);
    g_assert_true(weft_job_queue_remove(queue, a2));
    weft_job_queue_end(queue, b1);
    weft_job_queue_end(queue, a3);
    g_assert_null(weft_job_queue_begin(queue));
    weft_job_queue_free(queue);
    for (WeftJob **job = (WeftJob *[]){ a1, a2, a3, a4, b1, NULL }; *job; job++)
        weft_job_free(*job);
}

/* Whoever wants what lasts leaves as many workers free as it has; weft itself may have the last one. */
static void
test_job_queue_lasting(void)
{
    WeftJobQueue *queue = weft_job_queue_new(4, 4, TRUE);
    WeftJob *a1 = job_of(queue, "a", "n1"), *a2 = job_of(queue, "a", "n2"), *a3 = job_of(queue, "a", "n3");
    g_assert_true(weft_job_queue_begin(queue) == a1);
    g_assert_true(weft_job_queue_begin(queue) == a2);
    g_assert_null(weft_job_queue_begin(queue));
    WeftJob *b1 = job_of(queue, "b", "n1"), *b2 = job_of(queue, "b", "n1"), *own = job_of(queue, NULL, "n1");
    g_assert_true(weft_job_queue_begin(queue) == b1);
    g_assert_true(weft_job_queue_begin(queue) == own);
    g_assert_null(weft_job_queue_begin(queue));
    for (WeftJob **job = (WeftJob *[]){ a1, a2, own, NULL }; *job; job++)
        weft_job_queue_end(queue, *job);
    g_assert_true(weft_job_queue_begin(queue) == a3);
    g_assert_true(weft_job_queue_begin(queue) == b2);
    weft_job_queue_free(queue);
    for (WeftJob **job = (WeftJob *[]){ a1, a2, a3, b1, b2, own, NULL }; *job; job++)
        weft_job_free(*job);
}

static WeftContents *
counting_list(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error)
{
    return weft_contents_new();
}

/* Hosts where every call hangs must not keep weft from looking at others, nor at themselves. */
static void
test_jobs_purposes(void)
{
    static const WeftHypervisorOps ops = { .name = "hanging", .stop = counting_stop, .list = counting_list };
    Counting counting = { .base = { &ops } };
    Ends ends = { 0 }, looks = { 0 };
    WeftJobs *jobs = weft_jobs_new(&counting.base, 2, 1);
    for (guint i = 0; i < 6; i++)
        weft_jobs_submit(jobs, stop_job(i % 2 ? "n1" : "n2", 60 * G_USEC_PER_SEC, &ends));
    wait_running(&counting, 2);
    WeftJob *look = weft_job_new(WEFT_STEP_LIST, "n1", NULL, NULL);
    look->deadline = 60 * G_USEC_PER_SEC;
    look->done = job_ended;
    look->owner = &looks;
    weft_jobs_submit(jobs, look);
    while (!looks.ok)
        g_main_context_iteration(NULL, TRUE);
    weft_jobs_free(jobs);
    g_free(ends.message);
}

static void
test_jobs_deadline(void)
{
    Counting counting = { .base = { &counting_ops } };
    Ends ends = { 0 };
    WeftJobs *jobs = weft_jobs_new(&counting.base, 2, 1);
    weft_jobs_submit(jobs, stop_job("n1", 20 * 1000, &ends));
    while (ends.failed < 1)
        g_main_context_iteration(NULL, TRUE);
    g_assert_nonnull(strstr(ends.message, "no answer within"));
    weft_jobs_free(jobs);
    g_free(ends.message);
}

static WeftJobVerdict
judge_job(WeftJob *job, gpointer verdict, GError **error)
{
    if (*(WeftJobVerdict *)verdict == WEFT_JOB_REFUSED)
        weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "held by now");
    return *(WeftJobVerdict *)verdict;
}

/* Its host came to be held while it waited for a worker. */
static void
test_jobs_guarded_when_they_begin(void)
{
    Counting counting = { .base = { &counting_ops } };
    Ends first = { 0 }, second = { 0 };
    WeftJobVerdict verdict = WEFT_JOB_ALLOWED;
    WeftJobs *jobs = weft_jobs_new(&counting.base, 1, 1);
    weft_jobs_guard(jobs, judge_job, NULL, &verdict);
    weft_jobs_submit(jobs, stop_job("n1", 20 * 1000, &first));
    wait_running(&counting, 1);
    weft_jobs_submit(jobs, stop_job("n1", 20 * 1000, &second));
    verdict = WEFT_JOB_WAITS;
    while (first.failed < 1)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(second.failed + second.ok, ==, 0);
    verdict = WEFT_JOB_REFUSED;
    weft_jobs_ask_again(jobs);
    while (second.failed < 1)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(second.message, ==, "held by now");
    g_assert_cmpuint(counting.calls, ==, 1);
    weft_jobs_free(jobs);
    g_free(first.message);
    g_free(second.message);
}

/* It counts from when the job runs: one that had to wait for another has all of it. */
static void
test_jobs_deadline_after_waiting(void)
{
    Counting counting = { .base = { &counting_ops } };
    Ends first = { 0 }, second = { 0 };
    WeftJobs *jobs = weft_jobs_new(&counting.base, 2, 1);
    gint64 begin = g_get_monotonic_time();
    weft_jobs_submit(jobs, stop_job("n1", 100 * 1000, &first));
    weft_jobs_submit(jobs, stop_job("n1", 20 * 1000, &second));
    while (second.failed < 1)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(first.failed, ==, 1);
    g_assert_cmpuint(counting.calls, ==, 2);
    g_assert_cmpint(g_get_monotonic_time() - begin, >=, 120 * 1000);
    weft_jobs_free(jobs);
    g_free(first.message);
    g_free(second.message);
}

static void
test_jobs_free_while_busy(void)
{
    Counting counting = { .base = { &counting_ops } };
    Ends ends = { 0 };
    WeftJobs *jobs = weft_jobs_new(&counting.base, 2, 1);
    for (guint i = 0; i < 5; i++)
        weft_jobs_submit(jobs, stop_job("n1", 60 * G_USEC_PER_SEC, &ends));
    wait_running(&counting, 1);
    weft_jobs_free(jobs);
    g_assert_cmpuint(ends.ok + ends.failed, ==, 0);
    g_assert_cmpuint(counting.calls, ==, 1);
}

/* --- wiring: gathers, and one bad wish does not hold up the others --- */

typedef struct Manager {
    WeftFabricDriver base;
    guint changes;
    guint largest;
    guint bad; /* a change with this number fails */
    guint64 generation;
    guint64 others; /* what somebody else's change had; a change that is older fails */
    WeftFabricApplied callback;
    gpointer data;
    gboolean fail;
} Manager;

static gboolean
manager_generation(WeftFabricDriver *fabric, guint64 *ret_generation, GError **error)
{
    *ret_generation = ((Manager *)fabric)->generation;
    return ((Manager *)fabric)->generation > 0 || weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "away");
}

static gboolean
manager_answers(gpointer data)
{
    Manager *self = data;
    g_autoptr(GError) error = self->fail ? g_error_new(WEFT_ERROR, WEFT_ERROR_CONFLICT, "not mine") : NULL;
    self->callback(error, self->data);
    return G_SOURCE_REMOVE;
}

static void
manager_apply(WeftFabricDriver *fabric, WeftFabricChange *change, GCancellable *cancellable, WeftFabricApplied callback,
              gpointer data)
{
    Manager *self = (Manager *)fabric;
    self->fail = change->generation < self->others;
    for (guint i = 0; i < change->set->len; i++)
        self->fail |= ((WeftPartition *)change->set->pdata[i])->pkey == self->bad;
    self->changes++;
    self->largest = MAX(self->largest, change->set->len + change->removed->len);
    g_assert_cmpuint(change->generation, >, self->generation);
    self->generation = change->generation;
    self->callback = callback;
    self->data = data;
    weft_fabric_change_free(change);
    g_idle_add(manager_answers, self);
}

static void
manager_greet(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricGreeted callback, gpointer data)
{
    Manager *self = (Manager *)fabric;
    WeftManager manager = { .generation = MAX(self->generation, self->others) };
    callback(&manager, NULL, data);
}

static const WeftFabricDriverOps manager_ops = {
    .name = "manager", .apply = manager_apply, .greet = manager_greet, .generation = manager_generation
};

static void
count_wired(const GError *error, gpointer data)
{
    Ends *ends = data;
    if (error)
        ends->failed++;
    else
        ends->ok++;
}

static void
test_wiring(void)
{
    Manager manager = { .base = { &manager_ops }, .bad = 5, .generation = 7 };
    Ends ends = { 0 };
    WeftWiring *wiring = weft_wiring_new("ib0", &manager.base, G_USEC_PER_SEC);
    for (guint pkey = 1; pkey <= 9; pkey++)
        weft_wiring_set(wiring, weft_partition_new(pkey, "weft-x"), count_wired, &ends);
    weft_wiring_set(wiring, weft_partition_new(9, "weft-x"), count_wired, &ends); /* replaces one that waits */
    weft_wiring_remove(wiring, 10, "weft-0aaaaaaaaaaa", count_wired, &ends);
    while (ends.ok + ends.failed < 11)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(ends.ok, ==, 10);
    g_assert_cmpuint(ends.failed, ==, 1);
    g_assert_cmpuint(manager.largest, ==, 9);         /* all that came while the first was applied */
    g_assert_cmpuint(manager.changes, ==, 1 + 1 + 9); /* the first, the batch that failed, and each of it alone */
    weft_wiring_free(wiring);
}

/* A manager that has seen the future is not told of the past, and one that is away keeps nobody from beginning. */
static void
test_wiring_generation(void)
{
    Manager ahead = { .base = { &manager_ops }, .generation = G_MAXINT64 };
    Manager away = { .base = { &manager_ops } };
    Manager *managers[] = { &ahead, &away };
    for (guint i = 0; i < G_N_ELEMENTS(managers); i++) {
        Ends ends = { 0 };
        if (managers[i] == &away)
            g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "fabric ib0: away");
        WeftWiring *wiring = weft_wiring_new("ib0", &managers[i]->base, G_USEC_PER_SEC);
        g_test_assert_expected_messages();
        weft_wiring_set(wiring, weft_partition_new(1, "weft-x"), count_wired, &ends);
        while (!ends.ok)
            g_main_context_iteration(NULL, TRUE);
        weft_wiring_free(wiring);
    }
    g_assert_cmpuint(ahead.generation, ==, (guint64)G_MAXINT64 + 1);
    g_assert_cmpuint(away.generation, >, 0);
}

static gboolean
may_change(gpointer data, GError **error)
{
    return *(gboolean *)data || weft_error_refuse(error, WEFT_ERROR_BUSY, "not ours");
}

static void
doubt(gpointer data)
{
    *(gboolean *)data = FALSE;
}

/* Whoever was overtaken goes on after the other one's change, once its hosts have said that they are its own. */
static void
test_wiring_guard(void)
{
    Manager manager = { .base = { &manager_ops }, .generation = 7 };
    Ends ends = { 0 };
    gboolean ours = FALSE;
    WeftWiring *wiring = weft_wiring_new("ib0", &manager.base, G_USEC_PER_SEC);
    weft_wiring_guard(wiring, may_change, doubt, &ours);
    weft_wiring_set(wiring, weft_partition_new(1, "weft-x"), count_wired, &ends);
    g_assert_cmpuint(ends.failed, ==, 1);
    g_assert_cmpuint(manager.changes, ==, 0);
    ours = TRUE;
    manager.others = G_MAXINT64;
    weft_wiring_set(wiring, weft_partition_new(1, "weft-x"), count_wired, &ends);
    weft_wiring_set(wiring, weft_partition_new(2, "weft-y"), count_wired, &ends);
    while (ends.failed < 3)
        g_main_context_iteration(NULL, TRUE);
    g_assert_false(ours);
    g_assert_cmpuint(manager.changes, ==, 1); /* nothing more before it is known to be ours */
    ours = TRUE;
    weft_wiring_set(wiring, weft_partition_new(1, "weft-x"), count_wired, &ends);
    while (ends.ok == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(manager.generation, ==, (guint64)G_MAXINT64 + 1);
    weft_wiring_free(wiring);
}

/* --- ports: a few at a time, and those first for whom somebody waits --- */

typedef struct Meter {
    WeftFabricDriver base;
    GArray *guids; /* of the question under way */
    WeftFabricVerified callback;
    gpointer data;
    gboolean fail;
    GString *asked; /* of each question the first port's letter, a thousand GUIDs each, and how many they are */
} Meter;

static gboolean
meter_answers(gpointer data)
{
    Meter *self = data;
    g_autoptr(GArray) guids = g_steal_pointer(&self->guids);
    g_autoptr(GPtrArray) tables = g_ptr_array_new_with_free_func((GDestroyNotify)weft_port_table_free);
    g_autoptr(GError) error = self->fail ? g_error_new(WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "away") : NULL;
    for (guint i = 0; i < guids->len; i++)
        g_ptr_array_add(tables, weft_port_table_new(g_array_index(guids, guint64, i)));
    self->callback(error ? NULL : tables, error, self->data);
    return G_SOURCE_REMOVE;
}

static void
meter_verify(WeftFabricDriver *fabric, GArray *guids, GCancellable *cancellable, WeftFabricVerified callback, gpointer data)
{
    Meter *self = (Meter *)fabric;
    g_assert_null(self->guids); /* one question at a time */
    self->guids = guids;
    self->callback = callback;
    self->data = data;
    g_string_append_printf(self->asked, " %c%u", (char)('a' + g_array_index(guids, guint64, 0) / 1000), guids->len);
    g_idle_add(meter_answers, self);
}

static const WeftFabricDriverOps meter_ops = { .name = "meter", .verify = meter_verify };

static GArray *
ports_from(guint64 first, guint n)
{
    GArray *guids = g_array_new(FALSE, FALSE, sizeof(guint64));
    for (guint64 i = 0; i < n; i++)
        g_array_append_val(guids, (guint64){ first + i });
    return guids;
}

typedef struct Asker {
    guint64 first;
    guint n;
    guint ends, failed;
} Asker;

static void
on_read(GPtrArray *tables, const GError *error, gpointer data)
{
    Asker *asker = data;
    asker->ends++;
    asker->failed += error != NULL;
    g_assert_true(!tables == !!error);
    for (guint i = 0; tables && i < asker->n; i++)
        g_assert_cmpuint(((WeftPortTable *)tables->pdata[i])->port_guid, ==, asker->first + i);
    g_assert_cmpuint(tables ? tables->len : asker->n, ==, asker->n);
}

static void
ask_for(WeftPorts *ports, Asker *asker, gboolean hurry)
{
    weft_ports_read(ports, ports_from(asker->first, asker->n), hurry, on_read, asker);
}

static void
wait_for_askers(const Asker *askers, guint n)
{
    for (guint i = 0; i < n; i++) {
        while (!askers[i].ends)
            g_main_context_iteration(NULL, TRUE);
        g_assert_cmpuint(askers[i].ends, ==, 1);
    }
}

static void
test_ports(void)
{
    Meter meter = { .base = { &meter_ops }, .asked = g_string_new(NULL) };
    Asker askers[] = { { 0, 150 }, { 1000, 1 }, { 2000, 65 }, { 3000, 0 } };
    WeftPorts *ports = weft_ports_new(&meter.base, G_USEC_PER_SEC);
    for (guint i = 0; i < G_N_ELEMENTS(askers); i++)
        ask_for(ports, &askers[i], askers[i].first == 2000);
    wait_for_askers(askers, G_N_ELEMENTS(askers));
    g_assert_cmpstr(meter.asked->str, ==, " a64 c64 c1 a64 a23");
    weft_ports_free(ports);
    g_string_free(meter.asked, TRUE);
}

/* All that wait share a question as far as it goes, and a port that several want is asked for once. */
static void
test_ports_shared(void)
{
    Meter meter = { .base = { &meter_ops }, .asked = g_string_new(NULL) };
    Asker askers[] = { { 0, 1 }, { 1000, 40 }, { 1020, 40 }, { 1000, 2 }, { 2000, 3 }, { 2001, 2 }, { 3000, 2 } };
    WeftPorts *ports = weft_ports_new(&meter.base, G_USEC_PER_SEC);
    for (guint i = 0; i < G_N_ELEMENTS(askers); i++)
        ask_for(ports, &askers[i], TRUE);
    wait_for_askers(askers, G_N_ELEMENTS(askers));
    g_assert_cmpstr(meter.asked->str, ==, " a1 b64 d1");
    weft_ports_free(ports);
    g_string_free(meter.asked, TRUE);
}

/* A question that fails ends those whom it carried, also the one of whom it was a part only, and nobody else. */
static void
test_ports_failing(void)
{
    Meter meter = { .base = { &meter_ops }, .asked = g_string_new(NULL) };
    Asker askers[] = { { 0, 1 }, { 1000, 2 }, { 2000, 70 }, { 3000, 2 } };
    WeftPorts *ports = weft_ports_new(&meter.base, G_USEC_PER_SEC);
    for (guint i = 0; i < G_N_ELEMENTS(askers); i++)
        ask_for(ports, &askers[i], TRUE);
    wait_for_askers(askers, 1);
    meter.fail = TRUE;
    wait_for_askers(askers, 3);
    meter.fail = FALSE;
    wait_for_askers(askers, 4);
    const guint failed[] = { 0, 1, 1, 0 };
    for (guint i = 0; i < G_N_ELEMENTS(askers); i++)
        g_assert_cmpuint(askers[i].failed, ==, failed[i]);
    g_assert_cmpstr(meter.asked->str, ==, " a1 b64 d2");
    weft_ports_free(ports);
    g_string_free(meter.asked, TRUE);
}

/* Nobody is told any more. */
static void
test_ports_free_while_busy(void)
{
    Meter meter = { .base = { &meter_ops }, .asked = g_string_new(NULL) };
    Asker askers[] = { { 0, 1 }, { 1000, 2 } };
    WeftPorts *ports = weft_ports_new(&meter.base, G_USEC_PER_SEC);
    for (guint i = 0; i < G_N_ELEMENTS(askers); i++)
        ask_for(ports, &askers[i], TRUE);
    weft_ports_free(ports);
    g_assert_true(g_idle_remove_by_data(&meter));
    g_assert_cmpuint(askers[0].ends + askers[1].ends, ==, 0);
    g_array_unref(meter.guids);
    g_string_free(meter.asked, TRUE);
}

static void
check_table(const char *pkeys, const char *enforced, const WeftPortWish *wish, const char *expected)
{
    g_autoptr(WeftPortTable) table = weft_port_table_new(wish->port_guid);
    g_auto(GStrv) words = g_strsplit(pkeys, " ", -1), passing = g_strsplit(enforced ? enforced : "", " ", -1);
    table->enforced = enforced ? g_array_new(FALSE, FALSE, sizeof(guint16)) : NULL;
    for (guint i = 0; words[i]; i++)
        g_array_append_val(table->pkeys, (guint16){ (guint16)g_ascii_strtoull(words[i], NULL, 16) });
    for (guint i = 0; enforced && passing[i]; i++)
        g_array_append_val(table->enforced, (guint16){ (guint16)g_ascii_strtoull(passing[i], NULL, 16) });
    g_autofree char *fault = weft_port_wish_check(wish, table);
    g_assert_cmpstr(fault, ==, expected);
}

static void
test_port_wishes(void)
{
    g_autoptr(WeftPartition) partition = weft_partition_new(1, "weft-x");
    WeftMember members[] = { { 7, 70, WEFT_MEMBER_FULL, -1 },
                             { 7, 71, WEFT_MEMBER_FULL, -1 },
                             { 8, 0, WEFT_MEMBER_LIMITED, 0 } };
    for (guint i = 0; i < G_N_ELEMENTS(members); i++)
        weft_partition_add(partition, &members[i]);
    g_autoptr(GArray) wishes = g_array_new(FALSE, FALSE, sizeof(WeftPortWish));
    weft_port_wishes_add(wishes, partition);
    g_autoptr(GArray) ports = weft_port_wishes_ports(wishes);
    g_assert_cmpuint(wishes->len, ==, 2);
    g_assert_cmpuint(ports->len, ==, 2);
    const WeftPortWish *any = &g_array_index(wishes, WeftPortWish, 0), *first = &g_array_index(wishes, WeftPortWish, 1);
    check_table("7fff 8001", NULL, any, NULL);
    check_table("7fff 8001", "7fff 0001", any, NULL);
    check_table("7fff 0001", NULL, any, "has no P_Key 0x8001");
    check_table("7fff 8001", "7fff", any, "has P_Key 0x8001, but its switch does not let it pass");
    check_table("0001 7fff", NULL, first, NULL);
    check_table("7fff 0001", NULL, first, "has P_Key 0x0001 at index 1, not 0");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strdup_printf("/control/plan/%s", cases[i].name);
        g_test_add_data_func(path, &cases[i], test_plan);
    }
    for (gsize i = 0; i < G_N_ELEMENTS(outcasts); i++) {
        g_autofree char *path = g_strdup_printf("/control/outcasts/%s", outcasts[i].name);
        g_test_add_data_func(path, &outcasts[i], test_outcasts);
    }
    g_test_add_func("/control/jobs/turns", test_job_queue_turns);
    g_test_add_func("/control/jobs/joined", test_job_queue_joined);
    g_test_add_func("/control/jobs/queue-bounds", test_job_queue_bounds);
    g_test_add_func("/control/jobs/queue-lasting", test_job_queue_lasting);
    g_test_add_func("/control/jobs/bounds", test_jobs_bounds);
    g_test_add_func("/control/jobs/purposes", test_jobs_purposes);
    g_test_add_func("/control/jobs/deadline", test_jobs_deadline);
    g_test_add_func("/control/jobs/deadline-after-waiting", test_jobs_deadline_after_waiting);
    g_test_add_func("/control/jobs/guarded-when-they-begin", test_jobs_guarded_when_they_begin);
    g_test_add_func("/control/jobs/free-while-busy", test_jobs_free_while_busy);
    g_test_add_func("/control/wiring", test_wiring);
    g_test_add_func("/control/wiring/generation", test_wiring_generation);
    g_test_add_func("/control/wiring/guard", test_wiring_guard);
    g_test_add_func("/control/ports/reading", test_ports);
    g_test_add_func("/control/ports/shared", test_ports_shared);
    g_test_add_func("/control/ports/failing", test_ports_failing);
    g_test_add_func("/control/ports/free-while-busy", test_ports_free_while_busy);
    g_test_add_func("/control/ports/wishes", test_port_wishes);
    return g_test_run();
}
