#include "pipe.h"

#include "clock.h"
#include "errors.h"
#include "watchdog.h"

#include <errno.h>
#include <glib-unix.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_MAX 32768 /* at a time: others have their turn in between */
#define TURNS 16       /* then the rest of the main loop has its own */
#define SLICE 4000     /* microseconds of processor time of the main thread: what is sent to a large cluster is long */

/* All pipes wait in one epoll, and it alone is a source of the main loop: hundreds of sources would cost time in every round,
 * whatever happens. Made with the first pipe, for ever. */
static GSource *poller;
static int poller_fd;

/* invariant: it lives while it is served, so that a callback may free it. */
struct WeftPipe {
    int fd;         /* -1: freed */
    guint32 events; /* that are waited for */
    const WeftPipeOps *ops;
    gpointer owner;
    GByteArray *queue;
    gsize written; /* of queue */
    gboolean held;
};

/* --- waiting --- */

static void
want(WeftPipe *pipe)
{
    guint32 events = (pipe->held ? 0 : EPOLLIN) | (weft_pipe_queued(pipe) ? EPOLLOUT : 0);
    if (events == pipe->events)
        return;
    pipe->events = events;
    epoll_ctl(poller_fd, EPOLL_CTL_MOD, pipe->fd, &(struct epoll_event){ events, { .ptr = pipe } });
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
    epoll_ctl(poller_fd, EPOLL_CTL_DEL, pipe->fd, NULL);
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

static void
serve(WeftPipe *pipe, guint32 events)
{
    if ((events & EPOLLOUT) && weft_pipe_queued(pipe)) {
        if (!flush(pipe)) {
            end(pipe, errno);
            return;
        }
        want(pipe);
        if (weft_pipe_queued(pipe) == 0)
            pipe->ops->drained(pipe->owner);
    }
    if (pipe->fd < 0)
        return;
    if (!pipe->held && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        take(pipe);
    else if (events & (EPOLLHUP | EPOLLERR))
        end(pipe, 0);
}

static void
clear(gpointer data)
{
    g_byte_array_unref(((WeftPipe *)data)->queue);
}

/* One by one: what the first does may free the second. */
static gboolean
dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    struct epoll_event event;
    gint64 end = weft_clock_thread() + SLICE;
    weft_watchdog_mark("links to nodes", NULL);
    for (guint i = 0; i < TURNS && weft_clock_thread() < end && epoll_wait(poller_fd, &event, 1, 0) == 1; i++) {
        WeftPipe *pipe = g_rc_box_acquire(event.data.ptr);
        serve(pipe, event.events);
        g_rc_box_release_full(pipe, clear);
    }
    return G_SOURCE_CONTINUE;
}

static void
begin(void)
{
    static GSourceFuncs functions = { .dispatch = dispatch };
    poller_fd = epoll_create1(EPOLL_CLOEXEC);
    poller = g_source_new(&functions, sizeof(GSource));
    g_source_add_unix_fd(poller, poller_fd, G_IO_IN);
    g_source_attach(poller, NULL);
}

/* --- life --- */

WeftPipe *
weft_pipe_new(int fd, const WeftPipeOps *ops, gpointer owner)
{
    if (!poller)
        begin();
    WeftPipe *pipe = g_rc_box_new0(WeftPipe);
    g_unix_set_fd_nonblocking(fd, TRUE, NULL);
    *pipe = (WeftPipe){ .fd = fd, .events = EPOLLIN, .ops = ops, .owner = owner, .queue = g_byte_array_new() };
    if (epoll_ctl(poller_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){ EPOLLIN, { .ptr = pipe } }) < 0)
        g_warning("nothing can be read from descriptor %d: %s", fd, g_strerror(errno));
    return pipe;
}

void
weft_pipe_free(WeftPipe *pipe)
{
    if (!pipe)
        return;
    flush(pipe);
    epoll_ctl(poller_fd, EPOLL_CTL_DEL, pipe->fd, NULL);
    close(pipe->fd);
    pipe->fd = -1;
    g_rc_box_release_full(pipe, clear);
}

/* --- writing --- */

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
