/* fabric-probe: a fabric as its ports and its subnet administrator show it, for tests. Prints JSON.
 *
 *     tables [GUID…]                       P_Keys of these hosts' ports, all unless told, and of the switch at their other end
 *     put own|enforced GUID INDEX P_KEY    writes one entry, as a stranger would
 *     paths P_KEY…                         for each, the pairs of hosts' ports between which there is a path with it
 *     serve SOCKET|ADDRESS:PORT            tells simulated adapters the tables of their ports (see lab/hcafs/ports.h) until
 *                                          it is killed; prints "ready" */
#include "ports.h"

#include <gio/gio.h>
#include <gio/gunixsocketaddress.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>

#define PATH_PKEY_OFFSET 50
#define PATH_MASK (1ull << 2 | 1ull << 3 | 1ull << 13) /* DGID, SGID and P_Key count */
#define SA_TIMEOUT_MS 10000
#define PATIENCE_SECONDS 5 /* with who asks and says nothing */
#define SUBNET_PREFIX 0xfe80000000000000ull

static char *
guid_text(guint64 guid)
{
    return g_strdup_printf("0x%016" G_GINT64_MODIFIER "x", guid);
}

static json_t *
table_to_json(const Ports *ports, const PortsTable *table)
{
    guint16 pkeys[PORTS_TABLE_MAX];
    if (table->capacity > PORTS_TABLE_MAX || !ports_read(ports, table, pkeys))
        return json_null();
    json_t *list = json_array();
    for (guint i = 0; i < table->capacity; i++)
        json_array_append_new(list, json_integer(pkeys[i]));
    return list;
}

static void
add_tables(json_t *all, const Ports *ports, const PortsPort *port)
{
    g_autofree char *name = guid_text(port->guid);
    g_autofree char *at = guid_text(port->switch_guid);
    json_object_set_new(all, name,
                        json_pack("{s:o, s:o, s:s, s:i}", "pkeys", table_to_json(ports, &port->own), "enforced",
                                  table_to_json(ports, &port->enforced), "switch", at, "port", (int)port->enforced.port));
}

static json_t *
tables(const Ports *ports, int n, char **guids)
{
    json_t *all = json_object();
    for (int i = 0; i < n; i++)
        add_tables(all, ports, ports_get(ports, ports_parse_guid(guids[i])));
    GHashTableIter iter;
    gpointer port = NULL;
    g_hash_table_iter_init(&iter, ports->by_guid);
    while (n == 0 && g_hash_table_iter_next(&iter, NULL, &port))
        add_tables(all, ports, port);
    return all;
}

static json_t *
put(const Ports *ports, int n, char **words)
{
    if (n != 4)
        g_error("put own|enforced GUID INDEX P_KEY");
    const PortsPort *port = ports_get(ports, ports_parse_guid(words[1]));
    const PortsTable *table = g_str_equal(words[0], "own") ? &port->own : &port->enforced;
    guint index = (guint)g_ascii_strtoull(words[2], NULL, 0);
    guint16 pkeys[PORTS_TABLE_MAX + PORTS_BLOCK] = { 0 };
    if (index >= table->capacity || !ports_read(ports, table, pkeys))
        g_error("no answer, or index %u is not below %u", index, table->capacity);
    pkeys[index] = (guint16)g_ascii_strtoull(words[3], NULL, 0);
    guint block = index / PORTS_BLOCK;
    if (!ports_write_block(ports, table, block, pkeys + block * PORTS_BLOCK))
        g_error("%s does not take the block", words[1]);
    return json_true();
}

static void
set_gid(guint8 *place, guint64 guid)
{
    guint64 words[2] = { GUINT64_TO_BE(SUBNET_PREFIX), GUINT64_TO_BE(guid) };
    memcpy(place, words, sizeof words);
}

static gboolean
has_path(const Ports *ports, ib_portid_t *sm, const guint64 ends[2], guint16 pkey)
{
    guint8 record[IB_SA_DATA_SIZE] = { 0 };
    set_gid(record + 8, ends[1]);
    set_gid(record + 24, ends[0]);
    guint16 wanted = GUINT16_TO_BE(pkey);
    memcpy(record + PATH_PKEY_OFFSET, &wanted, sizeof wanted);
    ib_rpc_v1_t rpc = {
        .mgtclass = IB_SA_CLASS | IB_MAD_RPC_VERSION1,
        .method = IB_MAD_METHOD_GET,
        .attr = { .id = IB_SA_ATTR_PATHRECORD },
        .dataoffs = IB_SA_DATA_OFFS,
        .datasz = IB_SA_DATA_SIZE,
        .mask = PATH_MASK,
        .timeout = SA_TIMEOUT_MS,
    };
    if (mad_rpc(ports->mads, (ib_rpc_t *)(void *)&rpc, sm, record, record))
        return TRUE;
    if (rpc.rstatus == 0)
        g_error("the subnet administrator does not answer: %s", g_strerror(rpc.error));
    return FALSE;
}

static int
compare_guids(gconstpointer a, gconstpointer b)
{
    guint64 x = *(const guint64 *)a, y = *(const guint64 *)b;
    return (x > y) - (x < y);
}

static GArray *
sorted_guids(const Ports *ports)
{
    GArray *guids = g_array_new(FALSE, FALSE, sizeof(guint64));
    GHashTableIter iter;
    gpointer guid = NULL;
    g_hash_table_iter_init(&iter, ports->by_guid);
    while (g_hash_table_iter_next(&iter, &guid, NULL))
        g_array_append_vals(guids, guid, 1);
    g_array_sort(guids, compare_guids);
    return guids;
}

static json_t *
pairs_with(const Ports *ports, const GArray *guids, ib_portid_t *sm, guint16 pkey)
{
    json_t *pairs = json_array();
    for (guint i = 0; i < guids->len; i++)
        for (guint j = i + 1; j < guids->len; j++) {
            const guint64 ends[] = { g_array_index(guids, guint64, i), g_array_index(guids, guint64, j) };
            if (!has_path(ports, sm, ends, pkey))
                continue;
            g_autofree char *one = guid_text(ends[0]);
            g_autofree char *other = guid_text(ends[1]);
            json_array_append_new(pairs, json_pack("[s, s]", one, other));
        }
    return pairs;
}

static json_t *
paths(const Ports *ports, int n, char **pkeys)
{
    ib_portid_t sm = { 0 };
    if (ib_resolve_smlid_via(&sm, SA_TIMEOUT_MS, ports->mads) < 0)
        g_error("no subnet manager is known here");
    sm.qp = 1;
    sm.qkey = IB_DEFAULT_QP1_QKEY;
    g_autoptr(GArray) guids = sorted_guids(ports);
    json_t *all = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(all, pkeys[i], pairs_with(ports, guids, &sm, (guint16)g_ascii_strtoull(pkeys[i], NULL, 0)));
    return all;
}

/* --- for simulated adapters --- */

static void
answer(const Ports *ports, GIOStream *client)
{
    guint16 pkeys[PORTS_TABLE_MAX];
    g_autoptr(GDataInputStream) input = g_data_input_stream_new(g_io_stream_get_input_stream(client));
    g_autofree char *line = g_data_input_stream_read_line(input, NULL, NULL, NULL);
    guint64 guid = line ? g_ascii_strtoull(line, NULL, 16) : 0;
    const PortsPort *port = g_hash_table_lookup(ports->by_guid, &guid);
    if (port && !ports_read(ports, &port->own, pkeys))
        return; /* it does not answer: so nothing is said of it */
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; port && i < port->own.capacity; i++)
        g_string_append_printf(text, "0x%04x ", pkeys[i]);
    g_output_stream_printf(g_io_stream_get_output_stream(client), NULL, NULL, NULL, "%s\n", text->str);
}

static GSocketAddress *
address_of(const char *text)
{
    if (*text == '/')
        return g_unix_socket_address_new(text);
    g_auto(GStrv) parts = g_strsplit(text, ":", 2);
    return parts[0] && parts[1] ? g_inet_socket_address_new_from_string(parts[0], (guint)g_ascii_strtoull(parts[1], NULL, 10))
                                : NULL;
}

static json_t *
serve(const Ports *ports, int n, char **words)
{
    g_autoptr(GSocketListener) listener = g_socket_listener_new();
    g_autoptr(GSocketAddress) address = address_of(n == 1 ? words[0] : "");
    g_autoptr(GError) error = NULL;
    if (!address ||
        !g_socket_listener_add_address(listener, address, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_DEFAULT, NULL, NULL, &error))
        g_error("serve SOCKET or ADDRESS:PORT%s%s", error ? ": " : "", error ? error->message : "");
    signal(SIGPIPE, SIG_IGN);
    puts("ready");
    fflush(stdout);
    for (GSocketConnection *client; (client = g_socket_listener_accept(listener, NULL, NULL, NULL)); g_object_unref(client)) {
        g_socket_set_timeout(g_socket_connection_get_socket(client), PATIENCE_SECONDS);
        answer(ports, G_IO_STREAM(client));
    }
    return json_true();
}

static const struct {
    const char *name;
    json_t *(*run)(const Ports *ports, int n, char **words);
} verbs[] = { { "tables", tables }, { "put", put }, { "paths", paths }, { "serve", serve } };

int
main(int argc, char **argv)
{
    for (gsize i = 0; argc > 1 && i < G_N_ELEMENTS(verbs); i++) {
        if (!g_str_equal(argv[1], verbs[i].name))
            continue;
        g_autoptr(Ports) ports = ports_discover();
        json_t *said = verbs[i].run(ports, argc - 2, argv + 2);
        json_dumpf(said, stdout, JSON_ENCODE_ANY | JSON_COMPACT);
        json_decref(said);
        return 0;
    }
    g_printerr("fabric-probe: tables, put, paths or serve\n");
    return 2;
}
