#include "fabric-view.h"

#include "codec.h"
#include "errors.h"
#include "fabric-doctor.h"
#include "fabric-report.h"
#include "fabric-tables.h"
#include "failpoint.h"
#include "file.h"
#include "options.h"

struct WeftView {
    WeftControl *control;
    char *fabric;
    WeftFabricDriver *driver;
    GCancellable *cancellable;
    guint timer;
    guint pending;      /* calls to the driver that have not ended */
    gboolean reporting; /* a worker has it */
    gboolean given_up;  /* and frees it */
    WeftViewed viewed;
    gpointer data;
    WeftViewKind kind;
    WeftFabricFacts facts;
    GPtrArray *listed; /* WeftPartition; NULL: nobody asked for them */
    GArray *held;      /* gboolean: which of these weft leaves alone */
    GPtrArray *tables; /* WeftPortTable, a reference of the main thread's; NULL: nobody asked for them */
    WeftStore *store;  /* the worker's */
    json_t *report;
    GError *error; /* there is nothing to report */
};

/* thread: main or the worker. What the report is made of. */
static void
forget_facts(WeftView *view)
{
    WeftFabricFacts *facts = &view->facts;
    json_decref(facts->manager);
    g_clear_pointer(&facts->map, weft_fabric_map_free);
    g_clear_pointer(&facts->hosts, g_ptr_array_unref);
    g_free(facts->trouble);
    g_free(facts->options_path);
    g_free(facts->options);
    g_free(facts->options_error);
    json_decref(facts->partitions);
    json_decref(facts->tables);
    *facts = (WeftFabricFacts){ 0 };
    g_clear_pointer(&view->listed, g_ptr_array_unref);
    g_clear_pointer(&view->held, g_array_unref);
    g_clear_pointer(&view->store, weft_store_free);
}

void
weft_view_free(WeftView *view)
{
    if (!view)
        return;
    g_clear_handle_id(&view->timer, g_source_remove);
    if (view->reporting) {
        view->given_up = TRUE;
        return;
    }
    g_object_unref(view->cancellable);
    g_clear_error(&view->error);
    g_clear_pointer(&view->tables, g_ptr_array_unref);
    forget_facts(view);
    json_decref(view->report);
    g_free(view->fabric);
    g_free(view);
}

void
weft_view_cancel(WeftView *view)
{
    g_cancellable_cancel(view->cancellable);
}

/* --- what the store knows --- */

WeftFabricMap *
weft_view_imported(const WeftRecord *record, GError **error)
{
    json_auto_t *json = json_loads(record->value, 0, NULL);
    return weft_fabric_map_from_json(json_object_get(json, "map"), error);
}

/* All hosts of the fabric, as they are described. */
static GPtrArray *
read_hosts(WeftStore *store, const char *fabric, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(store, &(WeftQuery){ .kind = WEFT_KIND_HOST }, error);
    g_autoptr(GPtrArray) hosts = g_ptr_array_new_with_free_func((GDestroyNotify)weft_host_free);
    if (!records)
        return NULL;
    for (guint i = 0; i < records->len; i++) {
        g_autoptr(WeftHost) host = weft_record_host(records->pdata[i], error);
        if (!host)
            return NULL;
        if (g_str_equal(host->fabric, fabric))
            g_ptr_array_add(hosts, g_steal_pointer(&host));
    }
    return g_steal_pointer(&hosts);
}

/* --- the end --- */

static json_t *
report_health(const WeftFabricFacts *facts)
{
    json_t *checks = json_array();
    weft_doctor_manager(checks, facts);
    weft_doctor_map(checks, facts);
    if (facts->options_path)
        weft_doctor_options(checks, facts);
    return json_pack("{s:o}", "checks", checks);
}

static json_t *
report_tables(const WeftFabricFacts *facts)
{
    return json_pack("{s:s, s:O}", "fabric", facts->fabric, "ports", facts->tables);
}

static const struct {
    gboolean greets, maps, lists, reads;
    json_t *(*report)(const WeftFabricFacts *facts);
} kinds[] = {
    [WEFT_VIEW_FABRIC] = { .greets = TRUE, .maps = TRUE, .report = weft_report_fabric },
    [WEFT_VIEW_PARTITIONS] = { .lists = TRUE, .report = weft_report_partitions },
    [WEFT_VIEW_TABLES] = { .greets = TRUE, .lists = TRUE, .reads = TRUE, .report = report_tables },
    [WEFT_VIEW_TOPOLOGY] = { .maps = TRUE, .report = weft_report_topology },
    [WEFT_VIEW_HEALTH] = { .greets = TRUE, .maps = TRUE, .report = report_health },
};

/* A manager that gives no map, or one of nothing, leaves the word to what was imported. */
static void
load_import(WeftView *view)
{
    WeftFabricFacts *facts = &view->facts;
    if (facts->map && facts->map->nodes->len > 0) {
        facts->source = "manager";
        return;
    }
    g_clear_pointer(&facts->map, weft_fabric_map_free);
    g_autoptr(WeftRecord) import = weft_store_get(view->store, WEFT_KIND_FABRIC_MAP, view->fabric, &view->error);
    facts->source = import ? "import" : NULL;
    facts->map = import ? weft_view_imported(import, &view->error) : NULL;
}

static void
name_partitions(WeftView *view)
{
    view->facts.partitions = weft_report_owners(view->store, view->fabric, view->listed, &view->error);
    for (guint i = 0; i < json_array_size(view->facts.partitions); i++)
        json_object_set_new(json_array_get(view->facts.partitions, i), "held",
                            json_boolean(g_array_index(view->held, gboolean, i)));
}

static void
compare_tables(WeftView *view)
{
    const char *way = json_string_value(json_object_get(view->facts.manager, "way"));
    view->facts.tables = weft_report_tables(view->facts.hosts, view->listed, view->tables, g_strcmp0(way, "pool") != 0);
}

/* thread: worker. Thousands of hosts, switches and cables take longer than the main thread may be busy. */
static void
report(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    WeftView *view = data;
    WeftFabricFacts *facts = &view->facts;
    if (kinds[view->kind].maps)
        load_import(view);
    if (!view->error)
        facts->hosts = read_hosts(view->store, view->fabric, &view->error);
    if (!view->error && view->tables)
        compare_tables(view);
    else if (!view->error && view->listed)
        name_partitions(view);
    if (!view->error)
        view->report = kinds[view->kind].report(facts);
    forget_facts(view);
    g_task_return_boolean(task, TRUE);
}

static void
reported(GObject *source, GAsyncResult *result, gpointer data)
{
    WeftView *view = data;
    view->reporting = FALSE;
    if (view->given_up)
        weft_view_free(view);
    else
        view->viewed(view->report, view->error, view->data);
}

static void
finish(WeftView *view)
{
    if (!view->error)
        view->store = weft_store_reader(view->control->store, &view->error);
    if (view->error) {
        view->viewed(NULL, view->error, view->data);
        return;
    }
    view->reporting = TRUE;
    g_autoptr(GTask) task = g_task_new(NULL, NULL, reported, view);
    g_task_set_task_data(task, view, NULL);
    g_task_run_in_thread(task, report);
}

static void
tables_read(GPtrArray *tables, const GError *error, gpointer data)
{
    WeftView *view = data;
    if (error)
        view->error = g_error_copy(error);
    else
        view->tables = g_ptr_array_ref(tables);
    finish(view);
}

static void
read_tables(WeftView *view)
{
    g_autoptr(GPtrArray) hosts = weft_fleet_hosts(view->control->fleet, view->fabric);
    g_autoptr(GArray) wishes = g_array_new(FALSE, FALSE, sizeof(WeftPortWish));
    for (guint i = 0; i < view->listed->len; i++)
        if (weft_partition_is_ours(((const WeftPartition *)view->listed->pdata[i])->name))
            weft_port_wishes_add(wishes, view->listed->pdata[i]);
    weft_subnets_read_ports(view->control->subnets, view->fabric, weft_tables_ports(hosts, wishes), tables_read, view);
}

/* One of the calls has ended. */
static void
arrived(WeftView *view)
{
    if (--view->pending > 0)
        return;
    if (kinds[view->kind].reads && !view->error)
        read_tables(view);
    else
        finish(view);
}

static void
tell_trouble(WeftView *view, const GError *error)
{
    if (!view->facts.trouble)
        view->facts.trouble = g_strdup(error->message);
}

/* --- what the manager knows --- */

static void
greeted(const WeftManager *manager, const GError *error, gpointer data)
{
    WeftView *view = data;
    weft_failpoint_edge("greet", "after");
    if (manager)
        view->facts.manager = weft_report_manager(manager);
    else
        tell_trouble(view, error);
    arrived(view);
}

static void
mapped(const WeftFabricMap *map, const GError *error, gpointer data)
{
    WeftView *view = data;
    weft_failpoint_edge("map", "after");
    if (map)
        view->facts.map = weft_fabric_map_copy(map);
    else
        tell_trouble(view, error);
    arrived(view);
}

/* The partitions are the driver's: they are copied. */
static void
keep_partitions(WeftView *view, const GPtrArray *partitions)
{
    view->listed = g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free);
    view->held = g_array_new(FALSE, FALSE, sizeof(gboolean));
    for (guint i = 0; i < partitions->len; i++) {
        const WeftPartition *partition = partitions->pdata[i];
        gboolean held = weft_subnets_is_unproved(view->control->subnets, view->fabric, partition->pkey);
        g_ptr_array_add(view->listed, weft_partition_copy(partition));
        g_array_append_val(view->held, held);
    }
}

static void
listed(GPtrArray *partitions, const GError *error, gpointer data)
{
    WeftView *view = data;
    weft_failpoint_edge("list-partitions", "after");
    if (error)
        view->error = g_error_copy(error);
    else
        keep_partitions(view, partitions);
    arrived(view);
}

static gboolean
deadline_passed(gpointer data)
{
    WeftView *view = data;
    view->timer = 0;
    g_cancellable_cancel(view->cancellable);
    return G_SOURCE_REMOVE;
}

static void
ask(WeftView *view)
{
    WeftFabricDriver *driver = view->driver;
    view->pending = kinds[view->kind].greets + kinds[view->kind].maps + kinds[view->kind].lists;
    if (kinds[view->kind].greets) {
        weft_failpoint_edge("greet", "before");
        driver->ops->greet(driver, view->cancellable, greeted, view);
    }
    if (kinds[view->kind].maps) {
        weft_failpoint_edge("map", "before");
        driver->ops->map(driver, view->cancellable, mapped, view);
    }
    if (kinds[view->kind].lists) {
        weft_failpoint_edge("list-partitions", "before");
        driver->ops->list(driver, view->cancellable, listed, view);
    }
}

/* Where opensm runs on this machine. */
static void
read_options(WeftView *view)
{
    GHashTable *paths = view->control->options.options_files;
    view->facts.options_path = paths ? g_strdup(g_hash_table_lookup(paths, view->fabric)) : NULL;
    view->facts.guarantees = weft_subnets_fabric(view->control->subnets, view->fabric)->qos.n > 0;
    if (!view->facts.options_path)
        return;
    g_autoptr(GError) error = NULL;
    view->facts.options = weft_file_read(view->facts.options_path, WEFT_OPTIONS_MAX, NULL, &error);
    view->facts.options_error = error ? g_strdup(error->message) : NULL;
}

WeftView *
weft_view_new(WeftControl *control, WeftViewKind kind, const char *fabric, WeftViewed viewed, gpointer data, GError **error)
{
    WeftFabricDriver *driver = weft_subnets_driver(control->subnets, fabric);
    if (!driver) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "there is no fabric %s", fabric);
        return NULL;
    }
    WeftView *view = g_new0(WeftView, 1);
    *view = (WeftView){ .control = control,
                        .kind = kind,
                        .fabric = g_strdup(fabric),
                        .driver = driver,
                        .cancellable = g_cancellable_new(),
                        .viewed = viewed,
                        .data = data };
    view->facts.fabric = view->fabric;
    view->facts.management = driver->ops->management;
    if (kind == WEFT_VIEW_HEALTH)
        read_options(view);
    view->timer = g_timeout_add((guint)(control->options.list_deadline / 1000), deadline_passed, view);
    ask(view);
    return view;
}
