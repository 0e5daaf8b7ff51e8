/* The system's log, which gets each line of the audit trail too: by that somebody without a hand on this machine has it. A
 * socket that takes datagrams as /dev/log does. Nothing waits for it: what it does not take at once is gone there. thread: any.
 */
#pragma once

#include <glib.h>

typedef struct WeftOutlet WeftOutlet;

WeftOutlet *weft_outlet_new(const char *path);
void weft_outlet_free(WeftOutlet *outlet); /* NULL is fine */
void weft_outlet_send(WeftOutlet *outlet, const char *line);
