/* The P_Key table of one port as it shall be, by opensm's own rules, so that its next sweep changes nothing:
 * a key stays at its index; one that comes back gets the index that it had; a new one goes behind the last that was ever used,
 * and only when the table's end is reached to a free place; index 0 is the default partition's, unless a key was given that
 * place.
 *
 * A copy is changed, and committed when all is well. lock: opensm's is held from weft_table_new() to the end. */
#pragma once

#include "acks.h"

typedef struct WeftTable WeftTable;

/* What a port is in one partition. Neither full nor limited: not a member. */
typedef struct WeftStanding {
    guint16 pkey; /* 15 bits, in order of the host */
    gboolean full;
    gboolean limited;
    gboolean index0;
} WeftStanding;

/* both: opensm's allow_both_pkeys. */
WeftTable *weft_table_new(osm_physp_t *physp, gboolean both);
void weft_table_free(WeftTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTable, weft_table_free)

/* Whether a sweep has made its table yet: else the next one will, from the file. */
gboolean weft_table_is_known(const osm_physp_t *physp);
/* EXHAUSTED: the table is full; CONFLICT: index 0 is taken. */
gboolean weft_table_set(WeftTable *table, const WeftStanding *standing, GError **error);
/* EXHAUSTED: the switch's port cannot enforce as many. */
gboolean weft_table_check_peer(const WeftTable *table, GError **error);

/* Makes it opensm's wish. */
void weft_table_commit(const WeftTable *table);
/* Sends the blocks that are not as they shall be, and those of the switch's port where enforce: those that differ from what was
 * wished before, or from what the port is known to have. */
void weft_table_send(const WeftTable *table, gboolean enforce, WeftRound *round);
/* Asks for all blocks, and for those of the switch's port where enforce. */
void weft_table_read(osm_physp_t *physp, gboolean enforce, WeftRound *round);
/* Whether the port, and the switch's where enforce, are known to have what opensm wishes. */
gboolean weft_table_is_as_wished(osm_physp_t *physp, gboolean enforce);

/* The switch's port at the other end that is able to enforce partitions; NULL: none. */
osm_physp_t *weft_table_peer(const osm_physp_t *physp);
/* Places in its table; of a switch's port in that which it enforces. */
guint weft_table_capacity(const osm_physp_t *physp);
/* How many of them may be used: opensm ends the enforcement at a switch's port when the last place of the last block is taken.
 */
guint weft_table_room(const osm_physp_t *physp);
