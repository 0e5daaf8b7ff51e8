#include "text.h"
#include "work.h"

#define TELL_AFTER (G_USEC_PER_SEC / 2) /* with the next commit, or by then with one of its own */

typedef enum { JOINED, BROUGHT, STARTED, ANSWERED, MILESTONES } Milestone;
G_STATIC_ASSERT(MILESTONES == WEFT_MILESTONES);

/* One line for each, however many nodes there are. */
static const struct {
    const char *type;
    const char *thing; /* that is counted */
    const char *before;
    const char *after;
} milestones[MILESTONES] = {
    [JOINED] = { "cluster-joined", "host", "", " joined its network" },
    [BROUGHT] = { "cluster-brought", "host", "its image is on ", "" },
    [STARTED] = { "cluster-started", "node", "", " started" },
    [ANSWERED] = { "cluster-answered", "node", "", " answered from inside" },
};

typedef struct Tally {
    guint nodes; /* that are to stay */
    guint prepared, started, answered, ready;
} Tally;

static Tally
count(const WeftWork *work)
{
    Tally tally = { 0 };
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        WeftNodePhase phase = item->node->phase;
        if (phase == WEFT_NODE_STOPPING || phase == WEFT_NODE_LOST)
            continue;
        gboolean answered = phase == WEFT_NODE_UP || phase == WEFT_NODE_READY;
        tally.nodes++;
        tally.prepared += answered || item->started || weft_work_is_prepared(work, item->node);
        tally.started += answered || item->started;
        tally.answered += answered;
        tally.ready += phase == WEFT_NODE_READY;
    }
    return tally;
}

/* A set of bits. */
static guint
reached(const WeftWork *work, const Tally *tally)
{
    return (guint)work->connected << JOINED | (guint)(tally->prepared == tally->nodes) << BROUGHT |
           (guint)(tally->started == tally->nodes) << STARTED | (guint)(tally->answered == tally->nodes) << ANSWERED;
}

static void
take_note(WeftWork *work, guint now_reached)
{
    gint64 now = g_get_monotonic_time();
    for (guint i = 0; i < MILESTONES; i++)
        if (now_reached & ~work->reached & (1u << i))
            work->reached_after[i] = now - work->round;
    work->untold |= now_reached & ~work->reached;
    work->reached |= now_reached;
    if (work->untold && !work->tell_at)
        work->tell_at = now + TELL_AFTER;
    if (work->untold)
        weft_work_wake_at(work, work->tell_at);
}

/* A round goes from the first node that is to start to all that are ready. What is so already when it begins is no news. */
void
weft_work_note(WeftWork *work)
{
    Tally tally = count(work);
    if (!tally.nodes || work->cluster->deleted || (tally.ready == tally.nodes && !work->untold)) {
        work->round = work->tell_at = 0;
        work->untold = 0;
    } else if (work->round) {
        take_note(work, reached(work, &tally));
    } else if (tally.answered < tally.nodes) {
        work->round = g_get_monotonic_time();
        work->reached = reached(work, &tally);
    }
}

gboolean
weft_work_has_news(const WeftWork *work)
{
    return work->untold && work->tell_at <= g_get_monotonic_time();
}

void
weft_work_tell(WeftWork *work, WeftTxn *txn)
{
    for (guint i = 0; work->untold && i < MILESTONES; i++) {
        if (!(work->untold & (1u << i)))
            continue;
        gboolean hosts = i == JOINED || i == BROUGHT;
        g_autofree char *things = weft_text_count(hosts ? work->peers->len : count(work).nodes, milestones[i].thing);
        weft_txn_tell(txn, milestones[i].type, work->cluster, NULL, "%s%s%s (%.1f s)", milestones[i].before, things,
                      milestones[i].after, (double)work->reached_after[i] / G_USEC_PER_SEC);
    }
    work->untold = 0;
    work->tell_at = 0;
}

void
weft_work_tell_event(const WeftWork *work, WeftTxn *txn, const char *type, const WeftNode *node, const char *detail,
                     const char *format, ...)
{
    const WeftCluster *cluster = work->cluster;
    va_list args;
    va_start(args, format);
    g_autofree char *words = g_strdup_vprintf(format, args);
    va_end(args);
    g_autofree char *label = node ? weft_node_label(node) : g_strdup("");
    g_autofree char *message = g_strconcat(label, words, NULL);
    WeftEvent event = { .type = (char *)type,
                        .tenant = cluster->tenant,
                        .cluster = cluster->id,
                        .cluster_name = cluster->name,
                        .host = node ? node->host : NULL,
                        .message = message,
                        .detail = (char *)detail };
    weft_txn_put_event(txn, &event);
}
