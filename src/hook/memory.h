/* Memory that domains are forked from: see hook.h. The caller has the hook's lock but where it is told. */
#pragma once

#include "context.h"
#include "metadata.h"

/* When QEMU is about to be started, and libvirt has made its folders. */
gboolean weft_memory_place(const WeftHook *hook, const WeftHookNode *node, GError **error);
/* QEMU has read what it was to read. Needs no lock. */
void weft_memory_started(const WeftHook *hook, const WeftHookNode *node);
/* The domain is gone: what it made is sealed, and what it was started with removed. */
void weft_memory_end(const WeftHook *hook, const WeftHookNode *node);
/* Removes memory that nobody makes or has made whole. */
void weft_memory_sweep(const WeftHook *hook);
