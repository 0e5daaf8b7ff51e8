#include "hangups.h"

#include <glib-unix.h>
#include <sys/epoll.h>
#include <unistd.h>

#define AT_ONCE 64

struct WeftHangups {
    int epoll; /* -1: there was no descriptor for it, and hang-ups are found out late */
    guint source;
    WeftHungUp hung_up;
    GHashTable *watched; /* fd → data: what is forgotten in a callback must not be called in the same turn */
};

static gboolean
on_events(int fd, GIOCondition condition, gpointer data)
{
    WeftHangups *hangups = data;
    struct epoll_event events[AT_ONCE];
    int n = epoll_wait(fd, events, AT_ONCE, 0);
    for (int i = 0; i < n; i++) {
        gpointer key = GINT_TO_POINTER(events[i].data.fd), watcher = NULL;
        if (g_hash_table_steal_extended(hangups->watched, key, NULL, &watcher))
            hangups->hung_up(watcher);
    }
    return G_SOURCE_CONTINUE;
}

WeftHangups *
weft_hangups_new(WeftHungUp hung_up)
{
    WeftHangups *hangups = g_new0(WeftHangups, 1);
    hangups->hung_up = hung_up;
    hangups->watched = g_hash_table_new(NULL, NULL);
    hangups->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (hangups->epoll >= 0)
        hangups->source = g_unix_fd_add(hangups->epoll, G_IO_IN, on_events, hangups);
    return hangups;
}

void
weft_hangups_free(WeftHangups *hangups)
{
    if (!hangups)
        return;
    g_clear_handle_id(&hangups->source, g_source_remove);
    if (hangups->epoll >= 0)
        close(hangups->epoll);
    g_hash_table_unref(hangups->watched);
    g_free(hangups);
}

/* No events are asked for: that the other end is closed is always reported. */
void
weft_hangups_watch(WeftHangups *hangups, int fd, gpointer data)
{
    struct epoll_event event = { .events = EPOLLONESHOT, .data.fd = fd };
    if (hangups->epoll >= 0 && epoll_ctl(hangups->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        g_hash_table_insert(hangups->watched, GINT_TO_POINTER(fd), data);
}

void
weft_hangups_forget(WeftHangups *hangups, int fd)
{
    g_hash_table_remove(hangups->watched, GINT_TO_POINTER(fd));
    if (hangups->epoll >= 0)
        epoll_ctl(hangups->epoll, EPOLL_CTL_DEL, fd, NULL);
}
