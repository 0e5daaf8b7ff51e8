/* Requests in the audit trail, and the trail for operators. */
#include "audit.h"

#include "errors.h"
#include "handlers.h"
#include "id.h"
#include "page.h"
#include "problem.h"
#include "routes.h"
#include "search.h"
#include "server.h"

#define TARGET_MAX 256 /* bytes of one that the trail has: more is what somebody sent to fill it */
#define TENANT_PATH "/v1/tenants/:tenant"

/* --- writing --- */

/* One that was refused before it had a route has one all the same. */
static const WeftRoute *
route_of(const WeftRequest *request)
{
    g_auto(WeftMatch) match = { 0 };
    if (request->route || !request->method)
        return request->route;
    return weft_router_match(weft_routes, request->method, request->target, &match, NULL);
}

static json_t *
origin_of(const WeftPeer *peer)
{
    if (!peer->local)
        return json_pack("{s:s}", "from", peer->address);
    return json_pack("{s:s, s:s?, s:i}", "from", peer->party, "user", peer->user, "pid", (int)peer->pid);
}

void
weft_request_keep_origin(WeftRequest *request)
{
    if (request->audit && request->peer && !request->from)
        request->from = origin_of(request->peer);
}

void
weft_request_digest(WeftRequest *request)
{
    if (request->audit && request->upload->len && !request->digest && weft_route_is_audited(request->route))
        request->digest = weft_audit_digest(request->audit, request->upload->data, request->upload->len);
}

static const char *
result_of(guint status)
{
    if (!status)
        return "unanswered";
    if (status == 401 || status == 403)
        return "denied";
    return status < 400 ? "done" : status < 500 ? "refused" : "failed";
}

/* The tenant that an operator acted for, or on; NULL: none, or one's own. */
static const char *
tenant_meant(const WeftRequest *request)
{
    if (!request->principal || request->principal->tenant || !request->route)
        return NULL;
    if (strcmp(request->route->path, TENANT_PATH) == 0)
        return request->match.params[0];
    return weft_request_query(request, "tenant");
}

/* The id of the caller's token; NULL: it has none. */
static char *
token_of(const WeftRequest *request)
{
    g_auto(GStrv) token = g_strsplit(request->headers.authorization ? request->headers.authorization : "", "_", 3);
    return request->principal && g_strv_length(token) == 3 ? g_strdup(token[1]) : NULL;
}

static void
add_caller(const WeftRequest *request, json_t *entry)
{
    const WeftPrincipal *principal = request->principal;
    g_autofree char *token = token_of(request);
    json_object_set_new(entry, "principal", principal ? json_string(principal->name) : json_null());
    json_object_set_new(entry, "tenant", principal && principal->tenant ? json_string(principal->tenant) : json_null());
    if (tenant_meant(request))
        json_object_set_new(entry, "for", json_string(tenant_meant(request)));
    json_object_set_new(entry, "role", principal ? json_string(weft_role_words[principal->role]) : json_null());
    if (token)
        json_object_set_new(entry, "token", json_string(token));
    json_object_update(entry, request->from);
}

static char *
clip(const char *target)
{
    g_autofree char *cut = g_strndup(target, TARGET_MAX);
    g_autofree char *valid = g_utf8_make_valid(cut, -1);
    return strlen(target) <= TARGET_MAX ? g_steal_pointer(&valid) : g_strconcat(valid, "…", NULL);
}

static json_t *
entry_of(WeftRequest *request, const WeftRoute *route, guint status)
{
    json_t *entry = weft_audit_entry("request");
    g_autofree char *target = clip(request->target);
    weft_request_keep_origin(request);
    add_caller(request, entry);
    json_object_set_new(entry, "method", json_string(route->method));
    json_object_set_new(entry, "route", json_string(route->path));
    json_object_set_new(entry, "target", json_string(target));
    json_object_set_new(entry, "request", json_string(request->id));
    json_object_set_new(entry, "status", json_integer(status));
    json_object_set_new(entry, "result", json_string(result_of(status)));
    if (request->replayed)
        json_object_set_new(entry, "replayed", json_true());
    if (request->digest)
        json_object_set_new(entry, "body", json_string(request->digest));
    return entry;
}

/* What was asked for is done by then, and the one who asked must not take it for recorded. */
static void
on_written(gboolean kept, gpointer data)
{
    g_autoptr(WeftRequest) request = data;
    request->waits = FALSE;
    if (!request->connection)
        return;
    if (!kept) {
        g_autoptr(GError) error =
            g_error_new(WEFT_HTTP_ERROR, 507,
                        "the audit trail cannot be written, and this site requires it; what was asked for may have been done: "
                        "look before you try again");
        weft_reply_free(request->reply);
        request->reply = weft_request_problem(request, error);
    }
    weft_server_wake(request);
}

static const char *
party_of(const WeftRequest *request)
{
    return request->peer ? request->peer->party : "gone";
}

/* Whoever only reads, and goes before the answer, has got nothing. */
static gboolean
has_changed(const WeftRequest *request, const WeftRoute *route, guint status)
{
    gboolean is_answered = status || route->audit == WEFT_AUDIT_CHANGES;
    return status < 400 && is_answered && request->acted && !request->replayed;
}

/* What changed nothing is bounded, whatever the answer was: it costs who sends it nothing. */
static gboolean
is_admitted(WeftRequest *request, const WeftRoute *route, guint status)
{
    WeftRefused refused = { request->principal ? request->account : NULL, party_of(request), status };
    return has_changed(request, route, status) || weft_audit_admits(request->audit, &refused);
}

/* An entry stands for reads by the same token, from the same place: a token that was stolen is seen beside its owner's. */
static gboolean
is_first_read(const WeftRequest *request)
{
    const char *tenant = request->principal->tenant ? request->principal->tenant : tenant_meant(request);
    const char *checkpoint = request->match.params[0], *digest = request->match.params[1];
    g_autofree char *token = token_of(request);
    g_autofree char *key = g_strjoin(" ", request->account, token ? token : "", party_of(request), tenant ? tenant : "",
                                     checkpoint, digest ? digest : "", NULL);
    return weft_audit_is_first(request->audit, key);
}

gboolean
weft_request_record(WeftRequest *request, guint status)
{
    if (!request->audit || request->recorded)
        return request->waits;
    request->recorded = TRUE;
    const WeftRoute *route = route_of(request);
    if (!route || !weft_route_is_audited(route))
        return FALSE;
    gboolean is_read = route->audit == WEFT_AUDIT_FIRST && status && status < 400;
    if (is_read && !is_first_read(request))
        return FALSE;
    request->id = weft_id_new();
    if (!is_read && !is_admitted(request, route, status))
        return FALSE;
    request->waits = weft_audit_is_required(request->audit) && request->connection && status < 400;
    json_t *entry = entry_of(request, route, status);
    if (request->waits)
        weft_audit_write(request->audit, entry, on_written, weft_request_ref(request));
    else
        weft_audit_write(request->audit, entry, NULL, NULL);
    return request->waits;
}

static WeftAuditClaim
claim_of(const WeftRequest *request)
{
    if (weft_request_sees_all(request))
        return WEFT_AUDIT_OPERATORS;
    return strcmp(request->method, "DELETE") == 0 ? WEFT_AUDIT_REMOVAL : WEFT_AUDIT_ANYTHING;
}

gboolean
weft_request_may_change(WeftRequest *request, GError **error)
{
    if (!request->audit || !weft_route_is_audited(request->route) || !weft_audit_is_required(request->audit) ||
        weft_audit_takes(request->audit, claim_of(request)))
        return TRUE;
    gboolean is_full = weft_audit_takes(request->audit, WEFT_AUDIT_OPERATORS);
    g_set_error(error, WEFT_HTTP_ERROR, 507, "%s; nothing was done, try again later",
                is_full ? "the disk of the audit trail is full, and this site requires the trail: until there is room again "
                          "only removals are taken, and what operators and admins ask for"
                        : "the audit trail cannot be written, and this site requires it: until it can be again no change "
                          "is taken");
    return FALSE;
}

/* --- reading --- */

static gboolean
read_before(const char *after, guint64 *ret_before, GError **error)
{
    *ret_before = 0;
    return !after || g_ascii_string_to_unsigned(after, 10, 1, G_MAXUINT64, ret_before, NULL) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "after: must be the \"next\" of the page before");
}

gboolean
weft_handle_audit(WeftRequest *request, GError **error)
{
    WeftPageWish wish;
    if (!request->audit)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "this weftd has no audit trail");
    if (!weft_page_read(request, &wish, error))
        return FALSE;
    g_autofree char *after = wish.after;
    WeftAuditQuery query = { .principal = weft_request_query(request, "principal"),
                             .tenant = weft_request_query(request, "tenant"),
                             .limit = wish.limit };
    guint64 next;
    if (!read_before(after, &query.before, error))
        return FALSE;
    g_autoptr(GPtrArray) lines = weft_audit_search(weft_audit_path(request->audit), &query, &next, error);
    if (!lines)
        return FALSE;
    g_ptr_array_add(lines, NULL);
    g_autofree char *items = g_strjoinv(",", (char **)lines->pdata);
    g_autofree char *key = next ? g_strdup_printf("%" G_GUINT64_FORMAT, next) : NULL;
    return weft_request_reply(request, weft_page_of_items(items, key));
}
