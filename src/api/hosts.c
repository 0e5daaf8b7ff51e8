#include "errors.h"
#include "fields.h"
#include "handlers.h"
#include "key-files.h"
#include "page.h"
#include "site-record.h"
#include "views.h"

static WeftHost *
find_host(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *name = request->match.params[0];
    WeftHost *host = weft_store_load_host(request->store, name, ret_revision, error);
    if (!host)
        weft_reword_not_found("host", name, error);
    return host;
}

static WeftReply *
host_reply(WeftRequest *request, guint status, const WeftHost *host, GError **error)
{
    json_t *view = weft_view_host(request->store, host, error);
    return view ? weft_reply_new(status, view) : NULL;
}

static char *
host_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftHost) host = weft_record_host(record, error);
    return host ? weft_view_text(weft_view_host(request->store, host, error)) : NULL;
}

static char *
fabric_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftFabric) fabric = weft_record_fabric(record, error);
    return fabric ? weft_view_text(weft_fabric_to_json(fabric)) : NULL;
}

gboolean
weft_handle_host_list(WeftRequest *request, GError **error)
{
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_HOST }, host_view, error);
}

gboolean
weft_handle_fabric_list(WeftRequest *request, GError **error)
{
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_FABRIC }, fabric_view, error);
}

gboolean
weft_handle_host_get(WeftRequest *request, GError **error)
{
    g_autoptr(WeftHost) host = find_host(request, NULL, error);
    WeftReply *reply = host ? host_reply(request, 200, host, error) : NULL;
    return reply ? weft_request_reply(request, reply) : FALSE;
}

/* --- adding and removing --- */

static gboolean
check_new(WeftRequest *request, const WeftHost *host, GError **error)
{
    GError *failure = NULL;
    g_autoptr(WeftRecord) fabric = weft_store_get(request->store, WEFT_KIND_FABRIC, host->fabric, &failure);
    g_autoptr(WeftRecord) other = failure ? NULL : weft_store_get(request->store, WEFT_KIND_HOST, host->name, &failure);
    if (failure)
        g_propagate_error(error, failure);
    else if (!fabric)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "fabric: \"%s\" is not known; describe it in weft.yaml, or name another", host->fabric);
    else if (other)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "host %s exists already", host->name);
    else
        return TRUE;
    return FALSE;
}

static gboolean
check_ports(WeftRequest *request, const WeftHost *host, GError **error)
{
    for (guint i = 0; i < host->hcas->len; i++) {
        GError *failure = NULL;
        const WeftHca *hca = host->hcas->pdata[i];
        g_autoptr(WeftRecord) holder =
            hca->port_guid ? weft_store_holder_of_guid(request->store, host->fabric, hca->port_guid, &failure) : NULL;
        if (holder)
            g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                        "hcas[%u].port_guid: 0x%016" G_GINT64_MODIFIER
                        "x is that of %s %s already; ibstat shows the port's own",
                        i, hca->port_guid, weft_kind_words[holder->kind], holder->key);
        if (failure) {
            g_propagate_error(error, failure);
            return FALSE;
        }
    }
    return TRUE;
}

gboolean
weft_handle_host_add(WeftRequest *request, GError **error)
{
    if (!weft_body_without(request->body, "origin", error))
        return FALSE;
    g_autoptr(WeftHost) host = weft_host_from_json(request->body, "", error);
    if (!host || !weft_key_files_check_uri(request->options->socket_group, host->uri, error) ||
        !check_new(request, host, error) || !check_ports(request, host, error))
        return FALSE;
    WeftReply *reply = host_reply(request, 201, host, error);
    if (!reply)
        return FALSE;
    weft_reply_header(reply, "Location", "/v1/hosts/%s", host->name);

    WeftTxn *txn = weft_txn_new("host-added");
    weft_txn_put_host(txn, host, WEFT_ABSENT);
    weft_txn_tell(txn, "host-added", NULL, host->name, "%s added it", request->principal->name);
    return weft_request_commit(request, txn, reply);
}

static gboolean
check_unused(WeftRequest *request, const WeftHost *host, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .place = host->name, .limit = 1 };
    g_autoptr(GPtrArray) nodes = weft_store_list(request->store, &query, error);
    query.kind = WEFT_KIND_MOVE;
    g_autoptr(GPtrArray) coming = nodes ? weft_store_list(request->store, &query, error) : NULL;
    if (!coming)
        return FALSE;
    if (nodes->len + coming->len == 0)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "host %s: has nodes on it; move them away with: weft drain %s --evict",
                host->name, host->name);
    return FALSE;
}

gboolean
weft_handle_host_remove(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftHost) host = find_host(request, &revision, error);
    if (!host || !weft_origin_check(host->origin, "host", host->name, error) || !check_unused(request, host, error))
        return FALSE;

    WeftTxn *txn = weft_txn_new("host-removed");
    weft_txn_remove_host(txn, host, revision);
    weft_txn_delete(txn, WEFT_KIND_HOST_STATUS, host->name, WEFT_ANY);
    weft_txn_forget_take(txn, host->name);
    weft_txn_tell(txn, "host-removed", NULL, host->name, "%s removed it", request->principal->name);
    return weft_request_commit(request, txn, weft_reply_new(204, NULL));
}

/* --- draining --- */

typedef struct {
    gboolean draining, moving, disrupting, evicting;
    const char *event;
    const char *words;
} Drain;

static gboolean
set_drain(WeftRequest *request, WeftTxn *taken, const Drain *drain, GError **error)
{
    g_autoptr(WeftTxn) txn = taken;
    gint64 revision = 0;
    g_autoptr(WeftHost) host = find_host(request, &revision, error);
    if (!host)
        return FALSE;
    gboolean changed = host->draining != drain->draining || host->evicting != drain->evicting ||
                       host->moving != drain->moving || host->disrupting != drain->disrupting;
    host->draining = drain->draining;
    host->moving = drain->moving;
    host->disrupting = drain->disrupting;
    host->evicting = drain->evicting;
    WeftReply *reply = host_reply(request, 200, host, error);
    if (!reply)
        return FALSE;
    if (changed) {
        weft_txn_put_host(txn, host, revision);
        weft_txn_tell(txn, drain->event, NULL, host->name, "%s %s", request->principal->name, drain->words);
    }
    return weft_request_commit(request, g_steal_pointer(&txn), reply);
}

static gboolean
read_drain(WeftRequest *request, Drain *drain, GError **error)
{
    WeftFields f;
    if (!request->body)
        return TRUE;
    weft_fields_begin(&f, request->body, "%s", "");
    if (drain->draining) {
        drain->evicting = weft_fields_bool(&f, "evict", FALSE);
        drain->moving = weft_fields_bool(&f, "move", FALSE);
        drain->disrupting = weft_fields_bool(&f, "disrupt", FALSE);
    }
    if (drain->disrupting && !drain->moving)
        weft_fields_fail(&f, "disrupt", "true without move; set move too, or disrupt to false");
    return weft_fields_end(&f, error);
}

static const char *
words_of(const Drain *drain)
{
    if (drain->moving)
        return drain->evicting ? "empties it: its nodes are moved, and created anew elsewhere where they cannot be"
                               : "empties it: its nodes are moved elsewhere";
    return drain->evicting ? "drains it and moves its nodes elsewhere" : "drains it: no new nodes";
}

gboolean
weft_handle_host_drain(WeftRequest *request, GError **error)
{
    Drain drain = { .draining = TRUE, .event = "host-drained" };
    if (!read_drain(request, &drain, error))
        return FALSE;
    drain.words = words_of(&drain);
    return set_drain(request, weft_txn_new("host-drained"), &drain, error);
}

gboolean
weft_handle_host_undrain(WeftRequest *request, GError **error)
{
    Drain drain = { .event = "host-undrained", .words = "lets it take nodes again" };
    return read_drain(request, &drain, error) && set_drain(request, weft_txn_new("host-undrained"), &drain, error);
}

/* The wish is a record, and weftd's next look at the host does it. */
gboolean
weft_handle_host_take(WeftRequest *request, GError **error)
{
    g_autoptr(WeftHost) host = find_host(request, NULL, error);
    if (!host)
        return FALSE;
    WeftTxn *txn = weft_txn_new("host-take-asked");
    weft_txn_ask_to_take(txn, host->name, request->options->run);
    weft_txn_tell(txn, "host-take-asked", NULL, host->name, "%s has host %s taken from whoever has it",
                  request->principal->name, host->name);
    return weft_request_commit(request, txn, weft_reply_new(202, json_pack("{s:s}", "host", host->name)));
}
