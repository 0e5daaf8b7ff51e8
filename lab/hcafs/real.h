/* A real /sys that the tree lies on: whatever the tree does not have is done there. The tree may be mounted over
 * it. Each is 0 or more, or a negative errno; ENOENT for all where there is no real one. */
#pragma once

#include <fuse.h>
#include <glib.h>
#include <sys/stat.h>

/* FALSE: it is no folder. */
gboolean real_use(const char *folder);

int real_stat(const char *path, struct stat *st);
int real_readlink(const char *path, char *buffer, size_t size);
/* Names that the tree has are left out. */
int real_list(const char *path, void *buffer, fuse_fill_dir_t fill);
int real_check(const char *path, int flags);
int real_read(const char *path, char *buffer, size_t size, off_t offset);
int real_write(const char *path, const char *data, size_t size, off_t offset);

/* The last part of a link's target; NULL: there is none. */
char *real_target(const char *format, ...) G_GNUC_PRINTF(1, 2);
