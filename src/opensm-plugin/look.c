#include "look.h"

#include "apply.h"
#include "managed.h"
#include "partitions.h"
#include "wire.h"

/* --- hello --- */

/* One that handed the fabric over in the middle of a sweep never tells of its end. */
static gboolean
is_awake(const osm_opensm_t *osm)
{
    return osm->subn.sm_state == IB_SMINFO_STATE_MASTER || osm->subn.sm_state == IB_SMINFO_STATE_DISCOVERING;
}

json_t *
weft_look_hello(WeftOsm *weft, json_t *request, GError **error)
{
    const osm_opensm_t *osm = weft->osm;
    const osm_subn_opt_t *options = &osm->subn.opt;
    g_autofree char *where = g_strdup_printf("%s:%s", g_get_host_name(), weft->socket);
    const WeftManager manager = {
        .way = (char *)"plugin",
        .version = (char *)osm->osm_version,
        .where = where,
        .master = weft_osm_is_ruling(weft),
        .sweeping = g_atomic_int_get(&weft->sweeping) && is_awake(osm),
        .qos = options->qos,
        .enforces = options->part_enforce_enum != OSM_PARTITION_ENFORCE_TYPE_OFF,
        .keeps_indices = options->keep_pkey_indexes,
        .routing = (char *)g_atomic_pointer_get(&weft->routing),
    };
    return json_pack("{si so}", "protocol", WEFT_WIRE_PROTOCOL, "manager", weft_wire_manager_to_json(&manager));
}

/* --- list --- */

static int
by_number(gconstpointer a, gconstpointer b)
{
    return (int)(*(WeftPartition *const *)a)->pkey - (int)(*(WeftPartition *const *)b)->pkey;
}

/* opensm keeps only members that are in the fabric. Those of ours that are not belong to the partition as well. lock: held. */
static void
add_absent(osm_opensm_t *osm, GHashTable *known, GPtrArray *all, const WeftPartition *wish)
{
    WeftPartition *partition = g_hash_table_lookup(known, GUINT_TO_POINTER(wish->pkey));
    g_autoptr(WeftPartition) fresh = NULL;
    for (guint i = 0; i < wish->members->len; i++) {
        const WeftMember *member = &g_array_index(wish->members, WeftMember, i);
        if (osm_get_port_by_guid(&osm->subn, cl_hton64(member->port_guid)))
            continue;
        if (!partition) {
            g_autofree char *name = g_utf8_make_valid(wish->name, -1);
            partition = fresh = weft_partition_new(wish->pkey, name);
        }
        g_array_append_val(partition->members, *member);
    }
    if (!fresh)
        return;
    fresh->ipoib = wish->ipoib;
    fresh->sl = wish->sl;
    fresh->rate = wish->rate;
    fresh->mtu = wish->mtu;
    g_ptr_array_add(all, g_steal_pointer(&fresh));
}

static GHashTable *
written_ports(const WeftManagedFile *file, guint pkey)
{
    GHashTable *ports = g_hash_table_new(g_int64_hash, g_int64_equal);
    const WeftPartition *written = weft_managed_file_find(file, pkey);
    for (guint i = 0; written && i < written->members->len; i++)
        g_hash_table_add(ports, &g_array_index(written->members, WeftMember, i).port_guid);
    return ports;
}

/* Those of ours that the file has lost go with the next sweep: who asks must see that they are missing. */
static void
leave_unwritten(WeftPartition *partition, const WeftManagedFile *file)
{
    if (!weft_partition_is_ours(partition->name))
        return;
    g_autoptr(GHashTable) written = written_ports(file, partition->pkey);
    for (guint i = partition->members->len; i-- > 0;)
        if (!g_hash_table_contains(written, &g_array_index(partition->members, WeftMember, i).port_guid))
            g_array_remove_index(partition->members, i);
}

static GPtrArray *
read_partitions(osm_opensm_t *osm, const WeftManagedFile *file)
{
    GPtrArray *all = g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free);
    g_autoptr(GHashTable) known = g_hash_table_new(NULL, NULL);
    CL_PLOCK_ACQUIRE(&osm->lock);
    const cl_qmap_t *table = &osm->subn.prtn_pkey_tbl;
    for (cl_map_item_t *item = cl_qmap_head(table); item != cl_qmap_end(table); item = cl_qmap_next(item)) {
        WeftPartition *partition = weft_partitions_read(osm, (const osm_prtn_t *)item);
        leave_unwritten(partition, file);
        g_ptr_array_add(all, partition);
        g_hash_table_insert(known, GUINT_TO_POINTER(partition->pkey), partition);
    }
    for (guint i = 0; i < file->partitions->len; i++)
        add_absent(osm, known, all, file->partitions->pdata[i]);
    CL_PLOCK_RELEASE(&osm->lock);
    g_ptr_array_sort(all, by_number);
    return all;
}

/* A change is seen in both, or in none. */
static GPtrArray *
read_all(WeftOsm *weft, WeftManagedFile **ret_file, GError **error)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(weft_applier_writing(weft->applier));
    *ret_file = weft_managed_file_load(weft->partitions, error);
    return *ret_file ? read_partitions(weft->osm, *ret_file) : NULL;
}

json_t *
weft_look_list(WeftOsm *weft, json_t *request, GError **error)
{
    g_autoptr(WeftManagedFile) file = NULL;
    g_autoptr(GPtrArray) all = read_all(weft, &file, error);
    if (!all)
        return NULL;
    json_t *partitions = json_array();
    for (guint i = 0; i < all->len; i++)
        json_array_append_new(partitions, weft_wire_partition_to_json(all->pdata[i]));
    return json_pack("{sI so}", "generation", (json_int_t)file->generation, "partitions", partitions);
}
