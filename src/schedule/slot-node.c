/* Seats and nodes: numbers for placement, names for everybody else. */
#include "slot-private.h"

/* --- from a node --- */

/* Another part, or the one before where it is of the same NUMA node and has no pages yet. */
static WeftSeatPart *
part_for(WeftSeat *seat, guint numa, gboolean pages)
{
    WeftSeatPart *last = seat->n_parts ? &seat->parts[seat->n_parts - 1] : NULL;
    if (last && last->numa == numa && !(pages && last->pages))
        return last;
    if (seat->n_parts == WEFT_SEAT_PARTS)
        return NULL;
    seat->parts[seat->n_parts] = (WeftSeatPart){ .numa = (guint8)numa };
    return &seat->parts[seat->n_parts++];
}

static void
read_cores(const WeftSlot *slot, const WeftNode *node, guint numa, WeftSeat *seat)
{
    for (guint i = 0; i < node->cores->len; i++) {
        guint id = g_array_index(node->cores, guint16, i);
        if (id < slot->numa[numa].first || id >= (guint)slot->numa[numa].first + slot->numa[numa].n_cores)
            continue;
        WeftSeatPart *part = part_for(seat, numa, FALSE);
        if (!part)
            return;
        part->cores++;
        seat->cores.words[id / 64] |= 1ULL << (id % 64);
    }
}

static void
read_memory(const WeftSlot *slot, const WeftNode *node, guint numa, WeftSeat *seat)
{
    for (guint i = 0; i < node->memory->len; i++) {
        const WeftMemory *memory = &g_array_index(node->memory, WeftMemory, i);
        if (memory->numa != numa || memory->pages == 0 || memory->page_size == 0)
            continue;
        int size = weft_numa_size(&slot->numa[numa], (guint)__builtin_ctzll(memory->page_size));
        WeftSeatPart *part = size < 0 ? NULL : part_for(seat, numa, TRUE);
        if (!part)
            continue;
        part->size = (guint8)size;
        part->pages = (guint32)MIN(memory->pages, WEFT_SLOT_PAGES);
    }
}

static guint8
find_hca(const WeftSlot *slot, const char *name)
{
    for (guint8 i = 0; i < slot->n_hcas; i++)
        if (strcmp(((const WeftHca *)slot->host->hcas->pdata[i])->name, name) == 0)
            return i;
    return WEFT_SEAT_NO_HCA;
}

/* Returns whether the host has any of them. */
static gboolean
read_devices(const WeftSlot *slot, const WeftNode *node, WeftSeat *seat)
{
    gboolean any = FALSE;
    memset(seat->hca, WEFT_SEAT_NO_HCA, sizeof seat->hca);
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        if (device->rail >= WEFT_RAILS_MAX)
            continue;
        seat->hca[device->rail] = find_hca(slot, device->hca);
        seat->vf[device->rail] = (gint8)device->vf;
        seat->n_rails = MAX(seat->n_rails, (guint8)(device->rail + 1));
        any |= seat->hca[device->rail] != WEFT_SEAT_NO_HCA;
    }
    memset(seat->hca + seat->n_rails, 0, sizeof seat->hca - seat->n_rails);
    return any;
}

static void
read_gpus(const WeftSlot *slot, const WeftNode *node, WeftSeat *seat)
{
    for (guint i = 0; i < node->gpus->len; i++)
        for (guint g = 0; g < slot->n_gpus; g++)
            if (strcmp(((const WeftGpu *)slot->host->gpus->pdata[g])->name, node->gpus->pdata[i]) == 0)
                seat->gpus |= 1U << g;
}

gboolean
weft_slot_seat_of(const WeftSlot *slot, const WeftNode *node, WeftSeat *ret_seat)
{
    *ret_seat = (WeftSeat){ .host = slot->number,
                            .path = (guint8)node->path,
                            .sl = node->sl,
                            .bandwidth = node->bandwidth,
                            .exclusive = node->exclusive };
    for (guint numa = 0; numa < slot->n_numa; numa++) {
        read_cores(slot, node, numa, ret_seat);
        read_memory(slot, node, numa, ret_seat);
    }
    gboolean devices = read_devices(slot, node, ret_seat);
    read_gpus(slot, node, ret_seat);
    return devices || ret_seat->n_parts || ret_seat->gpus;
}

/* --- to a node --- */

static void
write_parts(const WeftSlot *slot, const WeftSeat *seat, WeftNode *node)
{
    for (guint i = 0; i < slot->host->cores->len; i++) {
        guint16 id = (guint16)i;
        if (seat->cores.words[id / 64] >> (id % 64) & 1)
            g_array_append_val(node->cores, id);
    }
    for (guint i = 0; i < seat->n_parts; i++) {
        const WeftSeatPart *part = &seat->parts[i];
        if (part->pages == 0)
            continue;
        WeftMemory memory = { part->numa, 1ULL << slot->numa[part->numa].shifts[part->size], part->pages };
        g_array_append_val(node->memory, memory);
    }
}

WeftNode *
weft_slot_node(const WeftSlot *slot, const WeftSeat *seat, const WeftGroup *group)
{
    WeftNode *node = weft_node_new();
    node->group = g_strdup(group->name);
    node->host = g_strdup(slot->host->name);
    node->image = g_strdup(group->image);
    node->path = (WeftPath)seat->path;
    node->sl = seat->sl;
    node->bandwidth = seat->bandwidth;
    node->exclusive = seat->exclusive;
    write_parts(slot, seat, node);
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        if (seat->hca[rail] >= slot->n_hcas)
            continue;
        const WeftHca *hca = slot->host->hcas->pdata[seat->hca[rail]];
        g_ptr_array_add(node->devices, weft_device_new(rail, hca->name, seat->vf[rail]));
    }
    for (guint i = 0; i < slot->n_gpus; i++)
        if (seat->gpus >> i & 1)
            g_ptr_array_add(node->gpus, g_strdup(((const WeftGpu *)slot->host->gpus->pdata[i])->name));
    return node;
}
