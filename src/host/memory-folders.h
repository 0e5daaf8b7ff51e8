/* Folders with memory that nodes are forked from: one in each of the host's mounts of huge pages, and one for small pages. They
 * lie where others may write, so that anybody could have made them first: weft uses those alone that are root's. */
#pragma once

#include "context.h"

#include <glib.h>

#define WEFT_MEMORY_FOLDER "weft-memory" /* in each mount that has some */
#define WEFT_SMALL_PAGE 4096

/* Their paths, char *, whether they are there or not: those for one page size, unless that is 0. */
GPtrArray *weft_memory_folders(const WeftHook *hook, guint64 page);
/* DENIED, with what to do: it is a link or no folder, not root's, or others may write to it or replace it. What is not there is
 * in order, as is what weft makes in a folder where nobody else may rename. */
gboolean weft_memory_folder_check(const char *path, GError **error);
/* Makes it, unless it is there, and checks it; nobody else may look into it afterwards. */
gboolean weft_memory_folder_make(const char *path, GError **error);
