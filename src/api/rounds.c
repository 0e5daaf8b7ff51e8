#include "rounds.h"

#include "errors.h"
#include "problem.h"

#define AT_ONCE 32
#define ROUND_SECONDS 25 /* less than clients wait */

typedef struct Round Round;

typedef struct {
    Round *round;
    WeftRoundItem *item;
} Question;

struct Round {
    WeftShareKind kind;
    WeftGateAsk ask;
    WeftRoundDone done;
    WeftRequest *request; /* while it is under way, as the next three */
    WeftShare *share;
    GCancellable *cancellable;
    guint deadline;
    guint n, asked, answered;
    WeftRoundItem *items;
    /* Nothing is called back after the cancellation: those that are open go with the round. */
    Question questions[];
};

/* What may be freed anywhere; nothing is under way. */
static void
round_free(gpointer data)
{
    Round *round = data;
    for (guint i = 0; i < round->n; i++) {
        g_free(round->items[i].name);
        json_decref(round->items[i].report);
        g_clear_error(&round->items[i].error);
    }
    g_free(round->items);
    g_free(round);
}

static void
stop(Round *round)
{
    weft_request_hold(round->request, NULL, NULL);
    g_cancellable_cancel(round->cancellable);
    g_object_unref(round->cancellable);
    g_clear_handle_id(&round->deadline, g_source_remove);
    weft_share_free(round->share);
    weft_request_unref(round->request);
}

/* The client is gone. */
static void
round_end(gpointer data)
{
    stop(data);
    round_free(data);
}

/* thread: a reader */
static void
answer(WeftRequest *request, gpointer data)
{
    const Round *round = data;
    round->done(request, round->items, round->n);
}

static void
finish(Round *round)
{
    for (guint i = 0; i < round->n; i++)
        if (!round->items[i].report && !round->items[i].error)
            round->items[i].error = g_error_new(WEFT_ERROR, WEFT_ERROR_TIMEOUT, "no answer in %d s", ROUND_SECONDS);
    g_autoptr(WeftRequest) request = weft_request_ref(round->request);
    stop(round);
    weft_readers_add(request, answer, round, round_free);
}

static gboolean
on_deadline(gpointer data)
{
    Round *round = data;
    g_auto(WeftMeter) meter = weft_meter_start(round->request);
    round->deadline = 0;
    finish(round);
    return G_SOURCE_REMOVE;
}

static void on_reported(json_t *report, const GError *error, gpointer data);

static void
ask_more(Round *round)
{
    while (round->asked < round->n && round->asked - round->answered < AT_ONCE) {
        Question *question = &round->questions[round->asked];
        *question = (Question){ round, &round->items[round->asked++] };
        round->ask(round->request->gate, question->item->name, round->cancellable, on_reported, question);
    }
}

static void
on_reported(json_t *report, const GError *error, gpointer data)
{
    const Question *question = data;
    Round *round = question->round;
    g_auto(WeftMeter) meter = weft_meter_start(round->request);
    question->item->report = json_incref(report);
    question->item->error = error ? g_error_copy(error) : NULL;
    if (++round->answered == round->n)
        finish(round);
    else
        ask_more(round);
}

static void
begin(WeftRequest *request, gpointer data)
{
    Round *round = data;
    g_autoptr(GError) busy = NULL;
    round->share = weft_request_take(request, round->kind, &busy);
    if (!round->share) {
        weft_request_fail(request, busy);
        round_free(round);
        return;
    }
    round->request = weft_request_ref(request);
    round->cancellable = g_cancellable_new();
    round->deadline = g_timeout_add_seconds(ROUND_SECONDS, on_deadline, round);
    weft_request_hold(request, round, round_end);
    ask_more(round);
}

gboolean
weft_round_ask(WeftRequest *request, WeftShareKind kind, WeftGateAsk ask, GPtrArray *names, WeftRoundDone done, GError **error)
{
    g_autoptr(GPtrArray) taken = names;
    if (!ask)
        return weft_problem_refuse(error, WEFT_ERROR_UNAVAILABLE, "this weftd has no way to its hosts");
    Round *round = g_malloc0(sizeof(Round) + taken->len * sizeof(Question));
    round->kind = kind;
    round->ask = ask;
    round->done = done;
    round->n = taken->len;
    round->items = g_new0(WeftRoundItem, taken->len);
    for (guint i = 0; i < taken->len; i++)
        round->items[i].name = g_strdup(taken->pdata[i]);
    return weft_request_go_on(request, begin, round, round_free);
}
