/* What a client may cost in a second: requests, and processor time of weftd's threads. Token buckets at two levels: each tenant
 * has one, and each principal in it has a smaller one; strangers have one together, and each a small one. What something costs
 * is known when it has been done: whoever is in debt then waits until it is paid.
 *
 * thread: main. Pure: the time is told. */
#pragma once

#include "payer.h"

#include <glib.h>

typedef enum {
    WEFT_BUDGET_REQUESTS,
    WEFT_BUDGET_PROCESSOR, /* microseconds */
    WEFT_BUDGET_REFUSALS,  /* of requests, for a debt: these cost too, and are given later then */
    WEFT_BUDGET_KINDS
} WeftBudgetKind;

typedef struct WeftBudgetLimits {
    guint requests_per_second; /* of one principal; of one tenant twice as many */
    guint requests_burst;
    guint processor; /* hundredths of one processor's time for one tenant; for one principal half of them */
} WeftBudgetLimits;

typedef struct WeftBudgets WeftBudgets; /* counted references */

WeftBudgets *weft_budgets_new(const WeftBudgetLimits *limits);
WeftBudgets *weft_budgets_ref(WeftBudgets *budgets);
/* NULL is fine. */
void weft_budgets_unref(WeftBudgets *budgets);

/* Microseconds until the payer has something left again; 0: it has. now: monotonic. */
gint64 weft_budget_wait(WeftBudgets *budgets, WeftBudgetKind kind, const WeftPayer *payer, gint64 now);
void weft_budget_charge(WeftBudgets *budgets, WeftBudgetKind kind, const WeftPayer *payer, gint64 cost, gint64 now);
