#include "sqlite-db.h"

#include "errors.h"

/* Memory is bounded whatever the size of the file. How long the log may be: sqlite-room.c. */
static const char writer_settings[] = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -65536;"
                                      "PRAGMA temp_store = MEMORY";
static const char reader_settings[] = "PRAGMA query_only = ON; PRAGMA cache_size = -32768";

#define BUSY_TIMEOUT_MS 10000

static const struct {
    int code;
    const char *meaning;
} meanings[] = {
    { SQLITE_CORRUPT, "the file is damaged: stop weftd and restore the file from a backup" },
    { SQLITE_NOTADB, "the file is damaged or not a store of weft: restore it from a backup, or name another file" },
    { SQLITE_FULL, "the disk is full: free some space" },
    { SQLITE_BUSY, "another program holds the file locked: end it" },
    { SQLITE_READONLY, "the file cannot be written: check its owner and its file system" },
    { SQLITE_CANTOPEN, "the file cannot be opened: check the owner and mode of the file and of its folder" },
    { SQLITE_IOERR, "the disk fails or is full: see the system's log" },
};

void
weft_db_fail(WeftDb *db, GError **error)
{
    int code = sqlite3_errcode(db->sqlite) & 0xff;
    const char *meaning = "unexpected: please report it";
    for (gsize i = 0; i < G_N_ELEMENTS(meanings); i++)
        if (meanings[i].code == code)
            meaning = meanings[i].meaning;
    g_set_error(error, WEFT_ERROR, code == SQLITE_CONSTRAINT ? WEFT_ERROR_FAILED : WEFT_ERROR_UNAVAILABLE,
                "store %s: %s (SQLite: %s)", db->path, meaning, sqlite3_errmsg(db->sqlite));
}

static void
statement_free(gpointer statement)
{
    sqlite3_finalize(statement);
}

WeftDb *
weft_db_open(const char *path, gboolean writer, GError **error)
{
    /* Counting its memory, SQLite would take a lock of the whole process at each allocation. Refused once it runs: no harm. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    g_autoptr(WeftDb) db = g_new0(WeftDb, 1);
    db->path = g_strdup(path);
    db->statements = g_hash_table_new_full(NULL, NULL, NULL, statement_free);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path, &db->sqlite, flags, NULL) != SQLITE_OK) {
        weft_db_fail(db, error);
        return NULL;
    }
    sqlite3_busy_timeout(db->sqlite, BUSY_TIMEOUT_MS);
    if (!weft_db_script(db, writer ? writer_settings : reader_settings, error))
        return NULL;
    return g_steal_pointer(&db);
}

void
weft_db_free(WeftDb *db)
{
    if (!db)
        return;
    g_hash_table_unref(db->statements);
    sqlite3_close(db->sqlite);
    g_free(db->path);
    g_free(db);
}

void
weft_rows_end(WeftRows *rows)
{
    if (rows)
        sqlite3_reset(rows);
}

const char *
weft_rows_text(WeftRows *rows, int column)
{
    const char *text = (const char *)sqlite3_column_text(rows, column);
    return text ? text : "";
}

static WeftRows *
prepare(WeftDb *db, const char *sql, GError **error)
{
    sqlite3_stmt *statement = g_hash_table_lookup(db->statements, sql);
    if (statement)
        return statement;
    if (sqlite3_prepare_v3(db->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK) {
        weft_db_fail(db, error);
        return NULL;
    }
    g_hash_table_insert(db->statements, (gpointer)sql, statement);
    return statement;
}

static WeftRows *
query(WeftDb *db, const char *sql, const char *types, va_list args, GError **error)
{
    WeftRows *rows = prepare(db, sql, error);
    for (int i = 0; rows && types[i]; i++) {
        if (types[i] == 'i') {
            sqlite3_bind_int64(rows, i + 1, va_arg(args, gint64));
            continue;
        }
        const char *text = va_arg(args, const char *);
        if (text)
            sqlite3_bind_text(rows, i + 1, text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_zeroblob(rows, i + 1, 0);
    }
    return rows;
}

WeftRows *
weft_db_query(WeftDb *db, GError **error, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    WeftRows *rows = query(db, sql, types, args, error);
    va_end(args);
    return rows;
}

gboolean
weft_db_next(WeftDb *db, WeftRows *rows, GError **error)
{
    int code = sqlite3_step(rows);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        weft_db_fail(db, error);
    return code == SQLITE_ROW;
}

gboolean
weft_db_number(WeftDb *db, const char *sql, gint64 *ret_number, GError **error)
{
    g_autoptr(WeftRows) rows = weft_db_query(db, error, sql, "");
    if (!rows || !weft_db_next(db, rows, error))
        return FALSE;
    *ret_number = sqlite3_column_int64(rows, 0);
    return TRUE;
}

gboolean
weft_db_run(WeftDb *db, GError **error, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    g_autoptr(WeftRows) rows = query(db, sql, types, args, error);
    va_end(args);
    if (!rows)
        return FALSE;
    if (sqlite3_step(rows) == SQLITE_DONE)
        return TRUE;
    weft_db_fail(db, error);
    return FALSE;
}

gboolean
weft_db_script(WeftDb *db, const char *sql, GError **error)
{
    if (sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK)
        return TRUE;
    weft_db_fail(db, error);
    return FALSE;
}
