/* What the record of a checkpoint says of it while it is made. */
#include "size.h"
#include "text.h"
#include "work-freeze.h"

#include <glib/gstdio.h>

static WeftCheckpointNode *
describe(const WeftNodeWork *item)
{
    const WeftNode *node = item->node;
    WeftCheckpointNode *saved = weft_checkpoint_node_new();
    saved->rank = node->rank;
    saved->group = g_strdup(node->group);
    saved->hostname = weft_node_hostname(node);
    saved->cpus = node->cores->len;
    saved->memory = weft_node_memory(node);
    saved->page_size = g_array_index(node->memory, WeftMemory, 0).page_size;
    saved->path = node->path;
    saved->mac = g_strdup(node->mac);
    saved->host_key = g_strdup(weft_work_host_key(item));
    for (guint i = 0; i < node->devices->len; i++)
        g_array_append_val(saved->guids, ((const WeftDevice *)node->devices->pdata[i])->guid);
    return saved;
}

static int
compare_ranks(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftNodeWork *const *)a)->node->rank, y = (*(WeftNodeWork *const *)b)->node->rank;
    return x < y ? -1 : x > y;
}

static void
describe_nodes(const WeftWork *work, WeftCheckpoint *checkpoint)
{
    g_autoptr(GPtrArray) items = g_ptr_array_copy(work->nodes, NULL, NULL);
    g_ptr_array_set_free_func(items, NULL);
    g_ptr_array_sort(items, compare_ranks);
    GPtrArray *nodes = weft_checkpoint_nodes_new();
    for (guint i = 0; i < items->len; i++)
        g_ptr_array_add(nodes, describe(items->pdata[i]));
    weft_checkpoint_set_nodes(checkpoint, nodes);
}

static char *
kind_of(const WeftWork *work, const WeftNode *node)
{
    const WeftInventory *inventory = weft_hosts_inventory(work->control->hosts, node->host, NULL);
    return inventory ? weft_inventory_kind(inventory) : NULL;
}

void
weft_freeze_record_saved(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision)
{
    const WeftFreeze *freeze = work->freeze;
    g_autoptr(WeftCheckpoint) saved = weft_checkpoint_copy(checkpoint);
    saved->state = WEFT_CHECKPOINT_SAVED;
    saved->taken = freeze->taken;
    saved->skew = freeze->last - freeze->first;
    saved->generation = work->status->generation;
    g_free(saved->kind);
    saved->kind = kind_of(work, ((const WeftNodeWork *)work->nodes->pdata[0])->node);
    describe_nodes(work, saved);
    WeftTxn *txn = weft_txn_new("checkpoint-saved");
    weft_txn_put_checkpoint(txn, saved, NULL, revision);
    weft_work_commit(work, txn);
}

/* One that nobody else has. Who keeps the files removes it then. */
static void
end_file(WeftTxn *txn, const WeftControl *control, const WeftImageFile *file)
{
    GHashTable *wanted = weft_images_wanted(control->images);
    if (file && wanted && !g_hash_table_contains(wanted, file->digest) &&
        !weft_checkpoints_have(control->checkpoints, file->digest))
        weft_txn_end(txn, WEFT_THING_IMAGE, file->digest);
}

static void
end_files(WeftTxn *txn, WeftWork *work)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, work->freeze->shares);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftFreezeShare *share = value;
        end_file(txn, work->control, share->file);
        end_file(txn, work->control, share->disk);
    }
}

void
weft_freeze_record_failed(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision)
{
    const WeftFreeze *freeze = work->freeze;
    WeftTxn *txn = weft_txn_new("checkpoint-failed");
    end_files(txn, work);
    weft_work_tell_event(work, txn, "checkpoint-failed", NULL, freeze->detail, "%s: %s",
                         checkpoint->hidden ? "it could not be put aside" : checkpoint->name, freeze->reason);
    if (checkpoint->hidden) {
        weft_txn_remove_checkpoint(txn, checkpoint, revision);
    } else {
        g_autoptr(WeftCheckpoint) failed = weft_checkpoint_copy(checkpoint);
        failed->state = WEFT_CHECKPOINT_FAILED;
        failed->reason = g_strdup(freeze->reason);
        failed->detail = g_strdup(freeze->detail);
        weft_checkpoint_set_nodes(failed, weft_checkpoint_nodes_new());
        weft_txn_put_checkpoint(txn, failed, NULL, revision);
    }
    /* Whoever gives way does so all the same. */
    if (checkpoint->hidden && !work->cluster->deleted)
        weft_work_retire_all(work, txn, work->preempt ? work->preempt : WEFT_GAVE_WAY, TRUE);
    else
        weft_work_commit(work, txn);
}

/* Those that are ready. */
static GHashTable *
index_ranks(const WeftWork *work)
{
    GHashTable *items = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (item->node->phase == WEFT_NODE_READY)
            g_hash_table_insert(items, GUINT_TO_POINTER(item->node->rank), item);
    }
    return items;
}

/* FALSE: one of them is not here. */
static gboolean
add_files(const WeftWork *work, WeftCheckpoint *checkpoint)
{
    g_autoptr(GHashTable) items = index_ranks(work);
    g_autoptr(GPtrArray) nodes = weft_checkpoint_nodes_new();
    for (guint i = 0; i < checkpoint->nodes->len; i++) {
        WeftCheckpointNode *node = weft_checkpoint_node_copy(checkpoint->nodes->pdata[i]);
        g_ptr_array_add(nodes, node);
        const WeftNodeWork *item = g_hash_table_lookup(items, GUINT_TO_POINTER(node->rank));
        const WeftFreezeShare *share = item ? g_hash_table_lookup(work->freeze->shares, item->node->id) : NULL;
        if (!share || !share->file || (!share->disk && weft_work_own_disk(work, item->node)))
            return FALSE;
        node->saved = weft_job_file_copy(share->file);
        node->disk = share->disk ? weft_job_file_copy(share->disk) : NULL;
    }
    weft_checkpoint_set_nodes(checkpoint, g_steal_pointer(&nodes));
    return TRUE;
}

gboolean
weft_freeze_record_files(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision)
{
    g_autoptr(WeftCheckpoint) fetched = weft_checkpoint_copy(checkpoint);
    if (!add_files(work, fetched))
        return FALSE;
    fetched->paused = work->freeze->paused;
    WeftTxn *txn = weft_txn_new("checkpoint-fetched");
    weft_txn_put_checkpoint(txn, fetched, NULL, revision);
    weft_work_commit(work, txn);
    return TRUE;
}

void
weft_freeze_record_complete(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision)
{
    g_autoptr(WeftCheckpoint) complete = weft_checkpoint_copy(checkpoint);
    complete->state = WEFT_CHECKPOINT_COMPLETE;
    g_autofree char *size = weft_size_about(weft_checkpoint_size(complete));
    g_autofree char *nodes = weft_text_count(complete->nodes->len, "node");
    WeftTxn *txn = weft_txn_new("checkpoint-completed");
    weft_txn_put_checkpoint(txn, complete, NULL, revision);
    weft_txn_tell(txn, "checkpoint-completed", work->cluster, NULL,
                  "%s: %s in %s, paused for %" G_GINT64_FORMAT " ms, within %" G_GINT64_FORMAT " ms of each other",
                  complete->hidden ? "it is put aside" : complete->name, nodes, size, complete->paused / 1000,
                  complete->skew / 1000);
    if (complete->hidden)
        weft_work_retire_all(work, txn, work->preempt ? work->preempt : WEFT_GAVE_WAY, TRUE);
    else
        weft_work_commit(work, txn);
}
