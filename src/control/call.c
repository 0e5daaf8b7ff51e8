#include "call.h"

static gboolean
deadline_passed(gpointer data)
{
    WeftCall *call = data;
    call->timer = 0;
    g_cancellable_cancel(call->cancellable);
    return G_SOURCE_REMOVE;
}

void
weft_call_begin(WeftCall *call, gint64 deadline)
{
    call->cancellable = g_cancellable_new();
    call->timer = g_timeout_add((guint)(deadline / 1000), deadline_passed, call);
}

void
weft_call_end(WeftCall *call)
{
    g_clear_handle_id(&call->timer, g_source_remove);
    g_clear_object(&call->cancellable);
}
