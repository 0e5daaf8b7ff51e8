/* What somebody gives as the output of ibnetdiscover. A map that is accepted is the same again after JSON, its switches have
 * names that are unlike each other and fit into Slurm's files, and everything can be asked of it. */
#include "fuzz.h"

#include "match.h"

static void
check_names(const WeftFabricMap *map)
{
    g_autoptr(GPtrArray) names = weft_fabric_map_switch_names(map);
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    fuzz_promise(names->len == weft_fabric_map_switches(map));
    for (guint i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        fuzz_promise(*name && !strpbrk(name, " \t\n,=[]#\"'\\$`;&|<>()*?"));
        fuzz_promise(g_hash_table_add(seen, names->pdata[i]));
    }
}

static void
check_ports(const WeftFabricMap *map)
{
    for (guint i = 0; i < map->nodes->len; i++) {
        const WeftMapNode *node = map->nodes->pdata[i];
        for (guint p = 0; p < node->ports->len; p++) {
            const WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, p);
            fuzz_promise(weft_map_node_port(node, port->number) == port);
            if (port->peer < 0)
                continue;
            const WeftMapPort *far = weft_map_node_port(map->nodes->pdata[port->peer], port->peer_port);
            fuzz_promise(far && far->peer == (int)i && far->peer_port == port->number);
        }
    }
}

static void
check_answers(const WeftFabricMap *map)
{
    g_autoptr(GPtrArray) hosts = g_ptr_array_new();
    g_autoptr(WeftMatches) matches = weft_fabric_match(map, hosts);
    g_autofree char *slurm = weft_topology_slurm(map, matches);
    fuzz_promise(matches->ports->len == 0 && slurm);
    for (guint i = 0; i < matches->no_host->len; i++)
        fuzz_promise(g_utf8_validate(matches->no_host->pdata[i], -1, NULL));
    g_autoptr(GArray) distances = weft_fabric_map_distances(map);
    guint n = weft_fabric_map_switches(map);
    fuzz_promise(distances->len == n * n);
    for (guint i = 0; i < n; i++)
        fuzz_promise(g_array_index(distances, guint8, i * n + i) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    g_autofree char *text = g_strndup((const char *)data, size);
    g_autoptr(WeftFabricMap) map = weft_fabric_map_from_ibnetdiscover(text, &error);
    if (!map) {
        fuzz_check_refusal(error);
        return 0;
    }
    json_auto_t *written = weft_fabric_map_to_json(map);
    g_autoptr(WeftFabricMap) read = weft_fabric_map_from_json(written, NULL);
    fuzz_promise(read);
    json_auto_t *again = weft_fabric_map_to_json(read);
    fuzz_promise(json_equal(written, again));
    check_names(map);
    check_ports(map);
    check_answers(map);
    return 0;
}
