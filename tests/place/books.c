#include "books.h"

/* --- hosts --- */

static void
seat_clear(gpointer data)
{
    g_free(((BookSeat *)data)->cluster);
}

static void
host_free(gpointer data)
{
    BookHost *host = data;
    weft_host_free(host->host);
    weft_host_free(host->found);
    g_array_unref(host->seats);
    g_free(host);
}

static void
fabric_free(gpointer data)
{
    WeftFleetFabric *fabric = data;
    g_free(fabric->closed);
    g_free(fabric->no_devices);
    g_free(fabric->no_virtual);
    g_free(fabric->no_lanes);
    g_clear_pointer(&fabric->ports, g_hash_table_unref);
    g_clear_pointer(&fabric->rates, g_hash_table_unref);
    g_clear_pointer(&fabric->leaves, g_hash_table_unref);
    g_clear_pointer(&fabric->switches, g_hash_table_unref);
    g_clear_pointer(&fabric->hops, g_array_unref);
    g_free(fabric);
}

Books *
books_new(void)
{
    Books *books = g_new0(Books, 1);
    books->hosts = g_ptr_array_new_with_free_func(host_free);
    books->fabrics = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, fabric_free);
    return books;
}

void
books_free(Books *books)
{
    if (!books)
        return;
    g_ptr_array_unref(books->hosts);
    g_hash_table_unref(books->fabrics);
    g_free(books);
}

BookHost *
books_add(Books *books, WeftHost *host)
{
    BookHost *new = g_new0(BookHost, 1);
    new->host = host;
    new->open = TRUE;
    new->seats = g_array_new(FALSE, FALSE, sizeof(BookSeat));
    g_array_set_clear_func(new->seats, seat_clear);
    g_ptr_array_add(books->hosts, new);
    return new;
}

BookHost *
books_find(const Books *books, const char *name)
{
    for (guint i = 0; i < books->hosts->len; i++) {
        BookHost *host = books->hosts->pdata[i];
        if (g_strcmp0(host->host->name, name) == 0)
            return host;
    }
    return NULL;
}

const WeftFleetFabric *
books_told(const Books *books, const BookHost *host)
{
    static const WeftFleetFabric nothing = { 0 };
    const WeftFleetFabric *told = g_hash_table_lookup(books->fabrics, host->host->fabric);
    return told ? told : &nothing;
}

const char *
books_leaf(const Books *books, const BookHost *host)
{
    const WeftHca *first = NULL;
    for (guint i = 0; i < host->host->hcas->len; i++) {
        const WeftHca *hca = host->host->hcas->pdata[i];
        if (!first || hca->rail < first->rail)
            first = hca;
    }
    if (host->host->leaf)
        return host->host->leaf;
    if (first && first->leaf)
        return first->leaf;
    GHashTable *leaves = books_told(books, host)->leaves;
    const char *leaf = first && leaves ? g_hash_table_lookup(leaves, &first->port_guid) : NULL;
    return leaf ? leaf : "";
}

/* The switch of another rail that hosts of a leaf hang on; NULL: not known. */
static const char *
switch_of(const Books *books, const char *fabric, const char *leaf, guint rail)
{
    for (guint i = 0; i < books->hosts->len; i++) {
        const BookHost *host = books->hosts->pdata[i];
        if (strcmp(host->host->fabric, fabric) != 0 || strcmp(books_leaf(books, host), leaf) != 0)
            continue;
        for (guint h = 0; h < host->host->hcas->len; h++) {
            const WeftHca *hca = host->host->hcas->pdata[h];
            GHashTable *leaves = books_told(books, host)->leaves;
            const char *told = leaves && !host->host->leaf ? g_hash_table_lookup(leaves, &hca->port_guid) : host->host->leaf;
            if (hca->rail == rail && (hca->leaf || told))
                return hca->leaf ? hca->leaf : told;
        }
    }
    return NULL;
}

static gboolean
find_row(const WeftFleetFabric *told, const char *name, guint *ret_row)
{
    gpointer row;
    gboolean found = name && told->switches && g_hash_table_lookup_extended(told->switches, name, NULL, &row);
    *ret_row = found ? GPOINTER_TO_UINT(row) : 0;
    return found;
}

static guint
hops_between(const WeftFleetFabric *told, guint a, guint b)
{
    guint hops = g_array_index(told->hops, guint8, a * g_hash_table_size(told->switches) + b);
    return hops == 255 ? G_MAXUINT : hops;
}

guint
books_hops(const Books *books, const char *fabric, const char *a, const char *b)
{
    const WeftFleetFabric *told = g_hash_table_lookup(books->fabrics, fabric);
    guint from, to;
    if (!told || !find_row(told, a, &from) || !find_row(told, b, &to))
        return G_MAXUINT;
    guint most = hops_between(told, from, to);
    for (guint rail = 1; rail < WEFT_RAILS_MAX; rail++)
        if (find_row(told, switch_of(books, fabric, a, rail), &from) && find_row(told, switch_of(books, fabric, b, rail), &to))
            most = MAX(most, hops_between(told, from, to));
    return most;
}

/* --- who sits where --- */

void
books_take(Books *books, const WeftFleet *fleet, const WeftSeat *seats, guint n, const char *cluster)
{
    for (guint i = 0; i < n; i++) {
        BookHost *host = books_find(books, weft_fleet_name(fleet, seats[i].host));
        g_array_append_val(host->seats, ((BookSeat){ g_strdup(cluster), seats[i] }));
    }
}

void
books_give(Books *books, const char *cluster)
{
    for (guint h = 0; h < books->hosts->len; h++) {
        GArray *seats = ((BookHost *)books->hosts->pdata[h])->seats;
        for (guint i = seats->len; i-- > 0;)
            if (strcmp(g_array_index(seats, BookSeat, i).cluster, cluster) == 0)
                g_array_remove_index(seats, i);
    }
}

/* --- counting --- */

typedef struct Count {
    const BookHost *host;
    BookRoom *room;
    gboolean core[WEFT_CORES_MAX]; /* taken */
    gboolean vf[WEFT_HCAS_MAX][WEFT_VFS_MAX];
    gboolean whole[WEFT_HCAS_MAX];
    gboolean gpu[WEFT_GPUS_MAX];
} Count;

static const WeftHca *
hca_of(const BookHost *host, guint hca)
{
    return host->host->hcas->pdata[hca];
}

/* What the host says that it has of the HCA; NULL: nothing. */
static const WeftHca *
found_hca(const BookHost *host, guint hca)
{
    return host->found ? weft_host_hca(host->found, hca_of(host, hca)->name) : hca_of(host, hca);
}

static gboolean
found_gpu(const BookHost *host, const char *name)
{
    for (guint i = 0; host->found && i < host->found->gpus->len; i++)
        if (strcmp(((const WeftGpu *)host->found->gpus->pdata[i])->name, name) == 0)
            return TRUE;
    return !host->found;
}

gboolean
books_gives_port(const Books *books, const BookHost *host, guint hca)
{
    return hca_of(host, hca)->port_guid && !books_told(books, host)->no_devices;
}

gboolean
books_gives_functions(const Books *books, const BookHost *host, guint hca)
{
    const WeftHca *it = hca_of(host, hca);
    return it->vfs && books_gives_port(books, host, hca) &&
           !(it->driver == WEFT_HCA_MLX5 && books_told(books, host)->no_virtual);
}

static char *
count_cores(Count *count, const WeftSeat *seat)
{
    const GArray *cores = count->host->host->cores;
    guint in[WEFT_NUMA_MAX] = { 0 };
    for (guint i = 0; i < WEFT_CORES_MAX; i++) {
        if (!(seat->cores.words[i / 64] >> i % 64 & 1))
            continue;
        if (i >= cores->len || g_array_index(cores, WeftCore, i).housekeeping)
            return g_strdup_printf("core %u is no node's", i);
        if (count->core[i])
            return g_strdup_printf("core %u is used twice", i);
        count->core[i] = TRUE;
        in[g_array_index(cores, WeftCore, i).numa]++;
    }
    for (guint i = 0; i < seat->n_parts; i++)
        if (in[seat->parts[i].numa] != seat->parts[i].cores)
            return g_strdup_printf("a part of %u cores has %u in NUMA node %u", seat->parts[i].cores, in[seat->parts[i].numa],
                                   seat->parts[i].numa);
    return NULL;
}

static char *
count_pages(Count *count, const WeftSeat *seat)
{
    const GArray *numa = count->host->host->numa;
    for (guint i = 0; i < seat->n_parts; i++) {
        const WeftSeatPart *part = &seat->parts[i];
        if (part->numa >= numa->len || (part->pages && part->size >= g_array_index(numa, WeftNuma, part->numa).n_pages))
            return g_strdup_printf("there are no pages %u in NUMA node %u", part->size, part->numa);
        guint64 *free = &count->room->pages[part->numa][part->size];
        if (part->pages > *free)
            return g_strdup_printf("%u pages %u of NUMA node %u are taken, and %" G_GUINT64_FORMAT " there", part->pages,
                                   part->size, part->numa, *free);
        *free -= part->pages;
    }
    return NULL;
}

static char *
count_devices(Count *count, const WeftSeat *seat)
{
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        guint hca = seat->hca[rail];
        gint8 vf = seat->vf[rail];
        if (hca >= count->host->host->hcas->len || vf >= (int)hca_of(count->host, hca)->vfs)
            return g_strdup_printf("there is no function %d of HCA %u", vf, hca);
        if (hca_of(count->host, hca)->rail != rail)
            return g_strdup_printf("HCA %u is not on rail %u", hca, rail);
        if (count->whole[hca] || (vf >= 0 && count->vf[hca][vf]))
            return g_strdup_printf("function %d of HCA %u is used twice", vf, hca);
        for (guint i = 0; vf < 0 && i < WEFT_VFS_MAX; i++)
            if (count->vf[hca][i])
                return g_strdup_printf("the whole HCA %u is given, and its function %u too", hca, i);
        if (vf < 0)
            count->whole[hca] = TRUE;
        else
            count->vf[hca][vf] = TRUE;
    }
    return NULL;
}

static char *
count_gpus(Count *count, const WeftSeat *seat)
{
    for (guint i = 0; i < 32; i++) {
        if (!(seat->gpus >> i & 1))
            continue;
        if (i >= count->host->host->gpus->len)
            return g_strdup_printf("there is no GPU %u", i);
        if (count->gpu[i])
            return g_strdup_printf("GPU %u is used twice", i);
        count->gpu[i] = TRUE;
    }
    return NULL;
}

static void
begin(Count *count)
{
    const WeftHost *host = count->host->host;
    *count->room = (BookRoom){ 0 };
    for (guint n = 0; n < host->numa->len; n++) {
        const WeftNuma *numa = &g_array_index(host->numa, WeftNuma, n);
        for (guint i = 0; i < numa->n_pages; i++)
            count->room->pages[n][i] = numa->pages[i].count;
    }
}

static void
sum_up(const Books *books, const Count *count)
{
    const BookHost *host = count->host;
    BookRoom *room = count->room;
    for (guint i = 0; i < host->host->cores->len; i++) {
        const WeftCore *core = &g_array_index(host->host->cores, WeftCore, i);
        room->cores[core->numa] += !core->housekeeping && !count->core[i];
    }
    for (guint h = 0; h < host->host->hcas->len; h++) {
        const WeftHca *found = found_hca(host, h);
        gboolean touched = count->whole[h];
        for (guint vf = 0; vf < hca_of(host, h)->vfs; vf++) {
            touched |= count->vf[h][vf];
            room->vfs[h] += found && vf < found->vfs && !count->whole[h] && !count->vf[h][vf];
        }
        room->vfs[h] = books_gives_functions(books, host, h) ? room->vfs[h] : 0;
        room->whole[h] = found && books_gives_port(books, host, h) && !touched;
    }
    for (guint i = 0; i < host->host->gpus->len; i++)
        room->gpus[i] = !count->gpu[i] && found_gpu(host, ((const WeftGpu *)host->host->gpus->pdata[i])->name);
}

/* Of the host's seats with this cluster; the first one's exclusive speaks for all. */
static char *
check_company(const BookHost *host)
{
    for (guint i = 0; i < host->seats->len; i++)
        for (guint j = 0; j < host->seats->len; j++) {
            const BookSeat *a = &g_array_index(host->seats, BookSeat, i), *b = &g_array_index(host->seats, BookSeat, j);
            if (a->seat.exclusive && strcmp(a->cluster, b->cluster) != 0)
                return g_strdup_printf("%s is to be alone, and %s is there too", a->cluster, b->cluster);
        }
    return NULL;
}

/* Has the seat a device of the HCA? */
static gboolean
uses(const WeftSeat *seat, guint hca)
{
    for (guint rail = 0; rail < seat->n_rails; rail++)
        if (seat->hca[rail] == hca)
            return TRUE;
    return FALSE;
}

static guint
count_keys(const BookHost *host, guint hca, const char *cluster, gboolean *ret_has)
{
    g_autoptr(GHashTable) keys = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < host->seats->len; i++) {
        const BookSeat *seat = &g_array_index(host->seats, BookSeat, i);
        if (uses(&seat->seat, hca))
            g_hash_table_add(keys, seat->cluster);
    }
    *ret_has = cluster && g_hash_table_contains(keys, cluster);
    return g_hash_table_size(keys);
}

/* 0: any number. */
static guint
keys_most(const Books *books, const BookHost *host, guint hca)
{
    gpointer most;
    const WeftFleetFabric *told = books_told(books, host);
    if (told->ports && g_hash_table_lookup_extended(told->ports, &hca_of(host, hca)->port_guid, NULL, &most))
        return GPOINTER_TO_UINT(most);
    return told->pkeys;
}

gboolean
books_takes_key(const Books *books, const BookHost *host, guint hca, const char *cluster)
{
    gboolean has;
    guint n = count_keys(host, hca, cluster, &has), most = keys_most(books, host, hca);
    return has || most == 0 || n < most;
}

static guint64
lane_total(const Books *books, const BookHost *host, guint hca, guint sl)
{
    const WeftFleetFabric *told = books_told(books, host);
    const guint64 *rate = told->rates ? g_hash_table_lookup(told->rates, &hca_of(host, hca)->port_guid) : NULL;
    for (guint i = 0; rate && i < told->qos.n; i++)
        if (told->qos.lanes[i].sl == sl)
            return weft_lane_room(&told->qos.lanes[i], *rate);
    return 0;
}

static guint64
promised(const BookHost *host, guint hca, guint sl)
{
    guint64 bits = 0;
    for (guint i = 0; i < host->seats->len; i++) {
        const WeftSeat *seat = &g_array_index(host->seats, BookSeat, i).seat;
        if (seat->bandwidth && seat->sl == sl && uses(seat, hca))
            bits += seat->bandwidth;
    }
    return bits;
}

guint64
books_lane_room(const Books *books, const BookHost *host, guint hca, guint sl)
{
    guint64 total = lane_total(books, host, hca, sl);
    return total - MIN(total, promised(host, hca, sl));
}

static char *
check_ports(const Books *books, const BookHost *host)
{
    const WeftFleetFabric *told = books_told(books, host);
    for (guint hca = 0; hca < host->host->hcas->len; hca++) {
        gboolean has;
        guint keys = count_keys(host, hca, NULL, &has), most = keys_most(books, host, hca);
        if (most && keys > most)
            return g_strdup_printf("the port of HCA %u has %u P_Keys, and room for %u", hca, keys, most);
        for (guint i = 0; i < told->qos.n; i++)
            if (promised(host, hca, told->qos.lanes[i].sl) > lane_total(books, host, hca, told->qos.lanes[i].sl))
                return g_strdup_printf("more is promised in lane %u of HCA %u than it has", told->qos.lanes[i].sl, hca);
    }
    return NULL;
}

char *
books_count(const Books *books, const BookHost *host, BookRoom *ret_room)
{
    static char *(*const counts[])(Count *, const WeftSeat *) = { count_cores, count_pages, count_devices, count_gpus };
    Count count = { .host = host, .room = ret_room };
    begin(&count);
    for (guint i = 0; i < host->seats->len; i++)
        for (guint k = 0; k < G_N_ELEMENTS(counts); k++) {
            char *wrong = counts[k](&count, &g_array_index(host->seats, BookSeat, i).seat);
            if (wrong)
                return wrong;
        }
    sum_up(books, &count);
    char *wrong = check_company(host);
    return wrong ? wrong : check_ports(books, host);
}

char *
books_check(const Books *books)
{
    BookRoom room;
    for (guint i = 0; i < books->hosts->len; i++) {
        const BookHost *host = books->hosts->pdata[i];
        g_autofree char *wrong = books_count(books, host, &room);
        if (wrong)
            return g_strdup_printf("host %s: %s", host->host->name, wrong);
    }
    return NULL;
}

/* --- who may be where --- */

static gboolean
has_labels(const WeftHost *host, GHashTable *labels)
{
    GHashTableIter iter;
    gpointer name, value;
    for (g_hash_table_iter_init(&iter, labels); g_hash_table_iter_next(&iter, &name, &value);)
        if (g_strcmp0(g_hash_table_lookup(host->labels, name), value) != 0)
            return FALSE;
    return TRUE;
}

static gboolean
allows_company(const BookHost *host, const WeftCluster *cluster)
{
    for (guint i = 0; i < host->seats->len; i++) {
        const BookSeat *seat = &g_array_index(host->seats, BookSeat, i);
        if ((seat->seat.exclusive || cluster->exclusive) && g_strcmp0(seat->cluster, cluster->id) != 0)
            return FALSE;
    }
    return TRUE;
}

gboolean
books_allows(const Books *books, const BookHost *host, const WeftPlaceRequest *request)
{
    const char *fabric = request->fabric ? request->fabric : request->cluster->fabric;
    return host->open && !books_told(books, host)->closed && (!fabric || strcmp(fabric, host->host->fabric) == 0) &&
           !(request->avoid && g_hash_table_contains(request->avoid, host->host->name)) &&
           has_labels(host->host, request->cluster->labels) && allows_company(host, request->cluster);
}

WeftPath
books_path(const Books *books, const char *fabric, const WeftCluster *cluster, const WeftGroup *group)
{
    if (group->path != WEFT_PATH_AUTO)
        return group->path;
    for (guint i = 0; group->rails && !cluster->bridged && i < books->hosts->len; i++) {
        const BookHost *host = books->hosts->pdata[i];
        for (guint h = 0; strcmp(host->host->fabric, fabric) == 0 && h < host->host->hcas->len; h++)
            if (books_gives_functions(books, host, h))
                return WEFT_PATH_SRIOV;
    }
    return WEFT_PATH_BRIDGE;
}
