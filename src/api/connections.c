#include "connections.h"

#include <sys/socket.h>

#define LOOKS 4 /* in the time of the patience */

struct WeftConnections {
    guint per_user;
    gint64 patience;
    guint timer;
    GHashTable *all;   /* WeftConnection */
    GHashTable *users; /* uid → how many */
};

static gboolean
end_late(gpointer data)
{
    WeftConnections *connections = data;
    gint64 limit = g_get_monotonic_time() - connections->patience;
    GHashTableIter iter;
    gpointer key;
    g_hash_table_iter_init(&iter, connections->all);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        const WeftConnection *connection = key;
        if (connection->since && connection->since < limit)
            shutdown(connection->fd, SHUT_RDWR);
    }
    return G_SOURCE_CONTINUE;
}

WeftConnections *
weft_connections_new(guint per_user, gint64 patience)
{
    WeftConnections *connections = g_new0(WeftConnections, 1);
    connections->per_user = per_user;
    connections->patience = patience;
    connections->all = g_hash_table_new(NULL, NULL);
    connections->users = g_hash_table_new(NULL, NULL);
    connections->timer = g_timeout_add((guint)CLAMP(patience / LOOKS / 1000, 10, G_MAXINT), end_late, connections);
    return connections;
}

void
weft_connections_free(WeftConnections *connections)
{
    if (!connections)
        return;
    g_source_remove(connections->timer);
    g_hash_table_unref(connections->all);
    g_hash_table_unref(connections->users);
    g_free(connections);
}

/* Admins have to get in whatever happens. */
static gboolean
is_counted(const WeftConnection *connection)
{
    return connection->peer->local && !weft_peer_is_admin(connection->peer);
}

static guint
count(const WeftConnection *connection, int change)
{
    gpointer user = GUINT_TO_POINTER(connection->peer->uid);
    guint n = GPOINTER_TO_UINT(g_hash_table_lookup(connection->all->users, user)) + (guint)change;
    if (n)
        g_hash_table_insert(connection->all->users, user, GUINT_TO_POINTER(n));
    else
        g_hash_table_remove(connection->all->users, user);
    return n;
}

WeftConnection *
weft_connection_new(WeftConnections *connections, int fd, gboolean local)
{
    WeftConnection *connection = g_new0(WeftConnection, 1);
    connection->all = connections;
    connection->fd = fd;
    connection->peer = weft_peer_new(fd, local);
    weft_connection_waits(connection);
    g_hash_table_add(connections->all, connection);
    if (is_counted(connection) && count(connection, 1) > connections->per_user)
        shutdown(fd, SHUT_RDWR);
    return connection;
}

void
weft_connection_free(WeftConnection *connection)
{
    if (is_counted(connection))
        count(connection, -1);
    g_hash_table_remove(connection->all->all, connection);
    weft_peer_free(connection->peer);
    g_free(connection);
}

void
weft_connection_waits(WeftConnection *connection)
{
    connection->since = g_get_monotonic_time();
}

void
weft_connection_has_request(WeftConnection *connection)
{
    connection->since = 0;
}
