/* Small file helpers. */
#pragma once

#include <glib.h>

/* Replaces the file whole or not at all (temporary file in the same folder, then rename). With durable, data and folder
 * reach the disk before it returns. */
gboolean weft_file_replace(const char *path, const char *data, gsize length, gboolean durable, GError **error);

/* Gives a file that was written beside its place its name, so that a power cut takes neither back: its data (fd; -1: it is on
 * the disk already), then the name reach the disk before it returns. flags: of renameat2(). FALSE: errno tells why not. */
gboolean weft_file_place(int fd, const char *from, const char *to, guint flags);

/* Brings the names in the file's folder to the disk: a file that was made or renamed there. errno tells why not, too. */
gboolean weft_file_sync_folder(const char *path, GError **error);

/* Writes all of it, however many calls that takes; FALSE: errno tells why not. */
gboolean weft_file_write(int fd, const char *data, gsize length);

/* Is there room for so many bytes in the folder, with as many as the reserve left? EXHAUSTED where there is not. */
gboolean weft_file_check_room(const char *folder, guint64 wanted, guint64 reserve, GError **error);

/* The file's content, "-" being standard input; more than max bytes is WEFT_ERROR_INVALID. */
char *weft_file_read(const char *path, gsize max, gsize *ret_length, GError **error);

/* FALSE with INVALID: others may read it, as ssh has it with its keys: a file of the caller's own is nobody's but the caller's,
 * and whoever gave another's file to a group meant it. What is not an ordinary file, and what cannot be looked at, passes. */
gboolean weft_file_check_private(const char *path, GError **error);

/* weftd's socket for administrators, beside the one for everybody: /run/weft/weft-admin.sock for /run/weft/weft.sock. */
char *weft_file_admin_socket(const char *socket_path);
