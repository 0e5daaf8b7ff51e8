/* A store as a file of its own: for backups. */
#include "errors.h"
#include "records.h"
#include "site-record.h"
#include "sqlite-db.h"
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <unistd.h>

/* In WAL mode a reader holds nobody up: what is committed meanwhile is not in the copy. */
gboolean
weft_store_sqlite_snapshot(const char *path, const char *target, GError **error)
{
    g_autoptr(WeftDb) db = weft_db_open(path, FALSE, error);
    if (!db || !weft_db_script(db, "PRAGMA query_only = OFF", error))
        return FALSE;
    /* SQLite would make a file that others can read. */
    g_unlink(target);
    int fd = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s: %s", target, g_strerror(errno));
    close(fd);
    return weft_db_run(db, error, "VACUUM INTO ?", "s", target);
}

gboolean
weft_store_sqlite_set_aged(const char *path, GError **error)
{
    g_autoptr(WeftDb) db = weft_db_open(path, TRUE, error);
    return db && weft_db_run(db, error,
                             "INSERT INTO record (kind, key, scope, place, revision, value)"
                             " SELECT ?1, ?2, '', '', max(value, 1), '{}' FROM meta WHERE name = 'revision'"
                             " ON CONFLICT (kind, key) DO NOTHING",
                             "ss", weft_kind_words[WEFT_KIND_META], WEFT_AGED_KEY);
}

gboolean
weft_store_sqlite_check(const char *path, GError **error)
{
    g_autoptr(WeftDb) db = weft_db_open(path, FALSE, error);
    g_autoptr(WeftRows) rows = db ? weft_db_query(db, error, "PRAGMA integrity_check(1)", "") : NULL;
    if (!rows || !weft_db_next(db, rows, error))
        return FALSE;
    const char *found = weft_rows_text(rows, 0);
    return g_str_equal(found, "ok") ||
           weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                             "store %s: the file is damaged: do not start weftd with it, restore it from a backup (SQLite: %s)",
                             path, found);
}

/* --- what it holds --- */

static void
add_blob(json_t *blobs, const char *digest, guint64 size, const char *kind, const char *name)
{
    json_array_append_new(blobs, json_pack("{s:s, s:I, s:o}", "digest", digest, "size", (json_int_t)size, "of",
                                           json_sprintf("%s %s", kind, name)));
}

static gboolean
add_image(json_t *blobs, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftImage) image = weft_record_image(record, error);
    const WeftImageFile *file;
    for (guint i = 0; image && (file = weft_image_file(image, i)); i++)
        add_blob(blobs, file->digest, file->size, "image", record->key);
    return image != NULL;
}

static gboolean
add_template(json_t *blobs, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftTemplate) template = weft_record_template(record, error);
    if (template && template->digest)
        add_blob(blobs, template->digest, template->size, "template", record->key);
    if (template && template->disk)
        add_blob(blobs, template->disk, template->disk_size, "template", record->key);
    return template != NULL;
}

static gboolean
add_checkpoint(json_t *blobs, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftCheckpoint) checkpoint = weft_record_checkpoint(record, error);
    const WeftImageFile *file;
    for (guint at = 0; checkpoint && (file = weft_checkpoint_next_file(checkpoint, &at));)
        add_blob(blobs, file->digest, file->size, "checkpoint", record->key);
    return checkpoint != NULL;
}

static const struct {
    WeftKind kind;
    gboolean (*add)(json_t *blobs, const WeftRecord *record, GError **error);
} holders[] = {
    { WEFT_KIND_IMAGE, add_image },
    { WEFT_KIND_TEMPLATE, add_template },
    { WEFT_KIND_CHECKPOINT, add_checkpoint },
};

static gboolean
add_blobs(WeftDb *db, json_t *blobs, GError **error)
{
    for (gsize k = 0; k < G_N_ELEMENTS(holders); k++) {
        g_autoptr(GPtrArray) records = weft_db_list(db, &(WeftQuery){ .kind = holders[k].kind }, error);
        if (!records)
            return FALSE;
        for (guint i = 0; i < records->len; i++)
            if (!holders[k].add(blobs, records->pdata[i], error))
                return FALSE;
    }
    return TRUE;
}

json_t *
weft_store_sqlite_describe(const char *path, GError **error)
{
    gint64 schema, known = g_strv_length((char **)weft_sqlite_migrations);
    g_autoptr(WeftDb) db = weft_db_open(path, FALSE, error);
    if (!db || !weft_db_number(db, "PRAGMA user_version", &schema, error))
        return NULL;
    if (schema > known || schema < 1) {
        weft_error_refuse(error, WEFT_ERROR_INVALID,
                          "store %s: of schema version %" G_GINT64_FORMAT ", and this weft knows 1 to %" G_GINT64_FORMAT
                          ": install the weft that wrote it",
                          path, schema, known);
        return NULL;
    }
    json_t *about = json_pack("{s:I, s:[]}", "schema", (json_int_t)schema, "blobs");
    if (add_blobs(db, json_object_get(about, "blobs"), error))
        return about;
    json_decref(about);
    return NULL;
}
