#include "pipe.h"

#include "errors.h"

#include <errno.h>
#include <glib-unix.h>
#include <unistd.h>

#define READ_MAX 32768 /* at a time: others have their turn in between */

/* invariant: it lives as long as its source is dispatched, so that a callback may free it. */
struct WeftPipe {
    GSource source;
    int fd;
    gpointer tag;
    const WeftPipeOps *ops;
    gpointer owner;
    GByteArray *queue;
    gsize written; /* of queue */
    gboolean held;
};

static void
want(WeftPipe *pipe)
{
    GIOCondition events = (pipe->held ? 0 : G_IO_IN) | (weft_pipe_queued(pipe) ? G_IO_OUT : 0);
    g_source_modify_unix_fd(&pipe->source, pipe->tag, events);
}

static gboolean
flush(WeftPipe *pipe)
{
    while (weft_pipe_queued(pipe) > 0) {
        gssize n = write(pipe->fd, pipe->queue->data + pipe->written, weft_pipe_queued(pipe));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        pipe->written += (gsize)n;
    }
    gboolean ok = weft_pipe_queued(pipe) == 0 || errno == EAGAIN;
    if (pipe->written > pipe->queue->len / 2) {
        g_byte_array_remove_range(pipe->queue, 0, (guint)pipe->written);
        pipe->written = 0;
    }
    return ok;
}

static void
end(WeftPipe *pipe, int why)
{
    g_autoptr(GError) error =
        g_error_new(WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "%s", why ? g_strerror(why) : "the other side closed the connection");
    g_source_modify_unix_fd(&pipe->source, pipe->tag, 0);
    pipe->ops->ended(pipe->owner, error);
}

static void
take(WeftPipe *pipe)
{
    guint8 bytes[READ_MAX];
    gssize n = read(pipe->fd, bytes, sizeof bytes);
    if (n > 0)
        pipe->ops->received(pipe->owner, bytes, (gsize)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        end(pipe, n == 0 ? 0 : errno);
}

static gboolean
dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    WeftPipe *pipe = (WeftPipe *)source;
    GIOCondition events = g_source_query_unix_fd(source, pipe->tag);
    if ((events & G_IO_OUT) && weft_pipe_queued(pipe)) {
        if (!flush(pipe)) {
            end(pipe, errno);
            return G_SOURCE_CONTINUE;
        }
        want(pipe);
        if (weft_pipe_queued(pipe) == 0)
            pipe->ops->drained(pipe->owner);
    }
    if (g_source_is_destroyed(source))
        return G_SOURCE_REMOVE;
    if (!pipe->held && (events & (G_IO_IN | G_IO_HUP | G_IO_ERR)))
        take(pipe);
    else if (events & (G_IO_HUP | G_IO_ERR))
        end(pipe, 0);
    return G_SOURCE_CONTINUE;
}

static void
finalize(GSource *source)
{
    g_byte_array_unref(((WeftPipe *)source)->queue);
}

WeftPipe *
weft_pipe_new(int fd, const WeftPipeOps *ops, gpointer owner)
{
    static GSourceFuncs functions = { .dispatch = dispatch, .finalize = finalize };
    WeftPipe *pipe = (WeftPipe *)g_source_new(&functions, sizeof(WeftPipe));
    g_unix_set_fd_nonblocking(fd, TRUE, NULL);
    pipe->fd = fd;
    pipe->ops = ops;
    pipe->owner = owner;
    pipe->queue = g_byte_array_new();
    pipe->tag = g_source_add_unix_fd(&pipe->source, fd, G_IO_IN);
    g_source_attach(&pipe->source, NULL);
    return pipe;
}

void
weft_pipe_free(WeftPipe *pipe)
{
    if (!pipe)
        return;
    flush(pipe);
    g_source_destroy(&pipe->source);
    close(pipe->fd);
    g_source_unref(&pipe->source);
}

void
weft_pipe_write(WeftPipe *pipe, gconstpointer bytes, gsize count)
{
    g_byte_array_append(pipe->queue, bytes, (guint)count);
    want(pipe);
}

void
weft_pipe_send(WeftPipe *pipe, guint32 session, enum weft_frame_type type, gconstpointer payload, gsize length)
{
    guint8 header[WEFT_FRAME_HEADER];
    weft_frame_encode(&(struct weft_frame){ session, (guint16)type, (guint16)length }, header);
    g_byte_array_append(pipe->queue, header, sizeof header);
    if (length > 0)
        g_byte_array_append(pipe->queue, payload, (guint)length);
    want(pipe);
}

gsize
weft_pipe_queued(const WeftPipe *pipe)
{
    return pipe->queue->len - pipe->written;
}

void
weft_pipe_hold(WeftPipe *pipe, gboolean held)
{
    pipe->held = held;
    want(pipe);
}
