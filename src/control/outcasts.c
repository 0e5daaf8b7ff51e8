#include "outcasts.h"

/* One node's share in it. */
typedef struct Blame {
    guint apart; /* hosts that its own does not reach */
    guint ways;  /* that failed, from it or to it */
} Blame;

typedef struct Tangle {
    const WeftMeeting *meetings;
    guint n;
    Blame *blames;
    GHashTable *apart; /* host to the set of hosts that it does not reach */
} Tangle;

static void
set_apart(Tangle *tangle, const char *host, const char *other)
{
    GHashTable *others = g_hash_table_lookup(tangle->apart, host);
    if (!others) {
        others = g_hash_table_new(g_str_hash, g_str_equal);
        g_hash_table_insert(tangle->apart, (char *)host, others);
    }
    g_hash_table_add(others, (char *)other);
}

static void
count_way(Tangle *tangle, guint from, guint to)
{
    const char *host = tangle->meetings[from].host, *other = tangle->meetings[to].host;
    tangle->blames[from].ways++;
    tangle->blames[to].ways++;
    if (g_str_equal(host, other))
        return;
    set_apart(tangle, host, other);
    set_apart(tangle, other, host);
}

static void
count_ways(Tangle *tangle)
{
    g_autoptr(GHashTable) by_rank = g_hash_table_new(NULL, NULL); /* to its index + 1 */
    for (guint i = 0; i < tangle->n; i++)
        g_hash_table_insert(by_rank, GUINT_TO_POINTER(tangle->meetings[i].rank), GUINT_TO_POINTER(i + 1));
    for (guint i = 0; i < tangle->n; i++) {
        const WeftMeeting *meeting = &tangle->meetings[i];
        guint before = tangle->blames[i].ways;
        for (guint k = 0; meeting->failed && k < meeting->unreached->len; k++) {
            guint rank = g_array_index(meeting->unreached, guint, k);
            guint to = GPOINTER_TO_UINT(g_hash_table_lookup(by_rank, GUINT_TO_POINTER(rank)));
            if (to)
                count_way(tangle, i, to - 1);
        }
        if (meeting->failed && tangle->blames[i].ways == before)
            tangle->blames[i].ways++;
    }
    for (guint i = 0; i < tangle->n; i++) {
        GHashTable *others = g_hash_table_lookup(tangle->apart, tangle->meetings[i].host);
        tangle->blames[i].apart = others ? g_hash_table_size(others) : 0;
    }
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
        if (tangle->blames[i].apart >= tangle->blames[worst].apart &&
            !g_str_equal(tangle->meetings[i].host, tangle->meetings[worst].host))
            return FALSE;
    return tangle->blames[worst].apart > 0;
}

static guint
mark_outcasts(const Tangle *tangle, guint worst, gboolean *ret_outcasts)
{
    gboolean all = is_single(tangle, worst);
    guint n = 0;
    for (guint i = 0; i < tangle->n; i++) {
        const WeftMeeting *meeting = &tangle->meetings[i];
        gboolean beside = all && g_str_equal(meeting->host, tangle->meetings[worst].host);
        ret_outcasts[i] = tangle->blames[i].ways && !meeting->was_ready && (i == worst || beside);
        n += ret_outcasts[i];
    }
    return n;
}

guint
weft_plan_outcasts(const WeftMeeting *meetings, guint n, gboolean *ret_outcasts)
{
    g_autofree Blame *blames = g_new0(Blame, n + 1);
    g_autoptr(GHashTable) apart = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)g_hash_table_unref);
    Tangle tangle = { meetings, n, blames, apart };
    guint worst = 0;
    count_ways(&tangle);
    for (guint i = 1; i < n; i++)
        if (blames[i].ways && (!blames[worst].ways || compare_blame(&tangle, i, worst) > 0))
            worst = i;
    return n ? mark_outcasts(&tangle, worst, ret_outcasts) : 0;
}
