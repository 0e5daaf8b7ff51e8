#include "gate.h"
#include "clock.h"
#include "doctor.h"
#include "errors.h"
#include "fabric-view.h"
#include "held.h"
#include "probes.h"
#include "trials.h"
#include "turns.h"
#include "watchdog.h"

#include <unistd.h>

#define LOOKS_AT_ONCE 16                               /* of one question: a large cluster does not fill the queue for others */
#define SESSION_DEADLINE (20 * (gint64)G_USEC_PER_SEC) /* a node that is up answers at once, or something is wrong */

/* Somebody's question, until it is answered or whoever asked has gone. */
typedef struct Call {
    WeftControl *control;
    GCancellable *cancellable; /* NULL: it cannot be cancelled */
    gulong on_cancelled;
    WeftGateOpened opened;
    WeftGateReported reported;
    gpointer data;
    char *subject;    /* the host, the node or the cluster that it is about */
    GPtrArray *hosts; /* names of those to look at that have not been asked; NULL: none */
    GPtrArray *looks; /* Look, under way */
    WeftJob *console; /* that is being opened; NULL: none */
    gboolean linked;  /* the subject's link is asked for a session */
    gboolean kept;    /* by something that cannot be taken back, and will end it */
    guint pending;    /* fabrics that have not told yet */
    json_t *report;   /* what is known so far */
    GPtrArray *views; /* WeftView; NULL: none */
    GError *error;    /* to be told later */
    guint idle;
} Call;

typedef struct Look {
    Call *call;
    WeftProbe *probe;
} Look;

typedef struct Gate {
    WeftGate base;
    WeftControl *control;
    WeftProbes *probes;
    GHashTable *calls; /* set of Call */
} Gate;

static Gate *
gate_of(const Call *call)
{
    return (Gate *)call->control->gate;
}

static void
stop_listening(Call *call)
{
    if (call->on_cancelled)
        g_signal_handler_disconnect(call->cancellable, call->on_cancelled);
    call->on_cancelled = 0;
}

static void
call_free(gpointer data)
{
    Call *call = data;
    g_clear_handle_id(&call->idle, g_source_remove);
    stop_listening(call);
    g_clear_object(&call->cancellable);
    g_clear_pointer(&call->hosts, g_ptr_array_unref);
    g_ptr_array_unref(call->looks);
    g_clear_error(&call->error);
    json_decref(call->report);
    g_clear_pointer(&call->views, g_ptr_array_unref);
    g_free(call->subject);
    g_free(call);
}

/* Whoever asked has gone: what was to be done for it is taken back, and what cannot be taken back ends without it. */
static void
call_cancelled(GCancellable *cancellable, Call *call)
{
    for (guint i = 0; i < call->looks->len; i++)
        weft_probe_cancel(((Look *)call->looks->pdata[i])->probe);
    g_ptr_array_set_size(call->looks, 0);
    if (call->console && !weft_jobs_withdraw(call->control->jobs, call->console)) {
        call->console->owner = NULL;
        g_cancellable_cancel(call->console->cancellable);
    }
    if (call->linked)
        weft_links_forget(call->control->links, call->subject, call);
    for (guint i = 0; call->views && i < call->views->len; i++)
        weft_view_cancel(call->views->pdata[i]);
    if (!call->kept) {
        g_hash_table_steal(gate_of(call)->calls, call);
        call_free(call);
    }
}

static Call *
call_new(WeftGate *base, GCancellable *cancellable, gpointer data)
{
    Gate *gate = (Gate *)base;
    Call *call = g_new0(Call, 1);
    call->control = gate->control;
    call->cancellable = cancellable ? g_object_ref(cancellable) : NULL;
    call->on_cancelled = cancellable ? g_signal_connect(cancellable, "cancelled", G_CALLBACK(call_cancelled), call) : 0;
    call->looks = g_ptr_array_new_with_free_func(g_free);
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

/* An order cannot be called off: what is written is written, also for somebody who has gone. */
static Call *
call_order(WeftGate *base, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    Call *call = call_report(base, cancellable, reported, data);
    call->kept = TRUE;
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
    call->kept |= view != NULL;
    return view != NULL;
}

/* Once, unless it was cancelled; whoever asked may free everything in its callback. */
static void
end(Call *call, int fd, const GError *error)
{
    g_hash_table_steal(gate_of(call)->calls, call);
    stop_listening(call);
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
    call->idle = g_idle_add_full(G_PRIORITY_DEFAULT, end_later, call, NULL); /* the reconciler may be busy for long */
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
    if (!job->owner)
        return; /* and the descriptor is closed with the job */
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
    job->asked = TRUE;
    job->deadline = call->control->options.list_deadline;
    job->owner = call;
    job->done = console_opened;
    call->console = job;
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
    if (kind == WEFT_GATE_CONSOLE) {
        open_console(call, &address);
    } else {
        call->subject = g_strdup(node->id);
        call->linked = TRUE;
        weft_links_want(control->links, &address,
                        &(WeftLinkAsk){ .connect = TRUE, .deadline = SESSION_DEADLINE, .done = connected, .data = call });
    }
}

/* --- looks --- */

static void
look_at(Call *call, WeftStepType step, const WeftHost *host, WeftProbed looked)
{
    Look *look = g_new0(Look, 1);
    look->call = call;
    look->probe = weft_probe_ask(gate_of(call)->probes, step, &(WeftHostAddress){ host->name, host->uri }, looked, look);
    g_ptr_array_add(call->looks, look);
}

/* The call of a look that has ended. */
static Call *
look_end(Look *look)
{
    Call *call = look->call;
    g_ptr_array_remove_fast(call->looks, look);
    return call;
}

/* --- what is missing --- */

/* An operator may have taken a device out of quarantine, which nothing else tells. */
static void
take_note(WeftControl *control, const WeftJob *job)
{
    const WeftInventory *known = weft_hosts_inventory(control->hosts, job->host, NULL);
    json_t *before = known ? json_object_get(known->hook, "quarantine") : NULL;
    json_t *now = job->inventory ? json_object_get(job->inventory->hook, "quarantine") : NULL;
    if (json_array_size(before) != json_array_size(now) || (before && now && !json_equal(before, now)))
        weft_hosts_hardware_changed(control->hosts, job->host);
}

static void
examined(WeftJob *job, const GError *error, gpointer data)
{
    Call *call = look_end(data);
    const WeftHost *host = weft_fleet_host(call->control->fleet, call->subject);
    g_autoptr(GError) gone = NULL;
    if (!error && !host)
        gone = g_error_new(WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "there is no host %s any more", call->subject);
    if (!error && host) {
        const char *remedy = NULL;
        g_autofree char *held = weft_hosts_held(call->control->hosts, host->name, &remedy);
        call->report = weft_doctor(host, job->inventory);
        take_note(call->control, job);
        if (held)
            weft_doctor_add(json_object_get(call->report, "checks"), "held", WEFT_HEALTH_FAIL, remedy, "%s", held);
    }
    end(call, -1, error ? error : gone);
}

#define RECENT (15 * 60 * (gint64)G_USEC_PER_SEC)

/* Does the main loop come round in time? */
static void
examine_loop(json_t *checks)
{
    WeftWatchdogFigures figures = weft_watchdog_read();
    if (!figures.last || g_get_real_time() - figures.last > RECENT) {
        weft_doctor_add(checks, "main loop", WEFT_HEALTH_OK, NULL,
                        "%" G_GUINT64_FORMAT " slices over %d ms and %" G_GUINT64_FORMAT
                        " turns over %d ms since weftd started, none lately",
                        figures.slices, WEFT_SLICE_MAX / 1000, figures.turns, WEFT_TURN_MAX / 1000);
        return;
    }
    weft_doctor_add(checks, "main loop", WEFT_HEALTH_WARN, "look for «main loop» in weftd's log, and report what it names",
                    "%" G_GUINT64_FORMAT " slices over %d ms and %" G_GUINT64_FORMAT
                    " turns over %d ms since weftd started, the longest slice %d ms: %s",
                    figures.slices, WEFT_SLICE_MAX / 1000, figures.turns, WEFT_TURN_MAX / 1000, (int)(figures.longest / 1000),
                    figures.what);
}

/* What belongs to no host. */
static json_t *
examine_site(const WeftControl *control)
{
    json_t *checks = json_array();
    weft_clock_watch_examine(control->clock, checks);
    weft_subnets_examine(control->subnets, checks);
    if (weft_store_is_full(control->store))
        weft_doctor_add(checks, "store", WEFT_HEALTH_FAIL,
                        "make room on the disk of store.path: weft checkpoints ls and weft image ls tell what lies beside it",
                        "its disk is full: only removals are taken, and what admins ask for");
    else
        weft_doctor_add(checks, "store", WEFT_HEALTH_OK, NULL, "there is room on its disk");
    if (control->options.bare)
        weft_doctor_add(checks, "hypervisor", WEFT_HEALTH_WARN, "hypervisor: { driver: libvirt } in weft.yaml",
                        "driver %s: hosts are folders, and nothing runs", control->hv->ops->name);
    else
        weft_doctor_add(checks, "hypervisor", WEFT_HEALTH_OK, NULL, "driver %s", control->hv->ops->name);
    examine_loop(checks);
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
    look_at(call, WEFT_STEP_INSPECT, host, examined);
}

/* --- how busy --- */

static void
add_load(json_t *nodes, const char *cluster, const GPtrArray *domains, gint64 time)
{
    g_autofree char *prefix = g_strdup_printf("%s-", cluster);
    for (guint i = 0; i < domains->len; i++) {
        const WeftDomain *domain = domains->pdata[i];
        if (!domain->node || !g_str_has_prefix(domain->node, prefix) || domain->state != WEFT_DOMAIN_RUNNING ||
            !domain->cpu_time)
            continue;
        json_array_append_new(nodes,
                              json_pack("{s:s, s:f, s:I, s:I}", "id", domain->node, "cpu", (double)domain->cpu_time / 1e9,
                                        "time", (json_int_t)time, "memory", (json_int_t)domain->memory));
    }
}

static void look_on(Call *call);

/* A host that does not answer leaves its nodes out. */
static void
weighed(WeftJob *job, const GError *error, gpointer data)
{
    Call *call = look_end(data);
    gint64 ago = g_get_monotonic_time() - job->ended;
    if (!error)
        add_load(json_object_get(call->report, "nodes"), call->subject, job->contents->domains, weft_clock_now() - ago);
    look_on(call);
    if (call->looks->len == 0)
        end(call, -1, NULL);
}

static void
look_on(Call *call)
{
    while (call->hosts->len > 0 && call->looks->len < LOOKS_AT_ONCE) {
        g_autofree char *name = g_ptr_array_steal_index_fast(call->hosts, call->hosts->len - 1);
        const WeftHost *host = weft_fleet_host(call->control->fleet, name);
        if (host)
            look_at(call, WEFT_STEP_LIST, host, weighed);
    }
}

/* The names of the hosts that have nodes of it, once each. */
static GPtrArray *
hosts_of(const WeftControl *control, const char *cluster, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = cluster };
    g_autoptr(GPtrArray) records = weft_store_list(control->store, &query, error);
    g_autoptr(GPtrArray) hosts = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *node = records->pdata[i];
        if (g_hash_table_add(known, node->place))
            g_ptr_array_add(hosts, g_strdup(node->place));
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
    call->hosts = hosts_of(control, cluster_id, &error);
    if (call->hosts)
        look_on(call);
    if (call->looks->len == 0)
        end_soon(call, error);
}

/* --- reports that are made elsewhere --- */

static void
report_made(json_t *report, const GError *error, gpointer data)
{
    Call *call = data;
    call->report = json_incref(report);
    end(call, -1, error);
}

/* --- fabrics --- */

static void
view(Call *call, WeftViewKind kind, const char *fabric)
{
    GError *error = NULL;
    if (!add_view(call, kind, fabric, report_made, &error))
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
gate_place(WeftGate *gate, WeftCluster *cluster, gboolean operator, GCancellable * cancellable, WeftGateReported reported,
           gpointer data)
{
    Call *call = call_report(gate, cancellable, reported, data);
    call->kept = TRUE;
    weft_trials_ask(call->control->trials, cluster, operator, cancellable, report_made, call);
}

/* --- who waits --- */

static void
gate_queue(WeftGate *gate, const char *tenant, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    Call *call = call_report(gate, cancellable, reported, data);
    call->report = weft_turns_view(call->control->turns, tenant);
    end_soon(call, NULL);
}

/* --- the clock --- */

static void
gate_clock(WeftGate *gate, const char *nothing, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    Call *call = call_report(gate, cancellable, reported, data);
    call->report = weft_clock_watch_view(call->control->clock);
    end_soon(call, NULL);
}

static void
clock_accepted(const GError *error, gpointer data)
{
    Call *call = data;
    call->report = weft_clock_watch_view(call->control->clock);
    end_soon(call, error ? g_error_copy(error) : NULL);
}

static void
gate_accept_clock(WeftGate *gate, const char *word, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    Call *call = call_order(gate, cancellable, reported, data);
    json_t *json = json_loads(word, 0, NULL);
    weft_clock_watch_accept(call->control->clock, json_string_value(json_object_get(json, "who")),
                            json_integer_value(json_object_get(json, "wall")), clock_accepted, call);
    json_decref(json);
}

/* --- what is held --- */

static void
gate_held(WeftGate *gate, const char *page, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    Call *call = call_report(gate, cancellable, reported, data);
    json_auto_t *json = json_loads(page, 0, NULL);
    call->report = weft_site_held(call->control, json_string_value(json_object_get(json, "after")),
                                  (guint)json_integer_value(json_object_get(json, "limit")));
    end_soon(call, NULL);
}

static void
ordered(const GError *error, gpointer data)
{
    end_soon(data, error ? g_error_copy(error) : NULL);
}

static void
give_order(Call *call, const char *text, void (*carry_out)(WeftControl *, const WeftSiteOrder *, WeftSiteDone, gpointer))
{
    json_auto_t *json = json_loads(text, 0, NULL);
    g_autoptr(GPtrArray) keys = g_ptr_array_new();
    json_t *key;
    gsize i;
    json_array_foreach (json_object_get(json, "keys"), i, key)
        g_ptr_array_add(keys, (gpointer)json_string_value(key));
    const WeftSiteOrder order = { json_string_value(json_object_get(json, "host")), keys,
                                  json_string_value(json_object_get(json, "who")),
                                  json_is_true(json_object_get(json, "dry_run")) };
    call->report = json_object();
    carry_out(call->control, &order, ordered, call);
}

static void
gate_remove_held(WeftGate *gate, const char *order, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    give_order(call_order(gate, cancellable, reported, data), order, weft_site_remove);
}

static void
gate_adopt_held(WeftGate *gate, const char *order, GCancellable *cancellable, WeftGateReported reported, gpointer data)
{
    give_order(call_order(gate, cancellable, reported, data), order, weft_site_adopt);
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
                                 .queue = gate_queue,
                                 .held = gate_held,
                                 .remove_held = gate_remove_held,
                                 .adopt_held = gate_adopt_held,
                                 .clock = gate_clock,
                                 .accept_clock = gate_accept_clock };

WeftGate *
weft_control_gate_new(WeftControl *control)
{
    Gate *gate = g_new0(Gate, 1);
    gate->base.ops = &ops;
    gate->control = control;
    gate->probes = weft_probes_new(control->jobs, control->options.list_deadline);
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
    weft_probes_free(self->probes);
    g_free(self);
}

WeftGate *
weft_control_gate(WeftControl *control)
{
    return control->gate;
}
