#include "turns.h"

#include "clock.h"
#include "text.h"
#include "work.h"

#define TELL_SLICE 5000                   /* microseconds that telling may take at a time */
#define TELL_PAUSE 50                     /* milliseconds, then it goes on */
#define SWEEP_INTERVAL G_USEC_PER_SEC     /* how often the first ones are looked at */
#define STALE_AFTER (60 * G_USEC_PER_SEC) /* what is scarce is looked at again, for those that look at it */
#define SWEEP_FIRST 128                   /* … of those that wait */
#define VIEW_MAX 1000                     /* items of a list */
#define VIEW_EXPLAINED 20                 /* … that are looked at anew for it */

/* --- why --- */

/* Looks at every host: not for everything, and not each time. */
static void
explain(WeftTurns *turns, WeftWaiter *waiter)
{
    g_autoptr(GError) error = NULL;
    WeftPlaceRequest request = weft_waiter_request(waiter);
    weft_place_explain_refusal(turns->control->fleet, &request, &error);
    g_free(waiter->refusal);
    waiter->refusal = error ? g_strdup(error->message) : NULL;
    waiter->explained = g_get_monotonic_time();
}

static gboolean
is_stale(const WeftWaiter *waiter, gint64 after)
{
    return !waiter->explained || g_get_monotonic_time() - waiter->explained > after;
}

/* Of a kind of which the refusal tells more. */
static gboolean
is_about_room(WeftWaitWhy why)
{
    return why == WEFT_WAIT_ROOM || why == WEFT_WAIT_NEVER;
}

static char *
turn_text(const WeftWait *wait)
{
    if (wait->place <= 1)
        return g_strdup("there is room, which is kept for a reservation, or for others that were promised it");
    g_autofree char *others = weft_text_count(wait->place - 1, "other");
    return g_strdup_printf("there is room, which is promised: its turn comes after %s", others);
}

/* place: with what moves all the time. */
static char *
reason_of(const WeftWaiter *waiter, const WeftWait *wait, gboolean place)
{
    switch (wait->why) {
    case WEFT_WAIT_ROOM:
        return g_strdup(waiter->refusal ? waiter->refusal : "there is no room that is kept for nobody as long as it needs it");
    case WEFT_WAIT_NEVER:
        return g_strdup_printf("it can never be placed as the site is, even were everything free: %s",
                               waiter->refusal ? waiter->refusal : "no hosts have what it asks for");
    case WEFT_WAIT_TURN:
        return place ? turn_text(wait) : g_strdup("there is room, which is promised to those before it: weft queue");
    case WEFT_WAIT_VICTIMS:
        return g_strdup("clusters that give way to it are being stopped");
    case WEFT_WAIT_REFUSED:
        return g_strdup(waiter->refused ? waiter->refused : "it could not be placed just now");
    default:
        return g_strdup("it has not been looked at yet");
    }
}

/* --- in its status --- */

/* Hosts that failed it are better than none. */
static gboolean
try_shunned(WeftTurns *turns, WeftWaiter *waiter, WeftWaitWhy why)
{
    if (!waiter->shuns || !is_about_room(why))
        return FALSE;
    waiter->shuns = FALSE;
    weft_waiter_review(turns, waiter);
    return TRUE;
}

/* What changed since it was told; a promise that moves is not told. */
static void
tell(WeftTurns *turns, WeftWaiter *waiter)
{
    const WeftWait *wait = weft_queue_wait(turns->queue, waiter->work->key);
    weft_waiter_move(waiter, NULL);
    if (!wait || try_shunned(turns, waiter, wait->why))
        return;
    gboolean stale = is_about_room(wait->why) && is_stale(waiter, STALE_AFTER);
    if (wait->why == waiter->told && !stale)
        return;
    if (is_about_room(wait->why))
        explain(turns, waiter);
    waiter->told = wait->why;
    g_autofree char *reason = reason_of(waiter, wait, FALSE);
    weft_work_waits(waiter->work, reason);
}

/* The first ones now and then, and all when hosts came or went. */
static void
sweep(WeftTurns *turns)
{
    gint64 now = g_get_monotonic_time();
    if (now - turns->swept < SWEEP_INTERVAL)
        return;
    g_autoptr(GPtrArray) order = weft_queue_order(turns->queue);
    guint n = turns->sweep_all ? order->len : MIN(order->len, SWEEP_FIRST);
    turns->swept = now;
    turns->sweep_all = FALSE;
    for (guint i = 0; i < n; i++) {
        WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, order->pdata[i]);
        if (!waiter->list)
            weft_waiter_move(waiter, &turns->untold);
    }
}

static gboolean
tell_on(gpointer data)
{
    WeftTurns *turns = data;
    turns->teller = 0;
    weft_turns_tell(turns);
    return G_SOURCE_REMOVE;
}

void
weft_turns_tell(WeftTurns *turns)
{
    gint64 end = g_get_monotonic_time() + TELL_SLICE;
    sweep(turns);
    for (WeftWaiter *waiter; (waiter = g_queue_peek_head(&turns->untold)) && g_get_monotonic_time() < end;)
        tell(turns, waiter);
    gboolean more = turns->untold.length > 0;
    if (!turns->teller && g_hash_table_size(turns->by_key))
        turns->teller = g_timeout_add(more ? TELL_PAUSE : SWEEP_INTERVAL / 1000, tell_on, turns);
}

/* --- for whoever asks --- */

static json_t *
time_view(gint64 time)
{
    g_autofree char *text = time && time != WEFT_QUEUE_NEVER ? weft_clock_format(time) : NULL;
    return text ? json_string(text) : json_null();
}

static json_t *
wait_view(const WeftWaiter *waiter, const WeftWait *wait)
{
    const WeftCluster *cluster = waiter->work->cluster;
    guint nodes = 0, cores = 0;
    for (guint g = 0; g < cluster->groups->len; g++) {
        nodes += waiter->counts[g];
        cores += waiter->counts[g] * ((const WeftGroup *)cluster->groups->pdata[g])->cores;
    }
    g_autofree char *reason = reason_of(waiter, wait, TRUE);
    json_t *view = json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:b}", "place", (int)wait->place, "id", cluster->id, "name",
                             cluster->name, "tenant", cluster->tenant, "nodes", (int)nodes, "cores", (int)cores, "priority",
                             cluster->priority, "preemptible", (int)cluster->preemptible);
    json_object_set_new(view, "since", time_view(weft_waiter_since(waiter)));
    json_object_set_new(view, "points", json_real(wait->points));
    json_object_set_new(view, "share", json_real(wait->share));
    json_object_set_new(view, "why", json_string(weft_wait_words[wait->why]));
    json_object_set_new(view, "reason", json_string(reason));
    json_object_set_new(view, "when", time_view(wait->when));
    return view;
}

static json_t *
list_waiting(WeftTurns *turns, const char *tenant)
{
    json_t *items = json_array();
    guint explained = 0;
    g_autoptr(GPtrArray) order = weft_queue_order(turns->queue);
    for (guint i = 0; i < order->len && json_array_size(items) < VIEW_MAX; i++) {
        WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, order->pdata[i]);
        if (tenant && strcmp(waiter->work->cluster->tenant, tenant) != 0)
            continue;
        const WeftWait *wait = weft_queue_wait(turns->queue, order->pdata[i]);
        if (is_about_room(wait->why) && is_stale(waiter, SWEEP_INTERVAL) && explained < VIEW_EXPLAINED) {
            explain(turns, waiter);
            explained++;
        }
        json_array_append_new(items, wait_view(waiter, wait));
    }
    return items;
}

json_t *
weft_turns_view(WeftTurns *turns, const char *tenant)
{
    json_t *items = list_waiting(turns, tenant);
    return json_pack("{s:o, s:i, s:{s:I, s:I, s:I, s:I}}", "items", items, "waiting", (int)weft_queue_length(turns->queue),
                     "statistics", "runs", (json_int_t)turns->runs, "started", (json_int_t)turns->started, "preempted",
                     (json_int_t)turns->preempted, "microseconds", (json_int_t)turns->spent);
}
