#define FUSE_USE_VERSION 31
#include "real.h"

#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static int root = -1;

/* A view of its own: a link of sysfs leads up to its root, and from there into whatever is mounted over that, which is this
 * program. */
gboolean
real_use(const char *folder)
{
    root = open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    return root >= 0;
}

/* Without one every name is of nowhere. */
static int
status_of(int result)
{
    return root < 0 ? -ENOENT : result < 0 ? -errno : result;
}

static const char *
below(const char *path)
{
    return path[1] ? path + 1 : ".";
}

int
real_stat(const char *path, struct stat *st)
{
    return status_of(fstatat(root, below(path), st, AT_SYMLINK_NOFOLLOW));
}

int
real_readlink(const char *path, char *buffer, size_t size)
{
    ssize_t length = readlinkat(root, below(path), buffer, size - 1);
    if (length >= 0)
        buffer[length] = '\0';
    return status_of(length < 0 ? -1 : 0);
}

static gboolean
is_in_tree(const char *path, const char *name)
{
    g_autofree char *whole = g_build_filename(path, name, NULL);
    return tree_find(whole) != NULL;
}

int
real_list(const char *path, void *buffer, fuse_fill_dir_t fill)
{
    int fd = openat(root, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int status = status_of(dir ? 0 : -1);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (!is_in_tree(path, entry->d_name))
            fill(buffer, entry->d_name, NULL, 0, 0);
    if (dir)
        closedir(dir);
    return status;
}

/* A file for one operation: nothing that a program keeps open keeps a device from going. */
static int
open_file(const char *path, int flags)
{
    return openat(root, below(path), (flags & O_ACCMODE) | O_CLOEXEC);
}

static int
close_file(int fd, ssize_t result)
{
    int status = status_of(fd < 0 || result < 0 ? -1 : (int)result);
    if (fd >= 0)
        close(fd);
    return status;
}

int
real_check(const char *path, int flags)
{
    return close_file(open_file(path, flags), 0);
}

int
real_read(const char *path, char *buffer, size_t size, off_t offset)
{
    int fd = open_file(path, O_RDONLY);
    return close_file(fd, fd < 0 ? -1 : pread(fd, buffer, size, offset));
}

int
real_write(const char *path, const char *data, size_t size, off_t offset)
{
    int fd = open_file(path, O_WRONLY);
    return close_file(fd, fd < 0 ? -1 : pwrite(fd, data, size, offset));
}

char *
real_target(const char *format, ...)
{
    char target[PATH_MAX];
    va_list args;
    va_start(args, format);
    g_autofree char *path = g_strdup_vprintf(format, args);
    va_end(args);
    return real_readlink(path, target, sizeof target) == 0 ? g_path_get_basename(target) : NULL;
}
