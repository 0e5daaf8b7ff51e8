#include "shares.h"

#include "errors.h"

/* One of so many parts of all: the most that one principal has, and what is kept for operators. */
static const struct {
    const char *noun;
    guint principal;
    guint reserve;
} policies[WEFT_SHARE_KINDS] = {
    [WEFT_SHARE_STREAMS] = { "event streams", 4, 8 },
    [WEFT_SHARE_SESSIONS] = { "sessions", 4, 8 },
    [WEFT_SHARE_READERS] = { "requests that are being read", 2, 8 },
    [WEFT_SHARE_TRIALS] = { "dry runs", 4, 8 },
    [WEFT_SHARE_QUESTIONS] = { "questions to hosts and fabrics", 8, 8 },
    [WEFT_SHARE_UPLOADS] = { "long uploads", 8, 8 },
    [WEFT_SHARE_PIECES] = { "pieces of files that are being read", 4, 8 },
};

typedef struct {
    guint total;
    guint used;            /* by all */
    guint used_by_tenants; /* … of which this is no operator's */
    GHashTable *tenants;   /* name → how many */
    GHashTable *payers;
} Kind;

struct WeftShares {
    Kind kinds[WEFT_SHARE_KINDS];
};

struct WeftShare {
    WeftShares *shares;
    WeftShareKind kind;
    WeftPayerKind payer;
    char *tenant;
    char *name;
};

WeftShares *
weft_shares_new(const guint totals[WEFT_SHARE_KINDS])
{
    WeftShares *shares = g_rc_box_new0(WeftShares);
    for (guint i = 0; i < WEFT_SHARE_KINDS; i++) {
        Kind *kind = &shares->kinds[i];
        kind->total = totals[i];
        kind->tenants = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
        kind->payers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    }
    return shares;
}

static void
shares_clear(gpointer data)
{
    WeftShares *shares = data;
    for (guint i = 0; i < WEFT_SHARE_KINDS; i++) {
        g_hash_table_unref(shares->kinds[i].tenants);
        g_hash_table_unref(shares->kinds[i].payers);
    }
}

void
weft_shares_unref(WeftShares *shares)
{
    if (shares)
        g_rc_box_release_full(shares, shares_clear);
}

static guint
count_of(GHashTable *counts, const char *name)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(counts, name));
}

static void
change(GHashTable *counts, const char *name, int by)
{
    guint n = count_of(counts, name) + (guint)by;
    if (n)
        g_hash_table_insert(counts, g_strdup(name), GUINT_TO_POINTER(n));
    else
        g_hash_table_remove(counts, name);
}

static void
count(WeftShares *shares, const WeftShare *share, int by)
{
    Kind *kind = &shares->kinds[share->kind];
    kind->used += (guint)by;
    change(kind->payers, share->name, by);
    if (share->payer == WEFT_PAYER_OPERATOR)
        return;
    kind->used_by_tenants += (guint)by;
    change(kind->tenants, share->tenant, by);
}

static gboolean
check_principal(const Kind *kind, WeftShareKind which, const WeftPayer *payer, GError **error)
{
    guint most = (kind->total + policies[which].principal - 1) / policies[which].principal;
    guint own = count_of(kind->payers, payer->name);
    return own < most || weft_error_refuse(error, WEFT_ERROR_BUSY, "you have %u %s already; end one, or try again later", own,
                                           policies[which].noun);
}

/* Strangers are one tenant. */
static gboolean
check_tenant(const Kind *kind, WeftShareKind which, const WeftPayer *payer, GError **error)
{
    if (payer->kind == WEFT_PAYER_OPERATOR)
        return TRUE;
    guint most = kind->total - kind->total / policies[which].reserve;
    guint own = count_of(kind->tenants, payer->tenant);
    guint left = most > kind->used_by_tenants ? most - kind->used_by_tenants : 0;
    if (own < left)
        return TRUE;
    if (own > 0)
        return weft_error_refuse(error, WEFT_ERROR_BUSY,
                                 "your tenant has %u %s already, and as many are left to others; end one, or try again later",
                                 own, policies[which].noun);
    return weft_error_refuse(error, WEFT_ERROR_BUSY, "there are %u %s already; try again later", kind->used,
                             policies[which].noun);
}

WeftShare *
weft_share_take(WeftShares *shares, WeftShareKind which, const WeftPayer *payer, GError **error)
{
    const Kind *kind = &shares->kinds[which];
    if (kind->used >= kind->total) {
        weft_error_refuse(error, WEFT_ERROR_BUSY, "there are %u %s already; try again later", kind->used, policies[which].noun);
        return NULL;
    }
    if (!check_principal(kind, which, payer, error) || !check_tenant(kind, which, payer, error))
        return NULL;
    WeftShare *share = g_new(WeftShare, 1);
    *share = (WeftShare){ g_rc_box_acquire(shares), which, payer->kind, g_strdup(payer->tenant), g_strdup(payer->name) };
    count(shares, share, 1);
    return share;
}

void
weft_share_free(WeftShare *share)
{
    if (!share)
        return;
    count(share->shares, share, -1);
    weft_shares_unref(share->shares);
    g_free(share->tenant);
    g_free(share->name);
    g_free(share);
}
