#include "expiry.h"

#include "clock-trust.h"
#include "clock.h"
#include "control-private.h"
#include "errors.h"
#include "hosts.h"

#define PAUSE_MAX (60 * G_USEC_PER_SEC)
#define RETRY_AFTER G_USEC_PER_SEC
#define WAIT_PAUSE G_USEC_PER_SEC       /* nothing is done as long as all wait */
#define HELD_PAUSE (5 * G_USEC_PER_SEC) /* something of the cluster is held: it is asked again then, not told */
#define AT_ONCE 64                      /* clusters, before others have their turn */

typedef struct Entry {
    char *key;
    char *cluster; /* id */
    gint64 ends;
    gint64 due; /* when something is to be done: told beforehand, or ended */
} Entry;

struct WeftExpiry {
    WeftControl *control;
    GSequence *order;   /* Entry, by when they are due */
    GHashTable *by_key; /* GSequenceIter */
    guint timer;
};

static void
entry_free(gpointer data)
{
    Entry *entry = data;
    g_free(entry->key);
    g_free(entry->cluster);
    g_free(entry);
}

static int
compare(gconstpointer a, gconstpointer b, gpointer data)
{
    const Entry *x = a, *y = b;
    return x->due != y->due ? (x->due < y->due ? -1 : 1) : strcmp(x->key, y->key);
}

/* Nothing ends by a clock that is not known to be right; nor by a store that may be older than what runs: a cluster that gave
 * way and came back since has a later end. Hosts that were not looked at yet may know of one, and so may another weftd of this
 * site. */
static gboolean
all_wait(const WeftExpiry *expiry)
{
    const WeftHosts *hosts = expiry->control->hosts;
    return weft_clock_is_held() || !weft_hosts_are_looked_at(hosts) || hosts->n_rivals > 0;
}

static gboolean rang(gpointer data);

static void
set_timer(WeftExpiry *expiry)
{
    GSequenceIter *first = g_sequence_get_begin_iter(expiry->order);
    g_clear_handle_id(&expiry->timer, g_source_remove);
    if (g_sequence_iter_is_end(first))
        return;
    gint64 left = ((const Entry *)g_sequence_get(first))->due - weft_clock_now();
    gint64 least = all_wait(expiry) ? WAIT_PAUSE : 0;
    expiry->timer = g_timeout_add((guint)(CLAMP(left, least, PAUSE_MAX) / 1000 + 1), rang, expiry);
}

static void
set_due(WeftExpiry *expiry, GSequenceIter *iter, gint64 due)
{
    ((Entry *)g_sequence_get(iter))->due = due;
    g_sequence_sort_changed(iter, compare, NULL);
    set_timer(expiry);
}

/* --- what is due --- */

typedef struct Writing {
    WeftControl *control;
    char *key;
    gint64 ends;
} Writing;

/* Somebody else wrote the wish meanwhile, or the store could not: it is looked at again. */
static void
written(gint64 revision, const GError *error, gpointer data)
{
    g_autofree Writing *writing = data;
    g_autofree char *key = writing->key;
    WeftExpiry *expiry = writing->control->expiry;
    GSequenceIter *iter = g_hash_table_lookup(expiry->by_key, key);
    Entry *entry = iter ? g_sequence_get(iter) : NULL;
    if (!entry || entry->ends != writing->ends)
        return;
    if (!error) {
        weft_expiry_set(expiry, key, NULL);
        return;
    }
    if (!g_error_matches(error, WEFT_ERROR, WEFT_ERROR_CONFLICT))
        g_warning("cluster %s: its end cannot be written, trying again: %s", key, error->message);
    set_due(expiry, iter, weft_clock_now() + RETRY_AFTER);
}

static void
end(WeftExpiry *expiry, const Entry *entry, WeftCluster *cluster, gint64 revision)
{
    g_autofree char *walltime = weft_duration_format((gint64)cluster->walltime * G_USEC_PER_SEC);
    Writing writing = { expiry->control, g_strdup(entry->key), entry->ends };
    WeftTxn *txn = weft_txn_new("cluster-expired");
    cluster->deleted = TRUE;
    weft_txn_put_cluster(txn, cluster, NULL, revision);
    weft_txn_tell(txn, "cluster-expired", cluster, NULL, "its walltime of %s is over; it is removed", walltime);
    weft_control_commit(expiry->control, txn, written, g_memdup2(&writing, sizeof writing));
}

static void
warn(WeftExpiry *expiry, const Entry *entry, const WeftCluster *cluster)
{
    g_autofree char *left = weft_duration_format(expiry->control->options.expiry_warning);
    g_autofree char *ends = weft_clock_format(entry->ends);
    WeftTxn *txn = weft_txn_new("cluster-expiring");
    weft_txn_tell(txn, "cluster-expiring", cluster, NULL, "its walltime is over in %s, at %s; it is removed then", left, ends);
    weft_control_commit_quietly(expiry->control, txn);
}

static void
act(WeftExpiry *expiry, GSequenceIter *iter)
{
    g_autoptr(GError) error = NULL;
    gint64 revision;
    Entry *entry = g_sequence_get(iter);
    /* It may have another end by the nodes that are held; they say so when they are adopted. */
    if (entry->due >= entry->ends && weft_hosts_hold_cluster(expiry->control->hosts, entry->cluster)) {
        set_due(expiry, iter, weft_clock_now() + HELD_PAUSE);
        return;
    }
    g_autoptr(WeftCluster) cluster = weft_store_load_cluster(expiry->control->store, entry->key, &revision, &error);
    if (!cluster && !g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        set_due(expiry, iter, weft_clock_now() + RETRY_AFTER);
    } else if (!cluster || cluster->deleted) {
        weft_expiry_set(expiry, entry->key, NULL);
    } else if (entry->due < entry->ends) {
        warn(expiry, entry, cluster);
        set_due(expiry, iter, entry->ends);
    } else {
        end(expiry, entry, cluster, revision);
        set_due(expiry, iter, G_MAXINT64);
    }
}

static gboolean
rang(gpointer data)
{
    WeftExpiry *expiry = data;
    expiry->timer = 0;
    for (guint i = 0; i < AT_ONCE; i++) {
        GSequenceIter *first = g_sequence_get_begin_iter(expiry->order);
        if (all_wait(expiry) || g_sequence_iter_is_end(first) || ((const Entry *)g_sequence_get(first))->due > weft_clock_now())
            break;
        act(expiry, first);
    }
    set_timer(expiry);
    return G_SOURCE_REMOVE;
}

/* --- what ends when --- */

/* A warning is for those that live much longer than it, and told by whoever sees the moment: never twice. */
static gint64
first_due(const WeftExpiry *expiry, const WeftClusterStatus *status)
{
    gint64 before = expiry->control->options.expiry_warning, warning = status->ends - before;
    gboolean warned = status->ends - status->placed > 2 * before && warning > weft_clock_now();
    return warned ? warning : status->ends;
}

void
weft_expiry_set(WeftExpiry *expiry, const char *key, const WeftClusterStatus *status)
{
    gint64 ends = status ? status->ends : 0;
    GSequenceIter *iter = g_hash_table_lookup(expiry->by_key, key);
    const Entry *known = iter ? g_sequence_get(iter) : NULL;
    if (known ? known->ends == ends : ends == 0)
        return;
    if (known) {
        g_hash_table_remove(expiry->by_key, known->key);
        g_sequence_remove(iter);
    }
    if (ends) {
        Entry *entry = g_new0(Entry, 1);
        *entry = (Entry){
            .key = g_strdup(key), .cluster = g_strdup(status->cluster), .ends = ends, .due = first_due(expiry, status)
        };
        g_hash_table_insert(expiry->by_key, entry->key, g_sequence_insert_sorted(expiry->order, entry, compare, NULL));
    }
    set_timer(expiry);
}

/* --- another clock --- */

typedef struct Shift {
    WeftTxn *txn;
    gint64 since, by;
} Shift;

/* Records have no times before 1970. */
static gint64
moved(const Shift *shift, gint64 time)
{
    return MAX(time + shift->by, 1);
}

static gboolean
shift_cluster(const Shift *shift, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftClusterStatus) status = weft_record_cluster_status(record, error);
    if (!status || !status->ends || status->placed < shift->since)
        return status != NULL;
    status->placed = moved(shift, status->placed);
    status->ends = moved(shift, status->ends);
    weft_txn_put_cluster_status(shift->txn, status, record->revision);
    return TRUE;
}

static gboolean
shift_token(const Shift *shift, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftToken) token = weft_record_token(record, error);
    if (!token || !token->expires || token->created < shift->since)
        return token != NULL;
    token->created = moved(shift, token->created);
    token->expires = moved(shift, token->expires);
    weft_txn_put_token(shift->txn, token, record->revision);
    return TRUE;
}

/* One that has not begun names a day of the calendar, and that is right by the clock that is right now. */
static gboolean
shift_reservation(const Shift *shift, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftReservation) reservation = weft_record_reservation(record, error);
    if (!reservation || !reservation->begun || reservation->start < shift->since)
        return reservation != NULL;
    reservation->start = moved(shift, reservation->start);
    reservation->end = moved(shift, reservation->end);
    weft_txn_put_reservation(shift->txn, reservation, record->revision);
    return TRUE;
}

/* What began, and has a length: what is left of it is not changed by another clock. */
static const struct {
    WeftKind kind;
    gboolean (*shift)(const Shift *shift, const WeftRecord *record, GError **error);
} shifted[] = {
    { WEFT_KIND_CLUSTER_STATUS, shift_cluster },
    { WEFT_KIND_TOKEN, shift_token },
    { WEFT_KIND_RESERVATION, shift_reservation },
};

gboolean
weft_expiry_shift(WeftExpiry *expiry, WeftTxn *txn, gint64 since, gint64 by, GError **error)
{
    Shift shift = { txn, since, by };
    for (gsize k = 0; k < G_N_ELEMENTS(shifted); k++) {
        g_autoptr(GPtrArray) records = weft_store_list(expiry->control->store, &(WeftQuery){ .kind = shifted[k].kind }, error);
        if (!records)
            return FALSE;
        for (guint i = 0; i < records->len; i++)
            if (!shifted[k].shift(&shift, records->pdata[i], error))
                return FALSE;
    }
    return TRUE;
}

void
weft_expiry_shifted(WeftExpiry *expiry, gint64 revision)
{
    g_autoptr(GList) keys = g_hash_table_get_keys(expiry->by_key);
    for (GList *link = keys; link; link = link->next) {
        g_autofree char *key = g_strdup(link->data);
        g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(expiry->control->store, key, NULL, NULL);
        if (!status)
            continue;
        weft_control_end_changed(expiry->control, key, status, revision);
        weft_expiry_set(expiry, key, status);
    }
    g_clear_handle_id(&expiry->timer, g_source_remove);
    expiry->timer = g_idle_add(rang, expiry);
}

/* --- life --- */

static gboolean
load(WeftExpiry *expiry, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_CLUSTER_STATUS };
    g_autoptr(GPtrArray) records = weft_store_list(expiry->control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        g_autoptr(WeftClusterStatus) status = weft_record_cluster_status(record, error);
        if (!status)
            return FALSE;
        weft_expiry_set(expiry, record->key, status);
    }
    return records != NULL;
}

WeftExpiry *
weft_expiry_new(WeftControl *control, GError **error)
{
    WeftExpiry *expiry = g_new0(WeftExpiry, 1);
    expiry->control = control;
    expiry->order = g_sequence_new(entry_free);
    expiry->by_key = g_hash_table_new(g_str_hash, g_str_equal);
    if (load(expiry, error))
        return expiry;
    weft_expiry_free(expiry);
    return NULL;
}

void
weft_expiry_free(WeftExpiry *expiry)
{
    if (!expiry)
        return;
    g_clear_handle_id(&expiry->timer, g_source_remove);
    g_hash_table_unref(expiry->by_key);
    g_sequence_free(expiry->order);
    g_free(expiry);
}
