#include "memory-files.h"

#include "errors.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FOLDER "weft-memory" /* in each mount that has some */
#define SMALL_FOLDER "/dev/shm"
#define SMALL_PAGE 4096
#define PIECES 256
#define PIECE 256

/* --- where they are --- */

/* Is the mount one of huge pages; of this size, unless that is 0? */
static gboolean
is_huge(const char *folder, guint64 page)
{
    struct statfs fs;
    return statfs(folder, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC && (page == 0 || (guint64)fs.f_bsize == page);
}

/* Folders of the host's mounts of huge pages, char *; those for one size, unless that is 0. Asked of the kernel, not read from
 * the table: what passes for huge pages in a lab is none there. */
static GPtrArray *
huge_folders(const WeftHook *hook, guint64 page)
{
    GPtrArray *folders = g_ptr_array_new_with_free_func(g_free);
    FILE *mounts = *hook->root ? NULL : setmntent("/proc/self/mounts", "re");
    for (struct mntent *mount; mounts && (mount = getmntent(mounts));) {
        gboolean may_be = g_str_equal(mount->mnt_type, "hugetlbfs") || g_str_equal(mount->mnt_type, "tmpfs");
        if (may_be && is_huge(mount->mnt_dir, page))
            g_ptr_array_add(folders, g_build_filename(mount->mnt_dir, FOLDER, NULL));
    }
    if (mounts)
        endmntent(mounts);
    return folders;
}

char *
weft_memory_path(const WeftHook *hook, const char *id, guint64 page, GError **error)
{
    if (page <= SMALL_PAGE)
        return weft_sysfs_path(hook, SMALL_FOLDER "/" FOLDER "/%s", id);
    g_autoptr(GPtrArray) folders = huge_folders(hook, page);
    if (folders->len > 0)
        return g_build_filename(folders->pdata[0], id, NULL);
    weft_error_refuse(error, WEFT_ERROR_FAILED,
                      "no hugetlbfs with pages of %" G_GUINT64_FORMAT " bytes is mounted on this host; mount one", page);
    return NULL;
}

static void
add_files(GPtrArray *paths, const char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name; dir && (name = g_dir_read_name(dir));)
        g_ptr_array_add(paths, g_build_filename(folder, name, NULL));
}

GPtrArray *
weft_memory_list(const WeftHook *hook)
{
    GPtrArray *paths = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) folders = huge_folders(hook, 0);
    g_ptr_array_add(folders, weft_sysfs_path(hook, SMALL_FOLDER "/" FOLDER));
    for (guint i = 0; i < folders->len; i++)
        add_files(paths, folders->pdata[i]);
    return paths;
}

/* --- what is in them --- */

static gboolean
add_piece(GChecksum *sum, int fd, guint64 offset)
{
    guint8 piece[PIECE];
    gssize n;
    do
        n = pread(fd, piece, sizeof piece, (off_t)offset);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        g_checksum_update(sum, piece, n);
    return n >= 0;
}

char *
weft_memory_sum(const char *path, guint64 *ret_size, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    struct stat info = { 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    gboolean ok = fd >= 0 && fstat(fd, &info) == 0;
    guint64 size = (guint64)info.st_size;
    for (guint i = 0; ok && i < PIECES; i++)
        ok = add_piece(sum, fd, size / PIECES * i);
    if (!ok)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot read the memory %s: %s", path, g_strerror(errno));
    if (fd >= 0)
        close(fd);
    *ret_size = size;
    return ok ? g_strdup(g_checksum_get_string(sum)) : NULL;
}
