#include "sse.h"

#include "errors.h"

#define EVENT_MAX (1 << 20)

struct WeftSse {
    GString *line;
    GString *data;
    char *id;
};

void
weft_sse_event_free(WeftSseEvent *event)
{
    if (!event)
        return;
    g_free(event->id);
    g_free(event->data);
    g_free(event);
}

WeftSse *
weft_sse_new(void)
{
    WeftSse *sse = g_new0(WeftSse, 1);
    sse->line = g_string_new(NULL);
    sse->data = g_string_new(NULL);
    return sse;
}

void
weft_sse_free(WeftSse *sse)
{
    if (!sse)
        return;
    g_string_free(sse->line, TRUE);
    g_string_free(sse->data, TRUE);
    g_free(sse->id);
    g_free(sse);
}

/* An event without data is none: that is how the comments between events end. */
static void
end_event(WeftSse *sse, GQueue *events)
{
    if (sse->data->len > 0) {
        WeftSseEvent *event = g_new0(WeftSseEvent, 1);
        g_string_truncate(sse->data, sse->data->len - 1);
        event->data = g_strdup(sse->data->str);
        event->id = g_steal_pointer(&sse->id);
        g_queue_push_tail(events, event);
    }
    g_clear_pointer(&sse->id, g_free);
    g_string_truncate(sse->data, 0);
}

static void
take_line(WeftSse *sse, GQueue *events)
{
    const char *line = sse->line->str;
    if (line[0] == '\0') {
        end_event(sse, events);
        return;
    }
    const char *colon = strchr(line, ':');
    gsize length = colon ? (gsize)(colon - line) : sse->line->len;
    const char *value = colon ? colon + 1 : "";
    if (value[0] == ' ')
        value++;
    if (length == 4 && strncmp(line, "data", 4) == 0) {
        g_string_append(sse->data, value);
        g_string_append_c(sse->data, '\n');
    } else if (length == 2 && strncmp(line, "id", 2) == 0) {
        g_free(sse->id);
        sse->id = g_strdup(value);
    }
}

gboolean
weft_sse_feed(WeftSse *sse, const char *bytes, gsize length, GQueue *events, GError **error)
{
    for (gsize i = 0; i < length; i++) {
        if (bytes[i] == '\n') {
            if (sse->line->len > 0 && sse->line->str[sse->line->len - 1] == '\r')
                g_string_truncate(sse->line, sse->line->len - 1);
            take_line(sse, events);
            g_string_truncate(sse->line, 0);
            continue;
        }
        g_string_append_c(sse->line, bytes[i]);
        if (sse->line->len + sse->data->len > EVENT_MAX) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "the event stream carries an event of more than %d bytes",
                        EVENT_MAX);
            return FALSE;
        }
    }
    return TRUE;
}
