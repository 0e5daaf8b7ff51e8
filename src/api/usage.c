#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "records.h"
#include "request.h"

#include <math.h>

#define PAGE 500

typedef struct {
    double node_seconds;
    double core_seconds;
    double gpu_seconds;
    double vf_seconds;
    double memory_gib_seconds;
    guint64 nodes;
} Sum;

/* Years of usage are read a page at a time: memory is bounded, and so is what is done for a client that is gone. The open
 * intervals come first: a node that is released meanwhile has a closed one then, which must not count again. */
typedef struct {
    WeftRequest *request;
    const char *tenant; /* NULL: all */
    gint64 from;
    gint64 to;
    GHashTable *sums; /* tenant → Sum */
    GHashTable *open; /* ids of nodes that were counted */
} Job;

typedef gboolean (*AddRecord)(Job *job, const WeftRecord *record, GError **error);

static Sum *
sum_of(Job *job, const char *tenant)
{
    Sum *sum = g_hash_table_lookup(job->sums, tenant);
    if (!sum) {
        sum = g_new0(Sum, 1);
        g_hash_table_insert(job->sums, g_strdup(tenant), sum);
    }
    return sum;
}

static void
add_interval(Job *job, const WeftUsage *usage)
{
    gint64 length = MIN(usage->end, job->to) - MAX(usage->start, job->from);
    if (length <= 0)
        return;
    double seconds = (double)length / G_USEC_PER_SEC;
    Sum *sum = sum_of(job, usage->tenant);
    sum->nodes++;
    sum->node_seconds += seconds;
    sum->core_seconds += seconds * usage->cores;
    sum->gpu_seconds += seconds * usage->gpus;
    sum->vf_seconds += seconds * usage->vfs;
    sum->memory_gib_seconds += seconds * ((double)usage->memory / (1 << 30));
}

static gboolean
add_node(Job *job, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftNode) node = weft_record_node(record, error);
    if (!node)
        return FALSE;
    g_autoptr(WeftUsage) usage = weft_usage_of(node, job->to);
    add_interval(job, usage);
    g_hash_table_add(job->open, g_strdup(node->id));
    return TRUE;
}

/* A tenant's nodes are found by its clusters. */
static gboolean
add_cluster(Job *job, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_record_cluster(record, error);
    if (!cluster)
        return FALSE;
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = cluster->id };
    g_autoptr(GPtrArray) nodes = weft_store_list(job->request->store, &query, error);
    for (guint i = 0; nodes && i < nodes->len; i++)
        if (!add_node(job, nodes->pdata[i], error))
            return FALSE;
    return nodes != NULL;
}

static gboolean
add_closed(Job *job, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftUsage) usage = weft_record_usage(record, error);
    if (!usage)
        return FALSE;
    if (!g_hash_table_contains(job->open, usage->node))
        add_interval(job, usage);
    return TRUE;
}

static json_t *
rounded(double seconds)
{
    return json_real(round(seconds * 1000) / 1000);
}

static json_t *
sum_view(const char *tenant, const Sum *sum)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:I}", "tenant", tenant, "node_seconds", rounded(sum->node_seconds),
                     "core_seconds", rounded(sum->core_seconds), "gpu_seconds", rounded(sum->gpu_seconds), "vf_seconds",
                     rounded(sum->vf_seconds), "memory_gib_seconds", rounded(sum->memory_gib_seconds), "nodes",
                     (json_int_t)sum->nodes);
}

static json_t *
job_view(const Job *job)
{
    json_t *tenants = json_array();
    g_autoptr(GList) names = g_list_sort(g_hash_table_get_keys(job->sums), (GCompareFunc)strcmp);
    for (GList *name = names; name; name = name->next)
        json_array_append_new(tenants, sum_view(name->data, g_hash_table_lookup(job->sums, name->data)));
    g_autofree char *from = weft_clock_format(job->from);
    g_autofree char *to = weft_clock_format(job->to);
    return json_pack("{s:s, s:s, s:o}", "from", from, "to", to, "tenants", tenants);
}

static gboolean
add_all(Job *job, WeftKind kind, AddRecord add, GError **error)
{
    g_autofree char *after = NULL;
    guint found;
    do {
        WeftQuery query = { .kind = kind, .scope = job->tenant, .after = after, .limit = PAGE };
        g_autoptr(GPtrArray) records = weft_store_list(job->request->store, &query, error);
        if (!records)
            return FALSE;
        found = records->len;
        for (guint i = 0; i < found; i++)
            if (!add(job, records->pdata[i], error))
                return FALSE;
        g_free(after);
        after = found ? g_strdup(((const WeftRecord *)records->pdata[found - 1])->key) : NULL;
    } while (found == PAGE && !weft_request_is_gone(job->request));
    return TRUE;
}

static gboolean
sum_up(Job *job, GError **error)
{
    gboolean opened =
        job->tenant ? add_all(job, WEFT_KIND_CLUSTER, add_cluster, error) : add_all(job, WEFT_KIND_NODE, add_node, error);
    return opened && add_all(job, WEFT_KIND_USAGE, add_closed, error);
}

static gboolean
read_time(const WeftRequest *request, const char *name, gint64 *time, GError **error)
{
    const char *text = weft_request_query(request, name);
    if (!text || weft_clock_parse(text, time, error))
        return TRUE;
    g_prefix_error(error, "%s: ", name);
    return FALSE;
}

gboolean
weft_handle_usage(WeftRequest *request, GError **error)
{
    gint64 from = 0, since = 0, now = weft_clock_now(), to = now;
    const char *tenant = NULL;
    if (!weft_request_scope(request, &tenant, error) || !weft_request_since(request, &since, error) ||
        !read_time(request, "from", &from, error) || !read_time(request, "to", &to, error))
        return FALSE;
    if (from > to) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "from: %s is after to", weft_request_query(request, "from"));
        return FALSE;
    }
    g_autoptr(GHashTable) sums = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_autoptr(GHashTable) open = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    Job job = { request, tenant, MAX(from, since), MIN(to, now), sums, open };
    if (tenant)
        g_hash_table_insert(sums, g_strdup(tenant), g_new0(Sum, 1));
    return sum_up(&job, error) && weft_request_reply(request, weft_reply_new(200, job_view(&job)));
}
