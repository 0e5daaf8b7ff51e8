#include "mads.h"

#include "codec.h"
#include "discovery.h"
#include "errors.h"

#include <infiniband/mad.h>
#include <infiniband/umad.h>

#define TIMEOUT_MS 100
#define RETRIES 3
#define BLOCK 32 /* P_Keys in a datagram */
#define SM_MASTER 3
#define PLACES_MAX (4 * WEFT_MAP_NODES_MAX) /* ports of adapters */

const char weft_mads_absent[] = "is not in the fabric";
static const char silent[] = "does not answer";

/* A table of P_Keys, and the way there. */
typedef struct Spot {
    ib_portid_t way;
    guint port; /* 0 for a host's own table */
    guint capacity;
} Spot;

typedef struct Place {
    guint64 guid;
    Spot own;
    Spot enforced;
} Place;

struct WeftMads {
    WeftMadsOptions options; /* the texts are ours */
    struct ibmad_port *port; /* NULL: not open */
    GHashTable *places;      /* Place by port GUID; NULL: the fabric was not looked at */
};

WeftMads *
weft_mads_new(const WeftMadsOptions *options)
{
    WeftMads *mads = g_new0(WeftMads, 1);
    mads->options = *options;
    mads->options.device = g_strdup(options->device);
    mads->options.program = g_strdup(options->program);
    return mads;
}

void
weft_mads_free(WeftMads *mads)
{
    if (!mads)
        return;
    if (mads->port)
        mad_rpc_close_port(mads->port);
    g_clear_pointer(&mads->places, g_hash_table_unref);
    g_free((char *)mads->options.device);
    g_free((char *)mads->options.program);
    g_free(mads);
}

static gboolean
open_port(WeftMads *mads, GError **error)
{
    int classes[] = { IB_SMI_CLASS, IB_SMI_DIRECT_CLASS };
    const WeftMadsOptions *options = &mads->options;
    if (mads->port)
        return TRUE;
    madrpc_show_errors(0);
    mads->port = mad_rpc_open_port((char *)options->device, (int)options->port, classes, G_N_ELEMENTS(classes));
    if (!mads->port)
        return weft_error_refuse(
            error, WEFT_ERROR_UNAVAILABLE,
            "no port of this machine takes management datagrams (%s, port %u); is the adapter there, ib_umad "
            "loaded, and may weft open /dev/infiniband/umad*?",
            options->device ? options->device : "any adapter", options->port);
    mad_rpc_set_timeout(mads->port, TIMEOUT_MS);
    mad_rpc_set_retries(mads->port, RETRIES);
    smp_mkey_set(mads->port, options->m_key);
    return TRUE;
}

static gboolean
query(WeftMads *mads, const ib_portid_t *way, guint attribute, guint modifier, guint8 *answer)
{
    ib_portid_t target = *way;
    return smp_query_via(answer, &target, attribute, modifier, 0, mads->port) != NULL;
}

/* --- the map, and the ways to ports: what weft-discover found --- */

static void
read_way(WeftFields *f, ib_dr_path_t *way)
{
    json_t *array = weft_fields_array(f, "way", IB_SUBNET_PATH_HOPS_MAX - 1), *item;
    gsize i;
    if (!array)
        weft_fields_fail(f, "way", "is missing");
    json_array_foreach (array, i, item) {
        json_int_t port = json_integer_value(item);
        if (port < 1 || port > (json_int_t)WEFT_MAP_PORTS_MAX)
            weft_fields_fail(f, "way", "must be numbers of ports");
        else
            way->p[++way->cnt] = (guint8)port;
    }
}

static void
read_place(WeftFields *f, guint index, gpointer places)
{
    Place *place = g_new0(Place, 1);
    place->guid = weft_fields_hex(f, "guid", G_MAXUINT64, WEFT_REQUIRED);
    read_way(f, &place->own.way.drpath);
    if (weft_fields_has(f, "enforced") && place->own.way.drpath.cnt == 0)
        weft_fields_fail(f, "enforced", "no switch is on the way");
    else if (weft_fields_has(f, "enforced")) {
        place->enforced = place->own;
        ib_dr_path_t *way = &place->enforced.way.drpath;
        place->enforced.port = way->p[way->cnt--];
        place->enforced.capacity = (guint)weft_fields_uint(f, "enforced", 0, G_MAXUINT16, WEFT_REQUIRED);
    }
    place->own.capacity = (guint)weft_fields_uint(f, "pkeys", 0, G_MAXUINT16, WEFT_REQUIRED);
    g_hash_table_replace(places, &place->guid, place);
}

static GHashTable *
read_places(json_t *found, GError **error)
{
    g_autoptr(GHashTable) places = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
    WeftFields f;
    weft_fields_begin(&f, found, "%s", "");
    weft_fields_object(&f, "map");
    if (!weft_fields_has(&f, "places"))
        weft_fields_fail(&f, "places", "is missing");
    weft_codec_read_items(&f, "places", PLACES_MAX, read_place, places);
    return weft_fields_end(&f, error) ? g_steal_pointer(&places) : NULL;
}

/* Returns NULL: nobody asked for anything that is wrong here. */
static gpointer
distrust(const GError *wrong, GError **error)
{
    weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "what was seen of the fabric makes no sense: %s", wrong->message);
    return NULL;
}

static json_t *
discover(WeftMads *mads, GCancellable *cancellable, GError **error)
{
    g_autoptr(GError) wrong = NULL;
    json_auto_t *found = weft_discovery_run(&mads->options, cancellable, error);
    GHashTable *places = found ? read_places(found, &wrong) : NULL;
    if (!places)
        return found ? distrust(wrong, error) : NULL;
    g_clear_pointer(&mads->places, g_hash_table_unref);
    mads->places = places;
    return g_steal_pointer(&found);
}

WeftFabricMap *
weft_mads_map(WeftMads *mads, GCancellable *cancellable, GError **error)
{
    g_autoptr(GError) wrong = NULL;
    json_auto_t *found = discover(mads, cancellable, error);
    if (!found)
        return NULL;
    WeftFabricMap *map = weft_fabric_map_from_json(json_object_get(found, "map"), &wrong);
    return map ? map : distrust(wrong, error);
}

/* --- tables --- */

static gboolean
read_spot(WeftMads *mads, const Spot *spot, GArray *pkeys)
{
    for (guint first = 0; first < spot->capacity; first += BLOCK) {
        guint16 block[BLOCK];
        if (!query(mads, &spot->way, IB_ATTR_PKEY_TBL, spot->port << 16 | first / BLOCK, (guint8 *)block))
            return FALSE;
        for (guint i = 0; i < MIN(BLOCK, spot->capacity - first); i++) {
            guint16 pkey = GUINT16_FROM_BE(block[i]);
            g_array_append_val(pkeys, pkey);
        }
    }
    return TRUE;
}

static gboolean
read_enforced(WeftMads *mads, const Place *place, WeftPortTable *table)
{
    if (place->enforced.port == 0)
        return TRUE;
    table->enforced = g_array_new(FALSE, FALSE, sizeof(guint16));
    return read_spot(mads, &place->enforced, table->enforced);
}

/* Whoever is at the end of the way. 0: nobody answers. */
static guint64
who_is_there(WeftMads *mads, const Place *place)
{
    guint8 info[IB_SMP_DATA_SIZE];
    return query(mads, &place->own.way, IB_ATTR_NODE_INFO, 0, info) ? mad_get_field64(info, 0, IB_NODE_PORT_GUID_F) : 0;
}

static const Place *
find_place(WeftMads *mads, guint64 guid, gboolean anew, GCancellable *cancellable, GError **error)
{
    if (anew || !mads->places) {
        json_auto_t *found = discover(mads, cancellable, error);
        if (!found)
            return NULL;
    }
    return open_port(mads, error) ? g_hash_table_lookup(mads->places, &guid) : NULL;
}

gboolean
weft_mads_read(WeftMads *mads, WeftPortTable *table, gboolean enforced, GCancellable *cancellable, GError **error)
{
    g_autoptr(GError) failed = NULL;
    gboolean known = mads->places != NULL;
    const Place *place = find_place(mads, table->port_guid, FALSE, cancellable, &failed);
    /* It was plugged elsewhere, or came after the last look. */
    if (!failed && known && (!place || who_is_there(mads, place) != table->port_guid))
        place = find_place(mads, table->port_guid, TRUE, cancellable, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (!place)
        table->error = g_strdup(weft_mads_absent);
    else if (!read_spot(mads, &place->own, table->pkeys))
        table->error = g_strdup(silent);
    else if (enforced && !read_enforced(mads, place, table))
        table->error = g_strdup("its switch does not answer");
    return TRUE;
}

/* --- the manager --- */

gboolean
weft_mads_has_master(WeftMads *mads, gboolean *ret_has, GError **error)
{
    guint8 info[IB_SMP_DATA_SIZE];
    ib_portid_t self = { 0 };
    if (!open_port(mads, error))
        return FALSE;
    *ret_has = FALSE;
    if (!query(mads, &self, IB_ATTR_PORT_INFO, 0, info)) {
        /* It may be of an adapter that was reset: it is opened anew. */
        mad_rpc_close_port(g_steal_pointer(&mads->port));
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "this machine's own port does not answer");
    }
    ib_portid_t manager = { .lid = (int)mad_get_field(info, 0, IB_PORT_SMLID_F) };
    if (manager.lid && query(mads, &manager, IB_ATTR_SMINFO, 0, info))
        *ret_has = mad_get_field(info, 0, IB_SMINFO_STATE_F) == SM_MASTER;
    return TRUE;
}
