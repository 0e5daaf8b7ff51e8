#include "errors.h"
#include "managed.h"
#include "plugin-link.h"
#include "watch.h"
#include "ways.h"

#define PORTS_AT_ONCE 1024 /* of a request to verify */
#define PARTITIONS_MAX 0x8000

typedef struct PluginWay {
    WeftFabricDriver *driver;
    GPtrArray *managers; /* WeftPluginManager */
    gint64 deadline;
    WeftPkeys pkeys;
    WeftPluginWatch *watch; /* NULL: nobody listens; thread: main */
    gint doubt;             /* atomic: something happened, and it must be asked again who rules */

    /* thread: worker */
    int ruler; /* index; -1: none was found yet */
    WeftPluginLink *link;
    WeftManagedFile *picture; /* weft's partitions as the ruler has them; NULL: never seen. Outlives the ruler */
    guint64 seen; /* the ruler's generation when it was met: its own changes begin there, whatever weft's count says */
} PluginWay;

static gint64
deadline_of(const PluginWay *way)
{
    return g_get_monotonic_time() + way->deadline;
}

/* --- asking --- */

/* An answer without a failure in it. */
static json_t *
ask(PluginWay *way, json_t *request, GCancellable *cancellable, GError **error)
{
    json_t *answer = weft_plugin_link_ask(way->link, request, deadline_of(way), cancellable, error);
    if (!answer) {
        g_clear_pointer(&way->link, weft_plugin_link_free);
    } else if (!weft_wire_check_answer(answer, error)) {
        json_decref(answer);
        answer = NULL;
    }
    return answer;
}

static GPtrArray *
read_partitions(json_t *answer, GError **error)
{
    json_t *array = json_object_get(answer, "partitions");
    g_autoptr(GPtrArray) partitions = g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free);
    if (!json_is_array(array) || json_array_size(array) > PARTITIONS_MAX) {
        weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "its list of partitions is not understood");
        return NULL;
    }
    for (gsize i = 0; i < json_array_size(array); i++) {
        WeftPartition *partition = weft_wire_partition_from_json(json_array_get(array, i), "partitions", error);
        if (!partition)
            return NULL;
        g_ptr_array_add(partitions, partition);
    }
    return g_steal_pointer(&partitions);
}

static GPtrArray *
ask_list(PluginWay *way, guint64 *ret_generation, GCancellable *cancellable, GError **error)
{
    json_t *answer = ask(way, json_pack("{ss}", "do", "list"), cancellable, error);
    GPtrArray *partitions = answer ? read_partitions(answer, error) : NULL;
    *ret_generation = (guint64)json_integer_value(json_object_get(answer, "generation"));
    json_decref(answer);
    return partitions;
}

static gboolean
send_change(PluginWay *way, const WeftFabricChange *change, GCancellable *cancellable, GError **error)
{
    json_t *request = weft_wire_change_to_json(change);
    json_object_set_new(request, "do", json_string("apply"));
    json_object_set_new(request, "generation", json_integer((json_int_t)MAX(change->generation, way->seen)));
    json_t *answer = ask(way, request, cancellable, error);
    json_decref(answer);
    return answer != NULL;
}

/* --- a new ruler ---
 *
 * A standby's file is as old as its last reign. What the last ruler had of weft's numbers is what weft wished: the new one gets
 * all of it, loses what the last one had not, and its own generation is followed where it is ahead of weft's. */

static gboolean
is_weft_partition(const PluginWay *way, const WeftPartition *partition)
{
    return weft_partition_is_ours(partition->name) && weft_pkeys_contain(&way->pkeys, partition->pkey);
}

/* One that it lists without members is not in its file any more. */
static void
take_picture(PluginWay *way, GPtrArray *partitions, guint64 generation)
{
    g_autoptr(WeftFabricChange) all = weft_fabric_change_new(generation);
    for (guint i = 0; i < partitions->len; i++) {
        const WeftPartition *partition = partitions->pdata[i];
        if (is_weft_partition(way, partition) && partition->members->len > 0)
            g_ptr_array_add(all->set, weft_partition_copy(partition));
    }
    weft_managed_file_free(way->picture);
    way->picture = weft_managed_file_parse("", NULL);
    weft_managed_file_change(way->picture, all, NULL);
}

static gboolean
hand_over(PluginWay *way, const GPtrArray *there, GCancellable *cancellable, GError **error)
{
    g_autoptr(WeftFabricChange) stale = weft_fabric_change_new(way->picture->generation);
    g_autoptr(WeftFabricChange) all = weft_fabric_change_new(way->picture->generation);
    for (guint i = 0; i < there->len; i++) {
        const WeftPartition *partition = there->pdata[i];
        const WeftPartition *wished = weft_managed_file_find(way->picture, partition->pkey);
        if (is_weft_partition(way, partition) && (!wished || !g_str_equal(wished->name, partition->name)))
            weft_fabric_change_remove(stale, partition->pkey, partition->name);
    }
    for (guint i = 0; i < way->picture->partitions->len; i++)
        g_ptr_array_add(all->set, weft_partition_copy(way->picture->partitions->pdata[i]));
    /* A number whose partition has another name is free only after the first change. */
    return (stale->removed->len == 0 || send_change(way, stale, cancellable, error)) &&
           send_change(way, all, cancellable, error);
}

static gboolean
adopt(PluginWay *way, gboolean is_new, GCancellable *cancellable, GError **error)
{
    guint64 generation;
    g_autoptr(GPtrArray) partitions = ask_list(way, &generation, cancellable, error);
    if (!partitions)
        return FALSE;
    way->seen = generation;
    if (way->picture && (is_new || generation < way->picture->generation))
        return hand_over(way, partitions, cancellable, error);
    /* The same as before: what another weftd has changed there since is not ours to undo. */
    if (!way->picture || generation > way->picture->generation)
        take_picture(way, partitions, generation);
    return TRUE;
}

/* --- who rules --- */

/* A link to this manager, if it rules; else why tells. */
static gboolean
try_manager(PluginWay *way, guint i, GCancellable *cancellable, GString *why)
{
    WeftPluginManager *manager = way->managers->pdata[i];
    g_autoptr(GError) error = NULL;
    gint64 deadline = deadline_of(way);
    g_autoptr(WeftPluginLink) link = weft_plugin_link_new(manager, deadline, cancellable, &error);
    g_autoptr(WeftManager) greeting = link ? weft_plugin_link_greet(link, deadline, cancellable, &error) : NULL;
    if (greeting && greeting->master) {
        way->link = g_steal_pointer(&link);
        return TRUE;
    }
    g_string_append_printf(why, "%s%s: %s", why->len ? "; " : "", manager->address,
                           greeting ? "it does not rule, or has not swept the fabric yet" : error->message);
    return FALSE;
}

static gboolean
elect(PluginWay *way, GCancellable *cancellable, GError **error)
{
    g_clear_pointer(&way->link, weft_plugin_link_free);
    g_atomic_int_set(&way->doubt, FALSE);
    g_autoptr(GString) why = g_string_new(NULL);
    for (guint turn = 0; turn < way->managers->len; turn++) {
        guint i = (guint)(MAX(way->ruler, 0) + turn) % way->managers->len;
        if (!try_manager(way, i, cancellable, why))
            continue;
        if (!adopt(way, (int)i != way->ruler, cancellable, error)) {
            g_clear_pointer(&way->link, weft_plugin_link_free);
            return FALSE;
        }
        way->ruler = (int)i;
        return TRUE;
    }
    return weft_error_refuse(error, g_cancellable_is_cancelled(cancellable) ? WEFT_ERROR_TIMEOUT : WEFT_ERROR_UNAVAILABLE,
                             "no opensm that rules the fabric can be asked: %s", why->str);
}

static gboolean
ensure(PluginWay *way, GCancellable *cancellable, GError **error)
{
    return (way->link && !g_atomic_int_get(&way->doubt)) || elect(way, cancellable, error);
}

typedef gboolean (*Step)(PluginWay *way, gpointer data, GCancellable *cancellable, GError **error);

/* With the ruler; where that failed because it is none any more, once more with the next. */
static gboolean
with_ruler(PluginWay *way, Step step, gpointer data, GCancellable *cancellable, GError **error)
{
    for (guint tries = 0; tries < 2; tries++) {
        g_autoptr(GError) failed = NULL;
        gboolean known = way->link != NULL;
        if (ensure(way, cancellable, &failed) && step(way, data, cancellable, &failed))
            return TRUE;
        gboolean gone = weft_error_code(failed) == WEFT_ERROR_UNAVAILABLE;
        if (gone)
            g_atomic_int_set(&way->doubt, TRUE);
        if (!gone || !known || tries > 0) {
            g_propagate_error(error, g_steal_pointer(&failed));
            return FALSE;
        }
    }
    return FALSE;
}

/* --- the calls --- */

static gboolean
step_apply(PluginWay *way, gpointer data, GCancellable *cancellable, GError **error)
{
    const WeftFabricChange *change = data;
    if (change->generation < way->picture->generation)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "generation %" G_GUINT64_FORMAT " is older than %" G_GUINT64_FORMAT
                                 ", which the fabric has already",
                                 change->generation, way->picture->generation);
    g_autoptr(GError) failed = NULL;
    if (send_change(way, change, cancellable, &failed))
        return weft_managed_file_change(way->picture, change, error);
    /* Somebody else may have changed what the manager has: it is looked at before the next call. */
    if (g_error_matches(failed, WEFT_ERROR, WEFT_ERROR_CONFLICT))
        g_atomic_int_set(&way->doubt, TRUE);
    g_propagate_error(error, g_steal_pointer(&failed));
    return FALSE;
}

static gboolean
plugin_apply(gpointer self, const WeftFabricChange *change, GCancellable *cancellable, GError **error)
{
    return with_ruler(self, step_apply, (gpointer)change, cancellable, error);
}

static int
compare_numbers(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftPartition *const *)a)->pkey, y = (*(WeftPartition *const *)b)->pkey;
    return x < y ? -1 : x > y;
}

/* opensm forgets a partition while it has no members. */
static void
add_empty(const PluginWay *way, GPtrArray *partitions)
{
    g_autoptr(GHashTable) there = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < partitions->len; i++)
        g_hash_table_add(there, GUINT_TO_POINTER(((WeftPartition *)partitions->pdata[i])->pkey));
    for (guint i = 0; i < way->picture->partitions->len; i++) {
        const WeftPartition *partition = way->picture->partitions->pdata[i];
        if (partition->members->len == 0 && !g_hash_table_contains(there, GUINT_TO_POINTER(partition->pkey)))
            g_ptr_array_add(partitions, weft_partition_copy(partition));
    }
    g_ptr_array_sort(partitions, compare_numbers);
}

static gboolean
step_list(PluginWay *way, gpointer data, GCancellable *cancellable, GError **error)
{
    guint64 generation;
    GPtrArray *partitions = ask_list(way, &generation, cancellable, error);
    if (partitions)
        add_empty(way, partitions);
    *(GPtrArray **)data = partitions;
    return partitions != NULL;
}

static GPtrArray *
plugin_list(gpointer self, GCancellable *cancellable, GError **error)
{
    GPtrArray *partitions = NULL;
    return with_ruler(self, step_list, &partitions, cancellable, error) ? partitions : NULL;
}

typedef struct Question {
    json_t *request;
    json_t *answer;
} Question;

static gboolean
step_ask(PluginWay *way, gpointer data, GCancellable *cancellable, GError **error)
{
    Question *question = data;
    return (question->answer = ask(way, json_incref(question->request), cancellable, error)) != NULL;
}

/* Takes the request over. */
static json_t *
ask_ruler(PluginWay *way, json_t *request, GCancellable *cancellable, GError **error)
{
    Question question = { request, NULL };
    with_ruler(way, step_ask, &question, cancellable, error);
    json_decref(request);
    return question.answer;
}

static WeftManager *
plugin_greet(gpointer self, GCancellable *cancellable, GError **error)
{
    PluginWay *way = self;
    json_t *answer = ask_ruler(way, json_pack("{ss}", "do", "hello"), cancellable, error);
    WeftManager *manager = answer ? weft_wire_manager_from_json(json_object_get(answer, "manager"), error) : NULL;
    json_decref(answer);
    if (!manager)
        return NULL;
    g_free(manager->way);
    g_free(manager->where);
    manager->way = g_strdup(weft_opensm_way_words[WEFT_OPENSM_PLUGIN]);
    manager->where = g_strdup(((WeftPluginManager *)way->managers->pdata[way->ruler])->address);
    return manager;
}

static WeftFabricMap *
plugin_map(gpointer self, GCancellable *cancellable, GError **error)
{
    json_t *answer = ask_ruler(self, json_pack("{ss}", "do", "topology"), cancellable, error);
    WeftFabricMap *map = answer ? weft_fabric_map_from_json(json_object_get(answer, "map"), error) : NULL;
    json_decref(answer);
    return map;
}

static gboolean
read_tables(json_t *answer, gsize expected, GPtrArray *tables, GError **error)
{
    json_t *array = json_object_get(answer, "tables");
    if (json_array_size(array) != expected)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "its answer has %zu tables instead of %zu",
                                 json_array_size(array), expected);
    for (gsize i = 0; i < expected; i++) {
        WeftPortTable *table = weft_wire_table_from_json(json_array_get(array, i), "tables", error);
        if (!table)
            return FALSE;
        g_ptr_array_add(tables, table);
    }
    return TRUE;
}

static gboolean
verify_some(PluginWay *way, const GArray *guids, GPtrArray *tables, GCancellable *cancellable, GError **error)
{
    json_t *ports = json_array();
    guint end = MIN(guids->len, tables->len + PORTS_AT_ONCE), count = end - tables->len;
    for (guint i = tables->len; i < end; i++)
        json_array_append_new(ports, json_sprintf("0x%016" G_GINT64_MODIFIER "x", g_array_index(guids, guint64, i)));
    json_t *answer = ask_ruler(way, json_pack("{ss so}", "do", "verify", "ports", ports), cancellable, error);
    gboolean ok = answer && read_tables(answer, count, tables, error);
    json_decref(answer);
    return ok;
}

static GPtrArray *
plugin_verify(gpointer self, const GArray *port_guids, GCancellable *cancellable, GError **error)
{
    g_autoptr(GPtrArray) tables = g_ptr_array_new_with_free_func((GDestroyNotify)weft_port_table_free);
    while (tables->len < port_guids->len)
        if (!verify_some(self, port_guids, tables, cancellable, error))
            return NULL;
    return g_steal_pointer(&tables);
}

static gboolean
step_nothing(PluginWay *way, gpointer data, GCancellable *cancellable, GError **error)
{
    return TRUE;
}

static gboolean
plugin_generation(gpointer self, guint64 *ret_generation, GCancellable *cancellable, GError **error)
{
    PluginWay *way = self;
    if (!with_ruler(way, step_nothing, NULL, cancellable, error))
        return FALSE;
    *ret_generation = way->picture->generation;
    return TRUE;
}

/* --- events --- */

/* thread: a watcher's. */
static void
happened(WeftFabricEvent event, const char *detail, gpointer data)
{
    PluginWay *way = data;
    if (event == WEFT_FABRIC_EVENT_MANAGER || event == WEFT_FABRIC_EVENT_LOST)
        g_atomic_int_set(&way->doubt, TRUE);
    weft_blocking_tell(way->driver, event, detail);
}

static void
plugin_listen(gpointer self, gboolean on)
{
    PluginWay *way = self;
    if (on)
        way->watch = weft_plugin_watch_new(way->managers, way->deadline, happened, way);
    else
        g_clear_pointer(&way->watch, weft_plugin_watch_free);
}

/* --- making and ending it --- */

static void
plugin_free(gpointer self)
{
    PluginWay *way = self;
    weft_plugin_link_free(way->link);
    weft_managed_file_free(way->picture);
    g_ptr_array_unref(way->managers);
    g_free(way);
}

static gpointer
plugin_create(const WeftOpensmOptions *options, GError **error)
{
    const WeftForwardOptions forward = { .program = options->ssh, .key = options->ssh_key };
    PluginWay *way = g_new0(PluginWay, 1);
    way->deadline = options->deadline;
    way->pkeys = options->pkeys;
    way->ruler = -1;
    way->managers = g_ptr_array_new_with_free_func((GDestroyNotify)weft_plugin_manager_free);
    gboolean ok = options->managers && options->managers[0];
    if (!ok)
        weft_error_refuse(error, WEFT_ERROR_INVALID, "no manager is given; name the socket of its plugin");
    for (guint i = 0; ok && options->managers[i]; i++) {
        WeftPluginManager *manager = weft_plugin_manager_new(options->managers[i], &forward, error);
        ok = manager != NULL;
        if (ok)
            g_ptr_array_add(way->managers, manager);
    }
    if (!ok)
        g_clear_pointer(&way, plugin_free);
    return way;
}

static void
plugin_attach(gpointer self, WeftFabricDriver *driver)
{
    ((PluginWay *)self)->driver = driver;
}

static const WeftBlockingOps plugin_ops = {
    .name = "opensm",
    .apply = plugin_apply,
    .list = plugin_list,
    .greet = plugin_greet,
    .map = plugin_map,
    .verify = plugin_verify,
    .generation = plugin_generation,
    .listen = plugin_listen,
    .free = plugin_free,
};

const WeftWay weft_way_plugin = { &plugin_ops, plugin_create, plugin_attach };
