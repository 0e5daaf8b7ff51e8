#include "chain.h"

#include "clock.h"
#include "errors.h"

#include <string.h>

#define HASH_FIELD ",\"hash\":\""
#define TAIL (sizeof HASH_FIELD - 1 + WEFT_AUDIT_HASH + 2) /* with "} */

/* What the first entry has as the hash of the one before it. */
static const char nothing[] = "0000000000000000000000000000000000000000000000000000000000000000";

struct WeftAuditCheck {
    WeftAuditHead head;
    guint64 entries;
    guint64 closed;
    guint64 line;  /* of the file */
    GString *torn; /* lines since the last entry that are none, with their ends */
    guint64 torn_line;
};

static const char *
hash_of(const WeftAuditHead *head)
{
    return head->sequence ? head->hash : nothing;
}

static void
hash_body(const char *body, gsize length, char *ret_hash)
{
    g_autofree char *hash = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)body, length);
    g_strlcpy(ret_hash, hash, WEFT_AUDIT_HASH + 1);
}

char *
weft_audit_line(WeftAuditHead *head, const json_t *fields)
{
    char *text = json_dumps(fields, JSON_COMPACT);
    g_assert(text && text[0] == '{'); /* every text in it was checked to be UTF-8 */
    GString *line = g_string_new(NULL);
    g_string_append_printf(line, "{\"sequence\":%" G_GUINT64_FORMAT ",", head->sequence + 1);
    g_string_append_len(line, text + 1, (gssize)strlen(text) - 2);
    g_string_append_printf(line, ",\"previous\":\"%s\"", hash_of(head));
    free(text);
    head->sequence++;
    hash_body(line->str, line->len, head->hash);
    g_string_append_printf(line, HASH_FIELD "%s\"}", head->hash);
    return g_string_free(line, FALSE);
}

/* It is compared as bytes: an entry that was written in another way is not the one that was hashed. */
static gboolean
has_own_hash(const char *line, gsize length, char *ret_hash)
{
    if (length <= TAIL || length > WEFT_AUDIT_LINE_MAX)
        return FALSE;
    const char *tail = line + length - TAIL;
    hash_body(line, length - TAIL, ret_hash);
    return memcmp(tail, HASH_FIELD, sizeof HASH_FIELD - 1) == 0 &&
           memcmp(tail + sizeof HASH_FIELD - 1, ret_hash, WEFT_AUDIT_HASH) == 0 && memcmp(line + length - 2, "\"}", 2) == 0;
}

json_t *
weft_audit_parse(const char *line, gsize length, WeftAuditHead *ret_head)
{
    WeftAuditHead head;
    if (!has_own_hash(line, length, head.hash))
        return NULL;
    json_t *entry = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    json_int_t sequence = json_integer_value(json_object_get(entry, "sequence"));
    if (sequence < 1 || !json_is_string(json_object_get(entry, "previous"))) {
        json_decref(entry);
        return NULL;
    }
    head.sequence = (guint64)sequence;
    if (ret_head)
        *ret_head = head;
    return entry;
}

json_t *
weft_audit_torn(const char *data, gsize length)
{
    g_autofree char *digest = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)data, length);
    g_autofree char *now = weft_clock_format(weft_clock_now());
    return json_pack("{s:s, s:s, s:I, s:s}", "time", now, "kind", WEFT_AUDIT_TORN, "bytes", (json_int_t)length, "digest",
                     digest);
}

/* --- whether lines are a chain --- */

WeftAuditCheck *
weft_audit_check_new(void)
{
    WeftAuditCheck *check = g_new0(WeftAuditCheck, 1);
    check->torn = g_string_new(NULL);
    return check;
}

void
weft_audit_check_free(WeftAuditCheck *check)
{
    if (!check)
        return;
    g_string_free(check->torn, TRUE);
    g_free(check);
}

static gboolean
is_text(const json_t *entry, const char *name, const char *wanted)
{
    return g_strcmp0(json_string_value(json_object_get(entry, name)), wanted) == 0;
}

/* The text that was torn has no end of its own: the one that it has in the file came with the entry that closes it. */
static gboolean
closes(const json_t *entry, const GString *torn)
{
    g_autofree char *digest = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)torn->str, torn->len - 1);
    return is_text(entry, "kind", WEFT_AUDIT_TORN) && is_text(entry, "digest", digest);
}

static gboolean
refuse_torn(const WeftAuditCheck *check, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                             "line %" G_GUINT64_FORMAT ": is no entry, or one that was changed, and no entry after it says "
                             "that weftd was stopped while it wrote",
                             check->torn_line);
}

static gboolean
follows(const WeftAuditCheck *check, const json_t *entry, const WeftAuditHead *head, GError **error)
{
    guint64 last = check->head.sequence;
    if (head->sequence == 1 && !is_text(entry, "previous", nothing))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "line %" G_GUINT64_FORMAT ": entry 1 names an entry before it",
                                 check->line);
    if (!check->entries)
        return TRUE; /* what came before is in files that nobody asks for */
    if (head->sequence != last + 1)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "line %" G_GUINT64_FORMAT ": entry %" G_GUINT64_FORMAT " comes after entry %" G_GUINT64_FORMAT
                                 ": entries were removed, repeated or put in another order, or a file is missing",
                                 check->line, head->sequence, last);
    return is_text(entry, "previous", check->head.hash) ||
           weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                             "line %" G_GUINT64_FORMAT ": entry %" G_GUINT64_FORMAT
                             " was written after another entry %" G_GUINT64_FORMAT " than the one before it",
                             check->line, head->sequence, last);
}

void
weft_audit_check_file(WeftAuditCheck *check)
{
    check->line = 0;
}

gboolean
weft_audit_check_line(WeftAuditCheck *check, const char *line, gsize length, GError **error)
{
    WeftAuditHead head;
    json_auto_t *entry = weft_audit_parse(line, length, &head);
    check->line++;
    if (!entry) {
        check->torn_line = check->torn->len ? check->torn_line : check->line;
        if (check->torn->len > WEFT_AUDIT_LINE_MAX)
            return refuse_torn(check, error);
        g_string_append_len(check->torn, line, (gssize)length);
        g_string_append_c(check->torn, '\n');
        return TRUE;
    }
    if (check->torn->len && !closes(entry, check->torn))
        return refuse_torn(check, error);
    if (!check->torn->len && is_text(entry, "kind", WEFT_AUDIT_TORN))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "line %" G_GUINT64_FORMAT ": tells of a torn line before it, which was removed", check->line);
    if (!follows(check, entry, &head, error))
        return FALSE;
    check->closed += check->torn->len > 0;
    g_string_truncate(check->torn, 0);
    check->head = head;
    check->entries++;
    return TRUE;
}

gboolean
weft_audit_check_end(const WeftAuditCheck *check, GError **error)
{
    return !check->torn->len ||
           weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                             "line %" G_GUINT64_FORMAT ": is no entry, or one that was changed or cut, and none follows",
                             check->torn_line);
}

const WeftAuditHead *
weft_audit_check_head(const WeftAuditCheck *check)
{
    return &check->head;
}

guint64
weft_audit_check_entries(const WeftAuditCheck *check)
{
    return check->entries;
}

guint64
weft_audit_check_torn(const WeftAuditCheck *check)
{
    return check->closed;
}
