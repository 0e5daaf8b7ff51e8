#include "store-contract.h"

#include "store-env.h"
#include "store-model.h"

/* --- revisions --- */

static void
test_records(Env *env, gconstpointer data)
{
    WeftTxn *txn = weft_txn_new("test");
    g_assert_true(weft_txn_is_empty(txn));
    weft_txn_put(txn, WEFT_KIND_NODE, "a", "c1", "n1", json_pack("{s:s}", "text", "ü\"\n"), WEFT_ABSENT);
    g_assert_false(weft_txn_is_empty(txn));
    gint64 revision = commit(env, txn);

    GError *error = NULL;
    g_autoptr(WeftRecord) record = weft_store_get(env->store, WEFT_KIND_NODE, "a", &error);
    g_assert_no_error(error);
    g_assert_cmpstr(record->scope, ==, "c1");
    g_assert_cmpstr(record->place, ==, "n1");
    g_assert_cmpint(record->revision, ==, revision);
    json_auto_t *value = json_loads(record->value, 0, NULL);
    g_assert_cmpstr(json_string_value(json_object_get(value, "text")), ==, "ü\"\n");

    /* The same key of another kind is another record. */
    assert_absent(env, WEFT_KIND_HOST, "a");
    commit(env, put(WEFT_KIND_HOST, "a", 2, WEFT_ABSENT));
    assert_value(env, WEFT_KIND_NODE, "a", record->value, revision);
}

static void
test_compare_and_swap(Env *env, gconstpointer data)
{
    gint64 first = commit(env, put_node("a", WEFT_ABSENT));
    gint64 second = commit(env, put(WEFT_KIND_NODE, "a", 2, first));
    g_assert_cmpint(second, >, first);
    g_autofree char *stale = g_strdup_printf("node a changed meanwhile (revision %d, expected %d)", (int)second, (int)first);

    refuse(env, put_node("a", WEFT_ABSENT), WEFT_ERROR_CONFLICT, "node a exists already");
    refuse(env, put_node("a", first), WEFT_ERROR_CONFLICT, stale);
    refuse(env, put_node("b", second), WEFT_ERROR_CONFLICT, "node b does not exist");
    refuse(env, drop(WEFT_KIND_NODE, "a", first), WEFT_ERROR_CONFLICT, stale);
    refuse(env, drop(WEFT_KIND_NODE, "b", second), WEFT_ERROR_CONFLICT, "node b does not exist");
    refuse(env, drop(WEFT_KIND_NODE, "a", WEFT_ABSENT), WEFT_ERROR_CONFLICT, "node a exists already");

    gint64 third = commit(env, put(WEFT_KIND_NODE, "a", 3, WEFT_ANY));
    assert_value(env, WEFT_KIND_NODE, "a", "{\"v\":3}", third);
    commit(env, put_node("b", WEFT_ANY));
    commit(env, drop(WEFT_KIND_NODE, "b", WEFT_ANY));
    assert_absent(env, WEFT_KIND_NODE, "b");
    commit(env, drop(WEFT_KIND_NODE, "b", WEFT_ANY));
    commit(env, drop(WEFT_KIND_NODE, "b", WEFT_ABSENT));
    commit(env, drop(WEFT_KIND_NODE, "a", third));
    assert_absent(env, WEFT_KIND_NODE, "a");
    /* What was deleted and put again is never taken for the old one. */
    g_assert_cmpint(commit(env, put_node("a", WEFT_ABSENT)), >, third);
}

static WeftTxn *
put_b_expecting_a(gint64 expected)
{
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_expect(txn, WEFT_KIND_HOST, "a", expected);
    add_put(txn, WEFT_KIND_NODE, "b", 1, WEFT_ANY);
    return txn;
}

static void
test_expect(Env *env, gconstpointer data)
{
    commit(env, put_b_expecting_a(WEFT_ABSENT));
    refuse(env, put_b_expecting_a(7), WEFT_ERROR_CONFLICT, "host a does not exist");
    gint64 revision = commit(env, put(WEFT_KIND_HOST, "a", 1, WEFT_ABSENT));
    commit(env, put_b_expecting_a(revision));
    commit(env, put_b_expecting_a(WEFT_ANY));
    refuse(env, put_b_expecting_a(WEFT_ABSENT), WEFT_ERROR_CONFLICT, "host a exists already");
    assert_value(env, WEFT_KIND_HOST, "a", "{\"v\":1}", revision);
}

/* --- lists --- */

static void
fill_lists(Env *env)
{
    static const struct {
        const char *key, *scope, *place;
    } rows[] = {
        { "b", "s1", "p1" }, { "a", "s1", "p2" }, { "a/b", "s2", "p1" },
        { "B", "", "p2" },   { "é", "s1", "" },   { "a0", "s1", "p1" },
    };
    WeftTxn *txn = weft_txn_new("test");
    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++)
        weft_txn_put(txn, WEFT_KIND_NODE, rows[i].key, rows[i].scope, rows[i].place, json_object(), WEFT_ABSENT);
    add_put(txn, WEFT_KIND_HOST, "other", 1, WEFT_ABSENT);
    commit(env, txn);
}

static void
test_list(Env *env, gconstpointer data)
{
    fill_lists(env);
    assert_list(env, (WeftQuery){ WEFT_KIND_EVENT }, "");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE }, "B a a/b a0 b é");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .scope = "s1" }, "a a0 b é");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .scope = "s" }, "");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .scope = "" }, "B");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .place = "p1" }, "a/b a0 b");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .place = "" }, "é");

    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .limit = 2 }, "B a");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .after = "a", .limit = 2 }, "a/b a0");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .after = "a1" }, "b é");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .after = "é" }, "");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .scope = "s1", .after = "a", .limit = 2 }, "a0 b");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .place = "p1", .after = "a0" }, "b");

    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .backwards = TRUE }, "é b a0 a/b a B");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .backwards = TRUE, .after = "b", .limit = 2 }, "a0 a/b");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .backwards = TRUE, .scope = "s1", .limit = 3 }, "é b a0");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .backwards = TRUE, .place = "p1", .after = "a0" }, "a/b");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .backwards = TRUE, .after = "B" }, "");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .skip = 4 }, "b é");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .backwards = TRUE, .scope = "s1", .skip = 1, .limit = 2 }, "b a0");
}

static void
test_list_after_moves(Env *env, gconstpointer data)
{
    fill_lists(env);
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put(txn, WEFT_KIND_NODE, "a", "s2", "p1", json_object(), WEFT_ANY);
    weft_txn_delete(txn, WEFT_KIND_NODE, "b", WEFT_ANY);
    commit(env, txn);
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .scope = "s1" }, "a0 é");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .scope = "s2" }, "a a/b");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .place = "p1" }, "a a/b a0");
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE, .place = "p2" }, "B");
}

/* --- callbacks and watchers --- */

typedef struct Step {
    Env *env;
    guint number;
    guint *next;
    gboolean fails;
} Step;

static void
step_ended(gint64 revision, const GError *error, gpointer data)
{
    Step *step = data;
    g_assert_cmpuint(step->number, ==, *step->next);
    ++*step->next;
    g_assert_true((error != NULL) == step->fails);
    if (step->fails)
        return;
    g_autofree char *key = g_strdup_printf("k%u", step->number);
    g_autofree char *value = g_strdup_printf("{\"v\":%u}", step->number);
    assert_value(step->env, WEFT_KIND_NODE, key, value, revision);
}

/* Callbacks come in the order of the commits, also those of refused ones, and each can read what it wrote. */
static void
test_order(Env *env, gconstpointer data)
{
    enum { STEPS = 200 };
    Step steps[STEPS];
    guint next = 0;
    for (guint i = 0; i < STEPS; i++) {
        steps[i] = (Step){ env, i, &next, i % 7 == 3 };
        g_autofree char *key = g_strdup_printf("k%u", steps[i].fails ? i - 1 : i);
        weft_store_commit(env->store, put(WEFT_KIND_NODE, key, i, WEFT_ABSENT), step_ended, &steps[i]);
    }
    g_assert_cmpuint(next, ==, 0);
    while (next < STEPS)
        g_main_context_iteration(NULL, TRUE);
}

/* Of two that want the same, the first gets it, though neither has ended when the other is given. */
static void
test_race(Env *env, gconstpointer data)
{
    Outcome first = { 0 }, second = { 0 }, third = { 0 };
    weft_store_commit(env->store, put_node_with_claims("x", "core/1", NULL), keep_outcome, &first);
    weft_store_commit(env->store, put_node_with_claims("y", "core/2", "core/1"), keep_outcome, &second);
    weft_store_commit(env->store, put_node_with_claims("z", "core/2", NULL), keep_outcome, &third);
    await(&third);
    g_assert_true(first.ended && second.ended);
    g_assert_no_error(first.error);
    g_assert_error(second.error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    g_assert_no_error(third.error);
    g_assert_cmpint(third.revision, >, first.revision);
    g_error_free(second.error);
    assert_holder(env, "core/1", "x");
    assert_holder(env, "core/2", "z");
}

typedef struct Nested {
    Env *env;
    guint depth;
    guint ended;
} Nested;

static void
commit_inside(gint64 revision, const GError *error, gpointer data)
{
    Nested *nested = data;
    g_assert_no_error(error);
    if (++nested->depth < 4)
        weft_store_commit(nested->env->store, put_node("x", WEFT_ANY), commit_inside, nested);
    GError *failure = NULL;
    g_assert_true(weft_store_commit_wait(nested->env->store, put_node("y", WEFT_ANY), &failure));
    g_assert_no_error(failure);
    nested->ended++;
}

static void
test_commit_inside_callback(Env *env, gconstpointer data)
{
    Nested nested = { .env = env };
    weft_store_commit(env->store, put_node("x", WEFT_ANY), commit_inside, &nested);
    while (nested.ended < 4)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(nested.depth, ==, 4);
}

static void
test_commit_wait(Env *env, gconstpointer data)
{
    GError *error = NULL;
    g_assert_true(weft_store_commit_wait(env->store, put_node("x", WEFT_ABSENT), &error));
    g_assert_no_error(error);
    g_assert_false(weft_store_commit_wait(env->store, put_node("x", WEFT_ABSENT), &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    g_error_free(error);
    /* Nobody needs to listen. */
    weft_store_commit(env->store, put_node("y", WEFT_ABSENT), NULL, NULL);
    g_assert_true(weft_store_commit_wait(env->store, put_node("z", WEFT_ABSENT), NULL));
    assert_list(env, (WeftQuery){ WEFT_KIND_NODE }, "x y z");
}

/* thread: another one. Reads with a reader of its own until it finds the last record, and tells how many it saw at least once
 * in the wrong order: a record that was committed later must not be there before. */
static gpointer
read_meanwhile(gpointer data)
{
    WeftStore *reader = data;
    guint wrong = 0;
    gboolean last = FALSE;
    while (!last) {
        g_autoptr(WeftRecord) second = weft_store_get(reader, WEFT_KIND_NODE, "second", NULL);
        g_autoptr(WeftRecord) first = weft_store_get(reader, WEFT_KIND_NODE, "first", NULL);
        wrong += second && !first;
        g_autoptr(WeftRecord) end = weft_store_get(reader, WEFT_KIND_NODE, "end", NULL);
        last = end != NULL;
    }
    return GUINT_TO_POINTER(wrong);
}

static void
test_reader(Env *env, gconstpointer data)
{
    GError *error = NULL;
    WeftStore *reader = weft_store_reader(env->store, &error);
    g_assert_no_error(error);
    GThread *thread = g_thread_new("reader", read_meanwhile, reader);
    commit(env, put_node("first", WEFT_ABSENT));
    commit(env, put_node("second", WEFT_ABSENT));
    commit(env, put_node("end", WEFT_ABSENT));
    g_assert_cmpuint(GPOINTER_TO_UINT(g_thread_join(thread)), ==, 0);
    /* What was committed before it reads, it sees. */
    commit(env, put_node_with_claims("x", "host/n1/core/0", "host/n1/core/1"));
    commit(env, put_cluster_with_share("acme/cfd", 3, 0));
    guint64 used = 0;
    g_autoptr(GPtrArray) nodes = weft_store_list(reader, &(WeftQuery){ WEFT_KIND_NODE }, &error);
    g_autoptr(WeftRecord) holder = weft_store_holder(reader, "host/n1/core/1", &error);
    g_assert_true(weft_store_used(reader, "tenant/acme/cores", &used, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(nodes->len, ==, 4);
    g_assert_cmpstr(holder->key, ==, "x");
    g_assert_cmpuint(used, ==, 3);
    weft_store_free(reader);
}

typedef struct Watch {
    Env *env;
    GString *seen;
    Outcome *outcome; /* must have ended when the watcher is told; NULL: any */
    guint id;
    gboolean once;
} Watch;

static void
note_changes(const WeftChange *changes, gsize n, gpointer data)
{
    Watch *watch = data;
    g_assert_true(!watch->outcome || watch->outcome->ended);
    for (gsize i = 0; i < n; i++)
        g_string_append_printf(watch->seen, "%s%s %s (%s,%s) ", changes[i].deleted ? "-" : "+",
                               weft_kind_words[changes[i].kind], changes[i].key, changes[i].scope, changes[i].place);
    for (gsize i = 0; i < n; i++)
        if (changes[i].made_of)
            g_string_append_printf(watch->seen, "of %s ", (const char *)changes[i].made_of);
    if (watch->outcome)
        g_assert_cmpint(changes[0].revision, ==, watch->outcome->revision);
    if (watch->once)
        weft_store_unwatch(watch->env->store, watch->id);
}

static void
commit_and_flush(Env *env, WeftTxn *txn, Outcome *outcome)
{
    *outcome = (Outcome){ 0 };
    weft_store_commit(env->store, txn, keep_outcome, outcome);
    await(outcome);
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

static void
test_watch(Env *env, gconstpointer data)
{
    Outcome outcome = { 0 };
    g_autoptr(GString) seen = g_string_new(NULL), seen_once = g_string_new(NULL);
    Watch all = { env, seen, &outcome }, once = { env, seen_once, .once = TRUE };
    once.id = weft_store_watch(env->store, note_changes, &once);
    all.id = weft_store_watch(env->store, note_changes, &all);

    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put(txn, WEFT_KIND_NODE, "x", "c1", "n1", json_object(), WEFT_ABSENT);
    weft_txn_expect(txn, WEFT_KIND_HOST, "n1", WEFT_ABSENT);
    add_put(txn, WEFT_KIND_HOST, "n2", 1, WEFT_ABSENT);
    commit_and_flush(env, txn, &outcome);
    g_assert_cmpstr(seen->str, ==, "+node x (c1,n1) +host n2 (,) ");

    g_string_truncate(seen, 0);
    txn = drop(WEFT_KIND_NODE, "x", WEFT_ANY);
    weft_txn_delete(txn, WEFT_KIND_NODE, "nobody", WEFT_ANY);
    commit_and_flush(env, txn, &outcome);
    g_assert_cmpstr(seen->str, ==, "-node x (c1,n1) ");

    g_string_truncate(seen, 0);
    commit_and_flush(env, put(WEFT_KIND_HOST, "n2", 1, WEFT_ABSENT), &outcome);
    g_assert_error(outcome.error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    g_clear_error(&outcome.error);
    g_assert_cmpstr(seen->str, ==, "");

    weft_store_unwatch(env->store, all.id);
    commit_and_flush(env, put(WEFT_KIND_HOST, "n3", 1, WEFT_ABSENT), &outcome);
    g_assert_cmpstr(seen->str, ==, "");
    g_assert_cmpstr(seen_once->str, ==, "+node x (c1,n1) +host n2 (,) ");
}

static json_t *
make_text(gconstpointer data)
{
    return json_pack("{s:s}", "text", (const char *)data);
}

/* Who watches gets what a late value was made of, where that is told. */
static void
test_watch_late(Env *env, gconstpointer data)
{
    Outcome outcome = { 0 };
    g_autoptr(GString) seen = g_string_new(NULL);
    Watch all = { env, seen, &outcome };
    all.id = weft_store_watch(env->store, note_changes, &all);

    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_late(txn, WEFT_KIND_HOST, "n1", NULL, NULL, &(WeftLateValue){ make_text, NULL, g_strdup("one"), g_free, TRUE },
                      WEFT_ABSENT);
    weft_txn_put_late(txn, WEFT_KIND_HOST, "n2", NULL, NULL, &(WeftLateValue){ make_text, NULL, g_strdup("two"), g_free },
                      WEFT_ABSENT);
    commit_and_flush(env, txn, &outcome);
    g_assert_cmpstr(seen->str, ==, "+host n1 (,) +host n2 (,) of one ");
    g_autoptr(WeftRecord) record = weft_store_get(env->store, WEFT_KIND_HOST, "n1", NULL);
    g_assert_cmpstr(record->value, ==, "{\"text\":\"one\"}");

    g_string_truncate(seen, 0);
    txn = weft_txn_new("test");
    weft_txn_put_late(txn, WEFT_KIND_HOST, "n1", NULL, NULL, &(WeftLateValue){ make_text, NULL, g_strdup("no"), g_free, TRUE },
                      WEFT_ABSENT);
    commit_and_flush(env, txn, &outcome);
    g_assert_error(outcome.error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    g_clear_error(&outcome.error);
    g_assert_cmpstr(seen->str, ==, "");
    weft_store_unwatch(env->store, all.id);
}

/* --- across restarts --- */

static void
test_reopen(Env *env, gconstpointer data)
{
    fill_lists(env);
    WeftTxn *txn = put_node_with_claims("x", "core/1", "core/2");
    weft_txn_share(txn, 5, 10, "pages");
    commit(env, txn);
    gint64 deleted = commit(env, put_node("gone", WEFT_ABSENT));
    gint64 last = commit(env, drop(WEFT_KIND_NODE, "gone", deleted));
    json_auto_t *before = dump(env);
    reopen(env, data);
    json_auto_t *after = dump(env);
    assert_same(before, after);
    g_assert_cmpint(commit(env, put_node("gone", WEFT_ABSENT)), >, last);
    refuse(env, put_node_with_claims("y", "core/1", NULL), WEFT_ERROR_EXHAUSTED, "core/1 is held by node x already");
}

static void
count_ended(gint64 revision, const GError *error, gpointer data)
{
    g_assert_no_error(error);
    ++*(guint *)data;
}

/* Closing ends what is pending; nothing is lost and every callback runs. */
static void
test_free_ends_pending(Env *env, gconstpointer data)
{
    guint ended = 0;
    for (guint i = 0; i < 50; i++) {
        g_autofree char *key = g_strdup_printf("k%02u", i);
        weft_store_commit(env->store, put_node(key, WEFT_ABSENT), count_ended, &ended);
    }
    reopen(env, data);
    g_assert_cmpuint(ended, ==, 50);
    GError *error = NULL;
    g_autoptr(GPtrArray) records = weft_store_list(env->store, &(WeftQuery){ WEFT_KIND_NODE }, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(records->len, ==, 50);
}

/* --- against the model --- */

#define BURST 20

static void
run_burst(Env *env, WeftStoreModel *model, GRand *random)
{
    Outcome outcomes[BURST] = { 0 };
    json_t *wishes[BURST];
    for (guint i = 0; i < BURST; i++) {
        wishes[i] = weft_store_model_wish(model, random);
        weft_store_commit(env->store, weft_store_model_txn(wishes[i]), keep_outcome, &outcomes[i]);
    }
    for (guint i = 0; i < BURST; i++) {
        await(&outcomes[i]);
        /* One that was refused has no revision; the model then needs some that no record has. */
        gint64 revision = outcomes[i].error ? G_MAXINT64 : outcomes[i].revision;
        int code = outcomes[i].error ? outcomes[i].error->code : -1;
        int expected = weft_store_model_apply(model, wishes[i], revision);
        if (code != expected) {
            g_autofree char *text = json_dumps(wishes[i], 0);
            g_test_message("wish %s: %s", text, outcomes[i].error ? outcomes[i].error->message : "committed");
        }
        g_assert_cmpint(code, ==, expected);
        g_clear_error(&outcomes[i].error);
        json_decref(wishes[i]);
    }
    json_auto_t *json = dump(env);
    assert_same(json, model->state);
}

static void
test_random(Env *env, gconstpointer data)
{
    guint32 seed = g_test_rand_int();
    g_test_message("seed %u", seed);
    g_autoptr(GRand) random = g_rand_new_with_seed(seed);
    WeftStoreModel model;
    weft_store_model_init(&model);
    for (guint burst = 0; burst < 150; burst++) {
        run_burst(env, &model, random);
        if (burst % 50 == 49)
            reopen(env, data);
    }
    /* A run in which hardly anything was granted, or refused, would show nothing. */
    for (guint i = 0; i < G_N_ELEMENTS(model.outcomes); i++)
        g_assert_cmpuint(model.outcomes[i], >, 100);
    weft_store_model_clear(&model);
}

static const StoreTest tests[] = {
    { "records", test_records },
    { "compare-and-swap", test_compare_and_swap },
    { "expect", test_expect },
    { "list", test_list },
    { "list-after-moves", test_list_after_moves },
    { "order", test_order },
    { "race", test_race },
    { "commit-inside-callback", test_commit_inside_callback },
    { "commit-wait", test_commit_wait },
    { "reader", test_reader },
    { "watch", test_watch },
    { "watch-late", test_watch_late },
    { "reopen", test_reopen },
    { "free-ends-pending", test_free_ends_pending },
    { "random", test_random },
    { NULL, NULL },
};

static void
add_tests(const WeftStoreFixture *fixture, const StoreTest *test)
{
    for (; test->name; test++) {
        g_autofree char *path = g_strdup_printf("/store/%s/%s", fixture->name, test->name);
        g_test_add(path, Env, fixture, set_up, test->run, tear_down);
    }
}

void
weft_store_contract_add(const WeftStoreFixture *fixture)
{
    add_tests(fixture, tests);
    add_tests(fixture, store_claim_tests);
}
