/* Entries of the audit trail, the newest first. thread: any; may block. */
#pragma once

#include <glib.h>

typedef struct WeftAuditQuery {
    const char *principal; /* NULL: any */
    const char *tenant;    /* whose principal it was, or for which somebody else acted */
    guint64 before;        /* only entries of lower numbers; 0: all */
    guint limit;
} WeftAuditQuery;

/* Lines as they are in the files: char *. ret_next: what to ask for as before to go on; 0: there are no more. A call reads a
 * bounded part of the files: it may find few or none, and still there are more. */
GPtrArray *weft_audit_search(const char *path, const WeftAuditQuery *query, guint64 *ret_next, GError **error);
