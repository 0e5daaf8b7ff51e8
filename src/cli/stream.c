#include "stream.h"

#include "backoff.h"
#include "errors.h"
#include "sse.h"
#include "yaml.h"

#define PROBLEM_MAX (64 << 10)
#define SILENCE_SECONDS 45 /* weftd sends a comment every 15 s */
#define POLL_MS 1000       /* a Ctrl-C that falls between two polls is seen after this at the latest */

struct WeftStream {
    WeftClient *client;
    char *path;
    CURLM *multi;
    CURL *easy; /* NULL: not connected */
    struct curl_slist *headers;
    WeftSse *sse;
    GString *problem; /* body of a refusal */
    GQueue events;    /* WeftSseEvent */
    char *last_id;
    gboolean stirred; /* something happened since the last wait */
    guint tries;
    gint64 retry_at;
};

WeftStream *
weft_stream_new(WeftClient *client, const char *path, const char *last_id)
{
    WeftStream *stream = g_new0(WeftStream, 1);
    stream->client = client;
    stream->path = g_strdup(path);
    stream->last_id = g_strdup(last_id);
    stream->multi = curl_multi_init();
    stream->problem = g_string_new(NULL);
    g_queue_init(&stream->events);
    return stream;
}

static void
disconnect(WeftStream *stream)
{
    if (stream->easy) {
        curl_multi_remove_handle(stream->multi, stream->easy);
        curl_easy_cleanup(g_steal_pointer(&stream->easy));
    }
    g_clear_pointer(&stream->headers, curl_slist_free_all);
    g_clear_pointer(&stream->sse, weft_sse_free);
}

void
weft_stream_free(WeftStream *stream)
{
    if (!stream)
        return;
    disconnect(stream);
    curl_multi_cleanup(stream->multi);
    g_queue_clear_full(&stream->events, (GDestroyNotify)weft_sse_event_free);
    g_string_free(stream->problem, TRUE);
    g_free(stream->last_id);
    g_free(stream->path);
    g_free(stream);
}

static long
status_of(WeftStream *stream)
{
    long status = 0;
    curl_easy_getinfo(stream->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static void
remember_last(WeftStream *stream)
{
    for (GList *link = stream->events.tail; link; link = link->prev) {
        const WeftSseEvent *event = link->data;
        if (event->id) {
            g_free(stream->last_id);
            stream->last_id = g_strdup(event->id);
            return;
        }
    }
}

static size_t
on_bytes(char *bytes, size_t size, size_t count, void *data)
{
    WeftStream *stream = data;
    gsize length = size * count;
    if (status_of(stream) != 200) {
        g_string_append_len(stream->problem, bytes, length);
        return stream->problem->len > PROBLEM_MAX ? 0 : length;
    }
    guint before = g_queue_get_length(&stream->events);
    if (!weft_sse_feed(stream->sse, bytes, length, &stream->events, NULL))
        return 0;
    stream->tries = 0;
    stream->stirred |= g_queue_get_length(&stream->events) > before;
    remember_last(stream);
    return length;
}

/* The empty line that ends the headers of a good answer: from here on no event is missed. */
static size_t
on_header(char *bytes, size_t size, size_t count, void *data)
{
    WeftStream *stream = data;
    if (bytes[0] == '\r' && status_of(stream) == 200)
        stream->stirred = TRUE;
    return size * count;
}

static void
reconnect(WeftStream *stream)
{
    g_string_truncate(stream->problem, 0);
    stream->sse = weft_sse_new();
    stream->headers = curl_slist_append(NULL, "Accept: text/event-stream");
    if (stream->last_id) {
        g_autofree char *line = g_strconcat("Last-Event-ID: ", stream->last_id, NULL);
        stream->headers = curl_slist_append(stream->headers, line);
    }
    stream->easy = curl_easy_init();
    weft_client_prepare(stream->client, stream->easy, stream->path);
    curl_easy_setopt(stream->easy, CURLOPT_HTTPHEADER, stream->headers);
    curl_easy_setopt(stream->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(stream->easy, CURLOPT_WRITEDATA, stream);
    curl_easy_setopt(stream->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(stream->easy, CURLOPT_HEADERDATA, stream);
    curl_easy_setopt(stream->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(stream->easy, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_SECONDS);
    curl_multi_add_handle(stream->multi, stream->easy);
}

/* A refusal is final; anything else is tried again: weftd may be starting anew. */
static gboolean
take_end(WeftStream *stream, GError **error)
{
    static const WeftBackoff backoff = { 100 * G_TIME_SPAN_MILLISECOND, 5 * G_TIME_SPAN_SECOND };
    int left = 0;
    CURLMsg *message = curl_multi_info_read(stream->multi, &left);
    if (!message || message->msg != CURLMSG_DONE)
        return TRUE;
    long status = status_of(stream);
    disconnect(stream);
    stream->tries++;
    stream->retry_at = g_get_monotonic_time() + weft_backoff_delay(&backoff, stream->tries);
    if (status >= 400 && status < 500 && status != 429) {
        weft_client_set_problem(status, stream->problem->str, stream->problem->len, error);
        return FALSE;
    }
    return TRUE;
}

static gboolean
turn(WeftStream *stream, gint64 until, GError **error)
{
    gint64 now = g_get_monotonic_time();
    if (!stream->easy && now >= stream->retry_at)
        reconnect(stream);
    if (!stream->easy)
        until = MIN(until, stream->retry_at);

    int running = 0;
    gboolean stirred = stream->stirred;
    curl_multi_perform(stream->multi, &running);
    if (!take_end(stream, error))
        return FALSE;
    if (stirred == stream->stirred)
        curl_multi_poll(stream->multi, NULL, 0, (int)CLAMP((until - now + 999) / 1000, 0, POLL_MS), NULL);
    return !weft_client_interrupted(error);
}

gboolean
weft_stream_wait(WeftStream *stream, gint64 not_before, gint64 until, GError **error)
{
    for (;;) {
        gint64 end = stream->stirred ? MIN(not_before, until) : until;
        if (g_get_monotonic_time() >= end)
            break;
        if (!turn(stream, end, error))
            return FALSE;
    }
    stream->stirred = FALSE;
    return TRUE;
}

json_t *
weft_stream_next(WeftStream *stream)
{
    json_t *json = NULL;
    while (!json && !g_queue_is_empty(&stream->events)) {
        g_autoptr(WeftSseEvent) event = g_queue_pop_head(&stream->events);
        json = weft_json_parse(event->data, strlen(event->data), NULL);
    }
    return json;
}
