#include "server.h"

#include "clock.h"
#include "errors.h"
#include "hangups.h"
#include "headers.h"
#include "problem.h"
#include "routes.h"
#include "watchdog.h"
#include "yaml.h"

/* For each connection; more than our own limits, so that ours are the ones that a client meets. */
#define CONNECTION_MEMORY (64 * 1024)
/* A client that has begun to send too much is heard out up to here: only then does it read our answer. */
#define DISCARD_MAX (8 * 1024 * 1024)
/* Bytes of a body that are collected for anybody, and heard of strangers; those who send more share a number of places. */
#define UPLOAD_FREE (64 * 1024)
/* A piece of a body that is smaller takes more time than it brings: those in debt wait before another one. */
#define SMALL_PIECE (4 * 1024)
/* What can be done later is, once a turn has taken so long: what a tenant has saved up, its clients might take all at once. */
#define TURN_TIME (5 * 1000)
#define TURN_WAIT (20 * 1000)
/* How long those wait who are in debt, before it is looked at again: less would be more work than what they are kept from. */
#define DEBT_WAIT_MIN (G_USEC_PER_SEC / 10)
#define DEBT_WAIT_MAX G_USEC_PER_SEC
/* In how many times the idle time a part has to have come, or gone, as a whole: a slow line is no crime. */
#define HEAD_PATIENCE 2
#define BODY_PATIENCE 6
#define HANDSHAKE_TIME (5 * G_USEC_PER_SEC)
#define NAME_TIME (2 * G_USEC_PER_SEC)
#define NAME_MEMORY (60 * G_USEC_PER_SEC)
/* The library's own limit is met by nobody: ours come first. */
#define LIBRARY_CONNECTIONS 1000000
#define READERS 8 /* that read requests at the same time */

struct WeftServer {
    WeftStore *store;
    WeftApiOptions options;
    WeftShares *shares;
    WeftBudgets *budgets;
    WeftStreams *streams;
    WeftSessions *sessions;
    WeftClusterTexts *texts[2]; /* for a tenant's eyes, and for those that see all */
    WeftReaders *readers;
    WeftBlobs *blobs; /* NULL: none */
    WeftUsers *users;
    GHashTable *paused; /* WeftRequest */
    WeftHangups *hangups;
    GPtrArray *listeners; /* WeftListener */
    struct MHD_Daemon *http;
    GSource *source;          /* its descriptor in the main loop */
    gint64 turn;              /* when the library last began to run, in the processor time of the thread */
    WeftConnection *incoming; /* what is being handed to the library */
};

static WeftConnection *
connection_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* --- pause and wake --- */

static int
socket_of(const WeftRequest *request)
{
    return MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

void
weft_server_pause(WeftRequest *request)
{
    request->paused = TRUE;
    g_hash_table_add(request->server->paused, request);
    weft_hangups_watch(request->server->hangups, socket_of(request), request);
    MHD_suspend_connection(request->connection);
}

static gboolean
on_time(gpointer data)
{
    WeftRequest *request = data;
    request->timer = 0;
    weft_server_wake(request);
    return G_SOURCE_REMOVE;
}

static void
pause_for(WeftRequest *request, gint64 time)
{
    weft_server_pause(request);
    request->timer = g_timeout_add((guint)(time / 1000) + 1, on_time, request);
}

gboolean
weft_server_make_wait(WeftRequest *request)
{
    WeftPayer payer = weft_request_payer(request);
    gint64 wait = weft_budget_wait(request->budgets, WEFT_BUDGET_PROCESSOR, &payer, g_get_monotonic_time());
    gboolean is_long = payer.kind != WEFT_PAYER_OPERATOR && weft_clock_thread() - request->server->turn > TURN_TIME;
    if (!wait && !is_long)
        return FALSE;
    pause_for(request, wait ? CLAMP(wait, DEBT_WAIT_MIN, DEBT_WAIT_MAX) : TURN_WAIT);
    return TRUE;
}

/* A resumed connection goes on when MHD runs again; no descriptor tells it. */
static void
run_soon(WeftServer *server)
{
    g_source_set_ready_time(server->source, 0);
}

void
weft_server_wake(WeftRequest *request)
{
    if (!request->paused)
        return;
    request->paused = FALSE;
    g_clear_handle_id(&request->timer, g_source_remove);
    g_hash_table_remove(request->server->paused, request);
    weft_hangups_forget(request->server->hangups, socket_of(request));
    MHD_resume_connection(request->connection);
    run_soon(request->server);
}

/* What is under way for it ends with its connection, which the library closes when it is told so. */
static void
on_hung_up(gpointer data)
{
    WeftRequest *request = data;
    request->hung_up = TRUE;
    weft_server_wake(request);
}

/* The seats of administrators are few, and are for those who come to help. */
gboolean
weft_server_may_last(const WeftRequest *request, GError **error)
{
    return weft_connection_may_last(connection_of(request->connection)) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "the socket of administrators has no event streams and sessions; open them on the other one, %s",
                             request->server->options.socket_path);
}

/* --- what came --- */

/* What was refused for the rate costs time, but counts as no request: who waits long enough gets in. */
static gboolean
check_budgets(WeftRequest *request, GError **error)
{
    if (!weft_request_check_debt(request, WEFT_BUDGET_REQUESTS, error) ||
        !weft_request_check_debt(request, WEFT_BUDGET_PROCESSOR, error))
        return FALSE;
    WeftPayer payer = weft_request_payer(request);
    weft_budget_charge(request->budgets, WEFT_BUDGET_REQUESTS, &payer, 1, g_get_monotonic_time());
    return TRUE;
}

static gboolean
identify(WeftRequest *request, GError **error)
{
    GError *failure = NULL;
    request->principal = weft_auth_identify(request->store, request->peer, request->headers.authorization, &failure);
    if (request->principal) {
        const char *tenant = request->principal->tenant;
        g_free(request->account);
        request->account = g_strdup_printf("%s/%s", tenant ? tenant : "", request->principal->name);
        return check_budgets(request, error);
    }
    if (!check_budgets(request, error))
        g_error_free(failure);
    else
        g_propagate_error(error, failure);
    return FALSE;
}

static gboolean
check_role(const WeftRequest *request, GError **error)
{
    if (request->principal->role >= request->route->role)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_DENIED, "this takes the role %s; %s has the role %s",
                weft_role_words[request->route->role], request->principal->name, weft_role_words[request->principal->role]);
    return FALSE;
}

static gboolean
admit(WeftRequest *request, GError **error)
{
    if (!weft_headers_take(request, error) || !identify(request, error))
        return FALSE;
    request->route = weft_router_match(weft_routes, request->method, request->target, &request->match, error);
    return request->route && check_role(request, error) && weft_headers_check_key(request, error);
}

/* --- what goes out --- */

static guint64
size_of(const WeftReply *reply)
{
    return reply->raw ? reply->raw : reply->body ? strlen(reply->body) : 0;
}

static struct MHD_Response *
make_response(WeftReply *reply)
{
    if (reply->stream)
        return weft_stream_response(g_steal_pointer(&reply->stream));
    if (reply->upgrade)
        return weft_session_response();
    if (reply->fd >= 0) {
        int fd = reply->fd;
        reply->fd = -1;
        return MHD_create_response_from_fd64(reply->raw, fd);
    }
    gsize length = size_of(reply);
    return MHD_create_response_from_buffer(length, g_steal_pointer(&reply->body), MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result
send_reply(WeftRequest *request)
{
    WeftReply *reply = request->reply;
    weft_request_record(request, reply->status);
    gboolean is_open_ended = reply->stream || reply->upgrade;
    guint64 size = size_of(reply);
    struct MHD_Response *response = make_response(reply);
    if (!response)
        return MHD_NO;
    if (reply->upgrade)
        MHD_add_response_header(response, "Upgrade", reply->upgrade);
    else
        MHD_add_response_header(response, "Content-Type", reply->type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (request->id)
        MHD_add_response_header(response, "X-Request-Id", request->id);
    for (guint i = 0; i + 1 < reply->headers->len; i += 2)
        MHD_add_response_header(response, reply->headers->pdata[i], reply->headers->pdata[i + 1]);
    if (request->principal && request->route && strcmp(request->method, "GET") != 0)
        g_info("%s: %s %s: %u", request->principal->name, request->method, request->target, reply->status);
    if (!is_open_ended)
        weft_connection_has_answer(connection_of(request->connection), size);
    enum MHD_Result queued = MHD_queue_response(request->connection, reply->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* What is refused for a debt costs time as well: whoever has that too often gets its answers later. */
static enum MHD_Result
answer(WeftRequest *request)
{
    WeftPayer payer = weft_request_payer(request);
    gint64 now = g_get_monotonic_time();
    gint64 hold = request->wait ? weft_budget_wait(request->budgets, WEFT_BUDGET_REFUSALS, &payer, now) : 0;
    if (request->wait)
        weft_budget_charge(request->budgets, WEFT_BUDGET_REFUSALS, &payer, 1, now);
    request->wait = 0;
    if (hold)
        pause_for(request, hold);
    else if (weft_request_record(request, request->reply->status))
        weft_server_pause(request);
    else
        return send_reply(request);
    return MHD_YES;
}

static void
refuse(WeftRequest *request, const GError *error)
{
    WeftReply *reply = weft_request_problem(request, error);
    if (reply->status == 405)
        weft_reply_header(reply, "Allow", "%s", request->match.allow);
    if (request->last)
        weft_reply_header(reply, "Connection", "close");
    request->reply = reply;
}

/* --- the life of a request --- */

static void *
on_target(void *data, const char *target, struct MHD_Connection *connection)
{
    WeftServer *server = data;
    WeftRequest *request = weft_request_new(server, target);
    request->store = server->store;
    request->streams = server->streams;
    request->sessions = server->sessions;
    request->gate = server->options.gate;
    request->texts = server->texts;
    request->readers = server->readers;
    request->shares = server->shares;
    request->budgets = weft_budgets_ref(server->budgets);
    request->blobs = server->blobs;
    request->options = &server->options;
    request->audit = server->options.audit;
    request->connection = connection;
    weft_connection_is_heard(connection_of(connection));
    request->peer = connection_of(connection)->peer;
    request->account = g_strdup(request->peer->party);
    return request;
}

static guint
body_max(const WeftRequest *request)
{
    const WeftRoute *route = request->route;
    if (!route || route->body != WEFT_BODY_RAW)
        return request->server->options.body_max;
    return route->raw_max ? route->raw_max : WEFT_RAW_MAX;
}

static gboolean
has_chunks(const WeftRequest *request)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Transfer-Encoding") != NULL;
}

/* A known client is heard out beyond what its body may have; a stranger is not: whatever it says changes nothing. */
static gboolean
is_heard_out(const WeftRequest *request)
{
    const char *length = request->headers.content_length;
    guint64 announced = length ? g_ascii_strtoull(length, NULL, 10) : 0;
    if (!request->principal)
        return announced <= UPLOAD_FREE && !has_chunks(request);
    return announced <= body_max(request) + (guint64)DISCARD_MAX;
}

/* All that can be refused before the body has come is refused on its head; the answer follows when the body has been read. */
static enum MHD_Result
begin(WeftRequest *request, const char *method)
{
    g_autoptr(GError) error = NULL;
    request->method = g_strdup(method);
    if (!admit(request, &error))
        refuse(request, error);
    weft_connection_has_head(connection_of(request->connection), request->principal != NULL);
    if (is_heard_out(request))
        return MHD_YES;
    if (!request->reply) {
        error = g_error_new(WEFT_HTTP_ERROR, 413, "the body may have %u bytes", body_max(request));
        refuse(request, error);
    }
    return send_reply(request);
}

/* What is left in *left stays where it is, and comes again. */
static enum MHD_Result
collect(WeftRequest *request, const char *data, gsize *left)
{
    g_autoptr(GError) busy = NULL;
    guint max = body_max(request);
    gsize size = *left;
    if (request->uploaded && size < SMALL_PIECE && weft_server_make_wait(request))
        return MHD_YES;
    *left = 0;
    request->uploaded += size;
    if (request->uploaded > max + (gsize)DISCARD_MAX)
        return MHD_NO;
    if (request->reply)
        return MHD_YES;
    if (request->uploaded > UPLOAD_FREE && !request->upload_share &&
        !(request->upload_share = weft_request_take(request, WEFT_SHARE_UPLOADS, &busy))) {
        refuse(request, busy);
        return MHD_YES;
    }
    if (request->uploaded > max) {
        g_autoptr(GError) error = g_error_new(WEFT_HTTP_ERROR, 413, "the body may have %u bytes, this one has more", max);
        refuse(request, error);
        return MHD_YES;
    }
    g_byte_array_append(request->upload, (const guint8 *)data, (guint)size);
    return MHD_YES;
}

static void
process(WeftRequest *request)
{
    g_autoptr(GError) error = NULL;
    request->complete = TRUE;
    weft_connection_has_request(connection_of(request->connection));
    if (request->reply)
        return;
    if (weft_request_check_debt(request, WEFT_BUDGET_PROCESSOR, &error) && weft_request_may_change(request, &error))
        weft_request_run(request);
    else
        refuse(request, error);
}

static enum MHD_Result
on_request(void *data, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
           const char *upload, size_t *upload_size, void **state)
{
    WeftRequest *request = *state;
    g_auto(WeftMeter) meter = weft_meter_start(request);
    meter.since -= weft_connection_take_time(connection_of(connection));
    if (request->hung_up)
        return MHD_NO;
    if (!request->method)
        return begin(request, method);
    if (*upload_size)
        return collect(request, upload, upload_size);
    if (!request->complete)
        process(request);
    if (request->reply)
        return answer(request);
    weft_server_pause(request);
    return MHD_YES;
}

static void
on_completed(void *data, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    WeftRequest *request = *state;
    if (!request)
        return;
    *state = NULL;
    weft_connection_waits(connection_of(connection));
    weft_request_abandon(request);
    weft_request_unref(request);
}

static void
on_connection(void *data, struct MHD_Connection *connection, void **state, enum MHD_ConnectionNotificationCode code)
{
    WeftServer *server = data;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *state = g_steal_pointer(&server->incoming);
    else
        weft_connection_unref(*state);
}

/* A client that does not take what is left is as one that does not send its request. */
void
weft_server_hang_up(WeftRequest *request, struct MHD_UpgradeResponseHandle *handle)
{
    weft_connection_waits(connection_of(request->connection));
    MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    run_soon(request->server);
}

/* --- in the main loop --- */

static void
set_deadline(WeftServer *server)
{
    MHD_UNSIGNED_LONG_LONG wait;
    gboolean has = MHD_get_timeout(server->http, &wait) == MHD_YES;
    g_source_set_ready_time(server->source, has ? g_get_monotonic_time() + (gint64)MIN(wait, G_MAXINT) * 1000 : -1);
}

typedef struct {
    GSource base;
    WeftServer *server;
} HttpSource;

static gboolean
dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    WeftServer *server = ((HttpSource *)source)->server;
    server->turn = weft_clock_thread();
    weft_watchdog_mark("reading and sending over HTTP", NULL);
    MHD_run(server->http);
    set_deadline(server);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs source_functions = { .dispatch = dispatch };

static void
attach(WeftServer *server)
{
    int fd = MHD_get_daemon_info(server->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    server->source = g_source_new(&source_functions, sizeof(HttpSource));
    ((HttpSource *)server->source)->server = server;
    g_source_add_unix_fd(server->source, fd, G_IO_IN);
    g_source_attach(server->source, NULL);
    set_deadline(server);
}

G_GNUC_PRINTF(2, 0)
static void
on_log(void *data, const char *format, va_list args)
{
    g_autofree char *message = g_strdup_vprintf(format, args);
    g_debug("http: %s", g_strchomp(message));
}

/* The library is given connections, and takes none itself: once its limit is met while the main loop is busy, 0.9.75 does not
 * look at a listening socket again until some connection wakes it. */
static struct MHD_Daemon *
start_http(WeftServer *server)
{
    guint flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
                            MHD_OPTION_CONNECTION_LIMIT, LIBRARY_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                            (guint)MAX(server->options.idle_timeout / G_USEC_PER_SEC, 1), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_target,
                            server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
                            on_connection, server, MHD_OPTION_END);
}

/* --- listening --- */

/* Whose it is we know better than from an address: the library is given none. */
static void
on_ready(WeftConnection *connection, int fd, gpointer data)
{
    static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    WeftServer *server = data;
    server->incoming = connection;
    MHD_add_connection(server->http, fd, &nowhere, sizeof nowhere);
    g_clear_pointer(&server->incoming, weft_connection_unref); /* it was not taken */
    run_soon(server);
}

void
weft_server_listen(WeftServer *server, const WeftServerSocket *socket)
{
    gint64 idle = server->options.idle_timeout;
    gboolean admins = socket->kind == WEFT_LISTENER_ADMINS;
    WeftListenerOptions options = {
        .kind = socket->kind,
        .fd = socket->fd,
        .name = socket->name,
        .limits = {
            .all = socket->connections,
            .of_party = admins ? socket->connections : server->options.connections_per_address,
            .strangers = MAX(socket->connections / 2, 1),
        },
        .times = {
            .handshake = MIN(HANDSHAKE_TIME, idle),
            .head = HEAD_PATIENCE * idle,
            .body = BODY_PATIENCE * idle,
            .answer = BODY_PATIENCE * idle,
            .open = !admins,
        },
        .certificates = socket->certificates,
        .users = server->users,
    };
    g_ptr_array_add(server->listeners, weft_listener_new(&options, on_ready, server));
}

WeftServer *
weft_server_new(WeftStore *store, const WeftApiOptions *options, WeftBlobs *blobs, GError **error)
{
    WeftServer *server = g_new0(WeftServer, 1);
    server->store = store;
    server->blobs = blobs;
    server->options = *options;
    server->shares = weft_shares_new((const guint[WEFT_SHARE_KINDS]){
        [WEFT_SHARE_STREAMS] = options->streams,
        [WEFT_SHARE_SESSIONS] = options->sessions,
        [WEFT_SHARE_READERS] = READERS,
        [WEFT_SHARE_TRIALS] = options->trials,
        [WEFT_SHARE_QUESTIONS] = options->questions,
        [WEFT_SHARE_UPLOADS] = options->uploads,
        [WEFT_SHARE_PIECES] = WEFT_BLOB_READERS,
    });
    server->budgets = weft_budgets_new(
        &(WeftBudgetLimits){ options->requests_per_second, options->requests_burst, options->processor_per_tenant });
    server->streams = weft_streams_new(store);
    server->sessions = weft_sessions_new(store, options->gate);
    for (guint all = 0; all < 2; all++)
        server->texts[all] = weft_cluster_texts_new(all);
    server->users = weft_users_new(NULL, NAME_TIME, NAME_MEMORY);
    server->paused = g_hash_table_new(NULL, NULL);
    server->hangups = weft_hangups_new(on_hung_up);
    server->listeners = g_ptr_array_new_with_free_func((GDestroyNotify)weft_listener_free);
    (void)WEFT_HTTP_ERROR; /* made at its first use, which must not be two readers' at once */
    server->readers = weft_readers_new(store, READERS, error);
    server->http = server->readers ? start_http(server) : NULL;
    if (!server->http) {
        if (server->readers)
            weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot serve HTTP");
        weft_server_free(server);
        return NULL;
    }
    attach(server);
    return server;
}

/* The library wants all connections awake before it stops; their requests get no answer any more. */
static void
wake_all(WeftServer *server)
{
    g_autoptr(GList) requests = g_hash_table_get_keys(server->paused);
    for (GList *item = requests; item; item = item->next)
        weft_server_wake(item->data);
}

/* Everybody who waits is handed to the library first, which then closes what it has. */
static void
close_connections(WeftServer *server)
{
    for (guint i = 0; i < server->listeners->len; i++)
        weft_listener_stop(server->listeners->pdata[i]);
    g_clear_pointer(&server->users, weft_users_free);
    g_source_destroy(server->source);
    g_source_unref(server->source);
    MHD_stop_daemon(server->http);
}

void
weft_server_free(WeftServer *server)
{
    if (!server)
        return;
    wake_all(server);
    weft_sessions_end(server->sessions);
    if (server->http)
        close_connections(server);
    weft_readers_free(server->readers);
    weft_users_free(server->users);
    g_ptr_array_unref(server->listeners);
    weft_streams_free(server->streams);
    weft_sessions_free(server->sessions);
    for (guint all = 0; all < 2; all++)
        weft_cluster_texts_free(server->texts[all]);
    weft_shares_unref(server->shares);
    weft_budgets_unref(server->budgets);
    g_hash_table_unref(server->paused);
    weft_hangups_free(server->hangups);
    g_free(server);
}
