#include "store-model.h"

#include "errors.h"

/* Few names, so that transactions meet. */
#define KEYS 12
#define RESOURCES 16
#define METERS 3
#define COMMITS_MAX 1000000 /* no run makes so many */

void
weft_store_model_init(WeftStoreModel *model)
{
    *model = (WeftStoreModel){ .state = json_pack("{s:{}, s:{}, s:{}}", "records", "claims", "meters") };
}

void
weft_store_model_clear(WeftStoreModel *model)
{
    json_decref(model->state);
}

/* --- wishes --- */

static gint64
random_expected(WeftStoreModel *model, GRand *random, const char *name)
{
    json_t *record = json_object_get(json_object_get(model->state, "records"), name);
    gint64 now = json_integer_value(json_object_get(record, "revision"));
    switch (g_rand_int_range(random, 0, 8)) {
    case 0:
        /* Of no record, nor of the transaction itself, whose earlier operations its later ones see. */
        return now + COMMITS_MAX;
    case 1:
        return WEFT_ABSENT;
    case 2:
    case 3:
        return now;
    default:
        return WEFT_ANY;
    }
}

static void
add_random_claims(json_t *op, GRand *random)
{
    json_t *claims = json_object_get(op, "claims"), *shares = json_object_get(op, "shares");
    for (int i = g_rand_int_range(random, 0, 4); i > 0; i--)
        json_array_append_new(claims, json_sprintf("core/%d", g_rand_int_range(random, 0, RESOURCES)));
    for (int i = g_rand_int_range(random, 0, 3); i > 0; i--)
        json_array_append_new(shares, json_pack("{s:o, s:i, s:i}", "resource",
                                                json_sprintf("pages/%d", g_rand_int_range(random, 0, METERS)), "amount",
                                                g_rand_int_range(random, 0, 12), "limit", g_rand_int_range(random, 0, 4) * 15));
}

static json_t *
random_op(WeftStoreModel *model, GRand *random)
{
    static const char *const ops[] = { "put", "put", "put", "put", "delete", "delete", "expect" };
    g_autofree char *key = g_strdup_printf("k%d", g_rand_int_range(random, 0, KEYS));
    g_autofree char *name = g_strconcat("node ", key, NULL);
    json_t *op = json_pack("{s:s, s:s, s:s, s:I, s:b, s:s, s:s, s:i, s:[], s:[]}", "op",
                           ops[g_rand_int_range(random, 0, G_N_ELEMENTS(ops))], "key", key, "name", name, "expected",
                           (json_int_t)random_expected(model, random, name), "keep", g_rand_int_range(random, 0, 4) == 0,
                           "scope", g_rand_boolean(random) ? "s" : "", "place", g_rand_boolean(random) ? "p" : "", "value",
                           g_rand_int_range(random, 0, 1000), "claims", "shares");
    if (!json_is_true(json_object_get(op, "keep")))
        add_random_claims(op, random);
    return op;
}

json_t *
weft_store_model_wish(WeftStoreModel *model, GRand *random)
{
    json_t *wish = json_array();
    for (int n = g_rand_int_range(random, 1, 5); n > 0; n--)
        json_array_append_new(wish, random_op(model, random));
    return wish;
}

/* --- as a transaction --- */

static const char *
text_of(json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static gint64
number_of(json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void
add_put(WeftTxn *txn, json_t *op)
{
    json_t *item;
    gsize i;
    weft_txn_put(txn, WEFT_KIND_NODE, text_of(op, "key"), text_of(op, "scope"), text_of(op, "place"),
                 json_incref(json_object_get(op, "value")), number_of(op, "expected"));
    if (json_is_true(json_object_get(op, "keep")))
        weft_txn_keep_claims(txn);
    json_array_foreach (json_object_get(op, "claims"), i, item)
        weft_txn_claim(txn, "%s", json_string_value(item));
    json_array_foreach (json_object_get(op, "shares"), i, item)
        weft_txn_share(txn, number_of(item, "amount"), number_of(item, "limit"), "%s", text_of(item, "resource"));
}

WeftTxn *
weft_store_model_txn(json_t *wish)
{
    WeftTxn *txn = weft_txn_new("model");
    json_t *op;
    gsize i;
    json_array_foreach (wish, i, op) {
        if (g_str_equal(text_of(op, "op"), "put"))
            add_put(txn, op);
        else if (g_str_equal(text_of(op, "op"), "delete"))
            weft_txn_delete(txn, WEFT_KIND_NODE, text_of(op, "key"), number_of(op, "expected"));
        else
            weft_txn_expect(txn, WEFT_KIND_NODE, text_of(op, "key"), number_of(op, "expected"));
    }
    return txn;
}

/* --- on the model --- */

static void
change_meter(json_t *state, const char *resource, gint64 by)
{
    json_t *meters = json_object_get(state, "meters");
    gint64 used = number_of(meters, resource) + by;
    if (used)
        json_object_set_new(meters, resource, json_integer(used));
    else
        json_object_del(meters, resource);
}

static void
free_claims(json_t *state, json_t *record)
{
    const char *resource;
    json_t *item;
    gsize i;
    json_array_foreach (json_object_get(record, "claims"), i, item)
        json_object_del(json_object_get(state, "claims"), json_string_value(item));
    json_object_foreach (json_object_get(record, "shares"), resource, item)
        change_meter(state, resource, -json_integer_value(item));
}

static gboolean
take_claims(json_t *state, json_t *record, json_t *op)
{
    json_t *item;
    gsize i;
    json_array_foreach (json_object_get(op, "claims"), i, item) {
        json_t *claims = json_object_get(state, "claims");
        if (json_object_get(claims, json_string_value(item)))
            return FALSE;
        json_object_set(claims, json_string_value(item), json_object_get(op, "name"));
        json_array_append(json_object_get(record, "claims"), item);
    }
    return TRUE;
}

/* The limit that counts is the one stated last; what does not grow is never refused. */
static gboolean
take_shares(json_t *state, json_t *record, json_t *old, json_t *op)
{
    json_t *item, *shares = json_object_get(record, "shares"), *limits = json_object();
    const char *resource;
    gboolean ok = TRUE;
    gsize i;
    json_array_foreach (json_object_get(op, "shares"), i, item) {
        if (number_of(item, "amount") == 0)
            continue;
        resource = text_of(item, "resource");
        json_object_set_new(shares, resource, json_integer(number_of(shares, resource) + number_of(item, "amount")));
        json_object_set(limits, resource, json_object_get(item, "limit"));
    }
    json_object_foreach (shares, resource, item) {
        gint64 limit = number_of(limits, resource);
        change_meter(state, resource, json_integer_value(item));
        if (json_integer_value(item) > number_of(json_object_get(old, "shares"), resource) && limit > 0 &&
            number_of(json_object_get(state, "meters"), resource) > limit)
            ok = FALSE;
    }
    json_decref(limits);
    return ok;
}

static int
compare_text(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *
sorted(json_t *texts)
{
    g_autoptr(GPtrArray) array = g_ptr_array_new();
    json_t *item, *result = json_array();
    gsize i;
    json_array_foreach (texts, i, item)
        g_ptr_array_add(array, (gpointer)json_string_value(item));
    g_ptr_array_sort(array, compare_text);
    for (i = 0; i < array->len; i++)
        json_array_append_new(result, json_string(array->pdata[i]));
    return result;
}

static gboolean
apply_put(json_t *state, json_t *old, json_t *op, gint64 revision)
{
    json_auto_t *record = json_pack("{s:O, s:O, s:I, s:O, s:[], s:{}}", "scope", json_object_get(op, "scope"), "place",
                                    json_object_get(op, "place"), "revision", (json_int_t)revision, "value",
                                    json_object_get(op, "value"), "claims", "shares");
    if (json_is_true(json_object_get(op, "keep"))) {
        if (old) {
            json_object_set(record, "claims", json_object_get(old, "claims"));
            json_object_set(record, "shares", json_object_get(old, "shares"));
        }
    } else {
        free_claims(state, old);
        if (!take_claims(state, record, op) || !take_shares(state, record, old, op))
            return FALSE;
        json_object_set_new(record, "claims", sorted(json_object_get(record, "claims")));
    }
    json_object_set(json_object_get(state, "records"), text_of(op, "name"), record);
    return TRUE;
}

static int
apply_op(json_t *state, json_t *op, gint64 revision)
{
    json_t *records = json_object_get(state, "records");
    json_auto_t *old = json_incref(json_object_get(records, text_of(op, "name")));
    gint64 expected = number_of(op, "expected");
    if (expected != WEFT_ANY && expected != number_of(old, "revision"))
        return WEFT_ERROR_CONFLICT;
    if (g_str_equal(text_of(op, "op"), "put"))
        return apply_put(state, old, op, revision) ? -1 : WEFT_ERROR_EXHAUSTED;
    if (g_str_equal(text_of(op, "op"), "delete")) {
        free_claims(state, old);
        json_object_del(records, text_of(op, "name"));
    }
    return -1;
}

int
weft_store_model_apply(WeftStoreModel *model, json_t *wish, gint64 revision)
{
    json_t *state = json_deep_copy(model->state), *op;
    int code = -1;
    gsize i;
    json_array_foreach (wish, i, op) {
        code = apply_op(state, op, revision);
        if (code >= 0)
            break;
    }
    model->outcomes[code < 0 ? 0 : code == WEFT_ERROR_CONFLICT ? 1 : 2]++;
    if (code < 0) {
        json_decref(model->state);
        model->state = state;
    } else {
        json_decref(state);
    }
    return code;
}
