#include "connections.h"

#define HEARD_TIME G_USEC_PER_SEC
/* Who takes an answer more slowly may have to go for others of its party. */
#define ANSWER_TIME G_USEC_PER_SEC
#define ANSWER_BYTES_PER_USEC 1
#define LOOKS 4 /* in the shortest time that there is */

struct WeftConnections {
    WeftSeatLimits limits;
    WeftConnectionTimes times;
    guint timer;
    guint open;          /* those without a seat too */
    GPtrArray *seats;    /* WeftSeat, each in its WeftConnection */
    GHashTable *parties; /* name → WeftParty */
};

static WeftConnection *
connection_of(WeftSeat *seat)
{
    return (WeftConnection *)((char *)seat - G_STRUCT_OFFSET(WeftConnection, seat));
}

/* --- parties --- */

static void
party_free(gpointer data)
{
    WeftParty *party = data;
    g_free(party->name);
    g_free(party);
}

static WeftParty *
party_of(WeftConnections *connections, const WeftPeer *peer)
{
    WeftParty *party = g_hash_table_lookup(connections->parties, peer->party);
    if (!party) {
        party = g_new0(WeftParty, 1);
        party->name = g_strdup(peer->party);
        party->trusted = weft_peer_is_admin(peer);
        g_hash_table_insert(connections->parties, party->name, party);
    }
    return party;
}

static void
forget_absent(WeftConnections *connections, WeftParty *party)
{
    if (!party->open)
        g_hash_table_remove(connections->parties, party->name);
}

/* --- seats --- */

static void
take_seat(WeftConnection *connection, WeftParty *party)
{
    connection->seat.party = party;
    connection->seat.stage = party->trusted ? WEFT_STAGE_IDLE : WEFT_STAGE_STRANGER;
    connection->known = party->trusted;
    connection->seated = TRUE;
    party->seats++;
    party->strangers += !party->trusted;
    g_ptr_array_add(connection->all->seats, &connection->seat);
}

static void
leave_seat(WeftConnection *connection)
{
    if (!connection->seated)
        return;
    WeftParty *party = connection->seat.party;
    connection->seated = FALSE;
    connection->deadline = 0;
    g_ptr_array_remove_fast(connection->all->seats, &connection->seat);
    party->seats--;
    party->strangers -= connection->seat.stage == WEFT_STAGE_STRANGER;
}

static void
shut(WeftConnection *connection)
{
    g_debug("connection of %s: given up", connection->peer->party);
    leave_seat(connection);
    g_atomic_int_set(&connection->given_up, TRUE);
    if (connection->fd >= 0)
        shutdown(connection->fd, SHUT_RDWR);
}

static gboolean
end_late(gpointer data)
{
    WeftConnections *connections = data;
    gint64 now = g_get_monotonic_time();
    for (guint i = connections->seats->len; i > 0; i--) {
        WeftConnection *connection = connection_of(connections->seats->pdata[i - 1]);
        if (connection->deadline && connection->deadline <= now)
            shut(connection);
    }
    return G_SOURCE_CONTINUE;
}

/* --- life --- */

WeftConnections *
weft_connections_new(const WeftSeatLimits *limits, const WeftConnectionTimes *times)
{
    WeftConnections *connections = g_new0(WeftConnections, 1);
    connections->limits = *limits;
    connections->times = *times;
    connections->seats = g_ptr_array_new();
    connections->parties = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, party_free);
    gint64 shortest = MIN(MIN(times->handshake, times->head), MIN(times->body, times->answer));
    connections->timer = g_timeout_add((guint)CLAMP(shortest / LOOKS / 1000, 10, G_MAXINT), end_late, connections);
    return connections;
}

void
weft_connections_free(WeftConnections *connections)
{
    if (!connections)
        return;
    g_assert(connections->open == 0);
    g_source_remove(connections->timer);
    g_ptr_array_unref(connections->seats);
    g_hash_table_unref(connections->parties);
    g_free(connections);
}

WeftConnection *
weft_connection_new(WeftConnections *connections, int fd, WeftPeer *peer)
{
    WeftParty *party = party_of(connections, peer);
    const WeftNewcomer newcomer = { party, g_get_monotonic_time(), g_random_int() };
    WeftSeat *victim;
    if (!weft_admission_decide(&connections->limits, connections->seats, &newcomer, &victim)) {
        g_debug("connection of %s: refused", peer->party);
        forget_absent(connections, party);
        weft_peer_free(peer);
        return NULL;
    }
    WeftConnection *connection = g_new0(WeftConnection, 1);
    g_ref_count_init(&connection->references);
    connection->all = connections;
    connection->fd = fd;
    connection->peer = peer;
    connection->seat.since = g_get_monotonic_time();
    connection->deadline = connection->seat.since + connections->times.handshake;
    connections->open++;
    party->open++;
    take_seat(connection, party); /* before the victim goes: its party may be the same */
    if (victim)
        shut(connection_of(victim));
    return connection;
}

WeftConnection *
weft_connection_ref(WeftConnection *connection)
{
    g_ref_count_inc(&connection->references);
    return connection;
}

void
weft_connection_unref(WeftConnection *connection)
{
    if (!connection || !g_ref_count_dec(&connection->references))
        return;
    leave_seat(connection);
    connection->all->open--;
    connection->seat.party->open--;
    forget_absent(connection->all, connection->seat.party);
    weft_peer_free(connection->peer);
    g_free(connection);
}

guint
weft_connections_open_max(guint seats)
{
    return seats + seats / 4 + 4;
}

gboolean
weft_connections_is_crowded(const WeftConnections *connections)
{
    return connections->open >= weft_connections_open_max(connections->limits.all);
}

gboolean
weft_connections_is_full(const WeftConnections *connections)
{
    gint64 heard = g_get_monotonic_time() - HEARD_TIME;
    if (connections->seats->len < connections->limits.all)
        return FALSE;
    for (guint i = 0; i < connections->seats->len; i++) {
        const WeftSeat *seat = connections->seats->pdata[i];
        if (seat->stage <= WEFT_STAGE_IDLE && seat->since < heard)
            return FALSE;
    }
    return TRUE;
}

void
weft_connections_give_up_one(WeftConnections *connections)
{
    const WeftSeatLimits full = { .strangers = G_MAXUINT }; /* known or not: who has the most gives up one */
    const WeftParty party = { .trusted = TRUE };
    const WeftNewcomer newcomer = { &party, g_get_monotonic_time(), g_random_int() };
    WeftSeat *victim;
    if (weft_admission_decide(&full, connections->seats, &newcomer, &victim))
        shut(connection_of(victim));
}

/* --- how far it is --- */

void
weft_connection_is_heard(WeftConnection *connection)
{
    g_atomic_int_set(&connection->seat.heard, TRUE);
}

static void
enter(WeftConnection *connection, WeftStage stage, gint64 time)
{
    gint64 now = g_get_monotonic_time();
    if (!connection->seated)
        return;
    connection->deadline = time ? now + time : 0;
    if (!connection->known)
        return; /* a stranger stays one, as old as it is, whatever it asked for */
    connection->seat.party->strangers -= connection->seat.stage == WEFT_STAGE_STRANGER;
    connection->seat.stage = stage;
    connection->seat.since = now;
}

void
weft_connection_waits(WeftConnection *connection)
{
    enter(connection, WEFT_STAGE_IDLE, connection->all->times.head);
}

void
weft_connection_has_head(WeftConnection *connection, gboolean known)
{
    connection->known |= known;
    enter(connection, WEFT_STAGE_IDLE, connection->all->times.body);
}

void
weft_connection_has_request(WeftConnection *connection)
{
    if (connection->known)
        enter(connection, WEFT_STAGE_BUSY, 0);
}

void
weft_connection_has_answer(WeftConnection *connection, guint64 size)
{
    connection->seat.slow = g_get_monotonic_time() + ANSWER_TIME + (gint64)(size / ANSWER_BYTES_PER_USEC);
    enter(connection, WEFT_STAGE_ANSWERED, connection->all->times.answer);
}

gboolean
weft_connection_may_last(const WeftConnection *connection)
{
    return connection->all->times.open;
}

gint64
weft_connection_take_time(WeftConnection *connection)
{
    gint64 time = connection->time;
    connection->time = 0;
    return time;
}

void
weft_connection_closed(WeftConnection *connection)
{
    connection->fd = -1;
}
