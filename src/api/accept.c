#include "accept.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <unistd.h>

#define ACCEPT_MAX 16 /* in one turn of the main loop */
#define PAUSE_MS 50

struct WeftAcceptor {
    int fd;
    char *name;
    const WeftAcceptorOps *ops;
    gpointer data;
    guint source;   /* 0: paused */
    guint timer;    /* while paused, and while the reserve is not whole */
    GArray *spares; /* int: descriptors of nothing, to be closed when one is needed */
    guint reserve;
    gboolean short_of; /* … descriptors, and that was said */
};

/* --- descriptors of its own --- */

static gboolean
refill(WeftAcceptor *acceptor)
{
    while (acceptor->spares->len < acceptor->reserve) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return FALSE;
        g_array_append_val(acceptor->spares, fd);
    }
    return TRUE;
}

static gboolean
use_spare(WeftAcceptor *acceptor)
{
    if (!acceptor->spares->len)
        return FALSE;
    close(g_array_index(acceptor->spares, int, acceptor->spares->len - 1));
    g_array_set_size(acceptor->spares, acceptor->spares->len - 1);
    return TRUE;
}

/* --- taking --- */

static gboolean
is_shortage(int number)
{
    return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

/* The kernel looks for a descriptor before it looks whether anybody is there. */
static gboolean
somebody_waits(const WeftAcceptor *acceptor)
{
    struct pollfd look = { .fd = acceptor->fd, .events = POLLIN };
    return poll(&look, 1, 0) == 1;
}

static int
take(WeftAcceptor *acceptor, struct sockaddr_storage *address)
{
    socklen_t length = sizeof *address;
    int fd = accept4(acceptor->fd, (struct sockaddr *)address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && is_shortage(errno) && use_spare(acceptor)) {
        length = sizeof *address;
        fd = accept4(acceptor->fd, (struct sockaddr *)address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
    return fd;
}

static void
tell_shortage(WeftAcceptor *acceptor, gboolean is)
{
    int reason = errno;
    if (is && !acceptor->short_of)
        g_warning("%s: cannot take connections: %s; those who come have to wait (ulimit -n says how many files may be open)",
                  acceptor->name, g_strerror(reason));
    else if (!is && acceptor->short_of)
        g_message("%s: takes connections again", acceptor->name);
    acceptor->short_of = is;
}

static gboolean on_ready(int fd, GIOCondition condition, gpointer data);

static gboolean
on_timer(gpointer data)
{
    WeftAcceptor *acceptor = data;
    if (!acceptor->source)
        acceptor->source = g_unix_fd_add(acceptor->fd, G_IO_IN, on_ready, acceptor);
    if (!refill(acceptor))
        return G_SOURCE_CONTINUE;
    acceptor->timer = 0;
    return G_SOURCE_REMOVE;
}

/* A socket with connections in its queue is ready for ever: looked at without a descriptor for them it would take all time. */
static gboolean
look_later(WeftAcceptor *acceptor)
{
    acceptor->source = 0;
    if (!acceptor->timer)
        acceptor->timer = g_timeout_add(PAUSE_MS, on_timer, acceptor);
    return G_SOURCE_REMOVE;
}

static gboolean
on_ready(int fd, GIOCondition condition, gpointer data)
{
    WeftAcceptor *acceptor = data;
    for (guint i = 0; i < ACCEPT_MAX; i++) {
        if (!acceptor->ops->has_room(acceptor->data))
            return look_later(acceptor);
        struct sockaddr_storage address = { 0 };
        int taken = take(acceptor, &address);
        if (taken < 0 && is_shortage(errno) && somebody_waits(acceptor)) {
            tell_shortage(acceptor, TRUE);
            acceptor->ops->make_room(acceptor->data);
            return look_later(acceptor);
        }
        if (taken < 0)
            break; /* nobody is there any more */
        tell_shortage(acceptor, FALSE);
        acceptor->ops->accepted(taken, &address, acceptor->data);
    }
    if (acceptor->spares->len < acceptor->reserve && !acceptor->timer)
        acceptor->timer = g_timeout_add(PAUSE_MS, on_timer, acceptor);
    return G_SOURCE_CONTINUE;
}

/* --- life --- */

WeftAcceptor *
weft_acceptor_new(const WeftAcceptorOptions *options, const WeftAcceptorOps *ops, gpointer data)
{
    WeftAcceptor *acceptor = g_new0(WeftAcceptor, 1);
    acceptor->fd = options->fd;
    acceptor->name = g_strdup(options->name);
    acceptor->reserve = options->reserve;
    acceptor->spares = g_array_new(FALSE, FALSE, sizeof(int));
    acceptor->ops = ops;
    acceptor->data = data;
    if (!refill(acceptor))
        g_warning("%s: cannot hold %u descriptors for it: %s", acceptor->name, acceptor->reserve, g_strerror(errno));
    acceptor->source = g_unix_fd_add(acceptor->fd, G_IO_IN, on_ready, acceptor);
    return acceptor;
}

void
weft_acceptor_free(WeftAcceptor *acceptor)
{
    if (!acceptor)
        return;
    g_clear_handle_id(&acceptor->source, g_source_remove);
    g_clear_handle_id(&acceptor->timer, g_source_remove);
    while (use_spare(acceptor))
        ;
    g_array_unref(acceptor->spares);
    close(acceptor->fd);
    g_free(acceptor->name);
    g_free(acceptor);
}
