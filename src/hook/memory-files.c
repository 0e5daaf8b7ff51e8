#include "memory-files.h"

#include "errors.h"
#include "memory-folders.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECES 256
#define PIECE 256

/* --- where they are --- */

char *
weft_memory_path(const WeftHook *hook, const char *id, guint64 page, GError **error)
{
    g_autoptr(GPtrArray) folders = weft_memory_folders(hook, MAX(page, WEFT_SMALL_PAGE));
    if (folders->len > 0)
        return weft_memory_folder_check(folders->pdata[0], error) ? g_build_filename(folders->pdata[0], id, NULL) : NULL;
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
    g_autoptr(GPtrArray) folders = weft_memory_folders(hook, 0);
    for (guint i = 0; i < folders->len; i++)
        if (weft_memory_folder_check(folders->pdata[i], NULL))
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
