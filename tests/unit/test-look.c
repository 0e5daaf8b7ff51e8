/* What a look at a host finds: explained, ended, elsewhere, unproved or foreign; and what marks of nodes say. */
#include "look.h"
#include "node-mark.h"

#include <string.h>

#define SITE "1ours"
#define OTHER "2other"
#define HOST "n1"

/* The store's records, as a set of texts: "node/c-0/p1" has ended, "confirmed KEY", "cluster c", "memory m", "elsewhere c-0
 * p1".
 */
static GHashTable *records;
static guint asked; /* how often about ends, clusters and stays */

static gboolean
has_ended(WeftThing thing, const char *id, gpointer data)
{
    g_autofree char *key = g_strdup_printf("%s/%s", weft_thing_words[thing], id);
    asked++;
    return g_hash_table_contains(records, key);
}

static gboolean
has(const char *kind, const char *id)
{
    g_autofree char *key = g_strdup_printf("%s %s", kind, id);
    return g_hash_table_contains(records, key);
}

static gboolean
is_confirmed(const char *key, gpointer data)
{
    return has("confirmed", key);
}

static gboolean
is_unknown(const char *key, gpointer data)
{
    return data && g_hash_table_contains(data, key);
}

static gboolean
has_cluster(const char *id, gpointer data)
{
    asked++;
    return has("cluster", id);
}

static gboolean
has_memory(const char *id, gpointer data)
{
    return has("memory", id);
}

static gboolean
has_file(const char *digest, gpointer data)
{
    return has("file", digest);
}

static char *
find_stay(const char *node_id, const char *stay, gpointer data)
{
    g_autofree char *id = g_strdup_printf("%s %s", node_id, stay);
    asked++;
    return has("elsewhere", id) ? g_strdup("n7") : NULL;
}

typedef struct World {
    WeftContents *contents;
    GPtrArray *nodes;
    GHashTable *holders;
    GHashTable *images;
    GHashTable *unknown;
    WeftLook look;
} World;

static WeftProof
world_proof(GHashTable *unknown)
{
    return (WeftProof){ has_ended, is_confirmed, is_unknown, has_cluster, has_memory, has_file, find_stay, unknown };
}

static void
world_begin(World *world, const char *const *texts)
{
    *world = (World){ weft_contents_new(), g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free),
                      g_hash_table_new(NULL, NULL), g_hash_table_new(g_str_hash, g_str_equal) };
    records = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; texts && texts[i]; i++)
        g_hash_table_add(records, (gpointer)texts[i]);
}

static void
world_look(World *world)
{
    const WeftLookInput input = {
        SITE, HOST, world->contents, world->nodes, world->holders, world->images, world_proof(world->unknown)
    };
    weft_look_clear(&world->look);
    weft_look(&input, &world->look);
}

static void
world_end(World *world)
{
    weft_look_clear(&world->look);
    weft_contents_free(world->contents);
    g_ptr_array_unref(world->nodes);
    g_hash_table_unref(world->holders);
    g_hash_table_unref(world->images);
    g_clear_pointer(&records, g_hash_table_unref);
}

static void
add_domain(World *world, const char *name, const char *node, const char *site, const char *placement, WeftDomainState state)
{
    WeftDomain *domain = g_new0(WeftDomain, 1);
    *domain = (WeftDomain){ g_strdup(name), g_strdup(node), g_strdup(site), g_strdup(placement), NULL, state };
    g_ptr_array_add(world->contents->domains, domain);
}

static void
add_mark(World *world, const char *subject, const char *site, const char *placement)
{
    g_autofree char *name = weft_file_mark_name(subject, site, placement);
    WeftFileMark *mark = weft_file_mark_read(name);
    g_assert_nonnull(mark);
    g_ptr_array_add(world->contents->marks, mark);
}

static WeftNode *
add_node(World *world, const char *id, const char *placement, WeftNodePhase phase)
{
    WeftNode *node = weft_node_new();
    node->id = g_strdup(id);
    node->cluster = g_strdup("c");
    node->host = g_strdup(HOST);
    node->placement = g_strdup(placement);
    node->phase = phase;
    g_ptr_array_add(world->nodes, node);
    return node;
}

/* "stale|gone|unproved keys" */
static char *
verdict(const World *world)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < world->look.stale->len; i++)
        g_string_append_printf(text, "%s ", (char *)world->look.stale->pdata[i]);
    g_string_append_c(text, '|');
    for (guint i = 0; i < world->look.gone->len; i++)
        g_string_append_printf(text, "%s ", ((WeftNode *)world->look.gone->pdata[i])->id);
    g_string_append_c(text, '|');
    for (guint i = 0; i < world->look.unproved->len; i++)
        g_string_append_printf(text, "%s ", ((WeftFound *)world->look.unproved->pdata[i])->key);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

typedef struct DomainCase {
    const char *name;
    const char *site, *placement; /* of the domain */
    WeftDomainState state;
    const char *mark; /* "SITE PLACEMENT" of its files; NULL: they have none */
    const char *node; /* placement of its record here; NULL: there is no record */
    WeftNodePhase phase;
    const char *records[3];
    const char *expected;
} DomainCase;

#define RUNS WEFT_DOMAIN_RUNNING
#define FILES WEFT_DOMAIN_STOPPED

static const DomainCase domains[] = {
    { "runs as recorded", SITE, "p1", RUNS, SITE " p1", "p1", WEFT_NODE_READY, {}, "||" },
    { "is being started", SITE, "p1", RUNS, NULL, "p1", WEFT_NODE_CLAIMED, {}, "||" },
    { "no record at all: an empty store", SITE, "p1", RUNS, NULL, NULL, 0, {}, "||node/1ours/c-0/p1 " },
    { "another site", OTHER, "p1", RUNS, NULL, NULL, 0, {}, "||node/2other/c-0/p1 " },
    { "another site, whatever this store ended", OTHER, "p1", RUNS, NULL, NULL, 0, { "node/c-0/p1" }, "||node/2other/c-0/p1 " },
    { "another site, and a node of that name here",
      OTHER,
      "p1",
      RUNS,
      NULL,
      "p1",
      WEFT_NODE_READY,
      {},
      "||node/2other/c-0/p1 " },
    { "a mark without a site", NULL, NULL, RUNS, NULL, NULL, 0, {}, "||node/-/c-0/- " },
    { "a mark without a site, and a record", NULL, NULL, RUNS, NULL, "p1", WEFT_NODE_READY, {}, "||node/-/c-0/- " },
    { "a mark without a stay", SITE, NULL, RUNS, NULL, NULL, 0, {}, "||node/1ours/c-0/- " },
    { "ended", SITE, "p1", RUNS, NULL, NULL, 0, { "node/c-0/p1" }, "weft-c-0 ||" },
    { "ended once, and came back since the backup",
      SITE,
      "p3",
      RUNS,
      NULL,
      NULL,
      0,
      { "node/c-0/p1" },
      "||node/1ours/c-0/p3 " },
    { "recorded here, and came back since the backup",
      SITE,
      "p3",
      RUNS,
      NULL,
      "p1",
      WEFT_NODE_READY,
      {},
      "||node/1ours/c-0/p3 " },
    { "left over from an earlier stay", SITE, "p1", RUNS, NULL, "p3", WEFT_NODE_READY, { "node/c-0/p1" }, "weft-c-0 ||" },
    { "left over where the next begins", SITE, "p1", RUNS, NULL, "p3", WEFT_NODE_CLAIMED, { "node/c-0/p1" }, "||" },
    { "given up with its host", SITE, "p1", RUNS, NULL, "p2", WEFT_NODE_LOST, { "node/c-0/p1" }, "weft-c-0 ||" },
    { "confirmed", OTHER, "p1", RUNS, NULL, NULL, 0, { "confirmed node/2other/c-0/p1" }, "weft-c-0 ||" },
    { "another one was confirmed",
      OTHER,
      "p1",
      RUNS,
      NULL,
      NULL,
      0,
      { "confirmed node/2other/c-0/p2" },
      "||node/2other/c-0/p1 " },
    { "recorded on another host", SITE, "p1", RUNS, NULL, NULL, 0, { "elsewhere c-0 p1" }, "||node/1ours/c-0/p1 " },
    { "recorded on another host, whatever was confirmed",
      SITE,
      "p1",
      RUNS,
      NULL,
      NULL,
      0,
      { "elsewhere c-0 p1", "confirmed node/1ours/c-0/p1" },
      "||node/1ours/c-0/p1 " },
    { "files of one that is recorded on another host: a pool of both",
      NULL,
      NULL,
      FILES,
      SITE " p1",
      NULL,
      0,
      { "elsewhere c-0 p1", "confirmed node/1ours/c-0/p1" },
      "||node/1ours/c-0/p1 " },
    { "another site's, with a stay that is recorded elsewhere",
      OTHER,
      "p1",
      RUNS,
      NULL,
      NULL,
      0,
      { "elsewhere c-0 p1", "confirmed node/2other/c-0/p1" },
      "weft-c-0 ||" },
    { "halted by a move, not recorded", SITE, "p1", WEFT_DOMAIN_HALTED, NULL, NULL, 0, {}, "||node/1ours/c-0/p1 " },
    { "files without any mark", NULL, NULL, FILES, NULL, NULL, 0, {}, "||node/-/c-0/- " },
    { "files of a node that is here", NULL, NULL, FILES, SITE " p1", "p1", WEFT_NODE_CLAIMED, {}, "||" },
    { "files, not recorded", NULL, NULL, FILES, SITE " p1", NULL, 0, {}, "||node/1ours/c-0/p1 " },
    { "files of another site", NULL, NULL, FILES, OTHER " p1", NULL, 0, { "node/c-0/p1" }, "||node/2other/c-0/p1 " },
    { "files that ended", NULL, NULL, FILES, SITE " p1", NULL, 0, { "node/c-0/p1" }, "weft-c-0 ||" },
    { "ended, but its files are of a stay that did not",
      SITE,
      "p1",
      RUNS,
      SITE " p9",
      NULL,
      0,
      { "node/c-0/p1" },
      "||node/1ours/c-0/p9 " },
};

static void
test_domain(gconstpointer data)
{
    const DomainCase *c = data;
    World world;
    world_begin(&world, c->records);
    add_domain(&world, "weft-c-0", "c-0", c->site, c->placement, c->state);
    g_auto(GStrv) mark = c->mark ? g_strsplit(c->mark, " ", 2) : NULL;
    if (mark)
        add_mark(&world, "weft-c-0", mark[0], mark[1]);
    if (c->node)
        add_node(&world, "c-0", c->node, c->phase);
    world_look(&world);
    g_autofree char *found = verdict(&world);
    g_assert_cmpstr(found, ==, c->expected);
    world_end(&world);
}

/* Where it is recorded is told, and what was confirmed is listed until it is gone. */
static void
test_told(void)
{
    static const char *const texts[] = { "elsewhere c-0 p1", "confirmed node/1ours/c-1/p1", "confirmed network/2other/far",
                                         NULL };
    World world;
    world_begin(&world, texts);
    add_domain(&world, "weft-c-0", "c-0", SITE, "p1", RUNS);
    add_domain(&world, "weft-c-1", "c-1", SITE, "p1", RUNS);
    g_ptr_array_add(world.contents->networks, weft_host_network_new(4711, "far", OTHER));
    g_ptr_array_add(world.contents->networks, weft_host_network_new(4712, "wide", OTHER));
    world_look(&world);
    g_autofree char *found = verdict(&world);
    g_assert_cmpstr(found, ==, "weft-c-1 ||node/1ours/c-0/p1 network/2other/wide ");
    const WeftFound *elsewhere = world.look.unproved->pdata[0], *unproved = world.look.unproved->pdata[1];
    g_assert_cmpstr(elsewhere->there, ==, "n7");
    g_assert_null(unproved->there);
    g_assert_cmpstr(unproved->number, ==, "network 4712");
    g_assert_cmpuint(world.look.confirmed->len, ==, 2);
    const WeftFound *confirmed = world.look.confirmed->pdata[0];
    g_assert_cmpstr(confirmed->key, ==, "node/1ours/c-1/p1");
    g_assert_true(confirmed->confirmed && confirmed->runs);
    world_end(&world);
}

/* Of what the store was asked about it is not asked again; nothing that was found out so is removed, and what is explained or
 * confirmed by then is that. */
static void
test_unknown(void)
{
    static const char *const texts[] = {
        "node/c-1/p1", "elsewhere c-2 p1", "cluster c", "network/gone", "memory/1ours-m", NULL
    };
    static const char *const later[] = { "node/c-0/p1", "cluster lost", "confirmed node/2other/d-0/p1", NULL };
    World world;
    world_begin(&world, texts);
    for (guint i = 0; i < 3; i++) {
        g_autofree char *id = g_strdup_printf("c-%u", i), *name = g_strdup_printf("weft-c-%u", i);
        add_domain(&world, name, id, SITE, "p1", RUNS);
    }
    add_domain(&world, "weft-d-0", "d-0", OTHER, "p1", RUNS);
    add_domain(&world, "weft-d-0", "d-0", OTHER, "p1", RUNS); /* whatever a host says */
    g_ptr_array_add(world.contents->networks, weft_host_network_new(1, "c", SITE));
    g_ptr_array_add(world.contents->networks, weft_host_network_new(2, "gone", SITE));
    g_ptr_array_add(world.contents->networks, weft_host_network_new(3, "lost", SITE));
    g_ptr_array_add(world.contents->primed, g_strdup("1ours-m"));
    g_ptr_array_add(world.contents->primed, g_strdup("2other-m"));
    const WeftProof proof = world_proof(NULL);
    g_autoptr(GHashTable) unknown = weft_look_unknown(SITE, HOST, world.contents, &proof);
    static const char *const keys[] = { "node/1ours/c-0/p1", "node/2other/d-0/p1", "network/1ours/lost",
                                        "memory/2other/2other-m" };
    for (guint i = 0; i < G_N_ELEMENTS(keys); i++)
        g_assert_true(g_hash_table_contains(unknown, keys[i]));
    g_assert_cmpuint(g_hash_table_size(unknown), ==, G_N_ELEMENTS(keys));

    for (guint i = 0; later[i]; i++)
        g_hash_table_add(records, (gpointer)later[i]);
    world.unknown = unknown;
    asked = 0;
    world_look(&world);
    g_autofree char *found = verdict(&world);
    g_assert_cmpstr(
        found, ==,
        "weft-c-1 weft-d-0 weft-d-0 ||node/1ours/c-0/p1 node/1ours/c-2/p1 network/1ours/lost memory/2other/2other-m ");
    g_assert_cmpuint(world.look.networks->len, ==, 2);
    g_assert_cmpuint(asked, ==, 7); /* two stays, the end of one, two networks' clusters, the end of one, and of the memory */
    add_node(&world, "c-0", "p1", WEFT_NODE_READY);
    world_look(&world);
    g_assert_cmpstr(((const WeftFound *)world.look.unproved->pdata[0])->key, ==, "node/1ours/c-2/p1");
    world_end(&world);
}

/* One on its way is explained at both ends, each by its own stay. */
static void
test_moving(void)
{
    World world;
    world_begin(&world, NULL);
    WeftNode *node = add_node(&world, "c-0", "p1", WEFT_NODE_READY);
    node->host[1] = '7';
    node->target = weft_node_new();
    node->target->host = g_strdup(HOST);
    node->target->placement = g_strdup("p2");
    add_domain(&world, "weft-c-0", "c-0", SITE, "p2", WEFT_DOMAIN_HALTED);
    world_look(&world);
    g_autofree char *coming = verdict(&world);
    g_assert_cmpstr(coming, ==, "||");
    g_free(node->target->placement);
    node->target->placement = g_strdup("p3");
    world_look(&world);
    g_autofree char *another = verdict(&world);
    g_assert_cmpstr(another, ==, "||node/1ours/c-0/p2 ");
    world_end(&world);
}

/* What an earlier stay has left there: the way in removes it itself, and an order to remove what has that name could come after
 * the node has. */
static void
test_coming_back(void)
{
    static const char *const texts[] = { "node/c-0/p1", NULL };
    World world;
    world_begin(&world, texts);
    add_domain(&world, "weft-c-0", "c-0", NULL, NULL, FILES);
    add_mark(&world, "weft-c-0", SITE, "p1");
    world_look(&world);
    g_autofree char *left = verdict(&world);
    g_assert_cmpstr(left, ==, "weft-c-0 ||");
    WeftNode *node = add_node(&world, "c-0", "p2", WEFT_NODE_READY);
    node->host[1] = '7';
    node->target = weft_node_new();
    node->target->host = g_strdup(HOST);
    node->target->placement = g_strdup("p3");
    world_look(&world);
    g_autofree char *coming = verdict(&world);
    g_assert_cmpstr(coming, ==, "||");
    world_end(&world);
}

static void
test_gone(void)
{
    World world;
    world_begin(&world, NULL);
    add_domain(&world, "mail-server", NULL, NULL, NULL, RUNS);
    add_node(&world, "c-1", "p1", WEFT_NODE_UP);
    add_node(&world, "c-2", "p1", WEFT_NODE_CLAIMED);
    add_node(&world, "c-3", "p1", WEFT_NODE_LOST);
    world_look(&world);
    g_autofree char *found = verdict(&world);
    g_assert_cmpstr(found, ==, "|c-1 |");
    g_assert_cmpuint(world.look.foreign->len, ==, 1);
    world_end(&world);
}

/* A network is explained by a node of its cluster that was not given up, as long as the cluster has that number. */
static void
test_networks(void)
{
    static const char *const texts[] = { "cluster lost", "cluster renumbered", "cluster elsewhere", "network/deleted", NULL };
    static const struct {
        const char *cluster, *site;
    } networks[] = {
        { "used", SITE },    { "going", SITE },   { "lost", SITE },  { "renumbered", SITE }, { "elsewhere", SITE },
        { "deleted", SITE }, { "unknown", SITE }, { "used", OTHER }, { "deleted", OTHER },   { "elsewhere", NULL }
    };
    World world;
    world_begin(&world, texts);
    for (guint i = 0; i < G_N_ELEMENTS(networks); i++) {
        g_ptr_array_add(world.contents->networks, weft_host_network_new(1 + i, networks[i].cluster, networks[i].site));
        g_hash_table_insert(world.holders, GUINT_TO_POINTER(1 + i), (gpointer)networks[i].cluster);
    }
    g_hash_table_insert(world.holders, GUINT_TO_POINTER(4), (gpointer) "another");
    const struct {
        const char *cluster;
        WeftNodePhase phase;
    } nodes[] = { { "used", WEFT_NODE_CLAIMED },
                  { "going", WEFT_NODE_STOPPING },
                  { "lost", WEFT_NODE_LOST },
                  { "renumbered", WEFT_NODE_CLAIMED } };
    for (guint i = 0; i < G_N_ELEMENTS(nodes); i++) {
        WeftNode *node = add_node(&world, nodes[i].cluster, "p1", nodes[i].phase);
        g_free(node->cluster);
        node->cluster = g_strdup(nodes[i].cluster);
    }
    world_look(&world);
    g_autoptr(GString) ended = g_string_new(NULL);
    for (guint i = 0; i < world.look.networks->len; i++)
        g_string_append_printf(ended, "%u ", ((WeftHostNetwork *)world.look.networks->pdata[i])->vxlan);
    g_assert_cmpstr(ended->str, ==, "3 4 5 6 ");
    g_autofree char *found = verdict(&world);
    g_assert_cmpstr(found, ==, "||network/1ours/unknown network/2other/used network/2other/deleted network/-/elsewhere ");
    world_end(&world);
}

static void
test_images(void)
{
    static const char *const texts[] = { "image/ended", "image/shared", "image/unmarked", "file saved", "file other", NULL };
    World world;
    world_begin(&world, texts);
    g_hash_table_add(world.images, (gpointer) "wanted");
    for (const char *const *name =
             (const char *const[]){ "wanted", "ended", "unknown", "shared", "unmarked", "saved", "other", NULL };
         *name; name++)
        g_ptr_array_add(world.contents->images, g_strdup(*name));
    add_mark(&world, "image-wanted", OTHER, NULL);
    add_mark(&world, "image-ended", SITE, NULL);
    add_mark(&world, "image-unknown", SITE, NULL);
    add_mark(&world, "image-saved", SITE, NULL);
    add_mark(&world, "image-other", OTHER, NULL);
    add_mark(&world, "image-shared", SITE, NULL);
    add_mark(&world, "image-shared", OTHER, NULL);
    world_look(&world);
    g_assert_cmpuint(world.look.images->len, ==, 2);
    g_assert_cmpstr(world.look.images->pdata[0], ==, "ended");
    g_assert_cmpstr(world.look.images->pdata[1], ==, "saved");
    g_autofree char *found = verdict(&world);
    g_assert_cmpstr(found, ==, "||image/1ours/unknown image/2other/shared image/-/unmarked image/2other/other ");
    g_clear_pointer(&world.images, g_hash_table_unref);
    world_look(&world);
    g_assert_cmpuint(world.look.images->len, ==, 0); /* the store could not be read: everything may be wanted */
    g_assert_cmpuint(world.look.unproved->len, ==, 0);
    world.images = g_hash_table_new(NULL, NULL);
    world_end(&world);
}

static void
test_memory(void)
{
    static const char *const texts[] = { "memory 1ours-used", "memory/1ours-ended", "memory/2other-ended", NULL };
    World world;
    world_begin(&world, texts);
    for (const char *const *id = (const char *const[]){ "1ours-used", "1ours-ended", "1ours-x", "2other-ended", "m", NULL };
         *id; id++)
        g_ptr_array_add(world.contents->primed, g_strdup(*id));
    world_look(&world);
    g_assert_cmpuint(world.look.memory->len, ==, 1);
    g_assert_cmpstr(world.look.memory->pdata[0], ==, "1ours-ended");
    g_autofree char *found = verdict(&world);
    g_assert_cmpstr(found, ==, "||memory/1ours/1ours-x memory/2other/2other-ended memory/-/m ");
    world_end(&world);
}

/* --- what marks of nodes say --- */

static WeftNodeMark *
read_forged(const char *path, json_t *value, GError **error)
{
    g_autoptr(WeftCluster) cluster = NULL;
    g_autoptr(WeftNode) node = weft_node_new();
    json_auto_t *spec = json_pack("{s:s, s:s, s:s, s:s, s:I, s:[{s:s, s:i}]}", "name", "cfd", "id", "1aaaaaaaaaaa", "tenant",
                                  "acme", "creator", "root", "created", (json_int_t)1, "groups", "name", "nodes", "count", 2);
    cluster = weft_cluster_from_json(spec, NULL);
    g_assert_nonnull(cluster);
    node->id = weft_node_id(cluster->id, 3);
    node->cluster = g_strdup(cluster->id);
    node->cluster_name = g_strdup("cfd");
    node->tenant = g_strdup("acme");
    node->group = g_strdup("nodes");
    node->host = g_strdup(HOST);
    node->placement = g_strdup("p1");
    node->mac = g_strdup("02:00:00:00:00:01");
    node->image = g_strdup("mpi");
    node->path = WEFT_PATH_BRIDGE;
    node->phase = WEFT_NODE_READY;
    g_array_append_vals(node->cores, (guint16[]){ 4, 5 }, 2);
    const WeftClusterStatus status = { .fabric = (char *)"ib0", .pkey = 7, .placed = 42 };
    WeftImageFile disk = { (char *)"abc" };
    const WeftImage image = { .disk = &disk };
    g_autofree char *text = weft_node_mark_write(node, cluster, &status, &image);
    json_auto_t *json = json_loads(text, 0, NULL);
    g_auto(GStrv) parts = g_strsplit(path, "/", 2);
    json_object_set_new(parts[1] ? json_object_get(json, parts[0]) : json, parts[1] ? parts[1] : parts[0], value);
    char *forged = json_dumps(json, 0);
    WeftNodeMark *mark = weft_node_mark_read(forged, error);
    free(forged);
    return mark;
}

static void
test_mark(void)
{
    g_autoptr(WeftNodeMark) mark = read_forged("unknown", json_null(), NULL);
    g_assert_nonnull(mark);
    g_assert_cmpstr(mark->node->id, ==, "1aaaaaaaaaaa-3");
    g_assert_cmpuint(mark->serial, ==, 3);
    g_assert_cmpuint(mark->pkey, ==, 7);
    g_assert_cmpint(mark->placed, ==, 42);
    g_assert_cmpuint(mark->digests->len, ==, 1);
    g_assert_cmpstr(mark->digests->pdata[0], ==, "abc");
}

static void
test_forged(void)
{
    const struct {
        const char *path;
        json_t *value;
        const char *expected;
    } cases[] = {
        { "fabric", json_null(), "does not say where its partition is" },
        { "pkey", json_integer(0x8000), "does not say where its partition is" },
        { "node", json_null(), "its mark: " },
        { "cluster", json_string("c"), "its mark: " },
        { "node/id", json_string("nodash"), "does not follow" },
        { "node/id", json_string("1aaaaaaaaaaa-"), "does not follow" },
        { "node/id", json_string("1aaaaaaaaaaa-03"), "does not follow" },
        { "node/id", json_string("1aaaaaaaaaaa-99999999999"), "does not follow" },
        { "node/id", json_string("1bbbbbbbbbbb-3"), "does not follow" },
        { "cluster/id", json_string("1bbbbbbbbbbb"), "another cluster" },
        { "cluster/name", json_string("other"), "another name" },
        { "cluster/tenant", json_string("umbrella"), "another tenant" },
        { "cluster/groups", json_array(), "no such group" },
        { "node/group", json_string("gpu"), "no such group" },
        { "node/rank", json_integer(WEFT_NODES_MAX), "no cluster has such a rank" },
        { "node/path", json_string("auto"), "not settled" },
        { "node/cores", json_pack("[i, i]", 4, 4), "not ascending" },
        { "node/phase", json_string("ready"), "only records" },
        { "cluster/deleted", json_true(), "only records" },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(WeftNodeMark) mark = read_forged(cases[i].path, cases[i].value, &error);
        g_assert_null(mark);
        g_assert_nonnull(error);
        if (!strstr(error->message, cases[i].expected))
            g_error("%s: %s", cases[i].path, error->message);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(domains); i++) {
        g_autofree char *name = g_strdelimit(g_strdup(domains[i].name), " :,", '-');
        g_autofree char *path = g_strdup_printf("/look/domain/%s", name);
        g_test_add_data_func(path, &domains[i], test_domain);
    }
    g_test_add_func("/mark/whole", test_mark);
    g_test_add_func("/mark/forged", test_forged);
    g_test_add_func("/look/told", test_told);
    g_test_add_func("/look/moving", test_moving);
    g_test_add_func("/look/asked-before", test_unknown);
    g_test_add_func("/look/coming-back", test_coming_back);
    g_test_add_func("/look/gone", test_gone);
    g_test_add_func("/look/networks", test_networks);
    g_test_add_func("/look/images", test_images);
    g_test_add_func("/look/memory", test_memory);
    return g_test_run();
}
