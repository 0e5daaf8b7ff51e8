/* Which key, scope, place and claims each object has in the store. */
#include "errors.h"
#include "id.h"
#include "records.h"
#include "site-record.h"
#include "sqlite.h"

#include <glib/gstdio.h>

typedef struct Env {
    char *folder;
    WeftStore *store;
    WeftHost *host;
} Env;

static json_t *
parse(const char *text)
{
    json_error_t where;
    json_t *json = json_loads(text, 0, &where);
    if (!json)
        g_error("%s: %s", text, where.text);
    return json;
}

static const char host_text[] = "{\"name\": \"n1\", \"fabric\": \"ib0\", \"leaf\": \"leaf1\", \"uri\": \"qemu:///system\","
                                " \"numa\": [{\"cores\": 8, \"pages\": {\"2M\": 1000}}],"
                                " \"hcas\": [{\"name\": \"mlx5_0\", \"port_guid\": \"0x10\", \"vfs\": 2},"
                                "            {\"name\": \"mlx5_1\", \"port_guid\": \"0x11\", \"vfs\": 0}],"
                                " \"gpus\": [{\"name\": \"0000:41:00.0\"}]}";

static void
set_up(Env *env, gconstpointer data)
{
    GError *error = NULL;
    env->folder = g_dir_make_tmp("weft-records-XXXXXX", &error);
    g_assert_no_error(error);
    g_autofree char *path = g_build_filename(env->folder, "weft.db", NULL);
    env->store = weft_store_sqlite_open(path, 0, &error);
    g_assert_no_error(error);
    json_auto_t *json = parse(host_text);
    env->host = weft_host_from_json(json, "host", &error);
    g_assert_no_error(error);
}

static void
tear_down(Env *env, gconstpointer data)
{
    weft_store_free(env->store);
    weft_host_free(env->host);
    for (const char *const *name = (const char *const[]){ "weft.db", "weft.db.lock", NULL }; *name; name++) {
        g_autofree char *path = g_build_filename(env->folder, *name, NULL);
        g_assert_cmpint(g_unlink(path), ==, 0);
    }
    g_assert_cmpint(g_rmdir(env->folder), ==, 0);
    g_free(env->folder);
}

static void
commit(Env *env, WeftTxn *txn)
{
    GError *error = NULL;
    weft_store_commit_wait(env->store, txn, &error);
    g_assert_no_error(error);
}

static void
refuse(Env *env, WeftTxn *txn, WeftErrorCode code, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_assert_false(weft_store_commit_wait(env->store, txn, &error));
    g_assert_error(error, WEFT_ERROR, (int)code);
    g_assert_cmpstr(error->message, ==, message);
}

/* The record as the dump shows it, without revision and value, which others test. */
static void
assert_dumped(Env *env, const char *name, const char *expected)
{
    GError *error = NULL;
    json_auto_t *dump = weft_store_dump(env->store, &error);
    g_assert_no_error(error);
    json_t *record = json_object_get(json_object_get(dump, "records"), name);
    json_object_del(record, "revision");
    json_object_del(record, "value");
    g_autofree char *text = record ? json_dumps(record, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    g_assert_cmpstr(text, ==, expected);
}

/* --- templates --- */

static WeftTxn *
put_primed(Env *env, const char *id, const char *template, const char *tenant, guint64 pages)
{
    WeftPrimed primed = { .id = (char *)id,
                          .template = (char *)template,
                          .generation = 1,
                          .tenant = (char *)tenant,
                          .host = (char *)"n1",
                          .page_size = 2 << 20,
                          .pages = pages,
                          .since = 1 };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_primed(txn, &primed, env->host);
    return txn;
}

/* Its pages are taken as any others, and there is one of a template and tenant on a NUMA node. */
static void
test_primed(Env *env, gconstpointer data)
{
    commit(env, put_primed(env, "1a", "t1", "acme", 600));
    assert_dumped(env, "primed 1a",
                  "{\"claims\":[\"host/n1/numa/0/primed/t1/acme\"],\"place\":\"n1\",\"scope\":\"t1\","
                  "\"shares\":{\"host/n1/numa/0/pages/2M\":600}}");
    refuse(env, put_primed(env, "1b", "t1", "acme", 100), WEFT_ERROR_EXHAUSTED,
           "host/n1/numa/0/primed/t1/acme is held by primed 1a already");
    refuse(env, put_primed(env, "1b", "t2", "acme", 401), WEFT_ERROR_EXHAUSTED,
           "host/n1/numa/0/pages/2M: 600 of 1000 in use, 401 more asked for");
    commit(env, put_primed(env, "1b", "t1", "other", 400));
}

/* --- nodes --- */

static WeftNode *
new_node(const char *changes)
{
    json_auto_t *json =
        parse("{\"id\": \"4k-0\", \"cluster\": \"4k\", \"cluster_name\": \"cfd\", \"tenant\": \"acme\", \"rank\": 0,"
              " \"group\": \"nodes\", \"host\": \"n1\", \"cores\": [3, 4], \"memory\": [[0, 2097152, 600]],"
              " \"devices\": [[0, \"mlx5_0\", 1, \"0x77\"]], \"gpus\": [\"0000:41:00.0\"],"
              " \"mac\": \"02:00:00:00:00:01\", \"image\": \"mpi\", \"path\": \"sriov\","
              " \"phase\": \"claimed\", \"since\": 1000000}");
    json_auto_t *other = parse(changes);
    json_object_update(json, other);
    GError *error = NULL;
    WeftNode *node = weft_node_from_json(json, &error);
    g_assert_no_error(error);
    return node;
}

static WeftTxn *
put_new_node(Env *env, const char *changes)
{
    g_autoptr(WeftNode) node = new_node(changes);
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_new_node(txn, node, env->host);
    return txn;
}

static const char claimed[] = "{\"claims\":[\"fabric/ib0/guid/0x0000000000000077\",\"host/n1/core/3\",\"host/n1/core/4\","
                              "\"host/n1/gpu/0000:41:00.0\",\"host/n1/vf/mlx5_0/1\",\"mac/02:00:00:00:00:01\"],"
                              "\"place\":\"n1\",\"scope\":\"4k\",\"shares\":{\"host/n1/numa/0/pages/2M\":600}}";

static void
test_node_claims(Env *env, gconstpointer data)
{
    commit(env, put_new_node(env, "{}"));
    assert_dumped(env, "node 4k-0", claimed);
    refuse(env, put_new_node(env, "{}"), WEFT_ERROR_CONFLICT, "node 4k-0 exists already");

    gint64 revision;
    GError *error = NULL;
    g_autoptr(WeftNode) node = weft_store_load_node(env->store, "4k-0", &revision, &error);
    g_assert_no_error(error);
    node->phase = WEFT_NODE_READY;
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_node(txn, node, revision);
    commit(env, txn);
    assert_dumped(env, "node 4k-0", claimed);
}

/* While it is being moved it holds both places, and its GUIDs and its MAC once; then the one where it is. */
static void
test_moved_node(Env *env, gconstpointer data)
{
    commit(env, put_new_node(env, "{}"));
    gint64 revision;
    GError *error = NULL;
    g_autoptr(WeftNode) node = weft_store_load_node(env->store, "4k-0", &revision, &error);
    g_assert_no_error(error);
    g_autoptr(WeftHost) to = weft_host_copy(env->host);
    g_free(to->name);
    to->name = g_strdup("n2");
    node->target = new_node("{\"host\": \"n2\", \"cores\": [5, 6]}");
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_moved_node(txn, node, env->host, to, revision);
    commit(env, txn);
    assert_dumped(env, "node 4k-0",
                  "{\"claims\":[\"fabric/ib0/guid/0x0000000000000077\",\"host/n1/core/3\",\"host/n1/core/4\","
                  "\"host/n1/gpu/0000:41:00.0\",\"host/n1/vf/mlx5_0/1\",\"host/n2/core/5\",\"host/n2/core/6\","
                  "\"host/n2/gpu/0000:41:00.0\",\"host/n2/vf/mlx5_0/1\",\"mac/02:00:00:00:00:01\"],"
                  "\"place\":\"n1\",\"scope\":\"4k\","
                  "\"shares\":{\"host/n1/numa/0/pages/2M\":600,\"host/n2/numa/0/pages/2M\":600}}");

    g_autoptr(WeftNode) moving = weft_store_load_node(env->store, "4k-0", &revision, &error);
    g_assert_no_error(error);
    g_clear_pointer(&moving->target, weft_node_free);
    txn = weft_txn_new("test");
    weft_txn_put_moved_node(txn, moving, env->host, NULL, revision);
    commit(env, txn);
    assert_dumped(env, "node 4k-0", claimed);
}

/* As it will be: it has what it was given there, and is who it was. */
static void
test_node_that_arrives(Env *env, gconstpointer data)
{
    g_autoptr(WeftNode) node = new_node("{}");
    node->target = new_node("{\"host\": \"n2\", \"cores\": [5, 6]}");
    g_autoptr(WeftNode) moved = weft_node_moved(node);
    g_assert_null(moved->target);
    g_assert_cmpstr(moved->host, ==, "n2");
    g_assert_cmpuint(g_array_index(moved->cores, guint16, 0), ==, 5);
    g_assert_cmpstr(moved->id, ==, node->id);
    g_assert_cmpstr(moved->mac, ==, node->mac);
    g_assert_cmpstr(node->host, ==, "n1");
    g_assert_cmpuint(g_array_index(node->cores, guint16, 0), ==, 3);
    g_assert_cmpstr(node->target->host, ==, "n2");
}

/* A wish is found by its cluster and, once its node has left, by where that goes. */
static void
test_move_wish(Env *env, gconstpointer data)
{
    GError *error = NULL;
    WeftMoveWish wish = { (char *)"4k", 0, (char *)"4k-0", (char *)"n2", TRUE, WEFT_METHOD_HYBRID, (char *)"ada", 7 };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_move(txn, &wish, NULL, WEFT_ABSENT);
    commit(env, txn);
    txn = weft_txn_new("test");
    weft_txn_put_move(txn, &wish, NULL, WEFT_ABSENT);
    refuse(env, txn, WEFT_ERROR_CONFLICT, "move 4k/0 exists already");
    txn = weft_txn_new("test");
    weft_txn_put_move(txn, &wish, "n2", WEFT_ANY);
    commit(env, txn);
    WeftQuery query = { .kind = WEFT_KIND_MOVE, .place = "n2" };
    g_autoptr(GPtrArray) coming = weft_store_list(env->store, &query, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(coming->len, ==, 1);
    g_autoptr(WeftMoveWish) again = weft_store_load_move(env->store, "4k/0", NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(again->node, ==, "4k-0");
    g_assert_true(again->disrupt);
    g_assert_cmpint(again->copy, ==, WEFT_METHOD_HYBRID);
    g_assert_cmpstr(again->creator, ==, "ada");
}

/* Another node that shares nothing but one thing with the first. */
#define OTHER(things)                                                                                                          \
    "{\"id\": \"4k-1\", \"cores\": [5], \"memory\": [[0, 2097152, 400]], \"devices\": [], \"gpus\": [],"                       \
    " \"mac\": \"02:00:00:00:00:02\"" things "}"

static const struct {
    const char *changes;
    const char *message;
} twice[] = {
    { OTHER(", \"cores\": [5, 4]"), "host/n1/core/4 is held by node 4k-0 already" },
    { OTHER(", \"devices\": [[0, \"mlx5_0\", 1, \"0x78\"]]"), "host/n1/vf/mlx5_0/1 is held by node 4k-0 already" },
    { OTHER(", \"devices\": [[0, \"mlx5_0\", 0, \"0x77\"]]"),
      "fabric/ib0/guid/0x0000000000000077 is held by node 4k-0 already" },
    { OTHER(", \"devices\": [[0, \"mlx5_0\", -1, \"0x0\"]]"), "host/n1/vf/mlx5_0/1 is held by node 4k-0 already" },
    { OTHER(", \"gpus\": [\"0000:41:00.0\"]"), "host/n1/gpu/0000:41:00.0 is held by node 4k-0 already" },
    { OTHER(", \"mac\": \"02:00:00:00:00:01\""), "mac/02:00:00:00:00:01 is held by node 4k-0 already" },
    { OTHER(", \"memory\": [[0, 2097152, 401]]"), "host/n1/numa/0/pages/2M: 600 of 1000 in use, 401 more asked for" },
    { OTHER(", \"memory\": [[0, 2097152, 300], [0, 2097152, 101]]"),
      "host/n1/numa/0/pages/2M: 600 of 1000 in use, 401 more asked for" },
};

static void
test_nothing_twice(Env *env, gconstpointer data)
{
    commit(env, put_new_node(env, "{}"));
    for (gsize i = 0; i < G_N_ELEMENTS(twice); i++)
        refuse(env, put_new_node(env, twice[i].changes), WEFT_ERROR_EXHAUSTED, twice[i].message);
    commit(env, put_new_node(env, OTHER("")));
}

static void
test_pages_that_are_not_there(Env *env, gconstpointer data)
{
    static const char *const memory[] = { "[[0, 1073741824, 1]]", "[[7, 2097152, 1]]" };
    for (gsize i = 0; i < G_N_ELEMENTS(memory); i++) {
        g_autofree char *changes = g_strdup_printf("{\"memory\": %s}", memory[i]);
        g_autoptr(GError) error = NULL;
        g_assert_false(weft_store_commit_wait(env->store, put_new_node(env, changes), &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    }
}

static void
test_whole_hca(Env *env, gconstpointer data)
{
    commit(env, put_new_node(env, "{\"devices\": [[0, \"mlx5_0\", -1, \"0x0\"], [1, \"mlx5_1\", -1, \"0x0\"]], \"gpus\": []}"));
    assert_dumped(env, "node 4k-0",
                  "{\"claims\":[\"host/n1/core/3\",\"host/n1/core/4\",\"host/n1/hca/mlx5_0\",\"host/n1/hca/mlx5_1\","
                  "\"host/n1/vf/mlx5_0/0\",\"host/n1/vf/mlx5_0/1\",\"mac/02:00:00:00:00:01\"],"
                  "\"place\":\"n1\",\"scope\":\"4k\",\"shares\":{\"host/n1/numa/0/pages/2M\":600}}");
    refuse(env, put_new_node(env, OTHER(", \"devices\": [[0, \"mlx5_0\", 0, \"0x78\"]]")), WEFT_ERROR_EXHAUSTED,
           "host/n1/vf/mlx5_0/0 is held by node 4k-0 already");
    refuse(env, put_new_node(env, OTHER(", \"devices\": [[0, \"mlx5_1\", -1, \"0x0\"]]")), WEFT_ERROR_EXHAUSTED,
           "host/n1/hca/mlx5_1 is held by node 4k-0 already");
}

static WeftTxn *
put_guaranteed(Env *env, const char *changes, guint64 room)
{
    g_autoptr(WeftNode) node = new_node(changes);
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_new_node(txn, node, env->host);
    weft_txn_share_lane(txn, node, node->devices->pdata[0], room);
    return txn;
}

/* The store itself keeps a lane from being promised twice. */
static void
test_lanes_are_bounded(Env *env, gconstpointer data)
{
#define GUARANTEED ", \"devices\": [[0, \"mlx5_0\", 0, \"0x78\"]], \"sl\": 2, \"bandwidth\": "
    commit(env, put_guaranteed(env, "{\"sl\": 2, \"bandwidth\": 15000000000}", 20000000000));
    refuse(env, put_guaranteed(env, OTHER(GUARANTEED "6000000000"), 20000000000), WEFT_ERROR_EXHAUSTED,
           "host/n1/lane/mlx5_0/2: 15000000000 of 20000000000 in use, 6000000000 more asked for");
    g_autoptr(GError) error = NULL;
    g_assert_false(weft_store_commit_wait(env->store, put_guaranteed(env, OTHER(GUARANTEED "1000000"), 0), &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    commit(env, put_guaranteed(env, OTHER(GUARANTEED "5000000000"), 20000000000));
}

static void
test_release(Env *env, gconstpointer data)
{
    commit(env, put_new_node(env, "{}"));
    g_autoptr(WeftNode) node = new_node("{}");
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_release_node(txn, node, WEFT_ANY, 5000000);
    commit(env, txn);
    assert_dumped(env, "node 4k-0", NULL);
    assert_dumped(env, "usage 4k-0/00000000000f4240", "{\"claims\":[],\"place\":\"4k\",\"scope\":\"acme\",\"shares\":{}}");

    GError *error = NULL;
    g_autoptr(GPtrArray) records = weft_store_list(env->store, &(WeftQuery){ WEFT_KIND_USAGE, .scope = "acme" }, &error);
    g_assert_no_error(error);
    g_autoptr(WeftUsage) usage = weft_record_usage(records->pdata[0], &error);
    g_assert_no_error(error);
    g_assert_cmpint(usage->start, ==, 1000000);
    g_assert_cmpint(usage->end, ==, 5000000);
    g_assert_cmpuint(usage->cores, ==, 2);
    commit(env, put_new_node(env, "{}"));
}

/* --- clusters --- */

static WeftCluster *
new_cluster(const char *id, const char *name, guint count)
{
    json_auto_t *spec =
        json_pack("{s:s, s:i, s:i, s:s, s:s}", "name", name, "count", count, "cores", 4, "memory", "1G", "image", "mpi");
    GError *error = NULL;
    WeftCluster *cluster = weft_cluster_from_spec(spec, &error);
    g_assert_no_error(error);
    cluster->id = g_strdup(id);
    cluster->tenant = g_strdup("acme");
    cluster->creator = g_strdup("alice");
    return cluster;
}

static WeftTxn *
put_cluster(const WeftCluster *cluster)
{
    WeftTenant tenant = { .name = (char *)"acme", .quota = { [WEFT_QUOTA_CLUSTERS] = 2, [WEFT_QUOTA_CORES] = 40 }, .share = 1 };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_cluster(txn, cluster, &tenant, WEFT_ANY);
    return txn;
}

static const char eight_nodes[] =
    "{\"claims\":[\"cluster/4k\"],\"place\":\"\",\"scope\":\"acme\",\"shares\":{\"image/mpi\":1,\"tenant/acme/clusters\":1,"
    "\"tenant/acme/cores\":32,\"tenant/acme/memory\":8589934592,\"tenant/acme/nodes\":8,\"tenant/acme/vfs\":8}}";

static void
test_cluster(Env *env, gconstpointer data)
{
    g_autoptr(WeftCluster) cluster = new_cluster("4k", "cfd", 8), other = new_cluster("5k", "md", 3);
    commit(env, put_cluster(cluster));
    assert_dumped(env, "cluster acme/cfd", eight_nodes);
    refuse(env, put_cluster(other), WEFT_ERROR_EXHAUSTED, "tenant/acme/cores: 32 of 40 in use, 12 more asked for");

    /* What is to go holds its quota until it is gone. */
    cluster->deleted = TRUE;
    commit(env, put_cluster(cluster));
    assert_dumped(env, "cluster acme/cfd", eight_nodes);
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_delete(txn, WEFT_KIND_CLUSTER, "acme/cfd", WEFT_ANY);
    commit(env, txn);
    commit(env, put_cluster(other));
}

/* --- bytes --- */

#define STORAGE (1ULL << 30)

static WeftTxn *
put_checkpoint(const WeftCheckpoint *checkpoint, gboolean limited)
{
    WeftTenant tenant = { .name = (char *)"acme", .quota = { [WEFT_QUOTA_STORAGE] = STORAGE }, .share = 1 };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_checkpoint(txn, checkpoint, limited ? &tenant : NULL, WEFT_ANY);
    return txn;
}

static WeftCheckpoint *
new_checkpoint(const char *name, guint nodes)
{
    WeftCheckpoint *checkpoint = weft_checkpoint_new();
    checkpoint->tenant = g_strdup("acme");
    checkpoint->name = g_strdup(name);
    checkpoint->cluster = g_strdup("4k");
    checkpoint->wish = new_cluster("4k", "cfd", nodes);
    checkpoint->creator = g_strdup("alice");
    ((WeftGroup *)checkpoint->wish->groups->pdata[0])->memory = 256ULL << 20;
    return checkpoint;
}

static guint64
storage_used(Env *env)
{
    guint64 used = 0;
    g_assert_true(weft_store_quota_used(env->store, "acme", WEFT_QUOTA_STORAGE, &used, NULL));
    return used;
}

/* It is counted with the most that it may have until its files are known, then with these, and with none when it has failed. */
static void
test_checkpoint_storage(Env *env, gconstpointer data)
{
    g_autoptr(WeftCheckpoint) one = new_checkpoint("one", 2), two = new_checkpoint("two", 2);
    guint64 most = 2 * WEFT_SAVED_MAX(256ULL << 20);
    commit(env, put_checkpoint(one, TRUE));
    g_assert_cmpuint(storage_used(env), ==, most);
    g_autofree char *words = g_strdup_printf("tenant/acme/storage: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                                             " in use, %" G_GUINT64_FORMAT " more asked for",
                                             most, (guint64)STORAGE, most);
    refuse(env, put_checkpoint(two, TRUE), WEFT_ERROR_EXHAUSTED, words);

    for (guint rank = 0; rank < 2; rank++) {
        WeftCheckpointNode *node = weft_checkpoint_node_new();
        g_autofree char *digest = g_strnfill(WEFT_DIGEST_LENGTH, 'a');
        node->rank = rank;
        node->group = g_strdup("nodes");
        node->hostname = g_strdup_printf("cfd-%u", rank);
        node->mac = g_strdup("02:00:00:00:00:01");
        node->saved = g_new0(WeftImageFile, 1);
        *node->saved = (WeftImageFile){ .digest = g_steal_pointer(&digest), .size = 1000 };
        g_ptr_array_add(one->nodes, node);
    }
    one->state = WEFT_CHECKPOINT_SAVED;
    commit(env, put_checkpoint(one, FALSE));
    g_assert_cmpuint(storage_used(env), ==, 2000);
    commit(env, put_checkpoint(two, TRUE));
    two->state = WEFT_CHECKPOINT_FAILED;
    commit(env, put_checkpoint(two, FALSE));
    g_assert_cmpuint(storage_used(env), ==, 2000);
}

static WeftTxn *
put_template(const char *id, guint64 size, const char *source)
{
    WeftTenant tenant = { .name = (char *)"acme",
                          .quota = { [WEFT_QUOTA_STORAGE] = STORAGE, [WEFT_QUOTA_TEMPLATES] = 100 },
                          .share = 1 };
    g_autoptr(GPtrArray) files = g_ptr_array_new();
    WeftTemplate template = { .id = (char *)id,
                              .image = (char *)"mpi",
                              .files = files,
                              .guest = (char *)"guest",
                              .kind = (char *)"kind",
                              .size = size,
                              .tenant = (char *)"acme",
                              .source = (char *)source };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_template(txn, &template, &tenant, WEFT_ANY);
    return txn;
}

/* Templates have a quota and a number of their own; what a clone is made of is storage. */
static void
test_template_bytes(Env *env, gconstpointer data)
{
    guint64 count = 0;
    commit(env, put_template("a", 60, NULL));
    refuse(env, put_template("b", 60, NULL), WEFT_ERROR_EXHAUSTED,
           "tenant/acme/templates: 60 of 100 in use, 60 more asked for");
    commit(env, put_template("4k-0", 60, "5k-0"));
    g_assert_cmpuint(storage_used(env), ==, 60);
    for (guint i = 1; i < WEFT_TEMPLATES_MAX; i++) {
        g_autofree char *id = g_strdup_printf("small%u", i);
        commit(env, put_template(id, 1, NULL));
    }
    g_assert_true(weft_store_templates_used(env->store, "acme", &count, NULL));
    g_assert_cmpuint(count, ==, WEFT_TEMPLATES_MAX);
    refuse(env, put_template("c", 1, NULL), WEFT_ERROR_EXHAUSTED,
           "tenant/acme/template-count: 16 of 16 in use, 1 more asked for");
}

/* All that its files are is in a backup's list of them: what a clone goes on from has a disk as well. */
static void
test_template_blobs(Env *env, gconstpointer data)
{
    GError *error = NULL;
    g_autofree char *saved = g_strnfill(64, 'a'), *disk = g_strnfill(64, 'b');
    WeftTenant tenant = { .name = (char *)"acme", .share = 1 };
    g_autoptr(GPtrArray) files = g_ptr_array_new();
    WeftTemplate template = { .id = (char *)"4k-0",
                              .image = (char *)"mpi",
                              .files = files,
                              .guest = (char *)"guest",
                              .kind = (char *)"kind",
                              .cores = 1,
                              .cpus = 1,
                              .memory = 1 << 30,
                              .page_size = 2 << 20,
                              .digest = saved,
                              .size = 1,
                              .tenant = (char *)"acme",
                              .source = (char *)"5k-0",
                              .disk = disk,
                              .disk_size = 2 };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_template(txn, &template, &tenant, WEFT_ANY);
    commit(env, txn);
    g_autofree char *path = g_build_filename(env->folder, "weft.db", NULL);
    json_auto_t *about = weft_store_sqlite_describe(path, &error);
    g_assert_no_error(error);
    json_t *blobs = json_object_get(about, "blobs");
    g_assert_cmpuint(json_array_size(blobs), ==, 2);
    g_assert_cmpstr(json_string_value(json_object_get(json_array_get(blobs, 0), "digest")), ==, saved);
    g_assert_cmpstr(json_string_value(json_object_get(json_array_get(blobs, 1), "digest")), ==, disk);
    g_assert_cmpint(json_integer_value(json_object_get(json_array_get(blobs, 1), "size")), ==, 2);
}

static WeftTxn *
put_status(const char *name, guint pkey)
{
    WeftClusterStatus status = {
        .cluster = (char *)"4k", .tenant = (char *)"acme", .name = (char *)name, .fabric = (char *)"ib0", .pkey = pkey
    };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_cluster_status(txn, &status, WEFT_ANY);
    return txn;
}

static void
test_cluster_status(Env *env, gconstpointer data)
{
    commit(env, put_status("md", 0));
    assert_dumped(env, "cluster-status acme/md", "{\"claims\":[],\"place\":\"\",\"scope\":\"acme\",\"shares\":{}}");
    commit(env, put_status("cfd", 17));
    assert_dumped(env, "cluster-status acme/cfd",
                  "{\"claims\":[\"fabric/ib0/pkey/17\"],\"place\":\"\",\"scope\":\"acme\",\"shares\":{}}");
    refuse(env, put_status("md", 17), WEFT_ERROR_EXHAUSTED, "fabric/ib0/pkey/17 is held by cluster-status acme/cfd already");
    commit(env, put_status("cfd", 0));
    commit(env, put_status("md", 17));
}

/* --- the others --- */

static void
test_people(Env *env, gconstpointer data)
{
    WeftPrincipal alice = { (char *)"alice", (char *)"acme", WEFT_ROLE_MEMBER, (char *)"al", WEFT_ORIGIN_API };
    WeftPrincipal root = { (char *)"root", NULL, WEFT_ROLE_ADMIN, NULL, WEFT_ORIGIN_API };
    WeftToken token = { .id = (char *)"7x", .hash = (char *)"abc", .principal = (char *)"alice", .tenant = (char *)"acme" };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_principal(txn, &alice, WEFT_ABSENT);
    weft_txn_put_principal(txn, &root, WEFT_ABSENT);
    weft_txn_put_token(txn, &token, WEFT_ABSENT);
    commit(env, txn);
    assert_dumped(env, "principal alice",
                  "{\"claims\":[\"unix/al\"],\"place\":\"\",\"scope\":\"acme\",\"shares\":{\"tenant/acme/principals\":1}}");
    assert_dumped(env, "principal root", "{\"claims\":[],\"place\":\"\",\"scope\":\"\",\"shares\":{}}");
    assert_dumped(
        env, "token 7x",
        "{\"claims\":[\"token/abc\"],\"place\":\"alice\",\"scope\":\"acme\",\"shares\":{\"principal/alice/tokens\":1}}");
}

static WeftTxn *
put_token(guint number)
{
    g_autofree char *id = g_strdup_printf("%u", number);
    WeftToken token = { .id = id, .hash = id, .principal = (char *)"alice", .tenant = (char *)"acme" };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_token(txn, &token, WEFT_ABSENT);
    return txn;
}

static void
test_tokens_are_bounded(Env *env, gconstpointer data)
{
    for (guint i = 0; i < WEFT_TOKENS_MAX; i++)
        commit(env, put_token(i));
    refuse(env, put_token(WEFT_TOKENS_MAX), WEFT_ERROR_EXHAUSTED,
           "principal/alice/tokens: 100 of 100 in use, 1 more asked for");
}

/* --- what others refer to stays, also if the one who removes it could not see them yet --- */

static WeftTxn *
remove_host(Env *env)
{
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_remove_host(txn, env->host, WEFT_ANY);
    return txn;
}

static WeftTxn *
remove_tenant(void)
{
    WeftTenant acme = { .name = (char *)"acme", .share = 1 };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_remove_tenant(txn, &acme, WEFT_ANY);
    return txn;
}

static WeftTxn *
remove_principal(void)
{
    WeftPrincipal alice = { (char *)"alice", (char *)"acme", WEFT_ROLE_MEMBER, (char *)"al", WEFT_ORIGIN_API };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_remove_principal(txn, &alice, WEFT_ANY);
    return txn;
}

static void
delete_record(Env *env, WeftKind kind, const char *key)
{
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_delete(txn, kind, key, WEFT_ANY);
    commit(env, txn);
}

static void
test_remove_host(Env *env, gconstpointer data)
{
    commit(env, put_new_node(env, "{}"));
    refuse(env, remove_host(env), WEFT_ERROR_EXHAUSTED, "host/n1/core/3 is held by node 4k-0 already");
    delete_record(env, WEFT_KIND_NODE, "4k-0");
    commit(env, remove_host(env));
    assert_dumped(env, "host n1", NULL);
}

static void
test_remove_tenant(Env *env, gconstpointer data)
{
    g_autoptr(WeftCluster) cluster = new_cluster("4k", "cfd", 8);
    WeftPrincipal alice = { (char *)"alice", (char *)"acme", WEFT_ROLE_MEMBER, (char *)"al", WEFT_ORIGIN_API };
    WeftTxn *txn = put_cluster(cluster);
    weft_txn_put_principal(txn, &alice, WEFT_ABSENT);
    commit(env, txn);
    commit(env, put_token(1));
    refuse(env, remove_tenant(), WEFT_ERROR_EXHAUSTED, "tenant/acme/clusters: 1 of 1 in use, 1 more asked for");
    delete_record(env, WEFT_KIND_CLUSTER, "acme/cfd");
    refuse(env, remove_tenant(), WEFT_ERROR_EXHAUSTED, "tenant/acme/principals: 1 of 1 in use, 1 more asked for");
    refuse(env, remove_principal(), WEFT_ERROR_EXHAUSTED, "principal/alice/tokens: 1 of 1 in use, 1 more asked for");
    delete_record(env, WEFT_KIND_TOKEN, "1");
    commit(env, remove_principal());
    commit(env, remove_tenant());
    assert_dumped(env, "tenant acme", NULL);
}

static WeftTxn *
remove_image(void)
{
    WeftImageFile disk = { (char *)"12", 1, WEFT_DISK_RAW };
    WeftImage image = { .name = (char *)"mpi", .disk = &disk };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_remove_image(txn, &image, WEFT_ANY);
    return txn;
}

static void
test_remove_image(Env *env, gconstpointer data)
{
    g_autoptr(WeftCluster) cluster = new_cluster("4k", "cfd", 8);
    commit(env, put_cluster(cluster));
    refuse(env, remove_image(), WEFT_ERROR_EXHAUSTED, "image/mpi: 1 of 1 in use, 1 more asked for");
    GError *error = NULL;
    guint64 used = 0;
    g_assert_true(weft_store_image_used(env->store, "mpi", &used, &error));
    g_assert_cmpuint(used, ==, 1);
    delete_record(env, WEFT_KIND_CLUSTER, "acme/cfd");
    commit(env, remove_image());
    assert_dumped(env, "image mpi", NULL);
}

static void
test_events(Env *env, gconstpointer data)
{
    g_autoptr(WeftCluster) cluster = new_cluster("4k", "cfd", 8);
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_tell(txn, "cluster-placed", cluster, "n1", "%d nodes", 8);
    weft_txn_tell(txn, "host-lost", NULL, "n1", "gone");
    commit(env, txn);

    GError *error = NULL;
    g_autoptr(GPtrArray) records = weft_store_list(env->store, &(WeftQuery){ WEFT_KIND_EVENT }, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(records->len, ==, 2);
    const WeftRecord *first = records->pdata[0], *second = records->pdata[1];
    g_assert_cmpstr(first->scope, ==, "acme");
    g_assert_cmpstr(first->place, ==, "4k");
    g_assert_cmpstr(second->scope, ==, "");
    g_assert_cmpstr(second->place, ==, "");
    g_autoptr(WeftEvent) event = weft_record_event(first, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(event->type, ==, "cluster-placed");
    g_assert_cmpstr(event->cluster_name, ==, "cfd");
    g_assert_cmpstr(event->message, ==, "8 nodes");
    g_autofree char *key = weft_event_key(event->id);
    g_assert_cmpstr(key, ==, first->key);
    g_assert_cmpuint(strlen(key), ==, 16);
}

/* What another thread made is told when it is committed, not when it was made. */
static void
test_stamped_events(Env *env, gconstpointer data)
{
    WeftTxn *early = weft_txn_new("test"), *late = weft_txn_new("test");
    weft_txn_tell(early, "early", NULL, NULL, "\"made first\"");
    weft_txn_tell(late, "late", NULL, NULL, "made last");
    commit(env, late);
    weft_txn_stamp_events(early);
    commit(env, early);
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) records = weft_store_list(env->store, &(WeftQuery){ WEFT_KIND_EVENT }, &error);
    g_assert_cmpuint(records->len, ==, 2);
    g_autoptr(WeftEvent) event = weft_record_event(records->pdata[1], &error);
    g_assert_no_error(error);
    g_assert_cmpstr(event->type, ==, "early");
    g_assert_cmpstr(event->message, ==, "\"made first\"");
    g_autofree char *key = weft_event_key(event->id);
    g_assert_cmpstr(key, ==, ((const WeftRecord *)records->pdata[1])->key);
}

static void
test_host_ports(Env *env, gconstpointer data)
{
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_host(txn, env->host, WEFT_ABSENT);
    commit(env, txn);
    assert_dumped(env, "host n1",
                  "{\"claims\":[\"fabric/ib0/guid/0x0000000000000010\",\"fabric/ib0/guid/0x0000000000000011\"],"
                  "\"place\":\"\",\"scope\":\"\",\"shares\":{\"fabric/ib0/hosts/vfs\":1}}");
    refuse(env, put_new_node(env, "{\"devices\": [[0, \"mlx5_0\", 1, \"0x11\"]]}"), WEFT_ERROR_EXHAUSTED,
           "fabric/ib0/guid/0x0000000000000011 is held by host n1 already");
}

/* Virtual functions, none, and hardware that nobody knows yet. */
static void
test_hosts_of_a_fabric(Env *env, gconstpointer data)
{
    static const char *const hosts[] = { "{\"name\":\"a\",\"fabric\":\"ib0\",\"leaf\":\"l\",\"numa\":[{\"cores\":1}]}",
                                         "{\"name\":\"b\",\"fabric\":\"ib0\",\"leaf\":\"l\"}" };
    GError *error = NULL;
    guint64 bare = 9, vfs = 9;
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_host(txn, env->host, WEFT_ABSENT);
    for (guint i = 0; i < G_N_ELEMENTS(hosts); i++) {
        json_auto_t *json = json_loads(hosts[i], 0, NULL);
        g_autoptr(WeftHost) host = weft_host_from_json(json, "", &error);
        g_assert_no_error(error);
        weft_txn_put_host(txn, host, WEFT_ABSENT);
    }
    commit(env, txn);
    g_assert_true(weft_store_count_hosts(env->store, "ib0", &bare, &vfs, &error));
    g_assert_cmpuint(bare, ==, 1);
    g_assert_cmpuint(vfs, ==, 2);
}

static void
test_load(Env *env, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    gint64 revision = -7;
    g_assert_null(weft_store_load_host(env->store, "n1", &revision, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND);
    g_assert_cmpstr(error->message, ==, "there is no host n1");
    g_assert_cmpint(revision, ==, -7);
    g_clear_error(&error);

    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_host(txn, env->host, WEFT_ABSENT);
    weft_txn_put(txn, WEFT_KIND_TENANT, "acme", NULL, NULL, json_pack("{s:i}", "name", 7), WEFT_ABSENT);
    commit(env, txn);
    g_autoptr(WeftHost) host = weft_store_load_host(env->store, "n1", &revision, &error);
    g_assert_no_error(error);
    g_assert_cmpint(revision, >, 0);
    g_assert_cmpuint(host->hcas->len, ==, 2);

    g_assert_null(weft_store_load_tenant(env->store, "acme", NULL, &error));
    g_assert_nonnull(error);
    g_assert_true(g_str_has_prefix(error->message, "store: tenant acme: name: "));
}

static void
test_site(Env *env, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftSiteRecord) made = weft_store_site(env->store, &error);
    g_assert_no_error(error);
    g_assert_true(weft_id_is_valid(made->id));
    g_assert_cmpint(made->created, >, 0);
    g_autoptr(WeftSiteRecord) again = weft_store_site(env->store, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(again->id, ==, made->id);

    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put(txn, WEFT_KIND_META, "site", NULL, NULL, json_pack("{s:s}", "id", "../x"), WEFT_ANY);
    commit(env, txn);
    g_assert_null(weft_store_site(env->store, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_FAILED);
}

static GStrv
begin_run(Env *env, const char *instance, const char *run)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftSiteRecord) site = weft_store_site(env->store, &error);
    g_assert_true(weft_store_begin_epoch(env->store, site, instance, run, &error));
    g_assert_no_error(error);
    return weft_site_record_former(site, instance);
}

/* A store that was moved or copied does not name the runs that it had elsewhere before an operator has a host taken here. */
static void
test_runs(Env *env, gconstpointer data)
{
    const char *here = "0aaaaaaaaaaa", *there = "0bbbbbbbbbbb";
    g_auto(GStrv) first = begin_run(env, here, "0first000000"), second = begin_run(env, here, "0second00000");
    g_assert_cmpuint(g_strv_length(first), ==, 1);
    g_assert_true(g_strv_contains((const char *const *)second, "0first000000"));
    g_auto(GStrv) copied = begin_run(env, there, "0third000000");
    g_assert_cmpuint(g_strv_length(copied), ==, 1);
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_ask_to_take(txn, "n1", "0third000000");
    commit(env, txn);
    g_assert_true(weft_store_is_to_take(env->store, "n1", "0third000000"));
    g_assert_false(weft_store_is_to_take(env->store, "n1", "0fourth00000"));
    txn = weft_txn_new("test");
    weft_txn_taken(txn, env->store, "n1", there);
    commit(env, txn);
    g_assert_false(weft_store_is_to_take(env->store, "n1", "0third000000"));
    g_auto(GStrv) moved = begin_run(env, there, "0fourth00000");
    g_assert_cmpuint(g_strv_length(moved), ==, 4);
    for (guint i = 0; i < 100; i++)
        g_strfreev(begin_run(env, there, "0many0000000"));
    g_auto(GStrv) last = begin_run(env, there, "0last0000000");
    g_assert_cmpuint(g_strv_length(last), ==, 64);
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *path;
        void (*run)(Env *env, gconstpointer data);
    } tests[] = {
        { "/records/node-claims", test_node_claims },
        { "/records/primed", test_primed },
        { "/records/moved-node", test_moved_node },
        { "/records/node-that-arrives", test_node_that_arrives },
        { "/records/move-wish", test_move_wish },
        { "/records/nothing-twice", test_nothing_twice },
        { "/records/pages-that-are-not-there", test_pages_that_are_not_there },
        { "/records/whole-hca", test_whole_hca },
        { "/records/lanes-are-bounded", test_lanes_are_bounded },
        { "/records/release", test_release },
        { "/records/cluster", test_cluster },
        { "/records/cluster-status", test_cluster_status },
        { "/records/checkpoint-storage", test_checkpoint_storage },
        { "/records/template-bytes", test_template_bytes },
        { "/records/template-blobs", test_template_blobs },
        { "/records/remove-image", test_remove_image },
        { "/records/people", test_people },
        { "/records/tokens-are-bounded", test_tokens_are_bounded },
        { "/records/remove-host", test_remove_host },
        { "/records/remove-tenant", test_remove_tenant },
        { "/records/events", test_events },
        { "/records/stamped-events", test_stamped_events },
        { "/records/host-ports", test_host_ports },
        { "/records/hosts-of-a-fabric", test_hosts_of_a_fabric },
        { "/records/load", test_load },
        { "/records/site", test_site },
        { "/records/runs", test_runs },
    };
    g_test_init(&argc, &argv, NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(tests); i++)
        g_test_add(tests[i].path, Env, NULL, set_up, tests[i].run, tear_down);
    return g_test_run();
}
