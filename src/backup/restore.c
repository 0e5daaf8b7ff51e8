#include "backup.h"

#include "clock.h"
#include "errors.h"
#include "file.h"
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_MAX 64
#define BLOCK (256 * 1024)

static gboolean
fail(const char *verb, const char *path, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "cannot %s %s: %s", verb, path, g_strerror(errno));
}

/* --- blobs --- */

/* NULL: it is as it should be. */
static const char *
find_fault(const char *path, const char *digest, guint64 size)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return errno == ENOENT ? "missing" : "not readable";
    if ((guint64)info.st_size != size)
        return "different";
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_autofree guint8 *buffer = g_malloc(BLOCK);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    while (fd >= 0 && (n = read(fd, buffer, BLOCK)) > 0)
        g_checksum_update(sum, buffer, n);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return "not readable";
    return g_str_equal(g_checksum_get_string(sum), digest) ? NULL : "different";
}

static void
report_blobs(const WeftRestoreWish *wish, json_t *blobs, GString *report)
{
    gsize i;
    json_t *blob;
    guint bad = 0;
    json_array_foreach (blobs, i, blob) {
        const char *digest = json_string_value(json_object_get(blob, "digest")),
                   *of = json_string_value(json_object_get(blob, "of"));
        g_autofree char *path = g_build_filename(wish->images, digest ? digest : "", NULL);
        const char *fault =
            digest ? find_fault(path, digest, (guint64)json_integer_value(json_object_get(blob, "size"))) : "not named";
        if (!fault)
            continue;
        g_string_append_printf(report, "%s is %s: %s\n", path, fault, of ? of : "?");
        bad++;
    }
    g_string_append_printf(report,
                           "%u of %" G_GSIZE_FORMAT " files of images, templates and checkpoints are missing or differ%s\n",
                           bad, json_array_size(blobs), bad ? ": copy them back, or remove what names them" : "");
}

/* --- what is there --- */

/* The store and its log. What a log holds is written into whatever store lies beside it when that is opened: a log that stays
 * behind, also of a store that is not there any more, would damage the one that comes. The store goes first: until its log has
 * been moved as well, the next try finds that. */
static const char *const parts[] = { "", "-wal", "-shm", "-journal" };

static gboolean
has_secret(const WeftRestoreWish *wish, const guint8 *secret)
{
    gsize length = 0;
    g_autofree char *there = weft_file_read(wish->secret, SECRET_MAX, &length, NULL);
    return there && length == wish->secret_length && memcmp(there, secret, length) == 0;
}

static gboolean
move_aside(const char *path, const char *suffix, GString *report, GError **error)
{
    g_autofree char *target = g_strconcat(path, suffix, NULL);
    if (!g_file_test(path, G_FILE_TEST_EXISTS))
        return TRUE;
    if (!weft_file_place(-1, path, target, RENAME_NOREPLACE))
        return fail("move aside", path, error);
    g_string_append_printf(report, "%s was there, and is %s now\n", path, target);
    return TRUE;
}

/* A path that has to be moved aside, NULL: none. */
static char *
find_obstacle(const WeftRestoreWish *wish, gboolean same_secret)
{
    for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
        g_autofree char *path = g_strconcat(wish->store, parts[i], NULL);
        if (g_file_test(path, G_FILE_TEST_EXISTS))
            return g_steal_pointer(&path);
    }
    return !same_secret && g_file_test(wish->secret, G_FILE_TEST_EXISTS) ? g_strdup(wish->secret) : NULL;
}

static gboolean
clear_way(const WeftRestoreWish *wish, gboolean same_secret, GString *report, GError **error)
{
    g_autofree char *obstacle = find_obstacle(wish, same_secret);
    if (!obstacle)
        return TRUE;
    if (!wish->force)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "%s is there already; --force moves it aside, and overwrites nothing", obstacle);
    g_autofree char *suffix = g_strdup_printf(".before-restore-%" G_GINT64_FORMAT, weft_clock_now() / G_USEC_PER_SEC);
    for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
        g_autofree char *path = g_strconcat(wish->store, parts[i], NULL);
        if (!move_aside(path, suffix, report, error))
            return FALSE;
    }
    return same_secret || move_aside(wish->secret, suffix, report, error);
}

/* --- what comes --- */

static gboolean
place_secret(const WeftRestoreWish *wish, const guint8 *secret, GError **error)
{
    g_autofree char *temporary = g_strconcat(wish->secret, ".restoring", NULL);
    g_unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail("make", temporary, error);
    gboolean ok = weft_file_write(fd, (const char *)secret, wish->secret_length) &&
                  weft_file_place(fd, temporary, wish->secret, RENAME_NOREPLACE);
    if (!ok) {
        fail("write", wish->secret, error);
        g_unlink(temporary);
    }
    close(fd);
    return ok;
}

/* The store comes last: without it the next try finds what this one has done. */
static gboolean
place(const WeftRestoreWish *wish, const char *temporary, const guint8 *secret, GString *report, GError **error)
{
    gboolean same = has_secret(wish, secret);
    if (!clear_way(wish, same, report, error) || (!same && !place_secret(wish, secret, error)))
        return FALSE;
    if (!weft_file_place(-1, temporary, wish->store, RENAME_NOREPLACE))
        return fail("make", wish->store, error);
    return weft_store_sqlite_check(wish->store, error);
}

/* The store lies beside its place, on the disk, and all of the backup was checked. */
static WeftBackup *
unpack(const WeftRestoreWish *wish, const char *temporary, guint8 *ret_secret, GError **error)
{
    g_unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        fail("make", temporary, error);
        return NULL;
    }
    g_autoptr(WeftBackup) backup = weft_backup_read(wish->backup, fd, error);
    gboolean ok = backup != NULL;
    if (ok && fsync(fd) < 0)
        ok = fail("write", temporary, error);
    close(fd);
    if (!ok)
        return NULL;
    if (!weft_backup_open_secret(backup, wish->passphrase, ret_secret, wish->secret_length, error)) {
        g_prefix_error(error, "backup %s: ", wish->backup);
        return NULL;
    }
    json_t *about = weft_store_sqlite_describe(temporary, error);
    json_decref(about);
    /* Hosts that were granted since know nothing of it, where the backup is of the last run. */
    return about && weft_store_sqlite_set_aged(temporary, error) ? g_steal_pointer(&backup) : NULL;
}

static gboolean
restore(const WeftRestoreWish *wish, GString *report, GError **error)
{
    guint8 secret[SECRET_MAX];
    g_autofree char *temporary = g_strconcat(wish->store, ".restoring", NULL);
    g_autoptr(WeftBackup) backup = unpack(wish, temporary, secret, error);
    gboolean ok = backup && place(wish, temporary, secret, report, error);
    explicit_bzero(secret, sizeof secret);
    g_unlink(temporary);
    if (!ok)
        return FALSE;
    g_autofree char *made = weft_clock_format(json_integer_value(json_object_get(backup->manifest, "created")));
    const char *site = json_string_value(json_object_get(backup->manifest, "site"));
    g_string_append_printf(report, "restored site %s as of %s into %s\n", site ? site : "?", made, wish->store);
    report_blobs(wish, json_object_get(backup->manifest, "blobs"), report);
    return TRUE;
}

gboolean
weft_restore(const WeftRestoreWish *wish, GString *report, GError **error)
{
    int lock = weft_store_sqlite_lock(wish->store, error);
    if (lock < 0)
        return FALSE;
    gboolean ok = restore(wish, report, error);
    close(lock);
    return ok;
}
