#include "limit.h"

#define BUCKETS_MAX 4096

typedef struct {
    double left;
    gint64 at;
} Bucket;

struct WeftLimit {
    double per_second;
    double burst;
    GHashTable *buckets; /* who → Bucket */
};

WeftLimit *
weft_limit_new(guint per_second, guint burst)
{
    WeftLimit *limit = g_new0(WeftLimit, 1);
    limit->per_second = MAX(per_second, 1);
    limit->burst = MAX(burst, 1);
    limit->buckets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    return limit;
}

void
weft_limit_free(WeftLimit *limit)
{
    if (!limit)
        return;
    g_hash_table_unref(limit->buckets);
    g_free(limit);
}

static Bucket *
bucket_of(WeftLimit *limit, const char *who, gint64 now)
{
    Bucket *bucket = g_hash_table_lookup(limit->buckets, who);
    if (bucket)
        return bucket;
    /* Forgetting them all gives each a full bucket once: cheaper than to keep an order of use. */
    if (g_hash_table_size(limit->buckets) >= BUCKETS_MAX)
        g_hash_table_remove_all(limit->buckets);
    bucket = g_new(Bucket, 1);
    *bucket = (Bucket){ .left = limit->burst, .at = now };
    g_hash_table_insert(limit->buckets, g_strdup(who), bucket);
    return bucket;
}

gboolean
weft_limit_take(WeftLimit *limit, const char *who, guint cost, gint64 now)
{
    Bucket *bucket = bucket_of(limit, who, now);
    bucket->left += (double)(now - bucket->at) * limit->per_second / G_USEC_PER_SEC;
    bucket->left = MIN(bucket->left, limit->burst);
    bucket->at = now;
    double price = MIN(cost, limit->burst);
    if (bucket->left < price)
        return FALSE;
    bucket->left -= price;
    return TRUE;
}
