/* Those that wait: what they ask for, and coming and going. */
#include "queue-private.h"

#include <string.h>

/* --- kinds --- */

static int
compare_words(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
append_labels(GString *text, GHashTable *labels)
{
    guint n;
    g_autofree char **names = (char **)g_hash_table_get_keys_as_array(labels, &n);
    qsort(names, n, sizeof *names, compare_words);
    for (guint i = 0; i < n; i++)
        g_string_append_printf(text, "|%s=%s", names[i], (const char *)g_hash_table_lookup(labels, names[i]));
}

static void
append_group(GString *text, const WeftGroup *group)
{
    g_string_append_printf(text, "|%u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %u %u %d %d", group->cores, group->memory,
                           group->page_size, group->gpus, group->rails, group->path, group->locality);
}

static void
append_traffic(GString *text, const GArray *traffic)
{
    for (guint i = 0; i < traffic->len; i++) {
        const WeftTraffic *pair = &g_array_index(traffic, WeftTraffic, i);
        g_string_append_printf(text, "|%u-%u:%u", pair->a, pair->b, pair->weight);
    }
}

static char *
find_kind(const WeftPlaceRequest *request)
{
    const WeftCluster *cluster = request->cluster;
    GString *text = g_string_new(NULL);
    g_string_printf(text, "%s|%s|%s|%u|%" G_GUINT64_FORMAT "|%d %d %d %d", cluster->tenant,
                    cluster->fabric ? cluster->fabric : "", request->fabric ? request->fabric : "", request->sl,
                    cluster->bandwidth, cluster->layout, cluster->exclusive, cluster->pattern, cluster->bridged);
    for (guint i = 0; i < cluster->groups->len; i++)
        append_group(text, cluster->groups->pdata[i]);
    if (cluster->labels)
        append_labels(text, cluster->labels);
    for (guint i = 0; cluster->apart && i < cluster->apart->len; i++)
        g_string_append_printf(text, "|!%s", (const char *)cluster->apart->pdata[i]);
    if (cluster->traffic)
        append_traffic(text, cluster->traffic);
    return g_string_free(text, FALSE);
}

/* Whose places depend on where it, or a certain other one, is already. */
static gboolean
is_unlike(const WeftPlaceRequest *request)
{
    return request->fabric || request->avoid || (request->cluster->apart && request->cluster->apart->len > 0);
}

/* --- asks --- */

static void
take_over(WeftWaiter *waiter, const WeftAsk *ask)
{
    guint groups = MIN(ask->request.cluster->groups->len, WEFT_GROUPS_MAX);
    waiter->ask = *ask;
    waiter->ask.key = waiter->key;
    waiter->ask.request.counts = waiter->counts;
    waiter->ask.request.later = TRUE;
    waiter->cores = waiter->nodes = waiter->node_cores = 0;
    for (guint i = 0; i < groups; i++) {
        guint cores = ((const WeftGroup *)ask->request.cluster->groups->pdata[i])->cores;
        waiter->counts[i] = ask->request.counts[i];
        waiter->cores += (guint64)waiter->counts[i] * cores;
        waiter->nodes += waiter->counts[i];
        if (waiter->counts[i] > 0)
            waiter->node_cores = waiter->node_cores == 0 || waiter->node_cores == cores ? cores : 1;
    }
    if (waiter->node_cores <= 1) {
        waiter->node_cores = 1;
        waiter->nodes = (guint)waiter->cores;
    }
}

WeftWaiter *
weft_waiter_new(WeftQueue *queue, const WeftAsk *ask)
{
    WeftWaiter *waiter = g_new0(WeftWaiter, 1);
    waiter->key = g_strdup(ask->key);
    take_over(waiter, ask);
    waiter->kind = find_kind(&ask->request);
    waiter->unlike = is_unlike(&ask->request);
    waiter->tenant = weft_queue_sharer(queue, ask->request.cluster->tenant);
    waiter->pledge.seats = g_array_new(FALSE, FALSE, sizeof(WeftSeat));
    waiter->pledge.spots = g_array_new(FALSE, FALSE, sizeof(WeftSpot));
    waiter->ahead = ++queue->stamp;
    return waiter;
}

void
weft_waiter_free(WeftWaiter *waiter)
{
    if (!waiter)
        return;
    g_array_unref(waiter->pledge.seats);
    g_array_unref(waiter->pledge.spots);
    g_free(waiter->kind);
    g_free(waiter->key);
    g_free(waiter);
}

gboolean
weft_waiter_renew(WeftWaiter *waiter, const WeftAsk *ask)
{
    const WeftAsk *old = &waiter->ask;
    g_autofree char *kind = find_kind(&ask->request);
    gsize counts = MIN(ask->request.cluster->groups->len, WEFT_GROUPS_MAX) * sizeof(guint);
    if (old->since != ask->since || old->priority != ask->priority || old->walltime != ask->walltime ||
        old->preemptible != ask->preemptible || memcmp(waiter->counts, ask->request.counts, counts) != 0 ||
        g_strcmp0(waiter->kind, kind) != 0)
        return FALSE;
    take_over(waiter, ask);
    waiter->unlike = is_unlike(&ask->request);
    return TRUE;
}

void
weft_queue_look_at(WeftQueue *queue, WeftWaiter *waiter)
{
    queue->looks += !waiter->look;
    waiter->look = TRUE;
}

void
weft_queue_refuse(WeftQueue *queue, const char *key)
{
    WeftWaiter *waiter = g_hash_table_lookup(queue->waiters, key);
    if (!waiter)
        return;
    queue->looks -= waiter->look;
    waiter->look = FALSE;
    waiter->wait.why = WEFT_WAIT_REFUSED;
    waiter->barred = TRUE;
}

/* Those that were told to leave go, but for nobody. */
static void
disinherit(WeftQueue *queue, const WeftWaiter *waiter)
{
    for (guint i = 0; waiter->victims > 0 && i < queue->ends->len; i++) {
        WeftRunner *runner = g_array_index(queue->ends, WeftEnd, i).runner;
        if (runner->heir == waiter)
            runner->heir = NULL;
    }
}

void
weft_queue_drop(WeftQueue *queue, WeftWaiter *waiter)
{
    weft_queue_unpromise(queue, waiter);
    disinherit(queue, waiter);
    queue->looks -= waiter->look;
    queue->share |= --waiter->tenant->active == 0;
    g_hash_table_steal(queue->waiters, waiter->key);
    waiter->gone = TRUE;
    if (queue->ops) {
        g_ptr_array_add(queue->gone, waiter);
        return;
    }
    g_ptr_array_remove_index(queue->order, weft_queue_index(queue, waiter));
    weft_waiter_free(waiter);
}
