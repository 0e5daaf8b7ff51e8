#include "topology.h"

#include "codec.h"

#define GUID_RANDOM ((1ULL << 40) - 1)
#define GUID_PREFIX 0x0277650000000000ULL /* locally administered, then "we" */
#define VXLAN_LAST 0xffffff
#define VXLAN_BASE 10000

static const WeftCodecField fields[] = {
    WEFT_FIELD(WeftFabric, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "fabric name"),
    WEFT_FIELD(WeftFabric, pkey_first, PKEY, WEFT_OPTIONAL, .fallback = WEFT_PKEY_FIRST, .max = WEFT_PKEY_LAST),
    WEFT_FIELD(WeftFabric, pkey_last, PKEY, WEFT_OPTIONAL, .fallback = WEFT_PKEY_LAST, .max = WEFT_PKEY_LAST),
    WEFT_FIELD(WeftFabric, guid_prefix, GUID, WEFT_OPTIONAL, .fallback = GUID_PREFIX),
    WEFT_FIELD(WeftFabric, vxlan_base, UINT, WEFT_OPTIONAL, .fallback = VXLAN_BASE, .max = VXLAN_LAST - WEFT_PKEY_LAST),
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

WeftFabric *
weft_fabric_from_json(json_t *json, const char *where, GError **error)
{
    g_autoptr(WeftFabric) fabric = g_new0(WeftFabric, 1);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    weft_codec_read(&f, fields, fabric);
    weft_lanes_read(&f, "qos", &fabric->qos);
    check(&f, fabric);
    return weft_fields_end(&f, error) ? g_steal_pointer(&fabric) : NULL;
}

json_t *
weft_fabric_to_json(const WeftFabric *fabric)
{
    json_t *json = weft_codec_write(fields, fabric);
    if (fabric->qos.n)
        json_object_set_new(json, "qos", weft_lanes_write(&fabric->qos));
    return json;
}

void
weft_fabric_free(WeftFabric *fabric)
{
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
