#include "errors.h"
#include "sqlite-db.h"

#define APPLICATION_ID 0x77656674 /* "weft", in the header of the file */

/* invariant: whatever the code does, an exclusive resource has one holder (the primary key of claim) and a meter never grows
 * past the limit that was stated (the triggers of share). A meter is kept beside the shares so that a claim costs the same
 * however many holders there are. */
static const char schema_1[] = "PRAGMA application_id = " G_STRINGIFY(
    APPLICATION_ID) ";"
                    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
                    "INSERT INTO meta VALUES ('revision', 0);"

                    "CREATE TABLE record ("
                    "    id INTEGER PRIMARY KEY,"
                    "    kind TEXT NOT NULL,"
                    "    key TEXT NOT NULL CHECK (key <> ''),"
                    "    scope TEXT NOT NULL,"
                    "    place TEXT NOT NULL,"
                    "    revision INTEGER NOT NULL CHECK (revision > 0),"
                    "    value TEXT NOT NULL,"
                    "    UNIQUE (kind, key)) STRICT;"
                    "CREATE INDEX record_scope ON record (kind, scope, key);"
                    "CREATE INDEX record_place ON record (kind, place, key);"

                    "CREATE TABLE claim ("
                    "    resource TEXT PRIMARY KEY CHECK (resource <> ''),"
                    "    holder INTEGER NOT NULL REFERENCES record (id) ON DELETE CASCADE) STRICT, WITHOUT ROWID;"
                    "CREATE INDEX claim_holder ON claim (holder);"

                    "CREATE TABLE share ("
                    "    resource TEXT NOT NULL CHECK (resource <> ''),"
                    "    holder INTEGER NOT NULL REFERENCES record (id) ON DELETE CASCADE,"
                    "    amount INTEGER NOT NULL CHECK (amount > 0),"
                    "    bound INTEGER NOT NULL CHECK (bound > 0),"
                    "    PRIMARY KEY (resource, holder)) STRICT, WITHOUT ROWID;"
                    "CREATE INDEX share_holder ON share (holder);"

                    "CREATE TABLE meter ("
                    "    resource TEXT PRIMARY KEY,"
                    "    used INTEGER NOT NULL CHECK (used >= 0)) STRICT, WITHOUT ROWID;"

                    "CREATE TRIGGER share_inserted AFTER INSERT ON share BEGIN"
                    "    SELECT RAISE(ABORT, 'limit passed')"
                    "        WHERE NEW.amount > NEW.bound - coalesce((SELECT used FROM meter WHERE resource = NEW.resource), "
                    "0);"
                    "    INSERT INTO meter VALUES (NEW.resource, NEW.amount)"
                    "        ON CONFLICT (resource) DO UPDATE SET used = used + excluded.used;"
                    "END;"
                    "CREATE TRIGGER share_updated AFTER UPDATE OF amount ON share BEGIN"
                    "    SELECT RAISE(ABORT, 'limit passed')"
                    "        WHERE NEW.amount > OLD.amount"
                    "        AND NEW.amount - OLD.amount > NEW.bound - (SELECT used FROM meter WHERE resource = NEW.resource);"
                    "    UPDATE meter SET used = used + (NEW.amount - OLD.amount) WHERE resource = NEW.resource;"
                    "END;"
                    "CREATE TRIGGER share_deleted AFTER DELETE ON share BEGIN"
                    "    UPDATE meter SET used = used - OLD.amount WHERE resource = OLD.resource;"
                    "    DELETE FROM meter WHERE resource = OLD.resource AND used = 0;"
                    "END;"
                    "CREATE TRIGGER share_moved BEFORE UPDATE OF resource, holder ON share BEGIN"
                    "    SELECT RAISE(ABORT, 'a share cannot move');"
                    "END;";

const char *const weft_sqlite_migrations[] = { schema_1, NULL };

static gboolean
check_origin(WeftDb *db, gint64 *ret_version, GError **error)
{
    gint64 application, tables;
    if (!weft_db_number(db, "PRAGMA application_id", &application, error) ||
        !weft_db_number(db, "PRAGMA user_version", ret_version, error) ||
        !weft_db_number(db, "SELECT count(*) FROM sqlite_schema", &tables, error))
        return FALSE;
    gboolean is_new = application == 0 && *ret_version == 0 && tables == 0;
    if (application == APPLICATION_ID || is_new)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "store %s: an SQLite file of another program: name another file",
                db->path);
    return FALSE;
}

static gboolean
check_sound(WeftDb *db, GError **error)
{
    g_autoptr(WeftRows) rows = weft_db_query(db, error, "PRAGMA quick_check(1)", "");
    if (!rows || !weft_db_next(db, rows, error))
        return FALSE;
    const char *verdict = weft_rows_text(rows, 0);
    if (g_str_equal(verdict, "ok"))
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE,
                "store %s: the file is damaged: restore it from a backup (SQLite: %s)", db->path, verdict);
    return FALSE;
}

static gboolean
migrate_step(WeftDb *db, const char *sql, guint version, GError **error)
{
    g_autofree char *script = g_strdup_printf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %u; COMMIT", sql, version);
    if (weft_db_script(db, script, error))
        return TRUE;
    sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
    g_prefix_error(error, "schema version %u: ", version);
    return FALSE;
}

gboolean
weft_db_migrate(WeftDb *db, const char *const *migrations, GError **error)
{
    gint64 version, known = g_strv_length((char **)migrations);
    if (!check_origin(db, &version, error))
        return FALSE;
    if (version > known) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "store %s: written by a newer weft (schema version %" G_GINT64_FORMAT
                    ", this one knows up to %" G_GINT64_FORMAT "): install that weft, or restore the backup made before it",
                    db->path, version, known);
        return FALSE;
    }
    if (!check_sound(db, error) || !weft_db_script(db, "PRAGMA journal_mode = WAL", error))
        return FALSE;
    for (; version < known; version++)
        if (!migrate_step(db, migrations[version], version + 1, error))
            return FALSE;
    return TRUE;
}
