/* Files with memory in them, of any page size. */
#pragma once

#include "context.h"

#include <glib.h>

/* Where the memory of that id and page size is, or would be. NULL also where its folder is not to be relied on. */
char *weft_memory_path(const WeftHook *hook, const char *id, guint64 page, GError **error);
/* Paths of all that there are in folders to be relied on, char *. */
GPtrArray *weft_memory_list(const WeftHook *hook);
/* A checksum of pieces all over it: a memory of another node or an earlier time differs in some of them, and reading all of it
 * would take longer than a boot. */
char *weft_memory_sum(const char *path, guint64 *ret_size, GError **error);
