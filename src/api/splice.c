#include "splice.h"

#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCK (32 * 1024)
#define EVENTS_MAX 64 /* in one turn of the main loop */

enum { NEAR, FAR, SIDES };

struct WeftSplices {
    int epoll;
    GSource *source;
    guint8 block[BLOCK]; /* every read goes through here */
};

typedef struct {
    WeftSplice *splice;
    int fd;
    const WeftSpliceIo *io; /* NULL: plain */
    gpointer io_data;
    guint32 mask; /* what epoll is asked for; 0: it does not know the descriptor */
} Side;

struct WeftSplice {
    WeftSplices *splices;
    Side sides[SIDES];
    gboolean whole;
    GByteArray *rest[SIDES]; /* read from that side, not yet taken by the other; NULL: nothing */
    gboolean over[SIDES];    /* that side says nothing more */
    gboolean deaf;           /* the far side takes nothing more */
    gboolean gone;           /* it has ended: nothing is moved any more */
    WeftSpliceEnded ended;
    gpointer data;
};

/* --- what epoll is asked for --- */

static void
ask_for(Side *side, guint32 mask)
{
    if (mask == side->mask)
        return;
    struct epoll_event event = { .events = mask, .data.ptr = side };
    int operation = !mask ? EPOLL_CTL_DEL : side->mask ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(side->splice->splices->epoll, operation, side->fd, &event) != 0)
        g_warning("cannot watch descriptor %d: %s", side->fd, g_strerror(errno));
    side->mask = mask;
}

/* A side that is neither to be read nor written is not watched at all: its end would be told again and again. */
static void
ask_for_both(WeftSplice *splice)
{
    for (guint i = 0; i < SIDES; i++) {
        gboolean reads = !splice->gone && !splice->rest[i] && !splice->over[i];
        gboolean writes = !splice->gone && splice->rest[SIDES - 1 - i];
        ask_for(&splice->sides[i], (reads ? EPOLLIN : 0) | (writes ? EPOLLOUT : 0));
    }
}

static void
end(WeftSplice *splice)
{
    splice->gone = TRUE;
    ask_for_both(splice);
    splice->ended(splice->data);
}

/* --- moving --- */

static gboolean
is_transient(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static gssize
read_from(const Side *side, void *bytes, gsize size)
{
    return side->io ? side->io->read(side->fd, side->io_data, bytes, size) : read(side->fd, bytes, size);
}

static gssize
write_to(const Side *side, const void *bytes, gsize size)
{
    return side->io ? side->io->write(side->fd, side->io_data, bytes, size) : write(side->fd, bytes, size);
}

/* What a far side that is gone has said before is still to be handed on: an exit status, say. */
static gboolean
go_deaf(WeftSplice *splice)
{
    splice->deaf = splice->over[NEAR] = TRUE;
    g_clear_pointer(&splice->rest[NEAR], g_byte_array_unref);
    return TRUE;
}

/* FALSE: the side that should take it is gone. */
static gboolean
hand_on(WeftSplice *splice, guint from, const guint8 *bytes, gsize size)
{
    gssize sent = write_to(&splice->sides[SIDES - 1 - from], bytes, size);
    if (sent < 0 && !is_transient())
        return from == NEAR && go_deaf(splice);
    gsize taken = (gsize)MAX(sent, 0);
    if (splice->rest[from] && taken == splice->rest[from]->len)
        g_clear_pointer(&splice->rest[from], g_byte_array_unref);
    else if (splice->rest[from])
        g_byte_array_remove_range(splice->rest[from], 0, (guint)taken);
    else if (taken < size)
        splice->rest[from] = g_byte_array_append(g_byte_array_new(), bytes + taken, (guint)(size - taken));
    return TRUE;
}

static gboolean
hung_up(int fd)
{
    struct pollfd look = { .fd = fd };
    return poll(&look, 1, 0) == 1 && (look.revents & (POLLHUP | POLLERR));
}

/* One side has ended, and all it said was handed on. FALSE: that is the end of the splice. */
static gboolean
tell_end(WeftSplice *splice, guint from)
{
    if (from == NEAR && splice->deaf)
        return TRUE;
    if (from == FAR || splice->whole || hung_up(splice->sides[NEAR].fd))
        return FALSE;
    shutdown(splice->sides[FAR].fd, SHUT_WR);
    return TRUE;
}

static gboolean
take(WeftSplice *splice, guint from)
{
    gssize size = read_from(&splice->sides[from], splice->splices->block, BLOCK);
    if (size < 0)
        return is_transient();
    if (size > 0)
        return hand_on(splice, from, splice->splices->block, (gsize)size);
    splice->over[from] = TRUE;
    return tell_end(splice, from);
}

static gboolean
flush(WeftSplice *splice, guint from)
{
    if (!hand_on(splice, from, splice->rest[from]->data, splice->rest[from]->len))
        return FALSE;
    return splice->rest[from] || !splice->over[from] || tell_end(splice, from);
}

static void
on_side(Side *side, guint32 events)
{
    WeftSplice *splice = side->splice;
    guint self = (guint)(side - splice->sides), other = SIDES - 1 - self;
    gboolean broken = events & (EPOLLHUP | EPOLLERR);
    gboolean goes_on = TRUE;
    if (splice->rest[other] && (broken || events & EPOLLOUT))
        goes_on = flush(splice, other);
    if (goes_on && !splice->rest[self] && !splice->over[self] && (broken || events & EPOLLIN))
        goes_on = take(splice, self);
    if (goes_on)
        ask_for_both(splice);
    else
        end(splice);
}

/* One event at a time: what it frees may have had another one. */
static gboolean
on_ready(int fd, GIOCondition condition, gpointer data)
{
    WeftSplices *splices = data;
    struct epoll_event event;
    for (guint i = 0; i < EVENTS_MAX && epoll_wait(splices->epoll, &event, 1, 0) == 1; i++)
        on_side(event.data.ptr, event.events);
    return G_SOURCE_CONTINUE;
}

/* --- life --- */

WeftSplices *
weft_splices_new(void)
{
    WeftSplices *splices = g_new0(WeftSplices, 1);
    splices->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (splices->epoll < 0)
        g_error("cannot make an epoll descriptor: %s", g_strerror(errno));
    splices->source = g_unix_fd_source_new(splices->epoll, G_IO_IN);
    g_source_set_callback(splices->source, G_SOURCE_FUNC(on_ready), splices, NULL);
    g_source_attach(splices->source, NULL);
    return splices;
}

void
weft_splices_free(WeftSplices *splices)
{
    if (!splices)
        return;
    g_source_destroy(splices->source);
    g_source_unref(splices->source);
    close(splices->epoll);
    g_free(splices);
}

WeftSplice *
weft_splice_new(WeftSplices *splices, const WeftSpliceEnds *ends, WeftSpliceEnded ended, gpointer data)
{
    WeftSplice *splice = g_new0(WeftSplice, 1);
    splice->splices = splices;
    splice->ended = ended;
    splice->data = data;
    splice->sides[NEAR] = (Side){ splice, ends->near, ends->near_io, ends->io, 0 };
    splice->sides[FAR] = (Side){ splice, ends->far, NULL, NULL, 0 };
    splice->whole = ends->whole;
    ask_for_both(splice);
    return splice;
}

void
weft_splice_begin(WeftSplice *splice, const void *bytes, gsize size)
{
    if (size)
        splice->rest[NEAR] = g_byte_array_append(g_byte_array_new(), bytes, (guint)size);
    ask_for_both(splice);
}

void
weft_splice_free(WeftSplice *splice)
{
    if (!splice)
        return;
    splice->gone = TRUE;
    ask_for_both(splice);
    for (guint i = 0; i < SIDES; i++)
        g_clear_pointer(&splice->rest[i], g_byte_array_unref);
    g_free(splice);
}
