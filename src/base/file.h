/* Small file helpers. */
#pragma once

#include <glib.h>

/* Replaces the file whole or not at all (temporary file in the same folder, then rename). With durable, data and folder
 * reach the disk before it returns. */
gboolean weft_file_replace(const char *path, const char *data, gsize length, gboolean durable, GError **error);

/* The file's content, "-" being standard input; more than max bytes is WEFT_ERROR_INVALID. */
char *weft_file_read(const char *path, gsize max, gsize *ret_length, GError **error);
