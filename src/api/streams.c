#include "streams.h"

#include "errors.h"
#include "records.h"
#include "request.h"
#include "server.h"
#include "views.h"

#define KEEP_ALIVE_SECONDS 15
#define PAGE 64
#define BLOCK (32 * 1024)
#define EVENT_KEY_LENGTH 16

struct WeftStreams {
    WeftStore *store;
    guint watch;
    guint timer;
    GPtrArray *all; /* WeftStream, borrowed */
};

struct WeftStream {
    WeftStreams *streams;
    WeftRequest *request;
    WeftShare *share;
    char *tenant;
    char *cluster;
    char *position; /* key of the last event that was read */
    GString *text;  /* read, not yet sent */
    gboolean over;
};

static gboolean
concerns(const WeftStream *stream, const WeftChange *change)
{
    if (change->kind != WEFT_KIND_EVENT || change->deleted)
        return FALSE;
    return stream->cluster ? strcmp(stream->cluster, change->place) == 0
                           : !stream->tenant || strcmp(stream->tenant, change->scope) == 0;
}

static void
on_change(const WeftChange *changes, gsize n, gpointer data)
{
    WeftStreams *streams = data;
    for (guint i = 0; i < streams->all->len; i++) {
        WeftStream *stream = streams->all->pdata[i];
        if (stream->request->connection && !weft_request_is_allowed_after(stream->request, changes, n))
            stream->over = TRUE;
        gsize j = 0;
        while (j < n && !concerns(stream, &changes[j]))
            j++;
        if (j < n || stream->over)
            weft_server_wake(stream->request);
    }
}

/* Writing is also how we learn that a client is gone whose machine does not say so. */
static gboolean
keep_alive(gpointer data)
{
    WeftStreams *streams = data;
    for (guint i = 0; i < streams->all->len; i++) {
        WeftStream *stream = streams->all->pdata[i];
        if (!stream->request->connection)
            continue;
        if (!weft_request_is_still_allowed(stream->request)) /* time alone ends a token too */
            stream->over = TRUE;
        if (!stream->text->len)
            g_string_append(stream->text, ":\n\n");
        weft_server_wake(stream->request);
    }
    return G_SOURCE_CONTINUE;
}

WeftStreams *
weft_streams_new(WeftStore *store)
{
    WeftStreams *streams = g_new0(WeftStreams, 1);
    streams->store = store;
    streams->all = g_ptr_array_new();
    streams->watch = weft_store_watch(store, on_change, streams);
    streams->timer = g_timeout_add_seconds(KEEP_ALIVE_SECONDS, keep_alive, streams);
    return streams;
}

void
weft_streams_free(WeftStreams *streams)
{
    if (!streams)
        return;
    g_assert(streams->all->len == 0);
    weft_store_unwatch(streams->store, streams->watch);
    g_source_remove(streams->timer);
    g_ptr_array_unref(streams->all);
    g_free(streams);
}

/* One that was not begun. */
static void
clear(gpointer data)
{
    WeftStream *stream = data;
    g_string_free(stream->text, TRUE);
    g_free(stream->tenant);
    g_free(stream->cluster);
    g_free(stream->position);
    g_free(stream);
}

void
weft_stream_free(WeftStream *stream)
{
    g_ptr_array_remove_fast(stream->streams->all, stream);
    weft_share_free(stream->share);
    weft_request_unref(stream->request);
    clear(stream);
}

/* --- reading --- */

static gboolean
append_event(WeftStream *stream, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftEvent) event = weft_record_event(record, error);
    if (!event)
        return FALSE;
    g_autofree char *text = weft_view_text(weft_view_event(event, weft_request_sees_all(stream->request)));
    g_string_append_printf(stream->text, "id: %s\nevent: %s\ndata: %s\n\n", record->key, event->type, text);
    return TRUE;
}

static gboolean
read_on(WeftStream *stream, GError **error)
{
    WeftQuery query = {
        .kind = WEFT_KIND_EVENT,
        .place = stream->cluster,
        .scope = stream->cluster ? NULL : stream->tenant,
        .after = stream->position,
        .limit = PAGE,
    };
    g_autoptr(GPtrArray) page = weft_store_list(stream->streams->store, &query, error);
    for (guint i = 0; page && i < page->len; i++) {
        const WeftRecord *record = page->pdata[i];
        if (!append_event(stream, record, error))
            return FALSE;
        g_free(stream->position);
        stream->position = g_strdup(record->key);
    }
    return page != NULL;
}

static ssize_t
on_read(void *data, uint64_t position, char *buffer, size_t max)
{
    WeftStream *stream = data;
    g_autoptr(GError) error = NULL;
    g_auto(WeftMeter) meter = weft_meter_start(stream->request);
    if (stream->request->hung_up)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!stream->over && !stream->text->len && weft_server_make_wait(stream->request))
        return 0;
    if (!stream->over && !stream->text->len && !read_on(stream, &error)) {
        g_warning("event stream of %s: %s", stream->request->account, error->message);
        stream->over = TRUE;
    }
    if (stream->over)
        return MHD_CONTENT_READER_END_OF_STREAM;
    gsize n = MIN(max, stream->text->len);
    if (n == 0)
        weft_server_pause(stream->request);
    memcpy(buffer, stream->text->str, n);
    g_string_erase(stream->text, 0, (gssize)n);
    return (ssize_t)n;
}

static void
on_free(void *data)
{
    weft_stream_free(data);
}

struct MHD_Response *
weft_stream_response(WeftStream *stream)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, on_read, stream, on_free);
}

/* --- opening --- */

/* After the newest event that there is: one that is being committed now is a new one. */
static char *
newest_event(WeftStore *store, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_EVENT, .limit = 1, .backwards = TRUE };
    g_autoptr(GPtrArray) page = weft_store_list(store, &query, error);
    if (!page)
        return NULL;
    return page->len ? g_strdup(((const WeftRecord *)page->pdata[0])->key) : weft_event_key(0);
}

/* … but never before the caller's tenant began. */
static char *
not_before(WeftRequest *request, char *position, GError **error)
{
    gint64 since;
    if (!weft_request_since(request, &since, error)) {
        g_free(position);
        return NULL;
    }
    char *begin = weft_event_key(since);
    gboolean late = strcmp(position, begin) < 0;
    g_free(late ? position : begin);
    return late ? begin : position;
}

static char *
first_position(WeftRequest *request, GError **error)
{
    const char *last = request->headers.last_event_id;
    if (!last)
        return newest_event(request->store, error);
    if (strlen(last) == EVENT_KEY_LENGTH && strspn(last, "0123456789abcdef") == EVENT_KEY_LENGTH)
        return not_before(request, g_strdup(last), error);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "Last-Event-ID: must be the id of an event, %d hexadecimal digits",
                EVENT_KEY_LENGTH);
    return NULL;
}

static void
begin(WeftRequest *request, gpointer data)
{
    WeftStream *stream = data;
    g_autoptr(GError) busy = NULL;
    stream->share = weft_request_take(request, WEFT_SHARE_STREAMS, &busy);
    if (!stream->share) {
        clear(stream);
        weft_request_fail(request, busy);
        return;
    }
    stream->streams = request->streams;
    stream->request = weft_request_ref(request);
    g_ptr_array_add(stream->streams->all, stream);
    WeftReply *reply = weft_reply_text(200, "text/event-stream", NULL);
    reply->stream = stream;
    weft_request_reply(request, reply);
}

gboolean
weft_streams_open(WeftRequest *request, const char *tenant, const char *cluster, GError **error)
{
    char *position = first_position(request, error);
    if (!position)
        return FALSE;
    WeftStream *stream = g_new0(WeftStream, 1);
    stream->tenant = g_strdup(tenant);
    stream->cluster = g_strdup(cluster);
    stream->position = position;
    stream->text = g_string_new(NULL);
    return weft_request_go_on(request, begin, stream, clear);
}
