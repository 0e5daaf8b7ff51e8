#include "store-env.h"

static void
test_exclusive(Env *env, gconstpointer data)
{
    assert_holder(env, "core/1", NULL);
    commit(env, put_node_with_claims("x", "core/1", "core/2"));
    assert_holder(env, "core/1", "x");
    refuse(env, put_node_with_claims("y", "core/3", "core/2"), WEFT_ERROR_EXHAUSTED, "core/2 is held by node x already");
    assert_holder(env, "core/3", NULL);

    /* A put replaces what the record held: one stays, one goes, one comes. */
    commit(env, put_node_with_claims("x", "core/2", "core/3"));
    assert_holder(env, "core/1", NULL);
    assert_holder(env, "core/2", "x");
    assert_holder(env, "core/3", "x");
    commit(env, put_node_with_claims("y", "core/1", NULL));
    refuse(env, put_node_with_claims("x", "core/3", "core/1"), WEFT_ERROR_EXHAUSTED, "core/1 is held by node y already");

    refuse(env, put_node_with_claims("z", "core/9", "core/9"), WEFT_ERROR_EXHAUSTED, "core/9 is held by node z already");
    refuse(env, put_node_with_claims("x", "core/2", "core/2"), WEFT_ERROR_EXHAUSTED, "core/2 is held by node x already");

    commit(env, drop(WEFT_KIND_NODE, "x", WEFT_ANY));
    assert_holder(env, "core/2", NULL);
    assert_holder(env, "core/1", "y");
    commit(env, put_node("y", WEFT_ANY));
    assert_holder(env, "core/1", NULL);
}

static void
test_keep_claims(Env *env, gconstpointer data)
{
    WeftTxn *txn = put_node_with_claims("x", "core/1", NULL);
    weft_txn_share(txn, 5, 10, "pages");
    commit(env, txn);
    txn = put(WEFT_KIND_NODE, "x", 2, WEFT_ANY);
    weft_txn_keep_claims(txn);
    gint64 revision = commit(env, txn);
    assert_value(env, WEFT_KIND_NODE, "x", "{\"v\":2}", revision);
    assert_holder(env, "core/1", "x");
    assert_used(env, "pages", 5);
}

static void
test_operations_in_order(Env *env, gconstpointer data)
{
    WeftTxn *txn = put_node_with_claims("x", "core/1", "core/2");
    weft_txn_share(txn, 10, 10, "pages");
    commit(env, txn);

    txn = weft_txn_new("test");
    weft_txn_delete(txn, WEFT_KIND_NODE, "x", WEFT_ANY);
    add_put(txn, WEFT_KIND_NODE, "y", 1, WEFT_ABSENT);
    weft_txn_claim(txn, "core/1");
    weft_txn_share(txn, 10, 10, "pages");
    commit(env, txn);
    assert_holder(env, "core/1", "y");
    assert_holder(env, "core/2", NULL);
    assert_used(env, "pages", 10);

    /* The other way round it is not free yet. */
    txn = put_node_with_claims("z", "core/1", NULL);
    weft_txn_delete(txn, WEFT_KIND_NODE, "y", WEFT_ANY);
    refuse(env, txn, WEFT_ERROR_EXHAUSTED, "core/1 is held by node y already");

    /* A resource moves where the old holder lets go first. */
    txn = put_node("y", WEFT_ANY);
    add_put(txn, WEFT_KIND_NODE, "z", 1, WEFT_ABSENT);
    weft_txn_claim(txn, "core/1");
    commit(env, txn);
    assert_holder(env, "core/1", "z");

    /* A record put twice ends as the second says. */
    txn = put_node_with_claims("z", "core/5", NULL);
    add_put(txn, WEFT_KIND_NODE, "z", 2, WEFT_ANY);
    weft_txn_claim(txn, "core/6");
    commit(env, txn);
    assert_holder(env, "core/1", NULL);
    assert_holder(env, "core/5", NULL);
    assert_holder(env, "core/6", "z");

    /* The second of a transaction sees the first. */
    txn = put_node("new", WEFT_ABSENT);
    add_put(txn, WEFT_KIND_NODE, "new", 2, WEFT_ABSENT);
    refuse(env, txn, WEFT_ERROR_CONFLICT, "node new exists already");
}

static void
test_shared(Env *env, gconstpointer data)
{
    assert_used(env, "tenant/acme/cores", 0);
    commit(env, put_cluster_with_share("a", 100, 128));
    commit(env, put_cluster_with_share("b", 20, 128));
    assert_used(env, "tenant/acme/cores", 120);
    refuse(env, put_cluster_with_share("c", 16, 128), WEFT_ERROR_EXHAUSTED,
           "tenant/acme/cores: 120 of 128 in use, 16 more asked for");
    refuse(env, put_cluster_with_share("b", 30, 128), WEFT_ERROR_EXHAUSTED,
           "tenant/acme/cores: 120 of 128 in use, 10 more asked for");
    commit(env, put_cluster_with_share("c", 8, 128));
    assert_used(env, "tenant/acme/cores", 128);
    commit(env, put_cluster_with_share("a", 92, 128));
    commit(env, put_cluster_with_share("b", 28, 128));
    assert_used(env, "tenant/acme/cores", 128);
    commit(env, drop(WEFT_KIND_CLUSTER, "a", WEFT_ANY));
    assert_used(env, "tenant/acme/cores", 36);
    commit(env, put(WEFT_KIND_CLUSTER, "b", 1, WEFT_ANY));
    commit(env, put_cluster_with_share("c", 0, 128));
    assert_used(env, "tenant/acme/cores", 0);
    /* Nothing is left of a resource that nobody uses. */
    json_auto_t *json = dump(env);
    g_assert_cmpuint(json_object_size(json_object_get(json, "meters")), ==, 0);
}

static void
test_lowered_limit(Env *env, gconstpointer data)
{
    commit(env, put_cluster_with_share("a", 100, 128));
    commit(env, put_cluster_with_share("b", 20, 128));
    /* The quota falls to 50. */
    commit(env, put_cluster_with_share("a", 100, 50));
    commit(env, put_cluster_with_share("a", 99, 50));
    refuse(env, put_cluster_with_share("a", 100, 50), WEFT_ERROR_EXHAUSTED,
           "tenant/acme/cores: 119 of 50 in use, 1 more asked for");
    refuse(env, put_cluster_with_share("c", 1, 50), WEFT_ERROR_EXHAUSTED,
           "tenant/acme/cores: 119 of 50 in use, 1 more asked for");
    commit(env, put_cluster_with_share("a", 30, 50));
    assert_used(env, "tenant/acme/cores", 50);
    refuse(env, put_cluster_with_share("c", 1, 50), WEFT_ERROR_EXHAUSTED,
           "tenant/acme/cores: 50 of 50 in use, 1 more asked for");
}

static void
test_share_edges(Env *env, gconstpointer data)
{
    commit(env, put_cluster_with_share("a", 1ULL << 60, 0));
    commit(env, put_cluster_with_share("b", 1ULL << 60, 0));
    assert_used(env, "tenant/acme/cores", 1ULL << 61);

    /* Shares of the same resource add up. */
    WeftTxn *txn = put_node("x", WEFT_ABSENT);
    weft_txn_share(txn, 6, 10, "pages");
    weft_txn_share(txn, 5, 10, "pages");
    refuse(env, txn, WEFT_ERROR_EXHAUSTED, "pages: 0 of 10 in use, 11 more asked for");
    txn = put_node("x", WEFT_ABSENT);
    weft_txn_share(txn, 6, 10, "pages");
    weft_txn_share(txn, 4, 10, "pages");
    commit(env, txn);
    assert_used(env, "pages", 10);
    /* An amount of nothing is no claim, neither shared nor exclusive. */
    txn = put_node("y", WEFT_ABSENT);
    weft_txn_share(txn, 0, 10, "gpus");
    commit(env, txn);
    assert_used(env, "gpus", 0);
    assert_holder(env, "gpus", NULL);
}

/* --- all or nothing --- */

#define MANY 1024
#define CLAIMS 8

static WeftTxn *
put_many(guint taken_core)
{
    WeftTxn *txn = weft_txn_new("test");
    for (guint i = 0; i < MANY; i++) {
        g_autofree char *key = g_strdup_printf("big-%04u", i);
        g_autofree char *host = g_strdup_printf("n%u", i);
        weft_txn_put(txn, WEFT_KIND_NODE, key, "big", host, json_object(), WEFT_ABSENT);
        for (guint claim = 0; claim < CLAIMS - 1; claim++)
            weft_txn_claim(txn, "host/%s/core/%u", host, i == MANY - 1 && claim == CLAIMS - 2 ? taken_core : claim);
        weft_txn_share(txn, 512, 1024, "host/%s/pages", host);
    }
    return txn;
}

static void
test_many_nodes_or_none(Env *env, gconstpointer data)
{
    WeftQuery nodes = { WEFT_KIND_NODE, .scope = "big" };
    commit(env, put_node_with_claims("small", "host/n1023/core/99", NULL));
    refuse(env, put_many(99), WEFT_ERROR_EXHAUSTED, "host/n1023/core/99 is held by node small already");
    assert_list(env, nodes, "");
    commit(env, put_many(CLAIMS - 2));
    GError *error = NULL;
    g_autoptr(GPtrArray) records = weft_store_list(env->store, &nodes, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(records->len, ==, MANY);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        g_autofree char *core = g_strdup_printf("host/%s/core/%d", record->place, CLAIMS - 2);
        g_autofree char *pages = g_strdup_printf("host/%s/pages", record->place);
        assert_holder(env, core, record->key);
        assert_used(env, pages, 512);
    }
}

static void
test_last_operation_fails(Env *env, gconstpointer data)
{
    commit(env, put_node_with_claims("x", "core/1", "core/2"));
    commit(env, put_cluster_with_share("a", 100, 128));
    WeftTxn *txn = weft_txn_new("test");
    add_put(txn, WEFT_KIND_NODE, "x", 2, WEFT_ANY);
    weft_txn_delete(txn, WEFT_KIND_CLUSTER, "a", WEFT_ANY);
    add_put(txn, WEFT_KIND_NODE, "y", 1, WEFT_ABSENT);
    weft_txn_claim(txn, "core/1");
    weft_txn_share(txn, 128, 128, "tenant/acme/cores");
    weft_txn_expect(txn, WEFT_KIND_HOST, "n1", 3);
    refuse(env, txn, WEFT_ERROR_CONFLICT, "host n1 does not exist");
}

const StoreTest store_claim_tests[] = {
    { "exclusive", test_exclusive },
    { "keep-claims", test_keep_claims },
    { "operations-in-order", test_operations_in_order },
    { "shared", test_shared },
    { "lowered-limit", test_lowered_limit },
    { "share-edges", test_share_edges },
    { "many-nodes-or-none", test_many_nodes_or_none },
    { "last-operation-fails", test_last_operation_fails },
    { NULL, NULL },
};
