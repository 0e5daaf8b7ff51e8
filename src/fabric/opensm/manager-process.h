/* The opensm that runs on this machine. */
#pragma once

#include <glib.h>

/* pid_file NULL: the one process of that name. UNAVAILABLE: there is none; CONFLICT: there are several, or the file names
 * another program; DENIED: it is another user's. Each says what to do. */
gboolean weft_manager_process_find(const char *pid_file, int *ret_pid, GError **error);
/* Tells it to read its files again, by SIGHUP. UNAVAILABLE: it is just being started, and that would end it. */
gboolean weft_manager_process_tell(const char *pid_file, GError **error);
/* From the file of options that it was started with, "keep_pkey_indexes"; NULL: it is not there, and opensm has its default. */
char *weft_manager_process_option(int pid, const char *name);
