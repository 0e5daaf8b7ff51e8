#include "match.h"

#include "hostlist.h"
#include "text.h"

#include <string.h>

#define AMBIGUOUS (-2)

static void
port_match_free(gpointer data)
{
    WeftPortMatch *match = data;
    g_free(match->host);
    g_free(match->hca);
    g_free(match->leaf);
    g_free(match);
}

void
weft_matches_free(WeftMatches *matches)
{
    if (!matches)
        return;
    g_ptr_array_unref(matches->ports);
    g_ptr_array_unref(matches->no_port);
    g_ptr_array_unref(matches->no_host);
    g_free(matches);
}

typedef struct Matching {
    const WeftFabricMap *map;
    WeftMatches *matches;
    GPtrArray *switches;  /* their names */
    GHashTable *by_guid;  /* GUID of an adapter's port to WeftMapPlace */
    GHashTable *by_name;  /* "n1 mlx5_0" to the adapter's index, or AMBIGUOUS */
    GHashTable *by_first; /* "n1" to the same: the only adapter of which the description begins so */
    GHashTable *hosts;    /* "n1" to how many hosts are called so without their domain */
    GHashTable *taken;    /* GUIDs of ports that were found to be a host's, to its WeftPortMatch */
} Matching;

/* --- what is on the fabric --- */

/* "N1.example.org" is "n1". */
static char *
short_name(const char *name, gsize length)
{
    const char *dot = memchr(name, '.', length);
    return g_ascii_strdown(name, dot ? dot - name : (gssize)length);
}

static void
enter(GHashTable *table, char *key, int index)
{
    int value = g_hash_table_contains(table, key) ? AMBIGUOUS : index;
    g_hash_table_insert(table, key, GINT_TO_POINTER(value));
}

static int
look_up(GHashTable *table, const char *key)
{
    gpointer value;
    return g_hash_table_lookup_extended(table, key, NULL, &value) ? GPOINTER_TO_INT(value) : -1;
}

static void
enter_adapter(Matching *m, int index)
{
    const WeftMapNode *node = m->map->nodes->pdata[index];
    gsize first = strcspn(node->description, " ");
    g_autofree char *host = short_name(node->description, first);
    enter(m->by_name, g_strconcat(host, node->description + first, NULL), index);
    enter(m->by_first, g_steal_pointer(&host), index);
    for (guint p = 0; p < node->ports->len; p++) {
        WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, p);
        WeftMapPlace place = { .node = index, .port = port->number };
        if (port->guid)
            g_hash_table_insert(m->by_guid, &port->guid, g_memdup2(&place, sizeof place));
    }
}

/* --- a host's adapter --- */

static void
take(Matching *m, const WeftHost *host, const WeftHca *hca, WeftMapPlace place)
{
    const WeftMapNode *node = m->map->nodes->pdata[place.node];
    const WeftMapPort *port = weft_map_node_port(node, place.port);
    WeftPortMatch *other = g_hash_table_lookup(m->taken, &port->guid);
    if (other) {
        g_ptr_array_add(m->matches->no_port,
                        g_strdup_printf("%s %s: its port 0x%016" G_GINT64_MODIFIER "x is the one of %s %s already", host->name,
                                        hca->name, port->guid, other->host, other->hca));
        return;
    }
    gboolean on_switch = port->peer >= 0 && (guint)port->peer < m->switches->len;
    WeftPortMatch *match = g_new0(WeftPortMatch, 1);
    *match = (WeftPortMatch){ .host = g_strdup(host->name),
                              .hca = g_strdup(hca->name),
                              .port_guid = port->guid,
                              .leaf = on_switch ? g_strdup(m->switches->pdata[port->peer]) : NULL,
                              .rate = port->rate,
                              .pkeys = port->pkeys };
    g_ptr_array_add(m->matches->ports, match);
    g_hash_table_insert(m->taken, &match->port_guid, match);
}

/* The one port of an adapter that has a cable; its only one where none has. */
static gboolean
only_port(const WeftMapNode *node, guint *ret_number)
{
    guint cables = 0, number = 0;
    for (guint p = 0; p < node->ports->len; p++) {
        const WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, p);
        if (port->peer < 0 && node->ports->len > 1)
            continue;
        cables++;
        number = port->number;
    }
    *ret_number = number;
    return cables == 1;
}

static int
find_by_name(const Matching *m, const WeftHost *host, const WeftHca *hca)
{
    g_autofree char *name = short_name(host->name, strlen(host->name));
    if (GPOINTER_TO_UINT(g_hash_table_lookup(m->hosts, name)) > 1)
        return AMBIGUOUS;
    g_autofree char *whole = g_strconcat(name, " ", hca->name, NULL);
    int index = look_up(m->by_name, whole);
    return index == -1 && host->hcas->len == 1 ? look_up(m->by_first, name) : index;
}

static void
tell_no_port(Matching *m, const WeftHost *host, const WeftHca *hca, const char *why)
{
    g_ptr_array_add(m->matches->no_port, g_strdup_printf("%s %s: %s", host->name, hca->name, why));
}

static void
match_by_name(Matching *m, const WeftHost *host, const WeftHca *hca)
{
    int index = find_by_name(m, host, hca);
    guint number = 0;
    if (index == AMBIGUOUS)
        tell_no_port(m, host, hca, "several adapters or hosts have this name; write port_guid into the host's description");
    else if (index < 0)
        tell_no_port(m, host, hca,
                     "its description has no port_guid, and no adapter of the fabric has this name; write the one or let "
                     "rdma-ndd set the other");
    else if (!only_port(m->map->nodes->pdata[index], &number))
        tell_no_port(m, host, hca, "the adapter of this name has several ports with cables; write port_guid of the one meant");
    else
        take(m, host, hca, (WeftMapPlace){ .node = index, .port = number });
}

/* A GUID that is described and not there may be a mistake in the description: the name then tells which one was meant. */
static void
tell_no_guid(Matching *m, const WeftHost *host, const WeftHca *hca)
{
    int index = find_by_name(m, host, hca);
    g_autoptr(GString) why = g_string_new(NULL);
    g_string_printf(why, "no port of the fabric has its GUID 0x%016" G_GINT64_MODIFIER "x", hca->port_guid);
    guint number = 0;
    if (index >= 0 && only_port(m->map->nodes->pdata[index], &number))
        g_string_append_printf(why, "; the adapter of this name has 0x%016" G_GINT64_MODIFIER "x: correct port_guid",
                               weft_map_node_port(m->map->nodes->pdata[index], number)->guid);
    else
        g_string_append(why, ", and no adapter has this name: is its cable in, and is it up?");
    tell_no_port(m, host, hca, why->str);
}

static void
match_adapter(Matching *m, const WeftHost *host, const WeftHca *hca)
{
    if (!hca->port_guid) {
        match_by_name(m, host, hca);
        return;
    }
    const WeftMapPlace *place = g_hash_table_lookup(m->by_guid, &hca->port_guid);
    if (place)
        take(m, host, hca, *place);
    else
        tell_no_guid(m, host, hca);
}

/* --- what is left --- */

static void
tell_no_host(Matching *m, const WeftMapNode *node, const WeftMapPort *port)
{
    g_autofree char *description = weft_text_quote(node->description);
    gboolean on_switch = (guint)port->peer < m->switches->len;
    g_autofree char *where = on_switch
                                 ? g_strdup_printf("on %s port %u", (char *)m->switches->pdata[port->peer], port->peer_port)
                                 : g_strdup("on no switch");
    g_ptr_array_add(m->matches->no_host,
                    g_strdup_printf("0x%016" G_GINT64_MODIFIER "x (%s, %s): no host has this GUID or this name", port->guid,
                                    description, where));
}

static void
tell_rest(Matching *m)
{
    for (guint i = m->switches->len; i < m->map->nodes->len; i++) {
        const WeftMapNode *node = m->map->nodes->pdata[i];
        for (guint p = 0; node->kind == WEFT_MAP_ADAPTER && p < node->ports->len; p++) {
            const WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, p);
            if (port->peer >= 0 && !g_hash_table_contains(m->taken, &port->guid))
                tell_no_host(m, node, port);
        }
    }
}

static int
compare_matches(gconstpointer a, gconstpointer b)
{
    const WeftPortMatch *x = *(WeftPortMatch *const *)a, *y = *(WeftPortMatch *const *)b;
    int order = weft_natural_compare(x->host, y->host);
    return order ? order : weft_natural_compare(x->hca, y->hca);
}

static void
run(Matching *m, const GPtrArray *hosts)
{
    for (guint i = m->switches->len; i < m->map->nodes->len; i++)
        if (((const WeftMapNode *)m->map->nodes->pdata[i])->kind == WEFT_MAP_ADAPTER)
            enter_adapter(m, (int)i);
    for (guint i = 0; i < hosts->len; i++) {
        const WeftHost *host = hosts->pdata[i];
        char *name = short_name(host->name, strlen(host->name));
        guint before = GPOINTER_TO_UINT(g_hash_table_lookup(m->hosts, name));
        g_hash_table_insert(m->hosts, name, GUINT_TO_POINTER(before + 1));
    }
    for (guint i = 0; i < hosts->len; i++) {
        const WeftHost *host = hosts->pdata[i];
        for (guint h = 0; h < host->hcas->len; h++)
            match_adapter(m, host, host->hcas->pdata[h]);
    }
    tell_rest(m);
    g_ptr_array_sort(m->matches->ports, compare_matches);
}

WeftMatches *
weft_fabric_match(const WeftFabricMap *map, const GPtrArray *hosts)
{
    WeftMatches *matches = g_new0(WeftMatches, 1);
    *matches = (WeftMatches){ .ports = g_ptr_array_new_with_free_func(port_match_free),
                              .no_port = g_ptr_array_new_with_free_func(g_free),
                              .no_host = g_ptr_array_new_with_free_func(g_free) };
    Matching m = { .map = map,
                   .matches = matches,
                   .switches = weft_fabric_map_switch_names(map),
                   .by_guid = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free),
                   .by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                   .by_first = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                   .hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                   .taken = g_hash_table_new(g_int64_hash, g_int64_equal) };
    run(&m, hosts);
    g_ptr_array_unref(m.switches);
    g_hash_table_unref(m.by_guid);
    g_hash_table_unref(m.by_name);
    g_hash_table_unref(m.by_first);
    g_hash_table_unref(m.hosts);
    g_hash_table_unref(m.taken);
    return matches;
}
