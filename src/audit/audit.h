/* The audit trail: who did what, from where, with what result, kept apart from events. Entries are written by a thread of their
 * own, in the order in which they came, each batch synced to the disk; they go to the system's log as well.
 *
 * thread: main, where nothing else is said. */
#pragma once

#include "refusals.h"

#include <glib.h>
#include <jansson.h>

typedef struct WeftAuditOptions {
    char *path;
    char *syslog; /* socket of the system's log; NULL: none */
    guint64 size; /* bytes of a file from which on the next one is begun */
    gboolean required;
} WeftAuditOptions;

typedef struct WeftAudit WeftAudit;

/* secret: the site's, for digests; borrowed. */
WeftAudit *weft_audit_open(const WeftAuditOptions *options, const void *secret, gsize length, GError **error);
/* Everything that came is written first, if it can be. NULL is fine. */
void weft_audit_free(WeftAudit *audit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftAudit, weft_audit_free)

/* A new entry, as of now: "request", "start", … */
json_t *weft_audit_entry(const char *kind);

/* kept: the entry is on the disk; FALSE: it could not be brought there yet. */
typedef void (*WeftAuditWritten)(gboolean kept, gpointer data);

/* Takes the entry over. What there is no room for in memory goes to the system's log alone, as "lost". written: on the main
 * thread, once it was tried; NULL: nobody waits for it. */
void weft_audit_write(WeftAudit *audit, json_t *fields, WeftAuditWritten written, gpointer data);
/* Has a request that changed nothing an entry of its own? FALSE: it is counted, and summed later. */
gboolean weft_audit_admits(WeftAudit *audit, const WeftRefused *refused);

/* Is this the first read of that key, who and what, within an hour? One entry stands for all of them. */
gboolean weft_audit_is_first(WeftAudit *audit, const char *key);

/* May a change go on without its entry? What is required waits for it, and is refused while it could not be written. */
gboolean weft_audit_is_required(const WeftAudit *audit);

/* What may still be written while the disk is full: the blocks that the file has are for removals, and the last of them for
 * operators and admins only. */
typedef enum { WEFT_AUDIT_ANYTHING, WEFT_AUDIT_REMOVAL, WEFT_AUDIT_OPERATORS } WeftAuditClaim;
gboolean weft_audit_takes(WeftAudit *audit, WeftAuditClaim claim);
/* Waits until all that came was tried; FALSE: it is not all on the disk. May block as long as the disk does: before anybody is
 * served. */
gboolean weft_audit_sync(WeftAudit *audit);
/* Its file has another name now: the trail goes on in one of the old name. */
void weft_audit_reopen(WeftAudit *audit);

/* thread: any. */
const char *weft_audit_path(const WeftAudit *audit);
/* What shows that somebody sent just these bytes, to who has the site's secret, and nothing to anybody else: a plain digest of
 * a body would let its readers try passwords. */
char *weft_audit_digest(const WeftAudit *audit, const void *data, gsize length);
