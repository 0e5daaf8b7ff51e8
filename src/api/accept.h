/* Takes connections from a listening socket, a few in each turn of the main loop. Where there are no descriptors, or no room,
 * it does not look at the socket for a moment: those who come wait in its queue. thread: main. */
#pragma once

#include <glib.h>
#include <sys/socket.h>

typedef struct WeftAcceptor WeftAcceptor;

typedef struct WeftAcceptorOps {
    gboolean (*has_room)(gpointer data);
    /* There are no descriptors left: one that is worth less could be closed. */
    void (*make_room)(gpointer data);
    /* fd, which does not block, is the callee's. */
    void (*accepted)(int fd, const struct sockaddr_storage *address, gpointer data);
} WeftAcceptorOps;

typedef struct WeftAcceptorOptions {
    int fd;        /* bound and listening, does not block; taken over */
    guint reserve; /* descriptors that are held for this socket alone, and used when there are no others */
    const char *name;
} WeftAcceptorOptions;

WeftAcceptor *weft_acceptor_new(const WeftAcceptorOptions *options, const WeftAcceptorOps *ops, gpointer data);
/* NULL is fine. */
void weft_acceptor_free(WeftAcceptor *acceptor);
