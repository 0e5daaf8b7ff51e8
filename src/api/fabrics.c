#include "errors.h"
#include "handlers.h"
#include "map.h"
#include "request.h"
#include "rounds.h"

#include <gio/gio.h>
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
    return weft_round_ask(request, question, names, answer, error);
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

/* A large file takes longer to understand than the main thread may be busy. */
typedef struct Import {
    WeftRequest *request;
    WeftTxn *txn; /* what the worker made of it, with how it is told: */
    json_t *view;
    guint switches;
} Import;

/* thread: main, as all that is the request's. */
static void
import_free(Import *import)
{
    weft_request_unref(import->request);
    weft_txn_free(import->txn);
    json_decref(import->view);
    g_free(import);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Import, import_free)

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

/* thread: worker. Of the request it reads what came, and the names, which stay as they are. */
static void
read_import(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Import *import = data;
    const char *fabric = import->request->match.params[0];
    GError *error = NULL;
    g_autoptr(WeftFabricMap) map = read_map(import->request->upload, &error);
    if (!map) {
        g_task_return_error(task, error);
        return;
    }
    import->view = map_view(fabric, map);
    import->switches = weft_fabric_map_switches(map);
    import->txn = weft_txn_new("map-imported");
    weft_txn_put(import->txn, WEFT_KIND_FABRIC_MAP, fabric, NULL, NULL, json_pack("{s:o}", "map", weft_fabric_map_to_json(map)),
                 WEFT_ANY);
    g_task_return_boolean(task, TRUE);
}

static void
import_read(GObject *source, GAsyncResult *result, gpointer data)
{
    g_autoptr(Import) import = data;
    WeftRequest *request = import->request;
    g_autoptr(GError) error = NULL;
    gboolean ok = g_task_propagate_boolean(G_TASK(result), &error);
    if (!request->connection)
        return;
    if (!ok) {
        weft_request_fail(request, error);
        return;
    }
    WeftTxn *txn = g_steal_pointer(&import->txn);
    weft_txn_tell(txn, "map-imported", NULL, NULL, "%s imported a map of %u switches for fabric %s", request->principal->name,
                  import->switches, request->match.params[0]);
    weft_request_commit(request, txn, weft_reply_new(201, g_steal_pointer(&import->view)));
}

gboolean
weft_handle_fabric_import(WeftRequest *request, GError **error)
{
    if (!find_fabric(request, error))
        return FALSE;
    Import *import = g_new0(Import, 1);
    import->request = weft_request_ref(request);
    g_autoptr(GTask) task = g_task_new(NULL, NULL, import_read, import);
    g_task_set_task_data(task, import, NULL);
    g_task_run_in_thread(task, read_import);
    return TRUE;
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
