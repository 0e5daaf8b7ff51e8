#include "prune.h"

#include "clock-trust.h"
#include "clock.h"
#include "hosts.h"
#include "images.h"
#include "turns.h"
#include "watchdog.h"
#include "workers.h"

#include <string.h>

#define BATCH 500                /* records of a kind in one round */
#define TENANTS 8                /* whose events are counted in one round */
#define IMAGES 256               /* whose files are looked for in one round */
#define PAUSE 1000               /* milliseconds, to the next round where there is more */
#define INTERVAL_MAX (60 * 1000) /* … and where there is not */
#define IMAGE "image/"

struct WeftPruner {
    WeftControl *control;
    WeftWorkers *worker;
    WeftStore *reader; /* the worker's, as answers_after and ended_after while it reads */
    guint timer;
    GHashTable *eventful; /* set of tenants of which something was told since their events were last counted */
    char *answers_after;  /* where the next look at old answers begins; NULL: at the start */
    char *ended_after;    /* … at records of what has ended */
    char *images_after;   /* … and at those of images among them */
};

/* What one round finds. The worker has all of it while it reads. */
typedef struct Round {
    WeftPruner *pruner;
    gint64 now; /* 0: nothing goes by its age, as the clock is not trusted */
    gboolean prune_ended;
    GPtrArray *tenants; /* char *, to be counted */
    GPtrArray *crowded; /* char *, of which there may be more to drop, borrowed from those */
    WeftTxn *txn;
    gboolean more;
} Round;

static void
round_free(gpointer data)
{
    Round *round = data;
    g_ptr_array_unref(round->tenants);
    g_ptr_array_unref(round->crowded);
    weft_txn_free(round->txn);
    g_free(round);
}

/* --- on the worker --- */

static GPtrArray *
read_page(const Round *round, WeftQuery query, char **after)
{
    query.after = *after;
    query.limit = BATCH;
    GPtrArray *records = weft_store_list(round->pruner->reader, &query, NULL);
    g_clear_pointer(after, g_free);
    if (records && records->len == BATCH)
        *after = g_strdup(((const WeftRecord *)records->pdata[BATCH - 1])->key);
    return records;
}

static gint64
read_time(const WeftRecord *record, const char *field)
{
    json_auto_t *value = json_loads(record->value, 0, NULL);
    return json_integer_value(json_object_get(value, field));
}

static gboolean
drop_events(Round *round, WeftQuery query)
{
    query.kind = WEFT_KIND_EVENT;
    query.limit = BATCH;
    query.backwards = TRUE;
    g_autoptr(GPtrArray) records = weft_store_list(round->pruner->reader, &query, NULL);
    for (guint i = 0; records && i < records->len; i++)
        weft_txn_delete(round->txn, WEFT_KIND_EVENT, ((const WeftRecord *)records->pdata[i])->key, WEFT_ANY);
    return records && records->len == BATCH;
}

/* Their keys are their time. */
static void
drop_old_events(Round *round)
{
    g_autofree char *limit = weft_event_key(round->now - round->pruner->control->options.event_age);
    round->more |= drop_events(round, (WeftQuery){ .after = limit });
}

/* Each tenant's are bounded by themselves: who has many told loses their own. */
static void
drop_events_of_tenants(Round *round)
{
    for (guint i = 0; i < round->tenants->len; i++) {
        char *tenant = round->tenants->pdata[i];
        if (drop_events(round, (WeftQuery){ .scope = tenant, .skip = round->pruner->control->options.events_per_tenant }))
            g_ptr_array_add(round->crowded, tenant);
    }
}

static void
drop_old_answers(Round *round)
{
    gint64 limit = round->now - round->pruner->control->options.request_age;
    g_autoptr(GPtrArray) records = read_page(round, (WeftQuery){ .kind = WEFT_KIND_REQUEST }, &round->pruner->answers_after);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        if (read_time(record, "created") < limit)
            weft_txn_delete(round->txn, WEFT_KIND_REQUEST, record->key, WEFT_ANY);
    }
    round->more |= round->pruner->answers_after != NULL;
}

/* The next page comes soon where this one had something to drop. */
static void
drop_old_ends(Round *round)
{
    gint64 limit = round->now - round->pruner->control->options.ended_age;
    g_autoptr(GPtrArray) records = read_page(round, (WeftQuery){ .kind = WEFT_KIND_ENDED }, &round->pruner->ended_after);
    gboolean found = FALSE;
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        gint64 at = read_time(record, "at");
        if (!at || at >= limit)
            continue;
        weft_txn_delete(round->txn, WEFT_KIND_ENDED, record->key, WEFT_ANY);
        found = TRUE;
    }
    round->more |= found && round->pruner->ended_after;
}

static void
read_old(gpointer data)
{
    Round *round = data;
    if (round->now) {
        drop_old_events(round);
        drop_old_answers(round);
    }
    if (round->prune_ended)
        drop_old_ends(round);
    drop_events_of_tenants(round);
}

/* --- files of images --- */

/* Is it known of each host what is there? */
static gboolean
all_answer(const WeftHosts *hosts)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, hosts->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftWatch *host = value;
        if (!host->known || !host->answered)
            return FALSE;
    }
    return TRUE;
}

/* One that was removed by a call is a fact until a look that began later: one under way may bring it up once more. */
static void
leave_out_those_on_hosts(const WeftHosts *hosts, GHashTable *digests)
{
    GHashTableIter each, iter;
    gpointer host, digest;
    g_hash_table_iter_init(&each, hosts->by_name);
    while (g_hash_table_iter_next(&each, NULL, &host)) {
        g_hash_table_iter_init(&iter, ((const WeftWatch *)host)->images);
        while (g_hash_table_iter_next(&iter, &digest, NULL))
            g_hash_table_remove(digests, digest);
    }
}

/* What a record names again has not ended at all. */
static gboolean
is_named(const WeftControl *control, GHashTable *wanted, const char *digest)
{
    return g_hash_table_contains(wanted, digest) || weft_checkpoints_have(control->checkpoints, digest);
}

static gboolean
is_here(const WeftControl *control, const char *digest)
{
    g_autofree char *path = weft_images_path(control, digest);
    return g_file_test(path, G_FILE_TEST_EXISTS) || weft_images_carries(control->images, digest);
}

/* Not should one have ended once more in the meantime. */
static void
drop_ends(WeftTxn *txn, GHashTable *records)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, records);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftRecord *record = value;
        weft_txn_delete(txn, WEFT_KIND_ENDED, record->key, record->revision);
    }
}

gboolean
weft_pruner_drop_images(WeftPruner *pruner, WeftTxn *txn)
{
    WeftControl *control = pruner->control;
    GHashTable *wanted = weft_images_wanted(control->images);
    WeftQuery query = { .kind = WEFT_KIND_ENDED,
                        .after = pruner->images_after ? pruner->images_after : IMAGE,
                        .limit = IMAGES };
    g_autoptr(GPtrArray) records = wanted && all_answer(control->hosts) ? weft_store_list(control->store, &query, NULL) : NULL;
    g_autoptr(GHashTable) named = g_hash_table_new(g_str_hash, g_str_equal), gone = g_hash_table_new(g_str_hash, g_str_equal);
    g_clear_pointer(&pruner->images_after, g_free);
    for (guint i = 0; records && i < records->len; i++) {
        WeftRecord *record = records->pdata[i];
        if (!g_str_has_prefix(record->key, IMAGE))
            break;
        if (i == IMAGES - 1)
            pruner->images_after = g_strdup(record->key);
        /* wanted may not know yet of a commit whose record is read here: what named the file a moment ago would keep its end
         * from being proved for good. */
        if (record->place[0] || record->revision > weft_store_told(control->store))
            continue;
        char *digest = record->key + strlen(IMAGE);
        if (is_named(control, wanted, digest))
            g_hash_table_insert(named, digest, record);
        else if (!is_here(control, digest))
            g_hash_table_insert(gone, digest, record);
    }
    if (g_hash_table_size(gone))
        leave_out_those_on_hosts(control->hosts, gone);
    drop_ends(txn, named);
    drop_ends(txn, gone);
    return g_hash_table_size(named) + g_hash_table_size(gone) > 0 && pruner->images_after;
}

/* --- rounds --- */

static gboolean begin_round(gpointer data);

/* Short ages, as tests have them, want more frequent rounds. */
static guint
interval(const WeftControlOptions *options)
{
    gint64 half = MIN(MIN(options->event_age, options->request_age), MIN(options->pkey_rest, options->ended_age)) / 2 / 1000;
    return (guint)CLAMP(half, 100, INTERVAL_MAX);
}

static void
count_again(WeftPruner *pruner, const GPtrArray *tenants)
{
    for (guint i = 0; i < tenants->len; i++)
        weft_pruner_told(pruner, tenants->pdata[i]);
}

/* By themselves, and before what is old: their records may be among those, and must be as they were read. */
static gboolean
drop_images_first(WeftPruner *pruner)
{
    g_autoptr(WeftTxn) txn = weft_txn_new("images-pruned");
    gboolean more = weft_pruner_drop_images(pruner, txn);
    if (!weft_txn_is_empty(txn))
        weft_control_commit_quietly(pruner->control, g_steal_pointer(&txn));
    return more;
}

static void
end_round(gpointer data)
{
    Round *round = data;
    WeftPruner *pruner = round->pruner;
    WeftControl *control = pruner->control;
    weft_watchdog_mark("removing old records", NULL);
    gboolean more = round->more;
    if (round->now && weft_clock_is_held()) { /* it was not when they were read */
        count_again(pruner, round->tenants);
    } else {
        count_again(pruner, round->crowded);
        if (round->now) {
            weft_subnets_prune(control->subnets, round->txn, BATCH);
            weft_bookings_prune(control->turns, round->txn);
        }
        more |= drop_images_first(pruner);
        if (!weft_txn_is_empty(round->txn))
            weft_control_commit_quietly(control, g_steal_pointer(&round->txn));
    }
    more |= g_hash_table_size(pruner->eventful) > 0;
    pruner->timer = g_timeout_add(more ? PAUSE : interval(&control->options), begin_round, pruner);
}

static void
take_tenants(WeftPruner *pruner, GPtrArray *tenants)
{
    GHashTableIter iter;
    gpointer tenant;
    g_hash_table_iter_init(&iter, pruner->eventful);
    while (tenants->len < TENANTS && g_hash_table_iter_next(&iter, &tenant, NULL)) {
        g_hash_table_iter_steal(&iter);
        g_ptr_array_add(tenants, tenant);
    }
}

static Round *
round_new(WeftPruner *pruner)
{
    Round *round = g_new0(Round, 1);
    round->pruner = pruner;
    round->now = weft_clock_is_held() ? 0 : weft_clock_now();
    round->prune_ended = weft_clock_state().trust == WEFT_CLOCK_TRUSTED;
    round->tenants = g_ptr_array_new_with_free_func(g_free);
    round->crowded = g_ptr_array_new();
    round->txn = weft_txn_new("records-pruned");
    take_tenants(pruner, round->tenants);
    return round;
}

static gboolean
begin_round(gpointer data)
{
    WeftPruner *pruner = data;
    pruner->timer = 0;
    weft_workers_push(pruner->worker, &(WeftTask){ read_old, end_round, round_free, round_new(pruner) });
    return G_SOURCE_REMOVE;
}

/* --- life --- */

void
weft_pruner_told(WeftPruner *pruner, const char *tenant)
{
    g_hash_table_add(pruner->eventful, g_strdup(tenant));
}

WeftPruner *
weft_pruner_new(WeftControl *control, GError **error)
{
    WeftStore *reader = weft_store_reader(control->store, error);
    if (!reader)
        return NULL;
    WeftPruner *pruner = g_new0(WeftPruner, 1);
    pruner->control = control;
    pruner->reader = reader;
    pruner->worker = weft_workers_new(1, 0);
    pruner->eventful = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    pruner->timer = g_timeout_add(PAUSE, begin_round, pruner);
    return pruner;
}

void
weft_pruner_free(WeftPruner *pruner)
{
    if (!pruner)
        return;
    g_clear_handle_id(&pruner->timer, g_source_remove);
    weft_workers_free(pruner->worker);
    weft_store_free(pruner->reader);
    g_hash_table_unref(pruner->eventful);
    g_free(pruner->answers_after);
    g_free(pruner->ended_after);
    g_free(pruner->images_after);
    g_free(pruner);
}
