/* The hash chain of the audit trail. An entry is one line of JSON whose last two fields are the hash of the entry before it and
 * its own: SHA-256 over the line up to the field "hash". Pure: lines go in and come out. */
#pragma once

#include <glib.h>
#include <jansson.h>

#define WEFT_AUDIT_HASH 64              /* characters */
#define WEFT_AUDIT_LINE_MAX (64 * 1024) /* no entry is as long */
#define WEFT_AUDIT_TORN "torn"          /* the kind of the entry that closes a line which was not written whole */

/* The last entry of a chain. */
typedef struct WeftAuditHead {
    guint64 sequence; /* 0: there is none yet */
    char hash[WEFT_AUDIT_HASH + 1];
} WeftAuditHead;

/* The next entry as a line, without its end; head moves on to it. fields: an object without "sequence", "previous" and "hash".
 */
char *weft_audit_line(WeftAuditHead *head, const json_t *fields);

/* The entry that the line is, and its place in the chain, NULL where that does not matter; NULL: it is none, or was changed. */
json_t *weft_audit_parse(const char *line, gsize length, WeftAuditHead *ret_head);

/* The entry that says that so many bytes were found in place of a whole line. */
json_t *weft_audit_torn(const char *data, gsize length);

/* --- whether lines are a chain --- */

typedef struct WeftAuditCheck WeftAuditCheck;

WeftAuditCheck *weft_audit_check_new(void);
void weft_audit_check_free(WeftAuditCheck *check);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftAuditCheck, weft_audit_check_free)

/* Lines of another file follow, the oldest file first: messages count the lines of each. */
void weft_audit_check_file(WeftAuditCheck *check);
/* The next line. FALSE: it does not fit, and the error says why. A line that is no entry is only known
 * to be wrong with the one after it. */
gboolean weft_audit_check_line(WeftAuditCheck *check, const char *line, gsize length, GError **error);
/* … when no line follows: FALSE where the last one was not whole. */
gboolean weft_audit_check_end(const WeftAuditCheck *check, GError **error);
/* The last entry so far, how many there were, and how many torn lines were closed. */
const WeftAuditHead *weft_audit_check_head(const WeftAuditCheck *check);
guint64 weft_audit_check_entries(const WeftAuditCheck *check);
guint64 weft_audit_check_torn(const WeftAuditCheck *check);
