#include "exact.h"

#include "exact-host.h"

#define FAR 16 /* cables; small fabrics have no longer ways */

static gboolean
may_take(const ExactAsk *ask, const BookHost *host)
{
    return strcmp(host->host->fabric, ask->fabric) == 0 && books_allows(ask->books, host, ask->request);
}

guint
exact_most(const ExactAsk *ask, const BookHost *host, guint group)
{
    if (!may_take(ask, host))
        return 0;
    Spot spot;
    Model model = model_new();
    spot_init(&spot, &model, ask, host);
    spot.alone = TRUE;
    Wish wish = spot_add(&spot, group);
    guint most = 0;
    if (wish.most) {
        glp_set_obj_dir(model.lp, GLP_MAX);
        glp_set_obj_coef(model.lp, wish.n, 1);
        if (model_solve(&model, ask->patience) == EXACT_YES)
            most = (guint)(glp_mip_obj_val(model.lp) + 0.5);
    }
    model_clear(&model);
    return most;
}

/* --- whole requests --- */

/* Columns that say whether a leaf and a host is used, by the books' hosts; 0: none. */
typedef struct Use {
    int *leaves;
    int *hosts;
} Use;

static guint
groups_wished(const WeftPlaceRequest *request, guint *ret_last)
{
    guint n = 0;
    for (guint g = 0; g < request->cluster->groups->len; g++)
        if (request->counts[g]) {
            n++;
            *ret_last = g;
        }
    return n;
}

/* n is 0 unless the host is used, and the host is not used unless its leaf is. */
static void
add_use(Model *model, const Use *use, guint host, int n, guint most)
{
    int row = model_row(model, GLP_UP, 0);
    model_put(model, row, n, 1);
    model_put(model, row, use->hosts[host], -(double)most);
}

/* Of equal nodes it is enough to know how many each host has room for. */
static void
add_host(Model *model, const ExactAsk *ask, guint host, const int *sums, const Use *use)
{
    const WeftPlaceRequest *request = ask->request;
    const BookHost *it = ask->books->hosts->pdata[host];
    guint last = 0, n = groups_wished(request, &last);
    if (n == 1) {
        guint most = exact_most(ask, it, last);
        int column = model_column(model, most);
        model_put(model, sums[last], column, 1);
        add_use(model, use, host, column, most);
        return;
    }
    Spot spot;
    spot_init(&spot, model, ask, it);
    for (guint g = 0; g < request->cluster->groups->len; g++) {
        if (!request->counts[g])
            continue;
        Wish wish = spot_add(&spot, g);
        model_put(model, sums[g], wish.n, 1);
        add_use(model, use, host, wish.n, wish.most);
    }
}

static int
leaf_column(Model *model, const ExactAsk *ask, guint host, const Use *use)
{
    const char *leaf = books_leaf(ask->books, ask->books->hosts->pdata[host]);
    for (guint i = 0; i < host; i++)
        if (use->leaves[i] && strcmp(books_leaf(ask->books, ask->books->hosts->pdata[i]), leaf) == 0)
            return use->leaves[i];
    return model_column(model, 1);
}

static void
add_hosts(Model *model, const ExactAsk *ask, const Use *use)
{
    int sums[WEFT_GROUPS_MAX];
    for (guint g = 0; g < ask->request->cluster->groups->len; g++)
        sums[g] = model_row(model, GLP_FX, ask->request->counts[g]);
    for (guint i = 0; i < ask->books->hosts->len; i++) {
        if (!may_take(ask, ask->books->hosts->pdata[i]))
            continue;
        use->leaves[i] = leaf_column(model, ask, i, use);
        use->hosts[i] = model_column(model, 1);
        int row = model_row(model, GLP_UP, 0);
        model_put(model, row, use->hosts[i], 1);
        model_put(model, row, use->leaves[i], -1);
        add_host(model, ask, i, sums, use);
    }
}

/* Fewest of these. */
static ExactVerdict
minimize(Model *model, const ExactAsk *ask, const int *columns, guint *ret_n)
{
    for (guint i = 0; i < ask->books->hosts->len; i++)
        if (columns[i])
            glp_set_obj_coef(model->lp, columns[i], 1);
    ExactVerdict verdict = model_solve(model, ask->patience);
    if (verdict == EXACT_YES)
        *ret_n = (guint)(glp_mip_obj_val(model->lp) + 0.5);
    return verdict;
}

static void
limit(Model *model, const ExactAsk *ask, const int *columns, guint most)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    int row = model_row(model, GLP_UP, most);
    for (guint i = 0; i < ask->books->hosts->len; i++)
        if (columns[i] && g_hash_table_add(seen, GINT_TO_POINTER(columns[i])))
            model_put(model, row, columns[i], 1);
}

/* Guarantees are for devices only. */
static gboolean
is_in_vain(const ExactAsk *ask)
{
    const WeftCluster *cluster = ask->request->cluster;
    for (guint g = 0; ask->sl && g < cluster->groups->len; g++)
        if (books_path(ask->books, ask->fabric, cluster, cluster->groups->pdata[g]) == WEFT_PATH_BRIDGE)
            return TRUE;
    return FALSE;
}

/* Leaves that are farther from each other are not used both. */
static void
keep_near(Model *model, const ExactAsk *ask, const int *leaves, guint hops)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < ask->books->hosts->len; i++) {
        const BookHost *host = ask->books->hosts->pdata[i];
        if (!leaves[i] || !g_hash_table_add(seen, GINT_TO_POINTER(leaves[i])))
            continue;
        for (guint k = 0; k < i; k++) {
            const char *other = books_leaf(ask->books, ask->books->hosts->pdata[k]);
            if (!leaves[k] || leaves[k] == leaves[i] ||
                books_hops(ask->books, ask->fabric, books_leaf(ask->books, host), other) <= hops)
                continue;
            int row = model_row(model, GLP_UP, 1);
            model_put(model, row, leaves[i], 1);
            model_put(model, row, leaves[k], 1);
        }
    }
}

enum { ANYHOW, FEWEST_LEAVES, FEWEST_HOSTS };

/* leaves: at most so many, no farther from each other than hops. */
static ExactVerdict
run(const ExactAsk *ask, int wanted, guint leaves, guint hops, guint *ret_n)
{
    if (is_in_vain(ask))
        return EXACT_NO;
    guint hosts = ask->books->hosts->len;
    g_autofree int *used_leaves = g_new0(int, hosts + 1), *used_hosts = g_new0(int, hosts + 1);
    Use use = { used_leaves, used_hosts };
    Model model = model_new();
    add_hosts(&model, ask, &use);
    if (leaves < hosts)
        limit(&model, ask, used_leaves, leaves);
    if (hops < G_MAXUINT)
        keep_near(&model, ask, used_leaves, hops);
    ExactVerdict verdict = wanted == ANYHOW ? model_solve(&model, ask->patience)
                                            : minimize(&model, ask, wanted == FEWEST_LEAVES ? used_leaves : used_hosts, ret_n);
    model_clear(&model);
    return verdict;
}

ExactVerdict
exact_fits(const ExactAsk *ask)
{
    return run(ask, ANYHOW, G_MAXUINT, G_MAXUINT, NULL);
}

ExactVerdict
exact_fewest_leaves(const ExactAsk *ask, guint *ret_leaves)
{
    return run(ask, FEWEST_LEAVES, G_MAXUINT, G_MAXUINT, ret_leaves);
}

ExactVerdict
exact_fewest_hosts(const ExactAsk *ask, guint leaves, guint hops, guint *ret_hosts)
{
    return run(ask, FEWEST_HOSTS, leaves, hops, ret_hosts);
}

ExactVerdict
exact_nearest(const ExactAsk *ask, guint leaves, guint *ret_hops)
{
    ExactVerdict verdict = EXACT_NO;
    guint hops = 0;
    for (; verdict == EXACT_NO && hops <= FAR; hops++)
        verdict = run(ask, ANYHOW, leaves, hops, NULL);
    *ret_hops = hops - 1;
    if (verdict != EXACT_NO)
        return verdict;
    *ret_hops = G_MAXUINT;
    return run(ask, ANYHOW, leaves, G_MAXUINT, NULL);
}

static ExactVerdict
fits_in_fabric(const ExactAsk *ask)
{
    const WeftPlaceRequest *request = ask->request;
    const WeftFleetFabric *told = g_hash_table_lookup(ask->books->fabrics, ask->fabric);
    if (!request->cluster->bandwidth)
        return exact_fits(ask);
    ExactVerdict verdict = EXACT_NO;
    for (guint i = 0; told && !told->no_lanes && i < told->qos.n && verdict != EXACT_YES; i++) {
        ExactAsk in = *ask;
        in.sl = told->qos.lanes[i].sl;
        ExactVerdict more = request->sl && request->sl != in.sl ? EXACT_NO : exact_fits(&in);
        verdict = more == EXACT_NO ? verdict : more;
    }
    return verdict;
}

ExactVerdict
exact_fits_anywhere(const ExactAsk *ask)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    ExactVerdict verdict = EXACT_NO;
    for (guint i = 0; i < ask->books->hosts->len && verdict != EXACT_YES; i++) {
        ExactAsk in = *ask;
        in.fabric = ((const BookHost *)ask->books->hosts->pdata[i])->host->fabric;
        ExactVerdict more = g_hash_table_add(seen, (gpointer)in.fabric) ? fits_in_fabric(&in) : EXACT_NO;
        verdict = more == EXACT_NO ? verdict : more;
    }
    return verdict;
}
