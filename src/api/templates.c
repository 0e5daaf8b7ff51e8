#include "handlers.h"
#include "page.h"
#include "views.h"

static char *
template_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftTemplate) template = weft_record_template(record, error);
    return template ? weft_view_text(weft_view_template(template)) : NULL;
}

gboolean
weft_handle_template_list(WeftRequest *request, GError **error)
{
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_TEMPLATE }, template_view, error);
}

static WeftTemplate *
find_template(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *id = request->match.params[0];
    WeftTemplate *template = weft_store_load_template(request->store, id, ret_revision, error);
    if (!template)
        weft_reword_not_found("template", id, error);
    return template;
}

/* Where it is ready, and since when. */
static json_t *
list_primed(WeftRequest *request, const WeftTemplate *template, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_PRIMED, .scope = template->id };
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &query, error);
    json_t *list = records ? json_array() : NULL;
    for (guint i = 0; list && i < records->len; i++) {
        g_autoptr(WeftPrimed) primed = weft_record_primed(records->pdata[i], error);
        if (!primed) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, weft_view_primed(primed));
    }
    return list;
}

gboolean
weft_handle_template_get(WeftRequest *request, GError **error)
{
    g_autoptr(WeftTemplate) template = find_template(request, NULL, error);
    json_t *primed = template ? list_primed(request, template, error) : NULL;
    if (!primed)
        return FALSE;
    json_t *view = weft_view_template(template);
    json_object_set_new(view, "primed", primed);
    return weft_request_reply(request, weft_reply_new(200, view));
}

/* What was made of it goes by itself; nodes that were forked from it go on. */
gboolean
weft_handle_template_remove(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftTemplate) template = find_template(request, &revision, error);
    if (!template)
        return FALSE;
    WeftTxn *txn = weft_txn_new("template-removed");
    weft_txn_remove_template(txn, template, revision);
    weft_txn_tell(txn, "template-removed", NULL, NULL, "%s removed template %s of image %s", request->principal->name,
                  template->id, template->image);
    return weft_request_commit(request, txn, weft_reply_new(204, NULL));
}
