#include "partitions.h"

#define FULL 0x8000

/* Not in any header of opensm's, but exported by it. */
extern osm_prtn_t *osm_prtn_make_new(osm_log_t *log, osm_subn_t *subn, const char *name, uint16_t pkey);
extern ib_api_status_t
osm_prtn_add_port(osm_log_t *log, osm_subn_t *subn, osm_prtn_t *partition, ib_net64_t guid, boolean_t full, boolean_t index0);
extern ib_api_status_t
osm_prtn_add_mcgroup(osm_log_t *log, osm_subn_t *subn, osm_prtn_t *partition, uint8_t rate, uint8_t mtu, uint8_t sl,
                     uint8_t scope, uint32_t queue_key, uint8_t tclass, uint32_t flow_label, const ib_gid_t *mgid);

osm_prtn_t *
weft_partitions_find(osm_opensm_t *osm, guint pkey)
{
    cl_qmap_t *all = &osm->subn.prtn_pkey_tbl;
    cl_map_item_t *item = cl_qmap_get(all, cl_hton16((uint16_t)pkey));
    return item == cl_qmap_end(all) ? NULL : (osm_prtn_t *)item;
}

static void
append_guids(GArray *guids, const cl_map_t *map)
{
    for (cl_map_iterator_t i = cl_map_head(map); i != cl_map_end(map); i = cl_map_next(i)) {
        guint64 guid = cl_ntoh64(cl_map_key(i));
        g_array_append_val(guids, guid);
    }
}

GArray *
weft_partitions_members(const osm_prtn_t *partition)
{
    GArray *guids = g_array_new(FALSE, FALSE, sizeof(guint64));
    append_guids(guids, &partition->full_guid_tbl);
    append_guids(guids, &partition->part_guid_tbl);
    return guids;
}

/* --- reading --- */

static int
find_index0(osm_opensm_t *osm, guint64 guid, guint16 pkey)
{
    const osm_port_t *port = osm_get_port_by_guid(&osm->subn, cl_hton64(guid));
    const ib_pkey_table_t *block = port && port->p_physp ? osm_pkey_tbl_new_block_get(&port->p_physp->pkeys, 0) : NULL;
    gboolean there = block && (cl_ntoh16(block->pkey_entry[0]) & ~FULL) == pkey;
    return there && pkey != cl_ntoh16(IB_DEFAULT_PARTIAL_PKEY) ? 0 : -1;
}

static void
read_members(osm_opensm_t *osm, const osm_prtn_t *partition, WeftPartition *copy)
{
    g_autoptr(GArray) full = g_array_new(FALSE, FALSE, sizeof(guint64));
    g_autoptr(GArray) limited = g_array_new(FALSE, FALSE, sizeof(guint64));
    append_guids(full, &partition->full_guid_tbl);
    append_guids(limited, &partition->part_guid_tbl);
    for (guint i = 0; i < full->len; i++) {
        guint64 guid = g_array_index(full, guint64, i);
        gboolean both = cl_map_get(&partition->part_guid_tbl, cl_hton64(guid)) != NULL;
        WeftMember member = { .port_guid = guid, .membership = both ? WEFT_MEMBER_BOTH : WEFT_MEMBER_FULL };
        member.index = find_index0(osm, guid, (guint16)copy->pkey);
        g_array_append_val(copy->members, member);
    }
    for (guint i = 0; i < limited->len; i++) {
        guint64 guid = g_array_index(limited, guint64, i);
        if (cl_map_get(&partition->full_guid_tbl, cl_hton64(guid)))
            continue;
        WeftMember member = { .port_guid = guid, .membership = WEFT_MEMBER_LIMITED };
        member.index = find_index0(osm, guid, (guint16)copy->pkey);
        g_array_append_val(copy->members, member);
    }
}

WeftPartition *
weft_partitions_read(osm_opensm_t *osm, const osm_prtn_t *partition)
{
    g_autofree char *name = g_utf8_make_valid(partition->name, -1);
    WeftPartition *copy = weft_partition_new(cl_ntoh16(partition->pkey) & ~FULL, name);
    copy->ipoib = partition->nmgrps > 0;
    copy->sl = partition->sl;
    if (copy->ipoib) {
        const ib_member_rec_t *group = &partition->mgrps[0]->mcmember_rec;
        guint rate = group->rate & 0x3f, mtu = group->mtu & 0x3f;
        copy->rate = rate == OSM_DEFAULT_MGRP_RATE ? 0 : rate;
        copy->mtu = mtu == OSM_DEFAULT_MGRP_MTU ? 0 : mtu;
    }
    read_members(osm, partition, copy);
    return copy;
}

/* --- broadcast groups --- */

typedef struct {
    uint8_t rate;
    uint8_t mtu;
    uint8_t sl;
} Group;

static Group
describe_group(osm_opensm_t *osm, const WeftPartition *wish)
{
    return (Group){
        .rate = (uint8_t)(wish->rate ? wish->rate : OSM_DEFAULT_MGRP_RATE),
        .mtu = (uint8_t)(wish->mtu ? wish->mtu : OSM_DEFAULT_MGRP_MTU),
        .sl = (uint8_t)(osm->subn.opt.qos ? wish->sl : OSM_DEFAULT_SL),
    };
}

static gboolean
is_group(const ib_member_rec_t *record, const Group *group)
{
    uint8_t sl;
    ib_member_get_sl_flow_hop(record->sl_flow_hop, &sl, NULL, NULL);
    return (record->rate & 0x3f) == group->rate && (record->mtu & 0x3f) == group->mtu && sl == group->sl;
}

/* Groups that ports have joined live on until the last has left, as with opensm's own. */
static void
drop_groups(osm_opensm_t *osm, osm_prtn_t *partition)
{
    for (int i = 0; i < partition->nmgrps; i++) {
        partition->mgrps[i]->well_known = FALSE;
        osm_mgrp_cleanup(&osm->subn, partition->mgrps[i]);
    }
    free(partition->mgrps);
    partition->mgrps = NULL;
    partition->nmgrps = 0;
}

static gboolean
set_group(osm_opensm_t *osm, osm_prtn_t *partition, const WeftPartition *wish)
{
    Group group = describe_group(osm, wish);
    if (partition->nmgrps > 0 && (!wish->ipoib || !is_group(&partition->mgrps[0]->mcmember_rec, &group)))
        drop_groups(osm, partition);
    if (!wish->ipoib || partition->nmgrps > 0)
        return TRUE;
    ib_gid_t mgid = osm_ipoib_broadcast_mgid;
    ib_net16_t key = partition->pkey | cl_hton16(FULL);
    memcpy(&mgid.raw[4], &key, sizeof key);
    return osm_prtn_add_mcgroup(&osm->log, &osm->subn, partition, group.rate, group.mtu, group.sl, 0,
                                OSM_IPOIB_BROADCAST_MGRP_QKEY, 0, 0, &mgid) == IB_SUCCESS;
}

/* Who is no member any more leaves the partition's groups, too, whether it asks for that or not. */
static void
leave_groups(osm_opensm_t *osm, osm_prtn_t *partition, guint64 guid)
{
    osm_port_t *port = osm_get_port_by_guid(&osm->subn, cl_hton64(guid));
    for (int i = 0; port && i < partition->nmgrps; i++)
        osm_mgrp_delete_port(&osm->subn, &osm->log, partition->mgrps[i], port);
}

/* --- changing --- */

static void
drop_member(osm_opensm_t *osm, osm_prtn_t *partition, guint64 guid)
{
    cl_map_remove(&partition->full_guid_tbl, cl_hton64(guid));
    cl_map_remove(&partition->part_guid_tbl, cl_hton64(guid));
    leave_groups(osm, partition, guid);
}

static void
add_member(osm_opensm_t *osm, osm_prtn_t *partition, const WeftMember *member)
{
    ib_net64_t guid = cl_hton64(member->port_guid);
    osm_port_t *port = osm_get_port_by_guid(&osm->subn, guid);
    if (!port || !port->p_physp)
        return;
    cl_map_remove(&partition->full_guid_tbl, guid);
    cl_map_remove(&partition->part_guid_tbl, guid);
    if (member->membership != WEFT_MEMBER_LIMITED)
        osm_prtn_add_port(&osm->log, &osm->subn, partition, guid, TRUE, member->index == 0);
    if (member->membership != WEFT_MEMBER_FULL)
        osm_prtn_add_port(&osm->log, &osm->subn, partition, guid, FALSE, member->index == 0);
    /* It stands there only while opensm makes its tables. */
    port->p_physp->pkeys.indx0_pkey = 0;
}

static void
drop_strangers(osm_opensm_t *osm, osm_prtn_t *partition, const WeftPartition *wish)
{
    g_autoptr(GHashTable) wished = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < wish->members->len; i++)
        g_hash_table_add(wished, &g_array_index(wish->members, WeftMember, i).port_guid);
    g_autoptr(GArray) guids = weft_partitions_members(partition);
    for (guint i = 0; i < guids->len; i++)
        if (!g_hash_table_contains(wished, &g_array_index(guids, guint64, i)))
            drop_member(osm, partition, g_array_index(guids, guint64, i));
}

gboolean
weft_partitions_set(osm_opensm_t *osm, const WeftPartition *wish)
{
    osm_prtn_t *partition = weft_partitions_find(osm, wish->pkey);
    if (!partition)
        partition = osm_prtn_make_new(&osm->log, &osm->subn, wish->name, cl_hton16((uint16_t)wish->pkey));
    if (!partition)
        return FALSE;
    g_strlcpy(partition->name, wish->name, sizeof partition->name);
    partition->sl = describe_group(osm, wish).sl;
    drop_strangers(osm, partition, wish);
    for (guint i = 0; i < wish->members->len; i++)
        add_member(osm, partition, &g_array_index(wish->members, WeftMember, i));
    if (cl_map_count(&partition->full_guid_tbl) == 0 && cl_map_count(&partition->part_guid_tbl) == 0) {
        weft_partitions_remove(osm, wish->pkey);
        return TRUE;
    }
    return set_group(osm, partition, wish);
}

void
weft_partitions_remove(osm_opensm_t *osm, guint pkey)
{
    osm_prtn_t *partition = weft_partitions_find(osm, pkey);
    if (!partition)
        return;
    g_autoptr(GArray) guids = weft_partitions_members(partition);
    for (guint i = 0; i < guids->len; i++)
        drop_member(osm, partition, g_array_index(guids, guint64, i));
    cl_qmap_remove_item(&osm->subn.prtn_pkey_tbl, &partition->map_item);
    osm_prtn_delete(&osm->subn, &partition);
}
