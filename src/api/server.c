#include "server.h"

#include "connections.h"
#include "errors.h"
#include "limit.h"
#include "page.h"
#include "problem.h"
#include "routes.h"
#include "tls.h"
#include "yaml.h"

#define HEADERS_MAX 64
#define HEADERS_SIZE_MAX (16 * 1024)
/* For each connection; more than our own limits, so that ours are the ones that a client meets. */
#define CONNECTION_MEMORY (64 * 1024)
/* A client that has begun to send too much is heard out up to here: only then does it read our answer. */
#define DISCARD_MAX (8 * 1024 * 1024)
#define KEY_LENGTH_MAX 64
/* A request may take this many times the idle time to come: a slow line is no crime. */
#define PATIENCE 6

struct WeftServer {
    WeftStore *store;
    WeftApiOptions options;
    WeftLimit *limit;
    WeftStreams *streams;
    WeftSessions *sessions;
    WeftClusterTexts *texts[2]; /* for a tenant's eyes, and for those that see all */
    WeftWorks *works;
    WeftBlobs *blobs; /* NULL: none */
    WeftConnections *connections;
    GHashTable *paused; /* WeftRequest */
    GPtrArray *daemons; /* Daemon */
};

typedef struct {
    WeftServer *server;
    gboolean local;
    WeftTls *tls; /* NULL: the library listens itself */
    struct MHD_Daemon *http;
    GSource *source;
} Daemon;

/* --- pause and wake --- */

void
weft_server_pause(WeftRequest *request)
{
    request->paused = TRUE;
    g_hash_table_add(request->server->paused, request);
    MHD_suspend_connection(request->connection);
}

/* A resumed connection goes on when MHD runs again; no descriptor tells it. */
static void
run_soon(WeftServer *server)
{
    for (guint i = 0; i < server->daemons->len; i++)
        g_source_set_ready_time(((Daemon *)server->daemons->pdata[i])->source, 0);
}

void
weft_server_wake(WeftRequest *request)
{
    if (!request->paused)
        return;
    request->paused = FALSE;
    g_hash_table_remove(request->server->paused, request);
    MHD_resume_connection(request->connection);
    run_soon(request->server);
}

/* --- what came --- */

static const struct {
    const char *name;
    gsize offset;
} headers[] = {
    { "Authorization", G_STRUCT_OFFSET(WeftHeaders, authorization) },
    { "Content-Type", G_STRUCT_OFFSET(WeftHeaders, content_type) },
    { "Accept", G_STRUCT_OFFSET(WeftHeaders, accept) },
    { "If-Match", G_STRUCT_OFFSET(WeftHeaders, if_match) },
    { "Idempotency-Key", G_STRUCT_OFFSET(WeftHeaders, idempotency_key) },
    { "Last-Event-ID", G_STRUCT_OFFSET(WeftHeaders, last_event_id) },
    { "Content-Length", G_STRUCT_OFFSET(WeftHeaders, content_length) },
};

typedef struct {
    WeftHeaders *headers;
    guint count;
    gsize size;
    const char *twice;
    gboolean chunked;
    gboolean broken; /* what others may read differently */
} HeaderWalk;

static enum MHD_Result
take_header(void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
    HeaderWalk *walk = data;
    walk->count++;
    walk->size += strlen(name) + (value ? strlen(value) : 0);
    walk->broken |= strpbrk(name, " \t") != NULL;
    walk->chunked |= g_ascii_strcasecmp(name, "Transfer-Encoding") == 0;
    for (guint i = 0; i < G_N_ELEMENTS(headers); i++) {
        if (g_ascii_strcasecmp(headers[i].name, name) != 0)
            continue;
        char **slot = G_STRUCT_MEMBER_P(walk->headers, headers[i].offset);
        if (*slot)
            walk->twice = headers[i].name;
        else
            *slot = g_strdup(value ? value : "");
    }
    return MHD_YES;
}

static gboolean
take_headers(WeftRequest *request, GError **error)
{
    HeaderWalk walk = { .headers = &request->headers };
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, take_header, &walk);
    /* Where this request ends is a matter of taste then, and what follows is no request of ours. */
    request->last = walk.broken || (request->headers.content_length && (walk.chunked || walk.twice));
    if (walk.count > HEADERS_MAX || walk.size > HEADERS_SIZE_MAX) {
        g_set_error(error, WEFT_HTTP_ERROR, 431, "%u headers of %zu bytes: may be %d of %d in all", walk.count, walk.size,
                    HEADERS_MAX, HEADERS_SIZE_MAX);
        return FALSE;
    }
    if (walk.broken || (walk.chunked && request->headers.content_length)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "headers: no blank in a name, and either Content-Length or Transfer-Encoding");
        return FALSE;
    }
    if (walk.twice) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "header %s: given twice; give it once", walk.twice);
        return FALSE;
    }
    return TRUE;
}

static gboolean
check_key(WeftRequest *request, GError **error)
{
    const char *key = request->headers.idempotency_key;
    if (!key || strcmp(request->method, "POST") != 0) {
        g_clear_pointer(&request->headers.idempotency_key, g_free);
        return TRUE;
    }
    gsize length = strlen(key);
    for (const char *p = key; *p; p++)
        if (!g_ascii_isalnum(*p) && !strchr("._-", *p))
            length = 0;
    if (length >= 1 && length <= KEY_LENGTH_MAX)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "Idempotency-Key: must be 1 to %d of A-Z a-z 0-9 . _ -", KEY_LENGTH_MAX);
    return FALSE;
}

static gboolean
check_rate(WeftRequest *request, const char *account, guint cost, GError **error)
{
    if (weft_limit_take(request->server->limit, account, cost, g_get_monotonic_time()))
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_BUSY, "more than %u requests a second; try again in a second",
                request->server->options.requests_per_second);
    return FALSE;
}

static gboolean
identify(WeftRequest *request, GError **error)
{
    GError *failure = NULL;
    request->principal = weft_auth_identify(request->store, request->peer, request->headers.authorization, &failure);
    if (request->principal) {
        const char *tenant = request->principal->tenant;
        request->account = g_strdup_printf("%s/%s", tenant ? tenant : "", request->principal->name);
        return check_rate(request, request->account, 1, error);
    }
    /* Strangers share one bucket: they cannot use up anybody else's. */
    if (!check_rate(request, "?", 1, error))
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
    if (!take_headers(request, error) || !identify(request, error))
        return FALSE;
    request->route = weft_router_match(weft_routes, request->method, request->target, &request->match, error);
    return request->route && check_role(request, error) && check_key(request, error) &&
           check_rate(request, request->account, weft_page_cost(request) - 1, error);
}

static gboolean
check_type(const WeftRequest *request, const char *wanted, GError **error)
{
    const char *type = request->headers.content_type ? request->headers.content_type : "";
    gsize word = strcspn(type, "; \t");
    if (word == strlen(wanted) && g_ascii_strncasecmp(type, wanted, word) == 0)
        return TRUE;
    g_set_error(error, WEFT_HTTP_ERROR, 415, "Content-Type: must be %s, is \"%.64s\"", wanted, type);
    return FALSE;
}

static gboolean
parse_body(WeftRequest *request, GError **error)
{
    if (!check_type(request, "application/json", error))
        return FALSE;
    request->body = weft_json_parse((const char *)request->upload->data, request->upload->len, error);
    if (!request->body)
        return FALSE;
    if (json_is_object(request->body))
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "the body must be a JSON object: { … }");
    return FALSE;
}

static gboolean
take_body(WeftRequest *request, GError **error)
{
    const WeftRoute *route = request->route;
    if (route->body == WEFT_BODY_RAW)
        return check_type(request, "application/octet-stream", error);
    if (request->upload->len && route->body != WEFT_BODY_NONE)
        return parse_body(request, error);
    if (request->upload->len)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s %s: takes no body; send none", route->method, route->path);
    else if (route->body == WEFT_BODY_REQUIRED)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s %s: needs a body, a JSON object", route->method, route->path);
    else
        return TRUE;
    return FALSE;
}

/* --- what goes out --- */

static struct MHD_Response *
make_response(WeftReply *reply)
{
    if (reply->stream)
        return weft_stream_response(g_steal_pointer(&reply->stream));
    if (reply->upgrade)
        return weft_session_response();
    gsize length = reply->raw ? reply->raw : reply->body ? strlen(reply->body) : 0;
    return MHD_create_response_from_buffer(length, g_steal_pointer(&reply->body), MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result
send_reply(WeftRequest *request)
{
    WeftReply *reply = request->reply;
    struct MHD_Response *response = make_response(reply);
    if (!response)
        return MHD_NO;
    if (reply->upgrade)
        MHD_add_response_header(response, "Upgrade", reply->upgrade);
    else
        MHD_add_response_header(response, "Content-Type", reply->type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    for (guint i = 0; i + 1 < reply->headers->len; i += 2)
        MHD_add_response_header(response, reply->headers->pdata[i], reply->headers->pdata[i + 1]);
    if (request->route && strcmp(request->method, "GET") != 0)
        g_info("%s: %s %s: %u", request->principal->name, request->method, request->target, reply->status);
    enum MHD_Result queued = MHD_queue_response(request->connection, reply->status, response);
    MHD_destroy_response(response);
    return queued;
}

static void
refuse(WeftRequest *request, const GError *error)
{
    WeftReply *reply = weft_reply_problem(error);
    if (reply->status == 405)
        weft_reply_header(reply, "Allow", "%s", request->match.allow);
    if (request->last)
        weft_reply_header(reply, "Connection", "close");
    request->reply = reply;
}

/* --- the life of a request --- */

static WeftConnection *
connection_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void *
on_target(void *data, const char *target, struct MHD_Connection *connection)
{
    Daemon *daemon = data;
    WeftRequest *request = weft_request_new(daemon->server, target);
    request->store = daemon->server->store;
    request->streams = daemon->server->streams;
    request->sessions = daemon->server->sessions;
    request->gate = daemon->server->options.gate;
    request->texts = daemon->server->texts;
    request->works = daemon->server->works;
    request->blobs = daemon->server->blobs;
    request->options = &daemon->server->options;
    request->connection = connection;
    request->peer = connection_of(connection)->peer;
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

/* All that can be refused before the body has come is refused on its head; the answer follows when the body has been read. */
static enum MHD_Result
begin(WeftRequest *request, const char *method)
{
    g_autoptr(GError) error = NULL;
    request->method = g_strdup(method);
    if (!admit(request, &error))
        refuse(request, error);
    const char *length = request->headers.content_length;
    if (!length || g_ascii_strtoull(length, NULL, 10) <= body_max(request) + (guint64)DISCARD_MAX)
        return MHD_YES;
    if (!request->reply) {
        error = g_error_new(WEFT_HTTP_ERROR, 413, "the body may have %u bytes", body_max(request));
        refuse(request, error);
    }
    return send_reply(request);
}

static enum MHD_Result
collect(WeftRequest *request, const char *data, gsize size)
{
    guint max = body_max(request);
    request->uploaded += size;
    if (request->uploaded > max + (gsize)DISCARD_MAX)
        return MHD_NO;
    if (request->reply)
        return MHD_YES;
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
    if (take_body(request, &error))
        weft_request_run(request);
    else
        refuse(request, error);
}

static enum MHD_Result
on_request(void *data, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
           const char *upload, size_t *upload_size, void **state)
{
    WeftRequest *request = *state;
    if (!request->method)
        return begin(request, method);
    if (*upload_size) {
        gsize size = *upload_size;
        *upload_size = 0;
        return collect(request, upload, size);
    }
    if (!request->complete)
        process(request);
    if (request->reply)
        return send_reply(request);
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
    Daemon *daemon = data;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *state = weft_connection_new(daemon->server->connections, fd, daemon->local);
    } else {
        weft_connection_free(*state);
    }
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
set_deadline(Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG wait;
    gboolean has = MHD_get_timeout(daemon->http, &wait) == MHD_YES;
    g_source_set_ready_time(daemon->source, has ? g_get_monotonic_time() + (gint64)MIN(wait, G_MAXINT) * 1000 : -1);
}

typedef struct {
    GSource base;
    Daemon *daemon;
} HttpSource;

static gboolean
dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    Daemon *daemon = ((HttpSource *)source)->daemon;
    MHD_run(daemon->http);
    set_deadline(daemon);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs source_functions = { .dispatch = dispatch };

static void
attach(Daemon *daemon)
{
    int fd = MHD_get_daemon_info(daemon->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    daemon->source = g_source_new(&source_functions, sizeof(HttpSource));
    ((HttpSource *)daemon->source)->daemon = daemon;
    g_source_add_unix_fd(daemon->source, fd, G_IO_IN);
    g_source_attach(daemon->source, NULL);
    set_deadline(daemon);
}

G_GNUC_PRINTF(2, 0)
static void
on_log(void *data, const char *format, va_list args)
{
    g_autofree char *message = g_strdup_vprintf(format, args);
    g_debug("http: %s", g_strchomp(message));
}

static void
daemon_free(gpointer data)
{
    Daemon *daemon = data;
    if (daemon->source) {
        g_source_destroy(daemon->source);
        g_source_unref(daemon->source);
    }
    if (daemon->http)
        MHD_stop_daemon(daemon->http);
    weft_tls_free(daemon->tls);
    g_free(daemon);
}

static struct MHD_Daemon *
start_http(Daemon *daemon, const WeftListener *listener)
{
    const WeftApiOptions *options = &daemon->server->options;
    guint flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem listening[] = {
        { listener->certificate ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, listener->fd, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    flags |= listener->certificate ? MHD_USE_NO_LISTEN_SOCKET : 0;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, daemon, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
                            MHD_OPTION_CONNECTION_LIMIT, listener->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                            listener->local ? 0 : options->connections_per_address, MHD_OPTION_CONNECTION_TIMEOUT,
                            (guint)MAX(options->idle_timeout / G_USEC_PER_SEC, 1), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_target,
                            daemon, MHD_OPTION_NOTIFY_COMPLETED, on_completed, daemon, MHD_OPTION_NOTIFY_CONNECTION,
                            on_connection, daemon, MHD_OPTION_ARRAY, listening, MHD_OPTION_END);
}

/* The library counts its connections, and those of one address, as if it had accepted them. */
static void
on_accepted(int fd, const struct sockaddr *address, socklen_t length, gpointer data)
{
    Daemon *daemon = data;
    if (MHD_add_connection(daemon->http, fd, address, length) == MHD_YES)
        run_soon(daemon->server);
}

static gboolean
listen_tls(Daemon *daemon, const WeftListener *listener, GError **error)
{
    WeftTlsOptions options = {
        .fd = listener->fd,
        .certificate = listener->certificate,
        .key = listener->key,
        .connections = listener->connections,
        .patience = PATIENCE * daemon->server->options.idle_timeout,
    };
    daemon->tls = weft_tls_new(&options, on_accepted, daemon, error);
    return daemon->tls != NULL;
}

gboolean
weft_server_listen(WeftServer *server, const WeftListener *listener, GError **error)
{
    Daemon *daemon = g_new0(Daemon, 1);
    daemon->server = server;
    daemon->local = listener->local;
    daemon->http = start_http(daemon, listener);
    if (!daemon->http || (listener->certificate && !listen_tls(daemon, listener, error))) {
        gboolean told = daemon->http != NULL;
        daemon_free(daemon); /* the socket is closed */
        return told ? FALSE : weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot serve HTTP");
    }
    attach(daemon);
    g_ptr_array_add(server->daemons, daemon);
    return TRUE;
}

WeftServer *
weft_server_new(WeftStore *store, const WeftApiOptions *options, WeftBlobs *blobs)
{
    WeftServer *server = g_new0(WeftServer, 1);
    server->store = store;
    server->blobs = blobs;
    server->options = *options;
    server->limit = weft_limit_new(options->requests_per_second, options->requests_burst);
    server->streams = weft_streams_new(store, options->streams);
    server->sessions = weft_sessions_new(store, options->gate, options->sessions);
    for (guint all = 0; all < 2; all++)
        server->texts[all] = weft_cluster_texts_new(store, all);
    server->works = weft_works_new();
    server->connections = weft_connections_new(options->connections_per_address, PATIENCE * options->idle_timeout);
    server->paused = g_hash_table_new(NULL, NULL);
    server->daemons = g_ptr_array_new_with_free_func(daemon_free);
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

void
weft_server_free(WeftServer *server)
{
    if (!server)
        return;
    wake_all(server);
    weft_sessions_end(server->sessions);
    g_ptr_array_unref(server->daemons);
    weft_streams_free(server->streams);
    weft_sessions_free(server->sessions);
    weft_connections_free(server->connections);
    weft_works_free(server->works);
    for (guint all = 0; all < 2; all++)
        weft_cluster_texts_free(server->texts[all]);
    weft_limit_free(server->limit);
    g_hash_table_unref(server->paused);
    g_free(server);
}
