/* Small words for the tests of the contract. */
#pragma once

#include "errors.h"
#include "store-contract.h"

typedef struct Env {
    gpointer place;
    WeftStore *store;
} Env;

typedef struct StoreTest {
    const char *name;
    void (*run)(Env *env, gconstpointer fixture);
} StoreTest;

/* Each ends with a NULL name. */
extern const StoreTest store_claim_tests[];

void set_up(Env *env, gconstpointer data);
void tear_down(Env *env, gconstpointer data);
void reopen(Env *env, const WeftStoreFixture *fixture);

/* --- transactions --- */

void add_put(WeftTxn *txn, WeftKind kind, const char *key, int value, gint64 expected);
WeftTxn *put(WeftKind kind, const char *key, int value, gint64 expected);
WeftTxn *put_node(const char *key, gint64 expected);
WeftTxn *put_node_with_claims(const char *key, const char *first, const char *second);
/* Of "tenant/acme/cores". */
WeftTxn *put_cluster_with_share(const char *key, guint64 amount, guint64 limit);
WeftTxn *drop(WeftKind kind, const char *key, gint64 expected);

/* --- commits --- */

typedef struct Outcome {
    gboolean ended;
    gint64 revision;
    GError *error;
} Outcome;

/* A WeftCommitted; data is an Outcome. */
void keep_outcome(gint64 revision, const GError *error, gpointer data);
void await(Outcome *outcome);
/* Returns the revision. */
gint64 commit(Env *env, WeftTxn *txn);
/* Is refused with this message, and leaves no trace. */
void refuse(Env *env, WeftTxn *txn, WeftErrorCode code, const char *message);

/* --- reading --- */

json_t *dump(Env *env);
void assert_same(json_t *a, json_t *b);
void assert_value(Env *env, WeftKind kind, const char *key, const char *value, gint64 revision);
void assert_absent(Env *env, WeftKind kind, const char *key);
/* The keys that the query gives, with a blank between. */
void assert_list(Env *env, WeftQuery query, const char *expected);
/* holder NULL: nobody. */
void assert_holder(Env *env, const char *resource, const char *holder);
void assert_used(Env *env, const char *resource, guint64 expected);
