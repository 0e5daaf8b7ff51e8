#include "backup.h"

#include "clock.h"
#include "errors.h"
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

static gint busy;

static int
open_nameless(const char *store, GError **error)
{
    g_autofree char *path = g_strconcat(store, ".backup-XXXXXX", NULL);
    int fd = g_mkstemp_full(path, O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s: %s", path, g_strerror(errno));
    else
        g_unlink(path);
    return fd;
}

static gboolean
write_backup(int fd, const WeftBackupSite *site, const char *snapshot, const char *passphrase, GError **error)
{
    json_t *manifest = weft_store_sqlite_describe(snapshot, error);
    if (!manifest)
        return FALSE;
    json_object_set_new(manifest, "site", json_string(site->site));
    json_object_set_new(manifest, "created", json_integer(weft_clock_now()));
    WeftBackupContent content = { manifest, snapshot, site->secret, site->secret_length, passphrase };
    gboolean ok = weft_backup_write(fd, &content, error);
    json_decref(manifest);
    return ok;
}

static int
make(const WeftBackupSite *site, const char *passphrase, guint64 *ret_size, GError **error)
{
    struct stat info = { 0 };
    g_autofree char *snapshot = g_strconcat(site->store, ".snapshot", NULL);
    int fd = weft_store_sqlite_snapshot(site->store, snapshot, error) ? open_nameless(site->store, error) : -1;
    gboolean ok = fd >= 0 && write_backup(fd, site, snapshot, passphrase, error);
    g_unlink(snapshot);
    if (ok && (fstat(fd, &info) < 0 || lseek(fd, 0, SEEK_SET) < 0))
        ok = weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "the backup cannot be read: %s", g_strerror(errno));
    *ret_size = (guint64)info.st_size;
    if (ok)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int
weft_backup_make(const WeftBackupSite *site, const char *passphrase, guint64 *ret_size, GError **error)
{
    if (!g_atomic_int_compare_and_exchange(&busy, 0, 1)) {
        weft_error_refuse(error, WEFT_ERROR_BUSY, "another backup is being made; try again when it is there");
        return -1;
    }
    int fd = make(site, passphrase, ret_size, error);
    g_atomic_int_set(&busy, 0);
    return fd;
}
