#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "map.h"
#include "request.h"
#include "rounds.h"
#include "site-record.h"
#include "text.h"

#include <string.h>

static gboolean
find_fabric(WeftRequest *request, GError **error)
{
    const char *name = request->match.params[0];
    g_autoptr(GError) failed = NULL;
    g_autoptr(WeftRecord) record = weft_store_get(request->store, WEFT_KIND_FABRIC, name, &failed);
    if (failed)
        g_propagate_error(error, g_steal_pointer(&failed));
    else if (!record)
        weft_not_found("fabric", name, error);
    return record != NULL;
}

/* --- questions to its manager --- */

static void
answer(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    if (items[0].error)
        weft_request_fail(request, items[0].error);
    else
        weft_request_reply(request, weft_reply_new(200, json_incref(items[0].report)));
}

static gboolean
ask(WeftRequest *request, WeftGateAsk question, GError **error)
{
    if (!find_fabric(request, error))
        return FALSE;
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(names, g_strdup(request->match.params[0]));
    return weft_round_ask(request, WEFT_SHARE_QUESTIONS, question, names, answer, error);
}

gboolean
weft_handle_fabric_get(WeftRequest *request, GError **error)
{
    return ask(request, WEFT_GATE_ASK(request, fabric), error);
}

gboolean
weft_handle_fabric_partitions(WeftRequest *request, GError **error)
{
    return ask(request, WEFT_GATE_ASK(request, partitions), error);
}

gboolean
weft_handle_fabric_tables(WeftRequest *request, GError **error)
{
    return ask(request, WEFT_GATE_ASK(request, tables), error);
}

gboolean
weft_handle_fabric_topology(WeftRequest *request, GError **error)
{
    return ask(request, WEFT_GATE_ASK(request, topology), error);
}

/* --- a map from a file --- */

static json_t *
map_view(const char *fabric, const WeftFabricMap *map)
{
    guint switches = weft_fabric_map_switches(map), adapters = 0;
    for (guint i = switches; i < map->nodes->len; i++)
        adapters += ((const WeftMapNode *)map->nodes->pdata[i])->kind == WEFT_MAP_ADAPTER;
    return json_pack("{s:s, s:i, s:i}", "fabric", fabric, "switches", switches, "adapters", adapters);
}

static WeftFabricMap *
read_map(const GByteArray *bytes, GError **error)
{
    if (bytes->len && memchr(bytes->data, '\0', bytes->len)) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "the file has zero bytes in it; give a text that ibnetdiscover wrote");
        return NULL;
    }
    g_autofree char *text = bytes->len ? g_strndup((const char *)bytes->data, bytes->len) : g_strdup("");
    return weft_fabric_map_from_ibnetdiscover(text, error);
}

gboolean
weft_handle_fabric_import(WeftRequest *request, GError **error)
{
    const char *fabric = request->match.params[0];
    g_autoptr(WeftFabricMap) map = find_fabric(request, error) ? read_map(request->upload, error) : NULL;
    if (!map)
        return FALSE;
    WeftTxn *txn = weft_txn_new("map-imported");
    weft_txn_put(txn, WEFT_KIND_FABRIC_MAP, fabric, NULL, NULL, json_pack("{s:o}", "map", weft_fabric_map_to_json(map)),
                 WEFT_ANY);
    weft_txn_tell(txn, "map-imported", NULL, NULL, "%s imported a map of %u switches for fabric %s", request->principal->name,
                  weft_fabric_map_switches(map), fabric);
    return weft_request_commit(request, txn, weft_reply_new(201, map_view(fabric, map)));
}

gboolean
weft_handle_fabric_forget(WeftRequest *request, GError **error)
{
    const char *fabric = request->match.params[0];
    if (!find_fabric(request, error))
        return FALSE;
    g_autoptr(GError) failed = NULL;
    g_autoptr(WeftRecord) record = weft_store_get(request->store, WEFT_KIND_FABRIC_MAP, fabric, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (!record)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "no map was imported for fabric %s", fabric);
    WeftTxn *txn = weft_txn_new("map-forgotten");
    weft_txn_delete(txn, WEFT_KIND_FABRIC_MAP, fabric, record->revision);
    weft_txn_tell(txn, "map-forgotten", NULL, NULL, "%s took back the map of fabric %s", request->principal->name, fabric);
    return weft_request_commit(request, txn, weft_reply_new(204, NULL));
}

/* --- a partition that weftd leaves alone --- */

static gboolean
read_pkey(const char *text, guint *ret_pkey, GError **error)
{
    guint64 number;
    if (!g_str_has_prefix(text, "0x") ||
        !g_ascii_string_to_unsigned(text + 2, 16, WEFT_PKEY_FIRST, WEFT_PKEY_LAST, &number, NULL)) {
        g_autofree char *quoted = weft_text_quote(text);
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s is not a P_Key; write it like 0x1003", quoted);
    }
    *ret_pkey = (guint)number;
    return TRUE;
}

static char *
shared_name(const WeftRecord *holder, guint pkey)
{
    g_autoptr(WeftFabric) fabric = weft_record_fabric(holder, NULL);
    for (guint i = 0; fabric && i < fabric->shared->len; i++) {
        const WeftShared *shared = fabric->shared->pdata[i];
        if (shared->pkey == pkey)
            return weft_partition_shared_name(shared->name);
    }
    return NULL;
}

static char *
cluster_name(WeftRequest *request, const WeftRecord *holder)
{
    g_autoptr(WeftRecord) record = weft_store_get(request->store, WEFT_KIND_CLUSTER, holder->key, NULL);
    g_autoptr(WeftCluster) cluster = record ? weft_record_cluster(record, NULL) : NULL;
    return cluster ? weft_partition_name(cluster->id) : NULL;
}

/* The partition of that name is the holder's own: only the ports go that are of no host. */
static gboolean
is_own(WeftRequest *request, const WeftRecord *holder, guint pkey, const char *name)
{
    g_autofree char *own = holder->kind == WEFT_KIND_FABRIC ? shared_name(holder, pkey) : cluster_name(request, holder);
    return g_strcmp0(own, name) == 0;
}

static gboolean
check_release(WeftRequest *request, guint pkey, const char *name, gboolean *ret_own, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(WeftRecord) holder = weft_store_holder_of_pkey(request->store, request->match.params[0], pkey, &failed);
    if (!name || !weft_partition_is_ours(name))
        return weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "name: must be that of a partition that carries weft's mark; weft fabric partitions lists them");
    *ret_own = holder && is_own(request, holder, pkey, name);
    if (holder && !*ret_own)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "P_Key 0x%04x is that of %s %s; remove that instead", pkey,
                                 weft_kind_words[holder->kind], holder->key);
    if (failed)
        g_propagate_error(error, g_steal_pointer(&failed));
    return failed == NULL;
}

/* The operator's word is the record that it has ended: weftd removes what such a record is of, whenever it finds it. */
gboolean
weft_handle_partition_release(WeftRequest *request, GError **error)
{
    const char *fabric = request->match.params[0], *name = weft_request_query(request, "name");
    guint pkey = 0;
    gboolean own = FALSE;
    if (!find_fabric(request, error) || !read_pkey(request->match.params[1], &pkey, error) ||
        !check_release(request, pkey, name, &own, error))
        return FALSE;
    WeftTxn *txn = weft_txn_new("partition-released");
    if (own)
        weft_txn_release_ports(txn, fabric, name);
    else
        weft_txn_rest_pkey(txn, fabric, pkey, name, NULL, weft_clock_now());
    weft_txn_tell(txn, "partition-released", NULL, NULL, "%s released partition 0x%04x (%s) of fabric %s",
                  request->principal->name, pkey, name, fabric);
    return weft_request_commit(request, txn, weft_reply_new(204, NULL));
}
