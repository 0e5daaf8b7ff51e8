/* How far from the best: small fleets in use, and requests of which the exact solver knows the fewest leaves and hosts. */
#include "exact.h"
#include "schedule-bench.h"

#define INSTANCES 500 /* of equal nodes, and as many of mixed ones */
#define PREFILLS 5    /* requests that come before the one that is judged */
#define PATIENCE 10000
#define LEAST_EQUAL 98.0
#define MOST_LEAVES 1U

enum { EQUAL_NODES, MIXED, KINDS };

typedef struct Score {
    guint n;         /* instances that are decided */
    guint leaves;    /* as few as can be */
    guint both;      /* hosts too */
    guint near;      /* leaves that are as near to each other as can be */
    guint missed;    /* refused, and there is a way */
    guint undecided; /* the solver's time was over */
    guint beyond;    /* placed, and the solver knows no way: it does not know splits that are rounded to pages */
    guint worst;     /* leaves more than there need be */
} Score;

static gboolean
is_mixed(const Case *it)
{
    return it->cluster->groups->len > 1;
}

/* Where the memory of a core is no whole number of pages, a split node's parts are rounded: the solver knows only exact ones.
 */
static gboolean
is_exact(const Case *it)
{
    for (guint g = 0; g < it->cluster->groups->len; g++) {
        const WeftGroup *group = it->cluster->groups->pdata[g];
        if (group->memory % (group->cores * (2ULL << 20)) != 0)
            return FALSE;
    }
    return TRUE;
}

static void
judge(Score *score, const ExactAsk *ask, const WeftPlacement *placement)
{
    guint leaves, hosts, hops;
    ExactVerdict verdict = exact_fewest_leaves(ask, &leaves);
    if (verdict == EXACT_NO) {
        score->beyond++;
        return;
    }
    if (verdict == EXACT_UNDECIDED || exact_nearest(ask, leaves, &hops) != EXACT_YES ||
        exact_fewest_hosts(ask, leaves, MAX(hops, placement->hops), &hosts) != EXACT_YES) {
        score->undecided++;
        return;
    }
    gboolean few = placement->leaves <= leaves, both = placement->leaves < leaves || (few && placement->hosts <= hosts);
    score->n++;
    score->leaves += few;
    score->both += both;
    score->near += few && placement->hops <= hops;
    score->worst = MAX(score->worst, placement->leaves - MIN(leaves, placement->leaves));
    if (g_getenv("WEFT_BENCH_TELL") && !both)
        printf("%u leaves, %u hosts, %u hops; best %u, %u, %u\n", placement->leaves, placement->hosts, placement->hops, leaves,
               hosts, hops);
}

/* Who is there already. */
static void
prefill(Books *books, WeftFleet *fleet, guint32 seed, CaseLimits limits)
{
    for (guint step = 0; step < seed % (PREFILLS + 1); step++) {
        WeftPlacement placement;
        g_autoptr(Case) it = case_request(seed, step, limits, books);
        if (!weft_place(fleet, &it->request, &placement))
            continue;
        books_take(books, fleet, placement.seats, placement.n, it->cluster->id);
        weft_fleet_take_seats(fleet, placement.seats, placement.n, it->cluster->id);
    }
}

static void
instance(Score *scores, guint32 seed, guint most)
{
    static const CaseLimits limits = { 24, 64 };
    g_autoptr(Books) books = case_fleet(seed, limits);
    g_autoptr(WeftFleet) fleet = books_fleet(books, NULL);
    prefill(books, fleet, seed, limits);
    g_autoptr(Case) it = case_request(seed, PREFILLS, limits, books);
    Score *score = &scores[is_mixed(it)];
    it->cluster->layout = WEFT_LAYOUT_COMPACT;
    it->cluster->pattern = WEFT_PATTERN_NONE; /* of which the path may depend */
    if (score->n >= most || !is_exact(it))
        return;
    WeftPlacement placement;
    ExactAsk ask = { .books = books, .request = &it->request, .patience = PATIENCE };
    if (weft_place(fleet, &it->request, &placement)) {
        ask.fabric = books_find(books, weft_fleet_name(fleet, placement.seats[0].host))->host->fabric;
        ask.sl = placement.seats[0].sl;
        guint unequal = score->n - score->both;
        judge(score, &ask, &placement);
        if (g_getenv("WEFT_BENCH_TELL") && score->n - score->both > unequal)
            printf("  seed %u\n", seed);
    } else {
        ExactVerdict verdict = exact_fits_anywhere(&ask);
        score->missed += verdict == EXACT_YES;
        if (g_getenv("WEFT_BENCH_TELL") && verdict == EXACT_YES)
            printf("refused: seed %u\n", seed);
        score->n += verdict == EXACT_YES;
        score->undecided += verdict == EXACT_UNDECIDED;
    }
}

static double
percent(guint part, guint all)
{
    return all ? 100.0 * part / all : 0;
}

static void
print(const char *what, const Score *score)
{
    printf("%-12s %4u instances: fewest leaves %6.2f %%, fewest hosts too %6.2f %%, nearest leaves %6.2f %%; at worst %u "
           "leaves more; "
           "%u refused that have a place; beside these %u not decided in %d s, and %u whose rounded memory the solver does not "
           "know\n",
           what, score->n, percent(score->leaves, score->n), percent(score->both, score->n), percent(score->near, score->n),
           score->worst, score->missed, score->undecided, PATIENCE / 1000, score->beyond);
}

gboolean
bench_quality(int argc, char **argv)
{
    guint most = argc > 0 ? (guint)g_ascii_strtoull(argv[0], NULL, 10) : INSTANCES;
    guint32 seed = argc > 1 ? (guint32)g_ascii_strtoull(argv[1], NULL, 10) : 1;
    Score scores[KINDS] = { 0 }, all = { 0 };
    while (scores[EQUAL_NODES].n < most || scores[MIXED].n < most)
        instance(scores, seed++, most);
    for (guint i = 0; i < KINDS; i++) {
        all = (Score){ all.n + scores[i].n,           all.leaves + scores[i].leaves,  all.both + scores[i].both,
                       all.near + scores[i].near,     all.missed + scores[i].missed,  all.undecided + scores[i].undecided,
                       all.beyond + scores[i].beyond, MAX(all.worst, scores[i].worst) };
        print(i == MIXED ? "mixed" : "equal nodes", &scores[i]);
    }
    print("together", &all);
    double equal = percent(all.both, all.n);
    gboolean reached = equal >= LEAST_EQUAL && all.worst <= MOST_LEAVES;
    printf("equal to the optimum: %.2f %%, to reach at least %.0f %%: %s\n", equal, LEAST_EQUAL,
           equal >= LEAST_EQUAL ? "reached" : "MISSED");
    printf("leaves above the optimum: at most %u, to reach at most %u: %s\n", all.worst, MOST_LEAVES,
           all.worst <= MOST_LEAVES ? "reached" : "MISSED");
    return reached;
}
