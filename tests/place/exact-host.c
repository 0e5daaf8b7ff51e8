#include "exact-host.h"

static const WeftHca *
hca_of(const Spot *spot, guint hca)
{
    return spot->host->host->hcas->pdata[hca];
}

static const WeftNuma *
numa_of(const Spot *spot, guint numa)
{
    return &g_array_index(spot->host->host->numa, WeftNuma, numa);
}

static void
add_gpus(Spot *spot)
{
    for (guint i = 0; i < spot->host->host->gpus->len; i++) {
        const WeftGpu *gpu = spot->host->host->gpus->pdata[i];
        guint c = 0;
        while (c < spot->n_classes && (spot->classes[c].numa != gpu->numa || g_strcmp0(spot->classes[c].root, gpu->root) != 0))
            c++;
        if (c == spot->n_classes)
            spot->classes[spot->n_classes++] = (GpuClass){ .numa = gpu->numa, .root = gpu->root };
        spot->classes[c].free += spot->room.gpus[i];
    }
    for (guint c = 0; c < spot->n_classes; c++)
        spot->classes[c].row = model_row(spot->model, GLP_UP, spot->classes[c].free);
}

void
spot_init(Spot *spot, Model *model, const ExactAsk *ask, const BookHost *host)
{
    *spot = (Spot){ .model = model, .ask = ask, .host = host };
    g_free(books_count(ask->books, host, &spot->room));
    for (guint n = 0; n < host->host->numa->len; n++) {
        spot->cores[n] = model_row(model, GLP_UP, spot->room.cores[n]);
        for (guint s = 0; s < numa_of(spot, n)->n_pages; s++)
            spot->pages[n][s] = model_row(model, GLP_UP, (double)spot->room.pages[n][s]);
    }
    for (guint h = 0; h < host->host->hcas->len; h++) {
        spot->hcas[h] = model_row(model, GLP_UP, MAX(1, spot->room.vfs[h]));
        guint64 guarantees = ask->sl ? books_lane_room(ask->books, host, h, ask->sl) / ask->request->cluster->bandwidth : 0;
        spot->lanes[h] = ask->sl ? model_row(model, GLP_UP, (double)guarantees) : 0;
    }
    add_gpus(spot);
}

/* Devices of the HCA that nodes of the group could have; the whole HCA counts as all of its functions. */
static guint
devices_of(const Spot *spot, guint hca, WeftPath path)
{
    if (!books_takes_key(spot->ask->books, spot->host, hca, spot->ask->request->cluster->id))
        return 0;
    guint n = path == WEFT_PATH_PASSTHROUGH ? (guint)spot->room.whole[hca] : spot->room.vfs[hca];
    guint64 lane = spot->ask->sl ? books_lane_room(spot->ask->books, spot->host, hca, spot->ask->sl) : 0;
    return spot->ask->sl ? (guint)MIN(n, lane / spot->ask->request->cluster->bandwidth) : n;
}

static void
put_device(const Spot *spot, guint hca, WeftPath path, int column)
{
    model_put(spot->model, spot->hcas[hca], column, path == WEFT_PATH_PASSTHROUGH ? MAX(1, spot->room.vfs[hca]) : 1);
    if (spot->ask->sl)
        model_put(spot->model, spot->lanes[hca], column, 1);
}

/* Index of pages of that size in the NUMA node; -1: it has none. */
static int
size_in(const Spot *spot, guint numa, guint64 page)
{
    for (guint s = 0; s < numa_of(spot, numa)->n_pages; s++)
        if (numa_of(spot, numa)->pages[s].size == page)
            return (int)s;
    return -1;
}

/* --- cores and memory --- */

/* Nodes with pages of one size. */
typedef struct Paged {
    const Spot *spot;
    const Wish *wish;
    guint64 page;
    int row; /* all of them are counted there */
} Paged;

/* Nodes that are whole in a NUMA node. */
static void
add_local(const Paged *paged, guint numa)
{
    const WeftGroup *group = paged->wish->group;
    int size = size_in(paged->spot, numa, paged->page);
    if (size < 0)
        return;
    guint64 pages = group->memory / paged->page;
    int column = model_column(paged->spot->model, paged->wish->most);
    model_put(paged->spot->model, paged->spot->cores[numa], column, group->cores);
    model_put(paged->spot->model, paged->spot->pages[numa][size], column, (double)pages);
    model_put(paged->spot->model, paged->row, column, 1);
}

static void
add_split(const Paged *paged, const guint *cores)
{
    const WeftGroup *group = paged->wish->group;
    const Spot *spot = paged->spot;
    int column = model_column(spot->model, paged->wish->most);
    model_put(spot->model, paged->row, column, 1);
    for (guint n = 0; n < spot->host->host->numa->len; n++) {
        if (!cores[n])
            continue;
        int size = size_in(spot, n, paged->page);
        guint64 pages = group->memory * cores[n] / group->cores / paged->page;
        model_put(spot->model, spot->cores[n], column, cores[n]);
        model_put(spot->model, spot->pages[n][size], column, (double)pages);
    }
}

/* Every way to spread the cores that are left over several of the NUMA nodes from numa on, a column for each. */
static void
add_splits(const Paged *paged, guint *cores, guint numa, guint left)
{
    const WeftGroup *group = paged->wish->group;
    if (numa == paged->spot->host->host->numa->len) {
        if (left == 0)
            add_split(paged, cores);
        return;
    }
    int size = size_in(paged->spot, numa, paged->page);
    for (guint n = 0; n <= MIN(left, paged->spot->room.cores[numa]) && n < group->cores; n++) {
        guint64 bytes = group->memory * n / group->cores;
        if (n && (size < 0 || group->memory * n % group->cores || bytes % paged->page ||
                  bytes / paged->page > paged->spot->room.pages[numa][size]))
            continue;
        cores[numa] = n;
        add_splits(paged, cores, numa + 1, left - n);
    }
}

/* Pages from anywhere. */
static void
add_anywhere(const Paged *paged, guint unused)
{
    const Spot *spot = paged->spot;
    guint64 each = paged->wish->group->memory / paged->page;
    int nodes = model_column(spot->model, paged->wish->most), sum = model_row(spot->model, GLP_FX, 0);
    model_put(spot->model, paged->row, nodes, 1);
    model_put(spot->model, sum, nodes, -(double)each);
    for (guint n = 0; n < spot->host->host->numa->len; n++) {
        int size = size_in(spot, n, paged->page);
        if (size < 0)
            continue;
        int pages = model_column(spot->model, (double)spot->room.pages[n][size]);
        model_put(spot->model, spot->pages[n][size], pages, 1);
        model_put(spot->model, sum, pages, 1);
    }
}

/* Calls add for each page size that nodes of the group could have; returns how many there are. */
static guint
for_each_size(const Spot *spot, const Wish *wish, int row, void (*add)(const Paged *, guint), guint numa)
{
    guint64 seen[WEFT_PAGE_SIZES_MAX * WEFT_NUMA_MAX];
    guint n_seen = 0;
    for (guint n = 0; n < spot->host->host->numa->len; n++)
        for (guint s = 0; s < numa_of(spot, n)->n_pages; s++) {
            guint64 page = numa_of(spot, n)->pages[s].size;
            guint k = 0;
            while (k < n_seen && seen[k] != page)
                k++;
            if (k < n_seen || !spot->room.pages[n][s] || (wish->group->page_size && wish->group->page_size != page) ||
                wish->group->memory % page)
                continue;
            seen[n_seen++] = page;
            add(&(Paged){ spot, wish, page, row }, numa);
        }
    return n_seen;
}

static void
add_preferred(const Paged *paged, guint unused)
{
    guint cores[WEFT_NUMA_MAX] = { 0 };
    add_splits(paged, cores, 0, paged->wish->group->cores);
}

/* Whole nodes in a NUMA node, all of them counted in the row. any: none are split (this is 0) unless as many whole ones as fit
 * are there, each with the largest pages that are left. */
static void
add_wholes(const Spot *spot, const Wish *wish, guint numa, int all, int any)
{
    const WeftGroup *group = wish->group;
    guint left = spot->room.cores[numa] / group->cores;
    for (guint s = 0; s < numa_of(spot, numa)->n_pages; s++) {
        guint64 page = numa_of(spot, numa)->pages[s].size, pages = group->memory / page;
        if (group->memory % page != 0 || (group->page_size && group->page_size != page))
            continue;
        add_local(&(Paged){ spot, wish, page, all }, numa);
        guint fit = (guint)MIN(left, spot->room.pages[numa][s] / pages);
        left -= fit;
        if (!any || !fit)
            continue;
        int row = model_row(spot->model, GLP_UP, 0);
        model_put(spot->model, row, any, fit);
        model_put(spot->model, row, glp_get_num_cols(spot->model->lp), -1);
    }
}

static void
add_wholes_and_splits(const Spot *spot, const Wish *wish, int all)
{
    int split = model_row(spot->model, GLP_FX, 0), splits = model_column(spot->model, wish->most);
    int any = spot->alone ? model_column(spot->model, 1) : 0;
    model_put(spot->model, all, splits, 1);
    model_put(spot->model, split, splits, -1);
    /* Each lies in the fewest NUMA nodes, with the largest pages that do. Where there is a choice of pages, a second one might
     * be had if the first did not: that is not promised. */
    if (for_each_size(spot, wish, split, add_preferred, 0) > 1 && spot->alone)
        glp_set_col_bnds(spot->model->lp, splits, GLP_DB, 0, 1);
    for (guint n = 0; n < spot->host->host->numa->len; n++)
        add_wholes(spot, wish, n, all, any);
    if (!any)
        return;
    int only = model_row(spot->model, GLP_UP, 0);
    model_put(spot->model, only, splits, 1);
    model_put(spot->model, only, any, -(double)wish->most);
}

static void
add_any_cores(const Spot *spot, const Wish *wish)
{
    int sum = model_row(spot->model, GLP_FX, 0);
    model_put(spot->model, sum, wish->n, -(double)wish->group->cores);
    for (guint n = 0; n < spot->host->host->numa->len; n++) {
        int cores = model_column(spot->model, spot->room.cores[n]);
        model_put(spot->model, spot->cores[n], cores, 1);
        model_put(spot->model, sum, cores, 1);
    }
}

/* --- devices --- */

#define ANY_NUMA G_MAXUINT

/* As many of each rail, and GPUs, as nodes in the column. */
static void
add_devices(const Spot *spot, const Wish *wish, guint numa, int nodes)
{
    for (guint rail = 0; rail < wish->rails; rail++) {
        int row = model_row(spot->model, GLP_FX, 0);
        model_put(spot->model, row, nodes, -1);
        for (guint h = 0; h < spot->host->host->hcas->len; h++) {
            guint most = devices_of(spot, h, wish->path);
            if (hca_of(spot, h)->rail != rail || (numa != ANY_NUMA && hca_of(spot, h)->numa != numa) || !most)
                continue;
            int column = model_column(spot->model, most);
            put_device(spot, h, wish->path, column);
            model_put(spot->model, row, column, 1);
        }
    }
    int row = wish->group->gpus ? model_row(spot->model, GLP_FX, 0) : 0;
    if (row)
        model_put(spot->model, row, nodes, -(double)wish->group->gpus);
    for (guint c = 0; row && c < spot->n_classes; c++) {
        if (numa != ANY_NUMA && spot->classes[c].numa != numa)
            continue;
        int column = model_column(spot->model, spot->classes[c].free);
        model_put(spot->model, spot->classes[c].row, column, 1);
        model_put(spot->model, row, column, 1);
    }
}

/* Functions and GPUs of one node that belong together. */
typedef struct Set {
    guint numa;
    guint hcas[WEFT_RAILS_MAX];
    guint gpus[WEFT_GPUS_MAX]; /* by class */
    int row;
} Set;

static gboolean
is_near(const Spot *spot, const Wish *wish, const Set *set, guint class)
{
    const char *root = spot->classes[class].root;
    for (guint rail = 0; rail < wish->rails; rail++) {
        const char *other = hca_of(spot, set->hcas[rail])->root;
        if (!root || !other || strcmp(root, other) == 0)
            return TRUE;
    }
    return FALSE;
}

static void
add_set(const Spot *spot, const Wish *wish, const Set *set)
{
    int column = model_column(spot->model, wish->most);
    for (guint rail = 0; rail < wish->rails; rail++)
        put_device(spot, set->hcas[rail], wish->path, column);
    for (guint c = 0; c < spot->n_classes; c++)
        if (set->gpus[c])
            model_put(spot->model, spot->classes[c].row, column, set->gpus[c]);
    model_put(spot->model, set->row, column, 1);
}

static void
add_gpu_sets(const Spot *spot, const Wish *wish, Set *set, guint class, guint left)
{
    if (class == spot->n_classes) {
        if (left == 0)
            add_set(spot, wish, set);
        return;
    }
    gboolean near = spot->classes[class].numa == set->numa && is_near(spot, wish, set, class);
    for (guint n = 0; n <= (near ? MIN(left, spot->classes[class].free) : 0); n++) {
        set->gpus[class] = n;
        add_gpu_sets(spot, wish, set, class + 1, left - n);
    }
}

/* Every choice of functions of one NUMA node, with GPUs near to them. */
static void
add_sets(const Spot *spot, const Wish *wish, Set *set, guint rail)
{
    if (rail == wish->rails) {
        add_gpu_sets(spot, wish, set, 0, wish->group->gpus);
        return;
    }
    for (guint h = 0; h < spot->host->host->hcas->len; h++) {
        if (hca_of(spot, h)->rail != rail || hca_of(spot, h)->numa != set->numa || !devices_of(spot, h, wish->path))
            continue;
        set->hcas[rail] = h;
        add_sets(spot, wish, set, rail + 1);
    }
}

/* --- nodes of a group --- */

static void
add_required(const Spot *spot, const Wish *wish)
{
    int all = model_row(spot->model, GLP_FX, 0);
    model_put(spot->model, all, wish->n, -1);
    for (guint numa = 0; numa < spot->host->host->numa->len; numa++) {
        int nodes = model_column(spot->model, wish->most), here = model_row(spot->model, GLP_FX, 0);
        model_put(spot->model, all, nodes, 1);
        model_put(spot->model, here, nodes, -1);
        for_each_size(spot, wish, here, add_local, numa);
        if (!wish->group->gpus || !wish->rails) {
            add_devices(spot, wish, numa, nodes);
            continue;
        }
        Set set = { .numa = numa, .row = model_row(spot->model, GLP_FX, 0) };
        model_put(spot->model, set.row, nodes, -1);
        add_sets(spot, wish, &set, 0);
    }
}

static void
add_free(const Spot *spot, const Wish *wish)
{
    gboolean anywhere = wish->group->locality == WEFT_LOCALITY_NONE;
    int row = model_row(spot->model, GLP_FX, 0);
    model_put(spot->model, row, wish->n, -1);
    if (anywhere) {
        for_each_size(spot, wish, row, add_anywhere, 0);
        add_any_cores(spot, wish);
    } else {
        add_wholes_and_splits(spot, wish, row);
    }
    add_devices(spot, wish, ANY_NUMA, wish->n);
}

/* Counting each resource by itself. */
static guint
count_most(const Spot *spot, const Wish *wish)
{
    guint cores = 0, gpus = 0, least = G_MAXUINT;
    guint64 bytes = 0;
    for (guint n = 0; n < spot->host->host->numa->len; n++) {
        cores += spot->room.cores[n];
        for (guint s = 0; s < numa_of(spot, n)->n_pages; s++)
            if (!wish->group->page_size || wish->group->page_size == numa_of(spot, n)->pages[s].size)
                bytes += spot->room.pages[n][s] * numa_of(spot, n)->pages[s].size;
    }
    for (guint c = 0; c < spot->n_classes; c++)
        gpus += spot->classes[c].free;
    for (guint rail = 0; rail < wish->rails; rail++) {
        guint devices = 0;
        for (guint h = 0; h < spot->host->host->hcas->len; h++)
            devices += hca_of(spot, h)->rail == rail ? devices_of(spot, h, wish->path) : 0;
        least = MIN(least, devices);
    }
    least = MIN(least, wish->group->gpus ? gpus / wish->group->gpus : G_MAXUINT);
    return MIN(MIN(least, cores / wish->group->cores), (guint)MIN(bytes / wish->group->memory, G_MAXUINT));
}

Wish
spot_add(const Spot *spot, guint group)
{
    const WeftCluster *cluster = spot->ask->request->cluster;
    Wish wish = { .group = cluster->groups->pdata[group] };
    wish.path = books_path(spot->ask->books, spot->ask->fabric, cluster, wish.group);
    wish.rails = wish.path == WEFT_PATH_BRIDGE ? 0 : wish.group->rails;
    wish.most = count_most(spot, &wish);
    wish.n = model_column(spot->model, wish.most);
    if (wish.most == 0)
        return wish;
    if (wish.group->locality == WEFT_LOCALITY_REQUIRED)
        add_required(spot, &wish);
    else
        add_free(spot, &wish);
    return wish;
}
