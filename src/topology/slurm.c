#include "match.h"

#include <string.h>

#define FAR 255

typedef struct Tree {
    const WeftFabricMap *map;
    guint n;             /* switches */
    GPtrArray *names;    /* theirs */
    GPtrArray *nodes;    /* of each switch: GPtrArray of hosts' names (borrowed), or NULL */
    GPtrArray *below;    /* of each switch: GPtrArray of names of those below it (borrowed), or NULL */
    GArray *distances;   /* weft_fabric_map_distances() */
    GHashTable *places;  /* names of switches to their index */
    GHashTable *done;    /* names of hosts that have their place */
    gboolean *is_placed; /* by switch */
} Tree;

static guint8
distance(const Tree *t, guint from, guint to)
{
    return g_array_index(t->distances, guint8, from * t->n + to);
}

static void
append(GPtrArray *lists, guint i, char *name)
{
    if (!lists->pdata[i])
        lists->pdata[i] = g_ptr_array_new();
    g_ptr_array_add(lists->pdata[i], name);
}

/* A host is one node for Slurm: it hangs where its first adapter does. */
static void
hang_hosts(Tree *t, const WeftMatches *matches)
{
    for (guint i = 0; i < t->n; i++)
        g_hash_table_insert(t->places, t->names->pdata[i], GUINT_TO_POINTER(i));
    for (guint i = 0; i < matches->ports->len; i++) {
        const WeftPortMatch *match = matches->ports->pdata[i];
        gpointer index;
        if (!match->leaf || !g_hash_table_lookup_extended(t->places, match->leaf, NULL, &index))
            continue;
        if (g_hash_table_add(t->done, match->host))
            append(t->nodes, GPOINTER_TO_UINT(index), match->host);
    }
}

/* --- the tree --- */

/* How far the farthest switch with hosts is from this one, among those that it reaches at all; then how far all of them are
 * together; then how many hosts it has itself: those of a spine are few. */
static guint64
eccentricity(const Tree *t, guint from)
{
    const GPtrArray *own = t->nodes->pdata[from];
    guint64 most = 0, sum = 0;
    for (guint i = 0; i < t->n; i++) {
        guint8 far = t->nodes->pdata[i] ? distance(t, from, i) : FAR;
        if (far == FAR)
            continue;
        most = MAX(most, far);
        sum += far;
    }
    return most << 48 | sum << 16 | (own ? MIN(own->len, G_MAXUINT16) : 0);
}

/* The switch in the middle of the hosts that member can reach: in a fat tree, the first of its uppermost ones. */
static guint
find_root(const Tree *t, guint member)
{
    guint root = member;
    guint64 best = G_MAXUINT64;
    for (guint i = 0; i < t->n; i++) {
        if (distance(t, member, i) == FAR)
            continue;
        guint64 value = eccentricity(t, i);
        if (value < best) {
            best = value;
            root = i;
        }
    }
    return root;
}

/* The first neighbour in the map's order that is nearer to the root. */
static int
find_parent(const Tree *t, guint child, guint root)
{
    const GArray *ports = ((const WeftMapNode *)t->map->nodes->pdata[child])->ports;
    int parent = -1;
    for (guint p = 0; p < ports->len; p++) {
        int peer = g_array_index(ports, WeftMapPort, p).peer;
        if (peer < 0 || (guint)peer >= t->n || distance(t, root, (guint)peer) >= distance(t, root, child))
            continue;
        if (parent < 0 || peer < parent)
            parent = peer;
    }
    return parent;
}

/* From a switch with hosts up to the root, or to one that has its place already. */
static void
hang_switch(Tree *t, guint leaf, guint root)
{
    guint at = leaf;
    while (!t->is_placed[at]) {
        t->is_placed[at] = TRUE;
        int parent = at == root ? -1 : find_parent(t, at, root);
        if (parent < 0)
            return;
        append(t->below, (guint)parent, t->names->pdata[at]);
        at = (guint)parent;
    }
}

static void
build(Tree *t)
{
    int root = -1;
    for (guint i = 0; i < t->n; i++) {
        if (!t->nodes->pdata[i])
            continue;
        if (root < 0 || distance(t, (guint)root, i) == FAR)
            root = (int)find_root(t, i);
        hang_switch(t, i, (guint)root);
    }
}

/* --- its text --- */

/* Not folded: Slurm takes no text behind a bracket, as in "r[1-2]-ib". */
static void
write_line(GString *text, const char *name, const char *what, const GPtrArray *list)
{
    g_string_append_printf(text, "SwitchName=%s %s=", name, what);
    for (guint i = 0; i < list->len; i++)
        g_string_append_printf(text, "%s%s", i ? "," : "", (char *)list->pdata[i]);
    g_string_append_c(text, '\n');
}

/* Slurm's switches have nodes or switches below them, never both. */
static char *
name_for_hosts(const Tree *t, const char *name)
{
    char *own = g_strconcat(name, "-hosts", NULL);
    while (g_hash_table_contains(t->places, own)) {
        char *longer = g_strconcat(own, "-hosts", NULL);
        g_free(own);
        own = longer;
    }
    return own;
}

static void
write_switch(const Tree *t, guint i, GString *text)
{
    const char *name = t->names->pdata[i];
    GPtrArray *nodes = t->nodes->pdata[i], *below = t->below->pdata[i];
    g_autofree char *own = below ? name_for_hosts(t, name) : g_strdup(name);
    if (nodes)
        write_line(text, own, "Nodes", nodes);
    if (nodes && below)
        g_ptr_array_add(below, own);
    if (below)
        write_line(text, name, "Switches", below);
}

static void
unref_list(gpointer list)
{
    if (list)
        g_ptr_array_unref(list);
}

char *
weft_topology_slurm(const WeftFabricMap *map, const WeftMatches *matches)
{
    guint n = weft_fabric_map_switches(map);
    Tree t = { .map = map,
               .n = n,
               .names = weft_fabric_map_switch_names(map),
               .nodes = g_ptr_array_new_full(n, unref_list),
               .below = g_ptr_array_new_full(n, unref_list),
               .distances = weft_fabric_map_distances(map),
               .places = g_hash_table_new(g_str_hash, g_str_equal),
               .done = g_hash_table_new(g_str_hash, g_str_equal),
               .is_placed = g_new0(gboolean, n + 1) };
    g_ptr_array_set_size(t.nodes, (int)n);
    g_ptr_array_set_size(t.below, (int)n);
    hang_hosts(&t, matches);
    build(&t);

    GString *text = g_string_new("# topology.conf of TopologyPlugin=topology/tree, as weft sees the fabric\n");
    for (guint i = 0; i < n; i++)
        write_switch(&t, i, text);
    g_ptr_array_unref(t.names);
    g_ptr_array_unref(t.nodes);
    g_ptr_array_unref(t.below);
    g_array_unref(t.distances);
    g_hash_table_unref(t.places);
    g_hash_table_unref(t.done);
    g_free(t.is_placed);
    return g_string_free(text, FALSE);
}
