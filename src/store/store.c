#include "txn.h"

const char *const weft_kind_words[WEFT_KINDS + 1] = {
    [WEFT_KIND_META] = "meta",
    [WEFT_KIND_FABRIC] = "fabric",
    [WEFT_KIND_HOST] = "host",
    [WEFT_KIND_HOST_STATUS] = "host-status",
    [WEFT_KIND_TENANT] = "tenant",
    [WEFT_KIND_PRINCIPAL] = "principal",
    [WEFT_KIND_TOKEN] = "token",
    [WEFT_KIND_IMAGE] = "image",
    [WEFT_KIND_CLUSTER] = "cluster",
    [WEFT_KIND_CLUSTER_STATUS] = "cluster-status",
    [WEFT_KIND_NODE] = "node",
    [WEFT_KIND_RESERVATION] = "reservation",
    [WEFT_KIND_TEMPLATE] = "template",
    [WEFT_KIND_PRIMED] = "primed",
    [WEFT_KIND_CHECKPOINT] = "checkpoint",
    [WEFT_KIND_MOVE] = "move",
    [WEFT_KIND_EVENT] = "event",
    [WEFT_KIND_USAGE] = "usage",
    [WEFT_KIND_ENDED] = "ended",
    [WEFT_KIND_REQUEST] = "request",
    [WEFT_KIND_FABRIC_MAP] = "fabric-map",
    [WEFT_KIND_PKEY_REST] = "pkey-rest",
};

void
weft_record_free(WeftRecord *record)
{
    if (!record)
        return;
    g_free(record->key);
    g_free(record->scope);
    g_free(record->place);
    g_free(record->value);
    g_free(record);
}

/* --- transactions --- */

static void
claim_clear(gpointer data)
{
    WeftClaim *claim = data;
    g_free(claim->resource);
}

static void
drop_data(WeftOp *op)
{
    if (op->late.free_data)
        op->late.free_data(op->late.data);
    op->late = (WeftLateValue){ 0 };
}

static void
drop_value(WeftOp *op)
{
    g_clear_pointer(&op->value, g_free);
    g_clear_pointer(&op->claims, g_array_unref);
    if (!op->late.told)
        drop_data(op);
}

static void
op_clear(gpointer data)
{
    WeftOp *op = data;
    g_free(op->key);
    g_free(op->scope);
    g_free(op->place);
    drop_value(op);
    drop_data(op);
}

WeftTxn *
weft_txn_new(const char *name)
{
    WeftTxn *txn = g_new0(WeftTxn, 1);
    txn->name = g_strdup(name);
    txn->ops = g_array_new(FALSE, TRUE, sizeof(WeftOp));
    g_array_set_clear_func(txn->ops, op_clear);
    return txn;
}

void
weft_txn_free(WeftTxn *txn)
{
    if (!txn)
        return;
    g_free(txn->name);
    g_array_unref(txn->ops);
    g_free(txn);
}

gboolean
weft_txn_is_empty(const WeftTxn *txn)
{
    return txn->ops->len == 0;
}

void
weft_txn_leave_reserve(WeftTxn *txn)
{
    txn->leaves_reserve = TRUE;
}

static WeftOp *
add_op(WeftTxn *txn, WeftOpType type, WeftKind kind, const char *key, gint64 expected)
{
    WeftOp op = { .type = type, .kind = kind, .key = g_strdup(key), .expected = expected };
    g_array_append_val(txn->ops, op);
    return &g_array_index(txn->ops, WeftOp, txn->ops->len - 1);
}

static WeftOp *
add_put(WeftTxn *txn, WeftKind kind, const char *key, const char *scope, const char *place, gint64 expected)
{
    WeftOp *op = add_op(txn, WEFT_OP_PUT, kind, key, expected);
    op->scope = g_strdup(scope ? scope : "");
    op->place = g_strdup(place ? place : "");
    return op;
}

static void
set_value(WeftOp *op, json_t *value)
{
    /* Only a value that the model never makes (NULL, circular) has no text. */
    op->value = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    g_assert(op->value);
    json_decref(value);
}

void
weft_txn_put(WeftTxn *txn, WeftKind kind, const char *key, const char *scope, const char *place, json_t *value, gint64 expected)
{
    set_value(add_put(txn, kind, key, scope, place, expected), value);
}

void
weft_txn_put_late(WeftTxn *txn, WeftKind kind, const char *key, const char *scope, const char *place,
                  const WeftLateValue *value, gint64 expected)
{
    add_put(txn, kind, key, scope, place, expected)->late = *value;
}

void
weft_txn_delete(WeftTxn *txn, WeftKind kind, const char *key, gint64 expected)
{
    add_op(txn, WEFT_OP_DELETE, kind, key, expected);
}

void
weft_txn_expect(WeftTxn *txn, WeftKind kind, const char *key, gint64 expected)
{
    add_op(txn, WEFT_OP_EXPECT, kind, key, expected);
}

static WeftOp *
last_put(WeftTxn *txn)
{
    g_assert(txn->ops->len > 0);
    WeftOp *op = &g_array_index(txn->ops, WeftOp, txn->ops->len - 1);
    g_assert(op->type == WEFT_OP_PUT);
    return op;
}

static void
add_claim(WeftOp *op, WeftClaim claim)
{
    if (!op->claims) {
        op->claims = g_array_new(FALSE, FALSE, sizeof(WeftClaim));
        g_array_set_clear_func(op->claims, claim_clear);
    }
    g_array_append_val(op->claims, claim);
}

static void
make_value(WeftOp *op)
{
    set_value(op, op->late.make(op->late.data));
    g_autoptr(GPtrArray) claims = op->late.claim ? op->late.claim(op->late.data) : NULL;
    for (guint i = 0; claims && i < claims->len; i++)
        add_claim(op, (WeftClaim){ .resource = g_steal_pointer(&claims->pdata[i]) });
}

void
weft_txn_make_values(WeftTxn *txn)
{
    for (guint i = 0; i < txn->ops->len; i++) {
        WeftOp *op = &g_array_index(txn->ops, WeftOp, i);
        if (op->late.make && !op->value)
            make_value(op);
    }
}

void
weft_txn_drop_values(WeftTxn *txn)
{
    for (guint i = 0; i < txn->ops->len; i++)
        drop_value(&g_array_index(txn->ops, WeftOp, i));
}

void
weft_txn_claim(WeftTxn *txn, const char *resource_format, ...)
{
    va_list args;
    va_start(args, resource_format);
    add_claim(last_put(txn), (WeftClaim){ .resource = g_strdup_vprintf(resource_format, args) });
    va_end(args);
}

static WeftClaim *
find_share(WeftOp *op, const char *resource)
{
    for (guint i = 0; op->claims && i < op->claims->len; i++) {
        WeftClaim *claim = &g_array_index(op->claims, WeftClaim, i);
        if (claim->amount > 0 && g_str_equal(claim->resource, resource))
            return claim;
    }
    return NULL;
}

void
weft_txn_share(WeftTxn *txn, guint64 amount, guint64 limit, const char *resource_format, ...)
{
    WeftOp *op = last_put(txn);
    if (amount == 0)
        return;

    va_list args;
    va_start(args, resource_format);
    g_autofree char *resource = g_strdup_vprintf(resource_format, args);
    va_end(args);

    WeftClaim *same = find_share(op, resource);
    if (same) {
        if (!g_uint64_checked_add(&same->amount, same->amount, amount))
            same->amount = G_MAXUINT64;
        same->limit = limit;
    } else {
        add_claim(op, (WeftClaim){ .resource = g_steal_pointer(&resource), .amount = amount, .limit = limit });
    }
}

void
weft_txn_keep_claims(WeftTxn *txn)
{
    last_put(txn)->keep_claims = TRUE;
}

/* --- the store --- */

WeftRecord *
weft_store_get(WeftStore *store, WeftKind kind, const char *key, GError **error)
{
    return store->ops->get(store, kind, key, error);
}

GPtrArray *
weft_store_list(WeftStore *store, const WeftQuery *query, GError **error)
{
    g_assert(!query->scope || !query->place);
    return store->ops->list(store, query, error);
}

WeftRecord *
weft_store_holder(WeftStore *store, const char *resource, GError **error)
{
    return store->ops->holder(store, resource, error);
}

gboolean
weft_store_used(WeftStore *store, const char *resource, guint64 *ret_used, GError **error)
{
    return store->ops->used(store, resource, ret_used, error);
}

void
weft_store_commit(WeftStore *store, WeftTxn *txn, WeftCommitted callback, gpointer data)
{
    store->ops->commit(store, txn, callback, data);
}

json_t *
weft_store_dump(WeftStore *store, GError **error)
{
    return store->ops->dump(store, error);
}

WeftStore *
weft_store_reader(WeftStore *store, GError **error)
{
    return store->ops->reader(store, error);
}

void
weft_store_free(WeftStore *store)
{
    if (store)
        store->ops->free(store);
}

gboolean
weft_store_is_full(WeftStore *store)
{
    return g_atomic_int_get(&store->full);
}

void
weft_store_watch_room(WeftStore *store, WeftRoomChanged changed, gpointer data)
{
    store->room_changed = changed;
    store->room_data = data;
}

typedef struct Wait {
    gboolean ended;
    GError *error;
} Wait;

static void
wait_ended(gint64 revision, const GError *error, gpointer data)
{
    Wait *wait = data;
    wait->ended = TRUE;
    wait->error = error ? g_error_copy(error) : NULL;
}

gboolean
weft_store_commit_wait(WeftStore *store, WeftTxn *txn, GError **error)
{
    Wait wait = { 0 };
    weft_store_commit(store, txn, wait_ended, &wait);
    while (!wait.ended)
        g_main_context_iteration(NULL, TRUE);
    if (!wait.error)
        return TRUE;
    g_propagate_error(error, wait.error);
    return FALSE;
}

/* --- watchers --- */

typedef struct Watcher {
    guint id;
    WeftChanged changed; /* NULL: unwatched while changes were being told; swept afterwards */
    gpointer data;
} Watcher;

void
weft_store_init(WeftStore *store, const WeftStoreOps *ops)
{
    store->ops = ops;
    store->watchers = g_ptr_array_new_with_free_func(g_free);
}

void
weft_store_clear(WeftStore *store)
{
    g_clear_pointer(&store->watchers, g_ptr_array_unref);
}

guint
weft_store_watch(WeftStore *store, WeftChanged changed, gpointer data)
{
    Watcher *watcher = g_new0(Watcher, 1);
    *watcher = (Watcher){ .id = ++store->last_watcher, .changed = changed, .data = data };
    g_ptr_array_add(store->watchers, watcher);
    return watcher->id;
}

static void
sweep_watchers(WeftStore *store)
{
    for (guint i = store->watchers->len; i-- > 0;) {
        Watcher *watcher = store->watchers->pdata[i];
        if (!watcher->changed)
            g_ptr_array_remove_index(store->watchers, i);
    }
}

void
weft_store_unwatch(WeftStore *store, guint id)
{
    for (guint i = 0; i < store->watchers->len; i++) {
        Watcher *watcher = store->watchers->pdata[i];
        if (watcher->id == id)
            watcher->changed = NULL;
    }
    if (store->notifying == 0)
        sweep_watchers(store);
}

gint64
weft_store_told(const WeftStore *store)
{
    return store->told;
}

void
weft_store_notify(WeftStore *store, const WeftChange *changes, gsize n)
{
    if (n == 0)
        return;
    store->notifying++;
    /* Those who begin to watch while they are told hear of later changes only. */
    for (guint i = 0, count = store->watchers->len; i < count; i++) {
        Watcher *watcher = store->watchers->pdata[i];
        if (watcher->changed)
            watcher->changed(changes, n, watcher->data);
    }
    if (--store->notifying == 0)
        sweep_watchers(store);
}
