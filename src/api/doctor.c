#include "handlers.h"
#include "request.h"
#include "rounds.h"

/* A host that does not answer is something to mend too. */
static json_t *
report_view(const WeftRoundItem *item)
{
    if (item->report)
        return json_incref(item->report);
    return json_pack("{s:s?, s:[{s:s, s:s, s:s, s:s}]}", "host", item->name, "checks", "check", "answer", "state", "fail",
                     "found", item->error->message, "remedy",
                     item->name ? "is the host up, and does libvirtd run on it? weft host show tells its URI"
                                : "look into weftd's log");
}

static void
answer_one(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    weft_request_reply(request, weft_reply_new(200, report_view(&items[0])));
}

static void
answer_all(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    json_t *views = json_array();
    for (guint i = 0; i < n; i++)
        json_array_append_new(views, report_view(&items[i]));
    weft_request_reply(request, weft_reply_new(200, json_pack("{s:o, s:n}", "items", views, "next")));
}

gboolean
weft_handle_host_doctor(WeftRequest *request, GError **error)
{
    const char *name = request->match.params[0];
    g_autoptr(WeftHost) host = weft_store_load_host(request->store, name, NULL, error);
    if (!host) {
        weft_reword_not_found("host", name, error);
        return FALSE;
    }
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(names, g_steal_pointer(&host->name));
    return weft_round_ask(request, WEFT_SHARE_QUESTIONS, WEFT_GATE_ASK(request, doctor), names, answer_one, error);
}

/* What belongs to no host comes first. */
gboolean
weft_handle_doctor(WeftRequest *request, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &(WeftQuery){ .kind = WEFT_KIND_HOST }, error);
    if (!records)
        return FALSE;
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(names, NULL);
    for (guint i = 0; i < records->len; i++)
        g_ptr_array_add(names, g_strdup(((const WeftRecord *)records->pdata[i])->key));
    return weft_round_ask(request, WEFT_SHARE_QUESTIONS, WEFT_GATE_ASK(request, doctor), names, answer_all, error);
}
