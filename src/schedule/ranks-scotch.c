#include "ranks-private.h"

#include <stdint.h>
#include <stdio.h>
/* It names their types without including them. */
#include <scotch.h>

#define NOWHERE G_MAXUINT
#define LOAD_MAX (1 << 29) /* Scotch sums up weight × distance in an int */
#define BINS_MAX 256       /* with distances of their own: that many take Scotch 40 ms */

/* No decimal points: Scotch would read them as the locale says. */
#define SPLIT                                                                                                                  \
    "m{vert=120,low=h{pass=10}f{bal=1e-2,move=120},"                                                                           \
    "asc=b{bnd=(d{pass=40}|)f{bal=1e-2,move=120},org=f{bal=1e-2,move=120}}}"
#define MAP_STRATEGY "r{job=t,map=t,poli=S,bal=1e-2,sep=" SPLIT "|" SPLIT "}"
#define MACHINE_STRATEGY                                                                                                       \
    "(m{vert=50,low=h{pass=10},asc=f{move=100,bal=1e-1}}f{move=100,bal=5e-2})(/((load0=load)|(load0=0))?x;)"

/* Scotch tells through these what it dislikes. Its own write to standard error, or end the process; these come before them, and
 * what failed is known by what is returned. */
void
SCOTCH_errorPrint(const char *const format, ...)
{
}

void
SCOTCH_errorPrintW(const char *const format, ...)
{
}

/* Groups are dealt with one after the other. */
typedef struct Deal {
    const WeftRankMap *map;
    guint group; /* whose ranks get hosts now; those of the groups before have them */
    guint *at;   /* host by rank */
    guint *room; /* by host: places of this group and those before */
    guint *own;  /* by host: places of this group */
} Deal;

/* Hosts, and the ranks that will be on them, to be cut into bins. */
typedef struct Part {
    const Deal *deal;
    guint *hosts; /* those of a bin stand together */
    guint n_hosts;
    const guint *ranks;
    guint n;
    guint bins;
    guint *first;      /* by bin: index of its first host; bins + 1 */
    guint16 *distance; /* between bins; NULL: all are as far from each other */
    guint *home;       /* by host: its bin */
    SCOTCH_Num *room;  /* by bin */
    guint *own;        /* by bin: places that are still free */
    SCOTCH_Num *bin;   /* by index of rank; -1: to be found */
} Part;

static void
part_clear(Part *part)
{
    g_free(part->first);
    g_free(part->distance);
    g_free(part->home);
    g_free(part->room);
    g_free(part->own);
    g_free(part->bin);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Part, part_clear)

static guint
distance(const Part *part, guint a, guint b)
{
    return part->distance ? part->distance[(gsize)a * part->bins + b] : a != b;
}

/* --- what Scotch is told --- */

/* A graph by rows. They must stay while Scotch uses it. */
typedef struct Rows {
    guint n;
    SCOTCH_Num *first; /* n + 1 */
    SCOTCH_Num *ends;
    SCOTCH_Num *loads;
} Rows;

static Rows
rows_new(guint n, gsize edges)
{
    return (Rows){
        .n = n, .first = g_new0(SCOTCH_Num, n + 1), .ends = g_new(SCOTCH_Num, edges + 1), .loads = g_new(SCOTCH_Num, edges + 1)
    };
}

static void
rows_clear(Rows *rows)
{
    g_free(rows->first);
    g_free(rows->ends);
    g_free(rows->loads);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Rows, rows_clear)

static void
rows_add(Rows *rows, SCOTCH_Num *next, guint end, guint64 load)
{
    rows->ends[*next] = (SCOTCH_Num)end;
    rows->loads[(*next)++] = (SCOTCH_Num)load;
}

static guint
farthest(const Part *part)
{
    guint most = 1;
    for (gsize i = 0; part->distance && i < (gsize)part->bins * part->bins; i++)
        most = MAX(most, part->distance[i]);
    return most;
}

/* The traffic among the ranks of the part. What goes elsewhere is as far from all its bins, or nearly so. */
static Rows
traffic_rows(const Part *part)
{
    const WeftRankMap *map = part->deal->map;
    g_autofree guint *local = g_new(guint, map->n);
    guint64 max = LOAD_MAX / farthest(part);
    gsize edges = 0;
    for (guint rank = 0; rank < map->n; rank++)
        local[rank] = NOWHERE;
    for (guint i = 0; i < part->n; i++) {
        local[part->ranks[i]] = i;
        edges += map->first[part->ranks[i] + 1] - map->first[part->ranks[i]];
    }
    Rows rows = rows_new(part->n, edges);
    SCOTCH_Num next = 0;
    for (guint i = 0; i < part->n; i++) {
        for (guint k = map->first[part->ranks[i]]; k < map->first[part->ranks[i] + 1]; k++) {
            guint end = local[map->edges[k].rank];
            guint64 weight = map->edges[k].weight;
            if (end != NOWHERE)
                rows_add(&rows, &next, end, map->weight > max ? MAX(weight * max / map->weight, 1) : weight);
        }
        rows.first[i + 1] = next;
    }
    return rows;
}

/* The bins, each joined to each by an edge as long as they are far. */
static Rows
machine_rows(const Part *part)
{
    Rows rows = rows_new(part->bins, (gsize)part->bins * part->bins);
    SCOTCH_Num next = 0;
    for (guint a = 0; a < part->bins; a++) {
        for (guint b = 0; b < part->bins; b++)
            if (a != b)
                rows_add(&rows, &next, b, distance(part, a, b));
        rows.first[a + 1] = next;
    }
    return rows;
}

/* A graph in a context of its own: no threads, and random numbers that are always the same. */
typedef struct Bound {
    SCOTCH_Context context;
    SCOTCH_Graph graph, bound;
    SCOTCH_Strat strategy;
} Bound;

static gboolean
bind_graph(Bound *bound, const Rows *rows, const SCOTCH_Num *weights)
{
    SCOTCH_graphInit(&bound->graph);
    SCOTCH_stratInit(&bound->strategy);
    if (SCOTCH_contextInit(&bound->context) != 0 || SCOTCH_contextRandomClone(&bound->context) != 0 ||
        SCOTCH_contextThreadSpawn(&bound->context, 1, NULL) != 0)
        return FALSE;
    SCOTCH_contextRandomSeed(&bound->context, 1);
    return SCOTCH_graphBuild(&bound->graph, 0, (SCOTCH_Num)rows->n, rows->first, NULL, weights, NULL, rows->first[rows->n],
                             rows->ends, rows->loads) == 0 &&
           SCOTCH_contextBindGraph(&bound->context, &bound->graph, &bound->bound) == 0;
}

static void
unbind_graph(Bound *bound)
{
    SCOTCH_stratExit(&bound->strategy);
    SCOTCH_graphExit(&bound->graph);
    SCOTCH_contextExit(&bound->context);
}

static gboolean
build_machine(const Part *part, SCOTCH_Arch *arch)
{
    if (!part->distance)
        return SCOTCH_archCmpltw(arch, (SCOTCH_Num)part->bins, part->room) == 0;
    g_auto(Rows) rows = machine_rows(part);
    Bound bound;
    gboolean built = bind_graph(&bound, &rows, part->room) && SCOTCH_stratGraphBipart(&bound.strategy, MACHINE_STRATEGY) == 0 &&
                     SCOTCH_archBuild(arch, &bound.bound, 0, NULL, &bound.strategy) == 0;
    unbind_graph(&bound);
    return built;
}

/* Scotch has globals of its own: one at a time. */
static GMutex scotch;

static gboolean
ask_scotch(Part *part, const Rows *rows)
{
    SCOTCH_Arch arch;
    Bound bound;
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&scotch);
    SCOTCH_archInit(&arch);
    gboolean mapped = bind_graph(&bound, rows, NULL) && build_machine(part, &arch) &&
                      SCOTCH_stratGraphMap(&bound.strategy, MAP_STRATEGY) == 0 &&
                      SCOTCH_graphMapFixed(&bound.bound, &arch, &bound.strategy, part->bin) == 0;
    unbind_graph(&bound);
    SCOTCH_archExit(&arch);
    return mapped;
}

/* --- what it answers --- */

/* What the traffic of a rank would cost in a bin, as far as it is known where the others are. */
static guint64
cost_in(const Part *part, const Rows *rows, guint i, guint bin)
{
    guint64 sum = 0;
    for (SCOTCH_Num k = rows->first[i]; k < rows->first[i + 1]; k++)
        if (part->bin[rows->ends[k]] >= 0)
            sum += (guint64)rows->loads[k] * distance(part, bin, (guint)part->bin[rows->ends[k]]);
    return sum;
}

static guint
cheapest_bin(const Part *part, const Rows *rows, guint i)
{
    guint best = 0;
    guint64 least = G_MAXUINT64;
    for (guint bin = 0; bin < part->bins; bin++) {
        guint64 cost = part->own[bin] ? cost_in(part, rows, i, bin) : G_MAXUINT64;
        if (cost < least) {
            best = bin;
            least = cost;
        }
    }
    return best;
}

/* Where a rank of a group before is; -1: it is of this group. */
static SCOTCH_Num
known_bin(const Part *part, guint i)
{
    guint host = part->deal->at[part->ranks[i]];
    return host == NOWHERE ? -1 : (SCOTCH_Num)part->home[host];
}

/* Scotch balances about, and even moves those that it was told to leave, or leaves some out: what is settled stays, and those
 * that are too many in a bin go to where there is room. */
static void
settle(Part *part, const Rows *rows)
{
    for (guint i = 0; i < part->n; i++) {
        SCOTCH_Num known = known_bin(part, i), bin = part->bin[i];
        if (known < 0 && bin >= 0 && bin < (SCOTCH_Num)part->bins && part->own[bin])
            part->own[bin]--;
        else
            part->bin[i] = known;
    }
    for (guint i = 0; i < part->n; i++) {
        if (part->bin[i] >= 0)
            continue;
        part->bin[i] = (SCOTCH_Num)cheapest_bin(part, rows, i);
        part->own[part->bin[i]]--;
    }
}

/* Does it make a difference which rank is in which bin? */
static gboolean
is_worth(const Part *part, const Rows *rows)
{
    gboolean shared = FALSE;
    for (guint bin = 0; bin < part->bins; bin++)
        shared |= part->room[bin] > 1;
    return (shared || part->distance) && rows->first[part->n] > 0;
}

/* --- part by part --- */

/* Puts hosts into an order in which each is the nearest to any of those before it, and returns the longest step of it: parts
 * that are that far from all others begin where such a step is. steps: the length of each. */
static guint
chain(const WeftRankMap *map, guint *hosts, guint n, guint *steps)
{
    guint longest = 0;
    for (guint i = 0; i < n; i++)
        steps[i] = NOWHERE;
    for (guint i = 1; i < n; i++) {
        const guint16 *row = weft_rank_distances(map, hosts[i - 1]);
        guint nearest = i;
        for (guint k = i; k < n; k++) {
            steps[k] = MIN(steps[k], row[hosts[k]]);
            if (steps[k] < steps[nearest])
                nearest = k;
        }
        guint host = hosts[i], step = steps[i];
        hosts[i] = hosts[nearest];
        hosts[nearest] = host;
        steps[i] = steps[nearest];
        steps[nearest] = step;
        longest = MAX(longest, steps[i]);
    }
    return longest;
}

/* NULL: all are as far from each other, or there are too many. */
static guint16 *
bin_distances(const Part *part)
{
    if (part->bins > BINS_MAX)
        return NULL;
    g_autofree guint16 *table = g_new0(guint16, (gsize)part->bins * part->bins);
    gboolean same = TRUE;
    for (guint a = 0; a < part->bins; a++) {
        const guint16 *row = weft_rank_distances(part->deal->map, part->hosts[part->first[a]]);
        for (guint b = 0; b < part->bins; b++) {
            table[(gsize)a * part->bins + b] = row[part->hosts[part->first[b]]];
            same &= a == b || table[(gsize)a * part->bins + b] == table[1];
        }
    }
    return same ? NULL : g_steal_pointer(&table);
}

/* Cuts the hosts where they are farthest from each other: pods, then leaves, then hosts. */
static void
cut(Part *part)
{
    const Deal *deal = part->deal;
    g_autofree guint *steps = g_new(guint, part->n_hosts);
    guint longest = chain(deal->map, part->hosts, part->n_hosts, steps);
    part->first = g_new0(guint, part->n_hosts + 1);
    part->home = g_new(guint, deal->map->hosts);
    part->room = g_new0(SCOTCH_Num, part->n_hosts);
    part->own = g_new0(guint, part->n_hosts);
    part->bin = g_new(SCOTCH_Num, part->n);
    for (guint i = 0; i < part->n_hosts; i++) {
        guint host = part->hosts[i];
        if (i == 0 || steps[i] == longest)
            part->first[part->bins++] = i;
        part->home[host] = part->bins - 1;
        part->room[part->bins - 1] += (SCOTCH_Num)deal->room[host];
        part->own[part->bins - 1] += deal->own[host];
    }
    part->first[part->bins] = part->n_hosts;
    part->distance = bin_distances(part);
    for (guint i = 0; i < part->n; i++)
        part->bin[i] = known_bin(part, i);
}

static gboolean
deal_out(const Deal *deal, guint *hosts, guint n_hosts, const guint *ranks, guint n)
{
    for (guint i = 0; n_hosts == 1 && i < n; i++)
        deal->at[ranks[i]] = hosts[0];
    if (n_hosts == 1)
        return TRUE;
    g_auto(Part) part = { .deal = deal, .hosts = hosts, .n_hosts = n_hosts, .ranks = ranks, .n = n };
    cut(&part);
    g_auto(Rows) rows = traffic_rows(&part);
    if (is_worth(&part, &rows) && !ask_scotch(&part, &rows))
        return FALSE;
    settle(&part, &rows);

    g_autofree guint *inside = g_new(guint, n);
    gboolean dealt = TRUE;
    for (guint bin = 0; dealt && bin < part.bins; bin++) {
        guint m = 0;
        for (guint i = 0; i < n; i++)
            if (part.bin[i] == (SCOTCH_Num)bin)
                inside[m++] = ranks[i];
        dealt = deal_out(deal, hosts + part.first[bin], part.first[bin + 1] - part.first[bin], inside, m);
    }
    return dealt;
}

static gboolean
deal_group(Deal *deal)
{
    const WeftRankMap *map = deal->map;
    g_autofree guint *hosts = g_new(guint, map->hosts), *ranks = g_new(guint, map->n);
    guint n = 0, n_hosts = 0;
    for (guint host = 0; host < map->hosts; host++)
        deal->own[host] = 0;
    for (guint i = 0; i < map->n; i++) {
        deal->own[map->host[i]] += map->group[i] == deal->group;
        if (map->group[i] <= deal->group)
            ranks[n++] = i;
    }
    for (guint host = 0; host < map->hosts; host++) {
        deal->room[host] += deal->own[host];
        if (deal->room[host])
            hosts[n_hosts++] = host;
    }
    return deal_out(deal, hosts, n_hosts, ranks, n);
}

gboolean
weft_ranks_scotch(const WeftRankMap *map, guint *at)
{
    g_autofree guint *room = g_new0(guint, map->hosts), *own = g_new(guint, map->hosts);
    Deal deal = { .map = map, .at = at, .room = room, .own = own };
    for (guint rank = 0; rank < map->n; rank++)
        at[rank] = NOWHERE;
    for (; deal.group < map->groups; deal.group++)
        if (!deal_group(&deal))
            return FALSE;
    return TRUE;
}
