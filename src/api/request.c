#include "request.h"

#include "clock.h"
#include "errors.h"
#include "headers.h"
#include "problem.h"
#include "records.h"
#include "server.h"
#include "watchdog.h"
#include "yaml.h"

#define TRIES_MAX 5
#define ANSWER_HEAD 1024 /* bytes that are kept of an answer beside its body, about */

WeftRequest *
weft_request_new(WeftServer *server, const char *target)
{
    WeftRequest *request = g_new0(WeftRequest, 1);
    g_ref_count_init(&request->references);
    request->server = server;
    request->target = g_strdup(target);
    request->upload = g_byte_array_new();
    return request;
}

WeftRequest *
weft_request_ref(WeftRequest *request)
{
    g_ref_count_inc(&request->references);
    return request;
}

static void
clear_headers(WeftHeaders *headers)
{
    g_free(headers->authorization);
    g_free(headers->content_type);
    g_free(headers->accept);
    g_free(headers->if_match);
    g_free(headers->idempotency_key);
    g_free(headers->last_event_id);
    g_free(headers->content_length);
}

/* What a reader left behind, or what its commit was to be answered with. */
static void
forget_outcome(WeftRequest *request)
{
    g_clear_pointer(&request->txn, weft_txn_free);
    g_clear_pointer(&request->prepared, weft_reply_free);
    if (request->go_on && request->free_go_on)
        request->free_go_on(request->go_on_data);
    request->go_on = NULL;
}

void
weft_request_unref(WeftRequest *request)
{
    if (!request || !g_ref_count_dec(&request->references))
        return;
    if (request->acted)
        weft_request_record(request, request->outcome);
    clear_headers(&request->headers);
    weft_match_clear(&request->match);
    weft_principal_free(request->principal);
    forget_outcome(request);
    weft_reply_free(request->reply);
    weft_blob_pin_free(request->pin);
    g_byte_array_unref(request->upload);
    weft_share_free(request->upload_share);
    weft_budgets_unref(request->budgets);
    g_free(request->account);
    g_free(request->id);
    g_free(request->digest);
    json_decref(request->from);
    g_free(request->method);
    g_free(request->target);
    g_free(request);
}

void
weft_request_hold(WeftRequest *request, gpointer held, GDestroyNotify end)
{
    request->held = held;
    request->end_held = end;
}

void
weft_request_abandon(WeftRequest *request)
{
    if (request->held)
        request->end_held(request->held);
    weft_request_keep_origin(request); /* a reader that has the request may still make a change of it */
    request->connection = NULL;
    request->peer = NULL;
    g_clear_pointer(&request->reply, weft_reply_free); /* a stream that was not sent holds the request */
    g_atomic_int_set(&request->gone, TRUE);
    weft_readers_cancel(request);
}

/* --- what it costs --- */

WeftPayer
weft_request_payer(const WeftRequest *request)
{
    const WeftPrincipal *principal = request->principal;
    WeftPayerKind kind = !principal ? WEFT_PAYER_STRANGER : principal->tenant ? WEFT_PAYER_TENANT : WEFT_PAYER_OPERATOR;
    return (WeftPayer){ kind, principal && principal->tenant ? principal->tenant : "", request->account };
}

WeftShare *
weft_request_take(WeftRequest *request, WeftShareKind kind, GError **error)
{
    gboolean lasts = kind == WEFT_SHARE_STREAMS || kind == WEFT_SHARE_SESSIONS;
    if (lasts && !weft_server_may_last(request, error))
        return NULL;
    WeftPayer payer = weft_request_payer(request);
    return weft_share_take(request->shares, kind, &payer, error);
}

static const char *const spent[] = {
    [WEFT_BUDGET_REQUESTS] = "more requests a second than one principal, or its tenant, may make",
    [WEFT_BUDGET_PROCESSOR] = "your requests, or those of your tenant, took more of weftd's time than is yours",
};

gboolean
weft_request_check_debt(WeftRequest *request, WeftBudgetKind kind, GError **error)
{
    WeftPayer payer = weft_request_payer(request);
    request->wait = weft_budget_wait(request->budgets, kind, &payer, g_get_monotonic_time());
    if (!request->wait)
        return TRUE;
    g_autofree char *wait = weft_duration_format(request->wait);
    return weft_error_refuse(error, WEFT_ERROR_BUSY, "%s; try again in %s", spent[kind], wait);
}

void
weft_request_charge(WeftRequest *request, gint64 microseconds)
{
    WeftPayer payer = weft_request_payer(request);
    weft_budget_charge(request->budgets, WEFT_BUDGET_PROCESSOR, &payer, microseconds, g_get_monotonic_time());
}

static void
watch(const WeftRequest *request)
{
    char what[160];
    g_snprintf(what, sizeof what, "%s %s of %s", request->method, request->route ? request->route->path : "", request->account);
    weft_watchdog_mark("request", what);
}

WeftMeter
weft_meter_start(WeftRequest *request)
{
    if (request->method)
        watch(request);
    return (WeftMeter){ weft_request_ref(request), weft_clock_thread() };
}

void
weft_meter_stop(WeftMeter *meter)
{
    weft_request_charge(meter->request, weft_clock_thread() - meter->since);
    g_clear_pointer(&meter->request, weft_request_unref);
}

/* --- idempotency --- */

static char *
memory_key(const WeftRequest *request)
{
    return g_strdup_printf("%s/%s", request->account, request->headers.idempotency_key);
}

static char *
fingerprint(const WeftRequest *request)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_checksum_update(sum, (const guchar *)request->method, -1);
    g_checksum_update(sum, (const guchar *)" ", 1);
    g_checksum_update(sum, (const guchar *)request->target, -1);
    g_checksum_update(sum, (const guchar *)"\n", 1);
    g_checksum_update(sum, request->upload->data, request->upload->len);
    return g_strdup(g_checksum_get_string(sum));
}

static gsize
size_of(const WeftReply *reply)
{
    return ANSWER_HEAD + (reply->body && !reply->once ? strlen(reply->body) : 0);
}

/* What is kept is bounded for each tenant: a day of keys would be larger than all else that the store has. */
static gboolean
check_answers(const WeftRequest *request, const WeftReply *reply, GError **error)
{
    const char *tenant = request->principal->tenant;
    guint64 used = 0;
    if (!tenant)
        return TRUE;
    if (!weft_store_answers_used(request->store, tenant, &used, error))
        return FALSE;
    return used + size_of(reply) <= WEFT_ANSWERS_MAX ||
           weft_error_refuse(
               error, WEFT_ERROR_BUSY,
               "Idempotency-Key: as many answers to tenant %s are kept as can be, and nothing was done; try again "
               "when older ones are a day old, or without that header",
               tenant);
}

static void
remember(const WeftRequest *request, WeftTxn *txn, const WeftReply *reply)
{
    json_t *headers = json_array();
    for (guint i = 0; i < reply->headers->len; i++)
        json_array_append_new(headers, json_string(reply->headers->pdata[i]));
    g_autofree char *key = memory_key(request);
    g_autofree char *hash = fingerprint(request);
    json_t *value = json_pack("{s:s, s:i, s:s?, s:o, s:I}", "hash", hash, "status", (int)reply->status, "body",
                              reply->once ? NULL : reply->body, "headers", headers, "created", (json_int_t)weft_clock_now());
    weft_txn_put_answer(txn, key, request->principal->tenant, size_of(reply), value);
}

static WeftReply *
restore(json_t *memory)
{
    guint status = (guint)json_integer_value(json_object_get(memory, "status"));
    const char *body = json_string_value(json_object_get(memory, "body"));
    json_t *headers = json_object_get(memory, "headers");
    WeftReply *reply = weft_reply_text(status, "application/json", body);
    for (gsize i = 0; i + 1 < json_array_size(headers); i += 2)
        weft_reply_header(reply, json_string_value(json_array_get(headers, i)), "%s",
                          json_string_value(json_array_get(headers, i + 1)));
    weft_reply_header(reply, "Idempotent-Replayed", "true");
    return reply;
}

/* The first answer to this request; NULL without an error: this is the first time. */
static WeftReply *
recall(const WeftRequest *request, GError **error)
{
    g_autofree char *key = memory_key(request);
    g_autoptr(WeftRecord) record = weft_store_get(request->store, WEFT_KIND_REQUEST, key, error);
    json_auto_t *memory = record ? weft_json_parse(record->value, strlen(record->value), error) : NULL;
    if (!memory)
        return NULL;
    g_autofree char *hash = fingerprint(request);
    if (g_strcmp0(json_string_value(json_object_get(memory, "hash")), hash) != 0)
        g_set_error(error, WEFT_HTTP_ERROR, 422, "Idempotency-Key %s: was used for another request; take a fresh one",
                    request->headers.idempotency_key);
    else if (json_is_null(json_object_get(memory, "body")))
        g_set_error(
            error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
            "Idempotency-Key %s: the answer to the first request was shown once and is not kept; revoke that token and make"
            " another",
            request->headers.idempotency_key);
    else
        return restore(memory);
    return NULL;
}

/* --- how it ends --- */

/* FALSE: it has none yet. */
static gboolean
replay(WeftRequest *request)
{
    g_autoptr(GError) error = NULL;
    WeftReply *reply = request->headers.idempotency_key ? recall(request, &error) : NULL;
    request->replayed = reply != NULL;
    if (reply)
        return weft_request_reply(request, reply);
    if (error)
        weft_request_fail(request, error);
    return error != NULL;
}

static gboolean
parse_body(WeftRequest *request, GError **error)
{
    if (!weft_headers_check_type(request, "application/json", error))
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
        return weft_headers_check_type(request, "application/octet-stream", error);
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

/* thread: a reader. The first of two requests with one key may be written while the second one reads: then that is why it
 * failed. */
static void
answer(WeftRequest *request, gpointer data)
{
    g_autoptr(GError) error = NULL;
    weft_request_digest(request);
    if (!take_body(request, &error) || (!replay(request) && !request->route->handler(request, &error) && !replay(request)))
        weft_request_fail(request, error);
    g_clear_pointer(&request->body, json_decref);
}

void
weft_request_run(WeftRequest *request)
{
    weft_readers_add(request, answer, NULL, NULL);
}

void
weft_request_begin_reading(WeftRequest *request, WeftStore *store)
{
    request->reading = TRUE;
    request->store = store;
}

static void commit_prepared(WeftRequest *request);

void
weft_request_end_reading(WeftRequest *request, WeftStore *store)
{
    g_auto(WeftMeter) meter = weft_meter_start(request);
    request->reading = FALSE;
    request->store = store;
    if (!request->connection) {
        forget_outcome(request);
    } else if (request->go_on) {
        WeftGoOn go_on = g_steal_pointer(&request->go_on);
        request->acted = TRUE;
        go_on(request, g_steal_pointer(&request->go_on_data));
    } else if (request->txn) {
        weft_txn_stamp_events(request->txn);
        commit_prepared(request);
    } else {
        weft_request_reply(request, g_steal_pointer(&request->prepared));
    }
}

gboolean
weft_request_go_on(WeftRequest *request, WeftGoOn go_on, gpointer data, GDestroyNotify free_data)
{
    g_assert(request->reading && !request->go_on && !request->prepared);
    request->go_on = go_on;
    request->go_on_data = data;
    request->free_go_on = free_data;
    return TRUE;
}

gboolean
weft_request_reply(WeftRequest *request, WeftReply *reply)
{
    WeftReply **place = request->reading ? &request->prepared : &request->reply;
    g_assert(!*place);
    *place = reply;
    if (!request->reading)
        weft_server_wake(request);
    return TRUE;
}

void
weft_request_fail(WeftRequest *request, const GError *error)
{
    weft_request_reply(request, weft_request_problem(request, error));
}

WeftReply *
weft_request_problem(const WeftRequest *request, const GError *error)
{
    const char *told = weft_problem_told(error);
    gboolean all = request->principal && weft_request_sees_all(request);
    if (told != error->message)
        g_warning("%s %s of %s: %s", request->method, request->route ? request->route->path : request->target, request->account,
                  error->message);
    WeftReply *reply = weft_reply_problem(error, all ? error->message : told);
    if (reply->status == 429)
        weft_reply_header(reply, "Retry-After", "%u", (guint)MAX((request->wait + G_USEC_PER_SEC - 1) / G_USEC_PER_SEC, 1));
    return reply;
}

/* Somebody was faster, or a claim was taken: a fresh look either succeeds or knows why not. */
static gboolean
is_worth_another_try(WeftRequest *request, const GError *error)
{
    WeftErrorCode code = weft_error_code(error);
    return (code == WEFT_ERROR_CONFLICT || code == WEFT_ERROR_EXHAUSTED) && ++request->tries < TRIES_MAX;
}

/* A conflict that tries did not end is one with many others. The store tells it in its own words, with a revision that counts
 * the changes of everybody: not for a tenant's eyes. */
static void
give_up(WeftRequest *request, const GError *error)
{
    g_autoptr(GError) busy = g_error_new(WEFT_ERROR, WEFT_ERROR_BUSY,
                                         "others change the same at this moment, and nothing was done; try again in a second");
    weft_request_fail(request, weft_error_code(error) == WEFT_ERROR_CONFLICT ? busy : error);
}

static void
committed(gint64 revision, const GError *error, gpointer data)
{
    g_autoptr(WeftRequest) request = data;
    g_autoptr(WeftReply) reply = g_steal_pointer(&request->prepared);
    g_auto(WeftMeter) meter = weft_meter_start(request);
    if (!error) {
        request->acted = TRUE;
        request->outcome = reply->status;
    }
    if (!request->connection)
        return;
    if (error && is_worth_another_try(request, error))
        weft_request_run(request);
    else if (error)
        give_up(request, error);
    else
        weft_request_reply(request, g_steal_pointer(&reply));
}

/* What makes room, and what those in charge of the site want. */
static gboolean
may_use_reserve(const WeftRequest *request)
{
    return g_str_equal(request->method, "DELETE") || request->principal->role >= WEFT_ROLE_ADMIN;
}

/* Takes the transaction and the answer to its success over. */
static gboolean
refuse(WeftRequest *request, WeftTxn *txn, WeftReply *reply, const GError *error)
{
    weft_txn_free(txn);
    weft_reply_free(reply);
    weft_request_fail(request, error);
    return TRUE;
}

/* Takes txn over. */
static void
refuse_full(WeftRequest *request, WeftTxn *txn)
{
    g_autoptr(GError) error =
        g_error_new(WEFT_HTTP_ERROR, 507,
                    "the disk of weftd's store is full: until there is room again only removals are taken, and what admins "
                    "ask for; nothing was done, try again later");
    refuse(request, txn, g_steal_pointer(&request->prepared), error);
}

static void
commit_prepared(WeftRequest *request)
{
    WeftTxn *txn = g_steal_pointer(&request->txn);
    gboolean leaves_reserve = !may_use_reserve(request);
    if (leaves_reserve)
        weft_txn_leave_reserve(txn);
    if (leaves_reserve && weft_store_is_full(request->store))
        refuse_full(request, txn);
    else
        weft_store_commit(request->store, txn, committed, weft_request_ref(request));
}

gboolean
weft_request_commit(WeftRequest *request, WeftTxn *txn, WeftReply *reply)
{
    g_autoptr(GError) error = NULL;
    if (request->headers.idempotency_key && !check_answers(request, reply, &error))
        return refuse(request, txn, reply, error);
    if (request->headers.idempotency_key)
        remember(request, txn, reply);
    if (weft_txn_is_empty(txn)) {
        weft_txn_free(txn);
        return weft_request_reply(request, reply);
    }
    request->prepared = reply;
    request->txn = txn;
    if (!request->reading)
        commit_prepared(request);
    return TRUE;
}

/* --- what it says --- */

gboolean
weft_request_is_gone(WeftRequest *request)
{
    return g_atomic_int_get(&request->gone);
}

const char *
weft_request_query(const WeftRequest *request, const char *name)
{
    for (guint i = 0; request->route->query[i]; i++)
        if (strcmp(request->route->query[i], name) == 0)
            return request->match.query[i];
    return NULL;
}

gboolean
weft_request_sees_all(const WeftRequest *request)
{
    return request->principal->role >= WEFT_ROLE_OPERATOR;
}

gboolean
weft_request_wants_stream(const WeftRequest *request)
{
    return request->headers.accept && strstr(request->headers.accept, "text/event-stream");
}

gboolean
weft_request_is_still_allowed(const WeftRequest *request)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftPrincipal) now = weft_auth_identify(request->store, request->peer, request->headers.authorization, &error);
    if (!now)
        return !g_error_matches(error, WEFT_ERROR, WEFT_ERROR_UNAUTHENTICATED);
    return now->role >= request->principal->role && g_strcmp0(now->tenant, request->principal->tenant) == 0;
}

gboolean
weft_request_is_allowed_after(const WeftRequest *request, const WeftChange *changes, gsize n)
{
    return !weft_auth_is_touched(request->principal, request->headers.authorization, changes, n) ||
           weft_request_is_still_allowed(request);
}

void
weft_not_found(const char *what, const char *name, GError **error)
{
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "%s %s: not found", what, name);
}

void
weft_reword_not_found(const char *what, const char *name, GError **error)
{
    if (weft_error_forgive(error, WEFT_ERROR_NOT_FOUND))
        weft_not_found(what, name, error);
}

gboolean
weft_request_scope(WeftRequest *request, const char **ret_tenant, GError **error)
{
    const char *own = request->principal->tenant;
    const char *named = weft_request_query(request, "tenant");
    if (named && own && strcmp(named, own) != 0) {
        weft_not_found("tenant", named, error);
        return FALSE;
    }
    if (named && !own && strcmp(named, WEFT_SYSTEM_TENANT) != 0) {
        GError *failure = NULL;
        g_autoptr(WeftRecord) record = weft_store_get(request->store, WEFT_KIND_TENANT, named, &failure);
        if (!record && !failure)
            weft_not_found("tenant", named, &failure);
        if (failure) {
            g_propagate_error(error, failure);
            return FALSE;
        }
    }
    *ret_tenant = own ? own : named;
    return TRUE;
}

gboolean
weft_request_since(WeftRequest *request, gint64 *ret_since, GError **error)
{
    const char *own = request->principal->tenant;
    g_autoptr(WeftTenant) tenant = own ? weft_store_load_tenant(request->store, own, NULL, error) : NULL;
    if (own && !tenant)
        return FALSE;
    *ret_since = tenant ? tenant->created : 0;
    return TRUE;
}

WeftTenant *
weft_request_tenant(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *name = NULL;
    if (!weft_request_scope(request, &name, error))
        return NULL;
    if (!name) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "an %s belongs to no tenant; name the one that you act for: ?tenant=NAME",
                    weft_role_words[request->principal->role]);
        return NULL;
    }
    return weft_store_load_tenant(request->store, name, ret_revision, error);
}

gboolean
weft_origin_check(WeftOrigin origin, const char *what, const char *name, GError **error)
{
    if (origin != WEFT_ORIGIN_CONFIG)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "%s %s: is described in weft.yaml; change it there and restart weftd",
                what, name);
    return FALSE;
}

gboolean
weft_body_without(json_t *body, const char *field, GError **error)
{
    if (!json_object_get(body, field))
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: is set by weft; leave it out", field);
    return FALSE;
}
