#include "turns.h"

#include "clock.h"
#include "text.h"
#include "wakeup.h"
#include "work.h"

#define LOOKS_MAX 128                       /* in one errand */
#define TELL_PAUSE 100                      /* milliseconds, then it goes on */
#define SWEEP_INTERVAL G_USEC_PER_SEC       /* how often the first ones are looked at */
#define STALE_AFTER (60 * G_USEC_PER_SEC)   /* what is scarce is looked at again, for those that look at it */
#define SPEAK_INTERVAL (2 * G_USEC_PER_SEC) /* … and at most as often where hosts or fabrics have changed */
#define SWEEP_FIRST 128                     /* … of those that wait */
#define VIEW_MAX 1000                       /* items of a list */

/* --- why --- */

static gboolean
is_older(gint64 time, gint64 than)
{
    return !time || g_get_monotonic_time() - time > than;
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
    if (!waiter->shuns || !weft_wait_is_about_room(why))
        return FALSE;
    waiter->shuns = FALSE;
    weft_waiter_review(turns, waiter);
    return TRUE;
}

/* TRUE: these are other words than before. */
static gboolean
note_refusal(WeftWaiter *waiter, const WeftQueueLook *look)
{
    gboolean differs = g_strcmp0(waiter->refusal, look->refusal) != 0;
    g_free(waiter->refusal);
    waiter->refusal = g_strdup(look->refusal);
    waiter->explained = look->asked;
    waiter->viewed = FALSE;
    return differs;
}

/* What changed since it was told; a promise that moves is not told. */
static void
tell(WeftTurns *turns, WeftWaiter *waiter, const WeftQueueLook *look)
{
    const WeftWait *wait = &look->wait;
    weft_waiter_move(waiter, NULL);
    waiter->wait = *wait;
    gboolean differs = look->explained && note_refusal(waiter, look);
    if (try_shunned(turns, waiter, wait->why))
        return;
    gboolean stale = look->explained && is_older(waiter->spoken, STALE_AFTER);
    if (wait->why == waiter->told && !stale && !(differs && look->doubted))
        return;
    waiter->told = wait->why;
    waiter->spoken = g_get_monotonic_time();
    g_autofree char *reason = reason_of(waiter, wait, FALSE);
    weft_work_waits(waiter->work, reason);
}

/* The first ones now and then, and all when hosts came or went. */
static void
sweep(WeftTurns *turns)
{
    gint64 now = g_get_monotonic_time();
    const GPtrArray *lines = turns->last ? turns->last->lines : NULL;
    if (!lines || now - turns->swept < SWEEP_INTERVAL)
        return;
    guint n = turns->sweep_all ? lines->len : MIN(lines->len, SWEEP_FIRST);
    turns->swept = now;
    turns->sweep_all = FALSE;
    for (guint i = 0; i < n; i++) {
        WeftWaiter *waiter = weft_turns_find(turns, ((const WeftQueueLine *)lines->pdata[i])->ask);
        if (waiter && !waiter->list)
            weft_waiter_move(waiter, &turns->untold);
    }
}

GPtrArray *
weft_turns_list_looks(WeftTurns *turns)
{
    GPtrArray *looks = g_ptr_array_new();
    sweep(turns);
    for (const GList *link = turns->untold.head; link && looks->len < LOOKS_MAX; link = link->next) {
        const WeftWaiter *waiter = link->data;
        WeftQueueLook *look = g_new0(WeftQueueLook, 1);
        look->key = g_strdup(waiter->work->key);
        look->told = waiter->told;
        look->asked = g_get_monotonic_time();
        look->doubted = waiter->explained < turns->doubted && is_older(waiter->spoken, SPEAK_INTERVAL);
        look->stale = look->doubted || is_older(waiter->explained, waiter->viewed ? SWEEP_INTERVAL : STALE_AFTER);
        g_ptr_array_add(looks, look);
    }
    return looks;
}

static gboolean
tell_on(gpointer data)
{
    WeftTurns *turns = data;
    turns->teller = 0;
    turns->wanted = TRUE;
    weft_wakeup_ask(turns->control->pump);
    return G_SOURCE_REMOVE;
}

void
weft_turns_tell(WeftTurns *turns, const WeftErrand *errand)
{
    for (guint i = 0; i < errand->looks->len; i++) {
        const WeftQueueLook *look = errand->looks->pdata[i];
        WeftWaiter *waiter = look->ask ? weft_turns_find(turns, look->ask) : NULL;
        if (waiter)
            tell(turns, waiter, look);
    }
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

/* Whoever reads it finds what was known last. What is old by now is found out again, for whoever reads it next. */
static void
add_view(WeftTurns *turns, WeftWaiter *waiter, const WeftWait *wait, json_t *items)
{
    json_array_append_new(items, wait_view(waiter, wait));
    if (json_array_size(items) > SWEEP_FIRST || !weft_wait_is_about_room(wait->why) ||
        !is_older(waiter->explained, SWEEP_INTERVAL))
        return;
    waiter->viewed = turns->wanted = TRUE;
    if (!waiter->list)
        weft_waiter_move(waiter, &turns->untold);
}

/* Those that asked since come last, behind so many. */
static void
add_new(WeftTurns *turns, GHashTable *listed, guint behind, const char *tenant, json_t *items)
{
    GHashTableIter iter;
    gpointer value;
    WeftWait wait = { .place = behind };
    g_hash_table_iter_init(&iter, turns->by_key);
    while (g_hash_table_iter_next(&iter, NULL, &value) && json_array_size(items) < VIEW_MAX) {
        WeftWaiter *waiter = value;
        if (g_hash_table_contains(listed, waiter))
            continue;
        wait.place++;
        if (!tenant || strcmp(waiter->work->cluster->tenant, tenant) == 0)
            add_view(turns, waiter, &wait, items);
    }
}

static json_t *
list_waiting(WeftTurns *turns, const char *tenant)
{
    json_t *items = json_array();
    const GPtrArray *lines = turns->last ? turns->last->lines : NULL;
    g_autoptr(GHashTable) listed = g_hash_table_new(NULL, NULL);
    for (guint i = 0; lines && i < lines->len && json_array_size(items) < VIEW_MAX; i++) {
        WeftWaiter *waiter = g_hash_table_lookup(turns->by_key, ((const WeftQueueLine *)lines->pdata[i])->ask->key);
        if (!waiter)
            continue;
        g_hash_table_add(listed, waiter);
        if (!tenant || strcmp(waiter->work->cluster->tenant, tenant) == 0)
            add_view(turns, waiter, &waiter->wait, items);
    }
    add_new(turns, listed, lines ? lines->len : 0, tenant, items);
    if (turns->wanted)
        weft_wakeup_ask(turns->control->pump);
    return items;
}

json_t *
weft_turns_view(WeftTurns *turns, const char *tenant)
{
    json_t *items = list_waiting(turns, tenant);
    return json_pack("{s:o, s:i, s:{s:I, s:I, s:I, s:I}}", "items", items, "waiting", (int)g_hash_table_size(turns->by_key),
                     "statistics", "runs", (json_int_t)turns->runs, "started", (json_int_t)turns->started, "preempted",
                     (json_int_t)turns->preempted, "microseconds", (json_int_t)turns->spent);
}
