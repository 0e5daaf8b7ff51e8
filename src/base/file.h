/* Small file helpers. */
#pragma once

#include <glib.h>

/* Replaces the file whole or not at all (temporary file in the same folder, then rename). With durable, data and folder
 * reach the disk before it returns. */
gboolean weft_file_replace(const char *path, const char *data, gsize length, gboolean durable, GError **error);

/* Brings the names in the file's folder to the disk: a file that was made or renamed there. errno tells why not, too. */
gboolean weft_file_sync_folder(const char *path, GError **error);

/* Writes all of it, however many calls that takes; FALSE: errno tells why not. */
gboolean weft_file_write(int fd, const char *data, gsize length);

/* The file's content, "-" being standard input; more than max bytes is WEFT_ERROR_INVALID. */
char *weft_file_read(const char *path, gsize max, gsize *ret_length, GError **error);
