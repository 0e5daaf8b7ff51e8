#include "turns.h"

#include "clock.h"

#define HALF_LIVES 6 /* what was used before counts less than a sixtieth */
#define PAGE 500

/* Years of usage are read a page at a time, between other work. */
struct WeftPast {
    WeftTurns *turns;
    GHashTable *born; /* tenant to when it was created (gint64 *): what another of that name used is not its own */
    gint64 from;
    gint64 to; /* what is used later the queue sees itself */
    char *after;
    guint reader;
};

static void
set_share(WeftTurns *turns, const WeftTenant *tenant)
{
    weft_queue_worker_set_share(turns->worker, tenant->name, tenant->share);
}

static void
charge(WeftPast *past, const WeftUsage *usage)
{
    const gint64 *born = g_hash_table_lookup(past->born, usage->tenant);
    if (!born || usage->start < *born || usage->end < past->from || usage->end > past->to)
        return;
    double seconds = (double)(usage->end - usage->start) / G_USEC_PER_SEC;
    weft_queue_worker_charge(past->turns->worker, usage->tenant, seconds * usage->cores, usage->end);
}

/* FALSE: there is no more, or it cannot be read. */
static gboolean
read_page(WeftPast *past, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_USAGE, .after = past->after, .limit = PAGE };
    g_autoptr(GPtrArray) records = weft_store_list(past->turns->control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftUsage) usage = weft_record_usage(records->pdata[i], error);
        if (!usage)
            return FALSE;
        charge(past, usage);
    }
    if (!records || records->len < PAGE)
        return FALSE;
    g_free(past->after);
    past->after = g_strdup(((const WeftRecord *)records->pdata[PAGE - 1])->key);
    return TRUE;
}

static gboolean
read_on(gpointer data)
{
    WeftPast *past = data;
    g_autoptr(GError) error = NULL;
    if (read_page(past, &error))
        return G_SOURCE_CONTINUE;
    if (error)
        g_warning("past usage cannot be read, and counts for nobody's share: %s", error->message);
    past->reader = 0;
    weft_turns_begin(past->turns);
    return G_SOURCE_REMOVE;
}

gboolean
weft_past_load(WeftTurns *turns, GError **error)
{
    WeftPast *past = turns->past = g_new0(WeftPast, 1);
    past->turns = turns;
    past->born = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    past->to = weft_clock_now();
    past->from = past->to - HALF_LIVES * turns->control->options.queue.half_life;
    g_autoptr(GPtrArray) records = weft_store_list(turns->control->store, &(WeftQuery){ .kind = WEFT_KIND_TENANT }, error);
    for (guint i = 0; records && i < records->len; i++) {
        g_autoptr(WeftTenant) tenant = weft_record_tenant(records->pdata[i], error);
        if (!tenant)
            return FALSE;
        set_share(turns, tenant);
        g_hash_table_insert(past->born, g_strdup(tenant->name), g_memdup2(&tenant->created, sizeof tenant->created));
    }
    past->reader = g_idle_add(read_on, past);
    return records != NULL;
}

gboolean
weft_past_is_known(const WeftTurns *turns)
{
    return turns->past && turns->past->reader == 0;
}

void
weft_past_free(WeftPast *past)
{
    if (!past)
        return;
    g_clear_handle_id(&past->reader, g_source_remove);
    g_hash_table_unref(past->born);
    g_free(past->after);
    g_free(past);
}

void
weft_turns_tenant_changed(WeftTurns *turns, const char *name)
{
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(turns->control->store, name, NULL, NULL);
    if (!tenant)
        return;
    set_share(turns, tenant);
    weft_turns_wake(turns);
}
