#include "headers.h"

#include "errors.h"
#include "problem.h"

#define HEADERS_MAX 64
#define HEADERS_SIZE_MAX (16 * 1024)
#define KEY_LENGTH_MAX 64

static const struct {
    const char *name;
    gsize offset;
} headers[] = {
    { "Authorization", G_STRUCT_OFFSET(WeftHeaders, authorization) },
    { "Content-Type", G_STRUCT_OFFSET(WeftHeaders, content_type) },
    { "Accept", G_STRUCT_OFFSET(WeftHeaders, accept) },
    { "If-Match", G_STRUCT_OFFSET(WeftHeaders, if_match) },
    { "Idempotency-Key", G_STRUCT_OFFSET(WeftHeaders, idempotency_key) },
    { "Last-Event-ID", G_STRUCT_OFFSET(WeftHeaders, last_event_id) },
    { "Content-Length", G_STRUCT_OFFSET(WeftHeaders, content_length) },
};

typedef struct {
    WeftHeaders *headers;
    guint count;
    gsize size;
    const char *twice;
    gboolean chunked;
    gboolean broken; /* what others may read differently */
} HeaderWalk;

static enum MHD_Result
take_header(void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
    HeaderWalk *walk = data;
    walk->count++;
    walk->size += strlen(name) + (value ? strlen(value) : 0);
    walk->broken |= strpbrk(name, " \t") != NULL;
    walk->chunked |= g_ascii_strcasecmp(name, "Transfer-Encoding") == 0;
    for (guint i = 0; i < G_N_ELEMENTS(headers); i++) {
        if (g_ascii_strcasecmp(headers[i].name, name) != 0)
            continue;
        char **slot = G_STRUCT_MEMBER_P(walk->headers, headers[i].offset);
        if (*slot)
            walk->twice = headers[i].name;
        else
            *slot = g_strdup(value ? value : "");
    }
    return MHD_YES;
}

gboolean
weft_headers_take(WeftRequest *request, GError **error)
{
    HeaderWalk walk = { .headers = &request->headers };
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, take_header, &walk);
    /* Where this request ends is a matter of taste then, and what follows is no request of ours. */
    request->last = walk.broken || (request->headers.content_length && (walk.chunked || walk.twice));
    if (walk.count > HEADERS_MAX || walk.size > HEADERS_SIZE_MAX) {
        g_set_error(error, WEFT_HTTP_ERROR, 431, "%u headers of %zu bytes: may be %d of %d in all", walk.count, walk.size,
                    HEADERS_MAX, HEADERS_SIZE_MAX);
        return FALSE;
    }
    if (walk.broken || (walk.chunked && request->headers.content_length)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "headers: no blank in a name, and either Content-Length or Transfer-Encoding");
        return FALSE;
    }
    if (walk.twice) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "header %s: given twice; give it once", walk.twice);
        return FALSE;
    }
    return TRUE;
}

gboolean
weft_headers_check_key(WeftRequest *request, GError **error)
{
    const char *key = request->headers.idempotency_key;
    if (!key || strcmp(request->method, "POST") != 0) {
        g_clear_pointer(&request->headers.idempotency_key, g_free);
        return TRUE;
    }
    gsize length = strlen(key);
    for (const char *p = key; *p; p++)
        if (!g_ascii_isalnum(*p) && !strchr("._-", *p))
            length = 0;
    if (length >= 1 && length <= KEY_LENGTH_MAX)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "Idempotency-Key: must be 1 to %d of A-Z a-z 0-9 . _ -", KEY_LENGTH_MAX);
    return FALSE;
}

gboolean
weft_headers_check_type(const WeftRequest *request, const char *wanted, GError **error)
{
    const char *type = request->headers.content_type ? request->headers.content_type : "";
    gsize word = strcspn(type, "; \t");
    if (word == strlen(wanted) && g_ascii_strncasecmp(type, wanted, word) == 0)
        return TRUE;
    g_set_error(error, WEFT_HTTP_ERROR, 415, "Content-Type: must be %s, is \"%.64s\"", wanted, type);
    return FALSE;
}
