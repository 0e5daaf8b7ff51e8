#include "file.h"

#include "errors.h"
#include "size.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static gboolean
fail(const char *verb, const char *path, GError **error)
{
    int saved = errno;
    g_set_error(error, WEFT_ERROR, saved == ENOENT ? WEFT_ERROR_NOT_FOUND : WEFT_ERROR_FAILED, "cannot %s %s: %s", verb, path,
                g_strerror(saved));
    return FALSE;
}

gboolean
weft_file_write(int fd, const char *data, gsize length)
{
    while (length > 0) {
        ssize_t n = write(fd, data, length);
        if (n < 0 && errno != EINTR)
            return FALSE;
        if (n > 0) {
            data += n;
            length -= (gsize)n;
        }
    }
    return TRUE;
}

gboolean
weft_file_check_room(const char *folder, guint64 wanted, guint64 reserve, GError **error)
{
    struct statvfs disk;
    if (statvfs(folder, &disk) < 0)
        return fail("see how much room there is in", folder, error);
    guint64 room = (guint64)disk.f_bavail * disk.f_frsize;
    if (wanted <= room && room - wanted >= reserve)
        return TRUE;
    g_autofree char *wanted_text = weft_size_about(wanted), *room_text = weft_size_about(room);
    g_autofree char *reserve_text = weft_size_about(reserve);
    return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                             "%s are to come, and %s are free in %s, of which %s are to stay free; make room there",
                             wanted_text, room_text, folder, reserve_text);
}

gboolean
weft_file_sync_folder(const char *path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail("open", folder, error);
    gboolean ok = fsync(fd) == 0 || fail("sync", folder, error);
    int saved = errno;
    close(fd);
    errno = saved;
    return ok;
}

gboolean
weft_file_place(int fd, const char *from, const char *to, guint flags)
{
    return (fd < 0 || fsync(fd) == 0) && renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) == 0 && weft_file_sync_folder(to, NULL);
}

gboolean
weft_file_replace(const char *path, const char *data, gsize length, gboolean durable, GError **error)
{
    g_autofree char *temporary = g_strconcat(path, ".XXXXXX", NULL);
    int fd = g_mkstemp_full(temporary, O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        return fail("write beside", path, error);
    gboolean ok = weft_file_write(fd, data, length) &&
                  (durable ? weft_file_place(fd, temporary, path, 0) : g_rename(temporary, path) == 0);
    if (!ok) {
        fail("write", path, error);
        g_unlink(temporary);
    }
    close(fd);
    return ok;
}

static gboolean
read_up_to(int fd, GByteArray *bytes, gsize limit)
{
    guint8 chunk[16384];
    while (bytes->len < limit) {
        ssize_t n = read(fd, chunk, MIN(sizeof chunk, limit - bytes->len));
        if (n < 0 && errno != EINTR)
            return FALSE;
        if (n == 0)
            break;
        if (n > 0)
            g_byte_array_append(bytes, chunk, (guint)n);
    }
    return TRUE;
}

char *
weft_file_read(const char *path, gsize max, gsize *ret_length, GError **error)
{
    g_return_val_if_fail(max < G_MAXUINT - 1, NULL);
    gboolean standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fail("open", name, error);
        return NULL;
    }
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    gboolean ok = read_up_to(fd, bytes, max + 1) || fail("read", name, error);
    close(fd);
    if (!ok)
        return NULL;
    if (bytes->len > max) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: is longer than %" G_GSIZE_FORMAT " bytes, which is the limit",
                    name, max);
        return NULL;
    }
    if (ret_length)
        *ret_length = bytes->len;
    g_byte_array_append(bytes, (const guint8 *)"", 1);
    return (char *)g_byte_array_free(g_steal_pointer(&bytes), FALSE);
}

gboolean
weft_file_check_private(const char *path, GError **error)
{
    struct stat info;
    if (stat(path, &info) < 0 || !S_ISREG(info.st_mode))
        return TRUE;
    mode_t others = info.st_uid == geteuid() ? S_IRWXG | S_IRWXO : S_IRWXO;
    return (info.st_mode & others) == 0 ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: others may read it (mode %04o): chmod go= '%s'", path,
                             info.st_mode & 07777, path);
}

char *
weft_file_admin_socket(const char *socket_path)
{
    gsize stem = strlen(socket_path) - (g_str_has_suffix(socket_path, ".sock") ? strlen(".sock") : 0);
    return g_strdup_printf("%.*s-admin%s", (int)stem, socket_path, socket_path + stem);
}
