#include "map.h"

#include "errors.h"
#include "text.h"

#include <string.h>

#define FAR 255 /* no way from one switch to another */
#define MEGABIT G_GUINT64_CONSTANT(1000000)

const char *const weft_map_kind_words[] = { "switch", "adapter", "router", NULL };

static void
node_free(WeftMapNode *node)
{
    g_free(node->description);
    g_array_unref(node->ports);
    g_free(node);
}

WeftFabricMap *
weft_fabric_map_new(void)
{
    WeftFabricMap *map = g_new0(WeftFabricMap, 1);
    map->nodes = g_ptr_array_new_with_free_func((GDestroyNotify)node_free);
    return map;
}

WeftFabricMap *
weft_fabric_map_copy(const WeftFabricMap *map)
{
    WeftFabricMap *copy = weft_fabric_map_new();
    for (guint i = 0; i < map->nodes->len; i++) {
        const WeftMapNode *node = map->nodes->pdata[i];
        WeftMapNode *twin = weft_fabric_map_add(copy, node->kind, node->guid, node->description);
        if (node->ports->len > 0)
            g_array_append_vals(twin->ports, node->ports->data, node->ports->len);
    }
    return copy;
}

void
weft_fabric_map_free(WeftFabricMap *map)
{
    if (!map)
        return;
    g_ptr_array_unref(map->nodes);
    g_free(map);
}

WeftMapNode *
weft_fabric_map_add(WeftFabricMap *map, WeftMapKind kind, guint64 guid, const char *description)
{
    WeftMapNode *node = g_new0(WeftMapNode, 1);
    *node = (WeftMapNode){ .kind = kind,
                           .guid = guid,
                           .description = g_strdup(description ? description : ""),
                           .ports = g_array_new(FALSE, TRUE, sizeof(WeftMapPort)) };
    g_ptr_array_add(map->nodes, node);
    return node;
}

/* Megabits a second of one lane, and lanes, by their bits; the best first. */
typedef struct {
    guint bit;
    guint value;
} Speed;
static const Speed extended_speeds[] = { { 8, 100000 }, { 4, 50000 }, { 2, 25000 }, { 1, 14000 } };
static const Speed plain_speeds[] = { { 4, 10000 }, { 2, 5000 }, { 1, 2500 } };
static const Speed widths[] = { { 16, 2 }, { 8, 12 }, { 4, 8 }, { 2, 4 }, { 1, 1 } };

static guint
look_up(const Speed *table, gsize n, guint bits)
{
    for (gsize i = 0; i < n; i++)
        if (bits & table[i].bit)
            return table[i].value;
    return 0;
}

guint64
weft_map_rate(guint extended, guint plain, guint width)
{
    guint lane = look_up(extended_speeds, G_N_ELEMENTS(extended_speeds), extended);
    if (lane == 0)
        lane = look_up(plain_speeds, G_N_ELEMENTS(plain_speeds), plain);
    return lane * look_up(widths, G_N_ELEMENTS(widths), width) * MEGABIT;
}

const WeftMapPort *
weft_map_node_port(const WeftMapNode *node, guint number)
{
    guint from = 0, to = node->ports->len;
    while (from < to) {
        guint middle = from + (to - from) / 2;
        const WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, middle);
        if (port->number == number)
            return port;
        if (port->number < number)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

static gboolean
is_switch(const WeftFabricMap *map, int index)
{
    return index >= 0 && ((const WeftMapNode *)map->nodes->pdata[index])->kind == WEFT_MAP_SWITCH;
}

guint
weft_fabric_map_switches(const WeftFabricMap *map)
{
    guint n = 0;
    while (n < map->nodes->len && is_switch(map, (int)n))
        n++;
    return n;
}

/* --- sealing --- */

static int
compare_ports(gconstpointer a, gconstpointer b)
{
    return (int)((const WeftMapPort *)a)->number - (int)((const WeftMapPort *)b)->number;
}

static int
compare_places(gconstpointer a, gconstpointer b, gpointer data)
{
    const WeftFabricMap *map = data;
    const WeftMapNode *x = map->nodes->pdata[*(const guint *)a], *y = map->nodes->pdata[*(const guint *)b];
    if (x->kind != y->kind)
        return (int)x->kind - (int)y->kind;
    return x->guid < y->guid ? -1 : x->guid > y->guid;
}

/* Puts the nodes in order; cables name nodes by index, and follow them. */
static void
sort_nodes(WeftFabricMap *map)
{
    guint n = map->nodes->len;
    g_autofree guint *order = g_new(guint, n + 1);
    g_autofree int *place = g_new(int, n + 1);
    for (guint i = 0; i < n; i++)
        order[i] = i;
    g_qsort_with_data(order, (int)n, sizeof *order, compare_places, map);

    g_autofree gpointer *nodes = g_memdup2(map->nodes->pdata, n * sizeof(gpointer));
    for (guint i = 0; i < n; i++) {
        map->nodes->pdata[i] = nodes[order[i]];
        place[order[i]] = (int)i;
    }
    for (guint i = 0; i < n; i++) {
        GArray *ports = ((WeftMapNode *)map->nodes->pdata[i])->ports;
        g_array_sort(ports, compare_ports);
        for (guint p = 0; p < ports->len; p++) {
            WeftMapPort *port = &g_array_index(ports, WeftMapPort, p);
            if (port->peer >= 0 && (guint)port->peer < n)
                port->peer = place[port->peer];
        }
    }
}

static gboolean
refuse_node(const WeftMapNode *node, GError **error, const char *what)
{
    g_autofree char *description = weft_text_quote(node->description);
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s 0x%016" G_GINT64_MODIFIER "x (%s): %s",
                             weft_map_kind_words[node->kind], node->guid, description, what);
}

static gboolean
refuse_port(const WeftMapNode *node, guint number, GError **error, const char *what)
{
    g_autofree char *text = g_strdup_printf("port %u %s", number, what);
    return refuse_node(node, error, text);
}

static gboolean
check_port(const WeftFabricMap *map, int index, const WeftMapPort *port, GError **error)
{
    const WeftMapNode *node = map->nodes->pdata[index];
    if (port->number > WEFT_MAP_PORTS_MAX)
        return refuse_port(node, port->number, error, "is beyond 255, the last that a node can have");
    if (port->lid > WEFT_MAP_LID_MAX)
        return refuse_port(node, port->number, error, "has a LID above 65535, the highest that there is");
    if (port->rate > WEFT_MAP_RATE_MAX)
        return refuse_port(node, port->number, error, "is faster than 10 Tbit/s, which no link is");
    if (port->peer < 0)
        return TRUE;
    if ((guint)port->peer >= map->nodes->len)
        return refuse_port(node, port->number, error, "has a cable to a node that is not in the map");
    const WeftMapPort *far = weft_map_node_port(map->nodes->pdata[port->peer], port->peer_port);
    if (!far || far->peer != index || far->peer_port != port->number)
        return refuse_port(node, port->number, error, "has a cable of which the other end is missing or goes elsewhere");
    return TRUE;
}

static gboolean
check_node(const WeftFabricMap *map, guint i, GError **error)
{
    const WeftMapNode *node = map->nodes->pdata[i];
    for (guint p = 0; p < node->ports->len; p++) {
        const WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, p);
        if (p > 0 && port[-1].number == port->number)
            return refuse_port(node, port->number, error, "is there twice");
        if (!check_port(map, (int)i, port, error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_fabric_map_seal(WeftFabricMap *map, GError **error)
{
    if (map->nodes->len > WEFT_MAP_NODES_MAX)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "a fabric of %u nodes; one subnet holds at most %u",
                                 map->nodes->len, WEFT_MAP_NODES_MAX);
    sort_nodes(map);
    if (weft_fabric_map_switches(map) > WEFT_MAP_SWITCHES_MAX)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "a fabric of %u switches; weft measures the ways between at most %u",
                                 weft_fabric_map_switches(map), WEFT_MAP_SWITCHES_MAX);
    g_autoptr(GHashTable) guids = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < map->nodes->len; i++) {
        WeftMapNode *node = map->nodes->pdata[i];
        if (!g_hash_table_add(guids, &node->guid))
            return refuse_node(node, error, "is there twice");
        if (!check_node(map, i, error))
            return FALSE;
    }
    return TRUE;
}

/* --- asking it --- */

WeftMapPlace
weft_fabric_map_find_port(const WeftFabricMap *map, guint64 port_guid)
{
    for (guint i = 0; port_guid && i < map->nodes->len; i++) {
        const WeftMapNode *node = map->nodes->pdata[i];
        for (guint p = 0; p < node->ports->len; p++) {
            const WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, p);
            if (port->guid == port_guid)
                return (WeftMapPlace){ .node = (int)i, .port = port->number };
        }
    }
    return (WeftMapPlace){ .node = -1 };
}

int
weft_fabric_map_leaf(const WeftFabricMap *map, guint64 port_guid)
{
    WeftMapPlace place = weft_fabric_map_find_port(map, port_guid);
    if (place.node < 0)
        return -1;
    if (is_switch(map, place.node))
        return place.node;
    const WeftMapPort *port = weft_map_node_port(map->nodes->pdata[place.node], place.port);
    return is_switch(map, port->peer) ? port->peer : -1;
}

/* --- names of switches --- */

static gboolean
is_generated(const char *name)
{
    return g_str_has_prefix(name, "switch-") && strlen(name) == strlen("switch-") + 16;
}

/* What a description says a switch is called: managed ones call themselves "MF0;leaf1:MSB7700/U1". NULL: nothing that is a
 * word. */
static char *
described_name(const char *description)
{
    const char *start = strchr(description, ';');
    g_autofree char *name = g_strstrip(g_strdup(start ? start + 1 : description));
    char *model = start ? strchr(name, ':') : NULL;
    if (model)
        *model = '\0';
    if (strlen(name) > WEFT_MAP_NAME_MAX || !g_ascii_isalnum(*name) || is_generated(name))
        return NULL;
    if (name[strspn(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._-")])
        return NULL;
    return g_steal_pointer(&name);
}

GPtrArray *
weft_fabric_map_switch_names(const WeftFabricMap *map)
{
    guint n = weft_fabric_map_switches(map);
    GPtrArray *names = g_ptr_array_new_full(n, g_free);
    g_autoptr(GHashTable) count = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < n; i++) {
        char *name = described_name(((const WeftMapNode *)map->nodes->pdata[i])->description);
        g_ptr_array_add(names, name);
        if (name)
            g_hash_table_insert(count, name, GUINT_TO_POINTER(1 + GPOINTER_TO_UINT(g_hash_table_lookup(count, name))));
    }
    g_autoptr(GPtrArray) shared = g_ptr_array_new_with_free_func(g_free); /* still keys of count */
    for (guint i = 0; i < n; i++) {
        char *name = names->pdata[i];
        if (name && GPOINTER_TO_UINT(g_hash_table_lookup(count, name)) == 1)
            continue;
        const WeftMapNode *node = map->nodes->pdata[i];
        names->pdata[i] = g_strdup_printf("switch-%016" G_GINT64_MODIFIER "x", node->guid);
        g_ptr_array_add(shared, name);
    }
    return names;
}

char *
weft_fabric_map_switch_name(const WeftFabricMap *map, int node)
{
    g_autoptr(GPtrArray) names = weft_fabric_map_switch_names(map);
    return node >= 0 && (guint)node < names->len ? g_strdup(names->pdata[node]) : NULL;
}

/* --- distances --- */

/* Breadth first from one switch; queue has room for all of them. */
static void
measure_from(const WeftFabricMap *map, guint n, guint start, guint8 *row, guint *queue)
{
    guint head = 0, tail = 0;
    row[start] = 0;
    queue[tail++] = start;
    while (head < tail) {
        guint at = queue[head++];
        const GArray *ports = ((const WeftMapNode *)map->nodes->pdata[at])->ports;
        for (guint p = 0; p < ports->len; p++) {
            int peer = g_array_index(ports, WeftMapPort, p).peer;
            if (peer < 0 || (guint)peer >= n || row[peer] != FAR || row[at] + 1 >= FAR)
                continue;
            row[peer] = row[at] + 1;
            queue[tail++] = (guint)peer;
        }
    }
}

GArray *
weft_fabric_map_distances(const WeftFabricMap *map)
{
    guint n = weft_fabric_map_switches(map);
    GArray *table = g_array_sized_new(FALSE, FALSE, sizeof(guint8), n * n);
    g_array_set_size(table, n * n);
    g_autofree guint *queue = g_new(guint, n + 1);
    for (guint i = 0; i < n; i++) {
        guint8 *row = (guint8 *)table->data + (gsize)i * n;
        memset(row, FAR, n);
        measure_from(map, n, i, row, queue);
    }
    return table;
}
