/* The pool's P_Keys are on every port from the first change on: opensm's file has an entry for each, and is not touched again.
 * Who uses which is kept in a file of the same form beside it, which opensm does not read. */
#include "definitions.h"
#include "errors.h"
#include "file-way.h"
#include "manager-process.h"

static gpointer
pool_create(const WeftOpensmOptions *options, GError **error)
{
    if (options->pool.n == 0) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "the pool has no P_Key; set pkey_first and pkey_last");
        return NULL;
    }
    WeftFileWay *way = weft_file_way_create(options, error);
    way->ledger = g_strconcat(way->partitions_file, ".pool", NULL);
    way->pool = options->pool;
    return way;
}

/* --- the pool in opensm's file --- */

static WeftFabricChange *
pool_of(const WeftFileWay *way, guint64 generation)
{
    WeftFabricChange *all = weft_fabric_change_new(generation);
    for (guint pkey = WEFT_PKEY_FIRST; pkey <= WEFT_PKEY_LAST; pkey++) {
        if (!weft_pkeys_contain(&way->pool, pkey))
            continue;
        g_autofree char *name = g_strdup_printf("weft-pool-%04x", pkey);
        WeftPartition *partition = weft_partition_new(pkey, name);
        weft_partition_add(partition, &(WeftMember){ .port_guid = WEFT_EVERY_PORT, .index = -1 });
        g_ptr_array_add(all->set, partition);
    }
    return all;
}

/* opensm is told only where the file was not so already: the first time, or after somebody edited it. */
static gboolean
fill_pool(WeftFileWay *way, GError **error)
{
    g_autoptr(WeftManagedFile) file = weft_managed_file_load(way->partitions_file, error);
    if (!file)
        return FALSE;
    g_autofree char *before = weft_managed_file_format(file);
    gboolean was_edited = file->was_edited;
    g_autoptr(WeftFabricChange) all = pool_of(way, MAX(file->generation, 1));
    if (!weft_managed_file_change(file, all, error))
        return FALSE;
    g_autofree char *after = weft_managed_file_format(file);
    if (!was_edited && g_str_equal(before, after))
        return TRUE;
    return weft_managed_file_save(file, way->partitions_file, error) && weft_manager_process_tell(way->pid_file, error);
}

/* --- changes --- */

static gboolean
check_partition(const WeftFileWay *way, const WeftPartition *partition, GError **error)
{
    g_autofree char *pool = weft_pkeys_format(&way->pool);
    if (!weft_pkeys_contain(&way->pool, partition->pkey))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "partition 0x%04x is not in the pool, %s", partition->pkey, pool);
    for (guint i = 0; i < partition->members->len; i++) {
        const WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        if (member->membership != WEFT_MEMBER_FULL || member->index >= 0)
            return weft_error_refuse(
                error, WEFT_ERROR_UNAVAILABLE,
                "partition 0x%04x: with a pool of P_Keys every port is a full member, and none has it at index "
                "0; use opensm's plugin for that",
                partition->pkey);
    }
    return TRUE;
}

static WeftExpectation *
check_change(const WeftFileWay *way, const WeftFabricChange *change, GError **error)
{
    g_autoptr(WeftExpectation) expectation = weft_expectation_new();
    if (!weft_file_way_check(change, error))
        return NULL;
    for (guint i = 0; i < change->set->len; i++) {
        if (!check_partition(way, change->set->pdata[i], error))
            return NULL;
        weft_expectation_add(expectation, NULL, change->set->pdata[i]);
    }
    return g_steal_pointer(&expectation);
}

static gboolean
pool_apply(gpointer self, const WeftFabricChange *change, GCancellable *cancellable, GError **error)
{
    WeftFileWay *way = self;
    g_autoptr(WeftManagedFile) ledger = weft_managed_file_load(way->ledger, error);
    if (!ledger)
        return FALSE;
    g_autoptr(WeftExpectation) expectation = check_change(way, change, error);
    return expectation && weft_managed_file_change(ledger, change, error) && weft_file_way_check_manager(way, error) &&
           weft_file_way_check_room(way, expectation, cancellable, error) && fill_pool(way, error) &&
           weft_file_way_wait(way, expectation, cancellable, error) && weft_managed_file_save(ledger, way->ledger, error);
}

static GPtrArray *
pool_list(gpointer self, GCancellable *cancellable, GError **error)
{
    WeftFileWay *way = self;
    int pid;
    g_autoptr(WeftManagedFile) file = weft_managed_file_load(way->partitions_file, error);
    g_autoptr(WeftManagedFile) ledger = file ? weft_managed_file_load(way->ledger, error) : NULL;
    if (!ledger || !weft_manager_process_find(way->pid_file, &pid, error))
        return NULL;
    return weft_file_way_list(ledger->partitions, file);
}

static WeftManager *
pool_greet(gpointer self, GCancellable *cancellable, GError **error)
{
    return weft_file_way_greet(self, WEFT_OPENSM_POOL, error);
}

static gboolean
pool_generation(gpointer self, guint64 *ret_generation, GCancellable *cancellable, GError **error)
{
    WeftFileWay *way = self;
    g_autoptr(WeftManagedFile) ledger = weft_managed_file_load(way->ledger, error);
    if (ledger)
        *ret_generation = ledger->generation;
    return ledger != NULL;
}

static const WeftBlockingOps pool_ops = {
    .name = "opensm",
    .apply = pool_apply,
    .list = pool_list,
    .greet = pool_greet,
    .map = weft_file_way_map,
    .verify = weft_file_way_verify,
    .generation = pool_generation,
    .listen = weft_file_way_listen,
    .free = weft_file_way_free,
};

const WeftWay weft_way_pool = { &pool_ops, pool_create, weft_file_way_attach };
