#include "sysfs.h"

#include "errors.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define VALUE_MAX 4096

char *
weft_sysfs_path(const WeftHook *hook, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *path = g_strdup_vprintf(format, args);
    va_end(args);
    return g_strconcat(hook->root, path, NULL);
}

char *
weft_sysfs_read(const char *path, GError **error)
{
    char *value = weft_file_read(path, VALUE_MAX, NULL, error);
    return value ? g_strstrip(value) : NULL;
}

gint64
weft_sysfs_number(const char *path, gint64 otherwise)
{
    g_autofree char *value = weft_sysfs_read(path, NULL);
    gint64 number;
    return value && g_ascii_string_to_signed(value, 10, G_MININT64, G_MAXINT64, &number, NULL) ? number : otherwise;
}

char *
weft_sysfs_link(const char *path)
{
    g_autofree char *target = g_file_read_link(path, NULL);
    return target ? g_path_get_basename(target) : NULL;
}

static int
compare(gconstpointer a, gconstpointer b)
{
    return g_strcmp0(*(char *const *)a, *(char *const *)b);
}

GPtrArray *
weft_sysfs_names(const char *folder)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name; dir && (name = g_dir_read_name(dir));)
        g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_sort(names, compare);
    return names;
}

gboolean
weft_sysfs_write(const char *path, const char *value, GError **error)
{
    /* One write: the kernel takes each as a value of its own. */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    gboolean ok = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (!ok)
        weft_error_refuse(error, WEFT_ERROR_FAILED,
                          "cannot write %s to %s: %s; look into the kernel's log, and whether the "
                          "driver is the one that weft knows",
                          value, path, g_strerror(saved));
    return ok;
}

static gboolean
reads_as(const char *path, const char *value, const char *also, char **ret_read, GError **error)
{
    *ret_read = weft_sysfs_read(path, error);
    return *ret_read && (g_ascii_strcasecmp(*ret_read, value) == 0 || (also && g_ascii_strcasecmp(*ret_read, also) == 0));
}

gboolean
weft_sysfs_set(const char *path, const char *value, const char *also, GError **error)
{
    g_autofree char *before = NULL;
    g_autofree char *after = NULL;
    if (reads_as(path, value, also, &before, NULL))
        return TRUE;
    if (!weft_sysfs_write(path, value, error))
        return FALSE;
    if (reads_as(path, value, also, &after, error))
        return TRUE;
    if (after)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "%s reads back as %s after %s was written: look into the kernel's log",
                          path, after, value);
    return FALSE;
}
