/* P_Key tables asked for and written, with the answer to each MAD. We take over opensm's receiver of these answers, pass each
 * on to it, and note it: nothing is polled.
 *
 * thread: any; a round belongs to one thread. */
#pragma once

#include "osm.h"

#define WEFT_BLOCK_KEYS IB_NUM_PKEY_ELEMENTS_IN_BLOCK

/* One block of one port's table. */
typedef struct WeftAsk {
    guint64 port_guid; /* the port that it is about: for a switch's port the host's port at the other end */
    gboolean enforced; /* of the switch's port */
    guint port_num;
    char *node; /* its description, as it is; for messages */
    guint block;
    guint16 keys[WEFT_BLOCK_KEYS]; /* as the port answered, in order of the host */
    char *error;                   /* why not; NULL: it has answered */
    gboolean answered;             /* or has failed */
} WeftAsk;

typedef struct WeftRound WeftRound;

/* Takes over the receiver. NULL: opensm did not let us; all is as it was. */
WeftAcks *weft_acks_new(osm_opensm_t *osm);
/* After opensm's dispatcher has ended. */
void weft_acks_free(WeftAcks *acks);
/* Ends all waits; what was not answered fails. */
void weft_acks_stop(WeftAcks *acks);

/* A sweep writes tables, too, from the file that it finds. What it has sent stays on its way for a while, may be sent again,
 * and so reach a port behind what we wrote later. */

/* opensm begins to write tables, or has the answers to all of it. thread: opensm's; never waits. */
void weft_acks_note_sweep(WeftAcks *acks, gboolean writes);
/* For weft_acks_was_swept(): whether a sweep has written since, or did when this was called. */
guint weft_acks_mark(WeftAcks *acks);
gboolean weft_acks_was_swept(WeftAcks *acks, guint mark);
/* Until nothing of a sweep's is on its way; FALSE: it did not end. lock: not held. */
gboolean weft_acks_await_sweep(WeftAcks *acks);

WeftRound *weft_round_new(WeftAcks *acks);
void weft_round_free(WeftRound *round);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftRound, weft_round_free)

typedef struct WeftAskWhere {
    osm_physp_t *physp;
    guint64 port_guid;
    gboolean enforced;
    guint block;
} WeftAskWhere;

/* Hands a MAD to opensm's queue. keys: what is written, 32 of them as they go over the wire; NULL: it is read. lock: held. */
void weft_round_ask(WeftRound *round, const WeftAskWhere *where, const ib_pkey_table_t *keys);
/* Until all have answered or failed: opensm tells of each that it gave up. lock: not held. */
void weft_round_wait(WeftRound *round);
/* WeftAsk, in order. */
GPtrArray *weft_round_asks(WeftRound *round);
/* "port 0x… (h1)", for messages. */
char *weft_ask_place(const WeftAsk *ask);
