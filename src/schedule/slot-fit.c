#include "slot-private.h"

/* --- who may be there --- */

gboolean
weft_slot_admits(const WeftSlot *slot, const WeftShape *shape)
{
    guint settled = slot->nodes - slot->tried;
    if (settled == 0 || (!shape->exclusive && slot->exclusive == 0))
        return TRUE;
    const WeftTenancy *own = weft_ledger_find(slot->ledger, shape->cluster);
    return !(shape->exclusive && settled > (own ? own->nodes : 0)) && slot->exclusive <= (own ? own->exclusive : 0);
}

/* --- devices --- */

static gboolean
takes_key(const WeftSlot *slot, const WeftShape *shape, guint h)
{
    const WeftSlotHca *hca = &weft_slot_hcas(slot)[h];
    if (hca->places == 0 || hca->n_keys < hca->places)
        return TRUE;
    const WeftTenancy *own = weft_ledger_find(slot->ledger, shape->cluster);
    return own && own->keys[h];
}

static guint64
promises_left(const WeftSlot *slot, const WeftShape *shape, guint h)
{
    const WeftSlotHca *hca = &weft_slot_hcas(slot)[h];
    guint64 room = weft_lane_room(&shape->lane, hca->rate);
    guint64 used = hca->tried_bits + weft_ledger_bits(slot->ledger, h, shape->lane.sl);
    return (room - MIN(room, used)) / shape->bandwidth;
}

gboolean
weft_slot_accepts(const WeftSlot *slot, const WeftSeat *seat, const char *cluster)
{
    WeftShape shape = { .cluster = cluster, .exclusive = seat->exclusive, .bandwidth = seat->bandwidth };
    const WeftLane *lane = seat->bandwidth ? weft_lanes_find(&slot->told->qos, seat->sl) : NULL;
    if (lane)
        shape.lane = *lane;
    if (!slot->open || (seat->bandwidth && !lane) || !weft_slot_admits(slot, &shape) || !weft_slot_has_parts(slot, seat))
        return FALSE;
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        guint h = seat->hca[rail];
        if (!takes_key(slot, &shape, h) || (seat->bandwidth && promises_left(slot, &shape, h) == 0))
            return FALSE;
    }
    return TRUE;
}

/* Functions that are free, or whole HCAs. */
static guint
free_functions(const WeftSlotHca *hca, WeftPath path)
{
    if (path != WEFT_PATH_PASSTHROUGH)
        return hca->gives ? hca->free : 0;
    return hca->named && !(hca->taken[0] | hca->taken[1]) && !(hca->absent[1] >> (WEFT_SLOT_WHOLE - 64));
}

static guint
functions_of(const WeftSlot *slot, const WeftShape *shape, guint h)
{
    guint n = free_functions(&weft_slot_hcas(slot)[h], shape->path);
    if (n == 0 || !takes_key(slot, shape, h))
        return 0;
    return shape->bandwidth ? (guint)MIN(n, promises_left(slot, shape, h)) : n;
}

guint
weft_slot_spare(const WeftSlot *slot, const WeftShape *shape, WeftSpare *ret_spare)
{
    guint rails[WEFT_RAILS_MAX] = { 0 };
    guint most = G_MAXUINT;
    ret_spare->gpus = slot->gpus_free;
    for (guint h = 0; shape->rails && h < slot->n_hcas; h++) {
        guint rail = weft_slot_hcas(slot)[h].rail;
        guint n = rail < shape->rails ? functions_of(slot, shape, h) : 0;
        ret_spare->functions[h] = (guint8)n;
        rails[rail] += n;
    }
    for (guint rail = 0; rail < shape->rails; rail++)
        most = MIN(most, rails[rail]);
    if (shape->gpus)
        most = MIN(most, (guint)__builtin_popcount(slot->gpus_free) / shape->gpus);
    return most;
}

guint
weft_slot_local(const WeftSlot *slot, const WeftShape *shape, const WeftSpare *spare, guint numa)
{
    if (shape->rails && shape->gpus)
        return weft_roots_count(slot, shape, spare, numa);
    guint most = G_MAXUINT;
    for (guint rail = 0; rail < shape->rails; rail++) {
        guint n = 0;
        for (guint h = 0; h < slot->n_hcas; h++)
            if (weft_slot_hcas(slot)[h].rail == rail && weft_slot_hcas(slot)[h].numa == numa)
                n += spare->functions[h];
        most = MIN(most, n);
    }
    if (shape->gpus)
        most = MIN(most, (guint)__builtin_popcount(spare->gpus & slot->numa[numa].gpus) / shape->gpus);
    return most;
}

/* --- cores and memory --- */

guint
weft_numa_whole(const WeftSlotNuma *numa, const WeftShape *shape)
{
    guint most = numa->free < shape->cores ? 0 : numa->free / shape->cores;
    guint n = 0;
    for (guint i = 0; i < numa->n_sizes && n < most; i++) {
        guint64 pages = weft_shape_pages(shape, numa->shifts[i]);
        guint32 free = weft_numa_free_pages(numa, i);
        if (pages && free >= pages)
            n += free >= pages * most ? most : (guint)(free / pages);
    }
    return MIN(n, most);
}

guint
weft_slot_rest(const WeftSlot *slot, const WeftShape *shape, WeftRest ret_rest[WEFT_NUMA_MAX])
{
    guint cores = 0;
    for (guint n = 0; n < slot->n_numa; n++) {
        const WeftSlotNuma *numa = &slot->numa[n];
        guint whole = weft_numa_whole(numa, shape);
        ret_rest[n].cores = numa->free - whole * shape->cores;
        cores += ret_rest[n].cores;
        for (guint i = 0; i < numa->n_sizes; i++) {
            guint64 pages = weft_shape_pages(shape, numa->shifts[i]);
            guint32 free = weft_numa_free_pages(numa, i);
            guint of_these = whole && pages ? (guint)MIN(whole, free / pages) : 0;
            ret_rest[n].pages[i] = free - (guint32)(of_these * pages);
            whole -= of_these;
        }
    }
    return cores;
}

/* A node that is joined out of several NUMA nodes, with pages of one size. */
typedef struct Join {
    const WeftShape *shape;
    guint64 pages; /* that it has in all */
    guint n_numa;
    int sizes[WEFT_NUMA_MAX];    /* index of the size in each NUMA node */
    guint shares[WEFT_NUMA_MAX]; /* cores that are left there together with their share of the memory */
    guint cores[WEFT_NUMA_MAX];  /* of these the node has */
    guint n_parts;
    guint last; /* the NUMA node of which not all that is left may have been used */
} Join;

/* A core counts where its share of the memory, rounded up to pages, is left too: then the parts of any node that is cut out of
 * these find their pages, each within one page of its share. Returns whether there is enough. */
static gboolean
find_shares(Join *join, const WeftSlot *slot, const WeftRest *rest, guint shift)
{
    const guint cores = join->shape->cores;
    guint sum = 0;
    for (guint n = 0; n < slot->n_numa; n++) {
        int size = weft_numa_size(&slot->numa[n], shift);
        guint64 pages = size < 0 ? 0 : rest[n].pages[size];
        gboolean ample = pages * cores >= rest[n].cores * join->pages;
        join->sizes[n] = size;
        join->shares[n] = ample ? rest[n].cores : (guint)(pages * cores / join->pages);
        join->cores[n] = 0;
        sum += join->shares[n];
    }
    return sum >= cores;
}

/* The smallest that has all that is missing, else the largest. */
static guint
next_share(const Join *join, guint missing)
{
    guint best = G_MAXUINT;
    for (guint n = 0; n < join->n_numa; n++) {
        guint share = join->cores[n] ? 0 : join->shares[n];
        guint than = best == G_MAXUINT ? 0 : join->shares[best];
        if (than >= missing ? share >= missing && share < than : share > than)
            best = n;
    }
    return best;
}

static gboolean
choose_shares(Join *join)
{
    guint missing = join->shape->cores;
    for (join->n_parts = 0; missing; join->n_parts++) {
        if (join->n_parts == WEFT_SEAT_PARTS)
            return FALSE;
        join->last = next_share(join, missing);
        join->cores[join->last] = MIN(missing, join->shares[join->last]);
        missing -= join->cores[join->last];
    }
    return TRUE;
}

/* Each part's share rounded down, and one page more for as many as it takes; never for the last, so that what is left of it
 * keeps its memory. */
static void
make_parts(const Join *join, WeftSeatPart *ret_parts)
{
    const guint cores = join->shape->cores;
    guint64 missing = join->pages;
    guint i = 0;
    for (guint n = 0; n < join->n_numa; n++)
        missing -= join->cores[n] * join->pages / cores;
    for (guint n = 0; n < join->n_numa; n++) {
        if (join->cores[n] == 0)
            continue;
        guint64 exact = join->cores[n] * join->pages;
        gboolean more = missing && n != join->last && exact % cores;
        guint32 pages = (guint32)(exact / cores + more);
        missing -= more;
        ret_parts[i++] = (WeftSeatPart){
            .numa = (guint8)n, .size = (guint8)(pages ? join->sizes[n] : 0), .cores = (guint16)join->cores[n], .pages = pages
        };
    }
}

guint
weft_slot_join(const WeftSlot *slot, const WeftShape *shape, WeftRest *rest, WeftSeatPart ret_parts[WEFT_SEAT_PARTS])
{
    Join join; /* large: of its arrays only what is needed is written */
    join.shape = shape;
    join.n_numa = slot->n_numa;
    join.last = 0;
    for (guint i = 0; i < slot->n_sizes; i++) {
        join.pages = weft_shape_pages(shape, slot->shifts[i]);
        if (!join.pages || !find_shares(&join, slot, rest, slot->shifts[i]) || !choose_shares(&join))
            continue;
        make_parts(&join, ret_parts);
        for (guint p = 0; p < join.n_parts; p++) {
            rest[ret_parts[p].numa].cores -= ret_parts[p].cores;
            rest[ret_parts[p].numa].pages[ret_parts[p].size] -= ret_parts[p].pages;
        }
        return join.n_parts;
    }
    return 0;
}

/* --- in all --- */

static guint
fit_required(const WeftSlot *slot, const WeftShape *shape, const WeftSpare *spare)
{
    guint n = 0;
    for (guint i = 0; i < slot->n_numa; i++) {
        guint whole = weft_numa_whole(&slot->numa[i], shape);
        n += whole ? MIN(whole, weft_slot_local(slot, shape, spare, i)) : 0;
    }
    return n;
}

static guint
fit_joined(const WeftSlot *slot, const WeftShape *shape, guint most)
{
    WeftRest rest[WEFT_NUMA_MAX];
    WeftSeatPart parts[WEFT_SEAT_PARTS];
    guint cores = weft_slot_rest(slot, shape, rest);
    guint n = 0;
    while (n < most && cores >= shape->cores && weft_slot_join(slot, shape, rest, parts)) {
        cores -= shape->cores;
        n++;
    }
    return n;
}

static guint
fit_preferred(const WeftSlot *slot, const WeftShape *shape, guint most)
{
    guint whole = 0;
    for (guint i = 0; i < slot->n_numa; i++)
        whole += weft_numa_whole(&slot->numa[i], shape);
    if (whole >= most || slot->free_cores - whole * shape->cores < shape->cores)
        return MIN(whole, most);
    return whole + fit_joined(slot, shape, most - whole);
}

/* Nodes for which there is memory somewhere on the host. */
static guint
fit_memory(const WeftSlot *slot, const WeftShape *shape)
{
    guint64 n = 0;
    for (guint i = 0; i < slot->n_sizes; i++) {
        guint64 pages = weft_shape_pages(shape, slot->shifts[i]), free = 0;
        for (guint j = 0; pages && j < slot->n_numa; j++) {
            int size = weft_numa_size(&slot->numa[j], slot->shifts[i]);
            free += size < 0 ? 0 : weft_numa_free_pages(&slot->numa[j], (guint)size);
        }
        n += pages ? free / pages : 0;
    }
    return (guint)MIN(n, G_MAXUINT);
}

static guint
count(const WeftSlot *slot, const WeftShape *shape)
{
    WeftSpare spare;
    guint most = MIN(weft_slot_spare(slot, shape, &spare), slot->free_cores / shape->cores);
    if (most == 0)
        return 0;
    if (shape->locality == WEFT_LOCALITY_REQUIRED)
        return fit_required(slot, shape, &spare);
    if (shape->locality == WEFT_LOCALITY_NONE && slot->n_numa <= WEFT_SEAT_PARTS)
        return MIN(most, fit_memory(slot, shape));
    return fit_preferred(slot, shape, most);
}

guint
weft_slot_fit(const WeftSlot *slot, const WeftShape *shape)
{
    if (!slot->open || slot->free_cores < shape->cores || !weft_slot_admits(slot, shape))
        return 0;
    return count(slot, shape);
}

/* --- each by itself --- */

/* A port that takes the cluster's P_Key takes any number of its nodes. */
static gboolean
rail_takes_key(const WeftSlot *slot, const WeftShape *shape, guint rail)
{
    for (guint h = 0; h < slot->n_hcas; h++) {
        const WeftSlotHca *hca = &weft_slot_hcas(slot)[h];
        if (hca->rail == rail && hca->named && takes_key(slot, shape, h))
            return TRUE;
    }
    return FALSE;
}

static void
room_on_rail(const WeftSlot *slot, const WeftShape *shape, guint rail, guint ret_room[WEFT_SCARCE_KINDS])
{
    guint64 functions = 0, promises = 0;
    for (guint h = 0; h < slot->n_hcas; h++) {
        const WeftSlotHca *hca = &weft_slot_hcas(slot)[h];
        if (hca->rail != rail)
            continue;
        /* What no partition could name lacks a place for its P_Key, not a function. */
        guint unnamed = shape->path == WEFT_PATH_PASSTHROUGH ? 1 : hca->free;
        functions += hca->named ? free_functions(hca, shape->path) : unnamed;
        promises += shape->bandwidth ? promises_left(slot, shape, h) : 0;
    }
    ret_room[WEFT_SCARCE_FUNCTIONS] = (guint)MIN(ret_room[WEFT_SCARCE_FUNCTIONS], functions);
    if (shape->bandwidth)
        ret_room[WEFT_SCARCE_BANDWIDTH] = (guint)MIN(ret_room[WEFT_SCARCE_BANDWIDTH], promises);
    if (!rail_takes_key(slot, shape, rail))
        ret_room[WEFT_SCARCE_PKEYS] = 0;
}

void
weft_slot_room(const WeftSlot *slot, const WeftShape *shape, guint ret_room[WEFT_SCARCE_KINDS])
{
    for (guint i = 0; i < WEFT_SCARCE_KINDS; i++)
        ret_room[i] = G_MAXUINT;
    ret_room[WEFT_SCARCE_CORES] = slot->free_cores / shape->cores;
    ret_room[WEFT_SCARCE_MEMORY] = fit_memory(slot, shape);
    for (guint rail = 0; rail < shape->rails; rail++)
        room_on_rail(slot, shape, rail, ret_room);
    if (shape->gpus)
        ret_room[WEFT_SCARCE_GPUS] = (guint)__builtin_popcount(slot->gpus_free) / shape->gpus;
    ret_room[WEFT_SCARCE_LOCALITY] = count(slot, shape);
    if (!weft_slot_admits(slot, shape))
        ret_room[WEFT_SCARCE_HOSTS] = 0;
}
