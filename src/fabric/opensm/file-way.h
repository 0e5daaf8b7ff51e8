/* What the ways without a plugin share: opensm's file, its process, and the ports. thread: worker; blocks. */
#pragma once

#include "expectation.h"
#include "mads.h"
#include "managed.h"
#include "ways.h"

typedef struct WeftFileWay {
    char *partitions_file;
    char *pid_file; /* NULL: it is looked for */
    char *map_file; /* NULL: the fabric is looked at */
    gint64 deadline;
    WeftMads *mads;
    GHashTable *leaving; /* number → WeftPartition: members that were taken out of it, and not seen without it yet */

    /* pool only */
    char *ledger; /* file */
    WeftPkeys pool;
} WeftFileWay;

gpointer weft_file_way_create(const WeftOpensmOptions *options, GError **error);
void weft_file_way_attach(gpointer self, WeftFabricDriver *driver);
void weft_file_way_listen(gpointer self, gboolean on);
void weft_file_way_free(gpointer self);

WeftFabricMap *weft_file_way_map(gpointer self, GCancellable *cancellable, GError **error);
GPtrArray *weft_file_way_verify(gpointer self, const GArray *port_guids, GCancellable *cancellable, GError **error);
/* As it looks from outside opensm; way: its word. */
WeftManager *weft_file_way_greet(WeftFileWay *way, WeftOpensmWay which, GError **error);

/* ours and the site's of the file, by number. */
GPtrArray *weft_file_way_list(const GPtrArray *ours, const WeftManagedFile *file);
/* Whether the manager is there, and lets P_Keys stay where they are; else UNAVAILABLE, or as manager-process.h says. */
gboolean weft_file_way_check_manager(const WeftFileWay *way, GError **error);
/* What this manager cannot do: UNAVAILABLE. */
gboolean weft_file_way_check(const WeftFabricChange *change, GError **error);

/* EXHAUSTED: a table has no room for it. */
gboolean
weft_file_way_check_room(WeftFileWay *way, const WeftExpectation *expectation, GCancellable *cancellable, GError **error);
/* Reads the ports until they have it. TIMEOUT names one that has not; those that are not in the fabric get it when they come.
 */
gboolean weft_file_way_wait(WeftFileWay *way, const WeftExpectation *expectation, GCancellable *cancellable, GError **error);
