#include "errors.h"
#include "schedule.h"

#include <string.h>

/* --- fleets from text --- */

static WeftHost *
host_from(const char *text)
{
    g_autoptr(GError) error = NULL;
    json_t *json = json_loads(text, 0, NULL); /* of a name that is there twice, the later */
    WeftHost *host = weft_host_from_json(json, "host", &error);
    json_decref(json);
    g_assert_no_error(error);
    return host;
}

static void
add_host(WeftFleet *fleet, const char *name, const char *leaf, const char *more)
{
    g_autofree char *text = g_strdup_printf(
        "{\"name\":\"%s\",\"fabric\":\"ib0\",\"leaf\":\"%s\","
        "\"numa\":[{\"cores\":4,\"threads\":2,\"pages\":{\"2M\":2048,\"1G\":1}},{\"cores\":4,\"threads\":2,\"pages\":{\"2M\":"
        "2048}}],"
        "\"hcas\":[{\"name\":\"mlx5_0\",\"driver\":\"mlx5\",\"numa\":0,\"rail\":0,\"port_guid\":\"0x0000000000000001\",\"vfs\":"
        "3},"
        "{\"name\":\"mlx5_1\",\"driver\":\"mlx5\",\"numa\":1,\"rail\":1,\"port_guid\":\"0x0000000000000002\",\"vfs\":3}],"
        "\"gpus\":[{\"name\":\"g0\",\"numa\":0},{\"name\":\"g1\",\"numa\":1}]%s}",
        name, leaf, more);
    weft_fleet_put_host(fleet, host_from(text));
    weft_fleet_set_open(fleet, name, TRUE);
}

static WeftFleet *
fleet_of(guint hosts, guint hosts_per_leaf)
{
    WeftFleet *fleet = weft_fleet_new();
    for (guint i = 0; i < hosts; i++) {
        g_autofree char *name = g_strdup_printf("n%u", i);
        g_autofree char *leaf = g_strdup_printf("leaf%u", i / hosts_per_leaf);
        add_host(fleet, name, leaf, "");
    }
    weft_fleet_sort(fleet);
    return fleet;
}

static GPtrArray *
place(WeftFleet *fleet, const char *spec, GError **error)
{
    json_t *json = json_loads(spec, 0, NULL);
    g_autoptr(WeftCluster) cluster = weft_cluster_from_spec(json, error);
    json_decref(json);
    g_assert_nonnull(cluster);
    guint counts[WEFT_GROUPS_MAX] = { 0 };
    for (guint i = 0; i < cluster->groups->len; i++)
        counts[i] = ((const WeftGroup *)cluster->groups->pdata[i])->count;
    return weft_schedule(fleet, &(WeftPlaceRequest){ cluster, NULL, counts, NULL }, error);
}

static GPtrArray *
must_place(WeftFleet *fleet, const char *spec)
{
    g_autoptr(GError) error = NULL;
    GPtrArray *nodes = place(fleet, spec, &error);
    g_assert_no_error(error);
    return nodes;
}

static void
take_all(WeftFleet *fleet, const GPtrArray *nodes)
{
    for (guint i = 0; i < nodes->len; i++)
        weft_fleet_take(fleet, nodes->pdata[i]);
}

/* "n0:0,1" for host n0 and cores 0 and 1. */
static char *
where(const WeftNode *node)
{
    GString *text = g_string_new(node->host);
    for (guint i = 0; i < node->cores->len; i++)
        g_string_append_printf(text, "%c%u", i ? ',' : ':', g_array_index(node->cores, guint16, i));
    return g_string_free(text, FALSE);
}

static void
assert_where(const WeftNode *node, const char *expected)
{
    g_autofree char *text = where(node);
    g_assert_cmpstr(text, ==, expected);
}

/* --- inside a host --- */

static void
test_one_numa(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    g_autoptr(GPtrArray) nodes = must_place(fleet, "{\"name\":\"a\",\"count\":1,\"cores\":3,\"memory\":\"2G\",\"gpus\":1}");
    const WeftNode *node = nodes->pdata[0];
    assert_where(node, "n0:0,1,2");
    g_assert_cmpuint(node->memory->len, ==, 1);
    g_assert_cmpuint(g_array_index(node->memory, WeftMemory, 0).numa, ==, 0);
    g_assert_cmpuint(g_array_index(node->memory, WeftMemory, 0).page_size, ==, 2 << 20);
    g_assert_cmpstr(((WeftDevice *)node->devices->pdata[0])->hca, ==, "mlx5_0");
    g_assert_cmpint(((WeftDevice *)node->devices->pdata[0])->vf, ==, 0);
    g_assert_cmpstr(node->gpus->pdata[0], ==, "g0");
    g_assert_cmpint(node->path, ==, WEFT_PATH_SRIOV);
}

/* A node that fits the rest of a NUMA node goes there, and the empty one stays empty. */
static void
test_best_fit(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    g_autoptr(GPtrArray) first = must_place(fleet, "{\"name\":\"a\",\"count\":1,\"cores\":2,\"memory\":\"1G\"}");
    take_all(fleet, first);
    g_autoptr(GPtrArray) second = must_place(fleet, "{\"name\":\"b\",\"count\":1,\"cores\":2,\"memory\":\"256M\"}");
    assert_where(second->pdata[0], "n0:2,3");
}

static void
test_largest_pages(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    g_autoptr(GPtrArray) nodes = must_place(fleet, "{\"name\":\"a\",\"count\":1,\"cores\":1,\"memory\":\"1G\"}");
    g_assert_cmpuint(g_array_index(((WeftNode *)nodes->pdata[0])->memory, WeftMemory, 0).page_size, ==, 1 << 30);
    g_autoptr(GPtrArray) small =
        must_place(fleet, "{\"name\":\"a\",\"count\":1,\"cores\":1,\"memory\":\"1G\",\"pages\":\"2M\"}");
    g_assert_cmpuint(g_array_index(((WeftNode *)small->pdata[0])->memory, WeftMemory, 0).page_size, ==, 2 << 20);
}

static void
test_spread_over_numa(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    g_autoptr(GPtrArray) nodes =
        must_place(fleet, "{\"name\":\"a\",\"count\":1,\"cores\":6,\"memory\":\"6G\",\"gpus\":2,\"rails\":2}");
    const WeftNode *node = nodes->pdata[0];
    g_assert_cmpuint(node->cores->len, ==, 6);
    g_assert_cmpuint(node->memory->len, ==, 2);
    g_assert_cmpuint(weft_node_memory(node), ==, 6ULL << 30);
    g_assert_cmpuint(g_array_index(node->memory, WeftMemory, 0).pages, ==, 2048); /* 4 of 6 cores, 4 of 6 GiB */
    g_assert_cmpuint(node->gpus->len, ==, 2);
    g_assert_cmpuint(((WeftDevice *)node->devices->pdata[1])->rail, ==, 1);
}

static void
test_passthrough_takes_all(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    g_autoptr(GPtrArray) nodes = must_place(fleet, "{\"name\":\"a\",\"count\":1,\"path\":\"passthrough\"}");
    g_assert_cmpint(((WeftDevice *)((WeftNode *)nodes->pdata[0])->devices->pdata[0])->vf, ==, -1);
    take_all(fleet, nodes);
    g_autoptr(GError) error = NULL;
    g_assert_null(place(fleet, "{\"name\":\"b\",\"count\":1,\"path\":\"passthrough\"}", &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    g_clear_error(&error);
    g_assert_null(place(fleet, "{\"name\":\"b\",\"count\":1,\"path\":\"sriov\"}", &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    weft_fleet_give(fleet, nodes->pdata[0]);
    g_autoptr(GPtrArray) again = must_place(fleet, "{\"name\":\"b\",\"count\":3,\"path\":\"sriov\"}");
    g_assert_cmpuint(again->len, ==, 3);
}

/* What is described and not there is not placed on, taken or not, and the refusal says so. */
static void
test_absent_devices(void)
{
    static const char *const specs[] = { "{\"name\":\"a\",\"count\":1,\"path\":\"passthrough\"}",
                                         "{\"name\":\"a\",\"count\":1,\"path\":\"sriov\"}",
                                         "{\"name\":\"a\",\"count\":1,\"path\":\"bridge\",\"gpus\":1}" };
    static const char *const scarce[] = { "whole HCAs", "virtual functions", "GPUs" };
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    g_autoptr(WeftHost) bare = weft_host_new();
    g_autoptr(WeftHost) few = host_from("{\"name\":\"n0\",\"fabric\":\"ib0\",\"leaf\":\"l\",\"numa\":[{\"cores\":1}],"
                                        "\"hcas\":[{\"name\":\"mlx5_0\",\"port_guid\":\"0x1\",\"vfs\":1}]}");
    weft_fleet_set_devices(fleet, "n0", bare);
    weft_fleet_empty(fleet, "n0");
    for (guint i = 0; i < G_N_ELEMENTS(specs); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(place(fleet, specs[i], &error));
        g_autofree char *words =
            g_strdup_printf("scarcest: %s, of which some are described that the hosts do not have", scarce[i]);
        g_assert_nonnull(strstr(error->message, words));
    }
    weft_fleet_set_devices(fleet, "n0", few);
    g_autoptr(GPtrArray) nodes = must_place(fleet, specs[1]);
    weft_fleet_take(fleet, nodes->pdata[0]);
    g_assert_null(place(fleet, specs[1], NULL)); /* three are described, one is there */
    weft_fleet_give(fleet, nodes->pdata[0]);
    g_autoptr(GPtrArray) whole = must_place(fleet, specs[0]);
    g_assert_cmpstr(((const WeftDevice *)((const WeftNode *)whole->pdata[0])->devices->pdata[0])->hca, ==, "mlx5_0");
}

/* A manager that knows no virtual ports is not to blame where no function would be one. */
static void
test_absent_devices_of_mlx4(void)
{
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    g_autoptr(WeftHost) bare = weft_host_new();
    g_autoptr(GError) error = NULL;
    weft_fleet_put_host(
        fleet, host_from("{\"name\":\"n0\",\"fabric\":\"ib0\",\"leaf\":\"l\",\"numa\":[{\"cores\":2,\"pages\":{\"2M\":512}}],"
                         "\"hcas\":[{\"name\":\"mlx4_0\",\"driver\":\"mlx4\",\"port_guid\":\"0x1\",\"vfs\":1}]}"));
    weft_fleet_set_open(fleet, "n0", TRUE);
    weft_fleet_set_fabric(fleet, "ib0",
                          &(WeftFleetFabric){ .no_virtual = g_strdup("the manager is too old; take --path bridge") });
    weft_fleet_set_devices(fleet, "n0", bare);
    g_assert_null(place(fleet, "{\"name\":\"a\",\"count\":1,\"path\":\"sriov\"}", &error));
    g_assert_nonnull(strstr(error->message, "described that the hosts do not have or cannot give"));
}

/* As a drain does: the description is put again, and what is taken stays taken. */
static void
test_description_put_again(void)
{
    static const char host[] =
        "{\"name\":\"n0\",\"fabric\":\"ib0\",\"leaf\":\"leaf0\",\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048}}],"
        "\"hcas\":[{\"name\":\"mlx5_0\",\"port_guid\":\"0x0000000000000001\",\"vfs\":0}]}";
    static const char spec[] = "{\"name\":\"a\",\"count\":1,\"cores\":1,\"memory\":\"256M\",\"path\":\"passthrough\"}";
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    weft_fleet_put_host(fleet, host_from(host));
    weft_fleet_set_open(fleet, "n0", TRUE);
    g_autoptr(GPtrArray) nodes = must_place(fleet, spec);
    take_all(fleet, nodes);
    weft_fleet_put_host(fleet, host_from(host));
    g_assert_null(place(fleet, spec, NULL));
    weft_fleet_give(fleet, nodes->pdata[0]);
    g_autoptr(GPtrArray) again = must_place(fleet, spec);
    g_assert_cmpuint(again->len, ==, 1);
}

/* --- across hosts --- */

static guint
leaves_of(WeftFleet *fleet, const GPtrArray *nodes)
{
    g_autoptr(GHashTable) leaves = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < nodes->len; i++)
        g_hash_table_add(leaves, (gpointer)weft_fleet_leaf(fleet, ((WeftNode *)nodes->pdata[i])->host));
    return g_hash_table_size(leaves);
}

static void
test_one_leaf(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(12, 4);
    g_autoptr(GPtrArray) some = must_place(fleet, "{\"name\":\"a\",\"count\":4,\"cores\":4,\"memory\":\"1G\"}");
    g_assert_cmpuint(leaves_of(fleet, some), ==, 1);
    take_all(fleet, some);
    g_autoptr(GPtrArray) more = must_place(fleet, "{\"name\":\"b\",\"count\":8,\"cores\":4,\"memory\":\"1G\"}");
    g_assert_cmpuint(leaves_of(fleet, more), ==, 1);
    take_all(fleet, more);
    g_autoptr(GPtrArray) rest = must_place(fleet, "{\"name\":\"c\",\"count\":4,\"cores\":4,\"memory\":\"1G\"}");
    assert_where(rest->pdata[0], "n2:0,1,2,3");
}

/* A host with two rails, of which the second stands first in its description. */
static void
add_vague_host(WeftFleet *fleet, guint i)
{
    g_autofree char *text =
        g_strdup_printf("{\"name\":\"n%u\",\"fabric\":\"ib0\",\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048}}],\"hcas\":["
                        "{\"name\":\"mlx5_1\",\"rail\":1,\"port_guid\":\"0x%x\"},"
                        "{\"name\":\"mlx5_0\",\"rail\":0,\"port_guid\":\"0x%x\"}]}",
                        i, 0x200 + i, 0x100 + i);
    WeftHost *host = host_from(text);
    weft_fleet_put_host(fleet, host);
    weft_fleet_set_open(fleet, host->name, TRUE);
}

static void
hang(GHashTable *leaves, guint64 guid, const char *leaf)
{
    g_hash_table_insert(leaves, g_memdup2(&guid, sizeof guid), g_strdup(leaf));
}

/* Odd hosts and even hosts are on a leaf of their own; the second rail of all is on a third. */
static void
test_leaves_of_the_map(void)
{
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    GHashTable *leaves = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    for (guint i = 0; i < 8; i++) {
        add_vague_host(fleet, i);
        hang(leaves, 0x100 + i, i % 2 ? "odd" : "even");
        hang(leaves, 0x200 + i, "rail1");
    }
    weft_fleet_sort(fleet);
    g_assert_cmpstr(weft_fleet_leaf(fleet, "n1"), ==, "");
    weft_fleet_set_fabric(fleet, "ib0", &(WeftFleetFabric){ .leaves = leaves });
    weft_fleet_sort(fleet);
    g_assert_cmpstr(weft_fleet_leaf(fleet, "n1"), ==, "odd");
    g_assert_cmpstr(weft_fleet_leaf(fleet, "n9"), ==, "");
    g_autoptr(GPtrArray) nodes = must_place(fleet, "{\"name\":\"a\",\"count\":4,\"cores\":4,\"memory\":\"1G\"}");
    g_assert_cmpuint(leaves_of(fleet, nodes), ==, 1);
    add_host(fleet, "n1", "told", ""); /* what is described goes before it */
    g_assert_cmpstr(weft_fleet_leaf(fleet, "n1"), ==, "told");
}

/* Nobody knows which port it is: no partition could name it, so no node gets it. */
static void
test_unknown_port(void)
{
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    weft_fleet_put_host(fleet, host_from("{\"name\":\"n0\",\"fabric\":\"ib0\",\"numa\":[{\"cores\":4,\"pages\":{\"2M\":2048}}],"
                                         "\"hcas\":[{\"name\":\"mlx5_0\",\"vfs\":4}]}"));
    weft_fleet_set_open(fleet, "n0", TRUE);
    weft_fleet_sort(fleet);
    static const char *const paths[] = { "sriov", "passthrough" };
    for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *spec = g_strdup_printf("{\"name\":\"a\",\"count\":1,\"path\":\"%s\"}", paths[i]);
        g_assert_null(place(fleet, spec, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    }
    g_autoptr(GPtrArray) nodes = must_place(fleet, "{\"name\":\"a\",\"count\":1}");
    g_assert_cmpuint(((const WeftNode *)nodes->pdata[0])->devices->len, ==, 0);
}

static void
test_groups(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(4, 2);
    g_autoptr(GPtrArray) nodes =
        must_place(fleet, "{\"name\":\"a\",\"groups\":[{\"name\":\"gpu\",\"count\":2,\"cores\":2,\"gpus\":1},"
                          "{\"name\":\"cpu\",\"count\":3,\"cores\":1}]}");
    g_assert_cmpuint(nodes->len, ==, 5);
    g_assert_cmpstr(((WeftNode *)nodes->pdata[1])->group, ==, "gpu");
    g_assert_cmpstr(((WeftNode *)nodes->pdata[2])->group, ==, "cpu");
    g_assert_cmpuint(leaves_of(fleet, nodes), ==, 1);
}

static void
test_closed_and_labels(void)
{
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    add_host(fleet, "n0", "leaf0", "");
    add_host(fleet, "n1", "leaf0", ",\"labels\":{\"rack\":\"r1\"}");
    weft_fleet_sort(fleet);
    g_autoptr(GPtrArray) nodes = must_place(fleet, "{\"name\":\"a\",\"count\":1,\"labels\":{\"rack\":\"r1\"}}");
    g_assert_cmpstr(((WeftNode *)nodes->pdata[0])->host, ==, "n1");
    weft_fleet_set_open(fleet, "n1", FALSE);
    g_autoptr(GError) error = NULL;
    g_assert_null(place(fleet, "{\"name\":\"a\",\"count\":1,\"labels\":{\"rack\":\"r1\"}}", &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    g_assert_nonnull(strstr(error->message, "labels"));
}

/* --- refusals name what is scarcest --- */

static const struct {
    const char *spec;
    const char *expected;
} refusals[] = {
    { "{\"name\":\"a\",\"count\":4,\"cores\":8,\"memory\":\"1G\"}",
      "no room for 4 nodes of 8 cores, 1G, 0 GPUs, path sriov, not even if all hosts were empty; scarcest: cores" },
    { "{\"name\":\"a\",\"count\":1,\"cores\":1,\"memory\":\"1T\"}",
      "no room for 1 node of 1 core, 1T, 0 GPUs, path sriov, not even if all hosts were empty; scarcest: memory in pages of "
      "the "
      "right size" },
    { "{\"name\":\"a\",\"count\":13,\"cores\":1,\"memory\":\"64M\"}",
      "no room for 13 nodes of 1 core, 64M, 0 GPUs, path sriov, not even if all hosts were empty; scarcest: virtual "
      "functions" },
    { "{\"name\":\"a\",\"count\":5,\"cores\":1,\"memory\":\"64M\",\"gpus\":1}",
      "no room for 5 nodes of 1 core, 64M, 1 GPU, path sriov, not even if all hosts were empty; scarcest: GPUs" },
};

static void
test_refusals(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(2, 2);
    for (guint i = 0; i < G_N_ELEMENTS(refusals); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(place(fleet, refusals[i].spec, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
        g_assert_cmpstr(error->message, ==, refusals[i].expected);
    }
}

static void
test_no_hosts(void)
{
    g_autoptr(WeftFleet) fleet = weft_fleet_new();
    g_autoptr(GError) error = NULL;
    g_assert_null(place(fleet, "{\"name\":\"a\",\"count\":1}", &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
}

/* --- a description that changes under nodes --- */

static void
test_redescribe(void)
{
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    g_autoptr(GPtrArray) nodes =
        must_place(fleet, "{\"name\":\"a\",\"count\":2,\"cores\":2,\"memory\":\"1G\",\"pages\":\"2M\",\"gpus\":1}");
    take_all(fleet, nodes);
    add_host(fleet, "n0", "leaf9", "");
    weft_fleet_sort(fleet);
    g_autoptr(GError) error = NULL;
    g_assert_null(place(fleet, "{\"name\":\"b\",\"count\":1,\"gpus\":1}", &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    for (guint i = 0; i < nodes->len; i++)
        weft_fleet_give(fleet, nodes->pdata[i]);
    g_autoptr(GPtrArray) again = must_place(fleet, "{\"name\":\"b\",\"count\":2,\"cores\":4,\"gpus\":1}");
    g_assert_cmpuint(again->len, ==, 2);
}

/* --- properties over random requests --- */

/* What is held, counted apart from the fleet: "n3/core/2" and the like. */
static void
hold(GHashTable *held, const WeftNode *node, const char *kind, const char *what)
{
    g_assert_true(g_hash_table_add(held, g_strdup_printf("%s/%s/%s", node->host, kind, what)));
}

static void
hold_node(GHashTable *held, const WeftNode *node)
{
    for (guint i = 0; i < node->cores->len; i++) {
        g_autofree char *core = g_strdup_printf("%u", g_array_index(node->cores, guint16, i));
        hold(held, node, "core", core);
    }
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        g_autofree char *vf = g_strdup_printf("%s/%d", device->hca, device->vf);
        hold(held, node, "vf", vf);
    }
    for (guint i = 0; i < node->gpus->len; i++)
        hold(held, node, "gpu", node->gpus->pdata[i]);
}

/* Pages are many: their numbers are summed per host, NUMA node and size, against what add_host() describes. */
static void
hold_pages(GHashTable *pages, const WeftNode *node)
{
    for (guint i = 0; i < node->memory->len; i++) {
        const WeftMemory *memory = &g_array_index(node->memory, WeftMemory, i);
        char *key = g_strdup_printf("%s/%u/%" G_GUINT64_FORMAT, node->host, memory->numa, memory->page_size);
        guint64 sum = GPOINTER_TO_SIZE(g_hash_table_lookup(pages, key)) + memory->pages;
        guint64 has = memory->page_size == 2 << 20 ? 2048 : memory->numa == 0 ? 1 : 0;
        g_assert_cmpuint(sum, <=, has);
        g_hash_table_insert(pages, key, GSIZE_TO_POINTER(sum));
    }
}

static void
check_shape(const GPtrArray *nodes, guint count, guint cores, guint memory_mib)
{
    g_assert_cmpuint(nodes->len, ==, count);
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        g_assert_cmpuint(node->cores->len, ==, cores);
        g_assert_cmpuint(weft_node_memory(node), ==, (guint64)memory_mib << 20);
    }
}

/* --- what the fabric allows --- */

static void
tell(WeftFleet *fleet, const WeftFleetFabric *told)
{
    weft_fleet_set_fabric(fleet, "ib0", told);
}

/* Places and takes nodes of a cluster as the reconciler does: its id becomes theirs. */
static guint
settle(WeftFleet *fleet, const char *id, const char *spec, GError **error)
{
    g_autoptr(GPtrArray) nodes = place(fleet, spec, error);
    for (guint i = 0; nodes && i < nodes->len; i++) {
        ((WeftNode *)nodes->pdata[i])->cluster = g_strdup(id);
        weft_fleet_take(fleet, nodes->pdata[i]);
    }
    return nodes ? nodes->len : 0;
}

#define ONE "{\"name\":\"a\",\"count\":1,\"path\":\"sriov\"}"

/* A port's table has so many places, however many virtual functions there are; nodes of one cluster share one. */
static void
test_pkeys_of_a_port(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    tell(fleet, &(WeftFleetFabric){ .pkeys = 1 });
    g_assert_cmpuint(settle(fleet, "1aaaaaaaaaaa", "{\"name\":\"a\",\"count\":2,\"path\":\"sriov\"}", &error), ==, 2);
    g_assert_cmpuint(settle(fleet, "1bbbbbbbbbbb", ONE, &error), ==, 0);
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    g_assert_true(g_str_has_suffix(error->message, "scarcest: places for P_Keys in the hosts' ports"));
    g_clear_error(&error);

    add_host(fleet, "n0", "leaf0", ",\"labels\":{\"again\":\"yes\"}"); /* described anew: the keys are still there */
    weft_fleet_sort(fleet);
    g_assert_cmpuint(settle(fleet, "1bbbbbbbbbbb", ONE, &error), ==, 0);
    g_clear_error(&error);

    guint64 port = 1; /* of rail 0 */
    GHashTable *ports = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    g_hash_table_insert(ports, g_memdup2(&port, sizeof port), GUINT_TO_POINTER(2));
    tell(fleet, &(WeftFleetFabric){ .pkeys = 1, .ports = ports });
    g_assert_cmpuint(settle(fleet, "1bbbbbbbbbbb", ONE, &error), ==, 1);
    g_assert_no_error(error);
}

/* The last node of a cluster takes its P_Key along; so does the host when it loses all that is there. */
static void
test_pkeys_are_given_back(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    tell(fleet, &(WeftFleetFabric){ .pkeys = 1 });
    g_autoptr(GPtrArray) nodes = must_place(fleet, "{\"name\":\"a\",\"count\":2,\"path\":\"sriov\"}");
    for (guint i = 0; i < nodes->len; i++) {
        ((WeftNode *)nodes->pdata[i])->cluster = g_strdup("1aaaaaaaaaaa");
        weft_fleet_take(fleet, nodes->pdata[i]);
    }
    weft_fleet_give(fleet, nodes->pdata[0]);
    g_assert_cmpuint(settle(fleet, "1bbbbbbbbbbb", ONE, &error), ==, 0);
    g_clear_error(&error);
    weft_fleet_give(fleet, nodes->pdata[1]);
    g_assert_cmpuint(settle(fleet, "1bbbbbbbbbbb", ONE, &error), ==, 1);
    g_assert_no_error(error);
    weft_fleet_empty(fleet, "n0");
    g_assert_cmpuint(settle(fleet, "1ccccccccccc", ONE, &error), ==, 1);
    g_assert_no_error(error);
    g_assert_cmpuint(settle(fleet, "1ddddddddddd", ONE, &error), ==, 0);
}

static void
test_no_virtual_ports(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFleet) fleet = fleet_of(2, 1);
    tell(fleet, &(WeftFleetFabric){ .no_virtual = g_strdup("the manager is too old; take --path bridge") });
    g_assert_cmpuint(settle(fleet, "1aaaaaaaaaaa", ONE, &error), ==, 0);
    g_assert_cmpstr(error->message, ==,
                    "fabric ib0 has no virtual functions to give: the manager is too old; take --path bridge");
    g_autoptr(GPtrArray) by_itself = must_place(fleet, "{\"name\":\"a\",\"count\":1}");
    g_assert_cmpint(((WeftNode *)by_itself->pdata[0])->path, ==, WEFT_PATH_BRIDGE);
    g_autoptr(GPtrArray) whole = must_place(fleet, "{\"name\":\"a\",\"count\":1,\"path\":\"passthrough\"}");
    g_assert_cmpuint(((WeftNode *)whole->pdata[0])->devices->len, ==, 1);

    /* A host with mlx4 has functions that share its port. */
    add_host(fleet, "n9", "leaf9",
             ",\"hcas\":[{\"name\":\"mlx4_0\",\"driver\":\"mlx4\",\"port_guid\":\"0x0000000000000009\",\"vfs\":3}]");
    weft_fleet_sort(fleet);
    g_autoptr(GPtrArray) shared = must_place(fleet, ONE);
    g_assert_cmpstr(((WeftNode *)shared->pdata[0])->host, ==, "n9");
}

static void
test_no_devices(void)
{
    static const char *const paths[] = { "sriov", "passthrough" };
    g_autoptr(WeftFleet) fleet = fleet_of(2, 1);
    tell(fleet, &(WeftFleetFabric){ .no_devices = g_strdup("nobody manages it; take --path bridge") });
    for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *spec = g_strdup_printf("{\"name\":\"a\",\"count\":1,\"path\":\"%s\"}", paths[i]);
        g_assert_null(place(fleet, spec, &error));
        g_assert_cmpstr(error->message, ==, "fabric ib0 has no devices to give: nobody manages it; take --path bridge");
    }
    g_autoptr(GPtrArray) by_itself = must_place(fleet, "{\"name\":\"a\",\"count\":1}");
    g_assert_cmpint(((WeftNode *)by_itself->pdata[0])->path, ==, WEFT_PATH_BRIDGE);
    g_assert_cmpuint(((WeftNode *)by_itself->pdata[0])->devices->len, ==, 0);

    /* Those of mlx4 share their host's port, which is nobody's either. */
    add_host(fleet, "n9", "leaf9",
             ",\"hcas\":[{\"name\":\"mlx4_0\",\"driver\":\"mlx4\",\"port_guid\":\"0x0000000000000009\",\"vfs\":3}]");
    weft_fleet_sort(fleet);
    g_autoptr(GError) error = NULL;
    g_assert_null(place(fleet, ONE, &error));
}

static void
test_fabric_is_closed(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFleet) fleet = fleet_of(1, 1);
    tell(fleet, &(WeftFleetFabric){ .closed = g_strdup("nobody rules it") });
    g_assert_cmpuint(settle(fleet, "1aaaaaaaaaaa", ONE, &error), ==, 0);
    g_assert_cmpstr(error->message, ==, "fabric ib0 takes no nodes now: nobody rules it");
    g_clear_error(&error);
    tell(fleet, &(WeftFleetFabric){ 0 });
    g_assert_cmpuint(settle(fleet, "1aaaaaaaaaaa", ONE, &error), ==, 1);
}

static void
check_same(const GPtrArray *a, const GPtrArray *b)
{
    g_assert_cmpuint(a->len, ==, b->len);
    for (guint i = 0; i < a->len; i++) {
        g_autofree char *x = where(a->pdata[i]), *y = where(b->pdata[i]);
        g_assert_cmpstr(x, ==, y);
    }
}

static void
test_random(void)
{
    for (guint round = 0; round < 60; round++) {
        guint hosts = (guint)g_test_rand_int_range(1, 9);
        g_autoptr(WeftFleet) fleet = fleet_of(hosts, 3);
        g_autoptr(GHashTable) held = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
        g_autoptr(GHashTable) pages = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
        for (guint i = 0; i < 25; i++) {
            guint count = (guint)g_test_rand_int_range(1, 7), cores = (guint)g_test_rand_int_range(1, 9);
            guint memory = 64 * (guint)g_test_rand_int_range(1, 40);
            g_autofree char *spec = g_strdup_printf("{\"name\":\"a\",\"count\":%u,\"cores\":%u,\"memory\":\"%uM\",\"gpus\":%d}",
                                                    count, cores, memory, g_test_rand_int_range(0, 2));
            g_autoptr(GError) error = NULL;
            g_autoptr(GPtrArray) nodes = place(fleet, spec, &error);
            if (!nodes) {
                g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
                continue;
            }
            g_autoptr(GPtrArray) again = must_place(fleet, spec);
            check_same(nodes, again);
            check_shape(nodes, count, cores, memory);
            for (guint n = 0; n < nodes->len; n++) {
                hold_node(held, nodes->pdata[n]);
                hold_pages(pages, nodes->pdata[n]);
            }
            take_all(fleet, nodes);
        }
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/schedule/host/one-numa", test_one_numa);
    g_test_add_func("/schedule/host/best-fit", test_best_fit);
    g_test_add_func("/schedule/host/largest-pages", test_largest_pages);
    g_test_add_func("/schedule/host/spread-over-numa", test_spread_over_numa);
    g_test_add_func("/schedule/host/passthrough", test_passthrough_takes_all);
    g_test_add_func("/schedule/host/absent-devices", test_absent_devices);
    g_test_add_func("/schedule/host/absent-devices-of-mlx4", test_absent_devices_of_mlx4);
    g_test_add_func("/schedule/host/put-again", test_description_put_again);
    g_test_add_func("/schedule/fleet/one-leaf", test_one_leaf);
    g_test_add_func("/schedule/fleet/leaves-of-the-map", test_leaves_of_the_map);
    g_test_add_func("/schedule/fleet/unknown-port", test_unknown_port);
    g_test_add_func("/schedule/fleet/groups", test_groups);
    g_test_add_func("/schedule/fleet/closed-and-labels", test_closed_and_labels);
    g_test_add_func("/schedule/fleet/redescribe", test_redescribe);
    g_test_add_func("/schedule/refusals", test_refusals);
    g_test_add_func("/schedule/no-hosts", test_no_hosts);
    g_test_add_func("/schedule/fabric/pkeys-of-a-port", test_pkeys_of_a_port);
    g_test_add_func("/schedule/fabric/pkeys-are-given-back", test_pkeys_are_given_back);
    g_test_add_func("/schedule/fabric/no-virtual-ports", test_no_virtual_ports);
    g_test_add_func("/schedule/fabric/no-devices", test_no_devices);
    g_test_add_func("/schedule/fabric/closed", test_fabric_is_closed);
    g_test_add_func("/schedule/random", test_random);
    return g_test_run();
}
