/* The site: its id, what is held on its hosts, and what becomes of that. */
#include "bounds.h"
#include "clock.h"
#include "errors.h"
#include "fields.h"
#include "handlers.h"
#include "page.h"
#include "request.h"
#include "rounds.h"
#include "site-record.h"
#include "views.h"

static json_t *
item_view(json_t *item)
{
    json_t *view = json_copy(item);
    g_autofree char *since = weft_clock_format(json_integer_value(json_object_get(item, "since")));
    json_object_set_new(view, "since", json_string(since));
    return view;
}

static void
answer_held(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    g_autoptr(GError) error = items[0].error ? g_error_copy(items[0].error) : NULL;
    g_autoptr(WeftSiteRecord) site = error ? NULL : weft_store_site(request->store, &error);
    if (!site) {
        weft_request_fail(request, error);
        return;
    }
    json_t *views = json_array(), *item;
    gsize i;
    json_array_foreach (json_object_get(items[0].report, "items"), i, item)
        json_array_append_new(views, item_view(item));
    g_autofree char *created = weft_clock_format(site->created);
    g_autofree char *next = weft_page_cursor(json_string_value(json_object_get(items[0].report, "next")));
    weft_request_reply(request, weft_reply_new(200, json_pack("{s:s, s:s, s:o, s:s?}", "id", site->id, "created", created,
                                                              "items", views, "next", next)));
}

gboolean
weft_handle_site(WeftRequest *request, GError **error)
{
    WeftPageWish wish;
    if (!weft_page_read(request, &wish, error))
        return FALSE;
    g_autofree char *after = wish.after;
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(names, weft_view_text(json_pack("{s:s?, s:i}", "after", after, "limit", (int)wish.limit)));
    return weft_round_ask(request, WEFT_SHARE_QUESTIONS, WEFT_GATE_ASK(request, held), names, answer_held, error);
}

static void
answer_order(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    if (items[0].error)
        weft_request_fail(request, items[0].error);
    else
        weft_request_reply(request, weft_reply_new(204, NULL));
}

static gboolean
check_keys(json_t *keys, GError **error)
{
    json_t *key;
    gsize i;
    json_array_foreach (keys, i, key)
        if (!json_is_string(key))
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "keys: item %zu must be a text, a key of GET /v1/site", i);
    return json_array_size(keys) > 0 || weft_error_refuse(error, WEFT_ERROR_INVALID, "keys: name one at least");
}

static gboolean
order(WeftRequest *request, WeftGateAsk ask, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    const char *host = weft_fields_string(&f, "host", WEFT_REQUIRED_TEXT);
    json_t *keys = weft_fields_array(&f, "keys", WEFT_SITE_KEYS_MAX);
    gboolean dry_run = weft_fields_bool(&f, "dry_run", FALSE);
    if (!weft_fields_end(&f, error) || !check_keys(keys, error))
        return FALSE;
    GPtrArray *orders = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(orders, weft_view_text(json_pack("{s:s, s:O, s:s, s:b}", "host", host, "keys", keys, "who",
                                                     request->principal->name, "dry_run", (int)dry_run)));
    return weft_round_ask(request, WEFT_SHARE_QUESTIONS, ask, orders, answer_order, error);
}

gboolean
weft_handle_site_remove(WeftRequest *request, GError **error)
{
    return order(request, WEFT_GATE_ASK(request, remove_held), error);
}

gboolean
weft_handle_site_adopt(WeftRequest *request, GError **error)
{
    return order(request, WEFT_GATE_ASK(request, adopt_held), error);
}
