#include "errors.h"
#include "handlers.h"
#include "page.h"
#include "views.h"

static char *
principal_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftPrincipal) principal = weft_record_principal(record, error);
    return principal ? weft_view_text(weft_view_principal(principal)) : NULL;
}

gboolean
weft_handle_principal_list(WeftRequest *request, GError **error)
{
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_PRINCIPAL }, principal_view, error);
}

static gboolean
check_free(WeftRequest *request, const WeftPrincipal *principal, GError **error)
{
    GError *failure = NULL;
    g_autoptr(WeftRecord) other = weft_store_get(request->store, WEFT_KIND_PRINCIPAL, principal->name, &failure);
    g_autoptr(WeftRecord) holder = NULL;
    if (!failure && principal->unix_user)
        holder = weft_store_principal_of_user(request->store, principal->unix_user, &failure);
    if (failure)
        g_propagate_error(error, failure);
    else if (other)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "principal %s exists already", principal->name);
    else if (holder)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "unix_user: %s is principal %s already", principal->unix_user,
                    holder->key);
    else
        return TRUE;
    return FALSE;
}

static gboolean
expect_tenant(WeftRequest *request, WeftTxn *txn, const char *tenant, GError **error)
{
    GError *failure = NULL;
    g_autoptr(WeftRecord) record = weft_store_get(request->store, WEFT_KIND_TENANT, tenant, &failure);
    if (!record && !failure)
        g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_INVALID, "tenant: \"%s\" is not known; add it with: weft tenant add %s",
                    tenant, tenant);
    if (!record) {
        g_propagate_error(error, failure);
        return FALSE;
    }
    weft_txn_expect(txn, WEFT_KIND_TENANT, tenant, record->revision);
    return TRUE;
}

gboolean
weft_handle_principal_add(WeftRequest *request, GError **error)
{
    if (!weft_body_without(request->body, "origin", error))
        return FALSE;
    g_autoptr(WeftPrincipal) principal = weft_principal_from_json(request->body, "", error);
    if (!principal || !check_free(request, principal, error))
        return FALSE;

    g_autoptr(WeftTxn) txn = weft_txn_new("principal-added");
    weft_txn_put_principal(txn, principal, WEFT_ABSENT);
    if (principal->tenant && !expect_tenant(request, txn, principal->tenant, error))
        return FALSE;
    weft_txn_tell(txn, "principal-added", NULL, NULL, "%s added principal %s", request->principal->name, principal->name);
    return weft_request_commit(request, g_steal_pointer(&txn), weft_reply_new(201, weft_view_principal(principal)));
}

gboolean
weft_principal_discard(WeftRequest *request, WeftTxn *txn, const WeftPrincipal *principal, gint64 revision, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_TOKEN, .place = principal->name };
    g_autoptr(GPtrArray) tokens = weft_store_list(request->store, &query, error);
    if (!tokens)
        return FALSE;
    for (guint i = 0; i < tokens->len; i++) {
        const WeftRecord *token = tokens->pdata[i];
        weft_txn_delete(txn, WEFT_KIND_TOKEN, token->key, token->revision);
    }
    weft_txn_remove_principal(txn, principal, revision);
    return TRUE;
}

static WeftPrincipal *
find_principal(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *name = request->match.params[0];
    WeftPrincipal *principal = weft_store_load_principal(request->store, name, ret_revision, error);
    if (!principal)
        weft_reword_not_found("principal", name, error);
    return principal;
}

gboolean
weft_handle_principal_remove(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftPrincipal) principal = find_principal(request, &revision, error);
    if (!principal || !weft_origin_check(principal->origin, "principal", principal->name, error))
        return FALSE;

    g_autoptr(WeftTxn) txn = weft_txn_new("principal-removed");
    if (!weft_principal_discard(request, txn, principal, revision, error))
        return FALSE;
    weft_txn_tell(txn, "principal-removed", NULL, NULL, "%s removed principal %s", request->principal->name, principal->name);
    return weft_request_commit(request, g_steal_pointer(&txn), weft_reply_new(204, NULL));
}
