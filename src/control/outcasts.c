#include "outcasts.h"

#include "bounds.h"

#define WORD 64 /* bits */

/* One node's share in it. */
typedef struct Blame {
    guint host;  /* its index */
    guint apart; /* hosts that its own does not reach */
    guint ways;  /* that failed, from it or to it */
} Blame;

typedef struct Tangle {
    const WeftMeeting *meetings;
    guint n;
    Blame *blames;
    guint hosts;
    gsize words;    /* of a host's set */
    guint64 *apart; /* by host, the set of hosts that it does not reach */
} Tangle;

/* Hosts are compared by their indexes from now on. */
static void
index_hosts(Tangle *tangle)
{
    g_autoptr(GHashTable) indexes = g_hash_table_new(g_str_hash, g_str_equal); /* + 1 */
    for (guint i = 0; i < tangle->n; i++) {
        gpointer host = (gpointer)tangle->meetings[i].host;
        guint index = GPOINTER_TO_UINT(g_hash_table_lookup(indexes, host));
        if (!index) {
            index = ++tangle->hosts;
            g_hash_table_insert(indexes, host, GUINT_TO_POINTER(index));
        }
        tangle->blames[i].host = index - 1;
    }
    tangle->words = (tangle->hosts + WORD - 1) / WORD;
    tangle->apart = g_new0(guint64, tangle->hosts * tangle->words);
}

/* Most pairs are named by both: the second time costs one look at the host's own set. */
static void
set_apart(const Tangle *tangle, guint host, guint other)
{
    guint64 *own = &tangle->apart[host * tangle->words + other / WORD], bit = 1ULL << other % WORD;
    if (host == other || *own & bit)
        return;
    *own |= bit;
    tangle->apart[other * tangle->words + host / WORD] |= 1ULL << host % WORD;
}

static guint
count_apart(const Tangle *tangle, guint host)
{
    guint n = 0;
    for (gsize i = 0; i < tangle->words; i++)
        n += (guint)__builtin_popcountll(tangle->apart[host * tangle->words + i]);
    return n;
}

static void
count_ways_from(const Tangle *tangle, guint from, const guint *by_rank)
{
    const GByteArray *unreached = tangle->meetings[from].unreached;
    Blame *own = &tangle->blames[from];
    guint before = own->ways, n = unreached ? MIN(unreached->len, WEFT_NODES_MAX) : 0;
    for (guint rank = 0; rank < n; rank++) {
        guint ways = unreached->data[rank];
        if (!ways || !by_rank[rank])
            continue;
        Blame *other = &tangle->blames[by_rank[rank] - 1];
        own->ways += ways;
        other->ways += ways;
        set_apart(tangle, own->host, other->host);
    }
    if (own->ways == before)
        own->ways++;
}

static void
count_ways(const Tangle *tangle)
{
    guint by_rank[WEFT_NODES_MAX] = { 0 }; /* its index + 1 */
    for (guint i = 0; i < tangle->n; i++)
        if (tangle->meetings[i].rank < WEFT_NODES_MAX)
            by_rank[tangle->meetings[i].rank] = i + 1;
    for (guint i = 0; i < tangle->n; i++)
        if (tangle->meetings[i].failed)
            count_ways_from(tangle, i, by_rank);
    for (guint i = 0; i < tangle->n; i++)
        tangle->blames[i].apart = count_apart(tangle, tangle->blames[i].host);
}

/* As strcmp(): what weighs more first. */
static int
compare_blame(const Tangle *tangle, guint a, guint b)
{
    const WeftMeeting *x = &tangle->meetings[a], *y = &tangle->meetings[b];
    const guint pairs[][2] = {
        { tangle->blames[a].apart, tangle->blames[b].apart },
        { !x->was_ready, !y->was_ready },
        { tangle->blames[a].ways, tangle->blames[b].ways },
        { y->moved, x->moved },
        { x->rank, y->rank },
    };
    for (guint i = 0; i < G_N_ELEMENTS(pairs); i++)
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] < pairs[i][1] ? -1 : 1;
    return 0;
}

/* Is its host the only one that fails with so many others? */
static gboolean
is_single(const Tangle *tangle, guint worst)
{
    for (guint i = 0; i < tangle->n; i++)
        if (tangle->blames[i].apart >= tangle->blames[worst].apart && tangle->blames[i].host != tangle->blames[worst].host)
            return FALSE;
    return tangle->blames[worst].apart > 0;
}

static guint
mark_outcasts(const Tangle *tangle, guint worst, gboolean *ret_outcasts)
{
    gboolean all = is_single(tangle, worst);
    guint n = 0;
    for (guint i = 0; i < tangle->n; i++) {
        gboolean beside = all && tangle->blames[i].host == tangle->blames[worst].host;
        ret_outcasts[i] = tangle->blames[i].ways && !tangle->meetings[i].was_ready && (i == worst || beside);
        n += ret_outcasts[i];
    }
    return n;
}

guint
weft_plan_outcasts(const WeftMeeting *meetings, guint n, gboolean *ret_outcasts)
{
    g_autofree Blame *blames = g_new0(Blame, n + 1);
    Tangle tangle = { .meetings = meetings, .n = n, .blames = blames };
    guint worst = 0;
    index_hosts(&tangle);
    g_autofree guint64 *apart = tangle.apart;
    count_ways(&tangle);
    for (guint i = 1; i < n; i++)
        if (blames[i].ways && (!blames[worst].ways || compare_blame(&tangle, i, worst) > 0))
            worst = i;
    return n ? mark_outcasts(&tangle, worst, ret_outcasts) : 0;
}
