#include "checkpoint.h"

#include "codec.h"

const char *const weft_checkpoint_words[WEFT_CHECKPOINT_STATES + 1] = {
    [WEFT_CHECKPOINT_WANTED] = "wanted",
    [WEFT_CHECKPOINT_SAVED] = "saved",
    [WEFT_CHECKPOINT_COMPLETE] = "complete",
    [WEFT_CHECKPOINT_FAILED] = "failed",
};

static const WeftCodecField checkpoint_fields[] = {
    WEFT_FIELD(WeftCheckpoint, tenant, TEXT),
    WEFT_FIELD(WeftCheckpoint, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "checkpoint name"),
    WEFT_FIELD(WeftCheckpoint, cluster, TEXT),
    WEFT_FIELD(WeftCheckpoint, kind, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCheckpoint, creator, TEXT),
    WEFT_FIELD(WeftCheckpoint, created, UINT64),
    WEFT_FIELD(WeftCheckpoint, taken, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCheckpoint, paused, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCheckpoint, skew, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCheckpoint, generation, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCheckpoint, state, WORD, .words = weft_checkpoint_words),
    WEFT_FIELD(WeftCheckpoint, reason, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCheckpoint, detail, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCheckpoint, disrupt, BOOL),
    WEFT_FIELD(WeftCheckpoint, hidden, BOOL),
    WEFT_FIELD(WeftCheckpoint, imported, BOOL),
    WEFT_FIELD(WeftCheckpoint, restored, UINT64, WEFT_OPTIONAL),
    {},
};

static const WeftCodecField node_fields[] = {
    WEFT_FIELD(WeftCheckpointNode, rank, UINT, .max = WEFT_NODES_MAX - 1),
    WEFT_FIELD(WeftCheckpointNode, group, TEXT),
    WEFT_FIELD(WeftCheckpointNode, hostname, TEXT),
    WEFT_FIELD(WeftCheckpointNode, cpus, UINT, .min = 1),
    WEFT_FIELD(WeftCheckpointNode, memory, UINT64),
    WEFT_FIELD(WeftCheckpointNode, page_size, UINT64),
    WEFT_FIELD(WeftCheckpointNode, path, WORD, .words = weft_path_words),
    WEFT_FIELD(WeftCheckpointNode, mac, TEXT),
    WEFT_FIELD(WeftCheckpointNode, host_key, TEXT, WEFT_OPTIONAL),
    {},
};

static const WeftCodecField file_fields[] = {
    WEFT_FIELD(WeftImageFile, digest, TEXT),
    WEFT_FIELD(WeftImageFile, size, UINT64, .min = 1),
    {},
};

static void
file_free(WeftImageFile *file)
{
    weft_codec_free(file_fields, file);
}

static void
node_free(gpointer data)
{
    WeftCheckpointNode *node = data;
    g_array_unref(node->guids);
    file_free(node->saved);
    file_free(node->disk);
    weft_codec_free(node_fields, node);
}

WeftCheckpointNode *
weft_checkpoint_node_new(void)
{
    WeftCheckpointNode *node = g_new0(WeftCheckpointNode, 1);
    node->guids = g_array_new(FALSE, FALSE, sizeof(guint64));
    return node;
}

GPtrArray *
weft_checkpoint_nodes_new(void)
{
    return g_ptr_array_new_with_free_func(node_free);
}

WeftCheckpoint *
weft_checkpoint_new(void)
{
    WeftCheckpoint *checkpoint = g_new0(WeftCheckpoint, 1);
    checkpoint->nodes = weft_checkpoint_nodes_new();
    return checkpoint;
}

void
weft_checkpoint_free(WeftCheckpoint *checkpoint)
{
    if (!checkpoint)
        return;
    g_clear_pointer(&checkpoint->wish, weft_cluster_free);
    g_ptr_array_unref(checkpoint->nodes);
    weft_codec_free(checkpoint_fields, checkpoint);
}

/* --- reading --- */

static WeftImageFile *
read_file(WeftFields *fields, const char *name)
{
    json_t *object = weft_fields_object(fields, name);
    if (!object || fields->error)
        return NULL;
    g_autofree char *where = weft_fields_path(fields, name);
    g_autoptr(GError) error = NULL;
    WeftImageFile *file = weft_codec_decode(file_fields, sizeof *file, object, where, &fields->error);
    if (file && !weft_digest_check(file->digest, &error))
        weft_fields_fail(fields, name, "%s", error->message);
    return file;
}

static void
read_guids(WeftFields *f, GArray *guids)
{
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
    weft_codec_read_texts(f, "guids", WEFT_RAILS_MAX, WEFT_GRAMMAR_NONE, "GUID", texts);
    for (guint i = 0; i < texts->len; i++) {
        const char *text = texts->pdata[i];
        guint64 guid = 0;
        if (!g_str_has_prefix(text, "0x") || !g_ascii_string_to_unsigned(text + 2, 16, 0, G_MAXUINT64, &guid, NULL))
            weft_fields_fail(f, "guids", "\"%s\" is no GUID; write it like 0x0123456789abcdef", text);
        g_array_append_val(guids, guid);
    }
}

static void
read_node(WeftFields *f, guint index, gpointer owner)
{
    WeftCheckpoint *checkpoint = owner;
    WeftCheckpointNode *node = weft_checkpoint_node_new();
    g_ptr_array_add(checkpoint->nodes, node);
    weft_codec_read(f, node_fields, node);
    read_guids(f, node->guids);
    node->saved = read_file(f, "saved");
    node->disk = read_file(f, "disk");
    if (!f->error && node->rank != index)
        weft_fields_fail(f, "rank", "must be %u: nodes are in the order of their ranks", index);
    if (!f->error && checkpoint->state == WEFT_CHECKPOINT_COMPLETE && !node->saved)
        weft_fields_fail(f, "saved", "is missing; without it the node cannot be restored");
}

static WeftCluster *
read_wish(WeftFields *fields)
{
    json_t *object = weft_fields_object(fields, "wish");
    if (!object && !fields->error)
        weft_fields_fail(fields, "wish", "is missing; it is what the cluster was asked for as");
    if (fields->error)
        return NULL;
    WeftCluster *wish = weft_cluster_from_json(object, &fields->error);
    if (!wish)
        g_prefix_error(&fields->error, "wish: ");
    return wish;
}

WeftCheckpoint *
weft_checkpoint_from_json(json_t *json, GError **error)
{
    g_autoptr(WeftCheckpoint) checkpoint = weft_checkpoint_new();
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_codec_read(&f, checkpoint_fields, checkpoint);
    checkpoint->wish = read_wish(&f);
    weft_codec_read_items(&f, "nodes", WEFT_NODES_MAX, read_node, checkpoint);
    return weft_fields_end(&f, error) ? g_steal_pointer(&checkpoint) : NULL;
}

/* --- writing --- */

static json_t *
write_node(const WeftCheckpointNode *node)
{
    json_t *json = weft_codec_write(node_fields, node);
    json_t *guids = json_array();
    for (guint i = 0; i < node->guids->len; i++)
        json_array_append_new(guids, weft_guid_write(g_array_index(node->guids, guint64, i)));
    if (node->guids->len)
        json_object_set_new_nocheck(json, "guids", json_incref(guids));
    json_decref(guids);
    if (node->saved)
        json_object_set_new_nocheck(json, "saved", weft_codec_write(file_fields, node->saved));
    if (node->disk)
        json_object_set_new_nocheck(json, "disk", weft_codec_write(file_fields, node->disk));
    return json;
}

json_t *
weft_checkpoint_to_json(const WeftCheckpoint *checkpoint)
{
    json_t *json = weft_codec_write(checkpoint_fields, checkpoint);
    json_t *nodes = json_array();
    for (guint i = 0; i < checkpoint->nodes->len; i++)
        json_array_append_new(nodes, write_node(checkpoint->nodes->pdata[i]));
    json_object_set_new_nocheck(json, "wish", weft_cluster_to_json(checkpoint->wish));
    json_object_set_new_nocheck(json, "nodes", nodes);
    return json;
}

/* --- its files --- */

const WeftImageFile *
weft_checkpoint_next_file(const WeftCheckpoint *checkpoint, guint *at)
{
    while (*at < 2 * checkpoint->nodes->len) {
        const WeftCheckpointNode *node = checkpoint->nodes->pdata[*at / 2];
        const WeftImageFile *file = (*at)++ % 2 == 0 ? node->saved : node->disk;
        if (file)
            return file;
    }
    return NULL;
}

gboolean
weft_checkpoint_has_files(const WeftCheckpoint *checkpoint)
{
    return weft_checkpoint_next_file(checkpoint, &(guint){ 0 }) != NULL;
}

guint64
weft_checkpoint_size(const WeftCheckpoint *checkpoint)
{
    guint64 size = 0;
    const WeftImageFile *file;
    for (guint at = 0; (file = weft_checkpoint_next_file(checkpoint, &at));)
        size += file->size;
    return size;
}

guint64
weft_checkpoint_storage(const WeftCheckpoint *checkpoint)
{
    guint64 most = 0;
    if (checkpoint->state == WEFT_CHECKPOINT_FAILED || weft_checkpoint_has_files(checkpoint))
        return weft_checkpoint_size(checkpoint);
    for (guint i = 0; i < checkpoint->wish->groups->len; i++) {
        const WeftGroup *group = checkpoint->wish->groups->pdata[i];
        guint64 disk = group->disk ? WEFT_SAVED_MAX(group->disk) : 0;
        most += group->count * (WEFT_SAVED_MAX(group->memory) + disk);
    }
    return most;
}

/* --- what it is --- */

gboolean
weft_checkpoint_is_being_made(const WeftCheckpoint *checkpoint)
{
    return checkpoint->state == WEFT_CHECKPOINT_WANTED || checkpoint->state == WEFT_CHECKPOINT_SAVED;
}

const WeftCheckpointNode *
weft_checkpoint_node(const WeftCheckpoint *checkpoint, guint rank)
{
    return rank < checkpoint->nodes->len ? checkpoint->nodes->pdata[rank] : NULL;
}

char *
weft_checkpoint_hidden_name(const char *cluster_id)
{
    return g_strconcat(WEFT_CHECKPOINT_HIDDEN, cluster_id, NULL);
}

WeftCheckpoint *
weft_checkpoint_copy(const WeftCheckpoint *checkpoint)
{
    WeftCheckpoint *copy = g_memdup2(checkpoint, sizeof *copy);
    weft_codec_own(checkpoint_fields, copy);
    copy->wish = weft_cluster_copy(checkpoint->wish);
    copy->nodes = g_ptr_array_ref(checkpoint->nodes);
    return copy;
}

WeftCheckpointNode *
weft_checkpoint_node_copy(const WeftCheckpointNode *node)
{
    WeftCheckpointNode *copy = g_memdup2(node, sizeof *copy);
    weft_codec_own(node_fields, copy);
    copy->guids = g_array_copy(node->guids);
    copy->saved = copy->disk = NULL;
    return copy;
}

void
weft_checkpoint_set_nodes(WeftCheckpoint *checkpoint, GPtrArray *nodes)
{
    g_ptr_array_unref(checkpoint->nodes);
    checkpoint->nodes = nodes;
}

const char *
weft_checkpoint_obstacle(const WeftCluster *cluster, const WeftNode *node)
{
    if (cluster->shm || node->shm)
        return "its nodes on one host share memory, which cannot be saved; create it without shm";
    if (node->memory->len > 1)
        return "a node of it has memory of several NUMA nodes, which others would not have the same way; create it with numa "
               "required";
    return NULL;
}
