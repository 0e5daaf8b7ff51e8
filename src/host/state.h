/* What this host has prepared, and for whom: a record for each domain and each network, kept where a reboot empties it. The
 * record is written before anything is done, so that what was half done is found, and dropped when all is undone. */
#pragma once

#include "context.h"

#include <glib.h>

/* The longest text of one. */
#define WEFT_RECORD_MAX (16 * 1024 * 1024)

typedef enum { WEFT_RECORD_DOMAIN, WEFT_RECORD_NETWORK } WeftRecordKind;

typedef struct WeftRecord {
    char *name;
    char *holder; /* the libvirtd that is at it: "<pid> <start time>"; "-": that has done its part */
    char *text;   /* a domain's XML as libvirt gave it; the addresses of a network's peers, a line each */
} WeftRecord;

void weft_record_free(WeftRecord *record);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftRecord, weft_record_free)

/* One hook at a time works on this host; the lock goes with the process. Gives up after some time. */
gboolean weft_state_lock(const WeftHook *hook, GError **error);

/* done: the domain runs, and from now on it is its process that tells whether it is alive. Else the caller's parent does. */
gboolean
weft_state_put(const WeftHook *hook, WeftRecordKind kind, const char *name, const char *text, gboolean done, GError **error);
/* NULL: there is none. */
WeftRecord *weft_state_get(const WeftHook *hook, WeftRecordKind kind, const char *name);
void weft_state_drop(const WeftHook *hook, WeftRecordKind kind, const char *name);
/* WeftRecord, all of them. */
GPtrArray *weft_state_list(const WeftHook *hook, WeftRecordKind kind);

/* Does it still stand for something? A domain that runs or is being started, a network that is active or is being started. */
gboolean weft_state_is_alive(const WeftHook *hook, WeftRecordKind kind, const WeftRecord *record);
