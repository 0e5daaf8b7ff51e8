#include "slot-private.h"

guint64
weft_fabric_rate(const WeftFleetFabric *told, const WeftHca *hca)
{
    const guint64 *rate = told->rates ? g_hash_table_lookup(told->rates, &hca->port_guid) : NULL;
    return rate ? *rate : 0;
}

/* --- bits --- */

static gboolean
bit_get(const guint64 *words, guint i)
{
    return words[i / 64] >> (i % 64) & 1;
}

static void
bit_set(guint64 *words, guint i, gboolean value)
{
    guint64 bit = 1ULL << (i % 64);
    words[i / 64] = value ? words[i / 64] | bit : words[i / 64] & ~bit;
}

static guint
bits_between(const guint64 *words, guint first, guint n)
{
    guint count = 0;
    for (guint i = first; i < first + n;) {
        guint length = MIN(64 - i % 64, first + n - i);
        guint64 mask = length == 64 ? G_MAXUINT64 : (1ULL << length) - 1;
        count += (guint)__builtin_popcountll(words[i / 64] >> (i % 64) & mask);
        i += length;
    }
    return count;
}

/* --- what follows from the rest --- */

static void
count_functions(WeftSlotHca *hca)
{
    const guint64 gone[2] = { ~(hca->taken[0] | hca->absent[0]), ~(hca->taken[1] | hca->absent[1]) };
    hca->free = (guint8)bits_between(gone, 0, MIN(hca->vfs, WEFT_VFS_MAX));
}

static void
count_gpus(WeftSlot *slot)
{
    guint all = (1U << slot->n_gpus) - 1;
    slot->gpus_free = (guint16)(all & ~(slot->gpus_taken | slot->gpus_absent));
}

static void
count_cores(WeftSlot *slot)
{
    slot->free_cores = 0;
    for (guint i = 0; i < slot->n_numa; i++) {
        WeftSlotNuma *numa = &slot->numa[i];
        numa->free = (guint16)bits_between(weft_slot_free_words(slot), numa->first, numa->n_cores);
        slot->free_cores += numa->free;
    }
}

static void
count_keys(WeftSlot *slot)
{
    for (guint h = 0; h < slot->n_hcas; h++) {
        WeftSlotHca *hca = &weft_slot_hcas(slot)[h];
        hca->n_keys = 0;
        for (guint i = 0; slot->ledger && i < slot->ledger->n_tenancies; i++)
            hca->n_keys = (guint16)(hca->n_keys + (slot->ledger->tenancies[i].keys[h] > 0));
    }
}

void
weft_slot_told(WeftSlot *slot)
{
    const WeftFleetFabric *told = slot->told;
    for (guint i = 0; i < slot->n_hcas; i++) {
        const WeftHca *described = slot->host->hcas->pdata[i];
        WeftSlotHca *hca = &weft_slot_hcas(slot)[i];
        gpointer places = told->ports ? g_hash_table_lookup(told->ports, &described->port_guid) : NULL;
        hca->places = places ? GPOINTER_TO_UINT(places) : told->pkeys;
        hca->rate = weft_fabric_rate(told, described);
        hca->named = described->port_guid != 0 && !told->no_devices;
        /* Virtual functions of mlx5 are ports of their own, which not every manager programs. */
        hca->gives = hca->vfs > 0 && hca->named && !(described->driver == WEFT_HCA_MLX5 && told->no_virtual);
    }
}

/* --- as it is described --- */

static void
describe_cores(WeftSlot *slot)
{
    const GArray *cores = slot->host->cores;
    for (guint i = 0; i < cores->len; i++) {
        const WeftCore *core = &g_array_index(cores, WeftCore, i);
        WeftSlotNuma *numa = &slot->numa[core->numa];
        if (numa->n_cores++ == 0)
            numa->first = (guint16)i;
        bit_set(weft_slot_usable_words(slot), i, !core->housekeeping);
    }
    memcpy(weft_slot_free_words(slot), weft_slot_usable_words(slot), slot->n_words * sizeof(guint64));
}

/* Keeps the list in order. */
static void
add_size(WeftSlot *slot, guint8 shift)
{
    guint i = 0;
    while (i < slot->n_sizes && slot->shifts[i] > shift)
        i++;
    if ((i < slot->n_sizes && slot->shifts[i] == shift) || slot->n_sizes == WEFT_SLOT_SIZES)
        return;
    memmove(&slot->shifts[i + 1], &slot->shifts[i], slot->n_sizes - i);
    slot->shifts[i] = shift;
    slot->n_sizes++;
}

static void
describe_pages(WeftSlot *slot)
{
    for (guint n = 0; n < slot->n_numa; n++) {
        const WeftNuma *described = &g_array_index(slot->host->numa, WeftNuma, n);
        slot->numa[n].n_sizes = (guint8)described->n_pages;
        for (guint i = 0; i < described->n_pages; i++) {
            slot->numa[n].shifts[i] = (guint8)__builtin_ctzll(described->pages[i].size);
            slot->numa[n].count[i] = (guint32)MIN(described->pages[i].count, WEFT_SLOT_PAGES);
            add_size(slot, slot->numa[n].shifts[i]);
        }
    }
}

/* The same root has the same number. */
static guint8
root_number(const WeftHost *host, const char *root)
{
    guint8 number = WEFT_SLOT_UNKNOWN + 1;
    for (guint i = 0; root && i < host->hcas->len; i++, number++)
        if (g_strcmp0(((const WeftHca *)host->hcas->pdata[i])->root, root) == 0)
            return number;
    for (guint i = 0; root && i < host->gpus->len; i++, number++)
        if (g_strcmp0(((const WeftGpu *)host->gpus->pdata[i])->root, root) == 0)
            return number;
    return WEFT_SLOT_UNKNOWN;
}

static void
describe_hcas(WeftSlot *slot)
{
    for (guint i = 0; i < slot->n_hcas; i++) {
        const WeftHca *described = slot->host->hcas->pdata[i];
        WeftSlotHca *hca = &weft_slot_hcas(slot)[i];
        hca->numa = (guint8)described->numa;
        hca->rail = (guint8)described->rail;
        hca->vfs = (guint8)described->vfs;
        hca->root = root_number(slot->host, described->root);
        for (guint g = 0; described->root && g < slot->n_gpus; g++)
            if (g_strcmp0(((const WeftGpu *)slot->host->gpus->pdata[g])->root, described->root) == 0)
                hca->gpus |= (guint16)(1U << g);
        count_functions(hca);
    }
}

static void
describe_gpus(WeftSlot *slot)
{
    for (guint i = 0; i < slot->n_gpus; i++) {
        const WeftGpu *gpu = slot->host->gpus->pdata[i];
        slot->numa[gpu->numa].gpus |= (guint16)(1U << i);
        if (!gpu->root)
            slot->gpus_rootless |= (guint16)(1U << i);
        for (guint j = 0; j < slot->n_gpus; j++) {
            const WeftGpu *other = slot->host->gpus->pdata[j];
            if (gpu->numa == other->numa && g_strcmp0(gpu->root, other->root) == 0)
                weft_slot_kin(slot)[i] |= (guint16)(1U << j);
        }
    }
    count_gpus(slot);
}

WeftSlot *
weft_slot_new(guint number, const WeftHost *host, const WeftFleetFabric *told)
{
    guint n_words = (host->cores->len + 63) / 64;
    gsize size = G_STRUCT_OFFSET(WeftSlot, numa) + (host->numa->len * sizeof(WeftSlotNuma) + 7) / 8 * 8 +
                 host->hcas->len * sizeof(WeftSlotHca) + 2 * n_words * sizeof(guint64) + host->gpus->len * sizeof(guint16);
    size = MAX((size + 7) / 8 * 8, sizeof(WeftSlot));
    WeftSlot *slot = g_malloc0(size);
    slot->size = (guint32)size;
    slot->number = number;
    slot->host = host;
    slot->told = told;
    slot->n_numa = (guint8)host->numa->len;
    slot->n_hcas = (guint8)host->hcas->len;
    slot->n_gpus = (guint8)host->gpus->len;
    slot->n_words = (guint8)n_words;
    describe_cores(slot);
    describe_pages(slot);
    describe_hcas(slot);
    describe_gpus(slot);
    count_cores(slot);
    weft_slot_told(slot);
    return slot;
}

void
weft_slot_free(WeftSlot *slot)
{
    if (!slot)
        return;
    weft_ledger_unref(slot->ledger);
    g_free(slot);
}

gsize
weft_slot_size(const WeftSlot *slot)
{
    return slot->size;
}

void
weft_slot_save(const WeftSlot *slot, void *ret_copy)
{
    memcpy(ret_copy, slot, slot->size);
    weft_ledger_ref(slot->ledger);
}

void
weft_slot_restore(WeftSlot *slot, const void *copy)
{
    weft_ledger_unref(slot->ledger);
    memcpy(slot, copy, slot->size);
}

WeftSlot *
weft_slot_copy(const WeftSlot *slot)
{
    WeftSlot *copy = g_malloc(slot->size);
    weft_slot_save(slot, copy);
    return copy;
}

gboolean
weft_slot_equals(const WeftSlot *slot, const WeftSlot *copy)
{
    gsize head = G_STRUCT_OFFSET(WeftSlot, size);
    return slot->ledger == copy->ledger && slot->size == copy->size &&
           memcmp((const char *)slot + head, (const char *)copy + head, slot->size - head) == 0;
}

void
weft_slot_adopt(WeftSlot *slot, const WeftSlot *copy)
{
    const WeftHost *host = slot->host;
    const WeftFleetFabric *told = slot->told;
    g_return_if_fail(slot->size == copy->size);
    weft_ledger_unref(slot->ledger);
    memcpy(slot, copy, slot->size);
    weft_ledger_ref(slot->ledger);
    slot->host = host;
    slot->told = told;
}

/* All but the ledger, which the caller ends. */
static void
forget_taken(WeftSlot *slot)
{
    slot->ledger = NULL;
    slot->nodes = slot->tried = slot->exclusive = slot->gpus_taken = 0;
    memcpy(weft_slot_free_words(slot), weft_slot_usable_words(slot), slot->n_words * sizeof(guint64));
    for (guint i = 0; i < slot->n_numa; i++)
        memset(slot->numa[i].used, 0, sizeof slot->numa[i].used);
    for (guint i = 0; i < slot->n_hcas; i++) {
        WeftSlotHca *hca = &weft_slot_hcas(slot)[i];
        hca->taken[0] = hca->taken[1] = hca->tried_bits = 0;
        hca->n_keys = 0;
        count_functions(hca);
    }
    count_cores(slot);
    count_gpus(slot);
}

void
weft_slot_empty(WeftSlot *slot)
{
    weft_ledger_unref(slot->ledger);
    forget_taken(slot);
}

void
weft_slot_room_empty(const WeftSlot *slot, const WeftShape *shape, guint ret_room[WEFT_SCARCE_KINDS])
{
    g_autofree WeftSlot *copy = g_malloc(slot->size);
    memcpy(copy, slot, slot->size);
    forget_taken(copy);
    weft_slot_room(copy, shape, ret_room);
}

/* --- taking and giving --- */

static void
mark_cores(WeftSlot *slot, const WeftBits *cores, gboolean taken)
{
    guint64 *free = weft_slot_free_words(slot), *usable = weft_slot_usable_words(slot);
    for (guint i = 0; i < slot->n_words; i++)
        free[i] = taken ? free[i] & ~cores->words[i] : free[i] | (cores->words[i] & usable[i]);
    count_cores(slot);
}

static void
mark_pages(WeftSlot *slot, const WeftSeatPart *part, gboolean taken)
{
    if (part->numa >= slot->n_numa || part->size >= slot->numa[part->numa].n_sizes)
        return;
    guint32 *used = &slot->numa[part->numa].used[part->size];
    *used = taken ? *used + part->pages : *used - MIN(*used, part->pages);
}

/* Where such pages are counted; FALSE: the host has none of that size there. */
static gboolean
find_pages(const WeftSlot *slot, const WeftMemory *memory, WeftSeatPart *ret_part)
{
    guint shift = (guint)g_bit_nth_lsf(memory->page_size, -1);
    int size = memory->numa < slot->n_numa ? weft_numa_size(&slot->numa[memory->numa], shift) : -1;
    if (size < 0 || memory->pages > G_MAXUINT32)
        return FALSE;
    *ret_part = (WeftSeatPart){ .numa = (guint8)memory->numa, .size = (guint8)size, .pages = (guint32)memory->pages };
    return TRUE;
}

void
weft_slot_mark_pages(WeftSlot *slot, const WeftMemory *memory, gboolean taken)
{
    WeftSeatPart part;
    if (find_pages(slot, memory, &part))
        mark_pages(slot, &part, taken);
}

gboolean
weft_slot_has_pages(const WeftSlot *slot, const WeftMemory *memory)
{
    WeftSeatPart part;
    return find_pages(slot, memory, &part) && weft_numa_free_pages(&slot->numa[part.numa], part.size) >= part.pages;
}

static void
mark_function(WeftSlotHca *hca, int vf, gboolean taken)
{
    if (vf >= 0 && vf < hca->vfs)
        bit_set(hca->taken, (guint)vf, taken);
    if (vf < 0)
        bit_set(hca->taken, WEFT_SLOT_WHOLE, taken);
    for (guint i = 0; vf < 0 && i < hca->vfs; i++)
        bit_set(hca->taken, i, taken);
    count_functions(hca);
}

static void
mark_seat(WeftSlot *slot, const WeftSeat *seat, gboolean tried, gboolean taken)
{
    mark_cores(slot, &seat->cores, taken);
    for (guint i = 0; i < seat->n_parts; i++)
        mark_pages(slot, &seat->parts[i], taken);
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        if (seat->hca[rail] >= slot->n_hcas)
            continue;
        WeftSlotHca *hca = &weft_slot_hcas(slot)[seat->hca[rail]];
        mark_function(hca, seat->vf[rail], taken);
        if (tried)
            hca->tried_bits =
                taken ? hca->tried_bits + seat->bandwidth : hca->tried_bits - MIN(hca->tried_bits, seat->bandwidth);
    }
    guint16 gpus = (guint16)seat->gpus;
    slot->gpus_taken = taken ? slot->gpus_taken | gpus : slot->gpus_taken & (guint16)~gpus;
    count_gpus(slot);
}

void
weft_slot_take_seat(WeftSlot *slot, const WeftSeat *seat, const char *cluster)
{
    mark_seat(slot, seat, !cluster, TRUE);
    slot->nodes++;
    if (!cluster) {
        slot->tried++;
        return;
    }
    slot->exclusive = (guint16)(slot->exclusive + !!seat->exclusive);
    slot->ledger = weft_ledger_add(slot->ledger, seat, cluster);
    count_keys(slot);
}

void
weft_slot_give_seat(WeftSlot *slot, const WeftSeat *seat, const char *cluster)
{
    mark_seat(slot, seat, !cluster, FALSE);
    gboolean known = cluster ? weft_ledger_find(slot->ledger, cluster) != NULL : slot->tried > 0;
    slot->nodes = (guint16)(slot->nodes - known);
    if (!cluster) {
        slot->tried = (guint16)(slot->tried - known);
        return;
    }
    slot->exclusive = (guint16)(slot->exclusive - (known && seat->exclusive));
    slot->ledger = weft_ledger_drop(slot->ledger, seat, cluster);
    count_keys(slot);
}

/* --- a seat of before --- */

static gboolean
has_cores(const WeftSlot *slot, const WeftBits *cores)
{
    for (guint i = 0; i < G_N_ELEMENTS(cores->words); i++)
        if (cores->words[i] & ~(i < slot->n_words ? weft_slot_free_words(slot)[i] : 0))
            return FALSE;
    return TRUE;
}

static gboolean
has_function(const WeftSlot *slot, const WeftSeat *seat, guint rail)
{
    if (seat->hca[rail] >= slot->n_hcas)
        return FALSE;
    const WeftSlotHca *hca = &weft_slot_hcas(slot)[seat->hca[rail]];
    gint8 vf = seat->vf[rail];
    if (!hca->named)
        return FALSE;
    if (vf < 0)
        return !(hca->taken[0] | hca->taken[1]) && !bit_get(hca->absent, WEFT_SLOT_WHOLE);
    return hca->gives && vf < hca->vfs && !bit_get(hca->taken, (guint)vf) && !bit_get(hca->absent, (guint)vf);
}

gboolean
weft_slot_has_parts(const WeftSlot *slot, const WeftSeat *seat)
{
    if (!has_cores(slot, &seat->cores) || seat->gpus & ~(guint32)slot->gpus_free)
        return FALSE;
    for (guint i = 0; i < seat->n_parts; i++) {
        const WeftSeatPart *part = &seat->parts[i];
        if (part->numa >= slot->n_numa)
            return FALSE;
        const WeftSlotNuma *numa = &slot->numa[part->numa];
        if (part->pages > 0 && (part->size >= numa->n_sizes || weft_numa_free_pages(numa, part->size) < part->pages))
            return FALSE;
    }
    for (guint rail = 0; rail < seat->n_rails; rail++)
        if (!has_function(slot, seat, rail))
            return FALSE;
    return TRUE;
}

gboolean
weft_slot_has_room(const WeftSlot *slot, const WeftSeat *seat)
{
    guint settled = slot->nodes - slot->tried;
    if (!slot->open || seat->bandwidth || slot->exclusive || (seat->exclusive && settled) || !weft_slot_has_parts(slot, seat))
        return FALSE;
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        const WeftSlotHca *hca = &weft_slot_hcas(slot)[seat->hca[rail]];
        if (hca->places && hca->n_keys >= hca->places)
            return FALSE;
    }
    return TRUE;
}

/* --- a new description --- */

static int
find_hca(const WeftHost *host, const char *name)
{
    for (guint i = 0; i < host->hcas->len; i++)
        if (strcmp(((const WeftHca *)host->hcas->pdata[i])->name, name) == 0)
            return (int)i;
    return -1;
}

static int
find_gpu(const WeftHost *host, const char *name)
{
    for (guint i = 0; i < host->gpus->len; i++)
        if (strcmp(((const WeftGpu *)host->gpus->pdata[i])->name, name) == 0)
            return (int)i;
    return -1;
}

static void
inherit_cores(WeftSlot *slot, const WeftSlot *old)
{
    WeftBits taken = { 0 };
    for (guint i = 0; i < MIN(slot->n_words, old->n_words); i++)
        taken.words[i] = weft_slot_usable_words(old)[i] & ~weft_slot_free_words(old)[i];
    mark_cores(slot, &taken, TRUE);
}

static void
inherit_pages(WeftSlot *slot, const WeftSlot *old)
{
    for (guint n = 0; n < MIN(slot->n_numa, old->n_numa); n++)
        for (guint i = 0; i < old->numa[n].n_sizes; i++) {
            int size = weft_numa_size(&slot->numa[n], old->numa[n].shifts[i]);
            if (size >= 0)
                slot->numa[n].used[size] = old->numa[n].used[i];
        }
}

static void
inherit_hcas(WeftSlot *slot, const WeftSlot *old)
{
    int hcas[WEFT_HCAS_MAX] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
    for (guint i = 0; i < old->n_hcas; i++) {
        hcas[i] = find_hca(slot->host, ((const WeftHca *)old->host->hcas->pdata[i])->name);
        if (hcas[i] < 0)
            continue;
        const WeftSlotHca *before = &weft_slot_hcas(old)[i];
        WeftSlotHca *hca = &weft_slot_hcas(slot)[hcas[i]];
        if (bit_get(before->taken, WEFT_SLOT_WHOLE))
            mark_function(hca, -1, TRUE);
        for (guint vf = 0; vf < before->vfs; vf++)
            if (bit_get(before->taken, vf))
                mark_function(hca, (int)vf, TRUE);
        hca->tried_bits = before->tried_bits;
    }
    weft_ledger_unref(slot->ledger);
    slot->ledger = weft_ledger_moved(old->ledger, hcas);
    count_keys(slot);
}

void
weft_slot_inherit(WeftSlot *slot, const WeftSlot *old)
{
    slot->open = old->open;
    slot->nodes = old->nodes;
    slot->tried = old->tried;
    slot->exclusive = old->exclusive;
    inherit_cores(slot, old);
    inherit_pages(slot, old);
    inherit_hcas(slot, old);
    for (guint i = 0; i < old->n_gpus; i++) {
        int gpu = old->gpus_taken >> i & 1 ? find_gpu(slot->host, ((const WeftGpu *)old->host->gpus->pdata[i])->name) : -1;
        if (gpu >= 0)
            slot->gpus_taken |= (guint16)(1U << gpu);
    }
    count_gpus(slot);
}

/* Its name is what the host's drivers make of it; its address stays. */
static const WeftHca *
find_there(const WeftHost *found, const WeftHca *described)
{
    for (guint i = 0; described->pci && i < found->hcas->len; i++) {
        const WeftHca *hca = found->hcas->pdata[i];
        if (g_strcmp0(hca->pci, described->pci) == 0)
            return hca;
    }
    return weft_host_hca(found, described->name);
}

void
weft_slot_set_devices(WeftSlot *slot, const WeftHost *found)
{
    for (guint i = 0; i < slot->n_hcas; i++) {
        WeftSlotHca *hca = &weft_slot_hcas(slot)[i];
        const WeftHca *there = find_there(found, slot->host->hcas->pdata[i]);
        bit_set(hca->absent, WEFT_SLOT_WHOLE, !there);
        for (guint vf = 0; vf < hca->vfs; vf++)
            bit_set(hca->absent, vf,
                    !there || vf >= there->vfs || (vf < there->vf_pci->len && !*(char *)there->vf_pci->pdata[vf]));
        count_functions(hca);
    }
    slot->gpus_absent = 0;
    for (guint i = 0; i < slot->n_gpus; i++)
        if (find_gpu(found, ((const WeftGpu *)slot->host->gpus->pdata[i])->name) < 0)
            slot->gpus_absent |= (guint16)(1U << i);
    count_gpus(slot);
}

/* --- what is there --- */

const WeftHost *
weft_slot_host(const WeftSlot *slot)
{
    return slot->host;
}

const WeftFleetFabric *
weft_slot_fabric(const WeftSlot *slot)
{
    return slot->told;
}

guint
weft_slot_number(const WeftSlot *slot)
{
    return slot->number;
}

gboolean
weft_slot_is_open(const WeftSlot *slot)
{
    return slot->open;
}

void
weft_slot_set_open(WeftSlot *slot, gboolean open)
{
    slot->open = !!open;
}

guint
weft_slot_nodes(const WeftSlot *slot)
{
    return slot->nodes;
}

guint
weft_slot_cores(const WeftSlot *slot)
{
    guint n = 0;
    for (guint i = 0; i < slot->n_words; i++)
        n += (guint)__builtin_popcountll(weft_slot_usable_words(slot)[i]);
    return n;
}

guint
weft_slot_free_cores(const WeftSlot *slot)
{
    return slot->free_cores;
}

void
weft_slot_free_bits(const WeftSlot *slot, WeftBits *ret_cores)
{
    *ret_cores = (WeftBits){ 0 };
    memcpy(ret_cores->words, weft_slot_free_words(slot), slot->n_words * sizeof *ret_cores->words);
}

guint
weft_slot_free_gpus(const WeftSlot *slot)
{
    return (guint)__builtin_popcount(slot->gpus_free);
}

gboolean
weft_slot_is_complete(const WeftSlot *slot)
{
    guint64 absent = slot->gpus_absent;
    for (guint i = 0; i < slot->n_hcas; i++)
        absent |= weft_slot_hcas(slot)[i].absent[0] | weft_slot_hcas(slot)[i].absent[1];
    return absent == 0;
}

gboolean
weft_slot_gives_functions(const WeftSlot *slot)
{
    for (guint i = 0; i < slot->n_hcas; i++)
        if (weft_slot_hcas(slot)[i].gives)
            return TRUE;
    return FALSE;
}

void
weft_slot_add_lane_uses(const WeftSlot *slot, WeftLaneUse uses[WEFT_LANES_MAX])
{
    const WeftLanes *qos = &slot->told->qos;
    for (guint i = 0; slot->ledger && i < slot->ledger->n_promises; i++) {
        const WeftPromise *promise = &slot->ledger->promises[i];
        const WeftLane *lane = weft_lanes_find(qos, promise->sl);
        if (!lane)
            continue;
        uses[lane - qos->lanes].bits += promise->bits;
        uses[lane - qos->lanes].devices += promise->devices;
    }
}
