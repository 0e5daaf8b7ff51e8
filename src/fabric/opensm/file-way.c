#include "file-way.h"

#include "errors.h"
#include "file.h"
#include "manager-process.h"

#define DEFAULT_PARTITIONS "/etc/opensm/partitions.conf"
#define MAP_MAX (64u << 20)
/* Between two looks at ports that have not got it: opensm takes from milliseconds to seconds for its sweep. */
#define LOOK_FIRST (5 * G_TIME_SPAN_MILLISECOND)
#define LOOK_LAST (200 * G_TIME_SPAN_MILLISECOND)
#define REMIND_FIRST G_TIME_SPAN_SECOND

/* --- what the ways without a plugin share --- */

gpointer
weft_file_way_create(const WeftOpensmOptions *options, GError **error)
{
    const WeftMadsOptions mads = { .device = options->device,
                                   .port = options->port,
                                   .m_key = options->m_key,
                                   .deadline = options->deadline,
                                   .program = options->discover };
    WeftFileWay *way = g_new0(WeftFileWay, 1);
    way->partitions_file = g_strdup(options->partitions_file ? options->partitions_file : DEFAULT_PARTITIONS);
    way->pid_file = g_strdup(options->pid_file);
    way->map_file = g_strdup(options->map_file);
    way->deadline = options->deadline;
    way->mads = weft_mads_new(&mads);
    way->leaving = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)weft_partition_free);
    return way;
}

void
weft_file_way_free(gpointer self)
{
    WeftFileWay *way = self;
    weft_mads_free(way->mads);
    g_hash_table_unref(way->leaving);
    g_free(way->partitions_file);
    g_free(way->pid_file);
    g_free(way->map_file);
    g_free(way->ledger);
    g_free(way);
}

/* Nothing comes by itself from an opensm without a plugin: who wants to know must look. */
void
weft_file_way_listen(gpointer self, gboolean on)
{
}

void
weft_file_way_attach(gpointer self, WeftFabricDriver *driver)
{
}

WeftFabricMap *
weft_file_way_map(gpointer self, GCancellable *cancellable, GError **error)
{
    WeftFileWay *way = self;
    if (!way->map_file)
        return weft_mads_map(way->mads, cancellable, error);
    g_autofree char *text = weft_file_read(way->map_file, MAP_MAX, NULL, error);
    WeftFabricMap *map = text ? weft_fabric_map_from_ibnetdiscover(text, error) : NULL;
    if (text && !map)
        g_prefix_error(error, "%s: ", way->map_file);
    return map;
}

/* --- opensm's options --- */

static gboolean
is_on(int pid, const char *option, gboolean fallback)
{
    g_autofree char *value = weft_manager_process_option(pid, option);
    return value ? g_ascii_strcasecmp(value, "TRUE") == 0 : fallback;
}

static gboolean
is_enforced(int pid)
{
    g_autofree char *value = weft_manager_process_option(pid, "part_enforce");
    return (!value || g_ascii_strcasecmp(value, "off") != 0) && !is_on(pid, "no_partition_enforcement", FALSE);
}

gboolean
weft_file_way_check_manager(const WeftFileWay *way, GError **error)
{
    int pid;
    if (!weft_manager_process_find(way->pid_file, &pid, error))
        return FALSE;
    return is_on(pid, "keep_pkey_indexes", TRUE) ||
           weft_error_refuse(
               error, WEFT_ERROR_UNAVAILABLE,
               "keep_pkey_indexes is FALSE in opensm's options: its sweep would move P_Keys that virtual functions "
               "are mapped to; set it to TRUE");
}

/* Switches say of themselves what they should do, but ports of some answer without it: opensm's options are what counts. */
static gboolean
enforces(const WeftFileWay *way)
{
    int pid;
    return !weft_manager_process_find(way->pid_file, &pid, NULL) || is_enforced(pid);
}

GPtrArray *
weft_file_way_verify(gpointer self, const GArray *port_guids, GCancellable *cancellable, GError **error)
{
    WeftFileWay *way = self;
    gboolean enforced = enforces(way);
    g_autoptr(GPtrArray) tables = g_ptr_array_new_with_free_func((GDestroyNotify)weft_port_table_free);
    for (guint i = 0; i < port_guids->len; i++) {
        g_ptr_array_add(tables, weft_port_table_new(g_array_index(port_guids, guint64, i)));
        if (g_cancellable_is_cancelled(cancellable)) {
            weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "reading the ports was cancelled");
            return NULL;
        }
        if (!weft_mads_read(way->mads, tables->pdata[i], enforced, cancellable, error))
            return NULL;
    }
    return g_steal_pointer(&tables);
}

WeftManager *
weft_file_way_greet(WeftFileWay *way, WeftOpensmWay which, GError **error)
{
    int pid;
    gboolean master;
    if (!weft_manager_process_find(way->pid_file, &pid, error) || !weft_mads_has_master(way->mads, &master, error))
        return NULL;
    WeftManager *manager = g_new0(WeftManager, 1);
    manager->way = g_strdup(weft_opensm_way_words[which]);
    manager->version = g_strdup("OpenSM");
    manager->where = g_strdup_printf("process %d, %s", pid, way->partitions_file);
    manager->master = master;
    manager->qos = is_on(pid, "qos", FALSE);
    manager->enforces = is_enforced(pid);
    manager->keeps_indices = is_on(pid, "keep_pkey_indexes", TRUE);
    manager->routing = weft_manager_process_option(pid, "routing_engine");
    return manager;
}

static int
compare_numbers(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftPartition *const *)a)->pkey, y = (*(WeftPartition *const *)b)->pkey;
    return x < y ? -1 : x > y;
}

GPtrArray *
weft_file_way_list(const GPtrArray *ours, const WeftManagedFile *file)
{
    GPtrArray *all = weft_managed_file_site(file);
    for (guint i = 0; i < ours->len; i++)
        g_ptr_array_add(all, weft_partition_copy(ours->pdata[i]));
    g_ptr_array_sort(all, compare_numbers);
    return all;
}

gboolean
weft_file_way_check(const WeftFabricChange *change, GError **error)
{
    for (guint i = 0; i < change->set->len; i++) {
        const WeftPartition *partition = change->set->pdata[i];
        for (guint m = 0; m < partition->members->len; m++) {
            guint64 virtual_guid = g_array_index(partition->members, WeftMember, m).virtual_guid;
            if (virtual_guid)
                return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                                         "partition 0x%04x, virtual port 0x%016" G_GINT64_MODIFIER
                                         "x: opensm programs no virtual "
                                         "ports; mlx5's virtual functions need a subnet manager with virtualization",
                                         partition->pkey, virtual_guid);
        }
    }
    return TRUE;
}

/* --- the ports --- */

gboolean
weft_file_way_check_room(WeftFileWay *way, const WeftExpectation *expectation, GCancellable *cancellable, GError **error)
{
    g_autoptr(GArray) ports = weft_expectation_ports(expectation);
    g_autoptr(GPtrArray) tables = weft_file_way_verify(way, ports, cancellable, error);
    for (guint i = 0; tables && i < tables->len; i++) {
        const WeftPortTable *table = tables->pdata[i];
        if (!weft_expectation_fits(expectation, table))
            return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                     "port 0x%016" G_GINT64_MODIFIER
                                     "x: its table of %u P_Keys, or its switch's, has no room for "
                                     "another one",
                                     table->port_guid, table->pkeys->len);
    }
    return tables != NULL;
}

/* The ports that have not got it yet stay in the array. NULL in ret_why: none of them is to blame. */
static gboolean
look(WeftFileWay *way, const WeftExpectation *expectation, GArray *ports, GCancellable *cancellable, char **ret_why,
     GError **error)
{
    gboolean enforced = enforces(way);
    for (guint i = 0; i < ports->len;) {
        g_autoptr(WeftPortTable) table = weft_port_table_new(g_array_index(ports, guint64, i));
        if (!weft_mads_read(way->mads, table, enforced, cancellable, error))
            return FALSE;
        guint missed = weft_expectation_missed(expectation, table);
        if (missed && g_strcmp0(table->error, weft_mads_absent) != 0) {
            *ret_why = g_strdup_printf("port 0x%016" G_GINT64_MODIFIER "x %s (0x%04x)", table->port_guid,
                                       table->error ? table->error : "has not got its P_Key, or not lost it", missed);
            return TRUE;
        }
        g_array_remove_index_fast(ports, i);
    }
    return TRUE;
}

static void
rest(gint64 microseconds, GCancellable *cancellable)
{
    GPollFD polled;
    if (!g_cancellable_make_pollfd(cancellable, &polled)) {
        g_usleep((gulong)microseconds);
        return;
    }
    g_poll(&polled, 1, (int)(microseconds / 1000));
    g_cancellable_release_fd(cancellable);
}

/* opensm forgets a SIGHUP that comes while it begins a sweep for another reason: it is told again, less and less often. */
static gboolean
remind(const WeftFileWay *way, gint64 *when, gint64 *interval, GError **error)
{
    gint64 now = g_get_monotonic_time();
    if (now < *when)
        return TRUE;
    *interval *= 2;
    *when = now + *interval;
    return weft_manager_process_tell(way->pid_file, error);
}

gboolean
weft_file_way_wait(WeftFileWay *way, const WeftExpectation *expectation, GCancellable *cancellable, GError **error)
{
    gint64 now = g_get_monotonic_time(), end = now + way->deadline, pause = LOOK_FIRST;
    gint64 interval = REMIND_FIRST, reminder = now + interval;
    g_autoptr(GArray) ports = weft_expectation_ports(expectation);
    for (;;) {
        g_autofree char *why = NULL;
        if (!look(way, expectation, ports, cancellable, &why, error))
            return FALSE;
        if (!why)
            return TRUE;
        gboolean cancelled = g_cancellable_is_cancelled(cancellable);
        if (cancelled || g_get_monotonic_time() >= end)
            return weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "%s: %s", cancelled ? "cancelled" : "opensm was told, but",
                                     why);
        if (!remind(way, &reminder, &interval, error))
            return FALSE;
        rest(pause, cancellable);
        pause = MIN(pause * 2, LOOK_LAST);
    }
}

/* --- the way of the file --- */

typedef void (*Each)(WeftFileWay *way, guint pkey, const WeftPartition *wanted, gpointer data);

/* Of each partition that the change is about; wanted NULL: it goes. */
static void
for_each(WeftFileWay *way, const WeftFabricChange *change, Each each, gpointer data)
{
    for (guint i = 0; i < change->removed->len; i++)
        each(way, g_array_index(change->removed, WeftPartitionRemoval, i).pkey, NULL, data);
    for (guint i = 0; i < change->set->len; i++)
        each(way, ((WeftPartition *)change->set->pdata[i])->pkey, change->set->pdata[i], data);
}

typedef struct {
    const WeftManagedFile *before;
    WeftExpectation *expectation;
} Expecting;

static void
expect(WeftFileWay *way, guint pkey, const WeftPartition *wanted, gpointer data)
{
    const Expecting *expecting = data;
    weft_expectation_add(expecting->expectation, g_hash_table_lookup(way->leaving, GUINT_TO_POINTER(pkey)), NULL);
    weft_expectation_add(expecting->expectation, weft_managed_file_find(expecting->before, pkey), wanted);
}

static gboolean
has_port(const WeftPartition *partition, guint64 guid)
{
    for (guint i = 0; partition && i < partition->members->len; i++)
        if (g_array_index(partition->members, WeftMember, i).port_guid == guid)
            return TRUE;
    return FALSE;
}

/* The file forgets who left, and a change that failed is told again: it is done only when they are seen without the P_Key. */
static void
note_leaving(WeftFileWay *way, guint pkey, const WeftPartition *wanted, gpointer data)
{
    const WeftPartition *old = weft_managed_file_find(data, pkey);
    WeftPartition *leaving = g_hash_table_lookup(way->leaving, GUINT_TO_POINTER(pkey));
    if (old && !leaving) {
        leaving = weft_partition_new(pkey, old->name);
        g_hash_table_insert(way->leaving, GUINT_TO_POINTER(pkey), leaving);
    }
    for (guint i = 0; old && i < old->members->len; i++) {
        const WeftMember *member = &g_array_index(old->members, WeftMember, i);
        if (!has_port(wanted, member->port_guid) && !has_port(leaving, member->port_guid))
            weft_partition_add(leaving, member);
    }
}

static void
forget_leaving(WeftFileWay *way, guint pkey, const WeftPartition *wanted, gpointer data)
{
    g_hash_table_remove(way->leaving, GUINT_TO_POINTER(pkey));
}

static gboolean
file_apply(gpointer self, const WeftFabricChange *change, GCancellable *cancellable, GError **error)
{
    WeftFileWay *way = self;
    g_autoptr(WeftManagedFile) file = weft_managed_file_load(way->partitions_file, error);
    if (!file || !weft_file_way_check(change, error))
        return FALSE;
    g_autoptr(WeftExpectation) expectation = weft_expectation_new();
    for_each(way, change, expect, &(Expecting){ file, expectation });
    for_each(way, change, note_leaving, file);
    if (!weft_managed_file_change(file, change, error) || !weft_file_way_check_manager(way, error) ||
        !weft_file_way_check_room(way, expectation, cancellable, error))
        return FALSE;
    gboolean ok = weft_managed_file_save(file, way->partitions_file, error) &&
                  weft_manager_process_tell(way->pid_file, error) && weft_file_way_wait(way, expectation, cancellable, error);
    if (ok)
        for_each(way, change, forget_leaving, NULL);
    return ok;
}

static GPtrArray *
file_list(gpointer self, GCancellable *cancellable, GError **error)
{
    WeftFileWay *way = self;
    int pid;
    g_autoptr(WeftManagedFile) file = weft_managed_file_load(way->partitions_file, error);
    if (!file || !weft_manager_process_find(way->pid_file, &pid, error))
        return NULL;
    return weft_file_way_list(file->partitions, file);
}

static WeftManager *
file_greet(gpointer self, GCancellable *cancellable, GError **error)
{
    return weft_file_way_greet(self, WEFT_OPENSM_FILE, error);
}

static gboolean
file_generation(gpointer self, guint64 *ret_generation, GCancellable *cancellable, GError **error)
{
    WeftFileWay *way = self;
    g_autoptr(WeftManagedFile) file = weft_managed_file_load(way->partitions_file, error);
    if (file)
        *ret_generation = file->generation;
    return file != NULL;
}

static const WeftBlockingOps file_ops = {
    .name = "opensm",
    .apply = file_apply,
    .list = file_list,
    .greet = file_greet,
    .map = weft_file_way_map,
    .verify = weft_file_way_verify,
    .generation = file_generation,
    .listen = weft_file_way_listen,
    .free = weft_file_way_free,
};

const WeftWay weft_way_file = { &file_ops, weft_file_way_create, weft_file_way_attach };
