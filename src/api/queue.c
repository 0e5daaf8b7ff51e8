#include "handlers.h"
#include "request.h"
#include "rounds.h"

/* What the scheduler spends its time on is no tenant's business. */
static void
answer(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    if (items[0].error) {
        weft_request_fail(request, items[0].error);
        return;
    }
    json_t *view = json_copy(items[0].report);
    if (!weft_request_sees_all(request))
        json_object_del(view, "statistics");
    weft_request_reply(request, weft_reply_new(200, view));
}

gboolean
weft_handle_queue(WeftRequest *request, GError **error)
{
    const char *tenant = NULL;
    if (!weft_request_scope(request, &tenant, error))
        return FALSE;
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(names, g_strdup(tenant));
    return weft_round_ask(request, WEFT_SHARE_QUESTIONS, WEFT_GATE_ASK(request, queue), names, answer, error);
}
