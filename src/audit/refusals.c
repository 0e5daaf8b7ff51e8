#include "refusals.h"

#define OTHERS "others" /* where more places were counted than are told */
#define PLACES_MAX 32
#define ACCOUNTS_MAX 4096

/* How fast entries come back that were used up. */
typedef struct Rate {
    double burst;
    double second;
} Rate;
static const Rate of_account = { 20, 1.0 / 3 };
static const Rate of_strangers = { 100, 1 };

typedef struct {
    double left;
    gint64 since;
    guint64 count;
    GHashTable *status; /* text to guint */
    GHashTable *from;
} Bucket;

struct WeftRefusals {
    GHashTable *buckets; /* account to Bucket; "" for strangers, as an account has a slash in it */
    guint64 counted;
};

static void
bucket_free(gpointer data)
{
    Bucket *bucket = data;
    g_hash_table_unref(bucket->status);
    g_hash_table_unref(bucket->from);
    g_free(bucket);
}

WeftRefusals *
weft_refusals_new(void)
{
    WeftRefusals *refusals = g_new0(WeftRefusals, 1);
    refusals->buckets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, bucket_free);
    return refusals;
}

void
weft_refusals_free(WeftRefusals *refusals)
{
    g_hash_table_unref(refusals->buckets);
    g_free(refusals);
}

static const Rate *
rate_of(const WeftRefused *refused)
{
    return refused->account ? &of_account : &of_strangers;
}

/* Accounts are those of the site; more than a site has share one. */
static Bucket *
find(WeftRefusals *refusals, const WeftRefused *refused, gint64 now)
{
    const char *account = refused->account ? refused->account : "";
    Bucket *bucket = g_hash_table_lookup(refusals->buckets, account);
    if (!bucket && g_hash_table_size(refusals->buckets) >= ACCOUNTS_MAX)
        bucket = g_hash_table_lookup(refusals->buckets, account = OTHERS);
    if (bucket)
        return bucket;
    bucket = g_new0(Bucket, 1);
    *bucket = (Bucket){ .left = rate_of(refused)->burst, .since = now };
    bucket->status = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    bucket->from = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_hash_table_insert(refusals->buckets, g_strdup(account), bucket);
    return bucket;
}

static void
count(GHashTable *counts, const char *name)
{
    if (!g_hash_table_contains(counts, name) && g_hash_table_size(counts) >= PLACES_MAX)
        name = OTHERS;
    guint n = GPOINTER_TO_UINT(g_hash_table_lookup(counts, name));
    g_hash_table_insert(counts, g_strdup(name), GUINT_TO_POINTER(n + 1));
}

void
weft_refusals_count(WeftRefusals *refusals, const WeftRefused *refused, gint64 now)
{
    Bucket *bucket = find(refusals, refused, now);
    char status[16];
    g_snprintf(status, sizeof status, "%u", refused->status);
    count(bucket->status, status);
    count(bucket->from, refused->from);
    bucket->count++;
    refusals->counted++;
}

gboolean
weft_refusals_admit(WeftRefusals *refusals, const WeftRefused *refused, gint64 now)
{
    const Rate *rate = rate_of(refused);
    Bucket *bucket = find(refusals, refused, now);
    double back = (double)(now - bucket->since) / G_USEC_PER_SEC * rate->second;
    bucket->left = MIN(bucket->left + back, rate->burst);
    bucket->since = now;
    if (bucket->left >= 1) {
        bucket->left--;
        return TRUE;
    }
    weft_refusals_count(refusals, refused, now);
    return FALSE;
}

gboolean
weft_refusals_has_sums(const WeftRefusals *refusals)
{
    return refusals->counted > 0;
}

static json_t *
take_counts(GHashTable *counts)
{
    json_t *object = json_object();
    GHashTableIter iter;
    gpointer name, n;
    g_hash_table_iter_init(&iter, counts);
    while (g_hash_table_iter_next(&iter, &name, &n))
        json_object_set_new(object, name, json_integer(GPOINTER_TO_UINT(n)));
    g_hash_table_remove_all(counts);
    return object;
}

json_t *
weft_refusals_take_sums(WeftRefusals *refusals)
{
    json_t *sums = json_array();
    GHashTableIter iter;
    gpointer account, data;
    g_hash_table_iter_init(&iter, refusals->buckets);
    while (g_hash_table_iter_next(&iter, &account, &data)) {
        Bucket *bucket = data;
        if (!bucket->count)
            continue;
        const char *name = account;
        json_array_append_new(sums, json_pack("{s:s?, s:I, s:o, s:o}", "account", *name ? name : NULL, "count",
                                              (json_int_t)bucket->count, "statuses", take_counts(bucket->status), "from",
                                              take_counts(bucket->from)));
        bucket->count = 0;
    }
    refusals->counted = 0;
    return sums;
}
