#include "fake-private.h"

#include "errors.h"
#include "faults.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define FRESH ".new" /* being written, by whoever holds the folder's lock */

gboolean
weft_fake_fail(GError **error, const char *doing, const char *what)
{
    int saved = errno;
    gboolean full = saved == ENOSPC || saved == EDQUOT;
    g_set_error(error, WEFT_ERROR, full ? WEFT_ERROR_EXHAUSTED : WEFT_ERROR_FAILED, "fake hypervisor: %s %s: %s", doing, what,
                g_strerror(saved));
    return FALSE;
}

gboolean
weft_fake_pass(const char *world, const char *host, const char *op, GCancellable *cancellable, GError **error)
{
    g_autofree char *everywhere = g_build_filename(world, "faults", NULL);
    g_autofree char *here = g_build_filename(world, host, "faults", NULL);
    const char *const files[] = { everywhere, here, NULL };
    if (!weft_faults_pass(op, files, cancellable, error)) {
        g_prefix_error(error, "host %s: ", host);
        return FALSE;
    }
    if (g_cancellable_is_cancelled(cancellable)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_TIMEOUT, "host %s: %s was cancelled", host, op);
        return FALSE;
    }
    return TRUE;
}

gboolean
weft_fake_check_name(const char *name, GError **error)
{
    if (*name && *name != '.' && strlen(name) <= 200 && !strpbrk(name, "/ \n"))
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "a domain cannot be named \"%s\"", name);
    return FALSE;
}

/* --- folders --- */

static gboolean
open_path(const char *path, const char *host, WeftFakeFolder *ret_folder, GError **error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return weft_fake_fail(error, "opening", path);
    *ret_folder = (WeftFakeFolder){ .host = host, .fd = fd };
    return TRUE;
}

gboolean
weft_fake_folder_open(const char *world, const char *host, const char *name, WeftFakeFolder *ret_folder, GError **error)
{
    g_autofree char *path = g_build_filename(world, host, name, NULL);
    return open_path(path, host, ret_folder, error);
}

static gboolean
lock(WeftFakeFolder *folder, const char *path, GError **error)
{
    if (folder->fd < 0 || flock(folder->fd, LOCK_EX) == 0)
        return TRUE;
    weft_fake_fail(error, "locking", path);
    weft_fake_folder_close(folder);
    return FALSE;
}

gboolean
weft_fake_folder_open_still(const char *world, const char *host, const char *name, WeftFakeFolder *ret_folder, GError **error)
{
    g_autofree char *path = g_build_filename(world, host, name, NULL);
    return open_path(path, host, ret_folder, error) && lock(ret_folder, path, error);
}

gboolean
weft_fake_folder_lock(const char *world, const char *host, const char *name, WeftFakeFolder *ret_folder, GError **error)
{
    g_autofree char *path = g_build_filename(world, host, name, NULL);
    if (!open_path(path, host, ret_folder, error))
        return FALSE;
    if (ret_folder->fd < 0) {
        if (g_mkdir_with_parents(path, 0755) < 0)
            return weft_fake_fail(error, "making", path);
        if (!open_path(path, host, ret_folder, error))
            return FALSE;
    }
    return lock(ret_folder, path, error);
}

void
weft_fake_folder_close(WeftFakeFolder *folder)
{
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = -1;
}

/* --- files --- */

char *
weft_fake_read(const WeftFakeFolder *folder, const char *file, gsize max, GError **error)
{
    int fd = openat(folder->fd, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            weft_fake_fail(error, "opening", file);
        return NULL;
    }
    g_autoptr(GString) text = g_string_sized_new(8192);
    char buffer[8192];
    gssize n = 0;
    while (text->len <= max && (n = read(fd, buffer, sizeof buffer)) > 0)
        g_string_append_len(text, buffer, n);
    gboolean ok = text->len > max || n == 0 || weft_fake_fail(error, "reading", file);
    close(fd);
    return ok ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}

gboolean
weft_fake_replace(const WeftFakeFolder *folder, const char *file, const char *text, gsize length, GError **error)
{
    int fd = openat(folder->fd, FRESH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return weft_fake_fail(error, "writing", file);
    gboolean written = weft_file_write(fd, text, length);
    if (close(fd) < 0 || !written || renameat(folder->fd, FRESH, folder->fd, file) < 0)
        return weft_fake_fail(error, "writing", file);
    return TRUE;
}

gboolean
weft_fake_remove(const WeftFakeFolder *folder, const char *name, const char *suffix, GError **error)
{
    g_autofree char *file = g_strconcat(name, suffix, NULL);
    if (folder->fd >= 0 && unlinkat(folder->fd, file, 0) < 0 && errno != ENOENT)
        return weft_fake_fail(error, "removing", file);
    return TRUE;
}

gboolean
weft_fake_exists(const WeftFakeFolder *folder, const char *name, const char *suffix)
{
    g_autofree char *file = g_strconcat(name, suffix, NULL);
    return folder->fd >= 0 && faccessat(folder->fd, file, F_OK, 0) == 0;
}

static int
compare_texts(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

GPtrArray *
weft_fake_files(const WeftFakeFolder *folder, GError **error)
{
    g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
    if (folder->fd < 0)
        return g_steal_pointer(&files);
    /* A stream of its own: closing it must not give up the lock on the folder. */
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream) {
        weft_fake_fail(error, "listing", folder->host);
        return NULL;
    }
    for (struct dirent *entry; (entry = readdir(stream));)
        if (entry->d_name[0] != '.')
            g_ptr_array_add(files, g_strdup(entry->d_name));
    closedir(stream);
    g_ptr_array_sort(files, compare_texts);
    return g_steal_pointer(&files);
}

/* --- whose they are --- */

gboolean
weft_fake_mark_make(const WeftFakeFolder *pool, const char *subject, const char *site, const char *placement, GError **error)
{
    if (!site)
        return TRUE;
    g_autofree char *name = weft_file_mark_name(subject, site, placement);
    int fd = openat(pool->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return weft_fake_fail(error, "writing", name);
    close(fd);
    return TRUE;
}

gboolean
weft_fake_marks_remove(const WeftFakeFolder *pool, const char *subject, GError **error)
{
    g_autoptr(GPtrArray) files = weft_fake_files(pool, error);
    gboolean ok = files != NULL;
    for (guint i = 0; ok && i < files->len; i++) {
        g_autoptr(WeftFileMark) mark = weft_file_mark_read(files->pdata[i]);
        if (mark && g_str_equal(mark->subject, subject))
            ok = weft_fake_remove(pool, files->pdata[i], "", error);
    }
    return ok;
}
