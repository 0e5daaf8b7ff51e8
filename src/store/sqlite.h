/* The embedded store: one SQLite file in WAL mode, synchronous=FULL. */
#pragma once

#include "store.h"

/* Opens or creates the file, and brings an older schema up to date. A file of a newer weft, a damaged one, and one that another
 * weftd has open are refused, each with its own message. */
WeftStore *weft_store_sqlite_open(const char *path, GError **error);

/* weft_store_dump() of a file, without opening it for writing: also while weftd has it open. */
json_t *weft_store_sqlite_dump(const char *path, GError **error);
