#include "fleet-private.h"
#include "hostlist.h"

#include <string.h>

static gboolean
bit_get(const guint64 *words, guint i)
{
    return words[i / 64] >> (i % 64) & 1;
}

/* Returns whether the bit changed, so that counters follow the bits and never drift from them. */
static gboolean
bit_set(guint64 *words, guint i, gboolean value)
{
    if (bit_get(words, i) == value)
        return FALSE;
    words[i / 64] ^= 1ULL << (i % 64);
    return TRUE;
}

gboolean
weft_slot_core_is_free(const WeftSlot *slot, guint core)
{
    return !bit_get(slot->cores.words, core);
}

gboolean
weft_slot_vf_is_free(const WeftSlot *slot, guint hca, guint vf)
{
    return !bit_get(slot->vfs[hca], vf) && !bit_get(slot->absent_vfs[hca], vf);
}

gboolean
weft_slot_hca_is_free(const WeftSlot *slot, guint hca)
{
    return slot->vfs[hca][0] == 0 && slot->vfs[hca][1] == 0 && !bit_get(slot->absent_vfs[hca], WEFT_SLOT_WHOLE);
}

gboolean
weft_slot_gpu_is_free(const WeftSlot *slot, guint gpu)
{
    return !((slot->gpus | slot->absent_gpus) >> gpu & 1);
}

gboolean
weft_slot_is_complete(const WeftSlot *slot)
{
    guint64 absent = slot->absent_gpus;
    for (guint i = 0; i < slot->host->hcas->len; i++)
        absent |= slot->absent_vfs[i][0] | slot->absent_vfs[i][1];
    return absent == 0;
}

int
weft_slot_hca(const WeftHost *host, const char *name)
{
    for (guint i = 0; i < host->hcas->len; i++)
        if (strcmp(((const WeftHca *)host->hcas->pdata[i])->name, name) == 0)
            return (int)i;
    return -1;
}

static void
mark_vf(WeftSlot *slot, guint hca, guint vf, gboolean taken)
{
    if (bit_set(slot->vfs[hca], vf, taken) && !bit_get(slot->absent_vfs[hca], vf))
        slot->free_vfs += taken ? -1 : 1;
}

/* --- P_Keys of the ports --- */

static guint
places_of(const WeftSlot *slot, const WeftHca *hca)
{
    gpointer known = slot->told->ports ? g_hash_table_lookup(slot->told->ports, &hca->port_guid) : NULL;
    return known ? GPOINTER_TO_UINT(known) : slot->told->pkeys;
}

/* As long as nobody knows which port it is, no partition could name it. */
static gboolean
has_room(const WeftSlot *slot, guint hca)
{
    const WeftHca *it = slot->host->hcas->pdata[hca];
    guint places = places_of(slot, it);
    return it->port_guid && (places == 0 || slot->n_keys[hca] < places);
}

static gboolean
rail_has_room(const WeftSlot *slot, guint rail)
{
    for (guint i = 0; i < slot->host->hcas->len; i++)
        if (((const WeftHca *)slot->host->hcas->pdata[i])->rail == rail && has_room(slot, i))
            return TRUE;
    return FALSE;
}

static void
note_room(WeftSlot *slot)
{
    slot->roomy = 0;
    while (rail_has_room(slot, slot->roomy))
        slot->roomy++;
}

static WeftPortKey *
find_key(const WeftSlot *slot, guint hca, const char *cluster)
{
    for (guint i = 0; cluster && i < slot->keys->len; i++) {
        WeftPortKey *key = &g_array_index(slot->keys, WeftPortKey, i);
        if (key->hca == hca && strcmp(key->cluster, cluster) == 0)
            return key;
    }
    return NULL;
}

static void
add_keys(WeftSlot *slot, guint hca, const char *cluster, guint nodes)
{
    WeftPortKey *key = find_key(slot, hca, cluster);
    if (key) {
        key->nodes += nodes;
        return;
    }
    WeftPortKey new = { .hca = hca, .nodes = nodes };
    g_strlcpy(new.cluster, cluster, sizeof new.cluster);
    g_array_append_val(slot->keys, new);
    slot->n_keys[hca]++;
    note_room(slot);
}

static void
drop_key(WeftSlot *slot, guint hca, const char *cluster)
{
    WeftPortKey *key = find_key(slot, hca, cluster);
    if (!key || --key->nodes > 0)
        return;
    g_array_remove_index_fast(slot->keys, (guint)(key - (WeftPortKey *)slot->keys->data));
    slot->n_keys[hca]--;
    note_room(slot);
}

/* A node that is only being tried has no cluster yet. */
static void
mark_key(WeftSlot *slot, const WeftDevice *device, const char *cluster, gboolean taken)
{
    int hca = weft_slot_hca(slot->host, device->hca);
    if (hca < 0)
        return;
    if (!cluster)
        slot->tried |= (guint16)(1U << hca);
    else if (taken)
        add_keys(slot, (guint)hca, cluster, 1);
    else
        drop_key(slot, (guint)hca, cluster);
}

gboolean
weft_slot_takes_key(const WeftSlot *slot, guint hca, const char *cluster)
{
    gboolean named = ((const WeftHca *)slot->host->hcas->pdata[hca])->port_guid != 0;
    return named && (has_room(slot, hca) || slot->tried & 1U << hca || find_key(slot, hca, cluster));
}

/* --- the rest --- */

static void
mark_device(WeftSlot *slot, const WeftDevice *device, gboolean taken)
{
    int hca = weft_slot_hca(slot->host, device->hca);
    if (hca < 0)
        return;
    guint vfs = ((const WeftHca *)slot->host->hcas->pdata[hca])->vfs;
    if (device->vf >= 0 && (guint)device->vf < vfs)
        mark_vf(slot, (guint)hca, (guint)device->vf, taken);
    if (device->vf < 0)
        bit_set(slot->vfs[hca], WEFT_SLOT_WHOLE, taken);
    for (guint vf = 0; device->vf < 0 && vf < vfs; vf++)
        mark_vf(slot, (guint)hca, vf, taken);
}

guint64
weft_free_bytes(const WeftPages *pages, guint64 used)
{
    return (pages->count - MIN(pages->count, used)) * pages->size;
}

static void
mark_memory(WeftSlot *slot, const WeftMemory *memory, gboolean taken)
{
    if (memory->numa >= slot->host->numa->len)
        return;
    const WeftNuma *numa = &g_array_index(slot->host->numa, WeftNuma, memory->numa);
    for (guint i = 0; i < numa->n_pages; i++)
        if (numa->pages[i].size == memory->page_size) {
            guint64 *used = &slot->pages[memory->numa][i];
            slot->free_bytes -= weft_free_bytes(&numa->pages[i], *used);
            *used = taken ? *used + memory->pages : *used - MIN(*used, memory->pages);
            slot->free_bytes += weft_free_bytes(&numa->pages[i], *used);
        }
}

static void
mark_gpu(WeftSlot *slot, const char *name, gboolean taken)
{
    for (guint i = 0; i < slot->host->gpus->len; i++)
        if (strcmp(((const WeftGpu *)slot->host->gpus->pdata[i])->name, name) == 0)
            slot->gpus = taken ? slot->gpus | 1U << i : slot->gpus & ~(1U << i);
}

static void
mark_node(WeftSlot *slot, const WeftNode *node, gboolean taken)
{
    for (guint i = 0; i < node->cores->len; i++) {
        guint core = g_array_index(node->cores, guint16, i);
        if (core < slot->host->cores->len && bit_set(slot->cores.words, core, taken))
            slot->free_cores += taken ? -1 : 1;
    }
    for (guint i = 0; i < node->memory->len; i++)
        mark_memory(slot, &g_array_index(node->memory, WeftMemory, i), taken);
    for (guint i = 0; i < node->devices->len; i++) {
        mark_device(slot, node->devices->pdata[i], taken);
        mark_key(slot, node->devices->pdata[i], node->cluster, taken);
        weft_slot_promise(slot, node->devices->pdata[i], node, taken);
    }
    for (guint i = 0; i < node->gpus->len; i++)
        mark_gpu(slot, node->gpus->pdata[i], taken);
}

void
weft_slot_take(WeftSlot *slot, const WeftNode *node)
{
    mark_node(slot, node, TRUE);
}

void
weft_slot_give(WeftSlot *slot, const WeftNode *node)
{
    mark_node(slot, node, FALSE);
}

/* Nothing is taken. */
static void
slot_init(WeftSlot *slot)
{
    const WeftHost *host = slot->host;
    for (guint i = 0; i < host->cores->len; i++) {
        gboolean housekeeping = g_array_index(host->cores, WeftCore, i).housekeeping;
        bit_set(slot->cores.words, i, housekeeping);
        slot->free_cores += !housekeeping;
    }
    for (guint i = 0; i < host->hcas->len; i++)
        for (guint vf = 0; vf < ((const WeftHca *)host->hcas->pdata[i])->vfs; vf++)
            slot->free_vfs += weft_slot_vf_is_free(slot, i, vf);
    for (guint n = 0; n < host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            slot->free_bytes += weft_free_bytes(&numa->pages[i], 0);
    }
    note_room(slot);
}

static WeftSlot *
slot_new(WeftHost *host, const WeftFleetFabric *told)
{
    WeftSlot *slot = g_new0(WeftSlot, 1);
    slot->host = host;
    slot->told = told;
    slot->keys = g_array_new(FALSE, FALSE, sizeof(WeftPortKey));
    slot->lanes = g_array_new(FALSE, FALSE, sizeof(WeftPortLane));
    slot_init(slot);
    return slot;
}

static void
slot_free(gpointer data)
{
    WeftSlot *slot = data;
    weft_host_free(slot->host);
    g_array_unref(slot->keys);
    g_array_unref(slot->lanes);
    g_free(slot);
}

/* Carries over what is taken under the old description, by the names that nodes use. */
static void
slot_inherit(WeftSlot *slot, const WeftSlot *old)
{
    slot->open = old->open;
    for (guint i = 0; i < MIN(slot->host->cores->len, old->host->cores->len); i++)
        if (!g_array_index(old->host->cores, WeftCore, i).housekeeping && !weft_slot_core_is_free(old, i) &&
            bit_set(slot->cores.words, i, TRUE))
            slot->free_cores--;
    for (guint n = 0; n < old->host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(old->host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            mark_memory(slot, &(WeftMemory){ n, numa->pages[i].size, old->pages[n][i] }, TRUE);
    }
    for (guint h = 0; h < old->host->hcas->len; h++) {
        const WeftHca *hca = old->host->hcas->pdata[h];
        for (guint vf = 0; vf < hca->vfs; vf++)
            if (bit_get(old->vfs[h], vf))
                mark_device(slot, &(WeftDevice){ .hca = hca->name, .vf = (int)vf }, TRUE);
        if (bit_get(old->vfs[h], WEFT_SLOT_WHOLE))
            mark_device(slot, &(WeftDevice){ .hca = hca->name, .vf = -1 }, TRUE);
    }
    for (guint i = 0; i < old->keys->len; i++) {
        const WeftPortKey *key = &g_array_index(old->keys, WeftPortKey, i);
        int hca = weft_slot_hca(slot->host, ((const WeftHca *)old->host->hcas->pdata[key->hca])->name);
        if (hca >= 0)
            add_keys(slot, (guint)hca, key->cluster, key->nodes);
    }
    for (guint i = 0; i < old->lanes->len; i++) {
        const WeftPortLane *lane = &g_array_index(old->lanes, WeftPortLane, i);
        int hca = weft_slot_hca(slot->host, ((const WeftHca *)old->host->hcas->pdata[lane->hca])->name);
        if (hca >= 0)
            weft_slot_add_lane(slot, (guint)hca, lane->sl, lane->use);
    }
    for (guint i = 0; i < old->host->gpus->len; i++)
        if (old->gpus & 1U << i)
            mark_gpu(slot, ((const WeftGpu *)old->host->gpus->pdata[i])->name, TRUE);
}

static void
fabric_clear(WeftFleetFabric *fabric)
{
    g_free(fabric->closed);
    g_free(fabric->no_virtual);
    g_free(fabric->no_lanes);
    g_clear_pointer(&fabric->ports, g_hash_table_unref);
    g_clear_pointer(&fabric->rates, g_hash_table_unref);
    g_clear_pointer(&fabric->leaves, g_hash_table_unref);
}

static void
fabric_free(gpointer data)
{
    fabric_clear(data);
    g_free(data);
}

WeftFleet *
weft_fleet_new(void)
{
    WeftFleet *fleet = g_new0(WeftFleet, 1);
    fleet->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    fleet->slots = g_ptr_array_new_with_free_func(slot_free);
    fleet->fabrics = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, fabric_free);
    return fleet;
}

void
weft_fleet_free(WeftFleet *fleet)
{
    if (!fleet)
        return;
    g_hash_table_unref(fleet->by_name);
    g_ptr_array_unref(fleet->slots);
    g_hash_table_unref(fleet->fabrics);
    g_free(fleet);
}

/* Stays where it is, since slots point to it. */
static WeftFleetFabric *
get_fabric(WeftFleet *fleet, const char *name)
{
    WeftFleetFabric *fabric = g_hash_table_lookup(fleet->fabrics, name);
    if (!fabric) {
        fabric = g_new0(WeftFleetFabric, 1);
        g_hash_table_insert(fleet->fabrics, g_strdup(name), fabric);
    }
    return fabric;
}

void
weft_fleet_set_fabric(WeftFleet *fleet, const char *name, const WeftFleetFabric *told)
{
    WeftFleetFabric *fabric = get_fabric(fleet, name);
    fleet->sorted = fleet->sorted && fabric->leaves == told->leaves;
    fabric_clear(fabric);
    *fabric = *told;
    for (guint i = 0; i < fleet->slots->len; i++) {
        WeftSlot *slot = fleet->slots->pdata[i];
        if (slot->told == fabric)
            note_room(slot);
    }
}

void
weft_fleet_put_host(WeftFleet *fleet, WeftHost *host)
{
    WeftSlot *slot = slot_new(host, get_fabric(fleet, host->fabric));
    const WeftSlot *old = g_hash_table_lookup(fleet->by_name, host->name);
    if (old) {
        slot_inherit(slot, old);
        weft_fleet_remove_host(fleet, host->name);
    }
    g_ptr_array_add(fleet->slots, slot);
    g_hash_table_insert(fleet->by_name, host->name, slot);
    fleet->sorted = FALSE;
}

void
weft_fleet_remove_host(WeftFleet *fleet, const char *name)
{
    WeftSlot *slot = g_hash_table_lookup(fleet->by_name, name);
    if (!slot)
        return;
    g_hash_table_remove(fleet->by_name, name);
    g_ptr_array_remove_fast(fleet->slots, slot);
    fleet->sorted = FALSE;
}

const WeftHost *
weft_fleet_host(const WeftFleet *fleet, const char *name)
{
    const WeftSlot *slot = g_hash_table_lookup(fleet->by_name, name);
    return slot ? slot->host : NULL;
}

GPtrArray *
weft_fleet_hosts(const WeftFleet *fleet, const char *fabric)
{
    GPtrArray *hosts = g_ptr_array_new();
    for (guint i = 0; i < fleet->slots->len; i++) {
        WeftHost *host = ((const WeftSlot *)fleet->slots->pdata[i])->host;
        if (strcmp(host->fabric, fabric) == 0)
            g_ptr_array_add(hosts, host);
    }
    return hosts;
}

void
weft_fleet_set_open(WeftFleet *fleet, const char *name, gboolean open)
{
    WeftSlot *slot = g_hash_table_lookup(fleet->by_name, name);
    if (slot)
        slot->open = open;
}

static const char *
slot_leaf(const WeftSlot *slot)
{
    const WeftHca *first = NULL;
    for (guint i = 0; i < slot->host->hcas->len; i++) {
        const WeftHca *hca = slot->host->hcas->pdata[i];
        if (!first || hca->rail < first->rail)
            first = hca;
    }
    const char *leaf = slot->host->leaf;
    if (!leaf && first)
        leaf = first->leaf;
    if (!leaf && first && slot->told->leaves)
        leaf = g_hash_table_lookup(slot->told->leaves, &first->port_guid);
    return leaf ? leaf : "";
}

const char *
weft_fleet_leaf(const WeftFleet *fleet, const char *name)
{
    const WeftSlot *slot = g_hash_table_lookup(fleet->by_name, name);
    return slot ? slot_leaf(slot) : "";
}

/* --- what is there --- */

/* Its name is what the host's drivers make of it; its address stays. */
static const WeftHca *
find_hca(const WeftHost *found, const WeftHca *described)
{
    for (guint i = 0; described->pci && i < found->hcas->len; i++) {
        const WeftHca *hca = found->hcas->pdata[i];
        if (g_strcmp0(hca->pci, described->pci) == 0)
            return hca;
    }
    return weft_host_hca(found, described->name);
}

static gboolean
has_gpu(const WeftHost *found, const char *name)
{
    for (guint i = 0; i < found->gpus->len; i++)
        if (strcmp(((const WeftGpu *)found->gpus->pdata[i])->name, name) == 0)
            return TRUE;
    return FALSE;
}

static void
set_functions(WeftSlot *slot, guint i, const WeftHca *found)
{
    guint vfs = ((const WeftHca *)slot->host->hcas->pdata[i])->vfs;
    bit_set(slot->absent_vfs[i], WEFT_SLOT_WHOLE, !found);
    for (guint vf = 0; vf < vfs; vf++) {
        bit_set(slot->absent_vfs[i], vf, !found || vf >= found->vfs);
        slot->free_vfs += weft_slot_vf_is_free(slot, i, vf);
    }
}

void
weft_fleet_set_devices(WeftFleet *fleet, const char *name, const WeftHost *found)
{
    WeftSlot *slot = g_hash_table_lookup(fleet->by_name, name);
    if (!slot)
        return;
    slot->free_vfs = 0;
    slot->absent_gpus = 0;
    for (guint i = 0; i < slot->host->hcas->len; i++)
        set_functions(slot, i, find_hca(found, slot->host->hcas->pdata[i]));
    for (guint i = 0; i < slot->host->gpus->len; i++)
        if (!has_gpu(found, ((const WeftGpu *)slot->host->gpus->pdata[i])->name))
            slot->absent_gpus |= 1U << i;
}

/* --- order --- */

static int
slot_compare(gconstpointer a, gconstpointer b)
{
    const WeftSlot *s = *(const WeftSlot *const *)a, *t = *(const WeftSlot *const *)b;
    int order = weft_natural_compare(s->host->fabric, t->host->fabric);
    if (order == 0)
        order = weft_natural_compare(slot_leaf(s), slot_leaf(t));
    return order ? order : weft_natural_compare(s->host->name, t->host->name);
}

/* Hosts of one fabric lie together, and so do those of one leaf: what differs from the one before gets the next number. */
static void
number_slots(WeftFleet *fleet)
{
    for (guint i = 1; i < fleet->slots->len; i++) {
        const WeftSlot *before = fleet->slots->pdata[i - 1];
        WeftSlot *slot = fleet->slots->pdata[i];
        gboolean same = strcmp(before->host->fabric, slot->host->fabric) == 0;
        slot->fabric = before->fabric + !same;
        slot->leaf = before->leaf + !(same && strcmp(slot_leaf(before), slot_leaf(slot)) == 0);
    }
}

void
weft_fleet_sort(WeftFleet *fleet)
{
    if (fleet->sorted)
        return;
    g_ptr_array_sort(fleet->slots, slot_compare);
    if (fleet->slots->len)
        ((WeftSlot *)fleet->slots->pdata[0])->fabric = ((WeftSlot *)fleet->slots->pdata[0])->leaf = 0;
    number_slots(fleet);
    fleet->sorted = TRUE;
}

void
weft_fleet_take(WeftFleet *fleet, const WeftNode *node)
{
    WeftSlot *slot = g_hash_table_lookup(fleet->by_name, node->host);
    if (slot)
        weft_slot_take(slot, node);
}

void
weft_fleet_give(WeftFleet *fleet, const WeftNode *node)
{
    WeftSlot *slot = g_hash_table_lookup(fleet->by_name, node->host);
    if (slot)
        weft_slot_give(slot, node);
}

void
weft_fleet_empty(WeftFleet *fleet, const char *host)
{
    WeftSlot *slot = g_hash_table_lookup(fleet->by_name, host);
    if (!slot)
        return;
    g_array_set_size(slot->keys, 0);
    g_array_set_size(slot->lanes, 0);
    const WeftSlot old = *slot;
    *slot = (WeftSlot){ .host = old.host,
                        .told = old.told,
                        .open = old.open,
                        .fabric = old.fabric,
                        .leaf = old.leaf,
                        .keys = old.keys,
                        .lanes = old.lanes,
                        .absent_gpus = old.absent_gpus };
    memcpy(slot->absent_vfs, old.absent_vfs, sizeof slot->absent_vfs);
    slot_init(slot);
}
