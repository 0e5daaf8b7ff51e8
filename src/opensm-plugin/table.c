#include "table.h"

#include "errors.h"

#define FULL 0x8000
#define BASE(key) ((key)&0x7fff)
#define DEFAULT_BASE 0x7fff
#define NOWHERE G_MAXUINT

struct WeftTable {
    osm_physp_t *physp;
    gboolean both;
    guint capacity;
    guint16 *keys;   /* as it shall be, in order of the host; a whole number of blocks */
    guint16 *before; /* as it was */
    guint blocks;    /* of them */
    guint beyond;    /* the first index behind all that were ever used */
    guint enforced;  /* how many a switch had to enforce before */
    GArray *placed;  /* guint: indices that got their key now */
};

guint
weft_table_capacity(const osm_physp_t *physp)
{
    const osm_node_t *node = physp->p_node;
    if (!node->sw || physp->port_num == 0)
        return cl_ntoh16(node->node_info.partition_cap);
    return cl_ntoh16(node->sw->switch_info.enforce_cap);
}

static guint
count_blocks(const osm_physp_t *physp)
{
    return (weft_table_capacity(physp) + WEFT_BLOCK_KEYS - 1) / WEFT_BLOCK_KEYS;
}

guint
weft_table_room(const osm_physp_t *physp)
{
    guint capacity = weft_table_capacity(physp);
    gboolean enforces = physp->p_node->sw && physp->port_num != 0;
    return enforces && capacity > 0 ? MIN(capacity, count_blocks(physp) * WEFT_BLOCK_KEYS - 1) : capacity;
}

gboolean
weft_table_is_known(const osm_physp_t *physp)
{
    return physp->pkeys.used_blocks > 0;
}

static gboolean
has_full(const guint16 *keys, guint capacity, guint16 base)
{
    for (guint i = 0; i < capacity; i++)
        if (keys[i] == (base | FULL))
            return TRUE;
    return FALSE;
}

/* What a switch enforces is the same without gaps; of a key that is there as both only the full one. */
static GArray *
compact(const guint16 *keys, guint capacity)
{
    GArray *enforced = g_array_sized_new(FALSE, FALSE, sizeof(guint16), capacity);
    for (guint i = 0; i < capacity; i++)
        if (BASE(keys[i]) && ((keys[i] & FULL) || !has_full(keys, capacity, keys[i])))
            g_array_append_val(enforced, keys[i]);
    return enforced;
}

static GArray *
copy(const guint16 *keys, guint capacity)
{
    GArray *all = g_array_sized_new(FALSE, FALSE, sizeof(guint16), capacity);
    return g_array_append_vals(all, keys, capacity);
}

static guint
count_enforced(const WeftTable *table)
{
    g_autoptr(GArray) keys = compact(table->keys, table->capacity);
    return keys->len;
}

WeftTable *
weft_table_new(osm_physp_t *physp, gboolean both)
{
    WeftTable *table = g_new0(WeftTable, 1);
    table->physp = physp;
    table->both = both;
    table->capacity = weft_table_capacity(physp);
    table->blocks = count_blocks(physp);
    table->keys = g_new0(guint16, table->blocks * WEFT_BLOCK_KEYS);
    table->beyond = MAX(physp->pkeys.last_pkey_idx, 1);
    table->placed = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint b = 0; b < table->blocks; b++) {
        const ib_pkey_table_t *block = osm_pkey_tbl_new_block_get(&physp->pkeys, (uint16_t)b);
        for (guint i = 0; block && i < WEFT_BLOCK_KEYS; i++)
            table->keys[b * WEFT_BLOCK_KEYS + i] = cl_ntoh16(block->pkey_entry[i]);
    }
    table->before = g_memdup2(table->keys, table->blocks * WEFT_BLOCK_KEYS * sizeof *table->keys);
    table->enforced = count_enforced(table);
    return table;
}

void
weft_table_free(WeftTable *table)
{
    if (!table)
        return;
    g_array_unref(table->placed);
    g_free(table->before);
    g_free(table->keys);
    g_free(table);
}

/* --- one key --- */

static guint
find(const WeftTable *table, guint16 key)
{
    for (guint i = 0; i < table->capacity; i++)
        if (table->keys[i] && (table->both ? table->keys[i] == key : BASE(table->keys[i]) == BASE(key)))
            return i;
    return NOWHERE;
}

static gboolean
belongs_at_zero(const WeftTable *table, guint16 key)
{
    return table->both ? key == (FULL | DEFAULT_BASE) : BASE(key) == DEFAULT_BASE;
}

static void
put(WeftTable *table, guint index, guint16 key)
{
    table->keys[index] = key;
    table->beyond = MAX(table->beyond, index + 1);
    g_array_append_val(table->placed, index);
}

static gboolean
is_free(const WeftTable *table, guint index)
{
    return index > 0 && index < table->capacity && table->keys[index] == 0;
}

/* A place that is not index 0. */
static guint
choose(const WeftTable *table, guint16 key)
{
    guint former = GPOINTER_TO_UINT(cl_map_get(&table->physp->pkeys.accum_pkeys, cl_hton16(key)));
    if (former > 0 && is_free(table, former - 1))
        return former - 1;
    if (is_free(table, table->beyond))
        return table->beyond;
    for (guint i = 1; i < table->capacity; i++)
        if (is_free(table, i))
            return i;
    return NOWHERE;
}

static gboolean
refuse_full(const WeftTable *table, guint16 key, GError **error)
{
    return weft_error_refuse(
        error, WEFT_ERROR_EXHAUSTED,
        "port 0x%016" G_GINT64_MODIFIER "x (%s): its table of %u P_Keys is full, 0x%04x has no place in it",
        (guint64)cl_ntoh64(table->physp->port_guid), table->physp->p_node->print_desc, table->capacity, key);
}

static gboolean
move_elsewhere(WeftTable *table, guint16 key, GError **error)
{
    guint index = choose(table, key);
    if (index == NOWHERE)
        return refuse_full(table, key, error);
    put(table, index, key);
    return TRUE;
}

/* The default partition's key returns to index 0 when that has become free. */
static void
restore_default(WeftTable *table)
{
    for (guint i = 1; table->keys[0] == 0 && i < table->capacity; i++)
        if (table->keys[i] && belongs_at_zero(table, table->keys[i])) {
            put(table, 0, table->keys[i]);
            table->keys[i] = 0;
        }
}

static gboolean
put_at_zero(WeftTable *table, guint16 key, GError **error)
{
    guint16 there = table->keys[0];
    if (there && BASE(there) != DEFAULT_BASE && there != key)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "port 0x%016" G_GINT64_MODIFIER "x (%s): P_Key 0x%04x is at index 0 already, 0x%04x cannot be",
                                 (guint64)cl_ntoh64(table->physp->port_guid), table->physp->p_node->print_desc, there, key);
    put(table, 0, key);
    return there == 0 || there == key || move_elsewhere(table, there, error);
}

static gboolean
place(WeftTable *table, guint16 key, gboolean index0, GError **error)
{
    guint index = find(table, key);
    gboolean stays = index != NOWHERE && (index0 ? index == 0 : index > 0 || belongs_at_zero(table, key));
    if (stays) {
        if (table->keys[index] != key)
            put(table, index, key);
        return TRUE;
    }
    if (index != NOWHERE)
        table->keys[index] = 0;
    gboolean ok = index0 ? put_at_zero(table, key, error) : move_elsewhere(table, key, error);
    restore_default(table);
    return ok;
}

static void
drop(WeftTable *table, guint16 key)
{
    for (guint i = 0; i < table->capacity; i++)
        if (table->keys[i] == key)
            table->keys[i] = 0;
    restore_default(table);
}

gboolean
weft_table_set(WeftTable *table, const WeftStanding *standing, GError **error)
{
    guint16 limited = standing->pkey, full = standing->pkey | FULL;
    if (table->capacity == 0 && (standing->full || standing->limited))
        return refuse_full(table, full, error);
    /* A change of membership stays at its index: what goes is dropped after what comes was placed, unless both may be there. */
    if (table->both && !standing->full)
        drop(table, full);
    if (table->both && !standing->limited)
        drop(table, limited);
    if (standing->full && !place(table, full, standing->index0, error))
        return FALSE;
    if (standing->limited && !place(table, limited, standing->index0 && !standing->full, error))
        return FALSE;
    if (!standing->full && !standing->limited) {
        drop(table, full);
        drop(table, limited);
    }
    return TRUE;
}

/* --- the switch's port --- */

osm_physp_t *
weft_table_peer(const osm_physp_t *physp)
{
    osm_physp_t *peer = osm_physp_get_remote(physp);
    gboolean host = osm_node_get_type(physp->p_node) != IB_NODE_TYPE_SWITCH;
    return host && peer && peer->p_node->sw && weft_table_capacity(peer) > 0 ? peer : NULL;
}

gboolean
weft_table_check_peer(const WeftTable *table, GError **error)
{
    const osm_physp_t *peer = weft_table_peer(table->physp);
    if (!peer)
        return TRUE;
    guint count = count_enforced(table);
    guint room = weft_table_room(peer);
    if (count <= room || count <= table->enforced)
        return TRUE;
    return weft_error_refuse(
        error, WEFT_ERROR_EXHAUSTED,
        "switch port %u of %s, at port 0x%016" G_GINT64_MODIFIER "x, enforces at most %u P_Keys: %u are too many",
        peer->port_num, peer->p_node->print_desc, (guint64)cl_ntoh64(table->physp->port_guid), room, count);
}

/* --- making it so --- */

/* An index is remembered for one key only: two would be put there together when they come back. */
static void
remember(osm_pkey_tbl_t *pkeys, guint index, guint16 key)
{
    for (cl_map_iterator_t i = cl_map_head(&pkeys->accum_pkeys); i != cl_map_end(&pkeys->accum_pkeys);) {
        cl_map_iterator_t next = cl_map_next(i);
        if (GPOINTER_TO_UINT(cl_map_obj(i)) == index + 1)
            cl_map_remove_item(&pkeys->accum_pkeys, i);
        i = next;
    }
    osm_pkey_tbl_set_accum_pkeys(pkeys, cl_hton16(key), (uint16_t)index);
}

void
weft_table_commit(const WeftTable *table)
{
    osm_pkey_tbl_t *pkeys = &table->physp->pkeys;
    osm_pkey_tbl_init_new_blocks(pkeys);
    pkeys->used_blocks = 0;
    for (guint i = 0; i < table->capacity; i++)
        if (table->keys[i])
            osm_pkey_tbl_set_new_entry(pkeys, (uint16_t)(i / WEFT_BLOCK_KEYS), i % WEFT_BLOCK_KEYS, cl_hton16(table->keys[i]));
    for (guint i = 0; i < table->placed->len; i++) {
        guint index = g_array_index(table->placed, guint, i);
        if (table->keys[index])
            remember(pkeys, index, table->keys[index]);
    }
    osm_pkey_find_last_accum_pkey_index(pkeys);
}

/* A table as it shall be, and as opensm wished it before. */
typedef struct {
    osm_physp_t *physp;
    GArray *keys;
    GArray *before;
} Image;

static void
clear_image(Image *image)
{
    g_clear_pointer(&image->keys, g_array_unref);
    g_clear_pointer(&image->before, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Image, clear_image)

static Image
make_image(const WeftTable *table, gboolean enforced)
{
    return (Image){
        .physp = enforced ? weft_table_peer(table->physp) : table->physp,
        .keys = enforced ? compact(table->keys, table->capacity) : copy(table->keys, table->capacity),
        .before = enforced ? compact(table->before, table->capacity) : copy(table->before, table->capacity),
    };
}

static ib_pkey_table_t
get_block(const GArray *keys, guint block)
{
    ib_pkey_table_t found = { 0 };
    for (guint i = 0, at = block * WEFT_BLOCK_KEYS; i < WEFT_BLOCK_KEYS && at < keys->len; i++, at++)
        found.pkey_entry[i] = cl_hton16(g_array_index(keys, guint16, at));
    return found;
}

static gboolean
is_known(const Image *image, guint block)
{
    ib_pkey_table_t wish = get_block(image->keys, block);
    const ib_pkey_table_t *known = osm_pkey_tbl_block_get(&image->physp->pkeys, (uint16_t)block);
    return known && memcmp(known, &wish, sizeof wish) == 0;
}

/* What the port is known to have does not tell what is on its way to it: a sweep that wished otherwise may have just written.
 */
static gboolean
was_wished(const Image *image, guint block)
{
    ib_pkey_table_t wish = get_block(image->keys, block), before = get_block(image->before, block);
    return memcmp(&before, &wish, sizeof wish) == 0;
}

static WeftAskWhere
locate(osm_physp_t *physp, guint64 port_guid, guint block)
{
    gboolean enforced = osm_node_get_type(physp->p_node) == IB_NODE_TYPE_SWITCH;
    return (WeftAskWhere){ .physp = physp, .port_guid = port_guid, .enforced = enforced, .block = block };
}

/* Blocks behind the last key of a switch's port are emptied: opensm leaves what was there, and the switch would go on to let it
 * through. */
static void
send_image(const Image *image, guint64 port_guid, WeftRound *round)
{
    for (guint b = 0; b < count_blocks(image->physp); b++) {
        if (is_known(image, b) && was_wished(image, b))
            continue;
        const WeftAskWhere where = locate(image->physp, port_guid, b);
        ib_pkey_table_t wish = get_block(image->keys, b);
        weft_round_ask(round, &where, &wish);
    }
}

void
weft_table_send(const WeftTable *table, gboolean enforce, WeftRound *round)
{
    guint64 guid = cl_ntoh64(table->physp->port_guid);
    g_auto(Image) own = make_image(table, FALSE);
    send_image(&own, guid, round);
    osm_physp_t *peer = enforce ? weft_table_peer(table->physp) : NULL;
    if (!peer)
        return;
    g_auto(Image) enforced = make_image(table, TRUE);
    peer->pkeys.used_blocks = (uint16_t)((enforced.keys->len + WEFT_BLOCK_KEYS - 1) / WEFT_BLOCK_KEYS);
    send_image(&enforced, guid, round);
}

static void
read_blocks(osm_physp_t *physp, guint64 port_guid, WeftRound *round)
{
    for (guint b = 0; b < count_blocks(physp); b++) {
        const WeftAskWhere where = locate(physp, port_guid, b);
        weft_round_ask(round, &where, NULL);
    }
}

void
weft_table_read(osm_physp_t *physp, gboolean enforce, WeftRound *round)
{
    guint64 guid = cl_ntoh64(physp->port_guid);
    osm_physp_t *peer = enforce ? weft_table_peer(physp) : NULL;
    read_blocks(physp, guid, round);
    if (peer)
        read_blocks(peer, guid, round);
}

static gboolean
is_all_known(const WeftTable *table, gboolean enforced)
{
    g_auto(Image) image = make_image(table, enforced);
    for (guint b = 0; b < count_blocks(image.physp); b++)
        if (!is_known(&image, b))
            return FALSE;
    return TRUE;
}

gboolean
weft_table_is_as_wished(osm_physp_t *physp, gboolean enforce)
{
    g_autoptr(WeftTable) table = weft_table_new(physp, FALSE);
    return is_all_known(table, FALSE) && (!enforce || !weft_table_peer(physp) || is_all_known(table, TRUE));
}
