#include "site.h"

#include "errors.h"

#include <string.h>

#define FABRIC "sim"
#define PAGE (2ULL << 20)
#define HOPS_MAX 254

/* --- one host --- */

/* Memory goes with the cores, so that each core has as much as any other near it. */
static void
add_numa(WeftHost *host, const WeftSiteOptions *o, guint index)
{
    guint cores = o->cores / o->sockets + (index < o->cores % o->sockets);
    WeftNuma numa = { .n_pages = 1, .pages = { { PAGE, o->memory / o->cores / PAGE * cores } } };
    g_array_append_val(host->numa, numa);
    for (guint i = 0; i < cores; i++) {
        guint id = host->cores->len;
        WeftCore core = { .id = (guint16)id, .numa = (guint8)index, .n_cpus = 1, .cpus = { (guint16)id } };
        g_array_append_val(host->cores, core);
    }
}

static void
add_hca(WeftHost *host, const WeftSiteOptions *o, guint64 port_guid, const char *leaf)
{
    WeftHca *hca = weft_hca_new();
    hca->name = g_strdup_printf("mlx5_%u", host->hcas->len);
    hca->driver = WEFT_HCA_MLX5;
    hca->numa = host->hcas->len % o->sockets;
    hca->rail = host->hcas->len;
    hca->port_guid = port_guid;
    hca->vfs = o->vfs;
    hca->leaf = g_strdup(leaf);
    g_ptr_array_add(host->hcas, hca);
}

static WeftHost *
host_new(const WeftSiteOptions *o, char *name, const char *leaf)
{
    WeftHost *host = weft_host_new();
    host->name = name;
    host->uri = g_strdup("simulated:///");
    host->fabric = g_strdup(FABRIC);
    host->leaf = g_strdup(leaf);
    for (guint i = 0; i < o->sockets; i++)
        add_numa(host, o, i);
    for (guint i = 0; i < o->gpus; i++) {
        WeftGpu *gpu = g_new0(WeftGpu, 1);
        gpu->name = g_strdup_printf("gpu%u", i);
        gpu->numa = i * o->sockets / o->gpus;
        g_ptr_array_add(host->gpus, gpu);
    }
    return host;
}

static void
take_host(WeftSite *site, WeftHost *host)
{
    g_autofree char *name = g_strdup(host->name);
    weft_fleet_put_host(site->fleet, host);
    weft_fleet_set_open(site->fleet, name, TRUE);
}

static WeftSite *
site_new(const WeftSiteOptions *options)
{
    WeftSite *site = g_new0(WeftSite, 1);
    site->options = *options;
    site->fleet = weft_fleet_new();
    return site;
}

void
weft_site_free(WeftSite *site)
{
    if (!site)
        return;
    weft_fleet_free(site->fleet);
    g_free(site);
}

guint64
weft_site_cores(const WeftSite *site)
{
    return (guint64)site->options.hosts * site->options.cores;
}

/* --- a fat tree --- */

/* Up to the first level at which both are below the same switches, and down again. */
static guint
tree_hops(const WeftSiteOptions *o, guint a, guint b)
{
    guint up = 0;
    for (; a != b; up++) {
        a = up + 2 < o->levels ? a / o->radix : 0;
        b = up + 2 < o->levels ? b / o->radix : 0;
    }
    return MIN(2 * up, HOPS_MAX);
}

/* Names of the leaves, and how far they are from each other. */
static GPtrArray *
tell_tree(WeftSite *site)
{
    guint n = site->leaves;
    GPtrArray *names = g_ptr_array_new_full(n, g_free);
    WeftFleetFabric told = { .switches = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                             .hops = g_array_sized_new(FALSE, FALSE, sizeof(guint8), n * n) };
    for (guint a = 0; a < n; a++) {
        g_ptr_array_add(names, g_strdup_printf("leaf%u", a + 1));
        g_hash_table_insert(told.switches, g_strdup(names->pdata[a]), GUINT_TO_POINTER(a));
        for (guint b = 0; b < n; b++) {
            guint8 hops = (guint8)tree_hops(&site->options, a, b);
            g_array_append_val(told.hops, hops);
        }
    }
    weft_fleet_set_fabric(site->fleet, FABRIC, &told);
    return names;
}

WeftSite *
weft_site_new(const WeftSiteOptions *options)
{
    WeftSite *site = site_new(options);
    guint leaf_hosts = options->levels > 1 ? options->leaf_hosts : options->hosts;
    site->leaves = (options->hosts + leaf_hosts - 1) / leaf_hosts;
    g_autoptr(GPtrArray) leaves = tell_tree(site);
    for (guint i = 0; i < options->hosts; i++) {
        WeftHost *host = host_new(options, g_strdup_printf("h%u", i + 1), leaves->pdata[i / leaf_hosts]);
        add_hca(host, options, i + 1, NULL);
        take_host(site, host);
    }
    weft_fleet_sort(site->fleet);
    return site;
}

/* --- from a map --- */

/* "n1 mlx5_0" is an adapter of n1, and so is "n1 HCA-2"; all else is what its vendor calls it. */
static char *
host_of(const WeftMapNode *adapter)
{
    g_auto(GStrv) words = g_strsplit(adapter->description, " ", -1);
    if (g_strv_length(words) == 2 && *words[0] && *words[1])
        return g_strdup(words[0]);
    return g_strdup_printf("host-%016" G_GINT64_MODIFIER "x", adapter->guid);
}

/* The first port on a switch; NULL: none. */
static const WeftMapPort *
wired_port(const WeftMapNode *adapter, guint switches)
{
    for (guint i = 0; i < adapter->ports->len; i++) {
        const WeftMapPort *port = &g_array_index(adapter->ports, WeftMapPort, i);
        if (port->guid && port->peer >= 0 && (guint)port->peer < switches)
            return port;
    }
    return NULL;
}

/* Into hosts, by name, and into order, as the map has them. */
static void
add_adapter(const WeftSiteOptions *o, const WeftMapNode *adapter, const GPtrArray *switches, GHashTable *hosts,
            GPtrArray *order)
{
    const WeftMapPort *port = wired_port(adapter, switches->len);
    if (adapter->kind != WEFT_MAP_ADAPTER || !port)
        return;
    g_autofree char *name = host_of(adapter);
    WeftHost *host = g_hash_table_lookup(hosts, name);
    if (!host) {
        host = host_new(o, g_strdup(name), switches->pdata[port->peer]);
        g_hash_table_insert(hosts, host->name, host);
        g_ptr_array_add(order, host);
    }
    if (host->hcas->len < WEFT_RAILS_MAX)
        add_hca(host, o, port->guid, switches->pdata[port->peer]);
}

static void
tell_map(WeftSite *site, const WeftFabricMap *map, const GPtrArray *switches)
{
    WeftFleetFabric told = { .switches = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                             .hops = weft_fabric_map_distances(map) };
    for (guint i = 0; i < switches->len; i++)
        g_hash_table_insert(told.switches, g_strdup(switches->pdata[i]), GUINT_TO_POINTER(i));
    weft_fleet_set_fabric(site->fleet, FABRIC, &told);
}

WeftSite *
weft_site_from_map(const WeftSiteOptions *options, const WeftFabricMap *map, GError **error)
{
    g_autoptr(GPtrArray) switches = weft_fabric_map_switch_names(map);
    g_autoptr(GHashTable) hosts = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) leaves = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GPtrArray) order = g_ptr_array_new();
    for (guint i = 0; i < map->nodes->len; i++)
        add_adapter(options, map->nodes->pdata[i], switches, hosts, order);
    if (order->len == 0) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "no adapter hangs on a switch; give the map of a fabric with hosts");
        return NULL;
    }
    WeftSite *site = site_new(options);
    tell_map(site, map, switches);
    for (guint i = 0; i < order->len; i++) {
        WeftHost *host = order->pdata[i];
        take_host(site, host);
        g_hash_table_add(leaves, host->leaf);
    }
    site->options.hosts = order->len;
    site->leaves = g_hash_table_size(leaves);
    weft_fleet_sort(site->fleet);
    return site;
}
