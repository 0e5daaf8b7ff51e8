#include "site-record.h"

#include "clock.h"
#include "errors.h"
#include "id.h"

#define KEY "site"
#define RUNS_MAX 64 /* a host that has missed more starts of weftd than that has to be taken */

static void
decode_runs(WeftSiteRecord *site, const json_t *runs)
{
    gsize i;
    json_t *run;
    site->runs = g_ptr_array_new_with_free_func(g_free);
    json_array_foreach (runs, i, run)
        if (json_is_string(run))
            g_ptr_array_add(site->runs, g_strdup(json_string_value(run)));
}

static WeftSiteRecord *
decode(const WeftRecord *record, GError **error)
{
    json_auto_t *json = json_loads(record->value, 0, NULL);
    const char *id = json_string_value(json_object_get(json, "id"));
    if (!id || !weft_id_is_valid(id)) {
        g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_FAILED,
                            "store: the record of the site has no valid id: restore the store from a backup");
        return NULL;
    }
    WeftSiteRecord *site = g_new0(WeftSiteRecord, 1);
    site->id = g_strdup(id);
    site->created = json_integer_value(json_object_get(json, "created"));
    site->epoch = (guint64)json_integer_value(json_object_get(json, "epoch"));
    site->instance = g_strdup(json_string_value(json_object_get(json, "instance")));
    decode_runs(site, json_object_get(json, "runs"));
    return site;
}

static json_t *
encode(const WeftSiteRecord *site)
{
    json_t *runs = json_array();
    for (guint i = 0; i < site->runs->len; i++)
        json_array_append_new(runs, json_string(site->runs->pdata[i]));
    return json_pack("{s:s, s:I, s:I, s:s, s:o}", "id", site->id, "created", (json_int_t)site->created, "epoch",
                     (json_int_t)site->epoch, "instance", site->instance, "runs", runs);
}

static gboolean
make(WeftStore *store, GError **error)
{
    g_autofree char *id = weft_id_new();
    WeftTxn *txn = weft_txn_new("site-made");
    weft_txn_put(txn, WEFT_KIND_META, KEY, NULL, NULL,
                 json_pack("{s:s, s:I}", "id", id, "created", (json_int_t)weft_clock_now()), WEFT_ABSENT);
    return weft_store_commit_wait(store, txn, error);
}

WeftSiteRecord *
weft_store_site(WeftStore *store, GError **error)
{
    GError *failure = NULL;
    g_autoptr(WeftRecord) record = weft_store_get(store, WEFT_KIND_META, KEY, &failure);
    if (!record && !failure && make(store, &failure))
        record = weft_store_get(store, WEFT_KIND_META, KEY, &failure);
    if (record)
        return decode(record, error);
    if (!failure)
        failure = g_error_new_literal(WEFT_ERROR, WEFT_ERROR_FAILED,
                                      "store: the record of the site is not there after it was written: check the disk");
    g_propagate_error(error, failure);
    return NULL;
}

gboolean
weft_store_begin_epoch(WeftStore *store, WeftSiteRecord *site, const char *instance, const char *run, GError **error)
{
    site->epoch++;
    if (!site->instance)
        site->instance = g_strdup(instance);
    g_ptr_array_add(site->runs, g_strdup_printf("%s %s", instance, run));
    if (site->runs->len > RUNS_MAX)
        g_ptr_array_remove_range(site->runs, 0, site->runs->len - RUNS_MAX);
    WeftTxn *txn = weft_txn_new("epoch-begun");
    weft_txn_put(txn, WEFT_KIND_META, KEY, NULL, NULL, encode(site), WEFT_ANY);
    return weft_store_commit_wait(store, txn, error);
}

GStrv
weft_site_record_former(const WeftSiteRecord *site, const char *instance)
{
    g_autoptr(GStrvBuilder) former = g_strv_builder_new();
    gboolean all = g_strcmp0(site->instance, instance) == 0;
    for (guint i = 0; i < site->runs->len; i++) {
        g_auto(GStrv) words = g_strsplit(site->runs->pdata[i], " ", 2);
        if (words[0] && words[1] && (all || g_str_equal(words[0], instance)))
            g_strv_builder_add(former, words[1]);
    }
    return g_strv_builder_end(former);
}

void
weft_txn_ask_to_take(WeftTxn *txn, const char *host, const char *run)
{
    g_autofree char *key = g_strconcat(WEFT_TAKE_PREFIX, host, NULL);
    weft_txn_put(txn, WEFT_KIND_META, key, NULL, NULL, json_pack("{s:s?}", "run", run), WEFT_ANY);
}

gboolean
weft_store_is_to_take(WeftStore *store, const char *host, const char *run)
{
    g_autofree char *key = g_strconcat(WEFT_TAKE_PREFIX, host, NULL);
    g_autoptr(WeftRecord) record = weft_store_get(store, WEFT_KIND_META, key, NULL);
    json_auto_t *wish = record ? json_loads(record->value, 0, NULL) : NULL;
    return g_strcmp0(json_string_value(json_object_get(wish, "run")), run) == 0;
}

void
weft_txn_forget_take(WeftTxn *txn, const char *host)
{
    g_autofree char *key = g_strconcat(WEFT_TAKE_PREFIX, host, NULL);
    weft_txn_delete(txn, WEFT_KIND_META, key, WEFT_ANY);
}

void
weft_txn_taken(WeftTxn *txn, WeftStore *store, const char *host, const char *instance)
{
    weft_txn_forget_take(txn, host);
    g_autoptr(WeftSiteRecord) site = weft_store_site(store, NULL);
    if (!site || g_strcmp0(site->instance, instance) == 0)
        return;
    g_free(site->instance);
    site->instance = g_strdup(instance);
    weft_txn_put(txn, WEFT_KIND_META, KEY, NULL, NULL, encode(site), WEFT_ANY);
}

void
weft_txn_set_aged(WeftTxn *txn)
{
    weft_txn_put(txn, WEFT_KIND_META, WEFT_AGED_KEY, NULL, NULL, json_object(), WEFT_ANY);
}

void
weft_txn_forget_aged(WeftTxn *txn)
{
    weft_txn_delete(txn, WEFT_KIND_META, WEFT_AGED_KEY, WEFT_ANY);
}

gboolean
weft_store_is_aged(WeftStore *store)
{
    g_autoptr(WeftRecord) record = weft_store_get(store, WEFT_KIND_META, WEFT_AGED_KEY, NULL);
    return record != NULL;
}

void
weft_txn_release_ports(WeftTxn *txn, const char *fabric, const char *partition)
{
    g_autofree char *key = g_strdup_printf(WEFT_RELEASE_PREFIX "%s/%s", fabric, partition);
    weft_txn_put(txn, WEFT_KIND_META, key, NULL, NULL, json_object(), WEFT_ANY);
}

void
weft_site_record_free(WeftSiteRecord *site)
{
    if (!site)
        return;
    g_free(site->id);
    g_free(site->instance);
    g_ptr_array_unref(site->runs);
    g_free(site);
}
