#include "budgets.h"

#define SWEEP_AT 1024   /* buckets, of one table */
#define DEBT_SECONDS 10 /* no debt takes longer to pay */
#define BURST_SECONDS 1 /* of processor time: what can be saved up */
#define REFUSALS 20     /* in a second */
#define PER_HUNDREDTH (G_USEC_PER_SEC / 100.0)

/* What flows into a bucket, and how much it holds. A rate of 0: no limit. */
typedef struct {
    double per_second;
    double burst;
} Rate;

typedef struct {
    double left; /* below 0: a debt */
    gint64 at;
} Bucket;

/* One level of one kind of payer. Whoever is not in the table has a full bucket. */
typedef struct {
    Rate rate;
    GHashTable *buckets; /* name → Bucket */
    guint sweep_at;
} Level;

typedef enum { WHOLE, EACH, LEVELS } Depth;

struct WeftBudgets {
    Level levels[WEFT_BUDGET_KINDS][WEFT_PAYERS][LEVELS];
};

/* The parts of a principal's rate of requests and of refusals, and of a tenant's rate of processor time. Operators are refused
 * nothing for the time that they take: they are the ones who help when everything is slow. */
static const double parts[WEFT_BUDGET_KINDS][WEFT_PAYERS][LEVELS] = {
    [WEFT_BUDGET_REQUESTS] = {
        [WEFT_PAYER_STRANGER] = { [WHOLE] = 1, [EACH] = 0.25 },
        [WEFT_PAYER_TENANT] = { [WHOLE] = 2, [EACH] = 1 },
        [WEFT_PAYER_OPERATOR] = { [WHOLE] = 0, [EACH] = 1 },
    },
    [WEFT_BUDGET_PROCESSOR] = {
        [WEFT_PAYER_STRANGER] = { [WHOLE] = 0.5, [EACH] = 0.125 },
        [WEFT_PAYER_TENANT] = { [WHOLE] = 1, [EACH] = 0.5 },
        [WEFT_PAYER_OPERATOR] = { [WHOLE] = 0, [EACH] = 0 },
    },
    [WEFT_BUDGET_REFUSALS] = {
        [WEFT_PAYER_STRANGER] = { [WHOLE] = 4, [EACH] = 1 },
        [WEFT_PAYER_TENANT] = { [WHOLE] = 2, [EACH] = 1 },
        [WEFT_PAYER_OPERATOR] = { [WHOLE] = 0, [EACH] = 1 },
    },
};

WeftBudgets *
weft_budgets_new(const WeftBudgetLimits *limits)
{
    double processor = (double)limits->processor * PER_HUNDREDTH;
    const Rate rates[WEFT_BUDGET_KINDS] = {
        [WEFT_BUDGET_REQUESTS] = { limits->requests_per_second, limits->requests_burst },
        [WEFT_BUDGET_PROCESSOR] = { processor, processor * BURST_SECONDS },
        [WEFT_BUDGET_REFUSALS] = { REFUSALS, REFUSALS },
    };
    WeftBudgets *budgets = g_rc_box_new0(WeftBudgets);
    for (guint kind = 0; kind < WEFT_BUDGET_KINDS; kind++)
        for (guint payer = 0; payer < WEFT_PAYERS; payer++)
            for (guint depth = 0; depth < LEVELS; depth++) {
                double part = parts[kind][payer][depth];
                Level *level = &budgets->levels[kind][payer][depth];
                level->rate = (Rate){ part * rates[kind].per_second, MAX(part * rates[kind].burst, 1) };
                level->buckets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
                level->sweep_at = SWEEP_AT;
            }
    return budgets;
}

WeftBudgets *
weft_budgets_ref(WeftBudgets *budgets)
{
    return g_rc_box_acquire(budgets);
}

static void
budgets_clear(gpointer data)
{
    WeftBudgets *budgets = data;
    for (guint kind = 0; kind < WEFT_BUDGET_KINDS; kind++)
        for (guint payer = 0; payer < WEFT_PAYERS; payer++)
            for (guint depth = 0; depth < LEVELS; depth++)
                g_hash_table_unref(budgets->levels[kind][payer][depth].buckets);
}

void
weft_budgets_unref(WeftBudgets *budgets)
{
    if (budgets)
        g_rc_box_release_full(budgets, budgets_clear);
}

/* --- one bucket --- */

static double
left_at(const Bucket *bucket, const Rate *rate, gint64 now)
{
    double in = (double)MAX(now - bucket->at, 0) * rate->per_second / G_USEC_PER_SEC;
    return MIN(bucket->left + in, rate->burst);
}

static gint64
wait_for(const Level *level, const char *name, gint64 now)
{
    const Bucket *bucket = level->rate.per_second > 0 ? g_hash_table_lookup(level->buckets, name) : NULL;
    double missing = bucket ? 1 - left_at(bucket, &level->rate, now) : 0;
    return missing > 0 ? (gint64)(missing * G_USEC_PER_SEC / level->rate.per_second) + 1 : 0;
}

/* Those that are full again are as if they had never been. More than that is not kept of strangers either: all of them together
 * can fill only so many before these are full again. */
static void
sweep(Level *level, gint64 now)
{
    GHashTableIter iter;
    gpointer bucket;
    g_hash_table_iter_init(&iter, level->buckets);
    while (g_hash_table_iter_next(&iter, NULL, &bucket))
        if (left_at(bucket, &level->rate, now) >= level->rate.burst)
            g_hash_table_iter_remove(&iter);
    level->sweep_at = MAX(2 * g_hash_table_size(level->buckets), SWEEP_AT);
}

static void
charge(Level *level, const char *name, double cost, gint64 now)
{
    if (level->rate.per_second <= 0)
        return;
    Bucket *bucket = g_hash_table_lookup(level->buckets, name);
    if (!bucket) {
        if (g_hash_table_size(level->buckets) >= level->sweep_at)
            sweep(level, now);
        bucket = g_new(Bucket, 1);
        *bucket = (Bucket){ .left = level->rate.burst, .at = now };
        g_hash_table_insert(level->buckets, g_strdup(name), bucket);
    }
    bucket->left = MAX(left_at(bucket, &level->rate, now) - cost, -DEBT_SECONDS * level->rate.per_second);
    bucket->at = now;
}

/* --- both levels --- */

gint64
weft_budget_wait(WeftBudgets *budgets, WeftBudgetKind kind, const WeftPayer *payer, gint64 now)
{
    const Level *levels = budgets->levels[kind][payer->kind];
    return MAX(wait_for(&levels[WHOLE], payer->tenant, now), wait_for(&levels[EACH], payer->name, now));
}

void
weft_budget_charge(WeftBudgets *budgets, WeftBudgetKind kind, const WeftPayer *payer, gint64 cost, gint64 now)
{
    Level *levels = budgets->levels[kind][payer->kind];
    charge(&levels[WHOLE], payer->tenant, (double)cost, now);
    charge(&levels[EACH], payer->name, (double)cost, now);
}
