#include "listener.h"

#include "accept.h"
#include "tls.h"

#include <unistd.h>

struct WeftListener {
    WeftListenerKind kind;
    WeftConnections *connections;
    WeftAcceptor *acceptor;
    WeftTls *tls;     /* NULL: none */
    WeftUsers *users; /* NULL: nobody has a name */
    WeftListenerReady ready;
    gpointer data;
};

/* --- to where HTTP begins --- */

static void
on_shaken(WeftConnection *connection, int fd, gpointer data)
{
    WeftListener *listener = data;
    weft_connection_waits(connection);
    listener->ready(weft_connection_ref(connection), fd, listener->data);
}

typedef struct {
    WeftListener *listener;
    WeftConnection *connection;
} Nameless;

static void
on_named(const char *name, gpointer data)
{
    g_autofree Nameless *nameless = data;
    WeftConnection *connection = nameless->connection;
    connection->peer->user = g_strdup(name);
    weft_connection_waits(connection);
    nameless->listener->ready(connection, connection->fd, nameless->listener->data);
}

static void
prepare(WeftListener *listener, WeftConnection *connection)
{
    if (listener->tls) {
        weft_tls_begin(listener->tls, connection);
        weft_connection_unref(connection);
        return;
    }
    Nameless *nameless = g_new(Nameless, 1);
    *nameless = (Nameless){ listener, connection };
    weft_users_find(listener->users, connection->peer->uid, on_named, nameless);
}

/* --- letting in --- */

static gboolean
has_room(gpointer data)
{
    const WeftListener *listener = data;
    if (weft_connections_is_crowded(listener->connections))
        return FALSE;
    return listener->kind != WEFT_LISTENER_ADMINS || !weft_connections_is_full(listener->connections);
}

static void
make_room(gpointer data)
{
    weft_connections_give_up_one(((WeftListener *)data)->connections);
}

static void
on_accepted(int fd, const struct sockaddr_storage *address, gpointer data)
{
    WeftListener *listener = data;
    WeftPeer *peer = weft_peer_new(fd, address);
    if (peer && listener->kind == WEFT_LISTENER_ADMINS && !weft_peer_is_admin(peer))
        g_clear_pointer(&peer, weft_peer_free);
    WeftConnection *connection = peer ? weft_connection_new(listener->connections, fd, peer) : NULL;
    if (connection)
        prepare(listener, connection);
    else
        close(fd);
}

static const WeftAcceptorOps acceptor_ops = { .has_room = has_room, .make_room = make_room, .accepted = on_accepted };

/* --- life --- */

static gboolean
is_reserved(WeftListenerKind kind)
{
    return kind == WEFT_LISTENER_ADMINS;
}

WeftListener *
weft_listener_new(const WeftListenerOptions *options, WeftListenerReady ready, gpointer data)
{
    WeftListener *listener = g_new0(WeftListener, 1);
    WeftAcceptorOptions accept = {
        .fd = options->fd,
        .reserve = is_reserved(options->kind) ? options->limits.all : 0,
        .name = options->name,
    };
    listener->kind = options->kind;
    listener->users = options->users;
    listener->ready = ready;
    listener->data = data;
    listener->connections = weft_connections_new(&options->limits, &options->times);
    listener->acceptor = weft_acceptor_new(&accept, &acceptor_ops, listener);
    if (options->kind == WEFT_LISTENER_TLS)
        listener->tls = weft_tls_new(options->certificates, on_shaken, listener);
    return listener;
}

void
weft_listener_stop(WeftListener *listener)
{
    g_clear_pointer(&listener->acceptor, weft_acceptor_free);
}

void
weft_listener_free(WeftListener *listener)
{
    if (!listener)
        return;
    weft_listener_stop(listener);
    weft_tls_free(listener->tls);
    weft_connections_free(listener->connections);
    g_free(listener);
}

guint
weft_listener_descriptors(WeftListenerKind kind, guint seats)
{
    guint each = kind == WEFT_LISTENER_TLS ? WEFT_TLS_DESCRIPTORS : 1;
    return weft_connections_open_max(seats) * each + (is_reserved(kind) ? seats : 0);
}
