/* Copies of the fleet for other threads. Hosts are copied by the dozen: a chunk in which nothing changed is shared with the
 * snapshot before, so that neither making one nor following it costs what is there. */
#include "fleet-private.h"

#include <string.h>

#define CHUNK 32

typedef struct Copy {
    const char *name; /* the fleet's */
    WeftHost *host;   /* shared; NULL: it has gone */
    WeftSlot *slot;
} Copy;

typedef struct Chunk {
    gatomicrefcount refs;
    guint64 version; /* sum of its hosts' versions, which only grow */
    guint n;
    Copy copies[CHUNK];
} Chunk;

typedef struct Telling {
    char *name;
    WeftFleetFabric fabric;
} Telling;

struct WeftFleetSnapshot {
    gatomicrefcount refs;
    GPtrArray *chunks; /* Chunk, by the hosts' numbers */
    guint64 tellings;
    GArray *fabrics; /* Telling; shared while nothing is told */
};

/* --- life --- */

static void
chunk_unref(gpointer data)
{
    Chunk *chunk = data;
    if (!g_atomic_ref_count_dec(&chunk->refs))
        return;
    for (guint i = 0; i < chunk->n; i++) {
        weft_slot_free(chunk->copies[i].slot);
        weft_host_free(chunk->copies[i].host);
    }
    g_free(chunk);
}

static void
telling_clear(gpointer data)
{
    Telling *telling = data;
    g_free(telling->name);
    weft_fabric_clear(&telling->fabric);
}

WeftFleetSnapshot *
weft_fleet_snapshot_ref(WeftFleetSnapshot *snapshot)
{
    if (snapshot)
        g_atomic_ref_count_inc(&snapshot->refs);
    return snapshot;
}

void
weft_fleet_snapshot_unref(WeftFleetSnapshot *snapshot)
{
    if (!snapshot || !g_atomic_ref_count_dec(&snapshot->refs))
        return;
    g_ptr_array_unref(snapshot->chunks);
    g_array_unref(snapshot->fabrics);
    g_free(snapshot);
}

/* --- making one --- */

static guint64
version_of(const WeftFleet *fleet, guint first, guint n)
{
    guint64 sum = 0;
    for (guint i = first; i < first + n; i++)
        sum += weft_fleet_version(fleet, i);
    return sum;
}

static Chunk *
chunk_new(const WeftFleet *fleet, guint first, guint n, guint64 version)
{
    Chunk *chunk = g_new0(Chunk, 1);
    g_atomic_ref_count_init(&chunk->refs);
    chunk->version = version;
    chunk->n = n;
    for (guint i = 0; i < n; i++) {
        const WeftSlot *slot = weft_fleet_slot(fleet, first + i);
        chunk->copies[i].name = fleet->names->pdata[first + i];
        if (!slot)
            continue;
        chunk->copies[i].host = weft_host_share(fleet->hosts->pdata[first + i]);
        chunk->copies[i].slot = weft_slot_copy(slot);
    }
    return chunk;
}

/* TRUE: it is another one than before. */
static gboolean
add_chunk(const WeftFleet *fleet, guint at, GPtrArray *chunks)
{
    guint first = at * CHUNK, n = MIN(fleet->slots->len - first, CHUNK);
    guint64 version = version_of(fleet, first, n);
    const WeftFleetSnapshot *before = fleet->latest;
    Chunk *old = before && at < before->chunks->len ? before->chunks->pdata[at] : NULL;
    gboolean same = old && old->n == n && old->version == version;
    if (same)
        g_atomic_ref_count_inc(&old->refs);
    g_ptr_array_add(chunks, same ? old : chunk_new(fleet, first, n, version));
    return !same;
}

static GArray *
copy_fabrics(const WeftFleet *fleet)
{
    GArray *fabrics = g_array_new(FALSE, FALSE, sizeof(Telling));
    g_array_set_clear_func(fabrics, telling_clear);
    GHashTableIter iter;
    gpointer name, fabric;
    g_hash_table_iter_init(&iter, fleet->fabrics);
    while (g_hash_table_iter_next(&iter, &name, &fabric)) {
        Telling telling = { g_strdup(name), weft_fabric_copy(fabric) };
        g_array_append_val(fabrics, telling);
    }
    return fabrics;
}

WeftFleetSnapshot *
weft_fleet_snapshot(WeftFleet *fleet)
{
    g_return_val_if_fail(!fleet->mark, NULL);
    WeftFleetSnapshot *before = fleet->latest;
    gboolean told = !before || before->tellings != fleet->tellings;
    gboolean changed = told || before->chunks->len != (fleet->slots->len + CHUNK - 1) / CHUNK;
    g_autoptr(GPtrArray) chunks = g_ptr_array_new_with_free_func(chunk_unref);
    for (guint at = 0; at * CHUNK < fleet->slots->len; at++)
        changed |= add_chunk(fleet, at, chunks);
    if (!changed)
        return weft_fleet_snapshot_ref(before);
    WeftFleetSnapshot *snapshot = g_new0(WeftFleetSnapshot, 1);
    g_atomic_ref_count_init(&snapshot->refs);
    snapshot->chunks = g_steal_pointer(&chunks);
    snapshot->tellings = fleet->tellings;
    snapshot->fabrics = told ? copy_fabrics(fleet) : g_array_ref(before->fabrics);
    weft_fleet_snapshot_unref(before);
    fleet->latest = weft_fleet_snapshot_ref(snapshot);
    return snapshot;
}

/* --- following one --- */

static void
follow_fabrics(WeftFleet *fleet, const GArray *fabrics)
{
    for (guint i = 0; i < fabrics->len; i++) {
        const Telling *telling = &g_array_index(fabrics, Telling, i);
        WeftFleetFabric copy = weft_fabric_copy(&telling->fabric);
        weft_fleet_set_fabric(fleet, telling->name, &copy);
    }
}

static void
follow_host(WeftFleet *fleet, const Copy *copy)
{
    guint number = weft_fleet_give_number(fleet, copy->name);
    if (!copy->host) {
        weft_fleet_remove_host(fleet, copy->name);
        return;
    }
    if (fleet->hosts->pdata[number] != copy->host)
        weft_fleet_put_host(fleet, weft_host_share(copy->host));
    WeftSlot *slot = weft_fleet_slot(fleet, number);
    if (weft_slot_equals(slot, copy->slot))
        return;
    weft_fleet_touch(fleet, slot);
    weft_slot_adopt(slot, copy->slot);
}

void
weft_fleet_follow(WeftFleet *fleet, WeftFleetSnapshot *snapshot)
{
    WeftFleetSnapshot *before = fleet->latest;
    if (before == snapshot)
        return;
    if (!before || before->fabrics != snapshot->fabrics)
        follow_fabrics(fleet, snapshot->fabrics);
    for (guint at = 0; at < snapshot->chunks->len; at++) {
        const Chunk *chunk = snapshot->chunks->pdata[at];
        gboolean same = before && at < before->chunks->len && before->chunks->pdata[at] == chunk;
        for (guint i = 0; !same && i < chunk->n; i++)
            follow_host(fleet, &chunk->copies[i]);
    }
    weft_fleet_doubt_functions(fleet);
    fleet->latest = weft_fleet_snapshot_ref(snapshot);
    weft_fleet_snapshot_unref(before);
}

/* --- whether what was found on one still holds --- */

/* NULL: it had gone, or was not there yet. */
static const WeftHost *
host_at(const WeftFleetSnapshot *snapshot, guint number)
{
    const Chunk *chunk = number / CHUNK < snapshot->chunks->len ? snapshot->chunks->pdata[number / CHUNK] : NULL;
    return chunk && number % CHUNK < chunk->n ? chunk->copies[number % CHUNK].host : NULL;
}

/* A host that was described again may have other devices and cores by the same numbers. */
gboolean
weft_fleet_accepts(WeftFleet *fleet, const WeftFleetSnapshot *snapshot, const WeftSeat *seats, guint n, const char *cluster)
{
    guint mark = weft_fleet_begin(fleet), i = 0;
    for (; i < n; i++) {
        guint number = seats[i].host;
        const WeftSlot *slot = weft_fleet_slot(fleet, number);
        if (!slot || fleet->hosts->pdata[number] != host_at(snapshot, number) || !weft_slot_accepts(slot, &seats[i], cluster))
            break;
        weft_fleet_take_seats(fleet, &seats[i], 1, cluster);
    }
    weft_fleet_rollback(fleet, mark);
    return i == n;
}
