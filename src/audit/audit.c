#include "audit.h"

#include "clock.h"
#include "outlet.h"
#include "reads.h"
#include "trail.h"
#include "waiting.h"
#include "wakeup.h"
#include "watchdog.h"

#define QUEUE_MAX 4096       /* entries that wait for a disk that does not answer */
#define RESERVED (64 * 1024) /* bytes of the last blocks of a full disk that are for operators and admins */
#define RETRY G_USEC_PER_SEC
#define SUMS_SECONDS 60
#define DIGEST_PREFIX "weft audit body\n"

typedef struct {
    json_t *fields;
    WeftAuditWritten written;
    gpointer data;
    gboolean kept;
} Entry;

struct WeftAudit {
    char *path;
    gboolean required;
    GBytes *secret;
    WeftRefusals *refusals;
    WeftReads *reads;
    guint timer; /* for its sums; 0: there are none */
    GSource *wakeup;
    WeftOutlet *outlet; /* NULL: none */
    GThread *thread;

    /* the thread's */
    WeftTrail *trail;
    gboolean behind; /* what was added is not all on the disk */

    GMutex mutex; /* over what follows */
    GCond cond;
    GCond idle;
    GQueue queue, ended;
    WeftWaiting *shares; /* of the queue */
    gboolean busy;       /* the thread has a batch */
    guint64 dropped;
    gboolean reopen;
    gboolean stopping;
    gboolean failing;
    guint64 left; /* bytes on a disk that is full; WEFT_TRAIL_ENOUGH: it is not */
};

static void
entry_free(gpointer data)
{
    Entry *entry = data;
    json_decref(entry->fields);
    g_free(entry);
}

json_t *
weft_audit_entry(const char *kind)
{
    g_autofree char *now = weft_clock_format(weft_clock_now());
    return json_pack("{s:s, s:s}", "time", now, "kind", kind);
}

/* The system's log has what the trail has no room for: without a number and hashes, as it is not in the chain. */
static void
tell_lost(WeftAudit *audit, const json_t *fields)
{
    if (!audit->outlet)
        return;
    json_auto_t *told = json_copy((json_t *)fields);
    json_object_set_new(told, "lost", json_true());
    char *line = json_dumps(told, JSON_COMPACT);
    weft_outlet_send(audit->outlet, line);
    free(line);
}

/* --- on the thread --- */

/* FALSE: it is counted, and in the trail by its number only. */
static gboolean
add(WeftAudit *audit, const json_t *fields)
{
    const char *line = weft_trail_add(audit->trail, fields);
    audit->behind = TRUE;
    if (line && audit->outlet)
        weft_outlet_send(audit->outlet, line);
    else if (!line)
        tell_lost(audit, fields);
    return line != NULL;
}

static void
add_dropped(WeftAudit *audit, guint64 dropped)
{
    json_t *fields = weft_audit_entry("lost");
    json_object_set_new(fields, "entries", json_integer((json_int_t)dropped));
    add(audit, fields);
    json_decref(fields);
}

/* Tells of a change of fortune once. */
static void
set_failing(WeftAudit *audit, const GError *error)
{
    guint64 left = weft_trail_left(audit->trail);
    g_mutex_lock(&audit->mutex);
    gboolean changed = audit->failing != (error != NULL);
    gboolean is_short = left != WEFT_TRAIL_ENOUGH && audit->left == WEFT_TRAIL_ENOUGH;
    audit->failing = error != NULL;
    audit->left = left;
    g_mutex_unlock(&audit->mutex);
    if (is_short)
        g_warning("the disk of the audit trail %s is full: %" G_GUINT64_FORMAT " bytes are left for it", audit->path, left);
    if (changed && error)
        g_warning("%s; entries wait in memory", error->message);
    else if (changed)
        g_message("the audit trail %s is written again", audit->path);
}

static gboolean
flush(WeftAudit *audit, gboolean reopen)
{
    g_autoptr(GError) error = NULL;
    if (audit->behind || weft_trail_left(audit->trail) != WEFT_TRAIL_ENOUGH)
        audit->behind = !weft_trail_flush(audit->trail, &error);
    if (!error && reopen && weft_trail_reopen(audit->trail, &error))
        audit->behind = !weft_trail_flush(audit->trail, &error);
    set_failing(audit, error);
    return error == NULL;
}

/* With the mutex. Returns FALSE when there is nothing more to do. */
static gboolean
await(WeftAudit *audit)
{
    gint64 retry = g_get_monotonic_time() + RETRY;
    while (!audit->queue.length && !audit->stopping && (!audit->reopen || audit->failing)) {
        if (!audit->failing && audit->left == WEFT_TRAIL_ENOUGH)
            g_cond_wait(&audit->cond, &audit->mutex);
        else if (!g_cond_wait_until(&audit->cond, &audit->mutex, retry))
            return TRUE;
    }
    return !audit->stopping || audit->queue.length;
}

static void
take_turn(WeftAudit *audit, GQueue *batch, guint64 dropped, gboolean reopen)
{
    if (dropped)
        add_dropped(audit, dropped);
    for (GList *item = batch->head; item; item = item->next) {
        Entry *entry = item->data;
        entry->kept = add(audit, entry->fields);
    }
    gboolean is_synced = flush(audit, reopen);
    for (GList *item = batch->head; item; item = item->next)
        ((Entry *)item->data)->kept &= is_synced;
}

static void
steal(GQueue *from, GQueue *to)
{
    for (gpointer entry; (entry = g_queue_pop_head(from));)
        g_queue_push_tail(to, entry);
}

static gpointer
work(gpointer data)
{
    WeftAudit *audit = data;
    g_mutex_lock(&audit->mutex);
    while (await(audit)) {
        GQueue batch = audit->queue;
        g_queue_init(&audit->queue);
        weft_waiting_clear(audit->shares);
        guint64 dropped = audit->dropped;
        gboolean reopen = audit->reopen;
        audit->dropped = 0;
        audit->reopen = FALSE;
        audit->busy = TRUE;
        g_mutex_unlock(&audit->mutex);
        take_turn(audit, &batch, dropped, reopen);
        g_mutex_lock(&audit->mutex);
        audit->busy = FALSE;
        g_cond_signal(&audit->idle);
        audit->reopen = audit->reopen || (reopen && audit->failing && !audit->stopping);
        steal(&batch, &audit->ended);
        weft_wakeup_ask(audit->wakeup);
    }
    g_mutex_unlock(&audit->mutex);
    if (audit->behind)
        flush(audit, FALSE);
    return NULL;
}

/* --- on the main thread --- */

static void
deliver(gpointer data)
{
    WeftAudit *audit = data;
    GQueue ended = G_QUEUE_INIT;
    g_mutex_lock(&audit->mutex);
    steal(&audit->ended, &ended);
    g_mutex_unlock(&audit->mutex);
    weft_watchdog_mark("the audit trail", NULL);
    for (Entry *entry; (entry = g_queue_pop_head(&ended));) {
        if (entry->written)
            entry->written(entry->kept, entry->data);
        entry_free(entry);
    }
}

WeftAudit *
weft_audit_open(const WeftAuditOptions *options, const void *secret, gsize length, GError **error)
{
    WeftTrail *trail = weft_trail_open(options->path, options->size, error);
    if (!trail)
        return NULL;
    WeftAudit *audit = g_new0(WeftAudit, 1);
    audit->trail = trail;
    audit->left = WEFT_TRAIL_ENOUGH;
    audit->shares = weft_waiting_new(QUEUE_MAX);
    audit->behind = TRUE; /* it may have closed a torn line */
    audit->path = g_strdup(options->path);
    audit->required = options->required;
    audit->secret = g_bytes_new(secret, length);
    audit->refusals = weft_refusals_new();
    audit->reads = weft_reads_new();
    audit->outlet = options->syslog ? weft_outlet_new(options->syslog) : NULL;
    audit->wakeup = weft_wakeup_new(deliver, audit);
    g_mutex_init(&audit->mutex);
    g_cond_init(&audit->cond);
    g_cond_init(&audit->idle);
    audit->thread = g_thread_new("audit", work, audit);
    return audit;
}

static void
write_sums(WeftAudit *audit)
{
    json_auto_t *sums = weft_refusals_take_sums(audit->refusals);
    size_t i;
    json_t *sum;
    json_array_foreach (sums, i, sum) {
        json_t *entry = weft_audit_entry("refusals");
        json_object_update(entry, sum);
        weft_audit_write(audit, entry, NULL, NULL);
    }
}

/* While what is required has only the last blocks of a full disk, they are kept for changes. */
static gboolean
is_scarce(WeftAudit *audit)
{
    return audit->required && !weft_audit_takes(audit, WEFT_AUDIT_ANYTHING);
}

static gboolean
on_sums(gpointer data)
{
    WeftAudit *audit = data;
    if (is_scarce(audit))
        return G_SOURCE_CONTINUE;
    audit->timer = 0;
    write_sums(audit);
    return G_SOURCE_REMOVE;
}

void
weft_audit_free(WeftAudit *audit)
{
    if (!audit)
        return;
    g_clear_handle_id(&audit->timer, g_source_remove);
    write_sums(audit);
    g_mutex_lock(&audit->mutex);
    audit->stopping = TRUE;
    g_cond_signal(&audit->cond);
    g_mutex_unlock(&audit->mutex);
    g_thread_join(audit->thread);
    deliver(audit);
    g_source_destroy(audit->wakeup);
    g_source_unref(audit->wakeup);
    weft_trail_free(audit->trail);
    weft_waiting_free(audit->shares);
    weft_outlet_free(audit->outlet);
    weft_refusals_free(audit->refusals);
    weft_reads_free(audit->reads);
    g_bytes_unref(audit->secret);
    g_mutex_clear(&audit->mutex);
    g_cond_clear(&audit->cond);
    g_cond_clear(&audit->idle);
    g_free(audit->path);
    g_free(audit);
}

/* One that is dropped has been waited for as little as one that cannot be written. */
void
weft_audit_write(WeftAudit *audit, json_t *fields, WeftAuditWritten written, gpointer data)
{
    Entry *entry = g_new0(Entry, 1);
    *entry = (Entry){ .fields = fields, .written = written, .data = data };
    g_mutex_lock(&audit->mutex);
    gboolean is_full = !weft_waiting_take(audit->shares, fields, 1);
    audit->dropped += is_full;
    g_queue_push_tail(is_full ? &audit->ended : &audit->queue, entry);
    g_cond_signal(&audit->cond);
    g_mutex_unlock(&audit->mutex);
    if (!is_full)
        return;
    tell_lost(audit, fields);
    weft_wakeup_ask(audit->wakeup);
}

gboolean
weft_audit_admits(WeftAudit *audit, const WeftRefused *refused)
{
    gint64 now = g_get_monotonic_time();
    if (is_scarce(audit))
        weft_refusals_count(audit->refusals, refused, now);
    else if (weft_refusals_admit(audit->refusals, refused, now))
        return TRUE;
    if (!audit->timer)
        audit->timer = g_timeout_add_seconds(SUMS_SECONDS, on_sums, audit);
    return FALSE;
}

gboolean
weft_audit_is_first(WeftAudit *audit, const char *key)
{
    return weft_reads_is_first(audit->reads, key, g_get_monotonic_time());
}

gboolean
weft_audit_is_required(const WeftAudit *audit)
{
    return audit->required;
}

gboolean
weft_audit_takes(WeftAudit *audit, WeftAuditClaim claim)
{
    static const guint64 needed[] = {
        [WEFT_AUDIT_ANYTHING] = WEFT_TRAIL_ENOUGH,
        [WEFT_AUDIT_REMOVAL] = RESERVED,
        [WEFT_AUDIT_OPERATORS] = 0,
    };
    g_mutex_lock(&audit->mutex);
    gboolean takes = !audit->failing && audit->queue.length < QUEUE_MAX && audit->left >= needed[claim];
    g_mutex_unlock(&audit->mutex);
    return takes;
}

gboolean
weft_audit_sync(WeftAudit *audit)
{
    g_mutex_lock(&audit->mutex);
    while (audit->queue.length || audit->busy)
        g_cond_wait(&audit->idle, &audit->mutex);
    gboolean failing = audit->failing;
    g_mutex_unlock(&audit->mutex);
    return !failing;
}

void
weft_audit_reopen(WeftAudit *audit)
{
    g_mutex_lock(&audit->mutex);
    audit->reopen = TRUE;
    g_cond_signal(&audit->cond);
    g_mutex_unlock(&audit->mutex);
}

const char *
weft_audit_path(const WeftAudit *audit)
{
    return audit->path;
}

char *
weft_audit_digest(const WeftAudit *audit, const void *data, gsize length)
{
    gsize key_length;
    const guint8 *key = g_bytes_get_data(audit->secret, &key_length);
    GHmac *hmac = g_hmac_new(G_CHECKSUM_SHA256, key, key_length);
    g_hmac_update(hmac, (const guchar *)DIGEST_PREFIX, -1);
    g_hmac_update(hmac, data, (gssize)length);
    char *digest = g_strdup(g_hmac_get_string(hmac));
    g_hmac_unref(hmac);
    return digest;
}
