#include "tenant.h"

#include "codec.h"
#include "errors.h"
#include "text.h"

#include <string.h>

#define SHARE 1.0 /* unless told */

const char *const weft_quota_words[WEFT_QUOTAS + 1] = {
    [WEFT_QUOTA_CLUSTERS] = "clusters", [WEFT_QUOTA_NODES] = "nodes",         [WEFT_QUOTA_CORES] = "cores",
    [WEFT_QUOTA_MEMORY] = "memory",     [WEFT_QUOTA_GPUS] = "gpus",           [WEFT_QUOTA_VFS] = "vfs",
    [WEFT_QUOTA_STORAGE] = "storage",   [WEFT_QUOTA_TEMPLATES] = "templates",
};

/* Cores, memory and devices are the queue's to share out; these numbers only keep one tenant from filling the store. What is
 * kept on disks has no queue, and so a limit that is met. */
const guint64 weft_quota_defaults[WEFT_QUOTAS] = {
    [WEFT_QUOTA_CLUSTERS] = 1000,      [WEFT_QUOTA_NODES] = 10000,
    [WEFT_QUOTA_CORES] = 100000,       [WEFT_QUOTA_MEMORY] = 256ULL << 40,
    [WEFT_QUOTA_GPUS] = 10000,         [WEFT_QUOTA_VFS] = 10000,
    [WEFT_QUOTA_STORAGE] = 4ULL << 40, [WEFT_QUOTA_TEMPLATES] = 128ULL << 30,
};

const char *const weft_device_words[WEFT_DEVICE_KINDS + 1] = {
    [WEFT_DEVICE_PASSTHROUGH] = "passthrough",
    [WEFT_DEVICE_GPU] = "gpu",
};

gboolean
weft_quota_is_size(WeftQuota quota)
{
    return quota == WEFT_QUOTA_MEMORY || quota == WEFT_QUOTA_STORAGE || quota == WEFT_QUOTA_TEMPLATES;
}

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

/* No limit is written as null: 0 could as well mean that nothing is allowed. */
static guint64
read_limit(WeftFields *f, WeftQuota quota)
{
    const guint64 none = G_MAXINT64;
    const char *word = weft_quota_words[quota];
    guint64 limit = weft_quota_is_size(quota) ? weft_fields_size(f, word, 0, WEFT_QUOTA_MAX, none)
                                              : weft_fields_uint(f, word, 0, WEFT_QUOTA_MAX, none);
    if (limit == 0)
        weft_fields_fail(f, word, "must be at least 1, is 0; write null for no limit");
    return limit == none ? 0 : limit;
}

gboolean
weft_quotas_from_json(json_t *json, const char *where, guint64 *quotas, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    for (guint i = 0; i < WEFT_QUOTAS; i++) {
        guint64 limit = read_limit(&f, i);
        if (json_object_get(json, weft_quota_words[i]))
            quotas[i] = limit;
    }
    return weft_fields_end(&f, error);
}

static void
read_quota(WeftFields *parent, WeftTenant *tenant)
{
    json_t *object = weft_fields_object(parent, "quota");
    g_autofree char *path = weft_fields_path(parent, "quota");
    if (object && !parent->error)
        weft_quotas_from_json(object, path, tenant->quota, &parent->error);
}

/* --- devices by grant --- */

static int
find_device(const char *word)
{
    for (int kind = 0; word && kind < WEFT_DEVICE_KINDS; kind++)
        if (g_str_equal(word, weft_device_words[kind]))
            return kind;
    return -1;
}

static void
read_devices(WeftFields *f, WeftTenant *tenant)
{
    json_t *words = weft_fields_array(f, "devices", WEFT_DEVICE_KINDS), *item;
    gsize i;
    json_array_foreach (words, i, item) {
        int kind = find_device(json_string_value(item));
        if (kind < 0) {
            const char *text = json_string_value(item);
            g_autofree char *shown = text ? weft_text_quote(text) : g_strdup("what is not a text");
            g_autofree char *known = g_strjoinv(", ", (char **)weft_device_words);
            weft_fields_fail(f, "devices", "%s is not a kind of device that is granted; known are: %s", shown, known);
            return;
        }
        tenant->devices |= 1U << kind;
    }
}

json_t *
weft_devices_to_json(guint kinds)
{
    json_t *words = json_array();
    for (guint kind = 0; kind < WEFT_DEVICE_KINDS; kind++)
        if (kinds & 1U << kind)
            json_array_append_new(words, json_string(weft_device_words[kind]));
    return words;
}

/* What a wish says that asks for a kind, and what to do without it. */
static const struct {
    const char *asked, *what, *instead;
} device_texts[WEFT_DEVICE_KINDS] = {
    [WEFT_DEVICE_PASSTHROUGH] = { "path: passthrough", "whole adapters", "choose another path" },
    [WEFT_DEVICE_GPU] = { "gpus", "GPUs", "leave gpus out" },
};

gboolean
weft_tenant_check_devices(const WeftTenant *tenant, guint kinds, GError **error)
{
    guint missing = kinds & ~tenant->devices;
    if (!missing)
        return TRUE;
    int first = g_bit_nth_lsf(missing, -1);
    g_autoptr(GString) words = g_string_new(NULL);
    for (guint kind = 0; kind < WEFT_DEVICE_KINDS; kind++)
        if ((kinds | tenant->devices) & 1U << kind)
            g_string_append_printf(words, "%s%s", words->len ? "," : "", weft_device_words[kind]);
    gboolean by_file = tenant->origin == WEFT_ORIGIN_CONFIG;
    return weft_error_refuse(error, WEFT_ERROR_DENIED,
                             "%s: tenant %s is not granted %s; %s, or ask an admin for them: %s%s%s%s",
                             device_texts[first].asked, tenant->name, device_texts[first].what, device_texts[first].instead,
                             by_file ? "devices: [" : "weft tenant set ", by_file ? words->str : tenant->name,
                             by_file ? "] in weft.yaml" : " --devices ", by_file ? "" : words->str);
}

WeftTenant *
weft_tenant_from_json(json_t *json, const char *where, GError **error)
{
    static const guint64 none[WEFT_QUOTAS] = { 0 };
    return weft_tenant_from_spec(json, none, where, error);
}

WeftTenant *
weft_tenant_from_spec(json_t *json, const guint64 *defaults, const char *where, GError **error)
{
    g_autoptr(WeftTenant) tenant = g_new0(WeftTenant, 1);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    weft_codec_read(&f, tenant_fields, tenant);
    memcpy(tenant->quota, defaults, sizeof tenant->quota);
    read_quota(&f, tenant);
    read_devices(&f, tenant);
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
    if (tenant->devices)
        json_object_set_new_nocheck(json, "devices", weft_devices_to_json(tenant->devices));
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
