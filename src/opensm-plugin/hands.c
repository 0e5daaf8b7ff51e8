#include "hands.h"

#include "apply.h"
#include "errors.h"
#include "look.h"
#include "text.h"
#include "wire.h"

/* Jobs of clients that went away are done, too: whoever comes again and again must not heap them up. */
#define JOBS_MAX 128

typedef enum { AT_ONCE, LOOKS, CHANGES, WORKERS } Worker;

typedef struct {
    const char *word;
    Worker worker;
    json_t *(*act)(WeftOsm *weft, json_t *request, GError **error);
} Deed;

/* clang-format off */
static const Deed deeds[] = {
    { "hello",    AT_ONCE, weft_look_hello    },
    { "list",     LOOKS,   weft_look_list     },
    { "topology", LOOKS,   weft_look_topology },
    { "verify",   LOOKS,   weft_look_verify   },
    { "apply",    CHANGES, weft_apply         },
};
/* clang-format on */

typedef struct {
    const Deed *deed; /* NULL: the worker ends */
    guint64 client;
    json_t *request;
    WeftAnswered answered;
    gpointer data;
} Job;

struct WeftHands {
    WeftOsm *weft;
    GAsyncQueue *jobs[WORKERS];
    GThread *threads[WORKERS];
};

typedef struct {
    WeftHands *hands;
    Worker worker;
} Start;

static void
finish(const Job *job, json_t *answer, const GError *error)
{
    if (!answer)
        answer = json_pack("{so}", "error", weft_wire_error_to_json(error));
    json_t *id = json_object_get(job->request, "id");
    json_object_set(answer, "id", id ? id : json_null());
    job->answered(job->client, answer, job->data);
}

static void
act(WeftHands *hands, Job *job)
{
    g_autoptr(GError) error = NULL;
    json_t *answer = NULL;
    if (hands->weft->trouble)
        weft_error_refuse(&error, WEFT_ERROR_UNAVAILABLE,
                          "opensm is not laid out as this plugin expects, nothing is touched: %s", hands->weft->trouble);
    else
        answer = job->deed->act(hands->weft, job->request, &error);
    finish(job, answer, error);
    json_decref(job->request);
}

static gpointer
work(gpointer data)
{
    g_autofree Start *start = data;
    for (;;) {
        g_autofree Job *job = g_async_queue_pop(start->hands->jobs[start->worker]);
        if (!job->deed)
            return NULL;
        act(start->hands, job);
    }
}

WeftHands *
weft_hands_new(WeftOsm *weft)
{
    static const char *const names[] = { [LOOKS] = "weft looks", [CHANGES] = "weft changes" };
    WeftHands *hands = g_new0(WeftHands, 1);
    hands->weft = weft;
    for (Worker w = LOOKS; w < WORKERS; w++) {
        Start *start = g_new(Start, 1);
        *start = (Start){ .hands = hands, .worker = w };
        hands->jobs[w] = g_async_queue_new_full(g_free);
        hands->threads[w] = g_thread_new(names[w], work, start);
    }
    return hands;
}

void
weft_hands_free(WeftHands *hands)
{
    if (!hands)
        return;
    for (Worker w = LOOKS; w < WORKERS; w++)
        g_async_queue_push(hands->jobs[w], g_new0(Job, 1));
    for (Worker w = LOOKS; w < WORKERS; w++) {
        g_thread_join(hands->threads[w]);
        g_async_queue_unref(hands->jobs[w]);
    }
    g_free(hands);
}

static const Deed *
find_deed(json_t *request, GError **error)
{
    const char *word = json_string_value(json_object_get(request, "do"));
    for (guint i = 0; word && i < G_N_ELEMENTS(deeds); i++)
        if (g_str_equal(deeds[i].word, word))
            return &deeds[i];
    g_autofree char *quoted = weft_text_quote(word ? word : "");
    weft_error_refuse(error, WEFT_ERROR_INVALID, "do: must be one of hello, list, topology, verify, apply, listen; is %s",
                      quoted);
    return NULL;
}

void
weft_hands_do(WeftHands *hands, guint64 client, json_t *request, WeftAnswered answered, gpointer data)
{
    g_autoptr(GError) error = NULL;
    Job job = { .deed = find_deed(request, &error), .client = client, .request = request, .answered = answered, .data = data };
    gboolean queued = job.deed && job.deed->worker != AT_ONCE;
    if (queued && g_async_queue_length(hands->jobs[job.deed->worker]) >= JOBS_MAX)
        weft_error_refuse(&error, WEFT_ERROR_UNAVAILABLE, "%d requests wait already; ask later", JOBS_MAX);
    if (!job.deed || error) {
        finish(&job, NULL, error);
        json_decref(request);
    } else if (job.deed->worker == AT_ONCE) {
        act(hands, &job);
    } else {
        g_async_queue_push(hands->jobs[job.deed->worker], g_memdup2(&job, sizeof job));
    }
}
