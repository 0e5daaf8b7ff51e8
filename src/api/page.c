#include "page.h"

#include "errors.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 1000
#define CURSOR_KEY_MAX 160

gboolean
weft_page_limit(const WeftRequest *request, guint *ret_limit, GError **error)
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

static char *
encode(const char *key)
{
    char *text = g_base64_encode((const guchar *)key, strlen(key));
    return g_strdelimit(g_strdelimit(g_strdelimit(text, "+", '-'), "/", '_'), "=", '.');
}

char *
weft_page_after(const WeftRequest *request, GError **error)
{
    const char *text = weft_request_query(request, "after");
    if (!text)
        return NULL;
    gsize length = 0;
    g_autofree char *base64 = g_strdelimit(g_strdelimit(g_strdelimit(g_strdup(text), "-", '+'), "_", '/'), ".", '=');
    g_autofree char *data = (char *)g_base64_decode(base64, &length);
    g_autofree char *key = g_strndup(data ? data : "", length);
    g_autofree char *again = encode(key);
    if (strcmp(again, text) == 0 && length >= 1 && length <= CURSOR_KEY_MAX && g_utf8_validate(key, -1, NULL))
        return g_steal_pointer(&key);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "after: must be the \"next\" of the page before, is \"%s\"", text);
    return NULL;
}

WeftReply *
weft_page_of(json_t *items, const char *next)
{
    g_autofree char *cursor = next ? encode(next) : NULL;
    return weft_reply_new(200, json_pack("{s:o, s:s?}", "items", items, "next", cursor));
}

typedef struct {
    WeftRequest *request;
    WeftView view;
    guint limit;
    json_t *items;
    char *last; /* key of the last item */
    gboolean more;
} Page;

static gboolean
add_record(Page *page, const WeftRecord *record, GError **error)
{
    GError *failure = NULL;
    json_t *item = page->view(page->request, record, &failure);
    if (failure) {
        g_propagate_error(error, failure);
        return FALSE;
    }
    if (!item)
        return TRUE;
    page->more = json_array_size(page->items) == page->limit;
    if (page->more) {
        json_decref(item);
        return TRUE;
    }
    json_array_append_new(page->items, item);
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
    query.limit = page->limit + 1;
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
    } while (!page->more && found == query.limit);
    return TRUE;
}

gboolean
weft_page_reply(WeftRequest *request, WeftQuery query, WeftView view, GError **error)
{
    GError *failure = NULL;
    Page page = { .request = request, .view = view };
    g_autofree char *after = weft_page_after(request, &failure);
    if (failure || !weft_page_limit(request, &page.limit, &failure)) {
        g_propagate_error(error, failure);
        return FALSE;
    }
    page.items = json_array();
    query.after = after;
    gboolean ok = fill(&page, query, error);
    if (ok)
        weft_request_reply(request, weft_page_of(json_incref(page.items), page.more ? page.last : NULL));
    json_decref(page.items);
    g_free(page.last);
    return ok;
}
