#include "reads.h"

#define TOGETHER G_TIME_SPAN_HOUR
#define KEYS_MAX 16384

struct WeftReads {
    GHashTable *until; /* key to gint64 */
};

WeftReads *
weft_reads_new(void)
{
    WeftReads *reads = g_new0(WeftReads, 1);
    reads->until = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    return reads;
}

void
weft_reads_free(WeftReads *reads)
{
    g_hash_table_unref(reads->until);
    g_free(reads);
}

static gboolean
is_over(gpointer key, gpointer until, gpointer now)
{
    return *(const gint64 *)until <= *(const gint64 *)now;
}

gboolean
weft_reads_is_first(WeftReads *reads, const char *key, gint64 now)
{
    const gint64 *until = g_hash_table_lookup(reads->until, key);
    if (until && *until > now)
        return FALSE;
    if (g_hash_table_size(reads->until) >= KEYS_MAX)
        g_hash_table_foreach_remove(reads->until, is_over, &now);
    if (g_hash_table_size(reads->until) >= KEYS_MAX)
        g_hash_table_remove_all(reads->until);
    gint64 end = now + TOGETHER;
    g_hash_table_insert(reads->until, g_strdup(key), g_memdup2(&end, sizeof end));
    return TRUE;
}
