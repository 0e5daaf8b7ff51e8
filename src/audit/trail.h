/* The file that the audit trail is in: appended to, never changed and never removed; only what a failed sync left at its end is
 * written again in its place. One that has grown to its size gets the number of its last entry at its end
 * ("audit.log.000000004711"), and the chain goes on in a new one. thread: one at a time; may block. */
#pragma once

#include "chain.h"

typedef struct WeftTrail WeftTrail;

/* Goes on behind the last entry that is there, or that was known to be on the disk, wherever it is now; what was left of one
 * that was not written whole is closed with an entry that says so. size: bytes from which on the next file is begun. CONFLICT
 * where another process has the file. */
WeftTrail *weft_trail_open(const char *path, guint64 size, GError **error);
/* Writes nothing any more. */
void weft_trail_free(WeftTrail *trail);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTrail, weft_trail_free)

/* Puts an entry behind those that wait to be written; its line, without its end, for whoever else keeps it. NULL: too many
 * wait, of all or of its tenant, and it is counted: the trail says how many, when it can be written again. */
const char *weft_trail_add(WeftTrail *trail, const json_t *fields);
/* Brings to the disk what waits. FALSE: some of it still waits, or is not known to be there. */
gboolean weft_trail_flush(WeftTrail *trail, GError **error);
/* Bytes that the file has blocks for while its disk has no more of them, as of the last flush. */
#define WEFT_TRAIL_ENOUGH G_MAXUINT64
guint64 weft_trail_left(const WeftTrail *trail);
/* Somebody has renamed the file: the chain goes on in one of the old name. */
gboolean weft_trail_reopen(WeftTrail *trail, GError **error);

/* The files, the newest first: NULL-terminated. thread: any. */
char **weft_trail_files(const char *path);
/* The number of the last entry in a file that is full; 0: it is none of those. */
guint64 weft_trail_last(const char *path, const char *file);
