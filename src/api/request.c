#include "request.h"

#include "clock.h"
#include "errors.h"
#include "problem.h"
#include "records.h"
#include "server.h"
#include "yaml.h"

#define TRIES_MAX 5

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

void
weft_request_unref(WeftRequest *request)
{
    if (!request || !g_ref_count_dec(&request->references))
        return;
    clear_headers(&request->headers);
    weft_match_clear(&request->match);
    weft_principal_free(request->principal);
    weft_reply_free(request->prepared);
    weft_reply_free(request->reply);
    json_decref(request->body);
    weft_blob_pin_free(request->pin);
    g_byte_array_unref(request->upload);
    g_free(request->account);
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
    request->connection = NULL;
    request->peer = NULL;
    weft_works_cancel(request);
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
    weft_txn_put(txn, WEFT_KIND_REQUEST, key, "", "", value, WEFT_ABSENT);
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
    if (reply)
        return weft_request_reply(request, reply);
    if (error)
        weft_request_fail(request, error);
    return error != NULL;
}

/* The first of two requests with one key may be written while the second one reads: then that is why it failed. */
void
weft_request_run(WeftRequest *request)
{
    g_autoptr(GError) error = NULL;
    if (!replay(request) && !request->route->handler(request, &error) && !replay(request))
        weft_request_fail(request, error);
}

gboolean
weft_request_reply(WeftRequest *request, WeftReply *reply)
{
    g_assert(!request->reply);
    request->reply = reply;
    weft_server_wake(request);
    return TRUE;
}

void
weft_request_fail(WeftRequest *request, const GError *error)
{
    weft_request_reply(request, weft_reply_problem(error));
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
    if (!request->connection)
        return;
    if (error && is_worth_another_try(request, error))
        weft_request_run(request);
    else if (error)
        give_up(request, error);
    else
        weft_request_reply(request, g_steal_pointer(&reply));
}

gboolean
weft_request_commit(WeftRequest *request, WeftTxn *txn, WeftReply *reply)
{
    if (request->headers.idempotency_key)
        remember(request, txn, reply);
    if (weft_txn_is_empty(txn)) {
        weft_txn_free(txn);
        return weft_request_reply(request, reply);
    }
    request->prepared = reply;
    weft_store_commit(request->store, txn, committed, weft_request_ref(request));
    return TRUE;
}

/* --- what it says --- */

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
