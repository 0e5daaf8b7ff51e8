/* thread: the writer's. */
#include "errors.h"
#include "failpoint.h"
#include "sqlite-db.h"
#include "txn.h"

/* A record as it is now; id 0: there is none. */
typedef struct Found {
    gint64 id;
    gint64 revision;
    gboolean moves; /* the operation puts it into another scope or place */
} Found;

static void
read_found(WeftRows *rows, WeftOp *op, Found *ret_found)
{
    const char *scope = weft_rows_text(rows, 2), *place = weft_rows_text(rows, 3);
    *ret_found = (Found){ .id = sqlite3_column_int64(rows, 0), .revision = sqlite3_column_int64(rows, 1) };
    if (op->type == WEFT_OP_PUT)
        ret_found->moves = !(g_str_equal(scope, op->scope) && g_str_equal(place, op->place));
    if (op->type == WEFT_OP_DELETE) {
        g_free(op->scope);
        g_free(op->place);
        op->scope = g_strdup(scope);
        op->place = g_strdup(place);
    }
}

static gboolean
find_record(WeftDb *db, WeftOp *op, Found *ret_found, GError **error)
{
    g_autoptr(WeftRows) rows =
        weft_db_query(db, error, "SELECT id, revision, scope, place FROM record WHERE kind = ?1 AND key = ?2", "ss",
                      weft_kind_words[op->kind], op->key);
    GError *failure = NULL;
    *ret_found = (Found){ 0 };
    if (rows && weft_db_next(db, rows, &failure))
        read_found(rows, op, ret_found);
    if (failure)
        g_propagate_error(error, failure);
    return rows && !failure;
}

static gboolean
check_expected(const WeftOp *op, const Found *found, GError **error)
{
    /* A record that is absent has revision 0, which is WEFT_ABSENT. */
    if (op->expected == WEFT_ANY || op->expected == found->revision)
        return TRUE;
    const char *kind = weft_kind_words[op->kind];
    if (op->expected == WEFT_ABSENT)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "%s %s exists already", kind, op->key);
    else if (found->id == 0)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "%s %s does not exist", kind, op->key);
    else
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                    "%s %s changed meanwhile (revision %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT ")", kind, op->key,
                    found->revision, op->expected);
    return FALSE;
}

/* --- claims --- */

/* No limit is the largest one that there is: sums past it would no longer be integers. */
static guint64
bound_of(const WeftClaim *claim)
{
    return claim->limit ? MIN(claim->limit, G_MAXINT64) : G_MAXINT64;
}

static gboolean
was_refused_by_schema(WeftDb *db)
{
    return (sqlite3_errcode(db->sqlite) & 0xff) == SQLITE_CONSTRAINT;
}

/* Says in words what the schema refused; if even that fails, SQLite's own words stay. */
static void
explain_taken(WeftDb *db, const char *resource, GError **error)
{
    g_autoptr(WeftRows) rows =
        weft_db_query(db, NULL, "SELECT kind, key FROM claim JOIN record ON id = holder WHERE resource = ?1", "s", resource);
    if (!rows || !weft_db_next(db, rows, NULL))
        return;
    g_clear_error(error);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED, "%s is held by %s %s already", resource, weft_rows_text(rows, 0),
                weft_rows_text(rows, 1));
}

static gboolean
insert_claim(WeftDb *db, gint64 holder, const char *resource, GError **error)
{
    if (weft_db_run(db, error, "INSERT INTO claim VALUES (?1, ?2)", "si", resource, holder))
        return TRUE;
    if (was_refused_by_schema(db))
        explain_taken(db, resource, error);
    return FALSE;
}

static void
explain_limit(WeftDb *db, gint64 holder, const WeftClaim *claim, GError **error)
{
    g_autoptr(WeftRows) rows = weft_db_query(db, NULL,
                                             "SELECT coalesce((SELECT used FROM meter WHERE resource = ?1), 0),"
                                             " coalesce((SELECT amount FROM share WHERE resource = ?1 AND holder = ?2), 0)",
                                             "si", claim->resource, holder);
    if (!rows || !weft_db_next(db, rows, NULL))
        return;
    guint64 used = sqlite3_column_int64(rows, 0), had = sqlite3_column_int64(rows, 1);
    g_clear_error(error);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED,
                "%s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " in use, %" G_GUINT64_FORMAT " more asked for",
                claim->resource, used, bound_of(claim), claim->amount - had);
}

static gboolean
set_share(WeftDb *db, gint64 holder, const WeftClaim *claim, GError **error)
{
    if (weft_db_run(db, error,
                    "INSERT INTO share VALUES (?1, ?2, ?3, ?4)"
                    " ON CONFLICT (resource, holder) DO UPDATE SET amount = excluded.amount, bound = excluded.bound",
                    "siii", claim->resource, holder, MIN(claim->amount, G_MAXINT64), bound_of(claim)))
        return TRUE;
    if (was_refused_by_schema(db))
        explain_limit(db, holder, claim, error);
    return FALSE;
}

/* What a record held before: resources, exclusive ones in [0] and shared ones in [1]. */
typedef struct Held {
    GHashTable *resources[2];
} Held;

static void
held_free(Held *held)
{
    for (guint shared = 0; shared < 2; shared++)
        g_hash_table_unref(held->resources[shared]);
    g_free(held);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Held, held_free)

static Held *
load_held(WeftDb *db, gint64 holder, GError **error)
{
    g_autoptr(WeftRows) rows = weft_db_query(db, error,
                                             "SELECT resource, 0 FROM claim WHERE holder = ?1"
                                             " UNION ALL SELECT resource, 1 FROM share WHERE holder = ?1",
                                             "i", holder);
    if (!rows)
        return NULL;
    g_autoptr(Held) held = g_new0(Held, 1);
    for (guint shared = 0; shared < 2; shared++)
        held->resources[shared] = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GError *failure = NULL;
    while (weft_db_next(db, rows, &failure))
        g_hash_table_add(held->resources[sqlite3_column_int(rows, 1)], g_strdup(weft_rows_text(rows, 0)));
    if (!failure)
        return g_steal_pointer(&held);
    g_propagate_error(error, failure);
    return NULL;
}

static gboolean
free_claims(WeftDb *db, gint64 holder, const Held *held, GError **error)
{
    static const char *const sql[] = { "DELETE FROM claim WHERE resource = ?1 AND holder = ?2",
                                       "DELETE FROM share WHERE resource = ?1 AND holder = ?2" };
    for (guint shared = 0; shared < 2; shared++) {
        GHashTableIter iter;
        gpointer resource;
        g_hash_table_iter_init(&iter, held->resources[shared]);
        while (g_hash_table_iter_next(&iter, &resource, NULL))
            if (!weft_db_run(db, error, sql[shared], "si", (const char *)resource, holder))
                return FALSE;
    }
    return TRUE;
}

/* Takes each claim; those that the record held already leave held (NULL: it is new), so that what remains there is to be freed.
 */
static gboolean
take_claims(WeftDb *db, gint64 holder, const GArray *claims, Held *held, GError **error)
{
    for (guint i = 0; claims && i < claims->len; i++) {
        const WeftClaim *claim = &g_array_index(claims, WeftClaim, i);
        gboolean shared = claim->amount > 0;
        gboolean had = held && g_hash_table_remove(held->resources[shared], claim->resource);
        if (shared ? !set_share(db, holder, claim, error) : !had && !insert_claim(db, holder, claim->resource, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
replace_claims(WeftDb *db, gint64 holder, const GArray *claims, GError **error)
{
    g_autoptr(Held) held = load_held(db, holder, error);
    return held && take_claims(db, holder, claims, held, error) && free_claims(db, holder, held, error);
}

/* --- operations --- */

static gboolean
insert_record(WeftDb *db, const WeftOp *op, gint64 revision, GError **error)
{
    if (!weft_db_run(db, error, "INSERT INTO record (kind, key, scope, place, revision, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                     "ssssis", weft_kind_words[op->kind], op->key, op->scope, op->place, revision, op->value))
        return FALSE;
    return take_claims(db, sqlite3_last_insert_rowid(db->sqlite), op->claims, NULL, error);
}

static gboolean
update_record(WeftDb *db, const WeftOp *op, const Found *found, gint64 revision, GError **error)
{
    /* Most updates leave scope and place alone, and then need not touch their indices. */
    gboolean ok =
        found->moves
            ? weft_db_run(db, error, "UPDATE record SET revision = ?2, value = ?3, scope = ?4, place = ?5 WHERE id = ?1",
                          "iisss", found->id, revision, op->value, op->scope, op->place)
            : weft_db_run(db, error, "UPDATE record SET revision = ?2, value = ?3 WHERE id = ?1", "iis", found->id, revision,
                          op->value);
    return ok && (op->keep_claims || replace_claims(db, found->id, op->claims, error));
}

static gboolean
apply_op(WeftDb *db, WeftOp *op, gint64 revision, GError **error)
{
    Found found;
    if (!find_record(db, op, &found, error) || !check_expected(op, &found, error))
        return FALSE;
    switch (op->type) {
    case WEFT_OP_PUT:
        return found.id ? update_record(db, op, &found, revision, error) : insert_record(db, op, revision, error);
    case WEFT_OP_DELETE:
        return !found.id || weft_db_run(db, error, "DELETE FROM record WHERE id = ?1", "i", found.id);
    default:
        return TRUE;
    }
}

static gboolean
apply_txn(WeftDb *db, WeftTxn *txn, gint64 revision, GError **error)
{
    weft_txn_make_values(txn);
    for (guint i = 0; i < txn->ops->len; i++)
        if (!apply_op(db, &g_array_index(txn->ops, WeftOp, i), revision, error))
            return FALSE;
    return TRUE;
}

/* FALSE: the database fails, and with it all commits. A commit that is refused keeps its error and leaves no trace. */
static gboolean
apply_commit(WeftDb *db, WeftCommit *commit, gint64 *last, GError **error)
{
    if (!weft_db_run(db, error, "SAVEPOINT one", ""))
        return FALSE;
    if (apply_txn(db, commit->txn, *last + 1, &commit->error)) {
        commit->revision = ++*last;
    } else if (g_error_matches(commit->error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE)) {
        g_propagate_error(error, g_steal_pointer(&commit->error));
        return FALSE;
    } else if (!weft_db_run(db, error, "ROLLBACK TO one", "")) {
        return FALSE;
    }
    return weft_db_run(db, error, "RELEASE one", "");
}

static void
refuse_full(WeftCommit *commit)
{
    g_set_error(&commit->error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED,
                "the disk of the store is full, and its reserve is for others");
}

static gboolean
apply_commits(WeftDb *db, gint64 *last, GQueue *commits, gboolean full, GError **error)
{
    if (!weft_db_run(db, error, "BEGIN IMMEDIATE", ""))
        return FALSE;
    for (GList *link = commits->head; link; link = link->next) {
        WeftCommit *commit = link->data;
        if (full && commit->txn->leaves_reserve)
            refuse_full(commit);
        else if (!apply_commit(db, commit, last, error))
            return FALSE;
    }
    return weft_db_run(db, error, "UPDATE meta SET value = ?1 WHERE name = 'revision'", "i", *last) &&
           weft_db_run(db, error, "COMMIT", "");
}

gboolean
weft_db_write(WeftDb *db, gint64 *revision, GQueue *commits, gboolean full)
{
    gint64 last = *revision;
    g_autoptr(GError) error = NULL;
    gboolean ok = apply_commits(db, &last, commits, full, &error);
    if (ok)
        *revision = last;
    else if (!sqlite3_get_autocommit(db->sqlite))
        sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);

    for (GList *link = commits->head; link; link = link->next) {
        WeftCommit *commit = link->data;
        if (!ok) {
            /* Also those that were refused: perhaps only because of another that was not written either. */
            g_clear_error(&commit->error);
            commit->error = g_error_copy(error);
        } else if (!commit->error) {
            weft_failpoint(commit->txn->name);
        }
    }
    return ok;
}
