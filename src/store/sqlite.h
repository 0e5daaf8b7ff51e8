/* The embedded store: one SQLite file in WAL mode, synchronous=FULL. */
#pragma once

#include "store.h"

/* Opens or creates the file, and brings an older schema up to date. A file of a newer weft, a damaged one, and one that another
 * weftd has open are refused, each with its own message. */
WeftStore *weft_store_sqlite_open(const char *path, GError **error);
