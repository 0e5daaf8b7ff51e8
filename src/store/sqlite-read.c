#include "errors.h"
#include "sqlite-db.h"

static WeftRecord *
read_record(WeftRows *rows, WeftKind kind)
{
    WeftRecord *record = g_new0(WeftRecord, 1);
    record->kind = kind;
    record->key = g_strdup(weft_rows_text(rows, 0));
    record->scope = g_strdup(weft_rows_text(rows, 1));
    record->place = g_strdup(weft_rows_text(rows, 2));
    record->revision = sqlite3_column_int64(rows, 3);
    record->value = g_strdup(weft_rows_text(rows, 4));
    return record;
}

WeftRecord *
weft_db_get(WeftDb *db, WeftKind kind, const char *key, GError **error)
{
    g_autoptr(WeftRows) rows =
        weft_db_query(db, error, "SELECT key, scope, place, revision, value FROM record WHERE kind = ?1 AND key = ?2", "ss",
                      weft_kind_words[kind], key);
    if (!rows || !weft_db_next(db, rows, error))
        return NULL;
    return read_record(rows, kind);
}

/* The index is named so that a list never depends on what the planner guesses. */
#define LIST(filter, compare, order)                                                                                           \
    "SELECT key, scope, place, revision, value FROM record " filter " AND key " compare " ?3 ORDER BY key " order              \
    " LIMIT ?4 OFFSET ?5"
#define BY_KIND "WHERE kind = ?1 AND ?2 IS NOT NULL"
#define BY_SCOPE "INDEXED BY record_scope WHERE kind = ?1 AND scope = ?2"
#define BY_PLACE "INDEXED BY record_place WHERE kind = ?1 AND place = ?2"

static const char *const list_sql[3][2] = {
    { LIST(BY_KIND, ">", "ASC"), LIST(BY_KIND, "<", "DESC") },
    { LIST(BY_SCOPE, ">", "ASC"), LIST(BY_SCOPE, "<", "DESC") },
    { LIST(BY_PLACE, ">", "ASC"), LIST(BY_PLACE, "<", "DESC") },
};

static void
record_free(gpointer record)
{
    weft_record_free(record);
}

GPtrArray *
weft_db_list(WeftDb *db, const WeftQuery *query, GError **error)
{
    guint filter = query->scope ? 1 : query->place ? 2 : 0;
    const char *value = query->scope ? query->scope : query->place ? query->place : "";
    /* Going backwards, NULL is what lies beyond every key. */
    const char *after = query->after || query->backwards ? query->after : "";
    g_autoptr(WeftRows) rows =
        weft_db_query(db, error, list_sql[filter][query->backwards ? 1 : 0], "sssii", weft_kind_words[query->kind], value,
                      after, query->limit ? (gint64)query->limit : (gint64)-1, (gint64)query->skip);
    if (!rows)
        return NULL;

    GError *failure = NULL;
    g_autoptr(GPtrArray) records = g_ptr_array_new_with_free_func(record_free);
    while (weft_db_next(db, rows, &failure))
        g_ptr_array_add(records, read_record(rows, query->kind));
    if (failure) {
        g_propagate_error(error, failure);
        return NULL;
    }
    return g_steal_pointer(&records);
}

static gboolean
find_kind(WeftDb *db, const char *word, WeftKind *ret_kind, GError **error)
{
    for (WeftKind kind = 0; kind < WEFT_KINDS; kind++) {
        if (g_str_equal(weft_kind_words[kind], word)) {
            *ret_kind = kind;
            return TRUE;
        }
    }
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "store %s: a record is of unknown kind '%s': restore from a backup",
                db->path, word);
    return FALSE;
}

WeftRecord *
weft_db_holder(WeftDb *db, const char *resource, GError **error)
{
    g_autoptr(WeftRows) rows = weft_db_query(db, error,
                                             "SELECT key, scope, place, revision, value, kind FROM claim"
                                             " JOIN record ON record.id = claim.holder WHERE resource = ?1",
                                             "s", resource);
    WeftKind kind;
    if (!rows || !weft_db_next(db, rows, error) || !find_kind(db, weft_rows_text(rows, 5), &kind, error))
        return NULL;
    return read_record(rows, kind);
}

gboolean
weft_db_used(WeftDb *db, const char *resource, guint64 *ret_used, GError **error)
{
    g_autoptr(WeftRows) rows =
        weft_db_query(db, error, "SELECT coalesce((SELECT used FROM meter WHERE resource = ?1), 0)", "s", resource);
    if (!rows || !weft_db_next(db, rows, error))
        return FALSE;
    *ret_used = sqlite3_column_int64(rows, 0);
    return TRUE;
}

/* --- dump --- */

typedef void (*DumpRow)(json_t *dump, WeftRows *rows);

static json_t *
dumped_record(json_t *dump, const char *name)
{
    return json_object_get(json_object_get(dump, "records"), name);
}

static void
dump_record(json_t *dump, WeftRows *rows)
{
    json_t *record = json_pack("{s:s, s:s, s:I, s:o?, s:[], s:{}}", "scope", weft_rows_text(rows, 1), "place",
                               weft_rows_text(rows, 2), "revision", (json_int_t)sqlite3_column_int64(rows, 3), "value",
                               json_loads(weft_rows_text(rows, 4), JSON_DECODE_ANY, NULL), "claims", "shares");
    json_object_set_new(json_object_get(dump, "records"), weft_rows_text(rows, 0), record);
}

static void
dump_claim(json_t *dump, WeftRows *rows)
{
    const char *resource = weft_rows_text(rows, 0), *holder = weft_rows_text(rows, 1);
    json_object_set_new(json_object_get(dump, "claims"), resource, json_string(holder));
    json_array_append_new(json_object_get(dumped_record(dump, holder), "claims"), json_string(resource));
}

static void
dump_share(json_t *dump, WeftRows *rows)
{
    json_object_set_new(json_object_get(dumped_record(dump, weft_rows_text(rows, 1)), "shares"), weft_rows_text(rows, 0),
                        json_integer(sqlite3_column_int64(rows, 2)));
}

static void
dump_meter(json_t *dump, WeftRows *rows)
{
    json_object_set_new(json_object_get(dump, "meters"), weft_rows_text(rows, 0), json_integer(sqlite3_column_int64(rows, 1)));
}

static const struct {
    const char *sql;
    DumpRow row;
} dump_parts[] = {
    { "SELECT kind || ' ' || key, scope, place, revision, value FROM record ORDER BY kind, key", dump_record },
    { "SELECT resource, kind || ' ' || key FROM claim JOIN record ON id = holder ORDER BY resource", dump_claim },
    { "SELECT resource, kind || ' ' || key, amount FROM share JOIN record ON id = holder ORDER BY resource", dump_share },
    { "SELECT resource, used FROM meter ORDER BY resource", dump_meter },
};

static gboolean
dump_rows(WeftDb *db, json_t *dump, const char *sql, DumpRow row, GError **error)
{
    g_autoptr(WeftRows) rows = weft_db_query(db, error, sql, "");
    if (!rows)
        return FALSE;
    GError *failure = NULL;
    while (weft_db_next(db, rows, &failure))
        row(dump, rows);
    if (!failure)
        return TRUE;
    g_propagate_error(error, failure);
    return FALSE;
}

json_t *
weft_db_dump(WeftDb *db, GError **error)
{
    /* One transaction: the parts are of one moment. */
    if (!weft_db_run(db, error, "BEGIN", ""))
        return NULL;
    json_auto_t *dump = json_pack("{s:{}, s:{}, s:{}}", "records", "claims", "meters");
    gboolean ok = TRUE;
    for (gsize i = 0; ok && i < G_N_ELEMENTS(dump_parts); i++)
        ok = dump_rows(db, dump, dump_parts[i].sql, dump_parts[i].row, error);
    ok = weft_db_run(db, ok ? error : NULL, "COMMIT", "") && ok;
    return ok ? json_incref(dump) : NULL;
}
