#include "memory-folders.h"

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

#define SMALL_FOLDER "/dev/shm"

/* --- where they are --- */

/* Is the mount one of huge pages; of this size, unless that is 0? */
static gboolean
is_huge(const char *folder, guint64 page)
{
    struct statfs fs;
    return statfs(folder, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC && (page == 0 || (guint64)fs.f_bsize == page);
}

/* The kernel is asked, and not the table of mounts alone: what passes for huge pages in a lab is none there. */
static void
add_huge_folders(const WeftHook *hook, guint64 page, GPtrArray *folders)
{
    FILE *mounts = *hook->root ? NULL : setmntent("/proc/self/mounts", "re");
    for (struct mntent *mount; mounts && (mount = getmntent(mounts));) {
        gboolean may_be = g_str_equal(mount->mnt_type, "hugetlbfs") || g_str_equal(mount->mnt_type, "tmpfs");
        if (may_be && is_huge(mount->mnt_dir, page))
            g_ptr_array_add(folders, g_build_filename(mount->mnt_dir, WEFT_MEMORY_FOLDER, NULL));
    }
    if (mounts)
        endmntent(mounts);
}

GPtrArray *
weft_memory_folders(const WeftHook *hook, guint64 page)
{
    GPtrArray *folders = g_ptr_array_new_with_free_func(g_free);
    if (page == 0 || page > WEFT_SMALL_PAGE)
        add_huge_folders(hook, page, folders);
    if (page <= WEFT_SMALL_PAGE)
        g_ptr_array_add(folders, weft_sysfs_path(hook, SMALL_FOLDER "/" WEFT_MEMORY_FOLDER));
    return folders;
}

/* --- whose they are --- */

/* What is wrong with it, allocated; NULL: nothing. */
static char *
find_fault(const struct stat *info)
{
    if (S_ISLNK(info->st_mode))
        return g_strdup("is a link");
    if (!S_ISDIR(info->st_mode))
        return g_strdup("is not a folder");
    if (info->st_uid != geteuid())
        return g_strdup_printf("belongs to user %u and not to root", (guint)info->st_uid);
    if (info->st_mode & (S_IWGRP | S_IWOTH))
        return g_strdup_printf("has mode %04o, and others may write to it", (guint)info->st_mode & 07777);
    return NULL;
}

/* Where others may write and names are not protected (the sticky bit), they could put a folder of their own in its place. */
static gboolean
check_mount(const char *path, GError **error)
{
    struct stat info;
    g_autofree char *mount = g_path_get_dirname(path);
    if (stat(mount, &info) < 0 || (info.st_mode & S_ISVTX) || !(info.st_mode & (S_IWGRP | S_IWOTH)))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_DENIED,
                             "%s has mode %04o, so that others may replace %s, where memory of nodes is to be; as root: "
                             "chmod +t %s",
                             mount, (guint)info.st_mode & 07777, path, mount);
}

gboolean
weft_memory_folder_check(const char *path, GError **error)
{
    struct stat info;
    if (lstat(path, &info) < 0)
        return errno == ENOENT ||
               weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot look at the folder %s: %s", path, g_strerror(errno));
    g_autofree char *fault = find_fault(&info);
    if (fault)
        return weft_error_refuse(
            error, WEFT_ERROR_DENIED,
            "%s %s: somebody else made it, and memory of nodes would be theirs; see who did, then as root: "
            "rm -r %s (weft makes it again)",
            path, fault, path);
    return check_mount(path, error);
}

/* One that root made by hand may be open to others' eyes. */
static gboolean
close_to_others(const char *path, GError **error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    gboolean ok = fd >= 0 && fstat(fd, &info) == 0 && ((info.st_mode & 07777) == 0700 || fchmod(fd, 0700) == 0);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    return ok ||
           weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot close the folder %s to others: %s", path, g_strerror(saved));
}

gboolean
weft_memory_folder_make(const char *path, GError **error)
{
    g_autofree char *mount = g_path_get_dirname(path);
    if (g_mkdir_with_parents(mount, 0755) < 0 || (mkdir(path, 0700) < 0 && errno != EEXIST))
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot make the folder %s: %s", path, g_strerror(errno));
    return weft_memory_folder_check(path, error) && close_to_others(path, error);
}
