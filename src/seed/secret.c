#include "keys.h"

#include "errors.h"
#include "file.h"
#include "id.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

static gboolean
fail(const char *verb, const char *path, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot %s the site's secret %s: %s", verb, path, g_strerror(errno));
}

static gboolean
read_secret(int fd, const char *path, guint8 *secret, GError **error)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return fail("read", path, error);
    if (info.st_mode & 077)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "the site's secret %s may be read by others, mode %04o; see who read it, then chmod 0600 it",
                                 path, info.st_mode & 07777);
    ssize_t n = info.st_size == WEFT_SECRET_LENGTH ? read(fd, secret, WEFT_SECRET_LENGTH) : 0;
    if (n < 0)
        return fail("read", path, error);
    if (n != WEFT_SECRET_LENGTH)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "the site's secret %s has %" G_GINT64_FORMAT " bytes instead of %d; bring it back from a "
                                 "backup, or remove it: then running clusters get other keys when their nodes start again",
                                 path, (gint64)info.st_size, WEFT_SECRET_LENGTH);
    return TRUE;
}

/* A link fails where the name is taken: of several that make it at once, all read the secret of the first. */
static gboolean
make_secret(const char *path, GError **error)
{
    guint8 secret[WEFT_SECRET_LENGTH];
    weft_random_bytes(secret, sizeof secret);
    g_autofree char *temporary = g_strconcat(path, ".XXXXXX", NULL);
    int fd = g_mkstemp_full(temporary, O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail("make", path, error);
    gboolean ok = weft_file_write(fd, (const char *)secret, sizeof secret) && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    ok = ok && (link(temporary, path) == 0 || errno == EEXIST) && weft_file_sync_folder(path, NULL);
    if (!ok)
        fail("make", path, error);
    g_unlink(temporary);
    return ok;
}

gboolean
weft_secret_load(const char *path, guint8 ret_secret[WEFT_SECRET_LENGTH], GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (!make_secret(path, error))
            return FALSE;
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        return fail("open", path, error);
    gboolean ok = read_secret(fd, path, ret_secret, error);
    close(fd);
    return ok;
}
