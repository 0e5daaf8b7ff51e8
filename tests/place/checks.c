#include "checks.h"

#define WRONG(...) g_strdup_printf(__VA_ARGS__)

static const WeftHca *
hca_of(const BookHost *host, guint hca)
{
    return host->host->hcas->pdata[hca];
}

static const WeftGpu *
gpu_of(const BookHost *host, guint gpu)
{
    return host->host->gpus->pdata[gpu];
}

static const WeftPages *
pages_of(const BookHost *host, const WeftSeatPart *part)
{
    return &g_array_index(host->host->numa, WeftNuma, part->numa).pages[part->size];
}

/* --- one node --- */

/* A node that is to be placed, and where. */
typedef struct Look {
    const Books *books;
    const BookHost *host;
    const Case *it;
    const WeftGroup *group;
    const WeftSeat *seat;
    WeftPath path;
} Look;

static char *
check_amounts(const Look *look)
{
    guint cores = 0;
    guint64 bytes = 0, seen = 0, page = look->group->page_size;
    for (guint i = 0; i < look->seat->n_parts; i++) {
        const WeftSeatPart *part = &look->seat->parts[i];
        if (part->numa >= look->host->host->numa->len || seen >> part->numa & 1)
            return WRONG("NUMA node %u is there twice or not at all", part->numa);
        seen |= 1ULL << part->numa;
        cores += part->cores;
        bytes += part->pages ? part->pages * pages_of(look->host, part)->size : 0;
        guint64 size = part->pages ? pages_of(look->host, part)->size : 0;
        page = page ? page : size;
        if (size && size != page)
            return WRONG("pages of another size");
        if (part->cores == 0 && look->group->locality != WEFT_LOCALITY_NONE)
            return WRONG("memory where it has no cores");
    }
    if (cores != look->group->cores || bytes != look->group->memory)
        return WRONG("%u cores and %" G_GUINT64_FORMAT " bytes instead of %u and %" G_GUINT64_FORMAT, cores, bytes,
                     look->group->cores, look->group->memory);
    if ((guint)__builtin_popcount(look->seat->gpus) != look->group->gpus)
        return WRONG("GPUs %x instead of %u", look->seat->gpus, look->group->gpus);
    return NULL;
}

static gboolean
is_there(const BookHost *host, guint hca, int vf)
{
    const WeftHca *found = host->found ? weft_host_hca(host->found, hca_of(host, hca)->name) : hca_of(host, hca);
    return found && vf < (int)found->vfs;
}

/* Where it is known who talks to whom, auto may be the bridge after all. */
static gboolean
may_be_bridged(const Look *look)
{
    return look->group->path == WEFT_PATH_AUTO && look->it->cluster->pattern != WEFT_PATTERN_NONE &&
           look->seat->path == WEFT_PATH_BRIDGE;
}

static char *
check_devices(const Look *look)
{
    const WeftSeat *seat = look->seat;
    WeftPath path = may_be_bridged(look) ? WEFT_PATH_BRIDGE : look->path;
    guint rails = path == WEFT_PATH_BRIDGE ? 0 : look->group->rails;
    if (seat->path != path || seat->n_rails != rails)
        return WRONG("path %u with %u rails instead of %u with %u", seat->path, seat->n_rails, path, rails);
    for (guint rail = 0; rail < rails; rail++) {
        guint hca = seat->hca[rail];
        if (hca >= look->host->host->hcas->len || (seat->vf[rail] < 0) != (look->path == WEFT_PATH_PASSTHROUGH))
            return WRONG("HCA %u, function %d with path %u", hca, seat->vf[rail], look->path);
        if (!is_there(look->host, hca, seat->vf[rail]) || !books_gives_port(look->books, look->host, hca) ||
            (seat->vf[rail] >= 0 && !books_gives_functions(look->books, look->host, hca)))
            return WRONG("function %d of HCA %u cannot be given", seat->vf[rail], hca);
    }
    for (guint i = 0; look->host->found && i < look->host->host->gpus->len; i++) {
        gboolean found = FALSE;
        for (guint k = 0; k < look->host->found->gpus->len; k++)
            found |= strcmp(((const WeftGpu *)look->host->found->gpus->pdata[k])->name, gpu_of(look->host, i)->name) == 0;
        if (seat->gpus >> i & 1 && !found)
            return WRONG("GPU %u is not there", i);
    }
    return NULL;
}

static char *
check_promise(const Look *look)
{
    const WeftCluster *cluster = look->it->cluster;
    const WeftSeat *seat = look->seat;
    if (seat->bandwidth != cluster->bandwidth || (seat->sl != 0) != (cluster->bandwidth != 0))
        return WRONG("%" G_GUINT64_FORMAT " bits a second at level %u instead of %" G_GUINT64_FORMAT, seat->bandwidth, seat->sl,
                     cluster->bandwidth);
    if (look->it->request.sl && seat->sl != look->it->request.sl)
        return WRONG("level %u, and its cluster has %u", seat->sl, look->it->request.sl);
    if ((seat->exclusive != FALSE) != (cluster->exclusive != FALSE))
        return WRONG("exclusive is %d instead of %d", seat->exclusive, cluster->exclusive);
    return NULL;
}

/* Below the root of one of its functions? Where one of them is not known, nobody can say no. */
static gboolean
is_near(const Look *look, guint gpu)
{
    const char *root = gpu_of(look->host, gpu)->root;
    gboolean near = look->seat->n_rails == 0 || !root;
    for (guint rail = 0; rail < look->seat->n_rails; rail++) {
        const char *other = hca_of(look->host, look->seat->hca[rail])->root;
        near |= !other || g_strcmp0(root, other) == 0;
    }
    return near;
}

static char *
check_required(const Look *look)
{
    const WeftSeat *seat = look->seat;
    guint numa = seat->parts[0].numa;
    if (seat->n_parts != 1)
        return WRONG("is to be local, and is spread over %u NUMA nodes", seat->n_parts);
    for (guint rail = 0; rail < seat->n_rails; rail++)
        if (hca_of(look->host, seat->hca[rail])->numa != numa)
            return WRONG("is to be local, and HCA %u is not", seat->hca[rail]);
    for (guint i = 0; i < look->host->host->gpus->len; i++)
        if (seat->gpus >> i & 1 && (gpu_of(look->host, i)->numa != numa || !is_near(look, i)))
            return WRONG("is to be local, and GPU %u is not", i);
    return NULL;
}

/* Memory split as the cores are, but for a page. */
static char *
check_split(const Look *look)
{
    guint64 page = 2 << 20;
    for (guint i = 0; i < look->seat->n_parts; i++)
        page = MAX(page, pages_of(look->host, &look->seat->parts[i])->size);
    for (guint i = 0; look->seat->n_parts > 1 && i < look->seat->n_parts; i++) {
        const WeftSeatPart *part = &look->seat->parts[i];
        gint64 share = (gint64)(look->group->memory / look->group->cores * part->cores);
        gint64 has = (gint64)(part->pages * pages_of(look->host, part)->size);
        if (ABS(share - has) > (gint64)page * look->seat->n_parts)
            return WRONG("%" G_GINT64_FORMAT " bytes where %" G_GINT64_FORMAT " belong to its cores", has, share);
    }
    return NULL;
}

static char *
check_seat(const Look *look)
{
    char *wrong = check_amounts(look);
    wrong = wrong ? wrong : check_devices(look);
    wrong = wrong ? wrong : check_promise(look);
    if (!wrong && look->group->locality == WEFT_LOCALITY_REQUIRED)
        wrong = check_required(look);
    if (!wrong && look->group->locality == WEFT_LOCALITY_PREFERRED)
        wrong = check_split(look);
    return wrong;
}

/* --- all nodes --- */

static gboolean
is_remote(const BookHost *host, const WeftSeat *seat)
{
    guint64 home = 0;
    gboolean remote = FALSE;
    for (guint i = 0; i < seat->n_parts; i++)
        home |= seat->parts[i].cores ? 1ULL << seat->parts[i].numa : 0;
    for (guint rail = 0; rail < seat->n_rails; rail++)
        remote |= !(home >> hca_of(host, seat->hca[rail])->numa & 1);
    for (guint i = 0; i < host->host->gpus->len; i++)
        remote |= seat->gpus >> i & 1 && !(home >> gpu_of(host, i)->numa & 1);
    return remote;
}

/* Cables between the two that are farthest from each other. */
static guint
farthest(const Books *books, GHashTable *leaves, const BookHost *any)
{
    g_autofree gpointer *names = g_hash_table_get_keys_as_array(leaves, NULL);
    guint most = 0;
    for (guint a = 0; names[a]; a++)
        for (guint b = 0; b < a; b++)
            most = MAX(most, books_hops(books, any->host->fabric, names[a], names[b]));
    return most;
}

static char *
check_numbers(const Books *books, const WeftFleet *fleet, const Case *it, const WeftPlacement *placement)
{
    gboolean ranked = it->cluster->pattern != WEFT_PATTERN_NONE && !it->request.fabric;
    if (ranked ? placement->between < 0 || placement->between > 100 : placement->between != -1)
        return WRONG("tells of %d %% between hosts", placement->between);
    g_autoptr(GHashTable) leaves = g_hash_table_new(g_str_hash, g_str_equal), hosts = g_hash_table_new(NULL, NULL);
    const BookHost *host = NULL;
    guint split = 0, remote = 0;
    for (guint i = 0; i < placement->n; i++) {
        host = books_find(books, weft_fleet_name(fleet, placement->seats[i].host));
        g_hash_table_add(leaves, (gpointer)books_leaf(books, host));
        g_hash_table_add(hosts, (gpointer)host);
        split += placement->seats[i].n_parts > 1;
        remote += is_remote(host, &placement->seats[i]);
    }
    guint hops = host ? farthest(books, leaves, host) : 0;
    if (placement->leaves != g_hash_table_size(leaves) || placement->hosts != g_hash_table_size(hosts) ||
        placement->hops != hops || placement->split != split || placement->remote != remote)
        return WRONG("tells of %u leaves, %u hosts, %u hops, %u split, %u remote instead of %u, %u, %u, %u, %u",
                     placement->leaves, placement->hosts, placement->hops, placement->split, placement->remote,
                     g_hash_table_size(leaves), g_hash_table_size(hosts), hops, split, remote);
    return NULL;
}

char *
checks_placement(const Books *books, const WeftFleet *fleet, const Case *it, const WeftPlacement *placement)
{
    guint counts[WEFT_GROUPS_MAX] = { 0 };
    const char *fabric = NULL;
    for (guint i = 0; i < placement->n; i++) {
        const WeftSeat *seat = &placement->seats[i];
        Look look = { .books = books, .it = it, .seat = seat };
        look.host = books_find(books, weft_fleet_name(fleet, seat->host));
        if (!look.host || !books_allows(books, look.host, &it->request))
            return WRONG("node %u is where it must not be", i);
        fabric = fabric ? fabric : look.host->host->fabric;
        if (strcmp(fabric, look.host->host->fabric) != 0 || seat->sl != placement->seats[0].sl)
            return WRONG("node %u is on another fabric or level than node 0", i);
        if (seat->group >= it->cluster->groups->len || (i && seat->group < placement->seats[i - 1].group))
            return WRONG("node %u is of group %u", i, seat->group);
        counts[seat->group]++;
        look.group = it->cluster->groups->pdata[seat->group];
        look.path = books_path(books, fabric, it->cluster, look.group);
        g_autofree char *wrong = check_seat(&look);
        if (wrong)
            return WRONG("node %u on %s: %s", i, look.host->host->name, wrong);
    }
    for (guint g = 0; g < it->cluster->groups->len; g++)
        if (counts[g] != it->counts[g])
            return WRONG("%u nodes of group %u instead of %u", counts[g], g, it->counts[g]);
    return check_numbers(books, fleet, it, placement);
}

/* --- near or far --- */

/* Leaves or hosts: how many nodes are there, and how many there could be. */
typedef struct Bin {
    guint nodes;
    guint most;
} Bin;

static int
compare_bins(gconstpointer a, gconstpointer b)
{
    guint x = ((const Bin *)a)->most, y = ((const Bin *)b)->most;
    return x > y ? -1 : x < y;
}

/* Nobody has two more than somebody who could have one more. */
static gboolean
are_even(const Bin *bins, guint n)
{
    for (guint i = 0; i < n; i++)
        for (guint j = 0; j < n; j++)
            if (bins[i].nodes >= bins[j].nodes + 2 && bins[j].nodes < bins[j].most)
                return FALSE;
    return TRUE;
}

static guint
fewest(Bin *bins, guint n, guint nodes)
{
    guint sum = 0, used = 0;
    qsort(bins, n, sizeof *bins, compare_bins);
    while (used < n && sum < nodes)
        sum += bins[used++].most;
    return used;
}

/* Each host's bin, the same of each leaf, and of each host which leaf it is on. */
typedef struct Bins {
    Bin *hosts;
    Bin *leaves;
    guint *leaf;
    guint n_leaves;
} Bins;

static void
bins_fill(const Bins *bins, const ExactAsk *ask, const WeftFleet *fleet, const WeftPlacement *placement)
{
    for (guint i = 0; i < ask->books->hosts->len; i++) {
        const BookHost *host = ask->books->hosts->pdata[i];
        bins->hosts[i].most = exact_most(ask, host, placement->seats[0].group);
        for (guint k = 0; k < placement->n; k++)
            bins->hosts[i].nodes += strcmp(weft_fleet_name(fleet, placement->seats[k].host), host->host->name) == 0;
        bins->leaves[bins->leaf[i]].most += bins->hosts[i].most;
        bins->leaves[bins->leaf[i]].nodes += bins->hosts[i].nodes;
    }
}

static void
bins_number(Bins *bins, const Books *books)
{
    for (guint i = 0; i < books->hosts->len; i++) {
        const char *leaf = books_leaf(books, books->hosts->pdata[i]);
        guint k = 0;
        while (k < i && strcmp(books_leaf(books, books->hosts->pdata[k]), leaf) != 0)
            k++;
        bins->leaf[i] = k < i ? bins->leaf[k] : bins->n_leaves++;
    }
}

static char *
check_spread(const Bins *bins, guint hosts)
{
    g_autofree Bin *on = g_new0(Bin, hosts);
    if (!are_even(bins->leaves, bins->n_leaves))
        return WRONG("is not spread evenly over the leaves");
    for (guint l = 0; l < bins->n_leaves; l++) {
        guint n = 0;
        for (guint i = 0; i < hosts; i++)
            if (bins->leaf[i] == l)
                on[n++] = bins->hosts[i];
        if (!are_even(on, n))
            return WRONG("is not spread evenly over the hosts of a leaf");
    }
    return NULL;
}

/* Distances between all leaves of a fabric, n × n. */
static guint *
distances(const Books *books, const char *fabric, guint *ret_n)
{
    g_autoptr(GHashTable) leaves = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < books->hosts->len; i++)
        if (strcmp(((const BookHost *)books->hosts->pdata[i])->host->fabric, fabric) == 0)
            g_hash_table_add(leaves, (gpointer)books_leaf(books, books->hosts->pdata[i]));
    g_autofree gpointer *names = g_hash_table_get_keys_as_array(leaves, ret_n);
    guint n = *ret_n, *hops = g_new0(guint, n * n);
    for (guint i = 0; i < n * n; i++)
        hops[i] = i / n == i % n ? 0 : books_hops(books, fabric, names[i / n], names[i % n]);
    return hops;
}

/* In a tree, whatever its depth, two leaves that are near to a third are as near to each other. */
static gboolean
is_tree(const Books *books, const char *fabric)
{
    guint n;
    g_autofree guint *hops = distances(books, fabric, &n);
    for (guint a = 0; a < n; a++)
        for (guint b = 0; b < n; b++)
            for (guint c = 0; c < n; c++)
                if (hops[a * n + c] > MAX(hops[a * n + b], hops[b * n + c]))
                    return FALSE;
    return TRUE;
}

/* The solver is asked for the rest only where it could say something else. */
static char *
check_near(const ExactAsk *ask, const WeftPlacement *placement)
{
    guint hops;
    if (placement->leaves == 1 || !is_tree(ask->books, ask->fabric) ||
        exact_nearest(ask, placement->leaves, &hops) != EXACT_YES || hops >= placement->hops)
        return NULL;
    return WRONG("its leaves are %u cables from each other, and there are some at %u", placement->hops, hops);
}

char *
checks_layout(const Books *books, const WeftFleet *fleet, const Case *it, const WeftPlacement *placement)
{
    const WeftGroup *group = it->cluster->groups->pdata[placement->seats[0].group];
    if (group->path == WEFT_PATH_AUTO && it->cluster->pattern != WEFT_PATTERN_NONE)
        return NULL; /* the solver does not know what the path will be */
    guint hosts = books->hosts->len;
    g_autofree Bin *on_hosts = g_new0(Bin, hosts), *on_leaves = g_new0(Bin, hosts);
    g_autofree guint *leaf = g_new0(guint, hosts);
    const BookHost *first = books_find(books, weft_fleet_name(fleet, placement->seats[0].host));
    ExactAsk ask = { books, &it->request, first->host->fabric, placement->seats[0].sl, CHECKS_PATIENCE };
    Bins bins = { on_hosts, on_leaves, leaf, 0 };
    bins_number(&bins, books);
    bins_fill(&bins, &ask, fleet, placement);
    if (it->cluster->layout == WEFT_LAYOUT_SPREAD)
        return check_spread(&bins, hosts);
    guint least = fewest(on_leaves, bins.n_leaves, placement->n);
    if (placement->leaves > least)
        return WRONG("is on %u leaves, and %u have room for all", placement->leaves, least);
    return check_near(&ask, placement);
}

/* --- what could be better --- */

/* Room of a NUMA node for one more such node, were the seat given. */
static gboolean
fits_in(const BookHost *host, const BookRoom *room, const WeftGroup *group, const WeftSeat *seat, guint numa)
{
    const WeftNuma *it = &g_array_index(host->host->numa, WeftNuma, numa);
    guint cores = room->cores[numa];
    const WeftSeatPart *own = NULL;
    for (guint i = 0; i < seat->n_parts; i++)
        if (seat->parts[i].numa == numa)
            own = &seat->parts[i];
    for (guint s = 0; s < it->n_pages; s++) {
        guint64 pages = room->pages[numa][s] + (own && own->size == s ? own->pages : 0), size = it->pages[s].size;
        if ((!group->page_size || group->page_size == size) && group->memory % size == 0 && pages >= group->memory / size &&
            cores + (own ? own->cores : 0) >= group->cores)
            return TRUE;
    }
    return FALSE;
}

/* A node of one rail and no GPU whose function is elsewhere, with one left at home. */
static gboolean
has_function(const Books *books, const BookHost *host, const BookRoom *room, const WeftSeat *seat, const char *cluster)
{
    if (seat->n_parts != 1 || seat->n_rails != 1 || seat->gpus || seat->bandwidth ||
        hca_of(host, seat->hca[0])->numa == seat->parts[0].numa)
        return FALSE;
    for (guint h = 0; h < host->host->hcas->len; h++)
        if (hca_of(host, h)->rail == 0 && hca_of(host, h)->numa == seat->parts[0].numa &&
            (seat->vf[0] < 0 ? (guint)room->whole[h] : room->vfs[h]) && books_takes_key(books, host, h, cluster))
            return TRUE;
    return FALSE;
}

static char *
check_better(const Books *books, const BookHost *host, const BookSeat *noted, const Case *it)
{
    BookRoom room;
    const WeftSeat *seat = &noted->seat;
    const WeftGroup *group = it->cluster->groups->pdata[seat->group];
    g_free(books_count(books, host, &room));
    if (group->locality != WEFT_LOCALITY_PREFERRED)
        return NULL;
    for (guint n = 0; seat->n_parts > 1 && n < host->host->numa->len; n++)
        if (fits_in(host, &room, group, seat, n))
            return WRONG("a node on %s is split over %u NUMA nodes, and would fit into NUMA node %u", host->host->name,
                         seat->n_parts, n);
    if (has_function(books, host, &room, seat, noted->cluster))
        return WRONG("a node on %s has a function of another NUMA node, and its own has one left", host->host->name);
    return NULL;
}

char *
checks_locality(const Books *books, const Case *it)
{
    for (guint h = 0; h < books->hosts->len; h++) {
        const BookHost *host = books->hosts->pdata[h];
        for (guint i = 0; i < host->seats->len; i++) {
            const BookSeat *seat = &g_array_index(host->seats, BookSeat, i);
            char *wrong = strcmp(seat->cluster, it->cluster->id) == 0 ? check_better(books, host, seat, it) : NULL;
            if (wrong)
                return wrong;
        }
    }
    return NULL;
}

/* --- in words --- */

char *
checks_text(const WeftFleet *fleet, const WeftPlacement *placement)
{
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "%u leaves, %u hosts, %u hops, %u split, %u remote, %d between\n", placement->leaves,
                           placement->hosts, placement->hops, placement->split, placement->remote, placement->between);
    for (guint i = 0; i < placement->n; i++) {
        const WeftSeat *seat = &placement->seats[i];
        g_string_append_printf(text, "    %s group %u path %u sl %u cores", weft_fleet_name(fleet, seat->host), seat->group,
                               seat->path, seat->sl);
        for (guint c = 0; c < WEFT_CORES_MAX; c++)
            if (seat->cores.words[c / 64] >> c % 64 & 1)
                g_string_append_printf(text, " %u", c);
        for (guint p = 0; p < seat->n_parts; p++)
            g_string_append_printf(text, ", numa%u %u cores %u pages[%u]", seat->parts[p].numa, seat->parts[p].cores,
                                   seat->parts[p].pages, seat->parts[p].size);
        for (guint rail = 0; rail < seat->n_rails; rail++)
            g_string_append_printf(text, ", hca%u.%d", seat->hca[rail], seat->vf[rail]);
        g_string_append_printf(text, ", gpus %x\n", seat->gpus);
    }
    return g_string_free(text, FALSE);
}
