/* What the fakes are told to do wrong. A fault file has a line per fault, read at each call, so that a test can change it at
 * any time:
 *
 *     fail OP [COUNT] [MESSAGE…]    fails with UNAVAILABLE; COUNT times in all, then works again (0 or absent: always)
 *     invalid OP [COUNT] [MESSAGE…] fails with INVALID
 *     broken OP [COUNT] [MESSAGE…]  fails with FAILED
 *     slow OP MILLISECONDS          takes that long
 *     hang OP [COUNT]               never ends by itself; only a cancellation ends it
 *     lost                          the host does not answer at all: every OP fails with UNAVAILABLE
 *
 * OP is an operation of the driver (start, stop, list, apply, …; the fakes name theirs), or * for any. */
#pragma once

#include <gio/gio.h>
#include <glib.h>

/* Acts as the files say (later files are asked first; a missing file is no fault). COUNTs are counted down in the files under
 * a lock. thread: worker; may block. */
gboolean weft_faults_pass(const char *op, const char *const *files, GCancellable *cancellable, GError **error);
