#include "client.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define PENDING_MAX 8
#define QUEUED_MAX (WEFT_WIRE_FRAME_MAX + (8u << 20)) /* one answer of the largest size, and others */
#define READ_BYTES 65536
#define FRAME_SECONDS 10
#define STALL_SECONDS 30

/* --- life --- */

WeftClient *
weft_client_new(int fd, guint64 number, struct WeftDoor *owner)
{
    WeftClient *client = g_new0(WeftClient, 1);
    client->fd = fd;
    client->number = number;
    client->owner = owner;
    client->heard = g_get_monotonic_time();
    client->reader = weft_wire_reader_new(WEFT_WIRE_REQUEST_MAX);
    return client;
}

void
weft_client_free(WeftClient *client)
{
    if (client->source) {
        g_source_destroy(client->source);
        g_source_unref(client->source);
    }
    g_queue_clear_full(&client->out, (GDestroyNotify)g_bytes_unref);
    weft_wire_reader_free(client->reader);
    close(client->fd);
    g_free(client);
}

/* --- the main loop --- */

typedef struct {
    GSource source;
    WeftClient *client;
    WeftClientServe serve;
} ClientSource;

static gboolean
is_ready(GSource *source)
{
    return g_source_query_unix_fd(source, ((ClientSource *)source)->client->tag) != 0;
}

static gboolean
dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    ClientSource *mine = (ClientSource *)source;
    return mine->serve(mine->client, g_source_query_unix_fd(source, mine->client->tag));
}

static GSourceFuncs functions = { .check = is_ready, .dispatch = dispatch };

/* While it waits for many answers nothing more is read from it. */
static void
watch(WeftClient *client)
{
    GIOCondition wanted = G_IO_ERR | G_IO_HUP;
    if (client->pending < PENDING_MAX)
        wanted |= G_IO_IN;
    if (client->queued > 0)
        wanted |= G_IO_OUT;
    g_source_modify_unix_fd(client->source, client->tag, wanted);
}

void
weft_client_attach(WeftClient *client, GMainContext *context, WeftClientServe serve)
{
    client->source = g_source_new(&functions, sizeof(ClientSource));
    ((ClientSource *)client->source)->client = client;
    ((ClientSource *)client->source)->serve = serve;
    client->tag = g_source_add_unix_fd(client->source, client->fd, G_IO_IN);
    g_source_attach(client->source, context);
}

/* --- in --- */

static gboolean
read_some(WeftClient *client)
{
    guint8 bytes[READ_BYTES];
    ssize_t n = read(client->fd, bytes, sizeof bytes);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0 || !weft_wire_reader_feed(client->reader, bytes, (gsize)n, NULL))
        return FALSE;
    client->heard = g_get_monotonic_time();
    if (!weft_wire_reader_is_inside(client->reader))
        client->begun = 0;
    else if (client->begun == 0)
        client->begun = client->heard;
    return TRUE;
}

json_t *
weft_client_next(WeftClient *client)
{
    json_t *request = client->pending < PENDING_MAX ? weft_wire_reader_next(client->reader) : NULL;
    if (request && ++client->pending == PENDING_MAX)
        watch(client);
    return request;
}

void
weft_client_settle(WeftClient *client)
{
    client->heard = g_get_monotonic_time();
    /* It could not finish its frame while nothing was read from it. */
    if (client->pending-- == PENDING_MAX && client->begun)
        client->begun = client->heard;
    watch(client);
}

/* --- out --- */

static void
advance(WeftClient *client, gsize n)
{
    client->queued -= n;
    client->written += n;
    GBytes *first = g_queue_peek_head(&client->out);
    if (client->written < g_bytes_get_size(first))
        return;
    g_bytes_unref(g_queue_pop_head(&client->out));
    client->written = 0;
}

static gboolean
write_some(WeftClient *client)
{
    while (client->queued > 0) {
        gsize size;
        const guint8 *bytes = g_bytes_get_data(g_queue_peek_head(&client->out), &size);
        ssize_t n = send(client->fd, bytes + client->written, size - client->written, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        advance(client, (gsize)n);
        client->stalled = g_get_monotonic_time();
    }
    client->stalled = 0;
    return TRUE;
}

gboolean
weft_client_write(WeftClient *client, GBytes *frame)
{
    if (client->queued == 0)
        client->stalled = g_get_monotonic_time();
    g_queue_push_tail(&client->out, g_bytes_ref(frame));
    client->queued += g_bytes_get_size(frame);
    if (client->queued > QUEUED_MAX || !write_some(client))
        return FALSE;
    watch(client);
    return TRUE;
}

/* --- both --- */

gboolean
weft_client_serve(WeftClient *client, GIOCondition condition)
{
    if (condition & G_IO_OUT && !write_some(client))
        return FALSE;
    if (condition & G_IO_IN && !read_some(client))
        return FALSE;
    if (condition & (G_IO_ERR | G_IO_HUP) && !(condition & G_IO_IN))
        return FALSE;
    watch(client);
    return TRUE;
}

gboolean
weft_client_is_late(const WeftClient *client)
{
    gint64 now = g_get_monotonic_time();
    gboolean is_read = client->pending < PENDING_MAX;
    return (client->begun && is_read && now - client->begun > FRAME_SECONDS * G_TIME_SPAN_SECOND) ||
           (client->stalled && now - client->stalled > STALL_SECONDS * G_TIME_SPAN_SECOND);
}
