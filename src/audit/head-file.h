/* The last entry that is on the disk, in a small file beside the trail ("audit.log-head"). By it the chain goes on where
 * somebody has renamed, packed or cut the trail's files while weftd was away. It is written after each batch of entries, so it
 * never names one that is not on the disk; it may name an older one than the last. thread: one at a time; may block. */
#pragma once

#include "chain.h"

/* The file, made where it is missing; -1 where it cannot be opened. ret_head: what it names; nothing where it names none. */
int weft_head_open(const char *trail, WeftAuditHead *ret_head, GError **error);
/* Brings it to the disk; FALSE: errno tells why not. */
gboolean weft_head_write(int fd, const WeftAuditHead *head);
