#include "feed.h"

#include "backoff.h"
#include "sse.h"
#include "yaml.h"

#define PROBLEM_MAX (64 << 10)
#define SILENCE_SECONDS 45 /* weftd sends a comment every 15 s */
#define POLL_MS 1000       /* a Ctrl-C that falls between two polls is seen after this at the latest */

struct WeftFeed {
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

WeftFeed *
weft_feed_new(WeftClient *client, const char *path, const char *last_id)
{
    WeftFeed *feed = g_new0(WeftFeed, 1);
    feed->client = client;
    feed->path = g_strdup(path);
    feed->last_id = g_strdup(last_id);
    feed->multi = curl_multi_init();
    feed->problem = g_string_new(NULL);
    g_queue_init(&feed->events);
    return feed;
}

static void
disconnect(WeftFeed *feed)
{
    if (feed->easy) {
        curl_multi_remove_handle(feed->multi, feed->easy);
        curl_easy_cleanup(g_steal_pointer(&feed->easy));
    }
    g_clear_pointer(&feed->headers, curl_slist_free_all);
    g_clear_pointer(&feed->sse, weft_sse_free);
}

void
weft_feed_free(WeftFeed *feed)
{
    if (!feed)
        return;
    disconnect(feed);
    curl_multi_cleanup(feed->multi);
    g_queue_clear_full(&feed->events, (GDestroyNotify)weft_sse_event_free);
    g_string_free(feed->problem, TRUE);
    g_free(feed->last_id);
    g_free(feed->path);
    g_free(feed);
}

static long
status_of(WeftFeed *feed)
{
    long status = 0;
    curl_easy_getinfo(feed->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static void
remember_last(WeftFeed *feed)
{
    for (GList *link = feed->events.tail; link; link = link->prev) {
        const WeftSseEvent *event = link->data;
        if (event->id) {
            g_free(feed->last_id);
            feed->last_id = g_strdup(event->id);
            return;
        }
    }
}

static size_t
on_bytes(char *bytes, size_t size, size_t count, void *data)
{
    WeftFeed *feed = data;
    gsize length = size * count;
    if (status_of(feed) != 200) {
        g_string_append_len(feed->problem, bytes, length);
        return feed->problem->len > PROBLEM_MAX ? 0 : length;
    }
    guint before = g_queue_get_length(&feed->events);
    if (!weft_sse_feed(feed->sse, bytes, length, &feed->events, NULL))
        return 0;
    feed->tries = 0;
    feed->stirred |= g_queue_get_length(&feed->events) > before;
    remember_last(feed);
    return length;
}

/* The empty line that ends the headers of a good answer: from here on no event is missed. */
static size_t
on_header(const char *bytes, size_t size, size_t count, void *data)
{
    WeftFeed *feed = data;
    if (bytes[0] == '\r' && status_of(feed) == 200)
        feed->stirred = TRUE;
    return size * count;
}

static void
reconnect(WeftFeed *feed)
{
    g_string_truncate(feed->problem, 0);
    feed->sse = weft_sse_new();
    feed->headers = curl_slist_append(NULL, "Accept: text/event-stream");
    if (feed->last_id) {
        g_autofree char *line = g_strconcat("Last-Event-ID: ", feed->last_id, NULL);
        feed->headers = curl_slist_append(feed->headers, line);
    }
    feed->easy = curl_easy_init();
    weft_client_prepare(feed->client, feed->easy, feed->path);
    curl_easy_setopt(feed->easy, CURLOPT_HTTPHEADER, feed->headers);
    curl_easy_setopt(feed->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(feed->easy, CURLOPT_WRITEDATA, feed);
    curl_easy_setopt(feed->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(feed->easy, CURLOPT_HEADERDATA, feed);
    curl_easy_setopt(feed->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(feed->easy, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_SECONDS);
    curl_multi_add_handle(feed->multi, feed->easy);
}

/* A refusal is final; anything else is tried again: weftd may be starting anew. */
static gboolean
take_end(WeftFeed *feed, GError **error)
{
    static const WeftBackoff backoff = { 100 * G_TIME_SPAN_MILLISECOND, 5 * G_TIME_SPAN_SECOND };
    int left = 0;
    CURLMsg *message = curl_multi_info_read(feed->multi, &left);
    if (!message || message->msg != CURLMSG_DONE)
        return TRUE;
    long status = status_of(feed);
    disconnect(feed);
    feed->tries++;
    feed->retry_at = g_get_monotonic_time() + weft_backoff_delay(&backoff, feed->tries);
    if (status >= 400 && status < 500 && status != 429) {
        weft_client_set_problem(status, feed->problem->str, feed->problem->len, error);
        return FALSE;
    }
    return TRUE;
}

static gboolean
turn(WeftFeed *feed, gint64 until, GError **error)
{
    gint64 now = g_get_monotonic_time();
    if (!feed->easy && now >= feed->retry_at)
        reconnect(feed);
    if (!feed->easy)
        until = MIN(until, feed->retry_at);

    int running = 0;
    gboolean stirred = feed->stirred;
    curl_multi_perform(feed->multi, &running);
    if (!take_end(feed, error))
        return FALSE;
    if (stirred == feed->stirred)
        curl_multi_poll(feed->multi, NULL, 0, (int)CLAMP((until - now + 999) / 1000, 0, POLL_MS), NULL);
    return !weft_client_interrupted(error);
}

gboolean
weft_feed_wait(WeftFeed *feed, gint64 not_before, gint64 until, GError **error)
{
    for (;;) {
        gint64 end = feed->stirred ? MIN(not_before, until) : until;
        if (g_get_monotonic_time() >= end)
            break;
        if (!turn(feed, end, error))
            return FALSE;
    }
    feed->stirred = FALSE;
    return TRUE;
}

json_t *
weft_feed_next(WeftFeed *feed)
{
    json_t *json = NULL;
    while (!json && !g_queue_is_empty(&feed->events)) {
        g_autoptr(WeftSseEvent) event = g_queue_pop_head(&feed->events);
        json = weft_json_parse(event->data, strlen(event->data), NULL);
    }
    return json;
}
