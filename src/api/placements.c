/* Where a cluster would be, without asking for it. */
#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "problem.h"
#include "request.h"
#include "views.h"

#define TRIAL_SECONDS 25 /* less than clients wait */

/* Which hosts there are is not a tenant's to know, as everywhere: numbers tell what is together. */
static const char *const hidden[] = { "host", "leaf", "core_ids", "memory_nodes", "devices", "gpu_ids" };

static void
hide(json_t *node)
{
    for (guint i = 0; i < G_N_ELEMENTS(hidden); i++)
        json_object_del(node, hidden[i]);
}

static json_t *
placement_view(json_t *report, gboolean all)
{
    json_t *view = json_deep_copy(report), *when = json_object_get(view, "when"), *node;
    gsize i;
    json_object_del(view, "spent");
    g_autofree char *time = json_is_integer(when) ? weft_clock_format(json_integer_value(when)) : NULL;
    if (time)
        json_object_set_new(view, "when", json_string(time));
    if (!all)
        json_array_foreach (json_object_get(view, "nodes"), i, node)
            hide(node);
    return view;
}

/* A request for a dry run that is being computed. */
typedef struct Trial {
    WeftRequest *request;
    WeftShare *share;
    GCancellable *cancellable;
    guint deadline;
} Trial;

static void
trial_end(gpointer data)
{
    Trial *trial = data;
    WeftRequest *request = trial->request;
    weft_request_hold(request, NULL, NULL);
    g_cancellable_cancel(trial->cancellable);
    g_object_unref(trial->cancellable);
    g_clear_handle_id(&trial->deadline, g_source_remove);
    weft_share_free(trial->share);
    g_free(trial);
    weft_request_unref(request);
}

static gboolean
on_deadline(gpointer data)
{
    Trial *trial = data;
    trial->deadline = 0;
    g_autoptr(GError) error = NULL;
    weft_problem_refuse(&error, WEFT_ERROR_TIMEOUT, "no answer in %d s", TRIAL_SECONDS);
    weft_request_fail(trial->request, error);
    trial_end(trial);
    return G_SOURCE_REMOVE;
}

/* thread: a reader */
static void
answer(WeftRequest *request, gpointer report)
{
    weft_request_reply(request, weft_reply_new(200, placement_view(report, weft_request_sees_all(request))));
}

static void
report_free(gpointer report)
{
    json_decref(report);
}

static void
tried(json_t *report, const GError *error, gpointer data)
{
    Trial *trial = data;
    WeftRequest *request = trial->request;
    g_auto(WeftMeter) meter = weft_meter_start(request);
    weft_request_charge(request, json_integer_value(json_object_get(report, "spent")));
    if (error)
        weft_request_fail(request, error);
    else
        weft_readers_add(request, answer, json_incref(report), report_free);
    trial_end(trial);
}

static void
begin(WeftRequest *request, gpointer data)
{
    WeftCluster *cluster = data;
    g_autoptr(GError) busy = NULL;
    WeftShare *share = weft_request_take(request, WEFT_SHARE_TRIALS, &busy);
    if (!share) {
        weft_cluster_free(cluster);
        weft_request_fail(request, busy);
        return;
    }
    Trial *trial = g_new0(Trial, 1);
    trial->share = share;
    trial->request = weft_request_ref(request);
    trial->cancellable = g_cancellable_new();
    trial->deadline = g_timeout_add_seconds(TRIAL_SECONDS, on_deadline, trial);
    weft_request_hold(request, trial, trial_end);
    request->gate->ops->place(request->gate, cluster, weft_request_sees_all(request), trial->cancellable, tried, trial);
}

gboolean
weft_handle_placement_try(WeftRequest *request, GError **error)
{
    g_autoptr(WeftTenant) tenant = weft_request_tenant(request, NULL, error);
    g_autoptr(WeftCluster) cluster = tenant ? weft_read_wish(request, tenant, NULL, error) : NULL;
    if (!cluster)
        return FALSE;
    if (!request->gate)
        return weft_problem_refuse(error, WEFT_ERROR_UNAVAILABLE, "this weftd has no way to its hosts");
    return weft_request_go_on(request, begin, g_steal_pointer(&cluster), (GDestroyNotify)weft_cluster_free);
}
