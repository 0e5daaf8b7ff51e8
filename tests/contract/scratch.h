/* A folder that a test may fill, and its removal. */
#pragma once

#include <ftw.h>
#include <glib.h>
#include <stdio.h>

static inline char *
scratch_new(void)
{
    g_autoptr(GError) error = NULL;
    char *folder = g_dir_make_tmp("weft-test-XXXXXX", &error);
    g_assert_no_error(error);
    return folder;
}

static inline int
scratch_remove(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    return remove(path);
}

static inline void
scratch_free(gpointer folder)
{
    g_assert_cmpint(nftw(folder, scratch_remove, 16, FTW_DEPTH | FTW_PHYS), ==, 0);
    g_free(folder);
}

/* Writes a file below the folder; text NULL removes it. */
static inline void
scratch_write(const char *folder, const char *file, const char *text)
{
    g_autofree char *path = g_build_filename(folder, file, NULL);
    g_autofree char *parent = g_path_get_dirname(path);
    g_assert_cmpint(g_mkdir_with_parents(parent, 0755), ==, 0);
    if (!text)
        remove(path);
    else
        g_assert_true(g_file_set_contents(path, text, -1, NULL));
}
