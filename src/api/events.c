#include "handlers.h"
#include "page.h"
#include "streams.h"
#include "views.h"

static char *
event_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftEvent) event = weft_record_event(record, error);
    return event ? weft_view_text(weft_view_event(event, weft_request_sees_all(request))) : NULL;
}

gboolean
weft_handle_event_list(WeftRequest *request, GError **error)
{
    const char *tenant = NULL;
    if (!weft_request_scope(request, &tenant, error))
        return FALSE;
    if (weft_request_wants_stream(request))
        return weft_streams_open(request, tenant, NULL, error);
    gint64 since;
    if (!weft_request_since(request, &since, error))
        return FALSE;
    g_autofree char *after = since ? weft_event_key(since) : NULL;
    WeftQuery query = { .kind = WEFT_KIND_EVENT, .scope = tenant, .after = after };
    return weft_page_reply(request, query, event_view, error);
}

gboolean
weft_handle_cluster_event_list(WeftRequest *request, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_find_cluster(request, NULL, error);
    if (!cluster)
        return FALSE;
    if (weft_request_wants_stream(request))
        return weft_streams_open(request, NULL, cluster->id, error);
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_EVENT, .place = cluster->id }, event_view, error);
}
