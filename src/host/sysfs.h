/* The host's small files: one value each, which may read back otherwise than it was written. */
#pragma once

#include "context.h"

#include <glib.h>

/* A path below the hook's root. */
char *weft_sysfs_path(const WeftHook *hook, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The value, without blanks around it. */
char *weft_sysfs_read(const char *path, GError **error);
/* The same as a number, or otherwise where it cannot be read as one. */
gint64 weft_sysfs_number(const char *path, gint64 otherwise);
/* The last part of what a symbolic link points to; NULL: there is none. */
char *weft_sysfs_link(const char *path);
/* What a folder holds, sorted; nothing where there is none. */
GPtrArray *weft_sysfs_names(const char *folder);

gboolean weft_sysfs_write(const char *path, const char *value, GError **error);
/* Writes the value unless it is there already, and reads it back: it must then be the value, or also, which may be NULL. */
gboolean weft_sysfs_set(const char *path, const char *value, const char *also, GError **error);
