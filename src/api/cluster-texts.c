#include "cluster-texts.h"

#include "views.h"

#define TEXTS_MAX 16384 /* of some 500 bytes */

typedef struct {
    gint64 wish;     /* revision of the cluster's record */
    gint64 progress; /* of its status; 0: there is none */
    char *json;
} Text;

struct WeftClusterTexts {
    WeftStore *store;
    gboolean all;
    GHashTable *texts; /* key of the cluster → Text */
};

static void
text_free(gpointer data)
{
    Text *text = data;
    g_free(text->json);
    g_free(text);
}

WeftClusterTexts *
weft_cluster_texts_new(WeftStore *store, gboolean all)
{
    WeftClusterTexts *texts = g_new0(WeftClusterTexts, 1);
    texts->store = store;
    texts->all = all;
    texts->texts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, text_free);
    return texts;
}

void
weft_cluster_texts_free(WeftClusterTexts *texts)
{
    if (!texts)
        return;
    g_hash_table_unref(texts->texts);
    g_free(texts);
}

/* The revisions were read before: at worst the text is newer than they say, and is made again. */
static Text *
make_text(WeftClusterTexts *texts, const WeftRecord *record, gint64 progress, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_record_cluster(record, error);
    char *json = cluster ? weft_view_text(weft_view_cluster(texts->store, cluster, texts->all, error)) : NULL;
    if (!json)
        return NULL;
    /* Those of clusters that are gone go too. */
    if (g_hash_table_size(texts->texts) >= TEXTS_MAX)
        g_hash_table_remove_all(texts->texts);
    Text *text = g_new(Text, 1);
    *text = (Text){ .wish = record->revision, .progress = progress, .json = json };
    g_hash_table_insert(texts->texts, g_strdup(record->key), text);
    return text;
}

const char *
weft_cluster_texts_get(WeftClusterTexts *texts, const WeftRecord *record, GError **error)
{
    GError *failure = NULL;
    g_autoptr(WeftRecord) status = weft_store_get(texts->store, WEFT_KIND_CLUSTER_STATUS, record->key, &failure);
    if (failure) {
        g_propagate_error(error, failure);
        return NULL;
    }
    gint64 progress = status ? status->revision : 0;
    const Text *text = g_hash_table_lookup(texts->texts, record->key);
    if (!text || text->wish != record->revision || text->progress != progress)
        text = make_text(texts, record, progress, error);
    return text ? text->json : NULL;
}
