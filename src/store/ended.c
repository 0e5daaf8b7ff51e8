/* What this store started on hosts, and has ended (see records.h). */
#include "clock.h"
#include "records.h"

#include <string.h>

const char *const weft_thing_words[WEFT_THINGS + 1] = {
    [WEFT_THING_NODE] = "node", [WEFT_THING_NETWORK] = "network", [WEFT_THING_IMAGE] = "image", [WEFT_THING_MEMORY] = "memory"
};

char *
weft_placement_id(const char *node_id, const char *placement)
{
    return g_strdup_printf("%s/%s", node_id, placement);
}

static char *
own_key(WeftThing thing, const char *id)
{
    return g_strdup_printf("%s/%s", weft_thing_words[thing], id);
}

static char *
confirmed_key(const char *host, const char *key)
{
    return g_strdup_printf("%s/%s", host, key);
}

void
weft_txn_end(WeftTxn *txn, WeftThing thing, const char *id)
{
    if (!id)
        return;
    g_autofree char *key = own_key(thing, id);
    weft_txn_put(txn, WEFT_KIND_ENDED, key, NULL, NULL, json_pack("{s:I}", "at", (json_int_t)weft_clock_now()), WEFT_ANY);
}

const char *
weft_change_ended_file(const WeftChange *change)
{
    const char *image = weft_thing_words[WEFT_THING_IMAGE];
    gboolean ended = change->kind == WEFT_KIND_ENDED && !change->deleted && !*change->place;
    return ended && g_str_has_prefix(change->key, image) ? change->key + strlen(image) + 1 : NULL;
}

static void
end_placement(WeftTxn *txn, const char *node_id, const char *placement)
{
    g_autofree char *id = placement ? weft_placement_id(node_id, placement) : NULL;
    weft_txn_end(txn, WEFT_THING_NODE, id);
}

void
weft_txn_end_stay(WeftTxn *txn, const WeftNode *node)
{
    end_placement(txn, node->id, node->placement);
}

void
weft_txn_end_placements(WeftTxn *txn, const WeftNode *node)
{
    weft_txn_end_stay(txn, node);
    if (node->target)
        end_placement(txn, node->id, node->target->placement);
}

void
weft_txn_confirm_end(WeftTxn *txn, const char *host, const char *key, const WeftConfirmation *confirmation)
{
    g_autofree char *full = confirmed_key(host, key);
    weft_txn_put(txn, WEFT_KIND_ENDED, full, NULL, host,
                 json_pack("{s:s, s:I, s:s?}", "confirmed", confirmation->who, "at", (json_int_t)confirmation->at, "run",
                           confirmation->run),
                 WEFT_ANY);
}

void
weft_txn_forget_confirmation(WeftTxn *txn, const char *host, const char *key)
{
    g_autofree char *full = confirmed_key(host, key);
    weft_txn_delete(txn, WEFT_KIND_ENDED, full, WEFT_ANY);
}

static gboolean
is_of_run(const WeftRecord *record, const char *run)
{
    json_auto_t *value = json_loads(record->value, 0, NULL);
    return g_strcmp0(json_string_value(json_object_get(value, "run")), run) == 0;
}

GPtrArray *
weft_store_confirmed_ends(WeftStore *store, const char *host, gboolean all, const char *run)
{
    g_autoptr(GError) error = NULL;
    WeftQuery query = { .kind = WEFT_KIND_ENDED, .place = host };
    g_autoptr(GPtrArray) records = weft_store_list(store, &query, &error);
    if (!records) {
        g_warning("what was confirmed of host %s cannot be read: %s", host, error->message);
        return NULL;
    }
    GPtrArray *keys = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        if (all || is_of_run(record, run))
            g_ptr_array_add(keys, g_strdup(record->key + strlen(host) + 1));
    }
    return keys;
}

static gboolean
has(WeftStore *store, const char *key)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftRecord) record = weft_store_get(store, WEFT_KIND_ENDED, key, &error);
    if (error)
        g_warning("whether %s has ended cannot be read: %s", key, error->message);
    return record != NULL;
}

gboolean
weft_store_has_ended(WeftStore *store, WeftThing thing, const char *id)
{
    g_autofree char *key = own_key(thing, id);
    return has(store, key);
}

gboolean
weft_store_ended_after(WeftStore *store, WeftThing thing, const char *id, gint64 time)
{
    g_autofree char *key = own_key(thing, id);
    g_autoptr(WeftRecord) record = weft_store_get(store, WEFT_KIND_ENDED, key, NULL);
    json_t *value = record ? json_loads(record->value, 0, NULL) : NULL, *at = json_object_get(value, "at");
    gboolean after = record && (!at || json_integer_value(at) >= time);
    json_decref(value);
    return after;
}

void
weft_txn_remove_template(WeftTxn *txn, const WeftTemplate *template, gint64 expected)
{
    weft_txn_delete(txn, WEFT_KIND_TEMPLATE, template->id, expected);
    weft_txn_end(txn, WEFT_THING_IMAGE, template->digest);
    weft_txn_end(txn, WEFT_THING_IMAGE, template->disk);
}

void
weft_txn_remove_checkpoint(WeftTxn *txn, const WeftCheckpoint *checkpoint, gint64 expected)
{
    g_autofree char *key = weft_cluster_key(checkpoint->tenant, checkpoint->name);
    weft_txn_delete(txn, WEFT_KIND_CHECKPOINT, key, expected);
    const WeftImageFile *file;
    for (guint at = 0; (file = weft_checkpoint_next_file(checkpoint, &at));)
        weft_txn_end(txn, WEFT_THING_IMAGE, file->digest);
}
