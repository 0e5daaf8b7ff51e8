#include "tenant.h"

#include "codec.h"

#define SHARE 1.0 /* unless told */

const char *const weft_quota_words[WEFT_QUOTAS + 1] = {
    [WEFT_QUOTA_CLUSTERS] = "clusters", [WEFT_QUOTA_NODES] = "nodes", [WEFT_QUOTA_CORES] = "cores",
    [WEFT_QUOTA_MEMORY] = "memory",     [WEFT_QUOTA_GPUS] = "gpus",   [WEFT_QUOTA_VFS] = "vfs",
};

const char *const weft_role_words[WEFT_ROLES + 1] = {
    [WEFT_ROLE_VIEWER] = "viewer",
    [WEFT_ROLE_MEMBER] = "member",
    [WEFT_ROLE_OPERATOR] = "operator",
    [WEFT_ROLE_ADMIN] = "admin",
};

static const WeftCodecField tenant_fields[] = {
    WEFT_FIELD(WeftTenant, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "tenant name"),
    WEFT_FIELD(WeftTenant, priority_max, INT, .min = WEFT_PRIORITY_MIN, .max = WEFT_PRIORITY_MAX),
    WEFT_FIELD(WeftTenant, origin, WORD, WEFT_OPTIONAL, .words = weft_origin_words),
    WEFT_FIELD(WeftTenant, created, UINT64, WEFT_OPTIONAL),
    {},
};

static const WeftCodecField principal_fields[] = {
    WEFT_FIELD(WeftPrincipal, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "principal name"),
    WEFT_FIELD(WeftPrincipal, tenant, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_NAME, .what = "tenant name"),
    WEFT_FIELD(WeftPrincipal, role, WORD, .words = weft_role_words),
    WEFT_FIELD(WeftPrincipal, unix_user, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_TEXT, .what = "Unix user"),
    WEFT_FIELD(WeftPrincipal, origin, WORD, WEFT_OPTIONAL, .words = weft_origin_words),
    {},
};

static const WeftCodecField token_fields[] = {
    WEFT_FIELD(WeftToken, id, TEXT),
    WEFT_FIELD(WeftToken, hash, TEXT),
    WEFT_FIELD(WeftToken, principal, TEXT),
    WEFT_FIELD(WeftToken, tenant, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftToken, note, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftToken, created, UINT64),
    WEFT_FIELD(WeftToken, expires, UINT64, WEFT_OPTIONAL),
    {},
};

/* No limit is written by leaving it out, or as null: 0 could as well mean that nothing is allowed. */
static guint64
read_limit(WeftFields *f, WeftQuota quota)
{
    const guint64 none = G_MAXINT64;
    const char *word = weft_quota_words[quota];
    guint64 limit = quota == WEFT_QUOTA_MEMORY ? weft_fields_size(f, word, 0, WEFT_QUOTA_MAX, none)
                                               : weft_fields_uint(f, word, 0, WEFT_QUOTA_MAX, none);
    if (limit == 0)
        weft_fields_fail(f, word, "must be at least 1, is 0; write null for no limit");
    return limit == none ? 0 : limit;
}

static void
read_quota(WeftFields *parent, WeftTenant *tenant)
{
    json_t *object = weft_fields_object(parent, "quota");
    if (!object)
        return;
    g_autofree char *path = weft_fields_path(parent, "quota");
    WeftFields f;
    weft_fields_begin(&f, object, "%s", path);
    for (guint i = 0; i < WEFT_QUOTAS; i++)
        tenant->quota[i] = read_limit(&f, i);
    weft_fields_end(&f, &parent->error);
}

WeftTenant *
weft_tenant_from_json(json_t *json, const char *where, GError **error)
{
    g_autoptr(WeftTenant) tenant = g_new0(WeftTenant, 1);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    weft_codec_read(&f, tenant_fields, tenant);
    read_quota(&f, tenant);
    tenant->share = weft_fields_real(&f, "share", WEFT_SHARE_MIN, WEFT_SHARE_MAX, SHARE);
    return weft_fields_end(&f, error) ? g_steal_pointer(&tenant) : NULL;
}

json_t *
weft_tenant_to_json(const WeftTenant *tenant)
{
    json_t *json = weft_codec_write(tenant_fields, tenant);
    json_t *quota = json_object();
    for (guint i = 0; i < WEFT_QUOTAS; i++)
        if (tenant->quota[i])
            json_object_set_new_nocheck(quota, weft_quota_words[i], json_integer((json_int_t)tenant->quota[i]));
    json_object_set_new_nocheck(json, "quota", quota);
    if (tenant->share != SHARE)
        json_object_set_new_nocheck(json, "share", json_real(tenant->share));
    return json;
}

void
weft_tenant_free(WeftTenant *tenant)
{
    weft_codec_free(tenant_fields, tenant);
}

static void
check_tenant_of(WeftFields *f, const WeftPrincipal *principal)
{
    if (f->error)
        return;
    const char *role = weft_role_words[principal->role];
    if (principal->role < WEFT_ROLE_OPERATOR && !principal->tenant)
        weft_fields_fail(f, "tenant", "is missing; a %s belongs to a tenant", role);
    else if (principal->role >= WEFT_ROLE_OPERATOR && principal->tenant)
        weft_fields_fail(f, "tenant", "\"%s\" must be left out; an %s belongs to no tenant", principal->tenant, role);
}

WeftPrincipal *
weft_principal_from_json(json_t *json, const char *where, GError **error)
{
    g_autoptr(WeftPrincipal) principal = g_new0(WeftPrincipal, 1);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    weft_codec_read(&f, principal_fields, principal);
    check_tenant_of(&f, principal);
    return weft_fields_end(&f, error) ? g_steal_pointer(&principal) : NULL;
}

json_t *
weft_principal_to_json(const WeftPrincipal *principal)
{
    return weft_codec_write(principal_fields, principal);
}

void
weft_principal_free(WeftPrincipal *principal)
{
    weft_codec_free(principal_fields, principal);
}

WeftToken *
weft_token_from_json(json_t *json, GError **error)
{
    return weft_codec_decode(token_fields, sizeof(WeftToken), json, "", error);
}

json_t *
weft_token_to_json(const WeftToken *token)
{
    return weft_codec_write(token_fields, token);
}

void
weft_token_free(WeftToken *token)
{
    weft_codec_free(token_fields, token);
}
