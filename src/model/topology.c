#include "topology.h"

#include "bounds.h"
#include "codec.h"
#include "errors.h"

#include <string.h>

#define GUID_RANDOM ((1ULL << 40) - 1)
#define GUID_PREFIX 0x0277650000000000ULL /* locally administered, then "we" */
#define VXLAN_LAST 0xffffff
#define VXLAN_BASE 10000
#define PORT_PKEYS 128 /* what the adapters that sites have had for long offer */
#define FULL_MEMBER 0x8000
#define SHARED_NAME_MAX 19 /* opensm keeps 31 characters of a partition's name, weft's mark among them */

/* --- what is shared --- */

static const char *const cluster_words[] = { [WEFT_MEMBER_FULL] = "full", [WEFT_MEMBER_LIMITED] = "limited", NULL };

static const WeftCodecField shared_fields[] = {
    WEFT_FIELD(WeftShared, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "name of a shared partition"),
    WEFT_FIELD(WeftShared, pkey, PKEY, .max = WEFT_PKEY_LAST),
    WEFT_FIELD(WeftShared, clusters, WORD, WEFT_OPTIONAL, .fallback = WEFT_MEMBER_LIMITED, .words = cluster_words),
    {},
};

static void
read_servers(WeftFields *f, WeftShared *shared)
{
    json_t *array = weft_fields_array(f, "servers", WEFT_SERVERS_MAX), *item;
    gsize i;
    json_array_foreach (array, i, item) {
        const char *text = json_string_value(item);
        guint64 guid;
        if (!text || !g_str_has_prefix(text, "0x") || !g_ascii_string_to_unsigned(text + 2, 16, 1, G_MAXUINT64, &guid, NULL)) {
            weft_fields_fail(f, "servers", "must be a list of port GUIDs like \"0x0002c90300001234\"");
            return;
        }
        g_array_append_val(shared->servers, guid);
    }
}

WeftShared *
weft_shared_from_json(json_t *json, const char *where, GError **error)
{
    g_autoptr(WeftShared) shared = g_new0(WeftShared, 1);
    shared->servers = g_array_new(FALSE, FALSE, sizeof(guint64));
    shared->tenants = g_ptr_array_new_with_free_func(g_free);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    weft_codec_read(&f, shared_fields, shared);
    read_servers(&f, shared);
    weft_codec_read_texts(&f, "tenants", WEFT_TENANTS_MAX, WEFT_GRAMMAR_NAME, "tenant name", shared->tenants);
    if (!f.error && strlen(shared->name) > SHARED_NAME_MAX)
        weft_fields_fail(&f, "name", "\"%s\" is too long; opensm takes at most %d bytes of it", shared->name, SHARED_NAME_MAX);
    if (!f.error && shared->pkey < WEFT_PKEY_FIRST)
        weft_fields_fail(&f, "pkey", "0x%04x is no partition number; begin at 0x%04x", shared->pkey, WEFT_PKEY_FIRST);
    return weft_fields_end(&f, error) ? g_steal_pointer(&shared) : NULL;
}

static json_t *
shared_to_json(const WeftShared *shared)
{
    json_t *json = weft_codec_write(shared_fields, shared), *servers = json_array();
    for (guint i = 0; i < shared->servers->len; i++)
        json_array_append_new(servers, weft_guid_write(g_array_index(shared->servers, guint64, i)));
    json_object_set_new(json, "servers", servers);
    if (shared->tenants->len)
        json_object_set_new(json, "tenants", weft_codec_write_texts(shared->tenants));
    return json;
}

void
weft_shared_free(WeftShared *shared)
{
    if (!shared)
        return;
    g_clear_pointer(&shared->servers, g_array_unref);
    g_clear_pointer(&shared->tenants, g_ptr_array_unref);
    weft_codec_free(shared_fields, shared);
}

gboolean
weft_fabric_add_shared(WeftFabric *fabric, WeftShared *shared, GError **error)
{
    g_autoptr(WeftShared) mine = shared;
    for (guint i = 0; i < fabric->shared->len; i++) {
        const WeftShared *other = g_ptr_array_index(fabric->shared, i);
        if (g_str_equal(other->name, shared->name))
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "\"%s\" is shared twice on fabric %s; keep one of them",
                                     shared->name, fabric->name);
        if (other->pkey == shared->pkey)
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "\"%s\" and \"%s\" have the same P_Key 0x%04x; give one another", other->name,
                                     shared->name, shared->pkey);
    }
    if (shared->pkey >= fabric->pkey_first && shared->pkey <= fabric->pkey_last)
        return weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "P_Key 0x%04x of \"%s\" lies among those of clusters on fabric %s, 0x%04x to 0x%04x; choose one "
            "outside, or change pkey_first and pkey_last",
            shared->pkey, shared->name, fabric->name, fabric->pkey_first, fabric->pkey_last);
    g_ptr_array_add(fabric->shared, g_steal_pointer(&mine));
    return TRUE;
}

WeftPkeys
weft_fabric_pkeys(const WeftFabric *fabric)
{
    WeftPkeys pkeys = { 0 };
    weft_pkeys_add(&pkeys, fabric->pkey_first, fabric->pkey_last);
    for (guint i = 0; i < fabric->shared->len; i++) {
        guint pkey = ((const WeftShared *)fabric->shared->pdata[i])->pkey;
        weft_pkeys_add(&pkeys, pkey, pkey);
    }
    return pkeys;
}

const WeftShared *
weft_fabric_shared(const WeftFabric *fabric, const char *name)
{
    for (guint i = 0; i < fabric->shared->len; i++)
        if (g_str_equal(((const WeftShared *)fabric->shared->pdata[i])->name, name))
            return fabric->shared->pdata[i];
    return NULL;
}

gboolean
weft_shared_allows(const WeftShared *shared, const char *tenant)
{
    return shared->tenants->len == 0 || g_ptr_array_find_with_equal_func(shared->tenants, tenant, g_str_equal, NULL);
}

guint
weft_shared_key(const WeftShared *shared)
{
    return shared->pkey | (shared->clusters == WEFT_MEMBER_FULL ? FULL_MEMBER : 0);
}

/* --- fabrics --- */

static const WeftCodecField fields[] = {
    WEFT_FIELD(WeftFabric, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "fabric name"),
    WEFT_FIELD(WeftFabric, pkey_first, PKEY, WEFT_OPTIONAL, .fallback = WEFT_PKEYS_FIRST, .max = WEFT_PKEY_LAST),
    WEFT_FIELD(WeftFabric, pkey_last, PKEY, WEFT_OPTIONAL, .fallback = WEFT_PKEYS_LAST, .max = WEFT_PKEY_LAST),
    WEFT_FIELD(WeftFabric, guid_prefix, GUID, WEFT_OPTIONAL, .fallback = GUID_PREFIX),
    WEFT_FIELD(WeftFabric, vxlan_base, UINT, WEFT_OPTIONAL, .fallback = VXLAN_BASE, .max = VXLAN_LAST - WEFT_PKEY_LAST),
    WEFT_FIELD(WeftFabric, port_pkeys, UINT, WEFT_OPTIONAL, .fallback = PORT_PKEYS, .min = 2, .max = WEFT_PORT_PKEYS_MAX),
    {},
};

static void
check(WeftFields *f, const WeftFabric *fabric)
{
    if (f->error)
        return;
    if (fabric->pkey_first < WEFT_PKEY_FIRST)
        weft_fields_fail(f, "pkey_first", "0x%04x is no partition number; begin at 0x%04x", fabric->pkey_first,
                         WEFT_PKEY_FIRST);
    else if (fabric->pkey_last < fabric->pkey_first)
        weft_fields_fail(f, "pkey_last", "0x%04x is below pkey_first 0x%04x; exchange them", fabric->pkey_last,
                         fabric->pkey_first);
    else if (fabric->guid_prefix == 0 || (fabric->guid_prefix & GUID_RANDOM) != 0)
        weft_fields_fail(f, "guid_prefix", "must have some of its upper 24 bits set and its lower 40 zero, as 0x%llx",
                         GUID_PREFIX);
}

static void
read_shared(WeftFields *f, WeftFabric *fabric)
{
    g_autofree char *path = weft_fields_path(f, "shared");
    json_t *array = weft_fields_array(f, "shared", WEFT_SHARED_MAX), *item;
    gsize i;
    json_array_foreach (array, i, item) {
        g_autofree char *where = g_strdup_printf("%s[%zu]", path, i);
        WeftShared *shared = f->error ? NULL : weft_shared_from_json(item, where, &f->error);
        if (shared)
            weft_fabric_add_shared(fabric, shared, &f->error);
    }
}

WeftFabric *
weft_fabric_from_json(json_t *json, const char *where, GError **error)
{
    g_autoptr(WeftFabric) fabric = g_new0(WeftFabric, 1);
    fabric->shared = g_ptr_array_new_with_free_func((GDestroyNotify)weft_shared_free);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    weft_codec_read(&f, fields, fabric);
    weft_lanes_read(&f, "qos", &fabric->qos);
    read_shared(&f, fabric);
    check(&f, fabric);
    return weft_fields_end(&f, error) ? g_steal_pointer(&fabric) : NULL;
}

json_t *
weft_fabric_to_json(const WeftFabric *fabric)
{
    json_t *json = weft_codec_write(fields, fabric), *shared = json_array();
    for (guint i = 0; i < fabric->shared->len; i++)
        json_array_append_new(shared, shared_to_json(fabric->shared->pdata[i]));
    if (fabric->shared->len)
        json_object_set(json, "shared", shared);
    json_decref(shared);
    if (fabric->qos.n)
        json_object_set_new(json, "qos", weft_lanes_write(&fabric->qos));
    return json;
}

void
weft_fabric_free(WeftFabric *fabric)
{
    if (!fabric)
        return;
    g_clear_pointer(&fabric->shared, g_ptr_array_unref);
    weft_codec_free(fields, fabric);
}

guint64
weft_fabric_guid(const WeftFabric *fabric, guint64 random)
{
    guint64 guid = fabric->guid_prefix | (random & GUID_RANDOM);
    return guid ? guid : 1;
}

char *
weft_mac_format(guint64 random)
{
    return g_strdup_printf("02:%02x:%02x:%02x:%02x:%02x", (guint)(random >> 32) & 0xff, (guint)(random >> 24) & 0xff,
                           (guint)(random >> 16) & 0xff, (guint)(random >> 8) & 0xff, (guint)random & 0xff);
}
