/* What this host has prepared, and for whom: a record for each domain and each network, kept where a reboot empties it. The
 * record is written before anything is done, so that what was half done is found, and dropped when all is undone. */
#pragma once

#include "context.h"

#include <glib.h>

/* The longest text of one. */
#define WEFT_RECORD_MAX (16 * 1024 * 1024)

typedef enum {
    WEFT_RECORD_DOMAIN,
    WEFT_RECORD_NETWORK,
    WEFT_RECORD_SCRUB,   /* namespaces that were taken over to be erased (see scrub.c): not to be listed */
    WEFT_RECORD_UNBOUND, /* devices without their driver while they are reset (see release.c): not to be listed */
} WeftRecordKind;

typedef struct WeftRecord {
    char *name;
    char *holder; /* the libvirtd that is at it: "<pid> <start time>"; "-": that has done its part; "-DEVICE,DEVICE WHY": that
                     could not be undone but for these devices, and why, unless the quarantine says so */
    char *text;   /* a domain's XML as libvirt gave it; the addresses of a network's peers, a line each */
} WeftRecord;

void weft_record_free(WeftRecord *record);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftRecord, weft_record_free)

/* One hook at a time works on this host; the lock goes with the process. Gives up after some time. */
gboolean weft_state_lock(const WeftHook *hook, GError **error);

/* FALSE: whoever ran this program does not listen any more. It is gone, and another is the parent of what it left. */
gboolean weft_state_check_asked(const char *name, GError **error);

/* done: the domain runs, and from now on it is its process that tells whether it is alive. Else the caller's parent does. */
gboolean
weft_state_put(const WeftHook *hook, WeftRecordKind kind, const char *name, const char *text, gboolean done, GError **error);
/* It cannot be undone now: it stays, as one that nobody holds, and says which of its devices were released ("DEVICE,DEVICE")
 * and why others were not; NULL: the quarantine says that. */
void
weft_state_keep(const WeftHook *hook, WeftRecordKind kind, const WeftRecord *record, const char *released, const char *why);
/* NULL: nobody tried, or the quarantine says it. */
const char *weft_record_trouble(const WeftRecord *record);
/* Was that device of it released already, and may be another's by now? */
gboolean weft_record_is_released(const WeftRecord *record, const char *pci);
/* NULL: there is none. */
WeftRecord *weft_state_get(const WeftHook *hook, WeftRecordKind kind, const char *name);
void weft_state_drop(const WeftHook *hook, WeftRecordKind kind, const char *name);
/* WeftRecord, all of them. Changes nothing, also without the lock. */
GPtrArray *weft_state_list(const WeftHook *hook, WeftRecordKind kind);
/* Removes what writers that were killed left beside them. The caller has the lock: others may be writing. */
void weft_state_tidy(const WeftHook *hook, WeftRecordKind kind);

/* Does it still stand for something? A domain that runs or is being started, a network that is active or is being started. */
gboolean weft_state_is_alive(const WeftHook *hook, WeftRecordKind kind, const WeftRecord *record);
