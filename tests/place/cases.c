#include "cases.h"

#define M ((guint64)1 << 20)
#define G ((guint64)1 << 30)
#define NO_WAY 255
#define SMALL 24 /* hosts that a fleet has at most, unless more are asked for */

enum { OF_FLEET, OF_HOST, OF_PORTS, OF_FABRIC, OF_REQUEST, OF_GROUP };

GRand *
case_rand(guint32 seed, guint32 what, guint32 number)
{
    const guint32 seeds[] = { seed, what, number };
    return g_rand_new_with_seed_array(seeds, G_N_ELEMENTS(seeds));
}

/* 0 to n - 1. */
static guint
pick(GRand *dice, guint n)
{
    return (guint)g_rand_int_range(dice, 0, (gint32)n);
}

static gboolean
chance(GRand *dice, guint percent)
{
    return pick(dice, 100) < percent;
}

/* --- parts --- */

WeftHost *
case_host(const char *name, const char *fabric, const CaseHost *what)
{
    WeftHost *host = weft_host_new();
    host->name = g_strdup(name);
    host->fabric = g_strdup(fabric);
    host->uri = g_strdup("fake:///");
    for (guint n = 0; n < what->numa; n++) {
        WeftNuma numa = { 0 };
        if (what->large)
            numa.pages[numa.n_pages++] = (WeftPages){ G, what->large };
        if (what->small)
            numa.pages[numa.n_pages++] = (WeftPages){ 2 * M, what->small };
        g_array_append_val(host->numa, numa);
        for (guint c = 0; c < what->cores; c++) {
            guint16 id = (guint16)host->cores->len;
            WeftCore core = {
                .id = id, .numa = (guint8)n, .housekeeping = c < what->housekeeping, .n_cpus = 1, .cpus = { id }
            };
            g_array_append_val(host->cores, core);
        }
    }
    return host;
}

WeftHca *
case_add_hca(WeftHost *host, guint numa, guint rail, guint vfs, guint64 port)
{
    WeftHca *hca = weft_hca_new();
    hca->name = g_strdup_printf("mlx5_%u", host->hcas->len);
    hca->driver = WEFT_HCA_MLX5;
    hca->numa = numa;
    hca->rail = rail;
    hca->vfs = vfs;
    hca->port_guid = port;
    g_ptr_array_add(host->hcas, hca);
    return hca;
}

WeftCluster *
case_cluster(const char *id)
{
    json_auto_t *json = json_pack("{s:s,s:i}", "name", "c", "count", 1);
    WeftCluster *cluster = weft_cluster_from_spec(json, NULL);
    g_ptr_array_set_size(cluster->groups, 0);
    cluster->id = g_strdup(id);
    cluster->tenant = g_strdup("t");
    cluster->creator = g_strdup("t");
    return cluster;
}

WeftGroup *
case_add_group(WeftCluster *cluster, guint count, guint cores, guint64 memory)
{
    WeftGroup *group = g_new0(WeftGroup, 1);
    group->name = g_strdup_printf("g%u", cluster->groups->len);
    group->image = g_strdup("default");
    group->count = count;
    group->cores = cores;
    group->memory = memory;
    group->path = WEFT_PATH_BRIDGE;
    g_ptr_array_add(cluster->groups, group);
    return group;
}

GArray *
case_hops(guint switches, const GArray *cables)
{
    GArray *hops = g_array_sized_new(FALSE, FALSE, 1, switches * switches);
    g_array_set_size(hops, switches * switches);
    guint8 *row = (guint8 *)hops->data;
    memset(row, NO_WAY, hops->len);
    for (guint i = 0; i < switches; i++)
        row[i * switches + i] = 0;
    for (guint i = 0; i + 1 < cables->len; i += 2) {
        guint a = g_array_index(cables, guint, i), b = g_array_index(cables, guint, i + 1);
        row[a * switches + b] = row[b * switches + a] = a == b ? 0 : 1;
    }
    for (guint k = 0; k < switches; k++)
        for (guint i = 0; i < switches; i++)
            for (guint j = 0; j < switches; j++)
                row[i * switches + j] =
                    (guint8)MIN((guint)row[i * switches + j], (guint)row[i * switches + k] + row[k * switches + j]);
    return hops;
}

/* --- fabrics --- */

static void
add_cable(GArray *cables, guint a, guint b)
{
    g_array_append_val(cables, a);
    g_array_append_val(cables, b);
}

/* Leaves are the first switches. Returns how many there are in all. */
static guint
two_levels(GRand *dice, guint leaves, GArray *cables)
{
    guint spines = 1 + pick(dice, 2);
    for (guint l = 0; l < leaves; l++)
        for (guint s = 0; s < spines; s++)
            add_cable(cables, l, leaves + s);
    return leaves + spines;
}

static guint
three_levels(GRand *dice, guint leaves, GArray *cables)
{
    guint width = 1 + pick(dice, 3), pods = (leaves + width - 1) / width;
    for (guint l = 0; l < leaves; l++)
        add_cable(cables, l, leaves + l / width);
    for (guint p = 0; p < pods; p++)
        add_cable(cables, leaves + p, leaves + pods);
    return leaves + pods + 1;
}

/* Anything, and at times in two parts. */
static guint
irregular(GRand *dice, guint leaves, GArray *cables)
{
    guint n = leaves + pick(dice, 3);
    for (guint i = 1; i < n; i++)
        if (!chance(dice, 10))
            add_cable(cables, i, pick(dice, i));
    for (guint i = 0; i < pick(dice, 4); i++)
        add_cable(cables, pick(dice, n), pick(dice, n));
    return n;
}

/* Rails of which only the first is known to hang on leaves have a fabric of their own, of another kind. */
static void
add_distances(WeftFleetFabric *told, GRand *dice, guint leaves)
{
    static guint (*const trees[])(GRand *, guint, GArray *) = { two_levels, two_levels, three_levels, three_levels, irregular };
    static const char *const names[] = { "leaf%u", "plane%u" };
    if (chance(dice, 25))
        return;
    g_autoptr(GArray) cables = g_array_new(FALSE, FALSE, sizeof(guint));
    guint n = 0;
    told->switches = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint plane = 0; plane < G_N_ELEMENTS(names); plane++) {
        guint first = cables->len, more = trees[pick(dice, G_N_ELEMENTS(trees))](dice, leaves, cables);
        for (guint i = first; i < cables->len; i++)
            g_array_index(cables, guint, i) += n;
        for (guint i = 0; i < more; i++)
            g_hash_table_insert(told->switches, g_strdup_printf(i < leaves ? names[plane] : "spine%u", i < leaves ? i : n + i),
                                GUINT_TO_POINTER(n + i));
        n += more;
    }
    told->hops = case_hops(n, cables);
}

static GHashTable *
new_ports(GDestroyNotify free)
{
    return g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, free);
}

static gpointer
u64(guint64 value)
{
    return g_memdup2(&value, sizeof value);
}

/* What is told of each port, for those of which something is. */
static void
tell_of_ports(WeftFleetFabric *told, const Books *books, const char *fabric, guint leaves, guint32 seed)
{
    for (guint i = 0; i < books->hosts->len; i++) {
        const WeftHost *host = ((const BookHost *)books->hosts->pdata[i])->host;
        g_autoptr(GRand) dice = case_rand(seed, OF_PORTS, g_str_hash(host->name));
        guint leaf = pick(dice, leaves);
        for (guint h = 0; strcmp(host->fabric, fabric) == 0 && h < host->hcas->len; h++) {
            const WeftHca *hca = host->hcas->pdata[h];
            guint64 port = hca->port_guid;
            if (told->ports && chance(dice, 30))
                g_hash_table_insert(told->ports, u64(port), GUINT_TO_POINTER(1 + pick(dice, 3)));
            if (told->rates && chance(dice, 95))
                g_hash_table_insert(told->rates, u64(port), u64((25ULL << pick(dice, 3)) * 1000000000));
            if (told->leaves)
                g_hash_table_insert(told->leaves, u64(port), g_strdup_printf(hca->rail ? "plane%u" : "leaf%u", leaf));
        }
    }
}

static WeftFleetFabric *
random_fabric(const Books *books, const char *fabric, guint leaves, guint32 seed)
{
    g_autoptr(GRand) dice = case_rand(seed, OF_FABRIC, g_str_hash(fabric));
    WeftFleetFabric *told = g_new0(WeftFleetFabric, 1);
    told->closed = chance(dice, 2) ? g_strdup("it is to be so") : NULL;
    told->no_virtual = chance(dice, 4) ? g_strdup("the manager cannot") : NULL;
    told->no_devices = chance(dice, 4) ? g_strdup("nobody manages it") : NULL;
    told->pkeys = chance(dice, 60) ? 0 : 1 + pick(dice, 4);
    told->ports = chance(dice, 15) ? new_ports(NULL) : NULL;
    told->leaves = new_ports(g_free);
    told->qos.n = chance(dice, 50) ? 1 + pick(dice, 3) : 0;
    told->rates = told->qos.n ? new_ports(g_free) : NULL;
    for (guint i = 0; i < told->qos.n; i++)
        told->qos.lanes[i] = (WeftLane){ i + 1, 10 * (1 + pick(dice, 3)) };
    tell_of_ports(told, books, fabric, leaves, seed);
    add_distances(told, dice, leaves);
    return told;
}

/* --- hosts --- */

static void
add_pages(WeftHost *host, GRand *dice)
{
    for (guint n = 0; n < host->numa->len; n++) {
        WeftNuma *numa = &g_array_index(host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            if (chance(dice, 15))
                numa->pages[i].count = pick(dice, (guint)numa->pages[i].count + 1);
    }
}

static char *
random_root(GRand *dice, guint numa)
{
    return chance(dice, 15) ? NULL : g_strdup_printf("root%u.%u", numa, pick(dice, 2));
}

static void
add_devices(WeftHost *host, GRand *dice, guint index)
{
    guint hcas = chance(dice, 15) ? 0 : 1 + pick(dice, 2), gpus = chance(dice, 50) ? 0 : 1 + pick(dice, 4);
    gboolean one_rail = chance(dice, 30);
    for (guint i = 0; i < hcas; i++) {
        guint64 port = chance(dice, 3) ? 0 : 0x100 * (index + 1) + i + 1;
        WeftHca *hca =
            case_add_hca(host, pick(dice, host->numa->len), one_rail ? 0 : i, chance(dice, 10) ? 0 : 1 + pick(dice, 8), port);
        hca->driver = chance(dice, 30) ? WEFT_HCA_MLX4 : WEFT_HCA_MLX5;
        hca->root = random_root(dice, hca->numa);
    }
    for (guint i = 0; i < gpus; i++) {
        WeftGpu *gpu = g_new0(WeftGpu, 1);
        gpu->name = g_strdup_printf("0000:%02x:00.0", i + 1);
        gpu->numa = pick(dice, host->numa->len);
        gpu->root = random_root(dice, gpu->numa);
        g_ptr_array_add(host->gpus, gpu);
    }
}

/* What the host has by its own word, where that is less than what is described. */
static WeftHost *
random_found(const WeftHost *host, GRand *dice)
{
    if (!chance(dice, 6))
        return NULL;
    WeftHost *found = weft_host_copy(host);
    if (found->gpus->len)
        g_ptr_array_remove_index(found->gpus, pick(dice, found->gpus->len));
    if (found->hcas->len && chance(dice, 50))
        g_ptr_array_remove_index(found->hcas, pick(dice, found->hcas->len));
    else if (found->hcas->len)
        ((WeftHca *)found->hcas->pdata[0])->vfs /= 2;
    return found;
}

typedef struct Plan {
    guint leaves;
    gboolean alike;  /* all hosts have the same hardware */
    gboolean mapped; /* leaves are told by the fabric */
    gboolean two_fabrics;
} Plan;

static void
add_host(Books *books, guint32 seed, guint index, const Plan *plan)
{
    static const guint numas[] = { 1, 1, 1, 2, 2, 2, 2, 2, 3, 4 };
    static const guint smalls[] = { 0, 1024, 2048, 4096, 4096, 4096 };
    g_autoptr(GRand) dice = case_rand(seed, OF_HOST, plan->alike ? 0 : index), own = case_rand(seed, OF_HOST, 1000 + index);
    CaseHost what = { .numa = numas[pick(dice, G_N_ELEMENTS(numas))],
                      .cores = 2 + pick(dice, 7),
                      .housekeeping = chance(dice, 40),
                      .small = smalls[pick(dice, G_N_ELEMENTS(smalls))],
                      .large = chance(dice, 60) ? 2 + pick(dice, 8) : 0 };
    what.small = what.small || what.large ? what.small : 4096;
    g_autofree char *name = g_strdup_printf("n%u", index);
    WeftHost *host = case_host(name, plan->two_fabrics && chance(own, 50) ? "ib1" : "ib0", &what);
    add_pages(host, own);
    add_devices(host, dice, index);
    for (guint i = 0; i < host->hcas->len; i++) /* else hosts that are alike would have the same ports */
        if (((WeftHca *)host->hcas->pdata[i])->port_guid)
            ((WeftHca *)host->hcas->pdata[i])->port_guid = 0x100 * (index + 1) + i + 1;
    host->leaf = plan->mapped || chance(own, 4) ? NULL : g_strdup_printf("leaf%u", pick(own, plan->leaves));
    g_hash_table_insert(host->labels, g_strdup("rack"), g_strdup_printf("r%u", pick(own, 3)));
    BookHost *it = books_add(books, host);
    it->open = !chance(own, 6);
    it->found = random_found(host, own);
}

Books *
case_fleet(guint32 seed, CaseLimits limits)
{
    g_autoptr(GRand) dice = case_rand(seed, OF_FLEET, 0);
    guint few = 1 + pick(dice, MAX(6, limits.hosts / 10));
    Plan plan = { chance(dice, 20) ? few + 10 : few, chance(dice, 40), chance(dice, 10), chance(dice, 10) };
    guint hosts = limits.hosts > SMALL ? limits.hosts : 1 + pick(dice, SMALL);
    Books *books = books_new();
    for (guint i = 0; i < MIN(hosts, limits.hosts); i++)
        if (i >= 64 || !(limits.absent >> i & 1))
            add_host(books, seed, i, &plan);
    for (guint i = 0; i < (plan.two_fabrics ? 2U : 1U); i++) {
        g_autoptr(GRand) own = case_rand(seed, OF_FABRIC, i);
        char *name = g_strdup_printf("ib%u", i);
        if (chance(own, 80) || plan.mapped)
            g_hash_table_insert(books->fabrics, name, random_fabric(books, name, plan.leaves, seed));
        else
            g_free(name);
    }
    return books;
}

/* --- requests --- */

void
case_free(Case *it)
{
    if (!it)
        return;
    weft_cluster_free(it->cluster);
    g_clear_pointer(&it->avoid, g_hash_table_unref);
    g_free(it);
}

static void
choose_path(WeftGroup *group, GRand *dice, gboolean devices)
{
    static const WeftPath paths[] = { WEFT_PATH_SRIOV,  WEFT_PATH_SRIOV,  WEFT_PATH_SRIOV,       WEFT_PATH_SRIOV,
                                      WEFT_PATH_BRIDGE, WEFT_PATH_BRIDGE, WEFT_PATH_PASSTHROUGH, WEFT_PATH_AUTO };
    group->path = paths[pick(dice, G_N_ELEMENTS(paths))];
    if (devices && (group->path == WEFT_PATH_BRIDGE || group->path == WEFT_PATH_AUTO))
        group->path = WEFT_PATH_SRIOV;
    group->rails = group->path == WEFT_PATH_BRIDGE ? 0 : 1 + chance(dice, 20);
}

/* Mostly so that each core has as many whole pages. */
static void
choose_memory(WeftGroup *group, GRand *dice)
{
    static const guint64 pages[] = { 0, 0, 0, 0, 0, 0, 2 * M, 2 * M, 2 * M, G };
    static const guint64 for_core[] = { 128 * M, 256 * M, 512 * M, G };
    group->page_size = pages[pick(dice, G_N_ELEMENTS(pages))];
    group->memory = group->cores * for_core[pick(dice, G_N_ELEMENTS(for_core))];
    if (chance(dice, 10))
        group->memory += 2 * M * pick(dice, 200);
    if (group->page_size == G)
        group->memory = group->cores * G * (1 + chance(dice, 20));
}

static void
add_group(Case *it, GRand *dice, gboolean devices, guint nodes)
{
    static const WeftLocality localities[] = { WEFT_LOCALITY_PREFERRED, WEFT_LOCALITY_PREFERRED, WEFT_LOCALITY_REQUIRED,
                                               WEFT_LOCALITY_REQUIRED, WEFT_LOCALITY_NONE };
    guint g = it->cluster->groups->len;
    WeftGroup *group = case_add_group(it->cluster, 0, 1 + pick(dice, chance(dice, 20) ? 12 : 4), 0);
    choose_memory(group, dice);
    choose_path(group, dice, devices);
    group->gpus = chance(dice, 75) ? 0 : 1 + chance(dice, 30);
    group->locality = localities[pick(dice, G_N_ELEMENTS(localities))];
    group->count = it->counts[g] = 1 + pick(dice, MAX(1, nodes / group->cores));
}

static guint
free_cores(const Books *books)
{
    guint n = 0;
    for (guint i = 0; i < books->hosts->len; i++) {
        BookRoom room;
        const BookHost *host = books->hosts->pdata[i];
        g_free(books_count(books, host, &room));
        for (guint numa = 0; numa < host->host->numa->len; numa++)
            n += room.cores[numa];
    }
    return n;
}

static void
choose_hosts(Case *it, GRand *dice, const Books *books)
{
    if (chance(dice, 10))
        g_hash_table_insert(it->cluster->labels, g_strdup("rack"), g_strdup_printf("r%u", pick(dice, 3)));
    if (chance(dice, 85))
        return;
    it->avoid = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < books->hosts->len; i++)
        if (chance(dice, 20))
            g_hash_table_add(it->avoid, ((const BookHost *)books->hosts->pdata[i])->host->name);
}

static gboolean
has_lanes(const Books *books)
{
    const WeftFleetFabric *told = g_hash_table_lookup(books->fabrics, "ib0");
    return told && told->qos.n;
}

Case *
case_request(guint32 seed, guint step, CaseLimits limits, const Books *books)
{
    g_autoptr(GRand) dice = case_rand(seed, OF_REQUEST, step);
    g_autofree char *id = g_strdup_printf("%012u", step);
    Case *it = g_new0(Case, 1);
    it->cluster = case_cluster(id);
    it->cluster->layout = chance(dice, 25) ? WEFT_LAYOUT_SPREAD : WEFT_LAYOUT_COMPACT;
    it->cluster->exclusive = chance(dice, 12);
    it->cluster->bandwidth = chance(dice, 15) && has_lanes(books) ? 1000000000ULL * (1 + pick(dice, 5)) : 0;
    it->cluster->pattern = chance(dice, 6) ? WEFT_PATTERN_ALL + pick(dice, WEFT_PATTERN_MATRIX - WEFT_PATTERN_ALL) : 0;
    guint groups = chance(dice, 55) ? 1 : 2 + pick(dice, 2);
    double most = chance(dice, 75) ? 0.25 : 1.1; /* most find a place, the others nearly one */
    guint cores = (guint)(free_cores(books) * g_rand_double_range(dice, 0, most)) / groups;
    for (guint g = 0; g < groups; g++) {
        g_autoptr(GRand) own = case_rand(seed, OF_GROUP, step * WEFT_GROUPS_MAX + g);
        add_group(it, own, it->cluster->bandwidth > 0, cores);
        it->counts[g] = MIN(it->counts[g], limits.nodes);
    }
    choose_hosts(it, dice, books);
    it->request = (WeftPlaceRequest){ .cluster = it->cluster, .counts = it->counts, .avoid = it->avoid };
    return it;
}

/* Where it is, and in which lane; FALSE: nowhere. */
static gboolean
find(const Books *books, const char *cluster, const char **ret_fabric, guint *ret_sl)
{
    for (guint h = 0; h < books->hosts->len; h++) {
        const BookHost *host = books->hosts->pdata[h];
        for (guint i = 0; i < host->seats->len; i++) {
            const BookSeat *seat = &g_array_index(host->seats, BookSeat, i);
            if (strcmp(seat->cluster, cluster) != 0)
                continue;
            *ret_fabric = host->host->fabric;
            *ret_sl = seat->seat.sl;
            return TRUE;
        }
    }
    return FALSE;
}

Case *
case_growth(const Case *first, guint32 seed, guint step, const Books *books)
{
    g_autoptr(GRand) dice = case_rand(seed, OF_REQUEST, step);
    Case *it = g_new0(Case, 1);
    it->cluster = weft_cluster_copy(first->cluster);
    for (guint g = 0; g < it->cluster->groups->len; g++)
        it->counts[g] = pick(dice, first->counts[g] + 1);
    it->counts[0] = MAX(1, it->counts[0]);
    it->request = (WeftPlaceRequest){ .cluster = it->cluster, .counts = it->counts };
    if (!find(books, it->cluster->id, &it->request.fabric, &it->request.sl))
        it->request.fabric = NULL;
    return it;
}

/* --- in words --- */

char *
case_text(const Case *it)
{
    GString *text = g_string_new("request ");
    json_auto_t *json = weft_cluster_to_json(it->cluster);
    char *dump = json_dumps(json, JSON_SORT_KEYS);
    g_string_append_printf(text, "%s\n  counts", dump);
    free(dump);
    for (guint g = 0; g < it->cluster->groups->len; g++) {
        const WeftGroup *group = it->cluster->groups->pdata[g];
        g_string_append_printf(text,
                               " %u (%u cores, %" G_GUINT64_FORMAT " MiB, pages %" G_GUINT64_FORMAT
                               ", %u GPUs, %u rails, path %d, locality %d)",
                               it->counts[g], group->cores, group->memory / M, group->page_size, group->gpus, group->rails,
                               group->path, group->locality);
    }
    g_string_append_printf(text, ", layout %d, exclusive %d, bandwidth %" G_GUINT64_FORMAT ", fabric %s, sl %u, avoids",
                           it->cluster->layout, it->cluster->exclusive, it->cluster->bandwidth,
                           it->request.fabric ? it->request.fabric : "any", it->request.sl);
    g_autofree gpointer *names = it->avoid ? g_hash_table_get_keys_as_array(it->avoid, NULL) : NULL;
    for (guint i = 0; names && names[i]; i++)
        g_string_append_printf(text, " %s", (const char *)names[i]);
    return g_string_free(text, FALSE);
}

static void
append_room(GString *text, const Books *books, const BookHost *host)
{
    BookRoom room;
    g_autofree char *wrong = books_count(books, host, &room);
    g_string_append(text, "    free:");
    for (guint n = 0; n < host->host->numa->len; n++) {
        g_string_append_printf(text, " numa%u %u cores", n, room.cores[n]);
        for (guint s = 0; s < g_array_index(host->host->numa, WeftNuma, n).n_pages; s++)
            g_string_append_printf(text, " %" G_GUINT64_FORMAT "x%" G_GUINT64_FORMAT "M", room.pages[n][s],
                                   g_array_index(host->host->numa, WeftNuma, n).pages[s].size / M);
    }
    for (guint h = 0; h < host->host->hcas->len; h++)
        g_string_append_printf(text, " hca%u %u%s", h, room.vfs[h], room.whole[h] ? " whole" : "");
    for (guint i = 0; i < host->host->gpus->len; i++)
        g_string_append_printf(text, "%s", room.gpus[i] ? " gpu" : " -");
    g_string_append_printf(text, "; %u nodes, %s%s%s\n", host->seats->len, host->open ? "open" : "closed",
                           wrong ? ", wrong: " : "", wrong ? wrong : "");
}

char *
case_fleet_text(const Books *books)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < books->hosts->len; i++) {
        const BookHost *host = books->hosts->pdata[i];
        json_auto_t *json = weft_host_to_json(host->host);
        char *dump = json_dumps(json, JSON_SORT_KEYS);
        g_string_append_printf(text, "  %s (leaf \"%s\"%s)\n", dump, books_leaf(books, host),
                               host->found ? ", lacks devices" : "");
        free(dump);
        append_room(text, books, host);
    }
    return g_string_free(text, FALSE);
}
