/* The fabric as its ports tell it, by management datagrams from a port of this machine: its map, and P_Key tables of hosts'
 * ports and of the switches' ports that they hang on. thread: one at a time; blocks. */
#pragma once

#include "fabric.h"

typedef struct WeftMads WeftMads;

typedef struct WeftMadsOptions {
    const char *device; /* NULL: the first with an active port */
    guint port;         /* 0: the first that is active */
    guint64 m_key;
    gint64 deadline;     /* microseconds for a look at the whole fabric */
    const char *program; /* that looks; NULL: "weft-discover" */
} WeftMadsOptions;

/* Nothing is opened yet; the options are copied. */
WeftMads *weft_mads_new(const WeftMadsOptions *options);
void weft_mads_free(WeftMads *mads);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftMads, weft_mads_free)

/* Looks at the whole fabric. Errors: UNAVAILABLE; TIMEOUT when it was cancelled. */
WeftFabricMap *weft_mads_map(WeftMads *mads, GCancellable *cancellable, GError **error);

/* Fills the table of the port whose GUID it has; a port that is not there or does not answer is told in it, and is no error.
 * Ways to ports are remembered, and found anew when the port at the end is another one. enforced: the switch's table as well.
 */
gboolean weft_mads_read(WeftMads *mads, WeftPortTable *table, gboolean enforced, GCancellable *cancellable, GError **error);
/* Why a port was not read: it is in no place of the fabric. */
extern const char weft_mads_absent[];

/* Whether the fabric has a manager that rules. */
gboolean weft_mads_has_master(WeftMads *mads, gboolean *ret_has, GError **error);
