#include "errors.h"
#include "match.h"

#include <string.h>

/* --- goldens: NAME.net is a file of ibnetdiscover or ibsim, its hosts in comments ("# host n1 mlx5_0 0x…"); NAME.expected
 * tells what was understood, or why nothing was --- */

static WeftHost *
find_host(GPtrArray *hosts, const char *name)
{
    for (guint i = 0; i < hosts->len; i++)
        if (strcmp(((WeftHost *)hosts->pdata[i])->name, name) == 0)
            return hosts->pdata[i];
    WeftHost *host = weft_host_new();
    host->name = g_strdup(name);
    g_ptr_array_add(hosts, host);
    return host;
}

static void
add_hca(GPtrArray *hosts, const char *host, const char *name, guint64 guid)
{
    WeftHca *hca = weft_hca_new();
    hca->name = g_strdup(name);
    hca->port_guid = guid;
    g_ptr_array_add(find_host(hosts, host)->hcas, hca);
}

static GPtrArray *
hosts_of(const char *text)
{
    GPtrArray *hosts = g_ptr_array_new_with_free_func((GDestroyNotify)weft_host_free);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        if (!g_str_has_prefix(lines[i], "# host "))
            continue;
        g_auto(GStrv) words = g_strsplit(lines[i] + strlen("# host "), " ", -1);
        add_hca(hosts, words[0], words[1], words[2] ? g_ascii_strtoull(words[2], NULL, 0) : 0);
    }
    return hosts;
}

static void
tell_switches(const WeftFabricMap *map, GString *out)
{
    g_autoptr(GPtrArray) names = weft_fabric_map_switch_names(map);
    g_autoptr(GArray) distances = weft_fabric_map_distances(map);
    for (guint i = 0; i < names->len; i++) {
        g_string_append_printf(out, "%s:", (char *)names->pdata[i]);
        for (guint j = 0; j < names->len; j++)
            g_string_append_printf(out, " %u", g_array_index(distances, guint8, i * names->len + j));
        g_string_append_c(out, '\n');
    }
}

static void
tell_matches(const WeftMatches *matches, GString *out)
{
    for (guint i = 0; i < matches->ports->len; i++) {
        const WeftPortMatch *match = matches->ports->pdata[i];
        g_string_append_printf(out, "%s %s is 0x%" G_GINT64_MODIFIER "x on %s, %" G_GUINT64_FORMAT " bit/s\n", match->host,
                               match->hca, match->port_guid, match->leaf ? match->leaf : "no switch", match->rate);
    }
    for (guint i = 0; i < matches->no_port->len; i++)
        g_string_append_printf(out, "no port: %s\n", (char *)matches->no_port->pdata[i]);
    for (guint i = 0; i < matches->no_host->len; i++)
        g_string_append_printf(out, "no host: %s\n", (char *)matches->no_host->pdata[i]);
}

/* What went through JSON is the same map. */
static void
check_json(const WeftFabricMap *map)
{
    json_t *json = weft_fabric_map_to_json(map);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFabricMap) again = weft_fabric_map_from_json(json, &error);
    g_assert_no_error(error);
    g_autoptr(WeftFabricMap) copy = weft_fabric_map_copy(again);
    json_t *json_again = weft_fabric_map_to_json(copy);
    g_assert_true(json_equal(json, json_again));
    json_decref(json);
    json_decref(json_again);
}

static char *
understand(const char *text)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFabricMap) map = weft_fabric_map_from_ibnetdiscover(text, &error);
    if (!map) {
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        return g_strconcat(error->message, "\n", NULL);
    }
    check_json(map);
    g_autoptr(GPtrArray) hosts = hosts_of(text);
    g_autoptr(WeftMatches) matches = weft_fabric_match(map, hosts);
    GString *out = g_string_new(NULL);
    tell_switches(map, out);
    tell_matches(matches, out);
    g_autofree char *slurm = weft_topology_slurm(map, matches);
    g_string_append(out, slurm);
    return g_string_free(out, FALSE);
}

static char *
golden_path(const char *name)
{
    return g_test_build_filename(G_TEST_DIST, "..", "golden", "topology", name, NULL);
}

static void
check_golden(gconstpointer data)
{
    g_autofree char *net = golden_path(data), *text = NULL, *expected = NULL;
    g_assert_true(g_file_get_contents(net, &text, NULL, NULL));
    g_autofree char *got = understand(text);
    g_autofree char *stem = g_strndup(net, strlen(net) - strlen(".net"));
    g_autofree char *path = g_strconcat(stem, ".expected", NULL);
    if (g_getenv("WEFT_GOLDEN_REWRITE"))
        g_assert_true(g_file_set_contents(path, got, -1, NULL));
    g_assert_true(g_file_get_contents(path, &expected, NULL, NULL));
    g_assert_cmpstr(got, ==, expected);
}

static void
add_goldens(void)
{
    g_autofree char *path = golden_path(".");
    g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
    g_assert_nonnull(folder);
    guint n = 0;
    for (const char *name; (name = g_dir_read_name(folder));) {
        if (!g_str_has_suffix(name, ".net"))
            continue;
        g_autofree char *test = g_strconcat("/topology/golden/", name, NULL);
        g_test_add_data_func_full(test, g_strdup(name), check_golden, g_free);
        n++;
    }
    g_assert_cmpuint(n, >=, 16);
}

/* --- generated trees --- */

#define HALF 4 /* switches of the lowest levels have as many ways up as down */

static void
cable(GString *text, guint port, const char *to, guint to_port)
{
    g_string_append_printf(text, "[%u] \"%s\"[%u]\n", port, to, to_port);
}

static void
add_leaf(GString *text, guint pod, guint leaf)
{
    g_autofree char *name = g_strdup_printf("leaf-%u-%u", pod, leaf);
    g_string_append_printf(text, "Switch %d \"%s\"\n", 2 * HALF, name);
    for (guint h = 0; h < HALF; h++) {
        g_autofree char *host = g_strdup_printf("n%u mlx5_0", (pod * HALF + leaf) * HALF + h);
        cable(text, h + 1, host, 1);
    }
    for (guint a = 0; a < HALF; a++) {
        g_autofree char *up = g_strdup_printf("up-%u-%u", pod, a);
        cable(text, HALF + a + 1, up, leaf + 1);
    }
    for (guint h = 0; h < HALF; h++)
        g_string_append_printf(text, "\nHca 1 \"n%u mlx5_0\"\n[1] \"%s\"[%u]\n", (pod * HALF + leaf) * HALF + h, name, h + 1);
    g_string_append_c(text, '\n');
}

/* The switches above a pod's leaves, each with HALF cores above it where there are any. */
static void
add_up(GString *text, guint pod, guint up, gboolean has_cores)
{
    g_autofree char *name = g_strdup_printf("up-%u-%u", pod, up);
    g_string_append_printf(text, "Switch %d \"%s\"\n", 2 * HALF, name);
    for (guint l = 0; l < HALF; l++) {
        g_autofree char *leaf = g_strdup_printf("leaf-%u-%u", pod, l);
        cable(text, l + 1, leaf, HALF + up + 1);
    }
    for (guint c = 0; has_cores && c < HALF; c++) {
        g_autofree char *core = g_strdup_printf("core-%u", up * HALF + c);
        cable(text, HALF + c + 1, core, pod + 1);
    }
    g_string_append_c(text, '\n');
}

static char *
fat_tree(guint pods)
{
    GString *text = g_string_new(NULL);
    for (guint pod = 0; pod < pods; pod++)
        for (guint i = 0; i < HALF; i++) {
            add_leaf(text, pod, i);
            add_up(text, pod, i, pods > 1);
        }
    for (guint c = 0; pods > 1 && c < HALF * HALF; c++) {
        g_string_append_printf(text, "Switch %u \"core-%u\"\n", pods, c);
        for (guint pod = 0; pod < pods; pod++)
            g_string_append_printf(text, "[%u] \"up-%u-%u\"[%u]\n", pod + 1, pod, c / HALF, HALF + c % HALF + 1);
        g_string_append_c(text, '\n');
    }
    return g_string_free(text, FALSE);
}

typedef struct Check {
    guint lines, hosts, children;
    GHashTable *seen;
} Check;

static void
count_line(Check *check, const char *line)
{
    const char *nodes = strstr(line, " Nodes="), *switches = strstr(line, " Switches=");
    g_assert_true(!nodes != !switches);
    g_auto(GStrv) names = g_strsplit(strchr(nodes ? nodes : switches, '=') + 1, ",", -1);
    for (guint i = 0; names[i]; i++) {
        g_assert_true(g_hash_table_add(check->seen, g_strdup(names[i]))); /* each has one place */
        check->hosts += nodes != NULL;
        check->children += switches != NULL;
    }
    check->lines++;
}

static void
check_tree(guint pods, guint expected_lines)
{
    g_autofree char *text = fat_tree(pods);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFabricMap) map = weft_fabric_map_from_ibnetdiscover(text, &error);
    g_assert_no_error(error);
    g_autoptr(GPtrArray) hosts = g_ptr_array_new_with_free_func((GDestroyNotify)weft_host_free);
    for (guint i = 0; i < pods * HALF * HALF; i++) {
        g_autofree char *name = g_strdup_printf("n%u", i);
        add_hca(hosts, name, "mlx5_0", 0);
    }
    g_autoptr(WeftMatches) matches = weft_fabric_match(map, hosts);
    g_assert_cmpuint(matches->ports->len, ==, hosts->len);
    g_assert_cmpuint(matches->no_port->len + matches->no_host->len, ==, 0);

    g_autofree char *slurm = weft_topology_slurm(map, matches);
    g_auto(GStrv) lines = g_strsplit(slurm, "\n", -1);
    Check check = { .seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL) };
    for (guint i = 0; lines[i]; i++)
        if (g_str_has_prefix(lines[i], "SwitchName="))
            count_line(&check, lines[i]);
    g_assert_cmpuint(check.lines, ==, expected_lines);
    g_assert_cmpuint(check.hosts, ==, hosts->len);
    g_assert_cmpuint(check.children, ==, check.lines - 1); /* all but one hang below another: one root */
    g_hash_table_unref(check.seen);
}

static void
makes_one_tree_of_two_levels(void)
{
    check_tree(1, HALF + 1);
}

static void
makes_one_tree_of_three_levels(void)
{
    check_tree(6, 6 * (HALF + 1) + 1);
}

static void
measures_distances(void)
{
    g_autofree char *text = fat_tree(6);
    g_autoptr(WeftFabricMap) map = weft_fabric_map_from_ibnetdiscover(text, NULL);
    g_autoptr(WeftFabricMap) copy = weft_fabric_map_copy(map);
    g_autoptr(GPtrArray) names = weft_fabric_map_switch_names(copy);
    g_autoptr(GArray) table = weft_fabric_map_distances(copy);
    guint n = weft_fabric_map_switches(map);
    g_assert_cmpuint(n, ==, 6 * 2 * HALF + HALF * HALF);
    for (guint i = 0; i < n; i++)
        for (guint j = 0; j < n; j++) {
            const char *a = names->pdata[i], *b = names->pdata[j];
            if (!g_str_has_prefix(a, "leaf-") || !g_str_has_prefix(b, "leaf-"))
                continue;
            guint expected = i == j ? 0 : strncmp(a, b, strlen("leaf-0-")) == 0 ? 2 : 4;
            g_assert_cmpuint(g_array_index(table, guint8, i * n + j), ==, expected);
        }
}

/* --- maps that are put together by hand --- */

static void
plug(WeftMapNode *node, guint number, guint64 guid, int peer, guint peer_port)
{
    WeftMapPort port = { .number = number, .guid = guid, .peer = peer, .peer_port = peer_port, .active = TRUE };
    g_array_append_val(node->ports, port);
}

static void
sorts_and_follows_cables(void)
{
    g_autoptr(WeftFabricMap) map = weft_fabric_map_new();
    plug(weft_fabric_map_add(map, WEFT_MAP_ADAPTER, 9, "n1"), 1, 10, 2, 2);
    WeftMapNode *router = weft_fabric_map_add(map, WEFT_MAP_ROUTER, 1, NULL);
    plug(router, 1, 2, -1, 0);
    WeftMapNode *leaf = weft_fabric_map_add(map, WEFT_MAP_SWITCH, 5, "leaf");
    plug(leaf, 2, 0, 0, 1);
    plug(leaf, 0, 5, -1, 0);
    g_autoptr(GError) error = NULL;
    g_assert_true(weft_fabric_map_seal(map, &error));

    g_assert_true(map->nodes->pdata[0] == leaf);
    g_assert_true(map->nodes->pdata[2] == router);
    g_assert_cmpint(weft_map_node_port(leaf, 2)->peer, ==, 1);
    g_assert_null(weft_map_node_port(leaf, 1));
    WeftMapPlace place = weft_fabric_map_find_port(map, 10);
    g_assert_cmpint(place.node, ==, 1);
    g_assert_cmpuint(place.port, ==, 1);
    g_assert_cmpint(weft_fabric_map_leaf(map, 10), ==, 0);
    g_assert_cmpint(weft_fabric_map_leaf(map, 5), ==, 0);
    g_assert_cmpint(weft_fabric_map_leaf(map, 2), ==, -1);
    g_assert_cmpint(weft_fabric_map_leaf(map, 77), ==, -1);
    g_assert_cmpint(weft_fabric_map_find_port(map, 0).node, ==, -1);
    g_autofree char *name = weft_fabric_map_switch_name(map, 0);
    g_assert_cmpstr(name, ==, "leaf");
    g_assert_null(weft_fabric_map_switch_name(map, 1));
}

static void
refuses_cables_with_one_end(void)
{
    g_autoptr(WeftFabricMap) map = weft_fabric_map_new();
    plug(weft_fabric_map_add(map, WEFT_MAP_ADAPTER, 9, "n1 \"x\""), 1, 10, 1, 2);
    weft_fabric_map_add(map, WEFT_MAP_SWITCH, 5, "leaf");
    g_autoptr(GError) error = NULL;
    g_assert_false(weft_fabric_map_seal(map, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "adapter 0x0000000000000009"));
    g_assert_nonnull(strstr(error->message, "port 1"));
}

/* What is sealed is written as JSON, and must be read again. */
static void
refuses_numbers_that_json_would_refuse(void)
{
    const WeftMapPort ports[] = { { .number = 1, .lid = WEFT_MAP_LID_MAX + 1, .peer = -1 },
                                  { .number = 1, .rate = WEFT_MAP_RATE_MAX + 1, .peer = -1 } };
    for (guint i = 0; i < G_N_ELEMENTS(ports); i++) {
        g_autoptr(WeftFabricMap) map = weft_fabric_map_new();
        g_array_append_val(weft_fabric_map_add(map, WEFT_MAP_ADAPTER, 9, "n1")->ports, ports[i]);
        g_autoptr(GError) error = NULL;
        g_assert_false(weft_fabric_map_seal(map, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        g_assert_nonnull(strstr(error->message, "port 1"));
    }
}

/* Their distances are a table of all by all. */
static void
refuses_more_switches_than_it_can_measure(void)
{
    g_autoptr(WeftFabricMap) map = weft_fabric_map_new();
    for (guint64 guid = 1; guid <= WEFT_MAP_SWITCHES_MAX; guid++)
        weft_fabric_map_add(map, WEFT_MAP_SWITCH, guid, "leaf");
    weft_fabric_map_add(map, WEFT_MAP_ADAPTER, WEFT_MAP_SWITCHES_MAX + 1, "n1");
    g_autoptr(GError) error = NULL;
    g_assert_true(weft_fabric_map_seal(map, &error));
    g_assert_no_error(error);
    weft_fabric_map_add(map, WEFT_MAP_SWITCH, WEFT_MAP_SWITCHES_MAX + 2, "leaf");
    g_assert_false(weft_fabric_map_seal(map, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "4097 switches"));
}

typedef struct BadJson {
    const char *json, *message;
} BadJson;

#define NODE(guid, ports) "{\"kind\":\"switch\",\"guid\":\"" guid "\",\"ports\":[" ports "]}"

static const BadJson bad_json[] = {
    { "[]", "map: must be an object" },
    { "{\"nodes\":[{\"kind\":\"hub\",\"guid\":\"0x1\"}]}", "map.nodes[0].kind" },
    { "{\"nodes\":[" NODE("0x1", "{\"number\":256}") "]}", "map.nodes[0].ports[0].number" },
    { "{\"nodes\":[" NODE("0x1", "{\"number\":1},{\"number\":1}") "]}", "port 1 is there twice" },
    { "{\"nodes\":[" NODE("0x1", "{\"number\":1,\"peer\":\"0x2\"}") "]}", "is no node of the map" },
    { "{\"nodes\":[" NODE("0x1", "{\"number\":1,\"peer\":\"0x1\",\"peer_port\":2}") "]}", "the other end" },
    { "{\"nodes\":[" NODE("0x1", "") "," NODE("0x1", "") "]}", "is there twice" },
    { "{\"nodes\":[],\"more\":1}", "more: no such field" },
};

static void
refuses_bad_json(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(bad_json); i++) {
        json_t *json = json_loads(bad_json[i].json, 0, NULL);
        g_assert_nonnull(json);
        g_autoptr(GError) error = NULL;
        g_assert_null(weft_fabric_map_from_json(json, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        if (!strstr(error->message, bad_json[i].message))
            g_error("\"%s\" is not in \"%s\"", bad_json[i].message, error->message);
        json_decref(json);
    }
}

static void
keeps_descriptions_that_are_no_text(void)
{
    g_autoptr(WeftFabricMap) map = weft_fabric_map_new();
    weft_fabric_map_add(map, WEFT_MAP_SWITCH, 5, "\xff\xfe leaf \x01");
    json_t *json = weft_fabric_map_to_json(map);
    g_assert_nonnull(json);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFabricMap) again = weft_fabric_map_from_json(json, &error);
    g_assert_no_error(error);
    g_autofree char *name = weft_fabric_map_switch_name(again, 0);
    g_assert_cmpstr(name, ==, "switch-0000000000000005");
    json_decref(json);
}

/* By the bits of PortInfo: the best that is set counts, and the extended speed before the plain one. */
static void
knows_rates(void)
{
    g_assert_cmpuint(weft_map_rate(2, 4, 2), ==, G_GUINT64_CONSTANT(100000000000)); /* 4x EDR */
    g_assert_cmpuint(weft_map_rate(1, 4, 2), ==, G_GUINT64_CONSTANT(56000000000));  /* 4x FDR */
    g_assert_cmpuint(weft_map_rate(0, 4, 2), ==, G_GUINT64_CONSTANT(40000000000));  /* 4x QDR */
    g_assert_cmpuint(weft_map_rate(0, 1, 1), ==, G_GUINT64_CONSTANT(2500000000));
    g_assert_cmpuint(weft_map_rate(8, 0, 16), ==, G_GUINT64_CONSTANT(200000000000));
    g_assert_cmpuint(weft_map_rate(0, 0, 2), ==, 0);
    g_assert_cmpuint(weft_map_rate(2, 4, 0), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_goldens();
    g_test_add_func("/topology/tree/two-levels", makes_one_tree_of_two_levels);
    g_test_add_func("/topology/tree/three-levels", makes_one_tree_of_three_levels);
    g_test_add_func("/topology/tree/distances", measures_distances);
    g_test_add_func("/topology/map/rates", knows_rates);
    g_test_add_func("/topology/map/sorted", sorts_and_follows_cables);
    g_test_add_func("/topology/map/one-end", refuses_cables_with_one_end);
    g_test_add_func("/topology/map/numbers", refuses_numbers_that_json_would_refuse);
    g_test_add_func("/topology/map/too-many-switches", refuses_more_switches_than_it_can_measure);
    g_test_add_func("/topology/json/bad", refuses_bad_json);
    g_test_add_func("/topology/json/no-text", keeps_descriptions_that_are_no_text);
    return g_test_run();
}
