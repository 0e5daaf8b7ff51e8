#include "page.h"

#include "errors.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 1000
#define CURSOR_KEY_MAX 184 /* WEFT_QUERY_VALUE_MAX has room for it in base64 */
/* A page ends when its records have so many bytes, however few they are: one can be as large as a body. */
#define BYTES_MAX (4 * 1024 * 1024)
#define BATCH 32 /* records that are in memory at a time */

static gboolean
read_limit(const WeftRequest *request, guint *ret_limit, GError **error)
{
    const char *text = weft_request_query(request, "limit");
    guint64 limit = LIMIT_DEFAULT;
    if (text && !g_ascii_string_to_unsigned(text, 10, 1, LIMIT_MAX, &limit, NULL)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "limit: must be 1 to %d, is \"%s\"", LIMIT_MAX, text);
        return FALSE;
    }
    *ret_limit = (guint)limit;
    return TRUE;
}

char *
weft_page_cursor(const char *key)
{
    if (!key)
        return NULL;
    char *text = g_base64_encode((const guchar *)key, strlen(key));
    return g_strdelimit(g_strdelimit(g_strdelimit(text, "+", '-'), "/", '_'), "=", '.');
}

/* The cursor is opaque outside: the key of the last item that was shown. NULL without an error: from the beginning. */
static char *
read_after(const WeftRequest *request, GError **error)
{
    const char *text = weft_request_query(request, "after");
    if (!text)
        return NULL;
    gsize length = 0;
    g_autofree char *base64 = g_strdelimit(g_strdelimit(g_strdelimit(g_strdup(text), "-", '+'), "_", '/'), ".", '=');
    g_autofree char *data = (char *)g_base64_decode(base64, &length);
    g_autofree char *key = g_strndup(data ? data : "", length);
    g_autofree char *again = weft_page_cursor(key);
    if (strcmp(again, text) == 0 && length >= 1 && length <= CURSOR_KEY_MAX && g_utf8_validate(key, -1, NULL))
        return g_steal_pointer(&key);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "after: must be the \"next\" of the page before, is \"%s\"", text);
    return NULL;
}

gboolean
weft_page_read(const WeftRequest *request, WeftPageWish *ret_wish, GError **error)
{
    GError *failure = NULL;
    WeftPageWish wish = { .after = read_after(request, &failure) };
    if (failure || !read_limit(request, &wish.limit, &failure)) {
        g_free(wish.after);
        g_propagate_error(error, failure);
        return FALSE;
    }
    *ret_wish = wish;
    return TRUE;
}

WeftReply *
weft_page_of_items(const char *items, const char *next)
{
    g_autofree char *cursor = weft_page_cursor(next);
    const char *quote = cursor ? "\"" : "";
    g_autofree char *body = g_strdup_printf("{\"items\":[%s],\"next\":%s%s%s}", items, quote, cursor ? cursor : "null", quote);
    return weft_reply_text(200, "application/json", body);
}

WeftReply *
weft_page_of(const char *item)
{
    return weft_page_of_items(item ? item : "", NULL);
}

typedef struct {
    WeftRequest *request;
    WeftView view;
    guint limit;
    guint count;
    gsize bytes;    /* of the records that it shows */
    GString *items; /* JSON texts, with commas between */
    char *last;     /* key of the last item */
    gboolean more;
} Page;

static gboolean
add_record(Page *page, const WeftRecord *record, GError **error)
{
    GError *failure = NULL;
    g_autofree char *item = page->view(page->request, record, &failure);
    if (failure) {
        g_propagate_error(error, failure);
        return FALSE;
    }
    if (!item)
        return TRUE;
    page->more = page->count == page->limit || page->bytes >= BYTES_MAX;
    if (page->more)
        return TRUE;
    g_string_append_printf(page->items, "%s%s", page->count++ ? "," : "", item);
    page->bytes += strlen(record->value);
    g_free(page->last);
    page->last = g_strdup(record->key);
    return TRUE;
}

/* One record more than fits tells whether there is a next page. */
static gboolean
fill(Page *page, WeftQuery query, GError **error)
{
    g_autofree char *after = g_strdup(query.after);
    guint found;
    query.limit = MIN(page->limit + 1, BATCH);
    do {
        query.after = after;
        g_autoptr(GPtrArray) records = weft_store_list(page->request->store, &query, error);
        if (!records)
            return FALSE;
        found = records->len;
        for (guint i = 0; i < found && !page->more; i++)
            if (!add_record(page, records->pdata[i], error))
                return FALSE;
        g_free(after);
        after = found ? g_strdup(((const WeftRecord *)records->pdata[found - 1])->key) : NULL;
    } while (!page->more && found == query.limit && !weft_request_is_gone(page->request));
    return TRUE;
}

gboolean
weft_page_reply(WeftRequest *request, WeftQuery query, WeftView view, GError **error)
{
    WeftPageWish wish;
    if (!weft_page_read(request, &wish, error))
        return FALSE;
    g_autofree char *after = wish.after;
    Page page = { .request = request, .view = view, .limit = wish.limit };
    page.items = g_string_new(NULL);
    if (after && g_strcmp0(after, query.after) > 0)
        query.after = after;
    gboolean ok = fill(&page, query, error);
    if (ok)
        weft_request_reply(request, weft_page_of_items(page.items->str, page.more ? page.last : NULL));
    g_string_free(page.items, TRUE);
    g_free(page.last);
    return ok;
}
