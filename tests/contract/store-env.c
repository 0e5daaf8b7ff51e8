#include "store-env.h"

void
set_up(Env *env, gconstpointer data)
{
    const WeftStoreFixture *fixture = data;
    env->place = fixture->create();
    env->store = fixture->open(env->place);
}

void
tear_down(Env *env, gconstpointer data)
{
    const WeftStoreFixture *fixture = data;
    weft_store_free(env->store);
    fixture->destroy(env->place);
}

void
reopen(Env *env, const WeftStoreFixture *fixture)
{
    weft_store_free(env->store);
    env->store = fixture->open(env->place);
}

json_t *
dump(Env *env)
{
    GError *error = NULL;
    json_t *json = weft_store_dump(env->store, &error);
    g_assert_no_error(error);
    return json;
}

void
assert_same(json_t *a, json_t *b)
{
    if (json_equal(a, b))
        return;
    g_autofree char *left = json_dumps(a, JSON_INDENT(1) | JSON_SORT_KEYS);
    g_autofree char *right = json_dumps(b, JSON_INDENT(1) | JSON_SORT_KEYS);
    g_test_message("left:\n%s\nright:\n%s", left, right);
    g_test_fail();
    g_assert_true(json_equal(a, b));
}

void
keep_outcome(gint64 revision, const GError *error, gpointer data)
{
    Outcome *outcome = data;
    g_assert_false(outcome->ended);
    *outcome = (Outcome){ TRUE, revision, error ? g_error_copy(error) : NULL };
}

void
await(Outcome *outcome)
{
    while (!outcome->ended)
        g_main_context_iteration(NULL, TRUE);
}

gint64
commit(Env *env, WeftTxn *txn)
{
    Outcome outcome = { 0 };
    weft_store_commit(env->store, txn, keep_outcome, &outcome);
    await(&outcome);
    g_assert_no_error(outcome.error);
    g_assert_cmpint(outcome.revision, >, 0);
    return outcome.revision;
}

void
refuse(Env *env, WeftTxn *txn, WeftErrorCode code, const char *message)
{
    json_auto_t *before = dump(env);
    Outcome outcome = { 0 };
    weft_store_commit(env->store, txn, keep_outcome, &outcome);
    await(&outcome);
    g_assert_error(outcome.error, WEFT_ERROR, (int)code);
    g_assert_cmpstr(outcome.error->message, ==, message);
    g_assert_cmpint(outcome.revision, ==, 0);
    g_error_free(outcome.error);
    json_auto_t *after = dump(env);
    assert_same(before, after);
}

void
add_put(WeftTxn *txn, WeftKind kind, const char *key, int value, gint64 expected)
{
    weft_txn_put(txn, kind, key, NULL, NULL, json_pack("{s:i}", "v", value), expected);
}

WeftTxn *
put(WeftKind kind, const char *key, int value, gint64 expected)
{
    WeftTxn *txn = weft_txn_new("test");
    add_put(txn, kind, key, value, expected);
    return txn;
}

WeftTxn *
put_node(const char *key, gint64 expected)
{
    return put(WEFT_KIND_NODE, key, 1, expected);
}

WeftTxn *
put_cluster_with_share(const char *key, guint64 amount, guint64 limit)
{
    WeftTxn *txn = put(WEFT_KIND_CLUSTER, key, 1, WEFT_ANY);
    weft_txn_share(txn, amount, limit, "tenant/acme/cores");
    return txn;
}

WeftTxn *
drop(WeftKind kind, const char *key, gint64 expected)
{
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_delete(txn, kind, key, expected);
    return txn;
}

void
assert_value(Env *env, WeftKind kind, const char *key, const char *value, gint64 revision)
{
    GError *error = NULL;
    g_autoptr(WeftRecord) record = weft_store_get(env->store, kind, key, &error);
    g_assert_no_error(error);
    g_assert_nonnull(record);
    g_assert_cmpint(record->kind, ==, kind);
    g_assert_cmpstr(record->key, ==, key);
    g_assert_cmpstr(record->value, ==, value);
    g_assert_cmpint(record->revision, ==, revision);
}

void
assert_absent(Env *env, WeftKind kind, const char *key)
{
    GError *error = NULL;
    g_assert_null(weft_store_get(env->store, kind, key, &error));
    g_assert_no_error(error);
}

void
assert_holder(Env *env, const char *resource, const char *holder)
{
    GError *error = NULL;
    g_autoptr(WeftRecord) record = weft_store_holder(env->store, resource, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(record ? record->key : NULL, ==, holder);
}

void
assert_used(Env *env, const char *resource, guint64 expected)
{
    GError *error = NULL;
    guint64 used = G_MAXUINT64;
    g_assert_true(weft_store_used(env->store, resource, &used, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(used, ==, expected);
}

WeftTxn *
put_node_with_claims(const char *key, const char *first, const char *second)
{
    WeftTxn *txn = put_node(key, WEFT_ANY);
    weft_txn_claim(txn, "%s", first);
    if (second)
        weft_txn_claim(txn, "%s", second);
    return txn;
}

void
assert_list(Env *env, WeftQuery query, const char *expected)
{
    GError *error = NULL;
    g_autoptr(GPtrArray) records = weft_store_list(env->store, &query, &error);
    g_assert_no_error(error);
    g_autoptr(GString) keys = g_string_new(NULL);
    for (guint i = 0; i < records->len; i++)
        g_string_append_printf(keys, "%s%s", i ? " " : "", ((WeftRecord *)records->pdata[i])->key);
    g_assert_cmpstr(keys->str, ==, expected);
}
