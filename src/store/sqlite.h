/* The embedded store: one SQLite file in WAL mode, synchronous=FULL. */
#pragma once

#include "store.h"

/* Opens or creates the file, and brings an older schema up to date. A file of a newer weft, a damaged one, and one that another
 * weftd has open are refused, each with its own message. reserve: bytes of its disk that belong to it before
 * it needs them (sqlite-room.h); 0: none. Where there is no room for that, the store is full from the start. */
WeftStore *weft_store_sqlite_open(const char *path, guint64 reserve, GError **error);

/* weft_store_dump() of a file, without opening it for writing: also while weftd has it open. */
json_t *weft_store_sqlite_dump(const char *path, GError **error);

/* What nobody but one weftd has at a time, as a descriptor to be closed; -1 and CONFLICT: another process has it. A process
 * takes it once: a second descriptor of its own would be given it too, and would end it when closed. */
int weft_store_sqlite_lock(const char *path, GError **error);

/* Everything that was committed, as a file of its own, also while weftd has it open. thread: any. It blocks; commits do not
 * wait for it. (snapshot.c) */
gboolean weft_store_sqlite_snapshot(const char *path, const char *target, GError **error);
/* { "schema": version, "blobs": [ { "digest", "size", "of": "image mpi" }, … ] } of a file that nobody writes to. INVALID: this
 * weft does not know its schema. thread: any. (snapshot.c) */
json_t *weft_store_sqlite_describe(const char *path, GError **error);
/* Notes in a file that nobody else uses that it is older than its site, as weft_txn_set_aged() does. (snapshot.c) */
gboolean weft_store_sqlite_set_aged(const char *path, GError **error);
/* Reads all of a file that nobody writes to. UNAVAILABLE: its tables or indexes contradict themselves. (snapshot.c) */
gboolean weft_store_sqlite_check(const char *path, GError **error);
