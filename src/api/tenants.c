#include "clock.h"
#include "errors.h"
#include "fields.h"
#include "handlers.h"
#include "page.h"
#include "views.h"

/* The tenant that the path names, if the caller may see it. */
static WeftTenant *
find_tenant(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *own = request->principal->tenant;
    const char *name = request->match.params[0];
    if (own && strcmp(own, name) != 0) {
        weft_not_found("tenant", name, error);
        return NULL;
    }
    WeftTenant *tenant = weft_store_load_tenant(request->store, name, ret_revision, error);
    if (!tenant)
        weft_reword_not_found("tenant", name, error);
    return tenant;
}

static WeftReply *
tenant_reply(WeftRequest *request, guint status, const WeftTenant *tenant, GError **error)
{
    json_t *view = weft_view_tenant(request->store, tenant, error);
    return view ? weft_reply_new(status, view) : NULL;
}

static char *
tenant_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftTenant) tenant = weft_record_tenant(record, error);
    return tenant ? weft_view_text(weft_view_tenant(request->store, tenant, error)) : NULL;
}

gboolean
weft_handle_tenant_list(WeftRequest *request, GError **error)
{
    const char *own = request->principal->tenant;
    if (!own)
        return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_TENANT }, tenant_view, error);
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(request->store, own, NULL, error);
    g_autofree char *view = tenant ? weft_view_text(weft_view_tenant(request->store, tenant, error)) : NULL;
    return view ? weft_request_reply(request, weft_page_of(view)) : FALSE;
}

gboolean
weft_handle_tenant_get(WeftRequest *request, GError **error)
{
    g_autoptr(WeftTenant) tenant = find_tenant(request, NULL, error);
    WeftReply *reply = tenant ? tenant_reply(request, 200, tenant, error) : NULL;
    return reply ? weft_request_reply(request, reply) : FALSE;
}

gboolean
weft_handle_tenant_add(WeftRequest *request, GError **error)
{
    GError *failure = NULL;
    if (!weft_body_without(request->body, "origin", error) || !weft_body_without(request->body, "created", error))
        return FALSE;
    g_autoptr(WeftTenant) tenant = weft_tenant_from_spec(request->body, request->options->quotas, "", error);
    if (!tenant)
        return FALSE;
    tenant->created = weft_clock_now();
    g_autoptr(WeftRecord) other = weft_store_get(request->store, WEFT_KIND_TENANT, tenant->name, &failure);
    if (other)
        g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_CONFLICT, "tenant %s exists already", tenant->name);
    WeftReply *reply = failure ? NULL : tenant_reply(request, 201, tenant, &failure);
    if (!reply) {
        g_propagate_error(error, failure);
        return FALSE;
    }
    weft_reply_header(reply, "Location", "/v1/tenants/%s", tenant->name);

    WeftTxn *txn = weft_txn_new("tenant-added");
    weft_txn_put_tenant(txn, tenant, WEFT_ABSENT);
    weft_txn_tell(txn, "tenant-added", NULL, NULL, "%s added tenant %s", request->principal->name, tenant->name);
    return weft_request_commit(request, txn, reply);
}

static const char *const changeable[] = { "priority_max", "share", "devices" };

/* The tenant with what the body changes; null takes a limit away, or means what it is unless told; devices
 * are all that it is granted from now on. */
static WeftTenant *
with_changes(WeftRequest *request, const WeftTenant *tenant, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    json_t *quotas = weft_fields_object(&f, "quota");
    gboolean any = quotas != NULL;
    for (guint i = 0; i < G_N_ELEMENTS(changeable); i++)
        any |= weft_fields_has(&f, changeable[i]);
    if (!any)
        weft_fields_fail(&f, "quota", "is missing; name the quotas to change, priority_max, share or devices");
    if (!weft_fields_end(&f, error))
        return NULL;
    json_t *merged = weft_tenant_to_json(tenant);
    json_object_update(json_object_get(merged, "quota"), quotas);
    for (guint i = 0; i < G_N_ELEMENTS(changeable); i++)
        if (json_object_get(request->body, changeable[i]))
            json_object_set(merged, changeable[i], json_object_get(request->body, changeable[i]));
    WeftTenant *changed = weft_tenant_from_json(merged, "", error);
    json_decref(merged);
    return changed;
}

gboolean
weft_handle_tenant_change(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftTenant) before = find_tenant(request, &revision, error);
    if (!before || !weft_origin_check(before->origin, "tenant", before->name, error))
        return FALSE;
    g_autoptr(WeftTenant) tenant = with_changes(request, before, error);
    WeftReply *reply = tenant ? tenant_reply(request, 200, tenant, error) : NULL;
    if (!reply)
        return FALSE;

    WeftTxn *txn = weft_txn_new("tenant-changed");
    weft_txn_put_tenant(txn, tenant, revision);
    weft_txn_tell(txn, "tenant-changed", NULL, NULL, "%s changed tenant %s", request->principal->name, tenant->name);
    return weft_request_commit(request, txn, reply);
}

static gboolean
check_empty(WeftRequest *request, const WeftTenant *tenant, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_CLUSTER, .scope = tenant->name, .limit = 1 };
    g_autoptr(GPtrArray) clusters = weft_store_list(request->store, &query, error);
    if (!clusters)
        return FALSE;
    if (clusters->len == 0)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "tenant %s: has clusters; remove them first: weft ls --tenant %s",
                tenant->name, tenant->name);
    return FALSE;
}

static gboolean
discard_principals(WeftRequest *request, WeftTxn *txn, const WeftTenant *tenant, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_PRINCIPAL, .scope = tenant->name };
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        g_autoptr(WeftPrincipal) principal = weft_record_principal(record, error);
        if (!principal || !weft_principal_discard(request, txn, principal, record->revision, error))
            return FALSE;
    }
    return records != NULL;
}

gboolean
weft_handle_tenant_remove(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftTenant) tenant = find_tenant(request, &revision, error);
    if (!tenant || !weft_origin_check(tenant->origin, "tenant", tenant->name, error) || !check_empty(request, tenant, error))
        return FALSE;

    g_autoptr(WeftTxn) txn = weft_txn_new("tenant-removed");
    if (!discard_principals(request, txn, tenant, error))
        return FALSE;
    weft_txn_remove_tenant(txn, tenant, revision);
    weft_txn_tell(txn, "tenant-removed", NULL, NULL, "%s removed tenant %s", request->principal->name, tenant->name);
    return weft_request_commit(request, g_steal_pointer(&txn), weft_reply_new(204, NULL));
}
