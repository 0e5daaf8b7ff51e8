/* Who may have how much of what is shared, and who has to wait for how long. */
#include "budgets.h"
#include "errors.h"
#include "shares.h"

#define TOTAL 16
#define NOW (1000 * (gint64)G_USEC_PER_SEC)

static const WeftPayer alice = { WEFT_PAYER_TENANT, "acme", "acme/alice" };
static const WeftPayer bob = { WEFT_PAYER_TENANT, "acme", "acme/bob" };
static const WeftPayer carol = { WEFT_PAYER_TENANT, "acme", "acme/carol" };
static const WeftPayer dave = { WEFT_PAYER_TENANT, "acme", "acme/dave" };
static const WeftPayer eve = { WEFT_PAYER_TENANT, "umbrella", "umbrella/eve" };
static const WeftPayer mallory = { WEFT_PAYER_TENANT, "initech", "initech/mallory" };
static const WeftPayer ada = { WEFT_PAYER_OPERATOR, "", "/ada" };
static const WeftPayer grace = { WEFT_PAYER_OPERATOR, "", "/grace" };

static WeftShares *
shares_of(guint total)
{
    guint totals[WEFT_SHARE_KINDS];
    for (guint i = 0; i < WEFT_SHARE_KINDS; i++)
        totals[i] = total;
    return weft_shares_new(totals);
}

/* As many event streams as the payer gets; they are added to held. */
static guint
take_all(WeftShares *shares, const WeftPayer *payer, GPtrArray *held)
{
    guint n = 0;
    WeftShare *share;
    while ((share = weft_share_take(shares, WEFT_SHARE_STREAMS, payer, NULL))) {
        g_ptr_array_add(held, share);
        n++;
    }
    return n;
}

static void
assert_refused(WeftShares *shares, const WeftPayer *payer, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_share_take(shares, WEFT_SHARE_STREAMS, payer, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_BUSY);
    g_assert_cmpstr(error->message, ==, message);
}

static GPtrArray *
shares_held(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify)weft_share_free);
}

static void
test_tenant(void)
{
    WeftShares *shares = shares_of(TOTAL);
    g_autoptr(GPtrArray) held = shares_held();
    g_assert_cmpuint(take_all(shares, &alice, held), ==, 4);
    assert_refused(shares, &alice, "you have 4 event streams already; end one, or try again later");
    g_assert_cmpuint(take_all(shares, &bob, held), ==, 3);
    assert_refused(shares, &bob,
                   "your tenant has 7 event streams already, and as many are left to others; end one, or try again later");
    g_assert_cmpuint(take_all(shares, &carol, held) + take_all(shares, &dave, held), ==, 0);
    g_assert_cmpuint(take_all(shares, &eve, held), ==, 4);
    g_assert_cmpuint(take_all(shares, &mallory, held), ==, 2);
    weft_shares_unref(shares);
}

static void
test_reserve(void)
{
    WeftShares *shares = shares_of(TOTAL);
    g_autoptr(GPtrArray) held = shares_held();
    guint taken = 0;
    for (guint i = 0; i < 100; i++) {
        g_autofree char *tenant = g_strdup_printf("t%u", i), *name = g_strdup_printf("t%u/x", i);
        taken += take_all(shares, &(WeftPayer){ WEFT_PAYER_TENANT, tenant, name }, held);
    }
    g_assert_cmpuint(taken, ==, 14);
    assert_refused(shares, &eve, "there are 14 event streams already; try again later");
    g_assert_cmpuint(take_all(shares, &ada, held), ==, 2);
    assert_refused(shares, &grace, "there are 16 event streams already; try again later");
    g_ptr_array_set_size(held, 0);
    g_assert_cmpuint(take_all(shares, &ada, held), ==, 4);
    weft_shares_unref(shares);
}

/* What ended is there for others; a kind is not short of what others are. */
static void
test_return(void)
{
    WeftShares *shares = shares_of(TOTAL);
    g_autoptr(GPtrArray) held = shares_held();
    take_all(shares, &alice, held);
    g_autoptr(WeftShare) session = weft_share_take(shares, WEFT_SHARE_SESSIONS, &alice, NULL);
    g_assert_nonnull(session);
    g_ptr_array_remove_index(held, 0);
    g_assert_cmpuint(take_all(shares, &alice, held), ==, 1);
    weft_shares_unref(shares); /* those that are held outlive it */
}

static void
test_small(void)
{
    WeftShares *shares = shares_of(1);
    g_autoptr(WeftShare) only = weft_share_take(shares, WEFT_SHARE_STREAMS, &alice, NULL);
    g_assert_nonnull(only);
    assert_refused(shares, &eve, "there are 1 event streams already; try again later");
    g_clear_pointer(&only, weft_share_free);
    only = weft_share_take(shares, WEFT_SHARE_STREAMS, &eve, NULL);
    g_assert_nonnull(only);
    weft_shares_unref(shares);
}

/* --- budgets --- */

static guint
requests(WeftBudgets *budgets, const WeftPayer *payer, gint64 now)
{
    guint n = 0;
    for (; weft_budget_wait(budgets, WEFT_BUDGET_REQUESTS, payer, now) == 0; n++)
        weft_budget_charge(budgets, WEFT_BUDGET_REQUESTS, payer, 1, now);
    return n;
}

static void
test_requests(void)
{
    WeftBudgets *budgets = weft_budgets_new(&(WeftBudgetLimits){ 4, 8, 20 });
    g_assert_cmpuint(requests(budgets, &alice, NOW), ==, 8);
    g_assert_cmpint(weft_budget_wait(budgets, WEFT_BUDGET_REQUESTS, &alice, NOW), ==, G_USEC_PER_SEC / 4 + 1);
    g_assert_cmpuint(requests(budgets, &alice, NOW + G_USEC_PER_SEC / 2), ==, 2);
    g_assert_cmpuint(requests(budgets, &bob, NOW + G_USEC_PER_SEC / 2), ==, 8);
    g_assert_cmpuint(requests(budgets, &carol, NOW + G_USEC_PER_SEC / 2), ==, 2); /* what the tenant has left */
    g_assert_cmpuint(requests(budgets, &dave, NOW + G_USEC_PER_SEC / 2), ==, 0);
    g_assert_cmpuint(requests(budgets, &eve, NOW + G_USEC_PER_SEC / 2), ==, 8);
    /* No more than the burst is saved up. */
    g_assert_cmpuint(requests(budgets, &alice, NOW + G_TIME_SPAN_HOUR), ==, 8);
    weft_budgets_unref(budgets);
}

/* The cost is known afterwards: a debt, which is paid before the next one. */
static void
test_processor(void)
{
    WeftBudgets *budgets = weft_budgets_new(&(WeftBudgetLimits){ 100, 100, 20 });
    WeftBudgetKind kind = WEFT_BUDGET_PROCESSOR;
    weft_budget_charge(budgets, kind, &alice, 50 * 1000, NOW);
    g_assert_cmpint(weft_budget_wait(budgets, kind, &alice, NOW), ==, 0);
    weft_budget_charge(budgets, kind, &alice, 100 * 1000, NOW);
    /* 50 ms are owed, and flow in at 100 ms a second; the tenant has some left for others. */
    gint64 wait = weft_budget_wait(budgets, kind, &alice, NOW);
    g_assert_cmpint(wait, >=, G_USEC_PER_SEC / 2);
    g_assert_cmpint(wait, <=, G_USEC_PER_SEC / 2 + 100);
    g_assert_cmpint(weft_budget_wait(budgets, kind, &alice, NOW + wait), ==, 0);
    g_assert_cmpint(weft_budget_wait(budgets, kind, &bob, NOW), ==, 0);
    weft_budget_charge(budgets, kind, &bob, 50 * 1000, NOW);
    g_assert_cmpint(weft_budget_wait(budgets, kind, &bob, NOW), >, 0);
    g_assert_cmpint(weft_budget_wait(budgets, kind, &eve, NOW), ==, 0);
    /* A debt has an end. */
    weft_budget_charge(budgets, kind, &alice, G_TIME_SPAN_HOUR, NOW);
    g_assert_cmpint(weft_budget_wait(budgets, kind, &alice, NOW + 11 * G_USEC_PER_SEC), ==, 0);
    /* Operators are not refused. */
    weft_budget_charge(budgets, kind, &ada, G_TIME_SPAN_HOUR, NOW);
    g_assert_cmpint(weft_budget_wait(budgets, kind, &ada, NOW), ==, 0);
    weft_budgets_unref(budgets);
}

/* However many addresses somebody has: all strangers together have one rate, and cannot make weftd forget what others owe. */
static void
test_strangers(void)
{
    WeftBudgets *budgets = weft_budgets_new(&(WeftBudgetLimits){ 100, 200, 20 });
    weft_budget_charge(budgets, WEFT_BUDGET_PROCESSOR, &alice, G_USEC_PER_SEC, NOW);
    g_assert_cmpuint(requests(budgets, &(WeftPayer){ WEFT_PAYER_STRANGER, "", "uid 7" }, NOW), ==, 50);
    guint got = 0;
    for (guint i = 0; i < 100000; i++) {
        g_autofree char *name = g_strdup_printf("2001:db8:%x:%x::", i >> 16, i & 0xffff);
        WeftPayer stranger = { WEFT_PAYER_STRANGER, "", name };
        if (weft_budget_wait(budgets, WEFT_BUDGET_REQUESTS, &stranger, NOW) > 0)
            continue;
        weft_budget_charge(budgets, WEFT_BUDGET_REQUESTS, &stranger, 1, NOW);
        weft_budget_charge(budgets, WEFT_BUDGET_PROCESSOR, &stranger, 10, NOW);
        got++;
    }
    g_assert_cmpuint(got, ==, 150);
    g_assert_cmpint(weft_budget_wait(budgets, WEFT_BUDGET_PROCESSOR, &alice, NOW), >, 0);
    weft_budgets_unref(budgets);
}

/* Buckets that are full again are dropped, those with a debt never. */
static void
test_many(void)
{
    WeftBudgets *budgets = weft_budgets_new(&(WeftBudgetLimits){ 1000, 1000, 20 });
    weft_budget_charge(budgets, WEFT_BUDGET_REQUESTS, &ada, 5000, NOW);
    for (guint i = 0; i < 5000; i++) {
        g_autofree char *name = g_strdup_printf("/operator%u", i);
        weft_budget_charge(budgets, WEFT_BUDGET_REQUESTS, &(WeftPayer){ WEFT_PAYER_OPERATOR, "", name }, 1, NOW + i * 100);
    }
    g_assert_cmpint(weft_budget_wait(budgets, WEFT_BUDGET_REQUESTS, &ada, NOW + 500 * 1000), >, 0);
    weft_budgets_unref(budgets);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/shares/tenant", test_tenant);
    g_test_add_func("/shares/reserve", test_reserve);
    g_test_add_func("/shares/return", test_return);
    g_test_add_func("/shares/small", test_small);
    g_test_add_func("/budgets/requests", test_requests);
    g_test_add_func("/budgets/processor", test_processor);
    g_test_add_func("/budgets/strangers", test_strangers);
    g_test_add_func("/budgets/many", test_many);
    return g_test_run();
}
