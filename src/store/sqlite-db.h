/* One SQLite connection with its prepared statements; inside of the SQLite store only.
 *
 * thread: a connection belongs to one thread at a time. */
#pragma once

#include "store.h"

#include <sqlite3.h>

typedef struct WeftDb {
    sqlite3 *sqlite;
    char *path;             /* for messages */
    GHashTable *statements; /* by the address of their SQL, which is a literal */
} WeftDb;

/* The file must be there. The writer may change it, the reader only reads; weft_db_migrate() makes it a store. */
WeftDb *weft_db_open(const char *path, gboolean writer, GError **error);
void weft_db_free(WeftDb *db);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftDb, weft_db_free)

/* The rows of a running query; freeing only resets the statement, which stays prepared. */
typedef sqlite3_stmt WeftRows;
void weft_rows_end(WeftRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftRows, weft_rows_end)

/* types has a letter per value: s text (must live as long as the rows; NULL is an empty blob, larger than every text), i
 * gint64. */
WeftRows *weft_db_query(WeftDb *db, GError **error, const char *sql, const char *types, ...);
/* TRUE: there is a row. FALSE without error: there are no more. */
gboolean weft_db_next(WeftDb *db, WeftRows *rows, GError **error);
/* A statement that gives no rows. */
gboolean weft_db_run(WeftDb *db, GError **error, const char *sql, const char *types, ...);
/* Several statements in one text, not cached. */
gboolean weft_db_script(WeftDb *db, const char *sql, GError **error);
/* What SQLite complained of last, with a remedy: WEFT_ERROR_FAILED where a constraint refused it, else WEFT_ERROR_UNAVAILABLE.
 */
void weft_db_fail(WeftDb *db, GError **error);

const char *weft_rows_text(WeftRows *rows, int column);
/* The number that a query gives in its first row. */
gboolean weft_db_number(WeftDb *db, const char *sql, gint64 *ret_number, GError **error);

/* --- schema: sqlite-schema.c --- */

/* Migration n brings a file of version n to n + 1. */
extern const char *const weft_sqlite_migrations[];

/* Refuses files of other programs and of a newer weft, and brings older ones up to date, each step in a transaction. */
gboolean weft_db_migrate(WeftDb *db, const char *const *migrations, GError **error);

/* --- writing: sqlite-write.c --- */

/* A transaction on its way to the file and back. */
typedef struct WeftCommit {
    WeftTxn *txn;
    WeftCommitted callback;
    gpointer data;
    gint64 revision;
    GError *error;
} WeftCommit;

/* Runs the commits in one SQLite transaction, each on its own: one that is refused leaves the others alone. *revision is the
 * last one that was committed. A delete that found its record leaves the record's scope and place in its operation. full: those
 * that leave the reserve are refused. FALSE: the database failed, and nothing was written. */
gboolean weft_db_write(WeftDb *db, gint64 *revision, GQueue *commits, gboolean full);

/* --- reading: sqlite-read.c --- */

WeftRecord *weft_db_get(WeftDb *db, WeftKind kind, const char *key, GError **error);
GPtrArray *weft_db_list(WeftDb *db, const WeftQuery *query, GError **error);
WeftRecord *weft_db_holder(WeftDb *db, const char *resource, GError **error);
gboolean weft_db_used(WeftDb *db, const char *resource, guint64 *ret_used, GError **error);
json_t *weft_db_dump(WeftDb *db, GError **error);
