/* Files with keys of weftd's: the group that may open the API's socket may read none of them. Whoever has the key to a host has
 * that host.
 *
 * thread: any. group: NULL, or unknown to this machine: there is nothing to check. */
#pragma once

#include <glib.h>

/* path: NULL: none. A file that is not there is nobody's key. */
gboolean weft_key_files_check(const char *group, const char *path, GError **error);
/* The keys that a host's URI names. */
gboolean weft_key_files_check_uri(const char *group, const char *uri, GError **error);
