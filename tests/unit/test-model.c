#include "checkpoint.h"
#include "cluster.h"
#include "errors.h"
#include "event.h"
#include "host.h"
#include "image-head.h"
#include "names.h"
#include "node.h"
#include "partition.h"
#include "phase.h"
#include "pkeys.h"
#include "reservation.h"
#include "template.h"
#include "tenant.h"
#include "topology.h"
#include "yaml.h"

#define SAME(a, b, member) g_assert_cmpint((gint64)(a)->member, ==, (gint64)(b)->member)
#define SAME_TEXT(a, b, member) g_assert_cmpstr((a)->member, ==, (b)->member)

/* Golden directories: each NAME.json is read, and what came of it must be NAME.expected. WEFT_GOLDEN_REWRITE=1 rewrites these.
 */

typedef json_t *(*ReadBack)(json_t *json, GError **error);

static json_t *
parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    json_t *json = weft_json_parse(text, strlen(text), &error);
    g_assert_no_error(error);
    return json;
}

/* "ok" and the canonical form, or the error. */
static char *
outcome(const char *input, ReadBack read_back)
{
    g_autoptr(GError) error = NULL;
    json_t *in = parse(input);
    json_t *out = read_back(in, &error);
    json_decref(in);
    if (!out) {
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        return g_strconcat(error->message, "\n", NULL);
    }
    g_assert_no_error(error);
    char *text = json_dumps(out, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(out);
    char *result = g_strconcat("ok\n", text, "\n", NULL);
    free(text);
    return result;
}

static void
check_golden_case(const char *folder, const char *name, ReadBack read_back)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *input_path = g_strdup_printf("%s/%s.json", folder, name);
    g_autofree char *expected_path = g_strdup_printf("%s/%s.expected", folder, name);
    g_autofree char *input = NULL;
    g_assert_true(g_file_get_contents(input_path, &input, NULL, &error));
    g_autofree char *actual = outcome(input, read_back);
    if (g_getenv("WEFT_GOLDEN_REWRITE"))
        g_assert_true(g_file_set_contents(expected_path, actual, -1, &error));
    g_autofree char *expected = NULL;
    g_assert_true(g_file_get_contents(expected_path, &expected, NULL, &error));
    g_test_message("%s", input_path);
    g_assert_cmpstr(actual, ==, expected);
}

typedef struct {
    const char *folder;
    guint cases;
    ReadBack read_back;
} Golden;

static void
test_golden(gconstpointer data)
{
    const Golden *golden = data;
    g_autofree char *folder = g_test_build_filename(G_TEST_DIST, "..", "golden", golden->folder, NULL);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    g_assert_nonnull(dir);
    guint cases = 0, expected = 0;
    for (const char *file = g_dir_read_name(dir); file; file = g_dir_read_name(dir)) {
        expected += g_str_has_suffix(file, ".expected");
        if (!g_str_has_suffix(file, ".json"))
            continue;
        g_autofree char *name = g_strndup(file, strlen(file) - strlen(".json"));
        check_golden_case(folder, name, golden->read_back);
        cases++;
    }
    g_assert_cmpuint(cases, >=, golden->cases);
    if (!g_getenv("WEFT_GOLDEN_REWRITE"))
        g_assert_cmpuint(expected, ==, cases);
}

/* From JSON and back: a field that one of both forgets is missing from the golden file, or refused as unknown. */
#define READ_BACK(Type, prefix, ...)                                                                                           \
    static json_t *read_back_##prefix(json_t *json, GError **error)                                                            \
    {                                                                                                                          \
        g_autoptr(Type) object = weft_##prefix##_from_json(json, ##__VA_ARGS__, error);                                        \
        return object ? weft_##prefix##_to_json(object) : NULL;                                                                \
    }

READ_BACK(WeftClusterStatus, cluster_status)
READ_BACK(WeftCheckpoint, checkpoint)
READ_BACK(WeftEvent, event)
READ_BACK(WeftFabric, fabric, "fabrics[0]")
READ_BACK(WeftHostStatus, host_status)
READ_BACK(WeftImage, image, "")
READ_BACK(WeftNode, node)
READ_BACK(WeftPrimed, primed)
READ_BACK(WeftPrincipal, principal, "principals[1]")
READ_BACK(WeftReservation, reservation)
READ_BACK(WeftTemplate, template)
READ_BACK(WeftTenant, tenant, "tenants[1]")
READ_BACK(WeftToken, token)
READ_BACK(WeftUsage, usage)

#define NOON 1769860800000000 /* 2026-01-31T12:00:00Z */

/* What an operator wrote at noon, and what the store has of it. */
static json_t *
read_back_reservation_spec(json_t *json, GError **error)
{
    g_autoptr(WeftReservation) reservation = weft_reservation_from_spec(json, NOON, error);
    if (!reservation)
        return NULL;
    json_t *record = weft_reservation_to_json(reservation);
    g_autoptr(WeftReservation) again = weft_reservation_from_json(record, error);
    g_assert_true(g_strv_equal((const char *const *)reservation->hosts, (const char *const *)again->hosts));
    return record;
}

static void
test_reservations(void)
{
    char *some[] = { "n1", "n3", "n10", NULL }, *more[] = { "n2", "n10", NULL }, *others[] = { "n01", "n4", NULL };
    WeftReservation a = { .hosts = some, .start = 10, .end = 20 }, b = { .hosts = more, .start = 19, .end = 30 };
    WeftReservation c = { .hosts = others, .start = 10, .end = 20, .tenant = "acme" };
    g_assert_cmpstr(weft_reservation_overlaps(&a, &b), ==, "n10");
    g_assert_cmpstr(weft_reservation_overlaps(&b, &a), ==, "n10");
    g_assert_null(weft_reservation_overlaps(&a, &c));
    b.start = 20;
    g_assert_null(weft_reservation_overlaps(&a, &b));
    g_assert_null(weft_reservation_overlaps(&b, &a));

    g_assert_true(weft_reservation_bars(&a, "acme", 10));
    g_assert_false(weft_reservation_bars(&a, "acme", 9));
    g_assert_false(weft_reservation_bars(&a, "acme", 20));
    g_assert_false(weft_reservation_bars(&c, "acme", 15));
    g_assert_true(weft_reservation_bars(&c, "umbrella", 15));
}

static void
assert_equal_clusters(const WeftCluster *a, const WeftCluster *b)
{
    SAME_TEXT(a, b, id);
    SAME_TEXT(a, b, name);
    SAME_TEXT(a, b, tenant);
    SAME_TEXT(a, b, fabric);
    SAME_TEXT(a, b, creator);
    SAME_TEXT(a, b, user_data);
    SAME(a, b, slurm);
    SAME(a, b, layout);
    SAME(a, b, exclusive);
    SAME(a, b, pattern);
    SAME(a, b, priority);
    SAME(a, b, walltime);
    SAME(a, b, preemptible);
    g_assert_cmpstr(a->hosts, ==, b->hosts);
    g_assert_cmpmem(a->traffic->data, a->traffic->len * sizeof(WeftTraffic), b->traffic->data,
                    b->traffic->len * sizeof(WeftTraffic));
    g_assert_cmpuint(a->apart->len, ==, b->apart->len);
    for (guint i = 0; i < a->apart->len; i++)
        g_assert_cmpstr(g_ptr_array_index(a->apart, i), ==, g_ptr_array_index(b->apart, i));
    SAME(a, b, created);
    SAME(a, b, scaled);
    SAME(a, b, deleted);
    SAME(a, b, bridged);
    g_assert_cmpuint(a->ssh_keys->len, ==, b->ssh_keys->len);
    for (guint i = 0; i < a->ssh_keys->len; i++)
        g_assert_cmpstr(g_ptr_array_index(a->ssh_keys, i), ==, g_ptr_array_index(b->ssh_keys, i));
    g_assert_cmpuint(a->groups->len, ==, b->groups->len);
    for (guint i = 0; i < a->groups->len; i++) {
        const WeftGroup *x = g_ptr_array_index(a->groups, i), *y = g_ptr_array_index(b->groups, i);
        SAME_TEXT(x, y, name);
        SAME(x, y, count);
        SAME(x, y, cores);
        SAME(x, y, memory);
        SAME(x, y, page_size);
        SAME(x, y, gpus);
        SAME(x, y, rails);
        SAME(x, y, path);
        SAME(x, y, locality);
        SAME_TEXT(x, y, image);
    }
    g_assert_cmpuint(g_hash_table_size(a->labels), ==, g_hash_table_size(b->labels));
    GHashTableIter iter;
    gpointer name, value;
    g_hash_table_iter_init(&iter, a->labels);
    while (g_hash_table_iter_next(&iter, &name, &value))
        g_assert_cmpstr(value, ==, g_hash_table_lookup(b->labels, name));
}

/* As the API makes it of a specification: what is not the user's to say is filled in, and it goes through the store. */
static json_t *
read_back_spec(json_t *json, GError **error)
{
    g_autoptr(WeftCluster) cluster = weft_cluster_from_spec(json, error);
    if (!cluster)
        return NULL;
    cluster->id = g_strdup("1abcdefghijk");
    cluster->tenant = g_strdup("acme");
    cluster->creator = g_strdup("alice");
    cluster->created = 1769860800123456;
    cluster->scaled = cluster->groups->len > 1 ? 1769860800123457 : 0;
    cluster->deleted = cluster->groups->len > 1;
    json_t *stored = weft_cluster_to_json(cluster);
    g_autoptr(WeftCluster) again = weft_cluster_from_json(stored, error);
    g_assert_nonnull(again);
    assert_equal_clusters(cluster, again);
    g_autoptr(WeftCluster) copy = weft_cluster_copy(cluster);
    assert_equal_clusters(cluster, copy);
    const char *granted[] = { "id", "tenant", "creator", "created", "scaled", "deleted" };
    for (guint i = 0; i < G_N_ELEMENTS(granted); i++)
        json_object_del(stored, granted[i]);
    return stored;
}

static void
assert_equal_cores(const WeftHost *a, const WeftHost *b)
{
    g_assert_cmpuint(a->cores->len, ==, b->cores->len);
    for (guint i = 0; i < a->cores->len; i++) {
        const WeftCore *x = &g_array_index(a->cores, WeftCore, i), *y = &g_array_index(b->cores, WeftCore, i);
        g_assert_cmpuint(x->id, ==, i);
        g_assert_cmpuint(y->id, ==, i);
        SAME(x, y, numa);
        SAME(x, y, housekeeping);
        g_assert_cmpmem(x->cpus, x->n_cpus * sizeof x->cpus[0], y->cpus, y->n_cpus * sizeof y->cpus[0]);
    }
    g_assert_cmpuint(a->numa->len, ==, b->numa->len);
    for (guint i = 0; i < a->numa->len; i++) {
        const WeftNuma *x = &g_array_index(a->numa, WeftNuma, i), *y = &g_array_index(b->numa, WeftNuma, i);
        g_assert_cmpmem(x->pages, x->n_pages * sizeof x->pages[0], y->pages, y->n_pages * sizeof y->pages[0]);
        for (guint j = 1; j < x->n_pages; j++)
            g_assert_cmpuint(x->pages[j - 1].size, >, x->pages[j].size);
    }
}

static void
assert_equal_devices(const WeftHost *a, const WeftHost *b)
{
    g_assert_cmpuint(a->hcas->len, ==, b->hcas->len);
    for (guint i = 0; i < a->hcas->len; i++) {
        const WeftHca *x = g_ptr_array_index(a->hcas, i), *y = weft_host_hca(b, x->name);
        g_assert_nonnull(y);
        SAME(x, y, driver);
        SAME(x, y, numa);
        SAME(x, y, rail);
        SAME(x, y, port_guid);
        SAME(x, y, vfs);
        g_assert_nonnull(x->leaf);
        SAME_TEXT(x, y, leaf);
    }
    g_assert_cmpuint(a->gpus->len, ==, b->gpus->len);
    for (guint i = 0; i < a->gpus->len; i++) {
        const WeftGpu *x = g_ptr_array_index(a->gpus, i), *y = g_ptr_array_index(b->gpus, i);
        SAME_TEXT(x, y, name);
        SAME(x, y, numa);
        SAME_TEXT(x, y, root);
    }
}

static json_t *
read_back_host(json_t *json, GError **error)
{
    g_autoptr(WeftHost) host = weft_host_from_json(json, "hosts[3]", error);
    if (!host)
        return NULL;
    json_t *stored = weft_host_to_json(host);
    g_autoptr(WeftHost) again = weft_host_from_json(stored, "", error);
    g_assert_nonnull(again);
    SAME_TEXT(host, again, name);
    SAME_TEXT(host, again, uri);
    SAME_TEXT(host, again, fabric);
    SAME_TEXT(host, again, leaf);
    SAME(host, again, origin);
    SAME(host, again, draining);
    SAME(host, again, evicting);
    g_assert_cmpuint(g_hash_table_size(host->labels), ==, g_hash_table_size(again->labels));
    assert_equal_cores(host, again);
    assert_equal_devices(host, again);
    return stored;
}

static WeftHost *
host_of(const char *numa, guint housekeeping)
{
    g_autofree char *text = g_strdup_printf(
        "{\"name\":\"n1\",\"fabric\":\"ib0\",\"leaf\":\"l1\",\"housekeeping\":%u,\"numa\":%s}", housekeeping, numa);
    g_autoptr(GError) error = NULL;
    json_t *json = parse(text);
    WeftHost *host = weft_host_from_json(json, "", &error);
    json_decref(json);
    g_assert_no_error(error);
    return host;
}

/* "numa:cpu,cpu" of each core, '*' before those of the host. */
static char *
describe_cores(const WeftHost *host)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < host->cores->len; i++) {
        const WeftCore *core = &g_array_index(host->cores, WeftCore, i);
        g_string_append_printf(text, "%s%s%u:", i ? " " : "", core->housekeeping ? "*" : "", core->numa);
        for (guint j = 0; j < core->n_cpus; j++)
            g_string_append_printf(text, "%s%u", j ? "," : "", core->cpus[j]);
    }
    return g_string_free(text, FALSE);
}

static void
test_host_cores(void)
{
    static const struct {
        const char *numa;
        guint housekeeping;
        const char *cores;
    } cases[] = {
        { "[{\"cores\":2,\"threads\":2},{\"cores\":2,\"threads\":2}]", 1, "*0:0,4 0:1,5 *1:2,6 1:3,7" },
        { "[{\"cores\":1,\"threads\":2},{\"cores\":2}]", 0, "0:0,3 1:1 1:2" },
        { "[{\"cores\":2,\"cpus\":[[9],[8]]},{\"cores\":1}]", 1, "*0:9 0:8 *1:2" },
        { "[{\"cores\":1},{\"cores\":0},{\"cores\":3}]", 2, "*0:0 *2:1 *2:2 2:3" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(WeftHost) host = host_of(cases[i].numa, cases[i].housekeeping);
        g_autofree char *cores = describe_cores(host);
        g_assert_cmpstr(cores, ==, cases[i].cores);
    }
}

static WeftNode *
example_node(void)
{
    WeftNode *node = weft_node_new();
    node->id = weft_node_id("1abcdefghijk", 12);
    node->cluster = g_strdup("1abcdefghijk");
    node->cluster_name = g_strdup("cfd");
    node->tenant = g_strdup("acme");
    node->rank = 3;
    node->group = g_strdup("nodes");
    node->host = g_strdup("n1.example");
    node->mac = weft_mac_format(0x0123456789);
    node->image = g_strdup("mpi");
    node->path = WEFT_PATH_SRIOV;
    node->phase = WEFT_NODE_FAILED;
    node->reason = g_strdup("its domain died");
    node->starts = 2;
    node->since = 1769860800123456;
    const guint16 cores[] = { 1, 2, 1023 };
    g_array_append_vals(node->cores, cores, G_N_ELEMENTS(cores));
    const WeftMemory memory[] = { { 0, 2 << 20, 512 }, { 63, 1 << 30, 2 } };
    g_array_append_vals(node->memory, memory, G_N_ELEMENTS(memory));
    WeftDevice *vf = weft_device_new(0, "mlx5_0", 126);
    vf->guid = 0xfedcba9876543210;
    g_ptr_array_add(node->devices, vf);
    g_ptr_array_add(node->devices, weft_device_new(7, "mlx5_1", -1));
    g_ptr_array_add(node->gpus, g_strdup("0000:41:00.0"));
    return node;
}

/* All that is written is copied, and nothing is shared. */
static void
test_node_copy(void)
{
    g_autoptr(WeftNode) node = example_node();
    node->target = example_node();
    g_autoptr(WeftNode) copy = weft_node_copy(node);
    json_auto_t *before = weft_node_to_json(node);
    g_clear_pointer(&node, weft_node_free);
    json_auto_t *after = weft_node_to_json(copy);
    g_assert_true(json_equal(before, after));
}

static void
test_node(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftNode) node = example_node();
    json_t *json = weft_node_to_json(node);
    g_autoptr(WeftNode) again = weft_node_from_json(json, &error);
    json_decref(json);
    g_assert_no_error(error);
    g_assert_cmpstr(again->id, ==, "1abcdefghijk-12");
    SAME_TEXT(again, node, cluster);
    SAME_TEXT(again, node, cluster_name);
    SAME_TEXT(again, node, tenant);
    g_assert_cmpuint(again->rank, ==, 3);
    SAME_TEXT(again, node, group);
    SAME_TEXT(again, node, host);
    g_assert_cmpstr(again->mac, ==, "02:01:23:45:67:89");
    SAME_TEXT(again, node, image);
    g_assert_cmpint(again->path, ==, WEFT_PATH_SRIOV);
    g_assert_cmpint(again->phase, ==, WEFT_NODE_FAILED);
    SAME_TEXT(again, node, reason);
    g_assert_cmpuint(again->starts, ==, 2);
    SAME(again, node, since);
    g_assert_cmpmem(again->cores->data, again->cores->len * sizeof(guint16), node->cores->data, 3 * sizeof(guint16));
    g_assert_cmpuint(again->memory->len, ==, 2);
    g_assert_cmpuint(g_array_index(again->memory, WeftMemory, 1).numa, ==, 63);
    g_assert_cmpuint(weft_node_memory(again), ==, 3ULL << 30);
    g_assert_cmpuint(again->devices->len, ==, 2);
    for (guint i = 0; i < 2; i++) {
        const WeftDevice *a = g_ptr_array_index(node->devices, i), *b = g_ptr_array_index(again->devices, i);
        SAME(a, b, rail);
        SAME_TEXT(a, b, hca);
        SAME(a, b, vf);
        SAME(a, b, guid);
    }
    g_assert_cmpuint(again->gpus->len, ==, 1);
    g_assert_cmpstr(g_ptr_array_index(again->gpus, 0), ==, "0000:41:00.0");
}

static void
test_node_names(void)
{
    g_autoptr(WeftNode) node = example_node();
    g_autofree char *domain = weft_node_domain(node);
    g_autofree char *hostname = weft_node_hostname(node);
    g_autofree char *label = weft_node_label(node);
    g_assert_cmpstr(domain, ==, "weft-1abcdefghijk-12");
    g_assert_cmpstr(hostname, ==, "cfd-3");
    g_assert_cmpstr(label, ==, "cfd[3]");
}

static void
test_usage(void)
{
    g_autoptr(WeftNode) node = example_node();
    g_autoptr(WeftUsage) usage = weft_usage_of(node, node->since + 5);
    json_t *json = weft_usage_to_json(usage);
    g_autoptr(WeftUsage) again = weft_usage_from_json(json, NULL);
    json_decref(json);
    g_assert_cmpstr(again->node, ==, node->id);
    SAME_TEXT(again, node, cluster);
    g_assert_cmpstr(again->cluster_name, ==, "cfd");
    g_assert_cmpstr(again->tenant, ==, "acme");
    g_assert_cmpuint(again->cores, ==, 3);
    g_assert_cmpuint(again->memory, ==, 3ULL << 30);
    g_assert_cmpuint(again->gpus, ==, 1);
    g_assert_cmpuint(again->vfs, ==, 2);
    g_assert_cmpint(again->start, ==, node->since);
    g_assert_cmpint(again->end, ==, node->since + 5);

    g_autoptr(WeftUsage) stepped_back = weft_usage_of(node, node->since - 5);
    g_assert_cmpint(stepped_back->end, ==, node->since);
}

static WeftCluster *
cluster_of(const char *spec)
{
    g_autoptr(GError) error = NULL;
    json_t *json = parse(spec);
    WeftCluster *cluster = weft_cluster_from_spec(json, &error);
    json_decref(json);
    g_assert_no_error(error);
    return cluster;
}

static void
test_demand(void)
{
    g_autoptr(WeftCluster) cluster = cluster_of(
        "{\"name\":\"cfd\",\"groups\":[{\"name\":\"a\",\"count\":3,\"cores\":4,\"memory\":\"8G\",\"gpus\":2,\"rails\":2},"
        "{\"name\":\"b\",\"count\":1,\"path\":\"bridge\"}]}");
    guint64 demand[WEFT_QUOTAS];
    weft_cluster_demand(cluster, demand);
    const guint64 expected[WEFT_QUOTAS] = {
        [WEFT_QUOTA_CLUSTERS] = 1,         [WEFT_QUOTA_NODES] = 4, [WEFT_QUOTA_CORES] = 13,
        [WEFT_QUOTA_MEMORY] = 25ULL << 30, [WEFT_QUOTA_GPUS] = 6,  [WEFT_QUOTA_VFS] = 6,
    };
    g_assert_cmpmem(demand, sizeof demand, expected, sizeof expected);

    g_autoptr(WeftCluster) wide =
        cluster_of("{\"name\":\"wide\",\"count\":1024,\"memory\":\"1G\",\"disk\":\"4T\",\"shm\":\"64M\"}");
    weft_cluster_demand(wide, demand);
    g_assert_cmpuint(demand[WEFT_QUOTA_STORAGE], ==, 4096ULL << 40);
    g_assert_cmpuint(demand[WEFT_QUOTA_MEMORY], ==, 1024 * ((1ULL << 30) + (64ULL << 20)));
}

static void
test_scale(void)
{
    static const struct {
        const char *group;
        guint count;
        guint total; /* afterwards; 0: refused */
        const char *message;
    } cases[] = {
        { "a", 0, 2, NULL },
        { "a", 1022, 1024, NULL },
        { NULL, 4, 0, "group: is missing; cluster \"cfd\" has several: a, b" },
        { "c", 4, 0, "group: cluster \"cfd\" has no group \"c\"; it has a, b" },
        { "a", 1023, 0, "count: 1023 would make 1025 nodes in all; a cluster has at most 1024" },
        { "a", G_MAXUINT, 0, "count: 4294967295 would make 4294967297 nodes in all; a cluster has at most 1024" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(WeftCluster) cluster =
            cluster_of("{\"name\":\"cfd\",\"groups\":[{\"name\":\"a\",\"count\":3},{\"name\":\"b\",\"count\":2}]}");
        gboolean done = weft_cluster_scale(cluster, cases[i].group, cases[i].count, &error);
        g_assert_cmpint(done, ==, cases[i].total != 0);
        g_assert_cmpstr(error ? error->message : NULL, ==, cases[i].message);
        g_assert_cmpuint(weft_cluster_count(cluster), ==, done ? cases[i].total : 5);
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftCluster) single = cluster_of("{\"name\":\"cfd\",\"count\":3}");
    g_assert_true(weft_cluster_scale(single, NULL, 9, NULL));
    g_assert_cmpuint(weft_cluster_count(single), ==, 9);
    g_assert_false(weft_cluster_scale(single, NULL, 0, &error));
    g_assert_cmpstr(error->message, ==, "count: 0 would leave cluster \"cfd\" without nodes; delete it instead");
}

/* A matrix of n nodes in which everybody talks to everybody. */
static json_t *
spec_of_all(guint n)
{
    json_t *matrix = json_array();
    for (guint i = 0; i < n; i++) {
        json_t *row = json_array();
        for (guint j = 0; j < n; j++)
            json_array_append_new(row, json_integer(1));
        json_array_append_new(matrix, row);
    }
    return json_pack("{s:s,s:i,s:o}", "name", "cfd", "count", (int)n, "matrix", matrix);
}

static void
test_traffic_limit(void)
{
    g_autoptr(GError) error = NULL;
    json_t *most = spec_of_all(362), *too_many = spec_of_all(363);
    g_autoptr(WeftCluster) cluster = weft_cluster_from_spec(most, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(cluster->traffic->len, ==, 362 * 361 / 2);
    g_assert_cmpuint(g_array_index(cluster->traffic, WeftTraffic, 0).weight, ==, 2);
    g_assert_null(weft_cluster_from_spec(too_many, &error));
    g_assert_cmpstr(error->message, ==,
                    "matrix: 65703 pairs of nodes talk; at most 65536 are allowed: write 0 for those that say least");
    json_decref(most);
    json_decref(too_many);
}

/* What is stored is what was asked for, however heavy and far apart; and what no weft wrote is refused. */
static void
test_stored_traffic(void)
{
    static const char *const damaged[] = {
        "gA==",     /* a number without its end */
        "AQ==",     /* no weight */
        "AQA=",     /* a weight of 0 */
        "AAE=",     /* a step of 0 */
        "gAgB",     /* 1 to 0 */
        "gICAgBAB", /* more than 32 bits */
        "AQGAgEAB", /* rank 1024 */
    };
    g_autoptr(GError) error = NULL;
    json_t *spec = parse("{\"name\":\"cfd\",\"count\":3,\"matrix\":[[0,4294967295,1],[0,0,300],[0,0,0]]}");
    g_autoptr(WeftCluster) cluster = weft_cluster_from_spec(spec, &error);
    g_assert_no_error(error);
    json_t *json = weft_cluster_to_json(cluster);
    json_object_update_new(json,
                           json_pack("{s:s, s:s, s:s, s:i}", "id", "1abc", "tenant", "acme", "creator", "alice", "created", 1));
    g_autoptr(WeftCluster) again = weft_cluster_from_json(json, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(json_string_value(json_object_get(json, "traffic")), ==, "Af////8PAQGACKwC");
    g_assert_cmpmem(again->traffic->data, again->traffic->len * sizeof(WeftTraffic), cluster->traffic->data,
                    3 * sizeof(WeftTraffic));
    for (guint i = 0; i < G_N_ELEMENTS(damaged); i++) {
        json_object_set_new(json, "traffic", json_string(damaged[i]));
        g_assert_null(weft_cluster_from_json(json, &error));
        g_assert_nonnull(strstr(error->message, "traffic: is damaged behind pair"));
        g_clear_error(&error);
    }
    json_decref(spec);
    json_decref(json);
}

/* A record as it was written before clusters had these fields. */
static void
test_old_record(void)
{
    g_autoptr(GError) error = NULL;
    json_t *json = parse("{\"name\":\"cfd\",\"id\":\"1abc\",\"tenant\":\"acme\",\"creator\":\"alice\",\"created\":1,"
                         "\"groups\":[{\"name\":\"nodes\",\"count\":8,\"cores\":4,\"memory\":1073741824,\"path\":\"auto\","
                         "\"rails\":1,\"image\":\"mpi\"}]}");
    g_autoptr(WeftCluster) cluster = weft_cluster_from_json(json, &error);
    json_decref(json);
    g_assert_no_error(error);
    const WeftGroup *group = g_ptr_array_index(cluster->groups, 0);
    g_assert_cmpint(group->locality, ==, WEFT_LOCALITY_PREFERRED);
    g_assert_cmpint(cluster->layout, ==, WEFT_LAYOUT_COMPACT);
    g_assert_cmpint(cluster->pattern, ==, WEFT_PATTERN_NONE);
    g_assert_false(cluster->exclusive || cluster->preemptible);
    g_assert_cmpint(cluster->priority, ==, 0);
    g_assert_cmpuint(cluster->walltime, ==, 0);
    g_assert_cmpuint(cluster->traffic->len + cluster->apart->len, ==, 0);
}

typedef gboolean (*MayFollow)(guint from, guint to);

static gboolean
cluster_may_follow(guint from, guint to)
{
    return weft_cluster_phase_may_follow(from, to);
}

static gboolean
node_may_follow(guint from, guint to)
{
    return weft_node_phase_may_follow(from, to);
}

/* A line per phase: its name, and an x for each that may follow. */
static char *
matrix(const char *const *words, guint n, MayFollow may_follow)
{
    GString *text = g_string_new("\n");
    for (guint from = 0; from < n; from++) {
        g_string_append_printf(text, "%-14s", words[from]);
        for (guint to = 0; to < n; to++)
            g_string_append_c(text, may_follow(from, to) ? 'x' : '.');
        g_string_append_c(text, '\n');
    }
    g_assert_null(words[n]);
    return g_string_free(text, FALSE);
}

static void
test_phases(void)
{
    /* clang-format off */
    static const char clusters[] = "\n"
        /*             qpwsrshmcsp sdf */
        "queued        xxxx.......x.x\n"
        "placed        xxxx......xx.x\n"
        "wiring        x.xx......xx.x\n"
        "starting      x.xxx.....xx.x\n"
        "ready         ....xxxxxxxx.x\n"
        "scaling       ....xxxxx.xx.x\n"
        "healing       ....xxx.x.xx.x\n"
        "migrating     ....xxxxxxxx.x\n"
        "checkpointing ....xxx.xxxx.x\n"
        "suspended     xxxx.....x.x..\n"
        "preempted     xxxx......xx..\n"
        "stopping      ...........xx.\n"
        "deleted       ............x.\n"
        "failed        xxxx.xx...xx.x\n";
    static const char nodes[] = "\n"
        "claimed       xxxxxx\n"
        "up            .xxxxx\n"
        "ready         .xxxxx\n"
        "failed        x..xxx\n"
        "lost          ...xxx\n"
        "stopping      .....x\n";
    /* clang-format on */
    g_autofree char *cluster_matrix = matrix(weft_cluster_phase_words, WEFT_CLUSTER_PHASES, cluster_may_follow);
    g_autofree char *node_matrix = matrix(weft_node_phase_words, WEFT_NODE_PHASES, node_may_follow);
    g_assert_cmpstr(cluster_matrix, ==, clusters);
    g_assert_cmpstr(node_matrix, ==, nodes);
}

static void
test_settled(void)
{
    g_autoptr(GString) settled = g_string_new(NULL);
    for (guint phase = 0; phase < WEFT_CLUSTER_PHASES; phase++)
        if (weft_cluster_phase_is_settled(phase))
            g_string_append_printf(settled, "%s ", weft_cluster_phase_words[phase]);
    g_assert_cmpstr(settled->str, ==, "ready suspended deleted failed ");
}

static void
test_partition(void)
{
    const WeftMember members[] = {
        { 2, 20, WEFT_MEMBER_FULL, -1 },
        { 1, 0, WEFT_MEMBER_FULL, 0 },
        { 2, 21, WEFT_MEMBER_LIMITED, -1 },
    };
    g_autoptr(WeftPartition) a = weft_partition_new(7, "weft-1abcdefghijk");
    g_autoptr(WeftPartition) b = weft_partition_new(7, "weft-1abcdefghijk");
    for (guint i = 0; i < 3; i++) {
        weft_partition_add(a, &members[i]);
        weft_partition_add(b, &members[2 - i]);
        weft_partition_add(b, &members[2 - i]);
    }
    g_assert_cmpuint(b->members->len, ==, 3);
    g_assert_true(weft_partition_equal(a, b));

    WeftMember *member = &g_array_index(b->members, WeftMember, 1);
    const WeftMember kept = *member;
    const WeftMember others[] = {
        { 9, 0, WEFT_MEMBER_FULL, 0 },
        { 1, 9, WEFT_MEMBER_FULL, 0 },
        { 1, 0, WEFT_MEMBER_BOTH, 0 },
        { 1, 0, WEFT_MEMBER_FULL, -1 },
    };
    for (guint i = 0; i < G_N_ELEMENTS(others); i++) {
        *member = others[i];
        g_assert_false(weft_partition_equal(a, b));
    }
    *member = kept;
    b->pkey = 8;
    g_assert_false(weft_partition_equal(a, b));
}

static void
test_partition_mark(void)
{
    g_assert_true(weft_partition_is_ours("weft-1abcdefghijk"));
    g_assert_false(weft_partition_is_ours("weft-test"));
    g_assert_false(weft_partition_is_ours("Default"));
    g_assert_false(weft_partition_is_ours("my-weft-1abcdefghijk"));
}

static void
test_fabric_numbers(void)
{
    WeftFabric fabric = { .guid_prefix = 0x0200010000000000 };
    g_assert_cmphex(weft_fabric_guid(&fabric, G_MAXUINT64), ==, 0x020001ffffffffff);
    g_assert_cmphex(weft_fabric_guid(&fabric, 0), ==, 0x0200010000000000);
    fabric.guid_prefix = 0;
    g_assert_cmphex(weft_fabric_guid(&fabric, 0), !=, 0);
    g_autofree char *mac = weft_mac_format(0xffff0123456789);
    g_assert_cmpstr(mac, ==, "02:01:23:45:67:89");
}

static void
test_names(void)
{
    static const struct {
        WeftGrammar grammar;
        const char *text;
        gboolean allowed;
    } cases[] = {
        { WEFT_GRAMMAR_NAME, "a", TRUE },          { WEFT_GRAMMAR_NAME, "a-1-b", TRUE },
        { WEFT_GRAMMAR_NAME, "-a", FALSE },        { WEFT_GRAMMAR_NAME, "a.b", FALSE },
        { WEFT_GRAMMAR_NAME, "\xc3\xa9", FALSE },  { WEFT_GRAMMAR_HOST, "N1", TRUE },
        { WEFT_GRAMMAR_HOST, "1.xn--a.b", TRUE },  { WEFT_GRAMMAR_HOST, "a..b", FALSE },
        { WEFT_GRAMMAR_HOST, "a.-b", FALSE },      { WEFT_GRAMMAR_HOST, "", FALSE },
        { WEFT_GRAMMAR_HOST, "a_b", FALSE },       { WEFT_GRAMMAR_LABEL, "a.b/c_d-e", TRUE },
        { WEFT_GRAMMAR_LABEL, "a/", FALSE },       { WEFT_GRAMMAR_LABEL, "a//b", FALSE },
        { WEFT_GRAMMAR_IMAGE, "a/b", FALSE },      { WEFT_GRAMMAR_DEVICE, "0:4.1", TRUE },
        { WEFT_GRAMMAR_DEVICE, "a/b", FALSE },     { WEFT_GRAMMAR_TEXT, "", FALSE },
        { WEFT_GRAMMAR_TEXT, "MF0;s:X/U1", TRUE }, { WEFT_GRAMMAR_TEXT, "\xff", FALSE },
        { WEFT_GRAMMAR_TEXT, "a\nb", FALSE },      { WEFT_GRAMMAR_LABEL_VALUE, "", TRUE },
        { WEFT_GRAMMAR_LABEL_VALUE, "a b", TRUE },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_cmpint(weft_grammar_check(cases[i].grammar, cases[i].text, "it", &error), ==, cases[i].allowed);
        g_assert_cmpint(error != NULL, ==, !cases[i].allowed);
    }
    g_assert_true(weft_name_check("cfd", "cluster name", NULL));
    g_assert_false(weft_name_check("N1", "cluster name", NULL));
    g_assert_true(weft_host_name_check("N1", NULL));
}

static const Golden goldens[] = {
    { "cluster-status", 5, read_back_cluster_status },
    { "event", 4, read_back_event },
    { "fabric", 11, read_back_fabric },
    { "host", 86, read_back_host },
    { "host-status", 5, read_back_host_status },
    { "checkpoint", 9, read_back_checkpoint },
    { "image", 17, read_back_image },
    { "node", 20, read_back_node },
    { "primed", 4, read_back_primed },
    { "principal", 9, read_back_principal },
    { "reservation", 4, read_back_reservation },
    { "reservation-spec", 22, read_back_reservation_spec },
    { "spec", 154, read_back_spec },
    { "template", 9, read_back_template },
    { "tenant", 19, read_back_tenant },
    { "token", 4, read_back_token },
    { "usage", 4, read_back_usage },
};

/* A header that is fine: version 3, 64 KiB clusters, 1 GiB, one table of two entries in the fourth cluster. */
static const guint8 fine_qcow2[WEFT_IMAGE_HEAD_LENGTH] = {
    'Q', 'F', 'I', 0xfb, [7] = 3, [23] = 16, [28] = 0x40, [39] = 2, [45] = 3, [53] = 1, [59] = 1, [99] = 4, [103] = 104,
};

static void
test_image_disk(void)
{
    /* What is changed in it, and what of the message must tell it; NULL: it is still fine. */
    static const struct {
        guint8 at, value;
        const char *says;
    } cases[] = {
        { 79, 0x00, NULL },
        { 79, 0x08, NULL },               /* compression type */
        { 79, 0x10, "tables cannot be" }, /* entries of twice the length: these reach half as far */
        { 7, 2, NULL },
        { 7, 1, "no qcow2 of version 2 or 3" },
        { 7, 4, "no qcow2 of version 2 or 3" },
        { 15, 1, "a layer over another file; make one that stands alone: qemu-img convert" },
        { 8, 0x80, "a layer over another file" },
        { 79, 0x04, "keeps its data in another file" },
        { 79, 0x01, "was not closed" },
        { 79, 0x02, "is corrupt" },
        { 79, 0x20, "features that weft does not know (0x20)" },
        { 72, 0x80, "features that weft does not know (0x8000000000000000)" },
        { 35, 1, "is encrypted" },
        { 23, 8, "clusters of a size" },
        { 23, 22, "clusters of a size" },
        { 20, 1, "clusters of a size" },
        { 36, 0xff, "not within its file" },
        { 40, 0xff, "not within its file" },
        { 38, 0xff, "not within its file" },
        { 53, 4, "not within its file" },
        { 46, 1, "tables cannot be" },
        { 54, 1, "tables cannot be" },
        { 53, 0, "tables cannot be" },
        { 39, 1, "tables cannot be" }, /* half of the disk */
        { 31, 1, "tables cannot be" }, /* one byte more than they reach */
        { 24, 0x80, "describes a disk of" },
        { 28, 0, "describes a disk of 0 bytes" },
        { 0, 'X', "disk.format: is qcow2, and the file is no qcow2" },
    };
    const WeftImageFile file = { .size = 4 << 16, .format = WEFT_DISK_QCOW2 },
                        raw = { .size = 4 << 16, .format = WEFT_DISK_RAW };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        guint8 header[sizeof fine_qcow2];
        memcpy(header, fine_qcow2, sizeof header);
        header[cases[i].at] = cases[i].value;
        gboolean fine = weft_image_head_check(WEFT_PART_DISK, &file, header, sizeof header, &error);
        g_test_message("%u: %s", i, error ? error->message : "fine");
        g_assert_cmpint(fine, ==, cases[i].says == NULL);
        g_assert_true(fine || (error && strstr(error->message, cases[i].says)));
    }
    for (gsize length = 0; length < sizeof fine_qcow2; length++) /* whatever is there of it */
        g_assert_cmpint(weft_image_head_check(WEFT_PART_DISK, &file, fine_qcow2, length, NULL), ==, length >= 104);
    g_assert_false(weft_image_head_check(WEFT_PART_DISK, &raw, fine_qcow2, sizeof fine_qcow2, NULL));
    g_assert_true(weft_image_head_check(WEFT_PART_DISK, &raw, (const guint8 *)"", 0, NULL));
}

/* A layer leads to what it is laid over, if to anything, and nowhere else. */
static void
test_image_layer(void)
{
    static const char base[] = "/var/lib/libvirt/images/weft/image-1";
    static const struct {
        guint8 at, value;
        gboolean fine;
    } cases[] = {
        { 79, 0x00, TRUE }, { 79, 0x04, FALSE }, { 35, 1, FALSE }, { 0, 'X', FALSE }, { 7, 4, FALSE },
        { 15, 0, TRUE },    { 8, 0x80, FALSE },  { 19, 3, FALSE }, { 17, 1, FALSE },  { 255, 'x', FALSE },
    };
    guint8 fine[sizeof fine_qcow2];
    memcpy(fine, fine_qcow2, sizeof fine);
    fine[15] = 240;
    fine[19] = sizeof base - 1;
    memcpy(fine + 240, base, sizeof base - 1);
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        guint8 header[sizeof fine];
        memcpy(header, fine, sizeof header);
        header[cases[i].at] = cases[i].value;
        g_autoptr(GError) error = NULL;
        gboolean ok = weft_image_layer_check(base, header, sizeof header, &error);
        g_test_message("%u: %s", i, error ? error->message : "fine");
        g_assert_cmpint(ok, ==, cases[i].fine);
    }
    for (gsize length = 0; length < sizeof fine; length++)
        g_assert_cmpint(weft_image_layer_check(base, fine, length, NULL), ==, length >= 240 + sizeof base - 1);
}

/* Of the other files: what one begins with, and what of the message must tell; NULL: it is fine. */
static void
test_image_head(void)
{
    static const struct {
        WeftImagePart part;
        guint64 size;
        guint at;
        const char *text;
        gsize length;
        const char *says;
    } cases[] = {
        { WEFT_PART_DISK, 1024, 0, "", 0, NULL },
        { WEFT_PART_DISK, 1023, 0, "", 0, "disk: has 1023 bytes, and a disk has whole sectors of 512" },
        { WEFT_PART_DISK, 1, 0, "", 0, "truncate -s %512 FILE" },
        { WEFT_PART_KERNEL, 520, 0, "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\x3e\0", 20, NULL },
        { WEFT_PART_KERNEL, 520, 0, "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\x3e\0", 20, "machine 62 and type 3" },
        { WEFT_PART_KERNEL, 520, 0, "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\xb7\0", 20, "machine 183 and type 2" },
        { WEFT_PART_KERNEL, 4, 0, "\177ELF", 4, "machine 0 and type 0" },
        { WEFT_PART_KERNEL, 520, 0x202, "HdrS", 4, NULL },
        { WEFT_PART_KERNEL, 520, 0, "HdrS", 4, "the file begins with 48 64 72 53, and a kernel is ELF (vmlinux) or a bzImage" },
        { WEFT_PART_KERNEL, 520, 0, "\x1f\x8b", 2, "the file is packed by gzip, and a kernel is" },
        { WEFT_PART_KERNEL, 520, 0, "070701", 6, "kernel: the file is a cpio archive" },
        { WEFT_PART_INITRD, 520, 0, "070701", 6, NULL },
        { WEFT_PART_INITRD, 520, 0, "\x1f\x8b", 2, NULL },
        { WEFT_PART_INITRD, 520, 0, "\x28\xb5\x2f\xfd", 4, NULL },
        { WEFT_PART_INITRD, 520, 0x202, "HdrS", 4, "initrd: the file is a bzImage, and an initrd is a cpio archive" },
        { WEFT_PART_INITRD, 1, 0, "x", 1, "the file begins with 78 00 00 00" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        guint8 head[WEFT_IMAGE_HEAD_LENGTH] = { 0 };
        const WeftImageFile file = { .size = cases[i].size, .format = WEFT_DISK_RAW };
        memcpy(head + cases[i].at, cases[i].text, cases[i].length);
        gboolean fine = weft_image_head_check(cases[i].part, &file, head, sizeof head, &error);
        g_test_message("%u: %s", i, error ? error->message : "fine");
        g_assert_cmpint(fine, ==, cases[i].says == NULL);
        g_assert_true(fine || (error && strstr(error->message, cases[i].says)));
        for (gsize length = 0; length < cases[i].at + cases[i].length; length++) /* whatever is there of it */
            weft_image_head_check(cases[i].part, &file, head, length, NULL);
    }
}

/* What a node has in common with its template tells which one it is. */
static void
test_template_of_node(void)
{
    g_autoptr(WeftHost) host = weft_host_new();
    g_autoptr(WeftNode) node = weft_node_new();
    WeftCore core = { .n_cpus = 2 };
    g_array_append_val(host->cores, core);
    guint16 first = 0;
    WeftMemory memory = { 1, 2 << 20, 512 };
    g_array_append_val(node->cores, first);
    g_array_append_val(node->memory, memory);
    WeftImageFile disk = { (char *)"d1", 1, WEFT_DISK_READONLY }, kernel = { (char *)"k1", 1, 0 };
    WeftImage image = { .name = (char *)"mpi", .disk = &disk, .kernel = &kernel };
    WeftTemplateNeed need = { node, host, &image, "QEMU 7.2.0, q35, any, kvm", "g1", FALSE };
    const char *why;
    g_autoptr(WeftTemplate) one = weft_template_for(&need, &why);
    g_assert_nonnull(one);
    g_assert_cmpuint(one->cpus, ==, 2);
    g_assert_cmpuint(one->memory, ==, 1 << 30);
    g_assert_true(weft_template_is_of(one, &image));
    g_autoptr(WeftTemplate) same = weft_template_for(&need, &why);
    g_assert_cmpstr(one->id, ==, same->id);

    need.guest = "g2";
    g_autoptr(WeftTemplate) other_guest = weft_template_for(&need, &why);
    g_assert_cmpstr(one->id, !=, other_guest->id);
    need.kind = "QEMU 8.0.0, q35, any, kvm";
    g_autoptr(WeftTemplate) other_kind = weft_template_for(&need, &why);
    g_assert_cmpstr(other_guest->id, !=, other_kind->id);
    image.cmdline = (char *)"quiet";
    g_assert_false(weft_template_is_of(one, &image));

    disk.format = WEFT_DISK_QCOW2;
    g_assert_null(weft_template_for(&need, &why));
    g_assert_cmpstr(why, ==, "its image has a disk that each node writes to");
    disk.format = WEFT_DISK_READONLY;
    g_array_append_val(node->memory, memory);
    g_assert_null(weft_template_for(&need, &why));
    g_assert_cmpstr(why, ==, "its memory is in more than one NUMA node");
}

/* --- partition numbers --- */

static void
orders_each_number_once(void)
{
    static const guint ends[][2] = { { 1, 1 }, { 1, 2 }, { 7, 12 }, { 0x1000, 0x1fff }, { WEFT_PKEY_FIRST, WEFT_PKEY_LAST } };
    static const guint64 seeds[] = { 0, 1, 0x123456789abcdef0, G_MAXUINT64 };
    for (gsize i = 0; i < G_N_ELEMENTS(ends) * G_N_ELEMENTS(seeds); i++) {
        const guint *end = ends[i / G_N_ELEMENTS(seeds)];
        g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
        WeftPkeyOrder order = weft_pkey_order(end[0], end[1], seeds[i % G_N_ELEMENTS(seeds)]);
        for (guint place = 0; place < order.n; place++) {
            guint pkey = weft_pkey_at(&order, place);
            g_assert_cmpuint(pkey, >=, end[0]);
            g_assert_cmpuint(pkey, <=, end[1]);
            g_assert_true(g_hash_table_add(seen, GUINT_TO_POINTER(pkey)));
        }
        g_assert_cmpuint(order.n, ==, end[1] - end[0] + 1);
    }
}

/* The seed alone decides, and each number may be the first. */
static void
orders_numbers_by_the_seed(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(7);
    guint first[16] = { 0 };
    for (guint i = 0; i < 16 * 256; i++) {
        guint64 seed = (guint64)g_rand_int(random) << 32 | g_rand_int(random);
        WeftPkeyOrder order = weft_pkey_order(1, 16, seed), again = weft_pkey_order(1, 16, seed);
        g_assert_cmpmem(&order, sizeof order, &again, sizeof again);
        first[weft_pkey_at(&order, 0) - 1]++;
    }
    for (guint i = 0; i < 16; i++) {
        g_assert_cmpuint(first[i], >, 128);
        g_assert_cmpuint(first[i], <, 512);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(goldens); i++) {
        g_autofree char *path = g_strconcat("/model/golden/", goldens[i].folder, NULL);
        g_test_add_data_func(path, &goldens[i], test_golden);
    }
    g_test_add_func("/model/template-of-node", test_template_of_node);
    g_test_add_func("/model/reservations", test_reservations);
    g_test_add_func("/model/host/cores", test_host_cores);
    g_test_add_func("/model/cluster/demand", test_demand);
    g_test_add_func("/model/cluster/scale", test_scale);
    g_test_add_func("/model/cluster/traffic-limit", test_traffic_limit);
    g_test_add_func("/model/cluster/stored-traffic", test_stored_traffic);
    g_test_add_func("/model/cluster/old-record", test_old_record);
    g_test_add_func("/model/node/round-trip", test_node);
    g_test_add_func("/model/node/copy", test_node_copy);
    g_test_add_func("/model/node/names", test_node_names);
    g_test_add_func("/model/image/disk", test_image_disk);
    g_test_add_func("/model/image/head", test_image_head);
    g_test_add_func("/model/image/layer", test_image_layer);
    g_test_add_func("/model/usage", test_usage);
    g_test_add_func("/model/phases", test_phases);
    g_test_add_func("/model/phases/settled", test_settled);
    g_test_add_func("/model/partition", test_partition);
    g_test_add_func("/model/partition/mark", test_partition_mark);
    g_test_add_func("/model/fabric/numbers", test_fabric_numbers);
    g_test_add_func("/model/names", test_names);
    g_test_add_func("/model/pkeys/each-once", orders_each_number_once);
    g_test_add_func("/model/pkeys/by-the-seed", orders_numbers_by_the_seed);
    return g_test_run();
}
