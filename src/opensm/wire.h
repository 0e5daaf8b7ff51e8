/* What weftd and the plugin inside opensm say to each other, on a Unix socket: frames of a length (four bytes, the highest
 * first) and a JSON object. The plugin answers a request by an object with the same "id"; events come in between. */
#pragma once

#include "fabric.h"

#include <glib.h>
#include <jansson.h>

#define WEFT_WIRE_PROTOCOL 2
#define WEFT_WIRE_FRAME_MAX (64u << 20) /* 32,000 partitions and a map of 10,000 ports fit */
#define WEFT_WIRE_REQUEST_MAX (32u << 20)

/* { "id": 7, "do": "hello" | "list" | "topology" | "apply" | "verify" | "listen", … }
 *
 * hello     →  { "id": 7, "protocol": 2, "manager": { as WeftManager } }
 * list      →  { "id": 7, "generation": 12, "partitions": [ … ] }            the site's own as well
 * topology  →  { "id": 7, "map": { as in map.h } }
 * apply "generation" "set": [ { "pkey": "0x0001", "name": "weft-…", "ipoib": true, "sl": 0, "rate": 0, "mtu": 0,
 *               "members": [ { "guid": "0x…", "membership": "full", "index0": false }, … ] } ], "removed":
 *               [ { "pkey": "0x0002", "name": "weft-…" } ]
 *               all others are left as they are
 *               a member may have "virtual": "0x…", which only a manager with virtualization takes
 *           →  { "id": 7, "generation": 13, "blocks": 16, "micros": 2100, "absent": [ "0x…" ] }
 *               absent: members that are not in the fabric now
 * verify "ports": [ "0x…" ]
 *           →  { "id": 7, "tables": [ { "guid": "0x…", "pkeys": [ 65535, … ], "enforced": [ … ], "error": "…" } ] }
 * listen    →  { "id": 7 }, and from then on { "event": "ports" | "swept" | "manager", "detail": "…" }
 *
 * A failure is { "id": 7, "error": { "kind": "invalid" | "conflict" | "unavailable" | "exhausted" | "timeout", "text": "…" } }.
 */

/* --- frames --- */

/* Bytes in, objects out: for either end, and for libFuzzer. */
typedef struct WeftWireReader WeftWireReader;
WeftWireReader *weft_wire_reader_new(gsize frame_max);
void weft_wire_reader_free(WeftWireReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftWireReader, weft_wire_reader_free)
/* FALSE: what came is no frame of ours, and the connection must end. Objects are handed over in order. */
gboolean weft_wire_reader_feed(WeftWireReader *reader, const guint8 *bytes, gsize n, GError **error);
json_t *weft_wire_reader_next(WeftWireReader *reader); /* NULL: no whole frame is there */
/* Whether a frame has begun that has not ended. */
gboolean weft_wire_reader_is_inside(const WeftWireReader *reader);

GBytes *weft_wire_frame(const json_t *object);

/* --- what is in them --- */

json_t *weft_wire_change_to_json(const WeftFabricChange *change);
WeftFabricChange *weft_wire_change_from_json(json_t *json, GError **error);
json_t *weft_wire_partition_to_json(const WeftPartition *partition);
WeftPartition *weft_wire_partition_from_json(json_t *json, const char *where, GError **error);
json_t *weft_wire_manager_to_json(const WeftManager *manager);
WeftManager *weft_wire_manager_from_json(json_t *json, GError **error);
json_t *weft_wire_table_to_json(const WeftPortTable *table);
WeftPortTable *weft_wire_table_from_json(json_t *json, const char *where, GError **error);
json_t *weft_wire_error_to_json(const GError *error);
/* Sets the error that the answer carries; TRUE: it carries none. */
gboolean weft_wire_check_answer(json_t *answer, GError **error);
