#include "gate.h"
#include "clock.h"
#include "doctor.h"
#include "dry-run.h"
#include "errors.h"
#include "fabric-view.h"
#include "turns.h"
#include "yaml.h"

#include <unistd.h>

#define SESSION_DEADLINE (20 * (gint64)G_USEC_PER_SEC) /* a node that is up answers at once, or something is wrong */

/* Somebody's question, until it is answered. */
typedef struct Call {
    WeftControl *control;
    GCancellable *cancellable; /* NULL: it cannot be cancelled */
    WeftGateOpened opened;
    WeftGateReported reported;
    gpointer data;
    char *subject;    /* the host or the cluster that it is about */
    guint pending;    /* hosts that have not told yet */
    json_t *report;   /* what is known so far */
    GPtrArray *views; /* WeftView; NULL: none */
    GError *error;    /* to be told later */
    guint idle;
} Call;

typedef struct Gate {
    WeftGate base;
    WeftControl *control;
    GHashTable *calls; /* set of Call */
} Gate;

static void
call_free(gpointer data)
{
    Call *call = data;
    g_clear_handle_id(&call->idle, g_source_remove);
    g_clear_object(&call->cancellable);
    g_clear_error(&call->error);
    json_decref(call->report);
    g_clear_pointer(&call->views, g_ptr_array_unref);
    g_free(call->subject);
    g_free(call);
}

static Call *
call_new(WeftGate *base, GCancellable *cancellable, gpointer data)
{
    Gate *gate = (Gate *)base;
    Call *call = g_new0(Call, 1);
    call->control = gate->control;
    call->cancellable = cancellable ? g_object_ref(cancellable) : NULL;
    call->data = data;
    g_hash_table_add(gate->calls, call);
    return call;
}

static Call *
call_report(WeftGate *base, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    Call *call = call_new(base, cancellable, data);
    call->reported = reported;
    return call;
}

static gboolean
add_view(Call *call, WeftViewKind kind, const char *fabric, WeftViewed done, GError **error)
{
    WeftView *view = weft_view_new(call->control, kind, fabric, done, call, error);
    if (!call->views)
        call->views = g_ptr_array_new_with_free_func((GDestroyNotify)weft_view_free);
    if (view)
        g_ptr_array_add(call->views, view);
    return view != NULL;
}

/* Once, unless it was cancelled; whoever asked may free everything in its callback. */
static void
end(Call *call, int fd, const GError *error)
{
    GHashTable *calls = ((Gate *)call->control->gate)->calls;
    g_hash_table_steal(calls, call);
    gboolean cancelled = g_cancellable_is_cancelled(call->cancellable);
    if (cancelled && fd >= 0)
        close(fd);
    else if (!cancelled && call->opened)
        call->opened(fd, error, call->data);
    else if (!cancelled)
        call->reported(error ? NULL : call->report, error, call->data);
    call_free(call);
}

static gboolean
end_later(gpointer data)
{
    Call *call = data;
    call->idle = 0;
    end(call, -1, call->error);
    return G_SOURCE_REMOVE;
}

/* Takes the error over; NULL: the report is complete. */
static void
end_soon(Call *call, GError *error)
{
    call->error = error;
    call->idle = g_idle_add(end_later, call);
}

/* --- into a node --- */

static void
connected(int fd, const char *output, const GError *error, gpointer data)
{
    end(data, fd, error);
}

static void
console_opened(WeftJob *job, const GError *error)
{
    int fd = job->fd;
    job->fd = -1;
    g_autoptr(GError) stopped = NULL;
    if (error && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        stopped = g_error_new_literal(WEFT_ERROR, WEFT_ERROR_CONFLICT, error->message);
    end(job->owner, fd, stopped ? stopped : error);
}

static void
open_console(Call *call, const WeftLinkAddress *address)
{
    WeftJob *job = weft_job_new(WEFT_STEP_OPEN, address->host, address->uri, address->domain);
    job->channel = WEFT_CHANNEL_CONSOLE;
    job->deadline = call->control->options.list_deadline;
    job->owner = call;
    job->done = console_opened;
    weft_jobs_submit(call->control->jobs, job);
}

/* A console tells also of one that does not answer yet. */
static gboolean
may_open(const WeftNode *node, WeftGateKind kind)
{
    return node->phase == WEFT_NODE_UP || node->phase == WEFT_NODE_READY ||
           (kind == WEFT_GATE_CONSOLE && node->phase == WEFT_NODE_CLAIMED);
}

static void
gate_open(WeftGate *gate, const char *node_id, WeftGateKind kind, GCancellable *cancellable, WeftGateOpened opened,
          gpointer data)
{
    GError *error = NULL;
    Call *call = call_new(gate, cancellable, data);
    call->opened = opened;
    WeftControl *control = call->control;
    g_autoptr(WeftNode) node = weft_store_load_node(control->store, node_id, NULL, &error);
    const WeftHost *host = node ? weft_fleet_host(control->fleet, node->host) : NULL;
    if (node && (!host || !may_open(node, kind)))
        g_set_error(&error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "node %s is %s", node->id, weft_node_phase_words[node->phase]);
    if (!host || error) {
        end_soon(call, error);
        return;
    }
    g_autofree char *domain = weft_node_domain(node);
    WeftLinkAddress address = { node->id, domain, host->name, host->uri, node->boot };
    if (kind == WEFT_GATE_CONSOLE)
        open_console(call, &address);
    else
        weft_links_want(control->links, &address,
                        &(WeftLinkAsk){ .connect = TRUE, .deadline = SESSION_DEADLINE, .done = connected, .data = call });
}

/* --- what is missing --- */

static void
examined(WeftJob *job, const GError *error)
{
    Call *call = job->owner;
    const WeftHost *host = weft_fleet_host(call->control->fleet, call->subject);
    g_autoptr(GError) gone = NULL;
    if (!error && !host)
        gone = g_error_new(WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "there is no host %s any more", call->subject);
    if (!error && host)
        call->report = weft_doctor(host, job->inventory);
    end(call, -1, error ? error : gone);
}

/* What belongs to no host. */
static json_t *
examine_site(const WeftControl *control)
{
    json_t *checks = json_array();
    weft_subnets_examine(control->subnets, checks);
    if (control->options.bare)
        weft_doctor_add(checks, "hypervisor", WEFT_HEALTH_WARN, "hypervisor: { driver: libvirt } in weft.yaml",
                        "driver %s: hosts are folders, and nothing runs", control->hv->ops->name);
    else
        weft_doctor_add(checks, "hypervisor", WEFT_HEALTH_OK, NULL, "driver %s", control->hv->ops->name);
    if (control->options.guest)
        weft_doctor_add(checks, "guest program", WEFT_HEALTH_OK, NULL, "%" G_GSIZE_FORMAT " bytes",
                        g_bytes_get_size(control->options.guest));
    return json_pack("{s:n, s:o}", "host", "checks", checks);
}

/* Their managers are asked before the report is complete. */
static void
fabric_examined(json_t *report, const GError *error, gpointer data)
{
    Call *call = data;
    json_array_extend(json_object_get(call->report, "checks"), json_object_get(report, "checks"));
    if (--call->pending == 0)
        end(call, -1, error);
}

static void
examine_fabrics(Call *call)
{
    GError *error = NULL;
    call->report = examine_site(call->control);
    WeftQuery query = { .kind = WEFT_KIND_FABRIC };
    g_autoptr(GPtrArray) records = weft_store_list(call->control->store, &query, &error);
    for (guint i = 0; records && i < records->len; i++)
        call->pending += add_view(call, WEFT_VIEW_HEALTH, ((const WeftRecord *)records->pdata[i])->key, fabric_examined, NULL);
    if (call->pending == 0)
        end_soon(call, error);
}

static void
gate_doctor(WeftGate *gate, const char *name, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    Call *call = call_new(gate, cancellable, data);
    WeftControl *control = call->control;
    call->reported = reported;
    call->subject = g_strdup(name);
    if (!name) {
        examine_fabrics(call);
        return;
    }
    const WeftHost *host = weft_fleet_host(control->fleet, name);
    if (!host) {
        end_soon(call, g_error_new(WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "there is no host %s", name));
        return;
    }
    WeftJob *job = weft_job_new(WEFT_STEP_INSPECT, host->name, host->uri, NULL);
    job->deadline = control->options.list_deadline;
    job->owner = call;
    job->done = examined;
    weft_jobs_submit(control->jobs, job);
}

/* --- how busy --- */

static void
add_load(json_t *nodes, const char *cluster, const GPtrArray *domains)
{
    g_autofree char *prefix = g_strdup_printf("%s-", cluster);
    for (guint i = 0; i < domains->len; i++) {
        const WeftDomain *domain = domains->pdata[i];
        if (!domain->node || !g_str_has_prefix(domain->node, prefix) || domain->state != WEFT_DOMAIN_RUNNING ||
            !domain->cpu_time)
            continue;
        json_array_append_new(nodes,
                              json_pack("{s:s, s:f, s:I, s:I}", "id", domain->node, "cpu", (double)domain->cpu_time / 1e9,
                                        "time", (json_int_t)weft_clock_now(), "memory", (json_int_t)domain->memory));
    }
}

/* A host that does not answer leaves its nodes out. */
static void
weighed(WeftJob *job, const GError *error)
{
    Call *call = job->owner;
    if (!error)
        add_load(json_object_get(call->report, "nodes"), call->subject, job->contents->domains);
    if (--call->pending == 0)
        end(call, -1, NULL);
}

static GHashTable *
hosts_of(const WeftControl *control, const char *cluster, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = cluster };
    g_autoptr(GPtrArray) records = weft_store_list(control->store, &query, error);
    g_autoptr(GHashTable) hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftNode) node = weft_record_node(records->pdata[i], error);
        if (!node)
            return NULL;
        g_hash_table_add(hosts, g_steal_pointer(&node->host));
    }
    return records ? g_steal_pointer(&hosts) : NULL;
}

static void
gate_load(WeftGate *gate, const char *cluster_id, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    GError *error = NULL;
    Call *call = call_new(gate, cancellable, data);
    WeftControl *control = call->control;
    call->reported = reported;
    call->subject = g_strdup(cluster_id);
    call->report = json_pack("{s:[]}", "nodes");
    g_autoptr(GHashTable) hosts = hosts_of(control, cluster_id, &error);
    GHashTableIter iter;
    gpointer name;
    if (hosts)
        g_hash_table_iter_init(&iter, hosts);
    while (hosts && g_hash_table_iter_next(&iter, &name, NULL)) {
        const WeftHost *host = weft_fleet_host(control->fleet, name);
        if (!host)
            continue;
        WeftJob *job = weft_job_new(WEFT_STEP_LIST, host->name, host->uri, NULL);
        job->deadline = control->options.list_deadline;
        job->owner = call;
        job->done = weighed;
        call->pending++;
        weft_jobs_submit(control->jobs, job);
    }
    if (!call->pending)
        end_soon(call, error);
}

/* --- fabrics --- */

static void
viewed(json_t *report, const GError *error, gpointer data)
{
    Call *call = data;
    call->report = json_incref(report);
    end(call, -1, error);
}

static void
view(Call *call, WeftViewKind kind, const char *fabric)
{
    GError *error = NULL;
    if (!add_view(call, kind, fabric, viewed, &error))
        end_soon(call, error);
}

static void
gate_fabric(WeftGate *gate, const char *fabric, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    view(call_report(gate, cancellable, reported, data), WEFT_VIEW_FABRIC, fabric);
}

static void
gate_partitions(WeftGate *gate, const char *fabric, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    view(call_report(gate, cancellable, reported, data), WEFT_VIEW_PARTITIONS, fabric);
}

static void
gate_tables(WeftGate *gate, const char *fabric, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    view(call_report(gate, cancellable, reported, data), WEFT_VIEW_TABLES, fabric);
}

static void
gate_topology(WeftGate *gate, const char *fabric, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    view(call_report(gate, cancellable, reported, data), WEFT_VIEW_TOPOLOGY, fabric);
}

/* --- where it would be --- */

static void
gate_place(WeftGate *gate, const char *wish, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    GError *error = NULL;
    Call *call = call_report(gate, cancellable, reported, data);
    json_t *json = weft_json_parse(wish, strlen(wish), &error);
    g_autoptr(WeftCluster) cluster = json ? weft_cluster_from_json(json, &error) : NULL;
    json_decref(json);
    if (cluster)
        call->report = weft_dry_run(call->control, cluster);
    end_soon(call, error);
}

/* --- who waits --- */

static void
gate_queue(WeftGate *gate, const char *tenant, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    Call *call = call_report(gate, cancellable, reported, data);
    call->report = weft_turns_view(call->control->turns, tenant);
    end_soon(call, NULL);
}

/* --- life --- */

static const WeftGateOps ops = { .open = gate_open,
                                 .doctor = gate_doctor,
                                 .load = gate_load,
                                 .fabric = gate_fabric,
                                 .partitions = gate_partitions,
                                 .tables = gate_tables,
                                 .topology = gate_topology,
                                 .place = gate_place,
                                 .queue = gate_queue };

WeftGate *
weft_control_gate_new(WeftControl *control)
{
    Gate *gate = g_new0(Gate, 1);
    gate->base.ops = &ops;
    gate->control = control;
    gate->calls = g_hash_table_new_full(NULL, NULL, call_free, NULL);
    return &gate->base;
}

void
weft_control_gate_free(WeftGate *gate)
{
    Gate *self = (Gate *)gate;
    if (!self)
        return;
    g_hash_table_unref(self->calls);
    g_free(self);
}

WeftGate *
weft_control_gate(WeftControl *control)
{
    return control->gate;
}
