#include "map.h"

#include "codec.h"
#include "errors.h"
#include "fields.h"

#include <string.h>

#define TEXT_MAX (3 * WEFT_MAP_NAME_MAX) /* bytes of a description: each that is no UTF-8 was made one of three */

/* --- reading --- */

typedef struct Reading {
    WeftFabricMap *map;
    GHashTable *places; /* GUID of a node to its index */
    GArray *ports;      /* of the node that is read */
} Reading;

static int
find_peer(const Reading *r, WeftFields *f)
{
    if (!weft_fields_has(f, "peer"))
        return -1;
    guint64 guid = weft_fields_hex(f, "peer", G_MAXUINT64, WEFT_REQUIRED);
    gpointer index;
    if (g_hash_table_lookup_extended(r->places, &guid, NULL, &index))
        return GPOINTER_TO_INT(index);
    weft_fields_fail(f, "peer", "0x%016" G_GINT64_MODIFIER "x is no node of the map", guid);
    return -1;
}

static void
read_port(WeftFields *f, guint index, gpointer data)
{
    const Reading *r = data;
    WeftMapPort port = { .number = (guint)weft_fields_uint(f, "number", 0, WEFT_MAP_PORTS_MAX, WEFT_REQUIRED),
                         .guid = weft_fields_hex(f, "guid", G_MAXUINT64, 0),
                         .lid = (guint)weft_fields_uint(f, "lid", 0, WEFT_MAP_LID_MAX, 0),
                         .pkeys = (guint)weft_fields_uint(f, "pkeys", 0, G_MAXUINT16, 0),
                         .active = weft_fields_bool(f, "active", FALSE),
                         .rate = weft_fields_uint(f, "rate", 0, WEFT_MAP_RATE_MAX, 0),
                         .peer = find_peer(r, f),
                         .peer_port = (guint)weft_fields_uint(f, "peer_port", 0, WEFT_MAP_PORTS_MAX, 0) };
    g_array_append_val(r->ports, port);
}

/* All nodes first: ports name those at the other end. */
static void
read_node(WeftFields *f, guint index, gpointer data)
{
    Reading *r = data;
    int kind = weft_fields_word(f, "kind", weft_map_kind_words, -1);
    guint64 guid = weft_fields_hex(f, "guid", G_MAXUINT64, WEFT_REQUIRED);
    const char *description = weft_fields_string(f, "description", "");
    if (strlen(description) > TEXT_MAX)
        weft_fields_fail(f, "description", "is longer than the %u characters of InfiniBand", WEFT_MAP_NAME_MAX);
    weft_fields_array(f, "ports", WEFT_MAP_PORTS_MAX + 1);
    if (f->error)
        return;
    WeftMapNode *node = weft_fabric_map_add(r->map, (WeftMapKind)kind, guid, description);
    g_hash_table_insert(r->places, &node->guid, GINT_TO_POINTER((int)index));
}

static void
read_ports(WeftFields *f, guint index, gpointer data)
{
    Reading *r = data;
    weft_fields_has(f, "kind");
    weft_fields_has(f, "guid");
    weft_fields_has(f, "description");
    r->ports = ((WeftMapNode *)r->map->nodes->pdata[index])->ports;
    weft_codec_read_items(f, "ports", WEFT_MAP_PORTS_MAX + 1, read_port, r);
}

WeftFabricMap *
weft_fabric_map_from_json(json_t *json, GError **error)
{
    g_autoptr(WeftFabricMap) map = weft_fabric_map_new();
    g_autoptr(GHashTable) places = g_hash_table_new(g_int64_hash, g_int64_equal);
    Reading reading = { .map = map, .places = places };
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "map");
    weft_codec_read_items(&f, "nodes", WEFT_MAP_NODES_MAX, read_node, &reading);
    if (!f.error)
        weft_codec_read_items(&f, "nodes", WEFT_MAP_NODES_MAX, read_ports, &reading);
    if (!weft_fields_end(&f, error) || !weft_fabric_map_seal(map, error))
        return NULL;
    return g_steal_pointer(&map);
}

/* --- writing --- */

static json_t *
write_port(const WeftFabricMap *map, const WeftMapPort *port)
{
    json_t *json = json_pack("{s:i}", "number", port->number);
    if (port->guid)
        json_object_set_new(json, "guid", weft_guid_write(port->guid));
    if (port->lid)
        json_object_set_new(json, "lid", json_integer(port->lid));
    if (port->pkeys)
        json_object_set_new(json, "pkeys", json_integer(port->pkeys));
    if (port->active)
        json_object_set_new(json, "active", json_true());
    if (port->rate)
        json_object_set_new(json, "rate", json_integer((json_int_t)port->rate));
    if (port->peer >= 0) {
        const WeftMapNode *peer = map->nodes->pdata[port->peer];
        json_object_set_new(json, "peer", weft_guid_write(peer->guid));
        json_object_set_new(json, "peer_port", json_integer(port->peer_port));
    }
    return json;
}

json_t *
weft_fabric_map_to_json(const WeftFabricMap *map)
{
    json_t *nodes = json_array();
    for (guint i = 0; i < map->nodes->len; i++) {
        const WeftMapNode *node = map->nodes->pdata[i];
        json_t *ports = json_array();
        for (guint p = 0; p < node->ports->len; p++)
            json_array_append_new(ports, write_port(map, &g_array_index(node->ports, WeftMapPort, p)));
        /* Descriptions come from the fabric: 64 bytes that anybody may have set. */
        g_autofree char *description = g_utf8_make_valid(node->description, -1);
        json_array_append_new(nodes, json_pack("{s:s, s:o, s:s, s:o}", "kind", weft_map_kind_words[node->kind], "guid",
                                               weft_guid_write(node->guid), "description", description, "ports", ports));
    }
    return json_pack("{s:o}", "nodes", nodes);
}
