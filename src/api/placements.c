/* Where a cluster would be, without asking for it. */
#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "request.h"
#include "rounds.h"
#include "views.h"

/* Which hosts there are is not a tenant's to know, as everywhere: numbers tell what is together. */
static const char *const hidden[] = { "host", "leaf", "core_ids", "memory_nodes", "devices", "gpu_ids" };

static void
hide(json_t *node)
{
    for (guint i = 0; i < G_N_ELEMENTS(hidden); i++)
        json_object_del(node, hidden[i]);
}

static json_t *
placement_view(json_t *report, gboolean all)
{
    json_t *view = json_deep_copy(report), *when = json_object_get(view, "when"), *node;
    gsize i;
    g_autofree char *time = json_is_integer(when) ? weft_clock_format(json_integer_value(when)) : NULL;
    if (time)
        json_object_set_new(view, "when", json_string(time));
    if (!all)
        json_array_foreach (json_object_get(view, "nodes"), i, node)
            hide(node);
    return view;
}

static void
answer(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    if (items[0].error)
        weft_request_fail(request, items[0].error);
    else
        weft_request_reply(request, weft_reply_new(200, placement_view(items[0].report, weft_request_sees_all(request))));
}

gboolean
weft_handle_placement_try(WeftRequest *request, GError **error)
{
    g_autoptr(WeftTenant) tenant = weft_request_tenant(request, NULL, error);
    g_autoptr(WeftCluster) cluster = tenant ? weft_read_wish(request, tenant, NULL, error) : NULL;
    if (!cluster)
        return FALSE;
    GPtrArray *wishes = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(wishes, weft_view_text(weft_cluster_to_json(cluster)));
    return weft_round_ask(request, WEFT_GATE_ASK(request, place), wishes, answer, error);
}
