#include "checkpoints.h"

#include "control-private.h"
#include "errors.h"
#include "work.h"

#include <string.h>

typedef struct Item {
    WeftCheckpoint *record;
    gint64 revision;
} Item;

struct WeftCheckpoints {
    WeftControl *control;
    GHashTable *by_key; /* Item */
    GHashTable *files;  /* digest to how often they name it */
};

static void
item_free(gpointer data)
{
    Item *item = data;
    weft_checkpoint_free(item->record);
    g_free(item);
}

static void
count_files(WeftCheckpoints *checkpoints, const WeftCheckpoint *record, int by)
{
    const WeftImageFile *file;
    for (guint at = 0; (file = weft_checkpoint_next_file(record, &at));) {
        guint n = GPOINTER_TO_UINT(g_hash_table_lookup(checkpoints->files, file->digest)) + (guint)by;
        if (n)
            g_hash_table_insert(checkpoints->files, g_strdup(file->digest), GUINT_TO_POINTER(n));
        else
            g_hash_table_remove(checkpoints->files, file->digest);
    }
}

static void
forget(WeftCheckpoints *checkpoints, const char *key)
{
    const Item *item = g_hash_table_lookup(checkpoints->by_key, key);
    if (item)
        count_files(checkpoints, item->record, -1);
    g_hash_table_remove(checkpoints->by_key, key);
}

static void
put(WeftCheckpoints *checkpoints, const char *key, WeftCheckpoint *record, gint64 revision)
{
    Item item = { record, revision };
    forget(checkpoints, key);
    count_files(checkpoints, record, 1);
    g_hash_table_insert(checkpoints->by_key, g_strdup(key), g_memdup2(&item, sizeof item));
}

void
weft_checkpoints_changed(WeftCheckpoints *checkpoints, const WeftChange *change)
{
    const WeftCheckpoint *record = change->made_of;
    if (change->deleted) {
        forget(checkpoints, change->key);
        return;
    }
    put(checkpoints, change->key, weft_checkpoint_copy(record), change->revision);
    g_autofree char *cluster = weft_cluster_key(record->tenant, record->wish->name);
    if (weft_checkpoint_is_being_made(record))
        weft_control_wake(checkpoints->control, cluster);
}

/* --- finding --- */

static const WeftCheckpoint *
give(const Item *item, gint64 *ret_revision)
{
    if (item && ret_revision)
        *ret_revision = item->revision;
    return item ? item->record : NULL;
}

const WeftCheckpoint *
weft_checkpoints_find(const WeftCheckpoints *checkpoints, const char *tenant, const char *name, gint64 *ret_revision)
{
    g_autofree char *key = weft_cluster_key(tenant, name);
    return give(g_hash_table_lookup(checkpoints->by_key, key), ret_revision);
}

const WeftCheckpoint *
weft_checkpoints_unfinished(const WeftCheckpoints *checkpoints, const char *cluster_id, gint64 *ret_revision)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, checkpoints->by_key);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const Item *item = value;
        if (weft_checkpoint_is_being_made(item->record) && strcmp(item->record->cluster, cluster_id) == 0)
            return give(item, ret_revision);
    }
    return NULL;
}

const WeftCheckpoint *
weft_checkpoints_hidden(const WeftCheckpoints *checkpoints, const WeftCluster *cluster, gint64 *ret_revision)
{
    g_autofree char *name = weft_checkpoint_hidden_name(cluster->id);
    const WeftCheckpoint *found = weft_checkpoints_find(checkpoints, cluster->tenant, name, ret_revision);
    return found && found->hidden && found->state == WEFT_CHECKPOINT_COMPLETE ? found : NULL;
}

const WeftCheckpoint *
weft_checkpoints_origin(const WeftCheckpoints *checkpoints, const WeftCluster *cluster, const WeftClusterStatus *status)
{
    const WeftCheckpoint *hidden = weft_checkpoints_hidden(checkpoints, cluster, NULL);
    if (hidden || !cluster->checkpoint || (status && status->restored))
        return hidden;
    const WeftCheckpoint *wished = weft_checkpoints_find(checkpoints, cluster->tenant, cluster->checkpoint, NULL);
    return wished && wished->state == WEFT_CHECKPOINT_COMPLETE ? wished : NULL;
}

/* --- where they are wanted --- */

gboolean
weft_checkpoints_have(const WeftCheckpoints *checkpoints, const char *digest)
{
    return g_hash_table_contains(checkpoints->files, digest);
}

void
weft_checkpoints_add_digests(const WeftCheckpoints *checkpoints, GHashTable *digests)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, checkpoints->control->works);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftCheckpoint *origin = weft_work_origin(value);
        const WeftImageFile *file;
        for (guint at = 0; origin && (file = weft_checkpoint_next_file(origin, &at));)
            g_hash_table_add(digests, g_strdup(file->digest));
    }
}

void
weft_checkpoints_add_barred(const WeftCheckpoints *checkpoints, const WeftCluster *cluster, GHashTable *hosts)
{
    WeftControl *control = checkpoints->control;
    if (!cluster->checkpoint && !weft_checkpoints_hidden(checkpoints, cluster, NULL))
        return;
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(control->store, key, NULL, NULL);
    const WeftCheckpoint *origin = status && status->was_ready ? NULL : weft_checkpoints_origin(checkpoints, cluster, status);
    if (origin && origin->kind)
        weft_hosts_add_of_other_kind(control->hosts, origin->kind, hosts);
}

/* --- life --- */

WeftCheckpoints *
weft_checkpoints_new(WeftControl *control)
{
    WeftCheckpoints *checkpoints = g_new0(WeftCheckpoints, 1);
    checkpoints->control = control;
    checkpoints->by_key = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, item_free);
    checkpoints->files = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return checkpoints;
}

gboolean
weft_checkpoints_load(WeftCheckpoints *checkpoints, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_CHECKPOINT };
    g_autoptr(GPtrArray) records = weft_store_list(checkpoints->control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        WeftCheckpoint *checkpoint = weft_record_checkpoint(record, error);
        if (!checkpoint)
            return FALSE;
        put(checkpoints, record->key, checkpoint, record->revision);
    }
    return records != NULL;
}

void
weft_checkpoints_free(WeftCheckpoints *checkpoints)
{
    if (!checkpoints)
        return;
    g_hash_table_unref(checkpoints->by_key);
    g_hash_table_unref(checkpoints->files);
    g_free(checkpoints);
}
