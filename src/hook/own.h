/* How much of the memory that it was forked with a domain has for itself by now. */
#pragma once

#include "context.h"

#include <glib.h>

/* Of a process, bytes; 0 also where it shares none of weft's memories. folder: "/proc/PID". */
gboolean weft_own_count(const WeftHook *hook, const char *folder, guint64 *ret_bytes, GError **error);
/* A question (see hook.h): the answer is the error. */
gboolean weft_own_tell(const WeftHook *hook, const char *name, const char *xml, GError **error);
