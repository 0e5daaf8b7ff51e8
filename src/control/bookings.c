#include "turns.h"

#include "clock-trust.h"
#include "clock.h"
#include "text.h"

#define NAMED_MAX 5
#define PAUSE_MAX (60 * G_USEC_PER_SEC)
#define HELD_PAUSE G_USEC_PER_SEC /* none begins as long as the clock is held */

typedef struct Booking {
    WeftReservation *reservation;
    gint64 revision;
} Booking;

struct WeftBookings {
    WeftTurns *turns;
    GArray *all;        /* Booking */
    guint timer;        /* until the next begins */
    gboolean begun_too; /* those that a weftd before this one began are to be looked at, too */
};

static void
booking_clear(gpointer data)
{
    weft_reservation_free(((Booking *)data)->reservation);
}

/* --- who is in the way --- */

/* Keys of clusters (char *) that have nodes on its hosts, and are not its tenant's. */
static GHashTable *
list_others(WeftStore *store, const WeftReservation *reservation)
{
    GHashTable *keys = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; reservation->hosts[i]; i++) {
        WeftQuery query = { .kind = WEFT_KIND_NODE, .place = reservation->hosts[i] };
        g_autoptr(GPtrArray) records = weft_store_list(store, &query, NULL);
        for (guint j = 0; records && j < records->len; j++) {
            g_autoptr(WeftNode) node = weft_record_node(records->pdata[j], NULL);
            if (node && g_strcmp0(node->tenant, reservation->tenant) != 0)
                g_hash_table_add(keys, weft_cluster_key(node->tenant, node->cluster_name));
        }
    }
    return keys;
}

/* Sends away who gives way; the others (borrowed keys) stay. */
static GPtrArray *
clear_hosts(WeftControl *control, GHashTable *keys)
{
    GPtrArray *stay = g_ptr_array_new();
    GHashTableIter iter;
    gpointer key;
    g_hash_table_iter_init(&iter, keys);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        g_autoptr(WeftCluster) cluster = weft_store_load_cluster(control->store, key, NULL, NULL);
        if (cluster && cluster->preemptible && weft_turns_can_stop(control->turns, key))
            weft_control_preempt(control, key, "it gave way to a reservation of its hosts, and waits for room again");
        else if (cluster && !cluster->deleted)
            g_ptr_array_add(stay, key);
    }
    return stay;
}

static char *
describe(const WeftReservation *reservation, GPtrArray *stay)
{
    if (stay->len == 0)
        return g_strdup_printf("reservation %s has begun, and nobody else is on its hosts", reservation->name);
    g_autofree char *clusters = weft_text_count(stay->len, "cluster");
    guint shown = MIN(stay->len, NAMED_MAX);
    GString *names = g_string_new(NULL);
    for (guint i = 0; i < shown; i++)
        g_string_append_printf(names, "%s%s", i ? ", " : "", (const char *)stay->pdata[i]);
    char *text = g_strdup_printf("reservation %s has begun, with %s of others still on its hosts: %s%s; remove them, or move "
                                 "them with: weft drain --evict",
                                 reservation->name, clusters, names->str, stay->len > shown ? ", …" : "");
    g_string_free(names, TRUE);
    return text;
}

/* --- as they begin --- */

/* Told once; who gives way is sent away again after a restart, should that not have come to its end. */
static void
begin(WeftBookings *bookings, Booking *booking)
{
    WeftControl *control = bookings->turns->control;
    WeftReservation *reservation = booking->reservation;
    g_autoptr(GHashTable) keys = list_others(control->store, reservation);
    g_autoptr(GPtrArray) stay = clear_hosts(control, keys);
    if (reservation->begun)
        return;
    g_autofree char *text = describe(reservation, stay);
    reservation->begun = TRUE;
    WeftTxn *txn = weft_txn_new("reservation-begun");
    weft_txn_put_reservation(txn, reservation, booking->revision);
    weft_txn_tell(txn, "reservation-begun", NULL, NULL, "%s", text);
    weft_control_commit_quietly(control, txn);
}

static gboolean begin_due(gpointer data);

/* When the next one begins; those that are due have begun. */
static gint64
begin_all(WeftBookings *bookings, gint64 now)
{
    gint64 next = G_MAXINT64;
    for (guint i = 0; i < bookings->all->len; i++) {
        Booking *booking = &g_array_index(bookings->all, Booking, i);
        const WeftReservation *reservation = booking->reservation;
        if (reservation->start > now)
            next = MIN(next, reservation->start);
        else if (reservation->end > now && (bookings->begun_too || !reservation->begun))
            begin(bookings, booking);
    }
    bookings->begun_too = FALSE;
    return next;
}

/* Who is to give way has to be saved: what holds its hosts must be known. */
static gboolean
is_too_early(const WeftBookings *bookings)
{
    const WeftHosts *hosts = bookings->turns->control->hosts;
    return weft_clock_is_held() || !hosts || !weft_hosts_are_looked_at(hosts);
}

static void
look(WeftBookings *bookings)
{
    gint64 now = weft_clock_now();
    gint64 next = is_too_early(bookings) ? now + HELD_PAUSE : begin_all(bookings, now);
    g_clear_handle_id(&bookings->timer, g_source_remove);
    if (next != G_MAXINT64)
        bookings->timer = g_timeout_add((guint)(MIN(next - now, PAUSE_MAX) / 1000 + 1), begin_due, bookings);
}

static gboolean
begin_due(gpointer data)
{
    WeftBookings *bookings = data;
    bookings->timer = 0;
    look(bookings);
    return G_SOURCE_REMOVE;
}

/* --- reading --- */

static void
tell_queue(WeftBookings *bookings)
{
    g_autoptr(GArray) told = g_array_new(FALSE, FALSE, sizeof(WeftBooking));
    for (guint i = 0; i < bookings->all->len; i++) {
        const WeftReservation *r = g_array_index(bookings->all, Booking, i).reservation;
        WeftBooking booking = { r->name, r->tenant, r->start, r->end, r->hosts };
        g_array_append_val(told, booking);
    }
    weft_queue_worker_book(bookings->turns->worker, (const WeftBooking *)(gpointer)told->data, told->len);
    weft_turns_wake(bookings->turns);
}

static gboolean
read_all(WeftBookings *bookings, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_RESERVATION };
    g_autoptr(GPtrArray) records = weft_store_list(bookings->turns->control->store, &query, error);
    if (!records)
        return FALSE;
    g_array_set_size(bookings->all, 0);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        Booking booking = { weft_record_reservation(record, error), record->revision };
        if (!booking.reservation)
            return FALSE;
        g_array_append_val(bookings->all, booking);
    }
    tell_queue(bookings);
    return TRUE;
}

gboolean
weft_bookings_load(WeftTurns *turns, GError **error)
{
    WeftBookings *bookings = turns->bookings = g_new0(WeftBookings, 1);
    bookings->turns = turns;
    bookings->all = g_array_new(FALSE, FALSE, sizeof(Booking));
    g_array_set_clear_func(bookings->all, booking_clear);
    if (!read_all(bookings, error))
        return FALSE;
    bookings->begun_too = TRUE;
    look(bookings);
    return TRUE;
}

void
weft_bookings_changed(WeftTurns *turns)
{
    g_autoptr(GError) error = NULL;
    if (read_all(turns->bookings, &error))
        look(turns->bookings);
    else
        g_warning("reservations cannot be read: %s", error->message);
}

void
weft_bookings_clear_again(WeftTurns *turns)
{
    turns->bookings->begun_too = TRUE;
    look(turns->bookings);
}

void
weft_bookings_free(WeftBookings *bookings)
{
    if (!bookings)
        return;
    g_clear_handle_id(&bookings->timer, g_source_remove);
    g_array_unref(bookings->all);
    g_free(bookings);
}

/* --- asking --- */

void
weft_bookings_add(const WeftTurns *turns, const char *tenant, GHashTable *hosts)
{
    gint64 now = weft_clock_now();
    for (guint i = 0; i < turns->bookings->all->len; i++) {
        const WeftReservation *reservation = g_array_index(turns->bookings->all, Booking, i).reservation;
        for (guint h = 0; weft_reservation_bars(reservation, tenant, now) && reservation->hosts[h]; h++)
            g_hash_table_add(hosts, g_strdup(reservation->hosts[h]));
    }
}

void
weft_bookings_prune(WeftTurns *turns, WeftTxn *txn)
{
    gint64 now = weft_clock_now();
    for (guint i = 0; i < turns->bookings->all->len; i++) {
        const WeftReservation *reservation = g_array_index(turns->bookings->all, Booking, i).reservation;
        if (reservation->end > now)
            continue;
        weft_txn_delete(txn, WEFT_KIND_RESERVATION, reservation->name, WEFT_ANY);
        weft_txn_tell(txn, "reservation-ended", NULL, NULL, "reservation %s is over", reservation->name);
    }
}
