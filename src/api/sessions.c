#include "sessions.h"

#include "errors.h"
#include "problem.h"
#include "records.h"
#include "request.h"
#include "server.h"
#include "splice.h"

#include <unistd.h>

#define OPEN_SECONDS 30
#define LOOK_SECONDS 15 /* time alone ends a token too */
#define TOLD_TOGETHER (60 * G_USEC_PER_SEC)

const char *const weft_session_protocols[] = {
    [WEFT_GATE_SESSION] = "weft-session/1",
    [WEFT_GATE_CONSOLE] = "weft-console/1",
};

struct WeftSessions {
    WeftStore *store;
    WeftGate *gate;
    guint watch;
    guint timer;
    WeftSplices *splices;
    GPtrArray *all;   /* WeftSession */
    GHashTable *told; /* "principal node kind" to Told: the events of the last minute */
};

/* An event that stands for all sessions of one principal on one node for a while: programs open them in loops. */
typedef struct {
    gint64 event;
    gint64 until; /* monotonic */
    guint times;
} Told;

typedef struct {
    WeftSessions *sessions;
    WeftRequest *request; /* holds the session: where its connection ends, so does this */
    WeftShare *share;
    WeftCluster *cluster;
    WeftNode *node;
    WeftGateKind kind;
    GCancellable *cancellable; /* NULL: the gate has answered */
    guint deadline;
    int fd; /* what the gate gave; -1: nothing yet */
    struct MHD_UpgradeResponseHandle *handle;
    WeftSplice *splice;
} WeftSession;

static void
session_free(gpointer data)
{
    WeftSession *session = data;
    g_ptr_array_remove_fast(session->sessions->all, session);
    if (session->cancellable)
        g_cancellable_cancel(session->cancellable);
    g_clear_object(&session->cancellable);
    g_clear_handle_id(&session->deadline, g_source_remove);
    weft_splice_free(session->splice);
    if (session->fd >= 0)
        close(session->fd);
    if (session->handle)
        weft_server_hang_up(session->request, session->handle);
    weft_share_free(session->share);
    weft_cluster_free(session->cluster);
    weft_node_free(session->node);
    g_free(session);
}

/* Ends it now, and the connection with it. */
static void
session_end(WeftSession *session)
{
    WeftRequest *request = session->request;
    weft_request_hold(request, NULL, NULL);
    session_free(session);
    weft_request_unref(request);
}

/* --- whose they are --- */

static void
on_change(const WeftChange *changes, gsize n, gpointer data)
{
    WeftSessions *sessions = data;
    for (guint i = sessions->all->len; i > 0; i--) {
        WeftSession *session = sessions->all->pdata[i - 1];
        if (session->handle && !weft_request_is_allowed_after(session->request, changes, n))
            session_end(session);
    }
}

static gboolean
on_look(gpointer data)
{
    WeftSessions *sessions = data;
    for (guint i = sessions->all->len; i > 0; i--) {
        WeftSession *session = sessions->all->pdata[i - 1];
        if (session->handle && !weft_request_is_still_allowed(session->request))
            session_end(session);
    }
    return G_SOURCE_CONTINUE;
}

WeftSessions *
weft_sessions_new(WeftStore *store, WeftGate *gate)
{
    WeftSessions *sessions = g_new0(WeftSessions, 1);
    sessions->store = store;
    sessions->gate = gate;
    sessions->all = g_ptr_array_new();
    sessions->told = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    sessions->splices = weft_splices_new();
    sessions->watch = weft_store_watch(store, on_change, sessions);
    sessions->timer = g_timeout_add_seconds(LOOK_SECONDS, on_look, sessions);
    return sessions;
}

void
weft_sessions_end(WeftSessions *sessions)
{
    for (guint i = sessions->all->len; i > 0; i--) {
        WeftSession *session = sessions->all->pdata[i - 1];
        if (session->handle)
            session_end(session);
    }
}

void
weft_sessions_free(WeftSessions *sessions)
{
    if (!sessions)
        return;
    g_assert(sessions->all->len == 0);
    weft_store_unwatch(sessions->store, sessions->watch);
    g_source_remove(sessions->timer);
    weft_splices_free(sessions->splices);
    g_ptr_array_unref(sessions->all);
    g_hash_table_unref(sessions->told);
    g_free(sessions);
}

/* --- the upgraded connection --- */

static void
on_ended(gpointer data)
{
    session_end(data);
}

static void
on_upgrade(void *data, struct MHD_Connection *connection, void *state, const char *extra, size_t extra_size, MHD_socket fd,
           struct MHD_UpgradeResponseHandle *handle)
{
    WeftRequest *request = state;
    WeftSession *session = request->held;
    session->handle = handle;
    if (!weft_request_is_still_allowed(request)) {
        session_end(session);
        return;
    }
    /* A connection with TLS tells of no difference between a client that sends no more and one that is gone. */
    WeftSpliceEnds ends = { .near = fd, .far = session->fd, .whole = !request->peer->local };
    session->splice = weft_splice_new(session->sessions->splices, &ends, on_ended, session);
    weft_splice_begin(session->splice, extra, extra_size);
}

struct MHD_Response *
weft_session_response(void)
{
    return MHD_create_response_for_upgrade(on_upgrade, NULL);
}

/* --- opening --- */

#define SILENT "does not answer; it may still be starting, and weft console shows what it does"
#define SILENT_HOST "does not answer; try again later"

/* A driver's words are for operators. */
static const struct {
    WeftErrorCode code;
    const char *words;
    const char *of_console; /* NULL: the same */
} refusals[] = {
    { WEFT_ERROR_NOT_FOUND, "is gone; weft show tells which nodes there are", NULL },
    { WEFT_ERROR_CONFLICT, "is not running; weft show tells its phase", NULL },
    { WEFT_ERROR_BUSY, "has as many sessions as it can; end one, or try again later",
      "is in use: somebody else has its console; try again later" },
    { WEFT_ERROR_UNAVAILABLE, SILENT, SILENT_HOST },
    { WEFT_ERROR_TIMEOUT, SILENT, SILENT_HOST },
};

static GError *
reword(const WeftSession *session, const GError *error)
{
    g_autofree char *label = weft_node_label(session->node);
    WeftErrorCode code = weft_error_code(error);
    const char *words = "cannot be opened; try again later";
    for (guint i = 0; i < G_N_ELEMENTS(refusals); i++)
        if (refusals[i].code == code)
            words = session->kind == WEFT_GATE_CONSOLE && refusals[i].of_console ? refusals[i].of_console : refusals[i].words;
    GError *reworded = NULL;
    if (weft_request_sees_all(session->request))
        weft_problem_refuse(&reworded, code, "node %s %s (%s)", label, words, error->message);
    else
        weft_problem_refuse(&reworded, code, "node %s %s", label, words);
    return reworded;
}

static void
give_up(WeftSession *session, const GError *error)
{
    g_autoptr(WeftRequest) request = weft_request_ref(session->request);
    g_autoptr(GError) reworded = reword(session, error);
    session_end(session);
    weft_request_fail(request, reworded);
}

static gboolean
on_deadline(gpointer data)
{
    WeftSession *session = data;
    g_autoptr(GError) error = g_error_new(WEFT_ERROR, WEFT_ERROR_TIMEOUT, "no answer in %d s", OPEN_SECONDS);
    session->deadline = 0;
    give_up(session, error);
    return G_SOURCE_REMOVE;
}

static gboolean
is_over(gpointer key, gpointer told, gpointer now)
{
    return ((const Told *)told)->until <= *(const gint64 *)now;
}

static Told *
told_of(const WeftSession *session)
{
    WeftSessions *sessions = session->sessions;
    gint64 now = g_get_monotonic_time();
    g_hash_table_foreach_remove(sessions->told, is_over, &now);
    g_autofree char *key = g_strdup_printf("%s %s %d", session->request->principal->name, session->node->id, session->kind);
    Told *told = g_hash_table_lookup(sessions->told, key);
    if (!told) {
        told = g_new0(Told, 1);
        told->until = now + TOLD_TOGETHER;
        g_hash_table_insert(sessions->told, g_steal_pointer(&key), told);
    }
    return told;
}

/* The first of a minute is told by an event of its own, and each further one is counted there. */
static void
tell_opened(const WeftSession *session, WeftTxn *txn)
{
    Told *told = told_of(session);
    const WeftCluster *cluster = session->cluster;
    g_autofree char *label = weft_node_label(session->node);
    g_autofree char *times = ++told->times > 1 ? g_strdup_printf(" (%u times within a minute)", told->times) : g_strdup("");
    g_autofree char *message =
        g_strdup_printf("%s opened %s %s%s", session->request->principal->name,
                        session->kind == WEFT_GATE_CONSOLE ? "the console of" : "a session on", label, times);
    WeftEvent event = { .id = told->event,
                        .type = (char *)"session-opened",
                        .tenant = cluster->tenant,
                        .cluster = cluster->id,
                        .cluster_name = cluster->name,
                        .host = session->node->host,
                        .message = message };
    weft_txn_put_event(txn, &event);
    told->event = event.id;
}

/* The event is written before the first byte goes through. */
static void
on_opened(int fd, const GError *error, gpointer data)
{
    WeftSession *session = data;
    WeftRequest *request = session->request;
    g_clear_object(&session->cancellable);
    g_clear_handle_id(&session->deadline, g_source_remove);
    if (fd < 0) {
        give_up(session, error);
        return;
    }
    session->fd = fd;
    WeftTxn *txn = weft_txn_new("session-opened");
    tell_opened(session, txn);
    WeftReply *reply = weft_reply_new(101, NULL);
    reply->upgrade = weft_session_protocols[session->kind];
    weft_request_commit(request, txn, reply);
}

gboolean
weft_sessions_open(WeftRequest *request, WeftCluster *cluster, WeftNode *node, WeftGateKind kind, GError **error)
{
    WeftSessions *sessions = request->sessions;
    gboolean ways =
        sessions->gate || weft_problem_refuse(error, WEFT_ERROR_UNAVAILABLE, "this weftd has no way into its nodes");
    WeftShare *share = ways ? weft_request_take(request, WEFT_SHARE_SESSIONS, error) : NULL;
    if (!share) {
        weft_cluster_free(cluster);
        weft_node_free(node);
        return FALSE;
    }
    WeftSession *session = g_new0(WeftSession, 1);
    session->sessions = sessions;
    session->request = weft_request_ref(request);
    session->share = share;
    session->cluster = cluster;
    session->node = node;
    session->kind = kind;
    session->fd = -1;
    session->cancellable = g_cancellable_new();
    session->deadline = g_timeout_add_seconds(OPEN_SECONDS, on_deadline, session);
    g_ptr_array_add(sessions->all, session);
    weft_request_hold(request, session, (GDestroyNotify)session_end);
    sessions->gate->ops->open(sessions->gate, node->id, kind, session->cancellable, on_opened, session);
    return TRUE;
}
