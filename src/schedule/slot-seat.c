#include "slot-private.h"

/* One seat in the making. */
typedef struct Pick {
    const WeftSlot *slot;
    const WeftShape *shape;
    WeftSpare spare;
    guint64 near; /* NUMA nodes whose devices come first */
    WeftSeat *seat;
} Pick;

/* --- devices --- */

static guint16
gpus_near(const Pick *pick)
{
    guint16 gpus = 0;
    for (guint i = 0; i < pick->slot->n_numa; i++)
        if (pick->near >> i & 1)
            gpus |= pick->slot->numa[i].gpus;
    return gpus;
}

/* The one with most to spare, of those that are near if there are any. */
static guint8
best_hca(const Pick *pick, guint rail)
{
    guint best = 0, most = 0;
    for (guint h = 0; h < pick->slot->n_hcas; h++) {
        const WeftSlotHca *hca = &weft_slot_hcas(pick->slot)[h];
        guint weight = pick->spare.functions[h] * 2U;
        if (hca->rail != rail || weight == 0)
            continue;
        weight += pick->near >> hca->numa & 1 ? 2 * WEFT_VFS_MAX + 2 : 0;
        if (weight > most) {
            most = weight;
            best = h;
        }
    }
    return (guint8)best;
}

static guint16
gpus_below(const Pick *pick)
{
    guint16 gpus = pick->slot->gpus_rootless;
    for (guint rail = 0; rail < pick->shape->rails; rail++) {
        const WeftSlotHca *hca = &weft_slot_hcas(pick->slot)[pick->seat->hca[rail]];
        gpus |= hca->root == WEFT_SLOT_UNKNOWN ? G_MAXUINT16 : hca->gpus;
    }
    return gpus;
}

/* GPUs of a root go together: the root with fewest left that has enough, else all of the one with most. */
static guint16
next_gpus(const Pick *pick, guint16 from, guint missing)
{
    guint16 best = 0;
    for (guint16 left = from; left; left &= (guint16)(left - 1)) {
        guint16 kin = from & weft_slot_kin(pick->slot)[__builtin_ctz(left)];
        guint n = (guint)__builtin_popcount(kin), than = (guint)__builtin_popcount(best);
        if (than >= missing ? n >= missing && n < than : n > than)
            best = kin;
    }
    while ((guint)__builtin_popcount(best) > missing)
        best &= (guint16) ~(1U << (31 - __builtin_clz(best)));
    return best;
}

static void
pick_gpus(Pick *pick)
{
    guint16 near = gpus_near(pick), below = gpus_below(pick);
    const guint16 tiers[] = { near & below, near, below, G_MAXUINT16 };
    guint missing = pick->shape->gpus;
    for (guint i = 0; i < G_N_ELEMENTS(tiers); i++) {
        guint16 some;
        while (missing && (some = next_gpus(pick, pick->spare.gpus & tiers[i] & (guint16)~pick->seat->gpus, missing))) {
            pick->seat->gpus |= some;
            missing -= (guint)__builtin_popcount(some);
        }
    }
}

static gint8
free_function(const WeftSlotHca *hca, WeftPath path)
{
    if (path == WEFT_PATH_PASSTHROUGH)
        return -1;
    for (guint i = 0; i < G_N_ELEMENTS(hca->taken); i++) {
        guint64 free = ~(hca->taken[i] | hca->absent[i]);
        if (free)
            return (gint8)(i * 64 + (guint)__builtin_ctzll(free));
    }
    return -1;
}

/* matched: the GPUs below the roots of the functions, which is possible in the one NUMA node that is near. */
static void
pick_devices(Pick *pick, gboolean matched)
{
    const WeftShape *shape = pick->shape;
    guint numa = (guint)__builtin_ctzll(pick->near);
    pick->seat->n_rails = (guint8)shape->rails;
    if (!(matched && shape->rails && shape->gpus && weft_roots_pick(pick->slot, shape, &pick->spare, numa, pick->seat))) {
        for (guint rail = 0; rail < shape->rails; rail++)
            pick->seat->hca[rail] = best_hca(pick, rail);
        if (shape->gpus)
            pick_gpus(pick);
    }
    for (guint rail = 0; rail < shape->rails; rail++)
        pick->seat->vf[rail] = free_function(&weft_slot_hcas(pick->slot)[pick->seat->hca[rail]], shape->path);
}

/* --- cores and memory --- */

static void
pick_cores(Pick *pick, guint numa, guint n)
{
    const guint64 *free = weft_slot_free_words(pick->slot);
    const WeftSlotNuma *it = &pick->slot->numa[numa];
    guint end = it->first + it->n_cores;
    for (guint i = it->first / 64; n && i * 64 < end; i++) {
        guint64 word = free[i];
        if (i == it->first / 64U)
            word &= G_MAXUINT64 << it->first % 64;
        if (end - i * 64 < 64)
            word &= (1ULL << (end - i * 64)) - 1;
        guint64 rest = word;
        for (; n && rest; n--)
            rest &= rest - 1;
        pick->seat->cores.words[i] |= word & ~rest;
    }
}

static void
pick_parts(Pick *pick, const WeftSeatPart *parts, guint n)
{
    pick->near = 0;
    pick->seat->n_parts = (guint8)n;
    for (guint i = 0; i < n; i++) {
        pick->seat->parts[i] = parts[i];
        pick->near |= 1ULL << parts[i].numa;
        pick_cores(pick, parts[i].numa, parts[i].cores);
    }
}

/* The largest pages that there are enough of. */
static WeftSeatPart
whole_part(const Pick *pick, guint numa)
{
    const WeftSlotNuma *it = &pick->slot->numa[numa];
    WeftSeatPart part = { .numa = (guint8)numa, .cores = (guint16)pick->shape->cores };
    for (guint8 i = 0; i < it->n_sizes; i++) {
        guint64 pages = weft_shape_pages(pick->shape, it->shifts[i]);
        if (pages && weft_numa_free_pages(it, i) >= pages) {
            part.size = i;
            part.pages = (guint32)pages;
            break;
        }
    }
    return part;
}

/* --- in one NUMA node --- */

/* Devices that a node in this NUMA node would have from others. */
static guint
remote_devices(const Pick *pick, guint numa)
{
    guint remote = 0;
    for (guint rail = 0; rail < pick->shape->rails; rail++) {
        gboolean local = FALSE;
        for (guint h = 0; !local && h < pick->slot->n_hcas; h++) {
            const WeftSlotHca *hca = &weft_slot_hcas(pick->slot)[h];
            local = hca->rail == rail && hca->numa == numa && pick->spare.functions[h];
        }
        remote += !local;
    }
    guint gpus = (guint)__builtin_popcount(pick->spare.gpus & pick->slot->numa[numa].gpus);
    return remote + pick->shape->gpus - MIN(gpus, pick->shape->gpus);
}

/* How far its devices would be: 0 where all are of this NUMA node, GPUs below the roots of functions; 1 where only the roots
 * differ; else more by each device that is remote. */
static guint
distance(const Pick *pick, guint numa)
{
    guint remote = remote_devices(pick, numa);
    return remote ? remote + 1 : weft_slot_local(pick->slot, pick->shape, &pick->spare, numa) == 0;
}

/* Free devices that it would sit beside and not use. */
static guint
idle_devices(const Pick *pick, guint numa)
{
    guint idle = pick->shape->gpus ? 0 : (guint)__builtin_popcount(pick->slot->gpus_free & pick->slot->numa[numa].gpus);
    for (guint h = 0; pick->shape->rails == 0 && h < pick->slot->n_hcas; h++)
        if (weft_slot_hcas(pick->slot)[h].numa == numa)
            idle += weft_slot_hcas(pick->slot)[h].free;
    return idle;
}

/* Of two NUMA nodes that are equally far, the fuller, so that empty ones stay empty. */
static gboolean
is_better(const Pick *pick, guint numa, guint than)
{
    guint a = pick->slot->numa[numa].free, b = pick->slot->numa[than].free;
    return a < b || (a == b && idle_devices(pick, numa) < idle_devices(pick, than));
}

static gboolean
pick_whole(Pick *pick)
{
    const gboolean required = pick->shape->locality == WEFT_LOCALITY_REQUIRED;
    guint best = G_MAXUINT, best_distance = required ? 1 : G_MAXUINT;
    for (guint i = 0; i < pick->slot->n_numa; i++) {
        if (weft_numa_whole(&pick->slot->numa[i], pick->shape) == 0)
            continue;
        guint far = distance(pick, i);
        if (far < best_distance || (far == best_distance && best != G_MAXUINT && is_better(pick, i, best))) {
            best = i;
            best_distance = far;
        }
    }
    if (best == G_MAXUINT)
        return FALSE;
    WeftSeatPart part = whole_part(pick, best);
    pick_parts(pick, &part, 1);
    pick_devices(pick, best_distance == 0);
    return TRUE;
}

/* --- over several --- */

static gboolean
pick_joined(Pick *pick)
{
    WeftRest rest[WEFT_NUMA_MAX];
    WeftSeatPart parts[WEFT_SEAT_PARTS];
    guint cores = weft_slot_rest(pick->slot, pick->shape, rest);
    guint n = cores < pick->shape->cores ? 0 : weft_slot_join(pick->slot, pick->shape, rest, parts);
    if (n == 0)
        return FALSE;
    pick_parts(pick, parts, n);
    pick_devices(pick, FALSE);
    return TRUE;
}

/* Cores and pages of one size from anywhere. */
typedef struct Heap {
    guint n;
    guint32 cores[WEFT_SEAT_PARTS], pages[WEFT_SEAT_PARTS]; /* there are */
    int sizes[WEFT_SEAT_PARTS];
    guint16 has_cores[WEFT_SEAT_PARTS]; /* the node has */
    guint32 has_pages[WEFT_SEAT_PARTS];
    gboolean used[WEFT_SEAT_PARTS];
} Heap;

static gboolean
make_heap(const Pick *pick, Heap *heap, guint shift, guint64 pages)
{
    guint64 free = 0;
    *heap = (Heap){ .n = pick->slot->n_numa };
    for (guint i = 0; i < heap->n; i++) {
        heap->sizes[i] = weft_numa_size(&pick->slot->numa[i], shift);
        heap->cores[i] = pick->slot->numa[i].free;
        heap->pages[i] = heap->sizes[i] < 0 ? 0 : weft_numa_free_pages(&pick->slot->numa[i], (guint)heap->sizes[i]);
        free += heap->pages[i];
    }
    return pages && free >= pages;
}

/* The NUMA node not yet used that has all that is missing and least of it, else the one with most. */
static guint
next_of(const Heap *heap, const guint32 *there, guint64 missing)
{
    guint best = G_MAXUINT;
    for (guint i = 0; i < heap->n; i++) {
        guint32 n = heap->used[i] ? 0 : there[i];
        guint32 than = best == G_MAXUINT ? 0 : there[best];
        if (than >= missing ? n >= missing && n < than : n > than)
            best = i;
    }
    return best;
}

/* Those with the cores first, with their memory; then memory of others. */
static void
share_heap(Heap *heap, guint cores, guint64 pages)
{
    while (cores || pages) {
        guint i = cores ? next_of(heap, heap->cores, cores) : next_of(heap, heap->pages, pages);
        heap->used[i] = TRUE;
        heap->has_cores[i] = (guint16)MIN(cores, heap->cores[i]);
        heap->has_pages[i] = (guint32)MIN(pages, heap->pages[i]);
        cores -= heap->has_cores[i];
        pages -= heap->has_pages[i];
    }
}

static gboolean
pick_anywhere(Pick *pick)
{
    Heap heap;
    guint64 pages = 0;
    guint size = 0, n = 0;
    WeftSeatPart parts[WEFT_SEAT_PARTS];
    for (; size < pick->slot->n_sizes; size++) {
        pages = weft_shape_pages(pick->shape, pick->slot->shifts[size]);
        if (make_heap(pick, &heap, pick->slot->shifts[size], pages))
            break;
    }
    if (size == pick->slot->n_sizes)
        return FALSE;
    share_heap(&heap, pick->shape->cores, pages);
    for (guint i = 0; i < heap.n; i++)
        if (heap.used[i])
            parts[n++] = (WeftSeatPart){ .numa = (guint8)i,
                                         .size = (guint8)(heap.has_pages[i] ? heap.sizes[i] : 0),
                                         .cores = heap.has_cores[i],
                                         .pages = heap.has_pages[i] };
    pick_parts(pick, parts, n);
    pick_devices(pick, FALSE);
    return TRUE;
}

gboolean
weft_slot_seat(const WeftSlot *slot, const WeftShape *shape, WeftSeat *ret_seat)
{
    Pick pick = { .slot = slot, .shape = shape, .seat = ret_seat };
    if (!slot->open || slot->free_cores < shape->cores || !weft_slot_admits(slot, shape) ||
        weft_slot_spare(slot, shape, &pick.spare) == 0)
        return FALSE;
    *ret_seat = (WeftSeat){ .host = slot->number,
                            .path = (guint8)shape->path,
                            .sl = shape->lane.sl,
                            .bandwidth = shape->bandwidth,
                            .exclusive = shape->exclusive };
    if (pick_whole(&pick))
        return TRUE;
    if (shape->locality == WEFT_LOCALITY_REQUIRED)
        return FALSE;
    if (shape->locality == WEFT_LOCALITY_NONE && slot->n_numa <= WEFT_SEAT_PARTS)
        return pick_anywhere(&pick);
    return pick_joined(&pick);
}
