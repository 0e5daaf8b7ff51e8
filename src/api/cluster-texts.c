#include "cluster-texts.h"

#include "views.h"

#define TEXTS_MAX 16384 /* of some 500 bytes */

typedef struct {
    gint64 wish;     /* revision of the cluster's record */
    gint64 progress; /* of its status; 0: there is none */
    char *json;
} Text;

struct WeftClusterTexts {
    gboolean all;
    GMutex mutex;
    GHashTable *texts; /* key of the cluster → Text; under the mutex */
};

static void
text_free(gpointer data)
{
    Text *text = data;
    g_free(text->json);
    g_free(text);
}

WeftClusterTexts *
weft_cluster_texts_new(gboolean all)
{
    WeftClusterTexts *texts = g_new0(WeftClusterTexts, 1);
    texts->all = all;
    g_mutex_init(&texts->mutex);
    texts->texts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, text_free);
    return texts;
}

void
weft_cluster_texts_free(WeftClusterTexts *texts)
{
    if (!texts)
        return;
    g_hash_table_unref(texts->texts);
    g_mutex_clear(&texts->mutex);
    g_free(texts);
}

/* NULL: it has another revision, or is not there. */
static char *
find_text(WeftClusterTexts *texts, const WeftRecord *record, gint64 progress)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&texts->mutex);
    const Text *text = g_hash_table_lookup(texts->texts, record->key);
    return text && text->wish == record->revision && text->progress == progress ? g_strdup(text->json) : NULL;
}

static void
keep_text(WeftClusterTexts *texts, const WeftRecord *record, gint64 progress, const char *json)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&texts->mutex);
    /* Those of clusters that are gone go too. */
    if (g_hash_table_size(texts->texts) >= TEXTS_MAX)
        g_hash_table_remove_all(texts->texts);
    Text *text = g_new(Text, 1);
    *text = (Text){ .wish = record->revision, .progress = progress, .json = g_strdup(json) };
    g_hash_table_insert(texts->texts, g_strdup(record->key), text);
}

/* The revisions are read first: at worst the text is newer than they say, and is made again. */
char *
weft_cluster_texts_get(WeftClusterTexts *texts, WeftStore *store, const WeftRecord *record, GError **error)
{
    GError *failure = NULL;
    g_autoptr(WeftRecord) status = weft_store_get(store, WEFT_KIND_CLUSTER_STATUS, record->key, &failure);
    if (failure) {
        g_propagate_error(error, failure);
        return NULL;
    }
    gint64 progress = status ? status->revision : 0;
    char *json = find_text(texts, record, progress);
    if (json)
        return json;
    g_autoptr(WeftCluster) cluster = weft_record_cluster(record, error);
    json = cluster ? weft_view_text(weft_view_cluster(store, cluster, texts->all, error)) : NULL;
    if (json)
        keep_text(texts, record, progress, json);
    return json;
}
