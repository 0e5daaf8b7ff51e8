/* Properties of placement over random fleets and requests. A walk is a fleet and a row of steps on it: clusters come, grow and
 * go, hosts close and are described anew. WEFT_PLACE_SEED=n walks that one only, WEFT_PLACE_WALKS=n so many. What fails is
 * walked again with fewer hosts, nodes and steps, and the smallest that still fails is told. */
#include "checks.h"

#include <stdlib.h>

#define STEPS 14
#define WALKS 1000
#define MOST_HOSTS 24
#define MOST_NODES 64
#define LEAST_MIXED 99 /* percent of mixed requests with a solution for which one is to be found */

/* How often the exact solver was needed, and what it said. */
typedef struct Tally {
    guint placed[2]; /* equal nodes, mixed ones */
    guint refused[2];
    guint missed[2]; /* refused, and there is a way */
    guint undecided;
} Tally;

typedef struct Walk {
    guint32 seed;
    CaseLimits limits;
    guint steps;
    guint64 skip; /* steps that are left out, by bits */
    Tally *tally;
    /* from here on its own */
    guint step;
    Books *books;
    WeftFleet *fleet;
    GPtrArray *gangs; /* Case, those that are placed */
    char *story;      /* of the last request */
} Walk;

enum { FOR_STEP = 100, FOR_ORDER, FOR_OTHER };

static guint
pick(GRand *dice, guint n)
{
    return (guint)g_rand_int_range(dice, 0, (gint32)n);
}

/* --- what must not change --- */

/* NULL: there is no place. */
static char *
place_text(WeftFleet *fleet, const Case *it)
{
    WeftPlacement placement;
    return weft_place(fleet, &it->request, &placement) ? checks_text(fleet, &placement) : NULL;
}

static char *
differs(const char *what, const char *first, const char *then)
{
    return g_strdup_printf("%s: first\n  %s  then\n  %s", what, first ? first : "no place\n", then ? then : "no place\n");
}

static char *
check_again(Walk *walk, const Case *it, const char *first)
{
    g_autofree char *again = place_text(walk->fleet, it);
    return g_strcmp0(first, again) == 0 ? NULL : differs("the same asked twice", first, again);
}

/* Takes what another request would get, gives a gang, closes hosts, and looks at a third one: then all of it is undone. */
static void
look_ahead(Walk *walk, guint depth)
{
    g_autoptr(GRand) dice = case_rand(walk->seed, FOR_OTHER, walk->step * 8 + depth);
    g_autoptr(Case) other = case_request(walk->seed, 1000 + walk->step * 8 + depth, walk->limits, walk->books);
    WeftPlacement placement;
    guint mark = weft_fleet_begin(walk->fleet);
    if (weft_place(walk->fleet, &other->request, &placement))
        weft_fleet_take_seats(walk->fleet, placement.seats, placement.n, other->cluster->id);
    const BookHost *host = walk->books->hosts->pdata[pick(dice, walk->books->hosts->len)];
    for (guint i = 0; depth == 0 && i < host->seats->len && pick(dice, 2); i++) { /* nobody gives twice */
        BookSeat given = g_array_index(host->seats, BookSeat, i);
        given.seat.host = weft_fleet_number(walk->fleet, host->host->name);
        weft_fleet_give_seats(walk->fleet, &given.seat, 1, given.cluster);
    }
    weft_fleet_set_open(walk->fleet, host->host->name, !host->open);
    if (depth < 2)
        look_ahead(walk, depth + 1);
    g_free(place_text(walk->fleet, other));
    weft_fleet_rollback(walk->fleet, mark);
}

static char *
check_after_others(Walk *walk, const Case *it, const char *first)
{
    look_ahead(walk, 0);
    g_autofree char *again = place_text(walk->fleet, it);
    return g_strcmp0(first, again) == 0 ? NULL : differs("asked again after what was undone", first, again);
}

/* A fleet that is made anew, its hosts in another order, knows no more and no less than the one that went all the way. */
static char *
check_anew(Walk *walk, const Case *it, const char *first)
{
    guint n = walk->books->hosts->len, order[MOST_HOSTS];
    g_autoptr(GRand) dice = case_rand(walk->seed, FOR_ORDER, walk->step);
    for (guint i = 0; i < n; i++) {
        guint k = pick(dice, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    g_autoptr(WeftFleet) fleet = books_fleet(walk->books, order);
    g_autofree char *again = place_text(fleet, it);
    return g_strcmp0(first, again) == 0 ? NULL : differs("asked of a fleet made anew", first, again);
}

/* The fleet's sums, beside those of the books. */
static char *
check_sums(const Walk *walk)
{
    guint64 all = 0, free = 0, told_free, told = weft_fleet_cores(walk->fleet, &told_free);
    for (guint i = 0; i < walk->books->hosts->len; i++) {
        BookRoom room;
        const BookHost *host = walk->books->hosts->pdata[i];
        g_free(books_count(walk->books, host, &room));
        for (guint n = 0; host->open && n < host->host->numa->len; n++)
            free += room.cores[n];
        for (guint c = 0; host->open && c < host->host->cores->len; c++)
            all += !g_array_index(host->host->cores, WeftCore, c).housekeeping;
    }
    if (told == all && told_free == free)
        return NULL;
    return g_strdup_printf("the fleet tells of %" G_GUINT64_FORMAT " cores, %" G_GUINT64_FORMAT
                           " of them free, instead of %" G_GUINT64_FORMAT " and %" G_GUINT64_FORMAT,
                           told, told_free, all, free);
}

/* --- a request --- */

static gboolean
is_mixed(const Case *it)
{
    guint n = 0;
    for (guint g = 0; g < it->cluster->groups->len; g++)
        n += it->counts[g] > 0;
    return n > 1;
}

/* By nodes or by seats: the fleet must not know the difference. */
static char *
take(Walk *walk, const Case *it, const WeftPlacement *placement, gboolean by_nodes)
{
    g_autofree WeftSeat *seats = g_memdup2(placement->seats, placement->n * sizeof *seats);
    if (!by_nodes) {
        weft_fleet_take_seats(walk->fleet, seats, placement->n, it->cluster->id);
        return NULL;
    }
    g_autoptr(GPtrArray) nodes = weft_placement_nodes(walk->fleet, &it->request, placement);
    for (guint i = 0; i < nodes->len; i++) {
        WeftNode *node = nodes->pdata[i];
        WeftSeat seat;
        g_free(node->cluster);
        node->cluster = g_strdup(it->cluster->id);
        if (!weft_fleet_seat_of(walk->fleet, node, &seat))
            return g_strdup_printf("node %u has no seat", i);
        WeftPlacement was = { .n = 1, .seats = &seats[i] }, is = { .n = 1, .seats = &seat };
        seat.group = seats[i].group;
        g_autofree char *first = checks_text(walk->fleet, &was), *then = checks_text(walk->fleet, &is);
        if (strcmp(first, then) != 0)
            return differs("a seat, and that of its node", first, then);
        weft_fleet_take(walk->fleet, node);
    }
    return NULL;
}

static char *
check_place(Walk *walk, const Case *it, const WeftPlacement *placement, gboolean grown)
{
    walk->tally->placed[is_mixed(it)]++;
    g_autofree WeftSeat *seats = g_memdup2(placement->seats, placement->n * sizeof *seats);
    WeftPlacement own = *placement; /* the fleet's own goes with the next one */
    own.seats = seats;
    char *wrong = checks_placement(walk->books, walk->fleet, it, &own);
    if (!wrong && !grown && !is_mixed(it))
        wrong = checks_layout(walk->books, walk->fleet, it, &own);
    if (wrong)
        return wrong;
    wrong = take(walk, it, &own, walk->step % 4 == 1);
    books_take(walk->books, walk->fleet, seats, own.n, it->cluster->id);
    wrong = wrong ? wrong : books_check(walk->books);
    return wrong || grown ? wrong : checks_locality(walk->books, it); /* nodes from before had less room */
}

/* A refusal of equal nodes is right when nobody finds a place; one of mixed ones nearly always. */
static char *
check_refusal(Walk *walk, const Case *it)
{
    gboolean mixed = is_mixed(it);
    ExactAsk ask = { .books = walk->books, .request = &it->request, .patience = CHECKS_PATIENCE };
    ExactVerdict verdict = exact_fits_anywhere(&ask);
    walk->tally->refused[mixed]++;
    walk->tally->missed[mixed] += verdict == EXACT_YES;
    walk->tally->undecided += verdict == EXACT_UNDECIDED;
    if (mixed && verdict == EXACT_YES)
        g_test_message("seed %u, step %u: a mixed request was refused, and there is a way", walk->seed, walk->step);
    return verdict == EXACT_YES && !mixed ? g_strdup("refused, and there is a way") : NULL;
}

/* What is refused for good would not fit into an empty fleet, all hosts of which are open. */
static char *
check_reason(Walk *walk, const Case *it)
{
    g_autoptr(GError) error = NULL;
    gboolean hope = weft_place_explain_refusal(walk->fleet, &it->request, &error);
    if (!error || !*error->message)
        return g_strdup("refused without a reason");
    if (hope || is_mixed(it))
        return NULL;
    g_autoptr(Books) empty = case_fleet(walk->seed, walk->limits);
    for (guint i = 0; i < empty->hosts->len; i++)
        ((BookHost *)empty->hosts->pdata[i])->open = TRUE;
    ExactAsk ask = { .books = empty, .request = &it->request, .patience = CHECKS_PATIENCE };
    return exact_fits_anywhere(&ask) == EXACT_YES ? g_strdup("refused for good, and an empty fleet would take it") : NULL;
}

static char *
request(Walk *walk, Case *it, gboolean grown)
{
    WeftPlacement placement;
    g_free(walk->story);
    walk->story = case_text(it);
    g_autofree char *first = place_text(walk->fleet, it);
    char *wrong = check_again(walk, it, first);
    wrong = wrong ? wrong : check_after_others(walk, it, first);
    if (!wrong && walk->step % 2)
        wrong = check_anew(walk, it, first);
    if (!wrong && weft_place(walk->fleet, &it->request, &placement))
        return check_place(walk, it, &placement, grown);
    wrong = wrong ? wrong : check_refusal(walk, it);
    return wrong ? wrong : check_reason(walk, it);
}

/* --- steps --- */

static char *
come(Walk *walk, GRand *dice)
{
    Case *it = case_request(walk->seed, walk->step, walk->limits, walk->books);
    g_ptr_array_add(walk->gangs, it);
    return request(walk, it, FALSE);
}

static char *
grow(Walk *walk, GRand *dice)
{
    if (walk->gangs->len == 0)
        return NULL;
    g_autoptr(Case) it = case_growth(walk->gangs->pdata[pick(dice, walk->gangs->len)], walk->seed, walk->step, walk->books);
    return it->request.fabric ? request(walk, it, TRUE) : NULL;
}

static char *
go(Walk *walk, GRand *dice)
{
    if (walk->gangs->len == 0)
        return NULL;
    guint which = pick(dice, walk->gangs->len);
    const char *cluster = ((const Case *)walk->gangs->pdata[which])->cluster->id;
    for (guint h = 0; h < walk->books->hosts->len; h++) {
        const BookHost *host = walk->books->hosts->pdata[h];
        for (guint i = 0; i < host->seats->len; i++) {
            BookSeat seat = g_array_index(host->seats, BookSeat, i);
            seat.seat.host = weft_fleet_number(walk->fleet, host->host->name);
            if (strcmp(seat.cluster, cluster) == 0)
                weft_fleet_give_seats(walk->fleet, &seat.seat, 1, cluster);
        }
    }
    books_give(walk->books, cluster);
    g_ptr_array_remove_index(walk->gangs, which);
    return NULL;
}

static char *
open_or_close(Walk *walk, GRand *dice)
{
    BookHost *host = walk->books->hosts->pdata[pick(dice, walk->books->hosts->len)];
    host->open = !host->open;
    weft_fleet_set_open(walk->fleet, host->host->name, host->open);
    return NULL;
}

/* As a drain does: what is taken stays so. */
static char *
describe(Walk *walk, GRand *dice)
{
    const BookHost *host = walk->books->hosts->pdata[pick(dice, walk->books->hosts->len)];
    books_put(walk->books, walk->fleet, host);
    weft_fleet_sort(walk->fleet);
    return NULL;
}

static char *
lose(Walk *walk, GRand *dice)
{
    BookHost *host = walk->books->hosts->pdata[pick(dice, walk->books->hosts->len)];
    g_array_set_size(host->seats, 0);
    weft_fleet_empty(walk->fleet, host->host->name);
    return NULL;
}

static char *(*const steps[])(Walk *, GRand *) = { come, come, come, come,          come,     come,
                                                   grow, go,   go,   open_or_close, describe, lose };

static void
walk_clear(Walk *walk)
{
    g_clear_pointer(&walk->gangs, g_ptr_array_unref);
    g_clear_pointer(&walk->fleet, weft_fleet_free);
    g_clear_pointer(&walk->books, books_free);
    g_clear_pointer(&walk->story, g_free);
}

/* What is wrong; NULL: nothing. The walk is left where it ended. */
static char *
walk_run(Walk *walk)
{
    char *wrong = NULL;
    walk->books = case_fleet(walk->seed, walk->limits);
    if (walk->books->hosts->len == 0)
        return NULL;
    walk->fleet = books_fleet(walk->books, NULL);
    walk->gangs = g_ptr_array_new_with_free_func((GDestroyNotify)case_free);
    for (walk->step = 0; !wrong && walk->step < walk->steps; walk->step++) {
        g_autoptr(GRand) dice = case_rand(walk->seed, FOR_STEP, walk->step);
        if (walk->skip >> walk->step & 1)
            continue;
        wrong = steps[walk->step == 0 ? 0 : pick(dice, G_N_ELEMENTS(steps))](walk, dice);
        wrong = wrong ? wrong : check_sums(walk);
    }
    return wrong;
}

/* --- the smallest that fails --- */

static gboolean
still_fails(const Walk *wanted)
{
    Tally tally = { 0 };
    Walk walk = *wanted;
    walk.tally = &tally;
    g_autofree char *wrong = walk_run(&walk);
    walk_clear(&walk);
    return wrong != NULL;
}

/* Takes over what is smaller, where that fails too. */
static void
try(Walk *small, Walk smaller)
{
    if (still_fails(&smaller))
        *small = smaller;
}

static Walk
shrink(const Walk *failed)
{
    Walk small = { .seed = failed->seed, .limits = failed->limits, .steps = failed->step };
    for (guint step = 0; step < small.steps; step++) {
        Walk smaller = small;
        smaller.skip |= 1ULL << step;
        try(&small, smaller);
    }
    for (guint host = 0; host < small.limits.hosts; host++) {
        Walk smaller = small;
        smaller.limits.absent |= 1ULL << host;
        if (smaller.limits.absent != (1ULL << small.limits.hosts) - 1)
            try(&small, smaller);
    }
    for (guint nodes = 1; nodes < small.limits.nodes; nodes++) {
        Walk smaller = small;
        smaller.limits.nodes = nodes;
        try(&small, smaller);
    }
    return small;
}

static void
tell(const Walk *failed)
{
    Tally tally = { 0 };
    Walk small = shrink(failed);
    small.tally = &tally;
    g_autofree char *wrong = walk_run(&small), *fleet = case_fleet_text(small.books);
    g_test_message(
        "the smallest of seed %u that fails: %u hosts, %u nodes of a group, steps 0 to %u without %" G_GINT64_MODIFIER
        "x\n%s\n%s\n%s",
        small.seed, small.books->hosts->len, small.limits.nodes, small.step - 1, small.skip, wrong ? wrong : "(not any more)",
        small.story ? small.story : "", fleet);
    walk_clear(&small);
}

static guint
number_of(const char *name, guint otherwise)
{
    const char *text = g_getenv(name);
    return text ? (guint)g_ascii_strtoull(text, NULL, 10) : otherwise;
}

static void
test_walks(void)
{
    Tally tally = { 0 };
    guint only = number_of("WEFT_PLACE_SEED", 0), first = only ? only : 1;
    guint last = only ? only : number_of("WEFT_PLACE_WALKS", WALKS);
    for (guint seed = first; seed <= last && !g_test_failed(); seed++) {
        Walk walk = { .seed = seed, .limits = { MOST_HOSTS, MOST_NODES }, .steps = STEPS, .tally = &tally };
        g_autofree char *wrong = walk_run(&walk);
        if (wrong) {
            tell(&walk);
            g_test_fail_printf("WEFT_PLACE_SEED=%u, step %u: %s", seed, walk.step - 1, wrong);
        }
        walk_clear(&walk);
    }
    guint possible = tally.placed[1] + tally.missed[1];
    double found = possible ? 100.0 * tally.placed[1] / possible : 100;
    g_test_message(
        "seeds %u to %u: of equal nodes %u requests placed, %u refused, %u of them wrongly; of mixed ones %u placed, %u "
        "refused, %u of them wrongly: found %.2f %%; %u not decided",
        first, last, tally.placed[0], tally.refused[0], tally.missed[0], tally.placed[1], tally.refused[1], tally.missed[1],
        found, tally.undecided);
    g_assert_cmpuint(tally.missed[0], ==, 0);
    if (!only)
        g_assert_cmpfloat(found, >=, LEAST_MIXED);
    g_assert_cmpuint(tally.undecided, <=, (tally.refused[0] + tally.refused[1]) / 20);
}

/* --- the solver itself --- */

/* n hosts on a leaf each two, 2 × 4 cores, 4 GiB of small pages in each NUMA node, 3 functions. */
static Books *
plain_books(guint n)
{
    static const CaseHost what = { .numa = 2, .cores = 4, .small = 2048 };
    Books *books = books_new();
    for (guint i = 0; i < n; i++) {
        g_autofree char *name = g_strdup_printf("n%u", i);
        WeftHost *host = case_host(name, "ib0", &what);
        host->leaf = g_strdup_printf("leaf%u", i / 2);
        case_add_hca(host, 0, 0, 3, i + 1);
        books_add(books, host);
    }
    return books;
}

typedef struct Known {
    guint count, cores;
    WeftLocality locality;
    WeftPath path;
    guint more, more_cores; /* a second group of required nodes with path bridge */
    ExactVerdict verdict;
    guint leaves, hosts;
} Known;

static void
check_known(const Known *known)
{
    g_autoptr(Books) books = plain_books(6);
    g_autoptr(WeftCluster) cluster = case_cluster("0");
    WeftGroup *group = case_add_group(cluster, known->count, known->cores, (guint64)known->cores << 30);
    group->locality = known->locality;
    group->path = known->path;
    group->rails = known->path != WEFT_PATH_BRIDGE;
    if (known->more)
        case_add_group(cluster, known->more, known->more_cores, (guint64)known->more_cores << 30)->locality =
            WEFT_LOCALITY_REQUIRED;
    const guint counts[] = { known->count, known->more };
    WeftPlaceRequest it = { .cluster = cluster, .counts = counts };
    ExactAsk ask = { books, &it, "ib0", 0, CHECKS_PATIENCE };
    guint leaves = 0, hosts = 0;
    g_assert_cmpint(exact_fits_anywhere(&ask), ==, known->verdict);
    g_assert_cmpint(exact_fewest_leaves(&ask, &leaves), ==, known->verdict);
    if (known->verdict == EXACT_YES)
        g_assert_cmpint(exact_fewest_hosts(&ask, leaves, G_MAXUINT, &hosts), ==, EXACT_YES);
    g_assert_cmpuint(leaves, ==, known->leaves);
    g_assert_cmpuint(hosts, ==, known->hosts);
}

/* Answers that a person can count. */
static void
test_solver(void)
{
    static const Known known[] = {
        { 48, 1, WEFT_LOCALITY_REQUIRED, WEFT_PATH_BRIDGE, 0, 0, EXACT_YES, 3, 6 },
        { 49, 1, WEFT_LOCALITY_REQUIRED, WEFT_PATH_BRIDGE, 0, 0, EXACT_NO, 0, 0 },
        { 12, 3, WEFT_LOCALITY_REQUIRED, WEFT_PATH_BRIDGE, 0, 0, EXACT_YES, 3, 6 },
        { 13, 3, WEFT_LOCALITY_REQUIRED, WEFT_PATH_BRIDGE, 0, 0, EXACT_NO, 0, 0 },
        { 12, 3, WEFT_LOCALITY_PREFERRED, WEFT_PATH_BRIDGE, 0, 0, EXACT_YES, 3, 6 },
        { 6, 5, WEFT_LOCALITY_PREFERRED, WEFT_PATH_BRIDGE, 0, 0, EXACT_YES, 3, 6 },
        { 1, 5, WEFT_LOCALITY_REQUIRED, WEFT_PATH_BRIDGE, 0, 0, EXACT_NO, 0, 0 },
        { 6, 8, WEFT_LOCALITY_NONE, WEFT_PATH_BRIDGE, 0, 0, EXACT_YES, 3, 6 },
        { 18, 1, WEFT_LOCALITY_REQUIRED, WEFT_PATH_SRIOV, 0, 0, EXACT_YES, 3, 6 },
        { 19, 1, WEFT_LOCALITY_PREFERRED, WEFT_PATH_SRIOV, 0, 0, EXACT_NO, 0, 0 },
        { 5, 1, WEFT_LOCALITY_NONE, WEFT_PATH_PASSTHROUGH, 0, 0, EXACT_YES, 3, 5 },
        { 6, 2, WEFT_LOCALITY_REQUIRED, WEFT_PATH_SRIOV, 2, 4, EXACT_YES, 2, 3 },
        { 6, 4, WEFT_LOCALITY_REQUIRED, WEFT_PATH_SRIOV, 6, 4, EXACT_YES, 3, 6 },
        { 6, 4, WEFT_LOCALITY_REQUIRED, WEFT_PATH_SRIOV, 7, 1, EXACT_YES, 3, 6 },
        { 6, 4, WEFT_LOCALITY_REQUIRED, WEFT_PATH_SRIOV, 7, 4, EXACT_NO, 0, 0 },
    };
    for (guint i = 0; i < G_N_ELEMENTS(known); i++)
        check_known(&known[i]);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/place/solver", test_solver);
    g_test_add_func("/place/walks", test_walks);
    return g_test_run();
}
